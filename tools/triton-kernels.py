#!/usr/bin/env python3
"""Kernels in Triton's language, which Triton compiles for an H100 (no GPU is needed), run by nnc's emulator and
compared with NumPy. Triton's kernels run on real GPUs: what the emulator refuses or gets wrong is a misunderstanding.
Needs the packages triton and numpy, and a build (BUILD/unit-tests/ptx_reference_run).

usage: triton-kernels.py [--build=BUILD] [--keep=FOLDER] [NAME...]    run those whose names contain a NAME, or all
       triton-kernels.py --record                                     write test/ptx/Inputs, what `make check` runs
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile

os.environ["TRITON_DISABLE_LINE_INFO"] = "1"
os.environ["TRITON_DEFAULT_FP_FUSION"] = "1"

import numpy as np
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


# ---------------------------------------------------------------------------------------------------------------------
# Kernels


@triton.jit
def softmax(x, y, n, BLOCK: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, BLOCK)
    inside = column < n
    v = tl.load(x + row * n + column, mask=inside, other=-float("inf"))
    e = tl.exp(v - tl.max(v, axis=0))
    tl.store(y + row * n + column, e / tl.sum(e, axis=0), mask=inside)


@triton.jit
def layer_norm(x, scale, shift, y, mean, rstd, n, epsilon, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, n, BLOCK):
        column = start + tl.arange(0, BLOCK)
        total += tl.load(x + row * n + column, mask=column < n, other=0.0).to(tl.float32)
    m = tl.sum(total, axis=0) / n
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, n, BLOCK):
        column = start + tl.arange(0, BLOCK)
        v = tl.load(x + row * n + column, mask=column < n, other=0.0).to(tl.float32)
        d = tl.where(column < n, v - m, 0.0)
        total += d * d
    r = 1 / tl.sqrt(tl.sum(total, axis=0) / n + epsilon)
    tl.store(mean + row, m)
    tl.store(rstd + row, r)
    for start in range(0, n, BLOCK):
        column = start + tl.arange(0, BLOCK)
        inside = column < n
        v = tl.load(x + row * n + column, mask=inside, other=0.0).to(tl.float32)
        g = tl.load(scale + column, mask=inside).to(tl.float32)
        b = tl.load(shift + column, mask=inside).to(tl.float32)
        tl.store(y + row * n + column, (v - m) * r * g + b, mask=inside)


@triton.jit
def matmul(a, b, c, m, n, k, a_row, a_column, b_row, b_column, PRECISION: tl.constexpr, BM: tl.constexpr,
           BN: tl.constexpr, BK: tl.constexpr):
    row, column = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN)
    depth = tl.arange(0, BK)
    pa = a + row[:, None] * a_row + depth[None, :] * a_column
    pb = b + depth[:, None] * b_row + column[None, :] * b_column
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, k, BK):
        x = tl.load(pa, mask=(row[:, None] < m) & (start + depth[None, :] < k), other=0.0)
        y = tl.load(pb, mask=(start + depth[:, None] < k) & (column[None, :] < n), other=0.0)
        total = tl.dot(x, y, total, input_precision=PRECISION)
        pa += BK * a_column
        pb += BK * b_row
    inside = (row[:, None] < m) & (column[None, :] < n)
    tl.store(c + row[:, None] * n + column[None, :], total.to(c.dtype.element_ty), mask=inside)


@triton.jit
def attention(q, k, v, o, lse, scale, n, D: tl.constexpr, CAUSAL: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    first = tl.program_id(0) * BM
    head = tl.program_id(1) * n * D
    row, column, of = first + tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, D)
    x = tl.load(q + head + row[:, None] * D + of[None, :])
    most = tl.zeros([BM], dtype=tl.float32) - float("inf")
    total = tl.zeros([BM], dtype=tl.float32)
    result = tl.zeros([BM, D], dtype=tl.float32)
    for start in range(0, first + BM if CAUSAL else n, BN):
        keys = tl.load(k + head + (start + column)[None, :] * D + of[:, None])
        s = tl.dot(x, keys) * (scale * 1.4426950408889634)
        if CAUSAL:
            s = tl.where(row[:, None] >= (start + column)[None, :], s, -1.0e6)
        now = tl.maximum(most, tl.max(s, 1))
        p = tl.math.exp2(s - now[:, None])
        fade = tl.math.exp2(most - now)
        total = total * fade + tl.sum(p, 1)
        values = tl.load(v + head + (start + column)[:, None] * D + of[None, :])
        result = tl.dot(p.to(values.dtype), values, result * fade[:, None])
        most = now
    tl.store(lse + tl.program_id(1) * n + row, most + tl.math.log2(total))
    tl.store(o + head + row[:, None] * D + of[None, :], result / total[:, None])


@triton.jit
def attention_keys(q, k, v, do, lse, delta, dk, dv, scale, n, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    """Gradients of a block of keys and values, causal; the scores are transposed."""
    first = tl.program_id(0) * BN
    row, column, of = tl.arange(0, BM), first + tl.arange(0, BN), tl.arange(0, D)
    keys = tl.load(k + column[:, None] * D + of[None, :])
    values = tl.load(v + column[:, None] * D + of[None, :])
    to_k = tl.zeros([BN, D], dtype=tl.float32)
    to_v = tl.zeros([BN, D], dtype=tl.float32)
    for start in range(first, n, BM):
        x = tl.load(q + (start + row)[None, :] * D + of[:, None])
        s = tl.dot(keys, x) * (scale * 1.4426950408889634) - tl.load(lse + start + row)[None, :]
        p = tl.where(column[:, None] <= (start + row)[None, :], tl.math.exp2(s), 0.0)
        g = tl.load(do + (start + row)[:, None] * D + of[None, :])
        to_v = tl.dot(p.to(g.dtype), g, to_v)
        dp = tl.dot(values, tl.trans(g))
        ds = p * (dp - tl.load(delta + start + row)[None, :])
        to_k = tl.dot(ds.to(x.dtype), tl.trans(x), to_k)
    tl.store(dk + column[:, None] * D + of[None, :], to_k * scale)
    tl.store(dv + column[:, None] * D + of[None, :], to_v)


@triton.jit
def transposed(x, y, m, n, BLOCK: tl.constexpr):
    row, column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + row[:, None] * n + column[None, :], mask=(row[:, None] < m) & (column[None, :] < n))
    tl.store(y + column[:, None] * m + row[None, :], tl.trans(v), mask=(column[:, None] < n) & (row[None, :] < m))


@triton.jit
def scans(x, sums, best, where, n, BLOCK: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, BLOCK)
    v = tl.load(x + row * n + column, mask=column < n, other=-1.0e30)
    tl.store(sums + row * n + column, tl.cumsum(tl.where(column < n, v, 0.0), 0), mask=column < n)
    tl.store(best + row, tl.max(v, 0))
    tl.store(where + row, tl.argmax(v, 0))


@triton.jit
def functions(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n)
    tl.store(y + at, tl.sigmoid(v) * v + tl.erf(v) + tl.log(tl.abs(v) + 1) + tl.sqrt(v * v) + tl.floor(v) + tl.cos(v),
             mask=at < n)


@triton.jit
def dropout(x, y, n, p, seed, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n)
    tl.store(y + at, tl.where(tl.rand(seed, at) > p, v / (1 - p), 0.0), mask=at < n)


@triton.jit
def histogram(x, counts, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n, other=0)
    tl.atomic_add(counts + v, 1, mask=at < n)


# ---------------------------------------------------------------------------------------------------------------------
# Compiling and running


def to_bf16(x):
    bits = np.ascontiguousarray(x, dtype=np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def from_bf16(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)


class Out:
    """An array that the kernel writes."""

    def __init__(self, shape, kind="fp32", zeros=False):
        self.shape, self.kind, self.zeros = shape, kind, zeros
        self.numpy = {"fp32": np.float32, "bf16": np.uint16, "fp16": np.float16, "i32": np.int32}[kind]

    def bytes(self):
        return int(np.prod(self.shape)) * np.dtype(self.numpy).itemsize


class Case:
    """types: of the arguments in order, 'name:type', '*' in front of pointers, 16 behind what is a multiple of it."""

    def __init__(self, name, kernel, types, constants, grid, arguments, check, record=False, **options):
        self.name, self.kernel, self.types, self.constants, self.grid = name, kernel, types, constants, grid
        self.arguments, self.check, self.record, self.options = arguments, check, record, options

    def compile(self):
        names, signature, attributes = self.kernel.arg_names, {}, {}
        types = dict(t.split(":") for t in self.types.split())
        for i, name in enumerate(names):
            kind = types.get(name, "constexpr")
            if kind.endswith("/16"):
                attributes[(i,)] = [["tt.divisibility", 16]]
            signature[name] = kind.removesuffix("/16")
        constants = {(names.index(name),): value for name, value in self.constants.items()}
        source = ASTSource(fn=self.kernel, signature=signature, constexprs=constants, attrs=attributes)
        return triton.compile(source, target=GPUTarget("cuda", 90, 32), options=self.options)

    def text(self):
        compiled = self.compile()
        m = compiled.metadata
        text = re.sub(r"[ \t]*//[^\n]*\n", "\n", compiled.asm["ptx"])
        text = re.sub(r"\t\.section.*", "", text, flags=re.DOTALL)
        text = re.sub(r"\n\s*\n+", "\n", text).lstrip()
        grid = ",".join(str(g) for g in (list(self.grid) + [1, 1])[:3])
        return (f"// Triton {triton.__version__}, tools/triton-kernels.py --record\n"
                f"// kernel {m.name}, grid {grid}, threads {m.num_warps * 32}, shared {m.shared}\n{text}")

    def run(self, program, folder):
        path = os.path.join(folder, self.name + ".ptx")
        text = self.text()
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        ir = path.removesuffix(".ptx") + ".ll"
        reader = [sys.executable, os.path.join(ROOT, "test/ptx/read_ptx.py"), "--shared-align=1024"]
        subprocess.run(reader + [path, "-o", ir], check=True)
        words = [program, ir, *re.search(r"kernel (\S+), grid (\S+), threads (\d+), shared (\d+)", text).groups()]
        files = []
        for i, a in enumerate(self.arguments):
            file = os.path.join(folder, f"{self.name}.{i}")
            if isinstance(a, np.ndarray):
                a.tofile(file)
                words.append("in:" + file)
            elif isinstance(a, Out):
                files.append((a, file))
                if a.zeros:
                    np.zeros(a.shape, a.numpy).tofile(file)
                words.append("inout:" + file if a.zeros else f"out:{file}:{a.bytes()}")
            else:
                words.append(f"f32:{a}" if isinstance(a, float) else f"i32:{a}")
        words += ["null", "null"]   # scratch memory, which none of these has
        environment = dict(os.environ, NNC_TEST_EQUAL_STORES="1")
        if subprocess.run(words, env=environment, check=False).returncode:
            return None, text
        results = []
        for out, file in files:
            r = np.fromfile(file, out.numpy).reshape(out.shape)
            results.append(from_bf16(r) if out.kind == "bf16" else r)
        return results, text


# ---------------------------------------------------------------------------------------------------------------------
# Cases

RANDOM = np.random.default_rng(17)


def narrow(kind, x):
    """what is stored of x, and its values"""
    x = x.astype(np.float32)
    if kind == "bf16":
        return to_bf16(x), from_bf16(to_bf16(x)).astype(np.float64)
    if kind == "fp16":
        return x.astype(np.float16), x.astype(np.float16).astype(np.float64)
    return x, x.astype(np.float64)


def near(tolerance, *expected):
    def check(results):
        worst = 0.0
        for r, e in zip(results, expected):
            error = np.abs(r.astype(np.float64) - e).max() / max(1.0, np.abs(e).max())
            worst = max(worst, error if np.isfinite(error) else np.inf)
        return worst, worst <= tolerance
    return check


def matmul_case(name, m, n, k, kind, tile, a_transposed=False, b_transposed=False, precision="tf32", out="fp32",
                tolerance=2e-6, **options):
    stored_a, a = narrow(kind, RANDOM.standard_normal((m, k)))
    stored_b, b = narrow(kind, RANDOM.standard_normal((k, n)))
    strides = {"a_row": 1 if a_transposed else k, "a_column": m if a_transposed else 1,
               "b_row": 1 if b_transposed else n, "b_column": k if b_transposed else 1}
    types = f"a:*{kind}/16 b:*{kind}/16 c:*{out}/16 m:i32 n:i32/16 k:i32/16"
    types += "".join(f" {s}:i32/16" for s, x in strides.items() if x != 1)
    constants = {"PRECISION": precision, "BM": tile[0], "BN": tile[1], "BK": tile[2]}
    constants.update({s: 1 for s, x in strides.items() if x == 1})
    stored = [np.ascontiguousarray(stored_a.T if a_transposed else stored_a),
              np.ascontiguousarray(stored_b.T if b_transposed else stored_b)]
    arguments = stored + [Out((m, n), out), m, n, k] + [x for x in strides.values() if x != 1]
    return Case(name, matmul, types, constants, (-(-m // tile[0]), -(-n // tile[1])), arguments,
                near(tolerance, a @ b), **options)


def softmax_rows(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def attention_case(name, kind, n, heads, d, causal, tile, tolerance, **options):
    (sq, q), (sk, k), (sv, v) = (narrow(kind, RANDOM.standard_normal((heads, n, d))) for _ in range(3))
    scale = d ** -0.5
    s = q @ k.transpose(0, 2, 1) * scale
    if causal:
        s = np.where(np.tril(np.ones((n, n), bool)), s, -np.inf)
    lse = (np.log(np.exp(s - s.max(-1, keepdims=True)).sum(-1)) + s.max(-1)) / np.log(2)
    types = f"q:*{kind}/16 k:*{kind}/16 v:*{kind}/16 o:*fp32/16 lse:*fp32/16 scale:fp32 n:i32/16"
    return Case(name, attention, types, {"D": d, "CAUSAL": causal, "BM": tile[0], "BN": tile[1]}, (n // tile[0], heads),
                [sq, sk, sv, Out((heads, n, d)), Out((heads, n)), scale, n],
                near(tolerance, softmax_rows(s) @ v, lse), **options)


def attention_keys_case(name, kind, n, d, tile, tolerance, **options):
    (sq, q), (sk, k), (sv, v), (sg, g) = (narrow(kind, RANDOM.standard_normal((n, d))) for _ in range(4))
    scale = d ** -0.5
    s = np.where(np.tril(np.ones((n, n), bool)), q @ k.T * scale, -np.inf)
    lse = ((np.log(np.exp(s - s.max(-1, keepdims=True)).sum(-1)) + s.max(-1)) / np.log(2)).astype(np.float32)
    p = softmax_rows(s)
    delta = ((p @ v) * g).sum(-1).astype(np.float32)
    ds = p * (g @ v.T - delta[:, None])
    types = (f"q:*{kind}/16 k:*{kind}/16 v:*{kind}/16 do:*{kind}/16 lse:*fp32/16 delta:*fp32/16 dk:*fp32/16 "
             f"dv:*fp32/16 scale:fp32 n:i32/16")
    return Case(name, attention_keys, types, {"D": d, "BM": tile[0], "BN": tile[1]}, (n // tile[1],),
                [sq, sk, sv, sg, lse, delta, Out((n, d)), Out((n, d)), scale, n],
                near(tolerance, ds.T @ q * scale, p.T @ g), **options)


def philox_uniform(seed, offsets):
    """Triton's tl.rand: Philox 4x32-10 of the counter (offset, 0, 0, 0), its first word made a number below 1."""
    c = [offsets.astype(np.uint64), *(np.zeros_like(offsets, dtype=np.uint64) for _ in range(3))]
    key = [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        x, y = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        low, high = np.uint64(0xFFFFFFFF), np.uint64(32)
        c = [(y >> high) ^ c[1] ^ np.uint64(key[0]), y & low, (x >> high) ^ c[3] ^ np.uint64(key[1]), x & low]
        key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
    bits = c[0].astype(np.uint32).view(np.int32).astype(np.int64)
    return np.where(bits < 0, -bits - 1, bits).astype(np.float32) * np.float32(4.6566127342e-10)


def other_cases():
    x = RANDOM.standard_normal((4, 1000)).astype(np.float32)
    yield Case("softmax", softmax, "x:*fp32/16 y:*fp32/16 n:i32", {"BLOCK": 1024}, (4,), [x, Out(x.shape), 1000],
               near(1e-6, softmax_rows(x.astype(np.float64))), record=True, num_warps=4)
    x = RANDOM.standard_normal((3, 300)).astype(np.float32)
    yield Case("softmax_warp", softmax, "x:*fp32 y:*fp32 n:i32", {"BLOCK": 512}, (3,), [x, Out(x.shape), 300],
               near(1e-6, softmax_rows(x.astype(np.float64))), num_warps=1)
    for name, n, kind, record in (("layer_norm", 720, "fp32", True), ("layer_norm_bf16", 1001, "bf16", False)):
        (sx, x), (sg, g), (sb, b) = (narrow(kind, RANDOM.standard_normal(s)) for s in ((3, n), (n,), (n,)))
        m, r = x.mean(1), 1 / np.sqrt(x.var(1) + 1e-5)
        types = (f"x:*{kind}/16 scale:*{kind}/16 shift:*{kind}/16 y:*fp32/16 mean:*fp32/16 rstd:*fp32/16 "
                 f"n:i32{'/16' if n % 16 == 0 else ''} epsilon:fp32")
        yield Case(name, layer_norm, types, {"BLOCK": 512}, (3,),
                   [sx, sg, sb, Out(x.shape), Out((3,)), Out((3,)), n, 1e-5],
                   near(2e-6, (x - m[:, None]) * r[:, None] * g + b, m, r), record=record, num_warps=4)
    x = RANDOM.standard_normal((70, 45)).astype(np.float32)
    yield Case("transpose", transposed, "x:*fp32/16 y:*fp32/16 m:i32 n:i32", {"BLOCK": 32}, (3, 2),
               [x, Out((45, 70)), 70, 45], near(0, x.T), num_warps=4)
    stored, x = narrow("bf16", RANDOM.standard_normal((64, 96)))
    yield Case("transpose_bf16", transposed, "x:*bf16/16 y:*bf16/16 m:i32/16 n:i32/16", {"BLOCK": 32}, (2, 3),
               [stored, Out((96, 64), "bf16"), 64, 96], near(0, x.T), num_warps=2)
    x = RANDOM.standard_normal((2, 777)).astype(np.float32)
    yield Case("scans", scans, "x:*fp32/16 sums:*fp32/16 best:*fp32 where:*i32 n:i32", {"BLOCK": 1024}, (2,),
               [x, Out(x.shape), Out((2,)), Out((2,), "i32"), 777],
               near(1e-6, np.cumsum(x.astype(np.float64), 1), x.max(1), x.argmax(1)), num_warps=4)
    x = (RANDOM.standard_normal(900) * 3).astype(np.float32)
    v = x.astype(np.float64)
    erf = np.vectorize(__import__("math").erf)(v)
    yield Case("functions", functions, "x:*fp32/16 y:*fp32/16 n:i32", {"BLOCK": 256}, (4,), [x, Out(x.shape), 900],
               near(1e-6, v / (1 + np.exp(-v)) + erf + np.log(abs(v) + 1) + abs(v) + np.floor(v) + np.cos(v)),
               num_warps=2)
    yield Case("dropout", dropout, "x:*fp32/16 y:*fp32/16 n:i32 p:fp32 seed:i32", {"BLOCK": 256}, (4,),
               [x, Out(x.shape), 900, 0.25, 12345],
               near(1e-7, np.where(philox_uniform(12345, np.arange(900)) > 0.25, v / 0.75, 0)), num_warps=4)
    x = RANDOM.integers(0, 50, 1000).astype(np.int32)
    yield Case("histogram", histogram, "x:*i32/16 counts:*i32/16 n:i32", {"BLOCK": 512}, (2,),
               [x, Out((50,), "i32", zeros=True), 1000], near(0, np.bincount(x, minlength=50)), num_warps=4)


def cases():
    yield from other_cases()
    yield matmul_case("matmul", 80, 48, 64, "bf16", (64, 32, 32), b_transposed=True, record=True, num_warps=4,
                      num_stages=3)
    yield matmul_case("matmul_128", 256, 128, 192, "bf16", (128, 128, 64), num_warps=4, num_stages=3)
    yield matmul_case("matmul_f16", 208, 144, 112, "fp16", (128, 128, 32), b_transposed=True, num_warps=8, num_stages=4)
    for ta in (False, True):
        for tb in (False, True):
            for bn, bk in ((16, 16), (32, 32), (64, 64), (256, 64)):
                yield matmul_case(f"matmul_t{ta:d}{tb:d}_{bn}_{bk}", 128, bn, 128, "bf16",
                                  (64 if bn < 256 else 128, bn, bk), ta, tb, num_warps=4 if bn < 256 else 8,
                                  num_stages=2)
    yield matmul_case("matmul_bf16_out", 128, 256, 128, "bf16", (128, 256, 64), out="bf16", tolerance=4e-3, num_warps=8,
                      num_stages=3)
    yield matmul_case("matmul_mma", 32, 48, 64, "bf16", (32, 16, 32), num_warps=2, num_stages=2)
    yield matmul_case("matmul_mma_f16", 32, 32, 64, "fp16", (32, 32, 32), True, True, num_warps=2, num_stages=3)
    yield matmul_case("matmul_mma_tf32", 32, 32, 64, "fp32", (32, 32, 32), tolerance=2e-3, num_warps=2, num_stages=2)
    yield matmul_case("matmul_ieee", 64, 64, 64, "fp32", (64, 64, 32), precision="ieee", num_warps=4, num_stages=2)
    for kind, tolerance in (("bf16", 4e-3), ("fp16", 5e-4)):
        for d in (64, 128):
            for causal in (False, True):
                yield attention_case(f"attention_{kind}_{d}_{'causal' if causal else 'all'}", kind, 256, 2, d, causal,
                                     (128, 64), tolerance, num_warps=8 if d == 128 else 4, num_stages=2)
            yield attention_keys_case(f"attention_keys_{kind}_{d}", kind, 256, d, (64, 64), tolerance, num_warps=4,
                                      num_stages=2)
    yield attention_case("attention", "bf16", 128, 1, 64, True, (64, 32), 4e-3, record=True, num_warps=4, num_stages=2)
    yield attention_case("attention_mma", "bf16", 128, 1, 64, True, (32, 32), 4e-3, num_warps=2, num_stages=2)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--keep", help="the folder for PTX, IR and data; else a temporary one")
    parser.add_argument("--record", action="store_true")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    program = os.path.join(options.build, "unit-tests", "ptx_reference_run")
    failed = done = 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or temporary
        os.makedirs(folder, exist_ok=True)
        for case in cases():
            if options.record:
                if case.record:
                    with open(os.path.join(ROOT, "test/ptx/Inputs", case.name + ".ptx"), "w", encoding="utf-8") as f:
                        f.write(case.text())
                continue
            if options.names and not any(n in case.name for n in options.names):
                continue
            done += 1
            try:
                results, text = case.run(program, folder)
            except subprocess.CalledProcessError:
                results, text = None, ""
            error, good = case.check(results) if results else (float("inf"), False)
            failed += not good
            units = re.findall(r"(?:wgmma\.mma_async|mma\.sync)[\w.]*?m\d+n\d+k\d+|ldmatrix|stmatrix|cp\.async\.c[ag]",
                               text)
            units = " ".join(sorted({u.replace(".sync.aligned", "") for u in units}))
            print(f"{'ok    ' if good else 'FAILED'} {case.name}: {error:.2g}  {units}", flush=True)
    if not options.record:
        print(f"{done} kernels, {failed} failures")
    sys.exit(failed != 0)


if __name__ == "__main__":
    main()
