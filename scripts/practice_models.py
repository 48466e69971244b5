"""The kinds of networks that people export with PyTorch, untrained and small: language models with ids as inputs, masks of
every kind, caches, rotary positions; a speech front end, a U-Net, an LSTM. export_models.py --practice writes them."""
import math

import torch
from torch import nn
from torch.nn import functional as F


class GptAttention(nn.Module):
    def __init__(self, width, heads, mask):
        super().__init__()
        self.heads, self.mask = heads, mask
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        n, t, width = x.shape
        q, k, v = [part.view(n, t, self.heads, width // self.heads).transpose(1, 2) for part in self.qkv(x).split(width, 2)]
        scores = q @ k.transpose(-2, -1) / math.sqrt(width // self.heads)
        causal = torch.tril(torch.ones(t, t, dtype=torch.bool, device=x.device))
        if self.mask == "masked_fill":
            scores = scores.masked_fill(~causal, float("-inf"))
        elif self.mask == "where":
            scores = torch.where(causal, scores, torch.full((1,), torch.finfo(torch.float32).min))
        else:
            scores = scores + (1.0 - causal.float()) * -1e9
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(n, t, width))


class GptBlock(nn.Module):
    def __init__(self, width, heads, mask):
        super().__init__()
        self.ln1, self.ln2, self.attn = nn.LayerNorm(width), nn.LayerNorm(width), GptAttention(width, heads, mask)
        self.fc, self.proj = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        x = x + self.attn(self.ln1(x))
        y = self.fc(self.ln2(x))
        y = 0.5 * y * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (y + 0.044715 * torch.pow(y, 3.0))))
        return x + self.proj(y)


class Gpt(nn.Module):
    """GPT-2's form: ids, learned positions, pre-norm, tanh Gelu, tied head."""

    def __init__(self, blocks, width=32, heads=4, vocabulary=101, context=64, mask="masked_fill"):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.b = nn.ModuleList(GptBlock(width, heads, mask) for _ in range(blocks))
        self.norm = nn.LayerNorm(width)

    def forward(self, ids):
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))
        for block in self.b:
            x = block(x)
        return self.norm(x) @ self.tokens.weight.t()


class RmsNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(1.0 + 0.1 * torch.randn(width))

    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


def rotate(x, cos, sin):
    a, b = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2:]
    return x * cos + torch.cat([-b, a], dim=-1) * sin


class LlamaBlock(nn.Module):
    def __init__(self, width, heads, groups):
        super().__init__()
        self.heads, self.groups, self.size = heads, groups, width // heads
        self.input_layernorm, self.post_attention_layernorm = RmsNorm(width), RmsNorm(width)
        self.q, self.o = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.k = nn.Linear(width, groups * self.size, bias=False)
        self.v = nn.Linear(width, groups * self.size, bias=False)
        self.gate, self.up = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, 3 * width, bias=False)
        self.down = nn.Linear(3 * width, width, bias=False)

    def forward(self, x, cos, sin, mask, past_k, past_v):
        n, t, width = x.shape
        y = self.input_layernorm(x)
        q = rotate(self.q(y).view(n, t, self.heads, self.size).transpose(1, 2), cos, sin)
        k = rotate(self.k(y).view(n, t, self.groups, self.size).transpose(1, 2), cos, sin)
        v = self.v(y).view(n, t, self.groups, self.size).transpose(1, 2)
        k, v = torch.cat([past_k, k], dim=2), torch.cat([past_v, v], dim=2)
        repeats = self.heads // self.groups
        many_k = k[:, :, None].expand(n, self.groups, repeats, k.shape[2], self.size).reshape(n, self.heads, -1, self.size)
        many_v = v[:, :, None].expand(n, self.groups, repeats, v.shape[2], self.size).reshape(n, self.heads, -1, self.size)
        weights = (q @ many_k.transpose(-2, -1) / math.sqrt(self.size) + mask).softmax(-1)
        x = x + self.o((weights @ many_v).transpose(1, 2).reshape(n, t, width))
        y = self.post_attention_layernorm(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y)), k, v


class Llama(nn.Module):
    """Llama's form: RMSNorm, rotary positions, grouped queries, SwiGLU, caches as inputs and outputs."""

    def __init__(self, blocks, width=32, heads=4, groups=2, vocabulary=101):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(LlamaBlock(width, heads, groups) for _ in range(blocks))
        self.norm, self.head = RmsNorm(width), nn.Linear(width, vocabulary, bias=False)
        frequencies = 1.0 / 10000.0 ** (torch.arange(0, width // heads, 2).float() / (width // heads))
        self.register_buffer("frequencies", frequencies)

    def forward(self, ids, attention_mask, position_ids, *past):
        angles = position_ids[:, :, None].float() * self.frequencies[None, None, :]
        angles = torch.cat([angles, angles], dim=-1)[:, None]
        cos, sin = angles.cos(), angles.sin()
        t, all_t = ids.shape[1], attention_mask.shape[1]
        lowest = torch.finfo(torch.float32).min
        causal = torch.full((t, all_t), lowest).triu(diagonal=all_t - t + 1)
        mask = torch.where(attention_mask[:, None, None, :] == 0, torch.full((1,), lowest), causal[None, None])
        x, caches = self.embed(ids), []
        for i, layer in enumerate(self.layers):
            x, k, v = layer(x, cos, sin, mask, past[2 * i], past[2 * i + 1])
            caches += [k, v]
        return (self.head(self.norm(x)), *caches)


class Bert(nn.Module):
    """BERT's form: ids, types, int64 padding mask, post-norm, exact Gelu."""

    def __init__(self, blocks, width=32, heads=4, vocabulary=101, context=64):
        super().__init__()
        self.words, self.places, self.kinds = nn.Embedding(vocabulary, width), nn.Embedding(context, width), nn.Embedding(2, width)
        self.norm = nn.LayerNorm(width, eps=1e-12)
        self.register_buffer("position_ids", torch.arange(context)[None])
        self.heads = heads
        self.blocks = nn.ModuleList(nn.ModuleDict({
            "qkv": nn.Linear(width, 3 * width), "out": nn.Linear(width, width), "n1": nn.LayerNorm(width, eps=1e-12),
            "fc": nn.Linear(width, 4 * width), "proj": nn.Linear(4 * width, width), "n2": nn.LayerNorm(width, eps=1e-12),
        }) for _ in range(blocks))
        self.pool, self.head = nn.Linear(width, width), nn.Linear(width, 3)

    def forward(self, input_ids, attention_mask, token_type_ids):
        x = self.words(input_ids) + self.kinds(token_type_ids) + self.places(self.position_ids[:, : input_ids.shape[1]])
        x = self.norm(x)
        n, t, width = x.shape
        mask = (1.0 - attention_mask[:, None, None, :].float()) * torch.finfo(torch.float32).min
        for b in self.blocks:
            q, k, v = [p.view(n, t, self.heads, -1).transpose(1, 2) for p in b["qkv"](x).split(width, 2)]
            weights = (q @ k.transpose(-2, -1) / math.sqrt(width // self.heads) + mask).softmax(-1)
            x = b["n1"](x + b["out"]((weights @ v).transpose(1, 2).reshape(n, t, width)))
            x = b["n2"](x + b["proj"](F.gelu(b["fc"](x))))
        return self.head(torch.tanh(self.pool(x[:, 0])))


class Translator(nn.Module):
    """An encoder and a decoder by nn.Transformer's layers, with padding and causal masks."""

    def __init__(self, blocks, width=32, heads=4, vocabulary=101):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.encoder = nn.ModuleList(nn.TransformerEncoderLayer(width, heads, 2 * width, batch_first=True) for _ in range(blocks))
        self.decoder = nn.ModuleList(nn.TransformerDecoderLayer(width, heads, 2 * width, batch_first=True) for _ in range(blocks))
        self.head = nn.Linear(width, vocabulary)

    def forward(self, source, target):
        padding = source == 0
        x, y = self.embed(source), self.embed(target)
        causal = torch.full((target.shape[1], target.shape[1]), float("-inf")).triu(1)
        for layer in self.encoder:
            x = layer(x, src_key_padding_mask=padding)
        for layer in self.decoder:
            y = layer(y, x, tgt_mask=causal, memory_key_padding_mask=padding)
        return self.head(y)


class Speech(nn.Module):
    """A convolutional front end over frames, then a pre-norm encoder."""

    def __init__(self, blocks, width=32, heads=4):
        super().__init__()
        self.front = nn.Sequential(nn.Conv1d(16, width, 3, padding=1), nn.GELU(), nn.Conv1d(width, width, 3, stride=2, padding=1), nn.GELU())
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(width, heads, 2 * width, batch_first=True, norm_first=True, activation="gelu") for _ in range(blocks))
        self.norm = nn.LayerNorm(width)

    def forward(self, frames):
        x = self.front(frames).transpose(1, 2)
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)


class BilinearUnet(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(1, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU())
        self.middle = nn.Sequential(nn.Conv2d(width, 2 * width, 3, padding=1), nn.GroupNorm(4, 2 * width), nn.SiLU())
        self.up = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False)
        self.head = nn.Conv2d(3 * width, 1, 3, padding=1)

    def forward(self, x):
        fine = self.down(x)
        return self.head(torch.cat([self.up(self.middle(F.max_pool2d(fine, 2))), fine], dim=1))


class Recurrent(nn.Module):
    def __init__(self, width=12):
        super().__init__()
        self.lstm = nn.LSTM(5, width, num_layers=2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * width, 3)

    def forward(self, x):
        return self.head(self.lstm(x)[0][:, -1])


def practice_models(blocks):
    """Name, network, example inputs, input names, output names, open axes."""
    ids = torch.randint(1, 100, (2, 7))
    mask = torch.ones(2, 7, dtype=torch.int64)
    mask[1, 5:] = 0
    both = {0: "batch", 1: "seq"}
    for kind in ("masked_fill", "where", "add"):
        yield f"gpt_{kind}_{blocks}", Gpt(blocks, mask=kind), (ids,), ["ids"], ["logits"], {"ids": both, "logits": both}
    past = [torch.randn(2, 2, 3, 8) for _ in range(2 * blocks)]
    past_names = [f"past_{i // 2}_{'kv'[i % 2]}" for i in range(2 * blocks)]
    axes = {"ids": both, "attention_mask": {0: "batch", 1: "all"}, "position_ids": both, "logits": both}
    axes.update({name: {0: "batch", 2: "past"} for name in past_names})
    yield (f"llama_{blocks}", Llama(blocks),
           (ids, torch.cat([torch.ones(2, 3, dtype=torch.int64), mask], dim=1), torch.arange(3, 10)[None].expand(2, 7), *past),
           ["ids", "attention_mask", "position_ids", *past_names],
           ["logits", *[name.replace("past", "present") for name in past_names]], axes)
    yield (f"bert_{blocks}", Bert(blocks), (ids, mask, torch.zeros_like(ids)), ["input_ids", "attention_mask", "token_type_ids"],
           ["y"], {"input_ids": both, "attention_mask": both, "token_type_ids": both, "y": {0: "batch"}})
    padded = ids.clone()
    padded[1, 5:] = 0
    yield (f"translator_{blocks}", Translator(blocks), (padded, ids[:, :5]), ["source", "target"], ["y"],
           {"source": both, "target": {0: "batch", 1: "out"}, "y": {0: "batch", 1: "out"}})
    yield f"speech_{blocks}", Speech(blocks), (torch.randn(2, 16, 20),), ["frames"], ["y"], {"frames": {0: "batch", 2: "time"}, "y": {0: "batch", 1: "time"}}
    if blocks == 1:
        yield ("unet_bilinear", BilinearUnet(), (torch.randn(2, 1, 16, 24),), ["x"], ["y"],
               {"x": {0: "batch", 2: "height", 3: "width"}, "y": {0: "batch", 2: "height", 3: "width"}})
        yield "lstm", Recurrent(), (torch.randn(2, 6, 5),), ["x"], ["y"], {"x": {0: "batch"}, "y": {0: "batch"}}
