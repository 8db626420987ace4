"""from_torch: a PyTorch module as a readable .nn text, and its weights as a safetensors file."""
from __future__ import annotations

import dataclasses
import errno
import inspect
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from typing import Any, Callable, Sequence

import torch

from . import gradients, torch_ops
from .blocks import Builder
from .constants import Constants, refused_number
from .dims import NAMES
from .loss import Loss
from .program import block_text, model_text
from .regions import Problem, Region, RegionCall, Translator, any_draws, connect, in_training_only, tree
from .safetensors import CODES, save
from .sizes import generalise
from .text import RESERVED, Call, Expr, Param, Scan, Statement, Value, Var, measured, snake_case, walk
from .trace import NotTraced, Traced, short, trace


class ImportFailed(Exception):
    """A module cannot be taken over; the text has a line for each operation that is in the way."""


@dataclasses.dataclass
class Program:
    """What a module has become. `text` is the blocks and the model, without a train section."""
    name: str
    text: str
    inputs: list
    outputs: list
    batch: int | None
    weights: dict
    parameters: set               # names of those that the text reads
    sizes: list = dataclasses.field(default_factory=list)     # (name, axis, size) of the dims that inputs have
    dims: list = dataclasses.field(default_factory=list)      # (name, size) of the others

    def save_weights(self, path: str) -> None:
        save(path, self.weights)


def module_weights(module: torch.nn.Module, stored: dict) -> dict:
    """Parameters and running statistics by the names of the state_dict, each once, and constants that the text reads from the file."""
    from .trace import canonical_names
    first = canonical_names(module)
    state = {n: t for n, t in module.state_dict().items() if first.get(n, n) == n}
    # of complex numbers the text reads none
    keep = {n: t.detach() for n, t in state.items() if not n.endswith('num_batches_tracked') and t.dtype in CODES}
    keep.update({n: t for n, t in stored.items() if n not in keep})
    return {n: t.int() if t.dtype in (torch.int8, torch.int16) else t for n, t in keep.items()}     # as the text declares them


def forward_names(module: torch.nn.Module) -> list[str]:
    try:
        return [n for n in inspect.signature(module.forward).parameters if n not in ('args', 'kwargs')]
    except (TypeError, ValueError):
        return []


def name_inputs(block, module, region_inputs: list) -> list[str]:
    """The names of a block's tensors: the forward method's, in its order, where the values' own names are not among them."""
    known = forward_names(module) if module is not None else []
    if len(region_inputs) == 1 and known:
        return [snake_case(known[0])]
    names = []
    for i, v in enumerate(region_inputs):
        free = [n for n in known if n not in names]
        names.append(v.hint if v.hint in free else free[0] if free and i == 0 else v.hint or (free[0] if free else 'x'))
    return [snake_case(n) for n in names]


def convert(module: torch.nn.Module, args: Sequence, kwargs: dict | None = None, name: str | None = None, sizes: bool = True) -> Program:
    """The program of a module in the mode that it is in; ImportFailed names all that is in the way. Without `sizes` all sizes are numbers."""
    args, kwargs = tuple(args), dict(kwargs or {})
    leaves = torch.utils._pytree.tree_leaves((args, kwargs))
    empty = next((t for t in leaves if isinstance(t, torch.Tensor) and not t.numel()), None)
    if empty is not None:
        raise ImportFailed(f'an input of shape {list(empty.shape)}: an example that has an element')
    state = module.state_dict()
    measured.clear()
    program = convert_once(module, args, kwargs, name, state)
    if sizes and program.batch is not None:
        names = [('N', 0, program.batch)] + [('T', 1, v.shape[1]) for v in program.inputs if v.dtype != 'f32' and len(v.shape) == 2][:1]
        body = lambda a, k: convert_once(module, a, k, name, state).text
        program.text, program.sizes = generalise(program.text, body, args, kwargs, names, isinstance(module, Loss))
    program.text = re.sub(r'^ *assert [\d +]+ <= \d+, .*\n', '', program.text, flags=re.MULTILINE)     # of sizes that have no name
    measured.clear()
    lines = [f'dim {n} = {size}\n' for n, *_, size in program.sizes + program.dims]
    types = {p.dtype for p in module.parameters()}
    lines = [f'precision {n}\n\n' for t, n in ((torch.bfloat16, 'bf16'), (torch.float16, 'f16')) if types == {t}] + lines
    program.text = formatted(''.join(lines + ['\n'] * bool(lines)) + program.text)
    return program


def formatted(text: str) -> str:
    """In the language's one layout, where nnc is at hand, which knows it."""
    nnc = os.environ.get('NNC') or shutil.which('nnc')
    done = subprocess.run([nnc, 'fmt', '-'], input=text, capture_output=True, text=True) if nnc else None
    return done.stdout if done and done.returncode == 0 else text


def convert_once(module: torch.nn.Module, args: tuple, kwargs: dict, name: str | None, state: dict) -> Program:
    """An error that is no ImportFailed is one of this package: it is the cause of what is raised."""
    try:
        return convert_with(module, args, kwargs, name, state)
    except (NotTraced, gradients.Refused) as e:
        raise ImportFailed(str(e)) from e
    except (ImportFailed, MemoryError):
        raise
    except Exception as e:
        raise ImportFailed(f'{type(module).__name__}: the importer failed: {short(e)}') from e


def convert_with(module: torch.nn.Module, args: tuple, kwargs: dict, name: str | None, state: dict) -> Program:
    root, traced, translator = translated(module, args, kwargs, state)
    if module.training and any_draws(root) and (problems := in_training_only(root, in_evaluation(module, args, kwargs, state))):
        raise ImportFailed(problems_text(problems))
    outputs = [output(root, translator.value(o)) for o in traced.outputs if isinstance(o, torch.fx.Node)]
    constants = Constants({n: t for n, t in traced.buffers.values()})
    each_region(root, lambda r: constants.replace([s for s in r.statements if not isinstance(s.expr, RegionCall)], r.path))
    if problems := number_problems(root):
        raise ImportFailed(problems_text(problems))
    connect(root, outputs)
    inputs = [translator.values[n].value for n in traced.inputs]
    name_apart(inputs)
    model_name, called = snake_case(name or type(module).__name__), functions_called(root)
    if model_name in called:
        model_name += '_model'
    batches = {v.shape[0] for v in inputs if v.shape}
    batch = batches.pop() if len(batches) == 1 else None
    builder = Builder(root, module, called | {model_name})
    blocks = builder.run()
    lines: list[str] = []
    globals_ = {'N', 'T'} | NAMES
    for b in blocks:
        module_of = builder.submodule(Region('', b.path, '', []))
        lines += block_text(b, name_inputs(b, module_of, b.inputs), globals_) + ['']
    text, dims = model_text(model_name, inputs, root.statements, outputs, globals_)
    read = {n for n in [*traced.outputs, *(r for s in traced.steps for r in s.node.meta['reads'].values())] if n in traced.parameters}
    weights = module_weights(module, constants.stored)
    if unwritable := [n for n in weights if re.search(r'[{}\x00-\x1f\x7f]', n)]:
        what = 'a brace or a control character in the name of a parameter: another name'
        raise ImportFailed(f'{unwritable[0]!r}: {what}')
    return Program(model_name, '\n'.join(lines + text) + '\n', inputs, outputs, batch, weights, {traced.parameters[n] for n in read}, dims=dims)


def name_apart(inputs: list[Value]) -> None:
    """The model's inputs get names of the language: those of x and _x in Python are the same."""
    taken: set[str] = set()
    for v in inputs:
        base, k = snake_case(v.hint or 'x'), 2
        v.hint = base
        while v.hint in taken:
            v.hint, k = f'{base}_{k}', k + 1
        taken.add(v.hint)


def output(root: Region, e: Expr) -> Value:
    """A parameter or a constant that is an output is a value of its own."""
    if isinstance(e, Var):
        return e.value
    value = Value(e.shape, e.dtype) if isinstance(e, Param) else Value(e.tensor.shape, torch_ops.dtype_name(e.tensor.dtype))
    root.statements.append(Statement([value], e))
    return value


def translated(module: torch.nn.Module, args: tuple, kwargs: dict, state: dict) -> tuple[Region, Traced, Translator]:
    traced, _ = trace(module, args, kwargs, torch_ops.known_names())
    translator = Translator(traced, state)
    root = tree(traced.steps, type(module).__module__ + '.' + type(module).__qualname__)
    translator.fill(root)
    if translator.problems:
        raise ImportFailed(problems_text(translator.problems))
    return root, traced, translator


def in_evaluation(module: torch.nn.Module, args: tuple, kwargs: dict, state: dict) -> Region:
    """The calls of a module that is in training, as they are in evaluation."""
    modes = [(m, m.training) for m in module.modules()]
    try:
        return translated(module.eval(), args, kwargs, state)[0]
    finally:
        for m, training in modes:
            m.training = training


def each_region(region: Region, f: Callable) -> None:
    f(region)
    for i in region.items:
        if isinstance(i, Region):
            each_region(i, f)


def number_problems(root: Region) -> list[Problem]:
    statements: list[Statement] = []
    each_region(root, lambda r: statements.extend(s for s in r.statements if not isinstance(s.expr, RegionCall)))
    return [Problem(refused[0], s.where or 'an output', refused[1]) for s in statements if (refused := refused_number(s.expr))]


def functions_called(root: Region) -> set:
    """The language's functions that the text calls, and those that modules are often named after: neither a block nor the model may hide them."""
    found = set(RESERVED)
    each_region(root, lambda r: found.update(f for s in r.statements for e in walk(s.expr) for f in functions_in(e)))
    return found


def functions_in(e: Expr) -> tuple:
    return (e.fn,) if isinstance(e, Call) else (e.cell, 'matmul', 'transpose') if isinstance(e, Scan) else ()


def problems_text(problems: list) -> str:
    lines: dict[str, list[str]] = {}
    for p in problems:
        lines.setdefault(f'{p.op}: {p.what}', []).append(p.where)
    return '\n'.join(f'{places[0]}: {what}' + (f' ({len(places)} places)' if len(places) > 1 else '') for what, places in lines.items())


def from_torch(module: torch.nn.Module, example_inputs: Sequence | torch.Tensor, path: str | os.PathLike[str], *, kwargs: dict | None = None, name: str | None = None,
               loss: Any = None, optimizer: torch.optim.Optimizer | None = None,
               scheduler: torch.optim.lr_scheduler.LRScheduler | None = None, targets: Sequence | torch.Tensor | None = None) -> None:
    """Writes `module` to the .nn file `path`, and its weights beside it, as <path without .nn>.safetensors.

    example_inputs: a tensor or a tuple of them, whose shapes the program has; their first axis becomes `dim N`. kwargs: further arguments of forward.
    loss: torch.nn.functional.cross_entropy, mse_loss or another loss that the language has, a functools.partial of it, or its module; with it the train section is written.
    targets: examples of what the data has beside the inputs, with which the loss may be any function of outputs and targets; it becomes a block.
    optimizer: one of torch.optim that the language has; without it that of the scheduler, or SGD(lr=0.01). scheduler: of this optimizer, whose step() is called for each step of it.
    Raises ImportFailed, with a line for each operation that the language does not have, and ValueError for a loss, an optimizer or a scheduler that it does not have; nothing is written then.
    """
    if isinstance(example_inputs, Mapping):
        raise TypeError('example_inputs is a dict: kwargs= for arguments by their names, or a tuple of the one dict that forward takes')
    path = os.fspath(path)
    args = (example_inputs,) if isinstance(example_inputs, torch.Tensor) else tuple(example_inputs)
    program = convert(module, args, kwargs, name)
    stem = path[:-3] if path.endswith('.nn') else path
    head = f'# {os.path.basename(path)}: {type(module).__name__}, from PyTorch; its weights are in {os.path.basename(stem)}.safetensors\n'
    text = head + program.text
    if loss is not None:
        from .training import train_section
        targets = [targets] if isinstance(targets, torch.Tensor) else targets
        text += '\n' + train_section(program, module, loss, optimizer, scheduler, targets)
    write_together({path: lambda to: write_text(to, formatted(text)), stem + '.safetensors': program.save_weights})


def write_text(path: str, text: str) -> None:
    with open(path, 'w', encoding='utf-8') as f:
        f.write(text)


def write_together(files: dict[str, Callable[[str], None]]) -> None:
    """Under names of their own, until all are there: of what fails, on a full disk say, the files of before stay."""
    made = {os.path.realpath(path): f'{os.path.realpath(path)}.{os.getpid()}.tmp' for path in files}
    try:
        for write, path, to in zip(files.values(), made, made.values()):
            if os.path.isdir(path):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
            write(to)
        for path, to in made.items():
            os.replace(to, path)
    finally:
        for to in filter(os.path.exists, made.values()):
            os.remove(to)
