"""Modules of the tests with integers of attributes changed at random, through the passes of a RUN line of theirs: whatever a file says, nnc-opt
tells a mistake or does what is asked, and never ends by a signal.

usage: integers.py NNC_OPT FOLDER SEED COUNT
"""
import glob
import os
import random
import re
import subprocess
import sys
import tempfile

INTEGER = re.compile(r'(?<=[=\[, ])-?\d+(?=( : i64|\]|,))')
VALUES = ['-1', '0', '1', '2', '3', '7', '64', '100000000', '-100000000', '9223372036854775807']


def cases(folder):
    """(text of a module, options) of each RUN line with passes."""
    for path in sorted(glob.glob(os.path.join(folder, '*.mlir'))):
        with open(path) as f:
            text = f.read()
        modules = ['\n'.join(line for line in part.splitlines() if not line.startswith('//')) for part in re.split(r'^// -----.*$', text, flags=re.M)]
        for run in re.findall(r'RUN:.*%nnc_opt.*?--passes=("[^"]*"|\'[^\']*\'|\S+)', text):
            for module in modules:
                if INTEGER.search(module):   # a tenth of the search is enough for a crash
                    passes = run.strip('\'"').replace('%%', '%')
                    yield path, module, passes if 'effort=' in passes else passes.replace('remat{', 'remat{effort=0.1 ')


def main():
    nnc_opt, folder, seed, count = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    rng, known, failed = random.Random(seed), list(cases(folder)), 0
    with tempfile.NamedTemporaryFile('w', suffix='.mlir') as out:
        for _ in range(count):
            path, module, passes = rng.choice(known)
            for _ in range(rng.choice([1, 1, 2])):
                site = rng.choice(list(INTEGER.finditer(module)))
                module = module[:site.start()] + rng.choice(VALUES) + module[site.end():]
            out.seek(0)
            out.truncate()
            out.write(module)
            out.flush()
            status = subprocess.run([nnc_opt, '--passes=' + passes, out.name], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=60).returncode
            if status not in (0, 1, 2, 70):
                failed += 1
                print(f'{os.path.basename(path)}, --passes={passes}: status {status}\n{module}')
    print(f'{count} modules, {failed} failed')


main()
