"""Files with weights, so that a recording refers to them and does not copy them."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from .arrays import Array
from .errors import Error
from .safetensors import Reader, bytes_of

_FIRST_ELEMENTS = 512


class WeightFiles:
    """The tensors of some ``.safetensors`` files, found by element type, shape and content.

    Arguments:
        given: ``None``, a ``.safetensors`` file, the folder of a Hugging Face model (``model.safetensors``, or the
            files that ``model.safetensors.index.json`` names), or a list of these.
        folder: of the recording; paths are relative to it where they can be.
        hashes: whether to compute the files' sha256.

    Raises ``Error`` for files that are missing or no ``.safetensors`` files.
    """

    def __init__(self, given: Any, folder: Path, hashes: bool):
        self.files: dict[str, dict[str, str]] = {}
        self._tensors: dict[tuple[str, tuple[int, ...]], list[tuple[Reader, str, str]]] = {}
        for path in _paths_of(given):
            name = unused_name(path.name, self.files)
            reader = Reader(path)
            self.files[name] = {"path": relative_path(path, folder)}
            if hashes:
                self.files[name]["sha256"] = _sha256(path)
            for tensor, entry in reader.tensors.items():
                kind = entry["dtype"], tuple(entry["shape"])
                self._tensors.setdefault(kind, []).append((reader, name, tensor))

    def named(self, name: str) -> tuple[dict[str, str], str, tuple[int, ...]]:
        """``file`` and ``name``, element type and shape of the tensor of this name."""
        found = [(kind, file) for kind, tensors in self._tensors.items() for _, file, tensor in tensors
                 if tensor == name]
        if len(found) != 1:
            raise Error(f"weights: {len(found) or 'no'} files have a tensor '{name}'; it has to be in one of them")
        ((element_type, shape), file), = found
        return {"file": file, "name": name}, element_type, shape

    def find(self, array: Array) -> dict[str, str] | None:
        """``file`` and ``name`` of a tensor with this type, this shape and these bytes, or ``None``."""
        candidates = self._tensors.get((array.type or "", array.shape))
        if not candidates or math.prod(array.shape) < 2:
            return None  # numbers and empty tensors are no weights, even where they are equal
        start = np.arange(min(math.prod(array.shape), _FIRST_ELEMENTS), dtype=np.int64)
        first = bytes_of(array.elements(start).data)
        candidates = [one for one in candidates if one[0].starts_with(one[2], first)]
        if not candidates:
            return None
        content = array.view_of_bytes()
        for reader, file, name in candidates:
            if reader.is_equal(name, content):
                return {"file": file, "name": name}
        return None


def _paths_of(given: Any) -> Iterable[Path]:
    if given is None:
        return
    if isinstance(given, (list, tuple)):
        for one in given:
            yield from _paths_of(one)
        return
    path = Path(given)
    if not path.is_dir():
        if not path.is_file():
            raise Error(f"weights: there is no file or folder {path}")
        yield path
        return
    index, single = path / "model.safetensors.index.json", path / "model.safetensors"
    if index.is_file():
        try:
            names = set(json.loads(index.read_text())["weight_map"].values())
        except (ValueError, KeyError, AttributeError) as error:
            raise Error(f"{index}: is no index of weights: {error}") from None
        for name in sorted(names):
            if Path(name).name != name or not (path / name).is_file():
                raise Error(f"{index}: names the file '{name}', which is not in the folder")
            yield path / name
    elif single.is_file():
        yield single
    else:
        raise Error(f"weights: the folder {path} has neither {single.name} nor {index.name}; name the file itself")


def unused_name(name: str, used: dict) -> str:
    """The name, with ``#2``, ``#3`` … where it is used."""
    candidate, number = name, 2
    while candidate in used:
        candidate, number = f"{name}#{number}", number + 1
    return candidate


def relative_path(path: Path, folder: Path) -> str:
    """The path from a folder on where it lies in it, else the whole path."""
    path, folder = path.resolve(), folder.resolve()
    relative = os.path.relpath(path, folder)
    return str(path) if relative.startswith(os.pardir) else relative


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 22):
            digest.update(block)
    return digest.hexdigest()
