"""Our operations and bytes beside what an H200's hardware counters and PyTorch's counter say."""

from __future__ import annotations

import pytest

from tests.conftest import ProfileFactory
from tests.flops.counters import Counted, cases, read_counters, step

Key = tuple[str, ...]

PADDED = {
    "mm 1000x1000x1000": "tiles stand over the edges: 1024 in each direction",
    "conv2d 1x1 64x256x56x56 to 64": "tiles stand over the edge of the image",
    "conv2d 7x7 stride 2 64x3x224x224": "3 channels are computed as 4 and 8; its dgrad with zeros",
    "conv2d groups 32 3x3 32x256x28x28": "8 channels of a group fill a part of a tile",
    "conv2d depthwise 3x3 32x256x28x28": "vector units; it computes borders too",
    "conv3d 3x3x3 8x32x16x32x32": "tiles stand over the edges",
    "conv1d 5 32x256x1024": "tiles stand over the edges",
    "conv_transpose2d 4x4 stride 2 32x128x28x28": "tiles stand over the edges",
    "flash 16x12x500x64": "500 positions are computed as 512",
    "flash causal 16x12x512x64": "blocks on the diagonal are computed whole",
    "lstm fp16 2 layers 16x64x512": "tiles stand over the edges",
}
"""Executed more than needed, with the reason."""
FEWER = {
    "conv2d 3x3 32x64x56x56": "backward by Winograd's and Fourier's ways",
}
"""Executed less than counted, with the reason."""
UNKNOWN: dict[Key, str] = {
    ("conv tf32", "conv2d 3x3 32x128x28x28", "forward"): "its padding is not recorded",
}
STREAMED = ("elementwise", "reduction")


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> dict[Key, Counted]:
    return cases(tmp_path_factory.mktemp("ops"))


@pytest.fixture(scope="module")
def counters() -> dict[Key, dict[str, int]]:
    return read_counters("op_counters.csv", "class", "case", "direction")


def test_every_case_has_counters(
    ours: dict[Key, Counted], counters: dict[Key, dict[str, int]]
) -> None:
    assert set(ours) == set(counters)
    assert len(ours) > 90


def test_matrix_operations_are_those_that_the_gpu_executed(
    ours: dict[Key, Counted], counters: dict[Key, dict[str, int]]
) -> None:
    exact = 0
    for key, seen in counters.items():
        executed = seen["tensor_ops"] or seen["vector_ops"]
        matrix = ours[key].matrix_flops
        if key in UNKNOWN:
            assert ours[key].flops is None
        elif not matrix:
            assert not seen["tensor_ops"], key
        elif key[1] in PADDED:
            assert matrix <= executed * 1.001, key
        elif key[1] in FEWER and matrix > 1.01 * executed:
            assert matrix < 4 * executed, key
        else:
            assert abs(matrix / executed - 1) < 0.01, key
            exact += 1
    assert exact >= 30


def test_matrix_operations_are_those_of_pytorchs_counter(
    ours: dict[Key, Counted], counters: dict[Key, dict[str, int]]
) -> None:
    compared = 0
    for key, seen in counters.items():
        # It does not know int8 and cuDNN's recurrent layers, and takes groups for none backward.
        is_wrong = key[2] == "backward" and ("groups" in key[1] or "depthwise" in key[1])
        if seen["flop_counter"] and not is_wrong and key not in UNKNOWN:
            # It knows no masks: of 512 x 512 pairs a causal one leaves 512 x 513 / 2.
            theirs = seen["flop_counter"] * (513 / 1024 if "causal" in key[1] else 1)
            assert ours[key].matrix_flops == theirs, key
            compared += 1
    assert compared >= 45


def test_bytes_of_ops_that_stream_are_those_that_memory_moved(
    ours: dict[Key, Counted], counters: dict[Key, dict[str, int]]
) -> None:
    # What is written last stays in the cache of 60 MB: some 25 MB of 500 and more.
    rows = [key for key in counters if key[0] in STREAMED]
    assert len(rows) >= 25
    for key in rows:
        assert ours[key].num_bytes == pytest.approx(counters[key]["dram_bytes"], rel=0.035), key


def test_bytes_of_optimizers_are_those_of_all_their_lists(
    ours: dict[Key, Counted], counters: dict[Key, dict[str, int]]
) -> None:
    # GIVEN 8 parameters of one size, whose sizes do not show where a list ends
    list_bytes = 8 * 4096 * 8192 * 4
    lists = {"AdamW fused": 7, "SGD momentum fused": 5, "SGD momentum foreach": 8}
    for name, count in lists.items():
        key = ("optimizer", name, "forward")
        assert ours[key].num_bytes == pytest.approx(count * list_bytes, rel=0.001)
    for case in (key for key in counters if key[0] == "optimizer"):
        # THEN memory moved less, by what the cache kept from kernel to kernel
        assert 1 <= (ours[case].num_bytes or 0) / counters[case]["dram_bytes"] < 1.2, case


STEPS = {
    # Share of the operations that ran: padding, and for float32 Fourier's and Winograd's ways.
    "pytorch_resnet50_fp32": (1.10, 1.12),
    "pytorch_resnet50_amp": (0.93, 0.95),
    "pytorch_bert_bf16": (0.99, 1.0),
}


@pytest.mark.parametrize("name", STEPS)
def test_a_step_has_the_matrix_operations_that_the_gpu_executed(
    name: str, profile: ProfileFactory, imported: ProfileFactory
) -> None:
    seen = {
        kind: row
        for (of, kind), row in read_counters("step_counters.csv", "profile", "class").items()
        if of == name
    }
    matrix = [kind for kind in seen if "convolution" in kind or "product" in kind]
    matrix += [kind for kind in seen if kind == "attention"]
    found = step(profile(name), next(iter(seen.values()))["iteration"], imported(name))
    total = sum(found[kind].matrix_flops for kind in matrix)
    executed = sum(seen[kind]["tensor_ops"] or seen[kind]["vector_ops"] for kind in matrix)
    low, high = STEPS[name]
    assert low < total / executed < high
    if "attention" in seen:
        assert found["attention"].matrix_flops == seen["attention"]["tensor_ops"]
