"""PyProf's second step: the columns of every kernel, from the records of the first step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

from aggregator.errors import CorruptProfileError
from aggregator.system.untrusted_json import read_count
from profiler_cli.pyprof.calls import Kernel, OpCost
from profiler_cli.pyprof.markers import MAX_LITERAL, literal, long_literal
from profiler_cli.pyprof.ops import cost_of

Row = dict[str, Any]
UNKNOWN = "na"

_BEGIN, _TIME, _FRONT = "{'kShortName': ", ", 'kDuration': ", ", 'layer': "
_NODES, _SEQ, _SUB = ", 'seqMarker': ", ", 'seqId': ", ", 'subSeqId': "
_OTHER, _BACK = ", 'altSeqId': ", ", 'dir': "
_FRONT_KEYS = {"layer", "trace", "reprMarkers", "marker"}
_BACK_KEYS = {
    *("dir", "mod", "op", "tid", "device", "stream", "grid", "block", "kLongName"),
}
_LISTS = {
    **dict.fromkeys(("layer", "trace", "marker", "mod", "op"), str),
    **dict.fromkeys(("seqId", "altSeqId", "grid", "block"), int),
}
_PLAIN = {
    **dict.fromkeys(("kShortName", "kLongName", "dir"), str),
    **dict.fromkeys(("kDuration", "subSeqId", "tid", "device", "stream"), int),
}


def read_record(line: str, number: int) -> Row:
    """Parse a line as a record, which may leave out ``seqMarker``.

    Raises:
        CorruptProfileError: The line is no dictionary of a kernel.
    """
    parts = _parts(line.strip())
    if parts is not None:
        return parts
    value = long_literal(line.strip())
    if not isinstance(value, dict) or not _is_record(value):
        raise CorruptProfileError(
            f"Line {number} is no dictionary of a kernel.",
            hint="Give the output of: dlprof pyprof parse FILE",
        )
    return value


def _is_record(value: Row) -> bool:
    """Return whether it has the required fields, and each field has its type."""
    return {"kShortName", "kDuration"} <= value.keys() and _fits(value)


def _fits(fields: Row) -> bool:
    """Return whether each field has its type, or is None if it is optional."""
    for key, value in fields.items():
        if value is None and key not in {"kShortName", "kDuration"}:
            continue
        if key in _LISTS:
            kind = _LISTS[key]
            if not isinstance(value, list | tuple) or any(type(item) is not kind for item in value):
                return False
        elif key in _PLAIN and type(value) is not _PLAIN[key]:
            return False
    return True


def _fields(text: str) -> Row | None:
    """Return the fields of a part of a record; None: a field has another type."""
    return _kept_fields(text) if len(text) <= MAX_LITERAL else _read_fields(text)


@lru_cache(maxsize=65536)
def _kept_fields(text: str) -> Row | None:
    return _read_fields(text)


def _read_fields(text: str) -> Row | None:
    value = long_literal(text)
    return value if isinstance(value, dict) and _fits(value) else None


def _parts(line: str) -> Row | None:
    """Return the record of a line as written by the first step; None: another form.

    The text before and after its numbers repeats in every step and is parsed once, which makes
    this nine times as fast as parsing whole lines.
    """
    time, front = line.find(_TIME), line.find(_FRONT)
    nodes = line.find(_NODES, front)
    seq = line.find(_SEQ, nodes)
    sub = line.find(_SUB, seq)
    other = line.find(_OTHER, sub)
    back = line.find(_BACK, other)
    if not line.startswith(_BEGIN) or not 0 < time < front < nodes < seq < sub < other < back:
        return None
    record = {
        "kShortName": _text(line[len(_BEGIN) : time]),
        "kDuration": _value(line[time + len(_TIME) : front]),
        "seqId": _value(line[seq + len(_SEQ) : sub]),
        "subSeqId": _value(line[sub + len(_SUB) : other]),
        "altSeqId": _value(line[other + len(_OTHER) : back]),
    }
    before = _fields("{" + line[front + 2 : nodes] + "}")
    after = _fields("{" + line[back + 2 :])
    if before is None or after is None or None in record.values() or not _fits(record):
        return None
    if before.keys() != _FRONT_KEYS or after.keys() != _BACK_KEYS:
        return None
    return record | before | after


def _text(text: str) -> Any:
    return literal(text) if len(text) <= MAX_LITERAL else long_literal(text)


def _value(text: str) -> Any:
    if (number := read_count(text)) is not None:
        return number
    if text[:1] == "[" and (number := read_count(text[1:-1])) is not None:
        return [number]
    return literal(text)


def rows(records: Iterable[Row]) -> Iterator[Row]:
    """Yield the column values of every kernel, in order."""
    forward: dict[int, Row] = {}
    forward_other: dict[int, Row] = {}
    calls = _Calls()
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
        yield _row(index, record, source, calls.number(record))


class _Calls:
    """Numbers the kernels of each call.

    Calls without gradients (the norms of all gradients) share a sequence number, and PyProf counts
    their kernels on. A call ends where the marker changes or where a kernel runs again.
    """

    def __init__(self) -> None:
        self._first = 0
        self._marker: object = None
        self._ran: set[tuple[object, ...]] = set()

    def number(self, record: Row) -> int:
        """Return the number of a kernel in its call, from the sub-number in its record."""
        sub, marker = int(record.get("subSeqId") or 0), record.get("marker")
        kernel = (record.get("kLongName"), record["kShortName"], *record.get("grid", ()))
        if sub == 0 or marker != self._marker or kernel in self._ran:
            self._first, self._marker, self._ran = sub, marker, set()
        self._ran.add(kernel)
        return sub - self._first


def _row(index: int, record: Row, source: Row, in_call: int) -> Row:
    name = str(record["kShortName"]).replace(" ", "_")
    grid = _size(record.get("grid", ()))
    direction, sub = str(record.get("dir") or ""), record.get("subSeqId", UNKNOWN)
    markers = source.get("marker")
    cost = None
    if markers:
        long_name, number = str(record.get("kLongName", "")), int(record.get("subSeqId") or 0)
        cost = _cost(str(markers[0]), Kernel(name, long_name, direction, number, in_call, grid))
    ops, modules = source.get("op") or [], source.get("mod") or []
    return {
        "idx": index,
        "seq": _joined(record.get("seqId"), ","),
        "altseq": _joined(record.get("altSeqId"), ","),
        "tid": record.get("tid", UNKNOWN),
        "layer": _joined(source.get("layer"), ":"),
        "trace": list(source.get("trace") or []),
        "dir": direction or UNKNOWN,
        "sub": sub,
        "mod": (modules[0] if modules else "") or UNKNOWN,
        "op": (cost.op if cost else ops[0] if ops else "") or UNKNOWN,
        "kernel": name,
        "params": cost.params if cost else f"{UNKNOWN}={UNKNOWN},",
        "sil": record["kDuration"],
        "tc": cost.tc if cost else UNKNOWN,
        "device": record.get("device", UNKNOWN),
        "stream": record.get("stream", UNKNOWN),
        "grid": grid,
        "block": _size(record.get("block", ())),
        "flops": UNKNOWN if cost is None or cost.flops is None else cost.flops,
        "bytes": UNKNOWN if cost is None or cost.num_bytes is None else cost.num_bytes,
    }


def _size(values: Any) -> str:
    return ",".join(map(str, values))


def _joined(values: list[Any] | None, separator: str) -> str:
    return separator.join(map(str, values)) if values else "-"


@lru_cache(maxsize=65536)
def _cost(marker: str, kernel: Kernel) -> OpCost | None:
    """Return the cost by the first marker; None: it describes no op."""
    content = literal(marker)
    if not isinstance(content, dict) or not {"mod", "op", "args"} <= content.keys():
        return None
    return cost_of(content, kernel)
