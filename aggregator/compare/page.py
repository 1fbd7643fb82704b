"""A comparison as one HTML file without scripts or other files."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final

from aggregator.compare.markdown import verdict_text
from aggregator.compare.picture import distributions, icicle, waterfall
from aggregator.compare.result import Comparison, Row
from aggregator.compare.text import (
    MEAN_STEP,
    ShownRow,
    interval_text,
    joined_rows,
    rest_lines,
    row_name,
    sum_of_pairs,
)

_MOST_ROWS: Final = 200
_MOST_DETAILS: Final = 10
_STYLE: Final = """
:root { color-scheme: light dark; --ink: #1c2128; --paper: #fff; --line: #d0d7de; --soft: #eef1f4;
  --slower: #c23b5a; --faster: #1b7f3b; --total: #57606a; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --paper: #14181d; --line: #3b434d;
  --soft: #232a32; --slower: #d9566f; --faster: #3c9c58; --total: #9aa4af; } }
body { font: 14px system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 1000px; margin: 24px auto; padding: 0 16px; font-variant-numeric: tabular-nums; }
h1 { font-size: 20px; } h2 { font-size: 16px; margin-top: 28px; }
table { border-collapse: collapse; width: 100%; font-size: 13px; }
td, th { border-bottom: 1px solid var(--line); padding: 4px 8px; text-align: left;
  overflow-wrap: anywhere; }
td.number, th.number { text-align: right; white-space: nowrap; }
svg { width: 100%; height: auto; font-size: 12px; } svg text { fill: var(--ink); }
svg .name { text-anchor: end; } svg .total { fill: var(--total); } svg .box { fill: var(--soft); }
svg .slower { fill: var(--slower); } svg .faster { fill: var(--faster); }
svg .base { fill: var(--total); fill-opacity: .6; } svg .new { fill: #2f6feb; fill-opacity: .6; }
svg .mean { stroke: var(--ink); stroke-width: 2; }
.slower { color: var(--slower); } .faster { color: var(--faster); }
td:first-child { min-width: 120px; }
summary { cursor: pointer; padding: 6px 0; }
"""


def to_html(comparison: Comparison) -> str:
    """Headline, set-up, waterfall, modules and the rows with their distributions."""
    rows = joined_rows(comparison.rows)
    headline = escape(str(comparison.headline))
    sections = [f"<h1>{headline}</h1>", *_interval(comparison)]
    sections += [f"<p>{escape(str(note))}</p>" for note in comparison.notes]
    sections += _setup(comparison)
    sections += ["<h2>Step by class, as profiled</h2>", waterfall(comparison)]
    sections += ["<h2>Modules</h2>", _legend(), icicle(comparison)]
    sections += ["<h2>Ops</h2>", _table(rows)]
    sections += ["<h2>Steps of the largest changes</h2>", *_details([row for row, _ in rows])]
    body = "\n".join(sections)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>{headline}</title><style>{_STYLE}</style></head>\n<body>\n{body}\n</body></html>\n"
    )


def _interval(comparison: Comparison) -> list[str]:
    if comparison.judgement.interval_ns is None:
        return ["<p>Too few iterations for an interval.</p>"]
    verdict = str(comparison.judgement.verdict)
    shown = f'<b class="{verdict.replace(" ", "-")}">{escape(verdict)}</b>'
    return [f"<p>Verdict: {shown}. {interval_text(comparison)}</p>"]


def _setup(comparison: Comparison) -> list[str]:
    if not comparison.setup:
        return ["<p>No difference of the set-up was recorded.</p>"]
    rows = [
        f"<tr><td>{escape(setting.key)}</td><td>{escape(setting.base or 'not recorded')}</td>"
        f"<td>{escape(setting.new or 'not recorded')}</td></tr>"
        for setting in comparison.setup
    ]
    head = "<tr><th>What else differs</th><th>base</th><th>new</th></tr>"
    return [f"<table>{head}{''.join(rows)}</table>"]


def _legend() -> str:
    return (
        '<p>As wide as their time, <span class="slower">slower</span> or'
        ' <span class="faster">faster</span>; the stronger the color, the larger the change.</p>'
    )


def _table(shown: Sequence[ShownRow]) -> str:
    lines = [
        _line(row_name(row), *pair, verdict_text(row), str(row.judgement.verdict))
        for row, pair in shown[:_MOST_ROWS]
    ]
    lines += [_line(name, *pair) for name, pair in rest_lines(shown, _MOST_ROWS)]
    lines.append(_line(MEAN_STEP.capitalize(), *sum_of_pairs(pair for _, pair in shown)))
    head = "".join(f'<th class="number">{name} ms</th>' for name in ("base", "new", "difference"))
    return f"<table><tr><th>Op</th>{head}<th>verdict</th></tr>{''.join(lines)}</table>"


def _line(name: str, base: int, new: int, verdict: str = "", kind: str = "") -> str:
    numbers = (f"{base / 1e3:.3f}", f"{new / 1e3:.3f}", f"{(new - base) / 1e3:+.3f}")
    cells = "".join(f'<td class="number">{number}</td>' for number in numbers)
    css = kind.replace(" ", "-")
    return f'<tr><td>{escape(name)}</td>{cells}<td class="{css}">{escape(verdict)}</td></tr>'


def _details(rows: Sequence[Row]) -> list[str]:
    return [
        f"<details><summary>{escape(row_name(row))}</summary>{distributions(row)}</details>"
        for row in rows[:_MOST_DETAILS]
    ]
