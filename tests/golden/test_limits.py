"""Limits of captures: each is found with the right count, and makes its figures bounds."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import pytest

import aggregator.advice as advisers
from aggregator.advice.finding import Certainty, Finding, Proof, Unknown
from aggregator.compare.captures import read_capture
from aggregator.compare.limits import limits
from aggregator.correlate.work import launching_calls
from aggregator.importing.limits import find_limits
from aggregator.importing.repairs import repair_order
from aggregator.options import ImportOptions
from aggregator.pipeline import import_profile
from aggregator.profile.limits import LIMITS, OF_WARNING, LimitCode
from aggregator.profile.profile import ProfileWarning
from aggregator.sources import open_profile
from aggregator.system.progress import NullProgress
from aggregator.tables.aggregation_data import AggregationData
from aggregator.tables.connection import opened
from aggregator.tables.declared.addresses import OBJECTS
from aggregator.tables.declared.summaries import KERNEL_SUMMARY, RESOURCE_USAGE
from aggregator.tables.first_screen import read_first_screen
from aggregator.tables.limits import Limits, read_limits
from aggregator.texts import say
from profiler_cli.assistants.profiles import Profiles, name_profiles
from profiler_cli.assistants.queries import summarize
from profiler_cli.dlprof import main
from tests.builders import Trace, one_gpu, query, unpacked
from tests.conftest import ProfileFactory
from tests.golden.loop_traces import Loop
from tests.golden.test_steps import CASES

if TYPE_CHECKING:
    from aggregator.advice.facts import Facts


class Limited(NamedTuple):
    """Facts of which only the limits matter."""

    limits: set[LimitCode]


Change = Callable[[Loop], int]
"""Damages a trace; returns how many events are concerned."""


def _loop(steps: int = 10) -> Loop:
    loop = Loop()
    for _ in range(steps):
        start = loop.now
        loop.fetch()
        loop.step()
        loop.annotation(f"ProfilerStep#{start:.0f}", start)
        loop.wait()
    return loop


def _kernels(loop: Loop) -> list[dict[str, Any]]:
    return [event for event in loop.events if event["cat"] == "kernel"]


def _drop_the_first(loop: Loop) -> int:
    dropped = _kernels(loop)[:15]
    loop.events = [event for event in loop.events if event not in dropped]
    return len(dropped)


def _capture_a_graph(loop: Loop) -> int:
    """Launches while a graph is captured have no kernel of their own."""
    kernels = _kernels(loop)
    first = next(event for event in loop.events if event["cat"] == "cuda_runtime")
    last = [event for event in loop.events if event["name"] == "cudaLaunchKernel"][4]
    loop.add("cuda_runtime", "cudaStreamEndCapture", first["ts"] - 9, 1)
    loop.add("cuda_runtime", "cudaStreamBeginCapture", first["ts"] - 3, 1)
    loop.add("cuda_runtime", "cudaStreamEndCapture", last["ts"] + 5, 1)
    loop.events = [event for event in loop.events if event not in kernels[:5]]
    return 0


def _repeat(loop: Loop) -> int:
    copies = [json.loads(json.dumps(event)) for event in _kernels(loop)[3:20]]
    loop.events += copies
    return len(copies)


def _repeat_the_file(loop: Loop) -> int:
    copies = [json.loads(json.dumps(event)) for event in loop.events]
    loop.events += copies
    return sum(event["cat"] in ("kernel", "cuda_runtime") for event in copies)


def _stretch(loop: Loop) -> int:
    _kernels(loop)[7]["dur"] = 1e6
    return 1


def _set_a_time(loop: Loop) -> int:
    _kernels(loop)[4]["ts"] += 1e12
    return 1


def _reset_a_time(loop: Loop) -> int:
    for event in loop.events:
        event["ts"] += 1.7e15
    _kernels(loop)[4]["ts"] = 0
    return 1


def _shift(loop: Loop) -> int:
    """The clock of the second GPU is behind; the first has the work of other calls."""
    count = 0
    for kernel in _kernels(loop):
        if kernel["args"]["correlation"] % 2:
            kernel["ts"] -= 400
            kernel["args"] |= {"device": 1, "stream": 8}
            call = next(
                event
                for event in loop.events
                if event["cat"] == "cuda_runtime"
                and event["args"].get("correlation") == kernel["args"]["correlation"]
            )
            count += kernel["ts"] < call["ts"]
    return count


def _wait_for(loop: Loop, record: int | None, at: float) -> int:
    """A stream waits for an event, or for one that no call records."""
    start = loop.now
    loop.add("cuda_runtime", "cudaEventRecord", start + at, 2, correlation=9_001)
    loop.add("cuda_runtime", "cudaStreamWaitEvent", start + 10, 2, correlation=9_002)
    args = {"correlation": 9_002, "cuda_sync_kind": "Stream Wait Event", "device": 0, "stream": 7}
    if record is not None:
        args["wait_on_cuda_event_record_corr_id"] = record
    loop.add("cuda_sync", "Stream Wait Event", start + 11, 1, **args)
    return 1


def _end_a_wait_early(loop: Loop) -> int:
    launched = [event for event in loop.events if event["name"] == "cudaLaunchKernel"][-1]
    _kernels(loop)[-1]["dur"] += 3_000
    start = launched["ts"] + 4.5
    loop.add("cuda_runtime", "cudaStreamSynchronize", start, 50, correlation=9_003)
    args = {"correlation": 9_003, "cuda_sync_kind": "Stream Sync", "device": 0, "stream": 7}
    loop.add("cuda_sync", "Stream Sync", start, 50, **args)
    return 1


def _replay(loop: Loop, kernels: int) -> None:
    loop.launches += 1
    correlation = loop.launches
    loop.add("cuda_runtime", "cudaGraphLaunch", loop.now, 10, correlation=correlation)
    for number in range(kernels):
        where = {"device": 0, "stream": 7, "correlation": correlation}
        times = {"ts": loop.now + 20 + 10 * number, "dur": 8}
        event = {"ph": "X", "cat": "kernel", "name": f"k{number}", "pid": 0, "tid": 7}
        loop.events.append({**event, **times, "args": where})
    loop.now += 300


def _lose_replays(loop: Loop) -> int:
    for number in range(10):
        _replay(loop, {3: 0, 7: 2}.get(number, 6))
    return 2


CHANGES: list[tuple[Change, str | None]] = [
    (_drop_the_first, "missing_work"),
    (_capture_a_graph, None),
    (_repeat, "repeated_rows"),
    (_repeat_the_file, "repeated_rows"),
    (_stretch, "overlap_in_stream"),
    (_set_a_time, "broken_times"),
    (_reset_a_time, "broken_times"),
    (_shift, "clock_order"),
    (lambda loop: _wait_for(loop, 9_001, at=0) * 0, None),
    (lambda loop: _wait_for(loop, None, at=0), "wait_ids"),
    (lambda loop: _wait_for(loop, 77_777, at=0), "waits_without_events"),
    (lambda loop: _wait_for(loop, 9_001, at=20), "future_records"),
    (_end_a_wait_early, "sync_over_running"),
    (_lose_replays, "partial_replays"),
]


def _imported(source: Path) -> Path:
    path = source.with_suffix(".dldb.sqlite")
    import_profile(ImportOptions(source, path), NullProgress())
    return path


def _data(path: Path) -> Iterator[AggregationData]:
    with opened(path, time_limit_s=60) as database:
        yield AggregationData(database, {"aggr_id": 1, "domain": "default-domain"})


def _read(path: Path) -> Limits:
    (data,) = [read_limits(data) for data in _data(path)]
    return data


@pytest.mark.parametrize(("change", "code"), CHANGES)
def test_each_kind_of_damage_is_found_with_its_count(
    tmp_path: Path, change: Change, code: str | None
) -> None:
    loop = _loop()
    expected = change(loop)
    found = _read(_imported(loop.write(tmp_path / "trace.json")))
    faults = [(limit.code, limit.count) for limit in found.limits if limit.is_fault]
    assert faults == ([] if code is None else [(code, expected)])
    for limit in found.limits:
        assert limit.share_pct is None or 0 < limit.share_pct <= 100
        assert all((limit.recommendation, limit.effect, limit.title))


def test_lost_kernels_make_their_figures_bounds_and_leave_the_others(tmp_path: Path) -> None:
    loop = _loop()
    _drop_the_first(loop)
    path = _imported(loop.write(tmp_path / "trace.json"))
    bounds = {name: bound.bound for name, bound in _read(path).bounds.items()}
    assert bounds == {
        **dict.fromkeys(("gpu_busy", "gpu_time", "kernels", "flops", "steps"), "at_least"),
        **dict.fromkeys(("gpu_idle", "step"), "at_most"),
        **dict.fromkeys(("tensor_cores", "critical_path", "rank_waiting"), "unknown"),
    }
    with Profiles(name_profiles([(path, path)]), "").scope(None, 1) as scope:
        answer = summarize(scope)
    assert answer["bounds"] == bounds
    assert answer["limits"][0]["code"] == "missing_work"
    (screen,) = [read_first_screen(data) for data in _data(path)]
    (limit,) = screen["limits"]
    assert limit["code"] == "missing_work"
    assert "15 (30.0 %) launches of kernels" in limit["text"]
    assert "gpu_idle" in limit["figures"]
    assert screen["bounds"] == bounds
    assert "limit of the capture: Launches without work" in screen["verdict"]["text"]


def test_the_terminal_marks_each_figure_that_lost_kernels_touch(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, damaged = _loop(), _loop()
    _drop_the_first(damaged)
    shown = []
    for loop, name in ((whole, "whole"), (damaged, "damaged")):
        path = _imported(loop.write(tmp_path / f"{name}.json"))
        for words in (["show"], ["whatif"], ["whatif", "--no-sync"]):
            capsys.readouterr()
            assert main([words[0], str(path), *words[1:]]) == 0
            shown.append(capsys.readouterr().out)
    for text in shown[:3]:
        assert "unknown, by the records" not in text
        assert "of the run" not in text.lower()
    show, what_if, changed = shown[3:]
    assert "GPU busy at least" in show
    assert re.search(r"^  Idle: .+ <= ", show, re.MULTILINE)
    assert "Loop: at least" in show
    assert "per step (at least)" in show
    assert "confidence: low\n  Of the run, the critical path and predictions are unknown" in what_if
    assert "critical path as recorded (of the run: unknown)" in what_if
    assert "with the changes: unknown, by the records " in changed


def _figures(path: Path) -> dict[str, Any]:
    """All fields of all objects."""
    found: dict[str, Any] = {}
    for data in _data(path):
        for spec in OBJECTS.values():
            values = data.read_object(spec)
            for field in spec.fields:
                value = values
                for part in field.name.split("."):
                    value = value[part]
                found[f"{spec.name}.{field.name}"] = value
    return found


@pytest.mark.parametrize("change", [_drop_the_first, _stretch])
def test_figures_that_no_limit_touches_are_the_same(tmp_path: Path, change: Change) -> None:
    whole, damaged = _loop(), _loop()
    change(damaged)
    before = _figures(_imported(whole.write(tmp_path / "whole.json")))
    path = _imported(damaged.write(tmp_path / "damaged.json"))
    after = _figures(path)
    touched = {field for bound in _read(path).bounds.values() for field in bound.fields}
    # Reasons are sentences about how sure it is.
    reasons = {"performance-summary.key_node_reason", "performance-summary.steady_note"}
    assert {name for name in before if before[name] != after[name]} <= touched | reasons


def test_broken_and_missing_kernels_are_counted_apart(tmp_path: Path) -> None:
    loop = _loop()
    _drop_the_first(loop)
    for kernel in _kernels(loop)[20:24]:
        kernel["dur"] = None
    found = _read(_imported(loop.write(tmp_path / "trace.json")))
    faults = {str(limit.code): limit.count for limit in found.limits if limit.is_fault}
    assert faults == {"missing_work": 15, "broken_times": 4}


def test_steps_that_lack_kernels_are_not_steady(tmp_path: Path) -> None:
    first = []
    for lost in (0, 4):
        loop = Loop()
        for _ in range(16):
            start = loop.now
            loop.fetch()
            for _ in range(5):
                loop.step()
            loop.annotation(f"ProfilerStep#{start:.0f}", start)
            loop.wait()
        # One of the 25 kernels of each of the first steps, which is less than steps may differ.
        dropped = _kernels(loop)[3 : 25 * lost : 25]
        loop.events = [event for event in loop.events if event not in dropped]
        path = _imported(loop.write(tmp_path / f"{lost}.json"))
        sql = "SELECT iter_start FROM view_aggregations WHERE aggr_id = 2"
        first.append(query(path, sql)[0][0])
    assert first[1] == first[0] + 4


@pytest.mark.parametrize("change", [_repeat, _repeat_the_file])
def test_repeated_rows_change_no_figure(tmp_path: Path, change: Change) -> None:
    shown = []
    for name in ("once.json", "twice.json"):
        loop = _loop()
        if name == "twice.json":
            change(loop)
        (found,) = [
            [data.read_object(spec) for spec in (KERNEL_SUMMARY, RESOURCE_USAGE)]
            for data in _data(_imported(loop.write(tmp_path / name)))
        ]
        shown.append(found)
    assert shown[0] == shown[1]


def test_one_of_eight_ranks_says_so(tmp_path: Path) -> None:
    path = _loop().write(tmp_path / "trace.json")
    document = json.loads(path.read_text())
    document["distributedInfo"] = {"rank": 2, "world_size": 8}
    path.write_text(json.dumps(document))
    found = _read(_imported(path))
    assert (found.limits[0].code, found.limits[0].count) == ("sampled_ranks", 7)
    assert found.fault_count == 0
    assert found.bounds["rank_waiting"].bound == "at_least"


def test_a_comparison_says_that_one_side_lost_kernels(tmp_path: Path) -> None:
    sides = []
    for name, change in (("base", None), ("new", _drop_the_first)):
        loop = _loop()
        if change:
            change(loop)
        with closing(sqlite3.connect(_imported(loop.write(tmp_path / f"{name}.json")))) as database:
            sides.append([read_capture(database, name)])
    notes = [note for note in limits(sides[0], sides[1], ()) if "other limits" in note]
    assert len(notes) == 1
    assert "Launches without work" in notes[0]
    assert not any("other limits" in note for note in limits(sides[1], sides[1], ()))


def test_advice_on_idle_time_is_less_certain_without_all_kernels(tmp_path: Path) -> None:
    certainty = []
    for name in ("whole", "part"):
        loop = Loop()
        for _ in range(12):
            start = loop.now
            loop.fetch(400)
            loop.step(20)
            loop.annotation(f"ProfilerStep#{start:.0f}", start)
        if name == "part":
            _drop_the_first(loop)
        path = _imported(loop.write(tmp_path / f"{name}.json"))
        sql = "SELECT advice_name, certainty, needs FROM view_advice WHERE status = 'found'"
        certainty.append({row[0]: row[1:] for row in query(path, sql)})
    order = ["sure", "likely", "possible"]
    common = certainty[0].keys() & certainty[1].keys()
    assert common
    for advice in common:
        (before, _), (after, needs) = certainty[0][advice], certainty[1][advice]
        assert order.index(after) >= min(order.index(before) + 1, 2)
        assert LIMITS[LimitCode.MISSING_WORK].recommendation in needs


def test_replays_are_compared_with_others_of_their_graph(tmp_path: Path) -> None:
    trace, thread = one_gpu()
    for launch in range(10):
        at, graph = 100_000 * launch, launch % 2
        correlation = thread.call("cudaGraphLaunch_v10000", at, at + 10)
        for number in range((4, 9)[graph]):
            if launch != 8 and (launch, number) != (5, 3):
                begin = at + 100 + 50 * number
                row = thread.process.kernel("gemm", begin, begin + 40, correlation=correlation)
                row["graphNodeId"] = 100 * graph + number
    trace.add("CUDA_GRAPH_NODE_EVENTS", start=0, globalTid=thread.global_tid, graphNodeId=1)
    assert _found(trace.write(tmp_path / "graphs.sqlite")) == {"PARTIAL_REPLAYS": 2}


def test_ranges_before_the_session_are_no_broken_times(tmp_path: Path) -> None:
    trace = Trace()
    list(trace.steps(4))
    trace.tables["NVTX_EVENTS"][0]["start"] = -68_000_000
    assert _found(trace.write(tmp_path / "early_range.sqlite")) == {}
    trace.tables["CUPTI_ACTIVITY_KIND_KERNEL"][1]["start"] = -5
    found = _found(trace.write(tmp_path / "early_kernel.sqlite"))
    assert found["IMPOSSIBLE_TIMES"] == 1


@pytest.mark.parametrize(
    ("advice", "code", "expected"),
    [
        ("late_ranks", "missing_work", None),
        ("imbalanced_gpus", "partial_replays", None),
        ("launch_bound", "missing_work", Certainty.LIKELY),
        ("tiny_kernels", "overlap_in_stream", Certainty.LIKELY),
        ("launch_bound", "wait_ids", Certainty.SURE),
        ("launch_bound", "profiled_speed", Certainty.SURE),
        ("tiny_kernels", "whole_graphs", Certainty.SURE),
    ],
)
def test_advice_is_lowered_or_not_given_by_the_figure_that_it_rests_on(
    advice: str, code: str, expected: Certainty | None
) -> None:
    finding = Finding(
        *(advice, 10.0, say("It is slow"), say("Make it fast"), say("It was measured")),
        certainty=Certainty.SURE,
        proof=Proof("SELECT 1 AS n", "n", 1),
    )
    answer = advisers._within_limits(cast("Facts", Limited({LimitCode(code)})), finding)
    if expected is None:
        assert isinstance(answer, Unknown)
        assert (answer.advice, answer.needs) == (advice, LIMITS[LimitCode(code)].recommendation)
    else:
        assert isinstance(answer, Finding)
        assert answer.certainty is expected
        assert (answer.needs is None) == (expected is Certainty.SURE)


# --- the command ---------------------------------------------------------------------------------


def _doctor(path: Path, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    capsys.readouterr()
    code = main(["doctor", str(path), *words])
    return code, capsys.readouterr().out


def test_doctor_separates_clean_faulty_and_unreadable_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    clean, faulty = _loop(), _loop()
    _drop_the_first(faulty)
    assert _doctor(clean.write(tmp_path / "clean.json"), capsys)[0] == 0
    code, text = _doctor(faulty.write(tmp_path / "faulty.json"), capsys)
    assert code == 10
    assert "15 (30.0 %) launches of kernels" in " ".join(text.split())
    assert "Share of the step in which the GPU is idle: at most as shown" in text
    code, raw = _doctor(tmp_path / "faulty.json", capsys, "--json")
    assert (code, json.loads(raw)["limits"][0]["code"]) == (10, "missing_work")
    (tmp_path / "noise.json").write_bytes(b"\x00\x01 noise")
    code, raw = _doctor(tmp_path / "noise.json", capsys, "--json")
    document = json.loads(raw)
    assert (code, document["is_readable"], document["code"]) == (4, False, "PROFILE_UNSUPPORTED")
    assert _doctor(tmp_path / "missing.sqlite", capsys)[0] == 4


def test_doctor_reads_what_is_whole_of_a_file_that_was_cut(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = _loop().write(tmp_path / "trace.json")
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    code, text = _doctor(path, capsys)
    assert (code, "lost_records" in text) == (10, True)


def test_the_extended_summary_report_has_the_limits(tmp_path: Path) -> None:
    loop = _loop()
    _drop_the_first(loop)
    source = loop.write(tmp_path / "trace.json")
    words = [f"--database={source}", "--reports=summary", "--extended=true", "-v=quiet"]
    assert main([*words, f"--output_path={tmp_path / 'out'}"]) == 0
    text = (tmp_path / "out" / "dlprof_summary.csv").read_text()
    assert "Limits of the Capture\n,Count,Share %,Limit\nmissing_work 1,15,30" in text


@pytest.mark.parametrize(
    ("case", "code", "count"),
    [
        ("kernel_long_before_its_call.trace.json", "clock_order", 1),
        ("trace_without_kernels.trace.json", "lost_records", 18),
    ],
)
def test_cases_of_wrong_captures_are_limits(
    tmp_path: Path, case: str, code: str, count: int
) -> None:
    source = unpacked(CASES / f"{case}.xz", tmp_path)
    found = _read(_imported(source))
    faults = [(limit.code, limit.count) for limit in found.limits if limit.is_fault]
    assert faults == [(code, count)]


# --- variants of recorded captures ----------------------------------------------------------------


def _found(path: Path) -> dict[str, int]:
    """Counts of the faults that an import finds, without the rest of the import."""
    profile = open_profile(path, NullProgress())
    calls = launching_calls(profile)
    repair_order(profile, calls)
    find_limits(profile, calls)
    warnings: list[ProfileWarning] = profile.warnings
    codes = {warning.code: warning.count for warning in warnings}
    return {
        code: count
        for code, count in codes.items()
        if code in OF_WARNING and LIMITS[OF_WARNING[code]].is_fault
    }


LAUNCHES = """
    SELECT r.rowid, r.start, r.correlationId, r.globalTid >> 24 AS pid
    FROM CUPTI_ACTIVITY_KIND_RUNTIME AS r JOIN StringIds AS s ON s.id = r.nameId
    WHERE s.value LIKE '%Launch%Kernel%'
"""
KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"


def _sql_drop(connection: sqlite3.Connection) -> tuple[str, int]:
    """Delete the kernels of the first 30 % of the launches."""
    rows = connection.execute(f"{LAUNCHES} ORDER BY r.start").fetchall()
    first = [row[2:] for row in rows[: int(0.3 * len(rows))]]
    connection.execute("CREATE TEMP TABLE first (correlation, pid, PRIMARY KEY (correlation, pid))")
    connection.executemany("INSERT INTO first VALUES (?, ?)", first)
    # Launches inside the capture of a graph have none.
    launched = f"FROM {KERNEL} WHERE (correlationId, globalPid >> 24) IN (SELECT * FROM first)"
    query = f"SELECT count(*) FROM (SELECT DISTINCT correlationId, globalPid {launched})"
    (count,) = connection.execute(query).fetchone()
    connection.execute(f"DELETE {launched}")
    return "MISSING_WORK", count


def _sql_drop_graphs(connection: sqlite3.Connection) -> tuple[str, int]:
    """Delete 9 of 10 graphs that were recorded as a whole."""
    connection.execute("DELETE FROM CUPTI_ACTIVITY_KIND_GRAPH_TRACE WHERE rowid % 10 <> 0")
    (count,) = connection.execute("SELECT changes()").fetchone()
    return "PARTIAL_REPLAYS", count


def _sql_repeat(connection: sqlite3.Connection) -> tuple[str, int]:
    connection.execute(f"INSERT INTO {KERNEL} SELECT * FROM {KERNEL} WHERE rowid % 50 = 1")
    (count,) = connection.execute("SELECT changes()").fetchone()
    return "REPEATED_ROWS", count


def _sql_stretch(connection: sqlite3.Connection) -> tuple[str, int]:
    rows = connection.execute(f"SELECT rowid FROM {KERNEL} ORDER BY start").fetchall()
    middle = rows[len(rows) // 2]
    connection.execute(f"UPDATE {KERNEL} SET end = end + 1000000000 WHERE rowid = ?", middle)
    return "ENDLESS_WORK", 1


def _sql_shift(connection: sqlite3.Connection) -> tuple[str, int]:
    """Set the clock of one GPU back by 400 ms."""
    count = 0
    query = "CREATE INDEX by_id ON CUPTI_ACTIVITY_KIND_RUNTIME (correlationId)"
    connection.execute(query)
    for kind in ("KERNEL", "MEMCPY", "MEMSET"):
        table = f"CUPTI_ACTIVITY_KIND_{kind}"
        if not connection.execute(
            "SELECT 1 FROM sqlite_master WHERE name = ?", (table,)
        ).fetchone():
            continue
        back = "start = start - 400000000, end = end - 400000000"
        connection.execute(f"UPDATE {table} SET {back} WHERE deviceId = 0")
        early = (
            f"SELECT count(*) FROM {table} AS k WHERE deviceId = 0 AND k.start <"
            " (SELECT min(r.start) FROM CUPTI_ACTIVITY_KIND_RUNTIME AS r"
            "  WHERE r.correlationId = k.correlationId AND r.globalTid >> 24 = k.globalPid >> 24)"
        )
        count += connection.execute(early).fetchone()[0]
    return "GPU_CLOCK", count


@pytest.mark.parametrize(
    "name",
    [
        *("nvtx_domains", "simple_no_nvtx", "pytorch_resnet50_fp32", "pytorch_resnet50_amp"),
        *("pytorch_bert_bf16", "ddp2_resnet50_amp", "jax_cnn_bf16", "pytorch_gpt2_large"),
    ],
)
@pytest.mark.parametrize("change", [_sql_drop, _sql_repeat, _sql_stretch, _sql_shift])
def test_damage_of_recorded_captures_is_found_with_its_count(
    profile: ProfileFactory, tmp_path: Path, change: Callable[..., tuple[str, int]], name: str
) -> None:
    _check_variant(profile(name), tmp_path, change)


@pytest.mark.parametrize("name", ["jax_cnn_bf16", "static"])
def test_lost_graphs_of_recorded_captures_are_found_with_their_count(
    profile: ProfileFactory, tmp_path: Path, name: str
) -> None:
    _check_variant(profile(name), tmp_path, _sql_drop_graphs)


def _check_variant(source: Path, folder: Path, change: Callable[..., tuple[str, int]]) -> None:
    path = folder / source.name
    shutil.copyfile(source, path)
    path.chmod(0o600)
    with closing(sqlite3.connect(path)) as connection:
        code, count = change(connection)
        connection.commit()
    assert count > 0
    found = _found(path)
    # A clock that is moved back leaves some work before its launch.
    found.pop("EARLY_WORK", None) if code == "GPU_CLOCK" else None
    found.pop("LOST_EVENTS", None)  # What Nsight Systems says of JAX.
    assert found == {code: count}


@pytest.mark.parametrize(
    "name",
    [
        *("nvtx_domains", "simple_no_nvtx", "pytorch_resnet50_fp32", "pytorch_resnet50_amp"),
        *("pytorch_bert_bf16", "ddp2_resnet50_amp", "kineto_resnet50_fp16.pt.trace.json"),
        *("pytorch_gpt2_large", "gpt", "ddp", "static", "trainer", "vit_loader", "pyg_epochs"),
        *("module", "children", "torchrun1", "own_profiler_and_child"),
    ],
)
def test_captures_that_lack_nothing_have_no_fault(profile: ProfileFactory, name: str) -> None:
    assert _found(profile(name)) == {}
