"""A comparison says in one sentence what cannot be compared, and what still can."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from aggregator.compare.captures import CaptureData, read_capture
from aggregator.compare.engine import compare
from aggregator.compare.facts import program_of
from aggregator.compare.result import Comparison, Verdict
from aggregator.metrics.ownership import BUSY_CLASSES
from aggregator.system.sqlite_uri import connect_read_only
from tests.conftest import DEMO_PROFILE, ProfileFactory


@pytest.fixture(scope="module")
def capture(imported: ProfileFactory) -> CaptureData:
    with closing(connect_read_only(imported(DEMO_PROFILE))) as connection:
        return read_capture(connection, "a.sqlite")


def against(base: CaptureData, **changes: Any) -> Comparison:
    """The capture compared with a changed copy of itself; no time is lost in any case."""
    found = compare([base], [replace(base, **changes)])
    for parts in (found.rows, found.classes, found.causes):
        assert sum((one.base_ns for one in parts), Fraction()) == found.base.step_ns
        assert sum((one.new_ns for one in parts), Fraction()) == found.new.step_ns
    return found


def renamed(capture: CaptureData, kept: int = 0) -> tuple[Any, ...]:
    """Ops of another model: other names, types and shapes.

    Args:
        capture: Where the ops are from.
        kept: Ops that stay as they are, of those with time the ones that own least.
    """
    owned = capture.ownership
    times = np.bincount(owned.op + 1, owned.owned_ns.sum(axis=0), len(capture.ops) + 1)[1:]
    order = [op for op in np.argsort(times).tolist() if times[op]]
    return tuple(
        op if number in order[:kept] else replace(op, name=f"/x/{number}", op_type=f"o{number}")
        for number, op in enumerate(capture.ops)
    )


def test_nothing_limits_a_comparison_with_itself(capture: CaptureData) -> None:
    found = against(capture)
    assert found.notes == ()
    assert found.setup == ()
    assert "set-up" not in found.headline


def test_note_says_that_the_modes_differ(capture: CaptureData) -> None:
    [note] = against(capture, mode="jax").notes
    assert note == (
        "The modes differ (pytorch and jax): ops have other names, so only the classes, causes and "
        "modules in common can be compared."
    )


def test_note_says_that_the_domains_differ(capture: CaptureData) -> None:
    [note] = against(capture, domains=("Loss", "Model")).notes
    assert note == (
        "The NVTX domains differ (none and Loss, Model): ops of the default domain own the time, "
        "so all of it can be compared, but not by the ranges of other domains."
    )


def test_note_says_that_no_op_is_in_common(capture: CaptureData) -> None:
    found = against(capture, ops=renamed(capture))
    [note] = found.notes
    assert note.startswith("The sides have no op in common: they may be other models")
    assert note.endswith("classes, causes and modules in common can be compared.")
    assert all(one.difference_ns == 0 for one in found.classes)


def test_note_says_that_hardly_an_op_is_in_common(capture: CaptureData) -> None:
    [note] = against(capture, ops=renamed(capture, 100)).notes
    share = float(note.split()[2])
    assert 0 < share < 20
    assert note.endswith("classes, causes and modules in common can be compared.")


def test_other_programs_have_no_change_of_the_step(capture: CaptureData) -> None:
    found = against(capture, ops=renamed(capture))
    assert found.are_other_programs
    assert found.headline.startswith("Two programs: hardly an op is on both sides")
    assert "%" not in found.headline
    compiled = {**capture.facts, "torch_compile": "true"}
    assert not against(capture, ops=renamed(capture), facts=compiled).are_other_programs
    assert not against(capture, ops=renamed(capture), mode="simple").are_other_programs
    assert not against(capture).are_other_programs


def test_note_says_which_named_iterations_are_compared(capture: CaptureData) -> None:
    first, last = capture.capture.first, capture.capture.last
    assert not against(capture, asked=(first, last)).notes
    [note] = against(capture, asked=(first, last + 1)).notes
    assert note.startswith(f"Of 'a.sqlite' the iterations {first} to {last} are compared")


def test_parts_of_a_run_have_no_change_of_the_step_without_profiling(capture: CaptureData) -> None:
    known = replace(capture, capture=replace(capture.capture, unprofiled_ns=48_568_000))
    assert compare([known], [known]).headline.startswith("The step without profiling: 48.568")
    assert "without profiling" not in compare([known], [known], is_one_capture=True).headline


def test_note_says_that_the_key_nodes_differ(capture: CaptureData) -> None:
    other = replace(capture.capture, key_node="my step")
    [note] = against(capture, capture=other).notes
    assert note.startswith("Other key nodes cut the iterations: ")


def test_steps_of_a_side_without_a_loop_are_not_compared(capture: CaptureData) -> None:
    """The whole profile counts as a step: its length says nothing, so nothing gets a verdict."""
    owned = capture.ownership
    whole = owned.lengths_ns.sum(keepdims=True)
    found = against(
        capture,
        capture=replace(
            capture.capture, name="b.sqlite", key_node="", has_steps=False, lengths_ns=whole
        ),
        ownership=replace(
            owned, lengths_ns=whole, owned_ns=owned.owned_ns.sum(axis=0, keepdims=True)
        ),
    )
    assert found.headline.startswith(
        "The lengths of the steps cannot be compared: no loop was found in 'b.sqlite', so its "
        "whole profile counts as one step. Shares of the time can: "
    )
    verdicts = {found.judgement.verdict, *(row.judgement.verdict for row in found.rows)}
    assert verdicts == {Verdict.CANNOT_TELL}
    assert found.judgement.interval_ns is None


def test_what_differs_in_the_set_up_is_in_the_first_line(capture: CaptureData) -> None:
    facts = capture.facts | {"GPU": "NVIDIA H100", "CPU": "another", "matrix products": "float32"}
    found = against(capture, facts=facts)
    assert found.headline.endswith(
        f"The set-up differs: GPU {capture.facts['GPU']} -> NVIDIA H100; "
        "matrix products float16 -> float32; and 1 more."
    )
    assert [one.key for one in found.setup] == ["GPU", "matrix products", "CPU"]
    without = {key: value for key, value in capture.facts.items() if key != "GPU"}
    found = against(capture, facts=without)
    assert [(one.key, one.new) for one in found.setup] == [("GPU", "")]
    assert "set-up" not in found.headline


def test_note_says_that_the_cpu_is_ahead_of_the_gpu(capture: CaptureData) -> None:
    """Kernels that run for longer than the steps cannot have run in them."""
    length_ns = int(capture.capture.lengths_ns.sum())
    assert capture.launched_ns is None  # Its steps end when their kernels have ended.
    [note] = against(capture, launched_ns=3 * length_ns).notes
    assert note.startswith("The CPU is ahead of the GPU in 'a.sqlite': kernels launched in its 18 ")
    assert against(capture, launched_ns=None).notes == ()


def test_shapes_of_ops_that_run_in_the_loop(capture: CaptureData) -> None:
    """Ops that ran before the loop explain nothing."""
    owned = set(capture.ownership.op.tolist())
    in_loop = next(op for op in owned if op >= 0 and capture.ops[op].shapes)
    before = next(op for op in range(len(capture.ops)) if op not in owned)
    ops = tuple(
        replace(op, shapes=f"<1>{op.shapes}") if number in (in_loop, before) else op
        for number, op in enumerate(capture.ops)
    )
    [setting] = against(capture, ops=ops).setup
    assert setting.key == f"shapes of {capture.ops[in_loop].name}"


@pytest.mark.parametrize(
    ("factor", "is_called"), [(10, True), (2, False)], ids=["far longer", "a little longer"]
)
def test_one_capture_a_side_can_show_that_a_step_is_far_longer(
    capture: CaptureData, factor: int, is_called: bool
) -> None:
    """Runs of one program on a busy machine differ by less than three times."""
    owned = capture.ownership
    is_idle = owned.kind >= BUSY_CLASSES
    times = owned.owned_ns * np.where(is_idle, factor, 1)
    lengths = times.sum(axis=1)
    found = against(
        capture,
        capture=replace(capture.capture, lengths_ns=lengths),
        ownership=replace(owned, lengths_ns=lengths, owned_ns=times),
    )
    assert found.judgement.verdict is (Verdict.SLOWER if is_called else Verdict.CANNOT_TELL)


@pytest.mark.parametrize(
    ("command", "program"),
    [
        ("dlprof --database=a.sqlite --output_path=o", ""),
        ("dlprof --nsys_database a.sqlite", ""),
        (
            "dlprof --output_path=runs/1 --mode=pytorch python t.py",
            "dlprof --mode=pytorch python t.py",
        ),
        ("dlprof --output_path runs/1 python t.py --lr 1", "dlprof python t.py --lr 1"),
        ("dlprof python 'my train.py'", "dlprof python 'my train.py'"),
        ("dlprof 'unbalanced", "dlprof 'unbalanced"),
    ],
)
def test_program_is_named_without_the_files_that_it_wrote(command: str, program: str) -> None:
    assert program_of(command) == program
