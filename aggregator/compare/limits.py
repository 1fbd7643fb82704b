"""What limits a comparison, and what can be compared nevertheless: a sentence each."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import ceil
from typing import Final

from aggregator.compare.captures import CaptureData
from aggregator.compare.result import Match, Row
from aggregator.events.model import LOADER_TYPES
from aggregator.profile.limits import FIGURES, LIMITS, LimitCode, bounds_of
from aggregator.texts import Text, say

_LEAST_COMMON: Final = Fraction(1, 5)
"""Share of the time of ops in ops of both sides below which the sides may be other programs."""

_AHEAD: Final = 1.5
"""Kernels on several streams run at once, but hardly for more than this multiple of the time."""


def without_loop(captures: Sequence[CaptureData]) -> list[str]:
    """Names of the captures whose whole profile counts as one step."""
    captured = (data.capture for data in captures)
    return [capture.name for capture in captured if not capture.key_node and not capture.has_steps]


def limits(
    base: Sequence[CaptureData], new: Sequence[CaptureData], rows: Sequence[Row]
) -> tuple[Text, ...]:
    """The sentences for two sides and the rows that were made of them."""
    notes = (
        _modes(base, new),
        *_ahead((*base, *new)),
        _of_captures(base, new),
        *_unprofiled(base, new),
        *_left_out((*base, *new)),
        _ops(rows),
        _key_nodes(base, new),
        _domains(base, new),
    )
    return tuple(note for note in notes if note is not None)


def _modes(base: Sequence[CaptureData], new: Sequence[CaptureData]) -> Text | None:
    modes = [sorted({data.mode for data in side}) for side in (base, new)]
    if modes[0] == modes[1]:
        return None
    return say(
        "The modes differ ({base} and {new}): ops have other names, so only the classes, "
        "causes and modules in common can be compared.",
        base=", ".join(modes[0]),
        new=", ".join(modes[1]),
    )


def _ahead(captures: Sequence[CaptureData]) -> list[Text]:
    """Captures whose GPU cannot have done in their iterations what was launched in them."""
    return [
        say(
            "The CPU is ahead of the GPU in '{name}': kernels launched in its {count} steps take "
            "{launched} ms, the steps {length} ms. Compare more steps, or steps that wait for the "
            "GPU.",
            name=data.capture.name,
            count=len(data.capture.lengths_ns),
            launched=f"{data.launched_ns / 1e6:.3f}",
            length=f"{int(data.capture.lengths_ns.sum()) / 1e6:.3f}",
        )
        for data in captures
        if data.launched_ns is not None
        and data.launched_ns > _AHEAD * data.capture.devices * int(data.capture.lengths_ns.sum())
    ]


def _of_captures(base: Sequence[CaptureData], new: Sequence[CaptureData]) -> Text | None:
    """What the captures of one side do not allow to be said, and those of the other do."""
    sides = [{code for data in side for code in data.limits} for side in (base, new)]
    touched = bounds_of(sides[0] ^ sides[1])
    if not touched:
        return None
    lists = [
        ", ".join(LIMITS[code].title for code in LimitCode if code in side) or say("none")
        for side in sides
    ]
    return say(
        "The captures have other limits ({base} and {new}): differences may come from what was "
        "recorded in {figures}.",
        base=lists[0],
        new=lists[1],
        figures=", ".join(FIGURES[name].title for name in touched),
    )


def _unprofiled(base: Sequence[CaptureData], new: Sequence[CaptureData]) -> list[Text]:
    """What lets the steps of both sides, or of one, not be measured alike."""
    known = [data.capture.unprofiled_ns is not None for data in (*base, *new)]
    notes = []
    if any(known) and not all(known):
        notes.append(
            say(
                "The step without profiling is known of some captures only: all are compared as "
                "profiled."
            )
        )
    if len({data.capture.has_steps for data in (*base, *new)}) > 1:
        names = [data.capture.name for data in (*base, *new) if not data.capture.has_steps]
        notes.append(
            say(
                "'{name}' has iterations instead of steps: its loop was not found, or it is of an "
                "earlier version.",
                name="', '".join(names),
            )
        )
    return notes


def _left_out(captures: Sequence[CaptureData]) -> list[Text]:
    """Which iterations that were named are not compared."""
    return [
        say(
            "Of '{name}' the iterations {first} to {last} are compared: the others have no whole "
            "steps.",
            name=data.capture.name,
            first=data.capture.first,
            last=data.capture.last,
        )
        for data in captures
        if data.asked not in (None, (data.capture.first, data.capture.last))
    ]


def are_other_programs(
    base: Sequence[CaptureData], new: Sequence[CaptureData], rows: Sequence[Row]
) -> bool:
    """Whether hardly an op is on both sides, and neither mode nor compilation explains that."""
    ways = [
        {(data.mode, data.facts.get("torch_compile") == "true") for data in side}
        for side in (base, new)
    ]
    has_ops = all(any(op.name for op in data.ops) for data in (*base, *new))
    return has_ops and ways[0] == ways[1] and common_share(rows) < _LEAST_COMMON


def common_share(rows: Sequence[Row]) -> Fraction:
    """Return the share of the time of ops that belongs to ops of both sides."""
    total, common = Fraction(), Fraction()
    for row in rows:
        if not row.op and row.match is not Match.MODULE:
            continue  # time of no op
        total += row.base_ns + row.new_ns
        if row.op and row.match in (Match.SAME, Match.ALIGNED):
            common += row.base_ns + row.new_ns
    return common / total if total else Fraction()


def _ops(rows: Sequence[Row]) -> Text | None:
    """How much of the time belongs to ops that both sides have, where that is little."""
    share = common_share(rows)
    if not share:
        return say(
            "The sides have no op in common: they may be other models, or compiled on one side; "
            "classes, causes and modules in common can be compared."
        )
    if share >= _LEAST_COMMON:
        return None
    return say(
        "At most {share} % of the time of ops is in ops that both sides have: they may be other "
        "models, or compiled on one side; classes, causes and modules in common can be compared.",
        share=f"{ceil(share * 1000) / 10:.1f}",
    )


def _key_nodes(base: Sequence[CaptureData], new: Sequence[CaptureData]) -> Text | None:
    nodes = [sorted({_node(data) for data in side}) for side in (base, new)]
    if nodes[0] == nodes[1] or not all(all(side) for side in nodes):
        return None
    return say(
        "Other key nodes cut the iterations: '{base}' and '{new}'.",
        base=", ".join(nodes[0]),
        new=", ".join(nodes[1]),
    )


def _node(data: CaptureData) -> str:
    """The key node; data loaders that load in other ways cut at the same place."""
    node = data.capture.key_node
    return "DataLoader" if node.startswith(LOADER_TYPES) else node


def _domains(base: Sequence[CaptureData], new: Sequence[CaptureData]) -> Text | None:
    domains = [sorted({name for data in side for name in data.domains}) for side in (base, new)]
    if domains[0] == domains[1]:
        return None
    return say(
        "The NVTX domains differ ({base} and {new}): ops of the default domain own the time, so "
        "all of it can be compared, but not by the ranges of other domains.",
        base=", ".join(domains[0]) or say("none"),
        new=", ".join(domains[1]) or say("none"),
    )
