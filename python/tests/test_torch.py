"""Recordings of PyTorch."""

import types

import numpy as np
import pytest
from conftest import Run

import driftbound
from driftbound import safetensors

torch = pytest.importorskip("torch")
nn = torch.nn

# PyTorch 1 rounds every step to bfloat16.
BF16_PRODUCT = "cpu bf16 steps" if torch.__version__.startswith("1.") else "cpu bf16"



class Block(nn.Module):
    """A block of a transformer, with the ops that matter."""

    def __init__(self, size, heads):
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(size)
        self.attend = nn.Linear(size, 3 * size)
        self.mix = nn.Sequential(nn.Linear(size, 2 * size), nn.GELU(), nn.Linear(2 * size, size))

    def forward(self, x):
        batch, length, size = x.shape
        parts = self.attend(self.norm(x)).split(size, -1)
        q, k, v = (part.view(batch, length, self.heads, -1).transpose(1, 2) for part in parts)
        weights = (q @ k.transpose(-1, -2) * 0.25).softmax(-1)
        x = x + (weights @ v).transpose(1, 2).reshape(batch, length, size)
        return x + self.mix(x)


class Model(nn.Module):
    def __init__(self, size=16, heads=2, words=50):
        super().__init__()
        self.words = nn.Embedding(words, size)
        self.blocks = nn.ModuleList(Block(size, heads) for _ in range(2))

    def forward(self, ids):
        x = self.words(ids)
        for block in self.blocks:
            x = block(x)
        return x


def model_and_ids(size=16, length=7, words=50, batch=2):
    torch.manual_seed(1)
    return Model(size, 2, words).eval(), torch.randint(0, words, (batch, length))


@pytest.mark.parametrize("context", [torch.no_grad, torch.enable_grad, torch.inference_mode])
@pytest.mark.parametrize("sample", [None, 40])
def test_bits_are_those_without_recording(run_path, context, sample):
    model, ids = model_and_ids()
    with context():
        before = model(ids)
        with driftbound.record(run_path, sample=sample) as recorder:
            y = model(ids)
            assert recorder.check_untapped(y, model, ids)
        after = model(ids)
    assert torch.equal(before, y) and torch.equal(after, y)
    run = Run(run_path)
    assert run.provenance["observer_effect"] == "none" and run.provenance["program"] == f"torch {torch.__version__}"
    ops = run.ops()
    assert ops.count("aten::addmm") == 6 and ops.count("aten::native_layer_norm") == 2 and "aten::linear" not in ops
    assert ops.count("aten::gelu") == 2 and ops.count("aten::_softmax") == 2 and ops.count("aten::embedding") == 1


def test_operands_results_and_attributes(run_path):
    x, layer = torch.randn(4, 6), nn.LayerNorm(6, eps=1e-3)
    with torch.no_grad(), driftbound.record(run_path):
        y = layer(x)
        z = torch.nn.functional.gelu(y, approximate="tanh")
        w = torch.cat([x, y], dim=1)
        v = torch.index_select(w, 0, torch.tensor([1, 0]))
        torch.clamp(z, min=float("-inf"), max=2)
        torch.where(x > 0, x, 1.5)
    run = Run(run_path)
    norm = run.of("aten::native_layer_norm")
    assert norm["attributes"] == {"normalized_shape": [6], "eps": 1e-3} and len(norm["results"]) == 3
    for identity, tensor in zip(norm["operands"], (x, layer.weight.detach(), layer.bias.detach())):
        np.testing.assert_array_equal(run.number(identity), tensor.numpy())
    np.testing.assert_array_equal(run.number(norm["results"][0]), y.numpy())
    assert run.of("aten::gelu")["attributes"]["approximate"] == "tanh"
    cat = run.of("aten::cat")
    assert cat["operands"] == [norm["operands"][0], norm["results"][0]] and cat["attributes"] == {"dim": 1}
    assert not run.is_stored(cat["results"][0]), "moved elements are derived"
    assert run.of("aten::index_select")["operands"][0] == cat["results"][0]
    np.testing.assert_array_equal(run.number(run.of("aten::index_select")["results"][0]), v.numpy())
    assert run.of("aten::clamp")["attributes"] == {"min": "-inf", "max": 2}
    where = run.of("aten::where")
    assert len(where["operands"]) == 3 if where["operands"][-1] else where["attributes"] == {"other": 1.5}


def test_in_place_ops_make_new_values(run_path):
    x = torch.ones(3)
    with torch.no_grad(), driftbound.record(run_path):
        y = x * 2
        y.add_(1)
        y.mul_(y)
        z = y + 0
    run = Run(run_path)
    product, addition, square, last = run.records
    assert addition["op"] == "aten::add_" and addition["operands"] == product["results"]
    assert square["operands"] == addition["results"] * 2 and last["operands"] == square["results"]
    numbers = [run.number(record["results"][0])[0] for record in run.records]
    assert numbers == [2, 3, 9, 9] and z[0] == 9
    assert run.number(product["operands"][0]).tolist() == [1, 1, 1]


@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode])
def test_chunks_that_are_changed_one_by_one_are_the_values_that_they_were(run_path, context):
    lstm, x = torch.nn.LSTM(4, 3), torch.randn(2, 5, 4)
    with context(), driftbound.record(run_path):
        lstm(x)
        y = torch.ones(3, 4) * 2
        left, right, middle = y[:, :2], y[:, 2:], y[:, 1:3]
        left.add_(1)
        product, changed = right * 3, middle * 1
    run = Run(run_path)
    made = {value for record in run.records for value in record["results"]}
    outside = {value for record in run.records for value in record["operands"] if value and value not in made}
    assert product[0, 0] == 6 and changed[0].tolist() == [3, 2]
    # x, two weights, and what is left of `middle`, which is known no more
    assert len([value for value in outside if len(run.values[value]["shape"]) > 1]) == 4


@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode])
def test_views_of_what_was_written(run_path, context):
    with context(), driftbound.record(run_path):
        x = torch.arange(6.0).reshape(2, 3) * 1
        row = x[0]
        before = row + 1
        x.zero_()
        after = row + 1
        x[1] = 5.0
        last = x * 1
    run = Run(run_path)
    added = [record for record in run.records if record["op"] == "aten::add"]
    assert [run.number(r["results"][0]).tolist() for r in added] == [before.tolist(), after.tolist()]
    assert added[0]["operands"] != added[1]["operands"] and run.number(added[1]["operands"][0]).tolist() == [0, 0, 0]
    assert run.number(run.records[-1]["operands"][0]).tolist() == [[0, 0, 0], [5, 5, 5]]
    assert run.number(run.records[-1]["results"][0]).tolist() == last.tolist()


def test_out_variants(run_path):
    x, out = torch.ones(2, 2), torch.zeros(2, 2)
    with torch.no_grad(), driftbound.record(run_path):
        before = out + 3
        torch.add(x, x, out=out[0:2])
        after = out + 3
    run = Run(run_path)
    names = run.ops()
    addition = run.records[names.index("aten::slice") + 1 if "aten::slice" in names else 1]
    assert addition["op"] == "aten::add" and len(addition["operands"]) == 2
    assert run.number(run.records[0]["results"][0]).tolist() == before.tolist()
    assert run.number(run.records[-1]["results"][0]).tolist() == after.tolist() == [[5, 5], [5, 5]]
    assert run.number(run.records[-1]["operands"][0]).tolist() == [[2, 2], [2, 2]]


def test_memory_that_is_used_again_is_another_value(run_path):
    with torch.no_grad(), driftbound.record(run_path):
        for i in range(50):
            x = torch.full((1000,), float(i))
            y = x + x
            del x, y
    run = Run(run_path)
    for record in run.records:
        if record["op"] == "aten::add":
            left, right = (run.number(identity) for identity in record["operands"])
            assert (left + right == run.number(record["results"][0])).all()


def test_views_are_derived_and_consistent(run_path):
    """Every derived value, computed again from what is stored, is what the consumers read."""
    model, ids = model_and_ids()
    with torch.no_grad(), driftbound.record(run_path):
        model(ids)
    run = Run(run_path)
    stored = [identity for identity in run.values if run.is_stored(identity)]
    known = {identity: torch.from_numpy(run.number(identity).copy()) for identity in stored}
    derived = 0
    for record in run.records:
        outcome = call_again(record, [None if identity is None else known[identity] for identity in record["operands"]])
        outcomes = outcome if isinstance(outcome, (tuple, list)) else [outcome]
        for identity, one in zip(record["results"], outcomes):
            if identity in known:  # a product of the same numbers in other memory may be added up in another order
                torch.testing.assert_close(one, known[identity], rtol=1e-5, atol=1e-6)
            else:
                derived += 1
            known[identity] = one.contiguous()
    assert derived > 20 and all(identity in known for identity in run.values)


def call_again(record, operands):
    """Calls the op of a record with its operands and attributes."""
    packet, attributes = getattr(torch.ops.aten, record["op"].removeprefix("aten::")), record.get("attributes", {})
    for overload in packet.overloads():
        arguments = getattr(packet, overload)._schema.arguments
        if overload.endswith("out") or not set(attributes) <= {argument.name for argument in arguments}:
            continue
        keywords, rest = {name: value for name, value in attributes.items() if name != "memory_format"}, list(operands)
        for argument in arguments:
            if "List[Tensor]" in str(argument.type):
                keywords[argument.name], rest = rest, []
            elif "Tensor" in str(argument.type) and argument.name not in attributes and rest:
                keywords[argument.name] = rest.pop(0)
        return getattr(packet, overload)._op(**keywords)
    raise AssertionError(record)


def test_module_paths(run_path):
    model, ids = model_and_ids()
    with torch.no_grad(), driftbound.record(run_path):
        model(ids)
        torch.ones(1) + 1
    run = Run(run_path)
    modules = [record.get("module") for record in run.records]
    assert run.of("aten::embedding")["module"] == "words"
    assert {"blocks.0.norm", "blocks.1.mix.0", "blocks.1.mix.1", "blocks.0"} <= set(modules)
    assert modules[-1] is None
    whole = nn.ModuleDict({"inner": model})
    with torch.no_grad(), driftbound.record(run_path, model=whole):
        model(ids)
    assert Run(run_path).of("aten::embedding")["module"] == "inner.words"


def test_parameters_and_buffers_have_their_names(run_path):
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)).eval()
    with torch.no_grad(), driftbound.record(run_path):
        model(torch.randn(5, 3))
    names = {value["name"] for value in Run(run_path).values.values() if "name" in value}
    assert names == {"0.weight", "0.bias", "1.weight", "1.bias", "1.running_mean", "1.running_var"}


def test_module_paths_after_an_exception(run_path):
    class Raises(nn.Module):
        def forward(self, x):
            if fails:
                raise ValueError
            return x

    model = nn.Sequential(nn.Linear(3, 3), Raises())
    with torch.no_grad(), driftbound.record(run_path):
        for fails in (True, False):
            try:
                model(torch.ones(1, 3))
            except ValueError:
                pass
        torch.ones(1) + 1
    run = Run(run_path)
    assert {record.get("module") for record in run.records if record["op"] == "aten::addmm"} == {"0"}
    assert "module" not in run.records[-1]


def test_weights_are_referred_to(run_path, tmp_path):
    from driftbound.arrays import as_array

    model, ids = model_and_ids()
    model.blocks[1].norm.weight.data.fill_(2)
    file = tmp_path / "model.safetensors"
    safetensors.write(file, {name: as_array(p).whole() for name, p in model.named_parameters()}, {"format": "pt"})
    model.blocks[1].norm.weight.data.fill_(3)
    with torch.no_grad(), driftbound.record(run_path, weights=file, sample=20, hash_weights=False):
        model(ids)
    run = Run(run_path)
    references = {value["name"] for value in run.values.values() if "file" in value}
    assert "words.weight" in references and "blocks.1.attend.weight" in references
    assert run.files == {"model.safetensors": {"path": "model.safetensors"}}
    changed = [record for record in run.records if record["op"] == "aten::native_layer_norm"][1]["operands"][1]
    assert run.number(changed).tolist() == [3.0] * 16
    products = [record for record in run.records if record["op"] == "aten::addmm"]
    assert all(not run.is_stored(record["operands"][2]) for record in products), "t() of a reference is derived"


def test_parts_have_what_their_elements_need(run_path):
    model, ids = model_and_ids(size=64, length=300, words=5000, batch=1)
    calls = []

    class Spy(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            outcome = function(*args, **(kwargs or {}))
            calls.append((function._schema.name, [a.clone() for a in args if isinstance(a, torch.Tensor)],
                          outcome.clone() if isinstance(outcome, torch.Tensor) else outcome))
            return outcome

    with torch.no_grad(), driftbound.record(run_path, sample=200):
        with Spy():
            model(ids)
    run = Run(run_path)
    whole = [call for call in calls if call[0] in {"aten::addmm", "aten::bmm", "aten::_softmax", "aten::gelu",
                                                   "aten::native_layer_norm", "aten::embedding", "aten::add"}]
    records = [record for record in run.records if record["op"] in {name for name, _, _ in whole}]
    assert len(records) == len(whole)
    partial = 0
    for record, (name, operands, outcome) in zip(records, whole):
        assert record["op"] == name
        outcome = outcome[0] if isinstance(outcome, tuple) else outcome
        for identity, tensor in zip(record["operands"], operands):
            if identity is not None and run.is_stored(identity):
                run.check_part(identity, tensor.numpy())
                partial += "part" in run.values[identity]
        run.check_part(record["results"][0], outcome.numpy())
        check_needs(run, record, name, operands, outcome)
    assert partial > 20
    assert sum(file.stat().st_size for file in run.shards) < 5e6


def stored_positions(run, identity):
    """Boolean array: which elements of a value are stored."""
    value = run.values[identity]
    mask = np.zeros(value["shape"], bool)
    part = value.get("part", {})
    if part.get("elements"):
        mask.reshape(-1)[run.tensors[f"value/{identity}/elements"]] = True
        return mask
    axes = [np.arange(extent) for extent in value["shape"]]
    for axis in part.get("axes", []):
        axes[axis] = run.tensors[f"value/{identity}/axis/{axis}"]
    mask[np.ix_(*axes)] = True
    return mask


def check_needs(run, record, name, operands, outcome):
    """Every recorded element of the result finds its operands."""
    result = stored_positions(run, record["results"][0])
    held = [stored_positions(run, identity) if identity else None for identity in record["operands"]]
    if name in ("aten::addmm", "aten::bmm"):
        left, right = held[-2], held[-1]
        available = left.all(-1)[..., :, None] & right.all(-2)[..., None, :]
        if name == "aten::addmm":
            available = available & held[0]
    elif name in ("aten::_softmax", "aten::native_layer_norm"):
        available = np.broadcast_to(held[0].all(-1, keepdims=True), result.shape)
    elif name == "aten::embedding":
        available = held[0][operands[1].numpy()] & held[1][..., None]
    else:
        available = np.ones(result.shape, bool)
        for mask in held:
            available = available & mask
    assert result.any() and not (result & ~available).any(), record["op"]


def test_parts_of_convolutions_and_attention(run_path):
    image, filters = torch.randn(8, 3, 40, 40), nn.Conv2d(3, 64, 3, padding=1)
    with torch.no_grad(), driftbound.record(run_path, sample=100):
        y = filters(image)
    run = Run(run_path)
    record = run.of("aten::convolution")
    run.check_part(record["results"][0], y.numpy())
    run.check_part(record["operands"][0], image.numpy())
    samples, channels = (stored_positions(run, record[which][0]) for which in ("operands", "results"))
    weights = stored_positions(run, record["operands"][1])
    assert set(np.nonzero(channels)[0]) <= set(np.nonzero(samples)[0]) and len(np.nonzero(channels)[0]) >= 100
    assert set(np.nonzero(channels)[1]) <= set(np.nonzero(weights)[0])
    assert record["attributes"]["stride"] == [1, 1] and record["attributes"]["transposed"] is False

    from driftbound.recorder import Value
    from driftbound.sampling import Axes, Elements, Sampler

    shapes = [(2, 8, 300, 16), (2, 4, 300, 16), (2, 4, 300, 16), (300, 300)]
    arrays = [np.zeros(shape, np.float32) for shape in shapes]
    result = np.random.default_rng(0).standard_normal(shapes[0]).astype(np.float32)
    values = [Value(f"v{i}", "F32", shape) for i, shape in enumerate(shapes)]
    from driftbound.arrays import NumpyArray

    plan = Sampler(640, 0).plan("aten::_scaled_dot_product_flash_attention", {}, values, arrays, [False] * 4,
                                [Value("r", "F32", shapes[0])], [NumpyArray(result)])
    queries, keys, _, mask = plan.operands
    assert isinstance(queries, Elements) and (plan.results[0].indices == queries.indices).all()
    samples, heads, places, _ = np.unravel_index(queries.indices, shapes[0])
    assert plan.draws == 80 and 75 <= len(queries.indices) / 16 <= 82, "each draw is of one query"
    assert isinstance(keys, Axes) and list(keys.indices) == [0, 1]
    assert set(samples) <= set(keys.indices[0]) and set(heads // 2) <= set(keys.indices[1])
    assert list(mask.indices) == [0] and set(mask.indices[0]) == set(places)


def test_sampled_parts_before_an_op_in_place(run_path):
    x = torch.randn(200, 200)
    with torch.no_grad(), driftbound.record(run_path, sample=50):
        y = x * 2
        before = y.clone()
        y.exp_()
    run = Run(run_path)
    record = run.of("aten::exp_")
    run.check_part(record["operands"][0], before.numpy())
    run.check_part(record["results"][0], y.numpy())
    assert "part" in run.values[record["operands"][0]]


def test_bfloat16_and_its_arithmetic(run_path):
    x = torch.randn(64, 64).bfloat16()
    with torch.no_grad(), driftbound.record(run_path, sample=100):
        y = x @ x
    run = Run(run_path)
    record = run.of("aten::mm")
    value = run.values[record["results"][0]]
    assert value["type"] == "BF16" and record["arithmetic"] == BF16_PRODUCT
    np.testing.assert_array_equal(run.number(record["results"][0]), y.view(torch.int16).numpy().view(np.uint16))
    declared = run.arithmetics["cpu bf16"]
    assert declared["input"] == "bf16" and declared["accumulator"] == "fp32" and declared["stores_declared_types"]
    assert run.arithmetics["cpu bf16 steps"]["accumulator"] == "bf16"


def test_autocast_is_seen_as_casts(run_path):
    layer, x = nn.Linear(8, 8), torch.randn(3, 8)
    with torch.no_grad(), driftbound.record(run_path), torch.autocast("cpu", torch.bfloat16):
        layer(x)
    run = Run(run_path)
    casts = [record for record in run.records if record["op"] == "aten::_to_copy"]
    assert casts and all(record["attributes"]["dtype"] == "bfloat16" for record in casts)
    assert run.of("aten::addmm")["arithmetic"] == BF16_PRODUCT


def test_backward_is_recorded(run_path):
    layer, x = nn.Linear(4, 3), torch.randn(2, 4)
    with driftbound.record(run_path):
        layer(x).sum().backward()
    assert "aten::mm" in Run(run_path).ops()


def test_things_that_cannot_be_stored(run_path):
    with torch.no_grad(), pytest.warns(driftbound.DriftboundWarning, match="complex64"):
        with driftbound.record(run_path):
            torch.fft.fft(torch.ones(4)).abs() + 1
    run = Run(run_path)
    assert run.records[-1]["op"] == "aten::add" and "complex64" in run.provenance["details"]["not_seen"]


def test_moves_that_change_numbers_are_no_moves(run_path):
    x, y = torch.ones(3), torch.tensor([1, 2])
    with torch.no_grad(), driftbound.record(run_path):
        torch.cat([x, y])
        x.view(torch.int32)
        torch.cat([y, y])
    run = Run(run_path)
    assert [run.is_stored(record["results"][0]) for record in run.records] == [True, True, False]


def test_batch_norms_write_their_statistics(run_path):
    norm, x = nn.BatchNorm1d(3), torch.randn(8, 3)
    with torch.no_grad(), driftbound.record(run_path):
        norm(x)
        norm.eval()(x)
    run = Run(run_path)
    first, second = (record for record in run.records if record["op"] == "aten::native_batch_norm")
    assert run.number(first["operands"][3]).tolist() == [0, 0, 0]
    np.testing.assert_array_equal(run.number(second["operands"][3]), norm.running_mean.numpy())


def test_a_sampled_batch_norm(run_path):
    norm, x = nn.BatchNorm2d(4).eval(), torch.randn(2, 4, 60, 60)
    with torch.no_grad(), driftbound.record(run_path, sample=50):
        y = norm(x)
    run = Run(run_path)
    record = run.of("aten::native_batch_norm")
    run.check_part(record["operands"][0], x.numpy())
    run.check_part(record["results"][0], y.numpy())
    assert (stored_positions(run, record["operands"][0]) == stored_positions(run, record["results"][0])).all()


def test_subclasses_of_tensors_are_seen_inside(run_path):
    class Wrapped(torch.Tensor):
        @staticmethod
        def __new__(cls, inner):
            return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

        def __init__(self, inner):
            self.inner = inner

        __torch_function__ = torch._C._disabled_torch_function_impl

        @classmethod
        def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
            return function(*(a.inner if isinstance(a, Wrapped) else a for a in args), **(kwargs or {}))

    x = Wrapped(torch.ones(3))
    with torch.no_grad(), driftbound.record(run_path):
        y = x + 1
    run = Run(run_path)
    assert run.ops() == ["aten::add"] and run.number(run.records[0]["results"][0]).tolist() == y.tolist() == [2, 2, 2]


def test_forget(run_path):
    x = torch.ones(3)
    with torch.no_grad(), driftbound.record(run_path) as recorder:
        x + 1
        x.numpy()[:] = 7
        recorder.forget(x)
        x + 1
    first, second = (run := Run(run_path)).records
    assert run.number(first["operands"][0])[0] == 1 and run.number(second["operands"][0])[0] == 7


def test_compiled_modules_are_named(run_path):
    class OptimizedModule(nn.Module):
        def __init__(self, module):
            super().__init__()
            self._orig_mod = module

        def forward(self, x):
            return self._orig_mod(x)

    model = OptimizedModule(nn.Linear(2, 2))
    with torch.no_grad(), pytest.warns(driftbound.DriftboundWarning, match="compiled modules were called"):
        with driftbound.record(run_path):
            model(torch.ones(1, 2))


# ---- the arithmetic that flags and devices declare ------------------------------------------------------------------


def fake_torch(capability, **flags):
    """What the arithmetic of PyTorch on CUDA is read from."""
    matmul = types.SimpleNamespace(allow_tf32=flags.get("tf32", False),
                                   allow_bf16_reduced_precision_reduction=flags.get("bf16_reduced", True),
                                   allow_fp16_reduced_precision_reduction=flags.get("fp16_reduced", True),
                                   allow_fp16_accumulation=flags.get("fp16_sums", False))
    backends = types.SimpleNamespace(cuda=types.SimpleNamespace(matmul=matmul),
                                     cudnn=types.SimpleNamespace(allow_tf32=flags.get("cudnn_tf32", True)))
    cuda = types.SimpleNamespace(is_available=lambda: True, device_count=lambda: 1,
                                 get_device_capability=lambda device: capability)
    return types.SimpleNamespace(__version__=flags.get("version", "2.8.0+cu128"), cuda=cuda, backends=backends,
                                 get_float32_matmul_precision=lambda: flags.get("precision", "highest"))


GPU, CPU = types.SimpleNamespace(type="cuda", index=0), types.SimpleNamespace(type="cpu", index=None)


@pytest.mark.parametrize(
    "flags, kind, call, expected",
    [
        ({}, "F32", (True, False), "cuda 9.0 fp32"),
        ({"tf32": True}, "F32", (True, False), "cuda 9.0 tf32"),
        ({"precision": "high"}, "F32", (True, False), "cuda 9.0 tf32"),
        ({"tf32": True}, "F32", (False, False), "cuda 9.0 fp32"),
        ({}, "F32", (True, True), "cuda 9.0 tf32"),
        ({"cudnn_tf32": False, "tf32": True}, "F32", (True, True), "cuda 9.0 fp32"),
        ({}, "BF16", (True, False), "cuda 9.0 bf16 reduced"),
        ({"bf16_reduced": (False, False)}, "BF16", (True, False), "cuda 9.0 bf16"),
        ({"fp16_reduced": False}, "F16", (True, False), "cuda 9.0 fp16"),
        ({"fp16_sums": True}, "F16", (True, False), "cuda 9.0 fp16 sums"),
        ({}, "BF16", (False, False), "cuda 9.0 bf16"),
        ({}, "F64", (True, False), "cuda 9.0 fp64"),
        ({}, "I64", (True, False), None),
    ],
)
def test_arithmetic_on_cuda(monkeypatch, flags, kind, call, expected):
    from driftbound.environment import TorchArithmetics

    monkeypatch.delenv("NVIDIA_TF32_OVERRIDE", raising=False)
    arithmetics = TorchArithmetics(fake_torch((9, 0), **flags))
    assert arithmetics.name_for(GPU, {kind}, *call) == expected
    if expected:
        assert arithmetics.declared[expected]["name"] == expected


def test_tensor_cores_by_generation(monkeypatch):
    from driftbound.environment import TorchArithmetics

    hopper = TorchArithmetics(fake_torch((9, 0))).declared
    assert hopper["cuda 9.0 tf32"]["tensor_core"] == {"fraction_bits": 25, "block": 4}
    assert hopper["cuda 9.0 bf16"]["tensor_core"] == {"fraction_bits": 25, "block": 8}
    assert hopper["cuda 9.0 bf16 reduced"]["reduced_reduction"] == {"format": "bf16", "parts": 32}
    turing = TorchArithmetics(fake_torch((7, 5))).declared
    assert turing["cuda 7.5 fp16"]["tensor_core"] == {"fraction_bits": 23, "block": 4}
    monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", "0")
    assert TorchArithmetics(fake_torch((9, 0), tf32=True)).name_for(GPU, {"F32"}, True, False) == "cuda 9.0 fp32"


def test_arithmetic_on_the_cpu():
    from driftbound.environment import TorchArithmetics

    usual = TorchArithmetics(fake_torch((9, 0)))
    assert usual.name_for(CPU, {"F32", "I64"}, True, False) == "cpu fp32"
    assert usual.declared["cpu fp32"] == {
        "name": "cpu fp32", "input": "fp32", "accumulator": "fp32", "output": "fp32", "stores_declared_types": True,
        "order": "unknown", "evidence": "assumed", "source": "torch 2.8.0+cu128 on the CPU: float32 in any order",
        "functions": "pytorch-cpu",
    }
    assert TorchArithmetics(fake_torch((9, 0), precision="medium")).name_for(CPU, {"F32"}, True, False) == (
        "cpu fp32 by bf16")
    assert usual.name_for(types.SimpleNamespace(type="mps"), {"F32"}, True, False) is None


# ---- with the program ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sample", [None, 50])
def test_the_program_judges_a_recorded_model(run_path, judge, sample):
    model, ids = model_and_ids()
    with torch.no_grad(), driftbound.record(run_path, sample=sample):
        model(ids)
    verdict = judge(run_path)
    assert verdict.holds, verdict.text


def honest_calls():
    """Calls of PyTorch, by name, of ops whose arithmetic is easily taken for something else."""
    functional = nn.functional
    x, images = torch.randn(4, 6, 8), torch.randn(2, 3, 12, 18)
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    norm_first = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=True, activation="gelu").eval()
    attention, is_padding = nn.MultiheadAttention(8, 2, batch_first=True).eval(), torch.tensor([[False] * 5 + [True]] * 4)
    return {
        "flip": lambda: torch.flip(x, (0, -1)),
        "roll": lambda: torch.roll(x, (1, -2), (0, 1)),
        "index": lambda: x[:, torch.tensor([1, 3, 3])],
        "index_copy": lambda: x.clone().index_copy_(1, torch.tensor([3, 1]), x[:, :2] + 1),
        "index_put": lambda: torch.ops.aten.index_put(x, [None, torch.tensor([3, 1])], x[:, :2] + 1),
        "index_put of one number": lambda: torch.index_put(x, (torch.tensor([2]),), torch.tensor(0.5)),
        "a layer of an encoder": lambda: layer(x),
        "a layer of an encoder that norms first": lambda: norm_first(x),
        "attention with its products and a mask":
            lambda: attention(x, x, x, need_weights=False, key_padding_mask=is_padding),
        "prelu": lambda: functional.prelu(x, torch.rand(6)),
        "logsigmoid": lambda: functional.logsigmoid(x),
        "mse_loss": lambda: functional.mse_loss(x, 2 * x),
        "vector_norm": lambda: torch.linalg.vector_norm(x, dim=-1),
        "norm": lambda: torch.norm(x, p=1, dim=1),
        "addcdiv": lambda: torch.addcdiv(x, x, x.abs() + 1, value=0.1),
        "adaptive_avg_pool2d": lambda: functional.adaptive_avg_pool2d(images, (4, 6)),
        "a convolution that starts with its bias":
            lambda: functional.conv2d(images, torch.randn(4, 3, 3, 3), torch.randn(4) * 100),
        "conv_transpose2d":
            lambda: functional.conv_transpose2d(torch.randn(2, 3, 6, 6), torch.randn(3, 4, 3, 3), torch.randn(4) * 50),
        "alpha and beta of addmm":
            lambda: torch.addmm(torch.randn(5, 7), torch.randn(5, 64), torch.randn(64, 7), alpha=0.1, beta=0.3),
        "alpha and beta of addmv":
            lambda: torch.addmv(torch.randn(5), torch.randn(5, 64), torch.randn(64), alpha=0.7, beta=1.3),
        "numbers that float32 rounds": lambda: (x * 0.1 + 0.7) / 0.3,
        "numbers that bfloat16 rounds": lambda: (x.bfloat16() * 0.1 + 0.7) / 0.3,
        "masked_fill": lambda: x.masked_fill(x > 0, 0.1),
        "an axis of extent 1": lambda: (functional.group_norm(x[:1], 2), torch.softmax(x[:1], 1)),
        "cosh and sinh": lambda: (torch.cosh(5 * x), torch.sinh(5 * x)),
        "functions of bfloat16":
            lambda: (functional.silu(x.bfloat16()), functional.gelu(x.bfloat16()), torch.softmax(x.bfloat16(), 1)),
        "layer_norm of bfloat16": lambda: functional.layer_norm(x.bfloat16(), (8,)),
        "products of bfloat16":
            lambda: (x[0].bfloat16() @ x[0].bfloat16().T, torch.mv(x[0].bfloat16(), x[0, 0].bfloat16())),
        "numbers that are made": lambda: (torch.zeros(3), torch.ones_like(x), torch.full((2,), 0.1), torch.arange(3)),
    }


@pytest.mark.parametrize("name", honest_calls())
def test_the_program_lets_honest_ops_hold(judge, run_path, name):
    torch.manual_seed(0)
    call = honest_calls()[name]
    with torch.no_grad(), driftbound.record(run_path):
        call()
        torch.relu(torch.randn(3))  # something that can be judged
    answer = judge(run_path)
    assert answer.holds, str(answer)
    assert not answer.recording.reasons, answer.recording.reasons


def test_convolutions_and_norms_of_channels_are_judged_in_part(judge, run_path):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 32, 3), nn.BatchNorm2d(32)).eval()
    with torch.no_grad(), driftbound.record(run_path, sample=200):
        model(torch.randn(64, 3, 40, 40))
    answer = judge(run_path)
    assert answer.holds, str(answer)
    judged = {layer.record.op: layer.record.judged for layer in answer.layers}
    assert all(count >= 100 for count in judged.values()) and len(judged) == 2, judged


@pytest.mark.skipif("AVX2" not in torch.__config__.show(), reason="other vectors have other lanes")
@pytest.mark.parametrize("width", [8, 40, 300])
def test_kernels_of_softmax_and_norms_are_found(judge, run_path, width):
    torch.manual_seed(3)
    x = 3 * torch.randn(40, width) + 1
    with torch.no_grad(), driftbound.record(run_path):
        torch.softmax(x, -1)
        torch.log_softmax(x, -1)
        torch.softmax(x.masked_fill(torch.arange(width) % 3 == 1, -torch.inf), -1)
        nn.functional.layer_norm(x, (width,), torch.randn(width), torch.randn(width))
        nn.functional.group_norm(x.reshape(10, 4, width), 2, torch.randn(4), torch.randn(4))
    found = [(layer.record.op, layer.kernel) for layer in judge(run_path, explain_kernels=True).layers]
    kernels = [(op, kernel) for op, kernel in found if op != "aten::masked_fill"]
    assert len(kernels) == 5, found
    for op, kernel in kernels:
        assert kernel is not None and kernel.equal_bits == kernel.of == 40 * width, (op, kernel)
        assert kernel.steps, op
    softmax, logarithm, masked, layer_norm, group_norm = (kernel for _, kernel in kernels)
    assert "exp of SLEEF" in softmax.steps and "exp of SLEEF" in masked.steps
    ways = [logarithm.text, *logarithm.alike]  # of 8 numbers: log rounded correctly, too
    assert any("exp and log of SLEEF, less the maximum, then less the log" in way for way in ways), ways
    assert "running moments" in layer_norm.text or width < 16
    assert "f = scale over root" in group_norm.text, group_norm.text


@pytest.mark.skipif(not torch.__version__.startswith("1."), reason="it sums norms in float32")
@pytest.mark.parametrize("width, verdict", [(32, "holds"), (256, "undecided")])
def test_a_norm_with_sums_in_bfloat16_is_undecided_where_its_bound_admits_any_result(judge, run_path, width, verdict):
    torch.manual_seed(0)
    norm, x = nn.LayerNorm(width).bfloat16(), torch.randn(8, width).bfloat16()
    with torch.no_grad(), driftbound.record(run_path):
        norm(x)
    answer = judge(run_path)
    assert answer.verdict == verdict, str(answer)
    bound = answer.to_dict()["layers"][0]["local"]["bounds"][0]["max_bound"]
    assert np.isfinite(bound) and (bound > 8) == (verdict == "undecided")
