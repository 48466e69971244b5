"""Recordings of several ranks, and what is joined of them."""

import contextlib
import os
import shutil
import time

import numpy as np
import pytest
from conftest import Run

import driftbound

torch = pytest.importorskip("torch")
distributed = torch.distributed
nn = torch.nn

if not distributed.is_available() or not distributed.is_gloo_available():
    pytest.skip("this PyTorch has no Gloo", allow_module_level=True)


# ---- what the ranks do --------------------------------------------------------------------------------------------
#
# A function of a scenario makes what a rank needs, and returns what it does while it is recorded.


class RowParallel(nn.Module):
    """A Linear whose inputs are divided among the ranks. ``fault`` changes the sum before the program reads it."""

    def __init__(self, columns, rows, fault):
        super().__init__()
        self.part = nn.Linear(columns, rows, bias=False)
        self.fault = fault
        self.recorder = None

    def forward(self, x):
        y = self.part(x)
        if self.fault is None:
            distributed.all_reduce(y)
            return y
        with self.recorder.paused():
            part = y.clone()
        work = distributed.all_reduce(y, async_op=True)
        while not work.is_completed():
            time.sleep(0.001)
        with self.recorder.paused():
            y.copy_(self.fault(y, part))
        work.wait()
        return y


class ParallelMLP(nn.Module):
    """Two layers, their hidden neurons divided among the ranks."""

    def __init__(self, fault):
        super().__init__()
        self.up = nn.Linear(16, 24)
        self.down = RowParallel(24, 8, fault)

    def forward(self, x):
        return torch.softmax(self.down(torch.relu(self.up(x))), -1)


def mlp(rank, size, fault=None):
    model, x = ParallelMLP(fault), torch.randn(6, 16, generator=torch.Generator().manual_seed(7))

    def run(recorder):
        model.down.recorder = recorder
        model(x)

    return run


def leave_out_own_part(rank, size):
    return mlp(rank, size, (lambda y, part: y - part) if rank == 0 else (lambda y, part: y))


def reduce_in_bfloat16(rank, size):
    return mlp(rank, size, lambda y, part: y.bfloat16().float())


def an_ulp_more(rank, size):
    return mlp(rank, size, lambda y, part: torch.nextafter(y, y + 1) if rank == size - 1 else y)


def inference(rank, size):
    run = mlp(rank, size)
    return torch.inference_mode()(lambda recorder: run(recorder))


def with_gradients(rank, size):
    run = mlp(rank, size)
    return torch.enable_grad()(lambda recorder: run(recorder))


def kinds(rank, size):
    x, y = torch.randn(4, 5), torch.randn(4, 5)
    results = [torch.zeros(4, 5) for _ in range(size)]
    others, ones = list(torch.zeros(size, 2).unbind()), torch.ones(2)

    def run(recorder):
        distributed.broadcast(x, size - 1)
        part = y + x
        distributed.all_gather(results, part)
        part * 5
        z = torch.cat(results) * 2
        distributed.all_reduce(z, op=distributed.ReduceOp.MAX)
        w = y * 3
        distributed.reduce(w, 0)
        z.abs()
        distributed.all_reduce(z, op=distributed.ReduceOp.PRODUCT)
        distributed.all_gather(others, ones)
        distributed.barrier()

    return run


def crosswise(rank, size):
    """Ranks wait in different orders. A view that is made before the wait is read after it."""
    x, y = torch.randn(3, 4), torch.randn(3, 4)

    def run(recorder):
        works = [distributed.all_reduce(x, async_op=True), distributed.all_reduce(y, async_op=True)]
        view = x.view(4, 3)
        for work in works if rank else works[::-1]:
            work.wait()
        view * 2
        x + y

    return run


def groups(rank, size):
    made = [(distributed.new_group(ranks), ranks) for ranks in ([0, 1], [size - 1])]
    x = torch.randn(5)

    def run(recorder):
        for group, ranks in made:
            if rank in ranks:
                distributed.all_reduce(x, group=group)
        x * 2

    return run


def half(rank, size):
    x = torch.randn(40).half()
    return lambda recorder: distributed.all_reduce(x)


def large(rank, size):
    x, y = torch.randn(200, 300), torch.randn(600, 500)

    def run(recorder):
        if rank == 0:
            torch.exp(x)  # draws elements that the other ranks do not draw
        distributed.all_reduce(x)
        distributed.all_reduce(y)

    return run


def unwaited(rank, size):
    x = torch.ones(3)

    def run(recorder):
        recorder.after = distributed.all_reduce(x, async_op=True).wait

    return run


def replicated(rank, size):
    """A step of training, whose all-reduces C++ calls."""
    model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)))
    optimizer, x = torch.optim.SGD(model.parameters(), 0.1), torch.randn(5, 6)

    @torch.enable_grad()
    def run(recorder):
        for _ in range(2):
            optimizer.zero_grad()
            model(x).square().sum().backward()
            optimizer.step()

    return run


def scattered(rank, size):
    """A collective that is recorded without its result."""
    x, fives = torch.ones(4), list(torch.full((size, 4), 5.0))

    def run(recorder):
        y = x * 2
        work = distributed.scatter(y, fives if rank == 0 else None, async_op=True)
        view = y.view(2, 2)
        work.wait()
        view * 3

    return run


def unseen(rank, size):
    """A collective that the dispatcher of PyTorch 1 does not show."""
    x, fives = torch.ones(size), torch.full((size,), 5.0)

    def run(recorder):
        y = x * 2
        distributed.all_to_all_single(y, fives)
        y * 3

    return run


SCENARIOS = [mlp, leave_out_own_part, reduce_in_bfloat16, an_ulp_more, inference, with_gradients, kinds, crosswise,
             groups, half, large, unwaited, replicated, scattered]
if torch.__version__.startswith("1."):
    SCENARIOS.append(unseen)

WARNINGS = {unwaited: "1 collectives were not waited for", unseen: "not seen inside: ProcessGroup.alltoall_base"}


def work_as(rank, size, folder):
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=size)
    for scenario in SCENARIOS:
        torch.manual_seed(rank)
        run = scenario(rank, size)
        recorder = driftbound.record(os.path.join(folder, f"{scenario.__name__}-r{rank}.safetensors"),
                                     sample=500 if scenario is large else None)
        expected = contextlib.nullcontext()
        if scenario in WARNINGS:
            expected = pytest.warns(driftbound.DriftboundWarning, match=WARNINGS[scenario])
        with torch.no_grad(), expected, recorder:
            run(recorder)
        if scenario is unwaited:
            recorder.after()


@pytest.fixture(scope="module", params=[2, 3], ids=["2 ranks", "3 ranks"])
def recorded(request, tmp_path_factory):
    """The recordings of the ranks by scenario, from real processes."""
    folder = tmp_path_factory.mktemp("ranks")
    torch.multiprocessing.spawn(work_as, (request.param, str(folder)), request.param)
    return lambda scenario: [folder / f"{scenario.__name__}-r{rank}.safetensors" for rank in range(request.param)]


def joined(paths, path):
    driftbound.join_ranks(paths, path)
    return Run(path)


# ---- what is joined -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scenario", [mlp, inference, with_gradients])
def test_an_honest_parallel_mlp_holds_from_the_inputs_on(judge, recorded, run_path, scenario):
    paths = recorded(scenario)
    run = joined(reversed(paths), run_path)
    sums = [record for record in run.records if record["op"] == "c10d::all_reduce"]
    assert sorted(record["rank"] for record in sums) == list(range(len(paths)))
    for record in sums:
        assert record["attributes"] == {"reduce": "sum"} and record["module"] == "down"
        assert [identity.split(".")[0] for identity in record["operands"]] == [f"r{i}" for i in range(len(paths))]
        parts = sum(run.number(identity).astype("f8") for identity in record["operands"])
        np.testing.assert_allclose(run.number(record["results"][0]), parts, rtol=1e-5, atol=1e-6)
    answer = judge(run_path)
    assert answer.holds, str(answer)
    assert not answer.recording.reasons, answer.recording.reasons
    last = [layer for layer in answer.layers if layer.record.op == "aten::_softmax"]
    assert len(last) == len(paths)
    assert all(layer.accumulated is not None for layer in last), "chains through the reduction"
    assert not answer.recording.from_input.given


@pytest.mark.parametrize("scenario", [leave_out_own_part, reduce_in_bfloat16])
def test_a_faulty_reduction_is_a_violation(judge, recorded, run_path, scenario):
    paths = recorded(scenario)
    driftbound.join_ranks(paths, run_path)
    answer = judge(run_path)
    assert answer.verdict == "violated", str(answer)
    faulty = [layer for layer in answer.layers if layer.local.max_error > 1e-5 * layer.local.scale]
    assert {layer.record.op for layer in faulty} == {"c10d::all_reduce"}
    assert {layer.record.rank for layer in faulty} == ({0} if scenario is leave_out_own_part else set(range(len(
        paths))))
    assert all(layer.status == "violated" for layer in faulty)


def test_results_that_differ_between_ranks_are_judged_each(judge, recorded, run_path):
    run = joined(recorded(an_ulp_more), run_path)
    first, *others = [run.number(record["results"][0]) for record in run.records if record["op"] == "c10d::all_reduce"]
    assert any(not np.array_equal(first, other) for other in others)
    answer = judge(run_path)
    errors = {layer.record.rank: layer.local.max_error for layer in answer.layers
              if layer.record.op == "c10d::all_reduce"}
    assert len(errors) == len(others) + 1 and len(set(errors.values())) > 1


def test_every_kind_of_collective(judge, recorded, run_path):
    paths = recorded(kinds)
    size = len(paths)
    own = Run(paths[0])
    assert own.of("aten::add")["results"] == own.records[own.ops().index("aten::mul")]["operands"], "a part stays known"
    assert own.of("c10d::broadcast_")["operands"] == [None], "what is written over is not what the rank brings"
    ops = joined(paths, run_path).ops()
    # A broadcast, and two all-gathers.
    assert ops.count("aten::clone") == size + 2 * size * size
    assert ops.count("Max") == size
    assert ops.count("c10d::all_reduce") == 1, "a reduce has a result in its root"
    answer = judge(run_path)
    assert answer.holds, str(answer)
    reasons = {reason.op: reason.count for reason in answer.recording.reasons}
    assert reasons.pop("c10d::allreduce_") == size, "a product of ranks is not judged"
    assert set(reasons) <= {"c10d::barrier"}


def test_ranks_that_wait_in_different_orders(judge, recorded, run_path):
    paths = recorded(crosswise)
    orders = [[record["attributes"]["number"] for record in Run(path).records if "collective" in record.get(
        "attributes", {})] for path in paths]
    assert orders[0] == [1, 0] and orders[1] == [0, 1]
    run = joined(paths, run_path)
    seen = set()
    for record in run.records:
        assert all(identity in seen or run.is_stored(identity) for identity in record["operands"])
        seen.update(record["results"])
    answer = judge(run_path)
    assert answer.holds, str(answer)
    product = [record for record in run.records if record["op"] == "aten::mul"][-1]
    total = [record for record in run.records if record["op"] == "c10d::all_reduce" and record["rank"] == product[
        "rank"]]
    assert any(np.array_equal(run.number(product["operands"][0]).ravel(), run.number(one["results"][0]).ravel())
               for one in total), "a view that was made before the wait has what is there after it"


def test_groups_of_some_ranks(judge, recorded, run_path):
    paths = recorded(groups)
    run = joined(paths, run_path)
    members = [len(record["operands"]) for record in run.records if record["op"] == "c10d::all_reduce"]
    assert sorted(members) == [1, 2, 2]
    answer = judge(run_path)
    assert answer.holds, str(answer)


def test_sums_of_half_precision_may_round_every_step(judge, recorded, run_path):
    run = joined(recorded(half), run_path)
    assert {record["arithmetic"] for record in run.records} == {"cpu fp16 steps"}
    answer = judge(run_path)
    assert answer.holds, str(answer)


def test_sums_of_newer_pytorch_may_round_every_step_too(monkeypatch):
    from driftbound.environment import TorchArithmetics

    arithmetics, device = TorchArithmetics(torch), torch.device("cpu")
    monkeypatch.setattr(arithmetics, "_version", "2.4.0")
    assert arithmetics.name_for(device, {"BF16"}, False, False) == "cpu bf16"
    assert arithmetics.name_for_reduction(device, {"BF16"}) == "cpu bf16 steps"
    assert arithmetics.name_for_reduction(device, {"F32"}) == "cpu fp32"
    assert arithmetics.name_for_reduction(device, {"I64"}) is None


def test_large_tensors_are_recorded_in_part_and_ranks_draw_the_same_elements(judge, recorded, run_path):
    run = joined(recorded(large), run_path)
    sums = [record for record in run.records if record["op"] == "c10d::all_reduce"]
    whole, part = ([record for record in sums if run.values[record["results"][0]]["shape"] == shape]
                   for shape in ([200, 300], [600, 500]))
    assert all("part" not in run.values[identity] for record in whole for identity in record["operands"])
    places = [run.tensors[f"value/{identity}/elements"]
              for record in part for identity in [*record["operands"], *record["results"]]]
    assert all(np.array_equal(places[0], other) for other in places) and 490 < len(places[0]) <= 500
    assert {run.values[record["results"][0]]["part"]["draws"] for record in part} == {500}
    for record in part:
        total = sum(run.number(identity).astype("f8") for identity in record["operands"])
        np.testing.assert_allclose(run.number(record["results"][0]), total, rtol=1e-5, atol=1e-6)
    answer = judge(run_path)
    assert answer.holds, str(answer)
    judged = [layer.record.judged for layer in answer.layers
              if layer.record.op == "c10d::all_reduce" and layer.record.elements == 60000]
    assert judged == [60000] * len(whole)


def test_what_is_not_waited_for_has_no_result(judge, recorded, run_path):
    paths = recorded(unwaited)
    assert Run(paths[0]).of("c10d::allreduce_")["results"] == [None]
    run = joined(paths, run_path)
    assert "c10d::all_reduce" not in run.ops() and run.provenance["details"]["not_seen"].startswith("rank 0: 1 coll")


def test_a_recording_of_one_rank_says_what_it_brought_and_got(judge, recorded):
    paths = recorded(mlp)
    run = Run(paths[1])
    record = run.of("c10d::allreduce_")
    assert record["rank"] == 1 and record["attributes"] == {
        "collective": "all_reduce", "group": record["attributes"]["group"], "ranks": list(range(len(paths))),
        "number": 0, "reduce": "sum"}
    assert record["operands"] == run.of("aten::mm")["results"]
    assert run.of("aten::_softmax")["operands"] == record["results"]
    answer = judge(paths[1])
    assert answer.holds, str(answer)
    (reason,) = answer.recording.reasons
    assert reason.op == "c10d::allreduce_" and reason.count == 1


def test_nothing_of_the_ranks_is_lost(recorded, run_path):
    paths = recorded(mlp)
    driftbound.join_ranks(paths, run_path, shard_bytes=3000)
    run = Run(run_path)
    assert len(run.shards) > 1 and run.last
    for rank, path in enumerate(paths):
        own = Run(path)
        here = [record for record in run.records if record["rank"] == rank]
        assert [record.get("module") for record in here] == [record.get("module") for record in own.records]
        assert all(record["name"].startswith(f"{record['module']}/r{rank}:") for record in here if "module" in record)
        for record in own.records:
            for identity in filter(None, [*record["operands"], *record["results"]]):
                assert run.values[f"r{rank}.{identity}"] == own.values[identity]
                if own.is_stored(identity):
                    np.testing.assert_array_equal(run.number(f"r{rank}.{identity}"), own.number(identity))
    assert run.provenance["details"]["ranks"] == ", ".join(str(rank) for rank in range(len(paths)))


@pytest.mark.parametrize("scenario", [replicated, scattered])
def test_what_collectives_changed_is_read_anew(judge, recorded, run_path, scenario):
    paths = recorded(scenario)
    driftbound.join_ranks(paths, run_path)
    answer = judge(run_path)
    assert answer.holds, str(answer)
    if scenario is scattered:
        run = Run(paths[1])
        assert run.number(run.records[-1]["operands"][0]).tolist() == [[5, 5], [5, 5]]


@pytest.mark.skipif(unseen not in SCENARIOS, reason="the dispatcher of this PyTorch shows all collectives")
def test_what_the_dispatcher_does_not_show_changes_memory(judge, recorded, run_path):
    paths = recorded(unseen)
    for path in paths:
        run = Run(path)
        first, last = run.records[0], run.records[-1]
        assert last["operands"] != first["results"] and run.number(last["operands"][0])[0] == 5
    driftbound.join_ranks(paths, run_path)
    answer = judge(run_path)
    assert answer.holds, str(answer)


def test_a_missing_rank(recorded, run_path):
    first, *others = recorded(mlp)
    with pytest.raises(driftbound.Error, match="rank 0 is missing"):
        driftbound.join_ranks(others, run_path)
    with pytest.raises(driftbound.Error, match=r"is of rank 0, as .* is; give one recording a rank"):
        driftbound.join_ranks([first, first], run_path)
    assert not list(run_path.parent.iterdir())


# ---- what other programs record -----------------------------------------------------------------------------------


def rank_file(folder, rank, size=2, calls=1, shape=(3,), op="c10d::allreduce_", dtype=np.float32, **changed):
    """The recording of a rank of a program without PyTorch, with all-reduces of ones."""
    path = folder / f"rank{rank}.safetensors"
    with driftbound.record(path, pytorch=False) as recorder:
        for number in range(calls):
            attributes = {"collective": "all_reduce", "group": "all", "ranks": list(range(size)), "number": number,
                          "reduce": "sum", **changed}
            sum_of_all = {"avg": 1, "max": 1, "min": 1}.get(attributes["reduce"], size)
            recorder.add(op, [np.ones(shape, dtype)], np.full(shape, sum_of_all, dtype), rank=rank,
                         attributes=attributes)
    return path


@pytest.mark.parametrize("changed, message", [
    ({"calls": 2}, r"rank1\.safetensors: has 2 collectives of group 'all' of the ranks 0, 1, .*rank0.* has 1"),
    ({"shape": (4,)}, r"rank1\.safetensors: collective 0 .* brings F32 \[4\], in .*rank0.* it brings F32 \[3\]"),
    ({"dtype": np.float64}, r"brings F64 \[3\]"),
    ({"reduce": "max"}, r"has reduce max, in .*rank0.* it has sum"),
    ({"collective": "reduce", "root": 0}, r"has collective reduce, in .* it has all_reduce"),
    ({"number": 5}, r"rank1\.safetensors: has no collective 0 of group 'all'"),
    ({"ranks": [1]}, r"rank1\.safetensors: has 0 collectives"),
    ({"ranks": [0, 2]}, r"rank1\.safetensors: is no recording, or is damaged: .* with another rank"),
    ({"collective": "all_gather"}, r"damaged: .* of 2 ranks with 1 operands and 1 results"),
    ({"ranks": None}, r"rank1\.safetensors: is no recording, or is damaged"),
    ({"calls": 2, "number": 0}, r"damaged: .* two collectives 0 of group 'all'"),
])
def test_ranks_that_do_not_match(tmp_path, changed, message):
    paths = [rank_file(tmp_path, 0), rank_file(tmp_path, 1, **changed)]
    there = sorted(tmp_path.iterdir())
    with pytest.raises(driftbound.Error, match=message) as raised:
        driftbound.join_ranks(paths, tmp_path / "all.safetensors")
    assert sorted(tmp_path.iterdir()) == there, "nothing is half-written"
    assert "; record" in str(raised.value) or "damaged" in str(raised.value)


def test_a_result_that_fits_no_part(tmp_path):
    paths = [rank_file(tmp_path, rank, shape=shape, collective="broadcast", root=0)
             for rank, shape in enumerate(((3,), (4,)))]
    with pytest.raises(driftbound.Error, match=r"rank1.*: collective 0 .* gives F32 \[4\], .*rank0.* brings F32 \[3\]"):
        driftbound.join_ranks(paths, tmp_path / "all.safetensors")


def test_other_bad_input(tmp_path):
    first = rank_file(tmp_path, 0)
    second = rank_file(tmp_path, 1)
    with pytest.raises(driftbound.Error, match="give the path this ending"):
        driftbound.join_ranks([first, second], tmp_path / "all.npz")
    with pytest.raises(driftbound.Error, match="there is no folder"):
        driftbound.join_ranks([first, second], tmp_path / "none" / "all.safetensors")
    with pytest.raises(driftbound.Error, match="there are no recordings to join"):
        driftbound.join_ranks([], tmp_path / "all.safetensors")
    with pytest.raises(driftbound.Error, match="would replace .*rank1"):
        driftbound.join_ranks([first, second], second)
    with pytest.raises(driftbound.Error, match=r"none\.safetensors: cannot be read"):
        driftbound.join_ranks([first, tmp_path / "none.safetensors"], tmp_path / "all.safetensors")
    with driftbound.record(tmp_path / "alone.safetensors", pytorch=False) as recorder:
        recorder.add("Relu", [np.ones(3)], np.ones(3))
    with pytest.raises(driftbound.Error, match="has records of no ranks"):
        driftbound.join_ranks([tmp_path / "alone.safetensors"], tmp_path / "all.safetensors")
    driftbound.safetensors.write(tmp_path / "other.safetensors", {}, {"driftbound.trace": "1"})
    with pytest.raises(driftbound.Error, match="is not the first file of a recording"):
        driftbound.join_ranks([tmp_path / "other.safetensors"], tmp_path / "all.safetensors")
    assert not (tmp_path / "all.safetensors").exists()


def test_a_join_that_fails_leaves_the_joined_recording_that_was_there(tmp_path, monkeypatch):
    paths = [rank_file(tmp_path, 0, calls=4), rank_file(tmp_path, 1, calls=4)]
    path = tmp_path / "all.safetensors"
    driftbound.join_ranks(paths, path, shard_bytes=1)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    assert len(Run(path).shards) > 4
    writes = iter(range(3))
    write = driftbound.safetensors.write
    monkeypatch.setattr(driftbound.safetensors, "write", lambda *arguments: (next(writes), write(*arguments)))
    with pytest.raises(StopIteration):
        driftbound.join_ranks(paths, path, shard_bytes=1)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before
    monkeypatch.undo()
    driftbound.join_ranks(paths, path)
    assert len(Run(path).shards) == 1, "shards of the recording before are gone"


@pytest.mark.parametrize("reduce, size, dtype, op", [
    ("avg", 2, np.float32, "c10d::all_reduce"),
    ("avg", 3, np.float32, "c10d::allreduce_"),
    ("avg", 2, np.float16, "c10d::allreduce_"),
    ("min", 3, np.float32, "Min"),
    ("band", 2, np.float32, "c10d::allreduce_"),
])
def test_how_ranks_reduce(judge, tmp_path, reduce, size, dtype, op):
    paths = [rank_file(tmp_path, rank, size, reduce=reduce, dtype=dtype) for rank in range(size)]
    run = joined(paths, tmp_path / "all.safetensors")
    assert run.ops() == [op] * size
    if op != "c10d::allreduce_":
        answer = judge(tmp_path / "all.safetensors")
        assert answer.holds, str(answer)


def test_a_reduce_scatter(judge, tmp_path):
    paths = [tmp_path / f"rank{rank}.safetensors" for rank in range(2)]
    parts = np.arange(12, dtype=np.float32).reshape(2, 2, 3)
    for rank, path in enumerate(paths):
        with driftbound.record(path, pytorch=False) as recorder:
            recorder.add("c10d::reduce_scatter_", list(parts[rank]), parts[:, rank].sum(0), rank=rank, attributes={
                "collective": "reduce_scatter", "group": "all", "ranks": [0, 1], "number": 0, "reduce": "sum"})
    run = joined(paths, tmp_path / "all.safetensors")
    assert [record["operands"][0] for record in run.records] == ["r0.v1", "r0.v2"]
    answer = judge(tmp_path / "all.safetensors")
    assert answer.holds and len(answer.layers) == 2, str(answer)


def test_a_part_that_was_not_recorded_is_not_judged(judge, tmp_path):
    paths = [rank_file(tmp_path, 0), tmp_path / "rank1.safetensors"]
    with driftbound.record(paths[1], pytorch=False) as recorder:
        recorder.add("Relu", [np.ones(3)], np.ones(3), rank=1)
        recorder.add("c10d::allreduce_", [None], np.full(3, 2, np.float32), rank=1, attributes={
            "collective": "all_reduce", "group": "all", "ranks": [0, 1], "number": 0, "reduce": "sum"})
    assert joined(paths, tmp_path / "all.safetensors").ops() == ["c10d::allreduce_", "Relu", "c10d::allreduce_"]
    answer = judge(tmp_path / "all.safetensors")
    assert answer.holds and answer.recording.not_judged == 2, str(answer)


def test_arithmetics_and_weights_of_ranks(judge, tmp_path):
    """One name for two arithmetics becomes two names; weights of both are found from the joined recording."""
    folder = tmp_path / "weights"
    folder.mkdir()
    paths = []
    for rank in range(2):
        w = np.float32([[rank + 1, 2], [3, 4]])
        weights = folder / f"rank{rank}" / "model.safetensors"
        weights.parent.mkdir()
        driftbound.safetensors.write(weights, {"w": driftbound.safetensors.Tensor("F32", (2, 2), w)}, {})
        own = {"name": "mine", "input": "fp32", "accumulator": "fp32", "output": "fp32",
               "order": "sequential" if rank else "unknown"}
        paths.append(folder / f"rank{rank}.safetensors")
        with driftbound.record(paths[-1], pytorch=False, weights=weights, arithmetic=own) as recorder:
            x = np.float32([[1, 1]])
            recorder.add("MatMul", [x, w], x @ w, rank=rank, module="fc")
    run = joined(paths, tmp_path / "all.safetensors")
    assert [record["arithmetic"] for record in run.records] == ["mine", "mine#2"]
    assert {one["order"] for one in run.arithmetics.values()} == {"sequential", "unknown"}
    files = [run.values[record["operands"][1]]["file"] for record in run.records]
    assert [run.files[file]["path"] for file in files] == [f"weights/rank{rank}/model.safetensors" for rank in (0, 1)]
    answer = judge(tmp_path / "all.safetensors")
    assert answer.holds and len(answer.layers) == 2, str(answer)


def test_a_shard_that_is_missing_is_named(tmp_path):
    with driftbound.record(tmp_path / "rank0.safetensors", pytorch=False, shard_bytes=1) as recorder:
        for number in range(3):
            recorder.add("Relu", [np.full(3, number)], np.full(3, number), rank=0)
    (tmp_path / "rank0-00001.safetensors").unlink()
    with pytest.raises(driftbound.Error, match=r"rank0-00002\.safetensors: is of another recording, or one before it"):
        driftbound.join_ranks([tmp_path / "rank0.safetensors"], tmp_path / "all.safetensors")


def test_a_killed_rank_is_named(tmp_path):
    paths = [rank_file(tmp_path, rank, calls=2) for rank in range(2)]
    with driftbound.record(tmp_path / "rank1.safetensors", pytorch=False, shard_bytes=1) as recorder:
        recorder.add("c10d::allreduce_", [np.ones(3)], np.ones(3), rank=1, attributes={
            "collective": "all_reduce", "group": "all", "ranks": [0, 1], "number": 0, "reduce": "sum"})
        shutil.copy(paths[1], tmp_path / "killed.safetensors")
    with pytest.raises(driftbound.Error, match=r"killed\.safetensors has not ended in an orderly way"):
        driftbound.join_ranks([paths[0], tmp_path / "killed.safetensors"], tmp_path / "all.safetensors")


# ---- functional collectives of PyTorch 2 ----------------------------------------------------------------------------


@pytest.fixture
def alone(tmp_path):
    """The default group of one rank."""
    distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/meeting", rank=0, world_size=1)
    yield distributed.distributed_c10d._get_default_group()
    distributed.destroy_process_group()


def test_collectives_that_cpp_calls(judge, run_path, monkeypatch, tmp_path, alone):
    """PyTorch 2 unboxes the arguments of the op. What is not waited for in Python is complete when it is read."""
    library = torch._C._distributed_c10d
    if hasattr(library.ProcessGroup, "unbox"):
        pytest.skip("this PyTorch unboxes")
    for kind, what in ((library.ProcessGroup, alone), (library.ReduceOp, distributed.ReduceOp.SUM),
                       (library.Work, None)):
        monkeypatch.setattr(kind, "unbox", staticmethod(lambda boxed, what=what: what), raising=False)
    model = nn.parallel.DistributedDataParallel(nn.Linear(6, 8))
    x = torch.randn(5, 6)
    with driftbound.record(run_path):
        model(x).square().sum().backward()
        model.module.weight.grad * 2
    record = Run(run_path).of("c10d::allreduce_")
    assert record["attributes"]["collective"] == "all_reduce" and record["attributes"]["ranks"] == [0]
    driftbound.join_ranks([run_path], tmp_path / "all.safetensors")
    answer = judge(tmp_path / "all.safetensors")
    assert answer.holds and "c10d::all_reduce" in {layer.record.op for layer in answer.layers}, str(answer)


def test_functional_collectives(judge, run_path, monkeypatch, tmp_path, alone):
    """Ops with the schemas of PyTorch 2, of a group of one rank: results are complete after ``wait_tensor``."""
    if hasattr(torch.ops._c10d_functional, "all_reduce"):
        pytest.skip("this PyTorch has these ops")
    library = torch.library.Library("_c10d_functional", "DEF")
    library.define("all_reduce(Tensor input, str reduce_op, str group_name) -> Tensor")
    library.define("wait_tensor(Tensor tensor) -> Tensor")
    library.impl("all_reduce", lambda x, reduce_op, group: torch.full_like(x, 99.0), "CPU")
    library.impl("wait_tensor", lambda x: x.copy_(torch.ones_like(x) * 2), "CPU")
    monkeypatch.setattr(torch._C._distributed_c10d, "_resolve_process_group", lambda name: alone, raising=False)
    x = torch.ones(3)
    with torch.no_grad(), driftbound.record(run_path):
        x = x * 2
        y = torch.ops._c10d_functional.all_reduce(x, "sum", "0")
        z = torch.ops._c10d_functional.wait_tensor(y) * 3
        torch.ops._c10d_functional.wait_tensor(torch.ops._c10d_functional.all_reduce(z, "sum", "0"))
    assert z.tolist() == [6, 6, 6]
    run = Run(run_path)
    assert run.ops() == ["aten::mul", "_c10d_functional::all_reduce"] * 2
    first, record, second, last = run.records
    assert run.number(record["results"][0]).tolist() == [2, 2, 2] and second["operands"] == record["results"]
    assert record["operands"] == first["results"] and record["attributes"]["reduce"] == "sum"
    assert run.number(last["results"][0]).tolist() == [2, 2, 2], "complete after the wait, without being read"
    driftbound.join_ranks([run_path], tmp_path / "all.safetensors")
    answer = judge(tmp_path / "all.safetensors")
    sums = [layer for layer in answer.layers if layer.record.op == "c10d::all_reduce"]
    assert [layer.local.max_error for layer in sums] == [0, 4] and not answer.recording.reasons, str(answer)
