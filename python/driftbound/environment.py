"""Where a program ran, and the arithmetic that follows from it (docs/file-formats.md, "Arithmetic")."""

from __future__ import annotations

import datetime
import os
import platform
from typing import Any

import numpy as np

from .errors import Error
from .version import read_version

#: Names that records may give without declaring them.
BUILT_IN = ("fp64", "fp32", "tf32", "bf16", "fp16")

#: Parts that a product with sums in 16 bits may be split into: more than cuBLAS was seen to use. Assumed.
_PARTS = 32

#: Fraction bits and products a step of NVIDIA's matrix units by generation (docs/arithmetic.md, "Tensor cores").
_TENSOR_CORES = {8: (24, 4, 8), 9: (25, 4, 8), 10: (25, 4, 8), 12: (25, 4, 8)}


def basic_provenance() -> dict:
    """The provenance that every recording has."""
    return {
        "program": f"numpy {np.__version__}",
        "backend": "cpu",
        "device": processor_name(),
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "observer_effect": "not checked",
        "details": {
            "driftbound": read_version(),
            "python": platform.python_version(),
            "numpy": np.__version__,
            "system": platform.platform(),
        },
    }


def processor_name() -> str:
    """What the system calls the processor."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def arithmetic_from(given: str | dict | None, declared: dict[str, dict]) -> str | None:
    """The name that records give to the arithmetic that the caller declares; adds it to ``declared``."""
    if given is None or given in BUILT_IN:
        return given
    if isinstance(given, dict) and isinstance(given.get("name"), str):
        declared[given["name"]] = given
        return given["name"]
    raise Error(f"arithmetic={given!r}: one of {', '.join(BUILT_IN)}, or an object as docs/file-formats.md has it")


def declare(name: str, accumulate: str, operands: str | None = None, *, source: str, functions: str | None = None,
            **more: Any) -> dict:
    """An arithmetic in any order, whose results are stored in the types that they have. Assumed, not measured."""
    arithmetic = {
        "name": name,
        "input": operands or accumulate,
        "accumulator": accumulate,
        "output": accumulate,
        "stores_declared_types": True,
        "order": "unknown",
        "evidence": "assumed",
        "source": source,
        **more,
    }
    if functions:
        arithmetic["functions"] = functions
    return arithmetic


class TorchArithmetics:
    """The arithmetics of the devices and types that PyTorch may use, by name, and which of them a call is in.

    The flags of PyTorch are read at every call, since programs change them on the way.
    """

    def __init__(self, torch: Any):
        self._torch = torch
        self._version = str(torch.__version__)
        self.declared: dict[str, dict] = {}
        self._declare_cpu()
        self._capabilities: dict[int, tuple[int, int]] = {}
        if torch.cuda.is_available():
            for device in range(torch.cuda.device_count()):
                capability = torch.cuda.get_device_capability(device)
                self._capabilities[device] = capability
                self._declare_cuda(capability)

    def name_for(self, device: Any, types: set[str], product: bool, convolution: bool) -> str | None:
        """Name of the arithmetic of a call on ``device`` with operands of these element types.

        ``None`` where nothing is known: other devices, and ops of integers alone.
        """
        floats = types & {"F64", "F32", "F16", "BF16"}
        if device.type not in ("cpu", "cuda") or not floats:
            return None
        prefix = "cpu" if device.type == "cpu" else self._cuda_prefix(device)
        if "F64" in floats:
            return f"{prefix} fp64"
        narrow = "bf16" if "BF16" in floats else "fp16" if "F16" in floats else None
        if prefix == "cpu":
            if narrow is None and product and self._cpu_rounds_to_bf16():
                return "cpu fp32 by bf16"
            if narrow is not None and self._release() < (2, 1):
                return f"cpu {narrow} steps"
            return f"cpu {narrow or 'fp32'}"
        if narrow is None:
            return f"{prefix} tf32" if self._uses_tf32(product, convolution) else f"{prefix} fp32"
        if product and not convolution and self._matmul_flag(f"allow_{narrow}_accumulation", False):
            return f"{prefix} {narrow} sums"
        if product and not convolution and self._matmul_flag(f"allow_{narrow}_reduced_precision_reduction", True):
            return f"{prefix} {narrow} reduced"
        return f"{prefix} {narrow}"

    def name_for_reduction(self, device: Any, types: set[str]) -> str | None:
        """Name of the arithmetic of a sum over ranks: numbers of 16 bits may be rounded after every addition."""
        if device.type not in ("cpu", "cuda") or not types & {"F16", "BF16"}:
            return self.name_for(device, types, False, False)
        narrow = "bf16" if "BF16" in types else "fp16"
        return f"cpu {narrow} steps" if device.type == "cpu" else f"{self._cuda_prefix(device)} {narrow} sums"

    def _declare(self, name: str, *formats: str, source: str, **more: Any) -> None:
        self.declared[name] = declare(name, *formats, source=source, **more)

    def _declare_cpu(self) -> None:
        where = f"torch {self._version} on the CPU: "
        accuracy = {"functions": "pytorch-cpu"}
        self._declare("cpu fp64", "fp64", source=where + "float64 in any order")
        self._declare("cpu fp32", "fp32", source=where + "float32 in any order", **accuracy)
        self._declare("cpu fp32 by bf16", "fp32", "bf16", **accuracy,
                      source=where + "float32 products by bfloat16, as set_float32_matmul_precision('medium') allows")
        for narrow in ("bf16", "fp16"):
            self._declare(f"cpu {narrow}", "fp32", narrow, **accuracy,
                          source=where + f"{narrow} operands, float32 sums")
            # Measured of PyTorch 1.13: products and sums, and steps inside of functions, are rounded one by one.
            self._declare(f"cpu {narrow} steps", narrow, source=where + f"every step rounded to {narrow}", **accuracy)

    def _declare_cuda(self, capability: tuple[int, int]) -> None:
        prefix = f"cuda {capability[0]}.{capability[1]}"
        where = f"torch {self._version} on CUDA, compute capability {capability[0]}.{capability[1]}: "
        bits, tf32_block, block = _TENSOR_CORES.get(capability[0], (23, 4, 4))
        accuracy = {"functions": "pytorch-cuda"}
        self._declare(f"{prefix} fp64", "fp64", source=where + "float64 in any order")
        self._declare(f"{prefix} fp32", "fp32", source=where + "float32 in any order", **accuracy)
        self._declare(f"{prefix} tf32", "fp32", "tf32", source=where + "TF32 allowed in products", **accuracy,
                      tensor_core={"fraction_bits": bits, "block": tf32_block})
        for narrow in ("bf16", "fp16"):
            usual = {**accuracy, "tensor_core": {"fraction_bits": bits, "block": block}}
            self._declare(f"{prefix} {narrow}", "fp32", narrow, **usual,
                          source=where + f"{narrow} operands, float32 sums")
            self._declare(f"{prefix} {narrow} reduced", "fp32", narrow, **usual,
                          source=where + f"{narrow} operands, float32 sums, reduced-precision reductions allowed",
                          reduced_reduction={"format": narrow, "parts": _PARTS})
            self._declare(f"{prefix} {narrow} sums", narrow, source=where + f"sums in {narrow} allowed", **accuracy)

    def _cuda_prefix(self, device: Any) -> str:
        capability = self._capabilities[device.index if device.index is not None else 0]
        return f"cuda {capability[0]}.{capability[1]}"

    def _uses_tf32(self, product: bool, convolution: bool) -> bool:
        if os.environ.get("NVIDIA_TF32_OVERRIDE") == "0" or not product:
            return False
        if convolution:
            return bool(_flag(self._torch.backends.cudnn, "allow_tf32", True))
        if self._precision() != "highest" or self._matmul_flag("allow_tf32", False):
            return True
        return _flag(self._torch.backends.cuda.matmul, "fp32_precision", "none") == "tf32"  # since PyTorch 2.9

    def _cpu_rounds_to_bf16(self) -> bool:
        # Products of float32 numbers by bfloat16 units on the CPU came with PyTorch 2.1.
        return self._release() >= (2, 1) and self._precision() == "medium"

    def _release(self) -> tuple[int, ...]:
        return tuple(int(part) for part in self._version.split("+")[0].split(".")[:2])

    def _precision(self) -> str:
        try:
            return str(self._torch.get_float32_matmul_precision())
        except (AttributeError, RuntimeError):
            return "highest"

    def _matmul_flag(self, name: str, default: bool) -> bool:
        flag = _flag(self._torch.backends.cuda.matmul, name, default)
        return bool(flag[0] if isinstance(flag, tuple) else flag)


def torch_provenance(torch: Any) -> dict:
    """Provenance of a program that computes by PyTorch: versions, device and the flags that change arithmetic."""
    cuda = torch.cuda.is_available()
    details = {
        "torch": str(torch.__version__),
        "threads": str(torch.get_num_threads()),
        "deterministic": str(torch.are_deterministic_algorithms_enabled()),
        "float32_matmul_precision": _text_of(torch.get_float32_matmul_precision),
    }
    if cuda:
        matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
        details.update({
            "cuda": str(torch.version.cuda),
            "cudnn": _text_of(cudnn.version),
            "capability": ", ".join("%d.%d" % torch.cuda.get_device_capability(i)
                                    for i in range(torch.cuda.device_count())),
            "matmul.allow_tf32": _text_of(lambda: matmul.allow_tf32),
            "cudnn.allow_tf32": _text_of(lambda: cudnn.allow_tf32),
            "cudnn.deterministic": _text_of(lambda: cudnn.deterministic),
            "cudnn.benchmark": _text_of(lambda: cudnn.benchmark),
            "matmul.allow_bf16_reduced_precision_reduction":
                _text_of(lambda: matmul.allow_bf16_reduced_precision_reduction),
            "matmul.allow_fp16_reduced_precision_reduction":
                _text_of(lambda: matmul.allow_fp16_reduced_precision_reduction),
        })
    for variable in ("NVIDIA_TF32_OVERRIDE", "CUBLAS_WORKSPACE_CONFIG", "ONEDNN_DEFAULT_FPMATH_MODE"):
        if variable in os.environ:
            details[variable] = os.environ[variable]
    return {
        "program": f"torch {torch.__version__}",
        "backend": "cuda" if cuda else "cpu",
        "device": torch.cuda.get_device_name() if cuda else processor_name(),
        "details": details,
    }


def _text_of(read: Any) -> str:
    try:
        return str(read())
    except (AttributeError, RuntimeError):
        return "unknown"


def _flag(module: Any, name: str, default: bool) -> Any:
    """A flag of PyTorch; ``default`` where this version has none, or refuses to say."""
    try:
        return getattr(module, name)
    except (AttributeError, AssertionError, RuntimeError):
        return default

