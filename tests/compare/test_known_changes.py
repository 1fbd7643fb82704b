"""Runs on an H100: one program again, one of its ops 5 % longer, and a program compiled."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import pytest

from aggregator.compare.captures import CaptureData
from aggregator.compare.engine import compare
from aggregator.compare.result import Verdict
from aggregator.compare.summary import SUFFIX, read_summary
from tests.conftest import REPOSITORY

CALLED = (Verdict.SLOWER, Verdict.FASTER)


def runs(program: str, numbers: Sequence[int]) -> list[CaptureData]:
    """Summaries of runs, the steps after the warm-up."""
    folder = REPOSITORY / "tests/data/captures/compare"
    files = [folder / f"{program}_{number:02}{SUFFIX}" for number in numbers]
    return [read_summary(path, path.name, None, (5, 15)) for path in files]


@pytest.mark.parametrize("chosen", [(0, 1, 2), (0, 2, 4), (1, 3, 5), (3, 4, 5)])
def test_an_op_that_is_five_percent_longer_is_found(chosen: tuple[int, ...]) -> None:
    found = compare(runs("convolutional_00", chosen), runs("convolutional_05", (0, 1, 2)))
    [row] = [row for row in found.rows if row.op == "mul_" and row.kind == "other compute"]
    assert row.module.endswith("/extra/")
    assert row.judgement.verdict is Verdict.SLOWER
    assert float(row.difference_ns / row.base_ns) == pytest.approx(0.05, abs=0.003)
    assert found.judgement.verdict not in CALLED


def test_the_same_program_again_is_no_change() -> None:
    rows, called = 0, 0
    for first in list(combinations(range(6), 3))[:10]:
        second = [number for number in range(6) if number not in first]
        found = compare(runs("convolutional_00", first), runs("convolutional_00", second))
        assert found.judgement.verdict not in CALLED
        rows += len(found.rows)
        called += sum(row.judgement.verdict in CALLED for row in found.rows)
    assert called <= 0.01 * rows


def test_compiled_code_is_compared_by_module_and_named() -> None:
    found = compare(runs("transformer_00", (0, 1)), runs("transformer_compiled", (0, 1)))
    assert found.judgement.verdict is Verdict.FASTER
    assert [one.name for one in found.causes[:2]] == ["other compute", "op on the CPU"]
    assert found.headline.endswith("The set-up differs: torch_compile false -> true.")
    assert "compiled on one side" in found.notes[0]
    assert sum(row.difference_ns for row in found.rows) == found.difference_ns
