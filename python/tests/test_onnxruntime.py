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
    with pytest.raises(driftbound.Error, match="'all', 'final' or 'ops'"):
        driftbound.record_onnxruntime(run_path, path, {"x": X}, outputs="some")
    with pytest.raises(driftbound.Error, match="no such file"):
        driftbound.record_onnxruntime(run_path, "/nowhere.onnx", {"x": X})
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(driftbound.Error, match="needs onnx and onnxruntime"):
        driftbound.record_onnxruntime(run_path, path, {"x": X})


def test_a_recording_op_by_op_names_modules_and_is_judged(model, run_path):
    path = model("n")
    driftbound.record_onnxruntime(run_path, path, {"x": X}, outputs="ops")
    metadata, tensors = read_file(run_path)
    records = json.loads(metadata["records"])
    assert [(record["op"], record["module"]) for record in records] == [("MatMul", "b"), ("Tanh", "")]
    assert records[1]["operands"] == records[0]["results"], "values keep their ids"
    assert metadata["driftbound.trace"] == "2" and records[0]["opset"] == 13
    np.testing.assert_array_equal(tensors[f"value/{records[1]['results'][0]}"], np.tanh(X @ W))
    try:
        result = driftbound.report(run_path)
    except driftbound.Error as error:
        pytest.skip(str(error))
    assert result.holds, result.text


def test_what_a_recording_of_a_model_lacks_is_named(model, tmp_path):
    with pytest.raises(driftbound.Error, match="the inputs x are missing"):
        driftbound.record_model(tmp_path / "run.safetensors", model("n"), {})
    with pytest.raises(driftbound.Error, match="'/b/product' is missing"):
        driftbound.record_model(tmp_path / "run.safetensors", model("n"), {"x": X, "y": X})
    with pytest.raises(driftbound.Error, match="no such file"):
        driftbound.record_model(tmp_path / "run.safetensors", tmp_path / "none.onnx", {"x": X})


def test_ops_of_the_runtime_keep_their_domain_and_fusions_their_module(tmp_path):
    nodes = [
        helper.make_node("FusedMatMul", ["x", "w"], ["p"], name="/b/b.0/MatMul/MatMulScaleFusion/", domain="com.microsoft",
                         alpha=0.5),
        helper.make_node("Gelu", ["p"], ["/b/b.0/act/Mul_output_0"], name="Gelu", domain="com.microsoft"),
    ]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", FLOAT, [2, 3])],
                              [helper.make_tensor_value_info("/b/b.0/act/Mul_output_0", FLOAT, [2, 4])],
                              [onnx.numpy_helper.from_array(W, "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), str(tmp_path / "m.onnx"))
    product = (0.5 * (X @ W)).astype(np.float32)
    run = tmp_path / "run.safetensors"
    driftbound.record_model(run, tmp_path / "m.onnx", {"x": X, "p": product, "/b/b.0/act/Mul_output_0": product})
    records = json.loads(read_file(run)[0]["records"])
    assert [record["op"] for record in records] == ["com.microsoft::FusedMatMul", "com.microsoft::Gelu"]
    assert [record["module"] for record in records] == ["b/b.0", "b/b.0/act"]
    assert records[0]["attributes"] == {"alpha": 0.5}
