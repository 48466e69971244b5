"""The leak test: does a row of a batch answer to the other rows?"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .batches import LARGEST, Batch, Change, Outputs, change_of
from .calls import Calls
from .errors import Error
from .first_op import Row, first_op
from .recorder import attribute
from .report import Result, table_of
from .rounding_size import Size, rounding_size
from .tables import html_table, short, some, text_table

#: A row of a function that is not deterministic answers where it changes by more than this many times the noise.
NOISE = 4

#: So many other rows are replaced one by one to find those that a row answers to.
_MOST_SINGLE_ROWS = 64

_WORSE = ("none", "depends", "leak")


class Leak(Result):
    """What ``leak`` found: ``.verdict`` (``none``, ``depends``, ``leak``), ``.reason``, ``.replacements`` …

    ``.replacements`` has one entry a kind: ``replacement``, ``tested`` and ``answered`` (rows), ``largest_change``,
    ``not_finite`` (elements that are finite in one run alone), ``first_row``, ``output``, ``verdict``, ``not_run``.
    ``.padding`` has ``added``, ``verdict`` (``none``, ``rounding``, ``leak``), ``largest_change`` and ``contents``,
    whose entries are like those of ``.replacements``. ``.deterministic``, ``.noise``, ``.size_of_rounding``, ``.op``
    (where the first such row's numbers part, of PyTorch), ``.answers_to`` (the rows it answers to), ``.look_at`` and
    ``.notes`` are the rest. ``.exit_status`` is 0 for none, 1 for depends, 2 for leak.
    """

    def to_pandas(self) -> Any:
        """The kinds of replacement as a table of pandas. Raises ``Error`` where pandas is not installed."""
        return table_of([one.to_dict() for one in self.replacements])

    def _repr_html_(self) -> str:
        """What a notebook shows: the verdict, the table, and what to look at."""
        return html_table(_paragraphs(self.to_dict()), _HEADINGS, _table_rows(self.to_dict()))


def leak(function: Callable[[Any], Any], batch: Any, axis: int = 0, *, rows: int | Sequence[int] = 4,
         replacements: Sequence[str] | None = None, padding: int | None = None, result_axis: int | None = None,
         limit: float | None = None, model: Any = None, runs: int = 3, seed: int = 0) -> Leak:
    """Tests whether rows of a batch answer to the other rows.

    Row r is kept at its place in a batch of the same size, so that the same kernels run, and the other rows are
    replaced. A row answers if the bits of its outputs change. Every such call is followed by one of the batch itself,
    which must give the bits that it gave before: if not, the function answers to an *earlier call*.

    Replacements of the other rows, of arrays of floats: ``zeros``, ``huge`` (a quarter of the type's largest number),
    ``NaN``, ``infinity``. Of arrays of integers and truth values: ``values`` (drawn from those that the array has, so
    that tokens are valid). Of all: ``permuted`` (each other row moves on by one, from three rows on), ``copies`` (of
    the row itself). Then rows are appended (``padding``): other sizes may have other kernels, so their rows are
    compared by the size of rounding; what the appended rows contain must not change a bit.

    Verdicts: ``none`` if no bits change; ``depends`` if they change within the size of rounding, as by kernels that
    choose by the data; ``leak`` if a number is no longer finite, or changes by more. The size of rounding is
    ``limit``; else 32 times the error of the batch's run and one unit in the last place of the largest output together,
    where the program can judge a recording of PyTorch; else, for the error, what outputs move by when the floats of
    the batch move by one unit in the last place; for integers alone 1024 such units. Integers that change are a leak.

    The function is called once before all, then ``runs`` times with the batch. If these runs differ it is not
    deterministic: then a row answers if it changes by more than 4 times the difference of these runs. The generators
    of Python, numpy and PyTorch have the same state before every call, so dropout is the same in all calls.

    Arguments:
        function: called with copies of ``batch``; returns an array, or lists, tuples, dicts and dataclasses of arrays.
        batch: an array of numpy, PyTorch or JAX [rows, …], or a tuple, list or dict of such.
        axis: the axis of the rows in arrays of the batch.
        rows: how many rows are kept in turn, spread over the batch, or a list of them.
        replacements: some of the kinds above; default: all that the types allow.
        padding: how many rows are appended; 0 for none; default: as many as there are, 8 at most.
        result_axis: the axis of the rows in what the function returns; default: ``axis``. Arrays with another extent
            there are not judged.
        limit: how large a change can be rounding, absolute.
        model: a module of PyTorch whose buffers are put back; those that the function names or closes over are known.
        runs: how often the batch is run to see whether the function is deterministic.
        seed: of drawn values.

    Guarantee: a change of bits is seen for the rows, replacements and runs that are tried; ``none`` is no proof for
    others. The batch, generators and buffers are as before when it returns.

    Raises ``Error`` for a batch without arrays or with fewer than two rows, for arrays or results without such rows,
    and for shapes that change with the other rows. What the function itself raises on the batch is not caught; on
    replaced rows it is noted.
    """
    given = Batch(batch, axis)
    if given.rows < 2:
        raise Error(f"a batch of {given.rows} row{'s' * (given.rows != 1)} has no other rows; give two rows or more")
    kept = _chosen_rows(rows, given.rows)
    added = min(given.rows, 8) if padding is None else padding
    if isinstance(added, bool) or not isinstance(added, int) or added < 0:
        raise Error(f"padding={padding!r}: a number of rows from 0 on")
    kinds = _chosen_kinds(replacements, given)
    if isinstance(runs, bool) or not isinstance(runs, int) or runs < 2:
        raise Error(f"runs={runs!r}: a number of runs from 2 on")
    if limit is not None and not limit >= 0:
        raise Error(f"limit={limit!r}: the largest change that rounding explains, from 0 on")
    with Calls(function, axis if result_axis is None else result_axis, model) as calls:
        test = _Test(calls, given, limit, runs, seed)
        found = [test.replace(kind, kept) for kind in kinds]
        found.append(test.earlier)
        if all(one.not_run for one in found[:-1]):
            raise Error(f"the function ran on no replaced batch: {found[0].not_run}")
        padded = test.pad(added, [kind for kind in kinds if kind in _FILLED]) if added else None
        return _result(test, found, padded, kept)


# ---- replacements ---------------------------------------------------------------------------------------------------

_Replace = Callable[[Batch, list[int], int, np.random.Generator], Batch]


def _permuted(batch: Batch, others: list[int], row: int, random: np.random.Generator) -> Batch:
    order = list(range(batch.rows))
    for place, source in zip(others, [*others[1:], others[0]]):
        order[place] = source
    return batch.take(order)


def _filled(number: Callable[[str], float]) -> _Replace:
    return lambda batch, others, row, random: batch.filled(others, number)


def _values(batch: Batch, others: list[int], row: int, random: np.random.Generator) -> Batch:
    return batch.drawn(others, random)


def _copies(batch: Batch, others: list[int], row: int, random: np.random.Generator) -> Batch:
    return batch.take([row] * batch.rows)


_KINDS: dict[str, _Replace] = {
    "permuted": _permuted,
    "zeros": _filled(lambda kind: 0.0),
    "huge": _filled(lambda kind: LARGEST[kind] / 4),
    "NaN": _filled(lambda kind: float("nan")),
    "infinity": _filled(lambda kind: float("inf")),
    "values": _values,
    "copies": _copies,
}

#: Kinds that write what they write whatever the row is: rows that are appended are filled so, too.
_FILLED = ("zeros", "huge", "NaN", "infinity", "values")

_OF_FLOATS = ("zeros", "huge", "NaN", "infinity")


def _chosen_kinds(asked: Sequence[str] | None, batch: Batch) -> list[str]:
    possible = [kind for kind in _KINDS if (kind not in _OF_FLOATS or batch.has_floats)
                and (kind != "values" or batch.has_integers) and (kind != "permuted" or batch.rows > 2)]
    if asked is None:
        return possible
    for kind in [asked] if isinstance(asked, str) else asked:
        if kind not in _KINDS:
            raise Error(f"there is no replacement '{kind}'; there are {', '.join(_KINDS)}")
        if kind not in possible:
            raise Error(f"replacement '{kind}' is not for this batch; for it there are {', '.join(possible)}")
    chosen = [asked] if isinstance(asked, str) else list(dict.fromkeys(asked))
    if not chosen:
        raise Error(f"replacements is empty; there are {', '.join(possible)}")
    return chosen


def _chosen_rows(asked: int | Sequence[int], rows: int) -> list[int]:
    if isinstance(asked, (int, np.integer)) and not isinstance(asked, bool):
        if asked < 1:
            raise Error(f"rows={asked}: a number of rows from 1 on, or a list of rows")
        return sorted({int(row) for row in np.linspace(0, rows - 1, min(int(asked), rows)).round()})
    chosen = [int(row) for row in asked]
    for row in chosen:
        if not -rows <= row < rows:
            raise Error(f"there is no row {row} in a batch of {rows} rows")
    if not chosen:
        raise Error("rows is empty; name the rows to keep, or how many")
    return sorted({row % rows for row in chosen})


# ---- the test -------------------------------------------------------------------------------------------------------

@dataclass
class _Found:
    """What one kind of replacement did."""

    kind: str
    tested: list[int]
    answered: list[int] = field(default_factory=list)
    largest: float = 0.0
    not_finite: int = 0
    output: str | None = None  # of the first row that answered
    verdict: str = "none"
    not_run: str | None = None

    def add(self, row: int, verdict: str, output: str, change: Change) -> None:
        if verdict == "none":
            return
        if row not in self.answered:
            self.answered.append(row)
        self.output = self.output or output
        self.largest = max(self.largest, change.largest)
        self.not_finite += change.not_finite
        self.verdict = _worst(self.verdict, verdict)

    def fields(self) -> dict[str, Any]:
        return {"replacement": self.kind, "tested": self.tested, "answered": sorted(self.answered),
                "largest_change": attribute(self.largest), "not_finite": self.not_finite,
                "first_row": min(self.answered, default=None), "output": self.output, "verdict": self.verdict,
                "not_run": self.not_run}


@dataclass
class _Padded:
    """What appended rows did."""

    added: int
    verdict: str = "none"
    largest: float = 0.0
    contents: list[_Found] = field(default_factory=list)
    not_run: str | None = None


class _Test:
    def __init__(self, calls: Calls, batch: Batch, limit: float | None, runs: int, seed: int):
        self.calls, self.batch, self._limit = calls, batch, limit
        self._random = np.random.default_rng(seed)
        self._size: Size | None = None
        warm = calls(batch)
        self.base = calls(batch)
        self.noise = [Change() for _ in self.base.leaves]
        for _ in range(runs - 1):
            for place, other in enumerate(calls(batch).leaves):
                self.noise[place] |= change_of(self.base.leaves[place], other)
        first = [change_of(leaf, warm.leaves[place]) for place, leaf in enumerate(self.base.leaves)]
        self.deterministic = not any(one.differing for one in self.noise)
        self.first_call = max((one.largest for one in first), default=0.0) if self.deterministic and any(
            one.differing for one in first) else None
        self.earlier = _Found("earlier call", list(range(batch.rows)))

    @property
    def size(self) -> Size:
        """The size of rounding, which is found when a row has answered."""
        if self._size is None:
            self._size = rounding_size(self.calls, self.batch, self.base, self._limit)
        return self._size

    @property
    def known_size(self) -> Size | None:
        return self._size

    def replaced(self, kind: str, row: int) -> Batch:
        """The batch with all rows but one replaced."""
        others = [one for one in range(self.batch.rows) if one != row]
        return _KINDS[kind](self.batch, others, row, self._random)

    def replace(self, kind: str, rows: list[int]) -> _Found:
        """Replaces the other rows of each of these rows."""
        found = _Found(kind, rows)
        for row in rows:
            try:
                outputs = self.calls(self.replaced(kind, row))
            except Error:
                raise
            except Exception as error:
                found.not_run = _told(error)
                return found
            for verdict, name, change in self.answers(outputs, [row]):
                found.add(row, verdict, name, change)
            self._look_back()
        return found

    def _look_back(self) -> None:
        """Calls the batch itself: what the call before left must not show."""
        outputs = self.calls(self.batch)
        for row in range(self.batch.rows):
            for verdict, name, change in self.answers(outputs, [row]):
                self.earlier.add(row, verdict, name, change)

    def answers(self, outputs: Outputs, rows: list[int], base: Outputs | None = None) -> Iterator[tuple]:
        """For every output: the verdict on these rows, its name, and how they changed."""
        base = base or self.base
        if [leaf.name for leaf in outputs.leaves] != [leaf.name for leaf in base.leaves]:
            raise Error("the function returns other arrays for other rows; it must return the same for every batch")
        for place, (leaf, other) in enumerate(zip(base.leaves, outputs.leaves)):
            change = change_of(leaf, other, rows)
            yield self._verdict(place, change), leaf.name, change

    def _verdict(self, place: int, change: Change) -> str:
        noise = self.noise[place]
        if change.differing == 0:
            return "none"
        if change.not_finite and not noise.not_finite:
            return "leak"
        if noise.differing and change.largest <= NOISE * noise.largest:
            return "none"
        return "depends" if self.size.explains(self.base.leaves[place].name, change.largest) else "leak"

    def pad(self, added: int, kinds: list[str]) -> _Padded:
        """Appends copies of the first row, then rows with other contents."""
        padded, rows = _Padded(added), list(range(self.batch.rows))
        longer = self.batch.take([*rows, *[0] * added])
        appended = list(range(self.batch.rows, longer.rows))
        try:
            base = self.calls(longer)
        except Exception as error:
            padded.not_run = _told(error)
            return padded
        for verdict, _, change in self.answers(base, rows):
            padded.verdict = _worst(padded.verdict, verdict)
            padded.largest = max(padded.largest, float("inf") if change.not_finite else change.largest)
        for kind in kinds:
            found = _Found(kind, rows)
            try:
                outputs = self.calls(_KINDS[kind](longer, appended, 0, self._random))
            except Error:
                raise
            except Exception as error:
                found.not_run = _told(error)
            else:
                for row in rows:
                    for verdict, name, change in self.answers(outputs, [row], base):
                        found.add(row, verdict, name, change)
            padded.contents.append(found)
        return padded

    def answers_to(self, kind: str, row: int) -> list[int] | None:
        """The rows that a row answers to when each is replaced alone; ``None`` for large batches."""
        if self.batch.rows > _MOST_SINGLE_ROWS:
            return None
        replaced, rows = self.replaced(kind, row), []
        for other in range(self.batch.rows):
            if other != row:
                outputs = self.calls(self.batch.with_rows(replaced, [other]))
                if any(verdict != "none" for verdict, _, _ in self.answers(outputs, [row])):
                    rows.append(other)
        self.calls(self.batch)
        return rows

    def parts_in(self, kind: str, row: int) -> dict[str, Any] | None:
        """The op of PyTorch in which the row's numbers part."""
        replaced, rows = self.replaced(kind, row), self.batch.rows
        return first_op(Row(lambda: self.calls(self.batch), rows, row), Row(lambda: self.calls(replaced), rows, row))


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:200]


def _worst(one: str, other: str) -> str:
    return max(one, other, key=_WORSE.index)


# ---- what it says ---------------------------------------------------------------------------------------------------

def _result(test: _Test, found: list[_Found], padded: _Padded | None, kept: list[int]) -> Leak:
    contents = padded.contents if padded else []
    verdict = "none"
    for one in [*found, *contents]:
        verdict = _worst(verdict, one.verdict)
    if padded and padded.verdict == "leak":
        verdict = "leak"
    op = to = None
    culprit = next((one for one in found[:-1] if one.answered and one.verdict == verdict), None)
    if culprit is not None and test.deterministic:
        to = test.answers_to(culprit.kind, min(culprit.answered))
        op = test.parts_in(culprit.kind, min(culprit.answered))
    fields: dict[str, Any] = {
        "verdict": verdict,
        "reason": "",
        "rows": test.batch.rows,
        "kept": kept,
        "deterministic": test.deterministic,
        "noise": {leaf.name: attribute(noise.largest) for leaf, noise in zip(test.base.leaves, test.noise)},
        "size_of_rounding": test.known_size and {
            "limits": {name: attribute(limit) for name, limit in test.known_size.limits.items()},
            "rule": test.known_size.rule},
        "replacements": [one.fields() for one in found],
        "padding": padded and {
            "added": padded.added, "verdict": {"depends": "rounding"}.get(padded.verdict, padded.verdict),
            "largest_change": attribute(padded.largest), "contents": [one.fields() for one in contents],
            "not_run": padded.not_run},
        "op": op,
        "answers_to": to,
        "look_at": _look_at(test, found, padded, op) if verdict != "none" else [],
        "notes": _notes(test, found, padded),
    }
    fields["reason"] = _reason(fields, culprit, found, contents)
    table = text_table(_HEADINGS, _table_rows(fields))
    first, *others = _paragraphs(fields)
    text = "\n\n".join([first, table, "\n".join(others)]) + "\n"
    return Leak(fields, _WORSE.index(verdict), text, None)


def _reason(fields: dict[str, Any], culprit: _Found | None, found: list[_Found], contents: list[_Found]) -> str:
    verdict = fields["verdict"]
    if verdict == "none":
        ran = sum(not one.not_run for one in found[:-1])
        same = "the same bits" if fields["deterministic"] else f"the same numbers but for {NOISE} times their noise"
        return (f"NONE: no row answers to other rows: {len(fields['kept'])} of {fields['rows']} rows have {same} under "
                f"{ran} replacements of the others")
    first = culprit or next((one for one in [found[-1], *contents] if one.answered and one.verdict == verdict), None)
    if first is None:
        padding = fields["padding"]
        return (f"LEAK: {padding['added']} appended rows change rows by {_amount(padding['largest_change'], 0)}, more "
                f"than rounding does ({_limit(fields, None)})")
    how = _AMONG[first.kind]
    if any(first is one for one in contents):
        how = f"when appended rows are {first.kind}"
    rows = f"row {min(first.answered)} first, " if len(first.answered) > 1 else f"row {first.answered[0]}, "
    size = "within rounding" if verdict == "depends" else "which is no rounding"
    if not first.not_finite:
        size += f" ({_limit(fields, first.output)})"
    return (f"{verdict.upper()}: {len(first.answered)} of {len(first.tested)} rows answer to other rows, {rows}{how}: "
            f"changed by {_amount(first.largest, first.not_finite)}, {size}")


def _amount(largest: Any, not_finite: int) -> str:
    return f"{not_finite} numbers that are not finite" if not_finite else short(float(largest))


def _limit(fields: dict[str, Any], output: str | None) -> str:
    limits = (fields["size_of_rounding"] or {"limits": {}})["limits"]
    number = limits.get(output, max((float(one) for one in limits.values()), default=0.0))
    return f"at most {short(float(number))}"


_AMONG = {
    "permuted": "when the others are permuted",
    "zeros": "when the others are zeros",
    "huge": "when the others are huge",
    "NaN": "when the others are NaN",
    "infinity": "when the others are infinite",
    "values": "when the others have other values",
    "copies": "when the others are copies of it",
    "earlier call": "of an earlier call",
}

_HEADINGS = ["other rows", "answered", "largest change", "not finite", "first row", "verdict"]


def _table_rows(fields: dict[str, Any]) -> list[list[str]]:
    rows = [_table_row(one["replacement"], one) for one in fields["replacements"]]
    padding = fields["padding"]
    if padding:
        size = f"{padding['added']} appended"
        rows.append([size, "", short(float(padding["largest_change"])), "", "",
                     "not run" if padding["not_run"] else padding["verdict"]])
        rows += [_table_row(f"appended {one['replacement']}", one) for one in padding["contents"]]
    return rows


def _table_row(name: str, one: dict[str, Any]) -> list[str]:
    if one["not_run"]:
        return [name, "", "", "", "", "not run"]
    first = "-" if one["first_row"] is None else str(one["first_row"])
    return [name, f"{len(one['answered'])} of {len(one['tested'])}", short(float(one["largest_change"])),
            str(one["not_finite"]), first, one["verdict"]]


def _paragraphs(fields: dict[str, Any]) -> list[str]:
    parts = [f"{fields['reason']}.", f"Batch of {fields['rows']} rows; rows {some(fields['kept'])} were kept in turn."]
    if not fields["deterministic"]:
        noise = max(float(one) for one in fields["noise"].values())
        parts.append(f"The function is not deterministic: runs of the same batch differ by {short(noise)}. A row "
                     f"answers if it changes by more than {NOISE} times that.")
    if fields["op"]:
        op, instead = fields["op"], fields["op"].get("instead")
        parts.append(f"The row's numbers part in '{op['name']}'" +
                     (f", in whose place the other call has '{instead}'." if instead else "."))
    if fields["answers_to"]:
        others = fields["rows"] - 1
        parts.append("Replaced one by one, " + ("every other row changes it." if len(fields["answers_to"]) == others
                                                else f"rows {some(fields['answers_to'])} of {others} change it."))
    if fields["size_of_rounding"]:
        parts.append(f"Size of rounding: {_limit(fields, None)}, {fields['size_of_rounding']['rule']}.")
    if fields["look_at"]:
        parts.append("Look at: " + "; ".join(fields["look_at"]) + ".")
    return parts + [f"{note}." for note in fields["notes"]]


def _notes(test: _Test, found: list[_Found], padded: _Padded | None) -> list[str]:
    notes = []
    if test.first_call is not None:
        notes.append(f"The first call gives other bits than later ones with the same batch ({short(test.first_call)} "
                     "apart): it builds something that later calls read, or other kernels ran")
    contents = padded.contents if padded else []
    notes += [f"Not run with {one.kind}: {one.not_run}" for one in [*found, *contents] if one.not_run]
    if padded and padded.not_run:
        notes.append(f"Not run with appended rows: {padded.not_run}")
    if test.base.without_rows:
        notes.append(f"Not judged, since they have no such rows: {', '.join(test.base.without_rows)}")
    return notes


# ---- what to look at ------------------------------------------------------------------------------------------------

def _look_at(test: _Test, found: list[_Found], padded: _Padded | None, op: dict[str, Any] | None) -> list[str]:
    """Causes that the kinds, the op and the modules speak for."""
    hints = _training_norms(test.calls.modules)
    by_kind = {one.kind: one for one in found}
    answered = {one.kind for one in found if one.answered}
    order = "permuted" in by_kind and by_kind["permuted"].verdict == "leak"
    name = (op or {}).get("op", "")
    if by_kind["earlier call"].answered:
        hints.append("a buffer, cache or static output that outlives the call")
    if not hints and "batch_norm" in name:
        hints.append("batch normalisation in training mode")
    if "softmax" in name or "attention" in name:
        hints.append("a softmax or attention over the batch axis, or a missing mask")
    if answered and answered <= {"NaN", "infinity", "huge"}:
        hints.append("a mask that multiplies by 0 or adds a number, which NaN, infinite and huge numbers pass")
    elif order and not hints:
        hints.append("attention or a sum over the batch axis, a missing mask between rows, an index of another row")
    elif answered - {"earlier call"} and not hints:
        hints.append("what reads all rows and not their order: batch normalisation in training mode, attention or a "
                     "softmax over the batch axis, a mean over the batch, a dynamic scale of quantisation")
    if not any(one.verdict == "leak" for one in found) and answered:
        hints.append("kernels that choose by the data: dynamic scales, experts with as many rows as come, sparse sums")
    if padded and not answered:
        hints.append("a padding mask, or a mean over rows that counts the padding")
    return hints


def _training_norms(modules: list[Any]) -> list[str]:
    torch = sys.modules.get("torch")
    names = [f"'{name or type(module).__name__}' ({type(module).__name__} in training mode)"
             for root in modules for name, module in root.named_modules()
             if isinstance(module, torch.nn.modules.batchnorm._BatchNorm)
             and (module.training or module.running_mean is None)] if torch else []
    return names[:5] + [f"{len(names) - 5} more"] * (len(names) > 5)
