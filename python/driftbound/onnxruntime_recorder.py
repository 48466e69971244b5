"""Recording of ONNX Runtime: the outputs of nodes become outputs of the model, and a trace of version 1."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from . import safetensors
from .arrays import as_array
from .bits import same_bits
from .environment import basic_provenance, declare
from .errors import Error
from .model_recorder import record_model
from .safetensors import Tensor


def record_onnxruntime(path: str | Path, model: str | Path, inputs: Mapping[str, Any], outputs: str = "all", *,
                       providers: Sequence[Any] | None = None, session_options: Any = None) -> dict[str, np.ndarray]:
    """Runs a model by ONNX Runtime and writes a trace for ``driftbound.report(model, trace=path)``.

    A recording op by op, for ``driftbound.drift`` with a run of PyTorch or JAX, is what ``outputs="ops"`` writes.

    Arguments:
        path: the trace, a ``.safetensors`` file.
        model: the ``.onnx`` file.
        inputs: arrays by the names of the model's inputs.
        outputs: ``"all"``: the outputs of all nodes, which become outputs of a copy of the model; this may keep the
            runtime from fusing them. The outputs of the model as it is are compared with that, and the trace says
            whether they are the same. ``"final"``: the model runs as it is, and its outputs are recorded alone.
            ``"ops"``: as ``"all"``, written by ``record_model``.
        providers, session_options: of the session; default: the CPU.

    Returns the model's outputs by name. Raises ``Error`` where a package is missing, or for inputs that do not fit.
    """
    onnx, runtime = _modules()
    path, file = Path(path), Path(model)
    if outputs not in ("all", "final", "ops"):
        raise Error(f"outputs={outputs!r}: 'all', 'final' or 'ops'")
    if path.suffix != ".safetensors":
        raise Error(f"{path}: traces are .safetensors files; give the path this ending")
    if not file.is_file():
        raise Error(f"{file}: there is no such file")
    proto = onnx.load(str(file), load_external_data=False)
    graph = proto.graph
    constants = {one.name for one in graph.initializer} | {one.values.name for one in graph.sparse_initializer}
    names = [one.name for one in graph.input if one.name not in constants]
    missing = [name for name in names if name not in inputs]
    if missing or set(inputs) - set(names):
        raise Error(f"{file}: has the inputs {', '.join(names)}; given are {', '.join(inputs)}")
    given = {name: np.asarray(inputs[name]) for name in names}
    chosen = list(providers or ["CPUExecutionProvider"])
    finals = [one.name for one in graph.output]

    def run(source: str, wanted: list[str]) -> dict[str, Any]:
        session = runtime.InferenceSession(source, sess_options=session_options, providers=chosen)
        return dict(zip(wanted, session.run(wanted, given)))

    computed = run(str(file), finals)
    recorded, effect = computed, "not checked"
    if outputs != "final":
        wanted = list(dict.fromkeys(name for node in graph.node for name in node.output if name))
        graph.output.extend(onnx.ValueInfoProto(name=name) for name in wanted if name not in finals)
        with _beside(file) as copy:
            onnx.save(proto, copy)
            recorded = run(copy, wanted)
        both = [name for name in finals if name in recorded]
        effect = "none" if all(same_bits(computed[name], recorded[name]) for name in both) else "changed"
    provenance = _provenance(runtime, chosen, effect, outputs)
    if outputs == "ops":
        record_model(path, file, {**given, **recorded}, provenance=provenance, arithmetic=_arithmetic(runtime, chosen))
        return computed
    metadata = {
        "driftbound.trace": "1",
        "model_sha256": hashlib.sha256(file.read_bytes()).hexdigest(),
        "provenance": json.dumps(provenance),
        "arithmetic": json.dumps(_arithmetic(runtime, chosen)),
    }
    safetensors.write(path, _tensors(graph, given, recorded, constants), metadata)
    return computed


def _tensors(graph: Any, given: dict[str, np.ndarray], recorded: dict[str, Any],
             constants: set[str]) -> dict[str, Tensor]:
    """The trace's tensors. Where the model takes one sample at a time, samples are an axis in front."""
    per_sample = any(not _counts_samples(one) for one in graph.input if one.name not in constants)
    depends = set(given)
    tensors = {f"input/{_flat(name)}": _tensor(array, per_sample) for name, array in given.items()}
    for index, node in enumerate(graph.node):
        reads = set(node.input) | {name for attribute in node.attribute for inner in attribute.g.node
                                   for name in inner.input}
        if reads & depends:
            depends.update(node.output)
        name = node.output[0] if node.output else ""
        value = recorded.get(name)
        if isinstance(value, np.ndarray) and as_array(value).type is not None:
            key = f"layer/{index}/{_flat(name)}/output"
            tensors[key] = _tensor(value, per_sample and name in depends)
    return tensors


def _tensor(array: np.ndarray, in_front: bool) -> Tensor:
    return as_array(array[np.newaxis] if in_front else array).whole()


def _counts_samples(declared: Any) -> bool:
    """Whether axis 0 of an input is open, or 1."""
    axes = declared.type.tensor_type.shape.dim
    return len(axes) > 0 and (not axes[0].HasField("dim_value") or axes[0].dim_value in (0, 1))


def _flat(name: str) -> str:
    return name.replace("/", ".")


class _beside:
    """A temporary file in the model's folder, from where its files with weights are found."""

    def __init__(self, model: Path):
        self._model = model

    def __enter__(self) -> str:
        try:
            handle, self._name = tempfile.mkstemp(".onnx", "." + self._model.stem + ".", self._model.parent)
        except OSError as error:
            raise Error(f"{self._model.parent}: a copy of the model with more outputs cannot be written here: "
                        f"{error.strerror}; move the model, or use outputs='final'") from None
        os.close(handle)
        return self._name

    def __exit__(self, *_: Any) -> None:
        os.unlink(self._name)


def _modules() -> tuple[Any, Any]:
    try:
        import onnx
        import onnxruntime
    except ImportError as error:
        raise Error(f"record_onnxruntime needs onnx and onnxruntime: {error}; pip install onnx onnxruntime") from None
    return onnx, onnxruntime


def _first(providers: list[Any]) -> tuple[str, dict]:
    first = providers[0]
    return (first[0], dict(first[1])) if isinstance(first, (tuple, list)) else (first, {})


def _provenance(runtime: Any, providers: list[Any], effect: str, outputs: str) -> dict:
    provenance = basic_provenance()
    name, settings = _first(providers)
    provenance.update(program=f"onnxruntime {runtime.__version__}", observer_effect=effect)
    provenance["backend"] = "cpu" if name == "CPUExecutionProvider" else name
    provenance["details"].update(onnxruntime=str(runtime.__version__), providers=str(providers), outputs=outputs)
    if settings:
        provenance["details"]["provider_options"] = str(settings)
    return provenance


def _arithmetic(runtime: Any, providers: list[Any]) -> dict:
    name, settings = _first(providers)
    source = f"onnxruntime {runtime.__version__}, {name}"
    if name == "CUDAExecutionProvider" and str(settings.get("use_tf32", "1")) == "1":
        return declare("tf32", "fp32", "tf32", source=source + ": TF32 allowed", functions="cuda",
                       tensor_core={"fraction_bits": 23, "block": 4})
    return declare("fp32", "fp32", source=source + ": float32 in any order", functions="cuda")
