from __future__ import annotations

from typing import Any

import pytest

from aggregator.frameworks.shapes import conv_output_shape, linear_output_shape, shape_text

INPUT, WEIGHT = [32, 3, 224, 224], [64, 3, 7, 7]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        # Expected values: torch.nn.Conv2d's documentation, H_out = floor((H + 2 padding
        # - dilation (kernel - 1) - 1) / stride + 1).
        ({}, [32, 64, 218, 218]),
        ({"stride": 2, "padding": 3}, [32, 64, 112, 112]),
        ({"stride": (2, 1), "padding": (3, 0)}, [32, 64, 112, 218]),
        ({"3": (2, 2), "4": (3, 3), "5": (1, 1)}, [32, 64, 112, 112]),
        ({"dilation": 2}, [32, 64, 212, 212]),
        ({"stride": [3], "padding": [1]}, [32, 64, 74, 74]),
    ],
)
def test_output_shape_of_a_convolution(arguments: dict[str, Any], expected: list[int]) -> None:
    assert conv_output_shape([INPUT, WEIGHT, [64]], arguments) == expected


@pytest.mark.parametrize(
    ("shapes", "arguments"),
    [
        ([], {}),
        ([INPUT], {}),
        ([[3, 224], WEIGHT], {}),
        ([INPUT, WEIGHT], {"padding": "same"}),
        ([INPUT, WEIGHT], {"stride": 0}),
    ],
)
def test_an_output_shape_that_the_inputs_do_not_tell(
    shapes: list[list[int]], arguments: dict[str, Any]
) -> None:
    assert conv_output_shape(shapes, arguments) is None


def test_output_shape_of_a_linear_layer() -> None:
    assert linear_output_shape([[8, 128, 512], [1000, 512], [1000]]) == [8, 128, 1000]
    assert linear_output_shape([[512], [1000, 512]]) == [1000]
    assert linear_output_shape([[8, 512]]) is None
    assert linear_output_shape([[], [1000, 512]]) is None


@pytest.mark.parametrize(
    ("op_type", "shapes", "expected"),
    [
        (
            "conv2d",
            "[[32,3,32,32],[6,3,3,3],[6]]",
            "<N:32, C:3, H:32, W:32>; <K:6, C:3, R:3, S:3>; <6>",
        ),
        ("linear", "[[8, 512], [10, 512]]", "<N:8, K:512>; <M:10, K:512>"),
        ("linear", "[[8, 4, 512]]", "<8, 4, 512>"),
        ("relu", "[[1, 2], []]", "<1, 2>; <>"),
        ("relu", "", ""),
        ("relu", "[[1, 2], nonsense", "[[1, 2], nonsense"),
    ],
)
def test_shapes_as_reports_show_them(op_type: str, shapes: str, expected: str) -> None:
    assert shape_text(op_type, shapes) == expected


def test_output_shapes_have_letters_of_their_own() -> None:
    assert shape_text("conv2d", "[[32,6,30,30]]", output=True) == "<N:32, K:6, P:30, Q:30>"
