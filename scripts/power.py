#!/usr/bin/env python3
"""What driftbound sees: faults planted in single ops of PyTorch at several widths, and what the report says of them.

  /usr/bin/python3 scripts/power.py [--draws 21] [--draws-above-10000 6] [--widths 64,512,3072,8192,32768] [--seed 1]
                                    [--threads 1] [--only TEXT] [--page docs/power.md] [--keep FOLDER]
                                    [--resume build/power.jsonl]

Needs PyTorch, and the program (the variable DRIFTBOUND, or build/*/driftbound). Prints the tables (Markdown) and a line for
every draw that was not seen, was given another name, or was honest and does not hold; --page writes the page, but for the
section of scripts/drift_pairs.py. With --resume it goes on where it stopped: the file has a line for every recording that
was judged; remove it after a change of the program.
Every fault is planted in its own record of a recording that has the honest result of the same operands beside it, so that
a fault seen at the wrong op would show as an honest record that fails. Exit status 1 where an honest record does not hold.
"""
import argparse
import collections
import datetime
import json
import math
import pathlib
import platform
import subprocess
import sys
import tempfile
import textwrap
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "python"))

import numpy as np
import torch
from torch.nn import functional as F

import driftbound
from driftbound.environment import declare
from driftbound.program import find_program

import pages

ROWS = 16  # of products; and columns
FEW_ROWS = 8  # of softmax and Gelu
NORM_ROWS = 64
HEAD = 64  # size of a head of attention
QUERIES = 48
ATTENTION_DRAWS = 6  # at most; 1 at widths above 10,000

# ---- formats: fraction bits, least exponent of normal numbers, largest number

FORMATS = {
    "tf32": (10, -126, None),
    "bf16": (7, -126, None),
    "fp16": (10, -14, 65504.0),
    "fp8_e4m3": (3, -6, 448.0),
    "fp8_e5m2": (2, -14, 57344.0),
}


def rounded(x, form, how="even"):
    """A float32 tensor rounded to a format: to nearest with ties to even or away from 0, or cut."""
    fraction, least, largest = FORMATS[form]
    numbers = x.double().numpy()
    exponent = np.maximum(np.frexp(numbers)[1] - 1, least)
    scaled = np.ldexp(numbers, fraction - exponent)
    if how == "even":
        scaled = np.rint(scaled)
    elif how == "away":
        scaled = np.copysign(np.floor(np.abs(scaled) + 0.5), scaled)
    else:
        scaled = np.trunc(scaled)
    result = np.ldexp(scaled, exponent - fraction)
    return torch.from_numpy(np.clip(result, -largest, largest) if largest else result).float()


# ---- data: draw i takes kind i modulo 3

KINDS = ("normal activations, weights of 0.02", "uniform", "activations behind a Relu, weights of 0.02")


def operand(draw, shape, kind, weights=False):
    if kind == 1:
        return torch.rand(shape, generator=draw) * (0.1 if weights else 1.0)
    x = torch.randn(shape, generator=draw)
    if weights:
        return 0.02 * x
    return torch.relu(x) if kind == 2 else x


# ---- ops: what a record holds, the honest result, and faults

class Fault:
    """A name, the function that gives the faulty result, and the reading that was planted.

    A reading is that of both operands of a product, or the name of another op that was computed.
    """

    def __init__(self, name, result, reading=None):
        self.name, self.result, self.reading = name, result, reading


class Op:
    """One call of an op with operands that are drawn."""

    op = ""
    attributes: dict = {}

    def __init__(self, draw, width, kind):
        self.draw, self.width, self.kind = draw, width, kind

    def operands(self):
        raise NotImplementedError

    def honest(self):
        raise NotImplementedError

    def faults(self):
        raise NotImplementedError


def read(form, how="even"):
    name = {"even": form, "away": f"{form} (ties away)", "cut": f"{form} (cut)"}[how]
    return name, lambda x: rounded(x, form, how)


def summed_in_blocks(a, b, form, block):
    """Products added in float32 within a block; the sum so far is rounded to a format after every block."""
    total = torch.zeros(a.shape[0], b.shape[1])
    for first in range(0, a.shape[1], block):
        total = rounded(total + a[:, first:first + block] @ b[first:first + block], form)
    return total


class Product(Op):
    """x W + bias, x [16, K], W [K, 16]."""

    title = "Products of K terms"
    op = "Gemm"

    def __init__(self, draw, width, kind):
        super().__init__(draw, width, kind)
        self.a = operand(draw, (ROWS, width), kind)
        self.b = operand(draw, (width, ROWS), kind, weights=True)
        self.bias = operand(draw, (ROWS,), 0, weights=True)
        self.place = torch.randint(width, (), generator=draw).item()
        self.column = torch.randint(ROWS, (), generator=draw).item()

    def operands(self):
        return [self.a, self.b, self.bias]

    def honest(self):
        return torch.addmm(self.bias, self.a, self.b)

    def reading(self, title, left, right):
        as_it_is = ("as it is", lambda x: x)
        left, right = left or as_it_is, right or as_it_is
        return Fault(title, lambda: torch.addmm(self.bias, left[1](self.a), right[1](self.b)), (left[0], right[0]))

    def faults(self):
        for title, how in (("to nearest even", "even"), ("to nearest, ties away", "away"), ("cut", "cut")):
            yield self.reading(f"operands read as TF32, {title}", read("tf32", how), read("tf32", how))
        yield self.reading("left operand read as TF32", read("tf32"), None)
        yield self.reading("right operand read as TF32", None, read("tf32"))
        yield self.reading("operands read as bf16, to nearest even", read("bf16"), read("bf16"))
        yield self.reading("operands read as bf16, cut", read("bf16", "cut"), read("bf16", "cut"))
        yield self.reading("right operand read as bf16", None, read("bf16"))
        yield self.reading("operands read as fp16", read("fp16"), read("fp16"))
        yield self.reading("operands read as fp8 E4M3", read("fp8_e4m3"), read("fp8_e4m3"))
        yield self.reading("right operand read as fp8 E4M3", None, read("fp8_e4m3"))
        yield self.reading("left operand read as fp8 E5M2", read("fp8_e5m2"), None)
        for form, block in (("fp16", 16), ("fp16", 32), ("bf16", 16), ("bf16", 32)):
            yield Fault(f"sums kept in {form}, rounded every {block} products",
                        lambda form=form, block=block: summed_in_blocks(self.a, self.b, form, block) + self.bias)
        yield Fault("result rounded to bf16", lambda: rounded(self.honest(), "bf16"))
        yield Fault("result rounded to TF32", lambda: rounded(self.honest(), "tf32"))
        yield Fault("bias dropped", lambda: self.a @ self.b)
        yield Fault("last product left out", lambda: torch.addmm(self.bias, self.a[:, :-1], self.b[:-1]))
        yield Fault("two rows of the result swapped", lambda: self.honest()[[1, 0, *range(2, ROWS)]])
        yield Fault("two columns of the result swapped", lambda: self.honest()[:, [1, 0, *range(2, ROWS)]])
        yield Fault("one weight off by 1e-3 of it", self.one_weight)
        yield Fault("one element off by one ulp of bf16", self.one_element)

    def one_weight(self):
        b = self.b.clone()
        b[self.place, self.column] *= 1.001
        return torch.addmm(self.bias, self.a, b)

    def one_element(self):
        y = self.honest()
        where = self.place % ROWS, self.column
        ulp = 2.0 ** (math.frexp(y[where].item())[1] - 8)
        y[where] += ulp
        return y


class Rows(Op):
    """x of rows of W, with parameters of that width."""

    rows = FEW_ROWS

    def __init__(self, draw, width, kind):
        super().__init__(draw, width, kind)
        self.x = operand(draw, (self.rows, width), kind)
        self.scale = 1 + operand(draw, (width,), 0, weights=True)
        self.shift = operand(draw, (width,), 0, weights=True)


class LayerNorm(Rows):
    title = "LayerNorm and RMSNorm, 64 rows of W, Softmax and Gelu, 8 rows of W"
    rows = NORM_ROWS
    op = "aten::native_layer_norm"

    def __init__(self, draw, width, kind):
        super().__init__(draw, width, kind)
        self.attributes = {"normalized_shape": [width], "eps": 1e-5}

    def operands(self):
        return [self.x, self.scale, self.shift]

    def norm(self, epsilon):
        return F.layer_norm(self.x, (self.width,), self.scale, self.shift, epsilon)

    def honest(self):
        return self.norm(1e-5)

    def unbiased(self):
        centred = self.x - self.x.mean(-1, keepdim=True)
        return centred / torch.sqrt(self.x.var(-1, keepdim=True, unbiased=True) + 1e-5) * self.scale + self.shift

    def faults(self):
        yield Fault("LayerNorm, epsilon 1e-6 for 1e-5", lambda: self.norm(1e-6), "epsilon 1e-06")
        yield Fault("LayerNorm, epsilon 1e-12 for 1e-5", lambda: self.norm(1e-12), "epsilon 1e-12")
        yield Fault("LayerNorm, variance divided by W - 1", self.unbiased, "variance divided by N - 1")
        yield Fault("LayerNorm, result rounded to bf16", lambda: rounded(self.honest(), "bf16"))
        yield Fault("LayerNorm, shift dropped", lambda: F.layer_norm(self.x, (self.width,), self.scale, None, 1e-5),
                    "shift left out")
        yield Fault("LayerNorm, two rows swapped", lambda: self.honest()[[1, 0, *range(2, NORM_ROWS)]])


class SmallLayerNorm(LayerNorm):
    """With activations of 0.05, as behind a residual stream's first layers."""

    def __init__(self, draw, width, kind):
        super().__init__(draw, width, kind)
        self.x = 0.05 * self.x

    def faults(self):
        yield Fault("LayerNorm of activations of 0.05, epsilon 1e-6 for 1e-5", lambda: self.norm(1e-6), "epsilon 1e-06")
        yield Fault("LayerNorm of activations of 0.05, epsilon 1e-12 for 1e-5", lambda: self.norm(1e-12), "epsilon 1e-12")


class RmsNorm(Rows):
    op = "aten::rms_norm"
    rows = NORM_ROWS

    def __init__(self, draw, width, kind):
        super().__init__(draw, width, kind)
        self.attributes = {"normalized_shape": [width], "eps": 1e-5}

    def operands(self):
        return [self.x, self.scale]

    def norm(self, epsilon):
        return self.x * torch.rsqrt(self.x.pow(2).mean(-1, keepdim=True) + epsilon) * self.scale

    def honest(self):
        return self.norm(1e-5)

    def faults(self):
        yield Fault("RMSNorm, epsilon 1e-6 for 1e-5", lambda: self.norm(1e-6), "epsilon 1e-06")
        yield Fault("RMSNorm, epsilon 1e-12 for 1e-5", lambda: self.norm(1e-12), "epsilon 1e-12")
        yield Fault("RMSNorm, mean subtracted", lambda: F.layer_norm(self.x, (self.width,), self.scale, None, 1e-5),
                    "mean subtracted")


class SoftmaxOp(Rows):
    op = "aten::_softmax"
    attributes = {"dim": -1, "half_to_float": False}

    def operands(self):
        return [self.x]

    def honest(self):
        return torch.softmax(self.x, -1)

    def faults(self):
        yield Fault("Softmax, scores divided by 1.001", lambda: torch.softmax(self.x / 1.001, -1))
        yield Fault("Softmax, scores rounded to bf16", lambda: torch.softmax(rounded(self.x, "bf16"), -1))
        yield Fault("Softmax, last score left out",
                    lambda: F.pad(torch.softmax(self.x[:, :-1], -1), (0, 1)))


class Gelu(Rows):
    op = "aten::gelu"
    attributes = {"approximate": "none"}

    def operands(self):
        return [self.x]

    def honest(self):
        return F.gelu(self.x)

    def faults(self):
        yield Fault("Gelu, tanh for erf", lambda: F.gelu(self.x, approximate="tanh"), "Gelu by tanh")
        yield Fault("Gelu, x sigmoid(1.702 x) for erf", lambda: self.x * torch.sigmoid(1.702 * self.x),
                    "x sigmoid(1.702 x)")


class TanhGelu(Gelu):
    attributes = {"approximate": "tanh"}

    def honest(self):
        return F.gelu(self.x, approximate="tanh")

    def faults(self):
        yield Fault("Gelu, erf for tanh", lambda: F.gelu(self.x), "Gelu by erf")


class Attention(Op):
    """The last queries of a sequence of W; each sees the keys up to its own."""

    title = "Attention, heads of 64, 48 queries, W keys"
    op = "aten::scaled_dot_product_attention"

    def __init__(self, draw, width, kind):
        super().__init__(draw, width, kind)
        self.q = operand(draw, (1, 1, QUERIES, HEAD), kind)
        self.k = operand(draw, (1, 1, width, HEAD), kind)
        self.v = operand(draw, (1, 1, width, HEAD), kind)

    def mask(self, later=0):
        return torch.ones(QUERIES, self.width, dtype=torch.bool).tril(self.width - QUERIES + later)

    def operands(self):
        return [self.q, self.k, self.v, self.mask()]

    def attend(self, scale, mask, k=None, weights=lambda x: x):
        scores = (self.q * scale) @ (self.k if k is None else k).transpose(-1, -2)
        return weights(torch.softmax(scores.masked_fill(~mask, -math.inf), -1)) @ self.v

    def honest(self):
        return self.attend(1 / math.sqrt(HEAD), self.mask())

    def faults(self):
        scale = 1 / math.sqrt(HEAD)
        yield Fault("attention, scale 1/√(d+1) for 1/√d", lambda: self.attend(1 / math.sqrt(HEAD + 1), self.mask()),
                    "scale 1/sqrt(d + 1)")
        yield Fault("attention, mask one key too far", lambda: self.attend(scale, self.mask(1)))
        yield Fault("attention, mask one key short", lambda: self.attend(scale, self.mask(-1)), "last key left out")
        yield Fault("attention, keys read as bf16", lambda: self.attend(scale, self.mask(), rounded(self.k, "bf16")))
        yield Fault("attention, weights stored as bf16",
                    lambda: self.attend(scale, self.mask(), weights=lambda x: rounded(x, "bf16")))


OPS = (Product, LayerNorm, SmallLayerNorm, RmsNorm, SoftmaxOp, Gelu, TanhGelu, Attention)


class Unshifted(Rows):
    """No fault: exponentials without the maximum subtracted first, where nothing overflows."""

    op, attributes = SoftmaxOp.op, SoftmaxOp.attributes

    def operands(self):
        return [self.x]

    def honest(self):
        exponentials = torch.exp(self.x)
        return exponentials / exponentials.sum(-1, keepdim=True)

    def faults(self):
        return iter(())


# ---- recordings and reports

class Cell:
    """What was said of one fault at one width."""

    def __init__(self):
        self.draws = 0
        self.statuses = collections.Counter()
        self.tests = collections.Counter()
        self.named = 0
        self.reading = False
        self.largest = 0.0  # the least over the draws of the largest share of a bound that was used

    @property
    def seen(self):
        return self.statuses["violated"] + self.statuses["improbable"]

    def __str__(self):
        if not self.draws:
            return ""
        if not self.seen:
            return f"not seen 0/{self.draws}"
        parts = []
        for status in ("violated", "improbable"):
            if self.statuses[status]:
                tests = ", ".join(name for (of, name), _ in sorted(self.tests.items(), key=lambda item: -item[1])
                                  if of == status)
                parts.append(f"{status} {self.statuses[status]}/{self.draws} ({tests})")
        text = "; ".join(parts)
        return text + (f", named {self.named}/{self.draws}" if self.reading else "")


#: Bounds for sums in any order and for bodies, by the names that cells have.
SHORT = {"componentwise": "any order", "partial-sums": "sums", "probabilistic": "chance", "running": "declared order",
         "adjoint/any-order": "sensitivities"}


def tests_that_failed(layer):
    """Names of the proven or conditional bounds exceeded; of an improbable record the tests that say so."""
    status = layer["status"]
    guarantees = ("proven", "conditional") if status == "violated" else ("probabilistic",)

    def exceeded(scope):
        return [SHORT.get(bound["name"], bound["name"]) for bound in layer[scope]["bounds"]
                if bound["violations"] and bound["guarantee"] in guarantees]

    tests = exceeded("local")
    reading = layer["nearest_reading"]
    if status == "improbable" and reading and reading["decisive"]:
        tests.append("reading")
    if not tests and layer["accumulated"]:
        tests = exceeded("accumulated")
    if status == "violated" and len(tests) > 1:
        tests = tests[:1] if tests[0] == "any order" else tests[-1:]
    return ["+".join(tests)] if tests else ["no test named"]


def names_reading(layer, planted):
    """Whether the nearest reading, or one alike, is the planted one, and that is decisive."""
    found = layer["nearest_reading"]
    if not found or not found["decisive"]:
        return False
    plain = lambda name: "as it is" if name == "fp32" else name
    pairs = [found["nearest"], *found["alike"]]
    return planted in [pair["variant"] or (plain(pair["left"]), plain(pair["right"])) for pair in pairs]


def record(path, width, arguments, numbers):
    """A recording of the draws at a width: honest records and faults. Returns what each record's name stands for."""
    arithmetic = declare("float32 in any order", "fp32", source="scripts/power.py", functions="pytorch-cpu")
    meaning = {}
    with driftbound.record(path, arithmetic=arithmetic, pytorch=False) as recorder:
        for number in numbers:
            for kind_of_op in (*OPS, Unshifted):
                if kind_of_op is Attention and number >= (1 if width > 10000 else ATTENTION_DRAWS):
                    continue
                draw = torch.Generator().manual_seed(1000003 * arguments.seed + 1009 * width + number)
                one = kind_of_op(draw, width, number % len(KINDS))
                operands = one.operands()
                faults = [None, *one.faults()]
                if arguments.only:
                    faults = [fault for fault in faults if fault is None or arguments.only in fault.name]
                    if faults == [None]:
                        continue
                for fault in faults:
                    name = f"{kind_of_op.__name__}/{'honest' if fault is None else fault.name}/{width}/{number}"
                    result = one.honest() if fault is None else fault.result()
                    recorder.add(one.op, operands, result, attributes=one.attributes, name=name)
                    meaning[name] = kind_of_op, fault
    return meaning


def judge(path, arguments):
    out = path.with_suffix(".json")
    done = subprocess.run([str(find_program()), "report", str(path), "--json", str(out), "--quiet", "--threads",
                           str(arguments.threads)], capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1, 2):
        raise SystemExit(f"{path}: exit status {done.returncode}: {done.stderr.strip()}")
    return json.loads(out.read_text(encoding="utf-8"))


def rows_of(report, meaning):
    """What a report says of each record, as JSON has it."""
    records = []
    for layer in report["layers"]:
        name = layer["name"] if layer["name"] in meaning else layer["name"].rsplit("[", 1)[0]
        kind, fault = meaning[name]
        status = layer["status"]
        reading = fault is not None and fault.reading is not None
        records.append((name, kind.__name__, fault and fault.name, status,
                        tests_that_failed(layer) if status in ("violated", "improbable") else [], reading,
                        reading and names_reading(layer, fault.reading),
                        layer["nearest_reading"] if reading else layer["local"]["worst"]))
    return {"not_judged": report["recording"]["reasons"], "records": records}


class Results:
    def __init__(self):
        self.cells = {}  # of (op, fault), by width
        self.honest = collections.Counter()
        self.failed = collections.Counter()
        self.readings = collections.Counter()  # planted, and named right
        self.not_judged = collections.Counter()

    def add(self, rows, width):
        """Adds what `rows_of` gave of one recording."""
        for reason in rows["not_judged"]:
            self.not_judged[reason["op"], reason["reason"]] += reason["count"]
        for name, op, fault, status, tests, reading, named, detail in rows["records"]:
            if fault is None:
                self.honest[op] += 1
                if status not in ("holds", "approaches"):
                    self.failed[op, status] += 1
                    print(f"HONEST AND {status}: {name}, {tests}, {detail}", flush=True)
                continue
            cell = self.cells.setdefault((op, fault), {}).setdefault(width, Cell())
            cell.draws += 1
            cell.statuses[status] += 1
            cell.tests.update((status, test) for test in tests)
            if reading:
                cell.reading = True
                cell.named += named
                if not named:
                    print(f"not named: {name}, {status}, {detail}", flush=True)

    def tables(self, widths):
        lines, title = [], None
        titles = {kind.__name__: getattr(kind, "title", None) for kind in OPS}
        order = [kind.__name__ for kind in OPS]
        for (op, name), by_width in sorted(self.cells.items(), key=lambda item: order.index(item[0][0])):
            above = titles[op] or title
            if above != title:
                title = above
                lines += ["", f"## {title}", "", "| effect | " + " | ".join(map(str, widths)) + " |",
                          "|---" * (len(widths) + 1) + "|"]
            lines.append(f"| {name} | " + " | ".join(str(by_width.get(width, "")) for width in widths) + " |")
        return lines


PAGE_HEAD = """\
# What is seen

Faults planted in single ops, by width, and what `driftbound report` says of them: the output of `scripts/power.py` of
{date} (program {version}, PyTorch {torch}, {machine}). A cell is {draws} draws, or as many as it says: {kinds}, in turn. An op is computed by
PyTorch on the CPU in float32 with the fault planted, and recorded with its operands as declared float32, sums in any
order. Beside it stands the honest result of the same operands, so that a fault named at the wrong op would show: of the
{honest} honest records {failed}.

A cell says in how many draws the fault was seen, and by which test: *violated* where a bound that is proven or conditional
is exceeded (*any order*: `componentwise`; *sums*: `partial-sums`, sharper where terms cancel; *sensitivities*:
`adjoint/any-order`, sharper where errors within the op cancel), which no float32 run does;
*improbable* where at most one honest report in 10^9 would say so: by *chance* (`probabilistic`, T-74 and T-133) or by the
*reading* of the operands, or the op, that is the nearest (T-134, T-135). *Named* counts the draws in which the report names the planted
reading, or one that is alike on these operands, also where a bound is violated.

Of {planted} planted readings at widths from 512 on, {named} were named right ({share:.2f} %): {by_width}.
"""

PAGE_TAIL = """
## What is not seen, and why
{not_seen}
"""

REASONS = (
    ("operands read", "The report has the planted reading as the nearest one, but not as decisive: the terms of these sums "
     "are of one sign (the uniform data), so that small ones are lost beside a large sum in one direction, and T-134 draws "
     "no conclusion where honest sums in other orders do as much."),
    ("result rounded to TF32", "Half a step of the format is below what a sum of so many terms may err by."),
    ("bias dropped", "A bias of 0.02 is below what a sum may err by that is itself in the hundreds (the uniform data)."),
    ("LayerNorm, result rounded", "The bound for sums in any order is above half a step of bf16 where the mean is larger than "
     "the deviation (the uniform data)."),
    ("Softmax", "The bound of the sum of weights, in any order, is above a thousandth at this width."),
    ("one weight off", "A weight off by a thousandth changes every result of its column by a thousandth of one product of K. "
     "The honest error of a float32 sum may be as large from some width on, so that no test of the result alone sees it. "
     "Whether the weights are those of the file is seen when they are recorded by reference (sha256)."),
    ("last product left out", "One product of K, as large as any other, is below what sums in any order may err by from some "
     "width on where its factors are small, and nothing where one of them is 0."),
    ("one element off", "A step of bf16 is 2^-8 of the element. Where the terms cancel, the element is small beside them and "
     "so is the step."),
    ("variance divided by W - 1", "This changes a norm by 1/(2W) of it; rounding may change it by W u or so."),
    ("epsilon", "With a variance of 1 the epsilons 1e-6 and 1e-5 differ by 4.5e-6 of the result. That is seen while the "
     "other roundings of the row, which T-135 takes at their largest, are below a quarter of it. Where the variance is small, "
     "as behind 0.05, epsilon matters more."),
    ("sums kept in", "The terms of short sums may all fit, and the few roundings to the narrow format be small beside the "
     "bound."),
    ("attention", "Keys and weights that are rounded, and keys beyond the mask, are no ops that T-135 knows; bounds for sums "
     "in any order grow with W, while such errors average out over W."),
)


def reasons(results):
    """A line for every effect that was not seen in all draws of some width."""
    lines = []
    for (kind, name), by_width in results.cells.items():
        missed = {width: cell for width, cell in by_width.items() if cell.seen < cell.draws}
        if not missed:
            continue
        where = ", ".join(f"{width} ({cell.seen}/{cell.draws})" for width, cell in missed.items())
        lines += textwrap.wrap(f"- **{name}** at {where}.", 120, subsequent_indent="  ", break_on_hyphens=False)
    why = []
    for key, text in REASONS:
        if any(key in line for line in lines):
            why += ["", *textwrap.wrap(f"*{key[0].upper() + key[1:]}*: {text}", 120, break_on_hyphens=False)]
    return "\n".join([*lines, *why]) if lines else "Every planted fault was seen in every draw."


def page(results, arguments, widths, draws):
    honest, failed = sum(results.honest.values()), sum(results.failed.values())
    planted, named = collections.Counter(), collections.Counter()
    for by_width in results.cells.values():
        for width, cell in by_width.items():
            if cell.reading and width >= 512:
                planted[width] += cell.draws
                named[width] += cell.named
    all_planted, all_named = sum(planted.values()), sum(named.values())
    version = subprocess.run([str(find_program()), "--version"], capture_output=True, text=True, check=True).stdout.split()[-1]
    head = PAGE_HEAD.format(
        date=datetime.date.today().isoformat(), version=version, torch=torch.__version__, machine=platform.machine(),
        draws=draws, kinds="; ".join(KINDS), honest=honest, failed=f"{failed} do not hold" if failed else "all hold",
        planted=all_planted, named=all_named, share=100.0 * all_named / max(all_planted, 1),
        by_width=", ".join(f"{named[width]} of {planted[width]} at {width}" for width in planted))
    paragraphs = []
    for paragraph in head.split("\n\n"):
        paragraphs.append(paragraph if paragraph.startswith("#") else
                          "\n".join(textwrap.wrap(" ".join(paragraph.split()), 120, break_on_hyphens=False)))
    control = results.honest["Unshifted"], sum(count for (name, _), count in results.failed.items() if name == "Unshifted")
    no_fault = ["", "## What is no fault", "", *textwrap.wrap(
        f"A softmax whose exponentials are divided without the maximum subtracted first, where nothing overflows: "
        f"{control[0]} records, {control[1]} not within rounding.", 120)]
    return "\n".join(["\n\n".join(paragraphs).rstrip(), *results.tables(widths), *no_fault,
                      PAGE_TAIL.format(not_seen=reasons(results)).rstrip(), ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=21)
    parser.add_argument("--draws-above-10000", type=int, default=6, help="at widths above 10,000")
    parser.add_argument("--widths", type=lambda text: [int(one) for one in text.split(",")],
                        default=[64, 512, 3072, 8192, 32768])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", default="", help="effects whose name contains this")
    parser.add_argument("--page", type=pathlib.Path)
    parser.add_argument("--keep", type=pathlib.Path)
    parser.add_argument("--resume", type=pathlib.Path)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    results, done = Results(), {}
    if arguments.resume and arguments.resume.exists():
        for line in arguments.resume.read_text(encoding="utf-8").splitlines():
            key, rows = json.loads(line)
            done[json.dumps(key)] = rows
    with tempfile.TemporaryDirectory() as folder:
        place = arguments.keep or pathlib.Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        for width in arguments.widths:
            began = time.monotonic()
            draws = arguments.draws if width <= 10000 else min(arguments.draws, arguments.draws_above_10000)
            together = max(1, min(draws, 32768 // width))
            for first in range(0, draws, together):
                key = [arguments.seed, width, first, min(first + together, draws), arguments.only]
                if json.dumps(key) in done:
                    results.add(done[json.dumps(key)], width)
                    continue
                path = place / f"power-{width}-{first}.safetensors"
                meaning = record(path, width, arguments, range(first, min(first + together, draws)))
                rows = rows_of(judge(path, arguments), meaning)
                results.add(rows, width)
                if arguments.resume:
                    with arguments.resume.open("a", encoding="utf-8") as file:
                        file.write(json.dumps([key, rows]) + "\n")
                if not arguments.keep:
                    for file in place.iterdir():
                        file.unlink()
            print(f"width {width}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    for (name, reason), count in results.not_judged.items():
        print(f"not judged: {name}, {count} times: {reason}")
    print("\n".join(results.tables(arguments.widths)))
    if arguments.page:
        _, pairs = pages.split(arguments.page, pages.PAIRS)
        own = page(results, arguments, arguments.widths, arguments.draws)
        arguments.page.write_text(pages.join(own, pairs), encoding="utf-8")
    return 1 if results.failed else 0


if __name__ == "__main__":
    sys.exit(main())
