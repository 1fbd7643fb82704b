"""Element types that kernel names tell, for names of real kernels."""

from __future__ import annotations

import pytest

from aggregator.errors import UsageError
from aggregator.flops.cost import OpCall
from aggregator.flops.kernel_types import KernelTypes, kernel_types
from aggregator.flops.peaks import Peaks, peaks_of
from aggregator.flops.registry import count

ELEMENTWISE = "void at::native::vectorized_elementwise_kernel<(int)8, at::native::"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("nvjet_sm90_hsh_128x128_64x6_2x1_v_bz_NTT", KernelTypes("float16", "float16")),
        ("nvjet_sm90_tss_128x64_64x8_1x2_h_bz_NNT", KernelTypes("bfloat16", "float32")),
        (
            "sm80_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize32x32x64_stage3__5x_cublas",
            KernelTypes("tf32", "float32"),
        ),
        (
            "sm80_xmma_fprop_implicit_gemm_f32f32_f32f32_f32_nchwkcrs_nchw_tilesize128x32x8",
            KernelTypes("float32", "float32"),
        ),
        (
            "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_bf16_128x256_64x3_nn>",
            KernelTypes("bfloat16", "bfloat16"),
        ),
        ("volta_fp16_s884gemm_fp16_128x64_ldg8_f2f_tn", KernelTypes("float16", "float16")),
        ("volta_sgemm_128x64_nn", KernelTypes("float32", "float32")),
        (
            f"{ELEMENTWISE}CUDAFunctor_add<c10::Half>, std::array<char *, (unsigned long)3>>(int)",
            KernelTypes("float16", "float16"),
        ),
        (
            f"{ELEMENTWISE}bfloat16_copy_kernel_cuda(at::TensorIteratorBase&)::[lambda(float)]>()",
            KernelTypes("float32", "bfloat16", is_cast=True),
        ),
        ("void at::native::vectorized_gather_kernel<(int)16, long>(char *, char *)", KernelTypes()),
        ("a_kernel_of_tomorrow", KernelTypes()),
    ],
)
def test_names_tell_element_types(name: str, expected: KernelTypes) -> None:
    assert kernel_types(name) == expected


def test_what_is_not_told_is_unknown_and_never_0() -> None:
    assert count(OpCall("of_tomorrow", ((4, 4),), 4.0, 4.0)).flops is None
    assert count(OpCall("mm", ((4, 5), (4, 5)), 4.0, 4.0)).flops is None
    assert count(OpCall("convolution", ((1, 3, 8, 8), (4, 3, 3, 3)), 4.0, 4.0)).flops is None
    without_type = count(OpCall("mm", ((4, 5), (5, 6))))
    assert (without_type.flops, without_type.num_bytes) == (240, None)


def test_lists_of_an_optimizer_are_counted_not_guessed() -> None:
    sizes = ((3, 4), (5,))
    # self += other: reads two lists, writes one
    assert count(OpCall("_foreach_add_", (*sizes, *sizes, ()), 4.0, 4.0)).num_bytes == 3 * 4 * 17
    # self *= 2
    assert count(OpCall("_foreach_mul_", (*sizes, ()), 4.0, 4.0)).num_bytes == 2 * 4 * 17
    # parameters, gradients, two moments: all are read, and all but the gradients written
    adam = count(OpCall("_fused_adam_", (*(sizes * 4), (), ()), 4.0, 4.0))
    assert adam.num_bytes == 7 * 4 * 17


def test_peaks_are_found_by_name_and_can_be_given() -> None:
    assert peaks_of("NVIDIA H200").bandwidth == 4800
    assert peaks_of("NVIDIA H100 PCIe").float16 == 756
    assert peaks_of("Tesla V100-SXM2-16GB").float16 == 125
    assert peaks_of("NVIDIA A100-SXM4-80GB").bandwidth == 2039
    assert peaks_of("NVIDIA L40S").tf32 == 183
    assert peaks_of("NVIDIA L4").bandwidth == 300
    assert peaks_of("A GPU of tomorrow") == Peaks()
    assert peaks_of("A GPU of tomorrow", "float16=3").float16 == 3
    with pytest.raises(UsageError):
        peaks_of("NVIDIA H200", "float17=3")
    with pytest.raises(UsageError):
        peaks_of("NVIDIA H200", "float16=-1")
