#!/usr/bin/env python3
"""Memory of a training run against its plan: usage: resident.py MODEL [train options]

Bytes written in the arena must be exactly those planned (bench --check), and the process's resident peak must stay within the arena, the data sets held in
memory as `info` counts them, and 64 MiB. A program with a far arena trains with no more than that (RLIMIT_DATA), and its bytes are those planned, too.
"""
import re
import resource
import subprocess
import sys

UNITS = {'bytes': 1, 'B': 1, 'KiB': 2**10, 'MiB': 2**20, 'GiB': 2**30}


def output(command):
    return subprocess.run(command, stdout=subprocess.PIPE, check=True, universal_newlines=True).stdout


def main():
    model, options = sys.argv[1], sys.argv[2:]
    data = options[options.index('--data'):][:2] if '--data' in options else []
    info = output([model, 'info'] + data)
    planned = int(re.search(r'^arena\s+(\d+) bytes', info, re.M).group(1))
    held = sum(float(n) * UNITS[unit] for n, unit in re.findall(r'^(?:train|eval)\s+data\s.*?([\d.]+) (\w+) held in memory', info, re.M))
    bench = output([model, 'bench', '--steps', '2', '--check'])
    print(bench)
    used = int(re.search(r'^arena used\s+(\d+) bytes', bench, re.M).group(1))
    if used != planned:
        sys.exit(f'{used} bytes of the arena are used, {planned} are planned')
    far = re.search(r'^far arena +(\d+) bytes .* planned, (\d+) used(?:.*\n)*far arena +written up to byte (\d+)', bench, re.M)
    far_planned, far_used, far_written = (int(n) for n in far.groups()) if far else (0, 0, 0)
    if not far_written <= far_used == far_planned:
        sys.exit(f'{far_used} bytes of the far arena are used, {far_written} written, {far_planned} are planned')
    limit = int(planned + held) + (64 << 20) if far_planned else resource.RLIM_INFINITY
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    subprocess.run([model, 'train', '--quiet'] + options, stdout=subprocess.DEVNULL, check=True,
                   preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (limit, limit)))
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    beyond = peak - planned - held
    print(f'far {far_planned}, planned {planned}, used {used}, data {held:.0f}, resident peak {peak} (earlier children {before * 1024}): {beyond / 2**20:.1f} MiB beyond')
    if beyond > 64 * 2**20:
        sys.exit('more than 64 MiB beyond the plan and the data')


if __name__ == '__main__':
    main()
