"""A comparison as Markdown, for the comment of a pull request."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from aggregator.compare.exact import rounded_pairs
from aggregator.compare.result import Comparison, Row, Verdict
from aggregator.compare.text import MEAN_STEP, ShownRow, interval_text, joined_rows
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
    changes = comparison.classes
    times = rounded_pairs([(change.base_ns, change.new_ns) for change in changes])
    lines = _head("Class")
    lines += [_line(row.name, *pair) for row, pair in zip(changes, times, strict=True) if any(pair)]
    base, new = sum(pair[0] for pair in times), sum(pair[1] for pair in times)
    verdict = str(comparison.judgement.verdict)
    return [*lines, _line(f"**{MEAN_STEP.capitalize()}**", base, new, verdict)]


def _rows(shown: Sequence[ShownRow]) -> list[str]:
    lines = _head("Op")
    for row, pair in shown[:_MOST_ROWS]:
        lines.append(_line(escaped(row_name(row)), *pair, verdict_text(row)))
    rest = [pair for _, pair in shown[_MOST_ROWS:]]
    if rest:
        base, new = (sum(column) for column in zip(*rest, strict=True))
        lines.append(_line(f"{len(rest)} other rows", base, new))
    return lines


def row_name(row: Row) -> str:
    """Op or module, direction, class and reason in one line."""
    direction = f" ({row.direction})" if row.direction else ""
    reason = f", {row.reason}" if row.reason else ""
    return f"{row.module}{row.op}{direction}: {row.kind}{reason}"


def verdict_text(row: Row) -> str:
    """The verdict; of what is the same, also within how much."""
    within = row.judgement.within_pct
    if row.judgement.verdict is Verdict.SAME and within is not None:
        return f"same (within {within:.1f} %)"
    return str(row.judgement.verdict)
