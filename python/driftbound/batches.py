"""Batches of rows: copies of them with rows taken, replaced or appended; and what functions return, row by row."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np

from .arrays import as_array, is_torch_tensor
from .errors import Error

#: Element types whose numbers can be written by value, with the largest finite number of each.
LARGEST = {"F64": float(np.finfo(np.float64).max), "F32": float(np.finfo(np.float32).max), "F16": 65504.0,
           "BF16": 3.3895313892515355e38}

_INTEGERS = {"I64", "I32", "I16", "I8", "U64", "U32", "U16", "U8", "BOOL"}


class Batch:
    """Arrays of numpy, PyTorch or JAX with rows along one axis: one array, or tuples, lists and dicts of arrays.

    A batch is a copy in memory of the CPU. ``build`` makes new arrays like those given, so the caller's never change.
    """

    def __init__(self, given: Any, axis: int):
        self._given = given
        self._arrays = [_Rows(name, value, axis) for name, value in leaves_of(given) if _is_array(name, value)]
        if not self._arrays:
            raise Error("the batch has no array; give arrays of numpy, PyTorch or JAX with rows along an axis")
        first = self._arrays[0]
        for one in self._arrays:
            if one.rows != first.rows:
                raise Error(f"batch{one.name} has {one.rows} rows along axis {axis}, batch{first.name} {first.rows}: "
                            "arrays without rows belong into the function")
        self.rows = first.rows

    @property
    def has_floats(self) -> bool:
        """Whether an array has numbers that can be written by value."""
        return any(one.is_float for one in self._arrays)

    @property
    def has_integers(self) -> bool:
        """Whether an array has integers or truth values."""
        return any(one.is_integer for one in self._arrays)

    def take(self, rows: Sequence[int]) -> Batch:
        """A batch of these rows, in this order."""
        return self._edited(lambda one: np.take(one.data, np.asarray(rows, np.int64), one.axis), len(rows))

    def filled(self, rows: Sequence[int], number: Callable[[str], float]) -> Batch:
        """The batch with ``number(type)`` all over these rows, in arrays of floats."""
        def edit(one: _Rows) -> np.ndarray:
            data = one.data.copy()
            if one.is_float:
                data[one.at(rows)] = _encoded(one.type, number(one.type), data.dtype)
            return data

        return self._edited(edit, self.rows)

    def drawn(self, rows: Sequence[int], random: np.random.Generator) -> Batch:
        """The batch with integers in these rows that are drawn from those that the array has."""
        def edit(one: _Rows) -> np.ndarray:
            data = one.data.copy()
            if one.is_integer:
                values = np.unique(data)
                data[one.at(rows)] = values[random.integers(0, len(values), data[one.at(rows)].shape)]
            return data

        return self._edited(edit, self.rows)

    def with_rows(self, other: Batch, rows: Sequence[int]) -> Batch:
        """The batch with these rows of a batch of the same size."""
        numbers = {id(one): another.data for one, another in zip(self._arrays, other._arrays)}

        def edit(one: _Rows) -> np.ndarray:
            data = one.data.copy()
            data[one.at(rows)] = numbers[id(one)][one.at(rows)]
            return data

        return self._edited(edit, self.rows)

    def nudged(self, random: np.random.Generator) -> Batch:
        """The batch with every float that is not 0 moved by one unit in the last place, up or down at random."""
        def edit(one: _Rows) -> np.ndarray:
            if not one.is_float:
                return one.data.copy()
            bits = one.data.view(f"i{one.data.dtype.itemsize}")
            step = 2 * random.integers(0, 2, bits.shape, dtype=bits.dtype) - 1
            movable = (bits & np.iinfo(bits.dtype).max) > 1
            return np.where(movable, bits + step, bits).astype(bits.dtype).view(one.data.dtype)

        return self._edited(edit, self.rows)

    def build(self) -> Any:
        """New arrays as the function gets them: same framework, device, type and order of axes in memory."""
        built = iter([one.build() for one in self._arrays])
        return _mapped(self._given, lambda value: next(built) if _has_rows(value) else value)

    def _edited(self, edit: Callable[[_Rows], np.ndarray], rows: int) -> Batch:
        batch = object.__new__(Batch)
        batch._given, batch.rows = self._given, rows
        batch._arrays = [one.with_data(edit(one)) for one in self._arrays]
        return batch


class _Rows:
    """One array of a batch. ``data`` are its elements; those of types that numpy lacks are integers with their bits."""

    def __init__(self, name: str, given: Any, axis: int):
        rank = len(given.shape)
        if not -rank <= axis < rank:
            raise Error(f"batch{name} has {rank} axes, so there is no axis {axis} with rows")
        _check_numbers(f"batch{name}", given)
        whole = as_array(given).whole()
        self.name, self.axis, self.type, self._given = name, axis % rank, whole.type, given
        self.data = whole.data.view(np.int16) if whole.type == "BF16" else whole.data

    @property
    def rows(self) -> int:
        return self.data.shape[self.axis]

    @property
    def is_float(self) -> bool:
        return self.type in LARGEST

    @property
    def is_integer(self) -> bool:
        return self.type in _INTEGERS

    def at(self, rows: Sequence[int]) -> tuple:
        return (slice(None),) * self.axis + (np.asarray(rows, np.int64),)

    def with_data(self, data: np.ndarray) -> _Rows:
        other = object.__new__(_Rows)
        other.name, other.axis, other.type, other._given, other.data = (self.name, self.axis, self.type, self._given,
                                                                        np.ascontiguousarray(data))
        return other

    def build(self) -> Any:
        if is_torch_tensor(self._given):
            return self._build_tensor()
        data = self.data.copy()
        if isinstance(self._given, np.ndarray):
            order = np.argsort([-abs(stride) for stride in self._given.strides], kind="stable")
            data = np.ascontiguousarray(data.transpose(order)).transpose(np.argsort(order))
            return data.view(self._given.dtype) if data.dtype != self._given.dtype else data
        return sys.modules["jax"].numpy.asarray(data.view(np.dtype(self._given.dtype)))

    def _build_tensor(self) -> Any:
        torch, given = sys.modules["torch"], self._given
        order = sorted(range(given.dim()), key=lambda axis: -given.stride(axis))
        with torch.no_grad():
            tensor = torch.from_numpy(np.array(self.data.transpose(order), order="C"))
            if tensor.dtype != given.dtype:
                tensor = tensor.view(given.dtype)
            tensor = tensor.permute([order.index(axis) for axis in range(given.dim())]).to(given.device)
        return tensor.requires_grad_(given.requires_grad)


class Outputs:
    """What a function returned: a copy of all arrays with ``rows`` rows along an axis, and the names of the others.

    Raises ``Error`` where no array has that many rows along the axis.
    """

    def __init__(self, returned: Any, axis: int, rows: int):
        self.leaves: list[Leaf] = []
        self.without_rows: list[str] = []
        shapes = []
        for name, value in leaves_of(returned):
            if not (is_torch_tensor(value) or hasattr(value, "__array__")):
                continue
            shape, rank = tuple(value.shape), len(value.shape)
            if -rank <= axis < rank and shape[axis] == rows:
                self.leaves.append(Leaf.of(name or "output", value, axis % rank))
            else:
                self.without_rows.append(name or "output")
                shapes.append(f"{self.without_rows[-1]} of shape {list(shape)}")
        if not self.leaves:
            got = ", ".join(shapes) or f"'{type(returned).__name__}' without arrays"
            raise Error(f"the function returned nothing with {rows} rows along axis {axis} ({got}); name the axis "
                        "of its rows by result_axis")


@dataclass(frozen=True)
class Leaf:
    """One array that a function returned: the bits of its elements, and their numbers; rows first."""

    name: str
    type: str
    bits: np.ndarray
    numbers: np.ndarray

    @staticmethod
    def of(name: str, value: Any, axis: int) -> Leaf:
        _check_numbers(name, value)
        array = as_array(value)
        size = max(1, array.view_of_bytes().nbytes // max(int(np.prod(array.shape)), 1))
        bits = np.frombuffer(bytes(array.view_of_bytes()), np.uint8).reshape(*array.shape, size)
        if is_torch_tensor(value):
            value = value.detach().cpu()
            value = value.to(sys.modules["torch"].complex128) if value.is_complex() else value.double()
            numbers = value.resolve_conj().numpy()
        else:
            numbers = np.asarray(value)
            numbers = numbers.astype(np.complex128 if numbers.dtype.kind == "c" else np.float64)
        return Leaf(name, array.type or str(numbers.dtype), np.moveaxis(bits, axis, 0),
                    np.moveaxis(np.array(numbers), axis, 0))

    def row(self, place: int) -> Leaf:
        """One row alone, copied."""
        return Leaf(self.name, self.type, self.bits[place:place + 1].copy(), self.numbers[place:place + 1].copy())


@dataclass(frozen=True)
class Change:
    """How two arrays differ: NaN is NaN whatever its bits are, other numbers are the same if their bits are."""

    differing: int = 0
    largest: float = 0.0
    not_finite: int = 0  # elements that are NaN or infinite on one side alone, or otherwise so

    def __or__(self, other: Change) -> Change:
        return Change(self.differing + other.differing, max(self.largest, other.largest),
                      self.not_finite + other.not_finite)


def change_of(first: Leaf, second: Leaf, rows_first: Any = slice(None), rows_second: Any = None) -> Change:
    """How rows of one array differ from rows of another one. Raises ``Error`` where their shapes do."""
    rows_second = rows_first if rows_second is None else rows_second
    a, b = first.numbers[rows_first], second.numbers[rows_second]
    if a.shape != b.shape or first.type != second.type:
        raise Error(f"{first.name}: rows of shape {list(a.shape)} ({first.type}) and of shape {list(b.shape)} "
                    f"({second.type}) cannot be compared; the function must return the same shapes and types for "
                    "every batch")
    differ = (first.bits[rows_first] != second.bits[rows_second]).any(-1) & ~(np.isnan(a) & np.isnan(b))
    if not differ.any():
        return Change()
    a, b = a[differ], b[differ]
    finite = np.isfinite(a) & np.isfinite(b)
    apart = np.abs(a[finite] - b[finite])
    return Change(int(differ.sum()), float(apart.max()) if apart.size else 0.0, int((~finite).sum()))


def _is_array(name: str, value: Any) -> bool:
    """Whether this is an array with axes. Raises ``Error`` for one that is of no framework known here."""
    if _has_rows(value):
        return True
    if hasattr(value, "__array__") and len(np.shape(value)) > 0:
        raise Error(f"batch{name} is a '{type(value).__name__}'; give arrays of numpy, PyTorch or JAX")
    return False


def _check_numbers(name: str, value: Any) -> None:
    if not is_torch_tensor(value) and np.asarray(value).dtype.kind in "OSUMm":
        raise Error(f"{name} has elements of type '{np.asarray(value).dtype}', which are no numbers")


def _has_rows(value: Any) -> bool:
    known = isinstance(value, np.ndarray) or is_torch_tensor(value) or type(value).__module__.startswith("jax")
    return known and len(value.shape) > 0


def leaves_of(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Everything in lists, tuples, dicts and dataclasses, with names such as ``['logits'][0]``."""
    if isinstance(value, Mapping):
        for key, one in value.items():
            yield from leaves_of(one, f"{name}[{key!r}]")
    elif isinstance(value, (list, tuple)):
        for place, one in enumerate(value):
            yield from leaves_of(one, f"{name}[{place}]")
    elif is_dataclass(value) and not isinstance(value, type):
        for one in fields(value):
            yield from leaves_of(getattr(value, one.name), f"{name}.{one.name}")
    else:
        yield name, value


def _mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(value, Mapping):
        changed: Any = copy.copy(value)
        for key, one in value.items():
            changed[key] = _mapped(one, change)
        return changed
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_mapped(one, change) for one in value))
    if isinstance(value, (list, tuple)):
        return type(value)(_mapped(one, change) for one in value)
    return change(value)


def _encoded(element_type: str, number: float, dtype: np.dtype) -> Any:
    """A number in an array of this type; bfloat16 are the upper 16 bits of float32."""
    if element_type == "BF16":
        return np.array(number, np.float32).view(np.uint32).__rshift__(16).astype(np.uint16).view(np.int16)
    return dtype.type(number)
