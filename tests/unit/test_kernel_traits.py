"""What kernel names say about the kernels."""

from __future__ import annotations

import pytest

from aggregator.kernels.traits import kernel_traits, tensor_core_kernels


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
