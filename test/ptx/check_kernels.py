#!/usr/bin/env python3
"""Runs the kernels in Inputs, whose PTX Triton has made (tools/triton-kernels.py --record), in the emulator, and holds
their results to plain loops. usage: check_kernels.py PROGRAM INPUTS FOLDER"""
import array
import math
import os
import random
import re
import struct
import subprocess
import sys

PROGRAM, INPUTS, FOLDER = sys.argv[1:4]
READER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "read_ptx.py")
RANDOM = random.Random(17)
failures = 0


def f32(x):
    return struct.unpack("f", struct.pack("f", x))[0]


def normal(n):
    return [f32(RANDOM.gauss(0, 1)) for _ in range(n)]


def bf16_bits(x):
    bits = struct.unpack("I", struct.pack("f", x))[0]
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16


def bf16_normal(n):
    """the bits of random numbers, and their values"""
    bits = [bf16_bits(x) for x in normal(n)]
    return array.array("H", bits), [struct.unpack("f", struct.pack("I", b << 16))[0] for b in bits]


def run(name, arguments):
    """The arrays that the kernel writes, whose sizes in f32 stand as ('out', n) among the arguments."""
    path, ir = os.path.join(INPUTS, name + ".ptx"), os.path.join(FOLDER, name + ".ll")
    subprocess.run([sys.executable, READER, "--shared-align=1024", path, "-o", ir], check=True)
    with open(path, encoding="utf-8") as f:
        launch = re.search(r"kernel (\S+), grid (\S+), threads (\d+), shared (\d+)", f.read())
    words, outputs = [PROGRAM, ir, *launch.groups()], []
    for i, a in enumerate(arguments):
        file = os.path.join(FOLDER, f"{name}.{i}")
        if isinstance(a, tuple):
            words.append(f"out:{file}:{4 * a[1]}")
            outputs.append(file)
        elif isinstance(a, array.array):
            with open(file, "wb") as f:
                a.tofile(f)
            words.append("in:" + file)
        else:
            words.append(("f32:" if isinstance(a, float) else "i32:") + str(a))
    subprocess.run(words + ["null", "null"], check=True, env=dict(os.environ, NNC_TEST_EQUAL_STORES="1"))
    results = []
    for file in outputs:
        with open(file, "rb") as f:
            results.append(array.array("f", f.read()))
    return results


def check(name, tolerance, result, expected):
    global failures
    scale = max(1.0, max(abs(x) for x in expected))
    errors = [abs(x - y) / scale for x, y in zip(result, expected)]
    good = len(result) == len(expected) and all(e <= tolerance for e in errors)
    failures += not good
    wrong = sum(not e <= tolerance for e in errors)
    print(f"{name}: {len(expected)} results within {tolerance:g}" if good
          else f"{name}: failed: an error of {max(errors)}, {wrong} of {len(expected)} beyond {tolerance}")


def dot(x, y):
    return sum(a * b for a, b in zip(x, y))


def softmax_of(x):
    most = max(x)
    e = [math.exp(v - most) for v in x]
    total = sum(e)
    return [v / total for v in e]


def test_softmax():
    rows, n = 4, 1000
    x = normal(rows * n)
    y, = run("softmax", [array.array("f", x), ("out", rows * n), n])
    check("softmax", 1e-6, y, [v for r in range(rows) for v in softmax_of(x[r * n:r * n + n])])


def test_layer_norm():
    rows, n = 3, 720
    x, scale, shift = normal(rows * n), normal(n), normal(n)
    y, mean, rstd = run("layer_norm", [array.array("f", x), array.array("f", scale), array.array("f", shift),
                                       ("out", rows * n), ("out", rows), ("out", rows), n, 1e-5])
    means = [sum(x[r * n:r * n + n]) / n for r in range(rows)]
    factors = [1 / math.sqrt(sum((v - m) ** 2 for v in x[r * n:r * n + n]) / n + 1e-5) for r, m in enumerate(means)]
    check("layer_norm, means", 1e-6, mean, means)
    check("layer_norm, deviations", 2e-6, rstd, factors)
    check("layer_norm", 2e-6, y, [(x[r * n + i] - means[r]) * factors[r] * scale[i] + shift[i]
                                  for r in range(rows) for i in range(n)])


def test_matmul():
    m, n, k = 80, 48, 64
    stored_a, a = bf16_normal(m * k)
    stored_b, b = bf16_normal(n * k)   # transposed
    c, = run("matmul", [stored_a, stored_b, ("out", m * n), m, n, k, k, k])
    check("matmul", 2e-6, c, [dot(a[i * k:i * k + k], b[j * k:j * k + k]) for i in range(m) for j in range(n)])


def test_attention():
    n, d, scale = 128, 64, 0.125
    (sq, q), (sk, k), (sv, v) = (bf16_normal(n * d) for _ in range(3))
    o, lse = run("attention", [sq, sk, sv, ("out", n * d), ("out", n), scale, n])
    columns = [v[i::d] for i in range(d)]
    expected, logs = [], []
    for i in range(n):
        s = [dot(q[i * d:i * d + d], k[j * d:j * d + d]) * scale for j in range(i + 1)]
        p = softmax_of(s)
        expected += [dot(p, columns[j]) for j in range(d)]
        logs.append((math.log(sum(math.exp(x - max(s)) for x in s)) + max(s)) / math.log(2))
    check("attention, logarithms", 1e-5, lse, logs)
    check("attention", 4e-3, o, expected)


for test in (test_softmax, test_layer_norm, test_matmul, test_attention):
    test()
sys.exit(failures != 0)
