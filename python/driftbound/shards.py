"""The shards of a recording: docs/file-formats.md, "Recorded ops"."""

from __future__ import annotations

import json
import re
import secrets
import time
from pathlib import Path

import numpy as np

from . import safetensors
from .errors import Error
from .safetensors import Tensor


class ShardWriter:
    """Collects records and values and writes them as shards.

    A shard is written when its values have ``shard_bytes`` or more, or its first record is ``seconds`` old, always
    between two records. What a killed process leaves is readable up to its last shard.
    """

    #: How much time of a recording a killed process loses at most, but for one record.
    seconds = 10.0

    def __init__(self, path: str | Path, shard_bytes: int):
        self.path = Path(path)
        if self.path.suffix != ".safetensors":
            raise Error(f"{path}: recordings are .safetensors files; give the path this ending")
        if not self.path.parent.is_dir():
            raise Error(f"{path}: there is no folder {self.path.parent}; create it first")
        self.provenance: dict = {}
        self.arithmetics: dict[str, dict] = {}
        self.files: dict[str, dict] = {}
        self.records_written = 0
        self.bytes_written = 0
        self._shard_bytes = shard_bytes
        self._run = secrets.token_hex(8)
        self._shard = 0
        self._start_shard()
        for old in shards_of(self.path):
            old.unlink()

    def describe(self, identity: str, element_type: str, shape: tuple[int, ...], **more: object) -> None:
        """Adds a value that is not stored here: a derived one, or one in a file with weights."""
        self._values[identity] = {"type": element_type, "shape": list(shape), **more}

    def store(self, identity: str, tensor: Tensor, shape: tuple[int, ...], part: dict | None = None,
              indices: dict[str, np.ndarray] | None = None, name: str | None = None) -> None:
        """Adds a value with its numbers: ``tensor`` is all of it, or the part that ``indices`` select.

        ``name`` is what the program calls it.
        """
        entry: dict = {"type": tensor.type, "shape": list(shape)}
        if name is not None:
            entry["name"] = name
        if part is not None:
            entry["part"] = part
        self._values[identity] = entry
        self._add_tensor(f"value/{identity}", tensor)
        for suffix, array in (indices or {}).items():
            self._add_tensor(f"value/{identity}/{suffix}", Tensor("I64", array.shape, array))

    def add_record(self, record: dict) -> None:
        """Adds a record whose values have been added, and writes a shard where one is full."""
        self._records.append(record)
        if self._bytes >= self._shard_bytes or time.monotonic() - self._started >= self.seconds:
            self._write(last=False)

    def close(self) -> None:
        """Writes what is left, as the last shard."""
        self._write(last=True)

    def _add_tensor(self, name: str, tensor: Tensor) -> None:
        self._tensors[name] = tensor
        self._bytes += tensor.size_in_bytes

    def _start_shard(self) -> None:
        self._records: list[dict] = []
        self._values: dict[str, dict] = {}
        self._tensors: dict[str, Tensor] = {}
        self._bytes = 0
        self._started = time.monotonic()

    def _write(self, last: bool) -> None:
        metadata = {
            "driftbound.trace": "2",
            "run": self._run,
            "shard": str(self._shard),
            "records": _compact(self._records),
            "values": _compact(self._values),
        }
        if last:
            metadata["last"] = "true"
        if last or self._shard == 0:
            metadata["provenance"] = _compact(self.provenance)
        if self._shard == 0:
            metadata["arithmetics"] = _compact(self.arithmetics)
            metadata["files"] = _compact(self.files)
        safetensors.write(self._path_of(self._shard), self._tensors, metadata)
        self.records_written += len(self._records)
        self.bytes_written += self._bytes
        self._shard += 1
        self._start_shard()

    def _path_of(self, shard: int) -> Path:
        return self.path if shard == 0 else self.path.with_name(f"{self.path.stem}-{shard:05d}.safetensors")


def shards_of(path: Path) -> list[Path]:
    """The shards of the recording of this name, if there is one, the first one first."""
    return sorted((file for file in path.parent.iterdir() if may_be_shard(file, path) and _is_shard(file)),
                  key=lambda file: (len(file.name), file.name))


def may_be_shard(file: Path, path: Path) -> bool:
    """Whether the recording ``path`` gives this name to a shard."""
    return re.fullmatch(re.escape(path.stem) + r"(-\d{5})?\.safetensors", file.name) is not None


def _is_shard(path: Path) -> bool:
    try:
        with safetensors.Reader(path) as file:
            return file.metadata.get("driftbound.trace") == "2"
    except Error:
        return False


def _compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), allow_nan=False)
