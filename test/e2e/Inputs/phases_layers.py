"""How many tensors of two files differ, and different numbers that were drawn."""
import json
import struct
import sys


def tensors(path):
    with open(path, 'rb') as f:
        head = json.loads(f.read(struct.unpack('<Q', f.read(8))[0]))
        data = f.read()
    return {name: data[slice(*t['data_offsets'])] for name, t in head.items() if name != '__metadata__'}


before, after = tensors(sys.argv[1]), tensors(sys.argv[2])
changed = sum(before[name] != after[name] for name in after)
with open(sys.argv[3]) as f:
    drawn = {v for line in f for name, v in json.loads(line).items() if name.endswith(('.drawn', '.again'))}
print(f'{changed} changed, {len(after) - changed} as they were; {len(drawn)} draws')
