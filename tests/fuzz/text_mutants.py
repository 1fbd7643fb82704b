"""Damaged traces of torch.profiler and damaged PyProf dictionaries: texts, not tables."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.fuzz.mutants import DEPTH, HOSTILE, ODD_VALUES

Json = Any
_ODD: tuple[Json, ...] = (
    *(value for value in ODD_VALUES if not isinstance(value, bytes)),
    *(True, [], {}, [[]], {"a": {"b": []}}, [1, [2, [3]]], 10**400, "1e400", "NaN", "-1", "\x00"),
    *HOSTILE[:9],
)
_RAW_NUMBERS = (
    *("NaN", "Infinity", "-Infinity", "1e400", "-1e400", "1" * 5_000, "0x10", "01", "1.", "--1"),
    *("9223372036854775807", "9223372036854775808", "-9223372036854775809", "1e18", "null", "true"),
)
_GZIP_BOMB = 1 << 28


def make_trace(original: Path, target: Path, number: int) -> str:
    """Write the mutant of a number; what was done to it."""
    chance = random.Random(f"trace/{number}")
    name, spoil = TRACE_KINDS[number % len(TRACE_KINDS)]
    data = spoil(original.read_bytes(), chance)
    if chance.random() < 0.2 and len(data) < _GZIP_BOMB and data[:2] != b"\x1f\x8b":
        data = gzip.compress(data, 1)
    target.write_bytes(data)
    return name


def make_records(original: Path, target: Path, number: int) -> str:
    """The same for the output of ``dlprof pyprof parse``."""
    chance = random.Random(f"records/{number}")
    name, spoil = RECORD_KINDS[number % len(RECORD_KINDS)]
    lines = original.read_text().splitlines()
    target.write_bytes(spoil(lines, chance))
    return name


# --- traces ---------------------------------------------------------------------------------------


def _cut(data: bytes, chance: random.Random) -> bytes:
    return data[: chance.randrange(len(data))]


def _flip(data: bytes, chance: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(chance.choice((1, 1, 5, 100))):
        changed[chance.randrange(len(changed))] = chance.randrange(256)
    return bytes(changed)


def _edited(edit: Callable[[Json, random.Random], None]) -> Callable[[bytes, random.Random], bytes]:
    def spoil(data: bytes, chance: random.Random) -> bytes:
        trace = json.loads(data)
        for _ in range(chance.choice((1, 1, 3))):
            edit(trace, chance)
        return json.dumps(trace).encode("utf-8", "surrogatepass")

    return spoil


def _places(trace: Json, chance: random.Random) -> list[Json]:
    """The objects in which a field will be damaged."""
    events = [event for event in trace["traceEvents"] if isinstance(event, dict)]
    if not events:
        return [trace]
    alike = chance.choice(events).get("cat")
    chosen = chance.choice(
        (events, [chance.choice(events)], [event for event in events if event.get("cat") == alike])
    )
    inner = [event["args"] for event in chosen if isinstance(event.get("args"), dict)]
    return chance.choice((chosen, inner or chosen, [trace]))


def _field(objects: list[Json], chance: random.Random) -> str:
    return str(chance.choice(sorted({key for item in objects for key in item}) or ["name"]))


def _odd_value(trace: Json, chance: random.Random) -> None:
    objects = _places(trace, chance)
    name, value = _field(objects, chance), chance.choice(_ODD)
    for item in objects:
        item[name] = value


def _drop(trace: Json, chance: random.Random) -> None:
    objects = _places(trace, chance)
    name = _field(objects, chance)
    for item in objects:
        item.pop(name, None)


def _backwards(trace: Json, chance: random.Random) -> None:
    for event in trace["traceEvents"]:
        if isinstance(event, dict) and chance.random() < 0.6:
            event["dur"] = chance.choice((-1, -1e9, -0.001, 0, 1e17))


def _lost(trace: Json, chance: random.Random) -> None:
    for event in trace["traceEvents"]:
        args = event.get("args") if isinstance(event, dict) else None
        if isinstance(args, dict) and chance.random() < 0.6:
            for name in set(args) & {"correlation", "device", "stream", "External id"}:
                args[name] = chance.choice((10**9, -7, 2**40, 2**62))


def _repeat(trace: Json, chance: random.Random) -> None:
    events = trace["traceEvents"]
    events += [chance.choice(events) for _ in range(200)]
    chance.shuffle(events)


def _foreign(trace: Json, chance: random.Random) -> None:
    more: Json = chance.choice(
        (None, 1, "x", [], [{}], {}, {"ph": "X"}, {"ph": "X", "cat": "kernel"})
    )
    trace["traceEvents"].insert(chance.randrange(len(trace["traceEvents"]) + 1), more)


def _raw_number(data: bytes, chance: random.Random) -> bytes:
    """Numbers as no JSON has them."""
    name = chance.choice(('"ts": ', '"dur": ', '"correlation": ', '"pid": ', '"tid": ', '"id": '))
    parts = json.dumps(json.loads(data)).split(name)
    if len(parts) < 2:
        return data
    raw = chance.choice(_RAW_NUMBERS)
    for index in range(1, len(parts)):
        if chance.random() < 0.3:
            end = min(at for at in (parts[index].find(","), parts[index].find("}")) if at >= 0)
            parts[index] = raw + parts[index][end:]
    return name.join(parts).encode()


def _deep(data: bytes, chance: random.Random) -> bytes:
    """Brackets in brackets, or ops in ops."""
    trace = json.loads(data)
    if chance.random() < 0.5:
        base = {"ph": "X", "cat": "cpu_op", "pid": 100, "tid": 100}
        trace["traceEvents"] += [
            base | {"name": f"aten::op{level % 7}", "ts": 10 + level, "dur": 2 * DEPTH - 2 * level}
            for level in range(DEPTH)
        ]
        return json.dumps(trace).encode()
    opening, closing = chance.choice((("[", "]"), ('{"a": ', "}")))
    deep = opening * DEPTH + "1" * (opening == "[") + '"b"' * (opening != "[") + closing * DEPTH
    place = chance.choice(('"args": ', '"Input Dims": ', '"traceEvents": ', '"name": '))
    text = json.dumps(trace)
    return text.replace(place, f'"deep": {deep}, {place}', chance.choice((1, 3))).encode()


def _packed_badly(data: bytes, chance: random.Random) -> bytes:
    packed = gzip.compress(data)
    return chance.choice((_cut, _flip))(packed, chance)


TRACE_KINDS: tuple[tuple[str, Callable[[bytes, random.Random], bytes]], ...] = (
    ("cut", _cut),
    ("flipped bytes", _flip),
    ("odd value", _edited(_odd_value)),
    ("field dropped", _edited(_drop)),
    ("ends before start", _edited(_backwards)),
    ("ids that lead nowhere", _edited(_lost)),
    ("repeated and shuffled", _edited(_repeat)),
    ("something else among events", _edited(_foreign)),
    ("odd number", _raw_number),
    ("odd value again", _edited(_odd_value)),
    ("damaged gzip", _packed_badly),
    ("deep", _deep),
)


# --- PyProf's dictionaries ------------------------------------------------------------------------


def _line_cut(lines: list[str], chance: random.Random) -> bytes:
    return _cut("\n".join(lines).encode(), chance)


def _line_flip(lines: list[str], chance: random.Random) -> bytes:
    return _flip("\n".join(lines).encode(), chance)


def _record_value(lines: list[str], chance: random.Random) -> bytes:
    """A field of some records with another value."""
    return _changed(lines, chance, lambda record, name: record.update({name: chance.choice(_ODD)}))


def _record_drop(lines: list[str], chance: random.Random) -> bytes:
    return _changed(lines, chance, lambda record, name: record.pop(name))


def _changed(
    lines: list[str], chance: random.Random, change: Callable[[dict[str, Json], str], object]
) -> bytes:
    import ast

    records = [ast.literal_eval(line) for line in lines]
    for _ in range(chance.choice((1, 3))):
        name = chance.choice(sorted(records[0]))
        for record in records if chance.random() < 0.5 else [chance.choice(records)]:
            if name in record:
                change(record, name)
    return "\n".join(map(repr, records)).encode("utf-8", "surrogatepass")


def _marker(lines: list[str], chance: random.Random) -> bytes:
    """A call's description that does not hold together."""
    whole = "\n".join(lines)
    old, new = chance.choice(
        (
            ("'shape': (", "'shape': (-1, "),
            ("'shape': (", "'shape': (99999999999999999999, "),
            ("'shape': (", "'shape': ('x', "),
            ("'shape': (", "'shape': (), 'x': ("),
            ("'type': 'tensor'", "'type': None"),
            ("'dtype': '", "'dtype': 'nofloat"),
            ("'args': [", "'args': [None, "),
            ("'args': [", "'args': 7, 'x': ["),
            ("'op': '", "'op': ['"),
            ("'mod': '", "'mod': 5, 'x': '"),
            ("'op': 'linear'", f"'op': '{chance.choice(_OPS)}'"),
            ("'op': 'relu'", f"'op': '{chance.choice(_OPS)}'"),
            ("'kLongName': '", "'kLongName': '" + "x" * (1 << 20)),
            ("'seqId': [", "'seqId': [None, "),
            ("(64, 128)", f"{'(' * DEPTH}1{')' * DEPTH}"),
        )
    )
    return whole.replace(old, new).encode("utf-8", "surrogatepass")


_OPS = (
    *(
        "conv2d",
        "batch_norm",
        "matmul",
        "mm",
        "bmm",
        "addmm",
        "cat",
        "softmax",
        "embedding",
        "lstm",
    ),
    *("max_pool2d", "cross_entropy", "dropout", "copy_", "view", "sum", "mean", "einsum", "adam"),
)


def _record_deep(lines: list[str], chance: random.Random) -> bytes:
    deep = chance.choice(("[" * DEPTH + "]" * DEPTH, "(" * DEPTH, "-" * DEPTH + "1", "1+" * DEPTH))
    return "\n".join([*lines, deep, f"{{'kShortName': {deep}, 'kDuration': 1}}"]).encode()


RECORD_KINDS: tuple[tuple[str, Callable[[list[str], random.Random], bytes]], ...] = (
    ("cut", _line_cut),
    ("flipped bytes", _line_flip),
    ("odd value", _record_value),
    ("field dropped", _record_drop),
    ("marker that does not hold together", _marker),
    ("marker again", _marker),
    ("deep", _record_deep),
)
