"""Traces of ONNX Runtime, by a double of it that computes three ops by numpy."""

import json
import sys
import types

import numpy as np
import pytest
from conftest import read_file

import driftbound

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnx.numpy_helper")
helper, FLOAT = onnx.helper, onnx.TensorProto.FLOAT
W = np.arange(12, dtype=np.float32).reshape(3, 4) / 7
OPS = {"MatMul": np.matmul, "Tanh": np.tanh, "Add": np.add}


class Session:
    """An inference session that keeps all values."""

    def __init__(self, source, sess_options=None, providers=None):
        self.model = onnx.load(source)

    def run(self, wanted, inputs):
        values = {one.name: onnx.numpy_helper.to_array(one) for one in self.model.graph.initializer} | inputs
        for node in self.model.graph.node:
            values[node.output[0]] = OPS[node.op_type](*(values[name] for name in node.input))
        declared = {one.name for one in self.model.graph.output}
        assert set(wanted) <= declared
        return [values[name] for name in wanted]


@pytest.fixture
def model(tmp_path, monkeypatch):
    """Writes a model with a given first extent of its input."""
    monkeypatch.setitem(sys.modules, "onnxruntime", types.SimpleNamespace(__version__="1.0", InferenceSession=Session))

    def make(first):
        nodes = [
            helper.make_node("MatMul", ["x", "w"], ["/b/product"], name="/b/MatMul"),
            helper.make_node("Tanh", ["w"], ["constant"]),
            helper.make_node("Tanh", ["/b/product"], ["y"], name="last"),
        ]
        graph = helper.make_graph(
            nodes, "g", [helper.make_tensor_value_info("x", FLOAT, [first, 3])],
            [helper.make_tensor_value_info("y", FLOAT, [first, 4])], [onnx.numpy_helper.from_array(W, "w")],
        )
        path = tmp_path / "model.onnx"
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), str(path))
        return path

    return make


X = np.arange(6, dtype=np.float32).reshape(2, 3) / 5


def test_all_nodes(model, run_path, tmp_path):
    path = model("n")
    result = driftbound.record_onnxruntime(run_path, path, {"x": X})
    metadata, tensors = read_file(run_path)
    assert set(tensors) == {"input/x", "layer/0/.b.product/output", "layer/1/constant/output", "layer/2/y/output"}
    np.testing.assert_array_equal(tensors["layer/2/y/output"], np.tanh(X @ W))
    np.testing.assert_array_equal(result["y"], np.tanh(X @ W))
    assert metadata["driftbound.trace"] == "1" and len(metadata["model_sha256"]) == 64
    provenance = json.loads(metadata["provenance"])
    assert provenance["observer_effect"] == "none" and provenance["program"] == "onnxruntime 1.0"
    assert json.loads(metadata["arithmetic"])["order"] == "unknown"
    assert [file.name for file in tmp_path.glob("*.onnx")] == ["model.onnx"], "the copy is removed"


def test_the_program_judges_the_trace(model, run_path):
    try:
        driftbound.find_program()
    except driftbound.Error as error:
        pytest.skip(str(error))
    path = model("n")
    driftbound.record_onnxruntime(run_path, path, {"x": X})
    answer = driftbound.report(path, trace=run_path)
    assert answer.holds, answer.text


def test_final_outputs(model, run_path):
    driftbound.record_onnxruntime(run_path, model("n"), {"x": X}, outputs="final")
    metadata, tensors = read_file(run_path)
    assert set(tensors) == {"input/x", "layer/2/y/output"}
    assert json.loads(metadata["provenance"])["details"]["outputs"] == "final"


def test_a_model_of_one_sample(model, run_path):
    driftbound.record_onnxruntime(run_path, model(2), {"x": X})
    tensors = read_file(run_path)[1]
    assert tensors["input/x"].shape == (1, 2, 3) and tensors["layer/2/y/output"].shape == (1, 2, 4)
    assert tensors["layer/1/constant/output"].shape == (3, 4), "constants do not depend on samples"


def test_bad_calls(model, run_path, monkeypatch):
    path = model("n")
    with pytest.raises(driftbound.Error, match="has the inputs x; given are z"):
        driftbound.record_onnxruntime(run_path, path, {"z": X})
    with pytest.raises(driftbound.Error, match="'all' or 'final'"):
        driftbound.record_onnxruntime(run_path, path, {"x": X}, outputs="some")
    with pytest.raises(driftbound.Error, match="no such file"):
        driftbound.record_onnxruntime(run_path, "/nowhere.onnx", {"x": X})
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(driftbound.Error, match="needs onnx and onnxruntime"):
        driftbound.record_onnxruntime(run_path, path, {"x": X})
