"""Which parts of a record's values are recorded where not all of them are.

For every record some elements of its result are drawn, and of every operand what these elements need. With S elements
a record:

* *products*: max(64, S / 8) pairs of a row and a column, and S elements where these rows and columns meet;
* *softmax, norms, reductions*: whole rows, S / 8 of them where they are short, S / 64 where they are long;
* *attention*: S / 64 queries or more, with all keys and values of their heads;
* *functions of single elements* (and batch norms that do not train): S elements, and the same ones of the operands;
* *lookups in tables*: S elements, and their numbers in the table;
* *convolutions*: S elements of some pairs of an image and a channel, with these images and the channels' weights;
* *collectives*: all of what has at most 64 times as many elements as a small value; else S elements, the same ones of
  what every rank brings and gets, drawn from the seed and the number of the call;
* *other ops*: all of what has at most 64 times as many elements as a small value, else nothing.

The largest and the smallest element of the result are always among them, but for collectives.

``draws`` is a number n for which this is true: whichever elements of the result are in error, a share p of all, the
recorded ones hold none of them with probability (1 - p)^n at most. Single elements and rows are drawn independently,
each time from all of them, so that n is how many were drawn; one that is drawn twice is stored once. The elements of
a product lie where few rows and columns meet and are not independent: with R rows and C columns drawn no statement
about more than min(R, C) draws is true, since whole rows or columns may be in error. So as many rows as columns are
drawn, and the element of the i-th row and the i-th column is always recorded: these are min(R, C) independent draws of
single elements, as many as so many rows and columns can give. The other elements only make it more probable that an
error is seen. Operands that are known wholly (weights, small values) do not limit n: with one of them n is the number
of rows, or columns, of the other one; with both, S. The same holds for heads of attention, which take all their keys
and values, and for images and channels of convolutions.

A value is fixed when it is stored, and what a later record needs of it cannot be known then: in-place ops may have
changed it meanwhile. So each record stores the parts that it needs under ids of their own, and only values that are
recorded wholly link records. Those are small values (at most S elements, or 4096), values of which a record needs
more than half, and weights. Moves of elements (views, transpositions) of values that are not recorded wholly are left
out: they have nothing to judge, and their results are recorded where an op reads them.
"""

from __future__ import annotations

import hashlib
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
    draws: int = 0  #: independent ones among the elements, or rows, of the results; 0: no such number is known


#: Numbers of an operand that rows may take, and images, beyond the fewest that are recorded of them.
_MOST_NUMBERS_OF_ROWS = 1 << 19
_MOST_NUMBERS_OF_IMAGES = 1 << 17

#: Keys and values that the heads of an attention may take together.
_MOST_NUMBERS_OF_HEADS = 1 << 23

#: An index of a single element takes as much as some elements: lines are stored as a grid up to this size.
_INDEX_SIZE = 4


def is_larger_than_half(part: Part, value: Any) -> bool:
    """Whether a part takes more than half of the bytes of its value."""
    size = math.prod(value.shape)
    if isinstance(part, Axes):
        return math.prod(len(taken) / value.shape[axis] for axis, taken in part.indices.items()) > 0.5
    if isinstance(part, Elements):
        return _is_more_than_half(len(part.indices), size)
    return isinstance(part, Whole)


class Sampler:
    """Chooses parts. The choice follows from the seed and the calls so far."""

    def __init__(self, elements: int, seed: int):
        self.elements = elements
        self.small = max(elements, 4096)
        self._seed = seed
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

    def shared(self, shape: Shape, key: str) -> Part:
        """What a collective needs of a tensor: all, or elements that all ranks draw with this seed and ``key``."""
        if math.prod(shape) <= 64 * self.small:
            return WHOLE
        digest = hashlib.blake2b(f"{key} {list(shape)}".encode(), digest_size=8).digest()
        random = np.random.default_rng([self._seed, int.from_bytes(digest, "little")])
        return Elements(np.unique(random.integers(0, math.prod(shape), self.elements)))

    # ---- kinds of ops -------------------------------------------------------------------------------------------

    def _product(self, call: _Call) -> Plan | None:
        form = op_kinds.product_form(call.op, call.attributes)
        result = call.results[0]
        left, right = call.operands[form.left], call.operands[form.right]
        if left is None or right is None or len(left) < 2 or len(right) < 2 or len(result) < 2:
            return None
        rank = len(result)
        row_axes = {axis: axis - rank + len(left) for axis in range(rank - 2) if axis - rank + len(left) >= 0}
        row_axes[rank - 2] = len(left) - (1 if form.left_transposed else 2)
        column_axes = {axis: axis - rank + len(right) for axis in range(rank - 2) if axis - rank + len(right) >= 0}
        column_axes[rank - 1] = len(right) - (2 if form.right_transposed else 1)
        wanted = min(max(64, self._share(8)), self.elements)
        any_row = call.known[form.left] or wanted > math.prod(left[axis] for axis in row_axes.values()) / 2
        any_column = call.known[form.right] or wanted > math.prod(right[axis] for axis in column_axes.values()) / 2
        operands: list[Part] = [WHOLE] * len(call.operands)
        if any_row and any_column:
            draws = self.elements
            taken = self._drawn_elements(call, draws)
        else:
            draws = wanted
            pairs = self._positions(result, draws, call.extremes())
            if not any_row:
                operands[form.left] = _lines(left, {own: pairs[axis] for axis, own in row_axes.items()})
            if not any_column:
                operands[form.right] = _lines(right, {own: pairs[axis] for axis, own in column_axes.items()})
            more = self._where_lines_meet(result, pairs, any_row, any_column, column_axes, right)
            taken = np.unique(np.ravel_multi_index([np.concatenate(both) for both in zip(pairs, more)], result))
        if form.addend is not None and len(call.operands) > form.addend and call.operands[form.addend] is not None:
            operands[form.addend] = Elements(_broadcast_elements(taken, result, call.operands[form.addend]))
        return Plan(operands, [Elements(taken)], draws)

    def _where_lines_meet(self, result: Shape, pairs: list[np.ndarray], any_row: bool, any_column: bool,
                          column_axes: dict[int, int], right: Shape) -> list[np.ndarray]:
        """More elements of a product, up to S, for which the rows and columns of ``pairs`` are enough."""
        count, last = max(self.elements - len(pairs[0]), 0), len(result) - 1
        picked = self._random.integers(0, len(pairs[0]), count)
        more = [positions[picked] for positions in pairs]
        if any_column:
            more[last] = self._random.integers(0, result[last], count)
        elif any_row:
            more[last - 1] = self._random.integers(0, result[last - 1], count)
        else:
            # A row of one pair and a column of another one, of the same batch of the right operand.
            batch = np.zeros(len(pairs[0]), np.int64)
            for axis, own in column_axes.items():
                if axis != last and right[own] > 1:
                    batch = batch * right[own] + pairs[axis]
            order = np.argsort(batch, kind="stable")
            first, after = (np.searchsorted(batch[order], batch[picked], side) for side in ("left", "right"))
            more[last] = pairs[last][order[self._random.integers(first, after)]]
        return more

    def _rows(self, call: _Call) -> Plan | None:
        source, result = call.operands[0], call.results[0]
        if source is None:
            return None
        reduced = op_kinds.reduced_axes(call.op, call.attributes, len(source))
        lead = [axis for axis in range(len(source)) if axis not in reduced]
        width = max(math.prod(source[axis] for axis in reduced), 1)
        kept = list(range(len(source))) if len(result) == len(source) else lead
        if len(result) != len(kept):
            return None
        if any(result[i] != source[axis] and axis not in reduced for i, axis in enumerate(kept)):
            return None
        place = {axis: i for i, axis in enumerate(kept)}
        outer = tuple(source[axis] for axis in lead)
        draws = max(-(-self.elements // width), self._share(64), min(self._share(8), _MOST_NUMBERS_OF_ROWS // width))
        if draws > math.prod(outer) / 2:
            return Plan([WHOLE] * len(call.operands), [WHOLE] * len(call.results))
        extremes = [np.ravel_multi_index([at[place[axis]] for axis in lead], outer) for at in call.extreme_positions()]
        chosen = dict(zip(lead, self._positions(outer, draws, extremes)))
        operands: list[Part] = [WHOLE] * len(call.operands)
        for number, shape in enumerate(call.operands):
            if shape is not None and shape == source:
                operands[number] = _lines(shape, chosen)
        results: list[Part] = []
        for shape in call.results:
            fits = shape is not None and len(shape) in (len(source), len(lead))
            axes = place if fits and len(shape) == len(result) else {axis: axis for axis in lead}
            fits = fits and all(axes[axis] < len(shape) and shape[axes[axis]] == source[axis] for axis in lead)
            results.append(_lines(shape, {axes[axis]: at for axis, at in chosen.items()}) if fits else WHOLE)
        return Plan(operands, results, draws)

    def _attention(self, call: _Call) -> Plan | None:
        result, query = call.results[0], call.operands[0]
        if len(call.operands) < 3 or len(result) < 3 or query is None or query[:-1] != result[:-1]:
            return None
        key, value = call.operands[1], call.operands[2]
        if key is None or value is None or len(key) != len(result) or len(value) != len(result):
            return None
        outer, heads = result[:-1], list(range(len(result) - 2))
        queries = self._share(64)
        of_head = key[-2] * (key[-1] + value[-1])
        affordable = _MOST_NUMBERS_OF_HEADS // max(of_head, 1)
        draws = max(queries, min(self._share(8), affordable))
        if not (call.known[1] and call.known[2]) and math.prod(key[:-2]) > affordable:
            draws = min(draws, max(affordable, 8))
        if draws > math.prod(outer) / 2:
            return Plan([WHOLE] * len(call.operands), [WHOLE] * len(call.results), 0)
        ends = [index // result[-1] for index in call.extremes()]
        chosen = self._positions(outer, draws, ends)
        if draws < queries:  # more queries of these heads
            picked = self._random.integers(0, len(chosen[0]), queries - draws)
            more = [at[picked] for at in chosen]
            more[-1] = self._random.integers(0, outer[-1], len(picked))
            chosen = [np.concatenate(both) for both in zip(chosen, more)]
        at = dict(enumerate(chosen))
        operands: list[Part] = [WHOLE] * len(call.operands)
        operands[0] = _lines(query, at)
        for number, shape in ((1, key), (2, value)):  # of grouped queries several heads share keys
            operands[number] = _lines(shape, {axis: at[axis] // max(result[axis] // shape[axis], 1) for axis in heads})
        if len(call.operands) > 3 and call.operands[3] is not None:
            mask = call.operands[3]
            operands[3] = _lines(mask, {axis - len(result) + len(mask): where for axis, where in at.items()
                                        if axis - len(result) + len(mask) >= 0})
        results: list[Part] = [_lines(result, at)]
        for shape in call.results[1:]:
            results.append(_lines(shape, at) if shape is not None and shape[: len(outer)] == outer else WHOLE)
        return Plan(operands, results, draws)

    def _lookup(self, call: _Call) -> Plan | None:
        table, ids, result = call.operands[0], call.operands[1], call.results[0]
        if table is None or ids is None or result != (*ids, *table[1:]) or call.operand_arrays[1] is None:
            return None
        taken = self._drawn_elements(call, self.elements)
        inner = math.prod(table[1:])
        places = np.unique(taken // inner)
        rows = call.operand_arrays[1].integers(taken // inner)
        from_table = np.unique(rows * inner + taken % inner)
        from_table = from_table[(from_table >= 0) & (from_table < math.prod(table))]
        operands: list[Part] = [WHOLE] * len(call.operands)
        operands[0] = Elements(from_table)
        if math.prod(ids) > 64 * self.small:  # the program judges lookups of which it has all ids
            operands[1] = Elements(places)
        return Plan(operands, [Elements(taken)], self.elements)

    def _convolution(self, call: _Call) -> Plan | None:
        source, weight, result = call.operands[0], call.operands[1], call.results[0]
        if source is None or weight is None or len(source) != len(result) or len(result) < 3:
            return None
        if op_kinds.is_transposed_convolution(call.op, call.attributes):
            return None
        affordable = _MOST_NUMBERS_OF_IMAGES // max(math.prod(source[1:]), 1)
        images = max(1, self.elements // 500, min(self._share(8), affordable))
        channels = max(16, self._share(32))
        any_image = call.known[0] or images > result[0] / 2
        any_channel = call.known[1] or channels > result[1] / 2
        draws = min([self.elements] + [images] * (not any_image) + [channels] * (not any_channel))
        # The first elements have an image and a channel of their own; all others lie within these.
        at = self._positions(result, self.elements, call.extremes())
        if not any_image:
            at[0][draws : self.elements] = self._again(at[0][:draws], images, result[0], self.elements - draws)
        if not any_channel:
            at[1][draws : self.elements] = self._again(at[1][:draws], channels, result[1], self.elements - draws)
        operands: list[Part] = [WHOLE] * len(call.operands)
        if not any_image:
            operands[0] = _lines(source, {0: at[0]})
        if not any_channel:
            operands[1] = _lines(weight, {0: at[1]})
        return Plan(operands, [Elements(np.unique(np.ravel_multi_index(at, result)))], draws)

    def _channels(self, call: _Call) -> Plan | None:
        result = call.results[0]
        if call.attributes.get("training") or call.attributes.get("training_mode") or call.operands[0] != result:
            return None
        taken = self._drawn_elements(call, self.elements)
        operands: list[Part] = [Elements(taken) if shape == result else WHOLE for shape in call.operands]
        results: list[Part] = [Elements(taken) if shape == result else WHOLE for shape in call.results]
        return Plan(operands, results, self.elements)

    def _elementwise(self, call: _Call) -> Plan | None:
        result = call.results[0]
        if any(shape is not None and shape != result and not _broadcasts(shape, result) for shape in call.operands):
            return None
        taken = self._drawn_elements(call, self.elements)
        operands: list[Part] = []
        for shape in call.operands:
            operands.append(WHOLE if shape is None else Elements(_broadcast_elements(taken, result, shape)))
        results: list[Part] = [Elements(taken) if shape == result else WHOLE for shape in call.results]
        return Plan(operands, results, self.elements)

    def _others(self, call: _Call) -> Plan:
        """An op whose needs are not known here: all of what is not too large, and nothing of the rest."""

        def part(shape: Shape | None) -> Part:
            return WHOLE if shape is None or math.prod(shape) <= 64 * self.small else NOTHING

        return Plan([part(shape) for shape in call.operands], [part(shape) for shape in call.results])

    # ---- choices ------------------------------------------------------------------------------------------------

    def _share(self, of: int) -> int:
        """So much of S, rounded up."""
        return -(-self.elements // of)

    def _positions(self, shape: Shape, draws: int, more: Sequence[int]) -> list[np.ndarray]:
        """Positions in a shape, an array for every axis: independent draws, followed by ``more``, row-major indices."""
        numbers = self._random.integers(0, math.prod(shape), draws)
        numbers = np.concatenate([numbers, np.asarray(more, np.int64).reshape(-1)])
        return [np.array(at, np.int64) for at in np.unravel_index(numbers, shape)]

    def _drawn_elements(self, call: _Call, draws: int) -> np.ndarray:
        """Independent draws of elements of the first result, and its extremes. Ascending, each once."""
        drawn = self._random.integers(0, math.prod(call.results[0]), draws)
        return np.unique(np.concatenate([drawn, np.asarray(call.extremes(), np.int64)]))

    def _again(self, drawn: np.ndarray, most: int, extent: int, count: int) -> np.ndarray:
        """``count`` of ``most`` indices: of those drawn, and of as many new ones as are left."""
        pool = np.concatenate([drawn, self._random.integers(0, extent, max(most - len(drawn), 0))])
        return pool[self._random.integers(0, len(pool), count)]


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


def _lines(shape: Shape, positions: dict[int, np.ndarray]) -> Part:
    """The elements of a value at some positions along some axes, and at all along the others.

    Position i has the index ``positions[axis][i]`` along every axis given. It is the grid of these indices where that
    takes less than single elements, whose indices are stored with them. Along axes of extent 1 values are broadcast.
    """
    given = [axis for axis in sorted(positions) if shape[axis] > 1]
    grid = {axis: np.unique(positions[axis]) for axis in given}
    if len(given) < 2:
        return Axes(grid)
    extents = tuple(shape[axis] for axis in given)
    lines = np.unique(np.ravel_multi_index([positions[axis] for axis in given], extents))
    if math.prod(len(taken) for taken in grid.values()) <= _INDEX_SIZE * len(lines):
        return Axes(grid)
    others = [axis for axis in range(len(shape)) if axis not in grid]
    of_line = math.prod(shape[axis] for axis in others)
    if _is_more_than_half(len(lines) * of_line, math.prod(shape)):
        return WHOLE
    strides = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    starts = sum(at * strides[axis] for axis, at in zip(given, np.unravel_index(lines, extents)))
    rest = np.zeros(1, np.int64)
    for axis in others:
        rest = (rest[:, None] + np.arange(shape[axis], dtype=np.int64) * strides[axis]).reshape(-1)
    return Elements(np.sort((starts[:, None] + rest).reshape(-1)))


def _is_more_than_half(elements: int, size: int) -> bool:
    """Whether single elements with their indices take more than half of the bytes of a value of this size, roughly."""
    return 3 * elements > size / 2
