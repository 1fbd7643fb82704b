"""Floating point operations from shapes, against counts by hand."""

from __future__ import annotations

import pytest

from aggregator.flops import forward_flops


@pytest.mark.parametrize(
    ("op_type", "inputs", "outputs", "expected"),
    [
        ("mm", "[[3,4],[4,5]]", "", 2 * 3 * 4 * 5),
        ("bmm", "[[7,3,4],[7,4,5]]", "", 7 * 2 * 3 * 4 * 5),
        ("matmul", "[[2,1,3,4],[6,4,5]]", "", 12 * 2 * 3 * 4 * 5),
        ("addmm", "[[5],[3,4],[4,5],[],[]]", "", 2 * 3 * 4 * 5),
        ("linear", "[[8,3,4],[5,4],[5]]", "", 8 * 2 * 3 * 4 * 5),
        # The golden run's first convolution: N 32, K 6, P 30, Q 30, C 3, R 3, S 3.
        ("conv2d", "[[32,3,32,32],[6,3,3,3],[6]]", "[[32,6,30,30]]", 2 * 32 * 6 * 900 * 27),
    ],
)
def test_counts_are_those_by_hand(op_type: str, inputs: str, outputs: str, expected: int) -> None:
    assert forward_flops(op_type, inputs, outputs) == expected


@pytest.mark.parametrize(
    ("op_type", "inputs", "outputs"),
    [
        ("conv2d", "[[32,3,32,32],[6,3,3,3],[6]]", ""),
        ("mm", "", ""),
        ("mm", "[[3,4],[5,6]]", ""),
        ("mm", "no json", ""),
        ("relu", "[[3,4]]", ""),
        ("linear", "[[3,4],[5,6]]", ""),
    ],
)
def test_what_is_not_told_is_unknown(op_type: str, inputs: str, outputs: str) -> None:
    assert forward_flops(op_type, inputs, outputs) is None
