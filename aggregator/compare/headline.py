"""The sentences of a comparison: what changed and why, and what limits the comparison."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Final

from aggregator.compare.captures import CaptureData
from aggregator.compare.result import Change, Comparison, Judgement, Verdict
from aggregator.dldb.ownership_columns import LOADER_TYPES
from aggregator.texts import Text, say

_LEAST_SHARE: Final = Fraction(1, 4)
"""Causes with less than this share of the largest change are not named."""
_MOST_CAUSES: Final = 3


def headline(comparison: Comparison) -> Comparison:
    """The comparison with its first sentence."""
    base, new = comparison.base.step_ns, comparison.new.step_ns
    values = {
        "base": _ms(base),
        "new": _ms(new),
        "difference": _signed(comparison.difference_ns),
        "share": f"{float(comparison.difference_ns / base) * 100:+.1f}" if base else "?",
    }
    causes = _causes(comparison.causes)
    verdict = comparison.judgement.verdict
    if verdict is Verdict.CANNOT_TELL:
        sentence = say(
            "Cannot tell whether the step changed: {base} -> {new} ms ({difference} ms, "
            "{share} %){doubt}. Largest changes: {causes}.",
            **values,
            doubt=_doubt(comparison.judgement),
            causes=causes,
        )
    elif verdict is Verdict.SAME:
        sentence = say(
            "The step is the same within {within} %: {base} -> {new} ms ({difference} ms, "
            "{share} %).",
            **values,
            within=f"{comparison.judgement.within_pct or 0:.1f}",
        )
    else:
        sentence = say(
            "The step is {verdict}: {base} -> {new} ms ({difference} ms, {share} %). "
            "What changed: {causes}.",
            verdict=say("faster") if verdict is Verdict.FASTER else say("slower"),
            **values,
            causes=causes,
        )
    return replace(comparison, headline=sentence)


def _doubt(judgement: Judgement) -> str:
    if judgement.covers_runs or judgement.interval_ns is None:
        return ""
    return say("; with one capture a side, changes from run to run are not in the interval")


def _causes(causes: Sequence[Change]) -> str:
    largest = max((abs(one.difference_ns) for one in causes), default=Fraction())
    named = [one for one in causes if abs(one.difference_ns) >= _LEAST_SHARE * largest]
    named = [one for one in named if one.difference_ns][:_MOST_CAUSES]
    listed = ", ".join(f"{one.name} {_signed(one.difference_ns)} ms" for one in named)
    return listed or say("none")


def _ms(time_ns: Fraction) -> str:
    return f"{float(time_ns) / 1e6:.3f}"


def _signed(time_ns: Fraction) -> str:
    return f"{float(time_ns) / 1e6:+.3f}"


def limits(base: Sequence[CaptureData], new: Sequence[CaptureData]) -> tuple[Text, ...]:
    """What limits the comparison, and what can be compared nevertheless."""
    notes = []
    modes = [sorted({data.mode for data in side}) for side in (base, new)]
    if modes[0] != modes[1]:
        notes.append(
            say(
                "The modes differ ({base} and {new}): ops have other names, so only the classes, "
                "causes and modules in common can be compared.",
                base=", ".join(modes[0]),
                new=", ".join(modes[1]),
            )
        )
    notes += [
        say(
            "No loop was found in '{name}': its whole profile counts as one iteration, so the "
            "length of its step cannot be compared; shares of the classes can.",
            name=data.capture.name,
        )
        for data in (*base, *new)
        if not data.capture.key_node
    ]
    keys = [{op.key for data in side for op in data.ops} for side in (base, new)]
    if keys[0].isdisjoint(keys[1]):
        notes.append(
            say(
                "The sides have no op in common: they may be other models; classes and causes can "
                "be compared."
            )
        )
    nodes = [sorted({_node(data) for data in side}) for side in (base, new)]
    if nodes[0] != nodes[1] and all(all(side) for side in nodes):
        notes.append(
            say(
                "Other key nodes cut the iterations: '{base}' and '{new}'.",
                base=", ".join(nodes[0]),
                new=", ".join(nodes[1]),
            )
        )
    return tuple(notes)


def _node(data: CaptureData) -> str:
    """The key node; data loaders that load in other ways cut at the same place."""
    node = data.capture.key_node
    return "DataLoader" if node.startswith(LOADER_TYPES) else node
