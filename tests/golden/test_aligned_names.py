"""Names of steps that ran without markers: against the same capture with all its markers."""

from __future__ import annotations

import lzma
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.builders import analyze_file, query
from tests.conftest import ProfileFactory

DEMO = Path(__file__).parents[1] / "data" / "captures" / "resnet50_amp_marked.sqlite.xz"
"""``demo/train.py`` with markers in all steps."""
MARKED = 4
TEXT = "coalesce(n.text, (SELECT value FROM StringIds AS s WHERE s.id = n.textId))"
KERNELS = (
    "SELECT k.start, k.stream_id, k.name, k.api_start, o.op_name, o.direction, o.op_type"
    " FROM kernels AS k JOIN op_kernels AS p ON p.id = k.op_kernel JOIN ops AS o ON o.id = p.op"
)
GRADES = (
    "SELECT DISTINCT o.name_grade FROM kernels AS k JOIN op_kernels AS p ON p.id = k.op_kernel"
    " JOIN ops AS o ON o.id = p.op"
)


def without_markers(export: Path) -> dict[int, int]:
    """Remove the ranges that a light capture does not have; when they end, by process."""
    with closing(sqlite3.connect(export)) as connection, connection:
        ends = connection.execute(
            f"SELECT n.globalTid >> 24, n.end, n.globalTid FROM NVTX_EVENTS AS n WHERE {TEXT}"
            " LIKE 'Optimizer.step#%' AND n.end IS NOT NULL ORDER BY n.end"
        ).fetchall()
        found = {}
        for process in {row[0] for row in ends}:
            own = [row for row in ends if row[0] == process]
            off, thread = own[MARKED - 1][1:]
            found[process] = off
            connection.execute(
                "DELETE FROM NVTX_EVENTS AS n WHERE start > ? AND eventType IN (59, 60)"
                f" AND globalTid >> 24 = ? AND {TEXT} NOT LIKE 'Optimizer.%'"
                f" AND {TEXT} NOT LIKE 'enumerate(DataLoader)%' AND {TEXT} NOT LIKE 'iteration%'",
                (off, process),
            )
            text = (f'{{"model_config":{{"marked_steps":{MARKED}}}}}',)
            number = connection.execute("SELECT max(id) + 1 FROM StringIds").fetchone()[0]
            connection.execute("INSERT INTO StringIds VALUES (?, ?)", (number, *text))
            connection.execute(
                "INSERT INTO NVTX_EVENTS (start, end, eventType, globalTid, textId, domainId)"
                " VALUES (?, ?, 59, ?, ?, 0)",
                (off, off + 1, thread, number),
            )
    return found


def assert_names_are_carried(export: Path, marked: Path, folder: Path) -> None:
    """Whether the export without markers has the names of the database with them."""
    truth = query(marked, KERNELS)
    off = max(without_markers(export).values())
    light = analyze_file(export, folder / "light.sqlite")
    assert light.warnings().get("ALIGNED_NAMES", 0) >= 2
    named = {row[:4]: row[4:] for row in query(light.path, KERNELS)}
    carried = [row for row in truth if row[3] > off]
    assert len(carried) > 1_000
    wrong = [(row, named[row[:4]]) for row in carried if named[row[:4]] != row[4:]]
    # What follows the last step of the optimizer is part of no whole step: it has no name, which is
    # not a wrong one.
    unnamed = [pair for pair in wrong if _is_unnamed(pair[1][0])]
    assert [pair for pair in wrong if pair not in unnamed] == []
    assert len(unnamed) <= 2
    # The first steps have markers of their own; an op is as sure as the least sure of its work.
    graded = query(light.path, f"{GRADES} WHERE k.api_start > {off}")
    assert {grade for (grade,) in graded} <= {"aligned", "module", "unknown"}
    assert ("aligned",) in graded


def _is_unnamed(op_name: str) -> bool:
    return op_name.endswith("iteration #") or op_name.startswith("unassociated_")


def test_the_bundled_capture_gets_its_names_back(tmp_path: Path) -> None:
    export = tmp_path / "demo.sqlite"
    export.write_bytes(lzma.decompress(DEMO.read_bytes()))
    marked = analyze_file(export, tmp_path / "marked.sqlite").path
    assert_names_are_carried(export, marked, tmp_path)


@pytest.mark.parametrize(
    "name", ["pytorch_resnet50_fp32", "pytorch_bert_bf16", "ddp2_resnet50_amp"]
)
def test_captures_with_other_markers_get_their_names_back(
    name: str, profile: ProfileFactory, imported: ProfileFactory, tmp_path: Path
) -> None:
    export = tmp_path / "profile.sqlite"
    export.write_bytes(profile(name).read_bytes())
    assert_names_are_carried(export, imported(name), tmp_path)
