#!/usr/bin/env python3
"""How far float32 functions of PyTorch and JAX are off, at every float32 number: the data of docs/functions.md.

  python3 scripts/measure_functions.py [--device cuda|cpu] [--libraries pytorch,jax] [--functions tanh,erf,...] [--every N]

Needs PyTorch, which has f(x) too: float64's on that device, within 2 ulp of it. For each function the largest
|y - f(x)| / (u |f(x)| + eta), u = 2^-24, eta = 2^-150, of all x, and of normal x and f(x); where; and numbers that come
out infinite or NaN where f(x) is in range. On an H200 all of them take a minute.
"""
import argparse
import math
import os
import sys

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
import torch

U, ETA = 2.0**-24, 2.0**-150
NORMAL, LARGEST = 2.0**-126, (2 - 2.0**-24) * 2.0**127  # beyond it rounds to infinity
CHUNK = 2**26
DEVICE = "cuda"
POWERS = (2.5, 0.3125, -1.75, 3.0, 17.0, 0.5, -0.5, -1.0, -2.0)


def softplus(x):
    return torch.clamp(x, min=0) + torch.log1p(torch.exp(-torch.abs(x)))


def gelu(x):
    return 0.5 * x * torch.erfc(-x * math.sqrt(0.5))


EXACT = {
    "exp": torch.exp, "expm1": torch.expm1, "log": torch.log, "log1p": torch.log1p, "tanh": torch.tanh,
    "sigmoid": torch.sigmoid, "softplus": softplus, "sin": torch.sin, "cos": torch.cos, "erf": torch.erf,
    "sqrt": torch.sqrt, "tan": torch.tan, "atan": torch.atan, "sinh": torch.sinh, "cosh": torch.cosh,
    **{f"pow {p}": (lambda x, p=p: torch.pow(x, p)) for p in POWERS},
}


def of_pytorch():
    functions = dict(EXACT)
    functions["softplus"] = torch.nn.functional.softplus
    return functions


def of_jax():
    import jax
    import jax.numpy as jnp

    def run(function):
        compiled = jax.jit(function)
        return lambda x: torch.from_dlpack(jax.block_until_ready(compiled(jax.dlpack.from_dlpack(x))))

    special = {"sigmoid": jax.nn.sigmoid, "softplus": jax.nn.softplus, "erf": jax.lax.erf, "atan": jnp.arctan}
    names = [name for name in EXACT if not name.startswith("pow")]
    functions = {name: run(special.get(name) or getattr(jnp, name)) for name in names}
    return functions | {f"pow {p}": run(lambda x, p=p: jnp.power(x, jnp.float32(p))) for p in POWERS}


class Largest:
    def __init__(self):
        self.value, self.at = 0.0, float("nan")

    def add(self, values, x):
        value, index = torch.max(values, 0)
        if value.item() > self.value:
            self.value, self.at = value.item(), x[index].item()

    def __str__(self):
        return f"{self.value:.4f} at {self.at.hex() if math.isfinite(self.at) else self.at}"


def measure(function, exact, every):
    whole, normal, lost, lost_at = Largest(), Largest(), 0, float("nan")
    for first in range(-(2**31), 2**31, CHUNK * every):
        bits = torch.arange(first, min(first + CHUNK * every, 2**31), every, device=DEVICE, dtype=torch.int64)
        x = bits.to(torch.int32).view(torch.float32)
        x = x[torch.isfinite(x)].contiguous()
        if x.numel() == 0:
            continue
        f = exact(x.double())
        y = function(x).double()
        in_range = torch.isfinite(f) & (torch.abs(f) < LARGEST)
        bad = in_range & ~torch.isfinite(y)
        if bad.any():
            lost += int(bad.sum())
            lost_at = x[bad][0].item()
        units = torch.abs(y - f) / (U * torch.abs(f) + ETA)
        units = torch.where(in_range & torch.isfinite(y), units, 0.0)
        whole.add(units, x)
        normal.add(torch.where((torch.abs(x) >= NORMAL) & (torch.abs(f) >= NORMAL), units, 0.0), x)
    return whole, normal, lost, lost_at


def measure_gelu(function, every):
    """|gelu(x) - x/2 (1 + erf)| / (|x|/2) in u: what the erf inside is off, with the roundings after it."""
    largest = Largest()
    for first in range(-(2**31), 2**31, CHUNK * every):
        bits = torch.arange(first, min(first + CHUNK * every, 2**31), every, device=DEVICE, dtype=torch.int64)
        x = bits.to(torch.int32).view(torch.float32)
        x = x[torch.isfinite(x) & (torch.abs(x) >= 2.0**-100) & (torch.abs(x) <= 2.0**100)].contiguous()
        if x.numel() == 0:
            continue
        x64 = x.double()
        largest.add(torch.abs(function(x).double() - gelu(x64)) / (0.5 * torch.abs(x64)) / U, x)
    return largest


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--libraries", default="pytorch,jax")
    parser.add_argument("--functions", default=",".join(EXACT))
    parser.add_argument("--every", type=int, default=1)
    options = parser.parse_args()
    global DEVICE, CHUNK
    DEVICE = options.device
    if DEVICE == "cpu":
        CHUNK = 2**22
    elif not torch.cuda.is_available():
        print("measure_functions: PyTorch finds no GPU", file=sys.stderr)
        return 4
    name = "CPU" if DEVICE == "cpu" else torch.cuda.get_device_name()
    print(f"{name}, PyTorch {torch.__version__}, CUDA {torch.version.cuda}, every {options.every}")
    makers = {"pytorch": of_pytorch, "jax": of_jax}
    for library in options.libraries.split(","):
        try:
            functions = makers[library]()
            if library == "jax":
                import jax
                print(f"JAX {jax.__version__} on {jax.devices()[0]}")
        except Exception as error:  # a library that is not there leaves the others
            print(f"{library}: not measured: {error}")
            continue
        for name in options.functions.split(","):
            try:
                whole, normal, lost, lost_at = measure(functions[name], EXACT[name], options.every)
            except Exception as error:
                print(f"{library:8s} {name:10s} not measured: {error}", flush=True)
                continue
            more = f"; {lost} not finite, one at {float(lost_at).hex()}" if lost else ""
            print(f"{library:8s} {name:10s} {whole}; normal {normal}{more}", flush=True)
    if "pytorch" in options.libraries:
        largest = measure_gelu(torch.nn.functional.gelu, options.every)
        print(f"pytorch  erf inside GELU: {largest} (absolute, in u)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
