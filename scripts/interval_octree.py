#!/usr/bin/env python3
"""The octree of a network by plain interval arithmetic, for comparison with `driftbound octree` (docs/regions.md).

Every cell goes through the layers as a box of intervals (natural interval extension), evaluated in float64 and widened
by 2^-44 of all magnitudes for its own rounding. Cells are halved as `driftbound octree` does it, and counted.

    scripts/interval_octree.py MODEL [--depth 8]

MODEL: a network of the suite neural-implicit-queries (.npz: dense layers, relu, elu), or one of dense layers with one
output (.onnx: Gemm, Relu, Elu, Softplus, Tanh, Sin, factors; needs the package onnx).
"""

import argparse
import time

import numpy as np

SLACK = 2.0**-44
AT_ONCE = 1 << 14


def monotone(function):
    return lambda low, high: (function(low), function(high))


def sine(low, high):
    """1 where a crest lies in the interval, -1 where a trough does."""
    ends = np.sin(low), np.sin(high)
    crest, trough = (np.floor((high - at) / (2 * np.pi)) > np.floor((low - at) / (2 * np.pi)) for at in (np.pi / 2, -np.pi / 2))
    return np.where(trough, -1.0, np.minimum(*ends)), np.where(crest, 1.0, np.maximum(*ends))


FUNCTIONS = {
    "relu": monotone(lambda x: np.maximum(x, 0)),
    "elu": monotone(lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0)))),
    "softplus": monotone(lambda x: np.logaddexp(0, x)),
    "tanh": monotone(np.tanh),
    "sin": sine,
}


def layers_of_npz(path):
    layers = []
    with np.load(path) as file:
        for key in sorted(file.files):
            _, kind, part = key.split(".")
            if kind == "dense" and part == "A":
                layers.append([file[key].astype(np.float64), None])
            elif kind == "dense":
                layers[-1][1] = file[key].astype(np.float64)
            elif kind in FUNCTIONS:
                layers.append(kind)
            elif kind != "squeeze_last":
                raise SystemExit(f"{path}: no interval extension of {kind} here")
    return layers


def layers_of_onnx(path):
    import onnx
    from onnx import numpy_helper

    graph = onnx.load(path).graph
    constants = {tensor.name: numpy_helper.to_array(tensor).astype(np.float64) for tensor in graph.initializer}
    layers, value = [], graph.input[0].name
    for node in graph.node:
        attributes = {attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in node.attribute}
        others = [constants.get(name) for name in node.input if name != value]
        kind = node.op_type.lower()
        if list(node.input).count(value) != 1 or any(other is None for other in others):
            raise SystemExit(f"{path}: {node.name} is no layer behind the one before")
        if kind == "gemm" and not attributes.keys() - {"transB"} and len(others) == 2:
            weights, bias = others
            layers.append((weights.T if attributes.get("transB") else weights, bias))
        elif kind == "mul" and others[0].size == 1:
            width = layers[-1][1].size
            layers.append((np.eye(width) * others[0].item(), np.zeros(width)))
        elif kind in FUNCTIONS and not attributes:
            layers.append(kind)
        else:
            raise SystemExit(f"{path}: no interval extension of {node.op_type} here, or not with these attributes")
        value = node.output[0]
    return layers


def layers_of(path):
    """(weights, bias) or the name of a function, one after the other."""
    return layers_of_onnx(path) if path.endswith(".onnx") else layers_of_npz(path)


def enclosed(layers, lower, upper):
    middle, radius = (lower + upper) / 2, (upper - lower) / 2
    radius = radius + np.abs(middle) * SLACK
    for layer in layers:
        if isinstance(layer, str):
            low, high = FUNCTIONS[layer](middle - radius, middle + radius)
        else:
            weights, bias = layer
            sizes = np.abs(weights)
            reach = (np.abs(middle) + radius) @ sizes + np.abs(bias)
            middle, radius = middle @ weights + bias, radius @ sizes + reach * SLACK
            continue
        middle, radius = (low + high) / 2, (high - low) / 2
        radius = radius + (np.abs(middle) + 1) * SLACK
    return (middle - radius)[:, 0], (middle + radius)[:, 0]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--depth", type=int, default=8)
    parser.add_argument("--most-cells", type=int, default=1 << 25)
    options = parser.parse_args()
    layers = layers_of(options.model)
    dimension = next(layer for layer in layers if not isinstance(layer, str))[0].shape[0]
    corners = np.array(np.meshgrid(*[[0, 1]] * dimension)).T.reshape(-1, dimension)
    lower, cells, certain = -np.ones((1, dimension)), 0, 0.0
    start = time.process_time()
    for depth in range(options.depth + 1):
        width = 2.0 ** (1 - depth)
        unknown = []
        for first in range(0, len(lower), AT_ONCE):
            block = lower[first : first + AT_ONCE]
            low, high = enclosed(layers, block, block + width)
            is_unknown = ~((low > 0) | (high < 0))
            unknown.append(block[is_unknown])
        cells += len(lower)
        left = np.concatenate(unknown)
        certain += (len(lower) - len(left)) / 2.0 ** (dimension * depth)
        print(f"depth {depth}: {cells} cells, {100 * certain:.2f} % certain, {time.process_time() - start:.1f} s", flush=True)
        if depth < options.depth and cells + len(left) * len(corners) > options.most_cells:
            print("more cells than --most-cells")
            break
        lower = (left[:, None, :] + corners[None] * (width / 2)).reshape(-1, dimension)


if __name__ == "__main__":
    main()
