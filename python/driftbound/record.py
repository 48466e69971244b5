"""Recordings: ``driftbound.record``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .recorder import Recorder, Value


def record(path: str | Path, sample: int | None = None, weights: Any = None, model: Any = None, *, seed: int = 0,
           arithmetic: str | dict | None = None, hash_weights: bool = True, shard_bytes: int = 256 << 20,
           pytorch: bool | None = None) -> Recorder:
    """Records the ops of the code in a ``with`` block, or of a decorated function, for ``driftbound.report``.

    Around code of PyTorch every aten op is recorded as the dispatcher calls it: a fused kernel is one record, casts
    of autocast are records, and so are the ops of a backward pass. Other programs call ``add`` of the object that
    ``with`` gives. The numbers that the code computes do not change.

    Arguments:
        path: the recording, ``RUN.safetensors``; long ones go on in ``RUN-00001.safetensors`` … beside it.
        sample: ``None`` records all of every value. ``S`` records S random elements of every result, with what they
            need: about as much time as a forward pass or less, and a small part of the memory (see
            ``driftbound.sampling`` for which elements).
        weights: the model's ``.safetensors`` file, the folder of a Hugging Face model, or a list of these. Tensors
            that are equal to one there are referred to, not stored.
        model: the module whose ``named_modules`` name the records; default: the outermost module that is called.
        seed: of the sample.
        arithmetic: what all records declare, one of ``fp64``, ``fp32``, ``tf32``, ``bf16``, ``fp16`` or an object as
            docs/file-formats.md has it. Default: what follows from device, types and flags of PyTorch.
        hash_weights: whether to note the sha256 of the files with weights.
        shard_bytes: how much is held in memory before it is written.
        pytorch: whether to record PyTorch; default: if the program has imported it.

    Of ``torch.distributed`` every rank records a file of its own, and ``join_ranks`` makes one of them.

    Values are known by their memory. After code that PyTorch does not see (numpy, foreign kernels) has written into a
    tensor, call ``forget`` with it. Only the thread that enters the block is recorded, and the backward pass it calls.

    Raises ``Error`` for a path, a sample or weights that cannot be used. Warns (``DriftboundWarning``) of what it
    could not see, such as compiled modules; the recording says the same under ``not_seen``.
    """
    return Recorder(path, sample=sample, weights=weights, model=model, seed=seed, arithmetic=arithmetic,
                    hash_weights=hash_weights, shard_bytes=shard_bytes, pytorch=pytorch)


def record_call(recorder: Recorder, op: str, operands: Any, results: Any, **attributes: Any) -> list[Value | None]:
    """Records one call of any program: ``record_call(recorder, "MatMul", [a, b], c)``. See ``Recorder.add``."""
    return recorder.add(op, operands, results, attributes=attributes)
