#!/usr/bin/env python3
"""Takes over many models and writes a table: python sweep.py torchvision|timm|transformers [--dtype f64] [--budget] [--out FILE] [NAME ...]

Each model is made, traced, compiled and compared (check.py) in a process of its own, at the smallest image that it takes, with random weights. FILE has one line per model, as JSON; models
that agree there already are not run again. Without names: torchvision's models of classification and segmentation, 100 of timm's drawn by a fixed seed, 25 of transformers."""
import argparse
import json
import os
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TIMEOUT = 900


def names_of(family: str) -> list:
    if family == 'torchvision':
        import torchvision
        m = torchvision.models
        return [n for part in (m, m.segmentation) for n in m.list_models(module=part)]
    import models
    return models.names(family)


def one(family: str, name: str, dtype: str, budget: bool) -> dict:
    import warnings
    warnings.filterwarnings('ignore')
    sys.path[:0] = [HERE, os.path.join(HERE, '..')]
    import torch
    torch.set_num_threads(1)
    torch.manual_seed(0)
    import check
    import models
    started = time.time()
    row = {'model': name, 'dtype': dtype}
    try:
        module, args, kwargs = models.make(family, name)
        if budget:
            import budget as budgets
            return {**row, 'ok': True, **vars(budgets.check(module, args, kwargs))}
        r = check.check(module, args, kwargs, dtype=dtype)
        row.update(ok=True, worst=r.worst(), mode=r.mode, lines=len(r.text.splitlines()) - 7, seconds={k: round(v, 1) for k, v in r.seconds.items()},
                   own=max(r.own.values(), default=0), times=round(r.times, 2), kinks=r.kinks)
    except Exception as e:      # every reason belongs into the table
        row.update(ok=False, reason=f'{type(e).__name__}: {e}'[:1500])
        if os.environ.get('SWEEP_TEXTS') and getattr(e, 'text', None):
            with open(os.path.join(os.environ['SWEEP_TEXTS'], name + '.nn'), 'w') as f:
                f.write(e.text)
    row['total'] = round(time.time() - started, 1)
    return row


def line(row: dict) -> str:
    if not row['ok']:
        return 'FAIL ' + row['reason'][:160].replace('\n', ' | ')
    if 'smallest' in row:
        return f'ok {row["arena"]} without a budget, smallest {row["smallest"]} bytes, {row["within"]} at 110 % of it: same bytes'
    notes = [f' ({what} {row[k]:.0e})' for k, what in (('own', 'PyTorch'), ('kinks', 'kinks')) if row[k]]
    return f'ok {row["worst"]:.0e}{"".join(notes)} {row["lines"]} lines {row["seconds"]} {row["mode"]}'


def main():
    p = argparse.ArgumentParser()
    p.add_argument('family')
    p.add_argument('names', nargs='*')
    p.add_argument('--dtype', default='f64')
    p.add_argument('--out', default='')
    p.add_argument('--one', action='store_true')
    p.add_argument('--budget', action='store_true', help='compare a step within 110 %% of the smallest budget with one without (budget.py)')
    a = p.parse_intermixed_args()
    if a.one:
        print('ROW ' + json.dumps(one(a.family, a.names[0], a.dtype, a.budget)))
        return
    sys.path[:0] = [HERE, os.path.join(HERE, '..')]
    done = set()
    if a.out and os.path.exists(a.out):
        done = {row['model'] for row in map(json.loads, open(a.out)) if row['ok']}
    for name in a.names or names_of(a.family):
        if name in done:
            continue
        try:
            r = subprocess.run([sys.executable, __file__, a.family, name, '--one', '--dtype', a.dtype, *['--budget'] * a.budget], capture_output=True, text=True, timeout=TIMEOUT)
            rows = [line[4:] for line in r.stdout.splitlines() if line.startswith('ROW ')]
            row = json.loads(rows[0]) if rows else {'model': name, 'ok': False, 'reason': f'process ended with {r.returncode}: ' + r.stderr[-300:]}
        except subprocess.TimeoutExpired:
            row = {'model': name, 'ok': False, 'reason': f'more than {TIMEOUT} s'}
        print(f'{name:32} ' + line(row), flush=True)
        if a.out:
            with open(a.out, 'a') as f:
                f.write(json.dumps(row) + '\n')


if __name__ == '__main__':
    main()
