#!/usr/bin/env python3
"""Honest kernels and planted faults against `driftbound tolerance`.

  python3 scripts/tolerance_campaign.py [--results N] [--seconds S] [--seed S]

Needs numpy and the program (the variable DRIFTBOUND, or build/*/driftbound); PyTorch, where it is installed, gives
kernels too. Draws operands, asks for the tolerances of their elements, and holds against them the results of honest
kernels: float32 sums in turn, as trees, in blocks, in random orders, of numpy and PyTorch, with results rounded to
bfloat16 and float16. None may exceed what is proven, nor, with a probability of 1e-9, what is said at chance. Then plants
the faults of docs/power.md and counts those with a result beyond either. Stops after N results of honest kernels or S
seconds. Prints the figures of docs/tolerances.md as JSON.
"""
import argparse
import json
import time

import numpy as np

import tolerance_questions as kernels
from tolerance_questions import bf16, driftbound, f32, half, paired, same, summed, tf32

try:
    import torch
    torch.backends.mkldnn.enabled = False
except ImportError:
    torch = None

LENGTHS = (8, 64, 512)
ROWS, COLUMNS = 64, 32


def operands(draw, k, kind):
    a, b = draw.standard_normal((ROWS, k)), draw.standard_normal((k, COLUMNS))
    if kind == "uniform":
        a, b = draw.uniform(-1, 1, a.shape), draw.uniform(-1, 1, b.shape)
    if kind == "positive":
        a, b = np.abs(a), np.abs(b)
    if kind == "cancelling":
        a[:, 1::2], b[1::2] = a[:, 0::2], -b[0::2] * (1 + 1e-3 * draw.standard_normal(b[1::2].shape))
    if kind == "spread":
        a, b = a * np.exp2(draw.integers(-12, 12, a.shape)), b * np.exp2(draw.integers(-12, 12, b.shape))
    return a.astype(f32), b.astype(f32)


def in_blocks(a, b, size):
    parts = [summed(a[:, i:i + size], b[i:i + size]) for i in range(0, a.shape[1], size)]
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def shuffled(a, b, draw, add):
    order = draw.permutation(a.shape[1])
    return add(a[:, order], b[order])


def products(draw):
    """Sums of products by honest kernels, by name."""
    found = {
        "in turn": summed, "a tree": paired, "numpy": lambda a, b: a @ b,
        "numpy, einsum": lambda a, b: np.einsum("ik,kj->ij", a, b),
        "blocks of 8": lambda a, b: in_blocks(a, b, 8), "blocks of 32": lambda a, b: in_blocks(a, b, 32),
        "random order": lambda a, b: shuffled(a, b, draw, summed),
        "a tree in random order": lambda a, b: shuffled(a, b, draw, paired),
        "blocks in random order": lambda a, b: shuffled(a, b, draw, lambda p, q: in_blocks(p, q, 16)),
    }
    if torch is not None:
        found["torch"] = lambda a, b: (torch.from_numpy(a) @ torch.from_numpy(b)).numpy()
        found["torch, float64 sums"] = lambda a, b: torch.mm(torch.from_numpy(a).double(),
                                                             torch.from_numpy(b).double()).float().numpy()
    return found


def mean_of(x, draw):
    return summed(x[:, draw.permutation(x.shape[1])], np.ones((x.shape[1], 1), f32)) / f32(x.shape[1])


def softmax(x, draw):
    weights = np.exp(x - x.max(-1, keepdims=True))
    return weights / summed(weights[:, draw.permutation(x.shape[1])], np.ones((x.shape[1], 1), f32))


def layernorm(x, scale, draw, epsilon=1e-5, less=0):
    centred = x - mean_of(x, draw)
    variance = mean_of(centred * centred, draw) * f32(x.shape[1] / (x.shape[1] - less))
    return centred / np.sqrt(variance + f32(epsilon)) * scale


def rmsnorm(x, scale, draw, epsilon=1e-6):
    return x / np.sqrt(mean_of(x * x, draw) + f32(epsilon)) * scale


def silu_and_mul(x):
    gate, up = np.split(x, 2, -1)
    return gate / (1 + np.exp(-gate)) * up


class Count:
    def __init__(self):
        self.results = self.beyond_proven = self.beyond_chance = 0
        self.share_of_proven = self.share_of_chance = 0.0
        self.by_op, self.faults = {}, {}

    def honest(self, op, got, tolerance):
        error = np.abs(np.asarray(got, np.float64) - tolerance.exact)
        self.results += error.size
        self.by_op[op] = self.by_op.get(op, 0) + error.size
        self.beyond_proven += np.count_nonzero(~(error <= tolerance.proven))
        self.beyond_chance += np.count_nonzero(~(error <= tolerance.by_chance))
        with np.errstate(divide="ignore", invalid="ignore"):
            for name, limit in (("share_of_proven", tolerance.proven), ("share_of_chance", tolerance.by_chance)):
                share = np.where(limit > 0, error / limit, 0.0)
                setattr(self, name, max(getattr(self, name), float(share.max())))

    def fault(self, name, got, tolerance):
        error = np.abs(np.asarray(got, np.float64) - tolerance.exact)
        seen = self.faults.setdefault(name, [0, 0, 0])
        seen[0] += 1
        seen[1] += bool((error > tolerance.by_chance).any())
        seen[2] += bool((error > tolerance.proven).any())


def product_faults(a, b, k):
    weight = b.copy()
    weight[k // 2] *= f32(1 + 1e-3)
    swapped = (a @ b)[[1, 0, *range(2, ROWS)]]
    yield "operands read as TF32", tf32(a) @ tf32(b)
    yield "left operand read as TF32", tf32(a) @ b
    yield "operands read as bf16", bf16(a) @ bf16(b)
    yield "operands read as fp16", half(a) @ half(b)
    yield "sums kept in bf16", summed(a, b, bf16)
    yield "result rounded to bf16", bf16(a @ b)
    yield "result rounded to TF32", tf32(a @ b)
    yield "last product left out", kernels.without_last(a, b)
    yield "two rows swapped", swapped
    yield "a row of weights off by 1e-3", a @ weight


def hold_products(count, draw, k, kind):
    a, b = operands(draw, k, kind)
    for name, rounded in (("fp32", same), ("bf16", bf16), ("fp16", half)):
        if kind == "spread" and name == "fp16":
            continue
        p, q = rounded(a), rounded(b)
        tolerance = driftbound.tolerance("gemm", p, q, in_=name, out=name, threads=0)
        for kernel in products(draw).values():
            count.honest(f"gemm, {name}", rounded(kernel(p, q)), tolerance)
        if name == "fp32" and kind == "normal":
            for fault, got in product_faults(p, q, k):
                count.fault(f"{fault}, k = {k}", got, tolerance)


def hold_rows(count, draw, k):
    x, scale = draw.standard_normal((ROWS, k)).astype(f32), np.ones(k, f32)
    ops = {"softmax": (softmax, [x]), "layernorm": (layernorm, [x, scale]), "rmsnorm": (rmsnorm, [x, scale])}
    for op, (kernel, data) in ops.items():
        tolerance = driftbound.tolerance(op, *data, threads=0)
        for _ in range(2):
            count.honest(op, kernel(*data, draw), tolerance)
        if op == "softmax":
            count.fault(f"softmax, result rounded to bf16, k = {k}", bf16(softmax(x, draw)), tolerance)
            count.fault(f"softmax, last term left out, k = {k}",
                        np.pad(softmax(x[:, :-1], draw), ((0, 0), (0, 1))), tolerance)
        if op == "layernorm":
            count.fault(f"layernorm, epsilon 1e-6 for 1e-5, k = {k}", layernorm(x, scale, draw, 1e-6), tolerance)
            count.fault(f"layernorm, variance divided by k - 1, k = {k}", layernorm(x, scale, draw, less=1), tolerance)
            count.fault(f"layernorm, result rounded to bf16, k = {k}", bf16(layernorm(x, scale, draw)), tolerance)
    tolerance = driftbound.tolerance("silu-and-mul", x, threads=0)
    count.honest("silu-and-mul", silu_and_mul(x), tolerance)
    count.fault(f"silu-and-mul, halves swapped, k = {k}", silu_and_mul(np.roll(x, k // 2, -1)), tolerance)
    tolerance = driftbound.tolerance("all-reduce", x, threads=0)
    ones = np.ones((k, 1), f32)
    for kernel in products(draw).values():
        count.honest("all-reduce", kernel(x, ones)[:, 0], tolerance)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=int, default=2_000_000)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    draw, count, start = np.random.default_rng(asked.seed), Count(), time.monotonic()
    kinds = ("normal", "uniform", "positive", "cancelling", "spread")
    batch = 0
    while count.results < asked.results and time.monotonic() - start < asked.seconds:
        k = LENGTHS[batch % len(LENGTHS)]
        hold_products(count, draw, k, kinds[batch // len(LENGTHS) % len(kinds)])
        hold_rows(count, draw, k)
        batch += 1
    print(json.dumps({
        "results": count.results, "beyond proven": count.beyond_proven, "beyond at chance": count.beyond_chance,
        "largest share of proven": round(count.share_of_proven, 3),
        "largest share of at chance": round(count.share_of_chance, 3), "by op": count.by_op,
        "faults, of which beyond at chance, beyond proven": {k: v for k, v in sorted(count.faults.items())},
        "s": round(time.monotonic() - start)}, indent=1))
    return 1 if count.beyond_proven or count.beyond_chance else 0


if __name__ == "__main__":
    raise SystemExit(main())
