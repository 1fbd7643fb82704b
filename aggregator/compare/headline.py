"""The first sentences of a comparison: what changed, why, and what else differs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from statistics import median
from typing import Any, Final

from aggregator.advice.verdict import duration_text
from aggregator.compare.facts import MINOR
from aggregator.compare.picture import module_tree
from aggregator.compare.result import Change, CompareSetting, Comparison, Judgement, Verdict
from aggregator.metrics.ownership import CLASSES, COMMUNICATION
from aggregator.texts import Text, say

_MODULE_SHARE: Final = Fraction(4, 5)
"""A module that holds more of a change than this is named."""
_START_UP_RATIO: Final = 3.0
"""A step of one range is start-up or a stall if it takes longer than this times the common ones."""
_UNEXPLAINED: Final = Fraction(1, 5)
_LEAST_SHARE: Final = Fraction(1, 4)
"""Causes with less than this share of the largest change are not named."""
_MOST_CAUSES: Final = 3
_MOST_SETTINGS: Final = 2
_MOST_LETTERS: Final = 40


def headline(
    comparison: Comparison,
    without_loop: Sequence[str] = (),
    *,
    slow: Text | None = None,
    is_one_capture: bool = False,
) -> Comparison:
    """The comparison with its first line.

    Args:
        comparison: What was found.
        without_loop: Captures that have no steps whose length could be compared.
        slow: Sentence on the rank that makes the new side slower; None: there is none.
        is_one_capture: Both sides are parts of the same run.
    """
    sentences: list[str]
    if without_loop:
        sentences = [_shares(comparison, without_loop)]
    elif comparison.are_other_programs:
        sentences = [_other_programs(comparison)]
    else:
        # The step without profiling is measured once a run, so two parts of a run do not differ.
        is_known = comparison.is_unprofiled and not is_one_capture
        sentences = [_unprofiled(comparison)] if is_known else []
        sentences += [
            text
            for text in (
                _start_up(comparison) if is_one_capture else None,
                _per_sample(comparison),
                _step(comparison),
                slow,
                _changes(comparison, slow),
                None if slow is not None else _module(comparison),
            )
            if text is not None
        ]
    settings = [row for row in comparison.setup if row.base and row.new and row.key not in MINOR]
    if settings:
        sentences.append(_settings(settings, len(comparison.setup)))
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
    base, new, judgement = comparison.base.step_ns, comparison.new.step_ns, comparison.judgement
    values = {
        "base": _ms(base),
        "new": _ms(new),
        "difference": _signed(comparison.difference_ns),
        "share": f"{float(comparison.difference_ns / base) * 100:+.1f}" if base else "?",
    }
    if comparison.samples is not None:
        return say(
            "A step, as profiled: {base} -> {new} ms ({difference} ms, {share} %).", **values
        )
    if judgement.verdict is Verdict.CANNOT_TELL and _is_unconfirmed(judgement) and base:
        return say(
            "{share} % {verdict} ({base} -> {new} ms), not confirmed: one capture per side.",
            share=f"{abs(float(comparison.difference_ns / base)) * 100:.1f}",
            verdict=_faster_or_slower(comparison.difference_ns),
            base=f"{float(base) / 1e6:.4g}",
            new=f"{float(new) / 1e6:.4g}",
        )
    if judgement.verdict is Verdict.CANNOT_TELL:
        return say(
            "Cannot tell whether the step changed: as profiled, its mean goes {base} -> {new} ms "
            "({difference} ms, {share} %){doubt}.",
            **values,
            doubt=_doubt(judgement),
        )
    if judgement.verdict is Verdict.SAME:
        return say(
            "The step is the same within {within} %: as profiled, its mean goes {base} -> {new} ms "
            "({difference} ms, {share} %).",
            **values,
            within=f"{judgement.within_pct or 0:.1f}",
        )
    return say(
        "The step is {verdict}: as profiled, its mean goes {base} -> {new} ms ({difference} ms, "
        "{share} %).",
        verdict=_faster_or_slower(comparison.difference_ns),
        **values,
    )


def _is_unconfirmed(judgement: Judgement) -> bool:
    """Whether only changes from run to run could explain the difference."""
    interval = judgement.interval_ns
    return (
        not judgement.covers_runs and interval is not None and (interval[0] > 0 or interval[1] < 0)
    )


def _faster_or_slower(difference_ns: Fraction) -> Text:
    return say("faster") if difference_ns < 0 else say("slower")


def _other_programs(comparison: Comparison) -> Text:
    """Two steps that no change of one program led to."""
    return say(
        "Two programs: hardly an op is on both sides, so a step of {base} ms and one of {new} ms, "
        "as profiled, are no change of one step.",
        base=_ms(comparison.base.step_ns),
        new=_ms(comparison.new.step_ns),
    )


def _per_sample(comparison: Comparison) -> Text | None:
    """What a step takes for each sample, where a step has other numbers of them."""
    if comparison.samples is None:
        return None
    base_count, new_count = comparison.samples
    base, new = comparison.base.step_ns / base_count, comparison.new.step_ns / new_count
    change = float(new / base - 1) * 100 if base else 0.0
    return say(
        "Per sample (batch {base_count} -> {new_count}): {base} -> {new} ms, {share} % "
        "{verdict}{doubt}.",
        base_count=base_count,
        new_count=new_count,
        base=f"{float(base) / 1e6:.4g}",
        new=f"{float(new) / 1e6:.4g}",
        share=f"{abs(change):.1f}",
        verdict=_faster_or_slower(new - base),
        doubt=_doubt_of_samples(comparison.judgement),
    )


def _doubt_of_samples(judgement: Judgement) -> str:
    if judgement.verdict is not Verdict.CANNOT_TELL:
        return ""
    if _is_unconfirmed(judgement):
        return say(", not confirmed: one capture per side")
    return say(", which may be chance")


def _start_up(comparison: Comparison) -> Text | None:
    """Which long steps one range of a run has and the other has not, where they explain it."""
    captures = (*comparison.base.captures, *comparison.new.captures)
    if len(captures) != 2 or any(len(run.numbers) != len(run.lengths_ns) for run in captures):
        return None
    sides = [
        dict(zip(run.numbers.tolist(), run.lengths_ns.tolist(), strict=True)) for run in captures
    ]
    common = sides[0].keys() & sides[1].keys()
    if not common:
        return None
    usual = median(sides[0][number] for number in common)
    extra = {
        number: (length, is_new)
        for is_new, side in enumerate(sides)
        for number, length in side.items()
        if number not in common and length > _START_UP_RATIO * usual
    }
    if not extra:
        return None
    means = [
        Fraction(sum(length for number, length in side.items() if number not in extra), count)
        for side in sides
        if (count := len(side.keys() - extra.keys()))
    ]
    gap = abs(comparison.difference_ns)
    if len(means) < 2 or abs(means[1] - means[0]) > _UNEXPLAINED * gap:
        return None
    worst = max(extra, key=lambda number: extra[number][0])
    return say(
        "Start-up or a stall, only in {side}: iteration {number} takes {long}. Without such "
        "iterations ({count}) the mean step is {base} and {new} ms.",
        side=say("the new range") if extra[worst][1] else say("the base"),
        number=worst,
        long=duration_text(extra[worst][0]),
        count=len(extra),
        base=_ms(means[0]),
        new=_ms(means[1]),
    )


def _module(comparison: Comparison) -> Text | None:
    """The deepest module that holds most of a change which no op alone holds."""
    total = comparison.difference_ns
    if not total:
        return None
    module, path, op_share = module_tree(comparison), "", Fraction()
    while True:
        part = max(
            (part for part in module.parts.values()),
            key=lambda part: (part.new_ns - part.base_ns) / total,
            default=None,
        )
        if part is None:
            break
        op_share = (part.new_ns - part.base_ns) / total
        if op_share <= _MODULE_SHARE or not part.parts:
            break
        module, path = part, f"{path}/{part.name}"
    whole = comparison.base.step_ns
    is_one_op = part is not None and not part.parts and op_share > _MODULE_SHARE
    if not path or is_one_op or module.base_ns > _MODULE_SHARE * whole:
        return None
    return say(
        "In {module}: {difference} of {total} ms.",
        module=path,
        difference=f"{float(module.new_ns - module.base_ns) / 1e6:+.2f}",
        total=f"{float(total) / 1e6:+.2f}",
    )


def _changes(comparison: Comparison, slow: Text | None) -> Text:
    """The largest changes by cause; what GPUs wait longer for a slow rank is no cause."""
    waits = {CLASSES[COMMUNICATION]} if slow is not None else set()
    causes = [
        cause for cause in comparison.causes if cause.name not in waits or cause.difference_ns <= 0
    ]
    named = _named(causes)
    called = (Verdict.FASTER, Verdict.SLOWER)
    sure = {row.reason or row.kind for row in comparison.rows if row.judgement.verdict in called}
    if comparison.judgement.verdict in called and all(cause.name in sure for cause in named):
        return say("What changed: {causes}.", causes=_causes(named))
    return say("Largest changes: {causes}.", causes=_causes(named))


def _shares(comparison: Comparison, without_loop: Sequence[str]) -> Text:
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


def _settings(settings: Sequence[CompareSetting], count: int) -> Text:
    """The settings that differ and matter most, and how many others do."""
    values: dict[str, Any] = {
        "settings": "; ".join(
            f"{setting.key} {_short(setting.base)} -> {_short(setting.new)}"
            for setting in settings[:_MOST_SETTINGS]
        )
    }
    if count <= len(settings[:_MOST_SETTINGS]):
        return say("The set-up differs: {settings}.", **values)
    return say(
        "The set-up differs: {settings}; and {count} more.",
        **values,
        count=count - len(settings[:_MOST_SETTINGS]),
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
    return say("; with one capture per side, changes from run to run are not in the interval")


def _named(causes: Sequence[Change]) -> list[Change]:
    """The causes that a headline names: the largest changes."""
    largest = max((abs(cause.difference_ns) for cause in causes), default=Fraction())
    named = [cause for cause in causes if abs(cause.difference_ns) >= _LEAST_SHARE * largest]
    return [cause for cause in named if cause.difference_ns][:_MOST_CAUSES]


def _causes(named: Sequence[Change]) -> str:
    listed = ", ".join(f"{cause.name} {_signed(cause.difference_ns)} ms" for cause in named)
    return listed or say("none")


def _ms(time_ns: Fraction) -> str:
    return f"{float(time_ns) / 1e6:.3f}"


def _signed(time_ns: Fraction) -> str:
    return f"{float(time_ns) / 1e6:+.3f}"
