"""`drift` of models whose extents or integers are fixed, or left open."""

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnx.numpy_helper")

import driftbound  # noqa: E402
from driftbound.program import run_program  # noqa: E402

helper, FLOAT, INT64 = onnx.helper, onnx.TensorProto.FLOAT, onnx.TensorProto.INT64
RANDOM = np.random.default_rng(3)


def saved(path, nodes, inputs, outputs, weights):
    graph = helper.make_graph(nodes, "network", inputs, outputs,
                              [onnx.numpy_helper.from_array(array, name) for name, array in weights.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    return path


@pytest.fixture
def lookup(tmp_path):
    """A table that is read by tokens of open extents, and a layer."""
    weights = {"table": RANDOM.standard_normal((20, 8)).astype("f4"), "w": RANDOM.standard_normal((8, 5)).astype("f4")}
    return saved(tmp_path / "lookup.onnx",
                 [helper.make_node("Gather", ["table", "ids"], ["rows"], axis=0),
                  helper.make_node("MatMul", ["rows", "w"], ["y"])],
                 [helper.make_tensor_value_info("ids", INT64, ["batch", "positions"])],
                 [helper.make_tensor_value_info("y", FLOAT, ["batch", "positions", 5])], weights)


def traced(model, path, ids, order):
    np.save(path.with_suffix(".npy"), np.array(ids))
    done = run_program(["capture", str(model), str(path.with_suffix(".npy")), "--order", order, "-o", str(path)])
    assert done.returncode == 0, done.stderr
    return path


def test_traces_of_a_model_with_open_axes_are_compared(lookup, tmp_path):
    one = traced(lookup, tmp_path / "one.safetensors", [[1, 2, 3]], "sequential")
    two = traced(lookup, tmp_path / "two.safetensors", [[1, 2, 3]], "pairwise")
    assert driftbound.drift(lookup, one, two).verdict == "expected"


def test_traces_of_other_integers_are_refused(lookup, tmp_path):
    one = traced(lookup, tmp_path / "one.safetensors", [[1, 2, 3]], "sequential")
    for name, ids in (("other", [[1, 2, 4]]), ("longer", [[1, 2, 3, 4]])):
        two = traced(lookup, tmp_path / f"{name}.safetensors", ids, "sequential")
        with pytest.raises(driftbound.Error, match="different inputs: 'ids' differs"):
            driftbound.drift(lookup, one, two)


def test_layers_of_a_model_with_a_fixed_batch_are_promoted(tmp_path):
    weights = {"w": RANDOM.standard_normal((16, 4)).astype("f4"), "v": RANDOM.standard_normal((4, 3)).astype("f4")}
    model = saved(tmp_path / "fixed.onnx",
                  [helper.make_node("MatMul", ["x", "w"], ["h"], name="first"), helper.make_node("Tanh", ["h"], ["t"]),
                   helper.make_node("MatMul", ["t", "v"], ["y"], name="last")],
                  [helper.make_tensor_value_info("x", FLOAT, [3, 16])],
                  [helper.make_tensor_value_info("y", FLOAT, [3, 3])], weights)
    np.save(tmp_path / "x.npy", RANDOM.standard_normal((3, 16)).astype("f4"))
    result = driftbound.drift(model, tmp_path / "x.npy", promote=["first:fp64"])
    assert result.verdict == "expected", result.text
    assert "'first' in float64" in result.text
