"""Traces of two ranks beside the export of both by Nsight Systems: real runs on two H200 GPUs.

``tests/gpu/programs/collectives.py`` ran each collective three times, and ``steps.py`` trained
ResNet-18 with DistributedDataParallel: five steps under nsys, of which the traces hold three.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aggregator.options import AggregationRequest, ImportOptions
from aggregator.pipeline import import_profile
from aggregator.ranks.rank_import import import_ranks
from aggregator.system.progress import NullProgress
from tests.builders import query, unpacked

CAPTURES = Path(__file__).resolve().parents[1] / "data" / "captures" / "kineto"
SENT = {
    ("AllReduce", 4 << 20): 3,
    ("AllReduce", 2000): 3,
    ("AllReduce", 4): 3,
    ("Broadcast", 20000): 3,
    ("Reduce", 28000): 3,
    ("AllGather", 12000): 3,
    ("AllGather", 400): 3,
    ("ReduceScatter", 20000): 3,
    ("SendRecv", 12000): 3,
    ("SendRecv", 4936): 3,
}
"""Kinds and bytes of what each rank handed over; the barrier is a reduction of one number."""

Rows = Callable[[str, str], list[tuple[Any, ...]]]


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Rows:
    """A function from a run, ``name.json`` or ``name.sqlite``, and a query to rows."""
    databases: dict[str, Path] = {}

    def read(name: str, sql: str) -> list[tuple[Any, ...]]:
        if name not in databases:
            folder = tmp_path_factory.mktemp("ranks")
            base, _, kind = name.partition(".")
            database = folder / "dlprof_dldb.sqlite"
            key_node = "step" if base == "collectives" else ""
            request = AggregationRequest(key_node=key_node)
            if kind == "json":
                files = [
                    unpacked(CAPTURES / f"{base}_rank{rank}.json.xz", folder) for rank in (0, 1)
                ]
                options = ImportOptions(source=files[0], database=database, request=request)
                import_ranks(options, files, NullProgress(), workers=1)
            else:
                source = unpacked(CAPTURES / f"{name}.xz", folder)
                options = ImportOptions(source=source, database=database, request=request)
                import_profile(options, NullProgress())
            databases[name] = database
        return query(databases[name], sql)

    return read


def test_sizes_of_collectives_are_those_that_were_sent(rows: Rows) -> None:
    query = "SELECT collective_name, bytes, rank FROM view_collectives"
    found = rows("collectives.json", query)
    for rank in (0, 1):
        assert Counter(row[:2] for row in found if row[2] == rank) == SENT


def test_every_collective_has_its_partner(rows: Rows) -> None:
    query = """SELECT count(*), count(communicator), min(num_ranks), max(num_ranks)
        FROM view_collectives"""
    assert rows("collectives.json", query) == [(60, 60, 2, 2)]
    assert rows("ddp.json", query) == [(30, 30, 2, 2)]


def test_steps_of_each_rank_are_the_same_as_from_nsys(rows: Rows) -> None:
    """Three steps of both: ops, kernels and ranks.

    An iteration of both ranks ends with the later one: a rank that is ahead may launch a few
    kernels of its next step in it.
    """
    query = """SELECT process_id, op_node_type, direction, kernel_name FROM view_kernel_launches
        WHERE iter_value BETWEEN {first} AND {last} AND direction != '' AND aggr_id = 1"""
    runs = []
    for name, first in (("ddp.json", 1), ("ddp.sqlite", 3)):
        launches = rows(name, query.format(first=first, last=first + 2))
        ranks = sorted({row[0] for row in launches})
        assert len(ranks) == 2
        runs.append([Counter(row[1:] for row in launches if row[0] == rank) for rank in ranks])
    for ours, theirs in zip(*runs, strict=True):
        assert ours.total() > 1200
        assert set(ours) == set(theirs)
        differing = (ours - theirs).total() + (theirs - ours).total()
        assert differing <= 0.01 * theirs.total()
