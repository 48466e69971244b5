"""Recordings of the ops that a program calls: the part that knows no framework."""

from __future__ import annotations

import hashlib
import math
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ContextDecorator, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from .arrays import Array, as_array
from .environment import arithmetic_from, basic_provenance
from .errors import DriftboundWarning, Error
from .parts import Part as GivenPart
from .sampling import WHOLE, Axes, Elements, Nothing, Part, Plan, Sampler, Whole, is_larger_than_half
from .shards import ShardWriter
from .weights import WeightFiles


class Value:
    """A value that a recording knows: what ``add`` returns for a result, to be used as an operand of later calls."""

    __slots__ = ("identity", "type", "shape", "name", "whole", "given", "stored", "searched")

    def __init__(self, identity: str, element_type: str, shape: tuple[int, ...]):
        self.identity = identity
        self.type = element_type
        self.shape = shape
        self.name: str | None = None  # what the program calls it, as a weight
        self.whole: str | None = None  # id under which all of it is known
        self.given: str | None = None  # id of the part that the program gave
        self.stored = 0  # how often something was stored of it
        self.searched = False  # whether it was looked for among the weights


class Recorder(ContextDecorator):
    """What ``driftbound.record`` returns. See there."""

    def __init__(self, path: str | Path, *, sample: int | None, weights: Any, model: Any, seed: int,
                 arithmetic: str | dict | None, hash_weights: bool, shard_bytes: int, pytorch: bool | None):
        if sample is not None and (isinstance(sample, bool) or not isinstance(sample, int) or sample < 1):
            raise Error(f"sample={sample!r}: a number of elements from 1 on, or None for all of every value")
        self.path = Path(path)
        self.sample = sample
        self.seed = seed
        self._weights = weights
        self._model = model
        self._hash_weights = hash_weights
        self._shard_bytes = shard_bytes
        self._declared = arithmetic
        self._pytorch = pytorch
        self._shards: ShardWriter | None = None

    # ---- begin and end ------------------------------------------------------------------------------------------

    def __enter__(self) -> Recorder:
        if self._shards is not None:
            raise Error(f"{self.path}: this recording has begun; make a new one with driftbound.record")
        self._began = time.perf_counter()
        self._count = 0
        self._calls = 0
        self._notes: list[str] = []
        self._contents: dict[tuple, Value] = {}
        self._named_weights: dict[str, Value] = {}
        self._sampler = Sampler(self.sample, self.seed) if self.sample is not None else None
        shards = ShardWriter(self.path, self._shard_bytes)
        self.weights = WeightFiles(self._weights, self.path.parent, self._hash_weights)
        shards.files = self.weights.files
        shards.provenance = basic_provenance()
        if self.sample is not None:
            shards.provenance["details"]["sample"] = f"{self.sample} elements a record, seed {self.seed}"
        self._default_arithmetic = arithmetic_from(self._declared, shards.arithmetics)
        self._shards = shards
        self._mode = None
        if self._pytorch or (self._pytorch is None and "torch" in sys.modules):
            try:
                from .torch_recorder import TorchRecorder
            except ImportError as error:
                raise Error(f"PyTorch cannot be recorded: {error}; install it, or leave pytorch=True out") from None
            self._mode = TorchRecorder(self, self._model)
            self._mode.start()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: Any) -> None:
        if self._mode is not None:
            self._mode.stop()
            self._notes += self._mode.notes()
        elif self._pytorch is None and "torch" in sys.modules:
            self._notes.append("PyTorch was imported while recording: its ops were not recorded")
        shards = self._open()
        details = shards.provenance["details"]
        details["seconds"] = f"{time.perf_counter() - self._began:.3f}"
        if error is not None:
            details["ended_by"] = f"{type(error).__name__}: {error}"[:1000]
        if self._notes:
            details["not_seen"] = "; ".join(self._notes)
        shards.close()
        self._shards, self._closed = None, shards
        for note in self._notes:
            warnings.warn(f"{self.path}: {note}", DriftboundWarning, stacklevel=2)
        if not shards.records_written:
            warnings.warn(f"{self.path}: no op was recorded", DriftboundWarning, stacklevel=2)

    def _recreate_cm(self) -> Recorder:
        """A decorated function records anew with every call, in place of what the call before recorded."""
        return Recorder(self.path, sample=self.sample, weights=self._weights, model=self._model, seed=self.seed,
                        arithmetic=self._declared, hash_weights=self._hash_weights,
                        shard_bytes=self._shard_bytes, pytorch=self._pytorch)

    @property
    def records(self) -> int:
        """Number of ops recorded so far."""
        return self._calls

    # ---- what programs call -------------------------------------------------------------------------------------

    def add(self, op: str, operands: Sequence[Any], results: Any, *, attributes: dict | None = None,
            module: str | None = None, name: str | None = None, arithmetic: str | None = None,
            opset: int | None = None, device: str | None = None, rank: int | None = None,
            **more_attributes: Any) -> list[Value | None]:
        """Records one call of an op of any program.

        Arguments:
            op: name of the op: of ONNX (``"MatMul"``) or of PyTorch (``"aten::addmm"``).
            operands: arrays (numpy, PyTorch, JAX, numbers), ``Part``s, values that ``add`` or ``weight`` returned,
                ``None`` for one left out.
            results: the array that the call gave, or a ``Part`` of it, or a list of them; ``None`` for one that is not
                recorded. Of a call with parts all is recorded as it is given, whatever ``sample`` says.
            attributes: all other arguments by name; further keywords are attributes, too.
            module: dotted path of the module that called the op.
            name: what a report calls the record.
            arithmetic: name of the declared arithmetic.
            opset: of an op of ONNX.
            device, rank: where it was computed.

        Returns the values of the results. Equal arrays are one value: an array that one call gave and another one
        reads links the two. Raises ``Error`` outside of the ``with`` block and for arrays that files cannot hold.
        """
        self._open()
        given = results if isinstance(results, (list, tuple)) else [results]
        with self.paused():
            arrays = [None if one is None or isinstance(one, (Value, GivenPart)) else as_array(one)
                      for one in operands]
            values = [one if isinstance(one, Value) or one is None else
                      self._value_of_part(one) if isinstance(one, GivenPart) else self._value_of(array)
                      for one, array in zip(operands, arrays)]
            outcomes = [None if one is None or isinstance(one, GivenPart) else as_array(one) for one in given]
            made = [self._value_of_part(one) if isinstance(one, GivenPart) else
                    None if array is None else self._result_of(array) for one, array in zip(given, outcomes)]
            all_attributes = {**(attributes or {}), **more_attributes}
            fields = {"module": module, "name": name, "arithmetic": arithmetic, "opset": opset, "device": device,
                      "rank": rank}
            self.add_call(op, values, arrays, made, outcomes, attributes_of(all_attributes), fields)
        return made

    def weight(self, name: str) -> Value:
        """A tensor of the files with weights, as an operand for ``add``. Its numbers are not read.

        Raises ``Error`` where no file given as ``weights`` has a tensor of this name, or several have one.
        """
        if name not in self._named_weights:
            place, element_type, shape = self.weights.named(name)
            self._count += 1
            value = Value(f"v{self._count}", element_type, shape)
            value.whole = self._take_identity(value)
            self._open().describe(value.whole, value.type, value.shape, **place)
            self._named_weights[name] = value
        return self._named_weights[name]

    @contextmanager
    def paused(self) -> Iterator[None]:
        """What runs in this block is not recorded."""
        if self._mode is None:
            yield
            return
        with self._mode.paused():
            yield

    def check_untapped(self, outputs: Any, function: Any, *arguments: Any, **keywords: Any) -> bool:
        """Runs ``function`` once more without recording and compares its outputs with the recorded ones.

        Returns whether all tensors are the same bit for bit, and notes it as the recording's observer effect. A
        function that draws random numbers differs for that reason alone.
        """
        from .bits import same_bits

        with self.paused():
            same = same_bits(outputs, function(*arguments, **keywords))
        self._open().provenance["observer_effect"] = "none" if same else "changed"
        return same

    def forget(self, *tensors: Any) -> None:
        """Says that these tensors of PyTorch were changed in a way that PyTorch does not see.

        Needed after a foreign kernel or numpy has written into memory that recorded ops had read or written.
        """
        if self._mode is not None:
            self._mode.forget(tensors)

    # ---- what recorders of frameworks call ----------------------------------------------------------------------

    @property
    def declared_arithmetic(self) -> str | None:
        """The arithmetic that the caller of ``record`` declared for all records."""
        return self._default_arithmetic

    def add_provenance(self, provenance: dict, arithmetics: dict[str, dict]) -> None:
        """Takes over what a framework says of itself, and the arithmetics that its calls may have."""
        shards = self._open()
        details = {**shards.provenance["details"], **provenance["details"]}
        shards.provenance.update(provenance, details=details)
        shards.arithmetics.update(arithmetics)

    def new_value(self, array: Array) -> Value:
        """A value with an id of its own."""
        if array.type is None:
            raise Error(f"{self.path}: values of this element type cannot be recorded; give real numbers")
        self._count += 1
        return Value(f"v{self._count}", array.type, array.shape)

    def keep_whole(self, value: Value, array: Array) -> str:
        """Stores all of a value, once, and returns the id of that."""
        if value.whole is None:
            value.whole = self._take_identity(value)
            self._open().store(value.whole, array.whole(), value.shape, name=value.name)
        return value.whole

    def keep_derived(self, value: Value) -> str:
        """Notes that a value is the result of a record that moves elements of known values."""
        value.whole = self._take_identity(value)
        self._open().describe(value.whole, value.type, value.shape)
        return value.whole

    def find_in_weights(self, value: Value, array: Array) -> None:
        """Makes a value a reference where a file with weights holds it."""
        if value.whole is not None or value.searched:
            return
        value.searched = True
        place = self.weights.find(array)
        if place is not None:
            value.whole = self._take_identity(value)
            self._open().describe(value.whole, value.type, value.shape, **place)

    def is_small(self, value: Value) -> bool:
        """Whether a value is stored whole even where only parts are sampled."""
        return self._sampler is None or math.prod(value.shape) <= self._sampler.small

    def add_call(self, op: str, operands: Sequence[Value | None], operand_arrays: Sequence[Array | None],
                 results: Sequence[Value | None], result_arrays: Sequence[Array | None], attributes: dict,
                 fields: dict) -> None:
        """Stores what a record needs, and the record."""
        shards = self._open()
        self._calls += 1
        for value, array in zip(operands, operand_arrays):
            if value is not None and array is not None:
                self.find_in_weights(value, array)
        plan = self._plan(op, operands, operand_arrays, results, result_arrays, attributes)
        record: dict = {"op": op}
        record["operands"] = [self._keep_operand(value, array, part)
                              for value, array, part in zip(operands, operand_arrays, plan.operands)]
        in_part = any(value is not None and value.whole is None for value in operands)
        record["results"] = [self._keep_result(value, array, part, in_part, plan.draws)
                             for value, array, part in zip(results, result_arrays, plan.results)]
        if attributes:
            record["attributes"] = attributes
        if fields.get("arithmetic") is None:
            fields["arithmetic"] = self._default_arithmetic
        record.update((field, value) for field, value in fields.items() if value is not None)
        shards.add_record(record)

    def add_move(self, op: str, operands: Sequence[Value | None], results: Sequence[Value | None], attributes: dict,
                 fields: dict) -> bool:
        """Adds a record that only moves elements, its results derived, if all operands are known wholly.

        Returns whether they are. If not there is nothing that the record could say, and it is left out.
        """
        if any(value is not None and value.whole is None for value in operands):
            return False
        self._calls += 1
        record: dict = {"op": op}
        record["operands"] = [None if value is None else value.whole for value in operands]
        record["results"] = [None if value is None else self.keep_derived(value) for value in results]
        if attributes:
            record["attributes"] = attributes
        record.update((field, value) for field, value in fields.items() if value is not None and field != "arithmetic")
        self._open().add_record(record)
        return True

    def keep_shared_operand(self, value: Value, array: Array, key: str) -> str | None:
        """Stores what a rank brings to a collective: all of it, or the elements that all ranks draw for ``key``."""
        self.find_in_weights(value, array)
        return self._keep_operand(value, array, self._shared_part(value, key))

    def keep_shared_result(self, value: Value, array: Array, key: str) -> str | None:
        """Stores what a collective gave a rank: all of it, or the elements that all ranks draw for ``key``."""
        draws = self.sample or 0
        return self._keep_result(value, array, self._shared_part(value, key), in_part=False, draws=draws)

    def add_kept(self, op: str, operands: list[str | None], results: list[str | None], attributes: dict,
                 fields: dict) -> None:
        """Adds a record of values that have been stored."""
        self._calls += 1
        record: dict = {"op": op, "operands": operands, "results": results, "attributes": attributes}
        record.update((field, value) for field, value in fields.items() if value is not None)
        self._open().add_record(record)

    # ---- inner --------------------------------------------------------------------------------------------------

    def _open(self) -> ShardWriter:
        if self._shards is None:
            raise Error(f"{self.path}: not recording; call this inside of 'with driftbound.record(...)'")
        return self._shards

    def _plan(self, op: str, operands: Sequence[Value | None], operand_arrays: Sequence[Array | None],
              results: Sequence[Value | None], result_arrays: Sequence[Array | None], attributes: dict) -> Plan:
        if self._sampler is None or any(value is not None and value.given for value in [*operands, *results]):
            return Plan([WHOLE] * len(operands), [WHOLE] * len(results))
        known = [value is None or value.whole is not None or self.is_small(value) for value in operands]
        return self._sampler.plan(op, attributes, operands, operand_arrays, known, results, result_arrays)

    def _shared_part(self, value: Value, key: str) -> Part:
        return WHOLE if self._sampler is None else self._sampler.shared(value.shape, key)

    def _keep_operand(self, value: Value | None, array: Array | None, part: Part) -> str | None:
        if value is None or value.whole is not None:
            return value.whole if value else None
        if array is None and value.given:
            return value.given
        if array is None:
            raise Error(f"{self.path}: only a part of the value {value.identity} is recorded; give its array")
        return self.keep_whole(value, array) if self.is_small(value) else self._keep(value, array, part)

    def _keep_result(self, value: Value | None, array: Array | None, part: Part, in_part: bool,
                     draws: int) -> str | None:
        """Stores a result: a small one wholly, unless operands are recorded in part, so that all of it is judged."""
        if value is None or array is None or isinstance(part, Nothing):
            return value.given if value else None
        if isinstance(part, Whole) or not in_part and (self.is_small(value) or is_larger_than_half(part, value)):
            return self.keep_whole(value, array)
        return self._keep_part(value, array, part, {"draws": draws} if draws else {})

    def _keep(self, value: Value, array: Array, part: Part) -> str:
        if is_larger_than_half(part, value):
            return self.keep_whole(value, array)
        return self._keep_part(value, array, part, {})

    def _keep_part(self, value: Value, array: Array, part: Part, more: dict) -> str:
        identity = self._take_identity(value)
        if isinstance(part, Axes):
            chosen = {axis: taken for axis, taken in part.indices.items() if len(taken) < value.shape[axis]}
            indices = {f"axis/{axis}": taken for axis, taken in chosen.items()}
            self._open().store(identity, array.cut(chosen), value.shape, {"axes": sorted(chosen), **more}, indices)
        else:
            taken = part.indices if isinstance(part, Elements) else np.zeros(0, np.int64)
            self._open().store(identity, array.elements(taken), value.shape, {"elements": True, **more},
                               {"elements": taken})
        return identity

    def _take_identity(self, value: Value) -> str:
        """The value's own id for the first thing that is stored of it, ``v7.1``, ``v7.2`` … for what follows."""
        value.stored += 1
        return value.identity if value.stored == 1 else f"{value.identity}.{value.stored - 1}"

    def _value_of(self, array: Array) -> Value:
        key = self._content(array)
        if key not in self._contents:
            self._contents[key] = self.new_value(array)
        return self._contents[key]

    def _value_of_part(self, part: GivenPart) -> Value:
        """A value of which this part is stored, once: equal parts are one value."""
        key = (*self._content(part.array), part.shape, part.draws,
               *((suffix, taken.tobytes()) for suffix, taken in part.indices().items()))
        if key not in self._contents:
            self._count += 1
            value = Value(f"v{self._count}", part.type, part.shape)
            value.given = self._take_identity(value)
            self._open().store(value.given, part.array.whole(), part.shape, part.description(), part.indices())
            self._contents[key] = value
        return self._contents[key]

    def _result_of(self, array: Array) -> Value:
        """A value for a result: later operands with the same content are this value."""
        value = self.new_value(array)
        self._contents[self._content(array)] = value
        return value

    def _content(self, array: Array) -> tuple:
        if array.type is None:
            raise Error(f"{self.path}: an array of shape {list(array.shape)} has an element type that cannot be "
                        "recorded; give real numbers, integers or truth values")
        return array.type, array.shape, hashlib.blake2b(array.view_of_bytes(), digest_size=16).digest()


def attributes_of(given: dict) -> dict:
    """Attributes as records have them: numbers, truth values, texts, lists of these, ``None``."""
    return {name: attribute(value) for name, value in given.items()}


def attribute(value: Any) -> Any:
    """One attribute as records have it. Infinite numbers become texts, other things their text."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, (float, np.floating)):
        number = float(value)
        return number if math.isfinite(number) else str(number)
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, (list, tuple)):
        return [attribute(one) for one in value]
    return str(value).removeprefix("torch.")
