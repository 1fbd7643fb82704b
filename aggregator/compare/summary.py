"""A capture as a small file: what a comparison needs of it, without events.

A compressed JSON document, to be kept as a baseline or for a history. It is read as untrusted: the
times must add up to the iterations on all GPUs.
"""

from __future__ import annotations

import gzip
import json
import zlib
from dataclasses import astuple, replace
from pathlib import Path
from typing import Annotated, BinaryIO, Final

import msgspec
import numpy as np
from msgspec import UNSET, Struct, UnsetType

from aggregator.compare.captures import CaptureData
from aggregator.compare.matching import Op
from aggregator.compare.ranks import RankTimes
from aggregator.compare.result import Capture
from aggregator.dldb.aggregations import aggregation_not_found
from aggregator.errors import CorruptProfileError, IterationRangeError
from aggregator.metrics.owners import Ownership
from aggregator.metrics.ownership import CLASSES
from aggregator.metrics.ownership_host import REASONS
from aggregator.profile.arrays import Int64
from aggregator.texts import say

SUFFIX: Final = ".summary.json.gz"
_FORMAT: Final = "dlprof capture summary"
_VERSION: Final = 1
_HEAD: Final = f'{{"format": "{_FORMAT}"'.encode()
_MOST_BYTES: Final = 1 << 28
"""Of the document; a summary of 400 iterations with 3,000 owners has six megabytes."""
_Whole = Annotated[int, msgspec.Meta(ge=0, le=2**62)]
_Time = Annotated[float, msgspec.Meta(ge=0)]


class _Versioned(Struct):
    version: int


class _Document(Struct, kw_only=True):
    """What a file holds, in this order."""

    format: str = _FORMAT
    version: int = _VERSION
    started_ns: _Whole | None
    launched_ns: _Whole | None
    mode: str
    aggregation: _Whole
    iter_start: _Whole
    iter_stop: _Whole
    iterations: list[int] | UnsetType = UNSET  # Where they are not consecutive.
    key_node: str
    has_steps: bool = False  # Summaries of the version before are of iterations.
    unprofiled_ns: _Whole | None = None
    is_given: bool = False
    gpus: _Whole
    facts: dict[str, str]
    domains: list[str]
    groups: list[str]
    ops: list[tuple[str, str, str, str, str]]
    kernels: dict[int, list[str]]
    owners: list[tuple[str, str, int, int]]
    ranks: list[tuple[int, _Time, _Time, _Time | None]] | UnsetType = UNSET
    lengths_ns: list[int]
    owned_ns: list[list[int]]


def is_summary(path: Path) -> bool:
    """Whether a file begins as a summary does."""
    try:
        with path.open("rb") as stream:
            if stream.read(2) != b"\x1f\x8b":
                return False
        with gzip.open(path) as stream:
            return stream.read(len(_HEAD)) == _HEAD
    except (OSError, EOFError, zlib.error):
        return False


def write_summary(data: CaptureData, stream: BinaryIO) -> None:
    """Write the summary of a capture; the same capture always gives the same bytes."""
    plain = msgspec.to_builtins(_document(data), str_keys=True)
    document = json.dumps(plain, separators=(",", ": ")).encode()
    with gzip.GzipFile(fileobj=stream, mode="wb", mtime=0, filename="") as packed:
        packed.write(document)


def _document(data: CaptureData) -> _Document:
    owned, capture = data.ownership, data.capture
    owners = zip(owned.kind.tolist(), owned.reason.tolist(), owned.op, owned.group, strict=True)
    numbers = owned.numbers.tolist()
    return _Document(
        started_ns=data.started_ns,
        launched_ns=data.launched_ns,
        mode=data.mode,
        aggregation=capture.aggregation,
        iter_start=capture.first,
        iter_stop=capture.last,
        iterations=UNSET if numbers[-1] - numbers[0] + 1 == len(numbers) else numbers,
        key_node=capture.key_node,
        has_steps=capture.has_steps,
        unprofiled_ns=capture.unprofiled_ns,
        is_given=capture.is_given,
        gpus=capture.devices,
        facts=data.facts,
        domains=list(data.domains),
        groups=list(data.groups),
        ops=[astuple(op) for op in data.ops],
        kernels={op: sorted(names) for op, names in sorted(data.kernels.items())},
        owners=[
            (CLASSES[kind], owned.reasons[reason], int(op), int(group))
            for kind, reason, op, group in owners
        ],
        ranks=[astuple(times) for times in data.ranks] or UNSET,
        lengths_ns=capture.lengths_ns.tolist(),
        owned_ns=owned.owned_ns.tolist(),
    )


def read_summary(
    path: Path, name: str, aggr: int | None = None, iterations: tuple[int, int] | None = None
) -> CaptureData:
    """Read a summary, or some of its iterations.

    Args:
        path: The file.
        name: How the user named it.
        aggr: Aggregation that it must be of.
        iterations: First and last iteration; None: all of the summary.

    Raises:
        CorruptProfileError: The file is damaged.
        AggregationNotFoundError: It is a summary of another aggregation.
        IterationRangeError: It lacks some of the iterations.
    """
    text = _read(path)
    try:
        if msgspec.json.decode(text, type=_Versioned).version != _VERSION:
            raise CorruptProfileError(
                say("The summary '{path}' has an unknown version.", path=path),
                hint=say("Read it with the version of dlprof that wrote it, or write it again."),
            )
        data = _capture(msgspec.json.decode(text, type=_Document), name)
    except (msgspec.MsgspecError, *_DAMAGE) as error:
        raise _damaged(path) from error
    if aggr not in (None, data.capture.aggregation):
        raise aggregation_not_found(aggr, [data.capture.aggregation])
    return data if iterations is None else _part(data, *iterations)


_DAMAGE: Final = (ValueError, IndexError, OverflowError, MemoryError, RecursionError)


def _damaged(path: Path) -> CorruptProfileError:
    return CorruptProfileError(
        say("The summary '{path}' is damaged.", path=path),
        hint=say("Write it again: dlprof export --format=summary DATABASE"),
    )


def _read(path: Path) -> bytes:
    try:
        with gzip.open(path) as stream:
            text = stream.read(_MOST_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise _damaged(path) from error
    if len(text) > _MOST_BYTES:
        raise _damaged(path)
    return text


def _capture(document: _Document, name: str) -> CaptureData:
    ownership = _ownership(document)
    if not all(0 <= op < len(document.ops) for op in document.kernels):
        raise IndexError
    return CaptureData(
        capture=Capture(
            name=name,
            aggregation=document.aggregation,
            first=int(ownership.numbers[0]),
            last=int(ownership.numbers[-1]),
            key_node=document.key_node,
            devices=ownership.devices,
            lengths_ns=ownership.lengths_ns,
            has_steps=document.has_steps,
            unprofiled_ns=document.unprofiled_ns,
            is_given=document.is_given,
            numbers=ownership.numbers,
        ),
        mode=document.mode,
        ownership=ownership,
        ops=tuple(Op(*op) for op in document.ops),
        groups=tuple(document.groups),
        kernels={op: frozenset(names) for op, names in document.kernels.items()},
        facts=document.facts,
        domains=tuple(document.domains),
        started_ns=document.started_ns,
        launched_ns=document.launched_ns,
        ranks=tuple(RankTimes(*times) for times in document.ranks or ()),
    )


def _numbers(document: _Document) -> Int64:
    first, last = document.iter_start, document.iter_stop
    if document.iterations is UNSET:
        return np.arange(first, last + 1)
    numbers = np.array(document.iterations, dtype=np.int64)
    if (numbers[0], numbers[-1]) != (first, last) or (np.diff(numbers) <= 0).any():
        raise ValueError
    return numbers


def _ownership(document: _Document) -> Ownership:
    """The times, which must be a partition of the iterations."""
    kinds, texts, op, group = zip(*document.owners, strict=True)
    reasons = tuple(dict.fromkeys((*REASONS, *texts)))
    code = {text: number for number, text in enumerate(reasons)}
    found = Ownership(
        numbers=_numbers(document),
        devices=document.gpus,
        lengths_ns=np.array(document.lengths_ns, dtype=np.int64),
        kind=np.array([CLASSES.index(kind) for kind in kinds], dtype=np.int64),
        reason=np.array([code[text] for text in texts], dtype=np.int64),
        op=np.array(op, dtype=np.int64),
        group=np.array(group, dtype=np.int64),
        reasons=reasons,
        owned_ns=np.array(document.owned_ns, dtype=np.int64),
    )
    is_whole = (
        found.devices > 0
        and found.owned_ns.shape == (len(found.numbers), len(kinds))
        and bool((found.owned_ns >= 0).all() and (found.lengths_ns > 0).all())
        and np.array_equal(found.owned_ns.sum(axis=1), found.devices * found.lengths_ns)
        and -1 <= int(found.op.min()) <= int(found.op.max()) < len(document.ops)
        and -1 <= int(found.group.min()) <= int(found.group.max()) < len(document.groups)
    )
    if not is_whole:
        raise ValueError
    return found


def _part(data: CaptureData, first: int, last: int) -> CaptureData:
    capture, owned = data.capture, data.ownership
    rows = np.flatnonzero((owned.numbers >= first) & (owned.numbers <= last))
    if not (capture.first <= first <= last <= capture.last and len(rows)):
        raise IterationRangeError(
            say(
                "The iteration range {first} to {last} lies outside the summary.",
                first=first,
                last=last,
            ),
            hint=say(
                "It has the iterations {first} to {last}.", first=capture.first, last=capture.last
            ),
        )
    if (first, last) == (capture.first, capture.last):
        return data
    part = owned.part(rows)
    return replace(
        data,
        capture=replace(
            capture, first=first, last=last, lengths_ns=part.lengths_ns, numbers=part.numbers
        ),
        ownership=part,
        launched_ns=None,
        ranks=(),
    )
