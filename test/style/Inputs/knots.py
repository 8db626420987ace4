"""Prints the knots of object files under a folder, largest first: files of which each calls each other, directly or through others.

    knots.py FOLDER MOST

Exits 1 where one has more than MOST files.
"""
import collections
import glob
import os
import subprocess
import sys


def read(folder):
    """{file: files that define what it uses}"""
    defined, used = {}, collections.defaultdict(set)
    files = sorted(glob.glob(os.path.join(folder, '**', '*.o'), recursive=True))
    for f in files:
        text = subprocess.run(['nm', '-g', f], check=True, capture_output=True, text=True).stdout
        for *_, kind, name in (line.split() for line in text.splitlines() if line):
            if kind == 'U':
                used[f].add(name)
            else:
                defined[name] = f
    return {f: {defined[name] for name in used[f] if name in defined} for f in files}


def reached(calls, start):
    found, stack = set(), [start]
    while stack:
        for f in calls[stack.pop()] - found:
            found.add(f)
            stack.append(f)
    return found


def main():
    folder, most = sys.argv[1], int(sys.argv[2])
    calls = read(folder)
    reach = {f: reached(calls, f) for f in calls}
    knots = {tuple(sorted(g for g in reach[f] if f in reach[g])) for f in calls if f in reach[f]}
    knots = sorted((k for k in knots if len(k) > 1), key=len, reverse=True)
    for knot in knots:
        print(len(knot), *(os.path.relpath(f, folder).replace('.c.o', '') for f in knot))
    print('%d files' % len(calls))
    return 1 if knots and len(knots[0]) > most else 0


if __name__ == '__main__':
    sys.exit(main())
