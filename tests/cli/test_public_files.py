"""The command on every small file that others published: a result, or a refusal that says why."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from profiler_cli.dlprof import main
from tests.conftest import ProfileFactory, _shared_root

MAX_PACKED_BYTES = 3_000_000
REFUSED = 4
#: What is no profile: snapshots of memory, op times of other tools.
OTHERS = ("memory", "stragglers")
FILES = sorted(
    path
    for path in (_shared_root() / "public").glob("*/*")
    if path.stat().st_size < MAX_PACKED_BYTES
)
PROFILES = [path for path in FILES if path.parent.name not in OTHERS]
#: What a sentence never contains: a missing value, or one of Python's.
WRONG = re.compile(r"\bNone\b|\bnan\b|\binf\b|-\d+(\.\d+)? (ms|s|%)|\{|\bTrue\b|\bFalse\b")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "out"


def test_there_are_public_files() -> None:
    if not (_shared_root() / "public").is_dir():
        pytest.skip("no public data")
    assert len(PROFILES) >= 24


@pytest.mark.parametrize("path", PROFILES, ids=lambda path: path.name)
def test_a_public_profile_gets_a_result_that_its_data_shows(
    path: Path, imported: ProfileFactory
) -> None:
    name = path.name.removesuffix(".xz").removesuffix(".sqlite")
    database = imported(name)
    assert database.with_name(f"{name}.err").read_text() == ""
    printed = database.with_name(f"{name}.out").read_text()
    # Advice quotes code: pin_memory=True, cudnn.allow_tf32 = True.
    printed = re.sub(r"=\s*(True|False)\b", "", printed)
    assert [line for line in printed.splitlines() if WRONG.search(line)] == []
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        _check_sentences(printed, connection)


def _check_sentences(said: str, connection: sqlite3.Connection) -> None:
    """Compare what is said of the aggregation that leads with its numbers."""
    query = "SELECT aggr_id FROM view_aggregations ORDER BY is_steady DESC, aggr_id LIMIT 1"
    (lead,) = connection.execute(query).fetchone()

    def one(sql: str) -> tuple[float, ...]:
        row: tuple[float, ...] = connection.execute(sql, {"aggr": lead}).fetchone()
        return row

    time, loader, copies = one(
        "SELECT used_gpu_utilization, dataloader_duration_pct, memory_duration_pct"
        " FROM view_model_summary WHERE aggr_id = :aggr AND domain_name = 'default-domain'"
    )
    if found := re.search(r"Only ([\d.]+)% of the profiled time", said):
        assert float(found[1]) == pytest.approx(time, abs=0.051)
        assert time < 50
    if found := re.search(r"usage at ([\d.]+)%", said):
        assert float(found[1]) + 0.051 >= copies
    assert loader >= 10 or "Investigate the dataloading" not in said
    if found := re.search(r"(\d+) ops were eligible to use tensor cores but none", said):
        (half,) = one(
            "SELECT count(*) FROM view_op_nodes WHERE aggr_id = :aggr AND tc_eligible"
            " AND data_type IN ('float16', 'bfloat16')"
        )
        assert half == 0
    if found := re.search(r"not being used: ([\d, ]+)", said):
        busy = connection.execute("SELECT DISTINCT device_id FROM view_gpu_work").fetchall()
        assert {int(one) for one in found[1].split(",")}.isdisjoint(row[0] for row in busy)
    if "emit_nvtx was not used" in said:
        (markers,) = one("SELECT count(*) FROM ops WHERE direction = 'bprop'")
        assert markers <= 1
    if found := re.search(r"^Step: median .*\((\d+) steps", said, re.MULTILINE):
        (steps,) = one("SELECT typical_steps FROM view_typical_step WHERE aggr_id = :aggr LIMIT 1")
        assert int(found[1]) == steps
    assert ("contains a lot of variation" in said) <= ("are steady" not in said)


@pytest.mark.parametrize(
    "path",
    [path for path in FILES if path.parent.name in OTHERS],
    ids=lambda path: path.name,
)
def test_what_is_no_profile_is_refused(
    path: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([f"--database={path}", f"--output_path={folder}", "-v=minimal"]) == REFUSED
    error, hint = capsys.readouterr().err.splitlines()
    assert error.startswith(f"dlprof: error: '{path}' is not a")
    assert hint
