"""The numbers of the API are those of the database, as plain SQL reads them."""

from __future__ import annotations

import re
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.conf import LazySettings

from aggregator.tables import verdict
from tests.contract.client import ApiClient, Served

IN_DOMAIN = "aggr_id = 1 AND domain_name = 'default-domain'"


class Sql:
    """Plain questions to the file."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        return self._connection.execute(query).fetchall()

    def row(self, query: str) -> tuple[Any, ...]:
        (found,) = self.rows(query)
        return found


@pytest.fixture
def sql(served: Served) -> Iterator[Sql]:
    with closing(sqlite3.connect(f"file:{served.path}?mode=ro", uri=True)) as connection:
        yield Sql(connection)


def test_ops_are_those_of_the_views(api: ApiClient, served: Served, sql: Sql) -> None:
    expected = sql.rows(
        "SELECT op_node_id, op_node_name, direction, op_node_type, gpu_time, cpu_time, num_calls, "
        "tc_eligible, using_tc, kernel_calls, is_bad_data_type, data_type, stack_trace "
        f"FROM view_op_nodes WHERE {IN_DOMAIN}"
    )
    total = sql.row(f"SELECT SUM(gpu_time) FROM view_op_nodes WHERE {IN_DOMAIN}")[0]

    names = (
        "op_id", "op_name", "direction", "op_type", "gpu_time_ns", "cpu_time_ns", "num_calls",
        "tc_eligible", "using_tc", "kernel_calls", "is_bad_data_type", "data_type", "stack_trace",
    )  # fmt: skip

    rows = api.get(served.at("ops/export/"), format="json").json["results"]

    assert sorted(tuple(row[name] for name in names) for row in rows) == sorted(expected)
    for row in rows:
        assert row["share_pct"] == pytest.approx(100 * row["gpu_time_ns"] / total)
    assert sum(row["share_pct"] for row in rows) == pytest.approx(100)


def test_top_ops_are_the_first_ten_of_the_ops(api: ApiClient, served: Served) -> None:
    top = api.get(served.at("top-ops/")).json

    ops = api.get(served.at("ops/"), ordering="-gpu_time_ns", page_size=10).json
    assert top["results"] == ops["results"]
    assert top["count"] == 10


def test_kernels_are_those_of_the_views(api: ApiClient, served: Served, sql: Sql) -> None:
    expected = sql.rows(
        "SELECT k.kernel_name, k.uses_tc, k.calls, k.gpu_time, k.avg, k.min, k.max, k.op_node_id, "
        "o.op_node_name, o.direction FROM view_kernel_summaries k JOIN view_op_nodes o "
        "ON o.aggr_id = k.aggr_id AND o.domain_name = k.domain_name "
        "AND o.op_node_id = k.op_node_id "
        "WHERE k.aggr_id = 1 AND k.domain_name = 'default-domain'"
    )
    names = (
        "kernel_name", "uses_tc", "num_calls", "gpu_time_ns", "gpu_time_avg_ns",
        "gpu_time_min_ns", "gpu_time_max_ns", "op_id", "op_name", "direction",
    )  # fmt: skip

    rows = api.get(served.at("kernels/export/"), format="json").json["results"]

    # Ours has a row for each full name, DLProf's for each short one.
    found: dict[tuple[object, ...], list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault(tuple(row[name] for name in (*names[:2], *names[-3:])), []).append(row)
    sums = [(*key[:2], *_sums_of_launches(same), *key[2:]) for key, same in found.items()]
    assert sorted(sums) == sorted(expected)
    assert sum(row["share_pct"] for row in rows) == pytest.approx(100)


def _sums_of_launches(rows: list[dict[str, Any]]) -> tuple[int, int, float, int, int]:
    calls = sum(row["num_calls"] for row in rows)
    time = sum(row["gpu_time_ns"] for row in rows)
    least = min(row["gpu_time_min_ns"] for row in rows)
    most = max(row["gpu_time_max_ns"] for row in rows)
    return calls, time, round(time / calls, 6), least, most


def test_a_top_kernel_is_summed_over_its_ops(api: ApiClient, served: Served, sql: Sql) -> None:
    view, name, time = (
        ("view_kernels_by_full_name", "long_kernel_name", "gpu_time_sum")
        if sql.rows("SELECT 1 FROM sqlite_master WHERE name = 'view_kernels_by_full_name'")
        else ("view_kernel_summaries", "kernel_name", "gpu_time")
    )
    expected = sql.rows(
        f"SELECT {name}, sum({time}), sum(calls), count(DISTINCT op_node_id) FROM {view} "
        f"WHERE {IN_DOMAIN} GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 10"
    )

    rows = api.get(served.at("top-kernels/")).json["results"]

    found = [
        (row["kernel_long_name"] or row["kernel_name"], *(row[key] for key in (
            "gpu_time_ns", "num_calls", "num_ops",
        )))
        for row in rows
    ]  # fmt: skip
    assert found == expected
    total, count = sql.row(
        f"SELECT sum({time}), count(DISTINCT {name}) FROM {view} WHERE {IN_DOMAIN}"
    )
    assert api.get(served.at("top-kernels/")).json["count"] == count
    assert rows[0]["share_pct"] == pytest.approx(100.0 * rows[0]["gpu_time_ns"] / total)


def test_kernels_of_one_op_share_its_kernel_time(api: ApiClient, served: Served, sql: Sql) -> None:
    count, time = sql.row(
        f"SELECT COUNT(*), SUM(gpu_time) FROM view_kernel_summaries WHERE {IN_DOMAIN} "
        f"AND op_node_id = '{served.op_id}'"
    )

    body = api.get(served.at("ops/{op_id}/kernels/"), page_size=200).json

    assert len({(row["kernel_name"], row["uses_tc"]) for row in body["results"]}) == count
    assert sum(row["gpu_time_ns"] for row in body["results"]) == time
    assert sum(row["share_pct"] for row in body["results"]) == pytest.approx(100)


def test_one_op_is_its_row_of_the_table(api: ApiClient, served: Served) -> None:
    (row,) = api.get(served.at("ops/"), op_id=served.op_id).json["results"]

    detail = api.get(served.at("ops/{op_id}/")).json

    assert row.items() <= detail.items()


def test_performance_summary_has_the_numbers_of_the_views(
    api: ApiClient, served: Served, sql: Sql
) -> None:
    expected = sql.row(
        "SELECT wall_clock_time, tc_utilization, gpu_utilization, total_iterations, "
        "profiled_iterations, iter_start, iter_stop, iter_avg, key_node "
        f"FROM view_performance_summary WHERE {IN_DOMAIN}"
    )
    names = (
        "wall_clock_time_ns", "tc_utilization_pct", "gpu_utilization_pct", "total_iterations",
        "profiled_iterations", "iter_start", "iter_stop", "iter_avg_ns", "key_node",
    )  # fmt: skip

    body = api.get(served.at("performance-summary/")).json

    assert tuple(body[name] for name in names) == expected


def test_resource_usage_adds_up_to_the_whole(api: ApiClient, served: Served, sql: Sql) -> None:
    expected = sql.row(
        "SELECT tc_duration_pct, non_tc_duration_pct, memory_duration_pct, dataloader_duration_pct,"
        " io_duration_pct, cpu_duration_pct, other_duration_pct "
        f"FROM view_resource_usage_breakdown WHERE {IN_DOMAIN}"
    )

    body = api.get(served.at("resource-usage/")).json

    unknown = body.pop("unknown")
    # What was not measured is unknown, not 0.
    assert set(unknown) == {name for name, value in body.items() if value is None}
    # NVIDIA's databases count graphs among the kernels, and this capture has none.
    assert not body.pop("graph_pct")
    assert not body.pop("communication_pct")
    # Neither capture has steps without profiling.
    assert {body.pop(name) for name in list(body) if name.startswith("corrected_")} == {None}
    assert body.pop("recorded_span_ns") is None
    busy, idle = body.pop("busy_pct"), body.pop("idle_pct")
    assert tuple(value or 0.0 for value in body.values()) == expected
    assert sum(expected) == pytest.approx(100, abs=1e-4)
    assert busy == pytest.approx(sum(expected[:3]), abs=1e-3)
    assert busy + idle == pytest.approx(100)


@pytest.mark.parametrize(
    ("resource", "view", "parts"),
    [
        (
            "kernel-summary",
            "view_kernel_summary",
            {"all": "total", "using_tc": "using_tc", "memory": "memory", "other": "other"},
        ),
        (
            "op-summary",
            "view_op_summary",
            {
                "all": "nodes_total",
                "using_tc": "nodes_using_tc",
                "eligible_not_using": "nodes_tc_eligible",
                "other": "nodes_other",
            },
        ),
    ],
)
def test_sums(
    api: ApiClient, served: Served, sql: Sql, resource: str, view: str, parts: dict[str, str]
) -> None:
    body = api.get(served.at(f"{resource}/")).json

    for part, stem in parts.items():
        expected = sql.row(f"SELECT {stem}_gpu_time, {stem}_count FROM {view} WHERE {IN_DOMAIN}")
        assert (body[part]["gpu_time_ns"], body[part]["count"]) == expected


def test_utilizations_are_those_of_the_views(api: ApiClient, served: Served, sql: Sql) -> None:
    (gpu,) = sql.row(
        f"SELECT gpu_utilization FROM view_domain_model_gpu_utilization WHERE {IN_DOMAIN}"
    )
    (tensor,) = sql.row(f"SELECT tc_utilization FROM view_tc_utilization WHERE {IN_DOMAIN}")

    shares = api.get(served.at("gpu-utilization/")).json
    efficiency = api.get(served.at("tensor-core-efficiency/")).json

    assert shares["using_gpu_pct"] == gpu
    assert shares["idle_gpu_pct"] == pytest.approx(100 - gpu)
    assert efficiency["tc_utilization_pct"] == efficiency["using_tc_pct"] == tensor
    assert efficiency["not_using_tc_pct"] == pytest.approx(100 - tensor)


def test_iterations_are_those_of_the_views(api: ApiClient, served: Served, sql: Sql) -> None:
    expected = sql.rows(
        "SELECT iter_value, start_time, stop_time, duration FROM view_iterations_all "
        "WHERE aggr_id = 1 ORDER BY iter_value"
    )
    profiled = sql.rows(
        "SELECT iter_value, total_kernel_count, using_tc_kernel_count, tc_duration, "
        "non_tc_duration, memory_duration, dataloader_duration, io_duration, cpu_duration, "
        f"other_duration FROM view_iterations_profiled WHERE {IN_DOMAIN} ORDER BY iter_value"
    )

    rows = api.get(served.at("iterations/export/"), format="json").json["results"]
    unknown = api.get(served.at("iterations/")).json["unknown"]

    all_names = ("iteration_index", "start_time_ns", "stop_time_ns", "duration_ns")
    assert [tuple(row[name] for name in all_names) for row in rows] == expected
    part_names = (
        "iteration_index", "total_kernel_count", "tc_kernel_count", "tc_duration_ns",
        "non_tc_duration_ns", "memory_duration_ns", "dataloader_duration_ns", "io_duration_ns",
        "cpu_duration_ns", "other_duration_ns",
    )  # fmt: skip
    inside = [row for row in rows if row["is_profiled"]]
    for row in inside:
        assert all(row[name] is None for name in part_names if name in unknown)
    known = [tuple(0 if name in unknown else row[name] for name in part_names) for row in inside]
    assert known == profiled


def test_gpu_time_of_an_iteration_is_that_of_its_kernels(
    api: ApiClient, served: Served, sql: Sql
) -> None:
    expected = sql.rows(
        "SELECT iter_value, tc_duration + non_tc_duration FROM view_iterations_profiled "
        f"WHERE {IN_DOMAIN}"
    )
    rows = api.get(served.at("iterations/"), ordering="-gpu_time_ns", page_size=200).json["results"]
    found = [(row["iteration_index"], row["gpu_time_ns"]) for row in rows]
    assert sorted(pair for pair in found if pair[1] is not None and pair in expected) == expected
    known = [time for _, time in found if time is not None]
    assert known == sorted(known, reverse=True)


def test_an_op_starts_with_its_first_instance_in_the_iteration(
    api: ApiClient, ours: Served
) -> None:
    address = ours.at("iterations/{iteration}/ops/export/")
    rows = api.get(address, format="json", ordering="op_start_ns").json["results"]
    with closing(sqlite3.connect(f"file:{ours.path}?mode=ro", uri=True)) as connection:
        expected = dict(
            connection.execute(
                "SELECT op_node_id, min(i.start_time) FROM view_op_instances AS i "
                "JOIN view_iterations_all AS a ON a.aggr_id = 1 AND a.iter_value = ? "
                "WHERE i.start_time >= a.start_time AND i.start_time < a.stop_time GROUP BY 1",
                (ours.iteration,),
            ).fetchall()
        )
    assert rows
    assert [row["op_start_ns"] for row in rows] == [expected.get(row["op_id"]) for row in rows]
    known = [row["op_start_ns"] for row in rows if row["op_start_ns"] is not None]
    assert known == sorted(known)
    assert len(known) > len(rows) / 2


def test_kernels_of_an_iteration_are_those_of_the_views(
    api: ApiClient, served: Served, sql: Sql
) -> None:
    expected = sql.rows(
        "SELECT op_node_id, kernel_name, device_id, kernel_timestamp, kernel_duration, uses_tc, "
        f"grid, block FROM view_iteration_op_kernels WHERE {IN_DOMAIN} "
        f"AND iter_value = {served.iteration}"
    )
    names = (
        "op_id", "kernel_name", "device_id", "api_start_ns", "gpu_time_ns", "uses_tc", "grid",
        "block",
    )  # fmt: skip

    address = served.at("iterations/{iteration}/kernels/export/")
    rows = api.get(address, format="json").json["results"]

    assert sorted(tuple(row[name] for name in names) for row in rows) == sorted(expected)


def test_ops_of_an_iteration_and_their_kernels_agree(api: ApiClient, served: Served) -> None:
    ops = api.get(served.at("iterations/{iteration}/ops/export/"), format="json").json
    kernels = api.get(served.at("iterations/{iteration}/kernels/export/"), format="json").json
    (op,) = [row for row in ops["results"] if row["op_id"] == served.op_id]
    launched = api.get(
        served.at("iterations/{iteration}/ops/{op_id}/kernels/export/"), format="json"
    ).json["results"]

    assert sum(row["total_kernel_count"] for row in ops["results"]) == len(kernels["results"])
    assert len(launched) == op["total_kernel_count"]
    assert sum(row["gpu_time_ns"] for row in launched) == op["gpu_time_ns"]


def test_op_types_sum_up_the_ops(api: ApiClient, served: Served) -> None:
    ops = api.get(served.at("ops/export/"), format="json").json["results"]
    types = api.get(served.at("op-types/export/"), format="json").json["results"]

    for row in types:
        members = [op for op in ops if op["op_type"] == row["op_type"]]
        assert row["num_ops"] == len(members)
        assert row["num_calls"] == sum(op["num_calls"] for op in members)
        assert row["gpu_time_ns"] == sum(op["gpu_time_ns"] for op in members)


def test_the_root_of_the_groups_holds_every_op_with_a_path(
    api: ApiClient, served: Served, sql: Sql
) -> None:
    (expected,) = sql.row(
        f"SELECT SUM(gpu_time) FROM view_op_nodes WHERE {IN_DOMAIN} AND op_node_name LIKE '/%'"
    )

    (root,) = api.get(served.at("group-ops/"), id="/").json["results"]

    assert root["gpu_time_ns"] == expected


@pytest.mark.parametrize("nothing", ["NULL", "7", "x'ff'"])
def test_advice_that_is_no_text(
    api: ApiClient, nvidia: Served, tmp_path: Path, settings: LazySettings, nothing: str
) -> None:
    copy = tmp_path / "damaged.sqlite"
    shutil.copyfile(nvidia.path, copy)
    with closing(sqlite3.connect(copy)) as connection:
        # The table's own constraints would not let it in.
        connection.executescript(
            f"""CREATE TABLE loose AS SELECT * FROM expert_systems_feedback;
            UPDATE loose SET recommendation = {nothing}, javascript_args = {nothing};
            DROP TABLE expert_systems_feedback;
            CREATE TABLE expert_systems_feedback AS SELECT * FROM loose;"""
        )
        connection.commit()
    settings.ENVIRONMENT = replace(settings.ENVIRONMENT, databases=(copy,))
    reply = api.get(replace(nvidia, path=copy).at("recommendations/"))
    assert reply.status == 200
    assert {type(row["recommendation"]) for row in reply.json["results"]} == {str}


FIRST_FINDING = (
    "SELECT advice_name, problem, gain_pct FROM view_advice WHERE aggr_id = {aggr} AND"
    " status = 'found' ORDER BY place LIMIT 1"
)


def test_the_verdict_is_the_first_finding(api: ApiClient, ours: Served) -> None:
    """Idle time of a profiled step is no reason: it may be the profiler's."""
    steady = replace(ours, aggregation=2)
    with closing(sqlite3.connect(f"file:{ours.path}?mode=ro", uri=True)) as connection:
        advice, problem, gain_pct = Sql(connection).row(FIRST_FINDING.format(aggr=2))

    verdict = api.get(steady.at("verdict/")).json

    assert verdict["limit"] == "unknown"
    assert verdict["advice"] == advice == "layout_conversions"
    assert verdict["share_pct"] == pytest.approx(gain_pct, abs=1e-2)
    assert verdict["sentence"].startswith(problem)


def test_start_up_has_no_limit(api: ApiClient, served: Served, sql: Sql) -> None:
    verdict = api.get(served.at("verdict/")).json

    assert verdict["limit"] == "unknown"
    first = sql.rows(FIRST_FINDING.format(aggr=1)) if verdict["advice"] else []
    starts = [problem for _, problem, _ in first] or ["What limits a step is unknown: "]
    assert verdict["sentence"].startswith(starts[0])


def test_recommendations_are_those_of_the_view(api: ApiClient, served: Served, sql: Sql) -> None:
    expected = sql.rows("SELECT problem, recommendation FROM view_expert_systems WHERE aggr_id = 1")

    body = api.get(served.at("recommendations/")).json

    assert [(row["problem"], row["recommendation"]) for row in body["results"]] == expected
    assert body["count"] == len(expected)


def test_the_profile_says_what_the_system_was(api: ApiClient, served: Served, sql: Sql) -> None:
    gpus, cpu, driver, framework = sql.row(
        "SELECT num_gpus, cpu_model, driver_version, framework FROM view_system_config"
    )

    body = api.get(served.profile).json

    config = body["system_config"]
    assert (config["gpu_count"], config["cpu_model"]) == (int(gpus), cpu or None)
    assert (config["driver_version"], config["framework"]) == (driver or None, framework or None)
    assert config["gpu_names"] == [name for (name,) in sql.rows("SELECT * FROM view_gpu_names")]
    assert body["domains"][0] == "default-domain"


def test_what_was_not_measured_is_unknown_with_the_reason(api: ApiClient, ours: Served) -> None:
    assert api.get(ours.profile).json["info"]["io_measured"] == "0"

    usage = api.get(ours.at("resource-usage/")).json
    iterations = api.get(ours.at("iterations/")).json

    assert (usage["io_pct"], usage["corrected_io_pct"]) == (None, None)
    assert usage["unknown"]["corrected_io_pct"] == usage["unknown"]["io_pct"]
    # No option of a profiler would change it: none is named.
    assert usage["unknown"]["io_pct"].startswith("I/O not recorded")
    assert "nsys" not in usage["unknown"]["io_pct"]
    assert iterations["unknown"]["io_duration_ns"] == usage["unknown"]["io_pct"]
    assert {row["io_duration_ns"] for row in iterations["results"]} == {None}


def test_steps_that_launch_more_than_fits_into_them_are_the_pace_of_the_cpu(
    api: ApiClient, ours: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert api.get(ours.at("verdict/")).json["pace"] is None
    with closing(sqlite3.connect(ours.path)) as connection:
        aggregation = re.search(r"/aggregations/(\d+)/", ours.at(""))
        assert aggregation is not None
        where = f"WHERE aggr_id = {aggregation[1]} AND domain_name = 'default-domain'"
        (launched,) = connection.execute(
            f"SELECT total_gpu_time FROM view_kernel_summary {where}"
        ).fetchone()
        steps, length = connection.execute(
            f"SELECT count(*), sum(duration) FROM view_iterations_profiled {where}"
        ).fetchone()
    # One GPU: the sentence comes as soon as the launched work exceeds the ratio.
    monkeypatch.setattr(verdict, "AHEAD_RATIO", 0.99 * launched / length)
    pace = api.get(ours.at("verdict/")).json["pace"]
    assert f"launched in {steps} steps takes the GPU {launched / 1e6:.1f} ms" in pace
    monkeypatch.setattr(verdict, "AHEAD_RATIO", 1.01 * launched / length)
    assert api.get(ours.at("verdict/")).json["pace"] is None
