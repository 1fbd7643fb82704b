"""Every kernel's op, found in a second, slow way (``slow_reference``), and by NVIDIA's nsys.

Mapped GPU time is that of ``nsys stats -r nvtx_gpu_proj_sum``, which projects every range.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.builders import oracle, query
from tests.conftest import ProfileFactory
from tests.golden.slow_reference import Reference, disagreements

Profile = Callable[[str], Path]
NAMES = ["pytorch_resnet50_fp32", "ddp2_resnet50_amp"]
MORE = ["pytorch_resnet50_amp", "pytorch_bert_bf16"]


@pytest.fixture(scope="module")
def reference(profile: Profile) -> Callable[[str], Reference]:
    made: dict[str, Reference] = {}
    return lambda name: made.setdefault(name, made.get(name) or Reference(profile(name)))


@pytest.mark.parametrize("name", NAMES)
def test_the_reference_sees_the_ranges_around_each_kernel_as_nsys_does(
    shared_dir: Path, reference: Callable[[str], Reference], name: str
) -> None:
    # Kernels outside every range have no text; other domains are not the reference's.
    expected: Counter[tuple[int, int, str, str]] = Counter()
    for row in oracle(shared_dir, f"{name}__nvtx_kern_sum"):
        text = row["NVTX Range"].removeprefix(":")
        if text and not text.startswith("NCCL:"):
            expected[int(row["PID"]), int(row["TID"]), text, row["Kernel Name"]] += int(
                row["Kern Inst"]
            )
    found = Counter(
        (kernel.pid, kernel.tid, text, kernel.name)
        for kernel in reference(name).kernels
        for text in {item.text for item in kernel.around}
    )
    assert found == expected


@pytest.mark.parametrize("name", [*NAMES, *MORE])
def test_every_kernel_belongs_to_the_op_of_the_slow_reference(
    imported: Profile, reference: Callable[[str], Reference], name: str
) -> None:
    assert disagreements(imported(name), reference(name))[:3] == []
    kinds = Counter(owner.kind for _, owner in reference(name).owners())
    assert kinds["forward"] > 0.3 * kinds.total()
    assert kinds["backward"] > 0.3 * kinds.total()


def projections(shared_dir: Path, profile: str) -> list[tuple[str, int]]:
    """Range text and total projected time of the oracle's rows. Unit: ns."""
    rows = oracle(shared_dir, f"{profile}__nvtx_gpu_proj_sum")
    return [(row["Range"], int(row["Total Proj Time (ns)"])) for row in rows]


def mapped(database: Path, where: str) -> int:
    """Sum of our mapped GPU time over some ops. Unit: ns."""
    sql = f"SELECT sum(mapped_gpu_time_sum) FROM view_op_metrics WHERE aggr_id = 1 AND {where}"
    return int(query(database, sql)[0][0])


# Types that no other op calls: nested ones are part of the op around them, and of it alone.
@pytest.mark.parametrize("op_type", ["conv2d", "batch_norm", "linear", "max_pool2d"])
def test_mapped_time_of_ops_is_the_projection_of_their_ranges(
    shared_dir: Path, imported: ProfileFactory, op_type: str
) -> None:
    database = imported("pytorch_resnet50_fp32")
    expected = [
        time
        for text, time in projections(shared_dir, "pytorch_resnet50_fp32")
        if text.startswith(f"aten::{op_type},")
    ]
    assert len(expected) >= 8
    where = f"op_node_type = '{op_type}' AND direction = 'fprop'"
    assert mapped(database, where) == sum(expected)


@pytest.mark.parametrize(
    ("domain", "range_name"), [("Forward", "forward"), ("Gradient", "backward")]
)
def test_mapped_time_of_a_domain_is_the_projection_of_its_ranges(
    shared_dir: Path, imported: ProfileFactory, domain: str, range_name: str
) -> None:
    database = imported("nvtx_domains")
    expected = dict(projections(shared_dir, "nvtx_domains"))[f"{domain}:{range_name}"]
    assert mapped(database, f"domain_name = '{domain}'") == expected
