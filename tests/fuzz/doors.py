"""The ways by which a file gets into the product; each fails on a 500, a traceback or a lie."""

from __future__ import annotations

import io
import json
import sqlite3
from contextlib import closing, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from aggregator.tables.declared.addresses import TABLES
from aggregator.tables.declared.profile import profile_id
from profiler_cli.dlprof import main
from tests.contract.client import API, ApiClient, Reply
from tests.jobs.in_process import do_queued_jobs
from viewer.api.urls import urlpatterns
from viewer.state.models import Job

#: A reply that says what is wrong: refused, damaged, took too long, no room.
EXPECTED = {200, 400, 404, 409, 413, 422, 503}
#: What the command may end with: done, usage, a tool, the profile, the database.
EXIT_CODES = {0, 2, 3, 4, 5}
#: How bad the worst advice is.
ADVICE_CODES = frozenset({11, 12, 13})
FAULTS = ("Traceback", "This is a bug in dlprof")
_MORE = ("/export/", "/distinct/")
_EXPORTS = ("csv", "json", "xlsx", "pdf")


@dataclass(frozen=True)
class Doors:
    """One viewer and one command, for one file.

    Attributes:
        served: Folder that the viewer serves.
        stored: Folder for its uploads.
        output: Folder for what the command writes.
        number: Decides what differs from file to file: language, formats, sorting.
    """

    served: Path
    stored: Path
    output: Path
    number: int

    @property
    def api(self) -> ApiClient:
        """A browser; every other one speaks Chinese."""
        return _browser("zh-CN" if self.number % 2 else "en")

    # --- the viewer -------------------------------------------------------------------------------

    def upload(self, file: Path, name: str = "") -> str:
        """Upload a file and do the job that follows; the profile's id, empty if it was refused."""
        data = file.read_bytes()
        begun = self.api.post(
            f"{API}/uploads/?file_name={quote(name or file.name)}", data, "application/octet-stream"
        )
        if not data:
            assert begun.status in {400, 403}, begun.body
            return ""
        assert begun.status == 201, begun.body
        upload = begun.json["id"]
        reply = self.api.post(f"{API}/profiles/", {"upload": upload})
        assert reply.status in EXPECTED | {201, 202}, reply.body[:300]
        if reply.status == 201:
            return str(reply.json["id"])
        if reply.status != 202:
            _check_error(reply)
            return ""
        job = self.finish(reply.json["id"])
        return str(job.profile_id) if job.state == "done" else ""

    def aggregate(self, profile: str, database: Path) -> Job | None:
        """Ask for one more aggregation of a database, and do it; None: it was refused."""
        was_whole = _is_whole(database)
        stop = 3 + self.number % 2
        reply = self.api.post(
            f"{API}/profiles/{profile}/aggregations/", {"iter_start": 2, "iter_stop": stop}
        )
        assert reply.status in EXPECTED | {202}, reply.body[:300]
        return self.finish(reply.json["id"], was_whole) if reply.status == 202 else None

    def finish(self, job_id: str, was_whole: bool = True) -> Job:
        """Do a job; it ends well, or failed with a sentence."""
        do_queued_jobs()
        job = Job.objects.get(pk=job_id)
        assert job.state in {"done", "failed"}, (job.state, job.error)
        shown = self.api.get(f"{API}/jobs/{job_id}/")
        assert shown.status == 200, shown.body[:300]
        if job.state == "failed":
            error = shown.json["error"]
            assert error["code"] != "INTERNAL_ERROR", error
            _check_sentence(error["message"])
        else:
            assert _is_whole(Path(job.result)) or not was_whole
        return job

    def walk(self, profile: str, aggregation: int = 1) -> None:
        """Ask every address; a third of the tables also sorted, searched and as a file."""
        listed = self.api.get(f"{API}/profiles/")
        assert listed.status == 200, listed.body[:300]
        for number, pattern in enumerate(urlpatterns):
            address = str(pattern.pattern)
            left_out = address.endswith(_MORE) and (number // len(_MORE) + self.number) % 3
            is_read = hasattr(getattr(pattern.callback, "cls", None), "get")
            if address.startswith("profiles/<str:profile>/") and is_read and not left_out:
                self._ask(_filled(address, profile, aggregation), self._params(address))
        for number, (address, spec) in enumerate(TABLES.items()):
            if (number + self.number) % 3:
                continue
            column = spec.columns[(self.number + number) % len(spec.columns)]
            filled = address.replace("{iteration}", "2").replace("{op_id}", "CONV2D_1")
            path = f"profiles/{profile}/aggregations/{aggregation}/{filled}/"
            self._ask(path, {"ordering": f"-{column.name}", "search": "e", "page_size": 200})

    def _params(self, address: str) -> dict[str, Any]:
        if "distinct" in address:
            return {"column": "op_name"}
        if "export" in address:
            return {"format": _EXPORTS[self.number % len(_EXPORTS)]}
        return {}

    def _ask(self, path: str, params: dict[str, Any]) -> None:
        reply = self.api.get(f"{API}/{path}", **params)
        assert reply.status in EXPECTED, f"{path} {params}: {reply.status} {reply.body[:300]!r}"
        if reply.status != 200:
            _check_error(reply)

    # --- the command ------------------------------------------------------------------------------

    def command(self, file: Path) -> int:
        """Aggregate the file and write every report; all of it appears, or nothing."""
        form = ("csv", "json")[self.number % 2]
        was_whole = _is_whole(file) or "dldb_meta" not in _tables(file)
        code, _ = self._run(
            f"--database={file}", f"--output_path={self.output}", "--reports=all,advice,html",
            f"--formats={form}", "--force=true", "--iter_start=1", "--dump_model_data=true",
        )  # fmt: skip
        written = sorted(self.output.iterdir()) if self.output.exists() else []
        if code == 0:
            database = next(path for path in written if path.suffix == ".sqlite")
            # Unread pages of a damaged source stay as they are.
            assert _is_whole(database) or not was_whole
            assert len(written) > 9, written
        assert not [path for path in written if path.name.startswith(".") or "part" in path.suffix]
        return code

    def ranks(self, good: Path, file: Path) -> None:
        """The file as one rank of two."""
        both = (good, file) if self.number % 2 else (file, good)
        self._run(f"--database={both[0]},{both[1]}", f"--output_path={self.output}", "--force=true")

    def pyprof(self, file: Path) -> None:
        """PyProf's two steps."""
        code, records = self._run("pyprof", "parse", str(file))
        if code == 0:
            parsed = self.output.with_name("records.dict")
            parsed.write_text(records, encoding="utf-8", errors="replace")
            self.pyprof_table(parsed)

    def pyprof_table(self, file: Path) -> None:
        """PyProf's second step alone, in its three forms."""
        forms = ((), ("--csv",), ("-w", "400"))
        self._run("pyprof", "prof", "-c", "all", *forms[self.number % 3], str(file))

    def advise(self, file: Path) -> None:
        """Our own advice."""
        self._run("advise", f"--database={file}", "--json", more=ADVICE_CODES)

    def _run(self, *words: str, more: frozenset[int] = frozenset()) -> tuple[int, str]:
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            code = main(words)
        said = err.getvalue()
        assert code in EXIT_CODES | more, f"{words[0]}: exit {code}: {said[:300]}"
        for text in (out.getvalue() if words[0] != "pyprof" else "", said):
            assert not any(fault in text for fault in FAULTS), text[:600]
        if code in {4, 5}:
            _check_sentence(said.partition("dlprof: error: ")[2].splitlines()[0])
        return code, out.getvalue()


def printed(*words: str) -> str:
    """What the command prints."""
    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(io.StringIO()):
        assert main(words) == 0
    return out.getvalue()


@cache
def _browser(language: str) -> ApiClient:
    return ApiClient(**{"Accept-Language": language})


def _filled(address: str, profile: str, aggregation: int) -> str:
    return (
        address.replace("<str:profile>", profile)
        .replace("<int:aggregation>", str(aggregation))
        .replace("<int:iteration>", "2")
        .replace("<path:op_id>", "CONV2D_1")
        .replace("<path:kernel>", "gemm")
        .replace("<str:name>", "iteration-summary")
    )


def _check_error(reply: Reply) -> None:
    error = json.loads(reply.body)["error"]
    assert error["code"] != "INTERNAL_ERROR"
    _check_sentence(error["message"])


def _check_sentence(text: str) -> None:
    assert text
    assert "\n" not in text.strip()


def _tables(database: Path) -> set[str]:
    try:
        with closing(sqlite3.connect(database)) as connection:
            return {str(row[0]) for row in connection.execute("SELECT name FROM sqlite_master")}
    except (sqlite3.DatabaseError, UnicodeDecodeError):
        return set()


def _is_whole(database: Path) -> bool:
    try:
        with closing(sqlite3.connect(database)) as connection:
            return bool(connection.execute("PRAGMA quick_check").fetchone()[0] == "ok")
    except (sqlite3.DatabaseError, UnicodeDecodeError):
        return False


def id_of(file: Path) -> str:
    """The profile's id of a file that is served."""
    return profile_id(file)
