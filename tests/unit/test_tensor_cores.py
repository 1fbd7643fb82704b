from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from aggregator.tensor_cores import classify, explain, uses_tensor_cores

HOPPER = (9, 0)


def _counter_truth(path: Path) -> list[tuple[str, bool]]:
    with path.open(newline="", encoding="utf-8") as stream:
        lines = (line for line in stream if not line.startswith("#"))
        return [
            (row["kernel_name"], row["uses_tensor_cores"] == "1") for row in csv.DictReader(lines)
        ]


def test_no_answer_differs_from_the_hardware_counters(shared_dir: Path) -> None:
    truth = _counter_truth(shared_dir / "spec" / "tensor_core_truth.csv")

    answers = {name: uses_tensor_cores(name, HOPPER) for name, _ in truth}

    assert [name for name, used in truth if answers[name] not in (used, None)] == []
    assert sum(answer is None for answer in answers.values()) <= 0.03 * len(truth)


@pytest.mark.parametrize(
    ("counter_tool", "nsight_systems"),
    [
        (
            "cuda::unpack_cudnn(at::PhiloxCudaState, long *, long *)",
            "at::cuda::philox::unpack_cudnn(at::PhiloxCudaState, long *, long *)",
        ),
    ],
)
def test_shortened_namespaces_change_no_answer(counter_tool: str, nsight_systems: str) -> None:
    assert explain(counter_tool, HOPPER) == explain(nsight_systems, HOPPER)


def test_a_gpu_before_volta_has_no_tensor_cores() -> None:
    assert uses_tensor_cores("volta_h884gemm_128x64_nn", (6, 1)) is False


def test_the_vector_form_codes_yes_no_and_unknown() -> None:
    names = [
        "nvjet_sm90_hsh_128x64_64x8_1x2_h_bz_TNT",
        "volta_sgemm_32x32_tn",
        "triton_tem_fused_mm_0",
    ]

    codes = classify(names, HOPPER)

    assert codes.dtype == np.int8
    assert codes.tolist() == [1, 0, -1]
