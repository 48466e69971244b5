"""Tolerances of kernels, for magnitudes and for data."""

import numpy as np
import pytest

import driftbound


def test_a_tolerance_for_magnitudes_has_its_formula():
    tolerance = driftbound.tolerance("gemm", k=1024, in_="bf16", out="bf16")
    assert tolerance.holds and "sum |a b|" in tolerance.formula
    largest, normal, *of_units = tolerance.parts
    assert [part.device for part in of_units] == ["a100", "a100"] and of_units[1].proven > normal.proven
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


def test_a_matrix_unit_has_a_tolerance_of_its_own():
    draw = np.random.default_rng(8)
    a, b = np.abs(draw.standard_normal((4, 2048))), np.abs(draw.standard_normal((2048, 4)))
    plain = driftbound.tolerance("gemm", a, b, in_="fp8_e4m3")
    unit = driftbound.tolerance("gemm", a, b, in_="fp8_e4m3", device="h100")
    assert "in any order" in plain.parts[0].kernels and "H100" in unit.parts[0].kernels
    assert (unit.proven > 1000 * plain.proven).all()
    with pytest.raises(driftbound.Error, match="no matrix unit") as error:
        driftbound.tolerance("gemm", k=64, in_="bf16", device="v100")
    assert error.value.exit_status == 4


def test_bad_input_is_said():
    with pytest.raises(driftbound.Error, match="there is no op 'gem'") as error:
        driftbound.tolerance("gem", k=4)
    assert error.value.exit_status == 3
