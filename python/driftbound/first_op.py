"""The op in which a row's numbers part: two calls of a function of PyTorch, recorded and compared value by value."""

from __future__ import annotations

import json
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .errors import DriftboundWarning, Error
from .record import record
from .report import report
from .safetensors import ITEM_SIZES, Reader


@dataclass(frozen=True)
class Row:
    """A call, and one row of its batch: ``place`` of ``rows``."""

    call: Callable[[], Any]
    rows: int
    place: int


def first_op(first: Row, second: Row, *, explains: bool = False) -> dict[str, Any] | None:
    """The first op whose result has other bits for the row in one call than in the other.

    Results are compared in the order of the calls. Of a result, row p of n is block p of n blocks along an axis, or
    every n-th place from p on; the row's bits are the same if they are so along one axis that n divides in both calls.
    Results without such an axis are not compared: they belong to no row.

    Returns ``{"op", "module", "name", "number"}``, and ``"instead"`` where the second call has another op at that
    place; ``None`` where no op of PyTorch was recorded, or none has other bits. With ``explains``, ``"kernels"`` are what
    ``driftbound report --explain-kernels`` says of the op in both calls, or ``None`` where it says nothing.
    """
    with tempfile.TemporaryDirectory(prefix="driftbound-") as folder:
        runs = [Path(folder) / f"{number}.safetensors" for number in range(2)]
        for run, row in zip(runs, (first, second)):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DriftboundWarning)
                try:
                    with record(run):
                        row.call()
                except Error:
                    return None
        for number, (one, other) in enumerate(zip(_results(runs[0]), _results(runs[1]))):
            found = {"op": one.op, "module": one.module, "name": one.name, "number": number}
            if (one.op, one.module) != (other.op, other.module):
                found["instead"] = other.op
            elif _same(one, other, first, second):
                continue
            if explains:
                found["kernels"] = [_kernel(run, name) for run, name in zip(runs, (one.name, other.name))]
            return found
    return None


def _kernel(run: Path, name: str) -> str | None:
    """What gives the bits of a record's product or sum, in words."""
    try:
        judged = report(run, explain_kernels=True)
    except Error:
        return None  # there is no program, or nothing can be judged
    kernels = [layer["kernel"] for layer in judged.to_dict()["layers"] if layer["name"] == name and layer["kernel"]
               and layer["kernel"]["tells"]]
    if not kernels:
        return None
    first, others = kernels[0], kernels[0]["others"]
    if not others:
        return str(first["text"])
    return "; ".join(f"{one['text']} ({one['equal_bits']} of {first['of']} numbers)" for one in [first, *others])


@dataclass(frozen=True)
class _Result:
    """A result that a recording has stored."""

    op: str
    module: str | None
    name: str  #: as a report calls the record
    type: str
    data: np.ndarray


def _results(run: Path) -> Iterator[_Result]:
    names: dict[str, int] = {}
    for shard in [run, *sorted(run.parent.glob(f"{run.stem}-[0-9]*.safetensors"))]:
        with Reader(shard) as reader:
            values = json.loads(reader.metadata["values"])
            for record_ in json.loads(reader.metadata["records"]):
                name = "/".join(part for part in (record_.get("module"), record_["op"]) if part)
                names[name] = names.get(name, 0) + 1
                if names[name] > 1:
                    name += f"#{names[name]}"
                for identity in record_["results"]:
                    if f"value/{identity}" not in reader.tensors:
                        continue
                    value = values[identity]
                    data = np.frombuffer(b"".join(reader.blocks(f"value/{identity}")), np.uint8)
                    yield _Result(record_["op"], record_.get("module"), name, value["type"],
                                  data.reshape(*value["shape"], ITEM_SIZES[value["type"]]))


def _same(one: _Result, other: _Result, first: Row, second: Row) -> bool:
    if one.type != other.type or one.data.ndim != other.data.ndim:
        return False
    pairs = zip(_slices(one.data, first), _slices(other.data, second))
    candidates = [(a, b) for a, b in pairs if a is not None and b is not None and a.shape == b.shape]
    return not candidates or any(np.array_equal(a, b) for a, b in candidates)


def _slices(data: np.ndarray, row: Row) -> Iterator[np.ndarray | None]:
    """What may be the row, for every axis: a block, and every n-th place."""
    for axis in range(data.ndim - 1):
        extent = data.shape[axis]
        if extent == 0 or extent % row.rows:
            yield from (None, None)
            continue
        block = extent // row.rows
        before = (slice(None),) * axis
        yield data[(*before, slice(row.place * block, (row.place + 1) * block))]
        yield data[(*before, slice(row.place, None, row.rows))]
