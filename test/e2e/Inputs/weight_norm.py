"""Which lengths of weight_norm are those of their parameters."""
import math
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', '..', 'tools'))
import golden_format as gf

tensors = gf.read_safetensors(sys.argv[1])


def lengths(name, axis):
    _, shape, values = tensors[name]
    inner = math.prod(shape[axis + 1:])
    return [math.sqrt(sum(v * v for i, v in enumerate(values) if i // inner % shape[axis] == k)) for k in range(shape[axis])]


def is_near(name, wanted):
    return len(wanted) == len(tensors[name][2]) and all(abs(a - b) < 1e-6 * b for a, b in zip(tensors[name][2], wanted))


parts = {'convolved.g': lengths('kernel', 0), 'fallen.weight_norm.g': lengths('fallen.v', 1)}
assert all(is_near(name + end, wanted) for name, wanted in parts.items() for end in ('', '.ema'))
print('as they begin:', *parts, end='; ')
print('ones:', *(n for n in tensors if n.endswith('.g') and is_near(n, [1.0] * len(tensors[n][2]))))
