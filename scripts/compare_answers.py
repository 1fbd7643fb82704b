"""Write all that a version answers about some profiles as text, or compare two such folders.

    python -m scripts.compare_answers dump FOLDER PROFILE...    (RANK0+RANK1: files of ranks)
    python -m scripts.compare_answers diff FOLDER FOLDER

A profile is imported, aggregated a second time over a shorter range, and asked for the content of
all tables and views, the reports, and every GET address of the REST API. A dump of another version
is made by running this file with that version's checkout as PYTHONPATH. Databases are kept beside
the answers; what is there already is not imported again.
"""

from __future__ import annotations

import hashlib
import io
import json
import lzma
import os
import re
import shutil
import sqlite3
import struct
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import django
from django.conf import settings
from django.core.management import call_command
from django.test import Client

from aggregator.dldb.reader import open_database
from aggregator.options import AggregationRequest, ImportOptions, Mode
from aggregator.pipeline import aggregate, import_profile
from aggregator.ranks.rank_import import import_ranks
from aggregator.system.progress import NullProgress
from aggregator.tables.declared.profile import profile_id
from aggregator.tables.figures import FIGURES
from profiler_cli.reports.declared import HTML, REPORTS
from profiler_cli.reports.source import ReportSource

_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|\+00:00)?")
_PREFIX = "/api/v1/profiles/{profile}/aggregations/{aggregation}/"
_WHAT_IFS: tuple[dict[str, Any], ...] = (
    *({name: "1"} for name in ("no_sync", "roofline", "data_ready", "graph_launch")),
    *({name: "1"} for name in ("overlap_communication", "no_communication", "tensor_cores")),
    *({"half_precision": "1"}, {"channels_last": "1"}, {"link_speed": "100"}, {"bucket_mb": "50"}),
    *({"speedup": "kernels=2x"}, {"remove": "copies"}, {"fuse": "kernels"}),
    *({"rank_as_median": "0"}, {"rank_as_median": "1"}, {"speedup": "communication=3x;copies=2x"}),
    *({}, {"corrected": "1"}, {"corrected": "1", "speedup": "kernels=2x"}),
)


def main() -> None:
    """Run the command line."""
    command, *arguments = sys.argv[1:]
    if command == "diff":
        raise SystemExit(_diff(*map(Path, arguments)))
    folder = Path(arguments[0]).resolve()
    for argument in arguments[1:]:
        profiles = [Path(path) for path in argument.split("+")]
        name = "+".join(f"{path.name.partition('.')[0]}-{path.parent.name}" for path in profiles)
        database = folder / "databases" / f"{name}.sqlite"
        answers = folder / "answers" / name
        print(name, flush=True)
        shutil.rmtree(answers, ignore_errors=True)
        answers.mkdir(parents=True)
        try:
            if not database.exists():
                _make(profiles, database)
            _dump(database, answers)
        except Exception:  # noqa: BLE001  (an import that fails must fail in both versions)
            (answers / "error.txt").write_text(traceback.format_exc())


def _diff(before: Path, after: Path) -> int:
    roots = (before / "answers", after / "answers")
    names = {path.name for path in roots[1].iterdir()}
    missing = {path.name for path in roots[0].iterdir()} - names
    print(f"{len(names)} profiles compared; not in the second folder: {sorted(missing)}")
    found = [
        subprocess.run(["diff", "-rq", *(root / name for root in roots)], check=False).returncode
        for name in sorted(names)
    ]
    return int(any(found))


def _unpack(profile: Path, folder: Path) -> Path:
    """Return a profile as a file that can be read; recordings of memory lie beside it."""
    stem = profile.name.partition(".")[0]
    for packed in [profile, *profile.parent.glob(f"{stem}_memory_*.pickle.xz")]:
        if packed.suffix == ".xz":
            with lzma.open(packed) as stream, (folder / packed.stem).open("wb") as target:
                shutil.copyfileobj(stream, target)
    return folder / profile.stem if profile.suffix == ".xz" else profile


def _make(profiles: list[Path], database: Path) -> None:

    database.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as work:
        partial = Path(work) / database.name
        sources = [_unpack(path, Path(work)) for path in profiles]
        options = ImportOptions(sources[0], partial, profile_name="a")
        if len(sources) > 1:
            import_ranks(options, sources, NullProgress(), 1)
        else:
            import_profile(options, NullProgress())
        with closing(sqlite3.connect(partial)) as connection:
            first, last = connection.execute(
                "SELECT min(iter_value), max(iter_value) FROM iterations WHERE aggr = 1"
                " AND kind = 'iteration'"
            ).fetchone()
        if first is not None and last - first >= 3:
            request = AggregationRequest(iter_start=first + 1, iter_stop=last - 1)
            aggregate(partial, request, NullProgress())
        shutil.move(partial, database)


class _Answers:
    """Writes texts without what differs between two runs of one version."""

    def __init__(self, folder: Path, database: Path, identity: str) -> None:
        self._folder = folder
        self._own = [str(database), str(database.parent), identity]

    def write(self, name: str, text: str) -> None:
        """Write a file named after what was asked."""
        for number, own in enumerate(self._own):
            text = text.replace(own, f"<own {number}>")
        text = _TIME.sub("<time>", text)
        safe = re.sub(r"[^\w.,=+-]+", "_", name).strip("_")
        if len(safe) > 120:
            safe = safe[:100] + hashlib.sha256(safe.encode()).hexdigest()[:12]
        (self._folder / f"{safe}.txt").write_text(text, encoding="utf-8")


def _dump(database: Path, folder: Path) -> None:
    with tempfile.TemporaryDirectory() as state:
        os.environ |= {"DLPROF_STATE_DIR": state, "DJANGO_SETTINGS_MODULE": "viewer.settings"}
        os.environ |= {"DLPROF_DATABASES": str(database), "DLPROF_QUERY_TIMEOUT_S": "300"}

        django.setup()
        settings.ENVIRONMENT = replace(settings.ENVIRONMENT, databases=(database,))
        settings.DATABASES["default"]["NAME"] = Path(state) / "viewer.sqlite3"
        call_command("migrate", verbosity=0)
        answers = _Answers(folder, database, profile_id(database))
        aggregations = _dump_tables(database, answers)
        for aggregation in aggregations:
            _dump_reports(database, aggregation, answers)
            _dump_rest(profile_id(database), aggregation, answers)


def _dump_tables(database: Path, answers: _Answers) -> list[int]:
    with closing(sqlite3.connect(database)) as connection:
        query = "SELECT type, name FROM sqlite_master WHERE type IN ('table', 'view') ORDER BY name"
        for kind, name in connection.execute(query).fetchall():
            try:
                rows = connection.execute(f'SELECT * FROM "{name}"')  # noqa: S608
                text = "\n".join(map(repr, rows))
            except sqlite3.Error as error:
                text = f"{error}"
            answers.write(f"{kind} {name}", _TIME.sub("<time>", text))
        found = connection.execute("SELECT id FROM aggregations ORDER BY id").fetchall()
    return [int(row[0]) for row in found]


def _dump_reports(database: Path, aggregation: int, answers: _Answers) -> None:

    with open_database(database) as dldb:
        connection = dldb.connection
        domains = tuple(row[0] for row in connection.execute("SELECT name FROM domains"))
        query = "SELECT value FROM view_profile_info WHERE key = 'mode'"
        mode = Mode(connection.execute(query).fetchone()[0])
        for report in REPORTS.values():
            for domain in domains if report.per_domain else domains[:1]:
                stream = io.BytesIO()
                source = ReportSource(connection, aggregation, domain, mode, is_extended=True)
                source = ReportSource(**{**vars(source), "database": database, "domains": domains})
                if report.name == HTML.name:
                    continue  # compressed; its content is that of the REST API
                try:
                    report.write(source, report.own_format or "csv", stream, lambda _: None)
                except Exception as error:  # noqa: BLE001  (the same error in both versions)
                    stream.write(repr(error).encode())
                text = stream.getvalue().decode("utf-8", "backslashreplace")
                answers.write(f"report {aggregation} {report.name} {domain}", text)


class _Api:
    def __init__(self, root: str, answers: _Answers, aggregation: int) -> None:

        self._client = Client(raise_request_exception=False, headers={"host": "localhost"})
        self._root, self._answers, self._aggregation = root, answers, aggregation

    def ask(self, path: str, **params: Any) -> Any:
        """Ask an address below the aggregation, write the reply, return its JSON if it has any."""
        reply: Any = self._client.get(f"{self._root}{quote(path)}", params)
        body = b"".join(reply.streaming_content) if reply.streaming else reply.content
        name = f"rest {self._aggregation} {path} " + " ".join(
            f"{key}={value}" for key, value in params.items() if key != "version"
        )
        try:
            found = json.loads(body)
        except ValueError:
            text = body.decode("utf-8", "ignore")
            is_text = reply.headers.get("Content-Type", "").startswith("text/csv")
            digest = f"{len(body)} {hashlib.sha256(body).hexdigest()}"
            self._answers.write(name, f"{reply.status_code}\n{text if is_text else digest}")
            return body
        if isinstance(found, dict) and "version" in found:
            shown = json.dumps(found | {"version": ""}, indent=1, sort_keys=True)
        else:
            shown = json.dumps(found, indent=1, sort_keys=True)
        self._answers.write(name, f"{reply.status_code}\n{shown}")
        return found


def _dump_rest(profile: str, aggregation: int, answers: _Answers) -> None:
    api = _Api(f"/api/v1/profiles/{profile}/aggregations/{aggregation}/", answers, aggregation)
    schema = json.loads((Path(__file__).parent.parent / "docs/openapi.json").read_text())
    paths = [
        path.removeprefix(_PREFIX)
        for path, methods in schema["paths"].items()
        if path.startswith(_PREFIX) and "get" in methods
    ]
    tables = {path.removesuffix("distinct/") for path in paths if path.endswith("distinct/")}
    parts = _places(api)
    for template in sorted(paths):
        if template.startswith(("timeline/", "memory/", "what-if")) or template.endswith(
            ("/distinct/", "{name}/", "/export/", "report/")
        ):
            continue
        for part in parts:
            path = template.format(**part)
            if template in tables:
                found = api.ask(path, page_size=50)
                last = -(-int(found.get("count", 1)) // 50)
                if last > 1:
                    api.ask(path, page_size=50, page=last)
            else:
                api.ask(path)
            if "{" not in template:
                break
    for name in ("critical-path", "op-sensitivity"):
        api.ask(f"{name}/", corrected=1)
    api.ask("can-replay/", ranks=1)
    for params in _WHAT_IFS:
        api.ask("what-if/", **params)
    api.ask("memory/")
    api.ask("memory/curve/", low=0, high=10**6, pixels=100)
    api.ask("memory/alive/", event=10)

    for figure in FIGURES:
        api.ask(f"figures/{figure}/")
    _dump_timeline(api)


def _places(api: _Api) -> list[dict[str, Any]]:
    rows = api.ask("iterations/", ordering="-total_kernel_count", page_size=10)["results"]
    ops = api.ask("ops/", ordering="-gpu_time_ns", page_size=10).get("results") or [{}]
    kernels = api.ask("kernels/", page_size=10).get("results") or [{}]
    iterations = [row["iteration_index"] for row in rows] or [0]
    return [
        {
            "iteration": iterations[number % len(iterations)],
            "op_id": ops[number % len(ops)].get("op_id", "x"),
            "kernel": kernels[number % len(kernels)].get("kernel_name", "x"),
        }
        for number in range(4)
    ]


def _dump_timeline(api: _Api) -> None:
    found = api.ask("timeline/")
    api.ask("timeline/events/", page_size=50)
    api.ask("timeline/perfetto/")
    if not found.get("lanes"):
        return
    low, high = found["start_ns"], found["stop_ns"]
    keys = [lane["key"] for lane in found["lanes"]]
    for some in range(0, len(keys), 20):
        lanes = ",".join(keys[some : some + 20])
        for shift in range(8, max((high - low).bit_length(), 10), 3):
            for number in range(0, min((high - low) >> (shift + 9), 6) + 1, 3):
                params = {"lanes": lanes, "shift": shift, "number": number}
                body = api.ask("timeline/tiles/", version=found["version"], **params)
                assert isinstance(body, dict) or struct.unpack("<I", body[:4])
    for begin, end in _spans(low, high):
        api.ask("timeline/range/", start_ns=begin, stop_ns=end)
    for name, value in (
        ("search", "a"),
        ("search", "gemm"),
        ("search", "sync"),
        ("op_type", "linear"),
    ):
        hits = api.ask("timeline/hits/", **{name: value})
        for which in ("first", "longest", "median"):
            event = hits.get(which)
            if event:
                wanted = {"lane": event["lane"], "start_ns": event["start_ns"]}
                api.ask("timeline/event/", row_id=event["row_id"], **wanted)


def _spans(low: int, high: int) -> Iterator[tuple[int, int]]:
    for parts in (1, 7, 50):
        middle, width = (low + high) // 2, (high - low) // parts // 2 + 1
        yield middle - width, middle + width


if __name__ == "__main__":
    main()
