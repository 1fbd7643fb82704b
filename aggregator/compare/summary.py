"""A capture as a small file: what a comparison needs of it, without events.

A compressed JSON document, to be kept as a baseline or for a history. It is read as untrusted: the
times must add up to the iterations on all GPUs.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Mapping
from dataclasses import astuple, replace
from math import inf
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np

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
from aggregator.system.untrusted_json import read_json
from aggregator.texts import say

SUFFIX: Final = ".summary.json.gz"
_FORMAT: Final = "dlprof capture summary"
_VERSION: Final = 1
_HEAD: Final = f'{{"format": "{_FORMAT}"'.encode()
_MOST_BYTES: Final = 1 << 28
"""Of the document; a summary of 400 iterations with 3,000 owners has six megabytes."""


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
    document = json.dumps(_document(data), separators=(",", ": ")).encode()
    with gzip.GzipFile(fileobj=stream, mode="wb", mtime=0, filename="") as packed:
        packed.write(document)


def _document(data: CaptureData) -> dict[str, Any]:
    owned, capture = data.ownership, data.capture
    owners = zip(owned.kind.tolist(), owned.reason.tolist(), owned.op, owned.group, strict=True)
    return {
        "format": _FORMAT,
        "version": _VERSION,
        "started_ns": data.started_ns,
        "launched_ns": data.launched_ns,
        "mode": data.mode,
        "aggregation": capture.aggregation,
        "iter_start": capture.first,
        "iter_stop": capture.last,
        **_numbers_of(owned),
        "key_node": capture.key_node,
        "has_steps": capture.has_steps,
        "unprofiled_ns": capture.unprofiled_ns,
        "is_given": capture.is_given,
        "gpus": capture.devices,
        "facts": data.facts,
        "domains": data.domains,
        "groups": data.groups,
        "ops": [astuple(op) for op in data.ops],
        "kernels": {str(op): sorted(names) for op, names in sorted(data.kernels.items())},
        "owners": [
            (CLASSES[kind], owned.reasons[reason], int(op), int(group))
            for kind, reason, op, group in owners
        ],
        **({"ranks": [astuple(times) for times in data.ranks]} if data.ranks else {}),
        "lengths_ns": capture.lengths_ns.tolist(),
        "owned_ns": owned.owned_ns.tolist(),
    }


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
    document = _read(path)
    if document.get("version") != _VERSION:
        raise CorruptProfileError(
            say("The summary '{path}' has an unknown version.", path=path),
            hint=say("Read it with the version of dlprof that wrote it, or write it again."),
        )
    try:
        data = _capture(document, name)
    except (KeyError, TypeError, ValueError, IndexError, OverflowError, MemoryError) as error:
        raise _damaged(path) from error
    if aggr not in (None, data.capture.aggregation):
        raise aggregation_not_found(aggr, [data.capture.aggregation])
    return data if iterations is None else _part(data, *iterations)


def _damaged(path: Path) -> CorruptProfileError:
    return CorruptProfileError(
        say("The summary '{path}' is damaged.", path=path),
        hint=say("Write it again: dlprof export --format=summary DATABASE"),
    )


def _read(path: Path) -> Mapping[str, Any]:
    try:
        with gzip.open(path) as stream:
            text = stream.read(_MOST_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise _damaged(path) from error
    found = read_json(text.decode("utf-8", "replace")) if len(text) <= _MOST_BYTES else None
    if not isinstance(found, dict):
        raise _damaged(path)
    return found


def _capture(document: Mapping[str, Any], name: str) -> CaptureData:
    ops = tuple(Op(*map(_text, op)) for op in document["ops"])
    groups = tuple(map(_text, document["groups"]))
    ownership = _ownership(document, len(ops), len(groups))
    started, launched = (_count(document[name]) for name in ("started_ns", "launched_ns"))
    kernels = {int(op): frozenset(map(_text, names)) for op, names in document["kernels"].items()}
    if not all(0 <= op < len(ops) for op in kernels):
        raise IndexError
    return CaptureData(
        capture=Capture(
            name=name,
            aggregation=int(document["aggregation"]),
            first=int(ownership.numbers[0]),
            last=int(ownership.numbers[-1]),
            key_node=_text(document["key_node"]),
            devices=ownership.devices,
            lengths_ns=ownership.lengths_ns,
            # Summaries of the version before are of iterations.
            has_steps=bool(document.get("has_steps", False)),
            unprofiled_ns=_count(document.get("unprofiled_ns")),
            is_given=bool(document.get("is_given", False)),
            numbers=ownership.numbers,
        ),
        mode=_text(document["mode"]),
        ownership=ownership,
        ops=ops,
        groups=groups,
        kernels=kernels,
        facts={key: _text(value) for key, value in document["facts"].items()},
        domains=tuple(map(_text, document["domains"])),
        started_ns=started,
        launched_ns=launched,
        ranks=tuple(map(_rank_times, document.get("ranks", ()))),
    )


def _rank_times(values: Any) -> RankTimes:
    rank, *times = values
    known = [None if value is None else float(value) for value in times]
    if type(rank) is not int or not all(value is None or 0 <= value < inf for value in known):
        raise ValueError
    return RankTimes(rank, *known)  # type: ignore[arg-type]


def _numbers_of(owned: Ownership) -> dict[str, list[int]]:
    """The numbers of iterations that are not consecutive."""
    numbers = owned.numbers
    is_dense = numbers[-1] - numbers[0] + 1 == len(numbers)
    return {} if is_dense else {"iterations": numbers.tolist()}


def _numbers(document: Mapping[str, Any]) -> Int64:
    first, last = int(document["iter_start"]), int(document["iter_stop"])
    if "iterations" not in document:
        return np.arange(first, last + 1)
    numbers = _whole(document["iterations"])
    if (numbers[0], numbers[-1]) != (first, last) or (np.diff(numbers) <= 0).any():
        raise ValueError
    return numbers


def _ownership(document: Mapping[str, Any], ops: int, groups: int) -> Ownership:
    """The times, which must be a partition of the iterations."""
    lengths_ns, owned_ns = _whole(document["lengths_ns"]), _whole(document["owned_ns"])
    kinds, texts, op, group = zip(*document["owners"], strict=True)
    reasons = tuple(dict.fromkeys((*REASONS, *map(_text, texts))))
    code = {text: number for number, text in enumerate(reasons)}
    found = Ownership(
        numbers=_numbers(document),
        devices=int(document["gpus"]),
        lengths_ns=lengths_ns,
        kind=np.array([CLASSES.index(kind) for kind in kinds], dtype=np.int64),
        reason=np.array([code[text] for text in texts], dtype=np.int64),
        op=_whole(list(op)),
        group=_whole(list(group)),
        reasons=reasons,
        owned_ns=owned_ns,
    )
    is_whole = (
        found.devices > 0
        and owned_ns.shape == (len(found.numbers), len(kinds))
        and bool((owned_ns >= 0).all() and (lengths_ns > 0).all())
        and np.array_equal(owned_ns.sum(axis=1), found.devices * lengths_ns)
        and -1 <= int(found.op.min()) <= int(found.op.max()) < ops
        and -1 <= int(found.group.min()) <= int(found.group.max()) < groups
    )
    if not is_whole:
        raise ValueError
    return found


def _whole(values: Any) -> Int64:
    """Whole numbers; other values are not rounded but refused."""
    found = np.array(values)
    if found.dtype != np.int64:
        raise TypeError(found.dtype)
    return found


def _count(value: Any) -> int | None:
    if value is not None and not isinstance(value, int):
        raise TypeError(value)
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value


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
