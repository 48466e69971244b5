"""Tolerances of kernels, for magnitudes and for data."""

import numpy as np
import pytest

import driftbound


def test_a_tolerance_for_magnitudes_has_its_formula():
    tolerance = driftbound.tolerance("gemm", k=1024, in_="bf16", out="bf16")
    assert tolerance.holds and "sum |a b|" in tolerance.formula
    largest, normal = tolerance.parts
    assert normal.proven < largest.proven
    assert 2 ** -9 * 1024 < largest.proven < 2 ** -7 * 1024  # the last rounding alone is half a unit of 1024


def test_numpy_is_within_the_tolerance_of_its_data_and_a_fault_is_not():
    draw = np.random.default_rng(5)
    a, b = draw.standard_normal((8, 400)).astype(np.float32), draw.standard_normal((400, 6)).astype(np.float32)
    tolerance = driftbound.tolerance("gemm", a, b)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    assert np.abs(a @ b - exact).max() <= tolerance.parts[0].proven
    half = a.astype(np.float16).astype(np.float32)
    assert np.abs(half @ b - exact).max() > tolerance.parts[0].by_chance


def test_every_element_has_its_own_tolerance():
    draw = np.random.default_rng(6)
    a, b = draw.standard_normal((8, 400)).astype(np.float32), draw.standard_normal((400, 6)).astype(np.float32)
    a[3] *= 1e-3
    tolerance = driftbound.tolerance("gemm", a, b)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    assert np.allclose(tolerance.exact, exact, rtol=1e-12, atol=1e-9)
    assert (np.abs(a @ b - exact) <= tolerance.proven).all()
    assert (tolerance.by_chance <= tolerance.proven).all()
    assert tolerance.proven.max() == tolerance.parts[0].proven
    assert tolerance.proven[3].max() < 1e-2 * tolerance.proven[2].min()


def test_attention_has_a_scale_and_masks():
    draw = np.random.default_rng(7)
    q, k, v = (draw.standard_normal((1, 1, 5, 4)).astype(np.float32) for _ in range(3))
    seen = np.tril(np.ones((5, 5), dtype=bool))
    causal = driftbound.tolerance("attention", q, k, v, scale=-0.5, causal=True)
    scores = np.where(seen, -0.5 * (q[0, 0].astype(float) @ k[0, 0].T.astype(float)), -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    exact = weights / weights.sum(-1, keepdims=True) @ v[0, 0].astype(float)
    assert np.abs(causal.exact[0, 0] - exact).max() < 1e-12
    masks = [seen, np.where(seen, 0, -np.inf).astype(np.float32)]
    torch = pytest.importorskip("torch")
    for mask in [*masks, *(torch.tensor(one) for one in masks)]:
        assert (driftbound.tolerance("attention", q, k, v, mask, scale=-0.5).exact == causal.exact).all()


def test_bad_input_is_said():
    with pytest.raises(driftbound.Error, match="there is no op 'gem'") as error:
        driftbound.tolerance("gem", k=4)
    assert error.value.exit_status == 3
