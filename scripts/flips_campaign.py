#!/usr/bin/env python3
"""Choices that drift calls "cannot flip": whether one ever flips, and how many of those that are far ahead are proven.

  /usr/bin/python3 scripts/flips_campaign.py [--rows 1000000] [--recording 20000] [--seed 1] [--threads 1]
                                             [--resume build/flips_campaign.jsonl]

Needs the program (the variable DRIFTBOUND, or build/*/driftbound). Networks have one or two layers, random weights and
16 or 64 classes. In half of them these are pairs: the second one of a pair has the weights of the first one and a
difference of 10^-7 to 1 of them, so that the largest number is ahead by gaps of all sizes. Two runs of each are made
here, in numpy, whose products are added up in other orders: in float32, with operands rounded to TF32, or of bfloat16
numbers with results stored in bfloat16. Eight runs are made in all, in four orders and the arithmetics of both. The rows
in which one of the eight chooses otherwise than the first run are one trace: none of them may be called "cannot flip".
The rows in which the winner of both runs is ahead by more than ten times the largest difference of the two are another
one: at least 90 % of them are to be called so. The remaining rows are a third one.
With --resume it goes on where it stopped: the file has a line for every network; remove it after a change of the program.
Prints a table (Markdown). Exit status 1 where a row that cannot flip does.
"""
import argparse
import collections
import hashlib
import itertools
import json
import pathlib
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "python"))

import numpy as np

import driftbound
from driftbound import safetensors

SHAPES = ((16, 1, 64), (64, 1, 16), (256, 1, 16), (16, 2, 16), (32, 2, 16))  # terms of a sum, layers, classes
GAPS = ("random", "of all sizes")

PARTS = ("other", "ahead", "remaining")  # rows that choose otherwise, rows far ahead, all others
#: Of the first run and the second one.
PAIRS = (("fp32", "fp32"), ("fp32", "tf32"), ("fp32", "bf16"), ("tf32", "tf32"), ("bf16", "bf16"))
ARITHMETICS = {
    "fp32": {"input": "fp32", "accumulator": "fp32", "output": "fp32"},
    "tf32": {"input": "tf32", "accumulator": "fp32", "output": "fp32"},
    "bf16": {"input": "bf16", "accumulator": "fp32", "output": "bf16"},
}


# ---- formats and orders

def rounded(x, bits):
    """Float32 numbers to a significand of so many bits, to nearest even."""
    step = np.uint32(1 << (24 - bits))
    whole = np.ascontiguousarray(x).view(np.uint32)
    return ((whole + (step // 2 - 1) + ((whole // step) & np.uint32(1))) & ~(step - np.uint32(1))).view(np.float32)


def as_read(x, arithmetic):
    return rounded(x, 11) if arithmetic == "tf32" else x


def as_stored(x, arithmetic):
    return rounded(x, 8) if arithmetic == "bf16" else x


def library(x, w, draw):
    return x @ w


def one_by_one(x, w, draw):
    total = np.zeros((len(x), w.shape[1]), np.float32)
    for k in draw.permutation(len(w)):
        total += x[:, k:k + 1] * w[k]
    return total


def chunks(x, w, draw):
    total = np.zeros((len(x), w.shape[1]), np.float32)
    for part in np.array_split(draw.permutation(len(w)), max(1, len(w) // 8)):
        total += x[:, part] @ w[part]
    return total


def halves(x, w, draw):
    if len(w) <= 4:
        return one_by_one(x, w, draw)
    order = draw.permutation(len(w))
    first, second = order[:len(w) // 2], order[len(w) // 2:]
    return halves(x[:, first], w[first], draw) + halves(x[:, second], w[second], draw)


ORDERS = (library, one_by_one, chunks, halves)


def run(x, layers, arithmetic, order, draw):
    """The results of every product and Relu."""
    results = []
    for number, w in enumerate(layers):
        if number:
            x = np.maximum(x, np.float32(0))
            results.append(x)
        x = as_stored(order(as_read(x, arithmetic), as_read(w, arithmetic), draw), arithmetic)
        results.append(x)
    return results


def gap_of(y):
    top = np.partition(y.astype(np.float64), -2, axis=1)[:, -2:]
    return top[:, 1] - top[:, 0]


# ---- networks and traces

def network_of(draw, arithmetic, shape, gaps):
    terms, depth, classes = shape
    layers = [draw.standard_normal((terms, terms)) * (2.0 / terms) ** 0.5 for _ in range(depth - 1)]
    last = draw.standard_normal((terms, classes)) / terms ** 0.5
    if gaps == "of all sizes":
        apart = 10.0 ** draw.uniform(-7, 0, classes // 2)
        last[:, 1::2] = last[:, ::2] + apart * draw.standard_normal((terms, classes // 2)) / terms ** 0.5
    return [as_stored(layer.astype(np.float32), arithmetic) for layer in (*layers, last)]


def write_model(path, layers):
    arrays = {}
    for number, w in enumerate(layers):
        if number:
            arrays[f"{2 * number - 1:04}.relu._"] = np.zeros(1, np.float32)
        arrays[f"{2 * number:04}.dense.A"] = w
    np.savez(path, **arrays)


def write_trace(path, model, x, results, arithmetic):
    declared = {"name": f"{arithmetic} in any order", **ARITHMETICS[arithmetic], "source": "scripts/flips_campaign.py"}
    named = {"input/x": x}
    for number, y in enumerate(results):
        named[f"layer/{number}/{number:04}.{'relu' if number % 2 else 'dense'}/output"] = y
    tensors = {name: safetensors.Tensor("F32", y.shape, np.ascontiguousarray(y)) for name, y in named.items()}
    safetensors.write(path, tensors, {
        "driftbound.trace": "1", "model_sha256": hashlib.sha256(model.read_bytes()).hexdigest(),
        "arithmetic": json.dumps(declared), "provenance": json.dumps({"program": "numpy"})})


def said_of(rows, folder, model, x, runs, pair, threads):
    """What drift says of these rows: how many there are by what may flip, and its verdict."""
    if not len(rows):
        return {}, "expected"
    paths = [folder / "a.safetensors", folder / "b.safetensors"]
    for path, results, arithmetic in zip(paths, runs, pair):
        write_trace(path, model, x[rows], [y[rows] for y in results], arithmetic)
    drift = driftbound.drift(model, *paths, threads=threads, flips=True)
    choices = drift.drifts[0].decisions[0]
    counts = {"rows": choices.rows, "cannot": choices.cannot_flip, "not by chance": choices.will_not_flip_by_chance,
              "may": choices.may_flip}
    return counts, drift.verdict


def judge(asked, number, rows):
    """A line about one network and two runs of it."""
    draw = np.random.default_rng([asked.seed, number])
    kinds = [*itertools.product(SHAPES, GAPS, PAIRS)]
    shape, gaps, pair = kinds[number % len(kinds)]
    layers = network_of(draw, pair[1], shape, gaps)
    x = as_stored(draw.standard_normal((rows, shape[0])).astype(np.float32), pair[1])
    chosen = draw.permutation(len(ORDERS))[:2]
    runs = [run(x, layers, arithmetic, ORDERS[one], draw) for arithmetic, one in zip(pair, chosen)]
    a, b = runs[0][-1], runs[1][-1]
    best = a.argmax(axis=1)
    others = [run(x, layers, arithmetic, order, draw)[-1] for arithmetic in dict.fromkeys(pair) for order in ORDERS]
    other = np.any([y.argmax(axis=1) != best for y in (b, *others)], axis=0)
    apart = float(np.abs(a.astype(np.float64) - b).max())
    ahead = np.minimum(gap_of(a), gap_of(b)) > 10 * apart
    masks = (other, ahead & ~other, ~ahead & ~other)
    line = {"seed": asked.seed, "number": number, "arithmetics": ", ".join(pair), "gaps": gaps,
            **dict(zip(("terms", "layers", "classes"), shape)), "orders": [ORDERS[one].__name__ for one in chosen],
            "rows": rows, "apart": apart, "far ahead": int(ahead.sum())}
    with tempfile.TemporaryDirectory(prefix="flips-") as made:
        folder = pathlib.Path(made)
        model = folder / "model.npz"
        write_model(model, layers)
        for part, mask in zip(PARTS, masks):
            said, verdict = said_of(np.flatnonzero(mask), folder, model, x, runs, pair, asked.threads)
            line[part] = {"verdict": verdict, **said}
    return line


# ---- what comes of it

def table(lines):
    groups = collections.defaultdict(list)
    for line in lines:
        groups[line["arithmetics"], line["gaps"]].append(line)
    heads = ["arithmetics", "gaps", "rows", "choose otherwise", "of these cannot flip", "cannot flip",
             "10 x the difference ahead", "of these cannot flip"]
    print("| " + " | ".join(heads) + " |")
    print("|" + "---|" * len(heads))
    for key, of in [*sorted(groups.items()), (("all", ""), lines)]:
        count = lambda part, what: sum(line[part].get(what, 0) for line in of)
        ahead, proven = sum(line["far ahead"] for line in of), count("ahead", "cannot")
        cells = [*key, sum(line["rows"] for line in of), count("other", "rows"), count("other", "cannot"),
                 sum(count(part, "cannot") for part in PARTS), ahead, f"{100.0 * proven / ahead:.2f} %" if ahead else ""]
        print("| " + " | ".join(str(cell) for cell in cells) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1000000)
    parser.add_argument("--recording", type=int, default=20000, help="rows of a network")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--resume", type=pathlib.Path)
    asked = parser.parse_args()
    done = {}
    if asked.resume and asked.resume.exists():
        for line in map(json.loads, asked.resume.read_text(encoding="utf-8").splitlines()):
            done[line["seed"], line["number"], line["rows"]] = line
    lines = []
    for number in range(-(-asked.rows // asked.recording)):
        rows = min(asked.recording, asked.rows - number * asked.recording)
        line = done.get((asked.seed, number, rows))
        if line is None:
            began = time.monotonic()
            line = judge(asked, number, rows)
            if asked.resume:
                with asked.resume.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(line) + "\n")
            print(f"network {number}: {time.monotonic() - began:.0f} s, {line}", file=sys.stderr, flush=True)
        lines.append(line)
    table(lines)
    bad = [line for line in lines if line["other"].get("cannot", 0)]
    for line in bad:
        print(f"A row that cannot flip does: {line}")
    for line in lines:
        for part in PARTS:
            if line[part]["verdict"] not in ("expected", "undecided"):
                print(f"Honest runs, {part} rows, are {line[part]['verdict']}: {line}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
