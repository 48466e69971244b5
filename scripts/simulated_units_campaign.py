#!/usr/bin/env python3
"""Judges products of simulated matrix units by the bounds of the units that are declared.

    scripts/simulated_units_campaign.py [--driftbound build/dev/driftbound] [--rows 512] [--columns 512] [--seed 1]

Every case is a Gemm of one length, run with --backend sim and judged by report: normal, positive, cancelling and widely
spread data, and data at which units lose most (a large product, then products just below what the unit keeps). Prints one
JSON line a case and a sum: outputs, violations, and the largest share of a bound that an error uses. Exit status 1 where
a bound is exceeded or nothing comes near one. Needs numpy and onnx.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FRACTION_BITS = {"v100": 23, "a100": 24, "h100": 25, "b200": 25}
CASES = [("v100", "fp16", ""), ("a100", "tf32", ""), ("a100", "bf16", ""), ("h100", "tf32", ""), ("h100", "tf32", "split-k:4"),
         ("h100", "bf16", ""), ("h100", "fp16", ""), ("h100", "fp8_e4m3", ""), ("h100", "fp8_e4m3", "blocked:128"),
         ("b200", "fp8_e5m2", "")]


def data(kind, rows, columns, k, bits, random):
    """Factors x [rows, k] and w [k, columns] of one kind."""
    x, w = random.normal(size=(rows, k)), random.normal(size=(k, columns))
    if kind == "positive":
        x, w = np.abs(x), np.abs(w)
    elif kind == "cancelling":
        x[:, 1::2] = -x[:, 0:k - k % 2:2]
        w[1::2] = w[0:k - k % 2:2] * (1 + 2.0 ** -8 * random.normal(size=w[1::2].shape))
    elif kind == "spread":
        x *= 2.0 ** random.integers(-10, 11, size=x.shape)
        w *= 2.0 ** random.integers(-10, 11, size=w.shape)
    elif kind == "adversarial":
        part = 2.0 ** -(bits // 2) * (2 - 2.0 ** -6)
        x = np.full((rows, k), part) * (1 + 2.0 ** -6 * random.integers(0, 3, size=x.shape))
        w = np.full((k, columns), 2.0 ** -(bits - bits // 2) * 1.0)
        x[:, 0], w[0] = 1.0 + random.integers(0, 2, size=rows) * 2.0 ** -3, 1.0
    return x.astype(np.float32), w.astype(np.float32)


def judged(program, folder, device, arithmetic, order, x, w):
    """The report on one product."""
    k, columns = w.shape
    graph = helper.make_graph([helper.make_node("Gemm", ["x", "w"], ["y"], name="product")], "product",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["samples", k])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["samples", columns])],
                              [numpy_helper.from_array(w, "w")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    model.ir_version = 8
    onnx.save(model, folder / "product.onnx")
    np.save(folder / "x.npy", x)
    command = [program, "report", folder / "product.onnx", folder / "x.npy", "--backend", "sim", "--device", device,
               "--arithmetic", arithmetic, "--bounds", "componentwise", "--no-explain-kernels", "--json", folder / "report.json",
               "--quiet"]
    if order:
        command += ["--order", order]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode not in (0, 1):
        sys.exit(f"{device} {arithmetic}: {done.stdout}{done.stderr}")
    return json.loads((folder / "report.json").read_text())["layers"][0]["local"]


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--driftbound", default="build/dev/driftbound")
    options.add_argument("--rows", type=int, default=512)
    options.add_argument("--columns", type=int, default=512)
    options.add_argument("--seed", type=int, default=1)
    given = options.parse_args()
    random = np.random.default_rng(given.seed)
    outputs = violations = 0
    nearest = {}
    with tempfile.TemporaryDirectory() as name:
        for device, arithmetic, order in CASES:
            for kind in ("normal", "positive", "cancelling", "spread", "adversarial"):
                for k in (24, 512):
                    bits = 13 if arithmetic == "fp8_e4m3" and device == "h100" else FRACTION_BITS[device]
                    x, w = data(kind, given.rows, given.columns, k, bits, random)
                    local = judged(given.driftbound, pathlib.Path(name), device, arithmetic, order, x, w)
                    bound = next(one for one in local["bounds"] if one["name"] == "componentwise")
                    line = {"device": device, "arithmetic": arithmetic, "order": order or "sequential", "data": kind, "k": k,
                            "outputs": bound["checked"], "violations": bound["violations"],
                            "largest_share": bound["max_utilisation"]}
                    print(json.dumps(line), flush=True)
                    outputs += bound["checked"]
                    violations += bound["violations"]
                    nearest[arithmetic] = max(nearest.get(arithmetic, 0.0), bound["max_utilisation"] or 0.0)
    print(json.dumps({"outputs": outputs, "violations": violations, "largest_share": nearest, "seed": given.seed}))
    return 1 if violations or not all(share > 0.3 for share in nearest.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
