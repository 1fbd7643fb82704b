"""Collectives of a database and the ranks' part in its aggregations, written into it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import numpy as np

from aggregator.communication import is_communication
from aggregator.dldb.writer import Table, insert_rows
from aggregator.profile import Int64
from aggregator.ranks.collectives import CollectiveKernels, Matched, collective_kind, match
from aggregator.ranks.metrics import write_rank_metrics
from aggregator.ranks.reading import column_reader

UNALIGNED = "nothing"


def write_rank_tables(path: Path, aggregations: Iterable[int]) -> None:
    """Match the collectives of all ranks and sum up each aggregation.

    Args:
        path: A database whose other tables are complete.
        aggregations: Its aggregations.
    """
    found = read_collectives(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        if len(found):
            query = "SELECT aligned_by FROM ranks ORDER BY id"
            aligned = [row[0] != UNALIGNED for row in connection.execute(query)]
            matched = match(found, np.array([False, *aligned], dtype=bool))
            insert_rows(connection, _table(found, matched, _sizes(connection)))
        for aggr in aggregations:
            write_rank_metrics(connection, aggr)
        connection.commit()


def read_collectives(path: Path) -> CollectiveKernels:
    """Kernels of collectives of a database's ranks; ranks by their row id."""
    with closing(sqlite3.connect(path)) as connection:
        names = connection.execute("SELECT id, name, long_name FROM kernel_names").fetchall()
        ranks = dict(connection.execute("SELECT process, id FROM ranks"))
    moving = {row[0]: collective_kind(row[1]) for row in names if is_communication(row[2])}
    kinds = tuple(sorted(set(moving.values())))
    columns = ("id", "name", "process", "device", "stream_id", "start", "duration")
    empty = np.empty(0, dtype=np.int64)
    data = dict.fromkeys(columns, empty)
    if moving and ranks:
        with column_reader(path) as reader:
            listed = ", ".join(str(number) for number in moving)
            data = reader.read("kernels", columns, f"WHERE name IN ({listed}) ORDER BY id")
    kind_of = np.full(max([*moving, 0]) + 1, -1, dtype=np.int64)
    for number, kind in moving.items():
        kind_of[number] = kinds.index(kind)
    rank_of = np.full(max([*ranks, int(data["process"].max(initial=0))]) + 1, -1, dtype=np.int64)
    rank_of[list(ranks)] = list(ranks.values())
    rank = rank_of[data["process"]]
    keep = rank >= 0
    return CollectiveKernels(
        kernel=data["id"][keep],
        rank=rank[keep],
        device=data["device"][keep],
        stream=data["stream_id"][keep],
        kind=kind_of[data["name"][keep]],
        start_ns=data["start"][keep],
        end_ns=(data["start"] + data["duration"])[keep],
        kinds=kinds,
    )


def _sizes(connection: sqlite3.Connection) -> dict[int, int]:
    """Bytes by kernel, where the source told them."""
    return dict(connection.execute("SELECT kernel, bytes FROM collective_bytes"))


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
