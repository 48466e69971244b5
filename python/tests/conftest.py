"""What the tests share: the package of this checkout, a reader of recordings of their own, and the program."""

from __future__ import annotations

import json
import struct
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

TYPES = {"F32": "<f4", "F64": "<f8", "F16": "<f2", "I64": "<i8", "I32": "<i4", "BOOL": "?", "BF16": "<u2", "U8": "u1"}


def read_file(path):
    """Header and tensors of a .safetensors file, by the format's description alone."""
    data = Path(path).read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    metadata = header.pop("__metadata__")
    assert all(isinstance(text, str) for text in metadata.values())
    body, end, tensors = data[8 + length :], 0, {}
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        first, last = entry["data_offsets"]
        assert first == end, "tensors follow each other without gaps"
        kind = np.dtype(TYPES[entry["dtype"]])
        assert first % kind.itemsize == 0, "tensors are aligned"
        tensors[name] = np.frombuffer(body[first:last], kind).reshape(entry["shape"])
        end = last
    assert end == len(body)
    return metadata, tensors


class Run:
    """A recording, read from its shards."""

    def __init__(self, path):
        path = Path(path)
        self.shards = [path, *sorted(path.parent.glob(f"{path.stem}-[0-9]*.safetensors"))]
        self.records, self.values, self.tensors, runs = [], {}, {}, set()
        for number, shard in enumerate(self.shards):
            metadata, tensors = read_file(shard)
            assert metadata["driftbound.trace"] == "2" and metadata["shard"] == str(number)
            runs.add(metadata["run"])
            values = json.loads(metadata["values"])
            assert not values.keys() & self.values.keys(), "ids are unique"
            self.values.update(values)
            self.tensors.update(tensors)
            self.records += json.loads(metadata["records"])
            self.last = metadata.get("last") == "true"
            if number == 0:
                self.provenance = json.loads(metadata["provenance"])
                self.arithmetics = json.loads(metadata["arithmetics"])
                self.files = json.loads(metadata["files"])
        assert len(runs) == 1
        self._check()

    def _check(self):
        """What the format asks of every recording."""
        for record in self.records:
            for identity in [*record["operands"], *record["results"]]:
                assert identity is None or identity in self.values
            name = record.get("arithmetic")
            assert name is None or name in self.arithmetics or name in ("fp64", "fp32", "tf32", "bf16", "fp16")
        for identity, value in self.values.items():
            assert "/" not in identity
            part, stored = value.get("part"), self.tensors.get(f"value/{identity}")
            if part is None:
                assert stored is None or list(stored.shape) == value["shape"]
                continue
            assert stored is not None
            if part.get("elements"):
                indices = self.tensors[f"value/{identity}/elements"]
                assert stored.shape == indices.shape and indices.dtype == np.int64
                assert (np.diff(indices) > 0).all()
                continue
            shape = list(value["shape"])
            for axis in part["axes"]:
                indices = self.tensors[f"value/{identity}/axis/{axis}"]
                assert indices.dtype == np.int64 and (np.diff(indices) > 0).all() and indices.max() < shape[axis]
                shape[axis] = len(indices)
            assert list(stored.shape) == shape

    def ops(self):
        return [record["op"] for record in self.records]

    def of(self, op):
        """The only record of an op."""
        (record,) = [record for record in self.records if record["op"] == op]
        return record

    def number(self, identity):
        """The stored numbers of a value."""
        return self.tensors[f"value/{identity}"]

    def is_stored(self, identity):
        return f"value/{identity}" in self.tensors

    def check_part(self, identity, whole):
        """Whether what is stored of a value are the numbers of ``whole``."""
        value, stored = self.values[identity], self.number(identity)
        assert value["shape"] == list(whole.shape)
        part = value.get("part", {})
        if part.get("elements"):
            expected = whole.reshape(-1)[self.tensors[f"value/{identity}/elements"]]
        else:
            expected = whole
            for axis in part.get("axes", []):
                expected = np.take(expected, self.tensors[f"value/{identity}/axis/{axis}"], axis)
        np.testing.assert_array_equal(stored, expected)


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


@pytest.fixture
def run_path(tmp_path):
    return tmp_path / "run.safetensors"


@pytest.fixture(scope="session")
def judge(tmp_path_factory):
    """``driftbound.report`` of a recording; skips where there is no program that can judge one."""
    import driftbound

    path = tmp_path_factory.mktemp("judge") / "run.safetensors"
    with driftbound.record(path, pytorch=False) as recorder:
        recorder.add("Add", [np.float32([1, 2]), np.float32([3, 4])], np.float32([4, 6]))
    try:
        driftbound.report(path)
    except driftbound.Error as error:
        pytest.skip(f"no program that judges recordings: {error}")
    return driftbound.report
