#!/usr/bin/env python3
"""Runs of PyTorch against runs of ONNX Runtime of the same models: whether drift matches every module, and finds rounding.

  /usr/bin/python3 scripts/onnxruntime_pairs.py [--seeds 5]

Needs the program (the variable DRIFTBOUND, or build/*/driftbound), PyTorch, onnx, node, and onnxruntime-node in the folder
that DRIFTBOUND_ONNXRUNTIME names (scripts/check_onnxruntime.sh installs it). A transformer of two blocks and a convolutional
network with batch norms are exported by PyTorch. ONNX Runtime runs each as it is, and as the runtime optimises it
("extended"): products with their addends, scaled products, Gelu, sums with norms, convolutions with norms and Relu are one
op there. Prints a table (Markdown); exit status 1 where a pair is not expected, or a module with parameters has no
counterpart: a norm folded into a convolution is that of the convolution.
"""
import argparse
import json
import math
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "python"))

import numpy as np
import torch
from torch import nn

import driftbound
from driftbound import safetensors
from driftbound.arrays import as_array

TYPES = {"F32": np.float32, "F64": np.float64, "I64": np.int64, "I32": np.int32, "BOOL": np.bool_}


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.qkv, self.proj = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        rows, tokens, width = x.shape
        q, k, v = self.qkv(x).view(rows, tokens, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        scores = (q @ k.transpose(-1, -2)) / math.sqrt(width // self.heads)
        scores = scores.masked_fill(torch.ones(tokens, tokens, dtype=torch.bool).triu(1), -math.inf)
        return self.proj((scores.softmax(-1) @ v).transpose(1, 2).reshape(rows, tokens, width))


class Block(nn.Module):
    def __init__(self, width=64, heads=4):
        super().__init__()
        self.ln1, self.attn, self.ln2 = nn.LayerNorm(width), Attention(width, heads), nn.LayerNorm(width)
        self.up, self.act, self.down = nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)

    def forward(self, x):
        x = x + self.attn(self.ln1(x))
        return x + self.down(self.act(self.up(self.ln2(x))))


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb, self.blocks = nn.Embedding(50, 64), nn.Sequential(Block(), Block())
        self.ln, self.head = nn.LayerNorm(64), nn.Linear(64, 50)

    def forward(self, tokens):
        return self.head(self.ln(self.blocks(self.emb(tokens))))

    @staticmethod
    def input():
        return torch.randint(0, 50, (2, 12))


class Convolutional(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16)
        self.conv2, self.bn2 = nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.BatchNorm2d(32)
        self.conv3, self.fc = nn.Conv2d(32, 32, 3, padding=1), nn.Linear(32, 10)

    def forward(self, x):
        x = torch.relu(self.bn1(self.conv1(x)))
        x = torch.relu(self.bn2(self.conv2(x)))
        return self.fc(torch.relu(x + self.conv3(x)).mean((2, 3)))

    @staticmethod
    def input():
        return torch.randn(4, 3, 16, 16)


def read(path):
    data = path.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    tensors = {}
    for name, one in json.loads(data[8:8 + length]).items():
        if name != "__metadata__":
            first, last = (8 + length + offset for offset in one["data_offsets"])
            tensors[name] = np.frombuffer(data[first:last], TYPES[one["dtype"]]).reshape(one["shape"])
    return tensors


def onnxruntime(*arguments):
    subprocess.run(["node", str(ROOT / "scripts" / "onnxruntime.js"), *map(str, arguments)], check=True)


def modules_without_counterpart(drift, model):
    """Modules with parameters none of whose results is matched, but for a convolution whose norm is, and the reverse."""
    matched = {op["module"] for op in drift["ops"]}
    lost = {one["name"].rsplit("/", 1)[0] for one in drift["only_first"]} - matched
    with_parameters = {name for name, module in model.named_modules() if [*module.parameters(recurse=False)]}
    folded = {name for name in lost if name.startswith(("conv", "bn"))}
    return sorted(name for name in lost & with_parameters if name not in folded)


def compare(kind, seed, folder):
    torch.manual_seed(seed)
    model, x = kind(), kind.input()
    model.train()
    with torch.no_grad():
        for _ in range(3):
            model(kind.input())
    model.eval()
    plain, fused = folder / "plain.onnx", folder / "fused.onnx"
    torch.onnx.export(model, (x,), str(plain), opset_version=17, input_names=["x"], output_names=["y"])
    onnxruntime("optimise", "extended", plain, fused)
    with torch.no_grad(), driftbound.record(folder / "torch.safetensors"):
        model(x)
    safetensors.write(folder / "x.safetensors", {"x": as_array(x.numpy()).whole()}, {})
    for name, file in (("as it is", plain), ("optimised", fused)):
        onnxruntime("values", "disabled", file, folder / "x.safetensors", folder / "values.safetensors")
        values = {**read(folder / "values.safetensors"), "x": x.numpy()}
        driftbound.record_model(folder / "runtime.safetensors", file, values)
        result = driftbound.drift(folder / "torch.safetensors", folder / "runtime.safetensors")
        drift = result.to_dict()["drifts"][0]
        yield {"model": kind.__name__, "seed": seed, "runtime": name, "verdict": result.verdict, "values": len(drift["ops"]),
               "by op": sum(op["by"] == "op" for op in drift["ops"]), "first alone": len(drift["only_first"]),
               "second alone": len(drift["only_second"]), "modules lost": modules_without_counterpart(drift, model)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    asked = parser.parse_args()
    if not os.environ.get("DRIFTBOUND_ONNXRUNTIME"):
        parser.error("DRIFTBOUND_ONNXRUNTIME names no folder with onnxruntime-node")
    lines = []
    for kind in (Transformer, Convolutional):
        for seed in range(1, asked.seeds + 1):
            with tempfile.TemporaryDirectory(prefix="pairs-") as made:
                lines += compare(kind, seed, pathlib.Path(made))
    heads = [*lines[0]]
    print("| " + " | ".join(heads) + " |\n|" + "---|" * len(heads))
    for line in lines:
        print("| " + " | ".join(", ".join(cell) if isinstance(cell, list) else str(cell) for cell in line.values()) + " |")
    return 1 if any(line["verdict"] != "expected" or line["modules lost"] for line in lines) else 0


if __name__ == "__main__":
    sys.exit(main())
