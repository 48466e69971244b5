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


def drift_of(tmp_path, of_a, of_b):
    """What is said of two runs; each a model and its tokens."""
    result = driftbound.drift(recorded(tmp_path / "a.safetensors", *of_a), recorded(tmp_path / "b.safetensors", *of_b))
    return result, result.to_dict()["drifts"][0]


def test_sequences_that_part_are_compared_up_to_there(network, tmp_path):
    other = TOKENS.clone()
    other[2, 5:] = (other[2, 5:] + 1) % 20
    other[4, 3:] = (other[4, 3:] + 2) % 20
    result, one = drift_of(tmp_path, (network, TOKENS), (network, other))
    assert result.verdict == "expected"
    assert one["parting"] == {"name": one["parting"]["name"], "row": 2, "position": 5, "first": int(TOKENS[2, 5]),
                              "second": int(other[2, 5]), "drawn": False}
    counts = [stretch["count"] for stretch in one["rows"]["positions"]["of_second"]]
    assert counts == [8, 8, 5, 8, 3, 8]
    head = one["ops"][-1]
    assert head["difference"]["elements"] == sum(counts) * 20
    choices = one["decisions"][-1]
    assert choices["rows"] == sum(counts)
    assert choices["at"]["row"] == 2 * 8 + 4  # the one that token 5 of row 2 is chosen from
    assert len(choices["at"]["largest_first"]) == 8


@pytest.mark.parametrize("shorter_first", [True, False])
def test_a_sequence_that_goes_on_is_compared_as_far_as_the_other(network, tmp_path, shorter_first):
    runs = [(network, TOKENS[:, :5]), (network, TOKENS)]
    result, one = drift_of(tmp_path, *(runs if shorter_first else reversed(runs)))
    assert result.verdict == "expected"
    assert one["parting"] is None
    assert one["rows"]["positions"]["of_second"] == [{"first": 0, "second": 0, "count": 5}] * 6
    assert all(op["difference"] for op in one["ops"])
    assert one["as_first"] == shorter_first
    assert one["not_as_second"] is None


def test_positions_that_answer_to_what_follows_them_are_named(network, tmp_path):
    class Leaky(Block):
        """Its mask is off by one: every position reads the next one."""

        def forward(self, x):
            rows, tokens, width = x.shape
            q, k, v = (part.view(rows, tokens, 2, 16).transpose(1, 2) for part in self.qkv(self.ln1(x)).chunk(3, -1))
            mask = torch.full((tokens, tokens), -torch.inf).triu(2)
            a = torch.softmax(q @ k.transpose(-1, -2) * 0.25 + mask, -1) @ v
            return x + self.proj(a.transpose(1, 2).reshape(rows, tokens, width))

    torch.manual_seed(5)
    leaky = nn.Sequential(nn.Embedding(20, 32), Leaky(), nn.Linear(32, 20)).eval()
    other = TOKENS.clone()
    other[:, 4:] = (other[:, 4:] + 1) % 20
    result, one = drift_of(tmp_path, (leaky, TOKENS), (leaky, other))
    assert result.verdict == "suspicious"
    assert "answer to what follows them" in one["reason"]
    assert one["culprit"] == "1/aten::_softmax"


def test_left_padding_that_is_masked_is_expected(tmp_path):
    class Padded(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.q, self.out = nn.Embedding(20, 16), nn.Linear(16, 48), nn.Linear(16, 20)

        def forward(self, ids, keep):
            q, k, v = self.q(self.embed(ids)).chunk(3, -1)
            scores = (q @ k.transpose(-1, -2) * 0.25).masked_fill(torch.ones(ids.shape[1], ids.shape[1]).triu(1).bool(), -1e9)
            return self.out(torch.softmax(scores.masked_fill(~keep[:, None], -1e9), -1) @ v)

    torch.manual_seed(6)
    model = Padded().eval()
    keep = torch.ones(1, 8, dtype=torch.bool)

    def run(path, ids, keep):
        with torch.no_grad(), driftbound.record(path):
            model(ids, keep)
        return path

    padding = torch.zeros(1, 3, dtype=torch.long)
    padded = (torch.cat([padding, TOKENS[:1]], 1), torch.cat([padding.bool(), keep], 1))
    result = driftbound.drift(run(tmp_path / "a.safetensors", TOKENS[:1], keep), run(tmp_path / "b.safetensors", *padded))
    assert result.verdict == "expected"
    stretch = result.to_dict()["drifts"][0]["rows"]["positions"]["of_second"]
    assert stretch == [{"first": 0, "second": 3, "count": 8}]


def test_a_run_that_goes_on_with_its_own_tokens_is_compared_up_to_the_first_that_differs(network, tmp_path):
    def generated(path, flip):
        tokens = TOKENS[:1, :3]
        with torch.no_grad(), driftbound.record(path):
            for step in range(4):
                token = int(network(tokens)[0, -1].argmax())
                tokens = torch.cat([tokens, torch.tensor([[(token + (step == flip)) % 20]])], 1)
        return path

    result = driftbound.drift(generated(tmp_path / "a.safetensors", -1), generated(tmp_path / "b.safetensors", 1))
    one = result.to_dict()["drifts"][0]
    assert result.verdict == "expected"
    assert (one["parting"]["second"] - one["parting"]["first"]) % 20 == 1
    compared = [op["difference"] is not None for op in one["ops"] if op["module"] == "3"]
    assert compared == [True, True, False, False]
    assert [choice["rows"] for choice in one["decisions"]] == [3, 4]


class Cached(nn.Module):
    """One attention layer that goes on with the keys and values of earlier steps."""

    def __init__(self):
        super().__init__()
        self.embed, self.q, self.out = nn.Embedding(20, 16), nn.Linear(16, 48), nn.Linear(16, 20)

    def forward(self, ids, cache):
        q, k, v = self.q(self.embed(ids)).chunk(3, -1)
        if cache is not None:
            k, v = torch.cat([cache[0], k], 1), torch.cat([cache[1], v], 1)
        mask = torch.ones(q.shape[1], k.shape[1]).triu(1 + k.shape[1] - q.shape[1]).bool()
        scores = (q @ k.transpose(-1, -2) * 0.25).masked_fill(mask, -1e9)
        return self.out(torch.softmax(scores, -1) @ v), (k, v)


@pytest.mark.parametrize("rows, first, second, flip", [(1, 3, 5, 1), (2, 5, 3, 0), (2, 5, 3, -1)])
def test_a_loop_that_parts_and_stops_earlier_is_compared_up_to_there(tmp_path, rows, first, second, flip):
    torch.manual_seed(7)
    model = Cached().eval()

    def generated(path, steps, flip):
        new, cache, ended = TOKENS[:rows, :3], None, torch.zeros(rows, 1, dtype=torch.long)
        with torch.no_grad(), driftbound.record(path):
            for step in range(steps):
                logits, cache = model(new, cache)
                new = torch.tensor([[(int(best) + (step == flip)) % 20] for best in logits[:, -1].argmax(-1)])
                ended = ended + torch.tensor([[int(token) % 3] for token in new])  # of the last step, too
        return path

    result = driftbound.drift(generated(tmp_path / "a.safetensors", first, -1),
                              generated(tmp_path / "b.safetensors", second, flip))
    one = result.to_dict()["drifts"][0]
    assert result.verdict == "expected", result.text
    compared = [op["difference"] is not None for op in one["ops"] if op["module"] == "q"]
    steps = min(first, second)
    assert compared == [step <= flip or flip < 0 for step in range(steps)]
    assert (one["parting"] is None) == (flip < 0)
    assert len(one["only_first" if first > second else "only_second"]) >= 9 * abs(first - second)
    assert not one["only_second" if first > second else "only_first"]


class Decoder(nn.Module):
    """Embeddings of tokens and positions, and two attention layers that go on with the keys and values of earlier steps."""

    def __init__(self):
        super().__init__()
        self.said, self.at, self.first_position = nn.Embedding(20, 16), nn.Embedding(32, 16), 0
        self.layers = nn.ModuleList(nn.ModuleDict({"norm": nn.LayerNorm(16), "own": nn.Linear(16, 48),
                                                   "proj": nn.Linear(16, 16)}) for _ in range(2))
        self.out = nn.Linear(16, 20)

    def forward(self, ids, cache=None, shown=None):
        before = cache[0][0].shape[2] if cache else 0
        shown = torch.ones(ids.shape[0], before + ids.shape[1]).long() if shown is None else shown
        positions = (shown.cumsum(-1) - 1).clamp(min=0)[:, before:] + (self.first_position if cache else 0)
        x, kept = self.said(ids) + self.at(positions), []
        for i, layer in enumerate(self.layers):
            q, k, v = (part.unflatten(-1, (2, 8)).transpose(1, 2) for part in layer["own"](layer["norm"](x)).chunk(3, -1))
            if cache:
                k, v = torch.cat([cache[i][0], k], 2), torch.cat([cache[i][1], v], 2)
            causal = torch.ones(q.shape[2], k.shape[2]).triu(1 + k.shape[2] - q.shape[2]).bool()
            hidden = causal | (shown == 0)[:, None, None, -k.shape[2]:]
            scores = (q @ k.transpose(-1, -2) * 0.35).masked_fill(hidden, -1e9)
            x = x + layer["proj"]((torch.softmax(scores, -1) @ v).transpose(1, 2).flatten(2))
            kept.append((k, v))
        return self.out(x), kept


def decoder():
    torch.manual_seed(12)
    return Decoder().eval()


def sampled(path, model, prompt, steps, way="cache", change=lambda step, cache: cache, shown=None):
    """Records a prompt and the steps that follow it; the text without the last token chosen."""
    with torch.no_grad(), driftbound.record(path):
        text, new, cache = prompt, prompt, None
        for step in range(steps):
            logits, cache = model(new, cache, shown)
            cache = change(step, cache) if way == "cache" else None
            chosen = logits[:, -1:].argmax(-1)
            shown = None if shown is None else torch.cat([shown, torch.ones_like(chosen)], 1)
            text = torch.cat([text, chosen], 1)
            new = chosen if way == "cache" else text
    return text[:, :-1]


def read_at_once(path, model, text, shown=None):
    with torch.no_grad(), driftbound.record(path):
        model(text.clone(), shown=shown)
    return path


@pytest.mark.parametrize("way", ["cache", "again"])
@pytest.mark.parametrize("rows, prompt", [(1, 5), (3, 5), (2, 1)])
def test_a_text_read_in_steps_is_compared_with_all_of_it(tmp_path, rows, prompt, way):
    model, sampler = decoder(), tmp_path / "sampler.safetensors"
    text = sampled(sampler, model, TOKENS[:rows, :prompt], 4, way)
    trainer = read_at_once(tmp_path / "trainer.safetensors", model, text)
    for first, second in [(sampler, trainer), (trainer, sampler)]:
        result = driftbound.drift(first, second)
        one = result.to_dict()["drifts"][0]
        assert result.verdict == "expected", result.text
        assert one["rows"]["positions"]["pairs_of_steps"] == 4
        logits = [op for op in one["ops"] if op["module"] == "out"]
        keys = [prompt + step for step in range(4)]
        queries = [prompt, 1, 1, 1] if way == "cache" else keys
        read = [rows * positions * 20 for positions in queries]
        assert [op["difference"]["elements"] for op in logits] == read
        assert all(op["difference"] for op in one["ops"])
        # Log-probabilities are those of the tokens that the sampler chose.
        rows_of = [decision["by_row"] for decision in one["decisions"]]
        said = sorted(row["chosen"] for row in rows_of[1]) if way == "cache" and first == sampler else None
        assert said in (None, sorted(text[:, prompt + 1].tolist()))
        assert all(decision["chosen_given"] for decision in one["decisions"])
        scores = [op["difference"]["elements"] for op in one["ops"] if op["op"] == "aten::_softmax"]
        assert scores == [rows * 2 * q * k for q, k in zip(queries, keys) for _ in range(2)]


def test_chunks_of_a_prompt_are_compared_with_other_chunks_and_with_steps_that_read_all_again(tmp_path):
    model, paths = decoder(), [tmp_path / f"{i}.safetensors" for i in range(2)]
    for path, ends in zip(paths, [(3, 7, 8), (5, 8)]):
        with torch.no_grad(), driftbound.record(path):
            cache, begin = None, 0
            for end in ends:
                cache = model(TOKENS[:2, begin:end], cache)[1]
                begin = end
    result = driftbound.drift(*paths)
    assert result.verdict == "expected", result.text
    assert result.to_dict()["drifts"][0]["rows"]["positions"]["pairs_of_steps"] == 4
    sampled(paths[0], model, TOKENS[:2, :5], 3)
    sampled(paths[1], model, TOKENS[:2, :5], 3, "again")
    result = driftbound.drift(*paths)
    assert result.verdict == "expected", result.text
    assert result.to_dict()["drifts"][0]["rows"]["positions"]["pairs_of_steps"] == 3


def test_a_sampler_that_pads_on_the_left_is_compared_with_a_trainer_that_pads_on_the_right(tmp_path):
    model, sampler = decoder(), tmp_path / "sampler.safetensors"
    prompt, shown = TOKENS[:2, :5].clamp(min=1), torch.tensor([[0, 0, 1, 1, 1], [1] * 5])
    text = sampled(sampler, model, prompt * shown, 4, shown=shown)
    turned, is_text = torch.zeros_like(text), torch.zeros_like(text)
    for row, padding in enumerate([2, 0]):
        turned[row, : 8 - padding] = text[row, padding:]
        is_text[row, : 8 - padding] = 1
    result = driftbound.drift(sampler, read_at_once(tmp_path / "trainer.safetensors", model, turned, is_text))
    one = result.to_dict()["drifts"][0]
    assert result.verdict == "expected", result.text
    assert [at["count"] for at in one["rows"]["positions"]["of_second"]] == [6, 8]
    assert all(op["difference"] for op in one["ops"] if op["module"] == "out")


@pytest.mark.parametrize("is_stale", [False, True])
@pytest.mark.parametrize("op", ["copy", "put"])
def test_a_cache_of_a_fixed_size_is_compared_as_far_as_it_is_filled(tmp_path, op, is_stale):
    model = decoder()
    with torch.no_grad(), driftbound.record(tmp_path / "a.safetensors"):
        caches = [[torch.zeros(2, 2, 12, 8) for _ in range(2)] for _ in range(2)]
        text = new = TOKENS[:2, :5]
        for step in range(3):
            at = torch.arange(text.shape[1] - new.shape[1], text.shape[1])
            x = model.said(new) + model.at(at)
            for i, layer in enumerate(model.layers):
                q, k, v = (part.unflatten(-1, (2, 8)).transpose(1, 2)
                           for part in layer["own"](layer["norm"](x)).chunk(3, -1))
                for n, part in enumerate((k, v)):
                    if op == "copy":
                        caches[i][n].index_copy_(2, at, part)
                    else:
                        caches[i][n][:, :, at] = part
                scores = (q @ caches[i][0].transpose(-1, -2) * 0.35).masked_fill(torch.arange(12) > at[:, None], -1e9)
                x = x + layer["proj"]((torch.softmax(scores, -1) @ caches[i][1]).transpose(1, 2).flatten(2))
            if is_stale and step == 1:
                caches[1][0].index_copy_(2, torch.tensor([5]), caches[1][0][:, :, :1].clone())
            new = model.out(x)[:, -1:].argmax(-1)
            text = torch.cat([text, new], 1)
    trainer = read_at_once(tmp_path / "b.safetensors", model, text[:, :-1])
    result = driftbound.drift(tmp_path / "a.safetensors", trainer)
    assert result.verdict == ("bug" if is_stale else "expected"), result.text
    ops = result.to_dict()["drifts"][0]["ops"]
    scores = [op["difference"]["elements"] for op in ops if op["op"] == "aten::_softmax"]
    assert scores == [4 * 5 * 5] * 2 + [4 * 6] * 2 + [4 * 7] * 2


def stale_key(step, cache):
    if step == 1:
        k, v = cache[1]
        cache[1] = torch.cat([k[:, :, :3], k[:, :, 2:3], k[:, :, 4:]], 2), v
    return cache


def lost_key(step, cache):
    return [(k[:, :, 1:], v[:, :, 1:]) if step == 1 and i == 1 else (k, v) for i, (k, v) in enumerate(cache)]


def test_a_fault_is_never_expected_where_the_errors_from_the_input_on_are_not_known(tmp_path):
    model = decoder()
    text = sampled(tmp_path / "a.safetensors", model, TOKENS[:2, :5], 4, change=stale_key)
    trainer = read_at_once(tmp_path / "b.safetensors", model, text)
    for options in ({"audit": 64}, {"memory": "1M"}):
        assert driftbound.drift(tmp_path / "a.safetensors", trainer, **options).verdict == "undecided"


@pytest.mark.parametrize("fault, module", [("stale", "layers.1.own"), ("lost", "layers.1.own"), ("positions", "layers.0.own"),
                                           ("epsilon", "layers.1.norm"), ("bias", "layers.0.proj")])
def test_a_fault_of_the_sampler_is_a_bug_where_it_is(tmp_path, fault, module):
    model, trainer = decoder(), decoder()
    model.first_position = 1 if fault == "positions" else 0
    if fault == "epsilon":
        trainer.layers[1]["norm"].eps = 1e-4
    if fault == "bias":
        trainer.layers[0]["proj"].bias.data.zero_()
    change = {"stale": stale_key, "lost": lost_key}.get(fault, lambda step, cache: cache)
    text = sampled(tmp_path / "a.safetensors", model, TOKENS[:2, :5], 4, change=change)
    result = driftbound.drift(tmp_path / "a.safetensors", read_at_once(tmp_path / "b.safetensors", trainer, text))
    ops = result.to_dict()["drifts"][0]["ops"]
    assert result.verdict == "bug", result.text
    bug = next(i for i, op in enumerate(ops) if op["verdict"] == "bug")
    in_modules = [op["module"] for op in ops[: bug + 1] if op["module"]]  # attention and positions are in none
    assert in_modules[-1] == module
    if fault in ("stale", "lost"):
        assert in_modules.count(module) == 3  # the prompt, the step before, and this one
        assert "keys of a cache" in ops[bug]["reason"]
    if fault == "positions":
        assert in_modules.count(module) == 2 and "other positions" in ops[bug]["reason"]


class Answering(nn.Module):
    """Reads a question with an encoder, and gives the next tokens of an answer."""

    def __init__(self):
        super().__init__()
        self.asked, self.said, self.kinds = nn.Embedding(20, 16), nn.Embedding(20, 16), nn.Embedding(2, 16)
        self.keys, self.own, self.out = nn.Linear(16, 32), nn.Linear(16, 48), nn.Linear(16, 20)

    def forward(self, question, kinds, answer):
        k, v = self.keys(torch.tanh(self.asked(question) + self.kinds(kinds))).chunk(2, -1)
        q, own_k, own_v = self.own(self.said(answer)).chunk(3, -1)
        mask = torch.full((answer.shape[1], answer.shape[1]), -torch.inf).triu(1)
        x = torch.softmax(q @ own_k.transpose(-1, -2) * 0.25 + mask, -1) @ own_v
        return self.out(x + torch.softmax(x @ k.transpose(-1, -2) * 0.25, -1) @ v)


def test_of_two_texts_the_one_that_differs_parts(tmp_path):
    torch.manual_seed(8)
    model, kinds = Answering().eval(), (torch.arange(8) > 3).long().expand(6, 8)
    answer = (TOKENS[:, :5] * 3 + 1) % 20
    other = answer.clone()
    other[1, 3:] = (other[1, 3:] + 1) % 20

    def run(path, *inputs, onednn=True):
        with torch.no_grad(), driftbound.record(path), torch.backends.mkldnn.flags(enabled=onednn):
            model(*inputs)
        return path

    result = driftbound.drift(run(tmp_path / "a.safetensors", TOKENS, kinds, answer),
                              run(tmp_path / "b.safetensors", TOKENS.int(), kinds, other, onednn=False))
    one = result.to_dict()["drifts"][0]
    assert result.verdict == "expected", result.text
    assert (one["parting"]["row"], one["parting"]["position"]) == (1, 3)
    by_module = {op["module"]: op["difference"]["elements"] for op in one["ops"] if op["difference"]}
    assert by_module["keys"] == 6 * 8 * 32  # all of the question
    assert by_module["out"] == (6 * 5 - 2) * 20


@pytest.mark.parametrize("change", ["part", "go on"])
def test_positions_are_found_along_the_first_axis(tmp_path, change):
    torch.manual_seed(9)
    embed, layer, out = nn.Embedding(20, 16), nn.TransformerEncoderLayer(16, 2, 24, dropout=0.0), nn.Linear(16, 20)
    layer = nn.TransformerEncoder(layer.eval(), 1).eval()
    tokens = TOKENS[:3].t().contiguous()
    other = torch.cat([tokens, tokens[:2]]) if change == "go on" else tokens.clone()
    if change == "part":
        other[5:, 1] = (other[5:, 1] + 1) % 20

    def run(path, ids):
        with torch.no_grad(), driftbound.record(path):
            out(layer(embed(ids), torch.full((len(ids), len(ids)), -torch.inf).triu(1)))
        return path

    result = driftbound.drift(run(tmp_path / "a.safetensors", tokens), run(tmp_path / "b.safetensors", other))
    one = result.to_dict()["drifts"][0]
    assert result.verdict == "expected", result.text
    counts = [stretch["count"] for stretch in one["rows"]["positions"]["of_second"]]
    assert counts == ([8, 5, 8] if change == "part" else [8, 8, 8])
    assert one["ops"][-1]["difference"]["elements"] == sum(counts) * 20
    if change == "part":
        assert (one["parting"]["row"], one["parting"]["position"]) == (1, 5)
        assert one["decisions"][-1]["at"]["row"] == 4 * 3 + 1  # the one that token 5 of text 1 is chosen from


@pytest.mark.parametrize("kind", ["lstm", "gru", "cells"])
@pytest.mark.parametrize("positions_first", [True, False])
def test_steps_of_a_recurrent_network_before_the_parting_are_compared(tmp_path, kind, positions_first):
    torch.manual_seed(10)
    embed, out = nn.Embedding(20, 16), nn.Linear(12, 20)
    cell = nn.LSTMCell(16, 12)
    network = {"lstm": nn.LSTM, "gru": nn.GRU, "cells": nn.LSTM}[kind](16, 12, batch_first=not positions_first)
    axis = 0 if positions_first else 1

    def run(path, ids):
        ids = ids.t().contiguous() if positions_first else ids
        with torch.no_grad(), driftbound.record(path):
            x, outputs, state = embed(ids), [], None
            if kind != "cells":
                out(network(x)[0])
                return path
            for step in range(x.shape[axis]):
                state = cell(x.select(axis, step), state)
                outputs.append(state[0])
            out(torch.stack(outputs, axis))
        return path

    tokens, other = TOKENS[:3], TOKENS[:3].clone()
    other[1, 5:] = (other[1, 5:] + 1) % 20
    other[[0, 2], 6:] = (other[[0, 2], 6:] + 1) % 20
    result = driftbound.drift(run(tmp_path / "a.safetensors", tokens), run(tmp_path / "b.safetensors", other))
    one = result.to_dict()["drifts"][0]
    assert result.verdict == "expected", result.text
    assert not one["sources"] and not one["sources_only_first"]
    steps = [op["difference"] and op["difference"]["elements"] for op in one["ops"] if op["op"].startswith("aten::tanh")]
    a_step = 1 if kind == "gru" else 2
    assert steps == [36] * 5 * a_step + [24] * a_step + [None] * 2 * a_step
    assert one["ops"][-1]["difference"]["elements"] == (6 + 5 + 6) * 20


@pytest.mark.parametrize("way", ["multinomial", "gumbel"])
def test_a_token_that_is_drawn_parts_by_chance(tmp_path, way):
    torch.manual_seed(7)
    model = Cached().eval()

    def generated(path, seed):
        torch.manual_seed(seed)
        new, cache = TOKENS[:1, :3], None
        with torch.no_grad(), driftbound.record(path):
            for _ in range(3):
                logits, cache = model(new, cache)
                p = torch.softmax(logits[:, -1], -1)
                if way == "multinomial":
                    new = torch.multinomial(p, 1)
                else:
                    new = (p / torch.empty_like(p).exponential_(1)).argmax(-1, keepdim=True)
        return path

    result = driftbound.drift(generated(tmp_path / "a.safetensors", 1), generated(tmp_path / "b.safetensors", 2))
    one = result.to_dict()["drifts"][0]
    assert result.verdict == "expected", result.text
    assert one["parting"]["drawn"] and "drawn at random" in result.text
    compared = [op["difference"] is not None for op in one["ops"] if op["module"] == "q"]
    assert compared[0] and not compared[-1]


def test_random_numbers_that_are_no_choice_are_undecided(tmp_path):
    torch.manual_seed(12)
    first, last, x = nn.Linear(8, 8), nn.Linear(8, 8), torch.randn(4, 8)
    for name in ("a", "b"):
        with torch.no_grad(), driftbound.record(tmp_path / f"{name}.safetensors"):
            y = first(x)
            last(y * torch.empty_like(y).exponential_(1))
    drift = driftbound.drift(tmp_path / "a.safetensors", tmp_path / "b.safetensors")
    assert drift.verdict == "undecided" and "same random numbers" in drift.text.replace("\n", " ")


def test_dropouts_of_other_seeds_are_undecided(tmp_path):
    torch.manual_seed(9)
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Dropout(0.3), nn.Linear(32, 8)).train()
    paths = [tmp_path / f"{seed}.safetensors" for seed in (1, 2, 3)]
    for path, seed in zip(paths, (5, 6, 5)):
        torch.manual_seed(seed)
        recorded(path, model, torch.linspace(-1, 1, 6 * 16).view(6, 16))
    other, same = driftbound.drift(*paths[:2]), driftbound.drift(paths[0], paths[2])
    assert other.verdict == "undecided" and "random" in other.text, other.text
    assert same.verdict == "expected", same.text


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
        tolerance, *on_the_way = json.loads(file.read_text()).values()
        assert len(on_the_way) == 2 and all(0.0 < one["atol"] < 5e-5 for one in on_the_way)
        assert 0.0 < tolerance["atol"] < 5e-5
        if kind == "torch":
            torch.testing.assert_close(runs[0], runs[1], **tolerance)
            with pytest.raises(AssertionError):
                torch.testing.assert_close(runs[0], wrong, **tolerance)
        else:
            np.testing.assert_allclose(runs[0].numpy(), runs[1].numpy(), **tolerance)
            with pytest.raises(AssertionError):
                np.testing.assert_allclose(runs[0].numpy(), wrong.numpy(), **tolerance)
