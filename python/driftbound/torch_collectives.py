"""Collectives of torch.distributed: what this rank brings, and what it has when the call is complete.

The dispatcher shows the tensors of a collective, but before PyTorch 2 neither its group nor how it reduces. So while
recording the methods of ``ProcessGroup`` note what they are called with, and ``Work.wait`` says what is complete.
"""

from __future__ import annotations

import functools
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

#: Namespaces of ops that send tensors between processes: their results are complete only after a wait.
NAMESPACES = ("c10d", "_c10d_functional", "c10d_functional")

#: Methods of ``ProcessGroup`` that write tensors.
_METHODS = (
    "allreduce", "allreduce_coalesced", "reduce", "broadcast", "allgather", "allgather_coalesced", "_allgather_base",
    "allgather_into_tensor_coalesced", "reduce_scatter", "_reduce_scatter_base", "reduce_scatter_tensor_coalesced",
    "alltoall", "alltoall_base", "gather", "scatter", "recv", "recv_anysource",
)


@dataclass
class Collective:
    """One collective that this rank takes part in."""

    parts: list[torch.Tensor | None]  #: what this rank brings
    results: list[torch.Tensor | None]  #: where its results will be
    written: list[torch.Tensor]  #: whose memory it writes
    attributes: dict[str, Any]
    operands: list[str | None] = field(default_factory=list)  #: ids of what it brought
    record: dict[str, Any] = field(default_factory=dict)  #: op and fields of the record; empty: there is none
    work: Any = None

    @property
    def key(self) -> str:
        """The same text in all ranks, and of no other collective of theirs."""
        return "/".join(str(self.attributes[name]) for name in ("group", "ranks", "number"))


class Collectives:
    """The collectives that the thread which calls ``start`` has begun and not completed.

    Those of PyTorch 1 that the dispatcher does not show are known by their method, and have no record.

    Arguments:
        finish: adds the records of collectives that are complete.
        is_recording: says whether anything is recorded now.
    """

    def __init__(self, finish: Callable[[list[Collective]], None], is_recording: Callable[[], bool]):
        self.pending: list[Collective] = []
        self.unseen: set[str] = set()  # methods of which the dispatcher showed nothing
        self._finish = finish
        self._is_recording = is_recording
        self._numbers: Counter = Counter()
        self._calls: list[_Call] = []
        self._replaced: list[tuple[type, str, Any]] = []

    def start(self) -> None:
        """Begins to watch the methods of groups and of works."""
        if not torch.distributed.is_available():
            return
        self._thread = threading.get_ident()
        for name in _METHODS:
            self._replace(torch._C._distributed_c10d.ProcessGroup, name, self._noting)
        self._replace(torch._C._distributed_c10d.Work, "wait", self._finishing)

    def stop(self) -> list[Collective]:
        """Puts the methods back. Returns what was begun and is not complete."""
        while self._replaced:
            owner, name, method = self._replaced.pop()
            setattr(owner, name, method)
        pending, self.pending = self.pending, []
        return pending

    def read(self, op: str, arguments: Sequence[Any]) -> list[Collective]:
        """What a call brings and gives, one for every tensor that is reduced. Empty for a call that is not known."""
        if self._calls:
            self._calls[-1].is_seen = True
        reader = _READERS.get(op)
        if reader is None:
            return []
        try:
            given = reader(arguments, self._calls[-1] if self._calls else _Call.of(arguments))
            ranks = _ranks_of(given.group)
        except (AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError):
            return []  # of another version of PyTorch, or a group that it does not know
        name = _name_of(given.group)
        collectives = []
        for parts, results in given.tensors:
            number = self._numbers[name, tuple(ranks)]
            self._numbers[name, tuple(ranks)] += 1
            written = list(results)
            attributes = {"collective": given.kind, "group": name, "ranks": ranks, "number": number}
            if given.reduction is not None:
                attributes["reduce"] = _reduction_name(given.reduction)
            if given.root is not None:
                attributes["root"] = ranks[given.root]
                is_root = torch.distributed.get_rank() == ranks[given.root]
                parts = parts if is_root or given.kind != "broadcast" else [None]
                results = results if is_root or given.kind != "reduce" else [None]
            collectives.append(Collective(parts, results, written, attributes))
        return collectives

    def begin(self, collectives: list[Collective], outcome: Any) -> None:
        """Keeps what was begun until it is complete. ``outcome`` is what the op returned."""
        self.pending += collectives
        if self._calls:
            self._calls[-1].begun += collectives
        elif isinstance(outcome, (tuple, list)) and isinstance(outcome[-1], torch.ScriptObject):
            unbox = getattr(torch._C._distributed_c10d.Work, "unbox", None)  # since PyTorch 2
            for collective in collectives:
                collective.work = unbox(outcome[-1]) if unbox else None

    def finish(self, collectives: Sequence[Collective]) -> None:
        """Takes these for complete."""
        chosen = [one for one in self.pending if any(one is other for other in collectives)]
        self.pending = [one for one in self.pending if not any(one is other for other in chosen)]
        if chosen:
            self._finish(chosen)

    def _replace(self, owner: type, name: str, around: Callable) -> None:
        method = owner.__dict__.get(name)
        if method is not None:
            self._replaced.append((owner, name, method))
            setattr(owner, name, around(getattr(owner, name)))

    def _noting(self, method: Callable) -> Callable:
        @functools.wraps(method)
        def call(group: Any, *arguments: Any, **keywords: Any) -> Any:
            if threading.get_ident() != self._thread or not self._is_recording():
                return method(group, *arguments, **keywords)
            noted = _Call(group, _reduction_in([*arguments, *keywords.values()]))
            self._calls.append(noted)
            try:
                work = method(group, *arguments, **keywords)
            finally:
                self._calls.pop()
            if not noted.is_seen:
                self.unseen.add(f"ProcessGroup.{method.__name__}")
                noted.begun = [Collective([], [], _tensors_in([arguments, list(keywords.values())]), {})]
                self.pending += noted.begun
            for collective in noted.begun:
                collective.work = work
            if work is None:  # complete for all that follows on this stream
                self.finish(noted.begun)
            return work

        return call

    def _finishing(self, method: Callable) -> Callable:
        @functools.wraps(method)
        def wait(work: Any, *arguments: Any, **keywords: Any) -> Any:
            outcome = method(work, *arguments, **keywords)
            if threading.get_ident() == self._thread:
                self.finish([one for one in self.pending if one.work is work])
            return outcome

        return wait


@dataclass
class _Call:
    """A group, and how it reduces."""

    group: Any
    reduction: Any = None
    begun: list[Collective] = field(default_factory=list)
    is_seen: bool = False  #: whether the dispatcher showed the op

    @staticmethod
    def of(arguments: Sequence[Any]) -> _Call:
        """From the boxed arguments of an op that was called by C++, which PyTorch 2 can unbox: the group comes first."""
        library = torch._C._distributed_c10d
        boxed = [one for one in arguments if isinstance(one, torch.ScriptObject)]
        group = library.ProcessGroup.unbox(boxed[0]) if boxed else None
        return _Call(group, library.ReduceOp.unbox(boxed[1]) if len(boxed) > 1 else None)


@dataclass
class _Given:
    """What the arguments of an op say. ``tensors``: parts and results of each of its collectives."""

    kind: str
    group: Any
    tensors: list[tuple[list, list]]
    reduction: Any = None
    root: int | None = None


def _all_reduce(arguments: Sequence[Any], call: _Call) -> _Given:
    (tensor,) = arguments[0]  # several would be parts on several devices
    return _Given("all_reduce", call.group, [([tensor], [tensor])], call.reduction)


def _all_reduce_each(arguments: Sequence[Any], call: _Call) -> _Given:
    return _Given("all_reduce", call.group, [([tensor], [tensor]) for tensor in arguments[0]], call.reduction)


def _reduce(arguments: Sequence[Any], call: _Call) -> _Given:
    (tensor,) = arguments[0]
    return _Given("reduce", call.group, [([tensor], [tensor])], call.reduction, arguments[3])


def _broadcast(arguments: Sequence[Any], call: _Call) -> _Given:
    (tensor,) = arguments[0]
    return _Given("broadcast", call.group, [([tensor], [tensor])], root=arguments[2])


def _all_gather(arguments: Sequence[Any], call: _Call) -> _Given:
    (results,), (part,) = arguments[:2]
    return _Given("all_gather", call.group, [([part], list(results))])


def _reduce_scatter(arguments: Sequence[Any], call: _Call) -> _Given:
    (result,), (parts,) = arguments[:2]
    return _Given("reduce_scatter", call.group, [(list(parts), [result])], call.reduction)


def _functional_all_reduce(arguments: Sequence[Any], call: _Call) -> _Given:
    tensor, reduction, group = arguments[:3]
    return _Given("all_reduce", _group_named(group), [([tensor], [])], reduction)


def _functional_broadcast(arguments: Sequence[Any], call: _Call) -> _Given:
    tensor, root, group = arguments[:3]
    return _Given("broadcast", _group_named(group), [([tensor], [])], root=root)


#: The ops that are known. Results of functional ones are what they return.
_READERS: dict[str, Callable[[Sequence[Any], _Call], _Given]] = {
    "c10d::allreduce_": _all_reduce,
    "c10d::allreduce_coalesced_": _all_reduce_each,
    "c10d::reduce_": _reduce,
    "c10d::broadcast_": _broadcast,
    "c10d::allgather_": _all_gather,
    "c10d::reduce_scatter_": _reduce_scatter,
    "_c10d_functional::all_reduce": _functional_all_reduce,
    "_c10d_functional::all_reduce_": _functional_all_reduce,
    "_c10d_functional::broadcast": _functional_broadcast,
    "_c10d_functional::broadcast_": _functional_broadcast,
}


def _reduction_in(arguments: Sequence[Any]) -> Any:
    """How a method of ``ProcessGroup`` is told to reduce: by its options, by an argument, or not, which is the sum."""
    kinds = (torch.distributed.ReduceOp, getattr(torch.distributed.ReduceOp, "RedOpType", torch.distributed.ReduceOp))
    for one in arguments:
        if hasattr(one, "reduceOp"):
            return one.reduceOp
        if isinstance(one, kinds):
            return one
    return "sum"


def _tensors_in(given: Any) -> list[torch.Tensor]:
    if isinstance(given, (list, tuple)):
        return [tensor for one in given for tensor in _tensors_in(one)]
    return [given] if isinstance(given, torch.Tensor) else []


def _reduction_name(reduction: Any) -> str:
    kind = getattr(reduction, "op", reduction)
    return str(getattr(kind, "name", kind)).rsplit(".", 1)[-1].lower()


def _ranks_of(group: Any) -> list[int]:
    """Ranks of the members of a group, by their number in it."""
    return [int(rank) for rank in torch.distributed.distributed_c10d.get_process_group_ranks(group)]


def _name_of(group: Any) -> str:
    """What all members call a group."""
    names = getattr(torch.distributed.distributed_c10d, "_pg_names", {})
    return str(names[group]) if group in names else str(getattr(group, "group_name", ""))


def _group_named(name: str) -> Any:
    return torch._C._distributed_c10d._resolve_process_group(name)
