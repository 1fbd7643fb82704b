"""Reads and writes the collectives of a database."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np

from aggregator.dldb.stored import reading_errors
from aggregator.dldb.writer import Table, has_table, insert_rows
from aggregator.kernels.traits import kernel_traits
from aggregator.metrics.collectives import (
    UNALIGNED,
    CollectiveKernels,
    Matched,
    collective_kind,
    match,
)
from aggregator.profile.arrays import Int64, before_known
from aggregator.system.sqlite_arrow import ArrowConnection
from aggregator.system.sqlite_uri import read_only_uri


def write_collectives(connection: sqlite3.Connection, found: CollectiveKernels) -> None:
    """Match the collectives of all ranks and write them; the database holds the events."""
    if len(found):
        query = "SELECT aligned_by FROM ranks ORDER BY id"
        aligned = [row[0] != UNALIGNED for row in connection.execute(query)]
        matched = match(found, np.array([False, *aligned], dtype=bool))
        sizes = dict(connection.execute("SELECT kernel, bytes FROM collective_bytes"))
        insert_rows(connection, _table(found, matched, sizes))


def read_collectives(path: Path) -> CollectiveKernels:
    """Kernels of collectives of a database's ranks; ranks by their row id."""
    with closing(sqlite3.connect(path)) as connection:
        names = connection.execute("SELECT id, name, long_name FROM kernel_names").fetchall()
        ranks = dict(connection.execute("SELECT process, id FROM ranks"))
        has_calls = has_table(connection, "collective_calls")  # Older databases have none.
    moving = {
        number: collective_kind(name)
        for number, name, long_name in names
        if kernel_traits(long_name).is_communication
    }
    kinds = tuple(sorted(set(moving.values())))
    columns = ("id", "name", "process", "device", "stream_id", "start", "duration", "api_duration")
    empty = np.empty(0, dtype=np.int64)
    data = dict.fromkeys(columns, empty)
    if moving and ranks:
        with reading_errors(path), ArrowConnection(read_only_uri(path)) as reader:
            listed = ", ".join(str(number) for number in moving)
            where = f"WHERE name IN ({listed}) ORDER BY id"
            data = reader.integer_columns("kernels", columns, where)
    kind_of = np.full(max([*moving, 0]) + 1, -1, dtype=np.int64)
    for number, kind in moving.items():
        kind_of[number] = kinds.index(kind)
    rank_of = np.full(max([*ranks, int(data["process"].max(initial=0))]) + 1, -1, dtype=np.int64)
    rank_of[list(ranks)] = list(ranks.values())
    rank = rank_of[data["process"]]
    keep = rank >= 0
    calls = {"kernel": empty, "call": empty}
    if has_calls:
        with reading_errors(path), ArrowConnection(read_only_uri(path)) as reader:
            calls = reader.integer_columns("collective_calls", ("kernel", "call"))
    call = np.full(int(max(data["id"].max(initial=0), calls["kernel"].max(initial=0))) + 1, -1)
    call[calls["kernel"]] = calls["call"]
    return CollectiveKernels(
        kernel=data["id"][keep],
        rank=rank[keep],
        device=data["device"][keep],
        stream=_streams(data)[keep],
        kind=kind_of[data["name"][keep]],
        start_ns=data["start"][keep],
        end_ns=(data["start"] + data["duration"])[keep],
        kinds=kinds,
        call=call[data["id"][keep]],
    )


def _streams(data: dict[str, Int64]) -> Int64:
    """Streams of the kernels; those launched before the capture began have streams of their own.

    How many of them a rank still recorded is chance: no other rank has the same ones.
    """
    stream, launched = data["stream_id"], data["api_duration"] > 0
    return np.where(before_known(data["process"], launched, data["start"]), -1 - stream, stream)


def _table(found: CollectiveKernels, matched: Matched, sizes: dict[int, int]) -> Table:
    return Table(
        "collectives",
        {
            "kernel": found.kernel,
            "rank": found.rank,
            "communicator": _nullable(matched.communicator),
            "sequence": _nullable(matched.sequence),
            "kind": [found.kinds[code] for code in found.kind.tolist()],
            "num_ranks": matched.num_ranks,
            "waiting": _nullable(matched.waiting_ns),
            "kept_waiting": _nullable(matched.kept_waiting_ns),
            "bytes": [sizes.get(kernel) for kernel in found.kernel.tolist()],
        },
    )


def _nullable(column: Int64) -> list[int | None]:
    return [None if value < 0 else value for value in column.tolist()]
