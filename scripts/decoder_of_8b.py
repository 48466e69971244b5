#!/usr/bin/env python3
"""A recording with the shape of a decoder of 8 billion parameters, and what judging it takes.

  /usr/bin/python3 scripts/decoder_of_8b.py [--layers 32] [--tokens 4096] [--sample 1000] [--threads 2] [--seed 1]
                                            [--keep FOLDER]

Needs PyTorch, and the program (the variable DRIFTBOUND, or build/*/driftbound). Width 4096, 32 heads of 128 that share
8 heads of keys and values, feed-forward 14336, vocabulary 128,256; bfloat16 with float32 sums, as a GPU computes it.

One layer's weights are made on the fly, and all layers refer to that file. With S elements a record max(64, S / 8)
tokens are drawn, and only their numbers go through the layers: every record has the operands that it names and what
honest arithmetic makes of them. The keys and values of the other tokens are random numbers. Prints how long recording
and judging took, the program's peak of memory, and how many records do not hold. Exit status 1 where there are any.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "python"))

import numpy as np
import torch

import driftbound
from driftbound import safetensors
from driftbound.arrays import as_array
from driftbound.environment import declare
from driftbound.program import find_program

WIDTH, HEADS, KEY_HEADS, HEAD, INNER, VOCABULARY = 4096, 32, 8, 128, 14336, 128256
EPSILON, BASE = 1e-5, 500000.0
NUMBERS_OF_ROWS = 1 << 19  # of a norm

SHAPES = {
    "input_layernorm": (WIDTH,),
    "self_attn.q_proj": (WIDTH, WIDTH),
    "self_attn.k_proj": (KEY_HEADS * HEAD, WIDTH),
    "self_attn.v_proj": (KEY_HEADS * HEAD, WIDTH),
    "self_attn.o_proj": (WIDTH, WIDTH),
    "post_attention_layernorm": (WIDTH,),
    "mlp.gate_proj": (INNER, WIDTH),
    "mlp.up_proj": (INNER, WIDTH),
    "mlp.down_proj": (WIDTH, INNER),
}


def say(text):
    """A line about progress, on a terminal."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def stored(x):
    """float32 numbers as bfloat16 results."""
    return x.to(torch.bfloat16)


def random_numbers(draw, shape, size=1.0):
    return stored(torch.randn(shape, generator=draw).mul_(size))


def write_weights(path, draw):
    """The file of one layer. Returns its tensors as float32."""
    tensors = {}
    for name, shape in SHAPES.items():
        say(f"weights: {name}")
        numbers = random_numbers(draw, shape, 0.02 if len(shape) > 1 else 0.1)
        tensors[name] = numbers if len(shape) > 1 else stored(numbers.float() + 1)
    safetensors.write(path, {f"{name}.weight": as_array(tensor).whole() for name, tensor in tensors.items()}, {})
    return {name: tensor.float() for name, tensor in tensors.items()}


class Drawn:
    """The tokens drawn, and the numbers of these tokens as parts of values of all tokens."""

    def __init__(self, tokens, sample, random):
        self.tokens, self.sample, self.random = tokens, sample, random
        self.draws = min(max(64, -(-sample // 8)), sample)
        self.order = random.integers(0, tokens, self.draws)  # independent, with repetition
        self.rows = np.unique(self.order)

    def shape(self, x):
        return (self.tokens, *x.shape[1:])

    def all_of(self, x):
        """The part with all of these tokens."""
        return driftbound.Part(x, self.shape(x), axes={0: self.rows})

    def lines(self, x, draws=0):
        """The part with the tokens that a norm has: whole rows."""
        rows = np.unique(self.order[: self.draws_of_rows])
        return driftbound.Part(x[torch.from_numpy(np.searchsorted(self.rows, rows))], self.shape(x), axes={0: rows},
                               draws=draws)

    @property
    def draws_of_rows(self):
        return max(-(-self.sample // 64), min(self.draws, NUMBERS_OF_ROWS // WIDTH))

    def elements(self, x, columns=None):
        """Numbers of single elements of a value with these rows: a draw of one in every row drawn, and more up to S.

        ``columns``: those drawn, in their order; default: any.
        """
        width = int(np.prod(x.shape[1:]))
        more = self.random.integers(0, self.draws, max(self.sample - self.draws, 0))
        rows = np.concatenate([self.order, self.order[more]])
        if columns is None:
            columns = self.random.integers(0, width, len(rows))
        else:
            columns = np.concatenate([columns, columns[self.random.integers(0, self.draws, len(more))]])
        return np.unique(rows * width + columns)

    def some_of(self, x, elements, draws=True):
        """The part with these elements."""
        width = int(np.prod(x.shape[1:]))
        places = np.searchsorted(self.rows, elements // width) * width + elements % width
        return driftbound.Part(x.reshape(-1)[torch.from_numpy(places)], self.shape(x), elements=elements,
                               draws=self.draws if draws else 0)


class Decoder:
    """The layers, and their records."""

    def __init__(self, recorder, weights, drawn, draw):
        self.recorder, self.weights, self.drawn, self.draw = recorder, weights, drawn, draw
        angles = torch.arange(drawn.tokens).float()[:, None] * BASE ** (-torch.arange(0, HEAD, 2).float() / HEAD)
        angles = torch.cat([angles, angles], 1)[:, None]
        self.cos, self.sin = stored(angles.cos()), stored(angles.sin())
        self.at = torch.from_numpy(drawn.rows)

    def embed(self):
        ids = torch.from_numpy(self.drawn.random.integers(0, VOCABULARY, self.drawn.tokens))
        rows, places = np.unique(ids[self.at].numpy(), return_inverse=True)
        table = random_numbers(self.draw, (len(rows), WIDTH))
        x = table[torch.from_numpy(places)]
        self.recorder.add("aten::embedding", [driftbound.Part(table, (VOCABULARY, WIDTH), axes={0: rows}), ids],
                          self.drawn.some_of(x, self.drawn.elements(x)), module="embed_tokens")
        return x

    def layer(self, x, number):
        drawn, module = self.drawn, f"layers.{number}"
        h = self.norm(x, f"{module}.input_layernorm", "input_layernorm")
        q, k, v = (self.linear(h, module, f"self_attn.{name}_proj") for name in "qkv")
        q = self.rotated(q.reshape(-1, HEADS, HEAD), f"{module}.self_attn.rotary")
        k = self.rotated(k.reshape(-1, KEY_HEADS, HEAD), f"{module}.self_attn.rotary")
        a = self.attention(q, k, v.reshape(-1, KEY_HEADS, HEAD), f"{module}.self_attn")
        x = self.elementwise("aten::add", [x, self.linear(a, module, "self_attn.o_proj")], torch.add, module)
        h = self.norm(x, f"{module}.post_attention_layernorm", "post_attention_layernorm")
        gate, up = (self.linear(h, module, f"mlp.{name}_proj") for name in ("gate", "up"))
        gate = self.elementwise("aten::silu", [gate], torch.nn.functional.silu, f"{module}.mlp")
        h = self.elementwise("aten::mul", [gate, up], torch.mul, f"{module}.mlp")
        return self.elementwise("aten::add", [x, self.linear(h, module, "mlp.down_proj")], torch.add, module)

    def head(self, x):
        drawn = self.drawn
        x = self.norm(x, "norm", "input_layernorm")
        order = drawn.random.integers(0, VOCABULARY, drawn.draws)
        columns = np.unique(order)
        weight = random_numbers(self.draw, (len(columns), WIDTH), 0.02)
        y = stored(x.float() @ weight.float().T)
        elements = drawn.elements(torch.empty(1, VOCABULARY), order)
        places = np.searchsorted(drawn.rows, elements // VOCABULARY), np.searchsorted(columns, elements % VOCABULARY)
        result = driftbound.Part(y[torch.from_numpy(places[0]), torch.from_numpy(places[1])],
                                 (drawn.tokens, VOCABULARY), elements=elements, draws=drawn.draws)
        self.recorder.add("aten::linear", [drawn.all_of(x), driftbound.Part(weight, (VOCABULARY, WIDTH),
                                                                           axes={0: columns})],
                          result, module="lm_head")

    # ---- ops

    def norm(self, x, module, name):
        numbers = x.float()
        scale = torch.rsqrt(numbers.square().mean(-1, keepdim=True) + EPSILON)
        y = stored(numbers * scale * self.weights[name])
        self.recorder.add("aten::rms_norm", [self.drawn.lines(x), self.recorder.weight(f"{name}.weight")],
                          self.drawn.lines(y, self.drawn.draws_of_rows), module=module, normalized_shape=[WIDTH],
                          eps=EPSILON)
        return y

    def linear(self, x, module, name):
        y = stored(x.float() @ self.weights[name].T)
        self.recorder.add("aten::linear", [self.drawn.all_of(x), self.recorder.weight(f"{name}.weight")],
                          self.drawn.some_of(y, self.drawn.elements(y)), module=f"{module}.{name}")
        return y

    def elementwise(self, op, operands, function, module, whole=None):
        """``whole``: an operand that is there for all tokens, the same for all heads, behind the others."""
        numbers = [x.float() for x in operands] + ([] if whole is None else [whole[self.at].float()])
        y = stored(function(*numbers))
        elements = self.drawn.elements(y)
        given = [self.drawn.some_of(x, elements, draws=False) for x in operands] + ([] if whole is None else [whole])
        self.recorder.add(op, given, self.drawn.some_of(y, elements), module=module)
        return y

    def rotated(self, x, module):
        """x cos + rotate_half(x) sin, each step rounded."""
        half = torch.cat([-x[..., HEAD // 2 :], x[..., : HEAD // 2]], -1)
        a = self.elementwise("aten::mul", [x], torch.mul, module, self.cos)
        b = self.elementwise("aten::mul", [half], torch.mul, module, self.sin)
        return self.elementwise("aten::add", [a, b], torch.add, module)

    def attention(self, q, k, v, module):
        """Weights are rounded to bfloat16 before they meet the values, and divided by their sum after that."""
        drawn, tokens = self.drawn, self.drawn.tokens
        keys, values = (random_numbers(self.draw, (KEY_HEADS, tokens, HEAD)) for _ in "kv")
        keys[:, self.at], values[:, self.at] = k.transpose(0, 1), v.transpose(0, 1)
        seen = torch.arange(tokens) <= self.at[:, None]
        result = torch.empty(HEADS, len(drawn.rows), HEAD)
        for head in range(HEADS):
            shared = head // (HEADS // KEY_HEADS)
            scores = (q[:, head].float() @ keys[shared].float().T) * HEAD**-0.5
            scores.masked_fill_(~seen, -torch.inf)
            weights = torch.exp(scores - scores.amax(-1, keepdim=True))
            result[head] = stored(weights).float() @ values[shared].float() / weights.sum(-1, keepdim=True)
        result = stored(result)
        draws = -(-drawn.sample // 64)
        heads, rows = drawn.random.integers(0, HEADS, draws), drawn.order[:draws]
        lines = np.unique(heads * tokens + rows)
        heads, rows = lines // tokens, np.searchsorted(drawn.rows, lines % tokens)
        elements = (lines[:, None] * HEAD + np.arange(HEAD)).reshape(-1)
        shape = (1, HEADS, tokens, HEAD)

        def part(x, draws):
            return driftbound.Part(x.reshape(-1), shape, elements=elements, draws=draws)

        self.recorder.add("aten::scaled_dot_product_attention", [part(q[rows, heads], 0), keys[None], values[None]],
                          part(result[heads, rows], draws), module=module, is_causal=True, enable_gqa=True)
        return result.transpose(0, 1).reshape(-1, WIDTH)


def record(path, arguments):
    """Records the run. Returns how many records it has."""
    torch.manual_seed(arguments.seed)
    draw = torch.Generator().manual_seed(arguments.seed)
    drawn = Drawn(arguments.tokens, arguments.sample, np.random.default_rng(arguments.seed))
    weights_path = path.with_name("layer.safetensors")
    weights = write_weights(weights_path, draw)
    arithmetic = declare("bf16, float32 sums", "fp32", "bf16", functions="pytorch-cpu",
                         source="scripts/decoder_of_8b.py: float32 in PyTorch on the CPU, results rounded to bfloat16")
    with torch.no_grad(), driftbound.record(path, sample=arguments.sample, weights=weights_path, hash_weights=False,
                                            arithmetic=arithmetic, pytorch=False, shard_bytes=64 << 20) as recorder:
        decoder = Decoder(recorder, weights, drawn, draw)
        x = decoder.embed()
        for number in range(arguments.layers):
            say(f"recording: layer {number + 1} of {arguments.layers}")
            x = decoder.layer(x, number)
        decoder.head(x)
        return recorder.records


def memory_of(process):
    """Bytes of a process in memory: the peak so far, what is its own now, and what it has mapped of files now.

    ru_maxrss would be no less than what this script held when it started the program.
    """
    names = {"VmHWM:": 0, "RssAnon:": 0, "RssFile:": 0}
    try:
        for line in pathlib.Path(f"/proc/{process}/status").read_text().splitlines():
            name, *rest = line.split()
            if name in names:
                names[name] = int(rest[0]) * 1024
    except OSError:
        pass
    return list(names.values())


def judge(path, threads):
    """Calls the program. Returns its report, seconds, seconds of processors, and the largest memory_of()."""
    answer = path.with_name("report.json")
    command = [str(find_program()), "report", str(path), "--json", str(answer), "--threads", str(threads)]
    began = time.monotonic()
    say("judging")
    with open(path.with_name("report.txt"), "w", encoding="utf-8") as text:
        process = subprocess.Popen(command, stdout=text, stderr=subprocess.STDOUT)
        memory = [0, 0, 0]
        while True:
            memory = [max(both) for both in zip(memory, memory_of(process.pid))]
            done, status, usage = os.wait4(process.pid, os.WNOHANG)
            if done:
                break
            time.sleep(0.02)
    process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.monotonic() - began
    if not answer.exists():
        sys.exit(f"the program judged nothing, status {process.returncode}:\n"
                 + path.with_name("report.txt").read_text(encoding="utf-8"))
    return json.loads(answer.read_text(encoding="utf-8")), seconds, usage.ru_utime + usage.ru_stime, memory


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--sample", type=int, default=1000, help="elements a record")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=pathlib.Path, help="folder for the recording and its report")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    with tempfile.TemporaryDirectory() as folder:
        place = arguments.keep or pathlib.Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        path = place / "decoder.safetensors"
        began = time.monotonic()
        records = record(path, arguments)
        recorded = time.monotonic() - began
        size = sum(file.stat().st_size for file in place.glob("decoder*.safetensors"))
        report, seconds, processor, (peak, own, mapped) = judge(path, arguments.threads)
        say("")
    layers = report["layers"]
    draws = [layer["record"]["draws"] for layer in layers]
    bad = {status: sum(layer["status"] == status for layer in layers) for status in ("violated", "improbable")}
    print(f"{arguments.layers} layers, {arguments.tokens} tokens, {arguments.sample} elements a record")
    print(f"recorded in {recorded:.1f} s: {records} records, {size / 1e6:.0f} MB beside one layer's weights")
    print(f"judged in {seconds:.1f} s ({processor:.1f} s of processors), peak of memory {peak / 1e6:.0f} MB: "
          f"up to {own / 1e6:.0f} MB its own and {mapped / 1e6:.0f} MB of mapped files")
    print(f"{len(layers)} results judged, {sum(draw is None for draw in draws)} of them without draws, "
          f"others {min(filter(None, draws), default=0)} to {max(filter(None, draws), default=0)}; "
          f"{report['recording']['not_judged']} not judged")
    print(f"verdict {report['verdict']}: {bad['violated']} violated, {bad['improbable']} improbable")
    return 1 if any(bad.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
