"""Which parts of a record's values are recorded where not all of them are.

For every record some elements of its result are chosen, and of every operand what these elements need:

* *products*: random elements within some rows and columns, and these rows and columns of the operands;
* *softmax, norms, reductions*: some whole rows;
* *attention*: some queries of some heads, with all keys and values of these;
* *functions of single elements* (and batch norms that do not train): random elements, and the same elements of the
  operands;
* *lookups in tables*: some rows and the table's rows for them;
* *convolutions*: random elements of some samples and channels, with these samples and the channels' weights;
* *other ops*: all of what has at most 64 times as many elements as a small value, else nothing.

The largest and the smallest element of the result are always among them. Rows are few where a result has many, since
each takes a whole row of an operand: with S elements a product has max(64, S / 8) of them, a softmax S / 64.

A value is fixed when it is stored, and what a later record needs of it cannot be known then: in-place ops may have
changed it meanwhile. So each record stores the parts that it needs under ids of their own, and only values that are
recorded wholly link records. Those are small values (at most S elements, or 4096), values of which a record needs
more than half, and weights. Moves of elements (views, transpositions) of values that are not recorded wholly are left
out: they have nothing to judge, and their results are recorded where an op reads them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import op_kinds
from .op_kinds import Kind

Shape = tuple[int, ...]


class Nothing:
    """No element: the value is described only."""


class Whole:
    """All elements."""


WHOLE = Whole()
NOTHING = Nothing()


@dataclass(frozen=True)
class Axes:
    """Along some axes only some indices, ascending."""

    indices: dict[int, np.ndarray]


@dataclass(frozen=True)
class Elements:
    """Single elements by their row-major indices, ascending."""

    indices: np.ndarray


Part = Whole | Nothing | Axes | Elements


@dataclass
class Plan:
    """The parts of a record's operands and results."""

    operands: list[Part]
    results: list[Part]


def is_larger_than_half(part: Part, value: Any) -> bool:
    """Whether a part takes more than half of the bytes of its value."""
    size = math.prod(value.shape)
    if isinstance(part, Axes):
        return math.prod(len(taken) / value.shape[axis] for axis, taken in part.indices.items()) > 0.5
    if isinstance(part, Elements):
        return 3 * len(part.indices) > size / 2  # an index takes as much as one or two elements
    return isinstance(part, Whole)


class Sampler:
    """Chooses parts. The choice follows from the seed and the calls so far."""

    def __init__(self, elements: int, seed: int):
        self.elements = elements
        self.small = max(elements, 4096)
        self._random = np.random.default_rng(seed)

    def plan(self, op: str, attributes: dict, operands: Sequence[Any], operand_arrays: Sequence[Any],
             known: Sequence[bool], results: Sequence[Any], result_arrays: Sequence[Any]) -> Plan:
        """Parts for a call. ``known`` says which operands are known wholly, whatever the plan says."""
        call = _Call(op_kinds.short_name(op), attributes, [None if v is None else v.shape for v in operands],
                     operand_arrays, known, [None if v is None else v.shape for v in results], result_arrays)
        if not call.results or call.results[0] is None or 0 in call.results[0]:
            return Plan([WHOLE] * len(operands), [WHOLE] * len(results))
        planner: Callable[[_Call], Plan | None] = {
            Kind.PRODUCT: self._product,
            Kind.ROWS: self._rows,
            Kind.ATTENTION: self._attention,
            Kind.LOOKUP: self._lookup,
            Kind.CHANNELS: self._channels,
            Kind.CONVOLUTION: self._convolution,
            Kind.ELEMENTWISE: self._elementwise,
        }.get(op_kinds.kind_of(op), self._others)
        return planner(call) or self._others(call)

    # ---- kinds of ops -------------------------------------------------------------------------------------------

    def _product(self, call: _Call) -> Plan | None:
        form = op_kinds.product_form(call.op, call.attributes)
        result = call.results[0]
        left, right = call.operands[form.left], call.operands[form.right]
        if left is None or right is None or len(left) < 2 or len(right) < 2 or len(result) < 2:
            return None
        rows_axis = len(left) - (1 if form.left_transposed else 2)
        columns_axis = len(right) - (2 if form.right_transposed else 1)
        extremes = call.extremes()
        target = max(64, -(-self.elements // 8))
        lead = list(range(len(result) - 1))
        chosen = self._choose(result, lead, math.inf if call.known[form.left] else target, extremes)
        free_columns = call.known[form.right]
        columns = self._choose(result, [len(result) - 1], math.inf if free_columns else target, extremes)
        grid = {**chosen, **columns}
        operands: list[Part] = [WHOLE] * len(call.operands)
        left_axes = {}
        right_axes = {columns_axis: columns[len(result) - 1]}
        for axis in lead:
            from_right = len(result) - axis  # 2: rows; more: batches
            if from_right == 2:
                left_axes[rows_axis] = chosen[axis]
                continue
            for shape, axes in ((left, left_axes), (right, right_axes)):
                own = len(shape) - from_right
                if own >= 0:
                    axes[own] = chosen[axis] if shape[own] > 1 else np.zeros(1, np.int64)
        operands[form.left] = Axes(left_axes)
        operands[form.right] = Axes(right_axes)
        if form.addend is not None and len(call.operands) > form.addend and call.operands[form.addend] is not None:
            operands[form.addend] = _broadcast_axes(grid, result, call.operands[form.addend])
        return Plan(operands, [self._elements_of_grid(grid, result, extremes)])

    def _rows(self, call: _Call) -> Plan | None:
        source, result = call.operands[0], call.results[0]
        if source is None:
            return None
        reduced = op_kinds.reduced_axes(call.op, call.attributes, len(source))
        lead = [axis for axis in range(len(source)) if axis not in reduced]
        width = math.prod(source[axis] for axis in reduced)
        target = max(-(-self.elements // max(width, 1)), -(-self.elements // 64))
        kept = list(range(len(source))) if len(result) == len(source) else lead
        if len(result) != len(kept):
            return None
        if any(result[i] != source[axis] and axis not in reduced for i, axis in enumerate(kept)):
            return None
        place = {axis: i for i, axis in enumerate(kept)}
        extremes = [{axis: position[place[axis]] for axis in lead} for position in call.extreme_positions()]
        chosen = self._choose_among(source, lead, target, extremes)
        operands: list[Part] = [WHOLE] * len(call.operands)
        for number, shape in enumerate(call.operands):
            if shape is not None and shape == source:
                operands[number] = Axes(chosen)
        results: list[Part] = []
        for shape in call.results:
            fits = shape is not None and len(shape) in (len(source), len(lead))
            axes = place if fits and len(shape) == len(result) else {axis: axis for axis in lead}
            fits = fits and all(axes[axis] < len(shape) and shape[axes[axis]] == source[axis] for axis in lead)
            results.append(Axes({axes[axis]: taken for axis, taken in chosen.items()}) if fits else WHOLE)
        return Plan(operands, results)

    def _attention(self, call: _Call) -> Plan | None:
        result, query = call.results[0], call.operands[0]
        if len(call.operands) < 3 or len(result) < 3 or query is None or query[:-1] != result[:-1]:
            return None
        lead = list(range(len(result) - 1))
        chosen = self._choose(result, lead, -(-self.elements // 64), call.extremes())
        operands: list[Part] = [WHOLE] * len(call.operands)
        operands[0] = Axes(chosen)
        for number in (1, 2):
            shape = call.operands[number]
            if shape is None or len(shape) != len(result):
                return None
            axes = {}
            for axis in lead[:-1]:
                group = max(result[axis] // shape[axis], 1)  # grouped queries: so many heads share keys
                axes[axis] = np.unique(chosen[axis] // group)
            operands[number] = Axes(axes)
        if len(call.operands) > 3 and call.operands[3] is not None:
            scores = (*result[:-1], call.operands[1][-2])
            operands[3] = _broadcast_axes(chosen, scores, call.operands[3])
        results: list[Part] = [Axes(chosen)]
        for shape in call.results[1:]:
            results.append(Axes(chosen) if shape is not None and shape[: len(lead)] == result[:-1] else WHOLE)
        return Plan(operands, results)

    def _lookup(self, call: _Call) -> Plan | None:
        table, ids, result = call.operands[0], call.operands[1], call.results[0]
        if table is None or ids is None or result != (*ids, *table[1:]):
            return None
        lead = list(range(len(ids)))
        width = math.prod(table[1:])
        target = max(-(-self.elements // max(width, 1)), -(-self.elements // 64))
        chosen = self._choose(result, lead, target, call.extremes())
        grid = np.ravel_multi_index(np.meshgrid(*(chosen[axis] for axis in lead), indexing="ij"), ids) if lead else 0
        rows = np.unique(call.operand_arrays[1].integers(np.asarray(grid, np.int64).reshape(-1)))
        rows = rows[(rows >= 0) & (rows < table[0])]
        operands: list[Part] = [WHOLE] * len(call.operands)
        operands[0] = Axes({0: rows})
        operands[1] = Axes(chosen)
        return Plan(operands, [Axes(chosen)])

    def _convolution(self, call: _Call) -> Plan | None:
        source, weight, result = call.operands[0], call.operands[1], call.results[0]
        if source is None or weight is None or len(source) != len(result) or len(result) < 3:
            return None
        if op_kinds.is_transposed_convolution(call.op, call.attributes):
            return None
        extremes = call.extremes()
        samples = self._choose(result, [0], max(1, self.elements // 500), extremes)
        channels = self._choose(result, [1], max(16, -(-self.elements // 32)), extremes)
        rest = {axis: np.arange(result[axis], dtype=np.int64) for axis in range(2, len(result))}
        operands: list[Part] = [WHOLE] * len(call.operands)
        operands[0] = Axes(samples)
        operands[1] = Axes({0: channels[1]})
        return Plan(operands, [self._elements_of_grid({**samples, **channels, **rest}, result, extremes)])

    def _channels(self, call: _Call) -> Plan | None:
        result = call.results[0]
        if call.attributes.get("training") or call.attributes.get("training_mode") or call.operands[0] != result:
            return None
        taken = self._random_elements(call)
        operands: list[Part] = [Elements(taken) if shape == result else WHOLE for shape in call.operands]
        return Plan(operands, [Elements(taken) if shape == result else WHOLE for shape in call.results])

    def _elementwise(self, call: _Call) -> Plan | None:
        result = call.results[0]
        if any(shape is not None and shape != result and not _broadcasts(shape, result) for shape in call.operands):
            return None
        taken = self._random_elements(call)
        operands: list[Part] = []
        for shape in call.operands:
            operands.append(WHOLE if shape is None else Elements(_broadcast_elements(taken, result, shape)))
        results: list[Part] = [Elements(taken) if shape == result else WHOLE for shape in call.results]
        return Plan(operands, results)

    def _others(self, call: _Call) -> Plan:
        """An op whose needs are not known here: all of what is not too large, and nothing of the rest."""

        def part(shape: Shape | None) -> Part:
            return WHOLE if shape is None or math.prod(shape) <= 64 * self.small else NOTHING

        return Plan([part(shape) for shape in call.operands], [part(shape) for shape in call.results])

    # ---- choices ------------------------------------------------------------------------------------------------

    def _choose(self, result: Shape, axes: Sequence[int], target: float,
                extremes: Sequence[int]) -> dict[int, np.ndarray]:
        """Random indices along these axes of a result, about ``target`` combinations, and those of the extremes."""
        positions = [np.unravel_index(index, result) for index in extremes]
        return self._choose_among(result, axes, target, [{axis: int(p[axis]) for axis in axes} for p in positions])

    def _choose_among(self, shape: Shape, axes: Sequence[int], target: float,
                      extremes: Sequence[dict[int, int]]) -> dict[int, np.ndarray]:
        chosen = {}
        rest, left = float(target), len(axes)
        for axis in sorted(axes, key=lambda axis: shape[axis]):
            count = shape[axis] if math.isinf(rest) else min(shape[axis], max(1, math.ceil(rest ** (1 / left))))
            if count > shape[axis] / 2:
                count = shape[axis]
            rest, left = max(rest / count, 1.0), left - 1
            if count == shape[axis]:
                chosen[axis] = np.arange(count, dtype=np.int64)
            else:
                own = [position[axis] for position in extremes]
                chosen[axis] = np.unique(np.concatenate([self._distinct(shape[axis], count), np.array(own, np.int64)]))
        return chosen

    def _random_elements(self, call: _Call) -> np.ndarray:
        """Random elements of the first result, and its extremes."""
        random = self._distinct(math.prod(call.results[0]), self.elements)
        return np.unique(np.concatenate([random, np.array(call.extremes(), np.int64)]))

    def _distinct(self, size: int, count: int) -> np.ndarray:
        """``count`` different numbers below ``size``, each equally likely; all where there are no more."""
        if count >= size:
            return np.arange(size, dtype=np.int64)
        if size <= 8 * count:
            return self._random.permutation(size)[:count].astype(np.int64)
        found = np.unique(self._random.integers(0, size, count + count // 4 + 8))
        while len(found) < count:
            found = np.unique(np.concatenate([found, self._random.integers(0, size, count)]))
        return self._random.permutation(found)[:count]

    def _elements_of_grid(self, grid: dict[int, np.ndarray], shape: Shape, extremes: Sequence[int]) -> Elements:
        """Random elements within chosen indices of every axis, and the extremes."""
        extents = [len(grid[axis]) for axis in range(len(shape))]
        flat = self._distinct(math.prod(extents), self.elements)
        positions = np.unravel_index(flat, extents)
        taken = np.ravel_multi_index(tuple(grid[axis][positions[axis]] for axis in range(len(shape))), shape)
        return Elements(np.unique(np.concatenate([taken.astype(np.int64), np.array(extremes, np.int64)])))


@dataclass
class _Call:
    op: str
    attributes: dict
    operands: list[Shape | None]
    operand_arrays: Sequence[Any]
    known: Sequence[bool]
    results: list[Shape | None]
    result_arrays: Sequence[Any]

    def extremes(self) -> list[int]:
        """Row-major indices of the smallest and the largest element of the first result."""
        array = self.result_arrays[0]
        return array.extremes() if array is not None else []

    def extreme_positions(self) -> list[tuple[int, ...]]:
        return [tuple(int(i) for i in np.unravel_index(index, self.results[0])) for index in self.extremes()]


def _broadcasts(shape: Shape, result: Shape) -> bool:
    return len(shape) <= len(result) and all(a in (1, b) for a, b in zip(reversed(shape), reversed(result)))


def _broadcast_elements(taken: np.ndarray, result: Shape, shape: Shape) -> np.ndarray:
    """The elements of an operand that elements of a result need."""
    if shape == result:
        return taken
    if not shape:
        return np.zeros(1, np.int64)
    positions = np.unravel_index(taken, result)[len(result) - len(shape) :]
    own = tuple(position if extent > 1 else np.zeros_like(position) for position, extent in zip(positions, shape))
    return np.unique(np.ravel_multi_index(own, shape)).astype(np.int64)


def _broadcast_axes(grid: dict[int, np.ndarray], result: Shape, shape: Shape) -> Part:
    """The part of a broadcast operand that the chosen indices along axes of a result need."""
    offset = len(result) - len(shape)
    axes = {axis - offset: taken for axis, taken in grid.items() if axis >= offset and shape[axis - offset] > 1}
    return Axes(axes) if axes else WHOLE
