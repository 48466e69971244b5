"""Recordings of JAX, by a double of the few parts of JAX that are used (JAX itself is tried where it is installed)."""

import sys
import types

import numpy as np
import pytest
from conftest import Run

import driftbound
from driftbound.jax_recorder import translate


class Aval:
    def __init__(self, array):
        self.shape, self.dtype = np.shape(array), np.asarray(array).dtype


class Var:
    pass


class Literal:
    def __init__(self, val):
        self.val, self.aval = val, Aval(np.float32(val))


class Primitive:
    def __init__(self, name, function=None):
        self.name, self.function, self.multiple_results = name, function, False

    def get_bind_params(self, params):
        return [], params

    def bind(self, *operands, **params):
        return self.function(*operands, **params)


def equation(primitive, inputs, outputs, **params):
    return types.SimpleNamespace(primitive=primitive, invars=inputs, outvars=outputs, params=params,
                                 source_info=types.SimpleNamespace(name_stack="block/0"))


def closed(inputs, equations, outputs, consts=()):
    jaxpr = types.SimpleNamespace(invars=inputs, constvars=[one for one, _ in consts], eqns=equations, outvars=outputs)
    return types.SimpleNamespace(jaxpr=jaxpr, consts=[value for _, value in consts], out_avals=[])


ADD, EXP = Primitive("add", np.add), Primitive("exp", np.exp)
TRANSPOSE = Primitive("transpose", lambda x, permutation: np.transpose(x, permutation))
DOT = Primitive("dot_general", lambda a, b, **params: a @ b)
BROADCAST = Primitive("broadcast_in_dim", lambda x, shape, broadcast_dimensions: np.broadcast_to(x, shape))
NUMPY = types.SimpleNamespace(asarray=np.asarray, reshape=np.reshape, stack=np.stack, zeros=np.zeros)


@pytest.fixture
def use(monkeypatch):
    """Installs a double of JAX that traces any function to the given jaxpr."""

    def install(traced, platform="cpu"):
        device = types.SimpleNamespace(platform=platform, device_kind="Fake")
        fake = types.ModuleType("jax")
        fake.__version__ = "0.0"
        fake.devices = lambda: [device]
        fake.config = types.SimpleNamespace(jax_default_matmul_precision=None)
        fake.numpy = NUMPY
        fake.make_jaxpr = lambda function, return_shape: lambda *arguments: (traced, "shapes")
        fake.jit = lambda function: function
        leaves = lambda tree: list(tree) if isinstance(tree, tuple) else [tree]  # noqa: E731
        fake.tree_util = types.SimpleNamespace(tree_leaves=leaves, tree_structure=lambda shapes: "tree",
                                               tree_unflatten=lambda tree, outputs: outputs[0])
        monkeypatch.setitem(sys.modules, "jax", fake)

    return install


def test_equations_are_records(run_path, use):
    x, w, b = Var(), Var(), Var()
    t, p, e, s, y = (Var() for _ in range(5))
    inner = closed([p], [equation(EXP, [p], [e])], [e])
    use(closed([x], [
        equation(TRANSPOSE, [w], [t], permutation=(1, 0)),
        equation(DOT, [x, t], [p], dimension_numbers=(((1,), (0,)), ((), ())), precision=None),
        equation(Primitive("pjit"), [p], [s], jaxpr=inner),
        equation(BROADCAST, [b], [e], shape=(2, 4), broadcast_dimensions=(1,)),
        equation(ADD, [s, e], [y]),
        equation(ADD, [y, Literal(1.0)], [y2 := Var()]),
    ], [y2], consts=[(w, np.ones((4, 3), np.float32)), (b, np.arange(4, dtype=np.float32))]))
    given = np.arange(6, dtype=np.float32).reshape(2, 3) / 10
    result = driftbound.record_jax(run_path, lambda x: x, given)
    expected = np.exp(given @ np.ones((3, 4), np.float32)) + np.arange(4, dtype=np.float32) + 1
    np.testing.assert_array_equal(result, expected)
    run = Run(run_path)
    assert run.ops() == ["aten::permute", "MatMul", "Exp", "aten::view", "aten::expand", "Add", "Add"]
    permute, product, exp, view, expand, first, second = run.records
    assert product["operands"][1] == permute["results"][0] and not run.is_stored(permute["results"][0])
    assert exp["operands"] == product["results"] and first["operands"] == [exp["results"][0], expand["results"][0]]
    assert view["attributes"] == {"size": [1, 4]} and expand["attributes"] == {"size": [2, 4]}
    assert second["operands"][0] == first["results"][0] and run.number(second["operands"][1]) == 1
    assert run.values[second["operands"][1]]["type"] == "F32"
    np.testing.assert_array_equal(run.number(second["results"][0]), expected)
    assert product["module"] == "block.0" and product["arithmetic"] == "jax fp32"
    assert run.arithmetics["jax fp32"]["flushes_subnormals"] is True
    assert run.provenance["details"]["jit"] == "off"


def test_loops_are_unrolled(run_path, use):
    c, x, n, s = Var(), Var(), Var(), Var()
    turn = closed([c, x], [equation(ADD, [c, x], [n])], [n, n])
    turn.out_avals = [Aval(np.float32(0))] * 2
    outs = Var(), Var()
    scan = equation(Primitive("scan"), [c, s], outs, jaxpr=turn, num_consts=0, num_carry=1, length=3, reverse=False)
    use(closed([c, s], [scan], [outs[1]]))
    sums = driftbound.record_jax(run_path, None, np.float32(0), np.float32([1, 2, 3]))
    assert sums.tolist() == [1, 3, 6] and Run(run_path).ops() == ["Add"] * 3
    taken, other = closed([x], [equation(ADD, [x, x], [n])], [n]), closed([x], [], [x])
    use(closed([c, s], [equation(Primitive("cond"), [c, s], [outs[0]], branches=(other, taken))], [outs[0]]))
    assert driftbound.record_jax(run_path, None, np.int32(1), np.float32(4)) == 8
    counts = closed([x], [equation(Primitive("lt", np.less), [x, Literal(3.0)], [n])], [n])
    adds = closed([x], [equation(ADD, [x, Literal(1.0)], [s])], [s])
    use(closed([c], [equation(Primitive("while"), [c], [outs[0]], cond_jaxpr=counts, body_jaxpr=adds, cond_nconsts=0,
                              body_nconsts=0)], [outs[0]]))
    assert driftbound.record_jax(run_path, None, np.float32(0)) == 3
    assert Run(run_path).ops() == ["Less", "Add"] * 3 + ["Less"]


def test_products_on_a_gpu_may_be_tf32(run_path, use):
    a, b, p, q = (Var() for _ in range(4))
    numbers = ((1,), (0,)), ((), ())
    highest = types.SimpleNamespace(name="HIGHEST")
    use(closed([a, b], [
        equation(DOT, [a, b], [p], dimension_numbers=numbers, precision=None),
        equation(DOT, [a, b], [q], dimension_numbers=numbers, precision=(highest, highest)),
    ], [q]), platform="gpu")
    driftbound.record_jax(run_path, None, np.eye(2, dtype=np.float32), np.eye(2, dtype=np.float32))
    assert [record["arithmetic"] for record in Run(run_path).records] == ["jax tf32", "jax fp32"]


def test_a_compiled_function_is_one_call(run_path, use):
    use(None)
    driftbound.record_jax(run_path, np.exp, np.float32([1, 2]), jit=True)
    run = Run(run_path)
    assert run.ops() == ["jax::jit"] and "not seen" in run.provenance["details"]["jit"]


@pytest.mark.parametrize(
    "name, params, shapes, expected",
    [
        ("dot_general", {"dimension_numbers": (((2,), (1,)), ((0,), (0,)))}, [(2, 3, 4), (2, 4, 5)],
         ("MatMul", [0, 1], {})),
        ("dot_general", {"dimension_numbers": (((1,), (1,)), ((), ()))}, [(3, 4), (5, 4)],
         ("Einsum", [0, 1], {"equation": "ba,ca->bc"})),
        ("reduce_sum", {"axes": (1,)}, [(3, 4)], ("aten::sum", [0], {"dim": [1], "keepdim": False})),
        ("select_n", {}, [(3,), (3,), (3,)], ("aten::where", [0, 2, 1], {})),
        ("integer_pow", {"y": 3}, [(3,)], ("aten::pow", [0], {"exponent": 3})),
        ("convert_element_type", {"new_dtype": np.dtype("float32")}, [(3,)],
         ("aten::_to_copy", [0], {"dtype": "float32"})),
        ("sort", {"dimension": 0, "other": object()}, [(3,)], ("jax::sort", [0], {"dimension": 0})),
    ],
)
def test_names_of_primitives(name, params, shapes, expected):
    assert translate(name, params, shapes) == expected


def test_without_jax(run_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "jax", None)
    with pytest.raises(driftbound.Error, match="needs jax"):
        driftbound.record_jax(run_path, np.exp, 1.0)


def test_jax_itself(run_path):
    jax = pytest.importorskip("jax")

    def function(x, w):
        return jax.nn.softmax(jax.vmap(lambda row: jax.nn.gelu(row @ w))(x))

    x, w = np.ones((3, 4), np.float32), np.full((4, 5), 0.5, np.float32)
    result = driftbound.record_jax(run_path, jax.jit(function), x, w)
    np.testing.assert_allclose(result, function(x, w), rtol=1e-5)
    assert "Exp" in Run(run_path).ops()
