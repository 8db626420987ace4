"""The table of bench/gpu/run from made-up measurements: table.py RUN."""
import importlib.machinery
import importlib.util
import sys

sys.dont_write_bytecode = True
loader = importlib.machinery.SourceFileLoader('run', sys.argv[1])
run = importlib.util.module_from_spec(importlib.util.spec_from_loader('run', loader))
loader.exec_module(run)

rows = [{'part': 'checks', 'name': 'passed', 'n': 3, 'largest_difference': 0, 'ok': True}]
for name, beyond in ('near', 1 << 20), ('far', 5 << 20), ('less', -4096), ('silent', None):
    rows.append({'part': 'curves', 'name': name, 'ok': True, 'steps': 20, 'largest_difference': 1e-6, 'bound': 1e-4, 'arena': 1 << 20, **({} if beyond is None else {'beyond_arena': beyond})})
for name, ms in ('conv forward bf16 3x3 64 to 64 at 56', 2.0), ('gemm forward bf16 3x3 64 to 64 at 56', 1.3), ('conv forward bf16 3x3 128 to 128 at 56 stride 2', 4.0), (
        'gemm forward bf16 3x3 128 to 128 at 56 stride 2', 1.0):
    rows.append({'part': 'kernels', 'kind': 'time', 'name': name, 'median_ms': ms, 'flops': 1e9, 'bytes': 1e6})
rows.append({'part': 'peers', 'kind': 'peer', 'model': 'conv', 'name': 'forward bf16 3x3 128 to 128 at 56 stride 2', 'median_ms': 2.0, 'flops': 1e9})
for name, ms, size in ('out', 5.0, 250e6), ('in', 6.25, 250e6), ('both', 6.25, 500e6), ('out, 100 of 4 KiB', 0.21024, 409600), ('in, 100 of 4 KiB', 0.21024, 409600), (
        'product alone', 1.0, 0), ('product beside copies', 1.01, 0), ('copy on the device alone', 0.8, 0), ('copy on the device beside copies', 1.0, 0):
    rows.append({'part': 'link', 'kind': 'time', 'name': name, 'median_ms': ms, 'bytes': size})
print(run.table({'rows': rows}))
