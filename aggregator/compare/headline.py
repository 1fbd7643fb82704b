"""The first sentences of a comparison: what changed, why, and what else differs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, Final

from aggregator.compare.facts import MINOR
from aggregator.compare.result import Change, Comparison, Judgement, Setting, Verdict
from aggregator.texts import Text, say

_LEAST_SHARE: Final = Fraction(1, 4)
"""Causes with less than this share of the largest change are not named."""
_MOST_CAUSES: Final = 3
_MOST_SETTINGS: Final = 2
_MOST_LETTERS: Final = 40


def headline(comparison: Comparison, without_loop: Sequence[str] = ()) -> Comparison:
    """The comparison with its first line.

    Args:
        comparison: What was found.
        without_loop: Captures that have no steps whose length could be compared.
    """
    sentences = [_shares(comparison, without_loop) if without_loop else _step(comparison)]
    if not without_loop and comparison.is_unprofiled:
        sentences.insert(0, _unprofiled(comparison))
    settings = [row for row in comparison.setup if row.base and row.new and row.key not in MINOR]
    if settings:
        sentences.append(_settings(settings))
    return replace(comparison, headline=" ".join(sentences))


def _unprofiled(comparison: Comparison) -> Text:
    """How the step without profiling changed: it is the step, where both sides know it."""
    base, new = (side.unprofiled_ns or 0 for side in (comparison.base, comparison.new))
    return say(
        "The step without profiling: {base} -> {new} ms ({difference} ms, {share} %).",
        base=_ms(Fraction(base)),
        new=_ms(Fraction(new)),
        difference=_signed(Fraction(new - base)),
        share=f"{(new / base - 1) * 100:+.1f}" if base else "?",
    )


def _step(comparison: Comparison) -> Text:
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
        return say(
            "Cannot tell whether the step changed: as profiled, its mean goes {base} -> {new} ms "
            "({difference} ms, {share} %){doubt}. Largest changes: {causes}.",
            **values,
            doubt=_doubt(comparison.judgement),
            causes=causes,
        )
    if verdict is Verdict.SAME:
        return say(
            "The step is the same within {within} %: as profiled, its mean goes {base} -> {new} ms "
            "({difference} ms, {share} %).",
            **values,
            within=f"{comparison.judgement.within_pct or 0:.1f}",
        )
    return say(
        "The step is {verdict}: as profiled, its mean goes {base} -> {new} ms ({difference} ms, "
        "{share} %). What changed: {causes}.",
        verdict=say("faster") if verdict is Verdict.FASTER else say("slower"),
        **values,
        causes=causes,
    )


def _shares(comparison: Comparison, without_loop: Sequence[str]) -> Text:
    """What can be compared where a whole profile counts as one step."""
    base, new = comparison.base.step_ns, comparison.new.step_ns
    shares = [
        (cause.name, cause.base_ns / base * 100, cause.new_ns / new * 100)
        for cause in comparison.causes
        if base and new
    ]
    shares.sort(key=lambda item: -abs(item[2] - item[1]))
    return say(
        "The lengths of the steps cannot be compared: no loop was found in {names}, so its whole "
        "profile counts as one step. Shares of the time can: {shares}.",
        names=_listed([f"'{name}'" for name in without_loop]),
        shares=", ".join(
            f"{name} {float(before):.1f} -> {float(after):.1f} %"
            for name, before, after in shares[:_MOST_CAUSES]
        ),
    )


def _settings(settings: Sequence[Setting]) -> Text:
    values: dict[str, Any] = {
        "settings": "; ".join(
            f"{setting.key} {_short(setting.base)} -> {_short(setting.new)}"
            for setting in settings[:_MOST_SETTINGS]
        )
    }
    if len(settings) <= _MOST_SETTINGS:
        return say("The set-up differs: {settings}.", **values)
    return say(
        "The set-up differs: {settings}; and {count} more.",
        **values,
        count=len(settings) - _MOST_SETTINGS,
    )


def _short(value: str) -> str:
    return value if len(value) <= _MOST_LETTERS else f"{value[: _MOST_LETTERS - 3]}..."


def _listed(names: Sequence[str]) -> str:
    if len(names) <= _MOST_CAUSES:
        return ", ".join(names)
    return say("{name} and {count} more", name=names[0], count=len(names) - 1)


def _doubt(judgement: Judgement) -> str:
    if judgement.covers_runs or judgement.interval_ns is None:
        return ""
    return say("; with one capture a side, changes from run to run are not in the interval")


def _causes(causes: Sequence[Change]) -> str:
    largest = max((abs(cause.difference_ns) for cause in causes), default=Fraction())
    named = [cause for cause in causes if abs(cause.difference_ns) >= _LEAST_SHARE * largest]
    named = [cause for cause in named if cause.difference_ns][:_MOST_CAUSES]
    listed = ", ".join(f"{cause.name} {_signed(cause.difference_ns)} ms" for cause in named)
    return listed or say("none")


def _ms(time_ns: Fraction) -> str:
    return f"{float(time_ns) / 1e6:.3f}"


def _signed(time_ns: Fraction) -> str:
    return f"{float(time_ns) / 1e6:+.3f}"
