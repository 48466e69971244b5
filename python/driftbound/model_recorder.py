"""The run of an ONNX model, whoever ran it, as a recording op by op."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .arrays import as_array, is_torch_tensor
from .environment import basic_provenance, declare
from .errors import Error
from .shards import ShardWriter

#: Ops whose results say shapes alone: what follows from them is no result of a run.
_OF_SHAPES = {"Shape", "Size"}


def record_model(path: str | Path, model: str | Path, values: Mapping[str, Any], *, provenance: dict | None = None,
                 arithmetic: dict | None = None, shard_bytes: int = 1 << 28) -> int:
    """Writes the run of an ONNX model as a recording op by op, for ``driftbound.report`` and ``driftbound.drift``.

    Every node that depends on an input becomes a record: its op, with the domain in front (``com.microsoft::Gelu``)
    where it is not ONNX's own, its attributes, and its module by the node's name or by that of its result
    (``/b.0/attn/MatMul``). So runs of an optimised model (``SessionOptions.optimized_model_filepath`` of ONNX Runtime)
    are compared with those of PyTorch, whose ops are other ones.

    Arguments:
        path: the recording, a ``.safetensors`` file.
        model: the ``.onnx`` file. Weights in files beside it are read.
        values: arrays by the model's names: all inputs, and all results of nodes that depend on them.
        provenance, arithmetic: of the run; default: this machine, and float32 in any order.

    Returns how many records were written. Raises ``Error`` where ``onnx`` or a value is missing.
    """
    try:
        import onnx
        from onnx import numpy_helper
    except ImportError as error:
        raise Error(f"record_model needs onnx: {error}; pip install onnx") from None
    file = Path(model)
    if not file.is_file():
        raise Error(f"{file}: there is no such file")
    try:
        proto = onnx.load(str(file))
    except Exception as error:  # of protobuf, whose exceptions differ from version to version
        raise Error(f"{file}: this is no ONNX model: {error}") from None
    graph = proto.graph
    known: dict[str, np.ndarray] = {one.name: numpy_helper.to_array(one) for one in graph.initializer}
    depends = {one.name for one in graph.input if one.name not in known}
    known.update({name: array.detach() if is_torch_tensor(array) else np.asarray(array)
                  for name, array in values.items() if name not in known})  # weights are those of the model
    missing = sorted(depends - set(known))
    if missing:
        raise Error(f"{file}: the values of the inputs {', '.join(missing)} are missing")

    writer = ShardWriter(path, shard_bytes)
    writer.provenance = provenance or basic_provenance()
    writer.arithmetics = {"run": arithmetic or declare("fp32", "fp32", source="float32 in any order", functions="cuda")}
    opsets = {one.domain: one.version for one in proto.opset_import}
    ids: dict[str, str] = {}

    def id_of(name: str) -> str | None:
        """The id of a value, which is stored when it is met first."""
        if not name:
            return None
        if name in ids:
            return ids[name]
        if name not in known:
            raise Error(f"{file}: the value '{name}' is missing; give all results of nodes")
        array = as_array(known[name])
        if array.type is None:
            raise Error(f"{file}: '{name}' is an array of {getattr(known[name], 'dtype', '?')}, which no recording holds")
        ids[name] = f"{len(ids)}.{name.replace('/', '.')}"
        whole = array.whole()
        writer.store(ids[name], whole, whole.shape)
        return ids[name]

    records = 0
    for node in graph.node:
        attributes, constant = _attributes(node, onnx, numpy_helper)
        if node.op_type == "Constant" and node.domain in ("", "ai.onnx"):
            known.setdefault(node.output[0], constant)
            continue
        inner = {name for one in node.attribute for each in one.g.node for name in each.input}  # of If, Loop and Scan
        if not depends & (set(node.input) | inner) or node.op_type in _OF_SHAPES:
            continue
        depends.update(name for name in node.output if name)
        record = {
            "op": node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}::{node.op_type}",
            "operands": [id_of(name) for name in node.input],
            "results": [id_of(name) if name in known else None for name in node.output],
            "attributes": attributes,
            "module": _module_of(node),
            "arithmetic": "run",
        }
        if node.name:
            record["name"] = node.name
        if node.domain in ("", "ai.onnx"):
            record["opset"] = opsets.get("", opsets.get("ai.onnx", 21))
        writer.add_record(record)
        records += 1
    if not records:
        raise Error(f"{file}: no node of the model depends on an input, so there is nothing to record")
    writer.close()
    return records


def _attributes(node: Any, onnx: Any, numpy_helper: Any) -> tuple[dict, np.ndarray | None]:
    """Numbers, texts and lists of them; beside them the array of a Constant. Graphs are left out."""
    attributes: dict[str, Any] = {}
    constant = None
    for one in node.attribute:
        value = onnx.helper.get_attribute_value(one)
        if isinstance(value, onnx.TensorProto):
            constant = numpy_helper.to_array(value)
        elif isinstance(value, bytes):
            attributes[one.name] = value.decode(errors="replace")
        elif isinstance(value, (int, float)):
            attributes[one.name] = value
        elif isinstance(value, (list, tuple)) or hasattr(value, "__iter__"):
            attributes[one.name] = [each.decode(errors="replace") if isinstance(each, bytes) else each for each in value]
    if constant is None and attributes and node.op_type == "Constant":
        constant = np.asarray(next(iter(attributes.values())))
    return attributes, constant


def _module_of(node: Any) -> str:
    """The path of a node's module, by its name or that of its first result. Runtimes append what they fuse."""
    for name in (node.name, *node.output[:1]):
        if name.startswith("/"):
            parts = [part for part in name.split("/") if part and not part.endswith("Fusion")]
            return "/".join(parts[:-1])
    return ""
