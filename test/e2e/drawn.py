"""Numbers that a program has drawn (Inputs/drawn.nn) against what their distributions say; drawn.py FILE [OTHER]: of another machine.

Bounds are five standard deviations of each figure; where they hold for one seed they always do.
"""
import math
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'tools'))
import golden_format as gf


def read(path):
    return [values for _, (*_, values) in sorted(gf.read_safetensors(path).items())]


def moments(x):
    mean = sum(x) / len(x)
    return mean, sum((v - mean) ** 2 for v in x) / len(x), sum((v - mean) ** 4 for v in x) / len(x)


def near(what, found, expected, deviation):
    if abs(found - expected) > 5 * deviation:
        sys.exit(f'{what}: {found}, expected {expected} within {5 * deviation}')


def check(name, x, mean, variance, fourth):
    n = len(x)
    m, v, _ = moments(x)
    near(f'{name}: mean', m, mean, math.sqrt(variance / n))
    near(f'{name}: variance', v, variance, math.sqrt((fourth - variance ** 2) / n))
    for lag in (1, 2, 64):   # neighbours know nothing of each other
        near(f'{name}: lag {lag}', sum((p - m) * (q - m) for p, q in zip(x, x[lag:])) / n / v, 0, 1 / math.sqrt(n))


def even(name, x, bins, place):
    counts = [0] * bins
    for v in x:
        counts[place(v)] += 1
    chi = sum((c - len(x) / bins) ** 2 / (len(x) / bins) for c in counts)
    near(f'{name}: chi squared', chi, bins - 1, math.sqrt(2 * (bins - 1)))


def both_draw(x, y):
    """Two draws of one step are two: no number is in the same place of both."""
    return sum(p == q for p, q in zip(x, y)) < 3


unit, wide, normal, moved, coin, coin_of, whole = draws = read(sys.argv[1])
check('uniform', unit, 1 / 2, 1 / 12, 1 / 80)
even('uniform', unit, 50, lambda v: int(v * 50))
check('uniform(-3, 1)', wide, -1, 16 / 12, 256 / 80)
check('normal', normal, 0, 1, 3)
even('normal', normal, 50, lambda v: int(0.5 * math.erfc(-v / math.sqrt(2)) * 50))
check('normal(2, 0.5)', moved, 0.5, 4, 48)
for name, x, p in (('bernoulli', coin, 0.3), ('bernoulli of a tensor', coin_of, 0.75)):
    check(name, x, p, p * (1 - p), p * (1 - p) * (1 - 3 * p * (1 - p)))
    assert set(x) == {0, 1}
check('randint', whole, 2.5, 143 / 12, 143 * (3 * 144 - 7) / 240)
even('randint', whole, 12, lambda v: v + 3)
assert set(whole) == set(range(-3, 9)) and both_draw(unit, [(v + 3) / 4 for v in wide])
if len(sys.argv) > 2:
    other = read(sys.argv[2])
    assert all(x == y for i, (x, y) in enumerate(zip(draws, other)) if i not in (2, 3)), 'other bits'
    assert all(abs(p - q) < 1e-5 for i in (2, 3) for p, q in zip(draws[i], other[i])), 'other normal numbers'
print(len(draws), 'draws as they should be')
