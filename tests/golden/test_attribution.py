"""Every kernel's op, told in a second, slow way (``slow_reference``), and by NVIDIA's nsys."""

from __future__ import annotations

import csv
import io
import lzma
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.builders import query
from tests.golden.slow_reference import Kernel, Owner, Reference

Profile = Callable[[str], Path]
NAMES = ["pytorch_resnet50_fp32", "ddp2_resnet50_amp"]
MORE = [
    pytest.param(name, marks=pytest.mark.slow)
    for name in ("pytorch_resnet50_amp", "pytorch_bert_bf16")
]


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
    database = imported(name)
    engine = _engine_owners(database)
    forward_op = _forward_ops(database)
    owners = list(reference(name).owners())
    assert len(owners) == len(engine)
    wrong = [
        (kernel, owner, engine[_key(kernel)])
        for kernel, owner in owners
        if not _agrees(engine[_key(kernel)], kernel.pid, owner, forward_op)
    ]
    assert len(wrong) == 0, wrong[:3]
    kinds = Counter(owner.kind for _, owner in owners)
    assert kinds["forward"] > 0.3 * len(owners)
    assert kinds["backward"] > 0.3 * len(owners)


def _key(kernel: Kernel) -> tuple[int, int, str]:
    return kernel.pid, kernel.start, kernel.name


def _engine_owners(database: Path) -> dict[tuple[int, int, str], dict[str, Any]]:
    """Columns of the owner of each kernel, by process, start on the GPU and long name."""
    columns = ("direction", "op_type", "op_name", "forward", "start")
    rows = query(
        database,
        "SELECT p.pid, k.start, n.long_name, o.direction, o.op_type, o.op_name, o.forward, i.start"
        " FROM kernels AS k JOIN op_instances AS i ON i.id = k.instance"
        " JOIN ops AS o ON o.id = i.op JOIN processes AS p ON p.id = k.process"
        " JOIN kernel_names AS n ON n.id = k.name",
    )
    found = {row[:3]: dict(zip(columns, row[3:], strict=True)) for row in rows}
    assert len(found) == len(rows), "a kernel is not told apart by its start"
    return found


def _forward_ops(database: Path) -> set[tuple[int, int, int]]:
    """(process, start of an instance, row of its op) of all forward instances."""
    sql = (
        "SELECT p.pid, i.start, o.id FROM op_instances AS i JOIN ops AS o ON o.id = i.op"
        " JOIN processes AS p ON p.id = o.process WHERE o.direction = 'fprop'"
    )
    return {(pid, start, op) for pid, start, op in query(database, sql)}


def _agrees(
    found: dict[str, Any], pid: int, owner: Owner, forward_op: set[tuple[int, int, int]]
) -> bool:
    name = re.sub(r"\[\d+\]$", "", found["op_name"].rpartition("/")[2])
    if owner.kind == "stray":
        return bool(found["direction"] == "" and "unassociated_" in found["op_name"])
    if owner.kind == "backward":
        is_of_forward = (pid, owner.start, found["forward"]) in forward_op
        return bool(found["direction"] == "bprop" and is_of_forward and name == owner.label)
    label = re.sub(r"\d+", "#", owner.label) if owner.kind == "group" else owner.label
    same_instance = found["start"] == owner.start and found["forward"] is None
    direction = "bprop" if owner.kind == "engine" else "fprop"
    return bool(same_instance and name == label and found["direction"] == direction)
