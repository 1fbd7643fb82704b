"""Readable names of kernels: what each library's names become, and all names of real captures."""

from __future__ import annotations

import gzip
import json
import re
import sqlite3
from collections import defaultdict
from contextlib import closing
from pathlib import Path

import pytest

from aggregator.kernels.names import demangle
from aggregator.kernels.readable import MAX_CHARS
from aggregator.kernels.traits import kernel_traits
from tests.conftest import ProfileFactory


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            (
                "void cutlass::Kernel2<cutlass_75_tensorop_bf16_s1688gemm_bf16_128x256_nt_align1>"
                "(T1)"
            ),
            "cutlass gemm bf16 128x256 nt align1",
        ),
        (
            (
                "void cutlass::Kernel2<cutlass_80_tensorop_f16_s16816gemm_relu_f16_256x128_32x3_t"
                "n_align8>(cutlass_80_tensorop_f16_s16816gemm_relu_f16_256x128_32x3_tn_align8::Pa"
                "rams)"
            ),
            "cutlass gemm f16 relu 256x128 32x3 tn align8",
        ),
        (
            "void cutlass::Kernel2<cutlass_80_simt_sgemm_128x32_8x5_nn_align1>(T1::Params)",
            "cutlass gemm f32 simt 128x32 8x5 nn align1",
        ),
        (
            (
                "void cutlass__5x_cudnn::Kernel<cutlass_tensorop_bf16_s16816dgrad_optimized_bf16_"
                "64x64_64x5_nhwc_unity_stride_align8>(T1::Params)"
            ),
            "cutlass dgrad bf16 64x64 64x5 nhwc unity align8",
        ),
        (
            "nvjet_sm90_hss_128x256_64x4_1x2_h_bz_coopA_TNN",
            "nvjet gemm f16>f32 128x256 64x4 1x2 h coopA TNN",
        ),
        (
            (
                "sm80_xmma_fprop_implicit_gemm_indexed_bf16bf16_bf16f32_f32_nhwckrsc_nhwc_tilesiz"
                "e128x128x64_stage3_warpsize2x2x1_g1_tensor16x8x16_execute_kernel__5x_cudnn"
            ),
            "cudnn fprop bf16 indexed nhwc 128x128x64 stage3",
        ),
        ("ampere_sgemm_32x32_sliced1x4_tn", "cublas gemm f32 ampere 32x32 sliced1x4 tn"),
        ("volta_scudnn_128x64_relu_medium_nn_v1", "cudnn conv f32 volta 128x64 relu medium nn"),
        (
            (
                "cudnn_generated_fort_native_sdpa_sm90_flash_bprop_wgmma_f16_knob_26_64x64x64_1x4"
                "x1_cga1x1x1_kernel0_0"
            ),
            "cudnn sdpa f16 bprop wgmma knob26 64x64x64 1x4x1",
        ),
        ("triton_poi_fused_gelu_view_9", "triton pointwise gelu_view 9"),
        (
            ("triton_per_fused__to_copy_add_native_layer_norm_native_layer_norm_backward_view_13"),
            "triton reduction to_copy_add_native_layer_norm_native_la… 13",
        ),
        (
            "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
            "nccl AllReduce Sum bf16 RING LL",
        ),
        (
            (
                "void flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 64, 4, false, false, cutl"
                "ass::half_t, Flash_kernel_traits<64, 128, 64, 4, cutlass::half_t> >, false, true"
                ">(Flash_fwd_params)"
            ),
            "flash fwd f16 d64 128x64 0001",
        ),
        (
            (
                "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<fl"
                "oat>, at::detail::Array<char*, 3> >(int, at::native::CUDAFunctor_add<float>)"
            ),
            "elementwise add f32 vec4",
        ),
        (
            (
                "void at::native::vectorized_elementwise_kernel<(int)4, at::native::BUnaryFunctor"
                "<float, float, float, at::native::binary_internal::MulFunctor<float>>, std::arra"
                "y<char *, 2>>()"
            ),
            "elementwise mul scalar f32 vec4",
        ),
        (
            (
                "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::M"
                "eanOps<float, float, float, float>, unsigned int, float, 4> >(T3)"
            ),
            "reduce mean f32 512x1",
        ),
        (
            (
                "void at::native::<unnamed>::multi_tensor_apply_kernel<at::native::<unnamed>::Ten"
                "sorListMetadata<(int)1>, at::native::<unnamed>::BinaryOpScalarFunctor<float, (in"
                "t)1, (int)1, (int)0>, std::multiplies<float>, float>(T1, T2)"
            ),
            "foreach binary_op_scalar multiplies f32 lists1",
        ),
        ("loop_add_multiply_fusion_12", "xla loop add_multiply 12"),
        (
            (
                "void cudnn::bn_fw_tr_1C11_singleread<__half, 512, true, 1, 2, 0>(cudnn::args<__h"
                "alf>)"
            ),
            "cudnn bn_fw_tr_1C11_singleread f16 512 1 1 2 0",
        ),
        ("my_kernel(float*, int)", "my_kernel"),
        ("", ""),
    ],
)
def test_kernel_has_its_readable_name(name: str, expected: str) -> None:
    assert kernel_traits(name).readable_name == expected


FAMILIES = {
    "cutlass": r"cutlass\w*::(?:Kernel|device_kernel)",
    "cublas": r"^(?:volta|turing|ampere)_\w*gemm|_cublas$",
    "cudnn": r"_cudnn$|^cudnn_generated|^(?:volta|turing|ampere)_scudnn",
    "nvjet": "^nvjet_",
    "triton": "^triton_(?:poi|red|per)_",
    "nccl": "^nccl",
    "xla": r"^(?:loop|input|wrapped)_|^fusion(?:_\d+)?$",
    "elementwise": "::(?:vectorized_|unrolled_)?elementwise_kernel<",
    "reduce": "at::native::reduce_kernel<",
    "foreach": "multi_tensor_apply_kernel<",
}
"""First word of the readable name: pattern of the full name."""


@pytest.fixture(scope="module")
def real_names(shared_dir: Path, profile: ProfileFactory) -> set[str]:
    packed = sorted((shared_dir / "profiles").glob("*.xz"))
    packed += sorted((shared_dir / "public").glob("*/*.[xg]z"))
    names: set[str] = set()
    for path in packed:
        if path.name.endswith(".sqlite.xz"):
            names |= _of_export(profile(path.stem))
        elif ".json" in path.suffixes:
            names |= _of_trace(path if path.suffix == ".gz" else profile(path.stem))
    return {demangle(name) for name in names}


def _of_export(path: Path) -> set[str]:
    sql = (
        "SELECT DISTINCT s.value FROM CUPTI_ACTIVITY_KIND_KERNEL AS k"
        " JOIN StringIds AS s ON s.id = k.demangledName"
    )
    with closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as connection:
        return {str(row[0]) for row in connection.execute(sql)}


def _of_trace(path: Path) -> set[str]:
    content = path.read_bytes()
    trace = json.loads(gzip.decompress(content) if path.suffix == ".gz" else content)
    events = trace["traceEvents"] if isinstance(trace, dict) else trace
    return {event["name"] for event in events if str(event.get("cat", "")).lower() == "kernel"}


def test_every_kernel_of_the_captures_has_one(real_names: set[str]) -> None:
    assert len(real_names) > 500
    for name in real_names:
        readable = kernel_traits(name).readable_name
        assert 0 < len(readable) <= MAX_CHARS, name
        for first, pattern in FAMILIES.items():
            if re.search(pattern, name):
                allowed = {first, "cutlass"} if first == "cudnn" else {first}
                assert readable.split()[0] in allowed, (name, readable)


@pytest.mark.parametrize("family", FAMILIES)
def test_few_kernels_of_a_family_share_a_readable_name(family: str, real_names: set[str]) -> None:
    named = defaultdict(set)
    for name in real_names:
        if re.search(FAMILIES[family], name):
            # Demanglers differ in parameters, and in how they write numbers and truth values.
            plain = re.sub(
                r"\((?:int|bool|unsigned[\w ]*)\)|\s|(?<=\d)ul\b|\(T\d.*|\(int.*", "", name
            )
            plain = plain.replace("true", "1").replace("false", "0").replace("longlong", "long")
            named[kernel_traits(name).readable_name].add(plain)
    count = sum(map(len, named.values()))
    assert len(named) >= 0.6 * count
