#!/usr/bin/env python3
"""Registers, shared memory and spills of kernels as a Markdown table; needs ptxas in PATH.

ptx-registers.py FILE.ptx sm_90a                          by kind of kernel; make the file with nnc MODEL --target=cuda --gpu-arch=sm_90a --emit=ptx -o FILE.ptx
ptx-registers.py --models NNC sm_80,sm_90 MODEL.nn...     by model, which NNC compiles for each architecture; on standard error the kernels that spill
ptx-registers.py --page NNC [MARK...]                     writes the tables of docs/cuda.md, or those with these marks
"""
import collections
import contextlib
import glob
import io
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
Kernel = collections.namedtuple('Kernel', 'name kind registers shared spills')


def kinds(path):
    """The kind of each entry, from the comment that it opens with."""
    kind, entries = '', {}
    for line in open(path):
        comment = re.match(r'// (?:(?:kernel|group)_\S+ \((\w+)[^)]*\)|conv_(\w+?)_f\d\d)', line)
        if comment:
            kind = comment.group(1) or 'conv ' + comment.group(2)
        entry = re.match(r'\.visible \.entry (\w+)\(', line)
        if entry:
            own = re.match(r'conv_(?:grouped_|depthwise_)?(forward|input_grad|weight_grad)', entry.group(1))   # shared by kernels of several kinds
            entries[entry.group(1)] = 'conv ' + own.group(1) if own else kind
    return entries


def assemble(path, arch):
    entries = kinds(path)
    with tempfile.TemporaryDirectory() as work:   # not /dev/null: a tool that removes its output after an error would, as root, remove that
        log = subprocess.run(['ptxas', '-arch=' + arch, '-v', '-o', os.path.join(work, 'cubin'), path], stderr=subprocess.PIPE, check=True, universal_newlines=True).stderr
    out, name, spills = [], None, 0
    for line in log.splitlines():
        compiled = re.search(r"Compiling entry function '(\w+)'", line)
        name = compiled.group(1) if compiled else name
        spilled = re.search(r'(\d+) bytes spill stores', line)
        spills = int(spilled.group(1)) if spilled else spills
        used = re.search(r'Used (\d+) registers', line)
        if used:
            shared = re.search(r'(\d+) bytes smem', line)
            out.append(Kernel(name, entries[name], int(used.group(1)), int(shared.group(1)) if shared else 0, spills))
    return out


def by_kind(path, arch, title=''):
    rows = collections.defaultdict(list)
    for k in assemble(path, arch):
        rows[k.kind].append(k)
    print(f'| {title}{arch} | kernels | registers, most | shared memory, most, bytes | kernels that spill |\n|---|---|---|---|---|')
    for kind in sorted(rows):
        r = rows[kind]
        print(f'| {kind} | {len(r)} | {max(k.registers for k in r)} | {max(k.shared for k in r)} | {sum(k.spills > 0 for k in r)} |')


def emit(nnc, model, arch, path, *options):
    subprocess.run([nnc, model, '--target=cuda', '--gpu-arch=' + arch, '--emit=ptx', '-o', path, *options], check=True)


def by_model(nnc, archs, models):
    print('| | kernels | registers, most: ' + ' | '.join(archs) + ' | shared memory, most, bytes | kernels that spill |')
    print('|---' * (len(archs) + 4) + '|')
    for model in models:
        runs = []
        for arch in archs:
            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, 'model.ptx')
                emit(nnc, model, arch, path)
                runs.append(assemble(path, arch))
            for k in runs[-1]:
                if k.spills:
                    print(f'{os.path.basename(model)}: {arch}: {k.name} spills {k.spills} bytes', file=sys.stderr)
        most = ' | '.join(str(max(k.registers for k in r)) for r in runs)
        shared, spills = max(k.shared for r in runs for k in r), sum(k.spills > 0 for r in runs for k in r)
        print(f'| {os.path.basename(model)[:-3]} | {len(runs[0])} | {most} | {shared} | {spills} |', flush=True)


LOSS = """dim N = 8192
model scores(x: f32[N, 64]) { linear(x, 50304, bias=false) }
train {
    data      x, label = npy("x.npy", "label.npy")
    loss      cross_entropy(scores(x), label)
    optimizer sgd(lr=0.1)
}
"""


def loss_rows(nnc, archs):
    """The kernel that computes loss and gradient of long rows: of the kernels that go along rows the first."""
    print('| registers per thread, loss and gradient of 8192 rows | ' + ' | '.join(archs) + ' |')
    print('|---' * (len(archs) + 1) + '|')
    with tempfile.TemporaryDirectory() as folder:
        model, ptx = os.path.join(folder, 'loss.nn'), os.path.join(folder, 'loss.ptx')
        with open(model, 'w') as f:
            f.write(LOSS)
        for dtype in 'bf16', 'f32':
            cells = []
            for arch in archs:
                emit(nnc, model, arch, ptx, '--dtype=' + dtype)
                with open(ptx) as f:
                    name, grid = re.search(r'^// (kernel_\d+) \(row\).*\n.*\n(// grid .*)', f.read(), re.M).groups()
                kernel = next(k for k in assemble(ptx, arch) if k.name == name)
                assert kernel.spills == 0, arch
                cells.append(f'{kernel.registers}' + ('' if 'row kept' in grid else ', read twice'))
            print(f'| {dtype}, 50304 columns | ' + ' | '.join(cells) + ' |')


def write_page(nnc, marks):
    path = os.path.join(ROOT, 'docs', 'cuda.md')
    models = sorted(glob.glob(os.path.join(ROOT, 'models', '*.nn')))
    tables = {}
    archs = ['sm_80', 'sm_89', 'sm_90a', 'sm_100']
    for mark, title in ('loss', None), ('resnet50', 'ResNet-50, '), ('gpt_small', 'small GPT, '), ('models', None):
        if marks and mark not in marks:
            continue
        out = io.StringIO()
        with contextlib.redirect_stdout(out), tempfile.TemporaryDirectory() as folder:
            if title:
                ptx = os.path.join(folder, 'model.ptx')
                emit(nnc, os.path.join(ROOT, 'models', mark + '.nn'), 'sm_90a', ptx)
                by_kind(ptx, 'sm_90a', title)
            elif mark == 'loss':
                loss_rows(nnc, archs)
            else:
                by_model(nnc, archs, models)
        tables[mark] = out.getvalue()
    with open(path) as f:
        text = f.read()
    for mark, table in tables.items():
        text, n = re.subn('(<!-- registers: %s -->\n).*?\n(?=\n)' % mark, lambda m: m.group(1) + table, text, flags=re.S)
        assert n == 1, mark
    with open(path, 'w') as f:
        f.write(text)


if __name__ == '__main__':
    if len(sys.argv) < 3 or sys.argv[1] in ('-h', '--help'):
        sys.exit(__doc__)
    if sys.argv[1] == '--page':
        write_page(sys.argv[2], sys.argv[3:])
    elif sys.argv[1] == '--models':
        by_model(sys.argv[2], sys.argv[3].split(','), sys.argv[4:])
    else:
        by_kind(*sys.argv[1:3])
