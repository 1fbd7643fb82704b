from __future__ import annotations

import random
from typing import Any

import pytest

from aggregator.frameworks.shapes import (
    output_shape,
    parameters_text,
    shape_text,
)

INPUT, WEIGHT = (32, 3, 224, 224), (64, 3, 7, 7)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        # Expected values: torch.nn.Conv2d's documentation, H_out = floor((H + 2 padding
        # - dilation (kernel - 1) - 1) / stride + 1).
        ({}, [32, 64, 218, 218]),
        ({"stride": 2, "padding": 3}, [32, 64, 112, 112]),
        ({"stride": (2, 1), "padding": (3, 0)}, [32, 64, 112, 218]),
        ({"stride": (2, 2), "padding": (3, 3), "dilation": (1, 1)}, [32, 64, 112, 112]),
        ({"dilation": 2}, [32, 64, 212, 212]),
        ({"stride": [3], "padding": [1]}, [32, 64, 74, 74]),
    ],
)
def test_output_shape_of_a_convolution_follows_its_parameters(
    arguments: dict[str, Any], expected: list[int]
) -> None:
    assert output_shape("conv2d", [INPUT, WEIGHT, (64,)], arguments) == tuple(expected)


@pytest.mark.parametrize(
    ("shapes", "arguments"),
    [
        ([], {}),
        ([INPUT], {}),
        ([(3, 224), WEIGHT], {}),
        ([(3, 224, 224), WEIGHT], {}),
        ([INPUT, WEIGHT], {"stride": 0}),
    ],
)
def test_an_output_shape_that_does_not_follow_from_the_inputs(
    shapes: list[tuple[int, ...]], arguments: dict[str, Any]
) -> None:
    assert output_shape("conv2d", shapes, arguments) is None


def test_output_shape_of_a_linear_layer_follows_its_weight() -> None:
    assert output_shape("linear", [(8, 128, 512), (1000, 512), (1000,)], None) == (8, 128, 1000)
    assert output_shape("linear", [(512,), (1000, 512)], None) == (1000,)
    assert output_shape("linear", [(8, 512)], None) is None
    assert output_shape("linear", [(), (1000, 512)], None) is None


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
        ("relu", "[[1, 2], []]", "<1, 2>"),
        ("relu", "", ""),
        ("relu", "[[1, 2], nonsense", "[[1, 2], nonsense"),
    ],
)
def test_shapes_are_written_as_reports_show_them(op_type: str, shapes: str, expected: str) -> None:
    assert shape_text(op_type, shapes) == expected


def test_output_shapes_have_letters_of_their_own() -> None:
    assert shape_text("conv2d", "[[32,6,30,30]]", output=True) == "<N:32, K:6, P:30, Q:30>"


def test_output_shapes_are_those_that_pytorch_computes() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    chance = random.Random(5)
    for _ in range(40):
        dims, transposed = chance.choice((1, 2, 3)), chance.random() < 0.4
        groups = chance.choice((1, 2))
        stride = [chance.randint(1, 3) for _ in range(dims)]
        options = {
            "stride": stride,
            "padding": [chance.randint(0, 2) for _ in range(dims)],
            "dilation": [chance.randint(1, 2) for _ in range(dims)],
            "groups": groups,
        }
        if transposed:
            options["output_padding"] = [chance.randint(0, step - 1) for step in stride]
        kind = f"conv{'_transpose' if transposed else ''}{dims}d"
        x = torch.randn(2, 4, *(chance.randint(7, 12) for _ in range(dims)), device="meta")
        kernel = [chance.randint(1, 3) for _ in range(dims)]
        weight = torch.randn(4 if transposed else 6, (6 if transposed else 4) // groups, *kernel)
        expected = getattr(torch.nn.functional, kind)(x, weight.to("meta"), **options).shape
        assert output_shape(kind, [tuple(x.shape), tuple(weight.shape)], options) == tuple(expected)


def test_an_output_that_does_not_follow_from_the_inputs_is_unknown() -> None:
    shapes = [(1, 3, 8, 8), (4, 3, 3, 3)]
    assert output_shape("conv2d", shapes, None) is None
    assert output_shape("conv2d", shapes, {"padding": "same"}) == (1, 4, 8, 8)
    assert output_shape("conv2d", shapes, {"padding": "other"}) is None
    assert output_shape("conv2d", shapes[:1], {}) is None
    assert output_shape("conv2d", [(1, 3, 2, 2), (4, 3, 3, 3)], {}) is None
    assert output_shape("relu", shapes, {}) is None


def test_parameters_are_empty_where_all_are_pytorchs_defaults() -> None:
    assert parameters_text("conv2d", {"stride": [1, 1], "padding": [0, 0], "groups": 1}) == ""
    assert parameters_text("linear", {"stride": 2}) == ""
    assert parameters_text("conv2d", {"padding": "same"}) == ""
    assert (
        parameters_text("conv3d", {"stride": 2, "groups": 4})
        == "<SD:2, SH:2, SW:2>; <PD:0, PH:0, PW:0>; <DD:1, DH:1, DW:1>; <G:4>"
    )
    assert parameters_text("conv1d", {"dilation": [3]}) == "<SW:1>; <PW:0>; <DW:3>; <G:1>"
