#!/usr/bin/env python3
"""Searches the kernels of recorded products that another program made.

    scripts/explain_campaign.py [--driftbound build/dev/driftbound] [--cases 24] [--seed 1]

Products are computed here, by a model of matrix units in numpy that shares no code with the library, and written as
recordings op by op; report --explain-kernels has to name the kernel. Groups: units of all generations with float32
results; the same with results stored in bf16 or fp16; several batches; a chain that starts from the bias; units that the
family does not have, and uneven slices; and each kernel with one number in a thousand changed by one ulp. Prints one JSON
line a group: cases, those named as they were made, those said not to be told, those without a member, those named otherwise,
and the longest search in seconds. Exit status 1 where a kernel is named that did not make the numbers, or one of float32
results is missed. Needs numpy.
"""
import argparse
import json
import pathlib
import struct
import subprocess
import sys
import tempfile
import time

import numpy as np

UNITS = [("tf32", 8, 25), ("tf32", 4, 24), ("bf16", 16, 25), ("bf16", 8, 24), ("fp16", 16, 25), ("fp16", 8, 24), ("fp16", 4, 23)]
UNKNOWN = [("tf32", 12, 25), ("tf32", 8, 26), ("tf32", 8, 21), ("bf16", 16, 22), ("bf16", 24, 25)]
BITS = {"tf32": 11, "bf16": 8}
TYPES = {"float32": "F32", "bf16": "BF16", "fp16": "F16"}


def rounded(x, operands):
    """To nearest even, as float64."""
    if operands == "float32":
        return x.astype(np.float32).astype(np.float64)
    if operands == "fp16":
        return x.astype(np.float16).astype(np.float64)
    fraction, exponent = np.frexp(x.astype(np.float64))
    return np.ldexp(np.rint(np.ldexp(fraction, BITS[operands])), exponent - BITS[operands])


def exponents(x, of_zero, lowest=-1074):
    return np.where(x == 0, of_zero, np.maximum(np.frexp(x)[1] - 1, lowest))


def unit_sum(x, w, operands, block, bits, start):
    """Steps of a unit: addends are aligned to the largest exponent, cut `bits` behind it, and so is the sum to float32."""
    lowest = -14 if operands == "fp16" else -126  # the exponent of subnormal numbers
    total = np.broadcast_to(np.asarray(start, np.float64), (x.shape[0], w.shape[1]))
    for first in range(0, x.shape[1], block):
        a, b = x[:, first:first + block, None], w[None, first:first + block]
        products = a * b
        largest = np.maximum(np.where(products == 0, -252, exponents(a, -126, lowest) + exponents(b, -126, lowest)).max(axis=1),
                             exponents(total, -252))
        step = np.trunc(np.ldexp(products, (bits - largest)[:, None])).sum(axis=1) + np.trunc(np.ldexp(total, bits - largest))
        fraction, exponent = np.frexp(np.ldexp(step, largest - bits))
        total = np.ldexp(np.trunc(np.ldexp(fraction, 24)), exponent - 24)
    return total.astype(np.float32)


def in_slices(k, run):
    return [slice(first, min(first + run, k)) for first in range(0, k, run)]


def write(file, values, types, op):
    """One record: op(x, w[, b]) = y."""
    head, data, shapes = {}, b"", {}
    for name, value in values.items():
        kind = TYPES[types.get(name, "float32")]
        value = np.ascontiguousarray(value, np.float32)
        if kind == "F16":
            raw = value.astype(np.float16).tobytes()
        else:
            raw = value.tobytes() if kind == "F32" else (value.view(np.uint32) >> 16).astype(np.uint16).tobytes()
        head["value/" + name] = {"dtype": kind, "shape": list(value.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        shapes[name] = {"type": kind, "shape": list(value.shape)}
        data += raw
    record = {"op": op, "operands": [name for name in values if name != "y"], "results": ["y"], "attributes": {}, "name": "p"}
    about = {"driftbound.trace": "2", "run": "ab", "shard": "0", "last": "true", "records": json.dumps([record]),
             "values": json.dumps(shapes)}
    text = json.dumps({"__metadata__": about, **head}).encode()
    text += b" " * (-len(text) % 8)
    file.write_bytes(struct.pack("<Q", len(text)) + text + data)


def with_changes(y, random, stored):
    """One number in a thousand, one at least, goes to its neighbour in the format it is stored in."""
    changed = np.ascontiguousarray(y, np.float32).copy()
    flat = changed.reshape(-1)
    at = random.choice(flat.size, max(1, flat.size // 1000), replace=False)
    bits = {"float32": 0, "fp16": 13, "bf16": 16}[stored]
    flat.view(np.uint32)[at] ^= np.uint32(1 << bits)
    return changed


def made(group, random):
    """A recording: values, their types, its op, and the kernel that made it."""
    operands, block, bits = (UNKNOWN if group == "outside" else UNITS)[random.integers(5 if group == "outside" else len(UNITS))]
    k = int(random.choice([64, 200, 512, 1024, 2048] if group != "float32" else [64, 200, 1024, 2048, 8192]))
    rows = columns = 128 if group == "narrow" else 24
    if group == "narrow":
        operands, k = ("fp16" if operands == "fp16" else "bf16"), min(k, 1024)
        block, bits = (16, 25) if random.integers(2) else (8, 24)
    batches = int(random.integers(2, 7)) if group == "batches" else 1
    slices = int(random.choice([1, 1, 2, 4]))
    run = -(-k // slices // 128) * 128 if slices > 1 else k
    parts = in_slices(k, max(run, block))
    if group == "outside" and random.integers(2):
        (operands, block, bits), cut = UNITS[0], k // 3 // 8 * 8 + 8
        parts = [slice(0, cut), slice(cut, cut + 8), slice(cut + 8, k)]
    bias = random.normal(size=columns).astype(np.float32) if group == "bias" else None
    if bias is not None:
        parts = [slice(0, k)]
    x = rounded(random.normal(size=(batches, rows, k)), "float32")
    w = rounded(random.normal(size=(batches, k, columns)) / np.sqrt(k), "float32")
    stored = operands if group == "narrow" else "float32"
    if group == "narrow":
        x, w = rounded(x, stored), rounded(w, stored)
    results = []
    for one in range(batches):
        a, b, total = rounded(x[one], operands), rounded(w[one], operands), None
        for part in parts:
            sums = unit_sum(a[:, part], b[part], operands, block, bits, 0.0 if bias is None else bias)
            total = sums if total is None else total + sums
        results.append(rounded(total, stored).astype(np.float32))
    values = {"x": x if batches > 1 else x[0], "w": w if batches > 1 else w[0]}
    if bias is not None:
        values["b"] = bias
    values["y"] = np.array(results) if batches > 1 else results[0]
    kernel = {"operands": operands, "block": block, "fraction_bits": bits, "slices": len(parts),
              "addend": "last" if bias is None else "start of the chain"}
    op = "aten::bmm" if batches > 1 else "MatMul" if bias is None else "Gemm"
    return values, {name: stored for name in values}, op, kernel


def is_named(found, kernel):
    """Whether the kernel found, or one that gives the same numbers, is the one that made them."""
    unit = f"{kernel['operands']} unit, block {kernel['block']}, F {kernel['fraction_bits']}, "
    ways = [found["text"], *found["alike"]]
    cut = "in one chain" if kernel["slices"] == 1 else f"K in {kernel['slices']} slices"
    return any(way.startswith(unit + cut) for way in ways) and found["addend"] == kernel["addend"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--driftbound", type=pathlib.Path, default=pathlib.Path("build/dev/driftbound"))
    parser.add_argument("--cases", type=int, default=24)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    failed = False
    for group in ("float32", "narrow", "batches", "bias", "outside"):
        for is_changed in (False, True):
            random = np.random.default_rng([options.seed, len(group), ord(group[0]), int(is_changed)])
            counts = {"cases": options.cases, "named": 0, "does not tell": 0, "no member": 0, "named otherwise": 0}
            longest = 0.0
            for _ in range(options.cases):
                values, types, op, kernel = made(group, random)
                if is_changed:
                    values["y"] = with_changes(values["y"], random, types["y"])
                with tempfile.TemporaryDirectory() as folder:
                    file, out = pathlib.Path(folder) / "run.safetensors", pathlib.Path(folder) / "report.json"
                    write(file, values, types, op)
                    start = time.monotonic()
                    subprocess.run([options.driftbound, "report", file, "--explain-kernels", "--bounds", "componentwise", "--fail-on",
                                    "never", "--quiet", "--json", out], check=True, capture_output=True)
                    longest = max(longest, time.monotonic() - start)
                    found = json.loads(out.read_text())["layers"][0]["kernel"]
                if found is None:
                    what = "no member"
                elif not found["tells"]:
                    what = "does not tell"
                else:
                    what = "named" if is_named(found, kernel) and not is_changed and group != "outside" else "named otherwise"
                counts[what] += 1
                if what == "named otherwise" or (what == "no member" and not is_changed and group != "outside"):
                    print(group, kernel, found and found["text"], file=sys.stderr)
            missed = 0 if is_changed or group == "outside" else counts["no member"]
            told = group in ("narrow", "outside") or is_changed or counts["does not tell"] == 0
            failed = failed or counts["named otherwise"] > 0 or missed > 0 or not told
            print(json.dumps({"group": group, "one number in a thousand changed": is_changed, **counts,
                              "longest, seconds": round(longest, 1)}), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
