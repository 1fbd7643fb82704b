"""The same training on an H100, recorded by the collector and by Nsight Systems 2025.3.

Three steps, then 15 replays of a CUDA graph, each with a step of the optimizer. What Nsight Systems
recorded was counted with plain SQL in its export (``graph.nsys.json.xz``); the ops are those that
the engine found in it.
"""

from __future__ import annotations

import json
import lzma
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from aggregator.sources.collector.export import write_export
from tests.builders import analyze_file

CAPTURES = Path(__file__).parents[1] / "data/captures/collector"
QUERIES = {
    "kernels": (
        "SELECT s.value, k.gridX, k.gridY, k.gridZ, k.blockX, k.blockY, k.blockZ,"
        " k.graphNodeId IS NOT NULL, count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL k"
        " JOIN StringIds s ON s.id = k.shortName"
        " GROUP BY 1, 2, 3, 4, 5, 6, 7, 8 ORDER BY 1, 2, 3, 4, 5, 6, 7, 8"
    ),
    "copies": (
        "SELECT copyKind, bytes, srcKind, dstKind, count(*) FROM CUPTI_ACTIVITY_KIND_MEMCPY"
        " GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4"
    ),
    "sets": "SELECT bytes, count(*) FROM CUPTI_ACTIVITY_KIND_MEMSET GROUP BY 1 ORDER BY 1",
    "ranges": (
        "SELECT text, count(*) FROM NVTX_EVENTS WHERE eventType = 59 AND text NOT LIKE '{%'"
        " AND text NOT LIKE '% op_id = %' GROUP BY 1 ORDER BY 1"
    ),
    "num_ranges": "SELECT count(*) FROM NVTX_EVENTS WHERE eventType = 59",
    # Nsight Systems also records queries, and what calls of the runtime call in the driver.
    "calls": (
        "SELECT s.value, count(*) FROM CUPTI_ACTIVITY_KIND_RUNTIME r"
        " JOIN StringIds s ON s.id = r.nameId WHERE s.value GLOB 'cudaLaunch*'"
        " OR s.value GLOB 'cuLaunch*' OR s.value GLOB 'cudaMem*' OR s.value GLOB 'cudaGraphLaunch*'"
        " OR s.value GLOB 'cudaMalloc*' OR s.value GLOB 'cuda*Synchronize*' GROUP BY 1 ORDER BY 1"
    ),
    "graph_nodes": "SELECT count(*), count(originalGraphNodeId) FROM CUDA_GRAPH_NODE_EVENTS",
}


@pytest.fixture(scope="module")
def export(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The export of the collector's records."""
    folder = tmp_path_factory.mktemp("graph")
    with lzma.open(CAPTURES / "graph.records.xz") as packed:
        (folder / "2974-0.records").write_bytes(packed.read())
    write_export([folder / "2974-0.records"], folder / "graph.sqlite", {})
    return folder / "graph.sqlite"


@pytest.fixture(scope="module")
def expected() -> dict[str, list[list[Any]]]:
    """What Nsight Systems recorded."""
    with lzma.open(CAPTURES / "graph.nsys.json.xz") as packed:
        found: dict[str, list[list[Any]]] = json.load(packed)
    return found


def _rows(path: Path, query: str) -> list[list[Any]]:
    with closing(sqlite3.connect(path)) as connection:
        return [list(row) for row in connection.execute(query)]


@pytest.mark.parametrize("name", QUERIES)
def test_both_recorders_record_the_same(
    export: Path, expected: dict[str, list[list[Any]]], name: str
) -> None:
    assert _rows(export, QUERIES[name]) == expected[name]


def test_the_gpu_was_busy_for_the_same_time(
    export: Path, expected: dict[str, list[list[Any]]]
) -> None:
    query = 'SELECT sum("end" - start) FROM CUPTI_ACTIVITY_KIND_KERNEL'
    (busy_ns,), (nsys_ns,) = _rows(export, query)[0], expected["gpu_time_ns"][0]
    assert busy_ns == pytest.approx(nsys_ns, rel=0.01)


def test_ops_and_iterations_are_the_same(
    export: Path, expected: dict[str, list[list[Any]]], tmp_path: Path
) -> None:
    database = tmp_path / "graph.dldb.sqlite"
    analyze_file(export, database)
    ops = (
        "SELECT op_node_name, direction, num_calls, kernel_calls, using_tc, data_type, name_grade"
        " FROM view_op_nodes WHERE aggr_id = 1 AND kernel_calls > 0"
    )
    assert sorted(_rows(database, ops)) == expected["ops"]
    ((made_by,),) = _rows(database, "SELECT nsys_version FROM view_system_config")
    assert made_by == "none (dlprof, CUPTI 130001)"
    iterations = "SELECT iter_value, kind FROM view_iterations_all WHERE aggr_id = 1 ORDER BY 1"
    assert _rows(database, iterations) == expected["iterations"]
