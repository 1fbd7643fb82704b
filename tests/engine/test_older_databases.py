"""Databases of this program with older tables are read, and not aggregated again."""

from __future__ import annotations

import hashlib
import lzma
import re
from pathlib import Path

import pytest

from aggregator.dldb.own_schema import schema_sql
from aggregator.dldb.reader import DB_VERSION, open_database
from aggregator.errors import DldbVersionError
from aggregator.options import AggregationRequest
from aggregator.pipeline import aggregate
from aggregator.profile.limits import LimitCode
from aggregator.system.progress import NullProgress
from aggregator.tables.aggregation_data import AggregationData
from aggregator.tables.connection import opened
from aggregator.tables.declared.kernels import KERNELS
from aggregator.tables.declared.summaries import PERFORMANCE_SUMMARY
from aggregator.tables.limits import read_limits
from aggregator.tables.request import parse_list_query
from aggregator.tables.sql import iter_rows, resolve_columns
from tests.builders import Analyzed, Trace, alter, analyze, query

OLDER = Path(__file__).parents[1] / "data" / "older"
TABLES = {"2.1.14": "a1ef8e1e52d88758"}
"""Version of the database -> what its tables come to; see the last test."""


def test_an_older_one_is_read_but_not_changed(sample_database: Path) -> None:
    alter(sample_database, "UPDATE dldb_meta SET value = '2.0.0' WHERE key = 'db_version'")
    before = sample_database.read_bytes()
    with open_database(sample_database) as database:
        assert (database.version, database.is_ours) == ("2.0.0", True)
    request = AggregationRequest(iter_start=0, iter_stop=0)
    with pytest.raises(DldbVersionError, match=r"version 2\.0\.0") as caught:
        aggregate(sample_database, request, NullProgress())
    assert "--database" in caught.value.hint
    assert sample_database.read_bytes() == before


def test_a_database_of_today_names_the_same_version_twice(sample_database: Path) -> None:
    with open_database(sample_database) as database:
        row = database.connection.execute("SELECT * FROM view_db_version").fetchone()
    assert tuple(row) == (DB_VERSION, DB_VERSION)


# --- those that earlier engines wrote ---------------------------------------------------------
# 2.1.0 has no clocks of GPUs and no table for long iterations, 2.1.1 no columns as arrays, 2.1.2 a
# row of kernels per short name and no times of steps, 2.1.3 no waits for streams and events,
# 2.1.4 no owners of time, 2.1.5 no recordings of GPU memory, no corrected step, no source of
# what advice could save and no evidence of ops, 2.1.6 no kinds of streams, no numbers of
# collectives, no phases and no memory of ops and groups, 2.1.7 no overviews of recorded
# memory and no counters of GPUs, 2.1.8 no recorded windows and no typical
# steps, 2.1.9 no sums of efficiency by group, 2.1.10 no shares and examples of warnings,
# 2.1.11 no dependencies between kernels of CUDA graphs, 2.1.12 no exposed waiting of
# ranks and no upper bound of what advice saves, 2.1.13 no busy time of ranks.


@pytest.fixture(params=[f"2.1.{patch}" for patch in range(14)])
def older(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / f"{request.param}.sqlite"
    path.write_bytes(lzma.decompress((OLDER / f"dldb_{path.name}.xz").read_bytes()))
    return path


def _steps() -> Trace:
    """What it was made of."""
    trace = Trace()
    list(trace.steps(4))
    return trace


RESULTS = (
    "wall_time, gpu_utilization, tc_utilization, kernels_all_gpu_time FROM view_model_summary",
    "op_node_id, num_calls, gpu_time_sum, cpu_time_sum, flops, bytes FROM view_op_metrics",
    "kernel_name, calls, gpu_time_sum FROM view_kernel_metrics",
    "iter_value, op_node_name, total_gpu_time FROM view_iteration_ops",
)
AGAIN = AggregationRequest(iter_start=1, iter_stop=3)


@pytest.fixture(scope="module")
def today(tmp_path_factory: pytest.TempPathFactory) -> Analyzed:
    """What the same program gives today, aggregated again."""
    found = analyze(_steps(), tmp_path_factory.mktemp("today"))
    assert aggregate(found.path, AGAIN, NullProgress()).aggr_id == 2
    return found


def test_one_of_an_earlier_patch_is_aggregated_as_one_of_today(
    older: Path, today: Analyzed
) -> None:
    assert aggregate(older, AGAIN, NullProgress()).aggr_id == 2
    for columns in RESULTS:
        sql = f"SELECT {columns} WHERE aggr_id = 2 ORDER BY 1, 2"
        assert query(older, sql) == today.query(sql) != [], columns
    assert query(older, "SELECT * FROM view_db_version") == [(older.stem, older.stem)]


def test_one_of_an_earlier_patch_is_shown(older: Path) -> None:
    with opened(older, time_limit_s=60) as database:
        params: dict[str, str | int] = {"aggr_id": 1, "domain": "default-domain"}
        summary = AggregationData(database, params).read_object(PERFORMANCE_SUMMARY)
        table = resolve_columns(KERNELS, database, {**params})
        kernels = list(iter_rows(table, parse_list_query(KERNELS, {}), database))
    lacking = {"is_steady", "steady_note", "steps", "iter_median_ns", "iter_p10_ns", "iter_p90_ns"}
    patch = int(older.stem.rpartition(".")[2])
    lacking = lacking if patch < 3 else set()
    if patch < 9:
        later = {"view_typical_step", "view_recorded_part"}
        lacking |= {field.name for field in PERFORMANCE_SUMMARY.fields if field.view in later}
    if patch < 4:
        lacking |= {"bare_steps", "bare_step_ns", "bare_step_p10_ns", "bare_step_p90_ns"}
        lacking |= {"profiled_step_ns", "profiled_steps", "overhead_pct", "bare_step_reason"}
    if patch < 6:
        corrected = [one for one in PERFORMANCE_SUMMARY.fields if one.view == "view_corrected_step"]
        lacking |= {field.name for field in corrected}
    assert (summary["total_iterations"], set(summary["unknown"])) == (5, lacking)
    assert [(row["kernel_name"], row["num_calls"]) for row in kernels] == [("sgemm", 4)]


def test_one_of_an_earlier_patch_says_that_limits_were_not_sought(older: Path) -> None:
    with opened(older, time_limit_s=60) as database:
        found = read_limits(AggregationData(database, {"aggr_id": 1, "domain": "default-domain"}))
    if int(older.stem.rpartition(".")[2]) > 10:
        assert found.is_complete
        return
    assert not found.is_complete
    assert "import the profile again" in found.reason
    assert {limit.code for limit in found.limits} <= {LimitCode.PROFILED_SPEED}


def test_tables_change_with_the_version_only() -> None:
    """See ``DB_VERSION``: which number to raise, and what else is to be tested then."""
    statements = re.sub(r"--[^\n]*", "", schema_sql()).split()
    found = hashlib.sha256(" ".join(statements).encode()).hexdigest()[:16]
    assert {DB_VERSION: found} == TABLES
