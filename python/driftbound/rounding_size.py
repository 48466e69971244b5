"""How large rounding errors of a function's outputs can be: by the program's bounds, else by a stated rule."""

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

#: How far outputs may move, in multiples of what they move by when the inputs move by one unit in the last place.
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
    """The size of rounding of every output: ``limit``, or the program's bounds, or the rule of responses.

    The program's bounds are twice the largest probabilistic bound of any run (T-74) of the recorded outputs with as
    many elements. They hold where the function is of PyTorch, there is a program, and it judges every recorded op.
    Otherwise every float of the batch is moved by one unit in the last place, up or down at random, four times: the
    limit is 32 times the largest change of the output and one unit in the last place of its largest number together.
    A batch without floats gives 1024 such units. The rule is no bound: it follows from no theorem.
    """
    if limit is not None:
        return Size({leaf.name: limit for leaf in outputs.leaves}, f"limit={limit!r}, as given")
    return _by_program(calls, batch, outputs) or _by_responses(calls, batch, outputs)


def _by_program(calls: Calls, batch: Batch, outputs: Outputs) -> Size | None:
    with tempfile.TemporaryDirectory(prefix="driftbound-") as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", DriftboundWarning)
        run = Path(folder) / "run.safetensors"
        try:
            with record(run) as recorder:
                calls(batch)
            if not recorder.records:
                return None
            judged = report(run)
        except Error:
            return None
    if judged.recording.not_judged or judged.end_to_end is None:
        return None
    limits: dict[str, float] = {}
    for leaf in outputs.leaves:
        bounds = [bound.max_bound for one in judged.end_to_end.outputs if one.elements == leaf.numbers.size
                  for bound in one.bounds if (bound.guarantee, bound.question) == ("probabilistic", "any-run")]
        if leaf.type not in _FRACTION_BITS:
            limits[leaf.name] = 0.0
        elif not bounds or not np.isfinite(max(bounds)):
            return None
        else:
            limits[leaf.name] = 2.0 * max(bounds)
    return Size(limits, "twice the probabilistic bound of any run (T-74), by the program")


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
    rule = (f"{RESPONSES} times what outputs move by when inputs move by one unit in the last place, a rule without a "
            "theorem") if nudged else (f"{UNITS} units in the last place of the largest output, a rule without a "
                                       "theorem")
    return Size(limits, rule)


def _unit_of(leaf: Leaf) -> float:
    finite = np.abs(leaf.numbers[np.isfinite(leaf.numbers)])
    if not finite.size or not finite.max():
        return 0.0
    return float(2.0 ** (np.floor(np.log2(finite.max())) - _FRACTION_BITS[leaf.type]))
