#!/usr/bin/env python3
"""Draws the project's pictures as SVG: live memory over the steps of plans, and curves of training runs. Standard library only.

usage: plot.py memory OUT.svg TITLE LABEL=PLAN.txt …      (PLAN.txt: nnc --emit=plan)
       plot.py loss|accuracy OUT.svg TITLE LABEL=LOG.jsonl …       (LOG.jsonl: train --log; evaluations become curves of their own)
"""
import json
import re
import sys

UNITS = {'bytes': 1, 'KiB': 2**10, 'MiB': 2**20, 'GiB': 2**30}
COLORS = ['#c2410c', '#0369a1', '#15803d', '#7e22ce']
WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 900, 380, 70, 50, 50, 24
STYLE = ('text{font:14px sans-serif;fill:#1f2937}.axis{stroke:#9ca3af;fill:none}.grid{stroke:#e5e7eb}'
         '@media(prefers-color-scheme:dark){text{fill:#e5e7eb}.grid{stroke:#374151}.back{fill:#111827}}.back{fill:#fff}'
         '@media(prefers-color-scheme:dark){.back{fill:#111827}}')


def memory_points(path):
    """Live MiB at each step of @train, from the table that --emit=plan prints."""
    points, in_table = [], False
    with open(path) as f:
        for line in f:
            if line.startswith('@') and points:
                break
            if line.split()[:2] == ['step', 'op']:
                in_table = True
            sizes = re.findall(r'([\d.]+) (bytes|KiB|MiB|GiB)', line)
            if in_table and sizes and re.match(r'^ *\d+ ?\*? ', line):
                points.append(float(sizes[-1][0]) * UNITS[sizes[-1][1]] / 2**20)
    return list(enumerate(points))


def curve_points(path, key):
    """The mean of 50 training steps at each step, and the evaluations."""
    points, window, evaluations = [], [], []
    with open(path) as f:
        for line in f:
            record = json.loads(line)
            if record['kind'] == 'train':
                window = (window + [record[key]])[-50:]
                points.append((record['step'], sum(window) / len(window)))
            elif record['kind'] == 'eval':
                evaluations.append((record['step'], record[key]))
    return points[::max(1, len(points) // 400)], evaluations


def curves(label, path, key):
    points, evaluations = curve_points(path, key)
    yield label, points
    if len(evaluations) > 1:
        yield f'{label}, evaluation', evaluations


def ticks(top):
    step = 1.0
    while top / step > 6:
        step *= 2 if str(step)[0] in '15' else 2.5
    while top / step < 3:
        step /= 2
    n = 0
    while n * step <= top:
        yield n * step
        n += 1


def draw(out, title, xlabel, ylabel, series):
    right, top = max(p[-1][0] for _, p in series), 1.05 * max(y for _, p in series for _, y in p)
    x = lambda v: LEFT + v / right * (WIDTH - LEFT - RIGHT)
    y = lambda v: HEIGHT - BOTTOM - v / top * (HEIGHT - BOTTOM - TOP)
    svg = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"><style>{STYLE}</style>',
           f'<rect class="back" width="{WIDTH}" height="{HEIGHT}"/><text x="{LEFT}" y="24" font-weight="bold">{title}</text>']
    for v in ticks(top):
        svg.append(f'<path class="grid" d="M{LEFT} {y(v):.1f}H{WIDTH - RIGHT}"/><text x="{LEFT - 8}" y="{y(v) + 5:.1f}" text-anchor="end">{v:g}</text>')
    for v in ticks(right):
        svg.append(f'<text x="{x(v):.1f}" y="{HEIGHT - BOTTOM + 20}" text-anchor="middle">{v:g}</text>')
    for i, (label, points) in enumerate(series):
        path = 'M' + 'L'.join(f'{x(a):.1f} {y(b):.1f}' for a, b in points)
        svg.append(f'<path d="{path}" stroke="{COLORS[i % 4]}" stroke-width="2" fill="none"/>')
        svg.append(f'<text x="{WIDTH - RIGHT}" y="{24 + 18 * i}" text-anchor="end" style="fill:{COLORS[i % 4]}">{label}</text>')
    svg.append(f'<path class="axis" d="M{LEFT} {TOP}V{HEIGHT - BOTTOM}H{WIDTH - RIGHT}"/>')
    svg.append(f'<text x="{(LEFT + WIDTH) / 2}" y="{HEIGHT - 10}" text-anchor="middle">{xlabel}</text>')
    svg.append(f'<text transform="translate(18 {HEIGHT / 2}) rotate(-90)" text-anchor="middle">{ylabel}</text></svg>')
    with open(out, 'w') as f:
        f.write('\n'.join(svg) + '\n')


def main():
    if len(sys.argv) < 5 or sys.argv[1] not in ('memory', 'loss', 'accuracy'):
        helped = sys.argv[1:] in (['--help'], ['-h'])
        print(__doc__.strip(), file=sys.stdout if helped else sys.stderr)
        sys.exit(0 if helped else 2)
    kind, out, title, *files = sys.argv[1:]
    files = [f.rsplit('=', 1) for f in files]
    if kind == 'memory':
        draw(out, title, 'step of the program', 'live memory, MiB', [(label, memory_points(path)) for label, path in files])
    else:
        draw(out, title, 'training step', kind, [curve for label, path in files for curve in curves(label, path, kind)])


if __name__ == '__main__':
    main()
