"""What teacher.test's checkpoints hold of each parameter and its averages: of steps 0 to 4; `strip` writes the last without averages; `stripped`, a step on from there."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', '..', 'tools'))
import golden_format as gf

near = lambda x, y: all(abs(a - b) < 2e-6 for a, b in zip(x, y))
mixed = lambda old, share, new: [share * a + (1 - share) * b for a, b in zip(old, new)]
files = ['bare', 'on'] if sys.argv[1:] == ['stripped'] else range(5)
after = [gf.read_safetensors(f'{f}.safetensors') for f in files]
values = lambda step, name: after[step][name][2]
names = [n[:-len('.target')] for n in after[-1] if n.endswith('.target')]
assert len(names) == 6, names
if sys.argv[1:] == ['strip']:
    gf.write_safetensors('bare.safetensors', {n: t for n, t in after[4].items() if not n.endswith(('.target', '.copied', '.ema'))})
elif sys.argv[1:] == ['stripped']:
    for n in names:
        assert values(1, n + '.copied') == values(0, n) and near(values(1, n + '.target'), mixed(values(0, n), 0.75, values(1, n))), n
else:
    for n in names:
        frozen = n.endswith('head.bias')
        assert values(0, n + '.target') == values(0, n) == values(0, n + '.copied'), n
        assert (values(1, n) == values(2, n)) == frozen, n
        for step in range(1, 5):
            assert near(values(step, n + '.target'), mixed(values(step - 1, n + '.target'), 0.75, values(step, n))), (n, step)
            assert values(step, n + '.copied') == values(0 if step < 3 else 3, n), (n, step)
        assert frozen or near(values(4, n + '.ema'), mixed(values(3, n + '.ema'), 0.5, values(4, n))), n
