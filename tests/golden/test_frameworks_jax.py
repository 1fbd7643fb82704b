"""JAX mode on a real capture, against plain SQL over the export."""

from __future__ import annotations

import re
import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.builders import HERE, Database

ProfileFactory = Callable[[str], Path]
Totals = dict[tuple[str, str], tuple[int, int]]

STEP = "XlaModule:#hlo_module=jit_step,program_id=189170#"
RUNS, KERNELS = 20, 26
"""Runs of the training step, and kernels outside graphs in each."""
NOISE = ("RedzoneAllocatorKernelImpl", "DelayKernel", "xla_fp_comparison", "xla_int_comparison")

# One row per kernel with the call that launched it, and one per range of the domain TSL.
VIEWS = """
    CREATE TEMP TABLE tsl AS
        SELECT coalesce(n.text, s.value) AS text, n.start, n.end, n.globalTid AS tid
        FROM NVTX_EVENTS AS n LEFT JOIN StringIds AS s ON s.id = n.textId WHERE n.eventType = 59;
    CREATE TEMP TABLE modules AS SELECT * FROM tsl WHERE text LIKE 'XlaModule:#%';
    CREATE TEMP TABLE thunks AS SELECT * FROM tsl WHERE text LIKE 'Thunk:#%';
    CREATE TEMP TABLE compilations AS SELECT * FROM tsl WHERE text LIKE 'XlaCompile:#%';
    CREATE INDEX temp.modules_by_thread ON modules (tid, start);
    CREATE INDEX temp.thunks_by_thread ON thunks (tid, start);
    CREATE TEMP TABLE work (kind, name, duration, tid, call_start, call_end, gpu_start);
    {kinds}
"""
KIND = """
    INSERT INTO work
        SELECT '{kind}', {name}, w.end - w.start, r.globalTid, r.start, r.end, w.start
        FROM CUPTI_ACTIVITY_KIND_{kind} AS w JOIN CUPTI_ACTIVITY_KIND_RUNTIME AS r
            ON r.correlationId = w.correlationId AND r.globalTid >> 24 = w.globalPid >> 24;
"""
SHORT_NAME = "(SELECT value FROM StringIds WHERE id = w.shortName)"
INSIDE = "t.tid = w.tid AND t.start <= w.call_start AND t.end >= w.call_end"


@pytest.fixture(scope="module")
def export(profile: ProfileFactory) -> Iterator[sqlite3.Connection]:
    """The raw tables, joined for the questions below."""
    kinds = "".join(
        KIND.format(kind=kind, name=SHORT_NAME if kind == "KERNEL" else "NULL")
        for kind in ("KERNEL", "MEMCPY", "MEMSET")
    )
    uri = f"file:{profile('jax_cnn_bf16')}?mode=ro&immutable=1"
    with closing(sqlite3.connect(uri, uri=True)) as connection:
        connection.executescript(VIEWS.format(kinds=kinds))
        yield connection


@pytest.fixture(scope="module")
def jax(imported: ProfileFactory, tmp_path_factory: pytest.TempPathFactory) -> Database:
    """A database of the same capture."""
    database = tmp_path_factory.mktemp("jax") / "db.sqlite"
    return Database(shutil.copyfile(imported("jax_cnn_bf16"), database))


def innermost(export: sqlite3.Connection, table: str) -> list[tuple[str | None, int, int]]:
    """Innermost range of a kind around each kernel's call, the kernel's start and duration."""
    return export.execute(
        f"SELECT (SELECT t.text FROM {table} AS t WHERE {INSIDE} ORDER BY t.start DESC LIMIT 1),"
        " w.gpu_start, w.duration"
        " FROM work AS w WHERE w.kind = 'KERNEL' ORDER BY w.gpu_start, w.rowid"
    ).fetchall()


def while_compiling(export: sqlite3.Connection, kind: str) -> list[tuple[str, int]]:
    """Name and duration of the work that was launched while a program was being compiled."""
    return export.execute(
        "SELECT w.name, w.duration FROM work AS w WHERE w.kind = ? AND EXISTS (SELECT 1 FROM"
        " compilations AS t WHERE t.start <= w.call_start AND t.end > w.call_start)",
        (kind,),
    ).fetchall()


def module_of(text: str | None) -> str:
    """Name of a user's program; the autotuner's modules have no program id."""
    match = re.search(r"hlo_module=([^,#]+)(,program_id=\d+)?#", text or "")
    return "" if match is None else match[1] if match[2] else "autotuning"


def hlo_op_of(text: str | None) -> str:
    match = re.search(r"hlo_op=([^,#]+)", text or "")
    return match[1] if match else ""


def added_up(rows: list[tuple[tuple[str, str], int]]) -> Totals:
    """(count, time) per key."""
    counts: Counter[tuple[str, str]] = Counter()
    times: Counter[tuple[str, str]] = Counter()
    for key, duration in rows:
        counts[key] += 1
        times[key] += duration
    return {key: (counts[key], times[key]) for key in counts}


def launches(found: Database) -> list[tuple[str, str, int, int, int]]:
    """(op name, kernel, GPU start, duration, iteration) of every kernel."""
    sql = (
        "SELECT op_node_name, kernel_name, kernel_timestamp, kernel_duration, iter_value"
        f" FROM view_kernel_launches {HERE} ORDER BY kernel_timestamp"
    )
    return found.query(sql, 1)


def top_group(op_name: str) -> str:
    return op_name.split("/")[1] if op_name.startswith("/") else ""


def test_jax_ranges_choose_the_mode(jax: Database) -> None:
    info = dict(jax.query("SELECT key, value FROM view_profile_info"))
    assert (info["mode"], info["mode_reason"]) == ("jax", "JAX ranges found")
    assert "UNVERIFIED_MODE" not in jax.warnings()


def test_every_program_has_its_kernels(jax: Database, export: sqlite3.Connection) -> None:
    expected = added_up(
        [((module_of(text), ""), time) for text, _, time in innermost(export, "modules")]
    )
    del expected["", ""]
    outside = added_up([((top_group(op), ""), time) for op, _, _, time, _ in launches(jax)])
    programs = {key: total for key, total in outside.items() if key[0] not in ("", "autotuning")}
    assert programs == {key: v for key, v in expected.items() if key[0] != "autotuning"}
    assert programs["jit_step", ""][0] == KERNELS * RUNS


def test_every_hlo_op_has_its_kernels(jax: Database, export: sqlite3.Connection) -> None:
    modules, thunks = innermost(export, "modules"), innermost(export, "thunks")
    expected = added_up(
        [
            ((module_of(module[0]), hlo_op_of(thunk[0])), thunk[2])
            for module, thunk in zip(modules, thunks, strict=True)
            if thunk[0] is not None
        ]
    )
    ours = added_up(
        [
            ((top_group(op), op.rpartition("/")[2]), time)
            for op, _, _, time, _ in launches(jax)
            if op.count("/") > 1
        ]
    )
    assert ours == expected
    assert len(expected) > 60


def test_what_the_autotuner_launched_is_one_group(
    jax: Database, export: sqlite3.Connection
) -> None:
    compiling = while_compiling(export, "KERNEL")
    ours = [row for row in launches(jax) if top_group(row[0]) == "autotuning"]
    assert len(ours) == len(compiling) == 12801
    assert sum(row[3] for row in ours) == sum(time for _, time in compiling)
    assert Counter(row[1] for row in ours) == Counter(name for name, _ in compiling)
    total = sum(time for _, _, time in innermost(export, "modules"))
    assert 0.99 < sum(row[3] for row in ours) / total < 1


def test_noise_lies_in_the_group_of_autotuning(jax: Database) -> None:
    noise = [row for row in launches(jax) if row[1] in NOISE]
    assert len(noise) > 8900
    assert {top_group(row[0]) for row in noise} == {"autotuning"}
    assert {row[4] for row in noise} == {0}


@pytest.mark.parametrize(("kind", "view_kind"), [("MEMCPY", "memcpy"), ("MEMSET", "memset")])
def test_its_copies_and_sets_too(
    jax: Database, export: sqlite3.Connection, kind: str, view_kind: str
) -> None:
    helpers = {tid for (tid,) in export.execute("SELECT DISTINCT tid FROM tsl")}
    expected = export.execute(
        "SELECT w.tid, count(*) FROM work AS w WHERE w.kind = ? AND EXISTS (SELECT 1 FROM"
        " compilations AS t WHERE t.start <= w.call_start AND t.end > w.call_start)"
        " GROUP BY w.tid",
        (kind,),
    ).fetchall()
    ops = {op for op, name in jax.op_ids().items() if top_group(name) == "autotuning"}
    rows = jax.query("SELECT op_node_id FROM view_memory_ops WHERE kind = ?", view_kind)
    ours = sum(op in ops for (op,) in rows)
    assert ours == sum(count for tid, count in expected if tid in helpers) > 300


def test_the_transfer_threads_stay_unassociated(jax: Database, export: sqlite3.Connection) -> None:
    """The runtime's own threads carry no range: their copies belong to no op, compiling or not."""
    expected = export.execute(
        "SELECT count(*) FROM work WHERE kind = 'MEMCPY' AND tid NOT IN (SELECT tid FROM tsl)"
    ).fetchone()[0]
    names = jax.op_ids()
    rows = jax.query("SELECT op_node_id FROM view_memory_ops WHERE kind = 'memcpy'")
    ours = sum(names[op].startswith("unassociated_") for (op,) in rows)
    assert ours == expected > 0


def test_an_op_begins_every_run(jax: Database) -> None:
    info = dict(jax.query("SELECT key, value FROM view_profile_info"))
    assert info["key_node"] == "/jit_step/loop_select_subtract_fusion"
    assert info["key_node_reason"].startswith("it begins every range 'jit_step'; confidence ")
    assert len(jax.iterations()) == RUNS + 1


def test_steps_hold_exactly_the_kernels_of_their_run(
    jax: Database, export: sqlite3.Connection
) -> None:
    runs = export.execute(
        "SELECT (SELECT count(*) FROM modules AS e WHERE e.text = t.text AND e.start <= t.start),"
        f" w.gpu_start FROM work AS w JOIN modules AS t ON t.text = ? AND {INSIDE}"
        " WHERE w.kind = 'KERNEL' ORDER BY w.gpu_start",
        (STEP,),
    ).fetchall()
    ours = [
        (iteration, start)
        for op, _, start, _, iteration in launches(jax)
        if op.startswith("/jit_step/")
    ]
    assert sorted(ours) == sorted(runs)
    assert Counter(run for run, _ in runs) == dict.fromkeys(range(1, RUNS + 1), KERNELS)
    others = {row[0] for row in launches(jax) if row[4] > 0 and not row[0].startswith("/jit_step/")}
    assert others == set()


def test_the_program_itself_can_be_the_key_node(jax: Database) -> None:
    again = jax.aggregate(key_node="jit_step")
    stops = [stop for _, stop in jax.iterations(again.aggr_id)]
    assert len(stops) == RUNS + 1
    sql = f"SELECT count(*) FROM view_kernel_launches {HERE} AND iter_value = 0"
    steps = jax.query(f"{sql} AND op_node_name LIKE '/jit_step/%'", again.aggr_id)
    assert steps == [(KERNELS,)], "interval 0 ends with the first run"


def test_an_op_runs_once_per_step_whether_recorded_or_updated(jax: Database) -> None:
    """The first run records CUDA graphs, the later ones update them inside a thunk of their own."""
    calls = {name: count for (name, _), count in jax.ops().items() if name.startswith("/jit_step/")}
    assert set(calls.values()) == {RUNS}
    assert len(calls) == 55


def test_graphs_belong_to_their_command_buffers(jax: Database, export: sqlite3.Connection) -> None:
    expected = export.execute("SELECT sum(end - start) FROM CUPTI_ACTIVITY_KIND_GRAPH_TRACE")
    ours = jax.query(
        f"SELECT sum(gpu_time_sum), sum(num_calls) FROM view_op_metrics {HERE}"
        " AND op_node_type = 'command_buffer'",
        1,
    )
    assert ours == [(expected.fetchone()[0], 3 * RUNS)]


def test_names_follow_the_model(jax: Database) -> None:
    names = set(jax.op_ids().values())
    conv = "/jit_step/jvp(Net)/Conv_0/conv_general_dilated/cudnn-conv-bias-activation.9"
    assert conv in names
    assert "/jit_step/transpose(jvp(Net))/Dense_1/gemm_fusion_dot_general.9" in names
    groups = {name for (name,) in jax.query(f"SELECT group_name FROM view_group_metrics {HERE}", 1)}
    assert {"/jit_step/", "/jit_step/jvp(Net)/Conv_0/", "/autotuning/"} <= groups


def test_types_have_no_number_and_decide_eligibility(jax: Database) -> None:
    rows: list[tuple[Any, ...]] = jax.query(
        f"SELECT op_node_name, op_node_type, tc_eligible, direction FROM view_op_metrics {HERE}",
        1,
    )
    types = {kind for name, kind, _, _ in rows if name.startswith("/jit_step/")}
    assert {"cudnn-conv-bw-filter", "gemm_fusion_dot", "wrapped_convert"} <= types
    assert not [kind for kind in types if re.search(r"\d", kind)]
    eligible = {kind for name, kind, can_use, _ in rows if can_use}
    assert eligible == {
        kind for kind in types | {"cudnn-conv"} if re.search("conv-|conv$|dot", kind)
    }
    assert not [name for name, _, can_use, _ in rows if can_use and top_group(name) == "autotuning"]
    assert {direction or "" for _, _, _, direction in rows} == {""}
