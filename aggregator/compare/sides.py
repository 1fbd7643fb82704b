"""Opens what is compared: databases, summaries, or profiles that are imported first."""

from __future__ import annotations

import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aggregator.compare.captures import CaptureData, keep_ownership, read_capture
from aggregator.compare.engine import compare
from aggregator.compare.result import Comparison
from aggregator.compare.summary import is_summary, read_summary
from aggregator.dldb.reader import open_database
from aggregator.dldb.stored import reading_errors, require_aggregable
from aggregator.errors import DlprofError, UsageError
from aggregator.options import ImportOptions
from aggregator.system.progress import Progress
from aggregator.system.sqlite_uri import connect_read_only
from aggregator.system.temporary_files import temporary_folder
from aggregator.texts import say

_CHOICE: Final = re.compile(r"^(?P<path>.+)@(?:(?P<aggr>\d+)|(?P<first>\d+)-(?P<last>\d+))$")


@dataclass(frozen=True)
class Source:
    """One capture as it was named: a file, and which iterations of it."""

    name: str
    path: Path
    aggr: int | None = None  # Number of the aggregation; None: that of the steady range.
    iterations: tuple[int, int] | None = None  # First and last iteration, inclusive.

    @staticmethod
    def parse(name: str) -> Source:
        """Read ``FILE``, ``FILE@AGGREGATION`` or ``FILE@FIRST-LAST``."""
        found = _CHOICE.match(name)
        if found is None or Path(name).exists():
            return Source(name, Path(name))
        path = Path(found["path"])
        if found["aggr"] is not None:
            return Source(name, path, aggr=int(found["aggr"]))
        return Source(name, path, iterations=(int(found["first"]), int(found["last"])))


def compare_files(
    base: Sequence[Source], new: Sequence[Source], progress: Progress, *, keep: bool = False
) -> Comparison:
    """Compare two sides of files.

    Args:
        base: Captures of the base.
        new: Captures of the new side.
        progress: Listener of imports.
        keep: Store the ownership in databases that lack it, so that it is computed once.

    Raises:
        UsageError: A side has no file, or both sides are the same iterations.
        DlprofError: A file cannot be read, or holds nothing to compare.
    """
    if not base or not new:
        raise UsageError(say("Both sides need at least one capture."))
    if set(base) & set(new):
        raise UsageError(
            say("'{name}' is on both sides.", name=next(iter(set(base) & set(new))).name),
            hint=say("Name two files, or two ranges of iterations: FILE@0-9 FILE@10-19."),
        )
    paths = {source.path.resolve() for source in (*base, *new)}
    for side in (base, new):
        _require_captures(side, are_parts=len(paths) == 1)
    with ExitStack() as stack:
        opened = {
            source: _opened(source, stack, progress) for source in dict.fromkeys((*base, *new))
        }
        with ThreadPoolExecutor(max_workers=2) as pool:
            read = dict(zip(opened, pool.map(read_source, opened, opened.values()), strict=True))
        for side in (base, new):
            _require_runs([read[source] for source in side])
        if keep:
            for source, path in opened.items():
                if path == source.path:  # an imported profile's database is removed again
                    keep_ownership(path, read[source])
    return compare(
        [read[source] for source in base],
        [read[source] for source in new],
        is_one_capture=len(paths) == 1,
    )


def _require_captures(side: Sequence[Source], *, are_parts: bool) -> None:
    """Refuse a run that would count as several captures of a side: they are independent runs.

    Args:
        side: The captures of a side.
        are_parts: All captures of both sides are parts of one run.
    """
    known: set[object] = set()
    for source in side:
        path = source.path.resolve()
        key = (path, source.aggr, source.iterations) if are_parts else path
        if key in known:
            raise UsageError(
                say("'{name}' is twice on one side.", name=source.name),
                hint=say("The captures of a side are runs of their own."),
            )
        known.add(key)


def _require_runs(side: Sequence[CaptureData]) -> None:
    """Refuse a copy of a capture, or its summary beside its database, as a capture of its own."""
    known: dict[tuple[bytes, bytes], str] = {}
    for data in side:
        times = data.capture.lengths_ns.tobytes(), data.ownership.owned_ns.tobytes()
        if (other := known.setdefault(times, data.capture.name)) != data.capture.name:
            raise UsageError(
                say(
                    "'{name}' and '{other}' are the same run.", name=other, other=data.capture.name
                ),
                hint=say("The captures of a side are runs of their own."),
            )


def _opened(source: Source, stack: ExitStack, progress: Progress) -> Path:
    """The database or summary of a source; a profile is imported into one in a temporary folder."""
    if is_summary(source.path):
        return source.path
    try:
        database = open_database(source.path)
    except DlprofError:
        if not source.path.exists():
            raise
    else:
        with database:
            if database.is_ours:
                require_aggregable(source.path)
                return source.path
    # A comparison of databases loads no part of the import.
    from aggregator.pipeline import import_profile  # noqa: PLC0415

    target = stack.enter_context(temporary_folder("dlprof-compare")) / "dlprof_dldb.sqlite"
    import_profile(ImportOptions(source=source.path, database=target), progress)
    return target


def read_source(source: Source, path: Path) -> CaptureData:
    """Read a summary, or a database that ``require_aggregable`` has found free of foreign SQL."""
    if is_summary(path):
        return read_summary(path, source.name, source.aggr, source.iterations)
    with reading_errors(path), closing(connect_read_only(path)) as connection:
        return read_capture(connection, source.name, source.aggr, source.iterations)
