"""Recordings of neural networks' runs, and verdicts on their rounding errors.

>>> import driftbound
>>> with driftbound.record("run.safetensors"):
...     model(x)
>>> driftbound.report("run.safetensors")
"""

from __future__ import annotations

from .assertions import RoundingError, assert_within_rounding
from .errors import DriftboundWarning, Error
from .jax_recorder import record_jax
from .onnxruntime_recorder import record_onnxruntime
from .parts import Part
from .program import find_program
from .ranks import join_ranks
from .record import record, record_call
from .recorder import Recorder, Value
from .report import Certificate, Drift, Report, Tolerance, certify, drift, report, tolerance
from .version import read_version

__version__ = read_version()

__all__ = [
    "Certificate",
    "Drift",
    "DriftboundWarning",
    "Error",
    "Part",
    "Recorder",
    "Report",
    "RoundingError",
    "Tolerance",
    "Value",
    "assert_within_rounding",
    "certify",
    "drift",
    "find_program",
    "join_ranks",
    "record",
    "record_call",
    "record_jax",
    "record_onnxruntime",
    "report",
    "tolerance",
]
