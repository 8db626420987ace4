#!/usr/bin/env python3
"""Registers, shared memory and spills of the kernels of a PTX file, by kind, as a Markdown table: ptx-registers.py FILE.ptx sm_90a

Needs ptxas in PATH. Make the file with nnc MODEL --target=cuda --gpu-arch=sm_90a --emit=ptx -o FILE.ptx
"""
import collections
import re
import subprocess
import sys


def main():
    path, arch = sys.argv[1:3]
    kind, entries = '', {}
    for line in open(path):
        comment = re.match(r'// (?:kernel_\S+ \((\w+)\)|conv_(\w+?)_f\d\d)', line)
        if comment:
            kind = comment.group(1) or 'conv ' + comment.group(2)
        entry = re.match(r'\.visible \.entry (\w+)\(', line)
        if entry:
            entries[entry.group(1)] = kind
    log = subprocess.run(['ptxas', '-arch=' + arch, '-v', '-o', '/dev/null', path], stderr=subprocess.PIPE, check=True, universal_newlines=True).stderr
    rows, name, spills = collections.defaultdict(list), None, 0
    for line in log.splitlines():
        compiled = re.search(r"Compiling entry function '(\w+)'", line)
        name = compiled.group(1) if compiled else name
        spilled = re.search(r'(\d+) bytes spill stores', line)
        spills = int(spilled.group(1)) if spilled else spills
        used = re.search(r'Used (\d+) registers', line)
        if used:
            shared = re.search(r'(\d+) bytes smem', line)
            rows[entries[name]].append((int(used.group(1)), int(shared.group(1)) if shared else 0, spills))
    print(f'| {arch} | kernels | registers, most | shared memory, most, bytes | kernels that spill |\n|---|---|---|---|---|')
    for kind in sorted(rows):
        r = rows[kind]
        print(f'| {kind} | {len(r)} | {max(x[0] for x in r)} | {max(x[1] for x in r)} | {sum(x[2] > 0 for x in r)} |')


if __name__ == '__main__':
    main()
