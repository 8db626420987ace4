"""What teacher.test's checkpoints 0 to 4 hold of each parameter and its averages."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', '..', 'tools'))
import golden_format as gf

after = [gf.read_safetensors(f'{i}.safetensors') for i in range(5)]
values = lambda step, name: after[step][name][2]
near = lambda x, y: all(abs(a - b) < 2e-6 for a, b in zip(x, y))
names = [n[:-len('.target')] for n in after[0] if n.endswith('.target')]
assert len(names) == 6, names
for n in names:
    frozen = n.endswith('head.bias')
    assert values(0, n + '.target') == values(0, n) == values(0, n + '.copied'), n
    assert (values(1, n) == values(2, n)) == frozen, n
    for step in range(1, 5):
        assert near(values(step, n + '.target'), [0.75 * a + 0.25 * p for a, p in zip(values(step - 1, n + '.target'), values(step, n))]), (n, step)
        assert values(step, n + '.copied') == values(0 if step < 3 else 3, n), (n, step)
    assert frozen or near(values(4, n + '.ema'), [0.5 * a + 0.5 * p for a, p in zip(values(3, n + '.ema'), values(4, n))]), n
