"""The first line of a comparison, on runs whose times were changed in a known way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from aggregator.compare.captures import CaptureData
from aggregator.compare.engine import compare
from aggregator.compare.matching import Op
from aggregator.compare.ranks import RankTimes
from aggregator.compare.result import Verdict
from aggregator.compare.text import interval_text
from aggregator.metrics.ownership import BUSY_CLASSES, COMMUNICATION, TENSOR_CORES
from aggregator.profile.arrays import Bool
from tests.compare.test_known_changes import runs

MS = 1_000_000


def _base() -> CaptureData:
    (data,) = runs("transformer_00", (0,))
    return data


def _longer(data: CaptureData, columns: Bool, added_ns: int) -> CaptureData:
    """The capture with time added to some owners in each step, by their share."""
    owned = data.ownership.owned_ns.copy()
    weight = owned[:, columns].mean(axis=0)
    parts = np.floor(added_ns * weight / weight.sum()).astype(np.int64)
    parts[0] += added_ns - int(parts.sum())
    owned[:, columns] += parts * data.capture.devices
    lengths = data.capture.lengths_ns + added_ns
    return replace(
        data,
        ownership=replace(data.ownership, owned_ns=owned, lengths_ns=lengths),
        capture=replace(data.capture, lengths_ns=lengths),
    )


def _owned_by(data: CaptureData, fits: Callable[[Op], bool]) -> Bool:
    flags = np.array([*(fits(op) for op in data.ops), False], dtype=bool)
    columns: Bool = flags[data.ownership.op] & data.ownership.owned_ns.any(axis=0)
    return columns


def test_the_module_of_a_spread_slowdown_is_named() -> None:
    base = _base()
    inside = _owned_by(base, lambda op: op.name.startswith("/Transformer/blocks.1/"))

    found = compare([base], [_longer(base, inside, 5 * MS)])

    assert "In /Transformer/blocks.1: +5.00 of +5.00 ms." in found.headline


def test_a_slowdown_of_one_op_names_no_module() -> None:
    base = _base()
    inside = _owned_by(base, lambda op: op.name == "/Transformer/blocks.1/up/linear")

    assert "In /Transformer" not in compare([base], [_longer(base, inside, 5 * MS)]).headline


def test_a_slowdown_of_the_whole_model_names_no_part_of_it() -> None:
    base = _base()
    inside = _owned_by(base, lambda op: op.name.startswith("/Transformer/"))

    headline = compare([base], [_longer(base, inside, 5 * MS)]).headline

    assert "In /Transformer/" not in headline


@pytest.mark.parametrize(("added_ns", "words"), [(3 * MS, "slower"), (0, "")])
def test_one_capture_per_side_says_what_is_known_and_what_is_not(added_ns: int, words: str) -> None:
    base = _base()
    busy = base.ownership.owned_ns.mean(axis=0) > 0
    flat = replace(base, ownership=replace(base.ownership))

    found = compare([base], [_longer(flat, busy, added_ns)])

    assert found.judgement.verdict is not Verdict.SLOWER
    if words:
        assert f"% {words} (" in found.headline
        assert "), not confirmed: one capture per side." in found.headline
    else:
        assert "not confirmed" not in found.headline


@pytest.mark.parametrize(("base_size", "new_size", "share"), [(32, 64, 50.0), (32, 32, None)])
def test_another_batch_is_compared_per_sample(
    base_size: int, new_size: int, share: float | None
) -> None:
    base, new = (
        replace(_base(), facts={**_base().facts, "batch_size": str(size)})
        for size in (base_size, new_size)
    )

    headline = compare([base], [new]).headline

    if share is None:
        assert "Per sample" not in headline
    else:
        assert f"Per sample (batch {base_size} -> {new_size}): " in headline
        assert f", {share:.1f} % faster" in headline
        assert "Cannot tell whether the step changed" not in headline


def test_larger_batch_in_the_same_time_is_faster_and_a_smaller_one_slower() -> None:
    sides = [
        replace(_base(), facts={**_base().facts, "batch_size": str(size)}) for size in (32, 64)
    ]
    faster, slower = compare(sides[:1], sides[1:]), compare(sides[1:], sides[:1])
    assert (faster.judgement.verdict, slower.judgement.verdict) == (Verdict.FASTER, Verdict.SLOWER)
    assert (faster.slowdown, slower.slowdown) == (Fraction(-1, 2), Fraction(1))
    assert "per sample" in interval_text(slower)


def test_a_batch_is_found_in_the_shapes() -> None:
    base = _base()
    shapes = [
        replace(op, shapes=op.shapes and f"<{16 if number % 3 else 16 * 8}, 512>")
        for number, op in enumerate(base.ops)
    ]
    twice = [
        replace(op, shapes=op.shapes and f"<{2 * int(op.shapes[1:].split(',')[0])}, 512>")
        for op in shapes
    ]
    sides = [replace(base, facts={}, ops=tuple(ops)) for ops in (shapes, twice)]

    headline = compare([sides[0]], [sides[1]]).headline

    assert "% faster." in headline
    assert "Per sample (batch " in headline


def test_work_that_moves_to_tensor_cores_makes_no_op_slower() -> None:
    sides = [runs("transformer_00", (0, 1)), runs("transformer_00", (0, 1))]
    moved = []
    for data in sides[1]:
        owned = data.ownership
        busy = (owned.kind < BUSY_CLASSES) & (owned.op >= 0)
        other = busy & (owned.kind != TENSOR_CORES)
        times = owned.owned_ns.copy()
        kinds = np.append(owned.kind, np.full(int(other.sum()), TENSOR_CORES))
        tenth = times[:, other] // 10
        given = times[:, other] // 2
        times[:, other] -= given + tenth
        lengths = data.capture.lengths_ns - tenth.sum(axis=1) // data.capture.devices
        columns = np.concatenate([times, given], axis=1)
        moved.append(
            replace(
                data,
                capture=replace(data.capture, lengths_ns=lengths),
                ownership=replace(
                    owned,
                    kind=kinds,
                    reason=np.append(owned.reason, owned.reason[other]),
                    op=np.append(owned.op, owned.op[other]),
                    group=np.append(owned.group, owned.group[other]),
                    owned_ns=columns,
                    lengths_ns=lengths,
                ),
            )
        )

    found = compare(sides[0], moved)

    gained = [
        row for row in found.rows if row.kind == "tensor core compute" and row.difference_ns > 0
    ]
    assert gained
    assert {row.judgement.verdict for row in gained}.isdisjoint({Verdict.SLOWER})


def _ranks(stretched: float, late_ns: float) -> tuple[RankTimes, ...]:
    return (
        RankTimes(0, 1000.0, 7.0 * MS, 0.0),
        RankTimes(1, 1000.0, 7.0 * MS * stretched, late_ns),
    )


def test_stretched_launches_of_a_rank_are_named_and_not_the_collective() -> None:
    base = replace(_base(), ranks=_ranks(1.0, 0.0))
    owned = base.ownership
    column = np.zeros(len(owned.kind), dtype=bool)
    column[0] = True
    kinds = owned.kind.copy()
    kinds[0] = COMMUNICATION
    base = replace(base, ownership=replace(owned, kind=kinds))
    new = replace(_longer(base, column, 5 * MS), ranks=_ranks(1.7, 10.0 * MS))

    headline = compare([base], [new]).headline

    assert "Host launches on rank 1 take 1.7x as long (7.0 -> 11.9 us each" in headline
    assert "communication" not in headline


def test_launches_that_all_ranks_stretch_name_no_rank() -> None:
    base, new = (
        replace(
            _base(), ranks=tuple(replace(times, launching_ns=time_ns) for times in _ranks(1, 0))
        )
        for time_ns in (7.0 * MS, 12.0 * MS)
    )

    assert "rank" not in compare([base], [new]).headline


def test_start_up_in_one_of_two_ranges_of_a_run_is_named() -> None:
    (data,) = runs("transformer_00", (0,))
    lengths = data.capture.lengths_ns
    number = int(data.capture.numbers[0])
    rest = replace(
        data,
        ownership=data.ownership.part(np.arange(1, len(lengths))),
        capture=replace(
            data.capture, lengths_ns=lengths[1:], numbers=data.capture.numbers[1:], first=number + 1
        ),
    )
    owned = data.ownership.owned_ns.copy()
    owned[0, 0] += 18_000 * MS
    long = lengths.copy()
    long[0] += 18_000 * MS
    whole = replace(
        data,
        ownership=replace(data.ownership, owned_ns=owned, lengths_ns=long),
        capture=replace(data.capture, lengths_ns=long),
    )

    headline = compare([whole], [rest], is_one_capture=True).headline

    assert headline.startswith(f"Start-up or a stall, only in the base: iteration {number} takes ")
