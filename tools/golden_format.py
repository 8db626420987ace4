"""What the golden maker and the golden test share: deterministic tensors, digests of tensors, safetensors. Standard library only.

A golden file holds no whole tensors: per tensor its largest magnitude, its sum against a fixed pseudo-random vector, and sampled elements. Inputs and
initial parameters come from a hash of their name and index, so that both sides make the same ones and the files stay small.
"""
import array
import json
import struct

MASK = (1 << 64) - 1
SAMPLES = 24
VANISHING = 1e-12   # a gradient that is smaller than this part of the model's largest is zero but for rounding: it has no scale of its own


def fnv1a(text):
    h = 0xCBF29CE484222325
    for byte in text.encode():
        h = ((h ^ byte) * 0x100000001B3) & MASK
    return h


def splitmix64(x):
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def unit(seed, i):
    """A number in [-1, 1) with 24 significant bits, so that it is the same in f32 and f64."""
    return (splitmix64(seed ^ i) >> 40) / float(1 << 23) - 1.0


def tensor(name, count, scale=1.0, shift=0.0):
    seed = fnv1a(name)
    f32 = struct.Struct('f')
    return [f32.unpack(f32.pack(shift + scale * unit(seed, i)))[0] for i in range(count)]


def integers(name, count, below):
    seed = fnv1a(name)
    return [splitmix64(seed ^ i) % below for i in range(count)]


def count(shape):
    n = 1
    for d in shape:
        n *= d
    return n


def image(name, shape, cell):
    """Pixels of [N, C, H, W] in 0..254: each square of `cell` pixels has a brightness of its own, for after a deep network all images of mere noise look alike, and
    what little distinguishes them is rounding errors."""
    n, c, h, w = shape
    rows, columns = -(-h // cell), -(-w // cell)
    brightness, fine = integers(name + '.brightness', n * c * rows * columns, 192), integers(name, n * c * h * w, 64)
    return [brightness[(i * rows + y // cell) * columns + x // cell] + fine[(i * h + y) * w + x] for i in range(n * c) for y in range(h) for x in range(w)]


def values(name, kind, shape, below):
    """Of one input. kind: 'image', 'f' (floats, or whole numbers below `below`), or an integer dtype."""
    if kind == 'image':
        return image(name, shape, max(1, shape[-1] // 4))
    return integers(name, count(shape), below) if below else tensor(name, count(shape))


def inputs(golden, code):
    """The batch of a golden as tensors for safetensors, floats of the dtype `code`."""
    return {k: (code if v['kind'] in ('f', 'image') else v['kind'], v['shape'], values(f'{golden["hashed"]}.{k}', v['kind'], v['shape'], v['below'])) for k, v in golden['inputs'].items()}


def picks(n):
    seed = fnv1a('digest')
    return sorted({splitmix64(seed ^ (n + k)) % n for k in range(SAMPLES)})


def digest(values):
    """A few numbers that two equal tensors share and two different ones do not."""
    n = len(values)
    seed = fnv1a('digest')
    short = lambda v: float('%.13g' % v)
    return {'count': n, 'largest': short(max(abs(v) for v in values)), 'projection': short(sum(v * unit(seed, i) for i, v in enumerate(values))),
            'samples': [short(values[i]) for i in picks(n)]}


def difference(got, want):
    """Largest difference relative to the tensor's own scale, its largest magnitude."""
    if len(got) != want['count']:
        return float('inf')
    scale = max(want['largest'], 1e-30)
    mine = digest(got)
    worst = abs(mine['largest'] - want['largest']) / scale
    # the projection sums `count` terms of random sign: its scale grows with the square root
    worst = max(worst, abs(mine['projection'] - want['projection']) / (scale * max(1.0, want['count']) ** 0.5))
    for i, v in zip(picks(want['count']), want['samples']):
        d = abs(got[i] - v) / scale
        worst = max(worst, d if d == d else float('inf'))
    return worst if worst == worst else float('inf')


WHOLE = 64   # elements of the largest tensor that is told as it is


def told(values):
    """A tensor as goldens of functions have it: whole, or a digest."""
    return values if len(values) <= WHOLE else digest(values)


CODES = {'F32': 'f', 'F64': 'd', 'I32': 'i', 'I64': 'q', 'U8': 'B', 'BOOL': 'B'}


def write_bytes(path, tensors):
    """tensors: {name: (dtype, shape, bytes)}, as a safetensors file"""
    header, offset = {}, 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {'dtype': dtype, 'shape': list(shape), 'data_offsets': [offset, offset + len(data)]}
        offset += len(data)
    text = json.dumps(header).encode()
    text += b' ' * (-len(text) % 8)
    with open(path, 'wb') as f:
        f.write(struct.pack('<Q', len(text)) + text + b''.join(data for _, _, data in tensors.values()))


def read_bytes(path):
    """{name: (dtype, shape, bytes)} in file order."""
    with open(path, 'rb') as f:
        data = f.read()
    (size,) = struct.unpack('<Q', data[:8])
    header, data = json.loads(data[8:8 + size]), memoryview(data)[8 + size:]
    return {name: (e['dtype'], e['shape'], bytes(data[slice(*e['data_offsets'])])) for name, e in header.items() if name != '__metadata__'}


def write_safetensors(path, tensors):
    """tensors: {name: (dtype, shape, list)}"""
    write_bytes(path, {name: (dtype, shape, array.array(CODES[dtype], values).tobytes()) for name, (dtype, shape, values) in tensors.items()})


def numbers(dtype, data):
    if dtype == 'F16':
        return [x for x, in struct.iter_unpack('<e', data)]
    values = array.array('H' if dtype == 'BF16' else CODES[dtype])
    values.frombytes(data)
    return list(values) if dtype != 'BF16' else list(array.array('f', array.array('I', [x << 16 for x in values]).tobytes()))


def read_safetensors(path):
    """{name: (dtype, shape, list)} in file order."""
    return {name: (dtype, shape, numbers(dtype, data)) for name, (dtype, shape, data) in read_bytes(path).items()}
