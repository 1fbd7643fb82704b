"""A user's own NVTX domains: what their ranges cover, by thread and by time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

from tests.builders import (
    DOMAIN,
    LAUNCH,
    START_END,
    Analyzed,
    Thread,
    Trace,
    analyze,
    one_gpu,
    oracle,
    query,
)

LOOP, GRADIENT = 1, 2


def _trace() -> tuple[Trace, Thread]:
    trace, main = one_gpu()
    main.range("Loop", 1, None, domain=LOOP, kind=DOMAIN)
    main.range("Gradient", 2, None, domain=GRADIENT, kind=DOMAIN)
    return trace, main


def _covered(found: Analyzed) -> dict[tuple[str, str], list[tuple[str, int]]]:
    """(domain, op name) -> kernels that it covers, and whether only by time."""
    sql = (
        "SELECT domain_name, op_node_name, kernel_name, by_time FROM view_domain_kernels"
        " ORDER BY row_id"
    )
    result: dict[tuple[str, str], list[tuple[str, int]]] = {}
    for domain, op, kernel, by_time in found.query(sql):
        result.setdefault((domain, op), []).append((kernel, by_time))
    return result


def test_the_default_domain_holds_all_work_and_others_what_they_cover(tmp_path: Path) -> None:
    trace, main = _trace()
    main.range("step", 100, 500, domain=LOOP)
    main.range("optimizer", 300, 400, domain=LOOP)
    main.launch("in_step", 150)
    main.launch("in_optimizer", 350)
    main.launch("outside", 600)
    found = analyze(trace, tmp_path)
    assert set(found.query("SELECT domain_name FROM view_domains")) >= {
        ("default-domain",),
        ("Loop",),
    }
    assert set(found.kernels()) == {"in_step", "in_optimizer", "outside"}
    assert _covered(found) == {
        ("Loop", "/step"): [("in_step", 0)],
        ("Loop", "/step/optimizer"): [("in_optimizer", 0)],
    }


def test_a_call_around_a_range_takes_no_more_than_the_outer_ranges_own_time(
    tmp_path: Path,
) -> None:
    trace, main = _trace()
    main.range("outer", 100, 500, domain=LOOP)
    main.call("cudaMalloc_v3020", 120, 480)
    main.range("inner", 150, 450, domain=LOOP)
    main.launch("kernel", 600)
    times = "SELECT op_node_name, cpu_time_sum, cpu_overhead_sum FROM view_op_metrics"
    found = analyze(trace, tmp_path).query(f"{times} WHERE aggr_id = 1 AND domain_name = 'Loop'")
    assert found == [("/outer", 100, 0), ("/outer/inner", 300, 300)]


def test_threads_without_a_range_of_the_domain_count_by_time(tmp_path: Path) -> None:
    trace, main = _trace()
    engine, helper = main.process.thread(2), main.process.thread(3)
    stranger = trace.process(200).thread(1)
    main.range("backward", 100, 500, domain=GRADIENT)
    main.launch("loss", 110)
    engine.launch("before", 90)
    engine.launch("dconv", 200)
    # It starts while the range is open, though the call ends later.
    engine.launch("across", 499, length=10)
    engine.launch("after", 520)
    # A thread with ranges of the domain speaks for itself.
    helper.range("other", 600, 700, domain=GRADIENT)
    helper.launch("helpers", 300)
    # Another process has nothing to do with it.
    stranger.launch("stranger", 300)
    found = analyze(trace, tmp_path)
    assert _covered(found) == {
        ("Gradient", "/backward"): [("loss", 0), ("dconv", 1), ("across", 1)],
    }


def test_start_end_ranges_belong_to_their_process(tmp_path: Path) -> None:
    """TensorFlow's threads take turns in opening, closing and launching."""
    trace, main = _trace()
    one, two = main.process.thread(2), main.process.thread(3)
    stranger = trace.process(200).thread(1)
    main.range("step", 50, 700, domain=LOOP)
    one.range("First", 100, 200, domain=GRADIENT, kind=START_END)
    two.range("Second", 190, 400, domain=GRADIENT, kind=START_END)
    two.range("inner", 300, 350, domain=GRADIENT)
    main.launch("by_main", 110)
    two.launch("by_two", 120)
    one.launch("second", 210)
    two.launch("in_inner", 310)
    one.launch("beside_inner", 330)
    one.launch("after", 410)
    stranger.launch("stranger", 150)
    found = analyze(trace, tmp_path)
    assert {key: value for key, value in _covered(found).items() if key[0] == "Gradient"} == {
        ("Gradient", "/First"): [("by_main", 0), ("by_two", 0)],
        ("Gradient", "/Second"): [("second", 0), ("beside_inner", 0)],
        ("Gradient", "/inner"): [("in_inner", 0)],
    }


def test_numbers_that_come_in_every_step_are_names_and_others_are_counters(tmp_path: Path) -> None:
    trace, main = _trace()
    for step in range(3):
        at = 1000 * (step + 1)
        main.range(f"step {step}", at, at + 500, domain=LOOP)
        for number in (1, 2):
            begin = at + 100 * number
            main.range(f"Dense {number}", begin, begin + 50, domain=GRADIENT, kind=START_END)
            main.launch(f"kernel_{number}", begin + 10)
    found = analyze(trace, tmp_path)
    assert _covered(found) == {
        ("Loop", "/step #"): [("kernel_1", 0), ("kernel_2", 0)] * 3,
        ("Gradient", "/Dense 1"): [("kernel_1", 0)] * 3,
        ("Gradient", "/Dense 2"): [("kernel_2", 0)] * 3,
    }


def test_domains_are_identified_by_name_not_by_number(tmp_path: Path) -> None:
    trace, main = _trace()
    other = trace.process(200).thread(1)
    other.range("Gradient", 1, None, domain=LOOP, kind=DOMAIN)
    other.range("backward", 100, 200, domain=LOOP)
    other.launch("of_other", 110)
    main.range("backward", 100, 200, domain=GRADIENT)
    main.launch("of_main", 120)
    covered = _covered(analyze(trace, tmp_path))
    assert {domain for domain, _ in covered} == {"Gradient"}
    assert sorted(kernel for rows in covered.values() for kernel, _ in rows) == [
        "of_main",
        "of_other",
    ]


def test_framework_domains_are_not_the_users(tmp_path: Path) -> None:
    trace, main = _trace()
    main.range("NCCL", 3, None, domain=3, kind=DOMAIN)
    main.op("conv2d", 100, 300)
    main.range("ncclAllReduce", 120, 200, domain=3)
    main.launch("reduce", 130)
    found = analyze(trace, tmp_path)
    assert found.kernels() == {"reduce": ("/conv2d", "fprop")}


def test_a_range_of_any_domain_may_be_the_key_node(tmp_path: Path) -> None:
    trace, main = _trace()
    for step in range(3):
        main.range("step", 1000 * step, 1000 * step + 800, domain=LOOP)
        main.op("conv2d", 1000 * step + 100, 1000 * step + 200)
        main.launch(f"k{step}", 1000 * step + 110)
    main.call("cudaDeviceSynchronize_v3020", 3000, 3100)
    found = analyze(trace, tmp_path, key_node="step")
    assert found.iterations() == [(0, 800), (800, 1800), (1800, 2800), (2800, 3100)]


def test_work_outside_the_domain_is_not_the_domains(tmp_path: Path) -> None:
    trace, main = _trace()
    main.op("conv2d", 100, 200)
    main.launch("conv", 110)
    main.range("phase", 300, 400, domain=LOOP)
    main.launch("stray", 310)
    found = analyze(trace, tmp_path)
    assert found.kernels() == {
        "conv": ("/conv2d", "fprop"),
        "stray": (f"unassociated_{LAUNCH}", ""),
    }
    sums = "SELECT sum(kernel_calls), sum(num_calls) FROM view_op_nodes WHERE domain_name = 'Loop'"
    assert found.query(sums) == [(1, 1)]


def test_graphs_count_as_gpu_time_of_the_domain_that_launched_them(tmp_path: Path) -> None:
    # GIVEN two GPUs, one of which ran nothing but a graph, whose kernels were not recorded
    trace, main = _trace()
    trace.gpu(1)
    main.op("conv2d", 0, 900)
    main.range("step", 100, 500, domain=LOOP)
    main.launch("kernel", 110, gpu=(200, 300))
    main.graph(120, gpu=(250, 450))
    main.graph(130, gpu=(300, 400), device=1)
    main.graph(600, gpu=(700, 800))
    main.call("cudaDeviceSynchronize_v3020", 800, 1000)
    # WHEN it is aggregated at its import, and once more from the database
    found = analyze(trace, tmp_path)
    again = found.aggregate(iter_start=0, iter_stop=0)
    assert not again.reused
    # THEN the domain has the graphs that it launched, in 1000 ns, and no other
    for aggregation in (1, again.aggr_id):
        sql = (
            "SELECT domain_name, gpu_utilization, used_gpu_utilization,"
            " round(non_tc_duration_pct + graph_duration_pct, 6)"
            " FROM view_model_summary WHERE aggr_id = ? ORDER BY 1"
        )
        assert found.query(sql, aggregation) == [
            ("Loop", 17.5, 17.5, 17.5),
            ("default-domain", 22.5, 22.5, 22.5),
        ]
        sql = (
            "SELECT device_id, device_gpu_utilization FROM view_gpu_devices"
            " WHERE aggr_id = ? AND domain_name = 'Loop' ORDER BY 1"
        )
        assert found.query(sql, aggregation) == [(0, 25.0), (1, 10.0)]
        sql = (
            "SELECT non_tc_duration + graph_duration FROM view_iterations_detail"
            " WHERE aggr_id = ? AND domain_name = 'Loop'"
        )
        assert found.query(sql, aggregation) == [(175,)]


# --- the capture with three domains ---------------------------------------------------------------


def test_ranges_of_the_capture_cover_what_nsys_says(
    shared_dir: Path, imported: Callable[[str], Path]
) -> None:
    expected: Counter[str] = Counter()
    for row in oracle(shared_dir, "nvtx_domains__nvtx_kern_sum"):
        if row["NVTX Range"]:
            expected[row["NVTX Range"]] += int(row["Kern Inst"])
    found: Counter[str] = Counter()
    sql = (
        "SELECT domain_name, op_node_name, count(*) FROM view_domain_kernels WHERE by_time = 0"
        " GROUP BY 1, 2"
    )
    for domain, op, count in query(imported("nvtx_domains"), sql):
        # nsys counts a kernel in every range around it.
        for name in set(op.strip("/").split("/")):
            found[f"{domain}:{name}"] += count
    assert found == expected
