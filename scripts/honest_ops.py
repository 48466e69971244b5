#!/usr/bin/env python3
"""Honest ops of PyTorch on this machine's CPU: records tens of thousands of them and judges them. None should fail.

  /usr/bin/python3 scripts/honest_ops.py [--cases 6000] [--seed 1] [--first 0] [--kinds NAME,...]
                                         [--types float32,bfloat16,float64] [--keep FOLDER] [--threads 1] [--failures 40]

Needs PyTorch, and the program (the variable DRIFTBOUND, or build/*/driftbound). A case is one call of a function or a
module of PyTorch in float32, bfloat16 or float64 on operands of random shapes; their data are normal, or structured in
one of many ways. Case N of a seed is the same in every run: `--first N --cases 1 --keep FOLDER` makes it again and
leaves its recording there. Prints every result that does not hold with what is needed to make it again, then tables of
what was judged and what was not, in Markdown. Exit status 1 where a result does not hold, 0 otherwise.
"""
import argparse
import collections
import json
import math
import pathlib
import random
import subprocess
import sys
import tempfile
import time
import warnings

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "python"))

import torch
from torch import nn
from torch.nn import functional as F

import driftbound
from driftbound.program import find_program

A_RECORDING = 200  # cases
TYPES = {"float32": 7, "bfloat16": 2, "float64": 1}  # how often
RANKS = {"holds": 0, "not checked": 1, "approaches": 1, "undecided": 2, "void": 3, "improbable": 4, "violated": 5}
FAILURES = ("violated", "improbable", "void", "undecided")


# ---- data

def normal(draw, shape):
    return torch.randn(shape, generator=draw, dtype=torch.float64)


def uniform(draw, shape):
    return torch.rand(shape, generator=draw, dtype=torch.float64)


def ramp(draw, shape):
    count = math.prod(shape)
    return (torch.arange(count, dtype=torch.float64) / max(count, 1) - uniform(draw, ())).reshape(shape)


def one_hot(draw, shape):
    x = torch.zeros(shape, dtype=torch.float64)
    if x.numel():
        x = x.flatten()
        x[torch.randint(x.numel(), (max(1, x.numel() // 50),), generator=draw)] = 1.0
    return x.reshape(shape)


def few_bits(draw, shape):
    bits = 2.0 ** torch.randint(1, 9, (), generator=draw).item()
    return torch.round(normal(draw, shape) * bits) / bits


def with_outliers(draw, shape):
    return torch.where(uniform(draw, shape) < 0.02, 1000.0, 1.0) * normal(draw, shape)


DATA = {
    "normal": normal,
    "small weights": lambda draw, shape: 0.02 * normal(draw, shape),
    "uniform": uniform,
    "relu-sparse": lambda draw, shape: torch.relu(normal(draw, shape)),
    "sparse": lambda draw, shape: torch.where(uniform(draw, shape) < 0.05, normal(draw, shape), 0.0),
    "log-normal": lambda draw, shape: torch.exp(2 * normal(draw, shape)),
    "constant": lambda draw, shape: torch.full(shape, 0.1, dtype=torch.float64) + 0 * normal(draw, ()),
    "any constant": lambda draw, shape: torch.ones(shape, dtype=torch.float64) * normal(draw, ()),
    "zeros": lambda draw, shape: torch.zeros(shape, dtype=torch.float64),
    "two levels": lambda draw, shape: torch.where(uniform(draw, shape) < 0.5, 0.1, 1 / 3).double(),
    "few bits": few_bits,
    "integers": lambda draw, shape: torch.round(10 * normal(draw, shape)),
    "one-hot": one_hot,
    "ramp": ramp,
    "alternating": lambda draw, shape: ramp(draw, shape) * (1 - 2.0 * (torch.arange(math.prod(shape)) % 2)).reshape(shape),
    "shifted": lambda draw, shape: 100 + normal(draw, shape),
    "far": lambda draw, shape: 4096 + 0.01 * normal(draw, shape),
    "outliers": with_outliers,
    "wide": lambda draw, shape: normal(draw, shape) * 2.0 ** torch.randint(-12, 13, shape, generator=draw).double(),
    "large": lambda draw, shape: 1e4 * normal(draw, shape),
    "huge": lambda draw, shape: 1e12 * normal(draw, shape),
    "tiny": lambda draw, shape: 1e-15 * normal(draw, shape),
    "near underflow": lambda draw, shape: 1e-30 * normal(draw, shape),
    "subnormal": lambda draw, shape: 1e-40 * normal(draw, shape),
}
PLAIN = ("normal", "small weights", "uniform", "relu-sparse", "shifted", "outliers")


class Case:
    """What a case draws its shapes and data from."""

    def __init__(self, seed, number, types):
        self.choice = random.Random(f"{seed}/{number}")
        self.draw = torch.Generator().manual_seed(self.choice.getrandbits(62))
        self.type = getattr(torch, self.choice.choices(types, [TYPES[one] for one in types])[0])
        self.plain = self.choice.random() < 0.4
        self.said = []

    def int(self, low, high):
        """A whole number, small ones more often."""
        return int(round(math.exp(self.choice.uniform(math.log(low), math.log(high + 0.49)))))

    def pick(self, *choices):
        return self.choice.choice(choices)

    def data(self, *shape, positive=False, kind=None, type=None):
        kind = kind or self.choice.choice(PLAIN if self.plain else tuple(DATA))
        x = DATA[kind](self.draw, tuple(shape))
        if positive:
            x = x.abs() + 1e-3
        x = x.to(type or self.type)
        self.said.append(f"{kind} {list(shape)}")
        return x.contiguous() if x.dim() else x

    def moderate(self, *shape):
        """Data without scales that overflow in exponentials' sums or products of three."""
        return self.data(*shape, kind=self.pick(*PLAIN, "sparse", "constant", "few bits", "integers", "one-hot", "ramp",
                                                "wide", "tiny", "subnormal", "zeros"))

    def shape(self, least=1, most=4, elements=4000):
        rank = self.choice.randint(least, most)
        return tuple(self.int(1, max(2, int(elements ** (1 / rank)))) for _ in range(rank))

    def filled(self, module):
        """A module in this type whose parameters are structured data too."""
        with torch.no_grad():
            for name, parameter in module.named_parameters():
                kind = self.pick("normal", "small weights", "few bits", "constant", "sparse", "wide")
                scale = 1 / math.sqrt(max(1, parameter[0].numel())) if parameter.dim() > 1 and kind != "small weights" else 1
                parameter.copy_(DATA[kind](self.draw, tuple(parameter.shape)) * scale)
            for name, buffer in module.named_buffers():
                if buffer.is_floating_point():
                    buffer.copy_(DATA["uniform" if "var" in name else "normal"](self.draw, tuple(buffer.shape)))
        return module.to(self.type).eval()


# ---- ops: each takes a case and gives a function without arguments

OPS = {}


def op(weight=1):
    def take(function):
        OPS[function.__name__] = function, weight
        return function
    return take


def long(c):
    return c.int(1, 300) if c.choice.random() < 0.85 else c.int(300, 6000)


@op(3)
def mm(c):
    k = long(c)
    a, b = c.data(c.int(1, 24), k), c.data(k, c.int(1, 24))
    return lambda: a @ b


@op(3)
def addmm(c):
    k, m, n = long(c), c.int(1, 24), c.int(1, 24)
    a, b, bias = c.data(m, k), c.data(k, n), c.data(*c.pick((n,), (m, n), (1, n), (m, 1)))
    alpha, beta = c.pick((1, 1), (1, 1), (0.5, 1), (1, 0), (0.1, 0.3), (-2, 3))
    c.said.append(f"alpha {alpha}, beta {beta}")
    return lambda: torch.addmm(bias, a, b, alpha=alpha, beta=beta)


@op()
def mv(c):
    k, m = long(c), c.int(1, 50)
    a, b, bias = c.data(m, k), c.data(k), c.data(m)
    return c.pick(lambda: torch.mv(a, b), lambda: torch.addmv(bias, a, b), lambda: torch.addmv(bias, a, b, alpha=0.3, beta=2))


@op()
def dot(c):
    k = long(c)
    a, b = c.data(k), c.data(k)
    return lambda: torch.dot(a, b)


@op(2)
def bmm(c):
    k, n, m, p = long(c), c.int(1, 5), c.int(1, 12), c.int(1, 12)
    a, b, bias = c.data(n, m, k), c.data(n, k, p), c.data(n, m, p)
    return c.pick(lambda: torch.bmm(a, b), lambda: torch.baddbmm(bias, a, b),
                  lambda: torch.baddbmm(bias, a, b, beta=0.3, alpha=0.1))


@op(2)
def matmul(c):
    k = c.int(1, 300)
    a, b = c.pick(((2, 3, k), (k, 4)), ((k,), (k, 4)), ((3, k), (k,)), ((2, 1, 3, k), (5, k, 2)), ((4, k), (2, k, 3)))
    a, b = c.data(*a), c.data(*b)
    return lambda: torch.matmul(a, b)


@op(3)
def linear(c):
    k, n = long(c), c.int(1, 40)
    module = c.filled(nn.Linear(k, n, bias=c.pick(True, False)))
    x = c.data(*c.pick((c.int(1, 20), k), (k,), (2, c.int(1, 10), k)))
    return lambda: module(x)


@op()
def einsum(c):
    a, b, d = c.int(1, 6), c.int(1, 40), c.int(1, 6)
    x, y = c.data(2, a, b), c.data(2, d, b)
    return c.pick(lambda: torch.einsum("nab,ndb->nad", x, y), lambda: torch.einsum("nab,ndb->ad", x, y),
                  lambda: torch.einsum("nab,ndb->n", x, y))


@op(2)
def conv1d(c):
    groups = c.pick(1, 1, 2, 3)
    i, o = groups * c.int(1, 8), groups * c.int(1, 6)
    kernel, stride, dilation = c.int(1, 5), c.int(1, 2), c.int(1, 2)
    module = c.filled(nn.Conv1d(i, o, kernel, stride, c.choice.randint(0, 2), dilation, groups, c.pick(True, False)))
    x = c.data(c.int(1, 3), i, dilation * (kernel - 1) + c.int(1, 40))
    return lambda: module(x)


@op(3)
def conv2d(c):
    groups = c.pick(1, 1, 1, 2, 4)
    i, o = groups * c.int(1, 16), groups * c.int(1, 8)
    kernel, dilation = c.pick(1, 3, 3, 5, (3, 1)), c.pick(1, 1, 2)
    module = c.filled(nn.Conv2d(i, o, kernel, c.pick(1, 2), c.pick(0, 1, 2), dilation, groups, c.pick(True, False)))
    x = c.data(c.int(1, 2), i, 9 + c.int(1, 6), 9 + c.int(1, 6))
    return lambda: module(x)


@op()
def conv3d(c):
    i, o = c.int(1, 4), c.int(1, 4)
    module = c.filled(nn.Conv3d(i, o, c.pick(1, 3, (1, 2, 3)), padding=c.pick(0, 1)))
    x = c.data(1, i, 4, 5, 6)
    return lambda: module(x)


@op()
def conv_transpose(c):
    i, o = 2 * c.int(1, 6), 2 * c.int(1, 4)
    stride = c.pick(1, 2)
    kind, size = c.pick((nn.ConvTranspose1d, (9,)), (nn.ConvTranspose2d, (5, 6)))
    module = c.filled(kind(i, o, 3, stride, c.pick(0, 1), stride - 1 if c.pick(0, 1) else 0, c.pick(1, 2)))
    x = c.data(2, i, *size)
    return lambda: module(x)


@op(4)
def layer_norm(c):
    shape = c.pick((c.int(1, 12), c.int(1, 1500)), (2, 3, c.int(1, 200)), (2, 3, 4, 5), (c.int(1, 40), 768))
    axes = 2 if len(shape) == 4 and c.pick(True, False) else 1
    module = c.filled(nn.LayerNorm(shape[-axes:], c.pick(1e-5, 1e-5, 1e-6, 1e-12, 1e-3), c.pick(True, True, False)))
    x = c.data(*shape)
    return lambda: module(x)


@op(2)
def group_norm(c):
    groups = c.pick(1, 2, 4)
    channels = groups * c.int(1, 8)
    module = c.filled(nn.GroupNorm(groups, channels, affine=c.pick(True, True, False)))
    x = c.data(c.int(1, 3), channels, *c.pick((), (c.int(2, 30),), (c.int(2, 12), c.int(1, 12))))
    if x[0].numel() // groups < 2:
        x = c.data(2, channels, 5)
    return lambda: module(x)


@op(2)
def batch_norm(c):
    channels = c.int(1, 40)
    kind, rest = c.pick((nn.BatchNorm1d, ()), (nn.BatchNorm1d, (7,)), (nn.BatchNorm2d, (5, 6)))
    module = c.filled(kind(channels, affine=c.pick(True, True, False)))
    x = c.data(c.int(1, 4), channels, *rest)
    return lambda: module(x)


@op()
def instance_norm(c):
    module = c.filled(nn.InstanceNorm2d(4, affine=c.pick(True, False)))
    x = c.data(2, 4, 5, 6)
    return lambda: module(x)


@op(2)
def rms_norm_by_hand(c):
    x, weight = c.data(c.int(1, 8), c.int(1, 800)), c.moderate(1)
    return lambda: weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


@op(4)
def softmax(c):
    shape = c.shape(1, 4)
    x, dim = c.data(*shape), c.choice.randrange(len(shape))
    return c.pick(lambda: torch.softmax(x, dim), lambda: torch.log_softmax(x, dim), lambda: torch.logsumexp(x, dim))


@op()
def masked_softmax(c):
    n = c.int(2, 60)
    x = c.data(3, n, n)
    mask = torch.triu(torch.full((n, n), -math.inf, dtype=c.type), 1)
    return lambda: torch.softmax(x + mask, -1)


@op(2)
def cross_entropy(c):
    n, classes = c.int(1, 20), c.int(2, 500)
    x, y = c.data(n, classes), torch.randint(classes, (n,), generator=c.draw)
    how = c.pick("mean", "sum", "none")
    return c.pick(lambda: F.cross_entropy(x, y, reduction=how), lambda: F.nll_loss(x, y, reduction=how),
                  lambda: torch.log_softmax(x, -1).gather(-1, y[:, None]))


ACTIVATIONS = {
    "gelu": F.gelu, "gelu tanh": lambda x: F.gelu(x, approximate="tanh"), "silu": F.silu, "elu": F.elu,
    "elu 0.3": lambda x: F.elu(x, 0.3), "selu": F.selu, "celu": lambda x: F.celu(x, 0.7), "leaky_relu": F.leaky_relu,
    "relu": F.relu, "relu6": F.relu6, "hardtanh": F.hardtanh, "hardsigmoid": F.hardsigmoid, "hardswish": F.hardswish,
    "mish": F.mish, "softplus": F.softplus, "sigmoid": torch.sigmoid, "tanh": torch.tanh, "logsigmoid": F.logsigmoid,
    "glu": lambda x: F.glu(x.reshape(-1)[: x.numel() // 2 * 2], 0) if x.numel() > 1 else F.silu(x),
    "prelu": lambda x: F.prelu(x, torch.full((1,), 0.25, dtype=x.dtype)), "softsign": F.softsign, "tanhshrink": F.tanhshrink,
}
FUNCTIONS = {name: getattr(torch, name) for name in (
    "abs neg sin cos tan exp erf floor ceil round sign square relu sigmoid tanh expm1 atan sinh cosh trunc frac").split()}
OF_POSITIVE = {name: getattr(torch, name) for name in "log sqrt rsqrt reciprocal log1p log2 exp2".split()}
POWERS = (2, 3, 0.5, -0.5, -1, -2, 1.5, 0.3, 0, 1, 4)


@op(6)
def activation(c):
    name = c.pick(*ACTIVATIONS)
    x = c.data(*c.shape(1, 3, 2000))
    c.said.append(name)
    return lambda: ACTIVATIONS[name](x)


@op(3)
def gelu(c):
    form, x = c.pick("none", "tanh"), c.data(*c.shape(1, 3, 4000))
    return lambda: F.gelu(x, approximate=form)


@op(5)
def function(c):
    name = c.pick(*FUNCTIONS, *OF_POSITIVE)
    x = c.data(*c.shape(1, 3, 2000), positive=name in OF_POSITIVE)
    c.said.append(name)
    return lambda: {**FUNCTIONS, **OF_POSITIVE}[name](x)


@op(2)
def power(c):
    exponent = c.pick(*POWERS)
    x = c.data(*c.shape(1, 2, 1000), positive=exponent not in (2, 3, 0, 1, 4))
    c.said.append(f"pow {exponent}")
    return lambda: x.pow(exponent)


@op(6)
def arithmetic(c):
    shape = c.shape(1, 3, 1500)
    x, y, z = c.data(*shape), c.data(*c.pick(shape, shape[-1:], (1,))), c.data(*shape)
    number = c.pick(0.1, 3, -2.5, 1e-5)
    d = y.abs() + torch.tensor(1e-3, dtype=c.type)
    name, call = c.pick(
        ("add", lambda: x + y), ("sub", lambda: x - y), ("mul", lambda: x * y), ("div", lambda: x / d),
        ("add alpha", lambda: torch.add(x, y, alpha=number)), ("sub alpha", lambda: torch.sub(x, y, alpha=number)),
        ("rsub", lambda: number - x), ("mul number", lambda: x * number), ("div number", lambda: x / number),
        ("number / x", lambda: number / d), ("add number", lambda: x + number),
        ("addcmul", lambda: torch.addcmul(x, x, z)), ("addcmul value", lambda: torch.addcmul(x, x, z, value=number)),
        ("addcdiv", lambda: torch.addcdiv(x, z, d)), ("lerp", lambda: torch.lerp(x, z, number)),
        ("maximum", lambda: torch.maximum(x, y)), ("minimum", lambda: torch.minimum(x, y)),
        ("clamp", lambda: torch.clamp(x, -0.3, 0.7)), ("rsub alpha", lambda: torch.rsub(x, y, alpha=number)),
        ("iadd", lambda: x.clone().add_(y)), ("imul", lambda: x.clone().mul_(number)),
        ("fmod", lambda: torch.fmod(x, 0.7)), ("x * scalar tensor", lambda: x * torch.tensor(0.1)),
        ("x + scalar tensor64", lambda: x + torch.tensor(0.1, dtype=torch.float64)))
    c.said.append(name)
    return call


@op(4)
def reduction(c):
    shape = c.shape(1, 3, 8000)
    x, dim = c.data(*shape), c.choice.randrange(len(shape))
    name, call = c.pick(
        ("sum", lambda: x.sum(dim)), ("sum all", lambda: x.sum()), ("mean", lambda: x.mean(dim, keepdim=True)),
        ("mean all", lambda: x.mean()), ("amax", lambda: x.amax(dim)), ("amin", lambda: x.amin(dim)),
        ("max", lambda: x.max(dim)), ("min", lambda: x.min()), ("sum dtype", lambda: x.sum(dim, dtype=torch.float64)),
        ("var", lambda: x.var(dim)), ("std", lambda: x.std()), ("norm", lambda: x.norm()),
        ("norm dim", lambda: torch.linalg.vector_norm(x, dim=dim)), ("prod", lambda: torch.prod(x, dim)),
        ("cumsum", lambda: torch.cumsum(x, dim)), ("nansum", lambda: torch.nansum(x)),
        ("normalize", lambda: F.normalize(x, dim=dim)), ("mse", lambda: F.mse_loss(x, 0.5 * x)),
        ("cosine", lambda: F.cosine_similarity(x, x.flip(0), dim=dim)))
    c.said.append(name)
    return call


@op(2)
def pooling(c):
    x = c.data(2, c.int(1, 5), 8, 12)
    x1 = c.data(2, 3, 20)
    name, call = c.pick(
        ("avg_pool2d", lambda: F.avg_pool2d(x, 2)), ("avg_pool2d pad", lambda: F.avg_pool2d(x, 3, 2, 1)),
        ("avg_pool2d no pad count", lambda: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False)),
        ("avg_pool2d ceil", lambda: F.avg_pool2d(x, 3, 2, ceil_mode=True)),
        ("avg_pool2d pad ceil", lambda: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True)),
        ("max_pool2d", lambda: F.max_pool2d(x, 3, 2, 1)), ("max_pool2d ceil", lambda: F.max_pool2d(x, 3, 2, 1, 1, True)),
        ("max_pool2d dilated", lambda: F.max_pool2d(x, 2, 1, 0, 2)), ("adaptive 1", lambda: F.adaptive_avg_pool2d(x, 1)),
        ("adaptive", lambda: F.adaptive_avg_pool2d(x, (4, 3))), ("adaptive uneven", lambda: F.adaptive_avg_pool2d(x, 5)),
        ("avg_pool1d", lambda: F.avg_pool1d(x1, 3)), ("max_pool1d", lambda: F.max_pool1d(x1, 3)),
        ("interpolate", lambda: F.interpolate(x, scale_factor=2, mode="bilinear")))
    c.said.append(name)
    return call


@op(3)
def moving(c):
    x, y = c.data(2, 3, c.int(2, 30)), c.data(2, 3, 4)
    ids = torch.randint(3, (5,), generator=c.draw)
    where = torch.rand(x.shape, generator=c.draw) < 0.5
    places = torch.randint(x.shape[-1], (2, 3, 4), generator=c.draw)
    name, call = c.pick(
        ("cat", lambda: torch.cat([x, y], -1) * 3), ("stack", lambda: torch.stack([x, x]).sum(-1)),
        ("index_select", lambda: x.index_select(1, ids) + 1), ("gather", lambda: x.gather(-1, places) * y),
        ("where", lambda: torch.where(where, x, -x).exp()), ("masked_fill", lambda: x.masked_fill(where, 0.3) * 2),
        ("masked_fill inf", lambda: x.masked_fill(where, -math.inf)), ("tril", lambda: x.tril() @ x.transpose(1, 2)),
        ("triu", lambda: x.triu(1)), ("pad", lambda: F.pad(x, (1, 2), value=0.1) * 2), ("split", lambda: [p * 2 for p in x.split(2, -1)]),
        ("chunk", lambda: [p + 1 for p in x.chunk(2, -1)]), ("flip", lambda: x.flip(-1) * 2),
        ("roll", lambda: x.roll(1, -1) * 2), ("repeat", lambda: x.repeat(2, 1, 3) + 1),
        ("to bf16", lambda: x.to(torch.bfloat16)), ("to fp16", lambda: (x / x.abs().max().clamp(min=1)).to(torch.float16)),
        ("to fp32", lambda: x.float() * 2), ("to fp64", lambda: x.double() * 0.1), ("index", lambda: x[:, ids] * 2),
        ("unbind", lambda: [p * 0.1 for p in x.unbind(1)]), ("expand", lambda: x[:, :1].expand(2, 5, -1) * 0.1),
        ("copy_", lambda: torch.zeros_like(x).copy_(x) * 2), ("slice assign", lambda: torch.zeros_like(x)[:, 1:].add_(x[:, 1:])),
        ("strided", lambda: x[..., ::2].sum(-1)), ("permute", lambda: x.permute(2, 0, 1).softmax(0)))
    c.said.append(name)
    return call


@op()
def embedding(c):
    table, ids = c.filled(nn.Embedding(20, c.int(1, 50))), torch.randint(20, (3, 4), generator=c.draw)
    weight = c.data(table.weight.shape[1], 5)
    return lambda: table(ids) @ weight


@op(3)
def attention(c):
    n, s, d = c.int(1, 30), c.int(1, 30), c.pick(4, 8, 16, 33, 64)
    causal = c.pick(True, False)
    s = n if causal else s
    q, k, v = c.moderate(1, 2, n, d), c.moderate(1, 2, s, d), c.moderate(1, 2, s, d)
    mask = None if causal else c.pick(None, torch.rand(n, s, generator=c.draw) < 0.7, c.moderate(n, s))
    if mask is not None and mask.dtype == torch.bool:
        mask[:, 0] = True
    sdpa = getattr(F, "scaled_dot_product_attention", None) or F._scaled_dot_product_attention
    try:
        sdpa(q, k, v, mask, 0.0, is_causal=causal)
    except TypeError:
        return lambda: sdpa(q, k, v, mask, 0.0, False, causal)
    return lambda: sdpa(q, k, v, mask, 0.0, is_causal=causal)


@op(2)
def multihead(c):
    module = c.filled(nn.MultiheadAttention(16, c.pick(1, 2, 4), bias=c.pick(True, False), batch_first=True))
    x = c.moderate(2, c.int(1, 12), 16)
    weights = c.pick(True, False)
    n = x.shape[1]
    mask = c.pick(None, torch.triu(torch.full((n, n), -math.inf, dtype=c.type), 1))
    if c.pick(True, False):  # in training mode the fast path is not taken
        module.train()
    return lambda: module(x, x, x, need_weights=weights, attn_mask=mask)


@op()
def encoder(c):
    module = c.filled(nn.TransformerEncoderLayer(16, 2, 32, 0.0, c.pick("relu", "gelu"), batch_first=True,
                                                 norm_first=c.pick(True, False)))
    if c.pick(True, False):
        module.train()
    x = c.moderate(2, c.int(1, 8), 16)
    return lambda: module(x)


@op()
def recurrent(c):
    module = c.filled(c.pick(nn.GRUCell, nn.LSTMCell, nn.RNNCell)(c.int(1, 20), 12))
    x = c.moderate(3, module.input_size)
    return lambda: module(x)


@op()
def sequence(c):
    module = c.filled(c.pick(nn.GRU, nn.LSTM, nn.RNN)(6, 8, batch_first=True))
    x = c.moderate(2, 3, 6)
    return lambda: module(x)


@op(2)
def rotary(c):
    n, d = c.int(1, 20), 2 * c.int(1, 32)
    x = c.moderate(2, n, d)
    angle = torch.outer(torch.arange(n).double(), 10000.0 ** (-torch.arange(0, d, 2).double() / d))
    cos, sin = (torch.cat([f(angle)] * 2, -1).to(c.type) for f in (torch.cos, torch.sin))
    return lambda: x * cos + torch.cat([-x[..., d // 2:], x[..., : d // 2]], -1) * sin


@op(2)
def block(c):
    width = c.pick(8, 48, 100)
    module = c.filled(nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 4 * width),
                                    c.pick(nn.GELU(), nn.GELU("tanh"), nn.SiLU(), nn.ReLU()), nn.Linear(4 * width, width)))
    x = c.moderate(c.int(1, 6), width)
    return lambda: x + module(x)


# ---- recordings

class Called(nn.Module):
    """A case as a module, so that its records carry its number."""

    def __init__(self):
        super().__init__()
        self.call = None

    def forward(self):
        return self.call()


def make(seed, number, kinds, types):
    case = Case(seed, number, types)
    names = [name for name in OPS if not kinds or name in kinds]
    name = case.choice.choices(names, [OPS[one][1] for one in names])[0]
    call = OPS[name][0](case)
    return f"{name} {str(case.type).removeprefix('torch.')}: {'; '.join(case.said)}", call


def record(path, arguments, numbers):
    """Records cases; returns what each of them is, and those that PyTorch itself refused."""
    said, refused = {}, []
    cases = nn.ModuleDict({f"case{number}": Called() for number in numbers})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with torch.no_grad(), driftbound.record(path, pytorch=True, model=cases) as recorder:
            for number in numbers:
                with recorder.paused():
                    said[number], call = make(arguments.seed, number, arguments.kinds, arguments.types)
                cases[f"case{number}"].call = call
                try:
                    cases[f"case{number}"]()
                except (RuntimeError, NotImplementedError, TypeError) as error:
                    refused.append(f"{said[number]}: {str(error).splitlines()[0][:100]}")
                cases[f"case{number}"].call = None
    return said, refused


def judge(path, arguments):
    """The report, and its exit status."""
    out = path.with_suffix(".json")
    done = subprocess.run([str(find_program()), "report", str(path), "--json", str(out), "--quiet", "--threads",
                           str(arguments.threads), "--failure-probability", arguments.failure_probability],
                          capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1, 2):
        return None, f"exit status {done.returncode}: {done.stderr.strip()[:300]}"
    return json.loads(out.read_text(encoding="utf-8")), done.returncode


def run(numbers, path, arguments, tally):
    """Records and judges cases; where the program fails, each of them by itself."""
    said, refused = record(path, arguments, numbers)
    report, code = judge(path, arguments)
    for file in [] if arguments.keep else path.parent.iterdir():
        file.unlink()
    if report is not None:
        tally.add(report, said, arguments.seed)
        tally.refused.update(refused)
    elif len(numbers) == 1 and "nothing to judge" not in code:
        tally.failures.append((9, "the program", numbers[0], f"the program fails: case {numbers[0]} of seed "
                               f"{arguments.seed}: {said[numbers[0]]}\n    {code}"))
    elif len(numbers) > 1:
        half = len(numbers) // 2
        run(numbers[:half], path, arguments, tally)
        run(numbers[half:], path, arguments, tally)


class Tally:
    def __init__(self):
        self.judged = collections.Counter()
        self.elements = 0
        self.statuses = collections.defaultdict(collections.Counter)
        self.not_judged = collections.Counter()
        self.lacking = collections.Counter()
        self.failures = []
        self.used = collections.defaultdict(float)
        self.refused = collections.Counter()

    def add(self, report, said, seed):
        for reason in report["recording"]["reasons"]:
            self.not_judged[reason["op"], reason["reason"]] += reason["count"]
        for layer in report["layers"]:
            of = layer["record"]
            name = f"{of['op']} {(of['arithmetic'] or '').removeprefix('cpu ')}"
            if of["result"]:
                name += f" [{of['result']}]"
            self.judged[name] += 1
            self.elements += of["judged"]
            status = layer["status"]
            if status not in FAILURES:
                for bound in layer["local"]["bounds"]:
                    used = bound["max_utilisation"]
                    if bound["guarantee"] in ("proven", "conditional") and isinstance(used, (int, float)):
                        self.used[name] = max(self.used[name], used)
            self.statuses[name][status] += 1
            if status in FAILURES:
                number = int(of["module"].split(".")[0].removeprefix("case"))
                self.failures.append((RANKS[status], name, number, describe(layer, said[number], seed, number)))
        for scope in report["end_to_end"]["outputs"] if report["end_to_end"] else []:
            if scope.get("status") in FAILURES:
                self.failures.append((RANKS[scope["status"]], "from the input on", -1, json.dumps(scope)[:600]))


def describe(layer, said, seed, number):
    local, of = layer["local"], layer["record"]
    worst = local["worst"] or {}
    bounds = ", ".join(f"{bound['name']} x{bound['max_utilisation']:.4g} ({bound['violations']} of {bound['checked']})"
                       for bound in local["bounds"]
                       if bound["violations"] and bound["guarantee"] != "heuristic"
                       and isinstance(bound["max_utilisation"], (int, float)))
    reading = layer["nearest_reading"]
    lines = [f"{layer['status']}: {layer['name']} ({of['op']}, result {of['result']}, {of['arithmetic']}), case {number} "
             f"of seed {seed}: {said}",
             f"    {layer['outputs']}x{of['elements']} elements; {bounds or 'no bound violated'}; element "
             f"{worst.get('element')}: computed {worst.get('computed_hex')} = {worst.get('computed')}, exact "
             f"{worst.get('reference_hex')}, error {worst.get('error')}, bound {worst.get('bound')}"]
    if layer["void"]:
        lines.append(f"    void: {json.dumps(layer['void'])[:400]}")
    if reading and reading["decisive"]:
        lines.append(f"    nearest reading {reading['nearest']}, ratio {reading['ratio']}, {reading['false_alarm']}")
    return "\n".join(lines)


def print_tables(tally, cases, seconds, arguments):
    failed = collections.Counter()
    print(f"\n{cases} cases of seed {arguments.seed} in {seconds:.0f} s: {sum(tally.judged.values())} results judged, "
          f"{tally.elements} numbers; {len(tally.failures)} do not hold.\n")
    print("| op, arithmetic | judged | hold | used | violated | improbable | void | undecided | not checked |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|--:|")
    for name in sorted(tally.judged):
        of = tally.statuses[name]
        holds = sum(of[one] for one in of if one not in FAILURES and one != "not checked")
        cells = [of[one] or "" for one in (*FAILURES[:3], "undecided", "not checked")]
        print(f"| `{name}` | {tally.judged[name]} | {holds} | {tally.used[name]:.2f} | " + " | ".join(map(str, cells)) + " |")
    print("\n| not judged | times | why |\n|---|--:|---|")
    for (name, reason), count in tally.not_judged.most_common():
        print(f"| `{name}` | {count} | {reason} |")
    if tally.refused:
        print("\nPyTorch itself refused:", sum(tally.refused.values()), "cases")
        for what, count in tally.refused.most_common(20):
            print("   ", count, what)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=6000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--kinds", type=lambda text: text.split(","), default=[], help=", ".join(OPS))
    parser.add_argument("--types", type=lambda text: text.split(","), default=list(TYPES))
    parser.add_argument("--keep", type=pathlib.Path)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--failures", type=int, default=40, help="how many to print of an op")
    parser.add_argument("--failure-probability", default="1e-9")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    tally, began = Tally(), time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        place = arguments.keep or pathlib.Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        for first in range(arguments.first, arguments.first + arguments.cases, A_RECORDING):
            numbers = range(first, min(first + A_RECORDING, arguments.first + arguments.cases))
            path = place / f"cases{first}.safetensors"
            before = len(tally.failures)
            run(numbers, path, arguments, tally)
            shown = collections.Counter(failure[1] for failure in tally.failures[:before])
            for _, name, _, text in tally.failures[before:]:
                shown[name] += 1
                if shown[name] <= arguments.failures:
                    print(text, flush=True)
    print_tables(tally, arguments.cases, time.monotonic() - began, arguments)
    return 1 if tally.failures else 0


if __name__ == "__main__":
    sys.exit(main())
