#!/usr/bin/env python3
"""Tolerances of public tests beside those of driftbound: what honest kernels do, and which planted faults pass.

  python3 scripts/tolerance_questions.py [--only NAME,...]

Needs numpy and the program (the variable DRIFTBOUND, or build/*/driftbound). Makes the figures of "Questions that
people ask" in docs/tolerances.md. Every question has operands of a stated shape, the criterion of the public test, the
results of honest kernels and of kernels with a planted fault. Prints what `driftbound tolerance` says (proven, at
chance, estimate), then for every kernel its largest error next to the exact result, whether the public test passes it,
and whether it stays within our tolerance at chance. Formats are emulated: every rounding is to nearest, ties to even.
Takes four minutes on two cores.
"""
import argparse
import pathlib
import sys

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "python"))

import driftbound
from driftbound.report import options_of

f32, f16 = np.float32, np.float16
draw = np.random.default_rng(38)


# ---- formats and kernels

def cut(x, bits):
    """float32 numbers rounded to `bits` bits of fraction."""
    i = np.asarray(x, f32).view(np.uint32).astype(np.uint64)
    drop = 23 - bits
    i = (i + (1 << (drop - 1)) - 1 + ((i >> drop) & 1)) >> drop << drop
    return i.astype(np.uint32).view(f32)


def bf16(x):
    return cut(x, 7)


def same(x):
    return x


def tf32(x):
    return cut(x, 10)


def half(x):
    return np.asarray(x, f16).astype(f32)


def normal(*shape):
    return draw.standard_normal(shape)


def uniform(*shape):
    return draw.uniform(-1.0, 1.0, shape)


def exact(a, b):
    return a.astype(np.float64) @ b.astype(np.float64)


def summed(a, b, rounded=f32):
    """One term after the other, each sum rounded."""
    total = np.zeros((a.shape[0], b.shape[1]), f32)
    for i in range(a.shape[1]):
        total = np.asarray(rounded(total + (a[:, i:i + 1] * b[i:i + 1]).astype(f32)), f32)
    return total


def paired(a, b):
    """Neighbours first, as a tree."""
    terms = (a[:, :, None] * b[None]).astype(f32)
    while terms.shape[1] > 1:
        if terms.shape[1] % 2:
            terms = np.concatenate([terms, np.zeros_like(terms[:, :1])], 1)
        terms = terms[:, 0::2] + terms[:, 1::2]
    return terms[:, 0]


def without_last(a, b):
    return (a[:, :-1].astype(np.float64) @ b[:-1].astype(np.float64)).astype(f32)


# ---- criteria

def close(atol, rtol):
    return lambda got, want: bool(np.all(np.abs(got - want) <= atol + rtol * np.abs(want)))


def cosine_below(limit):
    return lambda x, y: 1.0 - 2.0 * np.sum(x * y) / np.sum(x * x + y * y) < limit


def mean_square_below(limit):
    return lambda got, want: np.sum((want - got) ** 2) / np.sum(want ** 2) <= limit


def rms(x, w, epsilon=1e-6, dtype=f32):
    x, w = x.astype(dtype), w.astype(dtype)
    return x / np.sqrt(np.mean(x * x, -1, keepdims=True, dtype=dtype) + dtype(epsilon)) * w


QUESTIONS = {}


def question(of):
    QUESTIONS[of.__name__] = of
    return of


def corner(a, b, rows=64, columns=16):
    """Some rows and columns of a product, those of the largest result among them: operands for driftbound."""
    row, column = np.unravel_index(np.argmax(np.abs(a @ b)), (a.shape[0], b.shape[1]))
    return [np.concatenate([a[:rows - 1], a[row:row + 1]]),
            np.concatenate([b[:, :columns - 1], b[:, column:column + 1]], 1)]


class Kernels:
    """Kernels under the criterion of a public test and under a tolerance of ours."""

    def __init__(self, exact_result, passes, reference=None):
        self.exact, self.passes = exact_result, passes
        self.reference = np.asarray(exact_result if reference is None else reference, np.float64)

    def ours(self, op, *operands, **options):
        name = " ".join([op] + options_of({k.rstrip("_"): v for k, v in options.items()}))
        parts = driftbound.tolerance(op, *operands, threads=0, **options).parts
        tolerance = [part for part in parts if part.device is None][-1]
        print(f"  {name}{' --data ...' if operands else ''}: proven {tolerance.proven:.2g}, "
              f"at chance {tolerance.by_chance:.2g}, "
              f"estimate {'-' if tolerance.estimate is None else format(tolerance.estimate, '.2g')}, "
              f"largest result {tolerance.largest_result:.3g}")
        self.tolerance = tolerance.by_chance
        return self

    def judge(self, name, got, passes=None):
        got = np.asarray(got, np.float64)
        error = np.abs(got - self.exact)
        beyond = np.count_nonzero(error > self.tolerance)
        theirs = (passes or self.passes)(got, self.reference)
        print(f"    {name}: error {error.max():.2g}; theirs {'passes' if theirs else 'FAILS'}; ours "
              f"{f'FAILS, {beyond} of {error.size}' if beyond else 'passes'}")


# ---- questions

@question
def triton():
    """triton-lang/triton#3228, #5283: float16, 512 x 512 x 512, atol 1e-2"""
    a, b = half(normal(512, 512)), half(normal(512, 512))
    one = half(a @ b)
    kernels = Kernels(exact(a, b), close(1e-2, 0), one).ours("gemm", *corner(a, b), in_="fp16", out="fp16")
    apart = np.abs(half(summed(a, b)) - one)
    print(f"    {np.count_nonzero(apart)} of {one.size} results differ by order, by up to {apart.max():.2g}; "
          f"{np.count_nonzero(apart > 1e-2)} by more than 1e-2")
    kernels.judge("honest, other order", half(summed(a, b)))
    kernels.judge("honest, other order, atol 1e-1", half(summed(a, b)), close(1e-1, 0))
    kernels.judge("last term left out, atol 1e-1", half(without_last(a, b)), close(1e-1, 0))
    kernels.judge("sum in fp16, atol 1e-1", summed(a, b, half), close(1e-1, 0))


@question
def assert_close():
    """torch.testing.assert_close, TransformerEngine dtype_tols: float32, k = 4096, atol 1e-5, rtol 1.3e-6"""
    a, b = normal(64, 4096).astype(f32), normal(4096, 16).astype(f32)
    kernels = Kernels(exact(a, b), close(1e-5, 1.3e-6)).ours("gemm", a, b)
    kernels.judge("honest, in turn", summed(a, b))
    kernels.judge("honest, a tree", paired(a, b))
    kernels.judge("TF32", tf32(a) @ tf32(b))
    kernels.judge("last term left out", without_last(a, b))
    a, b = bf16(a), bf16(b)
    kernels = Kernels(exact(a, b), close(1e-5, 1.6e-2), bf16(a @ b)).ours("gemm", a, b, in_="bf16", out="bf16")
    kernels.judge("honest, bfloat16, rtol 1.6e-2", bf16(summed(a, b)))
    kernels.judge("sum in bf16, rtol 1.6e-2", summed(a, b, bf16))


@question
def jax_check_grads():
    """jax-ml/jax check_grads: float32, 64 x 64 x 64, both tolerances 2e-3 times the number of elements"""
    a, b = normal(64, 64).astype(f32), normal(64, 64).astype(f32)
    kernels = Kernels(exact(a, b), close(2e-3 * 4096, 2e-3 * 4096)).ours("gemm", a, b)
    kernels.judge("honest, in turn", summed(a, b))
    kernels.judge("all zeros", np.zeros((64, 64)))


@question
def hipkittens():
    """HazyResearch/HipKittens#64: bfloat16, k = 4096, rtol 1e-2, then atol 1e-1 too"""
    a, b = bf16(normal(256, 4096)), bf16(normal(4096, 256))
    one = bf16(a @ b)
    kernels = Kernels(exact(a, b), close(1e-1, 1e-2)).ours("gemm", *corner(a, b), in_="bf16", out="bf16")
    other = bf16(summed(a, b))
    refused = np.abs(other - one) > 1e-5 + 1.6e-2 * np.abs(one)
    print(f"    honest, 1e-5 + 1.6e-2 |y|: {np.count_nonzero(refused)} refused")
    kernels.judge("honest, rtol alone, next to another honest kernel", other,
                  lambda got, want: close(0, 1e-2)(got, one))
    kernels.judge("honest", other)
    kernels.judge("sum in bf16", summed(a, b, bf16))
    kernels.judge("last term left out", bf16(without_last(a, b)))


@question
def iree():
    """iree-org/iree-test-suites#138: float32, k = 64 within 1, with a bias, atol 1e-8, then 1e-5, rtol 1e-5"""
    a, b, c = uniform(256, 64).astype(f32), uniform(64, 256).astype(f32), uniform(256).astype(f32)
    kernels = Kernels(exact(a, b) + c, close(1e-5, 1e-5)).ours("gemm", a, b, c, bias=True)
    kernels.judge("honest, atol 1e-8", summed(a, b) + c, close(1e-8, 1e-5))
    kernels.judge("honest", summed(a, b) + c)
    kernels.judge("TF32", tf32(a) @ tf32(b) + c)
    kernels.judge("last term left out", without_last(a, b) + c)


@question
def rocm_conv():
    """ROCm/rocm-libraries#9504 and #4620: float32 convolution, k = 432 within 1"""
    x, w = uniform(4096, 432).astype(f32), uniform(432, 64).astype(f32)
    kernels = Kernels(exact(x, w), close(5e-5, 1e-5), x @ w).ours("conv", *corner(x, w))
    n = 2 * 432 * 2.0 ** -23
    wide = n / (1 - n) * 432
    kernels.judge("honest, atol 1e-5", summed(x, w), close(1e-5, 1e-5))
    kernels.judge("honest", summed(x, w))
    kernels.judge("TF32", tf32(x) @ tf32(w))
    print(f"  any data within 1: {driftbound.tolerance('conv', k=432).parts[0].proven:.2g}; #4620: {wide:.2g}")
    kernels.judge("TF32, formula of #4620", tf32(x) @ tf32(w), close(wide, 0))


@question
def mlx():
    """ml-explore/mlx#3860: float32, k = 512; 2.9e-4 relative in the Frobenius norm"""
    a, b = normal(64, 512).astype(f32), normal(512, 64).astype(f32)
    y = exact(a, b)
    for options, name, got in (({}, "float32", summed(a, b)), ({}, "TF32", tf32(a) @ tf32(b)),
                               ({"in_": "tf32"}, "TF32", tf32(a) @ tf32(b))):
        Kernels(y, lambda got, want: np.linalg.norm(got - want) <= 1e-6 * np.linalg.norm(want)).ours(
            "gemm", a, b, **options).judge(name, got)
        print(f"    relative in the Frobenius norm {np.linalg.norm(got - y) / np.linalg.norm(y):.2g}")


@question
def deep_gemm():
    """deepseek-ai/DeepGEMM calc_diff: bfloat16, 512 x 512 x 4096, below 1e-5"""
    a, b = bf16(normal(512, 4096)), bf16(normal(4096, 512))
    one = bf16(a @ b)
    kernels = Kernels(exact(a, b), cosine_below(1e-5), one).ours("gemm", *corner(a, b), in_="bf16", out="bf16")
    kernels.judge("honest", bf16(summed(a, b)))
    wrong = one.copy()
    wrong[0, 0] *= -1
    kernels.judge("one element with the other sign", wrong)
    kernels.judge("last term left out", bf16(without_last(a, b)))
    kernels.judge("sum in bf16", summed(a, b, bf16))


@question
def llama():
    """ggml-org/llama.cpp#16544: float32 product, 16 x 1 x 256 within 1, mean square of the error 5e-4 of the result"""
    a, b = uniform(16, 256).astype(f32), uniform(256, 1).astype(f32)
    kernels = Kernels(exact(a, b), mean_square_below(5e-4)).ours("gemm", a, b)
    kernels.judge("honest", summed(a, b))
    kernels.judge("TF32", tf32(a) @ tf32(b))
    kernels.judge("operands and result in bf16", bf16(bf16(a) @ bf16(b)))
    kernels.judge("last term left out", without_last(a, b))


@question
def flash_attention():
    """Dao-AILab/flash-attention: bfloat16, 512 keys of 64, twice the error of a kernel that stores every step"""
    q, k, v = (bf16(normal(64, n, 64)) for n in (16, 512, 512))

    def attention(q, k, v, store=same, weights=bf16, scale=0.125, keys=512, dtype=f32):
        q, k, v = (x.astype(dtype) for x in (q, k, v))
        s = store(store(q * dtype(scale)) @ k[:, :keys].transpose(0, 2, 1))
        p = np.exp(s - s.max(-1, keepdims=True))
        p, total = (store(p / p.sum(-1, keepdims=True)), 1) if store is bf16 else (p, p.sum(-1, keepdims=True))
        return weights(p) @ v[:, :keys] / total

    y = attention(q, k, v, weights=same, dtype=np.float64)
    unfused = bf16(attention(q, k, v, store=bf16))
    allowed = 2 * np.max(np.abs(unfused - y))
    print(f"  allowed {allowed:.2g}")
    formats = dict(in_="bf16", out="bf16")
    kernels = Kernels(y, lambda got, want: np.max(np.abs(got - want)) <= allowed)
    kernels.ours("attention", k=64, keys=512, stored_inside=True, **formats).judge("honest, stored inside", unfused)
    some = np.argsort(-np.abs(y).max((1, 2)))[:8]  # heads with the largest results
    kernels.ours("attention", *(x[None, some] for x in (q, k, v)), **formats)
    kernels.judge("honest, fused", bf16(attention(q, k, v)))
    kernels.judge("scale 0.1252 for 0.125", bf16(attention(q, k, v, scale=0.1252)))
    kernels.judge("scale 1 / sqrt(65)", bf16(attention(q, k, v, scale=65 ** -0.5)))
    kernels.judge("last key left out", bf16(attention(q, k, v, keys=511)))


@question
def rocm_attention():
    """ROCm/rocm-libraries#7032: float32 attention, 512 keys of 64, a formula in the largest magnitudes"""
    q, k, v = (normal(1, 1, n, 64).astype(f32) for n in (64, 512, 512))
    u = 2.0 ** -24
    most = [np.max(np.abs(x)) for x in (q, k, v)]
    wide = most[2] * (0.125 * 64 * most[0] * most[1] * 65 * u + 512 * u + 513 * u + 512 * u)

    def attention(q, k, v, dtype=f32, keys=512):
        q, k, v = (x.astype(dtype) for x in (q, k, v))
        s = q @ k[:, :, :keys].transpose(0, 1, 3, 2) * dtype(0.125)
        p = np.exp(s - s.max(-1, keepdims=True))
        return p / p.sum(-1, keepdims=True) @ v[:, :, :keys]

    print(f"  formula of #7032: {wide:.2g}")
    kernels = Kernels(attention(q, k, v, np.float64), close(wide, 0)).ours("attention", q, k, v)
    kernels.judge("honest", attention(q, k, v))
    kernels.judge("TF32", attention(tf32(q), tf32(k), tf32(v)))
    kernels.judge("last key left out", attention(q, k, v, keys=511))


@question
def vllm_rms_norm():
    """vllm-project/vllm test_layernorm.py: bfloat16, k = 8192, data of 1 / (2 k), atol = rtol = 1e-2"""
    w = bf16(1 + 0.1 * normal(8192))
    for scale in (1 / 16384, 1.0):
        x = bf16(bf16(normal(32, 8192)) * f32(scale))
        print(f"  data of standard deviation {scale:.2g}")
        kernels = Kernels(rms(x, w, dtype=np.float64), close(1e-2, 1e-2)).ours("rmsnorm", x, w, in_="bf16", out="bf16")
        kernels.judge("honest", bf16(rms(x, w)))
        kernels.judge("no mean square, x / sqrt(epsilon)", bf16(x / f32(1e-3) * w))
        kernels.judge("epsilon 1e-5 for 1e-6", bf16(rms(x, w, 1e-5)))


@question
def liger():
    """linkedin/Liger-Kernel test_rms_norm.py: bfloat16, 2 x 128 rows of 512, atol 5, rtol 1e-5"""
    x, w = bf16(normal(256, 512)), np.ones(512, f32)
    kernels = Kernels(rms(x, w, dtype=np.float64), close(5.0, 1e-5)).ours("rmsnorm", x, w, in_="bf16", out="bf16")
    kernels.judge("honest", bf16(rms(x, w)))
    kernels.judge("all zeros", 0 * x)


@question
def sglang():
    """sgl-project/sglang#35795: bfloat16 layer norm, k = 128, scale of standard deviation 8, atol 0.06"""
    x, w = bf16(normal(512, 128)), bf16(8 * normal(128))

    def norm(x, epsilon=1e-5, dtype=f32):
        d = x.astype(dtype) - x.astype(dtype).mean(-1, keepdims=True)
        return d / np.sqrt((d * d).mean(-1, keepdims=True) + dtype(epsilon)) * w

    kernels = Kernels(norm(x, dtype=np.float64), close(0.06, 0)).ours("layernorm", x, w, in_="bf16", out="bf16")
    kernels.judge("honest", bf16(norm(x)))
    kernels.judge("honest, rtol 2^-8", bf16(norm(x)), close(1e-5, 2.0 ** -8))
    kernels.judge("epsilon 1e-2 for 1e-5, rtol 2^-8", bf16(norm(x, 1e-2)), close(1e-5, 2.0 ** -8))


@question
def vllm_silu():
    """vllm-project/vllm test_activation.py: bfloat16 silu(x) y, equal"""
    x = bf16(normal(256, 1024))
    gate, up = x[:, :512], x[:, 512:]
    silu = lambda x: x / (1 + np.exp(-x))
    twice, once = bf16(bf16(silu(gate)) * up), bf16(silu(gate) * up)
    formats = dict(in_="bf16", out="bf16")
    kernels = Kernels(silu(gate.astype(np.float64)) * up, close(0, 0), twice)
    kernels.ours("silu-and-mul", x, stored_inside=True, **formats).judge("honest, two roundings", twice)
    kernels.ours("silu-and-mul", x, **formats).judge("honest, one rounding", once)
    print(f"    {np.count_nonzero(once != twice)} of {once.size} results differ")


@question
def vllm_rotary():
    """vllm-project/vllm test_pos_encoding.py: bfloat16, heads of 64, atol 1e-3, rtol 1.6e-2"""
    x = bf16(normal(1, 1, 1024, 64))
    angle = np.arange(1024)[:, None] * 10000.0 ** (-np.arange(32) / 32)
    c, s = bf16(np.cos(angle)), bf16(np.sin(angle))

    def turned(r=same, dtype=f32):
        a, b = x[0, 0, :, :32].astype(dtype), x[0, 0, :, 32:].astype(dtype)
        return np.concatenate([r(r(a * c) - r(b * s)), r(r(b * c) + r(a * s))], 1)

    thrice, once = turned(bf16), bf16(turned())
    formats = dict(in_="bf16", out="bf16")
    kernels = Kernels(turned(dtype=np.float64), close(1e-3, 1.6e-2), thrice)
    kernels.ours("rotary", x, c[None], s[None], stored_inside=True, **formats).judge("honest, three roundings", thrice)
    kernels.ours("rotary", x, c[None], s[None], **formats).judge("honest, one rounding", once)


@question
def spyre():
    """torch-spyre/torch-spyre#4496: float16 sum over 8 ranks, atol one ulp of the largest result"""
    x = half(normal(4096, 8) * 512)
    y = x.astype(np.float64).sum(1)
    ulp = 2.0 ** (np.floor(np.log2(np.abs(y).max())) - 10)
    print(f"  atol {ulp}")
    in_half = np.zeros(4096, f32)
    for rank in range(8):
        in_half = half(in_half + x[:, rank])
    kernels = Kernels(y, close(ulp, 0))
    kernels.ours("all-reduce", x, in_="fp16", out="fp16").judge("honest, sums in fp32", half(x.sum(1)))
    kernels.ours("all-reduce", x, in_="fp16", acc="fp16", out="fp16").judge("honest, sums in fp16", in_half)
    kernels.judge("last rank left out", half(x[:, :7].sum(1)))


@question
def mxfp():
    """triton-lang/triton#6633: products of block-scaled fp8, sums and result in float32, k = 128: 1e-4 or 1e-2"""
    scales = 2.0 ** draw.integers(-2, 3, (4, 64))  # of blocks of 32
    a = cut(half(normal(64, 128)), 2)
    b = cut(half(normal(128, 64)), 2) * scales.repeat(32, 0).astype(f32)
    kernels = Kernels(exact(a, b), close(1e-4, 1e-4)).ours("gemm", a, b)
    kernels.judge("honest", summed(a, b))
    kernels.judge("result in bf16, 1e-2", bf16(a @ b), close(1e-2, 1e-2))
    kernels.judge("result in bf16, 1e-4", bf16(a @ b))
    kernels.judge("last term left out, 1e-2", without_last(a, b), close(1e-2, 1e-2))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="names of questions, separated by commas")
    only = [name for name in parser.parse_args().only.split(",") if name]
    unknown = sorted(set(only) - set(QUESTIONS))
    if unknown:
        parser.error(f"there is no question {', '.join(unknown)}; there are: {', '.join(QUESTIONS)}")
    for name, ask in QUESTIONS.items():
        if not only or name in only:
            global draw
            draw = np.random.default_rng(38)
            print(f"{name}: {ask.__doc__}", flush=True)
            ask()


if __name__ == "__main__":
    main()
