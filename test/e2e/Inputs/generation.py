"""An encoder-decoder (models/t5.nn, small) writes what `generate` of Hugging Face's transformers writes: texts of goldens/generation.json,
made by tools/make_generation.py.

usage: generation.py weights OUT.safetensors HEADER.safetensors; sources OUT.safetensors GOLDEN; check GOLDEN WAY PROGRAM [OPTION]...
"""
import json
import random
import re
import struct
import subprocess
import sys


def shapes_of(path):
    with open(path, 'rb') as f:
        size, = struct.unpack('<Q', f.read(8))
        return {name: entry['shape'] for name, entry in json.loads(f.read(size)).items() if name != '__metadata__'}


def values_of(name, shape):
    """Numbers that Python draws alike everywhere; large, so that texts differ."""
    n = 1
    for d in shape:
        n *= d
    rng = random.Random('b ' + name)
    scale, middle = (0.5, 4 if name == 'decoder.final.weight' else 1.5) if 'norm' in name or 'final' in name else (0.3 if name == 'shared' else 1.2, 0.0)
    return [middle + scale * (2 * rng.random() - 1) for _ in range(n)]


def save(path, dtype, code, tensors):
    header, data = {}, b''
    for name, (shape, values) in tensors.items():
        new = struct.pack(f'<{len(values)}{code}', *values)
        header[name] = {'dtype': dtype, 'shape': shape, 'data_offsets': [len(data), len(data) + len(new)]}
        data += new
    text = json.dumps(header).encode()
    with open(path, 'wb') as f:
        f.write(struct.pack('<Q', len(text)) + text + data)


def check(golden, way, program, *options):
    with open(golden, encoding='ascii') as f:
        golden = json.load(f)
    wanted = golden[way]
    run = subprocess.run([program, 'predict', f'--sample={golden["most"]}', '--inputs=sources.safetensors', '--weights=w.safetensors', *wanted['options'], *options],
                         capture_output=True, text=True, check=True)
    texts = [[int(token) for token in line.split()] for line in run.stdout.splitlines()]
    ended = f'--end={golden["end"]}' in wanted['options']
    assert texts == [t[:-1] if ended and t[-1] == golden['end'] else t for t in wanted['texts']], (way, texts, wanted['texts'])
    told = [float(x) for x in re.findall(r'log probability (\S+)', run.stderr)]
    assert not wanted['sums'] or all(abs(a - b) < 1e-4 for a, b in zip(told, wanted['sums'], strict=True)), (way, told, wanted['sums'])


if __name__ == '__main__':
    if sys.argv[1] == 'weights':
        save(sys.argv[2], 'F32', 'f', {name: (shape, values_of(name, shape)) for name, shape in shapes_of(sys.argv[3]).items()})
    elif sys.argv[1] == 'sources':
        with open(sys.argv[3], encoding='ascii') as opened:
            rows = json.load(opened)['sources']
        save(sys.argv[2], 'I32', 'i', {'source': ([len(rows), len(rows[0])], [token for row in rows for token in row])})
    else:
        check(*sys.argv[2:])
