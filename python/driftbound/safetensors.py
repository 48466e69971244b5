"""Files of tensors (``.safetensors``): 8 bytes with the length of a JSON header, the header, the data."""

from __future__ import annotations

import json
import os
import struct
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .errors import Error

#: Bytes of an element, by the name that the header gives its type.
ITEM_SIZES = {
    "F64": 8, "F32": 4, "F16": 2, "BF16": 2, "F8_E4M3": 1, "F8_E5M2": 1,
    "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U64": 8, "U32": 4, "U16": 2, "U8": 1, "BOOL": 1,
}

#: Names of the types that numpy has, by the name that numpy gives them.
NUMPY_TYPES = {
    "float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16",
    "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2",
    "int64": "I64", "int32": "I32", "int16": "I16", "int8": "I8",
    "uint64": "U64", "uint32": "U32", "uint16": "U16", "uint8": "U8", "bool": "BOOL",
}


@dataclass(frozen=True)
class Tensor:
    """A tensor to be written: ``data`` is a contiguous array with the bytes of the elements."""

    type: str
    shape: tuple[int, ...]
    data: np.ndarray

    @property
    def size_in_bytes(self) -> int:
        return self.data.nbytes


def bytes_of(data: np.ndarray) -> memoryview:
    """The bytes of a contiguous array, without a copy."""
    return memoryview(data.reshape(-1).view(np.uint8))


def write(path: Path, tensors: dict[str, Tensor], metadata: dict[str, str]) -> None:
    """Writes a file under a temporary name beside ``path`` and renames it when it is complete."""
    # Larger elements first: then every tensor lies at a multiple of its element's size, without gaps.
    names = sorted(tensors, key=lambda name: -ITEM_SIZES[tensors[name].type])
    header: dict[str, object] = {"__metadata__": metadata}
    offset = 0
    for name in names:
        tensor = tensors[name]
        end = offset + tensor.size_in_bytes
        header[name] = {"dtype": tensor.type, "shape": list(tensor.shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    handle, temporary = tempfile.mkstemp(prefix="." + path.name + ".", suffix=".part", dir=path.parent)
    try:
        with os.fdopen(handle, "wb", buffering=1 << 20) as file:
            file.write(struct.pack("<Q", len(text)))
            file.write(text)
            for name in names:
                if tensors[name].size_in_bytes:
                    file.write(bytes_of(tensors[name].data))
        os.chmod(temporary, 0o666 & ~_mask_of_new_files())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _mask_of_new_files() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


class Reader:
    """A file of tensors. Data are read when they are asked for.

    Raises ``Error`` for a file that is none, naming it.
    """

    def __init__(self, path: Path):
        self.path = path
        try:
            self._file = open(path, "rb", buffering=0)
            size = os.fstat(self._file.fileno()).st_size
            (length,) = struct.unpack("<Q", self._file.read(8))
            if length > size - 8:
                raise ValueError("its header is longer than the file")
            self._start = 8 + length
            header = json.loads(os.pread(self._file.fileno(), length, 8))
            self.metadata: dict[str, str] = header.pop("__metadata__", {})
            self.tensors: dict[str, dict] = header
            for name, entry in header.items():
                begin, end = entry["data_offsets"]
                if not 0 <= begin <= end <= size - self._start:
                    raise ValueError(f"tensor '{name}' lies beyond its end")
        except OSError as error:
            raise Error(f"{path}: cannot be read: {error.strerror}") from None
        except (ValueError, struct.error, AttributeError, KeyError, TypeError) as error:
            raise Error(f"{path}: is no .safetensors file, or is cut off: {error}") from None

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def blocks(self, name: str, block_bytes: int = 1 << 22) -> Iterator[bytes]:
        """The bytes of a tensor, block by block."""
        begin, end = self.tensors[name]["data_offsets"]
        while begin < end:
            block = os.pread(self._file.fileno(), min(block_bytes, end - begin), self._start + begin)
            if not block:
                raise Error(f"{self.path}: was cut off while it was read")
            begin += len(block)
            yield block

    def starts_with(self, name: str, data: memoryview) -> bool:
        """Whether the first bytes of a tensor are these."""
        return next(self.blocks(name, len(data)), b"") == bytes(data)

    def is_equal(self, name: str, data: memoryview) -> bool:
        """Whether the bytes of a tensor are these."""
        wanted, place = np.frombuffer(data, np.uint8), 0
        for block in self.blocks(name):
            if not np.array_equal(wanted[place : place + len(block)], np.frombuffer(block, np.uint8)):
                return False
            place += len(block)
        return place == len(wanted)
