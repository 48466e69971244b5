"""Primitives of JAX that are several ops of PyTorch, or ops whose arguments follow from the numbers of operands.

What is here knows of JAX only the names and the parameters of its primitives, and computes on arrays of numpy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass
class Step:
    """One record. Operands and results are places among the arrays of ``Steps``; ``None``: left out."""

    op: str
    operands: list[int | None]
    results: list[int]
    attributes: dict[str, Any]
    moves: bool  #: it only moves elements: its results are derived, not stored


class NotTranslated(Exception):
    """No steps are known that mean the same."""


class Steps:
    """Records that an equation becomes. ``arrays``: its operands, its results, and what lies between."""

    def __init__(self, operands: Sequence[Any], results: Sequence[Any]):
        self.arrays = [np.asarray(array) for array in (*operands, *results)]
        self.steps: list[Step] = []
        self._operands = len(operands)
        self._given = len(self.arrays)

    def operand(self, index: int) -> np.ndarray:
        return self.arrays[index]

    def result(self, index: int = 0) -> np.ndarray:
        return self.arrays[self._operands + index]

    def place_of_result(self, index: int = 0) -> int:
        return self._operands + index

    def between(self, array: np.ndarray) -> int:
        """A place for an array that the equation does not name."""
        self.arrays.append(array)
        return len(self.arrays) - 1

    def call(self, op: str, operands: list[int | None], result: int, **attributes: Any) -> None:
        """A record whose result is stored, so that it is judged."""
        self.steps.append(Step(op, operands, [result], attributes, False))

    def move(self, op: str, operands: list[int], array: np.ndarray, **attributes: Any) -> int:
        """A record whose result is derived. ``array``: what it is."""
        result = self.between(array)
        self.steps.append(Step(op, list(operands), [result], attributes, True))
        return result

    def becomes(self, place: int, index: int = 0) -> None:
        """Says that a moved value is a result of the equation. They must be the same bit for bit: nothing else will
        compare them, since a derived value is not stored."""
        if place < self._given:
            place = self.move("aten::alias", [place], self.arrays[place])
        if not _are_same(self.arrays[place], self.result(index)):
            raise NotTranslated
        for step in self.steps:
            step.results = [self.place_of_result(index) if one == place else one for one in step.results]

    # ---- moves; one that does nothing is left out ---------------------------------------------------------------

    def permuted(self, place: int, dims: Sequence[int]) -> int:
        dims = [int(dim) for dim in dims]
        if dims == sorted(dims):
            return place
        return self.move("aten::permute", [place], self.arrays[place].transpose(dims), dims=dims)

    def viewed(self, place: int, size: Sequence[int]) -> int:
        size = [int(extent) for extent in size]
        if size == list(self.arrays[place].shape):
            return place
        return self.move("aten::view", [place], self.arrays[place].reshape(size), size=size)

    def flipped(self, place: int, dims: Sequence[int]) -> int:
        dims = [int(dim) for dim in dims]
        return self.move("aten::flip", [place], np.flip(self.arrays[place], dims), dims=dims) if dims else place

    def cut(self, place: int, dim: int, start: int, end: int, step: int = 1) -> int:
        """The elements start, start + step … below end along an axis."""
        if (start, end, step) == (0, self.arrays[place].shape[dim], 1):
            return place
        taken = self.arrays[place][(slice(None),) * dim + (slice(start, end, step),)]
        return self.move("aten::slice", [place], taken, dim=dim, start=start, end=end, step=step)

    def joined(self, places: Sequence[int], dim: int) -> int:
        """Arrays along an axis; those without elements are left out."""
        kept = [place for place in places if self.arrays[place].size] or list(places[:1])
        if len(kept) == 1:
            return kept[0]
        return self.move("aten::cat", kept, np.concatenate([self.arrays[place] for place in kept], dim), dim=dim)

    def padded(self, place: int, pads: Sequence[tuple[int, int]]) -> int:
        """With zeros before and after; what is negative takes elements away."""
        more = [(max(low, 0), max(high, 0)) for low, high in pads]
        if any(pair != (0, 0) for pair in more):
            filled = np.pad(self.arrays[place], more)
            place = self.move("aten::constant_pad_nd", [place], filled, pad=_from_the_last(more), value=0.0)
        for dim, (low, high) in enumerate(pads):
            place = self.cut(place, dim, max(-low, 0), self.arrays[place].shape[dim] - max(-high, 0))
        return place

    def dilated(self, place: int, dim: int, factor: int) -> int:
        """With factor - 1 zeros between any two elements of an axis."""
        shape = list(self.arrays[place].shape)
        extent = shape[dim]
        if factor == 1 or extent == 0:
            return place
        place = self.viewed(place, [*shape[: dim + 1], 1, *shape[dim + 1 :]])
        place = self.padded(place, [(0, factor - 1 if axis == dim + 1 else 0) for axis in range(len(shape) + 1)])
        place = self.viewed(place, [*shape[:dim], extent * factor, *shape[dim + 1 :]])
        return self.cut(place, dim, 0, (extent - 1) * factor + 1)


def steps_of(name: str, params: dict, operands: Sequence[Any], results: Sequence[Any]) -> Steps | None:
    """The records of an equation, from the numbers of its operands and results; ``None``: none are known."""
    rule = _RULES.get(name)
    if rule is None:
        return None
    steps = Steps(operands, results)
    try:
        rule(steps, params)
    except (NotTranslated, KeyError, AttributeError):  # other versions of JAX may name parameters otherwise
        return None
    return steps


def _require(condition: bool) -> None:
    if not condition:
        raise NotTranslated


def _are_same(a: np.ndarray, b: np.ndarray) -> bool:
    return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()


def _from_the_last(pads: Sequence[tuple[int, int]]) -> list[int]:
    """Pads as PyTorch has them: the last axis first."""
    return [number for pair in reversed(pads) for number in pair]


# ---- convolutions ---------------------------------------------------------------------------------------------------


def _convolution(steps: Steps, params: dict) -> None:
    images, filters, outcome = (tuple(spec) for spec in params["dimension_numbers"])
    axes = len(images) - 2
    _require(axes >= 1 and params.get("batch_group_count", 1) == 1)
    strides, dilations = list(params["window_strides"]), list(params["rhs_dilation"])
    groups = int(params["feature_group_count"])
    pads = [(int(low), int(high)) for low, high in params["padding"]]
    x, w = steps.permuted(0, images), steps.permuted(1, filters)
    spread = [int(factor) for factor in params["lhs_dilation"]]
    attributes = {"stride": strides, "padding": [0] * axes, "dilation": dilations, "transposed": False,
                  "output_padding": [0] * axes, "groups": groups}
    if any(factor != 1 for factor in spread):
        reach = [d * (k - 1) for d, k in zip(dilations, steps.arrays[w].shape[2:])]
        if _is_transposed(strides, spread, dilations, pads, reach):
            w = _transposed_filters(steps, w, groups)
            attributes.update(stride=spread, transposed=True, padding=[r - low for r, (low, _) in zip(reach, pads)],
                              output_padding=[high - low for low, high in pads])
            pads = [(0, 0)] * axes
        else:
            for axis, factor in enumerate(spread):
                x = steps.dilated(x, axis + 2, factor)
    if all(low == high >= 0 for low, high in pads):
        attributes["padding"] = [a or low for a, (low, _) in zip(attributes["padding"], pads)]
    else:
        x = steps.padded(x, [(0, 0), (0, 0), *pads])
    back = [outcome.index(axis) for axis in range(axes + 2)]
    if back == sorted(back):
        steps.call("aten::convolution", [x, w, None], steps.place_of_result(), **attributes)
        return
    computed = steps.between(steps.result().transpose(outcome))
    steps.call("aten::convolution", [x, w, None], computed, **attributes)
    steps.becomes(steps.permuted(computed, back))


def _is_transposed(strides: list[int], spread: list[int], dilations: list[int], pads: list[tuple[int, int]],
                   reach: list[int]) -> bool:
    """Whether a convolution of spread images is one of PyTorch's transposed convolutions."""
    return all(stride == 1 and 0 <= low <= most and 0 <= high - low < max(factor, dilation)
               for stride, factor, dilation, (low, high), most in zip(strides, spread, dilations, pads, reach))


def _transposed_filters(steps: Steps, w: int, groups: int) -> int:
    """Filters [G O, I, …] as a transposed convolution has them, [G I, O, …] and in reverse."""
    out, inner, *window = steps.arrays[w].shape
    if groups == 1:
        w = steps.permuted(w, [1, 0, *range(2, len(window) + 2)])
    else:
        w = steps.viewed(w, [groups, out // groups, inner, *window])
        w = steps.permuted(w, [0, 2, 1, *range(3, len(window) + 3)])
        w = steps.viewed(w, [groups * inner, out // groups, *window])
    return steps.flipped(w, range(2, len(window) + 2))


# ---- slices ---------------------------------------------------------------------------------------------------------


def _slice(steps: Steps, params: dict) -> None:
    place, starts = 0, params["start_indices"]
    strides = params.get("strides") or [1] * len(starts)
    for dim, (start, end, step) in enumerate(zip(starts, params["limit_indices"], strides)):
        place = steps.cut(place, dim, int(start), int(end), int(step))
    steps.becomes(place)


def _clamped_starts(steps: Steps, first: int, sizes: Sequence[int]) -> list[int]:
    """Starts are operands, moved to where all of the part lies inside."""
    shape = steps.operand(0).shape
    return [min(max(int(steps.operand(first + dim)), 0), shape[dim] - int(size)) for dim, size in enumerate(sizes)]


def _dynamic_slice(steps: Steps, params: dict) -> None:
    place, sizes = 0, params["slice_sizes"]
    for dim, (start, size) in enumerate(zip(_clamped_starts(steps, 1, sizes), sizes)):
        place = steps.cut(place, dim, start, start + int(size))
    steps.becomes(place)


def _dynamic_update_slice(steps: Steps, params: dict) -> None:
    sizes = steps.operand(1).shape
    if 0 in sizes:
        steps.becomes(0)
        return
    starts = _clamped_starts(steps, 2, sizes)
    steps.becomes(_written_over(steps, 0, list(enumerate(zip(starts, sizes)))))


def _written_over(steps: Steps, place: int, parts: list[tuple[int, tuple[int, int]]]) -> int:
    """The first operand with the second one in the place of a part: what is before it, it, and what is after it."""
    parts = [part for part in parts if part[1] != (0, steps.arrays[place].shape[part[0]])]
    if not parts:
        return 1
    (dim, (start, size)), *others = parts
    extent = steps.arrays[place].shape[dim]
    middle = _written_over(steps, steps.cut(place, dim, start, start + size) if others else place, others)
    pieces = [steps.cut(place, dim, 0, start)] if start > 0 else []
    pieces.append(middle)
    if start + size < extent:
        pieces.append(steps.cut(place, dim, start + size, extent))
    return steps.joined(pieces, dim)


def _split(steps: Steps, params: dict) -> None:
    sizes, axis = [int(size) for size in params["sizes"]], int(params["axis"])
    parts = np.split(steps.operand(0), np.cumsum(sizes)[:-1], axis)
    _require(all(_are_same(part, steps.result(index)) for index, part in enumerate(parts)))
    results = [steps.place_of_result(index) for index in range(len(sizes))]
    steps.steps.append(Step("aten::split_with_sizes", [0], results, {"split_sizes": sizes, "dim": axis}, True))


# ---- other moves ----------------------------------------------------------------------------------------------------


def _gather(steps: Steps, params: dict) -> None:
    """Whole slices of one axis, by indices that are all inside: lookups in tables, ``x[indices]``, ``take``."""
    numbers, x, indices = params["dimension_numbers"], steps.operand(0), steps.operand(1)
    _require(getattr(params.get("mode"), "name", None) in ("CLIP", "FILL_OR_DROP", "PROMISE_IN_BOUNDS"))
    _require(not getattr(numbers, "operand_batching_dims", ()) and len(numbers.start_index_map) == 1)
    _require(tuple(numbers.collapsed_slice_dims) == tuple(numbers.start_index_map) and indices.shape[-1] == 1)
    axis = int(numbers.start_index_map[0])
    sizes = list(x.shape)
    sizes[axis] = 1
    _require(list(params["slice_sizes"]) == sizes)
    _require(indices.size == 0 or 0 <= int(indices.min()) and int(indices.max()) < x.shape[axis])
    rows = steps.viewed(1, indices.shape[:-1])
    slices = [int(dim) for dim in numbers.offset_dims]
    others = [dim for dim in range(steps.result().ndim) if dim not in slices]
    order = [*slices[:axis], *others, *slices[axis:]]  # axes of the result, in the order that PyTorch gives them
    ordered = order == sorted(order)
    found = steps.place_of_result() if ordered else steps.between(steps.result().transpose(order))
    if axis == 0 and x.ndim == 2:
        steps.call("aten::embedding", [0, rows], found)
    elif len(others) == 1:
        steps.call("aten::index_select", [0, rows], found, dim=axis)
    else:
        steps.call("aten::index", [0, *[None] * axis, rows], found)
    if not ordered:
        steps.becomes(steps.permuted(found, [order.index(dim) for dim in range(len(order))]))


def _rev(steps: Steps, params: dict) -> None:
    steps.call("aten::flip", [0], steps.place_of_result(), dims=[int(dim) for dim in params["dimensions"]])


def _pad(steps: Steps, params: dict) -> None:
    config, value = [tuple(map(int, one)) for one in params["padding_config"]], steps.operand(1)
    _require(value.dtype.kind not in "iu" or abs(int(value)) <= 1 << 53)
    _require(not math.isnan(float(value)))
    if all(low >= 0 and high >= 0 and inner == 0 for low, high, inner in config):
        pads = _from_the_last([one[:2] for one in config])
        steps.call("aten::constant_pad_nd", [0], steps.place_of_result(), pad=pads, value=float(value))
        return
    place = 0  # zeros alone: pads with other values are not derived, and not the same bit for bit
    for dim, (_, _, inner) in enumerate(config):
        place = steps.dilated(place, dim, inner + 1)
    steps.becomes(steps.padded(place, [one[:2] for one in config]))


def _reshape(steps: Steps, params: dict) -> None:
    dimensions = params.get("dimensions")
    place = 0 if dimensions is None else steps.permuted(0, dimensions)
    result = steps.result()
    steps.becomes(steps.move("aten::view", [place], steps.arrays[place].reshape(result.shape), size=list(result.shape)))


def _iota(steps: Steps, params: dict) -> None:
    """0, 1, 2 … along an axis, and the same along the others."""
    result, axis = steps.result(), int(params["dimension"])
    if result.ndim == 1:
        steps.call("aten::arange", [], steps.place_of_result(), end=len(result))
        return
    _require(result.size > 0)
    extent = result.shape[axis]
    line = steps.between(np.arange(extent).astype(result.dtype))
    steps.call("aten::arange", [], line, end=extent)
    row = steps.viewed(line, [extent if dim == axis else 1 for dim in range(result.ndim)])
    spread = np.broadcast_to(steps.arrays[row], result.shape)
    steps.becomes(steps.move("aten::expand", [row], spread, size=list(result.shape)))


_RULES: dict[str, Callable[[Steps, dict], None]] = {
    "conv_general_dilated": _convolution,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
    "gather": _gather,
    "iota": _iota,
    "pad": _pad,
    "reshape": _reshape,
    "rev": _rev,
    "slice": _slice,
    "split": _split,
}
