#!/usr/bin/env python3
"""How much smaller bounds are in the orders of kernels that report finds than in any order.

    scripts/found_orders.py [--driftbound build/dev/driftbound] [--widths 512,1024,2048] [--rows 16] [--seed 1]

Networks of three products with a Relu between each two, all of one width, are run by numpy's BLAS in float32, and by
simulated units (--backend sim) whose order, and whose unit's bits and block, the trace then does not declare. The runs
that tests/data/gpu recorded with cuBLAS are judged as they are. Each run is judged twice, with --explain-kernels and with
--no-explain-kernels. Prints one JSON line a run: how many products are explained, and the ratio of bounds in any order
to bounds in the orders found: of one product (median of products, each by its median bound over error), of the output from
the input on in this run (forward), and of every run (adjoint/any-order over adjoint/order-aware). Exit status 1 where a
bound is exceeded. Needs numpy and onnx.
"""
import argparse
import json
import os
import pathlib
import statistics
import struct
import subprocess
import sys
import tempfile

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

RECORDED = ["siren.fp32-cublas.b10000", "siren.fp32-cublas-pedantic.b10000", "siren.tf32-cublas.b256",
            "siren.bf16-cublas.b10000"]
SIMULATED = [("fp32", "sequential"), ("fp32", "split-k:4"), ("tf32", "sequential"), ("bf16", "split-k:4")]


def write_trace(path, tensors, metadata):
    header, blobs, offset = {"__metadata__": metadata}, [], 0
    for name, array in tensors.items():
        blob = np.ascontiguousarray(array, dtype=np.float32).tobytes()
        header[name] = {"dtype": "F32", "shape": array.shape, "data_offsets": [offset, offset + len(blob)]}
        blobs.append(blob)
        offset += len(blob)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(blobs))


def forget_order(path):
    """Leaves out what a trace declares of its order; its matrix unit becomes the weakest one that T-21 has."""
    data = path.read_bytes()
    length, = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    arithmetic = json.loads(header["__metadata__"]["arithmetic"])
    arithmetic["order"] = "unknown"
    if arithmetic.get("tensor_core"):
        arithmetic["tensor_core"] = {"fraction_bits": 23, "block": 4, "sum_bits": 23}
    header["__metadata__"]["arithmetic"] = json.dumps(arithmetic)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data[8 + length:])


def network(width, random):
    """A model, and its weights."""
    weights = [(random.normal(size=(width, width)) * np.sqrt(2.0 / width)).astype(np.float32) for _ in range(3)]
    nodes, value = [], "x"
    for i in range(3):
        nodes.append(helper.make_node("MatMul", [value, f"w{i}"], [f"product{i}"], name=f"product{i}"))
        value = f"product{i}"
        if i < 2:
            nodes.append(helper.make_node("Relu", [value], [f"relu{i}"], name=f"relu{i}"))
            value = f"relu{i}"
    graph = helper.make_graph(nodes, "network", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["samples", width])],
                              [helper.make_tensor_value_info(value, TensorProto.FLOAT, ["samples", width])],
                              [numpy_helper.from_array(w, f"w{i}") for i, w in enumerate(weights)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    model.ir_version = 8
    return model, weights


def run_of_numpy(path, x, weights):
    tensors, index, value = {"input/x": x}, 0, x
    for i, w in enumerate(weights):
        value = value @ w
        tensors[f"layer/{index}/product{i}/output"] = value
        index += 1
        if i < 2:
            value = np.maximum(value, np.float32(0))
            tensors[f"layer/{index}/relu{i}/output"] = value
            index += 1
    write_trace(path, tensors, {"driftbound.trace": "1", "provenance": json.dumps({"program": "numpy", "backend": "cpu"})})


def call(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode not in (0, 1):
        sys.exit(f"{' '.join(str(word) for word in command)}\n{done.stdout}{done.stderr}")


def judged(program, model, trace, folder, option):
    report = folder / "report.json"
    call(program, "report", model, "--trace", trace, option, "--fail-on", "never", "--json", report, "--quiet")
    return json.loads(report.read_text())


def bound_in(scope, *names):
    """The smallest of the bounds with these names, each by its median over the errors; None: there is none."""
    found = [one["median_bound_over_error"] for one in scope["bounds"]
             if one["name"] in names and isinstance(one["median_bound_over_error"], float)]
    return min(found, default=None)


def ratio(larger, smaller):
    return round(larger / smaller, 2) if larger and smaller else None


def compared(program, model, trace, folder, run):
    found = judged(program, model, trace, folder, "--explain-kernels")
    declared = judged(program, model, trace, folder, "--no-explain-kernels")
    products = [(layer, other) for layer, other in zip(found["layers"], declared["layers"]) if layer.get("kernel_search")]
    of_one = [ratio(bound_in(other["local"], "componentwise", "partial-sums"),
                    bound_in(layer["local"], "componentwise", "partial-sums", "running", "order-aware"))
              for layer, other in products]
    output, before = found["layers"][-1]["accumulated"], declared["layers"][-1]["accumulated"]
    line = {"run": run, "products in a sum": max(layer["fan_in"] for layer, _ in products), "products": len(products), "explained": sum(layer["kernel"] is not None for layer, _ in products),
            "one product": statistics.median([one for one in of_one if one] or [0.0]),
            "forward": ratio(bound_in(before, "forward"), bound_in(output, "forward")),
            "every run": ratio(bound_in(output, "adjoint/any-order"), bound_in(output, "adjoint/order-aware")),
            "violations": sum(bound["violations"] for layer in found["layers"] for scope in ("local", "accumulated")
                              for bound in layer[scope]["bounds"] if bound["guarantee"] in ("proven", "conditional")),
            "kernel": products[0][0]["kernel"]["text"] if products and products[0][0]["kernel"] else None}
    print(json.dumps(line), flush=True)
    return line["violations"]


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--driftbound", default="build/dev/driftbound")
    options.add_argument("--widths", default="512,1024,2048")
    options.add_argument("--rows", type=int, default=16)
    options.add_argument("--seed", type=int, default=1)
    given = options.parse_args()
    root = pathlib.Path(__file__).resolve().parent.parent
    random = np.random.default_rng(given.seed)
    violations = 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        trace = folder / "run.safetensors"
        for width in [int(word) for word in given.widths.split(",")]:
            model, weights = network(width, random)
            onnx.save(model, folder / "network.onnx")
            x = random.normal(size=(given.rows, width)).astype(np.float32)
            np.save(folder / "x.npy", x)
            run_of_numpy(trace, x, weights)
            violations += compared(given.driftbound, folder / "network.onnx", trace, folder, "numpy's BLAS")
            for arithmetic, order in SIMULATED:
                trace.unlink()
                call(given.driftbound, "capture", folder / "network.onnx", folder / "x.npy", "--backend", "sim", "--device",
                     "h100", "--arithmetic", arithmetic, "--order", order, "-o", trace, "--quiet")
                forget_order(trace)
                violations += compared(given.driftbound, folder / "network.onnx", trace, folder,
                                       f"simulated h100, {arithmetic}, {order}")
        for case in RECORDED:
            violations += compared(given.driftbound, root / "examples/models" / (case.split(".")[0] + ".onnx"),
                                   root / "tests/data/gpu" / (case + ".safetensors"), folder, case)
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
