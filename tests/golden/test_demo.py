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

MARKED, BARE = 4, 41
"""Iterations until the first steps, which have markers, are over, and steps without profiling."""
ITERATIONS = 42
"""Iterations of the recorded window of demo/train.py."""
OWN_CLOCK_NS = (48_340_000, 48_300_000)
"""The median steps that it printed on that machine without dlprof, before and after the capture."""


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
    assert steps == ITERATIONS - MARKED
    assert "steps with markers" in note
    # The GPU limits most of its steps, so that tracing costs little.
    assert 1.0 * min(OWN_CLOCK_NS) < median < 1.1 * max(OWN_CLOCK_NS)


def test_the_step_without_profiling_is_that_of_the_programs_own_clock(
    demo: sqlite3.Connection,
) -> None:
    info = dict(demo.execute("SELECT key, value FROM view_profile_info"))
    assert int(info["bare_steps"]) == BARE
    bare_ns = int(info["bare_step_ns"])
    assert bare_ns == pytest.approx(sum(OWN_CLOCK_NS) / 2, rel=0.03)
    ((corrected_ns,),) = demo.execute(
        "SELECT corrected_step FROM view_corrected_step WHERE aggr_id = 2"
    )
    assert corrected_ns == pytest.approx(bare_ns, rel=0.05)


def test_the_recorded_part_of_the_run_is_stored(demo: sqlite3.Connection) -> None:
    windows = demo.execute("SELECT ended_by FROM view_windows").fetchall()
    assert windows == [("detach",)]
    ((recorded, steps),) = demo.execute(
        "SELECT recorded_steps, run_steps FROM view_recorded_part WHERE aggr_id = 1"
    )
    assert 40 <= recorded < ITERATIONS < steps < 120


def test_most_steps_have_no_markers_and_names_all_the_same(demo: sqlite3.Connection) -> None:
    ((count,),) = demo.execute("SELECT count FROM warnings WHERE code = 'ALIGNED_NAMES'")
    assert count == ITERATIONS - MARKED
    known = demo.execute("SELECT sum(gpu_time_pct) FROM view_name_evidence WHERE aggr_id = 1")
    assert known.fetchone()[0] == pytest.approx(100.0)


def test_its_first_advice_is_true_of_the_run_without_profiling(demo: sqlite3.Connection) -> None:
    """Kernels convert layouts whether they are profiled or not: the GPU's time alone says so."""
    ((name, pct, certainty),) = demo.execute(
        "SELECT advice_name, gain_pct, certainty FROM view_advice WHERE aggr_id = 2 AND place = 1"
    )
    # What is replayed is a bound.
    assert (name, certainty) == ("layout_conversions", "possible")
    # Kernels for unaligned operands run there because of 14x14 positions: nothing can be padded.
    padded = "SELECT count(*) FROM view_advice WHERE advice_name = 'unaligned_shapes'"
    assert demo.execute(padded).fetchone() == (0,)
    ((share,),) = demo.execute(
        "SELECT 100.0 * sum(iif(s.value LIKE '%nchwToNhwc%' OR s.value LIKE '%nhwcToNchw%',"
        " k.end - k.start, 0)) / sum(k.end - k.start)"
        " FROM raw.CUPTI_ACTIVITY_KIND_KERNEL AS k JOIN raw.StringIds AS s ON s.id = k.shortName"
    )
    assert 10 < share < pct
