"""Every kernel's op, found in a second, slow way (``slow_reference``), and by NVIDIA's nsys."""

from __future__ import annotations

import csv
import io
import lzma
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

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
    path = shared_dir / "oracles" / f"{name}__nvtx_kern_sum.csv.xz"
    rows = csv.DictReader(io.StringIO(lzma.decompress(path.read_bytes()).decode()))
    # Kernels outside every range have no text; other domains are not the reference's.
    expected: Counter[tuple[int, int, str, str]] = Counter()
    for row in rows:
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
