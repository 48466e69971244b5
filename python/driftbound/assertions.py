"""Assertions for tests: is this result within the rounding error that its op may have? Do rows answer to others?"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from .arrays import as_array, is_torch_tensor
from .environment import declare
from .errors import Error
from .leak import leak
from .record import record
from .report import report


class RoundingError(AssertionError):
    """A result is not within rounding of the exact one. The message is the verdict."""


class LeakError(AssertionError):
    """A row of a batch answers to other rows. The message is what ``leak`` says."""


def assert_within_rounding(actual: Any, op: str, *operands: Any, accumulate: str | None = "fp32",
                           bias: Any = None, functions: str | None = None, options: dict[str, Any] | None = None,
                           **attributes: Any) -> None:
    """Asserts that ``actual`` is the result of an op on these operands, but for rounding.

    ``assert_within_rounding(y, "gemm", a, b, bias=c)``; arrays are of numpy, PyTorch or anything that numpy takes.

    Arguments:
        actual: what was computed, stored in any float type.
        op: ``add``, ``sub``, ``mul``, ``div``, ``matmul``, ``gemm``, ``linear``, ``conv2d``, ``softmax``,
            ``log_softmax``, ``layer_norm``, ``rms_norm``, ``gelu``, ``silu``, ``relu``, ``tanh``, ``sigmoid``, ``exp``,
            ``attention``, or the name of any op that recordings have (``"aten::addmm"``, ``"LayerNormalization"``).
        operands: what the op was called with. ``linear`` takes x, weights [out, in]; ``attention`` query, key, value
            [batch, heads, length, size] and a mask if there is one; norms x, scale, shift.
        accumulate: the format that sums are computed in: ``fp32``, ``fp64``, ``bf16``, ``fp16``; ``tf32`` for
            float32 sums of operands in TF32. ``None`` declares nothing.
        bias: what is added to a product (``gemm``, ``linear``, ``conv2d``).
        functions: library whose functions were called (docs/functions.md); default: PyTorch's for its tensors, else
            the accuracy of ``cuda`` is assumed.
        options: options of the report.
        attributes: of the op: ``axis`` of a softmax, ``eps`` of a norm (1e-5), ``approximate="tanh"`` of a gelu,
            ``causal`` and ``scale`` of attention, ``stride`` and ``padding`` of a convolution.

    Raises ``RoundingError``, an ``AssertionError`` whose message is the verdict, and ``Error`` for bad input.
    """
    name, inputs, settings = _record_of(op, list(operands), bias, dict(attributes))
    arithmetic = _arithmetic(accumulate, inputs, functions or _library_of(actual))
    with tempfile.TemporaryDirectory(prefix="driftbound-") as folder:
        run = Path(folder) / "assertion.safetensors"
        with record(run, arithmetic=arithmetic, pytorch=False) as recorder:
            recorder.add(name, inputs, actual, attributes=settings, name=op, opset=_OPSETS.get(name))
        verdict = report(run, **(options or {}))
    if not verdict.holds:
        raise RoundingError(verdict.statement)


def assert_rows_independent(function: Callable[[Any], Any], batch: Any, axis: int = 0, *, within_rounding: bool = False,
                            **options: Any) -> None:
    """Asserts that no row of what ``function`` returns answers to the other rows of the batch.

    ``assert_rows_independent(model.eval(), x)``. Arguments and options are those of ``leak``.

    Arguments:
        function, batch, axis, options: as ``leak`` takes them.
        within_rounding: whether rows may change within the size of rounding (verdict ``depends``).

    Raises ``LeakError``, an ``AssertionError`` whose message is the text of ``leak``, and ``Error`` for bad input.
    """
    found = leak(function, batch, axis, **options)
    if found.verdict == "leak" or found.verdict == "depends" and not within_rounding:
        raise LeakError(found.text)


def _arithmetic(accumulate: str | None, inputs: list[Any], functions: str | None) -> dict | None:
    if accumulate is None:
        return None
    if accumulate not in ("fp64", "fp32", "tf32", "bf16", "fp16"):
        raise Error(f"accumulate={accumulate!r}: one of fp64, fp32, tf32, bf16, fp16, or None")
    sums = "fp32" if accumulate == "tf32" else accumulate
    types = {as_array(one).type for one in inputs if one is not None}
    floats = types & {"F64", "F32", "BF16", "F16"}
    narrow = {"BF16": "bf16", "F16": "fp16"}.get(next(iter(floats)), None) if len(floats) == 1 else None
    operands = "tf32" if accumulate == "tf32" else narrow
    return declare(accumulate, sums, operands, source="assert_within_rounding", functions=functions)


# ---- friendly names -------------------------------------------------------------------------------------------------

_Form = tuple[str, list[Any], dict[str, Any]]


def _record_of(op: str, operands: list[Any], bias: Any, attributes: dict[str, Any]) -> _Form:
    if op in _FORMS:
        name, fewest, most, form = _FORMS[op]
        if not fewest <= len(operands) <= most:
            wanted = str(fewest) if fewest == most else f"{fewest} to {most}"
            raise Error(f"{op} takes {wanted} operands, not {len(operands)}")
        if bias is not None and op not in _WITH_BIAS:
            raise Error(f"{op} takes no bias; ops with one are {', '.join(sorted(_WITH_BIAS))}")
        return form(name, operands, bias, attributes)
    if "::" not in op and not op[:1].isupper():
        raise Error(f"there is no op '{op}'; there are {', '.join(_FORMS)}, names of ONNX (MatMul) and of PyTorch "
                    "(aten::addmm)")
    return op, operands + ([] if bias is None else [bias]), attributes


def _plain(name: str, operands: list[Any], bias: Any, attributes: dict[str, Any]) -> _Form:
    return name, operands, attributes


def _gemm(name: str, operands: list[Any], bias: Any, attributes: dict[str, Any]) -> _Form:
    if len(operands) == 3 and bias is not None:
        raise Error("gemm: give the bias once, as the third operand or as bias=")
    return name, operands + ([] if bias is None else [bias]), attributes


def _linear(name: str, operands: list[Any], bias: Any, attributes: dict[str, Any]) -> _Form:
    return name, operands + ([] if bias is None else [bias]), attributes


def _softmax(name: str, operands: list[Any], bias: Any, attributes: dict[str, Any]) -> _Form:
    return name, operands, {"axis": attributes.pop("axis", attributes.pop("dim", -1)), **attributes}


def _norm(name: str, operands: list[Any], bias: Any, attributes: dict[str, Any]) -> _Form:
    eps = attributes.pop("eps", 1e-5)
    x = operands[0]
    if len(operands) == 1:  # ONNX has no norm without a scale
        operands = [x, _ones_like(x)]
    return name, operands, {"axis": -1, "epsilon": eps, **attributes}


def _attention(name: str, operands: list[Any], bias: Any, attributes: dict[str, Any]) -> _Form:
    return name, operands, {"is_causal": int(attributes.pop("causal", False)), **attributes}


def _conv2d(name: str, operands: list[Any], bias: Any, attributes: dict[str, Any]) -> _Form:
    rank = len(as_array(operands[0]).shape) - 2

    def per_axis(value: Any) -> list[int]:
        return [int(one) for one in value] if isinstance(value, (list, tuple)) else [int(value)] * rank

    settings = {
        "strides": per_axis(attributes.pop("stride", 1)),
        "pads": per_axis(attributes.pop("padding", 0)) * 2,
        "dilations": per_axis(attributes.pop("dilation", 1)),
        "group": int(attributes.pop("groups", 1)),
        **attributes,
    }
    return name, operands + ([] if bias is None else [bias]), settings


def _library_of(actual: Any) -> str:
    if not is_torch_tensor(actual):
        return "cuda"
    return "pytorch-cpu" if actual.device.type == "cpu" else "pytorch-cuda"


def _ones_like(x: Any) -> Any:
    extent = as_array(x).shape[-1]
    if is_torch_tensor(x):
        return x.new_ones(extent)
    return np.ones(extent, np.asarray(x).dtype)


#: Ops that came after the opset that records have by default.
_OPSETS = {"RMSNormalization": 23, "Attention": 23}

_WITH_BIAS = {"gemm", "linear", "conv2d"}

#: Friendly name: the op that is recorded, fewest and most operands, and how arguments become those of the record.
_FORMS: dict[str, tuple[str, int, int, Callable[[str, list[Any], Any, dict[str, Any]], _Form]]] = {
    "add": ("Add", 2, 2, _plain),
    "sub": ("Sub", 2, 2, _plain),
    "mul": ("Mul", 2, 2, _plain),
    "div": ("Div", 2, 2, _plain),
    "matmul": ("MatMul", 2, 2, _plain),
    "gemm": ("Gemm", 2, 3, _gemm),
    "linear": ("aten::linear", 2, 2, _linear),
    "conv2d": ("Conv", 2, 2, _conv2d),
    "softmax": ("Softmax", 1, 1, _softmax),
    "log_softmax": ("LogSoftmax", 1, 1, _softmax),
    "layer_norm": ("LayerNormalization", 1, 3, _norm),
    "rms_norm": ("RMSNormalization", 1, 2, _norm),
    "gelu": ("Gelu", 1, 1, _plain),
    "silu": ("aten::silu", 1, 1, _plain),
    "relu": ("Relu", 1, 1, _plain),
    "tanh": ("Tanh", 1, 1, _plain),
    "sigmoid": ("Sigmoid", 1, 1, _plain),
    "exp": ("Exp", 1, 1, _plain),
    "attention": ("Attention", 3, 4, _attention),
}
