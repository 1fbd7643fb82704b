"""The range that marks the steps is found, in public profiles judged by hand and small traces."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders import Analyzed, Thread, Trace, analyze, one_gpu, query, table
from tests.conftest import ProfileFactory

MS = 1_000_000
LOADER = "enumerate(DataLoader)#_{}DataLoaderIter.__next__"

JUDGED = {name: (loop, steps) for name, loop, steps in table("loops_of_captures")}
"""File -> the loop that marks its steps, and their number in each process; "": there is no loop.

A step of the profiler, of the optimizer and of the data loader that coincide are one loop.
"""


@pytest.mark.parametrize("name", JUDGED)
def test_the_loop_of_every_public_profile_is_found(name: str, imported: ProfileFactory) -> None:
    database = imported(name)
    info = dict(query(database, "SELECT key, value FROM view_profile_info"))
    aggregated = "SELECT key_node_name, key_node_reason FROM view_aggregations WHERE aggr_id = 1"
    ((key_node, reason),) = query(database, aggregated)
    candidates = "SELECT candidate_name, instances FROM view_key_node_candidates WHERE is_chosen"
    chosen = dict(query(database, candidates))
    loop, steps = JUDGED[name]
    if not loop:
        assert (key_node, chosen, info["key_node_confidence"]) == ("", {}, "")
        return
    assert key_node
    assert chosen[loop] == steps
    assert info["key_node_confidence"] == "high"
    assert "confidence high" in reason


def test_processes_that_are_no_ranks_have_steps_of_their_own(
    imported: ProfileFactory,
) -> None:
    rows = query(imported("children"), "SELECT count(*) FROM view_iterations_all WHERE aggr_id = 1")
    assert rows == [(61,)]
    assert query(imported("children"), "SELECT count(*) FROM ranks") == [(1,)]
    names = query(imported("children"), "SELECT count(*) FROM ops WHERE op_name LIKE '/rank%'")
    assert names == [(0,)]


def test_a_crash_that_lost_the_gpus_records_keeps_its_iterations(imported: ProfileFactory) -> None:
    database = imported("crash_segfault")
    assert query(database, "SELECT count(*) FROM view_kernel_launches") == [(0,)]
    rows = query(database, "SELECT count(*) FROM view_iterations_all WHERE aggr_id = 1")
    assert rows == [(21,)]


def test_a_window_begins_where_its_events_are(imported: ProfileFactory) -> None:
    sql = "SELECT wall_clock_time, gpu_utilization FROM view_performance_summary"
    ((wall, busy),) = query(imported("ginda_h100_2gpu_1s"), sql)
    assert round(wall / MS) == 969
    assert busy > 1


# --- small traces ---------------------------------------------------------------------------------


def _candidates(found: Analyzed) -> dict[str, tuple[str, int, int]]:
    """Kind, instances and score of each candidate."""
    sql = "SELECT candidate_name, candidate_kind, instances, score FROM view_key_node_candidates"
    return {name: (kind, count, score) for name, kind, count, score in found.query(sql)}


def _step(main: Thread, at: int, kernels: int = 4) -> None:
    """Ops of a step of 10 ms, each with a kernel."""
    for number in range(kernels):
        begin = at + MS + number * MS
        main.op("conv2d", begin, begin + MS // 2)
        main.launch(f"kernel{number}", begin + 10, gpu=(begin + 100, begin + MS // 2))


@pytest.mark.parametrize("accumulated", [2, 4, 8])
def test_with_gradient_accumulation_the_step_is_the_optimizers(
    tmp_path: Path, accumulated: int
) -> None:
    trace, main = one_gpu()
    at = 1000
    for _ in range(6):
        for fetch in range(accumulated):  # batches are fetched in a burst
            begin = at + fetch * 10_000
            main.range(f"{LOADER.format('MultiProcessing')}, op_id = 5", begin, begin + 5000)
        for _ in range(accumulated):
            main.range("torch.nn: Net (Net)", at + MS // 2, at + 9 * MS)
            _step(main, at)
            at += 10 * MS
        main.range("Optimizer.step#AdamW.step, op_id = 9", at, at + MS)
        main.launch("adam", at + 10, gpu=(at + 20, at + MS))
        at += 2 * MS
    main.call("cudaDeviceSynchronize_v3020", at, at + MS)
    found = analyze(trace, tmp_path)
    assert found.result.key_node == "Optimizer.step#AdamW.step"
    assert len(found.iterations()) == 7
    sql = "SELECT candidate_name, per_optimizer_step FROM view_key_node_candidates"
    assert dict(found.query(sql))["Net"] == accumulated


def test_layers_are_no_steps(tmp_path: Path) -> None:
    trace, main = one_gpu()
    for number in range(24):
        at = number * 10 * MS
        main.range(f"FSDP::pre_forward (layers.{number})", at, at + 9 * MS)
        _step(main, at)
    found = analyze(trace, tmp_path)
    assert found.result.key_node == ""
    paths = {path.split("/")[1] for path, _ in found.ops()}
    assert "FSDP::pre_forward (layers.3)" in paths


def test_ranges_of_fsdp_within_a_pass_are_no_steps(tmp_path: Path) -> None:
    """Four units in each of four steps, whose own marks are not in the profile."""
    trace, main = one_gpu()
    for number in range(16):
        at = (number * 10 + number // 4 * 30) * MS
        main.range("FullyShardedDataParallel.rate_limiter", at, at + MS)
        _step(main, at + 2 * MS)
    assert analyze(trace, tmp_path).result.key_node == ""


def test_ranges_in_a_part_of_the_run_are_no_steps(tmp_path: Path) -> None:
    """Markers run in the first steps of a loop only."""
    trace, main = one_gpu()
    for number in range(20):
        at = number * 10 * MS
        if number < 4:
            main.range("Torch-Compiled Region: 0/0", at, at + 9 * MS)
        main.launch("kernel", at + MS, gpu=(at + MS, at + 5 * MS))
    found = analyze(trace, tmp_path)
    assert found.result.key_node == ""


def test_a_range_that_recurs_in_each_step_is_no_step(tmp_path: Path) -> None:
    trace, main = one_gpu()
    for number in range(60):
        at = number * 10 * MS
        main.range("attention", at, at + 5 * MS)
        _step(main, at, kernels=4 + (number % 12 == 11))  # a step has 12 layers and a head
    assert analyze(trace, tmp_path).result.key_node == ""


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("step {}", "step #"),
        ("train#step_num={}#", "train#step_num=##"),
        ("item {}", "item #"),
        ("rank 3: iteration {}", "rank #: iteration #"),
        ("decode step", "decode step"),
        ("execute_context_{}(32)", "execute_context_#(32)"),
    ],
)
@pytest.mark.parametrize("has_ops", [True, False])
def test_a_users_range_marks_steps_in_every_mode(
    tmp_path: Path, text: str, name: str, *, has_ops: bool
) -> None:
    trace, main = one_gpu()
    for number in range(12):
        at = number * 10 * MS
        main.range(text.format(number), at, at + 9 * MS)
        if has_ops:
            _step(main, at)
        else:
            main.launch("kernel", at + MS, gpu=(at + MS, at + 5 * MS))
    main.call("cudaDeviceSynchronize_v3020", 120 * MS, 121 * MS)
    found = analyze(trace, tmp_path)
    assert found.result.mode == ("pytorch" if has_ops else "simple")
    assert _candidates(found)[name][1] == 12
    assert len(found.iterations()) == 13


def test_steps_that_touch_do_not_lie_in_each_other(tmp_path: Path) -> None:
    trace, main = one_gpu()
    for number in range(12):
        main.range("decode step", number * 10 * MS, (number + 1) * 10 * MS)
        _step(main, number * 10 * MS)
    found = analyze(trace, tmp_path)
    assert _candidates(found)["decode step"][1] == 12


def test_the_shapes_in_a_name_are_no_counter(tmp_path: Path) -> None:
    trace, main = one_gpu()
    for number in range(12):
        at = number * 10 * MS
        main.range(f"execute_context_1({32 * (1 + number % 2)})", at, at + 9 * MS)
        main.range(f"triton_poi_fused_add_{number % 3}", at + 10, at + 5 * MS)
        _step(main, at)
    found = analyze(trace, tmp_path)
    names = set(_candidates(found))
    assert {"execute_context_1(32)", "execute_context_1(64)", "execute_context_#(#)"} <= names
    assert not any("triton" in name for name in names)
    assert {path.split("/")[1] for path, _ in found.ops()} >= {"execute_context_1(64)"}


def test_the_profilers_steps_outrank_numbers(tmp_path: Path) -> None:
    trace, main = one_gpu()
    for number in range(5):
        at = number * 10 * MS
        main.range(f"ProfilerStep#{number}", at, at + 9 * MS)
        for call in range(4):
            begin = at + call * 2 * MS
            main.range(f"## wait {4 * number + call} ##", begin, begin + MS)
            main.op("conv2d", begin + 10, begin + 900)
            main.launch("kernel", begin + 20, gpu=(begin + 100, begin + 800))
    found = analyze(trace, tmp_path)
    assert "steps 'ProfilerStep#' mark the iterations" in found.result.key_node_reason
    assert len(found.iterations()) == 5


def test_a_step_that_runs_no_gpu_work_is_none(tmp_path: Path) -> None:
    trace, main = one_gpu()
    for number in range(20):
        main.range(f"step {number}", number * MS, number * MS + 1000)
    _step(main, 100 * MS)
    found = analyze(trace, tmp_path)
    assert found.result.key_node == ""
    assert "the closest is 'step #'" in found.result.key_node_reason


@pytest.mark.parametrize("outer", ["epoch {}", "validate"])
def test_of_loops_in_loops_the_steps_are_chosen(tmp_path: Path, outer: str) -> None:
    trace, main = one_gpu()
    for number in range(20):
        at = number * 10 * MS
        main.range(f"step {number}", at, at + 9 * MS)
        _step(main, at, kernels=3 + (number % 5 == 4))
        if number % 5 == 4:
            main.range(outer.format(number // 5), at + 9 * MS, at + 10 * MS - 1)
    main.call("cudaDeviceSynchronize_v3020", 200 * MS, 201 * MS)
    found = analyze(trace, tmp_path)
    assert len(found.iterations()) == 21


def test_the_choice_names_its_confidence_and_the_runner_up(tmp_path: Path) -> None:
    trace, main = one_gpu()
    for number in range(12):
        at = number * 10 * MS
        main.range(f"step {number}", at, at + 9 * MS)
        for half in range(2):
            main.range("forward", at + half * 4 * MS, at + half * 4 * MS + 3 * MS)
        _step(main, at)
    reason = analyze(trace, tmp_path).result.key_node_reason
    assert "confidence high (" in reason
    assert "runner-up 'forward', 24 times" in reason


def test_optimizers_that_take_turns_make_the_choice_uncertain(tmp_path: Path) -> None:
    """Two updates of one model for each of the other, as in a GAN; both optimizers are Adam."""
    trace, main = one_gpu()
    for number in range(24):
        at = number * 10 * MS
        main.range("Optimizer.zero_grad#Adam.zero_grad, op_id = 9", at, at + 1000)
        _step(main, at, kernels=4 if number % 3 == 2 else 3)
        main.range("Optimizer.step#Adam.step, op_id = 9", at + 8 * MS, at + 9 * MS)
    reason = analyze(trace, tmp_path).result.key_node_reason
    assert "the kernels repeat after 3 of them, which may be one iteration" in reason
    assert "confidence medium (" in reason


def test_a_few_more_kernels_in_every_fifth_step_are_no_cycle(tmp_path: Path) -> None:
    trace, main = one_gpu()
    for number in range(25):
        at = number * 100 * MS
        main.range("Optimizer.zero_grad#Adam.zero_grad, op_id = 9", at, at + 1000)
        _step(main, at, kernels=22 if number % 5 == 4 else 20)
        main.range("Optimizer.step#Adam.step, op_id = 9", at + 80 * MS, at + 90 * MS)
    reason = analyze(trace, tmp_path).result.key_node_reason
    assert "confidence high (" in reason


def test_a_loader_that_also_feeds_the_evaluation_cuts_no_steps(tmp_path: Path) -> None:
    """8 batches of evaluation after every 15th step, from a loader of the same class."""
    trace, main = one_gpu()
    loader = f"{LOADER.format('SingleProcess')}, op_id = 5"
    at = 0
    for number in range(40):
        main.range(loader, at, at + 5000)
        _step(main, at)
        main.range("Optimizer.step#AdamW.step, op_id = 9", at + 8 * MS, at + 9 * MS)
        at += 10 * MS
        for _ in range(8 if number % 15 == 14 else 0):
            main.range(loader, at, at + 5000)
            main.op("conv2d", at + MS, at + 2 * MS)
            main.launch("forward", at + MS + 10, gpu=(at + MS + 100, at + 2 * MS))
            at += 3 * MS
    found = analyze(trace, tmp_path)
    assert found.result.key_node == "Optimizer.step#AdamW.step"
    assert len(found.iterations()) == 40  # nothing follows the last step


def test_the_profiles_of_two_ranks_that_communicate_share_their_steps(tmp_path: Path) -> None:
    trace = Trace()
    for rank in range(2):
        trace.gpu(rank)
        main = trace.thread(100 + rank)
        for number in range(6):
            at = number * 10 * MS + rank * 1000
            main.range(f"step {number}", at, at + 9 * MS)
            _step_on(main, at, rank)
        main.call("cudaDeviceSynchronize_v3020", 60 * MS, 61 * MS)
    assert len(analyze(trace, tmp_path).iterations()) == 7


def _step_on(main: Thread, at: int, device: int) -> None:
    main.op("conv2d", at + MS, at + 2 * MS)
    main.launch("ncclDevKernel_AllReduce_Sum_f32", at + MS + 10, device=device)


@pytest.mark.parametrize("kernel", ["ncclDevKernel_AllReduce_Sum_f32", "sgemm"])
def test_gpus_of_other_ranks_are_not_reported_as_unused(tmp_path: Path, kernel: str) -> None:
    trace = Trace()
    trace.gpu(0)
    trace.gpu(1)
    main = trace.thread()
    for number in range(6):
        main.range(f"step {number}", number * 10 * MS, number * 10 * MS + 9 * MS)
        main.op("conv2d", number * 10 * MS + MS, number * 10 * MS + 2 * MS)
        main.launch(kernel, number * 10 * MS + MS + 10)
    found = analyze(trace, tmp_path)
    problems = found.query("SELECT problem FROM view_expert_systems WHERE aggr_id = 1")
    is_reported = any("not being used" in str(problem) for (problem,) in problems)
    assert is_reported == (kernel == "sgemm")
