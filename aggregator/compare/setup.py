"""What else differs between two sides: it explains most differences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from aggregator.compare.captures import CaptureData
from aggregator.compare.result import Setting

_MOST_SHAPES: Final = 3
"""Ops whose shapes differ that are listed."""


def differences(base: Sequence[CaptureData], new: Sequence[CaptureData]) -> tuple[Setting, ...]:
    """The facts that differ, in the order in which they matter: hardware, software, settings."""
    found = []
    keys = dict.fromkeys(key for data in (*base, *new) for key in data.facts)
    for key in keys:
        values = [_joined(data.facts.get(key, "") for data in side) for side in (base, new)]
        if values[0] != values[1]:
            found.append(Setting(key, *values))
    return (*found, *_shapes(base[0], new[0]))


def _joined(values: object) -> str:
    assert not isinstance(values, str)
    return ", ".join(dict.fromkeys(str(value) for value in values if value))  # type: ignore[attr-defined]


def _shapes(base: CaptureData, new: CaptureData) -> list[Setting]:
    """The first ops that run with other shapes."""
    before = {op.key: op.shapes for op in base.ops if op.shapes}
    found = [
        Setting(f"shapes of {op.name}", before[op.key], op.shapes)
        for op in new.ops
        if op.shapes and before.get(op.key, op.shapes) != op.shapes
    ]
    if len(found) <= _MOST_SHAPES:
        return found
    rest = Setting("ops with other shapes", "", str(len(found)))
    return [*found[:_MOST_SHAPES], rest]
