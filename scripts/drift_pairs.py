#!/usr/bin/env python3
"""Pairs of runs of PyTorch, honest ones and ones with a planted fault, and what `driftbound drift` says of them.

  /usr/bin/python3 scripts/drift_pairs.py [--pairs 200] [--seed 1] [--first 0] [--keep FOLDER] [--threads 1] [--honest-only]
                                          [--resume build/drift_pairs.jsonl] [--page docs/power.md]

Needs PyTorch, and the program (the variable DRIFTBOUND, or build/*/driftbound). Of each kind as many pairs: networks are
perceptrons, small convolutional networks and decoders, of random widths; half as many pairs have one element of a
product that is off. The runs of an honest pair differ in threads,
batches, order of rows, kernels (oneDNN or not), or add up their products in another order; those of decoders also in
steps, in padding, in types, and in the ops by which they come to the same numbers. A fault is planted in the second run:
in the weights, the function or the input, as a program with a bug has it, or inside one op, whose record says nothing of
it. The effect of a fault is what it changes the op's result by, where that is most, over the estimate of the
honest error there (`adjoint/statistical` of the report on that op alone, T-75).
Prints every pair that is not called what it is, and tables in Markdown; --page writes them as a section of a page. With
--resume it goes on where it stopped: the file has a line for every pair; remove it after a change of the program.
Exit status 1 where an honest pair is a bug.
"""
import argparse
import collections
import copy
import datetime
import json
import math
import pathlib
import platform
import random
import sys
import tempfile
import textwrap
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "python"))

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

import driftbound

import pages

aten = torch.ops.aten


# ---- networks

class Perceptron(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(width, hidden), nn.LayerNorm(hidden), nn.Linear(hidden, 16)

    def forward(self, x):
        return self.last(F.gelu(self.norm(self.first(x))))


class Convolutional(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        channels = max(4, min(hidden // 8, 32))
        self.first, self.second = nn.Conv2d(3, channels, 3, padding=1), nn.Conv2d(channels, channels, 3)
        self.norm, self.last = nn.BatchNorm2d(channels), nn.Linear(channels, 10)

    def forward(self, x):
        y = F.relu(self.norm(self.second(F.relu(self.first(x)))))
        return self.last(y.mean((2, 3)))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.heads, self.form, self.shift = heads, "none", 1
        self.keeps, self.past = False, None  # keys and values of earlier steps
        self.way, self.hidden = "", None  # how the same is computed otherwise; pairs of positions that do not see each other

    def normalised(self, norm, x):
        if self.way != "norm by parts":
            return norm(x)
        x = x - x.mean(-1, keepdim=True)
        return x / (x.square().mean(-1, keepdim=True) + norm.eps).sqrt() * norm.weight + norm.bias

    def queries_keys_values(self, x):
        if self.way != "split weights":
            return self.qkv(x).chunk(3, -1)
        parts = zip(self.qkv.weight.chunk(3), self.qkv.bias.chunk(3))
        return [F.linear(x, weight.clone(), bias.clone()) for weight, bias in parts]

    def scores(self, q, k):
        scale = q.shape[-1] ** -0.5
        if self.way == "scale on both factors":
            return q * scale ** 0.5 @ (k * scale ** 0.5).transpose(-1, -2)
        return (q * scale @ k.transpose(-1, -2)) if self.way == "scale on q" else q @ k.transpose(-1, -2) * scale

    def masked(self, scores):
        tokens, keys = scores.shape[-2:]
        least = torch.finfo(scores.dtype).min if self.way == "masked by the least number" else -math.inf
        scores = scores + torch.full((tokens, keys), least).triu(self.shift + keys - tokens).to(scores.dtype)
        return scores if self.hidden is None else scores.masked_fill(self.hidden, torch.finfo(scores.dtype).min)

    def forward(self, x):
        rows, tokens, width = x.shape
        q, k, v = (part.view(rows, tokens, self.heads, -1).transpose(1, 2)
                   for part in self.queries_keys_values(self.normalised(self.norm1, x)))
        if self.past is not None:
            k, v = (torch.cat(both, 2) for both in zip(self.past, (k, v)))
        self.past = (k, v) if self.keeps else None
        a = torch.softmax(self.masked(self.scores(q, k)), -1) @ v
        x = x + self.proj(a.transpose(1, 2).reshape(rows, tokens, width))
        return x + self.down(F.gelu(self.up(self.normalised(self.norm2, x)), approximate=self.form))


class Decoder(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.table = nn.Embedding(40, width)
        self.blocks = nn.ModuleList(Block(width, 4) for _ in range(2))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 40)

    def forward(self, tokens):
        x = self.table(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def batch_of(draw, most):
    """A number of rows, two or more; about `most` at most."""
    return draw.choice([rows for rows in (2, 4, 9, 16, 33, 64) if rows <= max(2, most)])


def network_of(draw, widths):
    """A network of random weights and an input. Half of them are decoders. Sizes are such that a pair takes seconds."""
    kind = draw.choice([Perceptron, Convolutional, Decoder, Decoder])
    torch.manual_seed(draw.getrandbits(30))
    if kind is Decoder:
        width, tokens = draw.choice([16, 32, 64, 64, 128, 128, 256, 512]), draw.choice([3, 5, 12, 24])
        tokens = max(3, min(tokens, 1536 // width))
        return Decoder(width).eval(), torch.randint(0, 40, (batch_of(draw, 1536 // (width * tokens)), tokens))
    width, hidden = draw.choice(widths), draw.choice([32, 64, 128, 256])
    model = kind(width, hidden).eval()
    if kind is Convolutional:
        return model, torch.randn(batch_of(draw, 16), 3, 10, 10)
    return model, torch.randn(batch_of(draw, 2 ** 21 // (width * hidden)), width)


# ---- runs

def record(path, model, x, threads=1, inside=None):
    torch.set_num_threads(threads)
    with torch.no_grad():
        if inside is None:
            with driftbound.record(path):
                model(x)
        else:
            with inside, driftbound.record(path):
                model(x)
    return path


def record_steps(path, model, tokens, ends):
    """Records a decoder that reads tokens up to each of these ends, one after the other, with a cache."""
    torch.set_num_threads(1)
    for block in model.blocks:
        block.keeps, block.past = True, None
    with torch.no_grad(), driftbound.record(path):
        for first, end in zip([0, *ends], ends):
            model(tokens[:, first:end])
    for block in model.blocks:
        block.keeps, block.past = False, None
    return path


#: Ways to the same numbers that programs differ in.
OTHER_WAYS = ("norm by parts", "split weights", "scale on q", "scale on both factors", "masked by the least number",
              "padding on the left", "texts in a row", "float64", "bfloat16 against float32", "split weights, rows")


def record_in_another_way(path, model, tokens, way, draw):
    """Records a decoder that computes the same by other ops, types, or with its texts laid out otherwise."""
    model = copy.deepcopy(model)
    if way in ("float64", "bfloat16 against float32"):
        return record(path, model.double() if way == "float64" else model.bfloat16(), tokens)
    if way.endswith(", rows"):
        tokens = tokens[sorted(draw.sample(range(len(tokens)), draw.randint(1, len(tokens) - 1)))]
    hidden, length = None, tokens.shape[1]
    if way == "padding on the left":
        more = draw.randint(1, 3)
        tokens = F.pad(tokens, (more, 0))
        hidden = torch.arange(tokens.shape[1]) < more
    elif way == "texts in a row":
        text = torch.arange(tokens.numel()) // length
        tokens, hidden = tokens.reshape(1, -1), text[:, None] != text[None]
    for block in model.blocks:
        block.way, block.hidden = way.removesuffix(", rows"), hidden
    return record(path, model, tokens)


def in_halves(c, a, b):
    """As split-K kernels do."""
    half = a.shape[1] // 2
    return torch.mm(a[:, :half], b[:half]) + torch.mm(a[:, half:], b[half:]) + c


def in_random_order(c, a, b):
    order = torch.randperm(a.shape[1])
    return torch.addmm(c, a[:, order], b[order])


def in_chunks(c, a, b):
    """Chunks of 8 one after the other."""
    total = c.expand(a.shape[0], b.shape[1]).clone()
    for first in range(0, a.shape[1], 8):
        total += torch.mm(a[:, first:first + 8], b[first:first + 8])
    return total


class OtherOrder(TorchDispatchMode):
    """Computes every product with an addend by another function."""

    def __init__(self, product):
        super().__init__()
        self.product = product

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if function is aten.addmm.default and not kwargs and args[1].shape[1] > 1:
            return self.product(*args)
        return function(*args, **(kwargs or {}))


ORDERS = {"split products": in_halves, "random order of products": in_random_order, "chunks of products": in_chunks}


def honest_pair(draw, folder):
    """What describes the pair, and its two files."""
    model, x = network_of(draw, [24, 64, 300, 768, 2048, 8192])
    way = draw.choice(["threads", "rows", "one row", "order of rows", "oneDNN", *ORDERS, "rows, bfloat16"])
    if isinstance(model, Decoder) and draw.random() < 0.4:
        way = draw.choice(OTHER_WAYS)
        a = record(folder / "a.safetensors", model, x)
        b = record_in_another_way(folder / "b.safetensors", model, x, way, draw)
        return {"what": way, "network": "Decoder", "rows": [len(x), len(x)], "threads": 1}, a, b
    if isinstance(model, Decoder) and draw.random() < 0.4:
        way = draw.choice(["steps with a cache", "steps with a cache", "chunks with a cache"])
        if draw.random() < 0.25:
            model = model.bfloat16()
        length = x.shape[1]
        first = draw.randint(1, length - 1)
        ends = list(range(first, length + 1)) if way.startswith("steps") else [first, length]
        a, b = record(folder / "a.safetensors", model, x), record_steps(folder / "b.safetensors", model, x, ends)
        return {"what": way, "network": "Decoder", "rows": [len(x), len(ends)], "threads": 1}, a, b
    if "bfloat16" in way:
        model, x = model.bfloat16(), x.bfloat16() if x.is_floating_point() else x
    rows, threads, inside, has_onednn = list(range(len(x))), 1, None, way != "oneDNN"
    if way == "threads":
        threads = 2
    elif way in ORDERS:
        inside = OtherOrder(ORDERS[way])
    elif way == "one row":
        rows, threads = [draw.choice(rows)], draw.choice([1, 2])
    elif way == "order of rows":
        draw.shuffle(rows)
        if x.is_floating_point():  # rows of floats in another order are not found
            rows = rows[:max(1, len(rows) - 1)]
    elif "rows" in way:
        rows, threads = sorted(draw.sample(rows, draw.randint(1, len(rows) - 1))), draw.choice([1, 2])
    a = record(folder / "a.safetensors", model, x)
    with torch.backends.mkldnn.flags(enabled=has_onednn):
        b = record(folder / "b.safetensors", model, x[rows], threads=threads, inside=inside)
    return {"what": way, "network": type(model).__name__, "rows": [len(x), len(rows)], "threads": threads}, a, b


# ---- faults of the program, which its records show; each returns the module

def of_kind(model, *kinds):
    return [m for m in model.modules() if isinstance(m, kinds)]


def scaled_weight(draw, model):
    linear = draw.choice(of_kind(model, nn.Linear))
    linear.weight[draw.randrange(linear.out_features), draw.randrange(linear.in_features)] *= 1.001
    return linear


def swapped_weight_rows(draw, model):
    linear = draw.choice(of_kind(model, nn.Linear))
    linear.weight[[0, 1]] = linear.weight[[1, 0]]
    return linear


def dropped_bias(draw, model):
    linear = draw.choice(of_kind(model, nn.Linear))
    linear.bias = None
    return linear


def other_epsilon(draw, model):
    norm = draw.choice(of_kind(model, nn.LayerNorm, nn.BatchNorm2d))
    norm.eps = 1e-6
    return norm


def tanh_for_erf(draw, model):
    block = draw.choice(of_kind(model, Block))
    block.form = "tanh"
    return block


def later_mask(draw, model):
    block = draw.choice(of_kind(model, Block))
    block.shift = 2
    return block


# ---- faults inside one op, of which its record says nothing

def rounded(x, bits):
    """To a significand of so many bits, to nearest even."""
    step = 1 << (24 - bits)
    whole = x.contiguous().view(torch.int32)
    return ((whole + (step // 2 - 1) + ((whole // step) & 1)) & ~(step - 1)).view(torch.float32)


def narrow(bits):
    return lambda result, c, a, b: torch.mm(rounded(a, bits), rounded(b, bits)) + c


def bf16_sums(result, c, a, b):
    total = torch.zeros_like(result)
    for k in range(a.shape[1]):
        total = rounded(total + a[:, k:k + 1] * b[k:k + 1], 8)
    return total + c


def other_weight(result, c, a, b):
    b = b.clone()
    b[b.shape[0] // 2, b.shape[1] // 2] *= 1.001
    return torch.addmm(c, a, b)


def swapped_rows(result, *args):
    return result[[1, 0, *range(2, result.shape[0])]]


def element_off(result, *args):
    """By 1e-6 to 1e-2 of itself."""
    broken = result.clone()
    broken[0, 0] *= 1 + 10 ** (4 * torch.rand(()).item() - 6)
    return broken


def leaking_row(result, *args):
    leaked = result.clone()
    leaked[0] += 1e-3 * result[-1]
    return leaked


def without_bias(result, c, a, b):
    return torch.mm(a, b)


def not_a_number(result, *args):
    broken = result.clone()
    broken.view(-1)[-1] = math.nan
    return broken


def stale_row(result, *args):
    broken = result.clone()
    broken[-1] = result[0]
    return broken


def stale_key(result, *args):
    broken = result.clone()
    broken[..., -1] = result[..., -2]
    return broken


def norm_with_other_epsilon(result, x, shape, scale, shift, epsilon):
    return torch.native_layer_norm(x, shape, scale, shift, 1e-6)


def gelu_by_tanh(result, x, approximate="none"):
    return F.gelu(x, approximate="tanh")


INSIDE = {
    aten.addmm.default: {
        "TF32": narrow(11), "bf16": narrow(8), "bf16 accumulator": bf16_sums, "leaking row": leaking_row,
        "weight 1e-3 in the kernel": other_weight, "swapped rows": swapped_rows,
        "dropped bias in the kernel": without_bias, "NaN": not_a_number, "stale row": stale_row},
    aten.bmm.default: {"stale key": stale_key},
    aten.native_layer_norm.default: {"epsilon in the kernel": norm_with_other_epsilon},
    aten.gelu.default: {"tanh for erf in the kernel": gelu_by_tanh},
}
SIZED = {aten.addmm.default: {"one element off": element_off}}
OUTSIDE = {"weight 1e-3": scaled_weight, "swapped weight rows": swapped_weight_rows, "dropped bias": dropped_bias,
           "epsilon": other_epsilon, "tanh for erf": tanh_for_erf, "mask one key later": later_mask}


class Calls(TorchDispatchMode):
    """Keeps the arguments of every call of the ops that faults are planted in; may change the result of one of them."""

    def __init__(self, function=None, number=None, change=None):
        super().__init__()
        self.function, self.number, self.change = function, number, change
        self.of = collections.defaultdict(list)

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        self.of[function].append((args, kwargs or {}))
        if function is self.function and len(self.of[function]) == self.number + 1:
            return self.change(result, *args, **(kwargs or {}))
        return result


#: The ops that a fault in a module shows at.
OPS_OF_FAULT = {"tanh for erf": ("aten::gelu",), "mask one key later": ("aten::add", "aten::_softmax"),
                "epsilon": ("aten::native_layer_norm", "aten::native_batch_norm", "aten::batch_norm")}


def name_of(function):
    """Of an op of PyTorch, as a record has it."""
    return str(function).rsplit(".", 1)[0].replace(".", "::")


class FaultyPair:
    """Two runs, the second one with a fault."""

    def __init__(self, draw, folder, inside=INSIDE, outside=OUTSIDE):
        self.model, x = network_of(draw, [64, 512, 2048, 8192])
        calls = Calls()
        with torch.no_grad(), calls:
            self.model(x)
        self.calls = calls.of
        inside = {kind: (function, change) for function, changes in inside.items() if function in self.calls
                  for kind, change in changes.items()}
        outside = {kind: change for kind, change in outside.items()
                   if kind not in ("tanh for erf", "mask one key later") or of_kind(self.model, Block)}
        self.what = draw.choice([*inside, *outside])
        self.a = record(folder / "a.safetensors", self.model, x)
        self.function = self.number = self.module = None
        if self.what in inside:
            self.function, change = inside[self.what]
            self.number = draw.randrange(len(self.calls[self.function]))
            fault = Calls(self.function, self.number, change)
            self.b = record(folder / "b.safetensors", self.model, x, inside=fault)
            return
        other = copy.deepcopy(self.model)
        with torch.no_grad():
            changed = outside[self.what](draw, other)
        self.module = next(name for name, m in other.named_modules() if m is changed)
        self.b = record(folder / "b.safetensors", other, x)

    def faulty_ops(self, ops):
        """Numbers of the ops that the fault is in."""
        if self.function:
            return [[i for i, op in enumerate(ops) if op.op == name_of(self.function)][self.number]]
        kinds = OPS_OF_FAULT.get(self.what, ("aten::addmm", "aten::mm"))
        return [i for i, op in enumerate(ops) if op.module == self.module and op.op.split(".")[0] in kinds]

    def terms(self, ops):
        """Terms of the sums of the faulty op; None: it has none that are recorded."""
        call = self.call_of(ops)
        if call is None or call[0] not in (aten.addmm.default, aten.bmm.default):
            return None
        return call[1][-1].shape[-2]

    def call_of(self, ops):
        """The faulty op's call in the honest run: function, arguments and keywords. None: it is not kept."""
        at = self.faulty_ops(ops)[0]
        number = sum(op.op == ops[at].op for op in ops[:at])
        function = next((f for f in self.calls if name_of(f) == ops[at].op), None)
        if function is None or len(self.calls[function]) <= number:
            return None
        return function, *self.calls[function][number]

    def effect(self, ops, folder):
        """What the fault changes its op by, over the estimate of the honest error. None: there is no estimate."""
        at = self.faulty_ops(ops)[0]
        difference = ops[at].difference
        if difference is None:
            return None
        if difference.not_finite_first or difference.not_finite_second:
            return math.inf
        if difference.worst < 0:
            return 0.0
        call = self.call_of(ops)
        if call is None:
            return None
        function, args, kwargs = call
        alone = ALONE.get(function, lambda *args: None)(difference.worst, *args)
        if alone is None:
            return None
        path = folder / "alone.safetensors"
        with torch.no_grad(), driftbound.record(path):
            function(*alone, **kwargs)
        outputs = driftbound.report(path, threads=1).end_to_end.outputs
        estimates = [bound.max_bound for bound in outputs[0].bounds if bound.name == "adjoint/statistical"]
        return difference.largest / estimates[0] if estimates and estimates[0] else None


def one_element_of_product(at, c, a, b):
    row, column = divmod(at, b.shape[1])
    return c[column:column + 1], a[row:row + 1], b[:, column:column + 1]


def one_element_of_products(at, a, b):
    at, column = divmod(at, b.shape[2])
    batch, row = divmod(at, a.shape[1])
    return a[batch:batch + 1, row:row + 1], b[batch:batch + 1, :, column:column + 1]


def one_row_of_norm(at, x, shape, *rest):
    row = at // shape[-1]
    return x.reshape(-1, shape[-1])[row:row + 1], shape, *rest


def one_channel_of_norm(at, x, *parameters):
    spread = x.contiguous()
    channel = at // (spread[0, 0].numel()) % spread.shape[1]
    scale, shift, mean, variance, *rest = (p[channel:channel + 1] if torch.is_tensor(p) else p for p in parameters)
    return spread.view(-1)[at].view(1, 1, 1, 1), scale, shift, mean, variance, *rest


#: Arguments with which an op computes the element of a number in row-major order, or its row.
ALONE = {aten.addmm.default: one_element_of_product, aten.bmm.default: one_element_of_products,
         aten.native_layer_norm.default: one_row_of_norm, aten.native_batch_norm.default: one_channel_of_norm,
         aten.gelu.default: lambda at, x: (x.contiguous().view(-1)[at:at + 1],)}


# ---- what is said of them

VERDICTS = ("expected", "undecided", "suspicious", "bug")
#: Classes of effects, by the least effect that does not belong to them.
EFFECTS = {"below 1": 1.0, "1 to 10": 10.0, "10 to 100": 100.0, "100 to 1000": 1000.0, "above": math.inf,
           "not finite": None}


def said_of(drift):
    one = drift.drifts[0]
    apart = [op.difference.largest for op in one.ops if op.difference is not None]
    return {"verdict": drift.verdict, "culprit": one.culprit, "reason": drift.reason, "version": drift.version,
            "apart": str(max(apart, default=0.0))}


def judge_honest(draw, folder, threads):
    described, a, b = honest_pair(draw, folder)
    return {**described, **said_of(driftbound.drift(a, b, threads=threads))}


def judge_faulty(draw, folder, threads, **faults):
    pair = FaultyPair(draw, folder, **faults)
    drift = driftbound.drift(pair.a, pair.b, threads=threads)
    ops = drift.drifts[0].ops
    at = pair.faulty_ops(ops)
    effect = pair.effect(ops, folder)
    said = said_of(drift)
    is_seen = said["verdict"] in ("bug", "suspicious") and said["culprit"] in [ops[i].name for i in at]
    return {"what": pair.what, "network": type(pair.model).__name__, **said, "planted": ops[at[0]].name,
            "terms": pair.terms(ops), "effect": effect if effect is None else str(effect), "seen": is_seen}


def judge_sized(draw, folder, threads):
    return judge_faulty(draw, folder, threads, inside=SIZED, outside={})


JUDGES = {"honest": judge_honest, "faulty": judge_faulty, "sized": judge_sized}


def class_of(line):
    if line["effect"] is None:
        return "no estimate"
    effect = float(line["effect"])
    return next(name for name, end in EFFECTS.items() if end is None or effect < end)


def effect_of(line):
    return "no estimate of its effect" if line["effect"] is None else f"effect {float(line['effect']):.2g}"


def is_alarm(line):
    return line["verdict"] in ("bug", "suspicious")


def complaint(line):
    """What is to be looked at, in one line; empty: nothing."""
    number = f"{line['kind']} {line['number']}"
    if line["kind"] == "honest":
        return "" if line["verdict"] == "expected" else f"{number} ({line['what']}): {line['reason']}"
    if line["seen"] or line["kind"] == "sized":
        return ""
    return f"{number} ({line['what']} in {line['planted']}, {effect_of(line)}): {line['reason']}"


def table(rows, heads):
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    return [*lines, *("| " + " | ".join(str(cell) for cell in row) + " |" for row in rows), ""]


def by_what(lines):
    groups = collections.defaultdict(list)
    for line in sorted(lines, key=lambda line: line["what"]):
        groups[line["what"]].append(line)
    return groups.items()


def counts(lines):
    of = collections.Counter(line["verdict"] for line in lines)
    return [len(lines), *(of[verdict] for verdict in VERDICTS)]


def shares(lines):
    """Faults seen, of all, by effect."""
    classes = collections.defaultdict(list)
    for line in lines:
        classes[class_of(line)].append(line["seen"])
    return [f"{sum(classes[name])} of {len(classes[name])}" if classes[name] else "" for name in (*EFFECTS, "no estimate")]


def table_of_honest(lines):
    same = lambda of: sum(float(line["apart"]) == 0.0 for line in of)
    return table([[way, *counts(of), same(of)] for way, of in by_what(lines)],
                 ["honest runs differ in", "pairs", *VERDICTS, "of these the same bits"])


def table_of_faults(lines):
    groups = [*by_what(lines)]
    if len(groups) > 1:
        groups.append(("all", lines))
    return table([[what, *counts(of), sum(line["seen"] for line in of), *shares(of)] for what, of in groups],
                 ["fault", "pairs", *VERDICTS, "seen", *EFFECTS, "no estimate"])


def tables(lines):
    of = lambda kind: [line for line in lines if line["kind"] == kind]
    return [*table_of_honest(of("honest")), *table_of_faults(of("faulty")), *table_of_faults(of("sized"))]


INTRODUCTION = """
Pairs of runs of PyTorch, and what `driftbound drift` says of them: the output of `scripts/drift_pairs.py --seed {seed}` of
{date} (program {version}, PyTorch {torch}, {machine}). Networks are perceptrons, convolutional networks and decoders with
random weights; {decoders} of the {honest} honest pairs and {faulty_decoders} of the {faulty} pairs with a fault are of
decoders. {alarms} of the honest pairs are called a bug or suspicious.
"""
EXPLANATION = """
A format, a row, a key, NaN and what is *in the kernel* are planted inside one op, whose record says nothing of it; other
faults are in the program, as its records show. Sums have up to {terms} terms. *Seen* is a fault whose pair is a bug or
suspicious, where the op named is the faulty one. The *effect* is what the fault changes the op's result by, where that is
most, over the estimate of the honest error of that element (`adjoint/statistical`, T-75). The last columns say how many
of the pairs with such an effect are seen. Of the {above} faults with an effect above 1, {seen} are seen ({share:.1f} %).
"""
SIZES = """
One element of a product that is off by 10^-6 to 10^-2 of itself shows where faults begin to be seen:
"""


def wrapped(text, **values):
    return [*textwrap.wrap(" ".join(text.format(**values).split()), 120, break_on_hyphens=False), ""]


#: Why a fault may not be seen.
REASONS = {
    "epsilon in the kernel": "The results are nearest to those of the epsilon planted, but those of few honest rows are as "
                             "near by chance more often than once in 10^9 (T-135).",
    "weight 1e-3 in the kernel": "A thousandth of one product is below what a sum of so many terms may err by. The weights "
                                 "that are read are those of the file.",
}


def missed(lines):
    """A list of the faults that are not seen, and why."""
    text, kinds = [], []
    for line in lines:
        if line["seen"]:
            continue
        kinds.append(line["what"])
        terms = "" if line["terms"] is None else f", {line['terms']} terms"
        text.append(f"- {line['what']} in `{line['planted']}` of a {line['network'].lower()}: {effect_of(line)}{terms}; "
                    f"{line['verdict']}.")
    why = [part for kind, reason in REASONS.items() if kind in kinds
           for part in wrapped(f"*{kind[0].upper() + kind[1:]}*: {reason}")]
    return ["Not seen:", "", *text, "", *why] if text else []


def section(lines, seed):
    honest, faulty, sized = ([line for line in lines if line["kind"] == kind] for kind in JUDGES)
    above = [line for line in faulty if class_of(line) not in ("below 1", "no estimate")]
    seen = sum(line["seen"] for line in above)
    of_decoders = lambda some: sum(line["network"] == "Decoder" for line in some)
    return "\n".join([
        pages.PAIRS, "",
        *wrapped(INTRODUCTION, seed=seed, date=datetime.date.today().isoformat(), version=lines[-1]["version"],
                 torch=torch.__version__, machine=platform.machine(), decoders=of_decoders(honest), honest=len(honest),
                 faulty=len(faulty), faulty_decoders=of_decoders(faulty), alarms=sum(map(is_alarm, honest)) or "None"),
        *table_of_honest(honest),
        *wrapped(EXPLANATION, above=len(above), seen=seen, share=100.0 * seen / max(len(above), 1),
                 terms=max(line["terms"] or 0 for line in faulty)),
        *table_of_faults(faulty), *missed(faulty), *wrapped(SIZES), *table_of_faults(sized)])


def read_lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path and path.exists() else []


def judge(asked, kind, number):
    draw = random.Random(f"{asked.seed} {number} {kind}")
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="drift-") as made:
        folder = asked.keep / f"{kind}-{number}" if asked.keep else pathlib.Path(made)
        folder.mkdir(parents=True, exist_ok=True)
        said = JUDGES[kind](draw, folder, asked.threads)
    return {"seed": asked.seed, "number": number, "kind": kind, **said, "s": round(time.monotonic() - began, 1)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--keep", type=pathlib.Path)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--honest-only", action="store_true")
    parser.add_argument("--resume", type=pathlib.Path)
    parser.add_argument("--page", type=pathlib.Path)
    asked = parser.parse_args()
    start = time.monotonic()
    kinds = ("honest",) if asked.honest_only else tuple(JUDGES)
    wanted = [(number, kind) for number in range(asked.first, asked.first + asked.pairs) for kind in kinds
              if kind != "sized" or number % 2 == 0]
    done = {(line["number"], line["kind"]): line for line in read_lines(asked.resume) if line["seed"] == asked.seed}
    for number, kind in wanted:
        if (number, kind) in done:
            continue
        line = done[number, kind] = judge(asked, kind, number)
        if asked.resume:
            with asked.resume.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
        print(f"{kind} {number}: {line['what']}, {line['network']}: {line['verdict']}, {line['s']} s", file=sys.stderr,
              flush=True)
    lines = [done[one] for one in wanted]
    print("\n".join(text for text in map(complaint, lines) if text))
    print(f"\nSeed {asked.seed}, {len(lines)} pairs, {time.monotonic() - start:.0f} s.\n")
    print("\n".join(tables(lines)))
    if asked.page:
        above, _ = pages.split(asked.page, pages.PAIRS)
        asked.page.write_text(pages.join(above, section(lines, asked.seed)), encoding="utf-8")
    return 1 if any(line["kind"] == "honest" and line["verdict"] == "bug" for line in lines) else 0


if __name__ == "__main__":
    sys.exit(main())
