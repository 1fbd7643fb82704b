"""Iterations of several kinds: prefill and decode of serving engines, training steps."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aggregator.dldb.event_reader import stored_events
from aggregator.dldb.rows.advice import find_facts
from aggregator.errors import UsageError
from aggregator.frameworks.serving import PhaseName, read_phase, read_phases
from aggregator.metrics.phases import PhaseColumns, outermost, phases_of_iterations
from tests.builders import Analyzed, Thread, Trace, analyze, analyze_file, one_gpu, query, table
from tests.conftest import ProfileFactory

PHASES = (
    "SELECT phase, phase_iterations, duration, tokens, tokens_per_second, token_interval, "
    "phase_parts FROM view_phases WHERE aggr_id = 1 ORDER BY phase"
)


@pytest.mark.parametrize(
    ("name", "phase"),
    [
        *table("phase_names"),
        (f"execute_context_0(0)_generation_{'9' * 5000}(1)", None),
        (f"step[DECODE bs={'9' * 20}]", None),
    ],
)
def test_names_give_phases(name: str, phase: list[Any] | None) -> None:
    assert read_phase(name) == (PhaseName(*phase) if phase else None)


@pytest.mark.parametrize(
    ("names", "phases"),
    [
        (["Prefill", "decode_step 3", "decoder"], ["prefill", "decode", None]),
        (["decode", "decode 2"], [None, None]),  # Of images, perhaps.
    ],
)
def test_plain_names_are_phases_where_both_are_there(
    names: list[str], phases: list[str | None]
) -> None:
    found = read_phases(names)
    read = [found[code].phase if code in found else None for code in range(len(names))]
    assert read == phases


def test_the_tokens_of_speculative_decoding_are_unknown() -> None:
    found = read_phases(["step[DECODE bs=4]", "step[EXTEND bs=1 toks=64]", "step[VERIFY bs=4]"])
    assert [(one.tokens, one.sequences) for one in found.values()] == [(-1, 4), (-1, 1), (-1, 4)]


def _phases(names: list[int], times: list[tuple[int, int]], processes: list[int]) -> PhaseColumns:
    start, end = np.array(times, dtype=np.int64).T
    unknown = np.full(len(names), -1, dtype=np.int64)
    codes, process = np.array(names, dtype=np.int32), np.array(processes, dtype=np.int32)
    return PhaseColumns(codes, ("prefill", "decode"), start, end, process, unknown, unknown)


def test_of_two_phases_that_begin_together_the_longer_is_around_the_other() -> None:
    found = outermost(_phases([0, 1], [(5, 10), (5, 30)], [0, 0]), np.zeros(2, dtype=np.int32))
    assert (found.name.tolist(), found.end_ns.tolist()) == ([1], [30])


def test_the_phases_of_the_process_with_most_of_them_count() -> None:
    phases = _phases([0, 1, 1], [(0, 20), (0, 10), (10, 20)], [0, 1, 1])
    found = phases_of_iterations(phases, np.array([0, 10, 20]))
    assert [found.names[code] for code in found.name.tolist()] == ["decode", "decode"]


def serve(main: Thread, names: list[str], length: int = 100) -> None:
    """One range a step; each launches a kernel of its own length."""
    main.op("zeros", 0, 5)
    for number, name in enumerate(names):
        at = 1_000 + length * number
        main.range(name, at, at + length - 10)
        main.op("mm", at + 10, at + 30)
        main.launch("gemm", at + 20, gpu=(at + 25, at + 26 + number))
    main.call("cudaDeviceSynchronize_v3020", at + length, at + length + 10)


def ours(phase: str, tokens: int, sequences: int) -> str:
    return f'dlprof.phase: {phase} {{"tokens":{tokens},"sequences":{sequences}}}'


def serving(tmp_path: Path) -> Analyzed:
    trace = Trace()
    trace.gpu()
    steps = [ours("prefill", 64, 4), *[ours("decode", 4, 4)] * 4]
    serve(trace.thread(), steps * 2)
    return analyze(trace, tmp_path)


def test_prefill_and_decode_have_their_own_sums(tmp_path: Path) -> None:
    found = serving(tmp_path)
    assert found.query("SELECT key_node FROM aggregations WHERE id = 1") == [("serving step",)]
    assert found.query(PHASES) == [
        ("decode", 8, 8 * 100, 8 * 4, 32 / 800e-9, 100, 1.0),
        ("prefill", 2, 90 + 100, 2 * 64, round(128 / 190e-9, 6), None, 1.0),
    ]


def test_phases_have_the_step_that_ran_without_profiling(tmp_path: Path) -> None:
    trace = Trace()
    trace.gpu()
    steps = [ours("prefill", 64, 4), *[ours("decode", 4, 4)] * 4]
    serve(trace.thread(), steps * 2)
    export = trace.write(tmp_path / "profile.sqlite")
    columns = 'pid, rank, "stepEnd", phase, number, "hostNs", "gpuNs", work'
    bare = [("prefill", 150), *[("decode", 50), ("decode", 40), ("decode", 45)] * 2, ("", 7)]
    with closing(sqlite3.connect(export)) as connection, connection:
        connection.execute(f"CREATE TABLE DLPROF_STEP_TIMES ({columns})")
        connection.executemany(
            "INSERT INTO DLPROF_STEP_TIMES VALUES (7, NULL, 'call', 'bare', ?, ?, NULL, ?)",
            [(number, time_ns, name) for number, (name, time_ns) in enumerate(bare)],
        )
    found = analyze_file(export, tmp_path / "out.sqlite")
    values = "phase, bare_phase_step, bare_phase_steps, bare_tokens_per_second"
    sql = f"SELECT {values} FROM view_phases WHERE aggr_id = 1 ORDER BY phase"
    # A single prefill has no median.
    assert found.query(sql) == [
        ("decode", 45, 6, round(4 / 45e-9, 6)),
        ("prefill", None, None, None),
    ]


def test_an_aggregation_covers_the_iterations_of_one_phase(tmp_path: Path) -> None:
    found = serving(tmp_path)
    whole = found.query("SELECT sum(calls), sum(gpu_time_sum) FROM kernel_metrics WHERE aggr = 1")
    result = found.aggregate(phase="decode")
    sums = "SELECT sum(calls), sum(gpu_time_sum) FROM kernel_metrics WHERE aggr = ?"
    decode = found.query(sums, result.aggr_id)
    assert decode == [(8, sum(range(2, 6)) + sum(range(7, 11)))]
    prefill = found.query(sums, found.aggregate(phase="prefill").aggr_id)
    assert prefill == [(2, 1 + 6)]
    assert whole == [(10, 55)]
    summary = "SELECT wall_time, profiled_iterations FROM model_metrics WHERE aggr = ?"
    assert found.query(summary, result.aggr_id) == [(800, 8)]
    aggregated = "SELECT iter_value FROM iterations WHERE aggr = ? AND aggregated"
    assert [row[0] for row in found.query(aggregated, result.aggr_id)] == [2, 3, 4, 5, 7, 8, 9, 10]
    again = found.aggregate(phase="decode")
    assert (again.aggr_id, again.reused) == (result.aggr_id, True)


def test_a_phase_that_no_iteration_has_is_refused(tmp_path: Path) -> None:
    found = serving(tmp_path)
    with pytest.raises(UsageError, match="No iteration is of the phase 'train'") as caught:
        found.aggregate(phase="train")
    assert caught.value.hint == "Phases of the iterations: decode, prefill."


def test_the_outermost_of_two_names_for_a_step_counts(tmp_path: Path) -> None:
    trace, main = one_gpu()
    serve(main, ["execute_32_context_0(sq0)_generation_32(sq32)"] * 5)
    for number in range(5):
        main.range("step[DECODE bs=7]", 1_002 + 100 * number, 1_080 + 100 * number)
    found = analyze(trace, tmp_path)
    assert found.query("SELECT count(*), sum(tokens) FROM phase_ranges") == [(5, 160)]


def test_ops_of_steps_with_other_batches_are_one_op(tmp_path: Path) -> None:
    trace = Trace()
    trace.gpu()
    names = [f"execute_context_0(0)_generation_{size}({size})" for size in (1, 2, 3, 5)]
    serve(trace.thread(), ["execute_context_1(700)_generation_0(0)", *names])
    found = analyze(trace, tmp_path)
    rows = found.query(
        "SELECT op_name, num_calls FROM op_metrics AS m JOIN ops AS o ON o.id = m.op "
        "WHERE aggr = 1 AND op_type = 'mm' ORDER BY op_name"
    )
    assert rows == [("/decode/mm", 4), ("/prefill/mm", 1)]


SERVING = {
    "inference__sglang_decode__sglang_Qwen3-8B_decode": ("decode", 32, 32.0),
    "inference__vllm_decode_full__graph_execution": ("decode", 32, 32.0),
}


@pytest.mark.parametrize("name", SERVING)
def test_public_traces_have_the_phase_and_batch_of_their_annotations(
    name: str, imported: ProfileFactory
) -> None:
    sql = "SELECT phase, tokens, sequences, phase_iterations FROM view_phases"
    assert query(imported(f"{name}.json.gz"), sql) == [(*SERVING[name], 1)]


def test_what_graphs_move_that_were_recorded_as_a_whole_is_unknown(tmp_path: Path) -> None:
    trace, main = one_gpu()
    for number in range(8):
        at = 1_000 + 1_000 * number
        name = "prefill" if number % 4 == 0 else "decode"
        main.range(ours(name, 4, 4), at, at + 900)
        main.op("mm", at + 10, at + 40, sizes="[[8, 16], [16, 4]]")
        main.launch("gemm", at + 20, gpu=(at + 30, at + 40))
        if name == "decode":
            main.graph(at + 50, gpu=(at + 100, at + 700))
    rows = analyze(trace, tmp_path).query(
        "SELECT phase, bandwidth_pct IS NULL FROM view_phases WHERE aggr_id = 1 ORDER BY phase"
    )
    assert rows == [("decode", 1), ("prefill", 0)]


@pytest.mark.parametrize(("gpu_ns", "is_known"), [(400, True), (10, False)])
def test_no_kernel_moves_more_than_the_memory_can(
    gpu_ns: int, is_known: bool, tmp_path: Path
) -> None:
    """The data of an op whose kernels were not linked to it gives no share of the bandwidth."""
    trace, main = one_gpu()
    for number in range(8):
        at = 1_000 + 1_000 * number
        main.range(ours("decode", 4, 4), at, at + 900)
        main.op("mm", at + 10, at + 40, sizes="[[256, 256], [256, 256]]")
        main.launch("gemm", at + 20, gpu=(at + 30, at + 30 + gpu_ns))
        main.launch("other", at + 45, gpu=(at + 440, at + 840))
    found = analyze(trace, tmp_path)
    ((share,),) = found.query("SELECT bandwidth_pct FROM view_phases WHERE aggr_id = 1")
    assert (share is not None) == is_known
    with closing(sqlite3.connect(found.path)) as connection:
        facts = find_facts(connection, stored_events(connection), 1)
    assert facts is not None
    assert facts.decode_bandwidth_pct == pytest.approx(share)


@pytest.mark.parametrize(("length_ns", "is_known"), [(400, True), (110, False)])
def test_a_share_of_the_bandwidth_is_at_most_all_of_it(
    length_ns: int, is_known: bool, tmp_path: Path
) -> None:
    """Kernels that read from caches may be faster than the memory."""
    trace, main = one_gpu()
    for number in range(8):
        at = 1_000 + length_ns * number
        main.range(ours("decode", 4, 4), at, at + length_ns - 5)
        main.op("mm", at + 5, at + 30, sizes="[[256, 256], [256, 256]]")
        main.launch("gemm", at + 10, gpu=(at + 12, at + length_ns - 2))
    found = analyze(trace, tmp_path)
    sql = "SELECT bandwidth_pct, gbytes_per_second FROM view_phases WHERE aggr_id = 1"
    ((share, moved),) = found.query(sql)
    ((rate,),) = found.query("SELECT rate FROM peak_rates WHERE aggr = 1 AND name = 'bandwidth'")
    assert 100 * moved / rate < 200  # Not more than the L2 cache can.
    assert (share is not None, moved < rate) == (is_known, is_known)
    with closing(sqlite3.connect(found.path)) as connection:
        facts = find_facts(connection, stored_events(connection), 1)
    assert facts is not None
    assert facts.decode_bandwidth_pct == pytest.approx(share)


@pytest.mark.parametrize(("gpu_ns", "is_known"), [(60, True), (90, True), (300, False)])
def test_steps_that_the_program_launches_faster_than_the_gpu_runs_them_have_no_rates(
    gpu_ns: int, is_known: bool, tmp_path: Path
) -> None:
    trace, main = one_gpu()
    for number in range(12):
        at, gpu = 1_000 + 100 * number, 1_050 + max(gpu_ns, 100) * number
        main.range(ours("decode", 4, 4), at, at + 90)
        main.op("mm", at + 10, at + 30, sizes="[[8, 16], [16, 4]]")
        main.launch("gemm", at + 20, gpu=(gpu, gpu + gpu_ns))
    main.call("cudaDeviceSynchronize_v3020", 2_200, 1_050 + 12 * max(gpu_ns, 100))
    found = analyze(trace, tmp_path)
    columns = "tokens_per_second", "token_interval", "mfu_at_least", "bandwidth_pct"
    rows = found.query(f"SELECT {', '.join(columns)} FROM view_phases WHERE aggr_id = 2")
    assert [value is not None for value in rows[0]] == [is_known] * len(columns)


def test_each_reason_why_a_name_is_unknown_has_its_share(tmp_path: Path) -> None:
    trace, main = one_gpu()
    for number in range(4):
        at = 1_000 + 1_000 * number
        main.op("mm", at, at + 100)
        main.launch("gemm", at + 10, gpu=(at + 20, at + 30))
        main.launch("stray", at + 200, gpu=(at + 210, at + 240))
        call = main.call("cudaGraphLaunch_v10000", at + 300, at + 310)
        main.process.kernel("replayed", at + 320, at + 380, correlation=call)
    found = analyze(trace, tmp_path)
    rows = found.query(
        "SELECT name_grade, gpu_time_sum, name_reason LIKE '%CUDA graph%', "
        "name_reason LIKE '%outside every op%' FROM view_name_evidence ORDER BY gpu_time_sum"
    )
    assert rows == [("recorded", 40, 0, 0), ("unknown", 120, 0, 1), ("unknown", 240, 1, 0)]


def test_tokens_of_a_phase_count_once_where_iterations_are_cut_inside_it(tmp_path: Path) -> None:
    trace, main = one_gpu()
    for number in range(6):
        at = 1_000 + 1_000 * number
        if number % 2 == 0:
            main.range(ours("train", 64, 4), at, at + 1_900)
        main.range("request", at + 600, at + 700)  # Twice in each phase.
        main.op("mm", at + 610, at + 640)
        main.launch("gemm", at + 630)
    found = analyze(trace, tmp_path, key_node="request")
    rows = found.query("SELECT phase, tokens, sequences FROM view_phases WHERE aggr_id = 1")
    assert rows == [("train", 3 * 64, 4.0)]


def test_an_iteration_of_two_phases_is_mixed(tmp_path: Path) -> None:
    trace, main = one_gpu()
    for number in range(4):
        at = 1_000 * number
        main.range(f"request {number}", at, at + 900)
        main.range(ours("prefill", 64, 4), at + 10, at + 300)
        main.op("mm", at + 20, at + 40)
        main.launch("gemm", at + 30)
        main.range(ours("decode", 4, 4), at + 310, at + 800)
        main.op("mm", at + 320, at + 340)
        main.launch("gemm", at + 330)
    found = analyze(trace, tmp_path, key_node="request #")
    assert found.query(
        "SELECT DISTINCT phase, tokens, sequences, parts FROM iteration_phases "
        "WHERE aggr = 1 AND iter_value < 3"
    ) == [("mixed", 68, 4, 2)]


def test_a_training_step_has_the_calls_of_its_model_as_micro_steps(tmp_path: Path) -> None:
    trace, main = one_gpu()
    for step in range(5):
        for micro in range(3):
            at = 1_000 * step + 200 * micro
            main.range("torch.nn: Net (Net)", at, at + 100)
            main.op("mm", at + 10, at + 30)
            main.launch("gemm", at + 20)
        main.range("Optimizer.step#SGD.step", 1_000 * step + 700, 1_000 * step + 800)
        main.op("add_", 1_000 * step + 710, 1_000 * step + 730)
        main.launch("add", 1_000 * step + 720)
    found = analyze(trace, tmp_path)
    assert found.query(PHASES)[0][::6] == ("train", 3.0)
    assert found.query("SELECT DISTINCT tokens FROM iteration_phases") == [(None,)]


def test_a_capture_of_a_single_step_is_of_its_phase(tmp_path: Path) -> None:
    trace, main = one_gpu()
    main.range("execute_32_context_0(sq0sk0)_generation_32(sq32sk900)", 0, 400)
    main.op("mm", 10, 30)
    main.launch("gemm", 20, gpu=(40, 300))
    found = analyze(trace, tmp_path)
    assert found.query("SELECT key_node FROM aggregations WHERE id = 1") == [("",)]
    query = "SELECT phase, tokens, sequences, phase_iterations, tokens_per_second, token_interval"
    # When the next step would have begun is not known.
    assert found.query(f"{query} FROM view_phases") == [("decode", 32, 32.0, 1, None, None)]


def test_calls_of_the_model_in_an_evaluation_are_no_micro_steps_of_training(
    tmp_path: Path,
) -> None:
    trace, main = one_gpu()
    for step in range(6):
        at = 1_000 + 1_000 * step
        for micro in range(4 if step == 2 else 2):
            if micro > 1:
                main.range("dlprof.phase: eval", at + 200 * micro - 5, at + 200 * micro + 105)
            main.range("torch.nn: Net (Net)", at + 200 * micro, at + 200 * micro + 100)
            main.op("mm", at + 200 * micro + 10, at + 200 * micro + 30)
            main.launch("gemm", at + 200 * micro + 20)
        main.range("Optimizer.step#SGD.step", at + 900, at + 950)
        main.op("add_", at + 910, at + 930)
        main.launch("add", at + 920)
    rows = analyze(trace, tmp_path).query("SELECT phase, start FROM phase_ranges ORDER BY start")
    assert [row[0] for row in rows] == ["train"] * 6 + ["eval"] * 2 + ["train"] * 6


def test_the_steps_of_all_phases_mark_iterations_not_those_of_one(tmp_path: Path) -> None:
    trace, main = one_gpu()
    for number in range(6):
        main.range(f"ProfilerStep#{number}", 995 + 100 * number, 1_093 + 100 * number)
    serve(main, [f"execute_context_0(0)_generation_{size}({size})" for size in range(1, 7)])
    found = analyze(trace, tmp_path)
    names = {row[0] for row in found.query("SELECT key_node FROM key_node_candidates")}
    assert "serving step" in names
    assert "decode" not in names


@pytest.mark.parametrize(("start_ns", "is_phase"), [(140, True), (150, True), (151, False)])
def test_a_first_interval_that_is_mostly_the_programs_start_has_no_phase(
    start_ns: int, is_phase: bool
) -> None:
    phases = PhaseColumns(
        name=np.array([0, 0]),
        names=("train",),
        start_ns=np.array([start_ns, 210]),
        end_ns=np.array([190, 290]),
        process=np.zeros(2, dtype=np.int32),
        tokens=np.array([8, 8]),
        sequences=np.array([1, 1]),
    )
    found = phases_of_iterations(phases, np.array([100, 200, 300]))
    assert found.is_of("train").tolist() == [is_phase, True]
