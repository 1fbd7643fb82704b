"""The second step: the values of every kernel's columns, from the records of the first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

from aggregator.errors import CorruptProfileError
from aggregator.pyprof.calls import Kernel, OpCost
from aggregator.pyprof.markers import literal
from aggregator.pyprof.ops import cost_of
from aggregator.texts import say

Row = dict[str, Any]
UNKNOWN = "na"

_KEYS = (
    *("kShortName", "kDuration", "layer", "trace", "reprMarkers", "marker", "seqMarker", "seqId"),
    *("subSeqId", "altSeqId", "dir", "mod", "op", "tid", "device", "stream", "grid", "block"),
    "kLongName",
)
_SEPARATORS = tuple(f", '{key}': " for key in _KEYS[1:])
_START = f"{{'{_KEYS[0]}': "


def read_record(line: str, number: int) -> Row:
    """A line as a record.

    Raises:
        CorruptProfileError: The line is no dictionary of a kernel.
    """
    parts = _parts(line.strip())
    if parts is not None:
        return parts
    value = literal(line.strip())
    if not isinstance(value, dict) or not {"kShortName", "kDuration"} <= value.keys():
        raise CorruptProfileError(
            say("Line {number} is no dictionary of a kernel.", number=number),
            hint=say("Give the output of: dlprof pyprof parse FILE"),
        )
    return value


def _parts(line: str) -> Row | None:
    """The record of a line that the first step wrote; None: read it as a whole.

    Its parts repeat in every iteration and are read once each; the whole never repeats.
    """
    if not line.startswith(_START) or not line.endswith("}"):
        return None
    begin, record = len(_START), {}
    for key, separator in zip(_KEYS, _SEPARATORS, strict=False):
        end = line.find(separator, begin)
        if end < 0:
            return None
        record[key] = _value(line[begin:end])
        begin = end + len(separator)
    record[_KEYS[-1]] = _value(line[begin:-1])
    return None if None in record.values() else record


def _value(text: str) -> Any:
    if text.isdigit():
        return int(text)
    if text[:1] == "[" and text[1:-1].isdigit():
        return [int(text[1:-1])]
    return literal(text)


def rows(records: Iterable[Row]) -> Iterator[Row]:
    """Column values of every kernel, in order."""
    forward: dict[int, Row] = {}
    forward_other: dict[int, Row] = {}
    for index, record in enumerate(records, start=1):
        source = record
        if record.get("dir") == "bprop":
            if not record.get("marker") and record.get("seqId"):
                seq = record["seqId"][0]
                source = forward.get(seq) or forward_other.get(seq) or record
        else:
            for seq in record.get("seqId", []):
                forward[seq] = record
            for seq in record.get("altSeqId", []):
                forward_other[seq] = record
        yield _row(index, record, source)


def _row(index: int, record: Row, source: Row) -> Row:
    name = str(record["kShortName"]).replace(" ", "_")
    grid = ",".join(map(str, record.get("grid", ())))
    cost = _cost(
        tuple(source.get("marker", ())[:1]),
        name,
        str(record.get("kLongName", "")),
        str(record.get("dir") or ""),
        int(record.get("subSeqId") or 0),
        grid,
    )
    ops, modules = source.get("op") or [], source.get("mod") or []
    return {
        "idx": index,
        "seq": _joined(record.get("seqId"), ","),
        "altseq": _joined(record.get("altSeqId"), ","),
        "tid": record.get("tid", UNKNOWN),
        "layer": _joined(source.get("layer"), ":"),
        "trace": list(source.get("trace") or []),
        "dir": record.get("dir") or UNKNOWN,
        "sub": record.get("subSeqId", UNKNOWN),
        "mod": (modules[0] if modules else "") or UNKNOWN,
        "op": (cost.op if cost else ops[0] if ops else "") or UNKNOWN,
        "kernel": name,
        "params": cost.params if cost else f"{UNKNOWN}={UNKNOWN},",
        "sil": record["kDuration"],
        "tc": cost.tc if cost else UNKNOWN,
        "device": record.get("device", UNKNOWN),
        "stream": record.get("stream", UNKNOWN),
        "grid": grid,
        "block": ",".join(map(str, record.get("block", ()))),
        "flops": UNKNOWN if cost is None or cost.flops is None else cost.flops,
        "bytes": UNKNOWN if cost is None or cost.num_bytes is None else cost.num_bytes,
    }


def _joined(values: list[Any] | None, separator: str) -> str:
    return separator.join(map(str, values or [])) or "-"


@lru_cache(maxsize=65536)
def _cost(
    marker: tuple[str, ...], name: str, long_name: str, direction: str, sub: int, grid: str
) -> OpCost | None:
    """Cost by the first marker; None: there is none that describes an op."""
    content = literal(marker[0]) if marker else None
    if not isinstance(content, dict) or not {"mod", "op", "args"} <= content.keys():
        return None
    return cost_of(content, Kernel(name, long_name, direction, sub, grid))
