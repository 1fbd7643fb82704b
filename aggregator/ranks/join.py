"""Joins the databases of rank files into one: the raw events, on a common clock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from aggregator.dldb.metadata import engine_version
from aggregator.dldb.secrets import masked_command
from aggregator.dldb.versions import DB_VERSION
from aggregator.dldb.writer import BulkWriter, Table, bulk_writer
from aggregator.options import ImportOptions
from aggregator.profile import ProfileWarning
from aggregator.progress import Progress
from aggregator.ranks.alignment import Capture, Clock, align
from aggregator.ranks.checks import (
    rank_numbers,
    require_one_job,
    require_one_time,
    warnings_of,
    without_collectives,
)
from aggregator.ranks.collectives import streams_of
from aggregator.ranks.events import count_events, write_events
from aggregator.ranks.given import damage_of, require_own_layout
from aggregator.ranks.op_tables import op_tables
from aggregator.ranks.parts import Part
from aggregator.ranks.shared_tables import as_table, shared_tables
from aggregator.ranks.tables import read_collectives


@dataclass(frozen=True)
class Joined:
    """What a join found.

    Attributes:
        mode: Mode in which ranges were read.
        mode_reason: Why.
        counts: Rows per kind of event.
        warnings: What people should know of the set of files.
    """

    mode: str
    mode_reason: str
    counts: dict[str, int]
    warnings: tuple[ProfileWarning, ...]


def join_parts(
    parts: list[Part], target: Path, options: ImportOptions, progress: Progress
) -> Joined:
    """Write the raw events of all parts into a database that has empty tables.

    Raises:
        NotOneJobError: The parts are not the ranks of one job.
        NotADldbError: A database that was given is damaged, or another version made it.
    """
    for part in parts:
        if part.is_given:
            require_own_layout(part)
    with damage_of(parts):
        return _join(parts, target, options, progress)


def _join(parts: list[Part], target: Path, options: ImportOptions, progress: Progress) -> Joined:
    require_one_job(parts)
    for part, numbers in zip(parts, rank_numbers(parts, options.ranks), strict=True):
        part.new_ranks = numbers
    parts.sort(key=lambda part: part.new_ranks)
    progress.message(f"Aligning the clocks of {len(parts)} rank files")
    captures = _captures(parts)
    clocks = align(captures)
    require_one_time(parts, captures, clocks)
    for part, clock in zip(parts, clocks, strict=True):
        part.offset_ns = clock.offset_ns
    warnings = [
        *warnings_of(parts, clocks),
        *without_collectives(_collective_counts(parts, captures)),
    ]
    progress.message(f"Joining {sum(len(part.ranks) for part in parts)} ranks")
    progress.phase("join", count_events(parts))
    with bulk_writer(target) as writer:
        _write(parts, clocks, warnings, options, writer, progress.advance)
    first = parts[0].meta
    counts = {name: sum(part.last_id(name) for part in parts) for name in ("api_calls", "kernels")}
    return Joined(first["mode"], first["mode_reason"], counts, tuple(warnings))


def _captures(parts: list[Part]) -> list[Capture]:
    """What the alignment looks at; kinds of collectives get the same codes everywhere."""
    found = [read_collectives(part.path) for part in parts]
    kinds = tuple(sorted({kind for part in found for kind in part.kinds}))
    captures = []
    for part, collectives in zip(parts, found, strict=True):
        codes = [kinds.index(collectives.kinds[code]) for code in collectives.kind.tolist()]
        same_codes = replace(collectives, kind=collectives.kind * 0 + codes, kinds=kinds)
        gpus = {str(row["uuid"]) for row in part.rows("devices") if row["uuid"]}
        host = part.meta.get("host_name", "")
        streams = tuple(streams_of(same_codes))
        captures.append(
            Capture(part.start_utc_ns, part.last_ns, host, frozenset(gpus), streams, kinds)
        )
    return captures


def _collective_counts(parts: list[Part], captures: list[Capture]) -> dict[int, int]:
    """Collectives of each rank, by its number in the job."""
    counts = {number: 0 for part in parts for number in part.new_ranks}
    for part, capture in zip(parts, captures, strict=True):
        for stream in capture.streams:
            counts[part.new_ranks[stream.rank - 1]] += len(stream)
    return counts


def _write(
    parts: list[Part],
    clocks: list[Clock],
    warnings: list[ProfileWarning],
    options: ImportOptions,
    writer: BulkWriter,
    advance: Callable[[int], None],
) -> None:
    writer.write(_meta(parts, clocks))
    for table in shared_tables(parts):
        if table.name == "devices":
            writer.write(_system_config(parts, options, num_gpus=len(table)))
        writer.write(table)
    writer.write(_warning_table(warnings))
    for table in op_tables(parts):
        writer.write(table)
    writer.write(_ranks(parts, clocks))
    write_events(parts, writer, advance)


def _meta(parts: list[Part], clocks: list[Clock]) -> Table:
    common = Counter(part.meta["key_node"] for part in parts).most_common(1)[0][0]
    first = next(part for part in parts if part.meta["key_node"] == common)
    hosts = {part.meta.get("host_name", "") for part in parts}
    started = [
        part.start_utc_ns - clock.offset_ns
        for part, clock in zip(parts, clocks, strict=True)
        if part.start_utc_ns is not None and clock.is_known
    ]
    values = first.meta | {
        "db_version": DB_VERSION,
        "engine_version": engine_version(),
        "source_file": _shown([part.short_label for part in parts]),
        "last_ns": str(max(part.last_ns + part.offset_ns for part in parts)),
        "session_start_utc_ns": str(min(started)) if started else "",
        "host_name": hosts.pop() if len(hosts) == 1 else "",
        "rank_count": str(sum(len(part.ranks) for part in parts)),
        "rank_files": str(len(parts)),
        "job_rank": "",
    }
    return Table("dldb_meta", {"key": list(values), "value": list(values.values())})


def _shown(names: list[str]) -> str:
    return (
        ", ".join(names) if len(names) <= 4 else f"{names[0]} ... {names[-1]} ({len(names)} files)"
    )


def _system_config(parts: list[Part], options: ImportOptions, *, num_gpus: int) -> Table:
    row = parts[0].rows("system_config")[0] | {
        "num_gpus": str(num_gpus),
        "dlprof_version": f"v{engine_version()}",
        "profile_name": options.profile_name,
        "original_command": masked_command(options.original_command),
    }
    return as_table("system_config", [row])


def _warning_table(warnings: list[ProfileWarning]) -> Table:
    return Table(
        "warnings",
        {
            "code": [warning.code for warning in warnings],
            "message": [warning.message for warning in warnings],
            "count": [warning.count for warning in warnings],
        },
    )


def _ranks(parts: list[Part], clocks: list[Clock]) -> Table:
    rows: list[dict[str, Any]] = []
    for part, clock in zip(parts, clocks, strict=True):
        own = part.rows("ranks")
        for number, row in zip(part.new_ranks, own, strict=True):
            device = row["device"]
            rows.append(
                row
                | {
                    "id": len(rows) + 1,
                    "rank": number,
                    "process": int(part.maps["processes"][row["process"]]),
                    "device": None if device is None else int(part.maps["devices"][device]),
                    "source_file": part.short_label,
                    "clock_offset": clock.offset_ns if clock.is_known else None,
                    "clock_correction": clock.correction_ns if clock.is_known else None,
                    "clock_residual": clock.residual_ns,
                    "aligned_by": clock.aligned_by,
                }
            )
    return as_table("ranks", rows)
