"""Batch classes: the sizes of a batch, and the places in it, at which a row has identical bits."""

from __future__ import annotations

import string
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .batches import Batch, Leaf, change_of
from .calls import Calls
from .errors import Error
from .first_op import Row, first_op
from .recorder import attribute
from .report import Result, table_of
from .tables import html_table, ranges, short, text_table


class BatchClasses(Result):
    """What ``batch_classes`` found: ``.statement`` (``1: A; 2–7: B``), ``.sizes``, ``.classes``, ``.parts`` …

    ``.sizes`` has one entry a size: ``size``, ``row`` (the class of the row at place 0), ``places`` (the class at each
    place where the row stands at all of them), ``deterministic``. ``.classes`` has ``name``, ``sizes`` (of which place
    0 has it), ``size`` and ``place`` (where it was seen first), ``largest_difference`` (to class A) and
    ``not_finite``. ``.parts`` says for every class after A in which op of PyTorch it parts from A: ``name``, ``op``,
    ``module``, or ``None``, and the ``kernels`` of A and of the class there, as far as they are found. ``.largest_difference`` is that of any two classes; ``.deterministic``, ``.one_class`` and
    ``.notes`` are the rest. ``.exit_status`` is 0 if there is one class, else 1.
    """

    @property
    def statement(self) -> str:
        """The classes of the sizes: ``1: A; 2–7: B; 8–63: C``, of the sizes that were tried."""
        return str(self.to_dict()["statement"])

    def to_pandas(self) -> Any:
        """The sizes as a table of pandas. Raises ``Error`` where pandas is not installed."""
        return table_of([one.to_dict() for one in self.sizes])

    def _repr_html_(self) -> str:
        """What a notebook shows: the classes, the table of sizes, and the ops in which classes part."""
        return html_table(_paragraphs(self.to_dict()), _HEADINGS, _table_rows(self.to_dict()))


def batch_classes(function: Callable[[Any], Any], batch: Any, sizes: Sequence[int] | None = None, axis: int = 0, *,
                  row: int = 0, result_axis: int | None = None, model: Any = None, explain: bool = True,
                  pad_to: int | None = None) -> BatchClasses:
    """Finds the batch sizes and places at which a row has identical bits.

    For every size n the function is called with n rows of the batch, the chosen one first, and with n copies of the
    chosen one. A class is a set of sizes and places at which all outputs of the row have the same bits (a NaN is a
    NaN). Classes are named in the order in which they are met: A is that of the smallest size at place 0. Of PyTorch,
    the op in which a class parts from A is found by recording both calls, and the program searches the kernels that
    give the bits of this op in both.

    Arguments:
        function, batch, axis, result_axis, model: as ``leak`` takes them.
        sizes: what is tried; default: 1 to 16, then 24, 32, 48, 64, 96, 128 …, as far as the batch has rows, and
            sizes between two of these where the class changes, until the change lies between neighbours.
        row: the row that is compared.
        explain: whether kernels are searched (docs/explain.md): the program judges the recordings for that.
        pad_to: a remedy to try: batches are filled up to this size by copies of their first row. ``.padded`` has then
            ``size``, ``classes`` (of the row at place 0), ``largest_difference``, ``places`` (ranges of places with
            the same bits) and ``seconds``, beside ``seconds_without`` of the batches as they are.

    Guarantee: the bits at the sizes and places that are tried, on this machine with these threads; nothing is said of
    other sizes. Every call is made twice: a size at which the bits of two calls differ has the class ``?``.

    Raises ``Error`` for a batch without arrays or rows, for sizes that it does not have, and for results without rows
    or with shapes that change with the size.
    """
    given = Batch(batch, axis)
    if not given.rows:
        raise Error("the batch has no rows; give one or more")
    if isinstance(row, bool) or not isinstance(row, (int, np.integer)) or not -given.rows <= row < given.rows:
        raise Error(f"there is no row {row!r} in a batch of {given.rows} rows")
    row = int(row) % given.rows
    tried = _sizes_of(sizes, given.rows)
    order = [row, *(one for one in range(given.rows) if one != row)]
    with Calls(function, axis if result_axis is None else result_axis, model) as calls:
        calls(given.take(order[:tried[0]]))
        classes = _Classes(calls)
        found = {size: classes.at(given.take(order[:size]), given.take([row] * size)) for size in tried}
        while sizes is None and (middle := _between(found)):
            found[middle] = classes.at(given.take(order[:middle]), given.take([row] * middle))
        padded = None if pad_to is None else _padded(calls, given, order, sorted(found), pad_to)
        return _result(classes, [found[size] for size in sorted(found)], explain, padded)


def _padded(calls: Calls, given: Batch, order: list[int], sizes: list[int], size: int) -> dict[str, Any]:
    """What filling up batches to one size is worth, and what it costs in time."""
    if isinstance(size, bool) or not isinstance(size, (int, np.integer)):
        raise Error(f"pad_to={size!r} is no number of rows")
    if size < sizes[-1]:
        raise Error(f"pad_to={size}: batches of up to {sizes[-1]} rows are tried; give that size or a larger one")
    classes = _Classes(calls)
    fill = [order[0]]
    seconds = seconds_without = 0.0
    for rows in sizes:
        own, batch = given.take(order[:rows]), given.take(order[:rows] + fill * (size - rows))
        outputs = calls(batch)
        seconds += _fastest(lambda: calls(batch))
        seconds_without += _fastest(lambda: calls(own))
        classes.name(batch, outputs.leaves, 0)
    members = [leaves for leaves, _, _ in classes.members]
    largest = max((_difference(members[0], leaves)[0] for leaves in members), default=0.0)
    copies = classes.at(given.take(fill * size), given.take(fill * size))
    places: dict[str, list[int]] = {}
    for place, name in enumerate(copies["places"]):
        places.setdefault(name, []).append(place)
    return {"size": size, "classes": len(members), "largest_difference": attribute(largest),
            "places": [ranges(group, list(range(size))) for group in places.values()], "seconds": seconds,
            "seconds_without": seconds_without}


def _fastest(call: Callable[[], Any]) -> float:
    """Seconds of the fastest of three calls."""
    times = []
    for _ in range(3):
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return min(times)


def _between(found: dict[int, dict[str, Any]]) -> int | None:
    """A size between two that were tried one after the other and have different classes."""
    tried = sorted(found)
    gaps = [(one, other) for one, other in zip(tried, tried[1:])
            if other > one + 1 and found[one]["row"] != found[other]["row"]]
    return sum(gaps[0]) // 2 if gaps else None


def _sizes_of(asked: Sequence[int] | None, rows: int) -> list[int]:
    if asked is None:
        sizes, step = list(range(1, 17)), 16
        while sizes[-1] < rows:
            sizes += [step * 3 // 2, step * 2]
            step *= 2
        return [size for size in sizes if size <= rows]
    chosen = sorted({int(size) for size in asked})
    if not chosen:
        raise Error("sizes is empty; name the sizes to try")
    for size in chosen:
        if not 1 <= size <= rows:
            raise Error(f"size {size}: the batch has {rows} rows, so sizes are from 1 to {rows}")
    return chosen


class _Classes:
    """Classes of bits as they are met, each with the row's outputs."""

    def __init__(self, calls: Calls):
        self._calls = calls
        self.members: list[tuple[list[Leaf], Batch, int]] = []

    def at(self, rows: Batch, copies: Batch) -> dict[str, Any]:
        """Classes of the row at place 0 of a batch, and at all places of a batch of copies of it."""
        own, same = self._called(rows)
        places, same_places = self._called(copies)
        names = [self.name(rows, own, 0) if same else "?"]
        names += [self.name(copies, places, place) if same_places else "?" for place in range(rows.rows)]
        return {"size": rows.rows, "row": names[0], "places": names[1:], "deterministic": same and same_places}

    def part(self, number: int, explains: bool) -> dict[str, Any] | None:
        """The op in which a class parts from the first one."""
        (_, batch, place), (_, first, first_place) = self.members[number], self.members[0]
        return first_op(Row(lambda: self._calls(first), first.rows, first_place),
                        Row(lambda: self._calls(batch), batch.rows, place), explains=explains)

    def _called(self, batch: Batch) -> tuple[list[Leaf], bool]:
        outputs, again = self._calls(batch).leaves, self._calls(batch).leaves
        return outputs, not any(change_of(one, other).differing for one, other in zip(outputs, again))

    def name(self, batch: Batch, outputs: list[Leaf], place: int) -> str:
        row = [leaf.row(place) for leaf in outputs]
        for number, (known, _, _) in enumerate(self.members):
            if [leaf.name for leaf in known] != [leaf.name for leaf in row]:
                raise Error("the function returns other arrays for other sizes; it must return the same for all")
            if not any(change_of(one, other).differing for one, other in zip(known, row)):
                return _letters(number)
        self.members.append((row, batch, place))
        return _letters(len(self.members) - 1)


def _letters(number: int) -> str:
    """A to Z, then AA, AB …"""
    letters = string.ascii_uppercase
    return letters[number] if number < 26 else _letters(number // 26 - 1) + letters[number % 26]


def _difference(one: list[Leaf], other: list[Leaf]) -> tuple[float, int]:
    changes = [change_of(a, b) for a, b in zip(one, other)]
    return max(change.largest for change in changes), sum(change.not_finite for change in changes)


#: So many classes are compared with each other, and so many are recorded to find the op in which they part.
_MOST_PAIRS, _MOST_PARTS = 64, 8


def _result(classes: _Classes, found: list[dict[str, Any]], explains: bool,
            padded: dict[str, Any] | None) -> BatchClasses:
    members, entries, tried = classes.members, [], [one["size"] for one in found]
    for number, (leaves, batch, place) in enumerate(members):
        largest, not_finite = _difference(members[0][0], leaves)
        entries.append({"name": _letters(number), "sizes": [one["size"] for one in found
                                                            if one["row"] == _letters(number)],
                        "size": batch.rows, "place": place, "largest_difference": attribute(largest),
                        "not_finite": not_finite})
    some = members[:_MOST_PAIRS]
    largest = max((_difference(a[0], b[0])[0] for number, a in enumerate(some) for b in some[:number]), default=0.0)
    parts = [{"class": _letters(number), **(classes.part(number, explains) or {"op": None, "module": None, "name": None})}
             for number in range(1, min(len(members), _MOST_PARTS + 1))]
    deterministic = all(one["deterministic"] for one in found)
    one_class = len(members) == 1 and deterministic
    fields: dict[str, Any] = {
        "statement": "; ".join(f"{ranges(group, tried)}: {name}" for name, group in _groups(found)),
        "one_class": one_class,
        "deterministic": deterministic,
        "largest_difference": attribute(largest),
        "sizes": found,
        "classes": entries,
        "parts": parts,
        "padded": padded,
        "notes": _notes(found, len(members)),
    }
    first, *others = _paragraphs(fields)
    table = text_table(_HEADINGS, _table_rows(fields), left=(1, 3))
    return BatchClasses(fields, 0 if one_class else 1, "\n\n".join([first, table, "\n".join(others)]).rstrip() + "\n",
                        None)


def _groups(found: list[dict[str, Any]]) -> list[tuple[str, list[int]]]:
    groups: dict[str, list[int]] = {}
    for one in found:
        groups.setdefault(one["row"], []).append(one["size"])
    return list(groups.items())


def _notes(found: list[dict[str, Any]], number: int) -> list[str]:
    notes = []
    unstable = [one["size"] for one in found if not one["deterministic"]]
    if unstable:
        notes.append(f"Two calls with the same batch differ at the sizes {ranges(unstable, unstable)}: the function is "
                     "not deterministic, and its classes there are unknown (?)")
    mixed = [one["size"] for one in found if one["deterministic"] and one["row"] != one["places"][0]]
    if mixed:
        sizes = ranges(mixed, [one["size"] for one in found])
        notes.append(f"At the sizes {sizes} the row has other bits beside copies of itself than beside other rows: it "
                     "answers to them (driftbound.leak)")
    if number > _MOST_PARTS + 1:
        notes.append(f"Of {number} classes the first {_MOST_PARTS} after A were recorded to find where they part")
    return notes


_HEADINGS = ["size", "row", "apart from A", "places"]


def _table_rows(fields: dict[str, Any]) -> list[list[str]]:
    apart = {one["name"]: one for one in fields["classes"]}
    rows = []
    for one in fields["sizes"]:
        groups: dict[str, list[int]] = {}
        for place, name in enumerate(one["places"]):
            groups.setdefault(name, []).append(place)
        places = "; ".join(f"{ranges(group, range(one['size']))}: {name}" for name, group in groups.items())
        known = [apart[name] for name in {one["row"], *one["places"]} if name in apart]
        largest = max((float(entry["largest_difference"]) for entry in known), default=0.0)
        rows.append([str(one["size"]), one["row"], short(largest) if known else "-", places])
    return rows


def _paragraphs(fields: dict[str, Any]) -> list[str]:
    number = len(fields["classes"])
    head = f"Sizes with identical bits: {fields['statement']}."
    if fields["one_class"]:
        head += " The row has the same bits at every size and place that was tried."
    elif number > 1:
        head += f" {number} classes of bits, {short(float(fields['largest_difference']))} apart at most."
    parts = [head]
    for one in fields["parts"]:
        if one["name"] is not None:
            instead = f", in whose place it has '{one['instead']}'" if one.get("instead") else ""
            text = f"{one['class']} parts from A in '{one['name']}'{instead}."
            for name, kernel in zip(("A", one["class"]), one.get("kernels") or ()):
                text += f" {name} there: {kernel}." if kernel else ""
            parts.append(text)
    if (padded := fields["padded"]) is not None:
        count = padded["classes"]
        parts.append(f"Padded to {padded['size']} rows the row at place 0 has "
                     + ("the same bits at every size" if count == 1 else
                        f"{count} classes of bits, {short(float(padded['largest_difference']))} apart at most")
                     + (", and so has every place" if len(padded["places"]) == 1 else
                        ", and other bits at other places: " + "; ".join(padded["places"]))
                     + f". That takes {padded['seconds'] / max(padded['seconds_without'], 1e-9):.1f} times as long.")
    return parts + [f"{note}." for note in fields["notes"]]
