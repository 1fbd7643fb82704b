"""List the candidates for the key node of a profile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from aggregator.dldb.guarded import few_rows
from aggregator.dldb.reader import is_own_database, open_database
from aggregator.pipeline import find_key_nodes
from profiler_cli.commands.databases import reading
from profiler_cli.options.parser import rank_files

if TYPE_CHECKING:
    from pathlib import Path

    from profiler_cli.console import Console
    from profiler_cli.options.declared import Options

_TITLES: Final = ("", "score", "kind", "instances", "iterations", "median", "even", "alike", "name")
_SHOWN: Final = 30


def run_list(options: Options, console: Console) -> None:
    """Print the candidates of the profile, of several rank files those of the first, best first."""
    source = rank_files(options.database)[0]
    if is_own_database(source):
        reason, rows = _stored(source)
    else:
        with console.working():
            candidates, reason = find_key_nodes(source, options.mode, console, options.nsys_path)
        rows = [
            (
                loop.is_chosen,
                *(loop.score, loop.kind, loop.instances, loop.iterations, loop.period_ns),
                *(100 * loop.evenness, None if loop.alike is None else 100 * loop.alike, loop.name),
            )
            for loop in candidates
        ]
    lines = [_TITLES, *(_texts(row) for row in rows[:_SHOWN])]
    widths = [max(len(line[column]) for line in lines) for column in range(len(_TITLES) - 1)]
    for line in lines if rows else ():
        cells = [text.rjust(width) for text, width in zip(line, widths, strict=False)]
        console.answer("  ".join([*cells, line[-1]]))
    if len(rows) > _SHOWN:
        console.answer(f"... and {len(rows) - _SHOWN} more")
    console.answer(f"Key node: {reason}")


def _stored(database: Path) -> tuple[str, list[tuple[object, ...]]]:
    columns = "is_chosen, score, candidate_kind, instances, iterations, period, evenness, alike"
    query = f"SELECT {columns}, candidate_name FROM view_key_node_candidates ORDER BY candidate_id"  # noqa: S608
    reason = "SELECT value FROM view_profile_info WHERE key = 'key_node_reason'"
    with open_database(database) as dldb, reading(dldb):
        rows = [tuple(row) for row in few_rows(dldb.connection.execute(query))]
        found = few_rows(dldb.connection.execute(reason))
    return (str(found[0][0]) if found else ""), rows


def _texts(row: Sequence[object]) -> tuple[str, ...]:
    is_chosen, score, kind, instances, iterations, period, even, alike, name = row
    milliseconds = f"{period / 1e6:.2f} ms" if isinstance(period, int | float) else ""
    shares = (
        f"{share:.0f} %" if isinstance(share, int | float) else "?" for share in (even, alike)
    )
    counts = (str(score), str(kind), str(instances), str(iterations))
    return ("*" if is_chosen else "", *counts, milliseconds, *shares, str(name))
