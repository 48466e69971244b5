"""Rows that answer to other rows, and batch sizes with identical bits."""

import copy
import json
import random
import sys

import numpy as np
import pytest

import driftbound
from driftbound import calls
from driftbound.batches import Batch, Leaf, Outputs, change_of
from driftbound.rounding_size import rounding_size

pytest_plugins = ["pytester"]
RANDOM = np.random.default_rng(7)
X = RANDOM.standard_normal((8, 12)).astype(np.float32)
W = RANDOM.standard_normal((12, 6)).astype(np.float32)
TOKENS = np.random.default_rng(8).integers(0, 20, (8, 5))
TABLE = RANDOM.standard_normal((20, 6)).astype(np.float32)


def rows_alone(x):
    """A product whose rows do not know of each other, whatever kernel numpy has."""
    return np.stack([(row[:, None] * W).sum(0) for row in x])


def of(found, kind):
    (one,) = [one for one in found.replacements if one.replacement == kind]
    return one


# ---- numpy ----------------------------------------------------------------------------------------------------------

def test_honest_rows_do_not_answer():
    found = driftbound.leak(rows_alone, X)
    assert found.verdict == "none" and found.holds and found.exit_status == 0 and found.deterministic
    kinds = [one.replacement for one in found.replacements]
    assert kinds == ["permuted", "zeros", "huge", "NaN", "infinity", "copies", "earlier call"]
    assert all(one.tested == [0, 2, 5, 7] for one in found.replacements[:-1])
    assert found.padding.added == 8 and found.padding.verdict == "none"
    assert [one.replacement for one in found.padding.contents] == ["zeros", "huge", "NaN", "infinity"]
    assert found.text.startswith("NONE: no row answers to other rows") and found.look_at == []


def test_the_kept_row_stays_and_others_are_replaced_as_said():
    seen = []

    def function(x):
        seen.append(x.copy())
        return x

    driftbound.leak(function, X, rows=[3], padding=2)
    assert all(np.array_equal(x[3], X[3]) for x in seen)
    warm, replaced = seen[:4], seen[4:16:2]
    assert all(np.array_equal(x, X) for x in [*warm, *seen[5:16:2]])
    others = [0, 1, 2, 4, 5, 6, 7]
    permuted, zeros, huge, nan, inf, copies = (x[others] for x in replaced)
    assert np.array_equal(permuted, X[[1, 2, 4, 5, 6, 7, 0]])
    assert (zeros == 0).all() and (huge == np.finfo(np.float32).max / 4).all()
    assert np.isnan(nan).all() and np.isinf(inf).all() and (copies == X[3]).all()
    assert np.array_equal(seen[16], X[[0, 1, 2, 3, 4, 5, 6, 7, 0, 0]])
    assert all(np.array_equal(x[:8], X) and len(x) == 10 for x in seen[16:])
    assert (seen[17][8:] == 0).all() and np.isnan(seen[19][8:]).all()


def test_a_mean_over_the_batch_is_a_leak():
    found = driftbound.leak(lambda x: rows_alone(x) - 0.1 * rows_alone(x).mean(0), X)
    assert found.verdict == "leak" and found.exit_status == 2 and not found.holds
    assert of(found, "zeros").answered == [0, 2, 5, 7] and of(found, "zeros").first_row == 0
    assert of(found, "NaN").not_finite == 4 * 6 and of(found, "NaN").verdict == "leak"
    assert of(found, "permuted").verdict != "leak"  # the mean does not see the order
    assert found.answers_to == [1, 2, 3, 4, 5, 6, 7]
    assert "not their order" in found.look_at[0] and found.padding.verdict == "leak"
    assert all(one.answered == list(range(8)) and one.verdict == "leak" for one in found.padding.contents)
    assert "when inputs move by one unit" in found.size_of_rounding.rule


def test_rows_that_count_the_padding_are_a_leak():
    found = driftbound.leak(lambda x: rows_alone(x) / len(x), X, padding=3)
    assert found.verdict == "leak" and not any(one.answered for one in found.replacements)
    assert found.padding.verdict == "leak" and found.reason.startswith("LEAK: 3 appended rows change rows by ")
    assert "padding mask" in found.look_at[0]


def test_a_row_that_reads_its_neighbour_is_named():
    def neighbour(x):
        y = rows_alone(x)
        y[5] += 0.5 * y[2]
        return y

    found = driftbound.leak(neighbour, X, rows=[4, 5, 6])
    assert of(found, "permuted").answered == [5] and of(found, "copies").answered == [5]
    assert found.answers_to == [2] and "index of another row" in found.look_at[0]
    assert "row 5, when the others are permuted" in found.reason


def test_a_mask_that_multiplies_lets_nan_through():
    def masked(x):
        y = x + np.zeros((8, 8), np.float32) @ x
        return rows_alone(y)

    found = driftbound.leak(masked, X, padding=0)
    assert found.verdict == "leak" and found.padding is None
    assert {one.replacement for one in found.replacements if one.answered} == {"NaN", "infinity"}
    assert "multiplies by 0" in found.look_at[0]


def test_a_dynamic_scale_depends_within_rounding():
    def scaled(x):
        scale = np.abs(x).max()
        return (x / scale) * scale

    found = driftbound.leak(scaled, X, replacements=("permuted", "zeros", "copies"), padding=0)
    assert found.verdict == "depends" and found.exit_status == 1
    assert not of(found, "permuted").answered and of(found, "copies").answered
    assert 0 < of(found, "copies").largest_change < 1e-5
    assert any("dynamic scale" in hint for hint in found.look_at)
    assert driftbound.leak(scaled, X).verdict == "leak"  # huge numbers take the others' digits
    assert driftbound.leak(scaled, X, replacements=["copies"], limit=1e-12).verdict == "leak"
    assert driftbound.leak(rows_alone, X, limit=0.0, padding=0).verdict == "none"


def test_an_order_of_sums_that_follows_the_data_depends():
    def expert(x):  # experts have as many rows as come, and so other kernels
        halves = slice(None, None, 1 if (x[:, 0] > 0).sum() == 4 else -1)
        y = np.zeros((len(x), 6), np.float32)
        for k in range(12)[halves]:
            y += x[:, k:k + 1] * W[k]
        return y

    assert (X[:, 0] > 0).sum() == 4
    found = driftbound.leak(expert, X, rows=[2], replacements=["copies"], padding=0)
    assert found.verdict == "depends" and "experts" in found.look_at[-1]


def test_what_an_earlier_call_left_is_a_leak():
    kept = {}

    def stale(x):
        y = rows_alone(x)
        before = kept.get("y", y)
        kept["y"] = y
        return y + 0.01 * before if before.shape == y.shape else y

    found = driftbound.leak(stale, X, padding=0)
    assert found.verdict == "leak"
    assert [one.replacement for one in found.replacements if one.answered] == ["earlier call"]
    assert of(found, "earlier call").answered == list(range(8))
    assert "outlives the call" in found.look_at[0] and "of an earlier call" in found.reason


def test_a_first_call_with_other_bits_is_noted():
    count = []

    def warming(x):
        count.append(1)
        return rows_alone(x) * np.float32(1 + 1e-6 * (len(count) == 1))

    found = driftbound.leak(warming, X)
    assert found.verdict == "none" and found.deterministic
    assert any("first call gives other bits" in note for note in found.notes)


def test_noise_is_told_from_answers():
    generator = np.random.default_rng(0)

    def noisy(x):
        return rows_alone(x) + 1e-4 * generator.random((len(x), 6))

    found = driftbound.leak(noisy, X)
    assert not found.deterministic and found.verdict == "none" and 5e-5 < found.noise.output < 1e-4
    assert "is not deterministic" in found.text and found.op is None
    found = driftbound.leak(lambda x: noisy(x) + 0.1 * x.mean(), X)
    assert found.verdict == "leak" and of(found, "zeros").answered and not of(found, "zeros").not_finite


def test_integers_are_replaced_by_values_of_the_batch():
    seen = []

    def honest(tokens):
        seen.append(tokens)
        return TABLE[tokens].sum(1)

    found = driftbound.leak(honest, TOKENS)
    assert found.verdict == "none"
    assert [one.replacement for one in found.replacements] == ["permuted", "values", "copies", "earlier call"]
    assert all(np.isin(tokens, TOKENS).all() and tokens.dtype == TOKENS.dtype for tokens in seen)
    leaking = driftbound.leak(lambda tokens: TABLE[tokens].sum(1) + TABLE[tokens[-1, 0]], TOKENS, rows=3)
    assert leaking.verdict == "leak" and of(leaking, "values").answered == [0, 4]
    assert leaking.answers_to == [7]


def test_integer_outputs_have_no_rounding():
    found = driftbound.leak(lambda x: (x[:, 0] > x[:, 0].mean()).astype(np.int64), X, rows=8, padding=0)
    assert found.verdict == "leak" and found.size_of_rounding.limits.output == 0


def test_structures_axes_and_names():
    def function(batch):
        return {"logits": (batch["x"].T, batch["mask"].T), "count": batch["x"].mean(), "scale": 2.0}

    batch = {"x": X, "mask": X > 0, "temperature": 0.5}
    found = driftbound.leak(function, batch, result_axis=1)
    assert found.verdict == "none" and list(found.noise) == ["['logits'][0]", "['logits'][1]"]
    assert any("['count']" in note for note in found.notes)
    columns = driftbound.leak(lambda x: x - x.mean(1, keepdims=True), np.ascontiguousarray(X.T), axis=-1)
    assert columns.verdict == "leak" and columns.rows == 8
    pair = driftbound.leak(lambda both: [both[0] + both[1]], (X, X + 1))
    assert pair.verdict == "none" and list(pair.noise) == ["[0]"]


def test_mappings_that_are_no_dicts(torch):
    from collections import UserDict, defaultdict

    def function(batch):
        assert type(batch) is kind and batch["x"] is not given["x"]
        return batch["x"] * 2

    for kind in (UserDict, lambda fields: defaultdict(list, fields)):
        given = kind({"x": torch.from_numpy(X)})
        kind = type(given)
        assert driftbound.leak(function, given).verdict == "none"


def test_jax():
    jax = pytest.importorskip("jax")
    for dtype in ("float32", "bfloat16"):
        x = jax.numpy.asarray(X).astype(dtype)
        assert driftbound.leak(lambda x: jax.numpy.tanh(x), x).verdict == "none"
        found = driftbound.leak(jax.jit(lambda x: jax.nn.softmax(x, 0)), x)
        assert found.verdict == "leak" and of(found, "huge").answered
    assert driftbound.batch_classes(lambda x: x * 2, x).one_class


def test_tables_of_pandas(monkeypatch):
    class Pandas:
        DataFrame = list

    monkeypatch.setitem(sys.modules, "pandas", Pandas)
    assert [row["verdict"] for row in driftbound.leak(rows_alone, X).to_pandas()] == ["none"] * 7
    assert [row["row"] for row in driftbound.batch_classes(rows_alone, X).to_pandas()] == ["A"] * 8


@pytest.mark.parametrize("fortran", [False, True])
def test_arrays_are_copies_in_the_same_order_of_axes(fortran):
    given = np.asfortranarray(X) if fortran else X.copy()
    before, orders = given.copy(), set()

    def spoiling(x):
        orders.add((x.flags.f_contiguous, x.dtype.name))
        x += 1
        return x.copy()

    assert driftbound.leak(spoiling, given).verdict == "none"
    assert np.array_equal(given, before) and orders == {(fortran, "float32")}


def test_generators_are_put_back_and_the_same_in_every_call():
    random.seed(1), np.random.seed(1)
    expected = (random.random(), np.random.rand())
    random.seed(1), np.random.seed(1)
    found = driftbound.leak(lambda x: x * (np.random.rand(*x.shape) > 0.5) * random.random(), X)
    assert found.verdict == "none" and found.deterministic
    assert (random.random(), np.random.rand()) == expected


def test_what_a_function_refuses_is_noted():
    def strict(x):
        if not np.isfinite(x).all():
            raise ValueError("numbers must be finite")
        if len(x) != 8:
            raise ValueError("eight rows")
        return rows_alone(x)

    found = driftbound.leak(strict, X)
    assert found.verdict == "none" and of(found, "NaN").not_run == "ValueError: numbers must be finite"
    assert found.padding.not_run == "ValueError: eight rows"
    assert any("Not run with NaN" in note for note in found.notes)
    with pytest.raises(driftbound.Error, match="ran on no replaced batch: ValueError: numbers must be finite"):
        driftbound.leak(strict, X, replacements=["NaN", "infinity"])


@pytest.mark.parametrize("function, batch, options, message", [
    (rows_alone, 3.0, {}, "the batch has no array"),
    (rows_alone, [[1.0, 2.0]], {}, "the batch has no array"),
    (rows_alone, X[:1], {}, "a batch of 1 row has no other rows"),
    (rows_alone, X, {"axis": 2}, "batch has 2 axes, so there is no axis 2"),
    (rows_alone, {"x": X, "mask": np.ones((5, 5))}, {}, r"batch\['mask'\] has 5 rows along axis 0, batch\['x'\] 8"),
    (lambda x: x.sum(), X, {}, r"returned nothing with 8 rows along axis 0 \(output of shape \[\]\)"),
    (lambda x: None, X, {}, "'NoneType' without arrays"),
    (lambda x: np.resize(x, (8, int(x[0, 0] == 0) + 1)), X, {}, "the same shapes and types for every batch"),
    (lambda x: [x] * (1 + int(x[0, 0] == 0)), X, {}, "returns other arrays"),
    (rows_alone, X, {"rows": 0}, "rows=0"),
    (rows_alone, X, {"rows": [8]}, "there is no row 8 in a batch of 8 rows"),
    (rows_alone, X, {"rows": []}, "rows is empty"),
    (rows_alone, X, {"padding": -1}, "padding=-1"),
    (rows_alone, X, {"runs": 1}, "runs=1"),
    (rows_alone, X, {"limit": float("nan")}, "limit=nan"),
    (rows_alone, X.astype(str), {}, "batch has elements of type '<U.*', which are no numbers"),
    (lambda x: x.astype(object), X, {}, "output has elements of type 'object'"),
    (rows_alone, X, {"replacements": ["ones"]}, "there is no replacement 'ones'; there are permuted, zeros"),
    (rows_alone, X, {"replacements": ["values"]}, "'values' is not for this batch"),
    (rows_alone, X, {"replacements": []}, "replacements is empty"),
    (3, X, {}, "'int' is no function"),
])
def test_bad_input_is_told(function, batch, options, message):
    with pytest.raises(driftbound.Error, match=message):
        driftbound.leak(function, batch, **options)


def test_the_result_shows_itself_as_json_text_and_html():
    found = driftbound.leak(lambda x: x - x.mean(0), X)
    json.dumps(found.to_dict(), allow_nan=False)
    assert str(found) == found.text == repr(found)
    assert "other rows" in found.text and "Look at: " in found.text
    page = found._repr_html_()
    assert page.count("<tr>") == 1 + len(found.replacements) + 1 + len(found.padding.contents) and "LEAK" in page
    assert all(len(line) < 200 for line in found.text.splitlines()[2:16])


def test_bits_and_not_numbers():
    def leaf(*numbers):
        return Leaf.of("y", np.array(numbers, np.float32).reshape(1, -1), 0)

    other_nan = np.array([0x7FC00001], np.uint32).view(np.float32)[0]
    assert change_of(leaf(np.nan, 1), leaf(other_nan, 1)).differing == 0
    assert change_of(leaf(0.0, 1), leaf(-0.0, 1)).differing == 1
    change = change_of(leaf(1, np.inf, 3), leaf(2, np.nan, 3))
    assert (change.differing, change.largest, change.not_finite) == (2, 1.0, 1)


def test_the_rule_of_responses_follows_the_condition():
    batch = Batch(X, 0)
    with calls.Calls(rows_alone, 0) as honest:
        size = rounding_size(honest, batch, honest(batch))
    exact = X.astype(np.float64) @ W
    error = np.abs(rows_alone(X) - exact).max()
    assert error < size.limits["output"] < 1000 * error and "32 times" in size.rule
    with calls.Calls(lambda x: rows_alone(x) * 1e3 - rows_alone(x) * 999, 0) as amplified:
        assert rounding_size(amplified, batch, amplified(batch)).limits["output"] > size.limits["output"]
    with calls.Calls(lambda tokens: TABLE[tokens].sum(1), 0) as integers:
        size = rounding_size(integers, Batch(TOKENS, 0), integers(Batch(TOKENS, 0)))
    assert "1024 units" in size.rule and 0 < size.limits["output"] < 1e-2


# ---- PyTorch --------------------------------------------------------------------------------------------------------

@pytest.fixture
def nets(torch):
    """Networks by what they do to rows."""
    from torch import nn

    class Norm(nn.Module):
        def __init__(self):
            super().__init__()
            self.up, self.bn = nn.Linear(12, 6), nn.BatchNorm1d(6)

        def forward(self, x):
            return self.bn(self.up(x))

    class Mixed(nn.Module):
        """Attention within a row, or, with a mask that is too wide, over all rows."""

        def __init__(self, wide):
            super().__init__()
            self.table, self.out, self.wide = nn.Embedding(20, 16), nn.Linear(16, 3), wide

        def forward(self, tokens):
            x = self.table(tokens)
            rows, length, width = x.shape
            flat = x.reshape(1, rows * length, width)
            owner = torch.arange(rows).repeat_interleave(length)
            mask = (owner[:, None] == owner) if not self.wide else (owner[:, None] - owner).abs() <= 1
            scores = (flat @ flat.transpose(1, 2)).masked_fill(~mask, -torch.inf)
            return self.out((torch.softmax(scores, -1) @ flat).reshape(rows, length, width))

    torch.manual_seed(5)
    return {
        "mlp": nn.Sequential(nn.Linear(12, 16), nn.GELU(), nn.Linear(16, 6)).eval(),
        "encoder": nn.TransformerEncoderLayer(12, 2, 24, batch_first=True, dropout=0.0).eval(),
        "over rows": nn.TransformerEncoderLayer(12, 2, 24, batch_first=False, dropout=0.0).train(),
        "norm": Norm().train(),
        "own rows": Mixed(wide=False),
        "wide mask": Mixed(wide=True),
        "dropout": nn.Sequential(nn.Linear(12, 6), nn.Dropout(0.5)).train(),
    }


def sentences(torch):
    return torch.randn(6, 5, 12, generator=torch.Generator().manual_seed(9))


@pytest.mark.parametrize("name", ["mlp", "encoder", "own rows", "dropout"])
def test_honest_networks_do_not_leak(torch, nets, name):
    x = {"encoder": sentences(torch), "own rows": torch.from_numpy(TOKENS)}.get(name, torch.from_numpy(X))
    with torch.no_grad():
        found = driftbound.leak(nets[name], x, replacements=["permuted", "values", "copies"] if name == "own rows"
                                else None)
    assert found.verdict == "none" and found.deterministic, found.text
    if name != "dropout":  # whose draws follow the size
        assert found.padding.verdict in ("none", "rounding"), found.text


def test_batch_normalisation_in_training_is_named_and_its_buffers_are_put_back(torch, nets):
    net, x = nets["norm"], torch.from_numpy(X)
    before, state = copy.deepcopy(net.state_dict()), torch.get_rng_state()
    found = driftbound.leak(lambda batch: net(batch), x)
    assert found.verdict == "leak" and found.look_at[0] == "'bn' (BatchNorm1d in training mode)"
    assert found.op.op == "aten::native_batch_norm" and found.op.module == "bn"
    assert "The row's numbers part in 'bn/aten::native_batch_norm'." in found.text
    assert not of(found, "earlier call").answered
    for key, value in net.state_dict().items():
        assert torch.equal(value, before[key]), key
    assert torch.equal(torch.get_rng_state(), state)
    assert driftbound.leak(net.eval(), x).verdict == "none"


def test_a_function_with_a_variable_without_a_value(torch):
    def function(x):
        return x * 2 if len(x) else later

    assert driftbound.leak(function, torch.from_numpy(X)).verdict == "none"
    later = None


def test_softmax_over_the_batch_is_named(torch):
    found = driftbound.leak(lambda x: torch.softmax(x, 0), torch.from_numpy(X))
    assert found.verdict == "leak" and found.op.name == "aten::_softmax"
    assert found.look_at == ["a softmax or attention over the batch axis, or a missing mask"]


def test_attention_over_rows_is_a_leak(torch, nets):
    with torch.no_grad():
        found = driftbound.leak(nets["over rows"], sentences(torch))
    assert found.verdict == "leak" and of(found, "copies").answered == [0, 2, 3, 5]
    assert found.op.module.startswith("self_attn")


def test_a_mask_that_lets_a_row_see_its_neighbour_is_a_leak(torch, nets):
    with torch.no_grad():
        found = driftbound.leak(nets["wide mask"], torch.from_numpy(TOKENS), rows=[0, 4])
    assert found.verdict == "leak" and of(found, "permuted").verdict == "leak"
    assert found.answers_to == [1] and found.op.name in ("aten::_softmax", "aten::bmm", "aten::masked_fill")


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
def test_types_of_pytorch(torch, dtype):
    dtype = getattr(torch, dtype)
    x, seen = torch.from_numpy(X).to(dtype), []

    def function(batch):
        seen.append(batch)
        return batch + 1

    assert driftbound.leak(function, x).verdict == "none"
    assert all(batch.dtype == dtype for batch in seen)
    largest = [float(batch[1:].float().max()) for batch in seen if batch.isfinite().all()]
    assert max(largest) == pytest.approx(min(torch.finfo(dtype).max, torch.finfo(torch.float32).max) / 4) or \
        dtype == torch.float64
    assert driftbound.leak(lambda batch: batch - batch.float().mean(0).to(dtype), x).verdict == "leak"


def test_memory_formats_and_gradients_are_kept(torch):
    x = torch.randn(4, 3, 5, 5).to(memory_format=torch.channels_last).requires_grad_()
    seen = []

    def function(batch):
        seen.append((batch.is_contiguous(memory_format=torch.channels_last), batch.requires_grad, batch.is_leaf))
        return batch * 2

    assert driftbound.leak(function, x).verdict == "none" and set(seen) == {(True, True, True)}


def test_the_size_of_rounding_is_by_the_error_where_the_program_judges_all(judge, torch, nets):
    batch = Batch(torch.from_numpy(X), 0)
    with torch.no_grad(), calls.Calls(nets["mlp"], 0) as honest:
        size = rounding_size(honest, batch, honest(batch))
        double = copy.deepcopy(nets["mlp"]).double()(torch.from_numpy(X).double())
        error = float((nets["mlp"](torch.from_numpy(X)) - double).abs().max())
    assert "measured by the program" in size.rule and 31 * error < size.limits["output"] < 100 * error


@pytest.mark.parametrize("name, verdict", [("encoder", "expected"), ("over rows", "bug")])
def test_recorded_runs_with_copies_of_a_row_are_told_by_drift(judge, torch, nets, tmp_path, name, verdict):
    x = sentences(torch)
    for file, batch in (("one", x), ("copies", x[[3] * len(x)])):
        with torch.no_grad(), driftbound.record(tmp_path / f"{file}.safetensors"):
            nets[name].train()(batch)
    drift = driftbound.drift(tmp_path / "one.safetensors", tmp_path / "copies.safetensors")
    assert drift.verdict == verdict, drift.text


# ---- batch classes --------------------------------------------------------------------------------------------------

def kernels(x):
    """One kernel for a row alone, another below eight rows, a third from eight on; place 3 of four has its own."""
    order = range(12) if len(x) == 1 else range(11, -1, -1) if len(x) < 8 else (*range(6, 12), *range(6))
    y = np.zeros((len(x), 6), np.float32)
    for k in order:
        y += x[:, k:k + 1] * W[k]
    if len(x) == 4:
        y[3] = np.nextafter(y[3], np.float32(9))
    return y


def test_batch_classes_of_sizes_and_places():
    x = RANDOM.standard_normal((40, 12)).astype(np.float32)
    found = driftbound.batch_classes(kernels, x)
    assert [one.size for one in found.sizes] == [*range(1, 17), 24, 32]
    assert found.statement == "1: A; 2–7: B; 8–32: D"
    assert [one.places for one in found.sizes if one.size == 4] == [["B", "B", "B", "C"]]
    assert found.classes[1].sizes == [2, 3, 4, 5, 6, 7] and (found.classes[2].size, found.classes[2].place) == (4, 3)
    assert 0 < found.classes[1].largest_difference <= found.largest_difference < 1e-5
    assert not found.one_class and found.exit_status == 1 and found.notes == []
    assert "0–2: B; 3: C" in found.text and "1: A; 2–7: B; 8–32: D" in found._repr_html_()
    json.dumps(found.to_dict(), allow_nan=False)
    again = driftbound.batch_classes(kernels, x, sizes=[9, 2, 3], row=5)
    assert again.statement == "2–3: A; 9: B"


def test_where_classes_change_is_found():
    x = RANDOM.standard_normal((100, 12)).astype(np.float32)
    found = driftbound.batch_classes(lambda x: rows_alone(x) * np.float32(1 if len(x) < 53 else 1.25), x)
    assert {52, 53} <= {one.size for one in found.sizes}
    assert found.statement == "1–52: A; 53–96: B"


def test_one_class():
    found = driftbound.batch_classes(rows_alone, X)
    assert found.one_class and found.holds and found.statement == "1–8: A" and found.largest_difference == 0
    assert "the same bits at every size and place" in found.text


def test_default_sizes_go_as_far_as_the_batch():
    found = driftbound.batch_classes(lambda x: x, np.zeros((100, 1)))
    assert [one.size for one in found.sizes] == [*range(1, 17), 24, 32, 48, 64, 96]


def test_the_op_in_which_classes_part_is_named(torch):
    class Kernel(torch.nn.Module):
        def forward(self, x):
            return x.sum(-1, keepdim=True) if len(x) < 3 else x.flip(-1).cumsum(-1)[:, -1:]

    net = torch.nn.Sequential(torch.nn.Identity(), Kernel())
    x = torch.from_numpy(RANDOM.standard_normal((6, 301)).astype(np.float32))
    found = driftbound.batch_classes(lambda batch: net(batch * 2), x, sizes=[1, 2, 4, 6])
    assert found.statement == "1–2: A; 4–6: B", found.text
    parts = found.parts[0].to_dict()
    assert len(parts.pop("kernels")) == 2
    assert parts == {"class": "B", "op": "aten::sum", "module": "1", "name": "1/aten::sum", "number": 1,
                     "instead": "aten::flip"}
    found = driftbound.batch_classes(lambda batch: net(batch * 2), x, sizes=[1, 4], explain=False)
    assert "kernels" not in found.parts[0].to_dict()

    def inner(batch):  # the same ops, whose numbers part
        return torch.relu(batch.mul(2).add(1e-6 if len(batch) > 2 else 0.0))

    found = driftbound.batch_classes(inner, x, sizes=[1, 2, 4])
    assert found.parts[0].name == "aten::add" and "B parts from A in 'aten::add'." in found.text


def test_kernels_behind_classes_are_named(torch):
    torch.manual_seed(0)
    found = driftbound.batch_classes(torch.nn.Linear(32, 64), torch.randn(64, 32), sizes=[1, 4, 12, 64])
    for one in found.parts:
        assert len(one.kernels) == 2
        for name, kernel in zip(("A", one["class"]), one.kernels):
            assert kernel is None or (kernel.startswith("fp32") and f"{name} there: {kernel}." in found.text)


def test_padding_to_one_size_is_tried_as_a_remedy():
    def by_size(batch):  # another order of the sum for small batches
        return np.stack([np.cumsum(row if len(batch) < 4 else row[::-1])[-1] for row in batch])

    x = RANDOM.standard_normal((8, 50)).astype(np.float32)
    found = driftbound.batch_classes(by_size, x, pad_to=8)
    assert len(found.classes) == 2
    assert found.padded.classes == 1 and found.padded.places == ["0–7"] and found.padded.seconds > 0.0
    assert "Padded to 8 rows the row at place 0 has the same bits at every size, and so has every place" in found.text
    with pytest.raises(driftbound.Error, match="up to 8 rows are tried"):
        driftbound.batch_classes(by_size, x, pad_to=4)


def test_classes_of_rows_that_answer_or_are_not_deterministic():
    generator = np.random.default_rng(0)
    found = driftbound.batch_classes(lambda x: x + generator.random(x.shape), X, sizes=[2, 3])
    assert found.statement == "2–3: ?" and not found.deterministic and not found.one_class
    assert "not deterministic" in found.notes[0]
    found = driftbound.batch_classes(lambda x: x - x.mean(0), X)
    assert "answers to them (driftbound.leak)" in found.notes[0]


@pytest.mark.parametrize("options, message", [
    ({"sizes": [9]}, "size 9: the batch has 8 rows, so sizes are from 1 to 8"),
    ({"sizes": [0]}, "size 0"),
    ({"sizes": []}, "sizes is empty"),
    ({"row": 8}, "there is no row 8 in a batch of 8 rows"),
    ({"row": True}, "there is no row True"),
    ({"axis": 3}, "no axis 3"),
])
def test_bad_sizes_are_told(options, message):
    with pytest.raises(driftbound.Error, match=message):
        driftbound.batch_classes(rows_alone, X, **options)
    with pytest.raises(driftbound.Error, match="nothing with 1 rows"):
        driftbound.batch_classes(lambda x: x.sum(), X)


# ---- assertions -----------------------------------------------------------------------------------------------------

def test_the_assertion():
    driftbound.assert_rows_independent(rows_alone, X)
    with pytest.raises(AssertionError, match="^LEAK: 4 of 4 rows answer to other rows, row 0 first") as error:
        driftbound.assert_rows_independent(lambda x: x - x.mean(0), X)
    assert isinstance(error.value, driftbound.LeakError) and "Look at" in str(error.value)

    def scaled(x):
        return (x / np.abs(x).max()) * np.abs(x).max()

    options = {"replacements": ["copies"], "padding": 0}
    driftbound.assert_rows_independent(scaled, X, within_rounding=True, **options)
    with pytest.raises(driftbound.LeakError, match="^DEPENDS"):
        driftbound.assert_rows_independent(scaled, X, **options)


def test_the_plugin_shows_the_table_alone(pytester):
    pytester.makeconftest('pytest_plugins = ["driftbound.pytest_plugin"]')
    pytester.makepyfile("""
        import numpy as np

        def test_rows(rows_independent):
            rows_independent(lambda x: x - x.mean(0), np.arange(12.0).reshape(4, 3))
    """)
    result = pytester.runpytest("-p", "no:cacheprovider")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*test_the_plugin*.py:4: rows are not independent", "", "LEAK: *", "", "other rows *"])
    assert "assertions.py" not in result.stdout.str() and "Traceback" not in result.stdout.str()


def test_outputs_are_copies(torch):
    for held in (np.zeros((8, 2)), torch.zeros(8, 2, dtype=torch.float64)):
        outputs = Outputs(held, 0, 8)
        held += 1
        assert (outputs.leaves[0].numbers == 0).all() and (outputs.leaves[0].bits == 0).all()
