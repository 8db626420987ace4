"""Prints files of more than 700 lines, functions of more than 80 and lines of more than 120 columns in the C of folders, then how many files it read.

    lengths.py FOLDER... [--file=700] [--function=80] [--line=120]

Exits 1 where there is one.
"""
import argparse
import glob
import os
import re
import sys


def too_long(path, most):
    with open(path) as f:
        lines = f.read().splitlines()
    if len(lines) > most.file:
        yield '%s: %d lines' % (path, len(lines))
    head = 0
    for number, line in enumerate(lines, 1):
        if len(line) > most.line:
            yield '%s:%d: %d columns' % (path, number, len(line))
        if re.match(r'[A-Za-z_].*[({,]$|[A-Za-z_].*\) \{', line):   # where the head of a function, or a table, begins
            head = number
        if line == '}' and number - head + 1 > most.function:
            yield '%s:%d: a function of %d lines' % (path, head, number - head + 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('folders', nargs='+')
    for name, most in [('file', 700), ('function', 80), ('line', 120)]:
        parser.add_argument('--' + name, type=int, default=most)
    a = parser.parse_args()
    files = sorted(p for d in a.folders for p in glob.glob(os.path.join(d, '**', '*.[ch]'), recursive=True))
    found = [text for path in files for text in too_long(path, a)]
    print('\n'.join(found + ['%d files' % len(files)]))
    return 1 if found else 0


if __name__ == '__main__':
    sys.exit(main())
