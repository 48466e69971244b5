#!/usr/bin/env python3
"""Train the bundled example networks and write them as ONNX.

    /usr/bin/python3 scripts/train_models.py [--large] [--only NAME ...] [--out DIR] [--list]

--large trains wider and deeper ones instead, into build/large-models: they are
measured by scripts/bounds_campaign.sh and not committed.

Everything runs on the CPU in one thread from fixed seeds, so a second run on the
same machine with the same packages writes the same bytes.  Another BLAS or another
processor rounds differently during training and gives different weights of about
the same quality.

Packages (Debian 12): python3-torch, python3-onnx, python3-numpy, libopenblas0-pthread
(without the last one the reference BLAS is used, which is some twenty times slower);
scripts/train_models.sh installs them and calls this script.

The ONNX graphs are built node by node from the trained weights, not exported, so
the node names and the operators are exactly those written in the functions below.
Each file is read back, checked with onnx.checker, evaluated by the small numpy
interpreter in this file and compared with torch.
"""

import argparse
import json
import math
import os
import sys
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn
from torch.nn import functional as F

OPSET = 13
GELU_OPSET = 20
IR_VERSION = 7
REPO = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


# ----------------------------------------------------------------------------
# ONNX writing and the numpy check
# ----------------------------------------------------------------------------

class Graph:
    """Collects nodes and initializers; every node is named scope/Op."""

    def __init__(self, opset=OPSET):
        self.opset = opset
        self.nodes = []
        self.initializers = []
        self.names = set()

    def constant(self, name, value):
        array = np.asarray(value, dtype=np.float32)
        self.initializers.append(numpy_helper.from_array(array, name))
        return name

    def node(self, op, scope, inputs, output=None, **attributes):
        name = f"{scope}/{op}"
        if name in self.names:
            raise ValueError(f"two nodes named {name}")
        self.names.add(name)
        output = output or f"{name}_out"
        self.nodes.append(helper.make_node(op, inputs, [output], name=name, **attributes))
        return output

    def gemm(self, scope, x, linear, output=None):
        w = self.constant(f"{scope}/weight", linear.weight.detach().numpy())
        b = self.constant(f"{scope}/bias", linear.bias.detach().numpy())
        return self.node("Gemm", scope, [x, w, b], output, transB=1)

    def write(self, path, name, inputs, output, outputs, doc):
        graph = helper.make_graph(
            self.nodes, name,
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", inputs])],
            [helper.make_tensor_value_info(output, TensorProto.FLOAT, ["batch", outputs])],
            initializer=self.initializers, doc_string=doc)
        model = helper.make_model(graph, producer_name="driftbound-train-models",
                                  opset_imports=[helper.make_opsetid("", self.opset)])
        model.ir_version = IR_VERSION
        if self.opset <= onnx.defs.onnx_opset_version():    # Debian's onnx ends before Gelu
            onnx.checker.check_model(model, full_check=True)
        onnx.save(model, path)


def evaluate_numpy(path, x, dtype):
    """Evaluates a bundled model with numpy in dtype."""
    graph = onnx.load(path).graph
    values = {t.name: numpy_helper.to_array(t).astype(dtype) for t in graph.initializer}
    values[graph.input[0].name] = x.astype(dtype)
    for node in graph.node:
        a = [values[i] for i in node.input]
        if node.op_type == "Gemm":
            y = a[0] @ a[1].T + a[2]
        elif node.op_type == "Add":
            y = a[0] + a[1]
        elif node.op_type == "Mul":
            y = a[0] * a[1]
        elif node.op_type == "Relu":
            y = np.maximum(a[0], dtype(0))
        elif node.op_type == "Tanh":
            y = np.tanh(a[0])
        elif node.op_type == "Sin":
            y = np.sin(a[0])
        elif node.op_type == "Softplus":
            y = np.logaddexp(a[0], dtype(0))
        elif node.op_type == "Gelu":
            erf = torch.erf(torch.from_numpy(a[0] / dtype(math.sqrt(2)))).numpy()
            y = dtype(0.5) * a[0] * (dtype(1) + erf)
        else:
            raise ValueError(f"unexpected operator {node.op_type}")
        values[node.output[0]] = y
    return values[graph.output[0].name]


# ----------------------------------------------------------------------------
# Networks
# ----------------------------------------------------------------------------

class ResNet(nn.Module):
    """3 -> width, residual blocks h += activation(W h + b), width -> 2 logits."""

    FUNCTIONS = {"relu": F.relu, "tanh": torch.tanh, "gelu": F.gelu}

    def __init__(self, depth, width, generator, activation="relu"):
        super().__init__()
        self.activation = activation
        self.stem = nn.Linear(3, width)
        self.blocks = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.head = nn.Linear(width, 2)
        with torch.no_grad():
            # Large weights in the column of t, and biases that put the kinks of the
            # first layer evenly over the interval: without them the oscillation is
            # out of reach of a few thousand steps.
            column = (torch.rand(width, generator=generator) * 2 - 1) * STEM_SCALE
            column = column + torch.sign(column) * 0.2 * STEM_SCALE
            kinks = (torch.arange(width) + torch.rand(width, generator=generator)) / width
            kinks = (kinks * 2 - 1) * KINKS
            self.stem.weight.uniform_(-0.3, 0.3, generator=generator)
            self.stem.weight[:, 0] = column
            fixed = self.stem.weight[:, 1] * ON_LINE[0] + self.stem.weight[:, 2] * ON_LINE[1]
            self.stem.bias.copy_(-column * kinks - fixed)
            for block in self.blocks:
                block.weight.normal_(0, math.sqrt(2 / width / depth) / 2, generator=generator)
                block.bias.zero_()
            self.head.weight.normal_(0, 1 / math.sqrt(width), generator=generator)
            self.head.bias.zero_()

    def forward(self, x):
        function = self.FUNCTIONS[self.activation]
        h = function(self.stem(x))
        for block in self.blocks:
            h = h + function(block(h))
        return self.head(h)

    def export(self, graph):
        op = self.activation.capitalize()
        h = graph.gemm("stem", "x", self.stem)
        h = graph.node(op, "stem", [h])
        for k, block in enumerate(self.blocks, 1):
            z = graph.gemm(f"block{k}", h, block)
            z = graph.node(op, f"block{k}", [z])
            h = graph.node("Add", f"block{k}", [h, z])
        graph.gemm("head", h, self.head, "logits")


class Mlp(nn.Module):
    """Dense layers with one activation: tanh, relu, or softplus with sharpness beta.

    softplus_beta(z) = softplus(beta z) / beta.  beta is folded into the weights on
    export, so the file holds the plain Softplus operator; the folding is exact where
    beta is a power of two.
    """

    def __init__(self, sizes, activation, generator, beta=1):
        super().__init__()
        self.activation = activation
        self.beta = beta
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in zip(sizes, sizes[1:]))
        gain = 1.0 if activation == "tanh" else math.sqrt(2)
        with torch.no_grad():
            for layer in self.layers:
                layer.weight.normal_(0, gain / math.sqrt(layer.in_features), generator=generator)
                layer.bias.uniform_(-0.5, 0.5, generator=generator)
            self.layers[-1].weight.mul_(0.3)

    def forward(self, x):
        for layer in self.layers[:-1]:
            z = layer(x)
            if self.activation == "tanh":
                x = torch.tanh(z)
            elif self.activation == "relu":
                x = F.relu(z)
            else:
                x = F.softplus(z, beta=self.beta)
        return self.layers[-1](x)

    def fold(self):
        """The same function with beta = 1."""
        if self.beta == 1:
            return
        with torch.no_grad():
            self.layers[0].weight.mul_(self.beta)
            for layer in self.layers[:-1]:
                layer.bias.mul_(self.beta)
            self.layers[-1].weight.div_(self.beta)
        self.beta = 1

    def export(self, graph, output):
        op = {"tanh": "Tanh", "relu": "Relu", "softplus": "Softplus"}[self.activation]
        x = "x"
        for k, layer in enumerate(self.layers[:-1], 1):
            x = graph.gemm(f"hidden{k}", x, layer)
            x = graph.node(op, f"hidden{k}", [x])
        graph.gemm("head", x, self.layers[-1], output)


class Siren(nn.Module):
    """sin(omega0 (W x + b)) layers with the SIREN initialization, linear head."""

    def __init__(self, sizes, omega0, generator):
        super().__init__()
        self.omega0 = omega0
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in zip(sizes, sizes[1:]))
        with torch.no_grad():
            for k, layer in enumerate(self.layers):
                n = layer.in_features
                bound = 1 / n if k == 0 else math.sqrt(6 / n) / omega0
                layer.weight.uniform_(-bound, bound, generator=generator)
                layer.bias.uniform_(-bound, bound, generator=generator)

    def forward(self, x):
        for layer in self.layers[:-1]:
            x = torch.sin(self.omega0 * layer(x))
        return self.layers[-1](x)

    def export(self, graph, output):
        omega0 = graph.constant("omega0", self.omega0)
        x = "x"
        for k, layer in enumerate(self.layers[:-1], 1):
            x = graph.gemm(f"hidden{k}", x, layer)
            x = graph.node("Mul", f"hidden{k}", [x, omega0])
            x = graph.node("Sin", f"hidden{k}", [x])
        graph.gemm("head", x, self.layers[-1], output)


# ----------------------------------------------------------------------------
# Training
# ----------------------------------------------------------------------------

def parameters(net):
    return sum(p.numel() for p in net.parameters())


def train(net, batch, loss, steps, lr):
    """Adam, a short warm-up, cosine decay to zero."""
    optimizer = torch.optim.Adam(net.parameters(), lr=lr)
    warm = max(1, steps // 50)

    def factor(step):
        if step < warm:
            return (step + 1) / warm
        return 0.5 * (1 + math.cos(math.pi * (step - warm) / (steps - warm)))

    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
    begin = time.time()
    for step in range(steps):
        x, y = batch()
        value = loss(net(x), y)
        optimizer.zero_grad(set_to_none=True)
        value.backward()
        optimizer.step()
        schedule.step()
        if VERBOSE and (step + 1) % max(1, steps // 8) == 0:
            print(f"    step {step + 1:6d}  loss {value.item():.3e}", flush=True)
    return time.time() - begin


def finish(path, name, net, output, outputs, points, doc, record, seconds):
    """Writes the file, compares it with torch, and completes its record."""
    graph = Graph(GELU_OPSET if getattr(net, "activation", "") == "gelu" else OPSET)
    if isinstance(net, ResNet):
        net.export(graph)
    else:
        net.export(graph, output)
    graph.write(path, name, points.shape[1], output, outputs, doc)
    with torch.no_grad():
        want = net(points).numpy()
    got = evaluate_numpy(path, points.numpy(), np.float32)
    wide = evaluate_numpy(path, points.numpy(), np.float64)
    difference = float(np.max(np.abs(want.astype(np.float64) - got)))
    scale = float(np.max(np.abs(wide)))
    record.update(
        parameters=parameters(net),
        bytes=os.path.getsize(path),
        seconds=round(seconds, 1),
        output_max_abs=scale,
        onnx_vs_torch_max_diff=difference,
        float32_vs_float64_max_diff=float(np.max(np.abs(wide - got))),
    )
    if not difference <= 1e-4 * max(1.0, scale):
        raise RuntimeError(f"{name}: the ONNX file and torch differ by {difference:g}")
    return record


# --- the oscillating classifier ---------------------------------------------

ON_LINE = (0.3, -0.2)   # x2*, x3*
HALF = 0.2              # t in [-HALF, HALF]
STEM_SCALE = 45.0
KINKS = 0.14            # beyond it the envelope is below 0.003


def oscillation(t):
    return 0.5 + 0.5 * torch.sin(45 * math.pi * t) * torch.exp(-300 * t * t)


def on_line(t, jitter=None):
    x = torch.empty(t.shape[0], 3)
    x[:, 0] = t
    x[:, 1] = ON_LINE[0]
    x[:, 2] = ON_LINE[1]
    if jitter is not None:
        x[:, 1:] += jitter
    return x


def oscillator(depth, width, steps, lr, seed, activation="relu", n=512):
    def make(name, path):
        g = torch.Generator().manual_seed(seed)
        net = ResNet(depth, width, g, activation)

        def batch():
            # One point in each of n cells, a little off the line so that the fit
            # does not hold on the line only.
            t = (torch.arange(n) + torch.rand(n, generator=g)) / n
            t = (t * 2 - 1) * HALF
            jitter = 0.01 * torch.randn(n, 2, generator=g)
            return on_line(t, jitter), oscillation(t)

        def loss(logits, p0):
            return torch.mean((torch.softmax(logits, 1)[:, 0] - p0) ** 2)

        seconds = train(net, batch, loss, steps, lr)
        t = torch.linspace(-HALF, HALF, 8001)
        with torch.no_grad():
            error = torch.softmax(net(on_line(t)), 1)[:, 0] - oscillation(t)
        record = dict(
            function="oscillation", architecture=f"ResNet 3-{width}, {depth} blocks, {width}-2",
            activation=activation, seed=seed, steps=steps,
            mse=float(torch.mean(error ** 2)), max_abs_error=float(error.abs().max()),
            loss="mean square of softmax(logits)[0] - p0(t), 8001 points of the line")
        doc = ("softmax(logits)[0] fits 0.5 + 0.5 sin(45 pi t) exp(-300 t^2) at "
               f"(t, {ON_LINE[0]}, {ON_LINE[1]}), t in [-{HALF}, {HALF}]")
        return finish(path, name, net, "logits", 2, on_line(t), doc, record, seconds)
    return make


# --- signed distance functions ----------------------------------------------

def torus(p, R=0.5, r=0.2):
    """Torus around the z axis, negative inside."""
    q = torch.sqrt(p[:, 0] ** 2 + p[:, 1] ** 2) - R
    return torch.sqrt(q * q + p[:, 2] ** 2) - r


def cut_box(p, half=0.5, radius=0.4):
    """The box [-half, half]^3 less a ball at its corner (half, half, half).

    max(box, -ball): the surface and the sign are exact; outside the surface it is a
    lower bound of the distance (1-Lipschitz), as usual in constructive geometry.
    """
    q = p.abs() - half
    box = q.clamp(min=0).norm(dim=1) + q.max(dim=1).values.clamp(max=0)
    ball = (p - half).norm(dim=1) - radius
    return torch.maximum(box, -ball)


SHAPES = {
    "torus": (torus, "torus around z, R = 0.5, r = 0.2"),
    "cut_box": (cut_box, "box [-0.5, 0.5]^3 less the ball of radius 0.4 at (0.5, 0.5, 0.5)"),
}


def pool(shape, n, g):
    """n points: half uniform in [-1, 1]^3, half moved close to the surface."""
    far = torch.rand(n // 2, 3, generator=g) * 2 - 1
    near = (torch.rand(n - n // 2, 3, generator=g) * 2 - 1).requires_grad_(True)
    for _ in range(3):      # Newton steps along the gradient
        d = shape(near)
        grad, = torch.autograd.grad(d.sum(), near)
        with torch.no_grad():
            near = (near - d[:, None] * grad).requires_grad_(True)
    near = near.detach() + 0.05 * torch.randn(near.shape, generator=g)
    points = torch.cat([far, near.clamp(-1, 1)])
    return points[torch.randperm(n, generator=g)]


def sdf(make_net, shape_name, architecture, activation, steps, lr, seed, n=1024, points=1 << 20, tests=200000):
    def make(name, path):
        shape, text = SHAPES[shape_name]
        g = torch.Generator().manual_seed(seed)
        net = make_net(g)
        data = pool(shape, points, g)
        values = shape(data)[:, None]
        at = [0]

        def batch():
            i = at[0]
            at[0] = (i + n) % (points - n + 1)
            return data[i:i + n], values[i:i + n]

        def loss(y, want):
            return torch.mean((y - want) ** 2)

        seconds = train(net, batch, loss, steps, lr)
        if isinstance(net, Mlp):
            net.fold()
        # Measured on points that were not trained on.
        test = torch.rand(tests, 3, generator=g) * 2 - 1
        want = shape(test)
        with torch.no_grad():
            error = net(test)[:, 0] - want
        near = want.abs() < 0.05
        record = dict(
            function=text, architecture=architecture, activation=activation,
            seed=seed, steps=steps,
            mse=float(torch.mean(error ** 2)), max_abs_error=float(error.abs().max()),
            abs_error_999_permille=float(np.quantile(error.abs().numpy(), 0.999)),
            mse_near_surface=float(torch.mean(error[near] ** 2)),
            max_abs_error_near_surface=float(error[near].abs().max()),
            loss=f"mean square of sdf - distance, {tests} new points in [-1, 1]^3; "
                 "near the surface: those with |distance| < 0.05")
        doc = f"signed distance, negative inside, of the {text}; points in [-1, 1]^3"
        return finish(path, name, net, "sdf", 1, test, doc, record, seconds)
    return make


# --- the small classifier ----------------------------------------------------

def moons(n, g):
    """Two half circles with noise; the label is the half circle."""
    a = math.pi * torch.rand(n, generator=g)
    label = (torch.arange(n) % 2)
    x = torch.where(label == 0, torch.cos(a), 1 - torch.cos(a)) - 0.5
    y = torch.where(label == 0, torch.sin(a), 0.5 - torch.sin(a)) - 0.25
    points = torch.stack([x, y], 1) + 0.12 * torch.randn(n, 2, generator=g)
    return points, label


def small_classifier(steps, lr, seed):
    def make(name, path):
        g = torch.Generator().manual_seed(seed)
        net = Mlp([2, 10, 10, 2], "tanh", g)
        points, labels = moons(2000, g)

        def loss(logits, label):
            return F.cross_entropy(logits, label)

        def batch():
            i = torch.randint(0, points.shape[0], (256,), generator=g)
            return points[i], labels[i]

        seconds = train(net, batch, loss, steps, lr)
        test, label = moons(20000, g)
        with torch.no_grad():
            logits = net(test)
            p = torch.softmax(logits, 1)[:, 1]
            error = p - label
            record = dict(
                function="two moons, noise 0.12, 2000 points", architecture="MLP 2-10-10-2",
                activation="tanh", seed=seed, steps=steps,
                mse=float(torch.mean(error ** 2)), max_abs_error=float(error.abs().max()),
                cross_entropy=float(F.cross_entropy(logits, label)),
                accuracy=float((logits.argmax(1) == label).double().mean()),
                loss="softmax(logits)[1] against the label, 20000 new points; a label is 0 or 1, "
                     "so one misclassified point puts the largest error near 1")
        doc = "two moons (half circles with noise 0.12), class 0 the upper one"
        return finish(path, name, net, "logits", 2, test, doc, record, seconds)
    return make


MODELS = {
    "mlp_2_10_10_2": small_classifier(steps=3000, lr=1e-2, seed=7),
    "oscillator_d8_w64": oscillator(8, 64, steps=8000, lr=2e-3, seed=864),
    "torus_sdf_softplus": sdf(
        lambda g: Mlp([3, 64, 64, 64, 64, 1], "softplus", g, beta=16),
        "torus", "MLP 3-64-64-64-64-1", "softplus", steps=15000, lr=3e-3, seed=21),
    "siren": sdf(
        lambda g: Siren([3, 64, 64, 64, 1], 30.0, g),
        "torus", "SIREN 3-64-64-64-1, omega0 = 30", "sin", steps=15000, lr=1e-3, seed=22),
    "sphere_cut_sdf_relu": sdf(
        lambda g: Mlp([3, 64, 64, 64, 64, 1], "relu", g),
        "cut_box", "MLP 3-64-64-64-64-1", "relu", steps=15000, lr=3e-3, seed=23),
}
for _depth, _width, _steps, _lr in (
        (2, 16, 12000, 5e-3), (4, 16, 12000, 5e-3), (8, 16, 12000, 5e-3),
        (2, 64, 8000, 3e-3), (4, 64, 8000, 3e-3),
        (2, 128, 10000, 2e-3), (4, 128, 10000, 2e-3), (8, 128, 12000, 1e-3),
        (4, 256, 9000, 1e-3)):
    MODELS[f"oscillator_d{_depth}_w{_width}"] = oscillator(
        _depth, _width, steps=_steps, lr=_lr, seed=100 * _depth + _width)

# Less than a minute of one core for all but the first: small batches, few steps.
LARGE = {
    "oscillator_d4_w64_tanh": oscillator(4, 64, steps=6000, lr=2e-3, seed=464, activation="tanh"),
    "dense_d8_w256_relu": sdf(
        lambda g: Mlp([3] + [256] * 8 + [1], "relu", g),
        "cut_box", "MLP 3-256 (8 hidden layers)-1", "relu", steps=2000, lr=5e-4, seed=31,
        n=128, points=1 << 15, tests=4000),
    "oscillator_d8_w256": oscillator(8, 256, steps=5000, lr=3e-4, seed=1056, n=128),
    "siren_d4_w256": sdf(
        lambda g: Siren([3] + [256] * 4 + [1], 30.0, g),
        "torus", "SIREN 3-256 (4 hidden layers)-1, omega0 = 30", "sin", steps=3000, lr=3e-4, seed=33,
        n=256, points=1 << 15, tests=4000),
    "dense_d8_w256_softplus": sdf(
        lambda g: Mlp([3] + [256] * 8 + [1], "softplus", g, beta=100),
        "torus", "MLP 3-256 (8 hidden layers)-1", "softplus, beta = 100", steps=2000, lr=5e-4, seed=32,
        n=128, points=1 << 15, tests=4000),
    "oscillator_d8_w512": oscillator(8, 512, steps=2000, lr=2e-4, seed=1312, n=64),
    "oscillator_d4_w64_gelu": oscillator(4, 64, steps=6000, lr=2e-3, seed=465, activation="gelu", n=256),
    "oscillator_d8_w64_tanh": oscillator(8, 64, steps=6000, lr=1e-3, seed=865, activation="tanh", n=256),
    "oscillator_d8_w256_gelu": oscillator(8, 256, steps=2000, lr=3e-4, seed=1057, activation="gelu", n=128),
}

VERBOSE = False
TABLE = ("<!-- table: written by scripts/train_models.py -->", "<!-- end of table -->")


def write_table(path, losses):
    """Replaces the table between the two marks of the README by the records."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    if TABLE[0] not in text or TABLE[1] not in text:
        return
    head, rest = text.split(TABLE[0], 1)
    tail = rest.split(TABLE[1], 1)[1]
    rows = ["| file | function | architecture | activation | parameters | bytes "
            "| seed / steps / seconds | mse | max abs error |",
            "|---|---|---|---|--:|--:|---|--:|--:|"]
    for name, r in losses.items():
        rows.append(f"| `{name}.onnx` | {r['function']} | {r['architecture']} | {r['activation']} "
                    f"| {r['parameters']} | {r['bytes']} "
                    f"| {r['seed']} / {r['steps']} / {r['seconds']} "
                    f"| {r['mse']:.1e} | {r['max_abs_error']:.1e} |")
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join([head + TABLE[0], ""] + rows + ["", TABLE[1] + tail]))


def main():
    global VERBOSE
    parser = argparse.ArgumentParser(description="Train the bundled example networks.")
    parser.add_argument("--large", action="store_true", help="the wide and deep networks, not bundled")
    parser.add_argument("--only", action="append", choices=sorted(MODELS | LARGE), metavar="NAME",
                        help="train this network (may be repeated); the others stay as they are")
    parser.add_argument("--out", help="directory; default examples/models, with --large build/large-models")
    parser.add_argument("--list", action="store_true", help="print the names and stop")
    parser.add_argument("--verbose", action="store_true", help="print the loss during training")
    options = parser.parse_args()
    VERBOSE = options.verbose
    models = LARGE if options.large else MODELS
    out = options.out or os.path.join(REPO, *(("build", "large-models") if options.large
                                              else ("examples", "models")))
    if options.list:
        print("\n".join(models))
        return 0
    for name in options.only or ():
        if name not in models:
            parser.error(f"{name} is trained {'without' if options.large else 'with'} --large")

    torch.set_num_threads(1)
    if options.large:
        torch.set_flush_denormal(True)  # the tails of softplus with beta = 100 are subnormal, and 20 times slower
    torch.use_deterministic_algorithms(True)
    os.makedirs(out, exist_ok=True)
    losses_path = os.path.join(out, "losses.json")
    losses = {}
    if os.path.exists(losses_path):
        with open(losses_path, encoding="utf-8") as file:
            losses = json.load(file)

    for name in options.only or models:
        path = os.path.join(out, name + ".onnx")
        record = models[name](name, path)
        losses[name] = record
        print(f"{name}: mse {record['mse']:.3e}, max {record['max_abs_error']:.3e}, "
              f"{record['parameters']} parameters, {record['bytes']} bytes, "
              f"{record['seconds']} s, ONNX against torch {record['onnx_vs_torch_max_diff']:.2e}",
              flush=True)
        ordered = {n: losses[n] for n in models if n in losses}
        with open(losses_path, "w", encoding="utf-8") as file:
            json.dump(ordered, file, indent=2)
            file.write("\n")
        readme = os.path.join(out, "README.md")
        if os.path.exists(readme):
            write_table(readme, ordered)
    return 0


if __name__ == "__main__":
    sys.exit(main())
