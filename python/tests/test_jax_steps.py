"""Primitives of JAX as ops that the program knows. JAX is not needed: results are computed here by loops and indexing,
from what XLA says of its operations, and the program judges whether the recorded ops mean the same."""

import collections
import types

import numpy as np
import pytest
from conftest import Run
from test_jax import ADD, Primitive, Var, closed, equation, use  # noqa: F401 (a fixture)

import driftbound
from driftbound import jax_recorder, safetensors
from driftbound.jax_steps import steps_of

ConvNumbers = collections.namedtuple("ConvNumbers", "lhs_spec rhs_spec out_spec")
GatherNumbers = collections.namedtuple(
    "GatherNumbers", "offset_dims collapsed_slice_dims start_index_map operand_batching_dims "
    "start_indices_batching_dims", defaults=((), ()))
CLIP, FILL, ONE_HOT = (types.SimpleNamespace(name=name) for name in ("CLIP", "FILL_OR_DROP", "ONE_HOT"))

NCHW = ConvNumbers((0, 1, 2, 3), (0, 1, 2, 3), (0, 1, 2, 3))
NHWC = ConvNumbers((0, 3, 1, 2), (3, 2, 0, 1), (0, 3, 1, 2))  # images NHWC, filters HWIO
NCW = ConvNumbers((0, 1, 2), (0, 1, 2), (0, 1, 2))
NWC = ConvNumbers((0, 2, 1), (2, 1, 0), (0, 2, 1))


def numbers(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float32)


def conv(x, w, *, window_strides, padding, lhs_dilation, rhs_dilation, dimension_numbers, feature_group_count, **_):
    """The sum over a window of (spread) images times filters, element by element, in float64."""
    element_type = x.dtype
    x = x.transpose(dimension_numbers.lhs_spec).astype(np.float64)
    w = w.transpose(dimension_numbers.rhs_spec).astype(np.float64)
    extents = [((n - 1) * ld + 1 + low + high - ((k - 1) * rd + 1)) // s + 1 for n, k, s, (low, high), ld, rd in zip(
        x.shape[2:], w.shape[2:], window_strides, padding, lhs_dilation, rhs_dilation)]
    y = np.zeros((x.shape[0], w.shape[0], *extents))
    inner, outer = w.shape[1], w.shape[0] // feature_group_count
    for n, o, *place in np.ndindex(*y.shape):
        group = o // outer
        for taps in np.ndindex(*w.shape[2:]):
            at = [p * s + t * rd - low for p, t, s, rd, (low, _) in zip(
                place, taps, window_strides, rhs_dilation, padding)]
            if all(a % ld == 0 and 0 <= a // ld < e for a, ld, e in zip(at, lhs_dilation, x.shape[2:])):
                where = tuple(a // ld for a, ld in zip(at, lhs_dilation))
                for c in range(inner):
                    y[(n, o, *place)] += x[(n, group * inner + c, *where)] * w[(o, c, *taps)]
    return y.transpose(np.argsort(dimension_numbers.out_spec)).astype(element_type)


def convolution(numbers_of_axes=NCHW, *, strides=None, padding=None, spread=None, dilation=None, groups=1, batches=1):
    axes = len(numbers_of_axes.lhs_spec) - 2
    ones = (1,) * axes
    return dict(window_strides=strides or ones, padding=padding or ((0, 0),) * axes, lhs_dilation=spread or ones,
                rhs_dilation=dilation or ones, dimension_numbers=numbers_of_axes, feature_group_count=groups,
                batch_group_count=batches, precision=None, preferred_element_type=None)


def part(x, *starts, slice_sizes):
    where = [max(0, min(int(s), n - size)) for s, n, size in zip(starts, x.shape, slice_sizes)]
    y = np.empty(slice_sizes, x.dtype)
    for index in np.ndindex(*slice_sizes):
        y[index] = x[tuple(a + b for a, b in zip(where, index))]
    return y


def overwritten(x, update, *starts):
    y = x.copy()
    where = [max(0, min(int(s), n - size)) for s, n, size in zip(starts, x.shape, update.shape)]
    for index in np.ndindex(*update.shape):
        y[tuple(a + b for a, b in zip(where, index))] = update[index]
    return y


def filled(x, value, padding_config):
    y = np.full([low + high + (n - 1) * (inner + 1) + 1 for n, (low, high, inner) in zip(x.shape, padding_config)],
                value, x.dtype)
    for index in np.ndindex(*x.shape):
        place = tuple(low + i * (inner + 1) for i, (low, _, inner) in zip(index, padding_config))
        if all(0 <= p < n for p, n in zip(place, y.shape)):
            y[place] = x[index]
    return y


def lookup(x, indices, *, dimension_numbers, slice_sizes, **_):
    """XLA's gather with one index a slice: element by element, by the definition of its axes."""
    offset, (axis,) = dimension_numbers.offset_dims, dimension_numbers.start_index_map
    kept = [dim for dim in range(x.ndim) if dim not in dimension_numbers.collapsed_slice_dims]
    shape, batch = [0] * (indices.ndim - 1 + len(offset)), iter(indices.shape[:-1])
    for dim in range(len(shape)):
        shape[dim] = slice_sizes[kept[offset.index(dim)]] if dim in offset else next(batch)
    y = np.empty(shape, x.dtype)
    for index in np.ndindex(*shape):
        chosen = indices[tuple(index[dim] for dim in range(len(shape)) if dim not in offset)][0]
        place = [0] * x.ndim
        for dim, from_dim in zip(offset, kept):
            place[from_dim] = index[dim]
        place[axis] += chosen
        y[index] = x[tuple(place)]
    return y


def gathering(offset_dims, axis, slice_sizes, mode=FILL):
    return dict(dimension_numbers=GatherNumbers(offset_dims, (axis,), (axis,)), slice_sizes=slice_sizes, mode=mode,
                unique_indices=False, indices_are_sorted=False, fill_value=None)


def slicing(starts, limits, strides=None):
    return dict(start_indices=starts, limit_indices=limits, strides=strides)


def sliced(x, start_indices, limit_indices, strides):
    return x[tuple(slice(*one) for one in zip(start_indices, limit_indices, strides or [1] * x.ndim))]


def spread_numbers(dtype, shape, dimension, **_):
    return np.fromfunction(lambda *index: index[dimension], shape).astype(dtype)


I = np.int32  # noqa: E741
SQUARE = numbers(4, 4)


class Case(collections.namedtuple("Case", "name function params operands ops wrong")):
    """``wrong``: an op, and attributes of it that must not be believed; or a function that spoils the result."""


def case(label, name, function, params, operands, ops, *wrong):
    return pytest.param(Case(name, function, params, operands, ops, wrong), id=label)


def later(y):
    return np.roll(y.reshape(-1), 1).reshape(y.shape)


CASES = [
    case("convolution", "conv_general_dilated", conv, convolution(strides=(3, 1), padding=((0, 0), (1, 1))),
         [numbers(2, 3, 6, 5), numbers(4, 3, 2, 3)], ["aten::convolution"], ("aten::convolution", {"stride": [4, 1]})),
    case("convolution of other axes", "conv_general_dilated", conv,
         convolution(NHWC, dilation=(1, 2), padding=((1, 1), (2, 2))), [numbers(2, 5, 5, 3), numbers(3, 3, 3, 3)],
         ["aten::permute", "aten::permute", "aten::convolution", "aten::permute"],
         ("aten::permute", {"dims": [0, 3, 2, 1]}),
         ("aten::convolution", {"dilation": [2, 1], "padding": [2, 1]})),
    case("convolution in groups", "conv_general_dilated", conv, convolution(groups=2, strides=(1, 2)),
         [numbers(1, 4, 4, 5), numbers(6, 2, 2, 2)], ["aten::convolution"], later),
    case("convolution of each channel", "conv_general_dilated", conv,
         convolution(NWC, groups=3, padding=((2, 0),)), [numbers(2, 6, 3), numbers(3, 1, 3)],
         ["aten::permute", "aten::permute", "aten::constant_pad_nd", "aten::convolution", "aten::permute"],
         ("aten::constant_pad_nd", {"pad": [0, 2, 0, 0, 0, 0]})),
    case("convolution, pads negative", "conv_general_dilated", conv, convolution(NCW, padding=((-1, 2),)),
         [numbers(1, 2, 6), numbers(2, 2, 3)], ["aten::constant_pad_nd", "aten::slice", "aten::convolution"],
         ("aten::slice", {"start": 0, "end": 7})),
    case("convolution, pads negative on both sides", "conv_general_dilated", conv,
         convolution(NCW, padding=((-1, -1),)), [numbers(1, 2, 6), numbers(2, 2, 3)],
         ["aten::slice", "aten::convolution"], ("aten::slice", {"start": 0, "end": 4})),
    case("transposed convolution", "conv_general_dilated", conv,
         convolution(NCW, spread=(2,), padding=((1, 2),)), [numbers(2, 3, 4), numbers(3, 3, 3)],
         ["aten::permute", "aten::flip", "aten::convolution"], ("aten::flip", {"dims": []}),
         ("aten::permute", {"dims": [0, 1, 2]})),
    case("transposed convolution in groups", "conv_general_dilated", conv,
         convolution(NHWC, spread=(2, 3), padding=((2, 2), (0, 1)), dilation=(2, 1), groups=2),
         [numbers(1, 3, 2, 4), numbers(2, 3, 2, 6)],
         ["aten::permute", "aten::permute", "aten::view", "aten::permute", "aten::view", "aten::flip",
          "aten::convolution", "aten::permute"], ("aten::flip", {"dims": [2]})),
    case("convolution of spread images", "conv_general_dilated", conv,
         convolution(NCW, spread=(2,), padding=((2, 1),)), [numbers(1, 2, 4), numbers(3, 2, 3)],
         ["aten::view", "aten::constant_pad_nd", "aten::view", "aten::slice", "aten::constant_pad_nd",
          "aten::convolution"], ("aten::constant_pad_nd", {"pad": [1, 0, 0, 0, 0, 0, 0, 0]})),
    case("convolution of spread images in strides", "conv_general_dilated", conv,
         convolution(NCW, spread=(3,), padding=((1, 1),), strides=(2,)), [numbers(1, 2, 4), numbers(3, 2, 3)],
         ["aten::view", "aten::constant_pad_nd", "aten::view", "aten::slice", "aten::convolution"],
         ("aten::constant_pad_nd", {"pad": [1, 1, 0, 0, 0, 0, 0, 0]})),
    case("slice", "slice", sliced, slicing((1, 0, 2), (4, 3, 7), (1, 1, 2)), [numbers(5, 3, 8)],
         ["aten::slice", "aten::slice"], ("aten::slice", {"start": 0, "end": 3})),
    case("slice without strides", "slice", sliced, slicing((1, 2), (4, 3), None), [numbers(5, 3)],
         ["aten::slice", "aten::slice"], ("aten::slice", {"start": 2, "end": 5})),
    case("slice of all", "slice", sliced, slicing((0, 0), (5, 3)), [numbers(5, 3)], ["aten::alias"]),
    case("dynamic slice", "dynamic_slice", part, dict(slice_sizes=(2, 3)), [numbers(5, 6), I(1), I(2)],
         ["aten::slice", "aten::slice"], ("aten::slice", {"start": 2, "end": 4})),
    case("dynamic slice beyond the ends", "dynamic_slice", part, dict(slice_sizes=(2, 3)),
         [numbers(5, 6), I(-2), I(9)], ["aten::slice", "aten::slice"], ("aten::slice", {"start": 1, "end": 3})),
    case("dynamic update", "dynamic_update_slice", overwritten, {}, [numbers(5, 6), numbers(2, 3), I(1), I(2)],
         ["aten::slice"] * 3 + ["aten::cat"] + ["aten::slice"] * 2 + ["aten::cat"],
         ("aten::slice", {"start": 2, "end": 4})),
    case("dynamic update of rows at the end", "dynamic_update_slice", overwritten, {},
         [numbers(5, 3), numbers(2, 3), I(7), I(-1)], ["aten::slice", "aten::cat"],
         ("aten::slice", {"start": 1, "end": 4})),
    case("dynamic update of all", "dynamic_update_slice", overwritten, {},
         [numbers(2, 3), numbers(2, 3, seed=1), I(0), I(1)], ["aten::alias"]),
    case("dynamic update of nothing", "dynamic_update_slice", overwritten, {},
         [numbers(2, 3), numbers(0, 3), I(0), I(0)], ["aten::alias"]),
    case("dynamic update of nothing in rows", "dynamic_update_slice", overwritten, {},
         [numbers(3, 3), numbers(1, 0), I(1), I(1)], ["aten::alias"]),
    case("embedding", "gather", lookup, gathering((1,), 0, (1, 4)), [numbers(7, 4), I([[2], [6], [0]])],
         ["aten::view", "aten::embedding"], later),
    case("embedding of sentences", "gather", lookup, gathering((2,), 0, (1, 4), CLIP),
         [numbers(7, 4), I([[[2], [6], [0]], [[1], [1], [5]]])], ["aten::view", "aten::embedding"], later),
    case("take along an axis", "gather", lookup, gathering((0, 2), 1, (4, 1, 2)),
         [numbers(4, 4, 2), I([[3], [0], [3], [1]])], ["aten::view", "aten::index_select"],
         ("aten::index_select", {"dim": 0})),
    case("take along an axis, places first", "gather", lookup, gathering((1, 2), 1, (3, 1, 2)),
         [numbers(3, 5, 2), I([[4], [0], [2]])], ["aten::view", "aten::index_select", "aten::permute"],
         ("aten::permute", {"dims": [0, 1, 2]})),
    case("take along the last axis, places first", "gather", lookup, gathering((1, 2), 2, (3, 3, 1)),
         [numbers(3, 3, 3), I([[2], [0], [2]])], ["aten::view", "aten::index_select", "aten::permute"],
         ("aten::permute", {"dims": [1, 2, 0]})),
    case("index of two axes", "gather", lookup, gathering((0, 3), 1, (3, 1, 2)),
         [numbers(3, 5, 2), I([[[4], [0]], [[3], [1]]])], ["aten::view", "aten::index"], later),
    case("one row", "gather", lookup, gathering((0, 1), 0, (1, 5, 2)), [numbers(3, 5, 2), I([1])],
         ["aten::view", "aten::index"], later),
    case("rev", "rev", lambda x, dimensions: x[::-1, :, ::-1], dict(dimensions=(0, 2)), [numbers(3, 2, 4)],
         ["aten::flip"], ("aten::flip", {"dims": [0]})),
    case("pad", "pad", filled, dict(padding_config=((1, 0, 0), (0, 2, 0))), [numbers(2, 3), np.float32(0.1)],
         ["aten::constant_pad_nd"], ("aten::constant_pad_nd", {"pad": [1, 1, 1, 0]}),
         ("aten::constant_pad_nd", {"value": 0.2})),
    case("pad by minus infinity", "pad", filled, dict(padding_config=((1, 0, 0), (0, 0, 0))),
         [numbers(2, 3), np.float32(-np.inf)], ["aten::constant_pad_nd"]),
    case("pad between", "pad", filled, dict(padding_config=((1, 0, 2), (-1, 2, 0))), [numbers(2, 3), np.float32(0)],
         ["aten::view", "aten::constant_pad_nd", "aten::view", "aten::slice", "aten::constant_pad_nd", "aten::slice"],
         ("aten::constant_pad_nd", {"pad": [0, 0, 1, 1, 0, 0]})),
    case("split", "split", lambda x, sizes, axis: [x[:, :2], x[:, 2:4], x[:, 4:]],
         dict(sizes=(2, 2, 2), axis=1), [numbers(6, 6)], ["aten::split_with_sizes"],
         ("aten::split_with_sizes", {"split_sizes": [1, 2, 3]})),
    case("reshape with axes in another order", "reshape", lambda x, **_: x.T.reshape(16),
         dict(new_sizes=(16,), dimensions=(1, 0)), [SQUARE], ["aten::permute", "aten::view"],
         ("aten::permute", {"dims": [0, 1]})),
    case("iota", "iota", spread_numbers, dict(dtype=np.dtype(np.float32), shape=(5,), dimension=0, sharding=None), [],
         ["aten::arange"]),
    case("iota of two axes", "iota", spread_numbers,
         dict(dtype=np.dtype(np.float32), shape=(5, 5), dimension=1, sharding=None), [],
         ["aten::arange", "aten::view", "aten::expand"]),
]


def record_case(run_path, use, one, spoil=None):  # noqa: F811
    """Records the primitive, and after it the sum of a result with itself, so that what is derived is read."""
    primitive = Primitive(one.name, lambda *operands, **params: spoiled(one.function(*operands, **params)))
    primitive.multiple_results = one.name == "split"

    def spoiled(result):
        return spoil(result) if callable(spoil) else result

    inputs, results, total = [Var() for _ in one.operands], [Var() for _ in range(3)], Var()
    results = results if primitive.multiple_results else results[:1]
    result = results[len(results) // 2]
    equations = [equation(primitive, inputs, results, **one.params), equation(ADD, [result] * 2, [total])]
    use(closed(inputs, equations, [result]))
    driftbound.record_jax(run_path, None, *one.operands)
    return Run(run_path)


@pytest.mark.parametrize("one", CASES)
def test_the_recorded_ops_mean_the_primitive(run_path, use, judge, one):  # noqa: F811
    run = record_case(run_path, use, one)
    assert run.ops() == [*one.ops, "Add"]
    answer = judge(run_path)
    assert answer.verdict == "holds", answer.text
    assert answer.recording.not_judged == 0 and answer.layers
    assert all(record["module"] == "block.0" for record in run.records)


@pytest.mark.parametrize("element_type", [np.float16, np.float64])
@pytest.mark.parametrize("one", [one for one in CASES if one.values[0].name != "iota"])
def test_other_types(run_path, use, judge, one, element_type):  # noqa: F811
    one = one._replace(operands=[x.astype(element_type) if x.dtype.kind == "f" else x for x in one.operands])
    run = record_case(run_path, use, one)
    answer = judge(run_path)
    assert run.ops() == [*one.ops, "Add"]
    assert answer.verdict == "holds" and answer.recording.not_judged == 0, answer.text


@pytest.mark.parametrize("one, wrong", [pytest.param(one.values[0], wrong, id=f"{one.id}, {number}") for one in CASES
                                        for number, wrong in enumerate(one.values[0].wrong)])
def test_wrong_attributes_are_violated(run_path, use, judge, monkeypatch, one, wrong):  # noqa: F811
    def changed(*arguments):
        steps = steps_of(*arguments)
        if steps is not None:
            op, attributes = wrong
            next(step for step in steps.steps if step.op == op).attributes.update(attributes)
        return steps

    if callable(wrong):
        record_case(run_path, use, one, wrong)
    else:
        monkeypatch.setattr(jax_recorder, "steps_of", changed)
        record_case(run_path, use, one)
    answer = judge(run_path)
    assert answer.verdict == "violated", answer.text


@pytest.mark.parametrize(
    "name, params, operands, result",
    [
        ("conv_general_dilated", convolution(NCW, batches=2), [numbers(2, 2, 6), numbers(2, 2, 3)], numbers(1, 2, 4)),
        ("conv_general_dilated", convolution(ConvNumbers((0, 1), (0, 1), (0, 1))), [numbers(2, 3), numbers(4, 3)],
         numbers(2, 4)),
        ("gather", gathering((1,), 0, (1, 4)), [numbers(7, 4), I([[-1]])], numbers(1, 4)),
        ("gather", gathering((1,), 0, (1, 4), CLIP), [numbers(7, 4), I([[7]])], numbers(1, 4)),
        ("gather", gathering((1,), 0, (1, 4), ONE_HOT), [numbers(7, 4), I([[3]])], numbers(1, 4)),
        ("gather", gathering((1,), 0, (1, 3)), [numbers(7, 4), I([[3]])], numbers(1, 3)),
        ("gather", dict(gathering((), 0, (1, 1)), dimension_numbers=GatherNumbers((), (0, 1), (0, 1))),
         [numbers(7, 4), I([[3, 1]])], numbers(1)),
        ("gather", dict(gathering((), 1, (1, 1)), dimension_numbers=GatherNumbers((), (1,), (1,), (0,), (0,))),
         [numbers(2, 4), I([[3], [1]])], numbers(2)),
        ("gather", dict(gathering((), 1, (1, 1)), dimension_numbers=GatherNumbers((), (1,), (1,), (0,), (0,))),
         [numbers(1, 4), I([[3]])], numbers(1)),
        ("pad", dict(padding_config=((0, 0, 1),)), [numbers(3), np.float32(2)], numbers(5)),
        ("pad", dict(padding_config=((1, 0, 0),)), [numbers(3), np.float32(np.nan)], np.float32([np.nan, 0, 0, 0])),
        ("argmax", dict(axes=(0,), index_dtype=I), [numbers(3)], I(1)),
        ("slice", dict(slicing((0,), (2,)), start_indices=(1,), limit_indices=(3,)), [numbers(3)], numbers(2)),
        ("split", dict(sizes=(1, 2), axis=0), [numbers(3)], numbers(1)),
        ("slice", {}, [numbers(3)], numbers(2)),
        *[(name, {}, [numbers(3)], numbers(3)) for name in ("erf_inv", "reduce_prod", "reduce_and", "cumsum", "sort",
                                                            "scatter", "random_bits")],
    ],
)
def test_what_stays_unknown(name, params, operands, result):
    assert steps_of(name, params, operands, [result, result] if name == "split" else [result]) is None


def test_what_is_not_derived_keeps_its_name(run_path, use):  # noqa: F811
    """A result that is not the moved operand is recorded under the name of the primitive, with its numbers."""
    one = Case("slice", lambda x, **_: x[:2] + 1, slicing((1,), (3,)), [numbers(4)], [], ())
    run = record_case(run_path, use, one)
    assert run.ops() == ["jax::slice", "Add"] and run.is_stored(run.records[0]["results"][0])
    assert run.records[0]["attributes"] == {"start_indices": [1], "limit_indices": [3]}


def test_integers_of_moves_that_the_program_does_not_derive_are_stored(run_path, use, judge):  # noqa: F811
    """Indices may be joined: a lookup by them is judged."""
    table, a, b, both, y = (Var() for _ in range(5))
    join = Primitive("concatenate", lambda *parts, dimension: np.concatenate(parts, dimension))
    use(closed([table, a, b], [
        equation(join, [a, b], [both], dimension=0),
        equation(Primitive("gather", lookup), [table, both], [y], **gathering((1,), 0, (1, 4))),
    ], [y]))
    driftbound.record_jax(run_path, None, numbers(7, 4), I([[2], [6]]), I([[0]]))
    run = Run(run_path)
    assert run.ops() == ["aten::cat", "aten::view", "aten::embedding"] and run.is_stored(run.records[0]["results"][0])
    answer = judge(run_path)
    assert answer.verdict == "holds" and len(answer.layers) == 1, answer.text


class Key:
    """An array of keys, as JAX has them: its type is none of numpy."""

    shape, dtype = (2,), "key<fry>"

    def __array__(self, *_):
        raise TypeError("keys are no array of numpy")


@pytest.mark.parametrize("value", [Key(), np.complex64([1j, 2])])
def test_what_files_cannot_hold_is_left_out(run_path, use, value):  # noqa: F811
    x, part_of_it, y = Var(), Var(), Var()
    use(closed([x], [
        equation(Primitive("slice", lambda x, **_: x), [x], [part_of_it], **slicing((0,), (2,))),
        equation(Primitive("random_bits", lambda x: I([3, 4])), [part_of_it], [y]),
        equation(ADD, [y, y], [y2 := Var()]),
    ], [y2]))
    driftbound.record_jax(run_path, None, value)
    assert Run(run_path).ops() == ["Add"]


def test_weights_in_another_order_are_referred_to(run_path, tmp_path, use, judge):  # noqa: F811
    images, filters = numbers(1, 4, 4, 32), numbers(3, 3, 32, 32)
    file = tmp_path / "w.safetensors"
    safetensors.write(file, {"w": safetensors.Tensor("F32", filters.shape, filters)}, {})
    params = convolution(NHWC)
    x, w, y = Var(), Var(), Var()
    use(closed([x], [equation(Primitive("conv_general_dilated", conv), [x, w], [y], **params)], [y],
               consts=[(w, filters)]))
    driftbound.record_jax(run_path, None, images, weights=file, sample=20)
    run = Run(run_path)
    moved = next(one for one in run.records if one["attributes"] == {"dims": [3, 2, 0, 1]})
    assert run.values[moved["operands"][0]]["name"] == "w" and not run.is_stored(moved["results"][0])
    assert judge(run_path).verdict == "holds"


def test_in_part(run_path, use, judge):  # noqa: F811
    """Where values are recorded in part, moves are left out, and the convolution is judged on what it reads."""
    x, w, y, first, total = (Var() for _ in range(5))
    images, filters = numbers(8, 12, 12, 6), numbers(3, 3, 6, 8)
    params = convolution(NHWC, padding=((1, 0), (1, 1)))
    result = conv(images, filters, **params)
    use(closed([x, w], [
        equation(Primitive("conv_general_dilated", lambda *_, **__: result), [x, w], [y], **params),
        equation(Primitive("slice", sliced), [y], [first], **slicing((0,) * 4, (4, 11, 12, 8))),
        equation(ADD, [first, first], [total]),
    ], [total]))
    driftbound.record_jax(run_path, None, images, filters, sample=40)
    run = Run(run_path)
    assert "aten::convolution" in run.ops() and "aten::slice" not in run.ops()
    answer = judge(run_path)
    assert answer.verdict == "holds" and len(answer.layers) == 2, answer.text


def test_jax_itself(run_path, judge):
    jax = pytest.importorskip("jax")

    def function(x, w, table, ids):
        y = jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        rows = jax.lax.dynamic_update_slice(table[ids], 2 * table[:1], (1, 0))
        return y[:, 1:3].sum() + jax.numpy.pad(rows[::-1], ((1, 0), (0, 2))).sum()

    driftbound.record_jax(run_path, function, numbers(2, 4, 4, 3), numbers(2, 2, 3, 5), numbers(7, 4), I([2, 6, 0]))
    ops = Run(run_path).ops()
    translated = ("conv_general_dilated", "gather", "slice", "dynamic_update_slice", "rev", "pad")
    assert "aten::convolution" in ops and not {f"jax::{name}" for name in translated} & set(ops)
    assert judge(run_path).verdict == "holds"
