"""``dlprof stragglers``: which rank, stage or kind of op makes a distributed job slow."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from aggregator.dldb.event_reader import stored_events
from aggregator.errors import UsageError
from aggregator.pipeline import open_or_import
from aggregator.ranks.file_names import natural_order
from aggregator.ranks.summary_join import join_summaries
from aggregator.ranks.summary_reader import is_rank_summary
from aggregator.replay.rank_report import RankReport, read_slow_ranks
from aggregator.system.plain_text import escape_control_characters
from profiler_cli.commands.databases import join_ranks, read_aggregation, reading
from profiler_cli.console import EXIT_DONE
from profiler_cli.options.parser import AGGREGATION, SubcommandParser

_DESCRIPTION: Final = (
    "Show which rank makes a distributed job slow, and how long the step would take without it."
)
_MOST_ROWS: Final = 10
_PARQUET: Final = b"PAR1"


def run_stragglers(words: Sequence[str]) -> int:
    """Run ``dlprof stragglers`` as one of ``SUBCOMMANDS``."""
    options = _parser().parse_args(list(words))
    may_be_summary = _may_be_summary if len(options.files) > 1 else _is_summary
    if any(map(may_be_summary, options.files)):
        document = join_summaries(_summaries(options.files)).document()
    else:
        document = _compared(options.files, options.aggregation).document()
    if options.json or options.format == "json":
        print(json.dumps(document, indent=2))
    else:
        print(escape_control_characters(_ranks_text(document)), end="")
    return EXIT_DONE


def _summaries(paths: Sequence[Path]) -> list[Path]:
    """Return the summaries among files and in folders, ``rank2`` before ``rank10``."""
    found: list[Path] = []
    for path in paths:
        inside = path.rglob("*.parquet") if path.is_dir() else [path]
        found += sorted((file for file in inside if _is_wanted(file, path)), key=natural_order)
    if not found:
        raise UsageError(
            f"There is no summary in '{paths[0]}'.",
            hint="Write them with: dlprof summarize 'rank*.sqlite' -o FOLDER",
        )
    return found


def _is_wanted(path: Path, named: Path) -> bool:
    """Return whether a file is a summary; one that was named itself must be."""
    if is_rank_summary(path):
        return True
    if path == named and path.exists():
        raise UsageError(
            f"'{path}' is no summary of ranks.",
            hint="Give either profiles of all ranks, or summaries that dlprof summarize wrote.",
        )
    return path == named


def _is_summary(path: Path) -> bool:
    """Return whether a file is a summary, or a folder that may hold some."""
    return path.is_dir() or is_rank_summary(path)


def _may_be_summary(path: Path) -> bool:
    """Return the same of one file of several, which may be damaged."""
    try:
        with path.open("rb") as file:
            return file.read(len(_PARQUET)) == _PARQUET
    except OSError:
        return path.is_dir()


def _compared(paths: Sequence[Path], aggregation: int | None) -> RankReport:
    with ExitStack() as stack:
        is_one = len(paths) == 1
        database = open_or_import(paths[0], stack) if is_one else join_ranks(paths, stack)
        stack.callback(database.close)
        aggr = read_aggregation(database, aggregation)
        with reading(database):
            return read_slow_ranks(stored_events(database.connection), aggr)


def _parser() -> SubcommandParser:
    parser = SubcommandParser(
        prog="dlprof stragglers",
        description=_DESCRIPTION,
        epilog="Exit codes: 0 done; 2 usage; 4 the profile and 5 the database cannot be used.",
    )
    parser.add(
        "files FILE",
        "a DLProf database or profile with several ranks, or the profiles of all ranks; "
        "or summaries of ranks (dlprof summarize), or folders of them",
        nargs="+",
        type=Path,
    )
    parser.add(*AGGREGATION)
    parser.add(
        "--format",
        "output (default: text); json has all measures",
        choices=("text", "json"),
        default="text",
    )
    parser.add("--json", "the same as --format=json")
    return parser


def _ranks_text(document: dict[str, Any]) -> str:
    ranks = sorted(document["ranks"], key=lambda row: (-row["late_ns"], row["rank"]))
    is_of_summaries = "rank_times" in document
    whole = ", from the last collective of a step to that of the next" if is_of_summaries else ""
    lines = [
        document["verdict"],
        "",
        (
            f"{document['statistic']} step {document['step_ns'] / 1e6:.3f} ms as profiled, of"
            f" {document['steps']}{whole}"
        ),
        (
            f"slowdown {document['slowdown']:.4f}: mean step"
            f" {document['mean_step_ns'] / 1e6:.3f} ms, {document['ideal_step_ns'] / 1e6:.3f} ms"
            " with all ranks at the median"
        ),
        f"confidence: {document['confidence']}",
        *(f"  {note}" for note in document["notes"]),
        "",
        "rank  later than the median  step without its slowness  exposed waiting, transfer a step",
        *(
            f"{row['rank']:4d}  {_time(row['late_ns']):>22}  {_time(row['step_without_ns']):>25}"
            f"  {_time(row['exposed_waiting_ns']):>15}, {_time(row['exposed_transfer_ns'])}"
            for row in ranks[:_MOST_ROWS]
        ),
    ]
    if "rank_times" in document:
        lines += _times_text(document["rank_times"], [row["rank"] for row in ranks[:_MOST_ROWS]])
    return "\n".join(lines) + "\n"


_COLUMNS: Final = {
    "compute": ("tensor core compute", "other compute"),
    "communication": ("communication",),
    "copy, set": ("copy", "set"),
    "host": ("waiting for the host", "launching"),
}


def _times_text(rows: list[dict[str, Any]], ranks: list[int]) -> list[str]:
    heads = "".join(f"{name:>16}" for name in ("step", *_COLUMNS))
    lines = ["", f"mean of the steady steps, ms\n{'rank':>4}{heads}  host, full database"]
    by_rank = {row["rank"]: row for row in rows}
    for rank in ranks:
        row = by_rank[rank]
        times = [row["step_ns"]]
        if row["classes_ns"]:
            times += [sum(row["classes_ns"][kind] for kind in part) for part in _COLUMNS.values()]
        cells = "".join(f"{time / 1e6:16.3f}" for time in times)
        lines.append(f"{rank:4d}{cells:<{16 * 5}}  {row['host']}:{row['database']}")
    return lines


def _time(time_ns: int | None) -> str:
    return "-" if time_ns is None else f"{time_ns / 1e6:.3f} ms"
