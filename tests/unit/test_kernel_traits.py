"""Names of kernels hold their traits, and the ops that TorchInductor fused in them."""

from __future__ import annotations

import random

import pytest

from aggregator.kernels.source_ops import source_ops
from aggregator.kernels.traits import kernel_traits, tensor_core_kernels
from tests.builders import query
from tests.conftest import ProfileFactory


@pytest.mark.parametrize(
    "name",
    [
        "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<(unsigned long)4096>)",
        "ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*, unsigned long, ncclWork*)",
        "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*)",
    ],
)
def test_collectives_communicate(name: str) -> None:
    assert kernel_traits(name).is_communication


@pytest.mark.parametrize(
    "name",
    [
        "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float>>(T3)",
        "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>",
        "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1",
    ],
)
def test_computation_does_not(name: str) -> None:
    assert not kernel_traits(name).is_communication


def test_every_kernel_is_coded_for_the_gpu_that_it_ran_on() -> None:
    names = ["nvjet_sm90_hsh_128x64_64x8_1x2_h_bz_TNT", "volta_sgemm_32x32_tn", "triton_mm"]

    codes = tensor_core_kernels([*names, names[0]], [(9, 0), (9, 0), None, (6, 1)])

    assert codes.tolist() == [1, 0, -1, 0]
    assert tensor_core_kernels([], []).size == 0


def test_a_name_is_read_once() -> None:
    assert kernel_traits("volta_sgemm_32x32_tn") is kernel_traits("volta_sgemm_32x32_tn")


@pytest.mark.parametrize(
    ("name", "is_half"),
    [
        (
            "fmha_cutlassF_f32_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel<float>)",
            False,
        ),
        ("fmha_cutlassB_f32_aligned_64x64_k32_sm80(PyTorchMemEffAttention::Kernel<float>)", False),
        (
            "fmha_cutlassF_bf16_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel<x>)",
            True,
        ),
        (
            "fmha_cutlassF_f16_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel<x>)",
            True,
        ),
        ("void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64>>", True),
        ("void cutlass::Kernel2<cutlass_80_simt_sgemm_256x128_8x4_nn_align1>(T1::Params)", False),
    ],
)
def test_attention_in_fp32_is_no_half_precision(name: str, is_half: bool) -> None:
    assert kernel_traits(name).is_half_precision is is_half


WILD = {
    "torch_compile_triton__trace": {
        "_unsafe_view, add",
        "_unsafe_view, add, mean, mul, pow, rsqrt",
        "_unsafe_view, mul, silu",
        "add, mean, mul, pow, rsqrt",
    },
    "triton_example__triton_example": {"add, cos, sin"},
}


@pytest.mark.parametrize(
    ("name", "ops"),
    [
        ("triton_per_fused__log_softmax_nll_loss_forward_3", "_log_softmax nll_loss_forward"),
        ("triton_poi_fused__to_copy_index_add_view_4", "_to_copy index_add view"),
        (
            "triton_poi_fused_native_dropout_threshold_backward_1",
            "native_dropout threshold_backward",
        ),
        ("triton_poi_fused_constant_pad_nd_moe_forward_0", "constant_pad_nd moe_forward"),
        ("triton_poi_fused_add_0d1d2d3de", "add"),
        ("triton_for_fused__foreach_add__foreach_mul_0", "_foreach_add _foreach_mul"),
        ("triton_poi_fused_0", ""),
        ("triton_poi_fused", ""),
        ("volta_sgemm_128x64_nn", ""),
    ],
)
def test_a_name_is_divided_into_its_ops(name: str, ops: str) -> None:
    assert source_ops(name) == tuple(ops.split())


def test_sorted_names_joined_as_inductor_joins_them_are_divided_again() -> None:
    """Without ops that are part of others: ``log`` and ``sigmoid``, ``index`` and others."""
    known = (  # noqa: SIM905
        "_log_softmax _softmax _to_copy _unsafe_view abs add addmm amax arange cat clone cos "
        "convolution div embedding eq exp expand gelu gt log mean mul native_dropout "
        "native_layer_norm native_layer_norm_backward neg nll_loss_forward permute pow relu rsqrt "
        "select_backward silu sin slice split_with_sizes sqrt sub sum t tanh_backward "
        "threshold_backward transpose unsqueeze view where"
    ).split()
    draw = random.Random(21)
    for _ in range(500):
        ops = sorted(draw.sample(known, draw.randint(1, 8)))
        assert source_ops(f"triton_poi_fused_{'_'.join(ops)}_{draw.randint(0, 99)}") == tuple(ops)


@pytest.mark.parametrize("name", WILD)
def test_fused_kernels_of_public_traces_list_their_ops(name: str, imported: ProfileFactory) -> None:
    sql = "SELECT DISTINCT source_ops FROM view_kernels_by_full_name WHERE source_ops <> ''"
    rows = query(imported(f"{name}.json.gz"), sql)
    assert {row[0] for row in rows} == WILD[name]
