"""Element types from kernel names, for names of real kernels."""

from __future__ import annotations

from typing import Any

import pytest

from aggregator.costs.formulas.call import OpCall
from aggregator.costs.formulas.registry import count
from aggregator.kernels.element_types import ElementTypes, read_element_types
from tests.builders import table


@pytest.mark.parametrize(("name", "expected"), table("element_types"))
def test_names_give_element_types(name: str, expected: dict[str, Any]) -> None:
    assert read_element_types(name) == ElementTypes(**expected)


def test_what_a_name_does_not_contain_is_unknown_and_never_0() -> None:
    assert count(OpCall("of_tomorrow", ((4, 4),), 4.0, 4.0)).flops is None
    assert count(OpCall("mm", ((4, 5), (4, 5)), 4.0, 4.0)).flops is None
    assert count(OpCall("convolution", ((1, 3, 8, 8), (4, 3, 3, 3)), 4.0, 4.0)).flops is None
    without_type = count(OpCall("mm", ((4, 5), (5, 6))))
    assert (without_type.flops, without_type.num_bytes) == (240, None)


_FLASH = "flash_fwd{}_kernel<Flash_fwd_kernel_traits<64, 128, cutlass::half_t, Of<64{}, {}>(Params)"


@pytest.mark.parametrize(
    ("name", "is_causal"),
    [
        # As Nsight Systems and as C++ write the arguments: dropout, causal mask, window, ..
        (_FLASH.format("", ">>", "(bool)0, (bool)1, (bool)0"), True),
        (_FLASH.format("", "> >", "false, true, false"), True),
        (_FLASH.format("", ">>", "(bool)1, (bool)0, (bool)0"), False),
        # Without dropout the mask is first.
        (_FLASH.format("_splitkv", "> >", "true, false, false"), True),
        (_FLASH.format("_splitkv", "> >", "false, true, false"), False),
        (_FLASH.replace("fwd", "bwd").format("_dq_dk_dv_loop", "> >", "false, true"), True),
        ("cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7", None),
        ("void flash::prepare_varlen_num_blocks_kernel<1, true>(int)", None),
    ],
)
def test_names_of_flash_attention_say_whether_the_mask_is_causal(
    name: str, is_causal: bool | None
) -> None:
    assert read_element_types(name).is_causal is is_causal


def test_lists_of_an_optimizer_are_counted_not_guessed() -> None:
    sizes = ((3, 4), (5,))
    # self += other: reads two lists, writes one
    assert count(OpCall("_foreach_add_", (*sizes, *sizes, ()), 4.0, 4.0)).num_bytes == 3 * 4 * 17
    # self *= 2
    assert count(OpCall("_foreach_mul_", (*sizes, ()), 4.0, 4.0)).num_bytes == 2 * 4 * 17
    # parameters, gradients, two moments: all are read, and all but the gradients written
    adam = count(OpCall("_fused_adam_", (*(sizes * 4), (), ()), 4.0, 4.0))
    assert adam.num_bytes == 7 * 4 * 17


def test_lists_of_tensors_of_one_size_are_separated_by_the_kernel() -> None:
    sizes = ((4, 4),) * 8

    def moved(name: str, shapes: tuple[tuple[int, ...], ...], lists: int) -> int | None:
        cost = count(OpCall(name, shapes, 4.0, 4.0, lists=lists))
        return None if cost.num_bytes is None else cost.num_bytes // (4 * 128)

    # x *= 2; y = sqrt(x); x += y; x += y * z; parameters, gradients and two moments
    assert moved("_foreach_mul_", (*sizes, ()), 1) == 2
    assert moved("_foreach_sqrt", sizes, 2) == 2
    assert moved("_foreach_add_", (*sizes * 2, ()), 2) == 3
    assert moved("_foreach_addcmul_", (*sizes * 3, ()), 3) == 4
    assert moved("_foreach_norm", (*sizes, (), ()), 1) == 1
    assert moved("_fused_adamw_", sizes * 4, 4) == 7
    # AND without a kernel that names them, by what the operator takes
    assert moved("_foreach_sqrt", sizes, 0) == 2
    assert moved("_foreach_mul_", (*sizes, ()), 0) == 2
    assert moved("_foreach_mul_", sizes * 2, 0) == 3
    assert moved("_fused_adamw_", sizes * 4, 0) == 7


def test_collectives_are_as_large_as_nccls_tests_say() -> None:
    own, everything = (16,), (64,)
    for name, shapes in {
        "allreduce_": (everything, ()),
        "_allgather_base_": (everything, own),
        "_reduce_scatter_base_": (own, everything),
        "allgather_": (own, own, own, own, own),
        "reduce_scatter_": (own, own, own, own, own),
    }.items():
        cost = count(OpCall(name, shapes, 2.0, 2.0))
        assert (cost.flops, cost.num_bytes) == (None, 128), name
