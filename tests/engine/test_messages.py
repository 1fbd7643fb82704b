"""Sizes of collectives from PyTorch's ranges around them and the names of their kernels."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from aggregator.costs.messages import _elements
from aggregator.kernels.element_types import element_size, reduced_type
from tests.builders import query
from tests.conftest import ProfileFactory

RESNET50_PARAMETERS = 25_557_032
"""Of torchvision's resnet50, whose gradients an all-reduce of each iteration sums."""


@pytest.fixture(scope="module")
def export(profile: Callable[[str], Path]) -> Path:
    return profile("ddp2_resnet50_amp")


def test_gradients_of_a_step_are_those_of_the_model(imported: ProfileFactory) -> None:
    found = query(
        imported("ddp2_resnet50_amp"),
        "SELECT iter_value, rank, sum(bytes), count(*) - count(bytes) FROM view_collectives"
        " WHERE aggr_id = 1 AND collective_name = 'AllReduce' AND iter_value > 1"
        " GROUP BY 1, 2",
    )
    whole = [row for row in found if row[2] == 4 * RESNET50_PARAMETERS]
    assert len(whole) >= 20
    assert {row[3] for row in found} == {0}


def test_sizes_are_those_of_the_ranges_of_the_raw_export(
    export: Path, imported: ProfileFactory
) -> None:
    database = imported("ddp2_resnet50_amp")
    texts = query(export, "SELECT text FROM NVTX_EVENTS WHERE text LIKE 'nccl:all_reduce%'")
    texts += query(
        export,
        "SELECT s.value FROM NVTX_EVENTS AS n JOIN StringIds AS s ON s.id = n.textId"
        " WHERE s.value LIKE 'nccl:all_reduce%'",
    )
    raw = Counter(4 * int(re.findall(r"sizes = \[\[(\d+)\]\]", text)[0]) for (text,) in texts)
    sql = "SELECT c.bytes FROM collectives AS c WHERE c.kind = 'AllReduce' AND c.bytes IS NOT NULL"
    assert Counter(row[0] for row in query(database, sql)) == raw
    reasons = query(
        database,
        "SELECT DISTINCT collective_name, bytes_unknown FROM view_collectives WHERE bytes IS NULL",
    )
    assert reasons
    assert all("data type" in reason for kind, reason in reasons if kind != "AllReduce")
    assert query(database, "SELECT count(*) FROM view_collectives WHERE bytes = 0") == [(0,)]


@pytest.mark.parametrize(
    ("kernel", "width"),
    [
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 4),
        ("ncclDevKernel_ReduceScatter_Sum_bf16_RING_SIMPLE", 2),
        ("ncclDevKernel_AllReduce_SumPostDiv_u8_TREE_LL", 1),
        ("ncclDevKernel_AllReduce_PreMulSum_f16_NVLS", 2),
        ("ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*, unsigned long, ncclWork*)", 4),
        ("ncclKernel_AllReduce_RING_LL_Sum_int64_t(ncclDevComm*)", 8),
        ("ncclDevKernel_AllGather_RING_LL", None),
        ("ncclKernel_AllGather_RING_LL_Sum_int8_t(ncclDevComm*)", None),
        ("ncclDevKernel_Broadcast_RING_LL", None),
    ],
)
def test_a_kernel_that_reduces_names_its_type(kernel: str, width: int | None) -> None:
    assert element_size(reduced_type(kernel)) == width


@pytest.mark.parametrize(
    ("sizes", "count"),
    [
        ("[[2048000]]", 2_048_000),
        ("[[64, 3, 7, 7]]", 9_408),
        ("[[10], [20]]", 30),
        ("[[5], [], [], []]", 5),
        ("[[], []]", None),
        ("[[0]]", 0),
        ("nonsense", None),
        ("7", None),
    ],
)
def test_elements_of_a_call_are_counted(sizes: str, count: int | None) -> None:
    assert _elements(sizes) == count
