"""Recording of PyTorch: every aten op, as the dispatcher calls it.

Composite ops (``aten::linear`` in inference mode) are taken apart into the ops that compute them, which is what
PyTorch does itself. A value is known by its memory: storage, offset, sizes, strides and type, and by how often that
storage was written. So a view is the value that its memory has now, and a tensor changed in place is a new value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.nn.parameter import is_lazy
from torch.utils._python_dispatch import TorchDispatchMode

from . import op_kinds
from .arrays import Array, as_array, torch_type_name
from .environment import TorchArithmetics, torch_provenance
from .modules import ModulePaths
from .op_kinds import Kind
from .recorder import Recorder, Value, attribute
from .torch_collectives import NAMESPACES, Collective, Collectives

#: Ops whose results are elements of their operands, moved: the numbers are known where those of the operands are.
MOVES = {
    "t", "transpose", "permute", "view", "_unsafe_view", "_reshape_alias", "reshape", "flatten", "unflatten",
    "expand", "slice", "select", "narrow", "squeeze", "unsqueeze", "split", "split_with_sizes", "chunk", "unbind",
    "detach", "alias", "lift", "lift_fresh", "clone", "contiguous", "cat", "stack",
}

#: Ops in place that do not read what they write over.
_OVERWRITES = {"fill_", "zero_", "copy_", "normal_", "uniform_", "random_", "bernoulli_", "exponential_", "set_",
               "log_normal_", "cauchy_", "geometric_"}

#: Ops that give memory without numbers.
_EMPTY = {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"}

#: Arguments that ops write without saying so in their schema.
_HIDDEN_WRITES = {
    name: ("running_mean", "running_var")
    for name in ("native_batch_norm", "cudnn_batch_norm", "miopen_batch_norm", "_native_batch_norm_legit")
}

_BACKENDS = {"cpu": "CPU", "cuda": "CUDA"}


class TorchRecorder:
    """Records what PyTorch computes between ``start`` and ``stop``, in the thread that calls them."""

    def __init__(self, recorder: Recorder, model: Any):
        self._recorder = recorder
        self._mode = _Mode(self)
        self._memories: dict[int, _Memory] = {}
        self._sweep_at = 1024
        self._modules = ModulePaths(model)
        self._arithmetics = TorchArithmetics(torch)
        self._signatures: dict[Any, _Signature] = {}
        self._composite: dict[tuple[str, str], bool] = {}
        self._unstorable: set[str] = set()
        self._hidden: set[str] = set()
        self._collectives = Collectives(self._finish, lambda: self._mode.recording)
        self._incomplete = 0
        provenance = torch_provenance(torch)
        recorder.add_provenance(provenance, self._arithmetics.declared)

    def start(self) -> None:
        """Begins to record."""
        self._modules.start()
        self._collectives.start()
        self._mode.__enter__()

    def stop(self) -> None:
        """Ends recording."""
        self._mode.__exit__(None, None, None)
        for collective in self._collectives.stop():
            if collective.record:
                self._add_collective(collective, [None] * len(collective.results))
                self._incomplete += 1
        self._hidden |= self._collectives.unseen
        self._modules.stop()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """What PyTorch computes in this block is not recorded."""
        before = self._mode.recording
        self._mode.recording = self._modules.active = False
        try:
            yield
        finally:
            self._mode.recording = self._modules.active = before

    def forget(self, tensors: Sequence[torch.Tensor]) -> None:
        """Takes the memory of these tensors for changed."""
        for tensor in tensors:
            if isinstance(tensor, (list, tuple)):
                self.forget(tensor)
            else:
                self._memory(tensor).values.clear()

    def notes(self) -> list[str]:
        """What could not be seen."""
        notes = []
        if self._modules.compiled:
            names = ", ".join(sorted(self._modules.compiled)[:5])
            notes.append(f"compiled modules were called ({names}); what torch.compile made of their ops is not seen: "
                         "record the model without torch.compile to see every op")
        if self._unstorable:
            names = ", ".join(sorted(self._unstorable)[:5])
            notes.append(f"tensors that cannot be stored were met ({names}); ops on them cannot be judged")
        if self._hidden:
            notes.append("these were called as one and not seen inside: " + ", ".join(sorted(self._hidden)[:5]))
        if self._incomplete:
            notes.append(f"{self._incomplete} collectives were not waited for while recording, so that their results "
                         "are not known: wait for them inside of the 'with' block")
        return notes

    def call(self, function: Any, arguments: tuple, keywords: dict) -> Any:
        """Calls an op and records it."""
        if not hasattr(function, "_schema"):  # an operator that takes functions, such as flex_attention
            self._hidden.add(str(function))
            return function(*arguments, **keywords)
        signature = self._signature_of(function)
        call = signature.bind(arguments, keywords)
        if any(_has_own_dispatch(tensor) for tensor in call.tensors):
            return NotImplemented  # a subclass of tensors: the ops that it calls come here next
        device = call.tensors[0].device if call.tensors else None
        if device is not None and self._is_composite(function, device.type):
            with self._mode:
                return function.decompose(*arguments, **keywords)
        if signature.allocates or any(tensor.device.type == "meta" for tensor in call.tensors):
            return function(*arguments, **keywords)
        if device is not None and device.type == "cuda" and torch.cuda.is_current_stream_capturing():
            self._hidden.add("CUDA graphs")
            return function(*arguments, **keywords)
        pending = self._pending_on(call.tensors)
        if signature.waits:
            outcome = function(*arguments, **keywords)
            self._collectives.finish(pending)
            return outcome
        if pending and signature.gives_views:
            return function(*arguments, **keywords)  # reads nothing: what it shows is known when it is complete
        self._collectives.finish(pending)
        if signature.communicates:
            in_order = signature.in_order(arguments, keywords)
            collectives = self._collectives.read(signature.op, in_order)
            if collectives:
                return self._communicate(signature, collectives, call, lambda: function(*arguments, **keywords))
        written = {self._address(tensor) for tensor in call.written if self._is_storable(tensor)}
        values, arrays = self._before(call, written)
        versions = {_version(tensor) for tensor in call.tensors}
        outcome = function(*arguments, **keywords)
        self._change(call.written)
        results = [tensor if tensor is not None and self._is_storable(tensor) else None
                   for tensor in _results_of(outcome)]
        fields = {"module": self._modules.path(), "device": str(device or _device_of(results)), "rank": _rank()}
        if signature.communicates:  # what it gives is not known, and its memory changes until it is complete
            self._collectives.begin([Collective([], [], call.written, {})], outcome)
            results = [None] * len(results)
        moves = signature.moves and _same_types([*call.tensors, *results])
        if moves and all(tensor is None or self._known(tensor) for tensor in results):
            return outcome
        made = [None if tensor is None else self._made(tensor, versions, self._address(tensor) in written)
                for tensor in results]
        if moves:
            self._recorder.add_move(signature.op, values, made, call.attributes, fields)
            return outcome
        result_arrays = [None if tensor is None else as_array(tensor) for tensor in results]
        shaped = [array for array in arrays if array is not None and len(array.shape) > 0]
        types = {array.type for array in shaped or arrays if array is not None}  # numbers do not decide the type
        types = types or {array.type for array in result_arrays if array is not None}
        fields["arithmetic"] = self._recorder.declared_arithmetic or self._arithmetics.name_for(
            device or _device_of(results), types, signature.multiplies, signature.convolves)
        self._recorder.add_call(signature.op, values, arrays, made, result_arrays, call.attributes, fields)
        return outcome

    # ---- collectives --------------------------------------------------------------------------------------------

    def _communicate(self, signature: _Signature, collectives: list[Collective], call: _Call,
                     function: Callable[[], Any]) -> Any:
        """Calls a collective. Its record is added when it is complete."""
        device = call.tensors[0].device
        for collective in collectives:
            types = set()
            for tensor in collective.parts:
                if tensor is None or not self._is_storable(tensor):
                    collective.operands.append(None)
                    continue
                value, array = self._value(tensor), as_array(tensor)
                types.add(array.type)
                collective.operands.append(self._recorder.keep_shared_operand(value, array, collective.key))
            arithmetic = self._recorder.declared_arithmetic or self._arithmetics.name_for_reduction(device, types)
            collective.record = {"op": signature.op, "module": self._modules.path(), "device": str(device),
                                 "rank": _rank(), "arithmetic": arithmetic}
        outcome = function()
        for collective in collectives:
            if not collective.written:  # a functional one
                collective.results = _results_of(outcome)
                collective.written = [tensor for tensor in collective.results if tensor is not None]
            self._change(collective.written)
        self._collectives.begin(collectives, outcome)
        return outcome

    def _pending_on(self, tensors: Sequence[torch.Tensor]) -> list[Collective]:
        """The collectives that will write, or may have written, the memory of these tensors."""
        if not self._collectives.pending:
            return []
        addresses = {self._address(tensor) for tensor in tensors if self._is_storable(tensor)}
        return [collective for collective in self._collectives.pending
                if any(self._is_storable(tensor) and self._address(tensor) in addresses
                       for tensor in collective.written)]

    def _finish(self, collectives: list[Collective]) -> None:
        """Adds the records of collectives that are complete."""
        with self.paused():
            for collective in collectives:
                self._change(collective.written)
            for collective in collectives:
                if collective.record:
                    self._add_collective(collective, [
                        None if tensor is None or not self._is_storable(tensor) else
                        self._recorder.keep_shared_result(
                            self._made(tensor, set(), written=False), as_array(tensor), collective.key)
                        for tensor in collective.results])

    def _change(self, tensors: Sequence[torch.Tensor]) -> None:
        for tensor in tensors:
            if self._is_storable(tensor):
                self._memory(tensor).change(_place(tensor))

    def _add_collective(self, collective: Collective, results: list[str | None]) -> None:
        fields = dict(collective.record)
        self._recorder.add_kept(fields.pop("op"), collective.operands, results, collective.attributes, fields)

    # ---- operands and results -----------------------------------------------------------------------------------

    def _before(self, call: _Call, written: set[int]) -> tuple[list[Value | None], list[Array | None]]:
        """The operands' values; what the op will write over is kept now."""
        recorder = self._recorder
        values: list[Value | None] = []
        arrays: list[Array | None] = []
        for tensor in call.operands:
            if tensor is None or not self._is_storable(tensor):
                values.append(None)
                arrays.append(None)
                continue
            value, array = self._value(tensor), as_array(tensor)
            recorder.find_in_weights(value, array)
            if value.whole is None:
                if recorder.is_small(value):
                    recorder.keep_whole(value, array)
                elif self._address(tensor) in written:
                    array = as_array(tensor.detach().clone())
            values.append(value)
            arrays.append(array)
        return values, arrays

    def _value(self, tensor: torch.Tensor) -> Value:
        """The value that a tensor has now."""
        memory, key = self._memory(tensor), (*_place(tensor), _version(tensor))
        if key not in memory.values:
            memory.values[key] = value = self._recorder.new_value(as_array(tensor))
            value.name = self._modules.name_of_weight(tensor)
        return memory.values[key]

    def _known(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor is a value that is known wholly."""
        value = self._memory(tensor).values.get((*_place(tensor), _version(tensor)))
        return value is not None and value.whole is not None

    def _made(self, tensor: torch.Tensor, versions: set[int], written: bool) -> Value:
        """A value for a result.

        PyTorch counts up the version of what was written, and gives a view the version of its base, only after this
        recorder returns. So the value is noted under every version that the tensor may come back with.
        """
        value = self._recorder.new_value(as_array(tensor))
        memory, place = self._memory(tensor), _place(tensor)
        for version in {*versions, _version(tensor)}:
            memory.values[(*place, version)] = value
            if written:
                memory.values[(*place, version + 1)] = value
        return value

    def _memory(self, tensor: torch.Tensor) -> _Memory:
        address = self._address(tensor)
        memory = self._memories.get(address)
        if memory is None:
            if len(self._memories) >= self._sweep_at:
                self._memories = {a: m for a, m in self._memories.items() if not m.reference.expired()}
                self._sweep_at = 2 * len(self._memories) + 1024
            memory = self._memories[address] = _Memory(StorageWeakRef(_storage(tensor)))
        return memory

    @staticmethod
    def _address(tensor: torch.Tensor) -> int:
        return _storage(tensor)._cdata

    def _is_storable(self, tensor: torch.Tensor) -> bool:
        kind = "nested" if tensor.is_nested else "without a shape yet" if is_lazy(tensor) else str(tensor.layout)
        if kind == str(torch.strided) and torch_type_name(tensor.dtype) is not None:
            return True
        self._unstorable.add(f"{tensor.dtype}, {kind}")
        return False

    # ---- ops ----------------------------------------------------------------------------------------------------

    def _signature_of(self, function: Any) -> _Signature:
        signature = self._signatures.get(function)
        if signature is None:
            signature = self._signatures[function] = _Signature(function._schema)
        return signature

    def _is_composite(self, function: Any, device: str) -> bool:
        """Whether an op is made of others on this device, with no kernel of its own."""
        key = function.name(), device
        if key not in self._composite:
            has = torch._C._dispatch_has_kernel_for_dispatch_key
            self._composite[key] = has(key[0], "CompositeImplicitAutograd") and not has(
                key[0], _BACKENDS.get(device, "CPU"))
        return self._composite[key]


class _Mode(TorchDispatchMode):
    #: Operators that take functions come here, too.
    supports_higher_order_operators = True

    def __init__(self, owner: TorchRecorder):
        super().__init__()
        self.owner = owner
        self.recording = True

    def __torch_dispatch__(self, function: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        if not self.recording:
            return function(*args, **(kwargs or {}))
        return self.owner.call(function, args, kwargs or {})


class _Memory:
    """A storage that recorded ops have read or written, and the values in it."""

    __slots__ = ("reference", "values")
    MOST_KEPT = 512  # values that stay when others are written

    def __init__(self, reference: StorageWeakRef):
        self.reference = reference  # keeps the address from being given to another storage
        self.values: dict[tuple, Value] = {}

    def change(self, written: tuple) -> None:
        """Forgets the values in a place that was written. The others stay, and have the next version where they are views
        of the same base, as `_made` says; chunks of a product are changed one by one."""
        apart = {key: value for key, value in self.values.items() if _are_apart(key, written)}
        self.values.clear()
        if len(apart) <= self.MOST_KEPT:
            self.values.update(apart)
            self.values.update({(*key[:-1], key[-1] + 1): value for key, value in apart.items()})


@dataclass
class _Call:
    """The arguments of a call."""

    operands: list[torch.Tensor | None] = field(default_factory=list)
    attributes: dict[str, Any] = field(default_factory=dict)
    written: list[torch.Tensor] = field(default_factory=list)
    tensors: list[torch.Tensor] = field(default_factory=list)


class _Signature:
    """What the schema of an op says of its arguments."""

    def __init__(self, schema: Any):
        namespace, short = schema.name.rsplit("::", 1)
        kind = op_kinds.kind_of(schema.name)
        self.op = schema.name
        self.moves = short in MOVES and schema.overload_name != "dtype"  # which takes bits for another type
        self.communicates = namespace in NAMESPACES
        self.waits = self.communicates and short == "wait_tensor"
        self.gives_views = any(one.alias_info is not None and not one.alias_info.is_write for one in schema.returns)
        self._names = [argument.name for argument in schema.arguments]
        self.allocates = short in _EMPTY
        self.multiplies = kind in (Kind.PRODUCT, Kind.ATTENTION, Kind.CONVOLUTION)
        self.convolves = kind is Kind.CONVOLUTION
        hidden = _HIDDEN_WRITES.get(short, ())
        self._arguments = [
            _Argument(
                name=argument.name,
                tensors="Tensor" in str(argument.type),
                written=argument.name in hidden or self.communicates or _is_written(argument),
                read=not (argument.kwarg_only and _is_written(argument))
                and not (short in _OVERWRITES and argument.name == "self"),
                in_place=not argument.kwarg_only,
            )
            for argument in schema.arguments
        ]

    def bind(self, arguments: tuple, keywords: dict) -> _Call:
        """Operands and attributes of a call. What is only written is no operand; overwritten ones are ``None``."""
        call = _Call()
        for position, argument in enumerate(self._arguments):
            if position < len(arguments):
                given = arguments[position]
            elif argument.name in keywords:
                given = keywords[argument.name]
            elif argument.tensors and argument.in_place:
                given = None
            else:
                continue
            if argument.tensors:
                self._add_operands(call, argument, given)
            else:
                call.attributes[argument.name] = attribute(given)
        while call.operands and call.operands[-1] is None:
            call.operands.pop()
        return call

    def in_order(self, arguments: tuple, keywords: dict) -> list[Any]:
        """All arguments that were given, in the order of the schema."""
        return [*arguments, *(keywords[name] for name in self._names[len(arguments):] if name in keywords)]

    @staticmethod
    def _add_operands(call: _Call, argument: _Argument, given: Any) -> None:
        for one in _flat(given):
            is_tensor = isinstance(one, torch.Tensor)
            if is_tensor:
                call.tensors.append(one)
                if argument.written:
                    call.written.append(one)
            elif one is not None:
                call.attributes[argument.name] = attribute(one)  # a number in the place of a tensor
            if argument.read or argument.in_place:
                call.operands.append(one if is_tensor and argument.read else None)


@dataclass(frozen=True)
class _Argument:
    name: str
    tensors: bool  # a tensor, or a list of tensors
    written: bool
    read: bool
    in_place: bool  # not by keyword alone


def _flat(given: Any) -> list[Any]:
    """The elements of lists of lists, or the one thing that is no list."""
    return [one for part in given for one in _flat(part)] if isinstance(given, (list, tuple)) else [given]


def _is_written(argument: Any) -> bool:
    return argument.alias_info is not None and argument.alias_info.is_write


def _storage(tensor: torch.Tensor) -> Any:
    if hasattr(tensor, "untyped_storage"):
        return tensor.untyped_storage()
    return tensor.storage().untyped()  # PyTorch before 2.0


def _place(tensor: torch.Tensor) -> tuple:
    """What of its storage a tensor is."""
    return (tensor.storage_offset(), tuple(tensor.shape), tensor.stride(), tensor.dtype, tensor.is_conj(),
            tensor.is_neg())


def _are_apart(one: tuple, other: tuple) -> bool:
    """Whether two places of a storage have no element in common; False where that is not plain to see."""
    if one[3] != other[3]:
        return False
    axes = [[(stride, size) for size, stride in zip(place[1], place[2]) if size != 1] for place in (one, other)]
    if any(size == 0 for of in axes for _, size in of):
        return True
    # Columns of a matrix lie apart modulo its rows' stride; what lies one behind the other, modulo anything larger.
    for modulus in {stride for of in axes for stride, _ in of if stride > 1} | {1 << 62}:
        spans = []
        for place, of in zip((one, other), axes):
            first = place[0] % modulus
            spans.append((first, first + sum((size - 1) * stride for stride, size in of if stride % modulus)))
        if max(last for _, last in spans) < modulus and (spans[0][1] < spans[1][0] or spans[1][1] < spans[0][0]):
            return True
    return False


def _version(tensor: torch.Tensor) -> int:
    """How often PyTorch says that a tensor was written; -1 in inference mode, which does not count."""
    return -1 if tensor.is_inference() else tensor._version


def _results_of(outcome: Any) -> list[torch.Tensor | None]:
    if isinstance(outcome, torch.Tensor):
        return [outcome]
    if isinstance(outcome, (list, tuple)):
        return [one for part in outcome for one in _results_of(part)] if outcome else []
    return [None] if outcome is None else []


def _device_of(tensors: Sequence[torch.Tensor | None]) -> Any:
    return next((tensor.device for tensor in tensors if tensor is not None), torch.device("cpu"))


def _same_types(tensors: Sequence[torch.Tensor | None]) -> bool:
    return len({tensor.dtype for tensor in tensors if tensor is not None}) <= 1


def _rank() -> int | None:
    """Number of this process among those that compute together."""
    distributed = torch.distributed
    return distributed.get_rank() if distributed.is_available() and distributed.is_initialized() else None


def _has_own_dispatch(tensor: torch.Tensor) -> bool:
    kind = type(tensor)
    return kind is not torch.Tensor and kind.__torch_dispatch__ is not torch.Tensor.__torch_dispatch__
