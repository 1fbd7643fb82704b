"""A comparison as Markdown, for the comment of a pull request."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from aggregator.compare.result import Comparison, Row, Verdict
from aggregator.compare.text import (
    ShownRow,
    change_lines,
    interval_text,
    joined_rows,
    rest_lines,
    row_name,
)
from aggregator.system.plain_text import on_one_line

_MOST_ROWS: Final = 15
# What Markdown or GitHub could read as markup, a mention or a cell's end.
_MARKUP: Final = re.compile(r"([\\`*_\[\]<>#!|~@&$^])")


def to_markdown(comparison: Comparison) -> str:
    """Headline, differences of the set-up, classes and the rows that changed most."""
    lines = [f"### {escaped(str(comparison.headline))}", ""]
    if interval := interval_text(comparison):
        lines += [interval, ""]
    lines += [f"> {escaped(str(note))}" for note in comparison.notes]
    if comparison.setup:
        lines += ["", "| What else differs | base | new |", "|---|---|---|"]
        lines += [
            f"| {escaped(setting.key)} | {escaped(setting.base or 'not recorded')} |"
            f" {escaped(setting.new or 'not recorded')} |"
            for setting in comparison.setup
        ]
    lines += ["", *_classes(comparison), "", *_rows(joined_rows(comparison.rows))]
    return "\n".join(lines) + "\n"


def escaped(text: str) -> str:
    """Text of a profile, which stays text: no markup, mention, link or new line."""
    return _MARKUP.sub(r"\\\1", on_one_line(" ".join(text.split())))


def _head(title: str) -> list[str]:
    return [f"| {title} | base ms | new ms | difference ms | verdict |", "|---|--:|--:|--:|---|"]


def _line(name: str, base: int, new: int, verdict: str = "") -> str:
    change = new - base
    return f"| {name} | {base / 1e3:.3f} | {new / 1e3:.3f} | {change / 1e3:+.3f} | {verdict} |"


def _classes(comparison: Comparison) -> list[str]:
    *parts, (total, times) = change_lines(comparison.classes)
    whole = _line(f"**{total.capitalize()}**", *times, str(comparison.judgement.verdict))
    return [*_head("Class"), *(_line(name, *pair) for name, pair in parts), whole]


def _rows(shown: Sequence[ShownRow]) -> list[str]:
    lines = _head("Op")
    for row, pair in shown[:_MOST_ROWS]:
        lines.append(_line(escaped(row_name(row)), *pair, verdict_text(row)))
    return [*lines, *(_line(name, *pair) for name, pair in rest_lines(shown, _MOST_ROWS))]


def verdict_text(row: Row) -> str:
    """The verdict; of what is the same, also within how much."""
    within = row.judgement.within_pct
    if row.judgement.verdict is Verdict.SAME and within is not None:
        return f"same (within {within:.1f} %)"
    return str(row.judgement.verdict)
