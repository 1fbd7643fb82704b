"""2,000 files that are spoilt in every way: no 500, no hang, no traceback.

Some of them by default; all with ``DLPROF_MUTANTS=2000`` (``make fuzz``). A number always makes
the same file: ``DLPROF_MUTANT=export/17`` runs that one alone.
"""

from __future__ import annotations

import faulthandler
import os
import shutil
import sqlite3
import sys
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from django.conf import LazySettings

from aggregator.errors import DlprofError
from aggregator.options import AggregationRequest, ImportOptions
from aggregator.pipeline import aggregate, import_profile
from aggregator.progress import NullProgress
from tests.builders import Trace, analyse_file
from tests.contract.client import API, ApiClient
from tests.fuzz.mutants import make
from viewer.api.urls import urlpatterns
from viewer.errors import ProfileRefusedError
from viewer.profiles.admission import inspect
from viewer.profiles.registry import profile_id

COUNT = int(os.environ.get("DLPROF_MUTANTS", "60"))
ONE = os.environ.get("DLPROF_MUTANT", "")
CHUNK = 20
#: Files of a few hundred rows: whatever takes longer than this hangs.
TIME_LIMIT_S = 60.0
ORIGINALS = ("export", "ours", "theirs")
#: A reply that says what is wrong: refused, damaged, took too long, no room.
TOLD = {200, 400, 404, 409, 422, 503}

pytestmark = [
    pytest.mark.django_db,
    *([pytest.mark.slow] if COUNT > 200 else []),
]


@pytest.fixture(scope="session")
def originals(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A good export, a database of ours made from it, and one of NVIDIA's if it is at hand."""
    folder = tmp_path_factory.mktemp("originals")
    export = folder / "export.sqlite"
    _trace().write(export)
    ours = folder / "ours.sqlite"
    analyse_file(export, ours)
    aggregate(ours, AggregationRequest(iter_start=1), NullProgress())
    found = {"export": export, "ours": ours}
    root = Path(os.environ.get("DLPROF_SHARED") or Path(__file__).parents[3] / "shared")
    golden = root / "golden" / "dlprof-1.8.0-pytorch" / "dlprof_dldb.sqlite"
    if golden.is_file():
        found["theirs"] = folder / "theirs.sqlite"
        shutil.copyfile(golden, found["theirs"])
    return found


def _trace() -> Trace:
    """Two processes, two GPUs, forward and backward, copies, marks, a custom domain."""
    trace = Trace()
    trace.gpu(0)
    trace.gpu(1)
    for rank in range(2):
        thread = trace.thread(100 + rank)
        for step in range(8):
            at = 10_000 * step
            thread.range(f"iteration {step}", at, at + 9_000)
            thread.range("load", at + 5, at + 90, domain=7 if rank else 0)
            thread.op("conv2d", at + 100, at + 800, seq=2 * step, sizes="[[8, 3, 4, 4]]")
            thread.launch("sgemm", at + 110, gpu=(at + 200, at + 900), device=rank)
            thread.launch("h884gemm", at + 300, gpu=(at + 900, at + 1_500), device=rank)
            thread.copy(at + 820, gpu=(at + 1_500, at + 1_600), device=rank)
            thread.backward("ConvolutionBackward0", at + 2_000, at + 2_900, seq=2 * step)
            thread.launch("dgrad", at + 2_010, gpu=(at + 3_000, at + 3_400), device=rank)
            thread.range("mark", at + 50, None, kind=34)
    return trace


def _numbers() -> list[tuple[str, range]]:
    if ONE:
        name, _, number = ONE.partition("/")
        return [(name, range(int(number), int(number) + 1))]
    each = COUNT // len(ORIGINALS)
    return [
        (name, range(first, min(first + CHUNK, each)))
        for name in ORIGINALS
        for first in range(0, each, CHUNK)
    ]


@pytest.mark.parametrize(
    ("name", "numbers"), _numbers(), ids=[f"{n}-{r.start}" for n, r in _numbers()]
)
def test_mutants(
    name: str,
    numbers: range,
    originals: dict[str, Path],
    tmp_path: Path,
    settings: LazySettings,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if name not in originals:
        pytest.skip("no database of NVIDIA's at hand")
    settings.ENVIRONMENT = replace(
        settings.ENVIRONMENT, databases=(tmp_path / "served",), token="", bind="127.0.0.1",
        query_timeout_s=10.0,
    )  # fmt: skip
    troubles = []
    for number in numbers:
        folder = tmp_path / "served"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        file = folder / "mutant.sqlite"
        what = make(originals[name], file, number)
        faulthandler.dump_traceback_later(
            TIME_LIMIT_S, exit=True, file=sys.__stderr__ or sys.stderr
        )
        began = time.monotonic()
        try:
            _use(name, file)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is a trouble
            troubles.append(f"{name}/{number} ({what}): {type(error).__name__}: {str(error)[:300]}")
            # At once: the long run takes many minutes.
            print(troubles[-1], file=sys.__stderr__, flush=True)
        finally:
            faulthandler.cancel_dump_traceback_later()
        if (took := time.monotonic() - began) > TIME_LIMIT_S * 0.75:
            troubles.append(f"{name}/{number} ({what}): took {took:.0f} s")
    assert not troubles, "\n".join(troubles)
    assert "Traceback" not in capsys.readouterr().err


def _use(name: str, file: Path) -> None:
    _told(lambda: inspect(file, file.name), ProfileRefusedError)
    if name == "export":
        database = file.with_name("made.sqlite")
        options = ImportOptions(file, database)
        _told(lambda: import_profile(options, NullProgress()))
        if not database.exists():
            return
        file.unlink()
        with closing(sqlite3.connect(database)) as connection:
            assert connection.execute("PRAGMA quick_check").fetchone()[0] == "ok"
        file = database
    _walk(file)
    _told(lambda: aggregate(file, AggregationRequest(iter_start=2, iter_stop=3), NullProgress()))
    assert ApiClient().get(f"{API}/profiles/").status in TOLD


def _told(call: Callable[[], object], *more: type[DlprofError]) -> None:
    """Whatever is wrong is said in one sentence."""
    expected: tuple[type[DlprofError], ...] = (DlprofError, *more)
    try:
        call()
    except expected as error:
        said = error.message
    else:
        return
    assert said
    assert "\n" not in said.strip()


def _walk(file: Path) -> None:
    """Ask every address for its first page, unsorted and sorted."""
    api = ApiClient()
    profile = profile_id(file)
    listed = api.get(f"{API}/profiles/")
    assert listed.status == 200, listed.body[:300]
    for pattern in urlpatterns:
        address = str(pattern.pattern)
        if not address.startswith("profiles/<str:profile>/"):
            continue
        path = f"{API}/" + (
            address.replace("<str:profile>", profile)
            .replace("<int:aggregation>", "1")
            .replace("<int:iteration>", "2")
            .replace("<path:op_id>", "CONV2D_1")
            .replace("<str:name>", "iteration-summary")
        )
        params = {"column": "op_name"} if "distinct" in path else {}
        reply = api.get(path, **params)
        assert reply.status in TOLD, f"{path}: {reply.status} {reply.body[:300]!r}"
