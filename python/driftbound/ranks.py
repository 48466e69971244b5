"""Recordings of the ranks of one run, joined to one: ``driftbound.join_ranks``."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from .environment import BUILT_IN
from .errors import Error
from .safetensors import Reader, Tensor
from .shards import ShardWriter, may_be_shard, shards_of
from .weights import relative_path, unused_name


def join_ranks(paths: Iterable[str | Path], path: str | Path, *, shard_bytes: int = 256 << 20) -> None:
    """Joins what the ranks of one run recorded, so that ``driftbound.report`` judges what they computed together.

    Every rank records itself, to a file of its own: ``with driftbound.record(f"r{rank}.safetensors"): …``. In the
    joined recording collectives have what all ranks brought as operands. With the parts x_p and the result y_r of
    rank r, a record of rank r says:

    * all-reduce and reduce: y_r = Σ_p x_p, added up in any order (``c10d::all_reduce``), for ``avg`` divided by the
      number of ranks, for ``max`` and ``min`` the largest and the smallest (``Max``, ``Min``);
    * broadcast: y_r = x_root; all-gather: y_r[p] = x_p (``aten::clone``);
    * reduce-scatter: y_r = Σ_p x_p[r].

    All parts and results of a reduction have one shape. Names of what rank 1 computed begin with ``r1:``. Values keep
    their numbers, and modules their paths. Ids begin with ``r0.``, ``r1.`` …

    Arguments:
        paths: the recordings, one a rank, in any order.
        path: the joined recording, ``ALL.safetensors``, in a folder that exists.
        shard_bytes: how much is held in memory before it is written.

    Guarantee: the joined recording has every record of every rank, each behind those that give it its operands. Where
    ranks have different bits after one all-reduce, each of their results is judged. Records of other reductions, of
    averages whose scaling may round before the sum (a number of ranks that is no power of two, float16), and of parts
    or results that were not recorded, stay as they were recorded, and are not judged.

    Raises ``Error`` where a file is no recording, two are of one rank, a rank is missing, or ranks called different
    collectives (their number, kind, shape, type, reduction or root). Then no file is written or changed.
    """
    path = Path(path)
    if path.suffix != ".safetensors":
        raise Error(f"{path}: recordings are .safetensors files; give the path this ending")
    if not path.parent.is_dir():
        raise Error(f"{path}: there is no folder {path.parent}; create it first")
    given = [Path(one) for one in paths]
    ranks: dict[int, _Rank] = {}
    try:
        for one in given:
            rank = _Rank(one)
            if rank.number in ranks:
                raise Error(f"{one}: is of rank {rank.number}, as {ranks[rank.number].path} is; give one recording a "
                            "rank")
            ranks[rank.number] = rank
        if not ranks:
            raise Error("there are no recordings to join; give one a rank")
        _require_apart(ranks.values(), path)
        _require_matching(ranks)
        folder = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent))
        try:
            _Joiner(ranks, ShardWriter(folder / path.name, shard_bytes), path.parent).join()
            _put_in_place(folder, path)
        finally:
            shutil.rmtree(folder)
    finally:
        for rank in ranks.values():
            rank.close()


class _Rank:
    """The recording of one rank. Of its values only descriptions are in memory."""

    def __init__(self, path: Path):
        self.path = path
        self._readers: list[Reader] = []
        self._places: dict[str, int] = {}
        self.records: list[dict] = []
        self.values: dict[str, dict] = {}
        self.ended = False
        try:
            self._read()
            self.producers = {identity: number for number, record in enumerate(self.records)
                              for identity in record["results"] if identity is not None}
            self.collectives = self._read_collectives()
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            self.close()
            raise Error(f"{path}: is no recording, or is damaged: {type(error).__name__} {error}") from None
        except Error:
            self.close()
            raise

    def close(self) -> None:
        """Closes the files."""
        for reader in self._readers:
            reader.__exit__()

    def tensor(self, name: str) -> Tensor:
        """A stored tensor of the value with the id that the name holds."""
        reader = self._readers[self._places[name.split("/")[1]]]
        entry = reader.tensors[name]
        data = np.frombuffer(b"".join(reader.blocks(name)), np.uint8)
        return Tensor(entry["dtype"], tuple(entry["shape"]), data)

    def tensors_of(self, identity: str) -> list[str]:
        """Names of what is stored of a value: the value itself first, then its indices."""
        stored = self._readers[self._places[identity]].tensors
        names = [f"value/{identity}", f"value/{identity}/elements"]
        names += [f"value/{identity}/axis/{axis}" for axis in self.values[identity].get("part", {}).get("axes", [])]
        return [name for name in names if name in stored]

    def what_is_missing(self) -> str:
        """Words for a message where the recording has less than another one."""
        return "" if self.ended else f"; {self.path} has not ended in an orderly way"

    def _read(self) -> None:
        first = Reader(self.path)
        self._readers.append(first)
        if first.metadata.get("driftbound.trace") != "2" or first.metadata.get("shard") != "0":
            raise Error(f"{self.path}: is not the first file of a recording op by op; give what driftbound.record "
                        "wrote under the name that it was given")
        for shard in shards_of(self.path):
            if shard != self.path:
                self._readers.append(Reader(shard))
        for number, reader in enumerate(self._readers):
            metadata = reader.metadata
            if metadata["run"] != first.metadata["run"] or metadata["shard"] != str(number):
                raise Error(f"{reader.path}: is of another recording, or one before it is missing; record again")
            for identity, value in json.loads(metadata["values"]).items():
                self.values[identity] = value
                self._places[identity] = number
            self.records += json.loads(metadata["records"])
            self.ended = metadata.get("last") == "true"
        self.provenance: dict = json.loads(self._readers[-1].metadata.get("provenance")
                                           or first.metadata.get("provenance", "{}"))
        self.arithmetics: dict[str, dict] = json.loads(first.metadata.get("arithmetics", "{}"))
        self.files: dict[str, dict] = json.loads(first.metadata.get("files", "{}"))
        numbers = {record["rank"] for record in self.records if record.get("rank") is not None}
        if len(numbers) != 1:
            raise Error(f"{self.path}: has records of {len(numbers) or 'no'} ranks; record every rank to a file of "
                        "its own, after torch.distributed.init_process_group")
        (self.number,) = numbers
        for identity in (one for record in self.records for one in [*record["operands"], *record["results"]]):
            if identity is not None and identity not in self.values:
                raise Error(f"{self.path}: has no value '{identity}', which a record names; record again")


    def _read_collectives(self) -> dict[tuple, dict]:
        collectives: dict[tuple, dict] = {}
        for record in filter(_is_collective, self.records):
            attributes, members = record["attributes"], len(record["attributes"]["ranks"])
            operands, results = {"all_gather": (1, members), "reduce_scatter": (members, 1)}.get(
                attributes["collective"], (1, 1))
            if len(record["operands"]) != operands or len(record["results"]) != results:
                raise ValueError(f"a collective {attributes['collective']} of {members} ranks with "
                                 f"{len(record['operands'])} operands and {len(record['results'])} results")
            if not {record["rank"], attributes.get("root", record["rank"])} <= set(attributes["ranks"]):
                raise ValueError(f"a collective of the ranks {attributes['ranks']} with another rank")
            if _key_of(record) in collectives:
                raise ValueError(f"two collectives {attributes['number']} of group '{attributes['group']}'")
            collectives[_key_of(record)] = record
        return collectives


def _is_collective(record: dict) -> bool:
    return "collective" in record.get("attributes", {})


def _key_of(record: dict) -> tuple[str, tuple[int, ...], int]:
    """What the records of one collective have in common: its group, the ranks in that, and its number there."""
    attributes = record["attributes"]
    return attributes["group"], tuple(attributes["ranks"]), attributes["number"]


# ---- what must fit ----------------------------------------------------------------------------------------------


def _require_apart(ranks: Iterable[_Rank], path: Path) -> None:
    for rank in ranks:
        for shard in shards_of(rank.path):
            if shard.parent.resolve() == path.parent.resolve() and may_be_shard(shard, path):
                raise Error(f"{path}: the joined recording would replace {shard}, which it is made of; give another "
                            "name")


def _require_matching(ranks: dict[int, _Rank]) -> None:
    """That all ranks of a group called the same collectives on it, with tensors that fit."""
    calls: dict[tuple[str, tuple[int, ...]], dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for number, rank in ranks.items():
        for group, members, call in rank.collectives:
            calls[group, members][number].append(call)
    for (group, members), made in calls.items():
        where = f"group '{group}' of the ranks {', '.join(map(str, members))}"
        some = ranks[min(made)]
        for member in members:
            if member not in ranks:
                raise Error(f"rank {member} is missing: {some.path} has collectives of {where}; give the recordings "
                            "of all these ranks")
            have, want = len(made[member]), len(made[min(made)])
            if have != want:
                raise Error(f"{ranks[member].path}: has {have} collectives of {where}, {some.path} has {want}"
                            f"{ranks[member].what_is_missing()}{some.what_is_missing()}; record the same part of the "
                            "run in all ranks")
        for call in sorted(made[min(made)]):
            _require_alike([(ranks[member], ranks[member].collectives.get((group, members, call)))
                            for member in members], f"collective {call} of {where}")


def _require_alike(calls: Sequence[tuple[_Rank, dict | None]], where: str) -> None:
    first = calls[0]
    for rank, record in calls:
        if record is None or first[1] is None:
            missing = rank if record is None else first[0]
            raise Error(f"{missing.path}: has no {where}; record the same part of the run in all ranks")
        for name in ("collective", "reduce", "root"):
            one, other = (call["attributes"].get(name) for call in (first[1], record))
            if one != other:
                raise Error(f"{rank.path}: {where} has {name} {other}, in {first[0].path} it has {one}; "
                            "record the same part of the run in all ranks")
        if record["attributes"]["collective"] in ("all_reduce", "reduce", "reduce_scatter"):
            wanted, given = (_kinds_of(*call, "operands") for call in (first, (rank, record)))
            if len(wanted) != len(given) or any(a != b for a, b in zip(wanted, given) if a and b):
                raise Error(f"{rank.path}: {where} brings {_words(given)}, in {first[0].path} it brings "
                            f"{_words(wanted)}; record the same part of the run in all ranks")
    for rank, record in calls:
        for result, (_, parts) in zip(record["results"], _meaning(record, calls)):
            for source, part in parts:
                if result is None or part is None:
                    continue
                one, other = ([_kind_of(rank.values[result])], [_kind_of(source.values[part])])
                if one != other:
                    raise Error(f"{rank.path}: {where} gives {_words(one)}, {source.path} brings {_words(other)}; "
                                "record the same part of the run in all ranks")


def _kinds_of(rank: _Rank, record: dict, which: str) -> list[tuple | None]:
    return [None if identity is None else _kind_of(rank.values[identity]) for identity in record[which]]


def _kind_of(value: dict) -> tuple:
    return value["type"], tuple(value["shape"])


def _words(kinds: list[tuple | None]) -> str:
    return ", ".join("nothing" if kind is None else f"{kind[0]} {list(kind[1])}" for kind in kinds) or "nothing"


# ---- what collectives mean --------------------------------------------------------------------------------------

Parts = list[tuple[_Rank, "str | None"]]


def _meaning(record: dict, calls: Sequence[tuple[_Rank, dict]]) -> Iterator[tuple[str, Parts]]:
    """For every result of a collective how it comes from which parts: ``copy`` or the reduction's name."""
    attributes = record["attributes"]
    kind, members = attributes["collective"], attributes["ranks"]
    how = attributes.get("reduce", "")
    if kind in ("all_reduce", "reduce"):
        yield how, [(rank, one["operands"][0]) for rank, one in calls]
    elif kind == "broadcast":
        rank, one = calls[members.index(attributes["root"])]
        yield "copy", [(rank, one["operands"][0])]
    elif kind == "all_gather":
        for rank, one in calls:
            yield "copy", [(rank, one["operands"][0])]
    elif kind == "reduce_scatter":
        place = members.index(record["rank"])
        yield how, [(rank, one["operands"][place]) for rank, one in calls]


def _op_of(how: str, members: int, element_type: str) -> tuple[str, dict] | None:
    """The op that reduces so, and its attributes. ``None`` for one that is not known."""
    if how == "sum":
        return "c10d::all_reduce", {"reduce": "sum"}
    # Scaling before the sum is exact where it is by a power of two and nothing becomes subnormal.
    if how == "avg" and members & (members - 1) == 0 and element_type != "F16":
        return "c10d::all_reduce", {"reduce": "mean"}
    return {"max": ("Max", {}), "min": ("Min", {}), "copy": ("aten::clone", {})}.get(how)


# ---- joining ----------------------------------------------------------------------------------------------------


@dataclass
class _Joiner:
    """Writes the records of all ranks, each when the records that give it its operands are written."""

    ranks: dict[int, _Rank]
    shards: ShardWriter
    folder: Path  #: of the joined recording
    _written: set[str] = field(default_factory=set)
    _arithmetics: dict[tuple[int, str], str] = field(default_factory=dict)
    _files: dict[tuple[int, str], str] = field(default_factory=dict)

    def join(self) -> None:
        """Writes everything."""
        for number in sorted(self.ranks):
            self._take_over(number, self.ranks[number])
        self.shards.provenance = _joined_provenance(self.ranks)
        done = dict.fromkeys(sorted(self.ranks), 0)
        while waiting := [number for number in done if done[number] < len(self.ranks[number].records)]:
            before = sum(done.values())
            for number in waiting:
                rank = self.ranks[number]
                while done[number] < len(rank.records) and self._is_ready(rank, rank.records[done[number]], done):
                    self._add(rank, rank.records[done[number]])
                    done[number] += 1
            if sum(done.values()) == before:
                raise Error(f"{self.ranks[waiting[0]].path}: record {done[waiting[0]]} needs what another rank "
                            "computes after it has got the result; the recordings are not of one run")
        self.shards.close()

    def _calls(self, record: dict) -> list[tuple[_Rank, dict]]:
        members = (self.ranks[member] for member in record["attributes"]["ranks"])
        return [(rank, rank.collectives[_key_of(record)]) for rank in members]

    def _is_ready(self, rank: _Rank, record: dict, done: dict[int, int]) -> bool:
        return not _is_collective(record) or all(
            other.producers.get(part, -1) < done[other.number]
            for _, parts in _meaning(record, self._calls(record)) for other, part in parts if part is not None)

    def _add(self, rank: _Rank, record: dict) -> None:
        if not _is_collective(record):
            self._write(rank, record)
            return
        meanings = list(_meaning(record, self._calls(record)))
        known = []
        for result, (how, parts) in zip(record["results"], meanings):
            op = None if result is None or any(part is None for _, part in parts) else _op_of(
                how, len(parts), rank.values[result]["type"])
            known.append(None if op is None else (*op, parts, result))
        if None in known or not known:
            self._write(rank, record)
            return
        for op, attributes, parts, result in known:
            self._write(rank, {**record, "op": op, "attributes": attributes, "results": [result]}, parts)

    def _write(self, rank: _Rank, record: dict, parts: Parts | None = None) -> None:
        """Writes a record and the values that it is the first to name. ``parts`` are operands of several ranks."""
        operands = parts if parts is not None else [(rank, identity) for identity in record["operands"]]
        joined = {**record, "rank": rank.number}
        joined["operands"] = [self._value(*operand) for operand in operands]
        joined["results"] = [self._value(rank, identity) for identity in record["results"]]
        name = f"r{rank.number}:{record.get('name') or record['op']}"
        joined["name"] = "/".join(filter(None, (record.get("module"), name)))
        if (arithmetic := record.get("arithmetic")) is not None and arithmetic not in BUILT_IN:
            joined["arithmetic"] = self._arithmetics[rank.number, arithmetic]
        self.shards.add_record(joined)

    def _value(self, rank: _Rank, identity: str | None) -> str | None:
        if identity is None:
            return None
        joined = f"r{rank.number}.{identity}"
        if joined in self._written:
            return joined
        self._written.add(joined)
        value, names = dict(rank.values[identity]), rank.tensors_of(identity)
        if "file" in value:
            value["file"] = self._files[rank.number, value["file"]]
        if not names:
            self.shards.describe(joined, value.pop("type"), value.pop("shape"), **value)
            return joined
        indices = {name.split("/", 2)[2]: np.frombuffer(rank.tensor(name).data, np.int64) for name in names[1:]}
        self.shards.store(joined, rank.tensor(names[0]), tuple(value["shape"]), value.get("part"), indices,
                          value.get("name"))
        return joined

    def _take_over(self, number: int, rank: _Rank) -> None:
        """Takes over arithmetics and files. The same name for something else gets another one."""
        for name, arithmetic in rank.arithmetics.items():
            taken = self.shards.arithmetics
            joined = name if taken.get(name, arithmetic) == arithmetic else unused_name(name, taken)
            taken[joined] = arithmetic
            self._arithmetics[number, name] = joined
        for name, file in rank.files.items():
            there = {**file, "path": relative_path(rank.path.parent / file["path"], self.folder)}
            same = [known for known, other in self.shards.files.items() if other == there]
            joined = same[0] if same else unused_name(name, self.shards.files)
            self.shards.files[joined] = there
            self._files[number, name] = joined


def _joined_provenance(ranks: dict[int, _Rank]) -> dict:
    """The provenance of the lowest rank, with what differs between ranks said of each."""
    own = {number: ranks[number].provenance for number in sorted(ranks)}
    provenance = dict(next(iter(own.values())))
    effects = {one.get("observer_effect", "not checked") for one in own.values()}
    provenance["observer_effect"] = next(
        effect for effect in ("changed", "not checked", "none") if effect in effects)
    details = dict(provenance.get("details", {}))
    for name in ("not_seen", "ended_by"):
        details.pop(name, None)
        said = [f"rank {number}: {one['details'][name]}" for number, one in own.items()
                if name in one.get("details", {})]
        if said:
            details[name] = "; ".join(said)
    devices = {one.get("device", "") for one in own.values()}
    if len(devices) > 1:
        details["devices"] = "; ".join(f"rank {number}: {one.get('device', '')}" for number, one in own.items())
    provenance["details"] = {**details, "ranks": ", ".join(map(str, own))}
    return provenance


def _put_in_place(folder: Path, path: Path) -> None:
    """Moves the shards to where they belong, the first one last: before that the recording cannot be read."""
    for old in shards_of(path):
        old.unlink()
    for shard in reversed(shards_of(folder / path.name)):
        os.replace(shard, path.parent / shard.name)
