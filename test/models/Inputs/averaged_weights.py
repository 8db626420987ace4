"""averaged_weights.py INIT OUT: weights of a network with the body of averaged.nn, turned, and another head, without averages.
averaged_weights.py check INIT OUT IMPORTED: the body is that of OUT, its average too, and the head that of INIT."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', '..', 'tools'))
import golden_format as gf

body = [float(i) - 11.5 for i in range(24)]                  # [6, 4]
turned = [body[k * 4 + i] for i in range(4) for k in range(6)]
if sys.argv[1] != 'check':
    gf.write_safetensors(sys.argv[2], {'trunk.w': ('F32', [6, 4], body), 'scaled.ema': ('F32', [4], [1.0, 2.0, 3.0, 4.0]),
                                       'head.weight': ('F32', [7, 4], [0.0] * 28), 'head.bias': ('F32', [3], [0.0] * 3)})
else:
    init, ours = ({k: v[-1] for k, v in gf.read_safetensors(path).items()} for path in (sys.argv[2], sys.argv[4]))
    assert list(ours['body.weight']) == turned and list(ours['body.weight.ema']) == turned
    assert list(ours['scaled.ema']) == [1, 2, 3, 4] and list(ours['scaled.ema.ema']) == [1, 2, 3, 4]
    for name in 'head.weight', 'head.bias', 'head.weight.ema', 'head.bias.ema':
        assert list(ours[name]) == list(init[name]), name
    assert list(ours['head.weight']) == list(ours['head.weight.ema']) and any(ours['head.weight'])
