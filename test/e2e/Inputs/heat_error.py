"""How far a network is from the solution of the heat equation: heat_error.py PROGRAM WEIGHTS WORKDIR

u = exp(-alpha pi^2 t) sin(pi x) for alpha = 0.1, on a grid of 32 by 32 points. Prints the error relative to the solution, both in the root of the mean square.
"""
import math
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', '..', 'tools'))
import golden_format as gf

SIDE = 32


def main():
    program, weights, work = sys.argv[1:]
    grid, out = os.path.join(work, 'grid.safetensors'), os.path.join(work, 'u.safetensors')
    points = [(i / (SIDE - 1), j / (SIDE - 1)) for i in range(SIDE) for j in range(SIDE)]
    gf.write_safetensors(grid, {'x': ('F32', [len(points), 1], [x for x, _ in points]), 't': ('F32', [len(points), 1], [t for _, t in points])})
    subprocess.run([program, 'predict', '--weights=' + weights, '--inputs=' + grid, '--outputs=' + out], check=True)
    (_, _, found), = gf.read_safetensors(out).values()
    exact = [math.exp(-0.1 * math.pi ** 2 * t) * math.sin(math.pi * x) for x, t in points]
    print(f'error {100 * math.sqrt(sum((u - v) ** 2 for u, v in zip(found, exact)) / sum(v * v for v in exact)):.3f} %')


main()
