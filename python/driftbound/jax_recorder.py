"""Recording of JAX: a function is traced to a jaxpr, and its equations are computed and recorded one by one."""

from __future__ import annotations

import string
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .arrays import as_array
from .environment import declare
from .errors import Error
from .jax_steps import steps_of
from .record import record
from .recorder import Recorder, Value, attributes_of


def record_jax(path: str | Path, function: Callable[..., Any], *arguments: Any, jit: bool = False,
               sample: int | None = None, **options: Any) -> Any:
    """Computes ``function(*arguments)`` by JAX and records it. Returns what the function returns.

    Arguments:
        path: the recording.
        function: of JAX; it may use ``vmap``, ``grad``, ``jit`` and loops: they are traced through.
        arguments: arrays, and containers of arrays.
        jit: False: the equations of the traced function are computed one by one, each is a record. True: the function
            is compiled as a whole, and what is recorded is one call with its arguments and outputs alone, since
            nothing inside of it can be seen; the recording says so.
        sample, options: as of ``record``.

    Ops have names of ONNX or PyTorch where there is one, else ``jax::`` and the name of the primitive. Raises
    ``Error`` where JAX is not installed, or for a value that no file can hold.
    """
    try:
        import jax
    except ImportError:
        raise Error("record_jax needs jax, which is not installed: pip install jax") from None
    with record(path, sample=sample, pytorch=False, **options) as recorder:
        recorder.add_provenance(*_environment(jax, jit))
        if not jit:
            closed, shapes = jax.make_jaxpr(function, return_shape=True)(*arguments)
            leaves = jax.tree_util.tree_leaves(arguments)
            outputs = _Interpreter(jax, recorder).run(closed, [_Known(leaf) for leaf in leaves])
            tree = jax.tree_util.tree_structure(shapes)
            return jax.tree_util.tree_unflatten(tree, [output.array for output in outputs])
        result = jax.jit(function)(*arguments)
        recorder.add("jax::jit", jax.tree_util.tree_leaves(arguments), jax.tree_util.tree_leaves(result),
                     name=getattr(function, "__name__", "function"))
        return result


def _environment(jax: Any, jit: bool) -> tuple[dict, dict[str, dict]]:
    """Provenance, and the arithmetics that records may name."""
    device = jax.devices()[0]
    platform = device.platform
    where = f"jax {jax.__version__} on {platform}"
    details = {
        "jax": str(jax.__version__),
        "platform": platform,
        "default_matmul_precision": str(jax.config.jax_default_matmul_precision),
        "jit": "the function as a whole: what it computes inside was not seen" if jit else "off",
    }
    provenance = {
        "program": f"jax {jax.__version__}",
        "backend": platform,
        "device": str(getattr(device, "device_kind", platform)),
        "details": details,
    }
    functions = "jax-cuda" if platform in ("gpu", "cuda") else "cuda"
    more = {"source": where, "functions": functions, "flushes_subnormals": platform == "cpu"}
    arithmetics = {"jax fp64": declare("jax fp64", "fp64", source=where)}
    arithmetics["jax fp32"] = declare("jax fp32", "fp32", **more)
    for narrow in ("tf32", "bf16", "fp16"):
        arithmetics[f"jax {narrow}"] = declare(f"jax {narrow}", "fp32", narrow, **more)
    return provenance, arithmetics


class _Known:
    """An array and, once it was recorded, its value."""

    def __init__(self, array: Any):
        self.array = array
        self.value: Value | None = None


class _Interpreter:
    """Computes jaxprs equation by equation and records every equation."""

    def __init__(self, jax: Any, recorder: Recorder):
        self._jax = jax
        self._recorder = recorder
        self._on_gpu = jax.devices()[0].platform in ("gpu", "cuda")
        self._on_tpu = jax.devices()[0].platform == "tpu"
        self._loops: dict[str, Callable[..., list[_Known]]] = {
            "cond": self._cond, "while": self._while, "scan": self._scan,
        }

    def run(self, closed: Any, arguments: Sequence[_Known]) -> list[_Known]:
        """Computes a jaxpr that has its constants."""
        jaxpr = closed.jaxpr
        known: dict[Any, _Known] = dict(zip(jaxpr.constvars, map(_Known, closed.consts)))
        known.update(zip(jaxpr.invars, arguments))

        def read(atom: Any) -> _Known:
            if hasattr(atom, "val"):  # a literal
                return _Known(self._jax.numpy.asarray(atom.val, atom.aval.dtype))
            return known[atom]

        for equation in jaxpr.eqns:
            results = self._equation(equation, [read(atom) for atom in equation.invars])
            known.update(zip(equation.outvars, results))
        return [read(atom) for atom in jaxpr.outvars]

    def _equation(self, equation: Any, operands: list[_Known]) -> list[_Known]:
        name, params = equation.primitive.name, equation.params
        if name in self._loops:
            return self._loops[name](params, operands)
        inner = _called(params) if name in _CALLS else None
        if inner is not None:
            return self.run(inner, operands)
        functions, bound = equation.primitive.get_bind_params(params)
        outcome = equation.primitive.bind(*functions, *(operand.array for operand in operands), **bound)
        results = [_Known(one) for one in (outcome if equation.primitive.multiple_results else [outcome])]
        self._record(equation, operands, results)
        return results

    def _record(self, equation: Any, operands: list[_Known], results: list[_Known]) -> None:
        name, params = equation.primitive.name, equation.params
        fields = {"module": _scope(equation) or None, "device": self._jax.devices()[0].platform}
        if not all(_is_storable(one.array) for one in (*operands, *results)):
            return  # keys of random numbers, tokens: nothing that files can hold
        shapes = [tuple(getattr(operand.array, "shape", ())) for operand in operands]
        result_shape = tuple(results[0].array.shape) if results else ()
        if name == "broadcast_in_dim" and len(operands) == 1:
            self._broadcast(operands[0], results[0], params, result_shape, fields)
            return
        steps = steps_of(name, params, [one.array for one in operands], [one.array for one in results])
        if steps is not None:
            known = [*operands, *results, *map(_Known, steps.arrays[len(operands) + len(results) :])]
            for step in steps.steps:
                read = [None if place is None else known[place] for place in step.operands]
                made = [known[place] for place in step.results]
                record_step = self._move if step.moves else self._call
                record_step(equation, step.op, read, made, step.attributes, dict(fields))
            return
        move = _MOVES.get(name)
        if move is not None:
            op, attributes = move(params, result_shape)
            self._move(equation, op, operands, results, attributes, fields)
            return
        op, order, attributes = translate(name, params, shapes)
        self._call(equation, op, [operands[i] for i in order], results, attributes, fields)

    def _call(self, equation: Any, op: str, operands: Sequence[_Known | None], results: list[_Known],
              attributes: dict, fields: dict) -> None:
        """A record whose results are stored."""
        arrays = [None if operand is None else as_array(operand.array) for operand in operands]
        result_arrays = [as_array(result.array) for result in results]
        types = {array.type for array in arrays if array is not None} or {array.type for array in result_arrays}
        fields["arithmetic"] = self._recorder.declared_arithmetic or self._arithmetic(
            equation.primitive.name, equation.params, types)
        values = [None if operand is None else self._value(operand) for operand in operands]
        for result, array in zip(results, result_arrays):
            result.value = self._recorder.new_value(array)
        self._recorder.add_call(op, values, arrays, [result.value for result in results], result_arrays,
                                attributes_of(attributes), fields)

    def _move(self, equation: Any, op: str, operands: list[_Known], results: list[_Known], attributes: dict,
              fields: dict) -> None:
        """A record whose results are derived from its operands."""
        if op in _NOT_OF_INTEGERS and as_array(results[0].array).type[0] not in "FB":
            self._call(equation, op, operands, results, attributes, fields)
            return
        values = [self._value(operand) for operand in operands]
        for value, operand in zip(values, operands):
            array = as_array(operand.array)
            self._recorder.find_in_weights(value, array)
            if value.whole is None and self._recorder.is_small(value):
                self._recorder.keep_whole(value, array)
        for result in results:
            result.value = self._recorder.new_value(as_array(result.array))
        self._recorder.add_move(op, values, [result.value for result in results], attributes_of(attributes), fields)

    def _broadcast(self, operand: _Known, result: _Known, params: dict, shape: tuple[int, ...], fields: dict) -> None:
        """A broadcast is a change of shape to as many axes, and an expansion."""
        given = tuple(getattr(operand.array, "shape", ()))
        between = [1] * len(shape)
        for axis, extent in zip(params["broadcast_dimensions"], given):
            between[axis] = extent
        reshaped = _Known(self._jax.numpy.reshape(operand.array, between))
        self._move(None, "aten::view", [operand], [reshaped], {"size": between}, fields)
        self._move(None, "aten::expand", [reshaped], [result], {"size": list(shape)}, fields)

    def _value(self, known: _Known) -> Value:
        if known.value is None:
            known.value = self._recorder.new_value(as_array(known.array))
        return known.value

    def _arithmetic(self, name: str, params: dict, types: set[str]) -> str | None:
        if "F64" in types:
            return "jax fp64"
        if types & {"BF16", "F16"}:
            return "jax bf16" if "BF16" in types else "jax fp16"
        if "F32" not in types:
            return None
        if name in ("dot_general", "conv_general_dilated") and not _is_highest(params.get("precision"), self._jax):
            return "jax bf16" if self._on_tpu else "jax tf32" if self._on_gpu else "jax fp32"
        return "jax fp32"

    # ---- loops and branches: what they do is computed turn by turn ----------------------------------------------

    def _cond(self, params: dict, operands: list[_Known]) -> list[_Known]:
        index = int(operands[0].array)
        return self.run(params["branches"][min(max(index, 0), len(params["branches"]) - 1)], operands[1:])

    def _while(self, params: dict, operands: list[_Known]) -> list[_Known]:
        conditions, bodies = params["cond_nconsts"], params["body_nconsts"]
        of_condition, of_body = operands[:conditions], operands[conditions : conditions + bodies]
        state = operands[conditions + bodies :]
        while bool(self.run(params["cond_jaxpr"], [*of_condition, *state])[0].array):
            state = self.run(params["body_jaxpr"], [*of_body, *state])
        return state

    def _scan(self, params: dict, operands: list[_Known]) -> list[_Known]:
        consts, carries = params["num_consts"], params["num_carry"]
        fixed, state, sequences = operands[:consts], operands[consts : consts + carries], operands[consts + carries :]
        turns = range(params["length"])
        rows: list[list[_Known]] = []
        for turn in reversed(turns) if params["reverse"] else turns:
            elements = [_Known(sequence.array[turn]) for sequence in sequences]
            outcome = self.run(params["jaxpr"], [*fixed, *state, *elements])
            state = outcome[:carries]
            rows.append(outcome[carries:])
        if params["reverse"]:
            rows.reverse()
        stacked = [_Known(self._jax.numpy.stack([one.array for one in column])) for column in zip(*rows)]
        if not rows:
            avals = params["jaxpr"].out_avals[carries:]
            stacked = [_Known(self._jax.numpy.zeros((0, *aval.shape), aval.dtype)) for aval in avals]
        return [*state, *stacked]


#: Primitives that call a jaxpr: ``jit`` and what derivatives of its own and rematerialisation wrap.
_CALLS = {"jit", "pjit", "closed_call", "core_call", "custom_jvp_call", "custom_vjp_call", "custom_vjp_call_jaxpr",
          "remat", "remat2", "checkpoint", "custom_lin"}


class _Closed:
    """A jaxpr without constants."""

    def __init__(self, jaxpr: Any):
        self.jaxpr = jaxpr
        self.consts: tuple = ()


#: Moves that the program derives for floats and truth values alone: of integers the results are stored.
_NOT_OF_INTEGERS = {"aten::cat", "aten::constant_pad_nd"}


def _is_storable(array: Any) -> bool:
    """Whether files can hold it: types that are none of numpy, as those of keys, they cannot."""
    return isinstance(getattr(array, "dtype", np.dtype(float)), np.dtype) and as_array(array).type is not None


def _called(params: dict) -> Any:
    for name in ("jaxpr", "call_jaxpr", "fun_jaxpr"):
        inner = params.get(name)
        if inner is not None and hasattr(inner, "jaxpr"):
            return inner
        if inner is not None and hasattr(inner, "eqns"):
            return _Closed(inner)
    return None


def _scope(equation: Any) -> str:
    """Names that ``jax.named_scope`` gave, as a dotted path."""
    stack = getattr(getattr(equation, "source_info", None), "name_stack", None)
    return str(stack or "").replace("/", ".")


def _is_highest(precision: Any, jax: Any) -> bool:
    chosen = precision if precision is not None else jax.config.jax_default_matmul_precision
    parts = chosen if isinstance(chosen, (tuple, list)) else [chosen]
    return all(str(getattr(part, "name", part)).lower() in ("highest", "float32") for part in parts)


# ---- names ----------------------------------------------------------------------------------------------------------

_PLAIN = {
    "add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "neg": "Neg", "abs": "Abs", "sign": "Sign", "max": "Max",
    "min": "Min", "pow": "Pow", "exp": "Exp", "log": "Log", "sqrt": "Sqrt", "tanh": "Tanh", "sin": "Sin", "cos": "Cos",
    "tan": "Tan", "asin": "Asin", "acos": "Acos", "atan": "Atan", "sinh": "Sinh", "cosh": "Cosh", "asinh": "Asinh",
    "acosh": "Acosh", "atanh": "Atanh", "erf": "Erf", "logistic": "Sigmoid", "floor": "Floor", "ceil": "Ceil",
    "eq": "Equal", "lt": "Less", "le": "LessOrEqual", "gt": "Greater", "ge": "GreaterOrEqual",
    "and": "And", "or": "Or", "not": "Not", "xor": "Xor", "add_any": "Add",
    "rsqrt": "aten::rsqrt", "expm1": "aten::expm1", "log1p": "aten::log1p", "square": "aten::square",
    "erfc": "aten::erfc", "exp2": "aten::exp2", "ne": "aten::ne", "rem": "aten::fmod",
}

_REDUCTIONS = {"reduce_sum": "aten::sum", "reduce_max": "aten::amax", "reduce_min": "aten::amin"}

#: Primitives that only move elements, as ops of PyTorch with their attributes.
_MOVES: dict[str, Callable[[dict, tuple[int, ...]], tuple[str, dict]]] = {
    "squeeze": lambda params, shape: ("aten::view", {"size": list(shape)}),
    "expand_dims": lambda params, shape: ("aten::view", {"size": list(shape)}),
    "transpose": lambda params, shape: ("aten::permute", {"dims": list(params["permutation"])}),
    "concatenate": lambda params, shape: ("aten::cat", {"dim": params["dimension"]}),
    "copy": lambda params, shape: ("aten::alias", {}),
    "copy_p": lambda params, shape: ("aten::alias", {}),
    "stop_gradient": lambda params, shape: ("aten::alias", {}),
}


def translate(name: str, params: dict, shapes: list[tuple[int, ...]]) -> tuple[str, list[int], dict]:
    """An equation's op, the order of its operands, and its attributes."""
    order = list(range(len(shapes)))
    if name in _PLAIN:
        return _PLAIN[name], order, {}
    if name in _REDUCTIONS:
        return _REDUCTIONS[name], order, {"dim": list(params["axes"]), "keepdim": False}
    if name == "dot_general":
        return _dot(params, shapes)
    if name == "integer_pow":
        return "aten::pow", order, {"exponent": params["y"]}
    if name == "convert_element_type":
        return "aten::_to_copy", order, {"dtype": str(params["new_dtype"])}
    if name == "select_n" and len(shapes) == 3:
        return "aten::where", [0, 2, 1], {}  # the first case is the one for false
    if name == "clamp":
        return "aten::clamp", [1, 0, 2], {}
    if name == "cumsum" and not params.get("reverse"):
        return "aten::cumsum", order, {"dim": params["axis"]}
    simple = {key: value for key, value in params.items() if isinstance(value, (bool, int, float, str, tuple, list))}
    return f"jax::{name}", order, simple


def _dot(params: dict, shapes: list[tuple[int, ...]]) -> tuple[str, list[int], dict]:
    """``dot_general`` as a MatMul where its axes are in that order, else as an Einsum."""
    (left_sum, right_sum), (left_batch, right_batch) = params["dimension_numbers"]
    left, right = len(shapes[0]), len(shapes[1])
    batches = tuple(range(len(left_batch)))
    is_matmul = (
        left == right == len(batches) + 2
        and tuple(left_batch) == tuple(right_batch) == batches
        and tuple(left_sum) == (left - 1,)
        and tuple(right_sum) == (right - 2,)
    )
    if is_matmul:
        return "MatMul", [0, 1], {}
    letters = iter(string.ascii_letters)
    names: list[list[str]] = [[""] * left, [""] * right]
    for pairs in (zip(left_batch, right_batch), zip(left_sum, right_sum)):
        for a, b in pairs:
            names[0][a] = names[1][b] = next(letters)
    for side in names:
        side[:] = [letter or next(letters) for letter in side]
    kept = [names[0][axis] for axis in left_batch]
    kept += [names[0][axis] for axis in range(left) if axis not in (*left_batch, *left_sum)]
    kept += [names[1][axis] for axis in range(right) if axis not in (*right_batch, *right_sum)]
    return "Einsum", [0, 1], {"equation": f"{''.join(names[0])},{''.join(names[1])}->{''.join(kept)}"}
