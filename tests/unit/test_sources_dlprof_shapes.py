"""Shapes of DLProf databases as report text."""

from __future__ import annotations

import pytest

from aggregator.profile.recorded import RecordedShapes
from aggregator.sources.dlprof.ops import shape_list, shape_row


@pytest.mark.parametrize(
    ("shapes", "dimensions", "text"),
    [
        ("[[32,3,32,32],[6,3,3,3],[6]]\n", "N,C,H,W;K,C,R,S",
         "<N:32, C:3, H:32, W:32>; <K:6, C:3, R:3, S:3>; <6>"),
        ("[[32,400],[120,400],[120]]", "N,K;M,K", "<N:32, K:400>; <M:120, K:400>; <120>"),
        ("[[6,3,3,3]]", "", "<6, 3, 3, 3>"),
        ("[[6,3]]", "N,C,H,W", "<6, 3>"),
        ("[[]]", "", "<>"),
        ("[5]", "", "<5>"),
        ("null\n", "N,K", ""),
        ("", "", ""),
        ("[[1,", "", ""),
        ('{"a": 1}', "", ""),
    ],
)  # fmt: skip
def test_dimensions_are_named_where_they_are_known(shapes: str, dimensions: str, text: str) -> None:
    assert shape_list(shapes, dimensions) == text


def test_inputs_that_have_names_show_them() -> None:
    shapes = "[[100,500],[500]]"
    assert shape_list(shapes, "", '["MatMul",""]') == "MatMul: <100, 500>; <500>"


def test_a_row_holds_all_three() -> None:
    formats = ("N,C,H,W;K,C,R,S", "N,K,P,Q", "SH,SW;PH,PW;DH,DW;G")
    row = shape_row("", "[[1,2,3,4]]", "[[1,6,3,4]]", "[[2,2],[0,0],[1,1],[4]]", formats)
    assert row == RecordedShapes(
        inputs="<N:1, C:2, H:3, W:4>",
        parameters="<SH:2, SW:2>; <PH:0, PW:0>; <DH:1, DW:1>; <G:4>",
        outputs="<N:1, K:6, P:3, Q:4>",
    )
