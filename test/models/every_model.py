#!/usr/bin/env python3
"""What must be there for every file of models/: a golden and its test, a test of exactness under budgets, a row in models/README.md; and how many statements some may have.

usage: every_model.py SOURCE_DIR
"""
import os
import sys

STATEMENTS = {'resnet50': 30, 'gpt2': 31, 'llama': 40, 'unet': 40, 'lstm_lm': 25, 'gcn': 23}   # at most; each stands on a line of its own


def statements(text):
    """The lines that say something: no comments, no empty lines, no closing braces."""
    return [line for line in text.splitlines() if line.split('#')[0].strip(' }')]


def missing(root, name):
    for path in f'test/models/goldens/{name}.json', f'test/models/{name}.test', f'test/e2e/models/{name}.test':
        if not os.path.exists(os.path.join(root, path)):
            yield f'{path} is missing'
    with open(os.path.join(root, 'models', 'README.md')) as f:
        if f'({name}.nn)' not in f.read():
            yield 'models/README.md does not name it'
    with open(os.path.join(root, 'models', name + '.nn')) as f:
        found = statements(f.read())
    for packed in (line for line in found if ';' in line.split('#')[0]):
        yield f'two statements on a line: {packed.strip()}'
    if len(found) > STATEMENTS.get(name, len(found)):
        yield f'{len(found)} statements, more than {STATEMENTS[name]}'


def main():
    root = sys.argv[1]
    names = sorted(f[:-3] for f in os.listdir(os.path.join(root, 'models')) if f.endswith('.nn'))
    said = [f'{name}: {what}' for name in names for what in missing(root, name)] + [f'{name}: no such model' for name in STATEMENTS if name not in names]
    print('\n'.join(said) or f'{len(names)} models')
    return 1 if said else 0


if __name__ == '__main__':
    sys.exit(main())
