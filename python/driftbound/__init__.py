"""Recordings of neural networks' runs, and verdicts on their rounding errors.

>>> import driftbound
>>> with driftbound.record("run.safetensors"):
...     model(x)
>>> driftbound.report("run.safetensors")
"""

from __future__ import annotations

from .assertions import LeakError, RoundingError, assert_rows_independent, assert_within_rounding
from .batch_classes import BatchClasses, batch_classes
from .determinism import Determinism, determinism
from .errors import DriftboundWarning, Error
from .jax_recorder import record_jax
from .leak import Leak, leak
from .model_recorder import record_model
from .onnxruntime_recorder import record_onnxruntime
from .parts import Part
from .probe import Probe, probe, probe_sum
from .program import find_program
from .ranks import join_ranks
from .record import record, record_call
from .recorder import Recorder, Value
from .report import Certificate, Drift, Report, Tolerance, certify, drift, report, tolerance
from .version import read_version

__version__ = read_version()

__all__ = [
    "BatchClasses",
    "Certificate",
    "Determinism",
    "Drift",
    "DriftboundWarning",
    "Error",
    "Leak",
    "LeakError",
    "Part",
    "Probe",
    "Recorder",
    "Report",
    "RoundingError",
    "Tolerance",
    "Value",
    "assert_rows_independent",
    "assert_within_rounding",
    "batch_classes",
    "certify",
    "determinism",
    "drift",
    "find_program",
    "join_ranks",
    "leak",
    "probe",
    "probe_sum",
    "record",
    "record_call",
    "record_jax",
    "record_model",
    "record_onnxruntime",
    "report",
    "tolerance",
]
