#!/usr/bin/env python3
"""usage: same_weights.py THEIRS EXPORTED IMPORTED NAME THEIR_NAME [transpose|part K]

EXPORTED must hold tensors of THEIRS only, bit by bit, and all but those that the mapping ignores; NAME of IMPORTED must be THEIR_NAME, element by element."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'tools'))
import golden_format as gf

theirs, exported, imported = (gf.read_safetensors(p) for p in sys.argv[1:4])
for name, tensor in exported.items():
    assert theirs[name] == tensor, name
left = sorted(set(theirs) - set(exported))
_, shape, ours = imported[sys.argv[4]]
_, _, values = theirs[sys.argv[5]]
if sys.argv[6:] == ['transpose']:
    rows, columns = shape
    values = [values[k * rows + i] for i in range(rows) for k in range(columns)]
elif sys.argv[6:7] == ['part']:
    k, n = int(sys.argv[7]), len(values)
    ours = ours[k * n:(k + 1) * n]
assert ours == values, 'the elements of ' + sys.argv[4]
print(f'{len(exported)} of {len(theirs)} tensors came back; left out: {", ".join(left[:2])}')
