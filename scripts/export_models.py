#!/usr/bin/python3
# Trains two small networks with the blocks of today's vision models and exports them as PyTorch does:
#   vit_tiny.onnx    patch embedding, multi-head attention, LayerNorm, GELU: which quarter of a picture holds the blob
#   unet_tiny.onnx   Conv, MaxPool, ConvTranspose, nearest upsampling, skips, batch, group and instance norm: the blob's mask
# With --practice FOLDER [BLOCKS…] it writes the networks of practice_models.py instead, untrained, with 1 block or as many as
# named, each with inputs (.npz).
# Needs Debian's python3-torch and python3-onnx (scripts/train_models.sh installs them). Writes to examples/vision, or to
# the folder given.
import os
import sys

import onnx
import torch
from torch import nn
from torch.nn import functional as F

SIDE = 16


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        samples, tokens, width = x.shape
        split = self.qkv(x).reshape(samples, tokens, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        q, k, v = split[0], split[1], split[2]
        weights = torch.softmax(q @ k.transpose(-2, -1) * (width // self.heads) ** -0.5, dim=-1)
        return self.out((weights @ v).transpose(1, 2).reshape(samples, tokens, width))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Vit(nn.Module):
    def __init__(self, width=32, heads=4, blocks=1, patch=4):
        super().__init__()
        self.patches = nn.Conv2d(1, width, patch, stride=patch)
        self.first = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(0.02 * torch.randn(1, (SIDE // patch) ** 2 + 1, width))
        self.blocks = nn.Sequential(*[Block(width, heads) for _ in range(blocks)])
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 4)

    def forward(self, x):
        tokens = self.patches(x).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.first.expand(x.shape[0], -1, -1), tokens], dim=1) + self.positions
        return self.head(self.norm(self.blocks(tokens))[:, 0])


class Unet(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.down1 = nn.Sequential(nn.Conv2d(1, width, 3, padding=1), nn.ReLU(), nn.BatchNorm2d(width))
        self.down2 = nn.Sequential(nn.Conv2d(width, 2 * width, 3, padding=1), nn.GroupNorm(4, 2 * width), nn.SiLU())
        self.middle = nn.Sequential(nn.Conv2d(2 * width, 2 * width, 3, padding=1),
                                    nn.InstanceNorm2d(2 * width, affine=True), nn.ReLU())
        self.up2 = nn.ConvTranspose2d(2 * width, 2 * width, 2, stride=2)
        self.join2 = nn.Sequential(nn.Conv2d(4 * width, 2 * width, 3, padding=1), nn.ReLU())
        self.up1 = nn.Upsample(scale_factor=2, mode="nearest")
        self.join1 = nn.Sequential(nn.Conv2d(3 * width, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU())
        self.head = nn.Conv2d(width, 1, 1)

    def forward(self, x):
        fine = self.down1(x)
        middle = self.down2(F.max_pool2d(fine, 2))
        coarse = self.middle(F.max_pool2d(middle, 2))
        y = self.join2(torch.cat([self.up2(coarse), middle], dim=1))
        return self.head(self.join1(torch.cat([self.up1(y), fine], dim=1)))


def pictures(count, generator):
    """Noisy blobs, their masks, and the quarter that holds the centre."""
    centre = torch.rand(count, 2, generator=generator) * (SIDE - 6) + 3
    radius = 2 + 1.5 * torch.rand(count, 1, 1, generator=generator)
    axis = torch.arange(SIDE) + 0.5
    squares = (axis[None, :, None] - centre[:, :1, None]) ** 2 + (axis[None, None, :] - centre[:, 1:, None]) ** 2
    noise = 0.3 * torch.randn(count, SIDE, SIDE, generator=generator)
    x = torch.exp(-squares / radius ** 2) * 2 - 1 + noise
    quarter = 2 * (centre[:, 0] > SIDE / 2).long() + (centre[:, 1] > SIDE / 2).long()
    return x[:, None], (squares < radius ** 2).float()[:, None], quarter


def train(net, loss, steps, seed):
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
    for _ in range(steps):
        x, mask, quarter = pictures(64, generator)
        value = loss(net(x), mask, quarter)
        optimizer.zero_grad(set_to_none=True)
        value.backward()
        optimizer.step()
    net.eval()
    x, mask, quarter = pictures(2000, generator)
    with torch.no_grad():
        return float(loss(net(x), mask, quarter))


def export(net, path, opset, dynamic_axes):
    torch.onnx.export(net, torch.zeros(1, 1, SIDE, SIDE), path, opset_version=opset, input_names=["x"],
                      output_names=["y"], dynamic_axes=dynamic_axes)
    model = onnx.load(path)
    onnx.checker.check_model(model)
    for node in model.graph.node:
        node.ClearField("doc_string")  # lines of this file
    onnx.save(model, path)


MODELS = {
    "vit_tiny": (Vit, 14, {}, lambda y, mask, quarter: F.cross_entropy(y, quarter)),
    "unet_tiny": (Unet, 13, {"x": {0: "batch"}, "y": {0: "batch"}}, lambda y, mask, quarter: F.binary_cross_entropy_with_logits(y, mask)),
}


def export_practice(folder, all_blocks):
    import numpy
    from practice_models import practice_models
    os.makedirs(folder, exist_ok=True)
    for blocks in all_blocks:
        torch.manual_seed(blocks)
        for name, net, inputs, input_names, output_names, axes in practice_models(blocks):
            net.eval()
            path = os.path.join(folder, name)
            torch.onnx.export(net, inputs, path + ".onnx", opset_version=14, input_names=input_names,
                              output_names=output_names, dynamic_axes=axes)
            numpy.savez(path + ".npz", **{n: x.numpy() for n, x in zip(input_names, inputs)})
            print(path + ".onnx")


def main():
    if len(sys.argv) > 2 and sys.argv[1] == "--practice":
        torch.set_num_threads(1)
        return export_practice(sys.argv[2], [int(text) for text in sys.argv[3:]] or [1])
    here = os.path.dirname(os.path.abspath(__file__))
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.join(here, "..", "examples", "vision")
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    for seed, (name, (network, opset, dynamic_axes, loss)) in enumerate(MODELS.items(), start=31):
        torch.manual_seed(seed)
        net = network()
        final = train(net, loss, 400, seed)
        path = os.path.join(folder, name + ".onnx")
        export(net, path, opset, dynamic_axes)
        parameters = sum(p.numel() for p in net.parameters())
        print(f"{name}: {parameters} parameters, {os.path.getsize(path)} bytes, seed {seed}, loss {final:.3f}")


if __name__ == "__main__":
    main()
