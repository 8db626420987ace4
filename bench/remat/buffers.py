#!/usr/bin/env python3
"""Buffers for the allocator, as MiniMalloc's CSV on standard output: instances whose optimum is known, and traces.

usage: bench/remat/buffers.py planted N SLACK SEED     N rectangles that fill time x 1 MiB without a gap, of which a part of SLACK (0 to 1) is dropped
       bench/remat/buffers.py training N SEED          a training step: activations that die in reverse order, gradients, short-lived temporaries
       bench/remat/buffers.py server N SEED            requests that come and go, sizes of a heavy tail
"""
import random
import sys

CAPACITY = 1 << 20
UNIT = 1024


def planted(n, slack, seed):
    draw = random.Random(seed)
    parts = [(0, n // 2, 0, CAPACITY)]
    while len(parts) < n:
        pick = max(draw.sample(range(len(parts)), min(len(parts), 4)),
                   key=lambda k: (parts[k][1] - parts[k][0]) * (parts[k][3] - parts[k][2]) ** 0.5)
        lower, upper, low, high = parts[pick]
        if draw.random() < 0.55:
            if upper - lower < 2:
                continue
            at = draw.randint(lower + 1, upper - 1)
            parts[pick], more = (lower, at, low, high), (at, upper, low, high)
        else:
            units = (high - low) // UNIT
            if units < 2:
                continue
            at = low + UNIT * draw.randint(1, units - 1)
            parts[pick], more = (lower, upper, low, at), (lower, upper, at, high)
        parts.append(more)
    draw.shuffle(parts)
    return [(lower, upper, high - low) for lower, upper, low, high in parts if draw.random() >= slack]


def training(n, seed):
    draw = random.Random(seed)
    layers = n // 6
    sizes = [64 * int(2 ** draw.uniform(6, 16)) for _ in range(layers)]
    end, rows = 4 * layers, []
    for i, size in enumerate(sizes):
        backward = end - 2 * i - 2
        rows.append((2 * i, backward + 1, size))                                    # kept until its backward
        rows.append((2 * i, 2 * i + 2, size))                                       # dies in the forward pass
        rows.append((2 * i + 1, 2 * i + 2, 64 * int(2 ** draw.uniform(4, 14))))     # workspace
        rows.append((backward, backward + 3, size))                                 # gradient of the activation
        rows.append((backward, backward + 1, 64 * int(2 ** draw.uniform(4, 14))))   # workspace
        rows.append((backward, backward + 2 + draw.randrange(40), 64 * int(2 ** draw.uniform(4, 12))))   # gradient of a parameter
    return rows


def server(n, seed):
    draw = random.Random(seed)
    rows, now = [], 0
    for _ in range(n):
        now += draw.randrange(3)
        rows.append((now, now + 1 + int(draw.expovariate(1 / 200)), 256 * int(draw.paretovariate(0.9) % 4096 + 1)))
    return rows


def main():
    kind, n = sys.argv[1], int(sys.argv[2])
    rows = planted(n, float(sys.argv[3]), int(sys.argv[4])) if kind == 'planted' else {'training': training, 'server': server}[kind](n, int(sys.argv[3]))
    print('id,lower,upper,size')
    for i, row in enumerate(rows):
        print(f'{i},{row[0]},{row[1]},{row[2]}')


if __name__ == '__main__':
    main()
