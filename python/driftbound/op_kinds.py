"""What sampling has to know of ops: which elements of the operands an element of the result needs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    """How an element of the result depends on the operands."""

    PRODUCT = "a row of the left operand, a column of the right one"
    ROWS = "a row of the operand"
    ATTENTION = "a query, and all keys and values of its head"
    LOOKUP = "a row of a table"
    CHANNELS = "the same element, and all of the numbers for channels"
    CONVOLUTION = "a sample, and the weights of an output channel"
    ELEMENTWISE = "the same element of every operand"
    OTHER = "not known"


@dataclass(frozen=True)
class ProductForm:
    """Which operands a product multiplies and adds, and which of them are transposed."""

    left: int
    right: int
    addend: int | None = None
    left_transposed: bool = False
    right_transposed: bool = False


_PRODUCTS = {
    "mm": ProductForm(0, 1),
    "bmm": ProductForm(0, 1),
    "matmul": ProductForm(0, 1),
    "addmm": ProductForm(1, 2, addend=0),
    "_addmm_activation": ProductForm(1, 2, addend=0),
    "baddbmm": ProductForm(1, 2, addend=0),
    "linear": ProductForm(0, 1, addend=2, right_transposed=True),
    "gemm": ProductForm(0, 1, addend=2),
}

_ROWS = {
    "_softmax", "softmax", "_log_softmax", "log_softmax", "_safe_softmax", "logsoftmax",
    "native_group_norm", "native_layer_norm", "layer_norm", "layernormalization",
    "rms_norm", "_fused_rms_norm", "rmsnormalization",
    "sum", "mean", "amax", "amin", "logsumexp", "var", "std", "linalg_vector_norm", "cumsum",
    "reducesum", "reducemean", "reducemax", "reducemin", "reducelogsumexp",
}

_NORMS = {"native_layer_norm", "layer_norm", "rms_norm", "_fused_rms_norm"}

_ONNX_NORMS = {"layernormalization", "rmsnormalization"}

_CONVOLUTIONS = {"convolution", "_convolution", "conv", "conv1d", "conv2d", "conv3d", "mkldnn_convolution",
                 "cudnn_convolution"}

_CHANNELS = {"native_batch_norm", "_native_batch_norm_legit", "_native_batch_norm_legit_no_training",
             "cudnn_batch_norm", "miopen_batch_norm", "batchnormalization"}

_ELEMENTWISE = {
    "add", "sub", "rsub", "mul", "div", "pow", "neg", "abs", "sqrt", "rsqrt", "reciprocal", "square", "maximum",
    "minimum", "max", "min", "exp", "expm1", "log", "log1p", "log2", "log10", "sin", "cos", "tan", "asin", "acos",
    "atan", "sinh", "cosh", "tanh", "sigmoid", "logistic", "logsigmoid", "softplus",
    "erf", "erfc", "gelu", "silu",
    "swish", "mish", "relu", "relu6", "leaky_relu", "leakyrelu", "elu", "celu", "selu", "hardtanh", "hardswish",
    "hardsigmoid", "clamp", "clamp_min", "clamp_max", "clip", "where", "masked_fill", "lerp", "addcmul", "addcdiv",
    "fmod", "remainder", "floor", "ceil", "round", "trunc", "sign", "_to_copy", "cast",
    "eq", "ne", "lt", "le", "gt", "ge",
    "copy", "exp2", "asinh", "acosh", "atanh", "logical_xor", "bitwise_and", "bitwise_or", "bitwise_not",
    "isnan", "isinf",
    "equal", "greater", "less", "greaterorequal", "lessorequal", "logical_and", "logical_or", "logical_not",
    "and", "or", "not", "threshold_backward", "gelu_backward", "tanh_backward", "sigmoid_backward", "silu_backward",
}


def short_name(op: str) -> str:
    """Name of an op without namespace, in lower case, without the mark of in-place ops."""
    name = op.rsplit("::", 1)[-1].lower()
    return name.rstrip("_") if not name.startswith("__") else name


def kind_of(op: str) -> Kind:
    """The kind of an op by its name."""
    name = short_name(op)
    if name in _PRODUCTS:
        return Kind.PRODUCT
    if name in _ROWS:
        return Kind.ROWS
    if "scaled_dot_product" in name or name == "attention":
        return Kind.ATTENTION if "backward" not in name else Kind.OTHER
    if name == "embedding":
        return Kind.LOOKUP
    if name in _CHANNELS:
        return Kind.CHANNELS
    if name in _CONVOLUTIONS:
        return Kind.CONVOLUTION
    return Kind.ELEMENTWISE if name in _ELEMENTWISE else Kind.OTHER


def product_form(name: str, attributes: dict) -> ProductForm:
    """Operands of a product, by its short name."""
    form = _PRODUCTS[name]
    if name == "gemm":
        return ProductForm(0, 1, 2, bool(attributes.get("transA", 0)), bool(attributes.get("transB", 0)))
    return form


def is_transposed_convolution(name: str, attributes: dict) -> bool:
    """Whether a convolution is one that goes from outputs to inputs."""
    return bool(attributes.get("transposed", False))


def reduced_axes(name: str, attributes: dict, rank: int) -> set[int]:
    """Axes of the operand that every element of the result needs whole."""
    if name in _NORMS:
        return set(range(rank - len(attributes["normalized_shape"]), rank))
    if name == "native_group_norm":
        return set(range(1, rank))
    if name in _ONNX_NORMS:
        first = attributes.get("axis", -1)
        return set(range(first % rank, rank))
    axes = attributes.get("dim", attributes.get("axes", attributes.get("axis")))
    if axes is None and name in ("softmax", "logsoftmax"):
        axes = -1
    if axes is None or axes == []:
        return set(range(rank))
    return {axis % rank for axis in (axes if isinstance(axes, list) else [axes])} if rank else set()
