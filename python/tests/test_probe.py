"""Orders of summation of real products and sums, and repeated calls."""

import numpy as np
import pytest

import driftbound


def from_left(a, b):
    """Products added one by one, each rounded first."""
    c = np.zeros((a.shape[0], b.shape[1]), np.float32)
    for k in range(a.shape[1]):
        c += a[:, k : k + 1] * b[k : k + 1]
    return c


def test_a_product_from_left_to_right_is_found():
    found = driftbound.probe(from_left, (16, 40, 3), expect="sequential")
    assert found.holds and found.agrees and found.findings.order == "sequential"
    assert found.words == "40 terms added from left to right"
    assert found.kernel == "from_left" and "AS DECLARED" in found.text
    assert "&lt;svg" in found._repr_html_()


def test_a_wrong_declaration_is_contradicted():
    found = driftbound.probe(from_left, (16, 40, 3), expect="pairwise+fma")
    assert not found.holds and not found.agrees and found.exit_status == 1
    assert "declared as pairwise+fma and found to be sequential" in found.text


def test_the_trees_of_numpy_products_give_its_bits():
    found = driftbound.probe(lambda a, b: a @ b, (64, 300, 20))
    assert found.findings.confirmed
    for one in found.findings.classes:
        assert one.equal_bits == one.verified > 0


def test_sums_of_numpy_are_eight_chains_added_pairwise():
    found = driftbound.probe_sum(lambda x: x.sum(axis=1), (32, 64))
    assert found.findings.confirmed
    assert found.words.startswith("64 terms: 8 chains, term k in chain k mod 8")
    assert found.words.endswith("the chains are added pairwise")


def test_results_in_float16_hide_no_tree():
    def in_half(a, b):
        return from_left(a.astype(np.float16).astype(np.float32), b.astype(np.float16).astype(np.float32)).astype(
            np.float16)

    found = driftbound.probe(in_half, (16, 64, 4), expect="sequential")
    assert found.holds and found.findings.confirmed and found.findings.order == "sequential"
    assert found.findings.result.format == "fp16" and found.findings.left.format == "fp16"
    wide = driftbound.probe(lambda a, b: from_left(a, b).astype(np.float16), (16, 64, 4))
    assert wide.findings.left.format == "fp32" and "fp16, rounded to nearest" in wide.text


def test_repeated_sums_are_compared():
    calls = []

    def adds(x):
        calls.append(x)
        y = x.sum(axis=1)
        if len(calls) == 3:
            y[4] = np.nextafter(y[4], np.float32(np.inf))
        return y

    same = driftbound.probe_sum(lambda x: x.sum(axis=1), (8, 64), determinism=3)
    assert same.holds and same.exit_status == 0 and "SAME BITS in 3 calls" in same.text
    changed = driftbound.probe_sum(adds, (8, 64), determinism=5)
    assert not changed.holds and changed.exit_status == 1 and len(calls) == 5
    assert "1 of 5 calls with the same numbers differ" in changed.text


def test_the_trees_of_torch_products_give_its_bits(torch):
    found = driftbound.probe(torch.matmul, (64, 200, 20), convert=torch.from_numpy)
    assert found.findings.confirmed and found.kernel == "matmul"


def test_operands_rounded_to_bfloat16_are_seen(torch):
    def rounded(a, b):
        return a.bfloat16().float() @ b.bfloat16().float()

    found = driftbound.probe(rounded, (32, 50, 4), convert=torch.from_numpy)
    assert found.findings.left.format == "bf16" and found.findings.right.rounding == "nearest-even"


def test_functions_that_fail_reach_the_caller():
    def failing(a, b):
        raise KeyError("out of paper")

    with pytest.raises(KeyError, match="out of paper"):
        driftbound.probe(failing)
    with pytest.raises(driftbound.Error, match=r"returned shape \[8, 64\] instead of \[64, 8\]") as error:
        driftbound.probe(lambda a, b: (a @ b).T)
    assert error.value.exit_status == 3
    with pytest.raises(driftbound.Error, match="returned float64") as error:
        driftbound.probe(lambda a, b: a.astype(np.float64) @ b)
    assert error.value.exit_status == 3
    with pytest.raises(driftbound.Error, match="is NaN") as error:
        driftbound.probe(lambda a, b: np.full((a.shape[0], b.shape[1]), np.nan, np.float32))
    assert error.value.exit_status == 3
    with pytest.raises(driftbound.Error, match="shape="):
        driftbound.probe(from_left, (4, 5))


def test_an_order_that_depends_on_the_values_is_refused():
    def by_size(a, b):
        products = a[:, :, None] * b[None]
        order = np.argsort(np.abs(products), axis=1, kind="stable")
        return from_left_of(np.take_along_axis(products, order, 1))

    def from_left_of(products):
        total = np.zeros((products.shape[0], products.shape[2]), np.float32)
        for k in range(products.shape[1]):
            total += products[:, k]
        return total

    with pytest.raises(driftbound.Error, match="depends on the values") as error:
        driftbound.probe(by_size, (16, 20, 1))
    assert error.value.exit_status == 3


def test_calls_with_the_same_bits_are_deterministic():
    x = np.random.default_rng(3).standard_normal((40, 7)).astype(np.float32)
    found = driftbound.determinism(np.cumsum, (x, 0), repeats=5)
    assert found.holds and found.deterministic and found.first is None and found.elements == 280


def test_the_first_difference_is_named():
    calls = []

    def changing(x):
        calls.append(x)
        y = x.copy()
        if len(calls) == 3:
            y[1, 2] = -0.0  # equal to 0.0, and not the same bits
        return {"y": y}

    found = driftbound.determinism(changing, [np.zeros((2, 4), np.float32)], repeats=4)
    assert not found.holds and found.exit_status == 1
    assert found.differing_calls == 1 and found.differing_elements == 1
    assert found.first.call == 3 and found.first.output == "output['y']" and found.first.element == [1, 2]


def test_scatter_and_index_adds_of_torch_are_compared(torch):
    source = torch.arange(12.0).reshape(4, 3)
    index = torch.tensor([0, 1, 0, 1])
    for function in (lambda: torch.zeros(2, 3).index_add(0, index, source),
                     lambda: torch.zeros(2, 3).scatter_add(0, index[:, None].expand(4, 3), source),
                     lambda: torch.cumsum(source, 0), lambda: source.sum()):
        assert driftbound.determinism(function, repeats=3).deterministic


def test_calls_that_cannot_be_compared_are_said():
    with pytest.raises(driftbound.Error, match="from 2 on"):
        driftbound.determinism(np.sum, ([1.0],), repeats=1)
    with pytest.raises(driftbound.Error, match="returns no array"):
        driftbound.determinism(lambda: "text")
    sizes = iter(range(3, 9))
    with pytest.raises(driftbound.Error, match="call 2 returned"):
        driftbound.determinism(lambda: np.zeros(next(sizes)))
