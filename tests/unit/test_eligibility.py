"""Our own judgment of Tensor Core eligibility, by element type, shape and GPU."""

from __future__ import annotations

import pytest

from aggregator.frameworks.eligibility import Ran, tensor_core_eligibility

H200, T4, PASCAL = (9, 0), (7, 5), (6, 1)


@pytest.mark.parametrize(
    ("data_type", "capability", "expected"),
    [
        ("float16", T4, True),
        ("float16", PASCAL, False),
        ("bfloat16", T4, False),
        ("bfloat16", H200, True),
        ("float32", T4, False),
        ("float32", H200, True),
        ("float64", H200, True),
        ("complex64", H200, False),
        ("", H200, None),
        ("float16", None, None),
    ],
)
def test_the_element_type_and_the_gpu_decide(
    data_type: str, capability: tuple[int, int] | None, expected: bool | None
) -> None:
    fit = tensor_core_eligibility(
        "linear", data_type, "", capability, by_type=True, ran=Ran.NOTHING
    )
    assert fit.eligible is expected
    assert fit.reason


@pytest.mark.parametrize(
    ("op_type", "shapes", "expected"),
    [
        ("conv2d", "[[8,64,56,56],[64,1,3,3]]", False),  # depthwise
        ("conv2d", "[[8,64,56,56],[64,64,3,3]]", True),
        ("conv2d", "[[8,1,28,28],[32,1,3,3]]", True),  # one channel is no depthwise convolution
        ("mv", "[[128,64],[64]]", False),
        ("matmul", "[[128,64],[64]]", False),
        ("matmul", "[[128,64],[64,32]]", True),
        ("linear", "[[0,64],[32,64]]", False),
        ("linear", "not json", True),
    ],
)
def test_a_shape_can_forbid_it(op_type: str, shapes: str, expected: bool) -> None:
    fit = tensor_core_eligibility(op_type, "float16", shapes, H200, by_type=True, ran=Ran.NOTHING)
    assert fit.eligible is expected


def test_a_kernel_that_ran_outweighs_recorded_types() -> None:
    assert (
        tensor_core_eligibility("conv2d", "", "", H200, by_type=True, ran=Ran.TENSOR_CORES).eligible
        is True
    )


def test_other_types_cannot() -> None:
    fit = tensor_core_eligibility(
        "relu", "float16", "[[8,8],[8,8]]", H200, by_type=False, ran=Ran.NOTHING
    )
    assert fit.eligible is False
    assert "relu" in fit.reason


@pytest.mark.parametrize(
    ("op_type", "by_type", "ran", "expected"),
    [
        # A type that no list has, by what it ran.
        ("moe_forward", False, Ran.TENSOR_CORES, True),
        ("unified_attention", False, Ran.PRODUCT, True),
        ("custom", False, Ran.UNCLEAR, None),
        ("custom", False, Ran.OTHER, False),
        # A type of the list whose kernels compute something else.
        ("matmul", True, Ran.OTHER, False),
        ("matmul", True, Ran.UNCLEAR, True),
        ("matmul", True, Ran.NOTHING, True),
    ],
)
def test_kernels_decide_before_the_name(
    op_type: str, by_type: bool, ran: Ran, expected: bool | None
) -> None:
    fit = tensor_core_eligibility(op_type, "float16", "", H200, by_type=by_type, ran=ran)
    assert fit.eligible is expected
