#!/usr/bin/env python3
"""Reads what ptxas makes of kernels: read-sass.py FILE.ptx ARCH [TABLES.c]; needs ptxas, and nvdisasm or cuobjdump, in PATH.

FILE.ptx and TABLES.c are what nnc writes with --emit=ptx and --emit=tables. Says, and ends with status 1 then:
- where a kernel has local memory
- where one with products of the tensor cores stores elements of two bytes or one by themselves
- where products of warpgroups, or of warps, in the PTX are not what is multiplied by
- where a launch asks for more shared memory, with the static part as ptxas rounds it, than a block may have
- where the registers leave no room for the blocks that are meant to share a multiprocessor: those that the PTX asks for, and of a convolution's template two, if their shared memory fits
"""
import collections
import re
import shutil
import subprocess
import sys
import tempfile

BLOCK_KIB = {'sm_80': 163, 'sm_86': 99, 'sm_89': 99, 'sm_90': 227, 'sm_90a': 227, 'sm_100': 227, 'sm_120': 99}
MULTIPROCESSOR_KIB = {'sm_80': 164, 'sm_86': 100, 'sm_89': 100, 'sm_90': 228, 'sm_90a': 228, 'sm_100': 228, 'sm_120': 100}
REGISTERS, RESERVED = 65536, 1024   # of a multiprocessor; bytes of shared memory that each block loses

Kernel = collections.namedtuple('Kernel', 'body threads blocks')


def read_ptx(path):
    """Of each entry: its text, its threads, and how many blocks it asks a multiprocessor to hold."""
    kernels = {}
    for match in re.finditer(r'\.entry (\w+)\((.*?)\n\}\n', open(path).read(), re.S):
        name, body = match.groups()
        threads = 1
        for n in re.search(r'\.(?:req|max)ntid ([\d, ]+)', body).group(1).split(','):
            threads *= int(n)
        blocks = re.search(r'\.minnctapersm (\d+)', body)
        kernels[name] = Kernel(body, threads, int(blocks.group(1)) if blocks else 1)
    return kernels


def read_log(text):
    """{kernel: (registers, static shared memory)} of what ptxas -v says."""
    used, name = {}, None
    for line in text.splitlines():
        entry = re.search(r"Compiling entry function '(\w+)'", line)
        name = entry.group(1) if entry else name
        registers, shared = re.search(r'Used (\d+) registers', line), re.search(r'(\d+) bytes smem', line)
        if registers:
            used[name] = int(registers.group(1)), int(shared.group(1)) if shared else 0
    return used


def read_instructions(cubin):
    """{kernel: names of its instructions, in order}"""
    command = ['nvdisasm', '-c', cubin] if shutil.which('nvdisasm') else ['cuobjdump', '-sass', cubin]
    out, name = collections.defaultdict(list), None
    for line in subprocess.run(command, stdout=subprocess.PIPE, check=True, universal_newlines=True).stdout.splitlines():
        function = re.match(r'\s*(?:Function : |\.section\s+\.text\.)(\w+)', line)
        instruction = re.match(r'\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_.]*)', line)
        name = function.group(1) if function else name
        if instruction:
            out[name].append(instruction.group(1))
    return out


def read_tables(path):
    """{kernel: dynamic shared memory} of the launches."""
    launch = re.compile(r'\{"(\w+)",\{\d+,\d+,\d+\},\{\d+,\d+,\d+\},(\d+),')
    return {name: int(shared) for name, shared in launch.findall(open(path).read())}


def blocks_meant(name, kernel, shared, arch):
    is_template = re.match(r'conv_(forward|input_grad|weight_grad)_\w+?_(64|128|256)(_|$)', name)
    fit = MULTIPROCESSOR_KIB[arch] * 1024 // (shared + RESERVED)
    return max(kernel.blocks, min(2, fit) if is_template and shared else 1)


def findings(name, kernel, instructions, registers, shared, arch):
    starts = collections.Counter(i.split('.')[0] for i in instructions)
    if starts['LDL'] + starts['STL']:
        yield '%d accesses of local memory' % (starts['LDL'] + starts['STL'])
    narrow = sum(bool(re.match(r'STG\..*[US](8|16)\b', i)) for i in instructions)
    if starts['HMMA'] + starts['HGMMA'] and narrow:
        yield '%d stores of one or two bytes' % narrow
    for ptx, sass in (('wgmma.mma_async', 'HGMMA'), (' mma.sync', 'HMMA')):
        if ptx in kernel.body and not starts[sass]:
            yield '%s in the PTX, and no %s' % (ptx.strip(), sass)
    if shared > BLOCK_KIB[arch] * 1024:
        yield '%d bytes of shared memory, a block may have %d' % (shared, BLOCK_KIB[arch] * 1024)
    blocks, each = blocks_meant(name, kernel, shared, arch), (registers + 7) // 8 * 8 * kernel.threads
    if blocks * each > REGISTERS:
        yield '%d registers, too many for %d blocks of %d threads' % (registers, blocks, kernel.threads)


def main(ptx, arch, tables=None):
    kernels, dynamic = read_ptx(ptx), read_tables(tables) if tables else {}
    with tempfile.NamedTemporaryFile(suffix='.cubin') as cubin:
        command = ['ptxas', '-arch=' + arch, '-v', '-o', cubin.name, ptx]
        used = read_log(subprocess.run(command, stderr=subprocess.PIPE, check=True, universal_newlines=True).stderr)
        instructions = read_instructions(cubin.name)
    wrong, counts = 0, collections.Counter()
    for name, kernel in sorted(kernels.items()):
        if not instructions[name]:
            sys.exit('%s: no instructions' % name)
        registers, static = used[name]
        for what in findings(name, kernel, instructions[name], registers, static + dynamic.get(name, 0), arch):
            print('%s: %s' % (name, what))
            wrong += 1
        for product in ('HGMMA', 'HMMA'):
            counts[product] += any(i.split('.')[0] == product for i in instructions[name])
    print('%d kernels, %d with HGMMA, %d with HMMA: %d findings' % (len(kernels), counts['HGMMA'], counts['HMMA'], wrong))
    return wrong > 0


if __name__ == '__main__':
    if len(sys.argv) < 3 or sys.argv[1].startswith('-'):
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
