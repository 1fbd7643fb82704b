"""Mapped GPU time against ``nsys stats -r nvtx_gpu_proj_sum``, which projects every range."""

from __future__ import annotations

import csv
import io
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest

from aggregator.dldb.reader import open_database
from tests.conftest import ProfileFactory

Profiles = Callable[[str], Path]


def projections(shared_dir: Path, profile: str) -> list[tuple[str, int]]:
    """Range text and total projected time of the oracle's rows. Unit: ns."""
    packed = shared_dir / "oracles" / f"{profile}__nvtx_gpu_proj_sum.csv.xz"
    if not packed.is_file():
        pytest.skip(f"no oracle {packed.name}")
    rows = csv.DictReader(io.StringIO(lzma.decompress(packed.read_bytes()).decode()))
    return [(row["Range"], int(row["Total Proj Time (ns)"])) for row in rows]


def mapped(database: Path, where: str) -> int:
    """Sum of our mapped GPU time over some ops. Unit: ns."""
    query = "SELECT sum(mapped_gpu_time_sum) FROM view_op_metrics WHERE aggr_id = 1"
    query += f" AND {where}"
    with open_database(database) as dldb:
        return int(dldb.connection.execute(query).fetchone()[0])


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
