"""Compiled models as libraries: training steps, evaluation and prediction from Python.

    net = nnc.compile("model.nn", memory_budget="512MiB", N=64)   # or nnc.load("libmodel.so")
    loss = net.step(image=images, label=labels)["loss"]
    scores = net.predict(image=images)
    net.save("model.safetensors")

Arrays are those of numpy, or anything with DLPack (torch, jax, cupy on the host). docs/library.md says what is promised.
"""
from __future__ import annotations

import ctypes
import dataclasses
import enum
import fnmatch
import os
import shutil
import subprocess
import tempfile
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

__all__ = ['Error', 'Info', 'Net', 'Status', 'Tensor', 'compile', 'load']


class Status(enum.IntEnum):
    """What went wrong, as `nnc_status` of the header."""
    OK = 0
    ARGUMENT = 1
    BUSY = 2
    BROKEN = 3
    NAME = 4
    TYPE = 5
    SHAPE = 6
    VALUE = 7
    FUNCTION = 8
    DATA = 9
    FILE = 10
    NOT_FINITE = 11
    MEMORY = 12
    MACHINE = 13
    DEVICE = 14
    INTERNAL = 15


class Error(RuntimeError):
    """A call that failed; `status` says how, the text says why."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message or Status(status).name)
        self.status = Status(status)


_TYPES = ['f32', 'f64', 'bf16', 'f16', 'i32', 'i64', 'u8', 'bool']   # in the order of nnc_type
_NUMPY = {'f32': '<f4', 'f64': '<f8', 'f16': '<f2', 'i32': '<i4', 'i64': '<i8', 'u8': '|u1', 'bool': '|b1'}
_TYPE_OF = {text: _TYPES.index(name) for name, text in _NUMPY.items()}   # of an array's typestr
_ROLES = ['input', 'parameter', 'state', 'optimizer', 'loss', 'metric', 'output', 'value']
_MAX_DIM = 8
_FUNCTIONS = {'train': 1, 'evaluate': 2, 'predict': 4}

# ---------------------------------------------------------------------------------------------------------------------
# The header's structs


class _Tensor(ctypes.Structure):
    _fields_ = [('name', ctypes.c_char_p), ('role', ctypes.c_int), ('type', ctypes.c_int), ('rank', ctypes.c_int32),
                ('dim', ctypes.c_int64 * _MAX_DIM), ('bytes', ctypes.c_int64), ('data', ctypes.c_void_p)]


_Report = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p)


class _Options(ctypes.Structure):
    _fields_ = [('functions', ctypes.c_int32), ('threads', ctypes.c_int32), ('device', ctypes.c_int32),
                ('seed', ctypes.POINTER(ctypes.c_int64)), ('memory', ctypes.c_int64), ('steps', ctypes.c_int64),
                ('weights', ctypes.c_char_p), ('checkpoint', ctypes.c_char_p), ('data', ctypes.c_char_p),
                ('far', ctypes.c_char_p), ('report', _Report), ('context', ctypes.c_void_p)]


class _Info(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int64) for name in ('arena_bytes', 'far_bytes', 'data_bytes', 'host_bytes', 'batch',
                                                    'step_records', 'output_rows', 'tensors', 'step')]
    _fields_ += [('threads', ctypes.c_int32), ('functions', ctypes.c_int32)]


def _function(*arguments: Any) -> Any:
    return ctypes.CFUNCTYPE(ctypes.c_int, *arguments)


_P, _S, _T = ctypes.c_void_p, ctypes.c_char_p, ctypes.POINTER(_Tensor)


class _Model(ctypes.Structure):
    _fields_ = [('interface', ctypes.c_int32), ('name', _S), ('source', _S), ('compiler', _S), ('target', _S),
                ('create', _function(ctypes.POINTER(_Options), ctypes.POINTER(_P), _S, ctypes.c_size_t)),
                ('destroy', ctypes.CFUNCTYPE(None, _P)),
                ('last_error', ctypes.CFUNCTYPE(_S, _P)),
                ('info', _function(_P, ctypes.POINTER(_Info))),
                ('describe', _function(_P, ctypes.c_int64, _T)),
                ('find', _function(_P, _S, _T)),
                ('get', _function(_P, _T)),
                ('set', _function(_P, _T)),
                ('step', _function(_P, ctypes.c_int, _T)),
                ('step_values', _function(_P, ctypes.c_int, _T, ctypes.c_int, _T)),
                ('begin_text', _function(_P)),
                ('evaluate', _function(_P, ctypes.c_int, _T)),
                ('predict', _function(_P, ctypes.c_int, _T, ctypes.c_int, _T)),
                ('save', _function(_P, _S, ctypes.c_int)),
                ('load', _function(_P, _S, ctypes.c_int)),
                ('get_number', _function(_P, _S, ctypes.POINTER(ctypes.c_double))),
                ('set_number', _function(_P, _S, ctypes.c_double)),
                ('output_shape', _function(_P, ctypes.c_int, _T, _T))]


_INTERFACE = 3

# ---------------------------------------------------------------------------------------------------------------------
# Arrays of others, by DLPack: the place, type, shape and strides of a tensor in a capsule


class _DLTensor(ctypes.Structure):
    _fields_ = [('data', ctypes.c_void_p), ('device_type', ctypes.c_int32), ('device_id', ctypes.c_int32),
                ('ndim', ctypes.c_int32), ('code', ctypes.c_uint8), ('bits', ctypes.c_uint8),
                ('lanes', ctypes.c_uint16), ('shape', ctypes.POINTER(ctypes.c_int64)),
                ('strides', ctypes.POINTER(ctypes.c_int64)), ('byte_offset', ctypes.c_uint64)]


_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype, _capsule_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
_DL_TYPES = {(2, 32): 0, (2, 64): 1, (4, 16): 2, (2, 16): 3, (0, 32): 4, (0, 64): 5, (1, 8): 6, (6, 8): 7}


def _fill_from_dlpack(t: _Tensor, value: Any) -> Any:
    """Fills `t`; returns what must live as long as it is used. None: not on the host, or not row-major."""
    detach = getattr(value, 'detach', None)   # torch gives no capsule of what needs a gradient
    capsule = (detach() if detach else value).__dlpack__()
    d = _DLTensor.from_address(_capsule_pointer(capsule, b'dltensor'))
    kind = _DL_TYPES.get((d.code, d.bits))
    if d.device_type not in (1, 3) or d.lanes != 1 or kind is None or d.ndim > _MAX_DIM:
        return None
    expected = 1
    for i in range(d.ndim - 1, -1, -1):
        if d.strides and d.shape[i] != 1 and d.strides[i] != expected:
            return None
        expected *= d.shape[i]
    t.type, t.rank, t.data, t.bytes = kind, d.ndim, (d.data or 0) + d.byte_offset, expected * d.bits // 8
    t.dim[:d.ndim] = d.shape[:d.ndim]
    return capsule


def _fill_from_array(t: _Tensor, array: np.ndarray) -> Any:
    interface = array.__array_interface__
    kind = _TYPE_OF.get(interface['typestr'])
    if kind is None:
        if np.can_cast(array.dtype, 'i8'):   # integers of other widths
            return _fill_from_array(t, array.astype('i8'))
        raise TypeError(f'{t.name.decode()}: no type of nnc for arrays of {array.dtype}')
    if interface['strides'] is not None:
        return _fill_from_array(t, np.ascontiguousarray(array))
    shape = interface['shape']
    t.type, t.rank, t.data, t.bytes = kind, len(shape), interface['data'][0], array.nbytes
    t.dim[:len(shape)] = shape
    return array


def _fill(t: _Tensor, value: Any) -> Any:
    """Fills `t` with the place, type and shape of an array; returns what must live as long as it is used."""
    if isinstance(value, np.ndarray):
        return _fill_from_array(t, value)
    if hasattr(value, '__dlpack__'):
        detach, contiguous = getattr(value, 'detach', None), getattr(value, 'contiguous', None)
        try:
            kept = _fill_from_dlpack(t, value)
            if kept is None and contiguous:   # torch: of other strides
                kept = _fill_from_dlpack(t, contiguous())
            if kept is not None:
                return kept
            value = np.from_dlpack(detach() if detach else value)
        except (BufferError, RuntimeError, TypeError, ValueError) as error:
            raise TypeError(f'{t.name.decode()}: no array on the host: {error}') from None
    return _fill_from_array(t, np.asarray(value))


# ---------------------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Tensor:
    """A tensor of a model: `role` is input, parameter, state, optimizer, loss, metric or output."""
    name: str
    role: str
    dtype: str
    shape: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Info:
    """What an instance is and takes, in bytes and records."""
    arena_bytes: int
    far_bytes: int
    data_bytes: int
    host_bytes: int
    batch: int
    step_records: int
    output_rows: int
    step: int
    threads: int


class _Instance:
    """Owns the instance in C, for the net and for views of its memory: the last of them destroys it."""

    def __init__(self, model: _Model, pointer: int, kept: Any) -> None:
        self.model, self.pointer, self.kept = model, pointer, kept
        self.destroy = model.destroy

    def __del__(self) -> None:
        self.destroy(self.pointer)


def _numbers_of_kind(described: Mapping[str, _Tensor], roles: Sequence[str]) -> dict[str, ctypes.c_double]:
    wanted = [_ROLES.index(role) for role in roles]
    return {name: ctypes.c_double.from_address(t.data) for name, t in described.items() if t.role in wanted}


class Net:
    """An instance of a compiled model: parameters, optimizer state, and the memory of a step. Made by `load` and
    `compile`. One thread at a time may use it; calls give way to other threads of Python meanwhile.

    `net["linear.weight"]` is the tensor of that name, a view of the memory where it lies row-major on the host, else a
    copy; `net["linear.weight"] = array` sets it.
    """

    def __init__(self, model: _Model, pointer: int, kept: Any) -> None:
        self._instance = _Instance(model, pointer, kept)
        self._pointer = ctypes.c_void_p(pointer)
        self._model = model
        self._described: dict[str, _Tensor] = {}
        self._values: dict[str, _Tensor] = {}   # of a step: they may have the names of outputs
        number = self._read_info().tensors
        for i in range(number):
            t = _Tensor()
            self._check(model.describe(pointer, i, t))
            # of inputs of one name that models have in several shapes the first, as `find`
            (self._values if _ROLES[t.role] == 'value' else self._described).setdefault(t.name.decode(), t)
        self._results = _numbers_of_kind(self._described, ('loss', 'metric'))
        self._inputs = threading.local()   # C structs of inputs by their names: C reads another thread's meanwhile
        self._step, self._evaluate = model.step, model.evaluate

    # -- what it is

    @property
    def name(self) -> str:
        """The model's name."""
        return self._model.name.decode()

    @property
    def info(self) -> Info:
        """Memory, batch, steps done."""
        i = self._read_info()
        return Info(**{f.name: getattr(i, f.name) for f in dataclasses.fields(Info)})

    @property
    def tensors(self) -> dict[str, Tensor]:
        """All tensors that the model has, by name."""
        return {name: Tensor(name, _ROLES[t.role], _TYPES[t.type], tuple(t.dim[:t.rank]))
                for name, t in self._described.items()}

    def _read_info(self) -> _Info:
        info = _Info()
        self._check(self._model.info(self._pointer, info))
        return info

    def _check(self, status: int) -> None:
        if status:
            raise Error(status, (self._model.last_error(self._pointer) or b'').decode(errors='replace'))

    # -- what it computes

    def _given(self, inputs: Mapping[str, Any]) -> tuple[Any, list[Any]]:
        names = tuple(inputs)
        known = self._inputs.__dict__   # of this thread
        structs = known.get(names)
        if structs is None:
            structs = known[names] = (_Tensor * len(names))()
            for t, name in zip(structs, names):
                t.name = name.encode()
        return structs, [_fill(t, value) for t, value in zip(structs, inputs.values())]

    def _measured(self) -> dict[str, float]:
        return {name: number.value for name, number in self._results.items()}

    def step(self, inputs: Mapping[str, Any] | None = None, /, **named: Any) -> dict[str, float]:
        """One training step on a batch, by the names of the inputs; without any on the next batch of the program's own
        data (`data=` of `load`). Returns losses and metrics; those of a phase whose turn it was not are NaN."""
        given = {**inputs, **named} if inputs else named
        structs, kept = self._given(given) if given else (None, None)
        status = self._step(self._pointer, len(given), structs)
        if status:
            self._check(status)
        return self._measured()

    @property
    def values(self) -> dict[str, Tensor]:
        """What `step_values` can be asked for, by name: outputs, `output.net` say, and gradients, `grad.linear.weight`."""
        return {name: Tensor(name, 'value', _TYPES[t.type], tuple(t.dim[:t.rank])) for name, t in self._values.items()}

    def step_values(self, wanted: str | Sequence[str], inputs: Mapping[str, Any] | None = None, /,
                    **named: Any) -> tuple[dict[str, float], dict[str, np.ndarray]]:
        """`step`, and what it computes on the way: its losses and metrics, and arrays of the values that are `wanted`, by
        names or patterns as `grad.*`. Gradients are those before clipping. NaN and zeros stand for what a phase computes
        whose turn it was not."""
        patterns = [wanted] if isinstance(wanted, str) else list(wanted)
        names = [name for name in self._values if any(fnmatch.fnmatchcase(name, p) for p in patterns)]
        for p in patterns:
            if not any(fnmatch.fnmatchcase(name, p) for name in names):
                raise KeyError(f'a step has no value {p}; values tells which there are')
        given = {**inputs, **named} if inputs else named
        structs, kept = self._given(given) if given else (None, None)
        made, to = {}, (_Tensor * len(names))()
        for t, name in zip(to, names):
            made[name] = self._empty(self._values[name])
            t.name = name.encode()
            _fill(t, made[name])
        self._check(self._model.step_values(self._pointer, len(given), structs, len(to), to))
        return self._measured(), made

    @staticmethod
    def _empty(t: _Tensor) -> np.ndarray:
        array = np.empty(tuple(t.dim[:t.rank]), _NUMPY.get(_TYPES[t.type], '<f4'))
        array.fill(np.nan if array.dtype.kind == 'f' else 0)
        return array

    def begin_text(self) -> None:
        """States that go on with a text (`continued=true`) have their initial values again."""
        self._check(self._model.begin_text(self._pointer))

    def evaluate(self, inputs: Mapping[str, Any] | None = None, /, **named: Any) -> dict[str, float]:
        """Losses and metrics of a batch in eval mode; without inputs of all of the program's eval data."""
        given = {**inputs, **named} if inputs else named
        structs, kept = self._given(given) if given else (None, None)
        self._check(self._evaluate(self._pointer, len(given), structs))
        return self._measured()

    def predict(self, inputs: Mapping[str, Any] | None = None, /, *, model: str | None = None, **named: Any) -> Any:
        """A model's outputs for any number of records: an array, or with several outputs a dict of them. `model`: another
        one of the file than that which training calls first."""
        given = {**inputs, **named} if inputs else named
        structs, kept = self._given(given)
        whole = f'output.{model or self.name}'
        outputs = [name for name, t in self._described.items()
                   if _ROLES[t.role] == 'output' and (name == whole or name.startswith(whole + '.'))]
        if not outputs:
            raise KeyError(f'no model {model or self.name} that predicts')
        made, to = {}, (_Tensor * len(outputs))()
        for t, name in zip(to, outputs):
            t.name = name.encode()
            self._check(self._model.output_shape(self._pointer, len(structs), structs, t))
            made[name] = np.empty(tuple(t.dim[:t.rank]), _NUMPY.get(_TYPES[t.type], '<f4'))
            _fill(t, made[name])
        self._check(self._model.predict(self._pointer, len(structs), structs, len(to), to))
        return next(iter(made.values())) if len(made) == 1 else made

    # -- tensors

    def _find(self, name: str) -> _Tensor:
        t = self._described.get(name)
        if t is None:
            raise KeyError(name)
        return t

    def __getitem__(self, name: str) -> np.ndarray:
        t = self._find(name)
        kind, shape = _TYPES[t.type], tuple(t.dim[:t.rank])
        if t.data and kind in _NUMPY:
            memory = (ctypes.c_char * t.bytes).from_address(t.data)
            memory._instance = self._instance   # lives as long as the view
            return np.frombuffer(memory, _NUMPY[kind]).reshape(shape)
        return self._read(name, t)

    def _read(self, name: str, t: _Tensor) -> np.ndarray:
        array = np.empty(tuple(t.dim[:t.rank]), _NUMPY.get(_TYPES[t.type], '<f4'))
        to = _Tensor(name=name.encode())
        _fill(to, array)
        self._check(self._model.get(self._pointer, to))
        return array

    def __setitem__(self, name: str, value: Any) -> None:
        self._find(name)
        t = _Tensor(name=name.encode())
        kept = _fill(t, value)
        self._check(self._model.set(self._pointer, t))
        del kept

    def __contains__(self, name: str) -> bool:
        return name in self._described

    def __iter__(self) -> Iterator[str]:
        return iter(self._described)

    def _of_role(self, role: str) -> dict[str, np.ndarray]:
        return {name: self[name] for name, t in self._described.items() if _ROLES[t.role] == role}

    def parameters(self) -> dict[str, np.ndarray]:
        """What is trained, by name: views of the memory where possible, as `net[name]`."""
        return self._of_role('parameter')

    def states(self) -> dict[str, np.ndarray]:
        """What steps update and do not train, such as running statistics."""
        return self._of_role('state')

    def state_dict(self) -> dict[str, np.ndarray]:
        """Copies of parameters and states, by name."""
        return {name: np.array(value) for name, value in {**self.parameters(), **self.states()}.items()}

    def load_state_dict(self, values: Mapping[str, Any]) -> None:
        """Sets all parameters and states, which must all be there, from arrays or tensors."""
        wanted = [name for name, t in self._described.items() if _ROLES[t.role] in ('parameter', 'state')]
        missing, others = [n for n in wanted if n not in values], [n for n in values if n not in wanted]
        if missing or others:
            raise KeyError(f'missing: {", ".join(missing) or "none"}; not in the model: {", ".join(others) or "none"}')
        for name in wanted:
            self[name] = values[name]

    # -- files and numbers

    def save(self, path: str | os.PathLike[str], *, weights: bool = False) -> None:
        """Writes a checkpoint, from which training goes on, or the parameters and states alone, as safetensors."""
        self._check(self._model.save(self._pointer, os.fsencode(path), 0 if weights else 1))

    def load(self, path: str | os.PathLike[str], *, weights: bool = False) -> None:
        """Reads what `save` or the executable has written."""
        self._check(self._model.load(self._pointer, os.fsencode(path), 0 if weights else 1))

    def _get_number(self, name: bytes) -> float:
        value = ctypes.c_double()
        self._check(self._model.get_number(self._pointer, name, value))
        return value.value

    def _set_number(self, name: bytes, value: float) -> None:
        self._check(self._model.set_number(self._pointer, name, value))

    @property
    def learning_rate(self) -> float:
        """Of the next step, of the first parameter group. Set it for the steps to come; None: as the program says."""
        return self._get_number(b'learning_rate')

    @learning_rate.setter
    def learning_rate(self, value: float | None) -> None:
        self._set_number(b'learning_rate', float('nan') if value is None else value)

    @property
    def steps_done(self) -> int:
        """On which schedule, bias correction and random draws depend."""
        return int(self._get_number(b'step'))

    @steps_done.setter
    def steps_done(self, value: int) -> None:
        self._set_number(b'step', value)

    @property
    def total_steps(self) -> int:
        """Of the schedule."""
        return int(self._get_number(b'steps'))

    @total_steps.setter
    def total_steps(self, value: int) -> None:
        self._set_number(b'steps', value)

    @property
    def seed(self) -> int:
        """Of random draws."""
        return int(self._get_number(b'seed'))

    @seed.setter
    def seed(self, value: int) -> None:
        self._set_number(b'seed', value)

    # -- the end

    def close(self) -> None:
        """Gives the memory back, once no view of it is left; else that happens when the net is forgotten."""
        self._pointer = ctypes.c_void_p()
        self._described, self._values, self._results = {}, {}, {}
        self.__dict__.pop('_instance', None)

    def __enter__(self) -> Net:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError('a Net is memory of a library and cannot be copied or pickled: save and load, or state_dict()')

    def __repr__(self) -> str:
        return f'<nnc.Net {self.name} of {self._model.source.decode()}>'


# ---------------------------------------------------------------------------------------------------------------------


def _hear(_context: Any, is_error: int, message: bytes) -> None:
    if not is_error:
        warnings.warn(message.decode(errors='replace'), stacklevel=3)


_heard = _Report(_hear)


def load(path: str | os.PathLike[str], *, threads: int = 0, device: int = 0, seed: int | None = None,
         weights: str | os.PathLike[str] | None = None, checkpoint: str | os.PathLike[str] | None = None,
         data: str | os.PathLike[str] | bool | None = None, steps: int = 0, memory: int = 0,
         far: str | os.PathLike[str] | None = None, functions: Sequence[str] = ()) -> Net:
    """An instance of the library at `path`. All memory is taken here.

    threads: 0 is OpenMP's number. seed: of initial values and draws, None is the program's. weights: parameters and
    states to begin with; checkpoint: an earlier run goes on. data: folder of the program's own data, True where the
    executable looks; None: it is not read. steps: on which the schedule depends. memory: bytes that it may take, 0 is no
    limit. far: folder or file of the far arena. functions: which of train, evaluate, predict; all that there are if
    empty.
    """
    # What the executable sets, too: threads that wait do not use up what others need. OpenMP reads it when it is loaded.
    if 'OMP_WAIT_POLICY' not in os.environ:
        os.environ.setdefault('GOMP_SPINCOUNT', '1000')
    os.stat(path)   # the error names it
    with tempfile.TemporaryDirectory(prefix='nnc-') as folder:   # by a name once loaded the linker gives the old library
        link = os.path.join(folder, os.path.basename(os.fspath(path)))
        os.symlink(os.path.abspath(os.fspath(path)), link)
        try:
            library = ctypes.CDLL(link)
        except OSError as error:
            what = 'a text, to be compiled first: nnc.compile' if link.endswith('.nn') else str(error).replace(f'{link}: ', '')
            raise OSError(f'{os.fspath(path)}: {what}') from None
    model = _Model.in_dll(library, 'nnc_library_model')
    if model.interface != _INTERFACE:
        raise Error(Status.ARGUMENT, f'{path} has interface {model.interface}, this package knows {_INTERFACE}: compile '
                                     'it with the nnc of this package')
    unknown = [f for f in functions if f not in _FUNCTIONS]
    if unknown:
        raise ValueError(f'functions: {unknown[0]!r} is none of {", ".join(_FUNCTIONS)}')
    if seed is not None and not 0 <= seed < 2 ** 63:
        raise ValueError(f'seed {seed}: from 0 to 2**63 - 1')
    o = _Options(functions=sum(_FUNCTIONS[f] for f in set(functions)), threads=threads, device=device, steps=steps,
                 memory=memory, report=_heard)
    if seed is not None:
        o.seed = ctypes.pointer(ctypes.c_int64(seed))
    o.weights = os.fsencode(weights) if weights is not None else None
    o.checkpoint = os.fsencode(checkpoint) if checkpoint is not None else None
    o.data = b'' if data is True else os.fsencode(data) if data else None
    o.far = os.fsencode(far) if far is not None else None
    pointer, message = ctypes.c_void_p(), ctypes.create_string_buffer(4096)
    status = model.create(o, pointer, message, len(message))
    if status:
        raise Error(status, message.value.decode(errors='replace'))
    return Net(model, pointer.value or 0, library)


def compile(model: str | os.PathLike[str], *, output: str | os.PathLike[str] | None = None,
            memory_budget: str | None = None, dtype: str | None = None, target: str | None = None,
            arguments: Sequence[str] = (), compiler: str | None = None,
            options: Mapping[str, Any] | None = None, **dims: Any) -> Net:
    """Compiles a .nn file with nnc and loads the result.

    dims: values of its `dim`s and `let`s (-D). memory_budget, dtype, target, arguments: as nnc has them. output: the
    library's file; without one it is gone with the net. compiler: the nnc to run; else $NNC, or the one in PATH.
    options: for `load`.
    """
    nnc = compiler or os.environ.get('NNC') or shutil.which('nnc')
    if not nnc:
        raise FileNotFoundError('no nnc in PATH: name it with compiler= or in the variable NNC')
    with tempfile.TemporaryDirectory(prefix='nnc-') as folder:   # a library that is loaded needs no file any more
        path = os.fspath(output) if output is not None else os.path.join(folder, 'libmodel.so')
        command = [nnc, os.fspath(model), '--emit=library', '-o', path, *arguments]
        for name, value in dims.items():
            command += ['-D', f'{name}={str(value).lower() if isinstance(value, bool) else value}']
        for name, value in (('memory-budget', memory_budget), ('dtype', dtype), ('target', target)):
            if value is not None:
                command.append(f'--{name}={value}')
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise Error(Status.ARGUMENT, done.stderr.strip())
        return load(path, **(options or {}))
