"""GPU memory in captures of dlprof --memory on an H100: advice, and the owners of the peak."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

import pytest

from aggregator.advice import memory_fragmentation, memory_peak
from aggregator.advice.finding import Finding, Severity
from aggregator.advice.recorded_memory import GIB, RecordedMemory
from tests.advice.test_advice import advice, unproved

Connect = Callable[..., sqlite3.Connection]


def value(connection: sqlite3.Connection, query: str) -> int:
    return int(connection.execute(query).fetchone()[0])


def test_the_root_group_has_the_whole_peak(capture: Connect) -> None:
    for name in ("memory_kept", "memory_exhausted"):
        connection = capture(name)
        peak = value(
            connection,
            "SELECT peak_allocated_bytes FROM view_memory_recordings"
            " WHERE memory_source = 'snapshot'",
        )
        root = "SELECT peak_bytes FROM view_group_ops WHERE aggr_id = 1 AND row_full_name = '/'"
        assert value(connection, root) == peak
        ops = value(connection, "SELECT sum(peak_bytes) FROM view_op_nodes WHERE aggr_id = 1")
        assert 0.8 * peak < ops <= peak


def test_times_and_modules_name_the_same_owners(capture: Connect) -> None:
    """The op is found by time, the module by what the run recorded with each allocation."""
    connection = capture("memory_kept")
    linear = value(
        connection,
        "SELECT peak_bytes FROM view_op_nodes WHERE aggr_id = 1 AND direction = 'fprop'"
        " AND op_node_name = '/Mlp/head/linear'",
    )
    assert linear == value(
        connection,
        "SELECT sum(bytes_at_peak) FROM view_memory_peak WHERE memory_module = 'head'"
        " AND memory_phase = 'forward' AND memory_kind = 'activation'",
    )


def test_without_a_recording_the_memory_is_unknown(capture: Connect) -> None:
    query = "SELECT count(*) FROM view_op_nodes WHERE peak_bytes IS NOT NULL"
    assert value(capture("eager"), query) == 0


MEMORY_ADVICE = {"memory_growth", "memory_peak", "memory_fragmentation"}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("memory_kept", {"memory_growth"}),
        ("memory_released", set()),
        ("memory_exhausted", {"memory_peak"}),
        # Batches that get longer, without and with expandable segments.
        ("memory_fragmented", {"memory_fragmentation"}),
        ("memory_expandable", set()),
    ],
)
def test_each_capture_gets_its_advice_on_memory(
    capture: Connect, name: str, expected: set[str]
) -> None:
    connection = capture(name)
    assert MEMORY_ADVICE & set(advice(connection, "found")) == expected
    assert unproved(connection) == []


def test_what_grows_is_what_the_program_keeps(capture: Connect) -> None:
    # It keeps the logits of 12 x 512 tokens and 5,000 words in FP32 of each of 8 steps.
    query = "SELECT owner, growth_bytes, growth_steps FROM view_memory_growth"
    ((owner, size, steps),) = capture("memory_kept").execute(query).fetchall()
    assert (size, steps) == (8 * 12 * 512 * 5000 * 4, 8)
    assert "head" in owner


def test_a_failed_run_knows_what_it_asked_for_and_what_helps(capture: Connect) -> None:
    connection = capture("memory_exhausted")
    query = "SELECT failures, failed_bytes FROM view_memory_recordings WHERE failures > 0"
    # 16 x 512 tokens of 3,072 numbers: the activation function of GPT-2.
    assert connection.execute(query).fetchall() == [(1, 16 * 512 * 3072 * 4)]
    changes = dict(
        connection.execute("SELECT change, peak_allocated_bytes FROM view_memory_changes")
    )
    assert min(changes, key=lambda one: changes[one]) == "checkpoint:transformer.h.*"


def memory(**known: object) -> RecordedMemory:
    """A recording of a GPU of 80 GiB."""
    usual: dict[str, object] = {
        "recording": 1,
        "device": 0,
        "total_bytes": 80 * GIB,
        "peak_allocated": 40 * GIB,
        "peak_active": 40 * GIB,
        "peak_reserved": 42 * GIB,
        "failures": 0,
        "failed_bytes": 0,
        "kinds": {"activation": 30 * GIB, "parameter": 10 * GIB},
        "growth": (),
        "changes": (("batch:0.5", 25 * GIB),),
    }
    return RecordedMemory(**{**usual, **known})  # type: ignore[arg-type]


class Memories:
    """Facts of which only the recordings matter."""

    def __init__(self, *memories: RecordedMemory) -> None:
        self.memories = memories


@pytest.mark.parametrize(
    ("reserved", "failures", "severity"),
    [
        (44 * GIB, 0, None),
        (60 * GIB, 0, Severity.MEDIUM),
        (60 * GIB, 1, Severity.HIGH),
    ],
)
def test_fragmentation_is_what_was_never_used(
    reserved: int, failures: int, severity: Severity | None
) -> None:
    facts = Memories(memory(peak_reserved=reserved, failures=failures), memory(peak_active=None))
    found = memory_fragmentation.advise(facts)  # type: ignore[arg-type]
    if severity is None:
        assert found is None
    else:
        assert isinstance(found, Finding)
        assert (found.severity, found.proof.value) == (severity, reserved - 40 * GIB)


@pytest.mark.parametrize(("reserved", "is_found"), [(60 * GIB, False), (70 * GIB, True)])
def test_a_full_memory_gets_the_best_change(reserved: int, *, is_found: bool) -> None:
    found = memory_peak.advise(Memories(memory(peak_reserved=reserved)))  # type: ignore[arg-type]
    assert isinstance(found, Finding) == is_found
    if isinstance(found, Finding):
        assert "25.00 GiB" in found.recommendation


def test_a_full_memory_that_no_change_lowers_gets_no_advice() -> None:
    full = memory(peak_reserved=70 * GIB, changes=(("batch", 40 * GIB),))
    assert memory_peak.advise(Memories(full)) is None  # type: ignore[arg-type]
