#!/usr/bin/env python3
"""Pairs of runs of PyTorch, honest ones and ones with a planted fault, and what `driftbound drift` says of them.

  /usr/bin/python3 scripts/drift_pairs.py [--pairs 200] [--seed 1] [--first 0] [--keep FOLDER] [--threads 1] [--honest-only]

Needs PyTorch, and the program (the variable DRIFTBOUND, or build/*/driftbound). Of each kind as many pairs: networks are
perceptrons, small convolutional networks and decoders, of random widths. The runs of an honest pair differ in threads,
batches, order of rows, kernels (oneDNN or not), or split their products. A fault is planted in the second run: in the
weights, the function or the input, as a program with a bug has it, or inside one op, whose record says nothing of it.
Prints every pair that is not called what it is, and tables in Markdown. Exit status 1 where an honest pair is a bug.
"""
import argparse
import collections
import copy
import math
import pathlib
import random
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "python"))

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

import driftbound

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

    def forward(self, x):
        rows, tokens, width = x.shape
        q, k, v = (part.view(rows, tokens, self.heads, -1).transpose(1, 2)
                   for part in self.qkv(self.norm1(x)).chunk(3, -1))
        mask = torch.full((tokens, tokens), -math.inf).triu(self.shift)
        a = torch.softmax(q @ k.transpose(-1, -2) * (width // self.heads) ** -0.5 + mask, -1) @ v
        x = x + self.proj(a.transpose(1, 2).reshape(rows, tokens, width))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate=self.form))


class Decoder(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        width = max(16, min(width // 16 * 16, 512))
        self.table = nn.Embedding(40, width)
        self.blocks = nn.ModuleList(Block(width, 4) for _ in range(2))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 40)

    def forward(self, tokens):
        x = self.table(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def network_of(draw, widths):
    kind = draw.choice([Perceptron, Convolutional, Decoder, Decoder])
    width, hidden = draw.choice(widths), draw.choice([32, 64, 128, 256])
    torch.manual_seed(draw.getrandbits(30))
    model = kind(width, hidden).eval()
    rows = draw.choice([2, 4, 9, 16])
    if kind is Decoder:
        return model, torch.randint(0, 40, (rows, draw.choice([5, 12, 24])))
    if kind is Convolutional:
        return model, torch.randn(rows, 3, 10, 10)
    return model, torch.randn(rows, width)


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


class SplitProducts(TorchDispatchMode):
    """Adds up products of two halves, as split-K kernels do."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if function is aten.addmm.default and not kwargs:
            c, a, b = args
            half = a.shape[1] // 2
            if half:
                return torch.mm(a[:, :half], b[:half]) + torch.mm(a[:, half:], b[half:]) + c
        return function(*args, **(kwargs or {}))


def honest_pair(draw, folder):
    model, x = network_of(draw, [24, 64, 300, 768, 2048])
    way = draw.choice(["threads", "rows", "one row", "order of rows", "oneDNN", "split products"])
    a = record(folder / "a.safetensors", model, x)
    if way == "threads":
        return way, a, record(folder / "b.safetensors", model, x, threads=2)
    if way == "oneDNN":
        with torch.backends.mkldnn.flags(enabled=False):
            return way, a, record(folder / "b.safetensors", model, x)
    if way == "split products":
        return way, a, record(folder / "b.safetensors", model, x, inside=SplitProducts())
    rows = list(range(len(x)))
    if way == "one row":
        rows = [draw.choice(rows)]
    elif way == "rows":
        rows = sorted(draw.sample(rows, max(1, len(rows) // 2)))
    else:
        draw.shuffle(rows)
        if x.is_floating_point():  # rows of floats in another order are not found
            rows = rows[:max(1, len(rows) - 1)]
    return way, a, record(folder / "b.safetensors", model, x[rows], threads=draw.choice([1, 2]))


# ---- faults of the program, which its records show

def scaled_weight(draw, model):
    linear = draw.choice([m for m in model.modules() if isinstance(m, nn.Linear)])
    linear.weight[draw.randrange(linear.out_features), draw.randrange(linear.in_features)] *= 1.001
    return linear


def swapped_weight_rows(draw, model):
    linear = draw.choice([m for m in model.modules() if isinstance(m, nn.Linear)])
    linear.weight[[0, 1]] = linear.weight[[1, 0]]
    return linear


def dropped_bias(draw, model):
    linear = draw.choice([m for m in model.modules() if isinstance(m, nn.Linear)])
    linear.bias = None
    return linear


def other_epsilon(draw, model):
    norms = [m for m in model.modules() if isinstance(m, (nn.LayerNorm, nn.BatchNorm2d))]
    norm = draw.choice(norms)
    norm.eps = 1e-6
    return norm


def tanh_for_erf(draw, model):
    blocks = [m for m in model.modules() if isinstance(m, Block)]
    if not blocks:
        return None
    block = draw.choice(blocks)
    block.form = "tanh"
    return block


def later_mask(draw, model):
    blocks = [m for m in model.modules() if isinstance(m, Block)]
    if not blocks:
        return None
    block = draw.choice(blocks)
    block.shift = 2
    return block


# ---- faults inside one op, of which its record says nothing

def rounded(x, bits):
    """To a significand of so many bits, to nearest even."""
    step = 1 << (24 - bits)
    whole = x.contiguous().view(torch.int32)
    return ((whole + (step // 2 - 1) + ((whole // step) & 1)) & ~(step - 1)).view(torch.float32)


def narrow(bits):
    def product(result, args):
        c, a, b = args
        return torch.mm(rounded(a, bits), rounded(b, bits)) + c
    return product


def bf16_sums(result, args):
    c, a, b = args
    total = torch.zeros_like(result)
    for k in range(a.shape[1]):
        total = rounded(total + a[:, k:k + 1] * b[k:k + 1], 8)
    return total + c


def leaking_row(result, args):
    leaked = result.clone()
    leaked[0] += 1e-3 * result[-1]
    return leaked


def without_bias(result, args):
    return result - args[0]


def not_a_number(result, args):
    broken = result.clone()
    broken.view(-1)[-1] = math.nan
    return broken


def stale_row(result, args):
    broken = result.clone()
    broken[-1] = result[0]
    return broken


INSIDE = {"TF32": narrow(11), "bf16": narrow(8), "bf16 accumulator": bf16_sums, "leaking row": leaking_row,
          "dropped bias in the kernel": without_bias, "NaN": not_a_number, "stale row": stale_row}
OUTSIDE = {"weight 1e-3": scaled_weight, "swapped weight rows": swapped_weight_rows, "dropped bias": dropped_bias,
           "epsilon": other_epsilon, "tanh for erf": tanh_for_erf, "mask one key later": later_mask}


class Fault(TorchDispatchMode):
    """Changes the result of one call of addmm, before a recorder sees it."""

    def __init__(self, change, number):
        super().__init__()
        self.change, self.number, self.calls, self.module = change, number, 0, None

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        if function is aten.addmm.default:
            self.calls += 1
            if self.calls == self.number + 1:
                return self.change(result, args)
        return result


def faulty_pair(draw, folder):
    kind = draw.choice([*INSIDE, *OUTSIDE])
    widths = [64, 512, 2048, 8192] if kind != "bf16 accumulator" else [64, 512]
    model, x = network_of(draw, widths)
    a = record(folder / "a.safetensors", model, x)
    if kind in INSIDE:
        products = sum(1 for m in model.modules() if isinstance(m, nn.Linear))
        number = draw.randrange(products)
        b = record(folder / "b.safetensors", model, x, inside=Fault(INSIDE[kind], number))
        names = [name for name, m in model.named_modules() if isinstance(m, nn.Linear)]
        return kind, a, b, names[number]
    other = copy.deepcopy(model)
    with torch.no_grad():
        changed = OUTSIDE[kind](draw, other)
    if changed is None:
        return None
    name = next(name for name, m in other.named_modules() if m is changed)
    return kind, a, record(folder / "b.safetensors", other, x), name


# ---- what is said of them

def order_of_calls(drift, module):
    return any(op.module == module or (op.module or "").startswith(module + ".") for op in drift.drifts[0].ops)


def table(rows, heads):
    print("| " + " | ".join(heads) + " |")
    print("|" + "---|" * len(heads))
    for row in rows:
        print("| " + " | ".join(str(cell) for cell in row) + " |")
    print()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--keep", type=pathlib.Path)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--honest-only", action="store_true")
    asked = parser.parse_args()
    start = time.time()
    tallies = {kind: collections.defaultdict(collections.Counter) for kind in ("honest", "faulty")}
    wrong = 0
    for number in range(asked.first, asked.first + asked.pairs):
        for kind in ("honest",) if asked.honest_only else ("honest", "faulty"):
            draw = random.Random(f"{asked.seed} {number} {kind}")
            with tempfile.TemporaryDirectory(prefix="drift-") as made:
                folder = asked.keep / f"{kind}-{number}" if asked.keep else pathlib.Path(made)
                folder.mkdir(parents=True, exist_ok=True)
                if kind == "honest":
                    what, a, b = honest_pair(draw, folder)
                    module = None
                else:
                    pair = faulty_pair(draw, folder)
                    if pair is None:
                        continue
                    what, a, b, module = pair
                drift = driftbound.drift(a, b, threads=asked.threads)
            tally = tallies[kind][what]
            tally[drift.verdict] += 1
            culprit = drift.drifts[0].culprit or ""
            if kind == "faulty":
                named = culprit.startswith((module + "/", module + ".")) and drift.verdict in ("bug", "suspicious")
                tally["at the op"] += named
                if not named:
                    print(f"faulty {number} ({what} in {module}): {drift.reason}", flush=True)
            elif drift.verdict != "expected":
                wrong += drift.verdict == "bug"
                print(f"honest {number} ({what}): {drift.reason}", flush=True)
    verdicts = ["expected", "undecided", "suspicious", "bug"]
    print(f"\nSeed {asked.seed}, {asked.pairs} pairs of each kind, {time.time() - start:.0f} s.\n")
    table([[way, sum(t[v] for v in verdicts), *(t[v] for v in verdicts)] for way, t in sorted(tallies["honest"].items())],
          ["honest pairs differ in", "pairs", *verdicts])
    table([[way, sum(t[v] for v in verdicts), *(t[v] for v in verdicts), t["at the op"]]
           for way, t in sorted(tallies["faulty"].items())], ["fault", "pairs", *verdicts, "at the op"])
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
