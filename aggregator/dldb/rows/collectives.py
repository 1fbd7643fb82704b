"""Reads and writes the collectives of a database."""

from __future__ import annotations

import sqlite3

import numpy as np

from aggregator.dldb.writer import Table, insert_rows
from aggregator.events.model import Work
from aggregator.events.store import EventStore
from aggregator.metrics.collectives import (
    UNALIGNED,
    CollectiveKernels,
    Matched,
    collective_kind,
    match,
)
from aggregator.profile.arrays import NO_ROW, Int64, before_known


def write_collectives(connection: sqlite3.Connection, found: CollectiveKernels) -> None:
    """Match the collectives of all ranks and write them; the database holds the events."""
    if len(found):
        query = "SELECT aligned_by FROM ranks ORDER BY id"
        aligned = [row[0] != UNALIGNED for row in connection.execute(query)]
        matched = match(found, np.array([False, *aligned], dtype=bool))
        sizes = dict(connection.execute("SELECT kernel, bytes FROM collective_bytes"))
        insert_rows(connection, _table(found, matched, sizes))


def read_collectives(store: EventStore) -> CollectiveKernels:
    """Return the kernels of the collectives of ranks; kernels, ranks and GPUs by their ids."""
    names, ranks = store.names, store.values("ranks", "id", "process")
    kind_of = [collective_kind(name) for name in names.short]
    moves = names.communicates.tolist()
    kinds = tuple(sorted({kind for kind, move in zip(kind_of, moves, strict=True) if move}))
    kernels = store.kernels()
    rank_of = np.full(len(store.values("processes", "id")), NO_ROW, dtype=np.int64)
    rank_of[[process - 1 for _, process in ranks]] = [row for row, _ in ranks]
    found = kernels.rows(
        np.flatnonzero(names.communicates[kernels.name] & (rank_of[kernels.process] > 0))
    )
    code_of = np.array([kinds.index(kind) if kind in kinds else NO_ROW for kind in kind_of])
    call = np.full(len(kernels) + 1, NO_ROW)
    if store.has("collective_calls"):  # Older databases have none.
        kernel, number = store.integers("collective_calls", ("kernel", "call"))
        call[kernel] = number
    return CollectiveKernels(
        kernel=found.row_id,
        rank=rank_of[found.process],
        device=found.device + 1,
        stream=_streams(found),
        kind=code_of[found.name].astype(np.int64),
        start_ns=found.start_ns,
        end_ns=found.end_ns,
        kinds=kinds,
        call=call[found.row_id],
    )


def _streams(kernels: Work) -> Int64:
    """Streams of the kernels; those launched before the capture began have streams of their own.

    How many of them a rank still recorded is chance: no other rank has the same ones.
    """
    launched = kernels.api_end_ns > kernels.api_start_ns
    is_earlier = before_known(kernels.process, launched, kernels.start_ns)
    return np.where(is_earlier, -1 - kernels.stream, kernels.stream)


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
