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
