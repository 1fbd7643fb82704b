"""A JAX loop marked with ``dlprof_nvtx.jax`` on an H200 GPU, against plain SQL over its export.

Made by ``tests/gpu/programs/jax_marks.py``: 24 steps in ranges ``step N``, a jitted ``train_step``
in domain ``Loop`` in each, and after every fourth a ``validation`` with a jitted ``evaluate``.
"""

from __future__ import annotations

import lzma
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from aggregator.dldb.import_writer import ImportResult
from aggregator.options import ImportOptions
from aggregator.pipeline import import_profile
from aggregator.profile.counters import COUNTED_STEP
from aggregator.system.progress import NullProgress

CAPTURE = Path(__file__).resolve().parents[1] / "data" / "captures" / "jax_marks.sqlite.xz"
STEPS, VALIDATIONS = 24, 6
INSIDE = """
    WITH work AS (
        SELECT correlationId, start, end, 1 AS is_kernel FROM CUPTI_ACTIVITY_KIND_KERNEL
        UNION ALL SELECT correlationId, start, end, 0 FROM CUPTI_ACTIVITY_KIND_MEMSET
    )
    SELECT coalesce(n.text, t.value) AS name, n.rowid, w.start, w.end, w.is_kernel
    FROM work AS w
    JOIN CUPTI_ACTIVITY_KIND_RUNTIME AS r ON r.correlationId = w.correlationId
    JOIN NVTX_EVENTS AS n ON n.globalTid = r.globalTid AND n.start <= r.start AND n.end >= r.end
    LEFT JOIN StringIds AS t ON t.id = n.textId
    WHERE n.domainId = {domain} ORDER BY name, n.rowid, w.start
"""


@pytest.fixture(scope="module")
def export(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked export."""
    path = tmp_path_factory.mktemp("jax") / "jax_marks.sqlite"
    path.write_bytes(lzma.decompress(CAPTURE.read_bytes()))
    return path


@pytest.fixture(scope="module")
def raw(export: Path) -> Iterator[sqlite3.Connection]:
    """The raw tables."""
    with closing(sqlite3.connect(export)) as connection:
        yield connection


def inside(raw: sqlite3.Connection, domain: int) -> dict[str, tuple[int, int, int]]:
    """Ranges of a name, kernels launched in them, and how long the GPU had one of them."""
    found: dict[str, tuple[int, int, int]] = {}
    busy_until: dict[int, int] = {}
    for name, row, start, end, is_kernel in raw.execute(INSIDE.format(domain=domain)):
        calls, kernels, time = found.get(name, (0, 0, 0))
        begun = max(start, busy_until.get(row, 0))
        found[name] = (
            calls + (row not in busy_until),
            kernels + is_kernel,
            time + max(0, end - begun),
        )
        busy_until[row] = max(end, busy_until.get(row, 0))
    return found


@pytest.fixture(scope="module")
def result(export: Path) -> ImportResult:
    """Our import of it."""
    database = export.with_name("dlprof_dldb.sqlite")
    return import_profile(ImportOptions(source=export, database=database), NullProgress())


@pytest.fixture(scope="module")
def ours(result: ImportResult) -> Iterator[sqlite3.Connection]:
    """Our database."""
    with closing(sqlite3.connect(result.database)) as connection:
        yield connection


def test_steps_are_iterations(
    result: ImportResult, ours: sqlite3.Connection, raw: sqlite3.Connection
) -> None:
    assert (result.mode, result.mode_reason) == ("jax", "JAX ranges found")
    assert result.key_node_reason.startswith("it begins every range 'jit_train_step'; ")
    by_step = inside(raw, 0)
    expected = [by_step[f"step {number}"][1] for number in range(STEPS)]
    assert (sum(expected), set(expected)) == (822, {32, 41})
    # The first op of a step ends the iteration before: its kernel is the last one there.
    query = (
        "SELECT iter_value, count(*) FROM view_kernel_launches"
        " WHERE domain_name = 'default-domain' AND aggr_id = 1 GROUP BY 1 ORDER BY 1"
    )
    found = dict(ours.execute(query).fetchall())
    assert found == {0: 1} | {row + 1: count for row, count in enumerate(expected[:-1])} | {
        STEPS: expected[-1] - 1
    }


def test_steps_that_run_the_program_twice_are_iterations_all_the_same(
    export: Path, tmp_path: Path
) -> None:
    # GIVEN the capture with two of its steps in each range, as gradients are accumulated
    source = tmp_path / "accumulated.sqlite"
    source.write_bytes(export.read_bytes())
    with closing(sqlite3.connect(source)) as connection:
        query = "SELECT id FROM StringIds WHERE value = ?"
        texts = [connection.execute(query, (f"step {n}",)).fetchone()[0] for n in range(STEPS)]
        for first, second in zip(texts[::2], texts[1::2], strict=True):
            connection.execute(
                "UPDATE NVTX_EVENTS SET end = (SELECT end FROM NVTX_EVENTS WHERE textId = ?)"
                " WHERE textId = ?",
                (second, first),
            )
            connection.execute("DELETE FROM NVTX_EVENTS WHERE textId = ?", (second,))
        connection.commit()
        by_step = inside(connection, 0)
    # WHEN it is imported
    database = tmp_path / "dlprof_dldb.sqlite"
    result = import_profile(ImportOptions(source=source, database=database), NullProgress())
    # THEN the user's ranges mark the iterations, each with the kernels launched in it
    assert result.key_node == "step #"
    assert result.key_node_reason.startswith("numbered ranges mark the iterations; ")
    with closing(sqlite3.connect(database)) as connection:
        query = (
            "SELECT iter_value, count(*) FROM view_kernel_launches"
            " WHERE domain_name = 'default-domain' AND aggr_id = 1 GROUP BY 1"
        )
        found = dict(connection.execute(query).fetchall())
    assert found == {step // 2: by_step[f"step {step}"][1] for step in range(0, STEPS, 2)}
    assert sum(found.values()) == 822


@pytest.mark.parametrize(
    ("name", "is_step"),
    [
        ("step #", True),
        ("Iteration #", True),
        ("train_step_#", True),
        ("train#step_num=##", True),
        ("epoch # batch #", True),
        ("layer #", False),
        ("Dense #", False),
        ("timestep#", False),
        ("step", False),
    ],
)
def test_ranges_of_steps_are_recognized_by_their_names(name: str, is_step: bool) -> None:
    assert bool(COUNTED_STEP.search(name)) == is_step


def test_ops_of_the_users_domain_hold_what_their_ranges_cover(
    ours: sqlite3.Connection, raw: sqlite3.Connection
) -> None:
    (domain,) = raw.execute(
        "SELECT domainId FROM NVTX_EVENTS WHERE eventType = 75 AND text = 'Loop'"
    ).fetchone()
    expected = inside(raw, domain)
    query = (
        "SELECT op_node_type, num_calls, kernel_calls, gpu_time_sum FROM view_op_metrics"
        " WHERE domain_name = 'Loop' AND aggr_id = 1"
    )
    found = {name: tuple(values) for name, *values in ours.execute(query)}
    assert found["train_step"] == expected["train_step"]
    assert found["train_step"][0] == STEPS
    assert found["evaluate"] == expected["evaluate"]
    # What evaluate launches is evaluate's, not validation's around it.
    assert found["validation"] == (VALIDATIONS, 0, 0)


def test_named_scopes_are_in_the_names_of_ops(ours: sqlite3.Connection) -> None:
    query = "SELECT op_node_name, num_calls, kernel_calls FROM view_op_metrics WHERE aggr_id = 1"
    ops = {name: values for name, *values in ours.execute(query)}
    product = "/jit_train_step/jvp(loss)/layer_1/dot_general/custom-call.1"
    assert ops[product] == [STEPS, STEPS]
    assert any(name.startswith("/jit_evaluate/layer_2/") for name in ops)


def test_every_kernel_has_an_op(ours: sqlite3.Connection, raw: sqlite3.Connection) -> None:
    total = raw.execute("SELECT sum(end - start) FROM CUPTI_ACTIVITY_KIND_KERNEL").fetchone()[0]
    query = (
        "SELECT sum(kernel_duration) FROM view_kernel_launches"
        " WHERE domain_name = 'default-domain' AND op_node_name LIKE '/jit_%' AND aggr_id = 1"
    )
    assert ours.execute(query).fetchone()[0] == total


def test_steps_in_cuda_graphs_are_iterations_and_no_type_is_blamed(tmp_path: Path) -> None:
    # GIVEN the program as XLA runs it by default: each step one CUDA graph, recorded as a whole
    export = tmp_path / "jax_graphs.sqlite"
    packed = CAPTURE.with_name("jax_graphs.sqlite.xz").read_bytes()
    export.write_bytes(lzma.decompress(packed))
    database = tmp_path / "dlprof_dldb.sqlite"
    result = import_profile(ImportOptions(source=export, database=database), NullProgress())
    # THEN the steps are found, and every graph in its range
    assert len(result.iteration_stops_ns) == STEPS + 1
    with closing(sqlite3.connect(database)) as connection:
        query = (
            "SELECT op_node_name, num_calls, gpu_time_sum > 0 FROM view_op_metrics"
            " WHERE domain_name = 'Loop' AND op_node_type IN ('train_step', 'evaluate')"
            " AND aggr_id = 1 ORDER BY 1"
        )
        found = connection.execute(query).fetchall()
        assert found == [("/train_step", STEPS, 1), ("/validation/evaluate", VALIDATIONS, 1)]
        # All GPU work of the steps was launched by the two functions in the user's domain.
        query = (
            "SELECT domain_name, gpu_utilization, non_tc_duration_pct FROM view_model_summary"
            " WHERE aggr_id = 1 ORDER BY 1"
        )
        loop, everything = connection.execute(query).fetchall()
        assert (loop[0], loop[1:]) == ("Loop", everything[1:])
        assert loop[1] > 0
        warnings = dict(connection.execute("SELECT code, count FROM view_warnings"))
        assert warnings["GRAPHS_WITHOUT_KERNELS"] == STEPS + VALIDATIONS
        # Products inside the graphs may well use Tensor Cores: nothing says that they do not.
        (advice,) = connection.execute(
            "SELECT count(*) FROM view_expert_systems WHERE problem LIKE '%FP16%'"
        ).fetchone()
        assert advice == 0
