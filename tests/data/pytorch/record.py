"""Makes the models and traces of this folder: `python3 record.py` (torch, onnx, numpy).

Traces of PyTorch as people have them: forward hooks on every module, or the final output alone, of a residual
perceptron, a convolutional network and a transformer; each from the model that was exported, from one with a single
weight off by 1e-3, and from one whose products read their operands in TF32.
"""

import copy
import json
import struct
import warnings
from pathlib import Path

import numpy as np
import torch
from torch import nn

FOLDER = Path(__file__).parent


def write_trace(path, tensors, **metadata):
    header, blobs, offset = {"__metadata__": {"driftbound.trace": "1", **metadata}}, [], 0
    for name, array in tensors.items():
        blob = np.ascontiguousarray(array, dtype=np.float32).tobytes()
        header[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": [offset, offset + len(blob)]}
        blobs.append(blob)
        offset += len(blob)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(blobs))


class ResidualPerceptron(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Linear(6, 16)
        self.b = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16)) for _ in range(2)
        )
        self.head = nn.Linear(16, 3)

    def forward(self, x):
        x = self.inp(x)
        for block in self.b:
            x = x + block(x)
        return self.head(torch.tanh(x))


class Convolutional(nn.Module):
    def __init__(self):
        super().__init__()
        self.f = nn.Sequential(
            nn.Conv2d(2, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 8, 3, padding=1), nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
        )
        self.l = nn.Linear(8, 5)

    def forward(self, x):
        return self.l(self.f(x).flatten(1))


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, x):
        n, length, width = x.shape
        size = width // self.heads
        q, k, v = self.qkv(x).reshape(n, length, 3, self.heads, size).permute(2, 0, 3, 1, 4)
        weights = torch.softmax(q @ k.transpose(-2, -1) / size**0.5, -1)
        return self.proj((weights @ v).transpose(1, 2).reshape(n, length, width))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = Attention(width, heads)
        self.fc1, self.act = nn.Linear(width, 2 * width), nn.GELU()
        self.drop, self.fc2 = nn.Dropout(0.1), nn.Linear(2 * width, width)

    def forward(self, x):
        x = x + self.attn(self.n1(x))
        return x + self.fc2(self.drop(self.act(self.fc1(self.n2(x)))))


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Linear(4, 16)
        self.b = nn.ModuleList(Block(16, 2) for _ in range(2))
        self.n, self.head = nn.LayerNorm(16), nn.Linear(16, 3)

    def forward(self, x):
        x = self.emb(x)
        for block in self.b:
            x = block(x)
        return self.head(self.n(x))


def hooked(model, x):
    """Every module's output under its path, in the order of the calls, and the model's."""
    layers = {}

    def hook_of(path):
        def hook(module, operands, result):
            layers[f"layer/{len(layers)}/{path}/output"] = result.detach().numpy().copy()

        return hook

    hooks = [module.register_forward_hook(hook_of(path)) for path, module in model.named_modules()]
    y = model(x).detach().numpy()
    for hook in hooks:
        hook.remove()
    return layers, y


def with_fault(model, path):
    faulty = copy.deepcopy(model)
    weight = faulty.get_submodule(path).weight
    with torch.no_grad():
        weight.view(-1)[weight.abs().argmax()] *= 1 + 1e-3
    return faulty


def to_tf32(x):
    bits = x.detach().clone().view(torch.int32)
    bits += 0xFFF + ((bits >> 13) & 1)
    return (bits & ~0x1FFF).view(torch.float32)


def in_tf32(model):
    other = copy.deepcopy(model)
    for module in other.modules():
        if isinstance(module, (nn.Linear, nn.Conv2d)):
            module.weight.data = to_tf32(module.weight)
            module.register_forward_pre_hook(lambda module, operands: (to_tf32(operands[0]),))
    return other


def main():
    warnings.filterwarnings("ignore")
    torch.manual_seed(0)
    torch.set_num_threads(1)
    provenance = json.dumps({"program": f"torch {torch.__version__}", "device": "cpu"})
    for name, model, shape, path in (
        ("perceptron", ResidualPerceptron(), (3, 6), "b.1.3"),
        ("convolutional", Convolutional(), (2, 2, 8, 8), "f.3"),
        ("transformer", Transformer(), (2, 5, 4), "b.1.attn.qkv"),
    ):
        model.eval()
        x = torch.randn(*shape)
        torch.onnx.export(
            model, x, FOLDER / f"{name}.onnx", opset_version=14, input_names=["x"], output_names=["y"],
            dynamic_axes={"x": {0: "N"}, "y": {0: "N"}} if name != "transformer" else None,
        )
        for kind, run in (("", model), ("_fault", with_fault(model, path)), ("_tf32", in_tf32(model))):
            layers, y = hooked(run, x)
            given = {"input/x": x.numpy()}
            write_trace(FOLDER / f"{name}{kind}_hooks.safetensors", {**given, **layers}, provenance=provenance)
            write_trace(FOLDER / f"{name}{kind}_output.safetensors", {**given, "output/y": y}, provenance=provenance)


main()
