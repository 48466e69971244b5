"""Pairs of runs of PyTorch: rounding is expected, a fault is a bug, at the op that has it."""

import copy
import json

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

import driftbound  # noqa: E402
from driftbound.program import run_program  # noqa: E402


class Block(nn.Module):
    """A transformer block of width 32 with two heads."""

    def __init__(self, form="none"):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(32), nn.LayerNorm(32)
        self.qkv, self.proj = nn.Linear(32, 96), nn.Linear(32, 32)
        self.up, self.down = nn.Linear(32, 64), nn.Linear(64, 32)
        self.form = form

    def forward(self, x):
        rows, tokens, width = x.shape
        q, k, v = (part.view(rows, tokens, 2, 16).transpose(1, 2) for part in self.qkv(self.ln1(x)).chunk(3, -1))
        mask = torch.full((tokens, tokens), -torch.inf).triu(1)
        a = torch.softmax(q @ k.transpose(-1, -2) * 0.25 + mask, -1) @ v
        x = x + self.proj(a.transpose(1, 2).reshape(rows, tokens, width))
        return x + self.down(F.gelu(self.up(self.ln2(x)), approximate=self.form))


@pytest.fixture
def network():
    torch.manual_seed(3)
    return nn.Sequential(nn.Embedding(20, 32), Block(), Block(), nn.Linear(32, 20)).eval()


TOKENS = torch.randint(0, 20, (6, 8), generator=torch.Generator().manual_seed(4))


def recorded(path, model, tokens=TOKENS):
    with torch.no_grad(), driftbound.record(path):
        model(tokens)
    return path


def with_fault(network, change):
    faulty = copy.deepcopy(network)
    with torch.no_grad():
        change(faulty)
    return faulty


def test_the_same_run_is_expected(network, tmp_path):
    drift = driftbound.drift(recorded(tmp_path / "a.safetensors", network),
                             recorded(tmp_path / "b.safetensors", network))
    assert drift.verdict == "expected" and drift.exit_status == 0
    assert all(op.difference.differing == 0 for op in drift.drifts[0].ops)


@pytest.mark.parametrize("rows", [[0], [5, 2, 4]])
def test_rows_of_another_batch_are_found_and_expected(network, tmp_path, rows):
    drift = driftbound.drift(recorded(tmp_path / "a.safetensors", network),
                             recorded(tmp_path / "b.safetensors", network, TOKENS[rows]))
    assert drift.verdict == "expected", drift.text
    assert drift.drifts[0].rows.of_second == rows
    assert not drift.drifts[0].only_first and not drift.drifts[0].only_second


def scaled_weight(net):
    net[2].up.weight[3, 5] *= 1.5


def swapped_rows(net):
    net[1].proj.weight[[2, 9]] = net[1].proj.weight[[9, 2]]


def other_epsilon(net):
    net[2].ln1.eps = 1e-3


def other_form(net):
    net[1].form = "tanh"


@pytest.mark.parametrize("change, module", [(scaled_weight, "2.up"), (swapped_rows, "1.proj"), (other_epsilon, "2.ln1"),
                                            (other_form, "1")])
def test_a_fault_is_a_bug_at_its_op(network, tmp_path, change, module):
    drift = driftbound.drift(recorded(tmp_path / "a.safetensors", network),
                             recorded(tmp_path / "b.safetensors", with_fault(network, change)))
    assert drift.verdict == "bug" and drift.exit_status == 2
    assert drift.drifts[0].culprit.rsplit("/", 1)[0] == module, drift.text


def test_fused_attention_is_aligned_with_its_parts(network, tmp_path):
    class Fused(Block):
        def forward(self, x):
            rows, tokens, width = x.shape
            q, k, v = (part.view(rows, tokens, 2, 16).transpose(1, 2) for part in self.qkv(self.ln1(x)).chunk(3, -1))
            scores = torch.baddbmm(torch.full((tokens, tokens), -torch.inf).triu(1).expand(rows * 2, -1, -1),
                                   q.reshape(-1, tokens, 16), k.reshape(-1, tokens, 16).transpose(1, 2), alpha=0.25)
            a = (torch.softmax(scores, -1) @ v.reshape(-1, tokens, 16)).view(rows, 2, tokens, 16)
            x = x + self.proj(a.transpose(1, 2).reshape(rows, tokens, width))
            return x + self.down(F.gelu(self.up(self.ln2(x))))

    fused = copy.deepcopy(network)
    for block in (fused[1], fused[2]):
        block.__class__ = Fused
    drift = driftbound.drift(recorded(tmp_path / "a.safetensors", network),
                             recorded(tmp_path / "b.safetensors", fused))
    assert drift.verdict == "expected", drift.text
    assert not drift.drifts[0].only_second
    assert len(drift.drifts[0].only_first) == 4  # the products and the scaled ones, which the other run does not have


def test_other_inputs_are_refused(network, tmp_path):
    with pytest.raises(driftbound.Error, match="different inputs") as error:
        driftbound.drift(recorded(tmp_path / "a.safetensors", network),
                         recorded(tmp_path / "b.safetensors", network, (TOKENS + 1) % 20))
    assert error.value.exit_status == 3


def test_rows_are_found_along_other_axes_and_where_the_recording_cuts_the_batch(tmp_path):
    torch.manual_seed(5)
    x = torch.randn(4, 6, 16)
    lstm = nn.LSTM(16, 12, batch_first=True).eval()
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, dropout=0.0)
    for name, model in (("lstm", lstm), ("encoder", layer)):
        with torch.no_grad(), driftbound.record(tmp_path / f"{name}1.safetensors"):
            model(x)
        with torch.no_grad(), driftbound.record(tmp_path / f"{name}2.safetensors"):
            model(x[1:3])
        drift = driftbound.drift(tmp_path / f"{name}1.safetensors", tmp_path / f"{name}2.safetensors")
        assert drift.verdict == "expected", drift.text
        assert drift.drifts[0].rows.of_second == [1, 2]


def test_a_run_in_bfloat16_is_held_to_its_own_arithmetic(tmp_path):
    torch.manual_seed(6)
    model, x = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 3)), torch.randn(5, 16)
    with torch.no_grad(), driftbound.record(tmp_path / "a.safetensors"):
        model(x)
    with torch.no_grad(), driftbound.record(tmp_path / "b.safetensors"), torch.autocast("cpu", dtype=torch.bfloat16):
        model(x)
    drift = driftbound.drift(tmp_path / "a.safetensors", tmp_path / "b.safetensors")
    assert drift.verdict == "expected", drift.text
    assert all(op.difference.largest < 0.1 for op in drift.drifts[0].ops)


def test_tolerances_of_outputs_are_taken_by_torch_and_numpy(tmp_path):
    torch.manual_seed(3)
    model = torch.nn.Sequential(torch.nn.Linear(40, 30), torch.nn.Tanh(), torch.nn.Linear(30, 4)).eval()
    batch = torch.randn(16, 40)
    runs = []
    for name, threads in (("a", 1), ("b", 2)):
        torch.set_num_threads(threads)
        with driftbound.record(tmp_path / f"{name}.safetensors"):
            runs.append(model(batch).detach())
    wrong = runs[0].clone()
    wrong[3, 2] += 1e-4
    for kind in ("torch", "numpy"):
        file = tmp_path / f"{kind}.json"
        run_program(["drift", str(tmp_path / "a.safetensors"), str(tmp_path / "b.safetensors"), "--quiet",
                     "--tolerances", kind, str(file)])
        (tolerance,) = json.loads(file.read_text()).values()
        assert 0.0 < tolerance["atol"] < 5e-5
        if kind == "torch":
            torch.testing.assert_close(runs[0], runs[1], **tolerance)
            with pytest.raises(AssertionError):
                torch.testing.assert_close(runs[0], wrong, **tolerance)
        else:
            np.testing.assert_allclose(runs[0].numpy(), runs[1].numpy(), **tolerance)
            with pytest.raises(AssertionError):
                np.testing.assert_allclose(runs[0].numpy(), wrong.numpy(), **tolerance)
