#!/usr/bin/env python3
"""The octree of a network by plain interval arithmetic, for comparison with `driftbound octree` (docs/regions.md).

Every cell goes through the layers as a box of intervals (natural interval extension), evaluated in float64 and widened
by 2^-44 of all magnitudes for its own rounding. Cells are halved as `driftbound octree` does it, and counted.

    scripts/interval_octree.py MODEL.npz [--depth 8]

MODEL.npz: a network of the suite neural-implicit-queries: dense layers, relu, elu.
"""

import argparse
import time

import numpy as np

SLACK = 2.0**-44
AT_ONCE = 1 << 14


def layers_of(path):
    """(weights, bias) or the name of a function, one after the other."""
    layers = []
    with np.load(path) as file:
        for key in sorted(file.files):
            _, kind, part = key.split(".")
            if kind == "dense" and part == "A":
                layers.append([file[key].astype(np.float64), None])
            elif kind == "dense":
                layers[-1][1] = file[key].astype(np.float64)
            elif kind in ("relu", "elu"):
                layers.append(kind)
            elif kind != "squeeze_last":
                raise SystemExit(f"{path}: no interval extension of {kind} here")
    return layers


def enclosed(layers, lower, upper):
    middle, radius = (lower + upper) / 2, (upper - lower) / 2
    radius = radius + np.abs(middle) * SLACK
    for layer in layers:
        if layer == "relu":
            low, high = np.maximum(middle - radius, 0), np.maximum(middle + radius, 0)
        elif layer == "elu":
            low, high = middle - radius, middle + radius
            low, high = (np.where(x > 0, x, np.expm1(np.minimum(x, 0))) for x in (low, high))
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
