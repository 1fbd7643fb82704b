"""The bundled profile: `dlprof python demo/train.py` on one H200, shown by ``make demo``."""

from __future__ import annotations

import lzma
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from aggregator.options import ImportOptions
from aggregator.pipeline import import_profile
from aggregator.system.progress import NullProgress
from tests.conftest import REPOSITORY

#: Steps of demo/train.py, and what it printed without dlprof on that machine. Unit: ns.
STEPS = 25
BARE_NS = 45_720_000


@pytest.fixture(scope="module")
def export(tmp_path_factory: pytest.TempPathFactory) -> Path:
    (packed,) = (REPOSITORY / "demo").glob("*.xz")
    path = tmp_path_factory.mktemp("demo") / packed.stem
    path.write_bytes(lzma.decompress(packed.read_bytes()))
    return path


@pytest.fixture(scope="module")
def demo(export: Path) -> Iterator[sqlite3.Connection]:
    """The database of the demo, with the export attached as ``raw``."""
    database = export.parent / "dlprof_dldb.sqlite"
    import_profile(ImportOptions(source=export, database=database), NullProgress())
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("ATTACH ? AS raw", (f"{export}",))
        yield connection


def test_the_tree_of_the_model_is_the_one_of_torchvision(demo: sqlite3.Connection) -> None:
    rows = demo.execute("SELECT DISTINCT op_node_name FROM view_op_metrics WHERE aggr_id = 1")
    names = {name for (name,) in rows}
    blocks = [(1, 3), (2, 4), (3, 6), (4, 3)]
    wanted = {
        f"/ResNet/layer{layer}/{block}/conv{conv}/conv2d"
        for layer, count in blocks
        for block in range(count)
        for conv in (1, 2, 3)
    }
    assert wanted | {"/ResNet/conv1/conv2d", "/ResNet/fc/linear"} <= names


def test_every_kernel_is_in_an_op(demo: sqlite3.Connection) -> None:
    (truth,) = demo.execute("SELECT count(*), sum(end - start) FROM raw.CUPTI_ACTIVITY_KIND_KERNEL")
    (found,) = demo.execute(
        "SELECT sum(kernel_calls), sum(kernel_time) FROM view_op_metrics WHERE aggr_id = 1"
        " AND op_node_name != 'unassociated'"
    )
    assert found == truth


def test_the_loop_is_the_one_of_the_script(demo: sqlite3.Connection) -> None:
    ((median, steps, note),) = demo.execute(
        "SELECT iter_median, steps, steady_note FROM view_aggregations WHERE is_steady"
    )
    # The loader is asked once more than there are batches; the first two steps are warm-up.
    assert STEPS - 3 <= steps < STEPS
    assert "warm-up" in note
    # Markers and tracing make this launch-bound model slower, never faster.
    assert BARE_NS < median < 1.5 * BARE_NS
