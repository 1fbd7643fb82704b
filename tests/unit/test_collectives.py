"""Collectives matched between ranks, on traces whose waiting is known by construction."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from aggregator.costs.units import NETWORK, CostUnit, InstanceCosts
from aggregator.metrics.collectives import collective_kind
from aggregator.metrics.efficiency import collective_ops
from tests.builders import Analyzed, Trace, analyze

ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
BROADCAST = "ncclDevKernel_Broadcast_RING_LL"
PIDS = (101, 102, 103)


def job(
    folder: Path,
    calls: list[tuple[str, list[tuple[int, int]]]],
    streams: list[int] | None = None,
) -> Analyzed:
    """One process per rank; each call gives (start, end) of its kernel on every rank."""
    trace = Trace()
    for rank in range(len(calls[0][1])):
        trace.gpu(rank)
        thread = trace.thread(pid=PIDS[rank])
        for number, (kernel, times) in enumerate(calls):
            start, end = times[rank]
            thread.launch(
                kernel,
                start - 10,
                gpu=(start, end),
                device=rank,
                long_name=f"{kernel}(x)",
                stream=streams[number] if streams else 17,
            )
    return analyze(trace, folder)


def waiting(found: Analyzed) -> list[tuple[int, int, int | None]]:
    """(sequence, rank, waiting) of every collective."""
    query = "SELECT sequence, rank, waiting_ns FROM view_collectives WHERE aggr_id = 1"
    return sorted(found.query(query))


def test_a_rank_waits_until_the_last_one_starts(tmp_path: Path) -> None:
    found = job(tmp_path, [(ALL_REDUCE, [(100, 900), (350, 905), (820, 903)])])
    assert waiting(found) == [(0, 0, 720), (0, 1, 470), (0, 2, 0)]
    query = "SELECT rank, waiting_ns, times_last, kept_waiting_ns FROM view_ranks ORDER BY rank"
    assert found.query(query) == [(0, 720, 0, 0), (1, 470, 0, 0), (2, 0, 1, 1190)]


def test_who_left_before_the_last_came_did_not_wait_for_it(tmp_path: Path) -> None:
    """A broadcast's root hands on its part and leaves."""
    found = job(tmp_path, [(BROADCAST, [(100, 120), (350, 905), (820, 903)])])
    assert waiting(found) == [(0, 0, 0), (0, 1, 470), (0, 2, 0)]


def test_exposed_communication_is_split_into_waiting_and_transfer(tmp_path: Path) -> None:
    # GIVEN rank 0 waits from 100 to 350, and computes from 90 to 200 and from 340 to 400
    trace = Trace()
    for rank, (start, computing) in enumerate([(100, [(90, 200), (340, 400)]), (350, [])]):
        trace.gpu(rank)
        thread = trace.thread(pid=PIDS[rank])
        thread.launch(
            ALL_REDUCE, start - 30, gpu=(start, 900), device=rank, long_name=ALL_REDUCE, stream=17
        )
        for work in computing:
            thread.launch("gemm", work[0] - 5, gpu=work, device=rank)
    found = analyze(trace, tmp_path)
    # THEN what is computed meanwhile counts for neither part
    query = (
        "SELECT exposed_communication_ns, exposed_waiting_ns, exposed_transfer_ns FROM view_ranks"
        " WHERE aggr_id = 1 ORDER BY rank"
    )
    assert found.query(query) == [(640, 140, 500), (550, 0, 550)]


def test_a_rank_is_busy_while_kernels_or_copies_run(tmp_path: Path) -> None:
    # GIVEN a kernel from 100 to 300 and a copy from 250 to 450 on rank 0; rank 1 runs half as much
    trace = Trace()
    for rank, size in enumerate([200, 100]):
        trace.gpu(rank)
        thread = trace.thread(pid=PIDS[rank])
        thread.launch("gemm", 90, gpu=(100, 100 + size), device=rank)
        thread.copy(50 + size, gpu=(50 + size, 50 + 2 * size), device=rank)
    query = "SELECT busy_ns, computing_ns FROM view_ranks WHERE aggr_id = 1 ORDER BY rank"
    assert analyze(trace, tmp_path).query(query) == [(350, 200), (150, 100)]


def test_exposed_waiting_is_unknown_where_a_collective_was_not_matched(tmp_path: Path) -> None:
    found = job(tmp_path, [(ALL_REDUCE, [(100, 200), (150, 201), (5000, 5100)])])
    query = "SELECT exposed_communication_ns, exposed_waiting_ns FROM view_ranks ORDER BY rank"
    assert found.query(query) == [(100, 50), (51, 0), (100, None)]


def test_calls_are_matched_by_their_order_in_the_stream(tmp_path: Path) -> None:
    calls = [
        (ALL_REDUCE, [(100, 200), (150, 201)]),
        (BROADCAST, [(300, 320), (310, 325)]),
        (ALL_REDUCE, [(480, 500), (400, 501)]),
    ]
    found = job(tmp_path, calls)
    expected = [(0, 0, 50), (0, 1, 0), (1, 0, 10), (1, 1, 0), (2, 0, 0), (2, 1, 80)]
    assert waiting(found) == expected


def test_late_calls_of_the_step_before_do_not_shift_the_others(tmp_path: Path) -> None:
    # GIVEN a rank that is late, so that its recording has two calls of the step before
    times = [((at * 100, at * 100 + 95), (at * 100 + 60, at * 100 + 96)) for at in range(12)]
    trace = Trace()
    for rank in range(2):
        trace.gpu(rank)
        thread = trace.thread(pid=PIDS[rank])
        for at in range(2 if rank == 0 else 0, 12):
            start, end = times[at][rank]
            thread.launch(
                *(ALL_REDUCE, start - 10),
                gpu=(start, end),
                device=rank,
                long_name=f"{ALL_REDUCE}(x)",
                stream=17,
            )
    # THEN the others wait for it
    found = waiting(analyze(trace, tmp_path))
    assert [row[0] for row in found if row[1] == 0] == list(range(2, 12))
    assert {row[2] for row in found if row[1] == 0} == {60}
    assert [row[2] for row in found if row[1] == 1][2:] == [0] * 10


def test_streams_of_two_communicators_are_separated_by_their_times(tmp_path: Path) -> None:
    """Ranks 0 and 1 reduce among themselves while rank 2 runs the same call at another time."""
    calls = [(ALL_REDUCE, [(100, 200), (150, 201), (5000, 5100)])]
    found = job(tmp_path, calls)
    rows = found.query("SELECT rank, communicator, waiting_ns FROM view_collectives ORDER BY rank")
    assert rows == [(0, 1, 50), (1, 1, 0), (2, None, None)]
    assert found.query("SELECT unmatched_count, waiting_ns FROM view_ranks ORDER BY rank") == [
        (0, 50),
        (0, 0),
        (1, None),
    ]


def test_an_incomplete_rank_keeps_the_common_collectives(tmp_path: Path) -> None:
    trace = Trace()
    for rank, count in ((0, 3), (1, 2)):
        trace.gpu(rank)
        thread = trace.thread(pid=PIDS[rank])
        for number in range(count):
            begin = 1000 * number + 100 + 30 * rank
            end = 1000 * number + 500
            thread.launch(
                ALL_REDUCE, begin - 10, gpu=(begin, end), device=rank, long_name=ALL_REDUCE
            )
    found = analyze(trace, tmp_path)
    query = "SELECT sequence, rank, num_ranks, waiting_ns FROM view_collectives ORDER BY 1, 2"
    assert found.query(query) == [
        (0, 0, 2, 30),
        (0, 1, 2, 0),
        (1, 0, 2, 30),
        (1, 1, 2, 0),
        (2, 0, 1, None),
    ]


def test_waiting_counts_for_the_iterations_that_are_aggregated(tmp_path: Path) -> None:
    trace = Trace()
    for rank in range(2):
        trace.gpu(rank)
        thread = trace.thread(pid=PIDS[rank])
        for step in range(3):
            base = 1000 * step
            thread.range(f"step {step}", base, base + 900)
            thread.op("relu", base + 10, base + 60, sizes="[[2]]")
            thread.launch("relu_kernel", base + 20, device=rank, gpu=(base + 30, base + 40))
            begin = base + 200 + rank * (step + 1)
            thread.launch(
                ALL_REDUCE, begin - 9, gpu=(begin, base + 400), device=rank, long_name=ALL_REDUCE
            )
    found = analyze(trace, tmp_path, key_node="step #")
    second = found.aggregate(key_node="step #", iter_start=1, iter_stop=1).aggr_id
    query = "SELECT rank, waiting_ns FROM view_ranks WHERE aggr_id = ? ORDER BY rank"
    assert found.query(query, 1) == [(0, 1 + 2 + 3), (1, 0)]
    assert found.query(query, second) == [(0, 2), (1, 0)]


def test_a_run_of_one_process_has_one_rank_and_no_waiting(tmp_path: Path) -> None:
    trace = Trace()
    trace.gpu()
    trace.thread().launch(ALL_REDUCE, 10, long_name=ALL_REDUCE)
    found = analyze(trace, tmp_path)
    assert found.query("SELECT rank, waiting_ns, unmatched_count FROM view_ranks") == [(0, None, 1)]


def test_names_of_kernels_give_kinds_of_collectives() -> None:
    names = {
        "ncclDevKernel_AllReduce_Sum_f32_RING_LL": "AllReduce",
        "ncclKernel_AllGather_RING_LL_Sum_int8_t": "AllGather",
        "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL": "ReduceScatter",
        "ncclDevKernel_Reduce_Sum_f32_RING_LL": "Reduce",
        "ncclDevKernel_SendRecv": "SendRecv",
        "ncclSymkDevKernel_AllReduce_AGxLL_R": "AllReduce",
        "ncclDevKernel_Generic_4": "ncclDevKernel_Generic_4",
    }
    assert {name: collective_kind(name) for name in names} == names


def test_streams_whose_calls_mostly_run_together_are_of_one_communicator(tmp_path: Path) -> None:
    """Three of five calls run at the same time: chance, as the calls of one wait for each other."""
    apart = [
        (1000 * n, [(1000 * n, 1000 * n + 100), (1000 * n + 500, 1000 * n + 600)]) for n in (1, 2)
    ]
    together = [
        (1000 * n, [(1000 * n, 1000 * n + 100), (1000 * n + 10, 1000 * n + 100)]) for n in (3, 4, 5)
    ]
    found = job(tmp_path, [(ALL_REDUCE, times) for _, times in (*apart, *together)])
    assert {ns for _, _, ns in waiting(found)} == {None}


def test_an_op_that_spends_most_of_its_time_in_collectives_is_a_collective_one() -> None:
    units = (CostUnit("all_reduce", precision=NETWORK), CostUnit("add"))
    row = np.array([0, 1])
    costs = InstanceCosts(units, part_cost=row, part_unit=row, part_calls=row + 1, count=2)
    op, cost = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])
    found = collective_ops(costs, op, cost, np.array([60, 40, 40, 60]))
    assert found.tolist() == [True, False]
