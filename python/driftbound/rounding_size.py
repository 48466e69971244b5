"""How far rounding moves a function's outputs: by its own error, which the program measures, else by responses."""

from __future__ import annotations

import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .batches import Batch, Leaf, Outputs, change_of
from .calls import Calls
from .errors import DriftboundWarning, Error
from .record import record
from .report import report

#: How far outputs may move, in multiples of the error of one run, or of what they move by when inputs move by a unit.
RESPONSES = 32

#: The same where there are no inputs of floats, in units in the last place of the largest output.
UNITS = 1024

_FRACTION_BITS = {"F64": 52, "F32": 23, "F16": 10, "BF16": 7}


@dataclass(frozen=True)
class Size:
    """What two runs of the same function may be apart by rounding, for every output, and where that comes from."""

    limits: dict[str, float]
    rule: str

    def explains(self, output: str, largest: float) -> bool:
        """Whether a difference of this size can be rounding."""
        return largest <= self.limits[output]


def rounding_size(calls: Calls, batch: Batch, outputs: Outputs, limit: float | None = None) -> Size:
    """The size of rounding of every output: ``limit``, else by the error of a run, else by responses.

    By the error: where the function is of PyTorch, there is a program, and it judges every recorded op, the batch is
    recorded and judged from the input on (T-70). The limit is 32 times the largest error of the recorded outputs with
    as many elements and one unit in the last place of the largest number together. By responses: every float of the
    batch is moved by one unit in the last place, up or down at random, four times, and the largest change of the output
    takes the place of the error. A batch without floats gives 1024 such units. Outputs of integers have the limit 0.

    Guarantee: none. A limit is a rule that tells rounding from other causes; it follows from no theorem.
    """
    if limit is not None:
        return Size({leaf.name: limit for leaf in outputs.leaves}, f"limit={limit!r}, as given")
    return _by_error(calls, batch, outputs) or _by_responses(calls, batch, outputs)


def _by_error(calls: Calls, batch: Batch, outputs: Outputs) -> Size | None:
    with tempfile.TemporaryDirectory(prefix="driftbound-") as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", DriftboundWarning)
        run = Path(folder) / "run.safetensors"
        try:
            with record(run) as recorder:
                calls(batch)
            if not recorder.records:
                return None
            judged = report(run, bounds="shadow")
        except Error:
            return None
    if judged.recording.not_judged or judged.end_to_end is None:
        return None
    limits: dict[str, float] = {}
    for leaf in outputs.leaves:
        errors = [one.max_error for one in judged.end_to_end.outputs if one.elements == leaf.numbers.size]
        if leaf.type not in _FRACTION_BITS:
            limits[leaf.name] = 0.0
        elif not errors or not np.isfinite(max(errors)):
            return None
        else:
            limits[leaf.name] = RESPONSES * (max(errors) + _unit_of(leaf))
    return Size(limits, f"{RESPONSES} times the error of the batch's run, measured by the program")


def _by_responses(calls: Calls, batch: Batch, outputs: Outputs) -> Size:
    random = np.random.default_rng(0)
    nudged = [calls(batch.nudged(random)) for _ in range(4)] if batch.has_floats else []
    limits = {}
    for place, leaf in enumerate(outputs.leaves):
        if leaf.type not in _FRACTION_BITS:
            limits[leaf.name] = 0.0
            continue
        response = max((change_of(leaf, one.leaves[place]).largest for one in nudged), default=0.0)
        unit = _unit_of(leaf)
        limits[leaf.name] = RESPONSES * (response + unit) if nudged else UNITS * unit
    rule = (f"{RESPONSES} times what outputs move by when inputs move by one unit in the last place"
            if nudged else f"{UNITS} units in the last place of the largest output")
    return Size(limits, rule)


def _unit_of(leaf: Leaf) -> float:
    finite = np.abs(leaf.numbers[np.isfinite(leaf.numbers)])
    if not finite.size or not finite.max():
        return 0.0
    return float(2.0 ** (np.floor(np.log2(finite.max())) - _FRACTION_BITS[leaf.type]))
