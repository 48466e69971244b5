"""Tensors of numpy and PyTorch as recordings need them: whole, cut to rows and columns, single elements.

Everything taken is a copy in memory of its own, so that later changes in place do not reach it. The exception is
``view_of_bytes``, which is for comparing only.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any, Protocol

import numpy as np

from .safetensors import NUMPY_TYPES, Tensor, bytes_of

_INTEGERS = {"I64", "I32", "I16", "I8", "U64", "U32", "U16", "U8", "BOOL"}


class Array(Protocol):
    """What a recorder asks of a tensor. ``type`` is ``None`` where files have no such element type."""

    type: str | None
    shape: tuple[int, ...]

    def whole(self) -> Tensor: ...

    def view_of_bytes(self) -> memoryview: ...

    def cut(self, axes: dict[int, np.ndarray]) -> Tensor: ...

    def elements(self, indices: np.ndarray) -> Tensor: ...

    def extremes(self) -> list[int]: ...

    def integers(self, indices: np.ndarray) -> np.ndarray: ...


class NumpyArray:
    """An array in memory: of numpy, or of something that numpy makes an array of, or a tensor of PyTorch.

    ``element_type`` is given where ``array`` has the bits of elements of a type that numpy does not have.
    """

    def __init__(self, array: Any, element_type: str | None = None):
        array = np.asarray(array)
        self._array = array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))
        self.shape = array.shape
        self.type = element_type or NUMPY_TYPES.get(array.dtype.name)

    def whole(self) -> Tensor:
        return self._tensor(np.array(self._array, order="C"))

    def view_of_bytes(self) -> memoryview:
        return bytes_of(np.ascontiguousarray(self._array))

    def cut(self, axes: dict[int, np.ndarray]) -> Tensor:
        taken = self._array
        for axis in _largest_cut_first(axes, self.shape):
            taken = taken[(slice(None),) * axis + (axes[axis],)]
        return self._tensor(np.array(taken, order="C"))

    def elements(self, indices: np.ndarray) -> Tensor:
        return self._tensor(np.ascontiguousarray(self._array[np.unravel_index(indices, self.shape)]))

    def extremes(self) -> list[int]:
        if not self._array.size:
            return []
        if self.type in ("F32", "F64") or self._array.dtype.kind in "iub" and self.type in _INTEGERS:
            return [int(self._array.argmin()), int(self._array.argmax())]
        bits = self._array.view(f"u{self._array.dtype.itemsize}")  # a float without its sign bit: its magnitude
        return [int((bits & (np.iinfo(bits.dtype).max >> 1)).argmax())]

    def integers(self, indices: np.ndarray) -> np.ndarray:
        return self._array[np.unravel_index(indices, self.shape)].astype(np.int64)

    def _tensor(self, array: np.ndarray) -> Tensor:
        return Tensor(self.type, array.shape, array)


class DeviceArray:
    """A tensor of PyTorch on a device. Must not be used while a dispatch mode records."""

    def __init__(self, tensor: Any):
        self._tensor = tensor
        self.shape = tuple(tensor.shape)
        self.type = torch_type_name(tensor.dtype)

    def whole(self) -> Tensor:
        return in_memory(self._tensor.cpu()).whole()

    def view_of_bytes(self) -> memoryview:
        return in_memory(self._tensor.cpu()).view_of_bytes()

    def cut(self, axes: dict[int, np.ndarray]) -> Tensor:
        taken = self._tensor
        for axis in _largest_cut_first(axes, self.shape):
            taken = taken.index_select(axis, self._indices(axes[axis]))
        return in_memory(taken.cpu()).whole()

    def elements(self, indices: np.ndarray) -> Tensor:
        return in_memory(self._take(indices).cpu()).whole()

    def extremes(self) -> list[int]:
        if not self._tensor.numel():
            return []
        try:
            return [int(self._tensor.argmin()), int(self._tensor.argmax())]
        except RuntimeError:  # PyTorch has no such function for this type on this device
            return []

    def integers(self, indices: np.ndarray) -> np.ndarray:
        return self._take(indices).cpu().numpy().astype(np.int64)

    def _take(self, indices: np.ndarray) -> Any:
        """Single elements by their row-major indices, from any strides, without a copy of the whole."""
        tensor = self._tensor
        if not tensor.numel():
            return tensor.reshape(-1)
        positions = np.unravel_index(indices, self.shape)
        offsets = np.zeros(len(indices), np.int64)
        for position, stride in zip(positions, tensor.stride()):
            offsets += position * stride
        length = 1 + sum((extent - 1) * stride for extent, stride in zip(self.shape, tensor.stride()))
        return tensor.as_strided((length,), (1,)).index_select(0, self._indices(offsets))

    def _indices(self, indices: np.ndarray) -> Any:
        return sys.modules["torch"].from_numpy(indices).to(self._tensor.device)


def in_memory(tensor: Any) -> NumpyArray:
    """A tensor of PyTorch on the CPU, with the same memory."""
    torch = sys.modules["torch"]
    name = torch_type_name(tensor.dtype)
    if name == "BF16":
        tensor = tensor.view(torch.int16)
    elif name is not None and name.startswith("F8"):
        tensor = tensor.view(torch.uint8)
    return NumpyArray(_of_its_memory(tensor), name)


def _of_its_memory(tensor: Any) -> np.ndarray:
    """The tensor's memory as numpy has it. ``tensor.numpy()`` would keep its storage from being resized for ever."""
    dtype = sys.modules["torch"].empty(0, dtype=tensor.dtype).numpy().dtype
    if not tensor.numel():
        return np.empty(tuple(tensor.shape), dtype)
    length = 1 + sum((extent - 1) * stride for extent, stride in zip(tensor.shape, tensor.stride()))
    memory = (ctypes.c_char * (length * dtype.itemsize)).from_address(tensor.data_ptr())
    memory.owner = tensor
    strides = tuple(stride * dtype.itemsize for stride in tensor.stride())
    return np.ndarray(tuple(tensor.shape), dtype, memory, 0, strides)


def torch_type_name(dtype: Any) -> str | None:
    """Name of a type of PyTorch in a header, or ``None`` where files have no such type."""
    return NUMPY_TYPES.get(str(dtype).removeprefix("torch."))


def is_torch_tensor(value: Any) -> bool:
    """Whether this is a tensor of PyTorch, without importing PyTorch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def as_array(value: Any) -> Array:
    """A tensor of PyTorch, or anything that numpy makes an array of."""
    if not is_torch_tensor(value):
        return NumpyArray(value)
    tensor = value.detach()
    if tensor.is_conj() or tensor.is_neg():
        tensor = tensor.resolve_conj().resolve_neg()
    return in_memory(tensor) if tensor.device.type == "cpu" else DeviceArray(tensor)


def _largest_cut_first(axes: dict[int, np.ndarray], shape: tuple[int, ...]) -> list[int]:
    return sorted(axes, key=lambda axis: len(axes[axis]) / max(shape[axis], 1))
