"""``dlprof history``: what the step, its classes and its ops did over many captures."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from aggregator.compare.history import (
    History,
    HistoryChange,
    HistoryTrend,
    databases_of,
    read_history,
)
from aggregator.compare.text import MEAN_STEP
from aggregator.system.plain_text import escape_control_characters
from aggregator.system.replies import to_plain
from profiler_cli.console import EXIT_DONE
from profiler_cli.options.parser import SubcommandParser

_MOST_OPS: Final = 20
_BARS: Final = "▁▂▃▄▅▆▇█"
_NAME: Final = 50


def run_history(words: Sequence[str]) -> int:
    """Run ``dlprof history`` as one of ``SUBCOMMANDS``."""
    options = _parser().parse_args(list(words))
    folder: Path = options.folder
    files = [(str(path.relative_to(folder)), path) for path in databases_of(folder)]
    history = read_history(files)
    if options.format == "json":
        print(json.dumps(to_plain(history), indent=2))
    else:
        print(escape_control_characters(_text(history, options.ops)), end="")
    return EXIT_DONE


def _parser() -> SubcommandParser:
    parser = SubcommandParser(
        prog="dlprof history",
        description="Show how the step, its classes and its ops changed over many captures.",
        epilog=(
            "Captures are ordered by their date. Change points: E-divisive, with a permutation "
            "test for the step and its classes. Exit codes: 0 done; 2 usage; 4 no database."
        ),
    )
    parser.add(
        "folder DIR",
        "folder of databases and summaries (dlprof export), with its subfolders",
        type=Path,
    )
    parser.add("--format", "output (default: text)", choices=("text", "json"), default="text")
    parser.add("--ops N", f"most ops in the text (default: {_MOST_OPS})", default=_MOST_OPS)
    return parser


def _text(history: History, most_ops: int) -> str:
    count = len(history.captures)
    lines = [f"{count} capture{'' if count == 1 else 's'}: {MEAN_STEP}"]
    lines += [
        f"  {number:>4}  {run.started_at or 'no date':<25} {run.step_ns / 1e6:10.3f} ms  {run.name}"
        for number, run in enumerate(history.captures)
    ]
    ops = [line for line in history.trends if line.kind == "op"]
    shown_trends = [line for line in history.trends if line.kind != "op"] + ops[: max(most_ops, 0)]
    lines += ["", f"{'first ms':>10} {'last ms':>10}  trend"]
    for trend in shown_trends:
        lines += _trend(trend)
    if len(ops) > most_ops:
        lines.append(f"{len(ops) - max(most_ops, 0)} other ops: --ops={len(ops)}, or --format=json")
    lines += [f"Skipped {file.name}: {file.reason}" for file in history.skipped]
    return "\n".join(lines) + "\n"


def _trend(trend: HistoryTrend) -> list[str]:
    name = MEAN_STEP if trend.kind == "step" else trend.name
    name = name if len(name) <= _NAME else f"...{name[3 - _NAME :]}"
    direction = f" ({trend.direction})" if trend.direction else ""
    first, last = trend.values_ns[0] / 1e6, trend.values_ns[-1] / 1e6
    line = f"{first:10.3f} {last:10.3f}  {_bars(trend.values_ns)}  {name}{direction}"
    return [line, *(_change(point) for point in trend.change_points)]


def _change(point: HistoryChange) -> str:
    before, after = point.before_ns / 1e6, point.after_ns / 1e6
    share = f" ({100 * (after / before - 1):+.1f} %)" if before else ""
    return (
        f"{'':23}changed at {point.index}, {point.capture}: {before:.3f} -> {after:.3f} ms{share}"
    )


def _bars(values: Sequence[float]) -> str:
    """Return the last forty values as bars from their least to their largest."""
    shown_values = values[-40:]
    least, most = min(shown_values), max(shown_values)
    width = (most - least) or 1.0
    return "".join(_BARS[round((value - least) / width * 7)] for value in shown_values)
