"""Two programs compute one network in other ways: no bug, and a fault that hides among them is one."""

import json
import math
import struct

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

import driftbound  # noqa: E402

WIDTH, HEADS, PART = 32, 2, 16
TOKENS = torch.randint(0, 40, (2, 9), generator=torch.Generator().manual_seed(4))


class Decoder(nn.Module):
    """A block with rotary positions, as one program writes it or another. `how`: which, and its faults."""

    def __init__(self, **how):
        super().__init__()
        self.how = how
        self.emb, self.norm = nn.Embedding(40, WIDTH), nn.Parameter(torch.rand(WIDTH) + 0.5)
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))
        self.gate, self.up, self.down = (nn.Linear(*sizes, bias=False) for sizes in ((32, 64), (32, 64), (64, 32)))

    def joined(self):
        """With one weight for q, k and v, and one for gate and up."""
        self.qkv, self.gate_up = nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False)
        self.qkv.weight = nn.Parameter(torch.cat([self.q.weight, self.k.weight, self.v.weight]))
        self.gate_up.weight = nn.Parameter(torch.cat([self.gate.weight, self.up.weight]))
        self.how["joined"] = True
        return self

    def normalised(self, x):
        mean = x.pow(2).mean(-1, keepdim=True) + 1e-6
        return x / torch.sqrt(mean) * self.norm if self.how.get("divides") else x * torch.rsqrt(mean) * self.norm

    def rotated(self, x, cos, sin):
        a, b = x.chunk(2, -1)
        if not self.how.get("in_halves"):
            return x * cos + torch.cat([-b, a], -1) * sin
        cos, sin = cos[:, : PART // 2], sin[:, : PART // 2]
        return torch.cat([a * cos - b * sin, b * cos + a * sin * self.how.get("turn", 1.0)], -1)

    def forward(self, tokens, mask=None):
        x = self.emb(tokens)
        rows, count, _ = x.shape
        if self.how.get("rotates", True):
            angles = torch.outer(torch.arange(count).float(), 1 / 100 ** (torch.arange(0, PART, 2) / PART))
            cos, sin = torch.cat([angles, angles], -1).cos(), torch.cat([angles, angles], -1).sin()
        y = self.normalised(x)
        q, k, v = self.qkv(y).chunk(3, -1) if self.how.get("joined") else (self.q(y), self.k(y), self.v(y))
        q, k, v = (part.view(rows, count, HEADS, PART).transpose(1, 2) for part in (q, k, v))
        if self.how.get("rotates", True):
            q, k = self.rotated(q, cos, sin), self.rotated(k, cos, sin)
        on_q, on_k = self.how.get("scales", (1.0, None))
        q = q * (on_q / math.sqrt(PART))
        k = k if on_k is None else k * on_k
        mask = torch.ones(count, count, dtype=torch.bool).triu(1) if mask is None else mask
        scores = (q @ k.transpose(-1, -2)).masked_fill(mask, self.how.get("masked", torch.finfo(torch.float32).min))
        x = x + self.o((scores.softmax(-1) @ v).transpose(1, 2).reshape(rows, count, WIDTH))
        y = self.normalised(x)
        gate, up = self.gate_up(y).chunk(2, -1) if self.how.get("joined") else (self.gate(y), self.up(y))
        return x + self.down(F.silu(gate) * up)


def decoder(**how):
    torch.manual_seed(3)
    return Decoder(**how).eval()


def both_ways(tmp_path, first, second):
    """The drift of two recordings, and that of the second one with the first."""
    for path, run in ((tmp_path / "a.safetensors", first), (tmp_path / "b.safetensors", second)):
        with torch.no_grad(), driftbound.record(path):
            run()
    return (driftbound.drift(tmp_path / "a.safetensors", tmp_path / "b.safetensors"),
            driftbound.drift(tmp_path / "b.safetensors", tmp_path / "a.safetensors"))


WAYS = {"rotation in halves": {"in_halves": True}, "norm by division": {"divides": True},
        "scale on both factors": {"scales": (0.5, 2.0)}, "masked by infinity": {"masked": -math.inf}}


@pytest.mark.parametrize("way", WAYS)
def test_another_way_to_the_same_numbers_is_expected(tmp_path, way):
    for drift in both_ways(tmp_path, lambda: decoder()(TOKENS), lambda: decoder(**WAYS[way])(TOKENS)):
        assert drift.verdict == "expected", drift.text


def test_weights_that_one_run_joins_are_the_same(tmp_path):
    def second():
        return decoder().joined()(TOKENS)

    for drift in both_ways(tmp_path, lambda: decoder()(TOKENS), second):
        assert drift.verdict == "expected", drift.text


FAULTS = {"turned less": {"in_halves": True, "turn": 1.0005}, "another scale": {"scales": (0.5, 2.001)},
          "turned otherwise": {"in_halves": True, "turn": -1.0}}


@pytest.mark.parametrize("is_joined", [False, True])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_among_other_ways_is_a_bug(tmp_path, fault, is_joined):
    def second():
        model = decoder(**FAULTS[fault])
        return (model.joined() if is_joined else model)(TOKENS)

    for drift in both_ways(tmp_path, lambda: decoder()(TOKENS), second):
        assert drift.verdict == "bug", drift.text


ALL_WAYS = {"in_halves": True, "divides": True, "scales": (0.5, 2.0)}


def without_modules(path):
    """Takes the modules out of a recording, as of a program that names none."""
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    records = json.loads(header["__metadata__"]["records"])
    header["__metadata__"]["records"] = json.dumps([{key: value for key, value in record.items() if key != "module"}
                                                    for record in records])
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data[8 + size:])


@pytest.mark.parametrize("fault", [{}, {"turn": 1.0005}, {"scales": (0.5, 2.001)}])
@pytest.mark.parametrize("is_joined", [False, True])
def test_runs_that_name_no_modules_and_compute_everything_otherwise(tmp_path, is_joined, fault):
    how = {**ALL_WAYS, **fault}
    paths = tmp_path / "a.safetensors", tmp_path / "b.safetensors"
    with torch.no_grad():
        for path, model in zip(paths, (decoder(), decoder(**how).joined() if is_joined else decoder(**how))):
            with driftbound.record(path):
                model(TOKENS)
            without_modules(path)
    for pair in (paths, paths[::-1]):
        drift = driftbound.drift(*pair)
        assert drift.verdict == ("bug" if fault else "expected"), drift.text


TEXTS = [[7, 3, 21, 9], [7, 11, 3, 30, 21, 14], [7, 5, 3]]


def in_a_row(model, texts):
    """All texts as one row, each of which sees itself alone."""
    text = torch.repeat_interleave(torch.arange(len(texts)), torch.tensor([len(text) for text in texts]))
    mask = (text[:, None] != text[None, :]) | torch.ones(len(text), len(text), dtype=torch.bool).triu(1)
    return model(torch.tensor([sum(texts, [])]), mask)


@pytest.mark.parametrize("which", range(3))
def test_a_text_is_found_in_a_row_of_several(tmp_path, which):
    def alone():
        return decoder(rotates=False)(torch.tensor([TEXTS[which]]))

    for drift in both_ways(tmp_path, lambda: in_a_row(decoder(rotates=False), TEXTS), alone):
        assert drift.verdict == "expected", drift.text
        assert f"{len(TEXTS[which])} positions" in drift.text.replace("\n", " ")


def test_a_text_in_a_row_that_answers_to_another_is_no_expected_drift(tmp_path):
    def leaking():
        return decoder(rotates=False)(torch.tensor([sum(TEXTS, [])]))  # it sees the texts before it

    for drift in both_ways(tmp_path, leaking, lambda: decoder(rotates=False)(torch.tensor([TEXTS[1]]))):
        assert drift.verdict in ("suspicious", "bug"), drift.text


def padded(model, to, sees_padding=False):
    rows = torch.cat([TOKENS, torch.zeros(2, to - TOKENS.shape[1], dtype=torch.long)], 1)
    is_padding = torch.arange(to) >= TOKENS.shape[1]
    mask = torch.ones(to, to, dtype=torch.bool).triu(1) | is_padding[None, :] & torch.tensor(not sees_padding)
    return model(rows, mask[None, None].expand(2, 1, to, to).contiguous())


def test_padding_that_a_mask_excludes_is_expected(tmp_path):
    model = decoder()
    for drift in both_ways(tmp_path, lambda: model(TOKENS), lambda: padded(model, 14)):
        assert drift.verdict == "expected", drift.text


def test_numbers_that_are_not_finite_are_named_where_a_run_reads_them(tmp_path):
    layer, x = nn.Linear(8, 4), torch.rand(3, 8)
    broken = x.clone()
    broken[1, 2] = math.nan
    first, second = both_ways(tmp_path, lambda: layer(x), lambda: layer(broken))
    assert first.exit_status == 2 and second.exit_status == 2
    assert "the second run reads numbers that are not finite: 1 of 24 elements" in first.text.replace("\n", " ")
    assert "the first run reads numbers that are not finite" in second.text.replace("\n", " ")


def test_a_mask_of_truths_that_is_off_by_one_is_a_bug(tmp_path):
    mask = torch.ones(9, 9, dtype=torch.bool).triu(1)
    other = torch.ones(9, 9, dtype=torch.bool).triu(2)
    for drift in both_ways(tmp_path, lambda: decoder()(TOKENS, mask), lambda: decoder()(TOKENS, other)):
        assert drift.verdict == "bug", drift.text


def test_a_mask_that_a_program_makes_off_by_one_is_another_mask(tmp_path):
    def made(diagonal):
        torch.manual_seed(5)
        return decoder()(TOKENS, ~torch.ones(9, 9, dtype=torch.bool).tril(diagonal))

    for drift in both_ways(tmp_path, lambda: made(0), lambda: made(1)):
        assert drift.verdict == "bug", drift.text
        assert "8 of 81 truth values differ" in drift.text and "another mask" in drift.text.replace("\n", " ")


def test_what_mixes_rows_is_named(tmp_path):
    torch.manual_seed(6)
    net, x = nn.Linear(12, 12), torch.randn(8, 12)
    copies = x[[3] * 8]

    def forward(rows):
        return net(rows + 1e-3 * rows.mean(0, keepdim=True))

    drift, _ = both_ways(tmp_path, lambda: forward(x), lambda: forward(copies))
    assert drift.verdict == "bug", drift.text
    assert "rows answer to other rows by way of 'aten::mean'" in drift.text.replace("\n", " ")


def test_weights_in_a_narrower_type_are_one_sentence(tmp_path):
    torch.manual_seed(6)
    net, x = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4)), torch.randn(8, 16)
    narrow = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4)).bfloat16()
    narrow.load_state_dict(net.state_dict())
    for drift in both_ways(tmp_path, lambda: net(x), lambda: narrow(x.bfloat16())):
        assert "The numbers of 4 values from outside differ" in drift.text.replace("\n", " "), drift.text


def test_masks_by_the_least_number_of_two_formats_are_expected(tmp_path):
    narrow = torch.finfo(torch.bfloat16).min
    for drift in both_ways(tmp_path, lambda: decoder()(TOKENS), lambda: decoder(masked=narrow)(TOKENS)):
        assert drift.verdict == "expected", drift.text
        assert "are masked by other large numbers" in drift.text.replace("\n", " ")


def test_texts_in_a_row_in_another_order_are_no_bug(tmp_path):
    model = decoder(rotates=False)
    for drift in both_ways(tmp_path, lambda: in_a_row(model, TEXTS), lambda: in_a_row(model, [TEXTS[1], TEXTS[0]])):
        assert drift.verdict in ("expected", "undecided"), drift.text
        assert "10 rows" in drift.text.replace("\n", " ") or "Rows: 10 of" in drift.text, drift.text


def two_layers(seed=5, dtype=torch.float32):
    torch.manual_seed(seed)
    first, second = nn.Linear(16, 32).to(dtype), nn.Linear(32, 8).to(dtype)
    return lambda x: second(torch.relu(first(x)))


X = torch.randn(4, 16, generator=torch.Generator().manual_seed(6))
BANNED, LEAST = torch.arange(8) == 5, torch.finfo(torch.float32).min


@pytest.mark.parametrize("fault", [lambda y: y * 2, lambda y: y[[1, 0, 3, 2]], lambda y: y.roll(1, -1)],
                         ids=["twice", "swapped rows", "other classes"])
def test_banned_classes_hide_no_fault(tmp_path, fault):
    layers = two_layers()
    for drift in both_ways(tmp_path, lambda: torch.where(BANNED, torch.tensor(LEAST), layers(X)),
                           lambda: torch.where(BANNED, torch.tensor(LEAST), fault(layers(X)))):
        assert drift.verdict == "bug", drift.text


def test_faults_far_below_float32_are_seen_in_float64(tmp_path):
    layers, x = two_layers(dtype=torch.float64), X.double()
    for drift in both_ways(tmp_path, lambda: layers(x), lambda: layers(x * (1 + 1e-8))):
        assert drift.verdict == "bug", drift.text


def test_masks_by_infinity_and_by_the_least_number_with_scales_elsewhere(tmp_path):
    q, k = torch.randn(2, 6, 12, generator=torch.Generator().manual_seed(7))
    mask, scale = torch.ones(6, 6, dtype=torch.bool).triu(1), 12 ** -0.5
    for drift in both_ways(tmp_path, lambda: ((q * scale) @ k.T).masked_fill(mask, -math.inf).softmax(-1),
                           lambda: ((q @ k.T) * scale).masked_fill(mask, LEAST).softmax(-1)):
        assert drift.verdict == "expected", drift.text


def attending(mask, fault=0.0):
    """Attention of 2 rows of 6 positions with a mask that is added to scores."""
    q, k, v = (torch.randn(2, 6, 12, generator=torch.Generator().manual_seed(n)) for n in (7, 8, 9))
    shares = (q @ k.transpose(-1, -2) / math.sqrt(12) + mask).softmax(-1)
    return torch.stack([shares[0], shares[1] * (1.0 + fault)]) @ v


def causal(count, least):
    return torch.full((count, count), least).triu(1)[None]


def test_masks_of_ten_thousand_and_of_infinity_that_are_added_are_expected(tmp_path):
    for drift in both_ways(tmp_path, lambda: attending(causal(6, -1e4)), lambda: attending(causal(6, -math.inf))):
        assert drift.verdict == "expected", drift.text


@pytest.mark.parametrize("fault", [0.0, 1e-3])
def test_masks_that_add_up_to_infinity_are_masks(tmp_path, fault):
    seen = torch.tensor([[1.0] * 4 + [0.0] * 2, [1.0] * 6])

    def added():
        return attending(causal(6, LEAST) + (1.0 - seen)[:, None, :] * LEAST)

    def limited():
        return attending((causal(6, LEAST) + (1.0 - seen)[:, None, :] * LEAST).clamp(min=LEAST), fault)

    for drift in both_ways(tmp_path, added, limited):
        assert drift.verdict == ("bug" if fault else "expected"), drift.text


def test_choices_from_numbers_that_one_run_alone_has_are_not_expected(tmp_path):
    torch.manual_seed(6)
    net, x = nn.Linear(16, 8), torch.randn(8, 16)
    for drift in both_ways(tmp_path, lambda: net(x).argmax(-1), lambda: (-net(x)).argmax(-1)):
        assert drift.verdict == "undecided", drift.text
        assert "one run makes them of numbers that it alone has" in drift.text.replace("\n", " ")


def test_a_longer_sequence_of_a_recurrent_network_is_expected_and_an_op_behind_it_is_not(tmp_path):
    torch.manual_seed(6)
    net, x = nn.LSTM(6, 8, batch_first=True), torch.randn(2, 9, 6)
    for drift in both_ways(tmp_path, lambda: net(x[:, :5]), lambda: net(x)):
        assert drift.verdict == "expected", drift.text
    table, head = nn.Embedding(20, 16), nn.Linear(16, 8)
    tokens = torch.randint(0, 20, (2, 9))
    shorter = tokens[:, :5].clone()
    for drift in both_ways(tmp_path, lambda: head(table(shorter)), lambda: 0.5 * head(table(tokens))):
        assert drift.verdict == "undecided", drift.text


@pytest.mark.parametrize("way", ["limited", "fused", "overflow"])
def test_masks_are_found_by_the_ops_that_read_them(tmp_path, way):
    torch.manual_seed(6)
    q, k, v = (torch.randn(2, 6, 12) for _ in range(3))

    def attention(least):
        if way == "limited":  # as OPT does
            scores = (q @ k.transpose(-1, -2) + causal(6, least)).clamp(min=LEAST)
        elif way == "fused":
            scores = torch.baddbmm(causal(6, least).expand(2, 6, 6).contiguous(), q, k.transpose(-1, -2))
        else:  # no scores: nothing reads the sum but a ReLU
            return (q @ k.transpose(-1, -2) + causal(6, LEAST) + causal(6, LEAST)).relu() @ v
        return scores.softmax(-1) @ v

    for drift in both_ways(tmp_path, lambda: attention(-1e4), lambda: attention(-1e9)):
        assert drift.verdict == ("undecided" if way == "overflow" else "expected"), drift.text


def test_what_one_run_goes_on_to_compute_is_not_expected(tmp_path):
    for drift in both_ways(tmp_path, lambda: attending(causal(6, -1e4)), lambda: 1.001 * attending(causal(6, -1e4))):
        assert drift.verdict == "undecided", drift.text
        assert "it is a result of the run, and the other run has none" in drift.text.replace("\n", " ")


@pytest.mark.parametrize("fault", ["", "swapped", "element"])
def test_joined_weights_in_a_narrower_type(tmp_path, fault):
    torch.manual_seed(12)
    parts, out, x = [nn.Linear(16, 16) for _ in range(3)], nn.Linear(16, 16), torch.randn(2, 5, 16)
    joined, narrow_out = nn.Linear(16, 48).bfloat16(), nn.Linear(16, 16).bfloat16()
    order = [1, 0, 2] if fault == "swapped" else [0, 1, 2]
    joined.weight.data = torch.cat([parts[i].weight.data for i in order]).bfloat16()
    joined.bias.data = torch.cat([parts[i].bias.data for i in order]).bfloat16()
    narrow_out.load_state_dict(out.state_dict())
    if fault == "element":
        joined.weight.data[3] *= 1.25

    def attention(q, k, v, last):
        return last((q @ k.transpose(-1, -2) * 0.25).softmax(-1) @ v)

    for drift in both_ways(tmp_path, lambda: attention(*(part(x) for part in parts), out),
                           lambda: attention(*joined(x.bfloat16()).chunk(3, -1), narrow_out)):
        assert (drift.verdict == "expected") == (fault == ""), drift.text


class Wrong(torch.utils._python_dispatch.TorchDispatchMode):
    """Replaces what a norm gives."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        if "native_layer_norm" in str(function):
            result[0].copy_(torch.arange(result[0].numel()).view_as(result[0]))
        return result


class OtherEpsilon(torch.utils._python_dispatch.TorchDispatchMode):
    """Computes layer norms by another epsilon than the record says."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if "native_layer_norm" in str(function):
            return function(*args[:-1], 1e-6)
        return function(*args, **(kwargs or {}))


def test_an_epsilon_that_no_row_shows_alone_is_seen_in_all_rows(tmp_path):
    norm, x = nn.LayerNorm(32), 2.0 * torch.randn(64, 32, generator=torch.Generator().manual_seed(8))

    def by_parts():
        y = x - x.mean(-1, keepdim=True)
        return y / (y.square().mean(-1, keepdim=True) + norm.eps).sqrt() * norm.weight + norm.bias

    for drift in both_ways(tmp_path, lambda: norm(x), by_parts):
        assert drift.verdict == "expected", drift.text
    with torch.no_grad(), driftbound.record(tmp_path / "c.safetensors"):
        norm(x)
    with torch.no_grad(), OtherEpsilon(), driftbound.record(tmp_path / "d.safetensors"):
        norm(x)
    drift = driftbound.drift(tmp_path / "c.safetensors", tmp_path / "d.safetensors")
    assert drift.verdict == "suspicious", drift.text
    assert "standard errors from 1: another epsilon" in drift.text.replace("\n", " ")


def test_numbers_that_no_bound_decides_are_not_explained(tmp_path):
    torch.manual_seed(5)
    first, norm, second = nn.Linear(16, 32).bfloat16(), nn.LayerNorm(16).bfloat16(), nn.Linear(32, 8).bfloat16()
    first.bias.data += 30

    def by_op():
        with Wrong():
            second(norm(first(X.bfloat16()).view(8, 16)).view(4, 32))

    def by_hand():
        y = first(X.bfloat16()).view(8, 16).t().contiguous().float()
        y = (y - y.mean(0)) / (y.var(0, unbiased=False) + norm.eps).sqrt()
        second((y.bfloat16() * norm.weight[:, None] + norm.bias[:, None]).t().reshape(4, 32))

    for drift in both_ways(tmp_path, by_op, by_hand):
        assert drift.verdict != "expected", drift.text
