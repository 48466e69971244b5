"""Which elements a sample draws, and what it says of how many were drawn independently."""

import math

import numpy as np
import pytest
from conftest import Run

import driftbound
from driftbound.arrays import NumpyArray
from driftbound.recorder import Value
from driftbound.sampling import Axes, Elements, Sampler


def plan_of(op, shapes, results, sample, seed, known=(), **attributes):
    """What is recorded of a call: the sampler does not look at numbers, but for the extremes and ids."""
    operands = [NumpyArray(np.zeros(shape, np.float32)) for shape in shapes]
    values = [Value(f"v{i}", "F32", shape) for i, shape in enumerate(shapes)]
    outcomes = [NumpyArray(np.broadcast_to(np.float32(0), shape)) for shape in results]
    return Sampler(sample, seed).plan(op, attributes, values, operands, [i in known for i in range(len(shapes))],
                                      [Value(f"r{i}", "F32", shape) for i, shape in enumerate(results)], outcomes)


def mask_of(part, shape):
    """Which elements a part has."""
    mask = np.zeros(shape, bool)
    if isinstance(part, Elements):
        mask.reshape(-1)[part.indices] = True
    elif isinstance(part, Axes):
        mask[np.ix_(*(part.indices.get(axis, np.arange(extent)) for axis, extent in enumerate(shape)))] = True
    else:
        mask[:] = True
    return mask


PRODUCTS = [
    ("aten::mm", [(400, 3), (3, 500)], (400, 500)),
    ("aten::linear", [(6, 90, 3), (500, 3)], (6, 90, 500)),
    ("aten::bmm", [(12, 40, 3), (12, 3, 50)], (12, 40, 50)),
]

CASES = [
    *((op, shapes, result, known) for op, shapes, result in PRODUCTS for known in ((), (0,), (1,), (0, 1))),
    ("aten::_softmax", [(8, 30, 20)], (8, 30, 20), ()),
    ("aten::native_layer_norm", [(600, 16)], (600, 16), ()),
    ("aten::sum", [(20, 40, 8)], (20, 40), ()),
    ("aten::_scaled_dot_product_flash_attention", [(3, 12, 60, 4), (3, 4, 60, 4), (3, 4, 60, 4)], (3, 12, 60, 4), ()),
    ("aten::convolution", [(400, 2, 6, 6), (60, 2, 3, 3)], (400, 60, 4, 4), ()),
    ("aten::exp", [(90, 100)], (90, 100), ()),
]

ATTRIBUTES = {"aten::_softmax": {"dim": -1}, "aten::native_layer_norm": {"normalized_shape": [16]},
              "aten::sum": {"dim": [2]}}


@pytest.mark.parametrize("op, shapes, result, known", CASES)
def test_errors_are_missed_no_more_often_than_draws_say(op, shapes, result, known):
    tries, sample = 300, 120
    random = np.random.default_rng(5)
    # A share of all elements: whole rows, columns, images or heads, and elements anywhere.
    faulty = [random.random(result) < 0.03]
    for axis, extent in enumerate(result):
        at = random.permutation(extent)[: max(extent // 25, 1)]
        faulty.append(np.isin(np.indices(result)[axis], at))
    missed, allowed = np.zeros(len(faulty)), np.zeros(len(faulty))
    for seed in range(tries):
        plan = plan_of(op, shapes, [result], sample, seed, known, **ATTRIBUTES.get(op, {}))
        recorded = mask_of(plan.results[0], result)
        assert plan.draws > 0 and recorded.sum() < recorded.size / 2
        missed += [not (recorded & of).any() for of in faulty]
        allowed += [(1 - of.mean()) ** plan.draws for of in faulty]
    assert (missed <= allowed + 4 * np.sqrt(allowed) + 1).all(), (missed, allowed, plan.draws)


@pytest.mark.parametrize("op, shapes, result", PRODUCTS)
@pytest.mark.parametrize("known", [(), (0,), (1,), (0, 1)])
def test_elements_of_products_have_their_rows_and_columns(op, shapes, result, known):
    for seed in range(20):
        plan = plan_of(op, shapes, [result], 200, seed, known)
        left, right = (mask_of(part, shape) for part, shape in zip(plan.operands, shapes))
        right = right.all(-1)[None, :] if op == "aten::linear" else right.all(-2)[..., None, :]
        available = left.all(-1)[..., None] & right
        assert not (mask_of(plan.results[0], result) & ~available).any()
        assert plan.draws == (200 if known == (0, 1) else 64)


def test_rows_and_columns_of_a_product_are_as_many():
    plan = plan_of("aten::mm", [(4096, 2), (2, 4096)], [(4096, 4096)], 2000, 0)
    assert plan.draws == 250
    for part in plan.operands:
        assert 230 <= math.prod(len(taken) for taken in part.indices.values()) <= 252
    assert 1900 <= len(plan.results[0].indices) <= 2002


def test_few_lines_of_many_batches_are_no_grid():
    plan = plan_of("aten::bmm", [(64, 200, 8), (64, 8, 300)], [(64, 200, 300)], 2000, 0)
    for part in plan.operands:
        assert isinstance(part, Elements) and 240 * 8 <= len(part.indices) <= 252 * 8


def test_draws_are_recorded(run_path):
    random = np.random.default_rng(0)
    a, b = random.standard_normal((600, 70), np.float32), random.standard_normal((70, 900), np.float32)
    c = a @ b
    bias = random.standard_normal(900).astype(np.float32)
    with driftbound.record(run_path, sample=1000, pytorch=False) as recorder:
        recorder.add("MatMul", [a, b], c)
        recorder.add("Add", [c, bias], c + bias)
        recorder.add("Softmax", [c], np.exp(c), axis=-1)
        recorder.add("Exp", [bias], np.exp(bias))
    run = Run(run_path)
    draws = [run.values[record["results"][0]].get("part", {}).get("draws") for record in run.records]
    assert draws == [125, 1000, 125, None], "what is recorded wholly has none"
    assert not any("draws" in run.values[one].get("part", {}) for record in run.records for one in record["operands"])


def test_a_small_result_of_operands_in_part_has_draws(run_path):
    random = np.random.default_rng(0)
    a, b = random.standard_normal((4, 5000), np.float32), random.standard_normal((5000, 2000), np.float32)
    with driftbound.record(run_path, sample=1000, pytorch=False) as recorder:
        recorder.add("MatMul", [a, b], a @ b)
    run = Run(run_path)
    (result,) = run.of("MatMul")["results"]
    assert run.values[result]["part"]["draws"] == 125


def test_the_program_says_what_draws_can_miss(run_path, judge):
    random = np.random.default_rng(0)
    a, b = random.standard_normal((400, 64), np.float32), random.standard_normal((64, 500), np.float32)
    c = a @ b
    y = np.maximum(c, 0)
    e = np.exp(c.astype(np.float64) - c.max(-1, keepdims=True))
    with driftbound.record(run_path, sample=1000, pytorch=False, arithmetic="fp32") as recorder:
        recorder.add("MatMul", [a, b], c)
        recorder.add("Relu", [c], y)
        recorder.add("Softmax", [c], (e / e.sum(-1, keepdims=True)).astype(np.float32), axis=-1)
    verdict = judge(run_path)
    assert verdict.holds, verdict.text
    assert [layer.record.draws for layer in verdict.layers] == [125, 1000, 125]
    assert all(layer.record.judged > 0 and layer.record.lacking == 0 for layer in verdict.layers)
