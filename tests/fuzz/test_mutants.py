"""2,000 files that are damaged in every way: no 500, no hang, no traceback.

Each goes in by every door that takes such a file: it is uploaded and imported, served where it
lies, asked about at every address, aggregated anew, and given to the command with every report.

A few by default; all with ``DLPROF_MUTANTS=2001`` (``make fuzz``). A number always makes
the same file: ``DLPROF_MUTANT=export/17`` runs that one alone.
"""

from __future__ import annotations

import faulthandler
import os
import shutil
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from django.conf import LazySettings

from tests.fuzz.doors import Doors, id_of
from tests.fuzz.mutants import PAGE, make
from tests.fuzz.originals import write_originals
from tests.fuzz.text_mutants import make_records, make_trace

COUNT = int(os.environ.get("DLPROF_MUTANTS", "16"))
ONE = os.environ.get("DLPROF_MUTANT", "")
CHUNK = 20
#: Files of a few hundred rows: whatever computes for longer than this hangs. Not by the clock on
#: the wall: a machine with other work takes many times as long. Names of a megabyte in every row
#: are read by each of some hundred requests.
CPU_LIMIT_S = 45.0
CPU_LIMIT_S_PER_MB = 1.0
#: A database's views are its own SQL: what each request may take of it is limited, not their sum.
QUERY_LIMIT_S = 3.0
SLOW_REQUESTS = 40
#: What waits for ever computes nothing; this ends it, with all stacks.
WAIT_LIMIT_S = 900.0
#: What part of the count each kind gets: databases and exports the count, texts some more.
SHARES = {
    "export": 7,
    "marked": 8,
    "dictionaries": 16,
    "graph": 16,
    "capture": 8,
    "ours": 6,
    "ranks": 12,
    "theirs": 4,
    "trace": 8,
    "nvprof": 12,
    "records": 8,
}

pytestmark = pytest.mark.django_db


@pytest.fixture(scope="session")
def originals(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return write_originals(tmp_path_factory.mktemp("originals"))


@pytest.fixture(autouse=True)
def viewer(tmp_path: Path, settings: LazySettings, monkeypatch: pytest.MonkeyPatch) -> None:
    """A viewer without a broker, and a page for reports."""
    settings.ENVIRONMENT = replace(
        settings.ENVIRONMENT,
        databases=(tmp_path / "served",), upload_dir=tmp_path / "stored", token="",
        bind="127.0.0.1", query_timeout_s=QUERY_LIMIT_S,
    )  # fmt: skip
    page = tmp_path / "page.html"
    page.write_text("<title><!--dlprof:title--></title><!--dlprof:data-->")
    monkeypatch.setattr("aggregator.html_report.template.PAGE", page)
    monkeypatch.setattr("viewer.jobs.service.send", lambda job: None)


def _numbers() -> list[tuple[str, range]]:
    if ONE:
        name, _, number = ONE.partition("/")
        return [(name, range(int(number), int(number) + 1))]
    return [
        (name, range(first, min(first + CHUNK, COUNT // share)))
        for name, share in SHARES.items()
        for first in range(0, COUNT // share, CHUNK)
    ]


@pytest.mark.parametrize(
    ("name", "numbers"), _numbers(), ids=[f"{n}-{r.start}" for n, r in _numbers()]
)
def test_mutants_cause_no_crash_and_no_hang(
    name: str,
    numbers: range,
    originals: dict[str, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if name not in originals:
        pytest.skip("no database of NVIDIA's at hand")
    troubles: list[str] = []
    for number in numbers:
        doors = _fresh(tmp_path, number)
        file = tmp_path / "mutant" / f"mutant{_SUFFIXES.get(name, '.sqlite')}"
        what = _MAKERS.get(name, make)(originals[name], file, number)
        limit_s = CPU_LIMIT_S + CPU_LIMIT_S_PER_MB * file.stat().st_size / 1e6
        if _USES[name] is _use_database:
            limit_s += QUERY_LIMIT_S * SLOW_REQUESTS
        with _watched(f"{name}/{number} ({what})", troubles, limit_s):
            _USES[name](doors, file)
            if name in _RANKS and number % 5 == 0:
                doors.ranks(originals[name], file)
    assert not troubles, "\n".join(troubles)
    said = capsys.readouterr().err
    assert "Traceback" not in said, said[-3000:]


@pytest.mark.parametrize("name", ["export", "ours", "ranks"])
def test_files_cut_at_every_page_are_refused(
    name: str, originals: dict[str, Path], tmp_path: Path
) -> None:
    original = originals[name].read_bytes()
    troubles: list[str] = []
    for at in range(0, len(original), PAGE):
        doors = _fresh(tmp_path, at // PAGE)
        file = tmp_path / "mutant" / f"mutant{_SUFFIXES.get(name, '.sqlite')}"
        file.write_bytes(original[:at])
        with _watched(f"{name} cut at {at}", troubles, CPU_LIMIT_S):
            assert doors.command(file) in {4, 5}
            assert not doors.upload(file)
    assert not troubles, "\n".join(troubles)


def _fresh(tmp_path: Path, number: int) -> Doors:
    for name in ("served", "stored", "mutant", "output"):
        shutil.rmtree(tmp_path / name, ignore_errors=True)
        (tmp_path / name).mkdir()
    return Doors(tmp_path / "served", tmp_path / "stored", tmp_path / "output", number)


@contextmanager
def _watched(what: str, troubles: list[str], limit_s: float) -> Iterator[None]:
    """Report every failure, and every call that takes too long."""
    faulthandler.dump_traceback_later(WAIT_LIMIT_S, exit=True, file=sys.__stderr__ or sys.stderr)
    began = time.process_time()
    try:
        yield
    except Exception as error:  # noqa: BLE001 - whatever it is, it is a trouble
        where = traceback.extract_tb(error.__traceback__)[-1]
        said = f"{type(error).__name__}: {str(error)[:300]}"
        troubles.append(f"{what}: {said} ({Path(where.filename).name}:{where.lineno})")
    finally:
        faulthandler.cancel_dump_traceback_later()
    if (took := time.process_time() - began) > limit_s:
        troubles.append(f"{what}: computed for {took:.0f} s")


def _use_source(doors: Doors, file: Path) -> None:
    """An export or a trace: it has to be imported first."""
    doors.command(file)
    if profile := doors.upload(file):
        doors.walk(profile)
        doors.aggregate(profile, next(doors.stored.rglob("*.dldb.sqlite")))
    if doors.number % 4 == 0:
        doors.advise(file)
    doors.pyprof(file)


def _use_database(doors: Doors, file: Path) -> None:
    """A database: it is served as it is."""
    doors.command(file)
    doors.upload(file)
    served = doors.served / file.name
    shutil.copyfile(file, served)
    doors.walk(id_of(served))
    if doors.number % 4 == 0:
        doors.advise(served)
    job = doors.aggregate(id_of(served), served)
    if job is not None and job.state == "done" and doors.number % 4 == 1:
        doors.walk(id_of(Path(job.result)), job.aggregation_id or 1)


_USES: dict[str, Callable[[Doors, Path], None]] = {
    "export": _use_source,
    "marked": _use_source,
    "dictionaries": _use_source,
    "graph": _use_source,
    "capture": _use_source,
    "ours": _use_database,
    "ranks": _use_database,
    "theirs": _use_database,
    "trace": _use_source,
    "nvprof": Doors.pyprof,
    "records": Doors.pyprof_table,
}
#: What can be one rank's file of several.
_RANKS = {"export", "marked", "trace"}
_MAKERS = {"trace": make_trace, "records": make_records}
_SUFFIXES = {"trace": ".json", "records": ".dict"}
