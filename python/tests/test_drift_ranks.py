"""A network on one device, and its shards on two ranks: one network, whose weights the ranks divide."""

import pytest

torch = pytest.importorskip("torch")
distributed = pytest.importorskip("torch.distributed")
if not distributed.is_available():
    pytest.skip("PyTorch without torch.distributed", allow_module_level=True)
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

import driftbound  # noqa: E402

WIDTH, HEADS, PART, RANKS = 16, 4, 4, 2
TOKENS = torch.randint(0, 30, (3, 7), generator=torch.Generator().manual_seed(5))
FAULTS = {"none": {}, "a column of another rank": {"column": True}, "a weight off": {"weight": True},
          "a mask off by one": {"mask": True}, "not reduced": {"reduces": False}}


class Block(nn.Module):
    """Attention and a multilayer perceptron, or what a rank has of them: some heads and some hidden neurons."""

    def __init__(self, rank=None, **fault):
        super().__init__()
        torch.manual_seed(11)
        self.rank, self.fault = rank, fault
        self.emb, self.norm = nn.Embedding(30, WIDTH), nn.LayerNorm(WIDTH)
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))
        self.up, self.down, self.head = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH, bias=False), \
            nn.Linear(WIDTH, 30, bias=False)
        self.heads = HEADS
        if rank is None:
            return
        self.heads //= RANKS
        with torch.no_grad():
            for layer, axis in ((self.q, 0), (self.k, 0), (self.v, 0), (self.o, 1), (self.up, 0), (self.down, 1)):
                if fault.get("column") and rank == 1 and layer is self.down:
                    layer.weight[:, 40] = layer.weight[:, 3]
                if fault.get("weight") and rank == 1 and layer is self.k:
                    layer.weight[9, 3] *= 1.001
                layer.weight = nn.Parameter(layer.weight.chunk(RANKS, axis)[rank].clone())
            self.up.bias = nn.Parameter(self.up.bias.chunk(RANKS)[rank].clone())

    def reduced(self, x):
        if self.rank is not None and self.fault.get("reduces", True):
            distributed.all_reduce(x)
        return x

    def forward(self, tokens):
        x = self.emb(tokens)
        rows, count, _ = x.shape
        y = self.norm(x)
        q, k, v = (layer(y).view(rows, count, self.heads, PART).transpose(1, 2) for layer in (self.q, self.k, self.v))
        mask = torch.ones(count, count, dtype=torch.bool).triu(2 if self.fault.get("mask") else 1)
        scores = (q @ k.transpose(-1, -2) / PART ** 0.5).masked_fill(mask, -torch.inf)
        x = x + self.reduced(self.o((scores.softmax(-1) @ v).transpose(1, 2).reshape(rows, count, self.heads * PART)))
        return self.head(x + self.reduced(self.down(F.gelu(self.up(self.norm(x))))))


def work_as(rank, folder):
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=RANKS)
    for number, fault in enumerate(FAULTS.values()):
        block = Block(rank, **fault)
        with torch.no_grad(), driftbound.record(f"{folder}/{number}-r{rank}.safetensors"):
            block(TOKENS)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """The recordings of one device, and of the ranks of each fault."""
    folder = tmp_path_factory.mktemp("ranks")
    torch.multiprocessing.spawn(work_as, (str(folder),), RANKS)
    block = Block()
    with torch.no_grad(), driftbound.record(folder / "whole.safetensors"):
        block(TOKENS)
    for number in range(len(FAULTS)):
        driftbound.join_ranks([folder / f"{number}-r{rank}.safetensors" for rank in range(RANKS)],
                              folder / f"{number}.safetensors")
    return folder


@pytest.mark.parametrize("fault", FAULTS)
def test_ranks_compute_what_one_device_computes(recorded, fault):
    ranks = recorded / f"{list(FAULTS).index(fault)}.safetensors"
    for pair in ((recorded / "whole.safetensors", ranks), (ranks, recorded / "whole.safetensors")):
        drift = driftbound.drift(*pair)
        assert drift.verdict == ("expected" if fault == "none" else "bug"), drift.text
        if fault == "a weight off":
            assert "1 of 256 elements of 'k.weight'" in drift.reason, drift.text
