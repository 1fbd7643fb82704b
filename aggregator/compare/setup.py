"""What else differs between two sides: it explains most differences."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from aggregator.compare.captures import CaptureData
from aggregator.compare.matching import Op
from aggregator.compare.result import Setting

_MOST_SHAPES: Final = 3
"""Ops whose shapes or parameters differ that are listed."""


def differences(base: Sequence[CaptureData], new: Sequence[CaptureData]) -> tuple[Setting, ...]:
    """The facts that differ, in the order in which they matter: hardware, software, settings."""
    found = []
    keys = dict.fromkeys(key for data in (*base, *new) for key in data.facts)
    for key in keys:
        values = [_joined(data.facts.get(key, "") for data in side) for side in (base, new)]
        if values[0] != values[1] and not _is_less_exact(*values):
            found.append(Setting(key, *values))
    return (*found, *_of_ops(base[0], new[0], "shapes"), *_of_ops(base[0], new[0], "parameters"))


def _is_less_exact(base: str, new: str) -> bool:
    """Whether one side names a program without the version that the other side has."""
    return bool(base and new) and (new.startswith(f"{base} ") or base.startswith(f"{new} "))


def _joined(values: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(value for value in values if value))


def _of_ops(base: CaptureData, new: CaptureData, what: str) -> list[Setting]:
    """The first ops that run with other shapes or parameters."""
    before = {op.key: getattr(op, what) for op in _with_time(base)}
    found = [
        Setting(f"{what} of {op.name}", before[op.key], getattr(op, what))
        for op in _with_time(new)
        if before.get(op.key) and getattr(op, what) not in ("", before[op.key])
    ]
    if len(found) <= _MOST_SHAPES:
        return found
    rest = Setting(f"{what} of {len(found) - _MOST_SHAPES} more ops", "...", "...")
    return [*found[:_MOST_SHAPES], rest]


def _with_time(data: CaptureData) -> list[Op]:
    """Ops that own time of the iterations, in order; others ran before the loop."""
    owned = data.ownership.op[data.ownership.owned_ns.any(axis=0)]
    return [data.ops[op] for op in sorted(set(owned.tolist()) - {-1})]
