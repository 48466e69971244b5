"""Files that recordings write, and what programs without a framework record."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest
from conftest import Run, read_file

import driftbound
from driftbound import safetensors

PACKAGE = str(Path(driftbound.__file__).parents[1])
A = np.arange(6, dtype=np.float32).reshape(2, 3)


def recorded(path, **options):
    return driftbound.record(path, pytorch=False, **options)


def test_a_call_of_numpy(run_path):
    with recorded(run_path) as recorder:
        recorder.add("MatMul", [A, A.T], A @ A.T, module="block.0", name="product", device="cpu", rank=1)
    run = Run(run_path)
    record = run.of("MatMul")
    assert record["module"] == "block.0" and record["name"] == "product" and record["rank"] == 1
    assert "attributes" not in record
    np.testing.assert_array_equal(run.number(record["operands"][0]), A)
    np.testing.assert_array_equal(run.number(record["operands"][1]), A.T)
    np.testing.assert_array_equal(run.number(record["results"][0]), A @ A.T)
    assert run.last and run.provenance["program"].startswith("numpy ")


def test_calls_are_linked_by_their_arrays(run_path):
    with recorded(run_path) as recorder:
        b = A + A
        recorder.add("Add", [A, A], b)
        (value,) = recorder.add("Exp", [b], np.exp(b))
        driftbound.record_call(recorder, "Softmax", [value], np.exp(b), axis=-1)
    run = Run(run_path)
    first, second, third = run.records
    assert first["operands"][0] == first["operands"][1] and second["operands"] == first["results"]
    assert third["operands"] == second["results"] and third["attributes"] == {"axis": -1}


def test_attributes_and_missing_operands(run_path):
    with recorded(run_path, arithmetic="fp64") as recorder:
        recorder.add("Clip", [A, None, np.float32(2)], [A, None], limit=-np.inf, axes=(0, np.int64(1)), flag=np.True_)
    record = Run(run_path).of("Clip")
    assert record["attributes"] == {"limit": "-inf", "axes": [0, 1], "flag": True}
    assert record["operands"][1] is None and record["results"][1] is None and record["arithmetic"] == "fp64"


@pytest.mark.parametrize("kind", ["float64", "float32", "float16", "int64", "int32", "bool"])
def test_element_types_and_orders(run_path, kind):
    array = np.asfortranarray(A).astype(kind)
    with recorded(run_path) as recorder:
        recorder.add("Identity", [array, array.astype(array.dtype.newbyteorder(">"))], array[:, ::-1])
    run = Run(run_path)
    record = run.of("Identity")
    assert run.values[record["operands"][0]]["type"] == safetensors.NUMPY_TYPES[kind]
    for identity in record["operands"]:
        np.testing.assert_array_equal(run.number(identity), array)
    np.testing.assert_array_equal(run.number(record["results"][0]), array[:, ::-1])


def test_shards(run_path):
    with recorded(run_path, shard_bytes=40) as recorder:
        x = A
        for _ in range(5):
            y = x + 1
            recorder.add("Add", [x, np.float32(1)], y)
            x = y
    run = Run(run_path)
    assert len(run.shards) > 2 and len(run.records) == 5 and run.last
    assert all(a["results"] == [b["operands"][0]] for a, b in zip(run.records, run.records[1:]))
    with recorded(run_path) as recorder:
        recorder.add("Neg", [A], -A)
    assert len(Run(run_path).shards) == 1, "a new recording replaces all shards of the old one"


def test_other_files_are_left_alone(run_path, tmp_path):
    other = tmp_path / "run-00001.safetensors"
    safetensors.write(other, {"x": safetensors.Tensor("F32", (2, 3), A)}, {"format": "pt"})
    with recorded(run_path) as recorder:
        recorder.add("Neg", [A], -A)
    assert read_file(other)[1]["x"].tolist() == A.tolist()


def test_an_exception_ends_in_an_orderly_way(run_path):
    with pytest.raises(ZeroDivisionError):
        with recorded(run_path) as recorder:
            recorder.add("Neg", [A], -A)
            1 / 0
    run = Run(run_path)
    assert run.last and len(run.records) == 1 and "ZeroDivisionError" in run.provenance["details"]["ended_by"]


def test_a_killed_process_leaves_whole_shards(run_path):
    code = f"""
        import sys; sys.path.insert(0, {PACKAGE!r})
        import numpy as np, driftbound
        x = np.zeros(100, np.float32)
        with driftbound.record({str(run_path)!r}, shard_bytes=1000) as recorder:
            while True:
                recorder.add("Add", [x, x], x + 1)
                x = x + 1
    """
    process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)])
    deadline = time.time() + 60
    while not run_path.with_name("run-00003.safetensors").exists() and time.time() < deadline:
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    run = Run(run_path)
    assert len(run.shards) >= 4 and not run.last and len(run.records) >= 8


def test_a_shard_is_written_after_some_time_however_small(run_path, monkeypatch):
    monkeypatch.setattr(driftbound.shards.ShardWriter, "seconds", 0.0)
    x = np.zeros(3, np.float32)
    with recorded(run_path) as recorder:
        recorder.add("Add", [x, x], x)
        assert run_path.exists()
        recorder.add("Mul", [x, x], x)
    run = Run(run_path)
    assert run.last and len(run.shards) == 3 and len(run.records) == 2


def test_a_sampled_product(run_path):
    random = np.random.default_rng(0)
    a, b = random.standard_normal((600, 70), np.float32), random.standard_normal((70, 900), np.float32)
    c = a @ b
    with recorded(run_path, sample=500) as recorder:
        recorder.add("MatMul", [a, b], c)
    run = Run(run_path)
    record = run.of("MatMul")
    left, right, result = *record["operands"], record["results"][0]
    for identity, whole in ((left, a), (right, b), (result, c)):
        run.check_part(identity, whole)
    taken = run.tensors[f"value/{result}/elements"]
    assert 450 <= len(taken) <= 502 and {c.argmax(), c.argmin()} <= set(taken), "what is drawn twice is stored once"
    rows, columns = run.tensors[f"value/{left}/axis/0"], run.tensors[f"value/{right}/axis/1"]
    assert set(taken // 900) <= set(rows) and set(taken % 900) <= set(columns)
    assert run.provenance["details"]["sample"] == "500 elements a record, seed 0"


def test_the_seed_decides_the_sample(run_path):
    big = np.random.default_rng(0).standard_normal(100_000).astype(np.float32)

    def taken(seed):
        with recorded(run_path, sample=100, seed=seed) as recorder:
            recorder.add("Exp", [big], np.exp(big))
        run = Run(run_path)
        return run.tensors[f"value/{run.of('Exp')['results'][0]}/elements"].tolist()

    assert taken(1) == taken(1) != taken(2)


def test_a_decorated_function_records_every_call_anew(run_path):
    @driftbound.record(run_path, pytorch=False)
    def function():
        pass

    for _ in range(2):
        with pytest.warns(driftbound.DriftboundWarning, match="no op was recorded"):
            function()
    assert Run(run_path).records == []


@pytest.mark.parametrize(
    "options, message",
    [
        ({"sample": 0}, "sample=0"),
        ({"sample": True}, "sample=True"),
        ({"weights": "/nowhere.safetensors"}, "no file or folder"),
        ({"arithmetic": "fp7"}, "arithmetic='fp7'"),
    ],
)
def test_bad_options(run_path, options, message):
    with pytest.raises(driftbound.Error, match=message):
        with recorded(run_path, **options):
            pass


def test_bad_paths(tmp_path):
    with pytest.raises(driftbound.Error, match="safetensors"):
        recorded(tmp_path / "run.txt").__enter__()
    with pytest.raises(driftbound.Error, match="no folder"):
        recorded(tmp_path / "none" / "run.safetensors").__enter__()


def test_add_needs_the_block_and_real_numbers(run_path):
    with recorded(run_path) as recorder:
        recorder.add("Neg", [A], -A)
        with pytest.raises(driftbound.Error, match="cannot be recorded"):
            recorder.add("Neg", [A + 1j], A)
    with pytest.raises(driftbound.Error, match="not recording"):
        recorder.add("Neg", [A], -A)


def test_weights_by_reference(run_path, tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    w, v = np.arange(40, dtype=np.float32).reshape(5, 8), np.ones((5, 8), np.float32)
    safetensors.write(folder / "model-00001-of-00002.safetensors", {"w": safetensors.Tensor("F32", w.shape, w)}, {})
    safetensors.write(folder / "model-00002-of-00002.safetensors", {"v": safetensors.Tensor("F32", v.shape, v)}, {})
    index = '{"weight_map": {"w": "model-00001-of-00002.safetensors", "v": "model-00002-of-00002.safetensors"}}'
    (folder / "model.safetensors.index.json").write_text(index)
    with recorded(run_path, weights=folder) as recorder:
        recorder.add("Add", [w, v], w + v)
        recorder.add("Add", [w + 7, v], w + 8)
    run = Run(run_path)
    first, second = run.records
    value = run.values[first["operands"][0]]
    assert value["file"] == "model-00001-of-00002.safetensors" and value["name"] == "w"
    assert not run.is_stored(first["operands"][0])
    assert run.files[value["file"]]["path"] == "model/model-00001-of-00002.safetensors"
    assert len(run.files[value["file"]]["sha256"]) == 64
    assert run.is_stored(second["operands"][0]), "the same shape with other numbers is no weight"
    long = np.zeros((5, 1000), np.float32)
    safetensors.write(tmp_path / "long.safetensors", {"long": safetensors.Tensor("F32", long.shape, long)}, {})
    other = long.copy()
    other[4, 999] = 1
    with recorded(run_path, weights=[tmp_path / "long.safetensors", folder]) as recorder:
        recorder.add("Add", [other, long], other)
    left, right = (run := Run(run_path)).of("Add")["operands"]
    assert run.is_stored(left) and run.values[right]["name"] == "long", "all bytes are compared"
    (folder / "model.safetensors.index.json").write_text('{"weight_map": {"w": "../x"}}')
    with pytest.raises(driftbound.Error, match="not in the folder"):
        recorded(run_path, weights=folder).__enter__()


def test_files_that_are_cut_off(tmp_path):
    path = tmp_path / "w.safetensors"
    safetensors.write(path, {"w": safetensors.Tensor("F32", A.shape, A)}, {})
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(driftbound.Error, match="beyond its end"):
        safetensors.Reader(path)
    path.write_bytes(b"12")
    with pytest.raises(driftbound.Error, match="no .safetensors file"):
        safetensors.Reader(path)


def test_parts_that_the_program_gives(run_path, tmp_path):
    random = np.random.default_rng(0)
    x, w = random.standard_normal((50, 8), np.float32), random.standard_normal((8, 30), np.float32)
    y = x @ w
    safetensors.write(tmp_path / "w.safetensors", {"fc.w": safetensors.Tensor("F32", w.shape, w)}, {})
    rows, elements = np.array([3, 7, 20]), np.array([3 * 30 + 2, 7 * 30, 20 * 30 + 29])
    with recorded(run_path, sample=100, weights=tmp_path / "w.safetensors", arithmetic="fp32") as recorder:
        some = driftbound.Part(x[rows], x.shape, axes={0: rows})
        (value,) = recorder.add("MatMul", [some, recorder.weight("fc.w")],
                                driftbound.Part(y.reshape(-1)[elements], y.shape, elements=elements, draws=3))
        recorder.add("Relu", [value], driftbound.Part(np.maximum(y.reshape(-1)[elements], 0), y.shape,
                                                      elements=elements))
        recorder.add("MatMul", [driftbound.Part(x[rows], x.shape, axes={0: rows}), w],
                     driftbound.Part(y[rows], y.shape, axes={0: rows}))
    run = Run(run_path)
    first, second, third = run.records
    run.check_part(first["operands"][0], x)
    run.check_part(first["results"][0], y)
    run.check_part(second["results"][0], np.maximum(y, 0))
    assert run.values[first["results"][0]]["part"] == {"elements": True, "draws": 3}
    assert run.values[first["operands"][1]] == {"type": "F32", "shape": [8, 30], "file": "w.safetensors",
                                                "name": "fc.w"}
    assert second["operands"] == first["results"] and third["operands"][0] == first["operands"][0]
    assert run.values[third["operands"][1]]["name"] == "fc.w", "the array is found in the file"


@pytest.mark.parametrize(
    "options, message",
    [
        ({}, "either axes or elements"),
        ({"axes": {0: [0, 1]}, "elements": [0]}, "either axes or elements"),
        ({"axes": {2: [0, 1]}}, "has no axis 2"),
        ({"axes": {0: [1, 0]}}, "ascending"),
        ({"axes": {0: [0, 9]}}, "below 9"),
        ({"axes": {0: [0, 1, 2]}}, r"is \[2, 3\], and its indices make it \[3, 3\]"),
        ({"elements": [0, 1]}, "make it"),
    ],
)
def test_parts_that_do_not_fit(options, message):
    with pytest.raises(driftbound.Error, match=message):
        driftbound.Part(A, (9, 3), **options)


def test_weights_that_are_not_there(run_path):
    with recorded(run_path) as recorder:
        recorder.add("Neg", [A], -A)
        with pytest.raises(driftbound.Error, match="no files have a tensor 'w'"):
            recorder.weight("w")
