"""Custom NVTX domains, annotations, whole graphs and communication on real captures."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator
from importlib import resources
from pathlib import Path

import pytest

from tests.builders import query
from tests.conftest import ProfileFactory

Profiles = Callable[[str], Path]


@pytest.fixture(scope="module")
def domains(imported: ProfileFactory) -> Path:
    """A database of the capture with the domains Loop, Forward and Gradient."""
    return imported("nvtx_domains")


@pytest.fixture(scope="module")
def ddp(imported: ProfileFactory) -> Path:
    """A database of the capture of two ranks."""
    return imported("ddp2_resnet50_amp")


@pytest.fixture
def export(profile: Profiles) -> Iterator[sqlite3.Connection]:
    """The raw tables of the capture with domains."""
    path = profile("nvtx_domains")
    connection = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
    yield connection
    connection.close()


COVERED = """
    SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL AS k
    JOIN CUPTI_ACTIVITY_KIND_RUNTIME AS r
      ON r.correlationId = k.correlationId AND r.globalTid >> 24 = k.globalPid >> 24
    WHERE EXISTS (
        SELECT 1 FROM NVTX_EVENTS AS n JOIN StringIds AS s ON s.id = n.textId
        WHERE n.eventType = 59 AND s.value = ? AND n.start <= r.start AND r.start < n.end {same})
"""


def test_work_of_other_threads_counts_by_time(domains: Path, export: sqlite3.Connection) -> None:
    sql = (
        "SELECT kernel_calls_by_thread, kernel_calls_by_time FROM view_domain_ops"
        " WHERE domain_name = 'Gradient'"
    )
    by_time = export.execute(COVERED.format(same=""), ("backward",)).fetchone()[0]
    assert query(domains, sql) == [(15, by_time)] == [(15, 330)]


def test_categories_payloads_marks_and_thread_names_are_kept(domains: Path) -> None:
    sql = "SELECT range_name, category, payload FROM view_annotations ORDER BY row_id"
    assert query(domains, sql) == [("forward", "pass", str(step)) for step in range(15)]
    sql = "SELECT DISTINCT domain_name, mark_name FROM view_marks"
    assert query(domains, sql) == [("Loop", "end of step")]
    assert query(domains, "SELECT count(*) FROM view_marks") == [(15,)]
    names = {name for (name,) in query(domains, "SELECT thread_name FROM view_threads")}
    assert "pt_autograd_0" in names


def test_nccl_is_communication_and_no_domain_of_the_user(ddp: Path, profile: Profiles) -> None:
    assert query(ddp, "SELECT domain_name FROM view_domains") == [("default-domain",)]
    path = profile("ddp2_resnet50_amp")
    with sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True) as export:
        sql = (
            "SELECT sum(k.end - k.start) / 2.0 FROM CUPTI_ACTIVITY_KIND_KERNEL AS k"
            " JOIN StringIds AS s ON s.id = k.shortName WHERE s.value LIKE 'nccl%'"
        )
        mean_per_gpu = export.execute(sql).fetchone()[0]
    sql = (
        "SELECT sum(communication_duration), sum(exposed_communication_duration)"
        " FROM view_iterations_detail WHERE aggr_id = 1"
    )
    ((total, exposed),) = query(ddp, sql)
    # One nanosecond per interval may be lost to rounding the mean of two GPUs; kernels of one
    # communicator do not overlap.
    assert abs(total - mean_per_gpu) <= 13
    assert 0 < exposed <= total


def test_whole_graphs_keep_their_op(profile: ProfileFactory, imported: ProfileFactory) -> None:
    database = imported("jax_cnn_bf16")
    path = profile("jax_cnn_bf16")
    with sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True) as export:
        sql = "SELECT count(*), sum(end - start) FROM CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
        count, duration = export.execute(sql).fetchone()
    sql = "SELECT count(*), sum(duration) FROM view_graph_launches"
    assert query(database, sql) == [(count, duration)]
    sql = "SELECT count(*) FROM view_graph_launches WHERE op_node_name LIKE '/jit_step/%'"
    assert query(database, sql) == [(count,)]


def test_the_views_of_domains_begin_as_the_plain_ones() -> None:
    plain, both = (
        resources.files("aggregator.dldb").joinpath(name).read_text()
        for name in ("views.sql", "domain_views.sql")
    )
    views = re.findall(r"CREATE VIEW (\w+) AS\n(.*?);\n", both, re.DOTALL)
    assert len(views) == 3
    for name, body in views:
        original = re.search(rf"CREATE VIEW {name} AS\n(.*?);\n", plain, re.DOTALL)
        assert original is not None
        assert body.startswith(f"{original[1]}\nUNION ALL\n")
