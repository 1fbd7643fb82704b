"""Where iterations begin and end, which executions are one op, and what a range may ask for."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from aggregator.errors import (
    AmbiguousKeyNodeError,
    IterationRangeError,
    KeyNodeNotFoundError,
    UsageError,
)
from aggregator.options import Mode
from tests.builders import Analyzed, Thread, Trace, analyze, one_gpu

LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
PERIOD = 1000


def _run_steps(
    main: Thread, steps: Sequence[str], *, start: int = 0, period: int = PERIOD, device: int = 0
) -> None:
    """One step per word list: a data loader that ends at ``+50``, then ops with one kernel each.

    The n-th op of step s starts at ``s * period + 100 + 40 n``; its kernel is called ``s.n.op`` and
    runs for 10 ns.
    """
    for number, words in enumerate(steps):
        base = start + number * period
        main.range(f"{LOADER}, op_id = 5", base + 10, base + 50)
        for position, op in enumerate(words.split()):
            at = base + 100 + 40 * position
            main.op(op, at, at + 30, sizes="[[8, 8]]")
            main.launch(f"{number}.{position}.{op}", at + 5, device=device)


def _owners(found: Analyzed, step: int) -> list[str]:
    """Last part of the op name of each kernel of a step, in order of launch."""
    kernels = found.kernels()
    return [kernels[name][0].rpartition("/")[2] for name in kernels if name.startswith(f"{step}.")]


# --- boundaries -----------------------------------------------------------------------------------


def test_n_instances_of_the_key_node_end_n_plus_one_iterations(tmp_path: Path) -> None:
    trace, main = one_gpu()
    _run_steps(main, ["conv2d relu"] * 3)
    found = analyze(trace, tmp_path)
    last_work = 2 * PERIOD + 100 + 40 + 5 + 2 + 10
    assert found.iterations() == [(0, 50), (50, 1050), (1050, 2050), (2050, last_work)]
    assert found.result.key_node == LOADER
    kinds = found.query("SELECT kind FROM view_iterations_all ORDER BY iter_value")
    assert [kind for (kind,) in kinds] == ["before", "iteration", "iteration", "iteration"]
    # Before the first stop of the data loader nothing of the loop was launched.
    counts = "SELECT total_kernel_count FROM view_iterations_profiled ORDER BY iter_value"
    assert [count for (count,) in found.query(counts)] == [0, 2, 2, 2]


def test_a_kernel_counts_in_the_iteration_that_launched_it(tmp_path: Path) -> None:
    trace, main = one_gpu()
    _run_steps(main, ["conv2d", "relu"])
    main.op("gelu", 800, 900)
    main.launch("late", 810, gpu=(1500, 1700))
    # A launch at the very stop of the key node belongs to the iteration that it begins.
    main.op("tanh", 1050, 1090)
    main.launch("edge", 1050)
    found = analyze(trace, tmp_path)
    rows = found.query("SELECT iter_value, kernel_name FROM view_iteration_kernels ORDER BY row_id")
    assert rows == [(1, "0.0.conv2d"), (1, "late"), (2, "edge"), (2, "1.0.relu")]
    # The breakdown clips: the kernel's time counts where it ran.
    times = found.query("SELECT non_tc_duration FROM view_iterations_profiled ORDER BY iter_value")
    assert [time for (time,) in times] == [0, 10, 220]


def test_without_a_key_node_there_is_one_iteration(tmp_path: Path) -> None:
    trace, main = one_gpu()
    main.op("conv2d", 100, 200)
    main.launch("conv", 110, gpu=(300, 400))
    main.call("cudaDeviceSynchronize_v3020", 200, 450)
    main.range("idle", 500, 900)
    found = analyze(trace, tmp_path)
    assert found.iterations() == [(0, 450)]
    assert found.result.key_node == ""


def _two_ranks(tmp_path: Path, steps: tuple[int, int]) -> Analyzed:
    trace = Trace()
    for rank, count in enumerate(steps):
        trace.gpu(rank)
        main = trace.thread(100 + rank)
        _run_steps(main, ["conv2d"] * count, start=10 * rank, device=rank)
    return analyze(trace, tmp_path)


def test_ranks_with_equally_many_instances_share_the_latest_stop(tmp_path: Path) -> None:
    found = _two_ranks(tmp_path, (3, 3))
    stops = [stop for _, stop in found.iterations()]
    assert stops[:-1] == [60, 1060, 2060]


def test_stops_of_ranks_with_different_numbers_of_instances_all_count(tmp_path: Path) -> None:
    found = _two_ranks(tmp_path, (3, 2))
    stops = [stop for _, stop in found.iterations()]
    assert stops[:-1] == [50, 60, 1050, 1060, 2050]


def test_work_behind_the_last_stop_is_an_iteration_too(tmp_path: Path) -> None:
    trace, main = one_gpu()
    for step in range(3):
        base = step * PERIOD
        main.range(f"iteration {step}", base, base + 900)
        main.op("conv2d" if step else "relu", base + 100, base + 200)
        main.launch(f"k{step}", base + 110)
    main.launch("evaluation", 4000)
    found = analyze(trace, tmp_path, key_node="iteration #")
    assert found.iterations() == [(0, 900), (900, 1900), (1900, 2900), (2900, 4012)]


# --- which key node -------------------------------------------------------------------------------


CLEARED = "Optimizer.zero_grad#SGD.zero_grad"


@pytest.mark.parametrize("first", [LOADER, CLEARED])
def test_what_begins_every_numbered_range_is_the_key_node(tmp_path: Path, first: str) -> None:
    trace, main = one_gpu()
    for step in range(3):
        base = step * PERIOD
        main.range(f"iteration {step}", base, base + 900)
        main.range(f"{first}, op_id = 5", base + 10, base + 50)
        main.op("conv2d", base + 100, base + 200)
        main.launch(f"k{step}", base + 110)
    found = analyze(trace, tmp_path)
    assert found.result.key_node == first
    assert [stop for _, stop in found.iterations()][:-1] == [50, 1050, 2050]


@pytest.mark.parametrize("ranks", [1, 2])
def test_an_op_that_begins_every_numbered_range_is_the_key_node(tmp_path: Path, ranks: int) -> None:
    trace = Trace()
    for rank in range(ranks):
        trace.gpu(rank)
        main = trace.thread(100 + rank)
        for step in range(3):
            base = step * PERIOD
            main.range(f"iteration {step}", base, base + 900)
            main.op("zeros", base + 10, base + 50)
            main.op("zeros", base + 60, base + 90)
            main.launch(f"k{rank}{step}", base + 70, device=rank)
    found = analyze(trace, tmp_path)
    assert [stop for _, stop in found.iterations()][:-1] == [50, 1050, 2050]
    # A re-aggregation finds it again.
    again = found.aggregate(iter_start=1, iter_stop=2)
    assert found.iterations(again.aggr_id) == found.iterations()


def test_numbered_ranges_that_begin_differently_are_the_key_node(tmp_path: Path) -> None:
    trace, main = one_gpu()
    for step in range(3):
        base = step * PERIOD
        main.range(f"iteration {step}", base, base + 900)
        main.op(("relu", "conv2d", "gelu")[step], base + 100, base + 200)
        main.launch(f"k{step}", base + 110)
    found = analyze(trace, tmp_path)
    assert found.result.key_node == "iteration #"


def test_the_optimizer_is_the_key_node_where_nothing_else_is(tmp_path: Path) -> None:
    trace, main = one_gpu()
    for step in range(3):
        base = step * PERIOD
        main.op("conv2d", base + 100, base + 200)
        main.launch(f"k{step}", base + 110)
        main.range("Optimizer.step#SGD.step, op_id = 5", base + 300, base + 400)
    found = analyze(trace, tmp_path)
    assert found.result.key_node == "Optimizer.step#SGD.step"
    assert [stop for _, stop in found.iterations()][:-1] == [400, 1400]


@pytest.fixture(scope="module")
def _three_steps(tmp_path_factory: pytest.TempPathFactory) -> Analyzed:
    trace, main = one_gpu()
    for step in range(3):
        main.range("phase", step * PERIOD + 700, step * PERIOD + 800)
        engine = main.process.thread(2)
        main.op("tanh", step * PERIOD + 500, step * PERIOD + 550, seq=step)
        engine.backward("TanhBackward0", step * PERIOD + 560, step * PERIOD + 590, seq=step)
    _run_steps(main, ["conv2d relu conv2d"] * 3)
    main.call("cudaDeviceSynchronize_v3020", 2950, 2990)
    return analyze(trace, tmp_path_factory.mktemp("three_steps"))


@pytest.fixture
def three_steps(_three_steps: Analyzed, tmp_path: Path) -> Analyzed:
    """A database of its own for each test."""
    copy = tmp_path / "dlprof_dldb.sqlite"
    shutil.copyfile(_three_steps.path, copy)
    return replace(_three_steps, path=copy)


@pytest.mark.parametrize(
    ("key_node", "first_stop"),
    [
        ("CONV2D_2", 210),
        ("/conv2d[2]", 210),
        ("/relu", 170),
        ("/tanh", 550),
        ("TANH_BPROP_1", 590),
        ("phase", 800),
        (LOADER, 50),
    ],
)
def test_a_key_node_is_an_op_id_an_op_name_or_a_range_name(
    three_steps: Analyzed, key_node: str, first_stop: int
) -> None:
    added = three_steps.aggregate(key_node=key_node)
    stops = [stop for _, stop in three_steps.iterations(added.aggr_id)]
    assert stops == [first_stop, PERIOD + first_stop, 2 * PERIOD + first_stop, 2990]
    assert added.key_node == key_node


def test_a_name_without_its_rank_means_the_op_of_every_rank(tmp_path: Path) -> None:
    found = _two_ranks(tmp_path, (3, 3))
    both = found.aggregate(key_node="/conv2d")
    assert [stop for _, stop in found.iterations(both.aggr_id)][:2] == [140, 1140]
    one = found.aggregate(key_node="/rank_0/conv2d")
    assert [stop for _, stop in found.iterations(one.aggr_id)][:2] == [130, 1130]


def test_a_name_that_fits_several_ops_is_refused_with_their_op_ids(tmp_path: Path) -> None:
    trace, main = one_gpu()
    for number in range(3):
        at = 100 + 100 * number
        main.range("{'traceMarker': ['a.py:1'], 'funcStack': '/module/cuda'}", at, at + 50)
        marker = f"{{'mod': 'Tensor', 'op': 'cuda', 'args': [{{'value': {number}}}]}}"
        main.range(marker, at + 5, at + 45)
        main.launch(f"k{number}", at + 10)
    found = analyze(trace, tmp_path)
    assert sorted(found.op_ids()) == ["CUDA_1", "CUDA_2", "CUDA_3"]
    with pytest.raises(AmbiguousKeyNodeError, match=r"'/module/cuda' names 3 ops") as caught:
        found.aggregate(key_node="/module/cuda")
    assert caught.value.exit_code == 2
    assert all(op_id in caught.value.hint for op_id in ("CUDA_1", "CUDA_2", "CUDA_3"))
    assert found.aggregate(key_node="CUDA_2").key_node == "CUDA_2"


def test_an_unknown_key_node_is_refused_with_the_closest_names(three_steps: Analyzed) -> None:
    with pytest.raises(KeyNodeNotFoundError, match="/rellu") as caught:
        three_steps.aggregate(key_node="/rellu")
    assert "'/relu'" in caught.value.hint
    assert caught.value.exit_code == 2
    assert three_steps.query("SELECT count(*) FROM view_aggregations") == [(1,)]


def test_an_unknown_key_node_fails_the_import_and_leaves_no_database(tmp_path: Path) -> None:
    trace, main = one_gpu()
    _run_steps(main, ["conv2d"] * 3)
    with pytest.raises(KeyNodeNotFoundError):
        analyze(trace, tmp_path, key_node="nothing like it")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["profile.sqlite"]


# --- iteration ranges -----------------------------------------------------------------------------


def test_a_range_is_inclusive_at_both_ends(three_steps: Analyzed) -> None:
    added = three_steps.aggregate(iter_start=1, iter_stop=2)
    assert (added.iter_start, added.iter_stop) == (1, 2)
    sql = "SELECT wall_clock_time, profiled_iterations, total_iterations FROM {} WHERE aggr_id = ?"
    (row,) = three_steps.query(sql.format("view_performance_summary"), added.aggr_id)
    assert row == (2 * PERIOD, 2, 4)
    assert three_steps.ops(added.aggr_id)["/relu", "fprop"] == 2


@pytest.mark.parametrize(("first", "last"), [(3, 3), (0, 0), (0, 3), (None, 3), (3, None)])
def test_open_ranges_reach_the_ends_of_the_profile(
    three_steps: Analyzed, first: int | None, last: int | None
) -> None:
    added = three_steps.aggregate(iter_start=first, iter_stop=last)
    assert added.iter_start == (first or 0)
    assert added.iter_stop == (3 if last is None else last)


@pytest.mark.parametrize(
    ("first", "last", "text"),
    [
        (2, 1, "before the first"),
        (0, 4, "outside"),
        (4, 4, "outside"),
        (4, None, "outside"),
        (-1, 2, "outside"),
        (None, -1, "before|outside"),
    ],
)
def test_ranges_that_make_no_sense_are_refused(
    three_steps: Analyzed, first: int | None, last: int | None, text: str
) -> None:
    with pytest.raises(IterationRangeError, match=text) as caught:
        three_steps.aggregate(iter_start=first, iter_stop=last)
    assert caught.value.exit_code == 2
    assert caught.value.hint


def test_simple_mode_has_iterations_where_a_range_is_named(tmp_path: Path) -> None:
    trace, main = one_gpu()
    _run_steps(main, ["conv2d"] * 3)
    plain = analyze(trace, tmp_path, mode=Mode.SIMPLE)
    assert (plain.result.key_node, len(plain.iterations())) == ("", 1)
    named = plain.aggregate(key_node=LOADER, iter_start=1)
    assert [stop for _, stop in plain.iterations(named.aggr_id)][:-1] == [50, 1050, 2050]
    with pytest.raises(KeyNodeNotFoundError):
        plain.aggregate(key_node="conv2d")
    with pytest.raises(IterationRangeError):
        plain.aggregate(iter_start=1)


def test_simple_mode_without_ranges_takes_no_key_node(tmp_path: Path) -> None:
    trace, main = one_gpu()
    main.launch("kernel", 100)
    for request in ({"key_node": "conv2d"}, {"iter_start": 1}, {"iter_stop": 1}):
        with pytest.raises(UsageError):
            analyze(trace, tmp_path, mode=Mode.SIMPLE, **request)


# --- identity over steps --------------------------------------------------------------------------

STEP = "conv2d relu conv2d relu add"
PLACES = ["conv2d", "relu", "conv2d[2]", "relu[2]", "add"]


@pytest.mark.parametrize("odd_step", [0, 2, 4])
@pytest.mark.parametrize(
    ("odd", "places"),
    [
        # One more at the beginning, in the middle, at the end; one less; one of another kind.
        ("copy_ conv2d relu conv2d relu add", ["copy_", *PLACES]),
        ("conv2d relu as_strided conv2d relu add", ["conv2d", "relu", "as_strided", *PLACES[2:]]),
        ("conv2d relu conv2d relu add mul", [*PLACES, "mul"]),
        ("relu conv2d relu add", PLACES[1:]),
        ("conv2d relu conv2d relu", PLACES[:-1]),
        ("conv2d relu conv2d gelu add", ["conv2d", "relu", "conv2d[2]", "gelu", "add"]),
    ],
)
def test_an_odd_step_renames_nothing(
    tmp_path: Path, odd_step: int, odd: str, places: list[str]
) -> None:
    trace, main = one_gpu()
    steps = [STEP] * 5
    steps[odd_step] = odd
    _run_steps(main, steps)
    found = analyze(trace, tmp_path)
    for step in range(5):
        assert _owners(found, step) == (places if step == odd_step else PLACES)


def test_an_op_more_of_a_kind_that_the_step_has_renames_nothing(tmp_path: Path) -> None:
    trace, main = one_gpu()
    _run_steps(main, [f"relu {STEP}", *[STEP] * 4])
    found = analyze(trace, tmp_path)
    assert all(_owners(found, step) == PLACES for step in range(1, 5))
    assert _owners(found, 0)[1:] == PLACES


def test_every_second_step_is_longer(tmp_path: Path) -> None:
    trace, main = one_gpu()
    _run_steps(main, [STEP, f"{STEP} mul mul"] * 3)
    found = analyze(trace, tmp_path)
    assert _owners(found, 0) == PLACES
    assert _owners(found, 5) == [*PLACES, "mul", "mul[2]"]


def test_two_steps_that_differ_share_what_they_have_in_common(tmp_path: Path) -> None:
    trace, main = one_gpu()
    # Before the loop runs something else, as every script does.
    main.op("ones", 1, 9, sizes="[[8, 8]]")
    _run_steps(main, [f"copy_ {STEP}", STEP])
    found = analyze(trace, tmp_path)
    assert _owners(found, 1) == PLACES
    assert _owners(found, 0) == ["copy_", *PLACES]


def test_a_reaggregation_renames_no_op(three_steps: Analyzed) -> None:
    before = three_steps.op_ids()
    for request in ({"iter_start": 2, "iter_stop": 2}, {"key_node": "/relu", "iter_start": 1}):
        added = three_steps.aggregate(**request)
        ids = three_steps.op_ids(added.aggr_id)
        assert ids.items() <= before.items()
        assert len(ids) >= 4


def test_op_ids_do_not_depend_on_an_odd_steps_extra_op(tmp_path: Path) -> None:
    trace, main = one_gpu()
    _run_steps(main, [STEP] * 4)
    plain = analyze(trace, tmp_path).op_ids()
    trace, main = one_gpu()
    _run_steps(main, [f"relu {STEP}", *[STEP] * 3])
    odd = analyze(trace, tmp_path).op_ids()
    assert plain.items() <= odd.items()
