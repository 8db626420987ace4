"""What the Python source calls a value: the assignment that a traced operation ends."""
from __future__ import annotations

import ast
import functools
import linecache
import os
import re
import sysconfig
import traceback

import torch

TORCH = os.path.dirname(torch.__file__) + os.sep
OWN = os.path.dirname(__file__) + os.sep     # what stands for a module of torch
STANDARD = sysconfig.get_paths()['stdlib'] + os.sep
HELPER = 'helper '                           # before the name of a function in its frame
FRAME = re.compile(r'File "(.+)", line (\d+), in (.+)')


@functools.lru_cache(maxsize=None)
def assignments(path: str) -> dict[int, tuple[list[str], int]]:
    """{line: (names assigned, first line of the statement)} of a file."""
    found: dict[int, tuple[list[str], int]] = {}
    try:
        tree = ast.parse(''.join(linecache.getlines(path)))
    except SyntaxError:
        return found
    for node in ast.walk(tree):
        targets = node.targets[:1] if isinstance(node, ast.Assign) else [node.target] if isinstance(node, (ast.AnnAssign, ast.AugAssign)) else None
        if targets is None:
            continue
        target = targets[0]
        items = target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]
        names = [i.id if isinstance(i, ast.Name) else '' for i in items]
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1):
            found.setdefault(line, (names, node.lineno))
    return found


@functools.lru_cache(maxsize=200_000)
def frames(stack_trace: str | None, helpers: bool = False) -> tuple[tuple[str, int], ...]:
    """(file, line) of each call of a forward method, the outermost first; behind them that in a function which the last one calls."""
    return tuple((m[1], int(m[2])) for m in FRAME.finditer(stack_trace or '') if helpers or not m[3].startswith(HELPER))


def helper(stack: list[traceback.FrameSummary]) -> traceback.FrameSummary | None:
    """The innermost frame, marked, where it is that of a function which a forward method calls, outside of torch, this package and Python."""
    standard = lambda f: f.filename.startswith(STANDARD) and '-packages' not in f.filename
    own = [f for f in stack if not f.filename.startswith((TORCH, OWN, '<')) and not standard(f)]
    if not own or own[-1].name == 'forward' or all(f.name != 'forward' for f in own):
        return None
    return traceback.FrameSummary(own[-1].filename, own[-1].lineno, HELPER + own[-1].name, lookup_line=False)


def place(stack_trace: str | None) -> str:
    """file:line of the innermost frame outside torch and this package."""
    known = frames(stack_trace, helpers=True)
    own = [f for f in known if not f[0].startswith((TORCH, OWN))] or list(known)
    return f'{own[-1][0]}:{own[-1][1]}' if own else 'unknown place'


def here() -> str:
    """file:line of the code that is running, outside of torch and this package."""
    f = next((f for f in reversed(traceback.extract_stack()) if not f.filename.startswith((TORCH, OWN))), None)
    return f'{f.filename}:{f.lineno}' if f else 'unknown place'


def statement_keys(stack_trace: str | None) -> tuple:
    """Of each frame: the frames so far with the statement's first line; equal keys are the same run of a statement, or of one in a loop."""
    keys, so_far = [], ()
    for path, line in frames(stack_trace):
        names, first = assignments(path).get(line, ([], line))
        so_far = so_far + ((path, first),)
        keys.append((so_far, names if not path.startswith(TORCH) else []))
    return tuple(keys)


def name_hints(traces: list[str | None]) -> list[list[list[str]]]:
    """For each operation of a traced sequence the names that its result has in the frames of the source, the outermost first: those of statements whose last operation it is,
    and of those that assign several names, for operations that make several values; else none."""
    keys = [statement_keys(t) for t in traces]
    hints: list[list[list[str]]] = []
    for i, own in enumerate(keys):
        following = keys[i + 1] if i + 1 < len(keys) else ()
        names = []
        for depth, (key, targets) in enumerate(own):
            ends = depth >= len(following) or following[depth][0] != key
            names.append(targets if ends or len(targets) > 1 else [])
        hints.append(names)
    return hints
