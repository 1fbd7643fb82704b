"""Checks of a set of rank files: errors if they cannot be joined, otherwise warnings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import numpy as np

from aggregator.dldb.rows.ranks import NOTHING
from aggregator.errors import NotOneJobError
from aggregator.metrics.collectives import CollectiveKernels, streams_of
from aggregator.profile.profile import ProfileWarning
from aggregator.ranks.align import SUBSTANTIAL_NS, Capture, align, runs_beside_others
from aggregator.ranks.file_names import ranks_in_name
from aggregator.ranks.rank_database import RankDatabase
from aggregator.system.untrusted_json import read_count
from aggregator.texts import say

if TYPE_CHECKING:
    from aggregator.ranks.summary_reader import RankSummary


RankFile: TypeAlias = "RankDatabase | RankSummary"
"""A capture of one or several ranks."""
File = TypeVar("File", RankDatabase, "RankSummary")


def align_files(
    files: list[File],
    read: Callable[[File], CollectiveKernels],
    wanted: tuple[int, ...] = (),
) -> list[Capture]:
    """Sort the files of a job by rank, give them numbers and clocks, and return their captures.

    Raises:
        NotOneJobError: They are not of one job.
    """
    require_one_job(files)
    for file, numbers in zip(files, rank_numbers(files, wanted), strict=True):
        file.new_ranks = numbers
    files.sort(key=lambda file: file.new_ranks)
    captures = [
        Capture(
            *(file.start_utc_ns, int(file.meta["last_ns"] or 0), file.meta.get("host_name", "")),
            *(file.gpus, tuple(streams_of(own)), own.kinds),
        )
        for file, own in zip(files, same_kinds([read(file) for file in files]), strict=True)
    ]
    for file, clock in zip(files, align(captures), strict=True):
        file.clock = clock
    require_one_time(files, captures)
    return captures


def same_kinds(found: Sequence[CollectiveKernels]) -> list[CollectiveKernels]:
    """Return collectives whose kinds have the same codes in all captures."""
    kinds = tuple(sorted({kind for collectives in found for kind in collectives.kinds}))
    return [
        replace(
            own,
            kind=np.array([kinds.index(kind) for kind in own.kinds], dtype=np.int64)[own.kind],
            kinds=kinds,
        )
        for own in found
    ]


def require_one_job(databases: Sequence[RankFile]) -> None:
    """Check that the files can be ranks of one job, without regard to their clocks.

    Raises:
        NotOneJobError: One file twice, files of different frameworks, or one without GPU work.
    """
    seen: dict[tuple[object, ...], str] = {}
    for database in databases:
        if not database.ranks:
            raise NotOneJobError(
                say(
                    "No process in '{file}' ran any work on a GPU: it is no rank.",
                    file=database.label,
                ),
                hint=say("Leave the file out."),
            )
        own = database.fingerprint()
        if own in seen:
            raise NotOneJobError(
                say(
                    "'{first}' and '{second}' hold the same rank.",
                    first=seen[own],
                    second=database.label,
                ),
                hint=say("Give each rank once."),
            )
        seen[own] = database.label
    modes = {database.meta["mode"]: database.label for database in databases}
    if len(modes) > 1:
        what = ", ".join(f"'{label}' {mode}" for mode, label in modes.items())
        raise NotOneJobError(
            say("The rank files hold ranges of different frameworks: {files}.", files=what),
            hint=say("Give files of one job, or read all of them alike with --mode=simple."),
        )


def require_one_time(databases: Sequence[RankFile], captures: list[Capture]) -> None:
    """Check that every capture ran at the time of another one or shares collectives with one.

    Raises:
        NotOneJobError: A capture does neither.
    """
    for number, database in enumerate(databases):
        shares = number == 0 or database.clock.residual_ns is not None
        if not shares and runs_beside_others(captures, number) is False:
            raise NotOneJobError(
                say(
                    "'{file}' was not captured at the time of the other files.", file=database.label
                ),
                hint=say("Give the files of one run, one for each rank."),
            )


def rank_numbers(
    databases: Sequence[RankFile], wanted: tuple[int, ...] = ()
) -> list[tuple[int, ...]]:
    """Return the number in the job of each database's ranks.

    The numbers are, in this order of preference, those that the user set, those that the captures
    recorded, those in the file names (``rank12``), and the positions of the files.

    Args:
        databases: In the order in which the user listed them.
        wanted: Number of the first rank of each database; empty: not set by the user. A database
            of several ranks takes the numbers that follow.

    Raises:
        NotOneJobError: Two databases are the same rank.
    """
    if wanted:
        numbers = [
            tuple(range(first, first + len(database.ranks)))
            for database, first in zip(databases, wanted, strict=True)
        ]
        _require_distinct(databases, numbers)
        return numbers
    recorded = [database.recorded_ranks for database in databases]
    _require_distinct(databases, recorded)
    if all(recorded):
        return recorded
    named = [
        number or tuple(ranks_in_name(Path(database.label)))
        for number, database in zip(recorded, databases, strict=True)
    ]
    if all(len(database.ranks) == 1 for database in databases) and all(named):
        last = [found[-1] for found in named]
        if len(set(last)) == len(last):
            return [(number,) for number in last]
    ends = list(accumulate(len(database.ranks) for database in databases))
    return [tuple(range(low, high)) for low, high in pairwise([0, *ends])]


def _require_distinct(databases: Sequence[RankFile], numbers: Sequence[tuple[int, ...]]) -> None:
    labels: dict[int, str] = {}
    for database, own in zip(databases, numbers, strict=True):
        for number in own:
            if number in labels:
                raise NotOneJobError(
                    say(
                        "'{first}' and '{second}' are both rank {rank}.",
                        first=labels[number],
                        second=database.label,
                        rank=number,
                    ),
                    hint=say("Give each rank once."),
                )
            labels[number] = database.label


def warnings_of(databases: list[RankDatabase]) -> list[ProfileWarning]:
    """Return the warnings about the set of files."""
    return [*_unnamed(databases), *_missing(databases), *_unlike(databases), *_clocks(databases)]


def _unnamed(databases: list[RankDatabase]) -> list[ProfileWarning]:
    """Leave out names that repeat a rank: ``node0/rank0`` and ``node1/rank0``."""
    named = [ranks_in_name(Path(database.label)) for database in databases]
    if not all(named) or any(len(database.ranks) != 1 for database in databases):
        return []
    counts = Counter(found[-1] for found in named)
    repeated = sorted(number for number, count in counts.items() if count > 1)
    as_named = all(
        database.new_ranks == (found[-1],) for database, found in zip(databases, named, strict=True)
    )
    if not repeated or as_named or any(database.recorded_ranks for database in databases):
        return []
    text = say(
        "Several files are named as rank {ranks}: the ranks were numbered in the order given.",
        ranks=_listed(repeated),
    )
    return [ProfileWarning("RANK_NAMES_REPEAT", text, len(repeated))]


def without_collectives(ranks: dict[int, int]) -> list[ProfileWarning]:
    """Return a warning if only some of the ranks ran collectives, from their counts by rank."""
    silent = sorted(rank for rank, count in ranks.items() if not count)
    text = say(
        "These ranks ran no collective, though others did: {ranks}; their waiting time is unknown.",
        ranks=_listed(silent),
    )
    return _warning("RANKS_WITHOUT_COLLECTIVES", text, silent if len(silent) < len(ranks) else [])


_MOST_RANKS = 1 << 20


def _missing(databases: list[RankDatabase]) -> list[ProfileWarning]:
    present = {rank for database in databases for rank in database.new_ranks}
    recorded = (read_count(database.meta.get("job_ranks", "")) or 0 for database in databases)
    whole = max(max(present) + 1, min(max(recorded), _MOST_RANKS))
    missing = sorted(set(range(whole)) - present)
    text = say(
        "Ranks are missing: {ranks}; the others may have waited longer than is shown.",
        ranks=_listed(missing),
    )
    found = _warning("MISSING_RANKS", text, missing)
    return [replace(warning, share=len(missing) / whole) for warning in found]


def _unlike(databases: list[RankDatabase]) -> list[ProfileWarning]:
    result = []
    keys = Counter(database.meta["key_node"] for database in databases)
    if len(keys) > 1:
        common = keys.most_common(1)[0][0]
        odd = [
            database.short_label for database in databases if database.meta["key_node"] != common
        ]
        text = say(
            "The key node of most ranks, '{name}', was not the one found in {files}.",
            name=common,
            files=_listed(odd),
        )
        result.append(ProfileWarning("KEY_NODES_DIFFER", text, len(odd)))
    versions = Counter(_versions(database) for database in databases)
    if len(versions) > 1:
        text = say("The ranks ran with different versions of the driver or of CUDA.")
        result.append(ProfileWarning("VERSIONS_DIFFER", text, len(versions)))
    return result


def _versions(database: RankDatabase) -> tuple[str, ...]:
    query = "SELECT driver_version, cuda_version FROM system_config"
    return tuple(str(value) for value in database.connection.execute(query).fetchone())


def _clocks(databases: list[RankDatabase]) -> list[ProfileWarning]:
    named = [(database.short_label, database.clock) for database in databases]
    unknown = [label for label, clock in named if clock.aligned_by == NOTHING]
    off = [label for label, clock in named if abs(clock.correction_ns) > SUBSTANTIAL_NS]
    not_aligned = say(
        "The clocks of these files could not be aligned, neither by start times nor by "
        "collectives: {files}; waiting in collectives is unknown for them.",
        files=_listed(unknown),
    )
    corrected = say(
        "Clocks of machines differed by more than 1 ms and were corrected: {files}.",
        files=_listed(off),
    )
    return [
        *_warning("CLOCKS_UNKNOWN", not_aligned, unknown),
        *_warning("CLOCKS_CORRECTED", corrected, off),
    ]


def key_node_counts(counts: dict[int, int]) -> list[ProfileWarning]:
    """Return a warning if ranks have different numbers of instances of the key node."""
    if len(set(counts.values())) <= 1:
        return []
    common = Counter(counts.values()).most_common(1)[0][0]
    odd = [f"rank {rank}: {count}" for rank, count in counts.items() if count != common]
    text = say(
        "The key node ran {count} times on most ranks, but not on all ({ranks}): steps that some "
        "ranks did not record end with the others.",
        count=common,
        ranks=_listed(odd),
    )
    return [ProfileWarning("ITERATIONS_DIFFER", text, len(odd))]


_LISTED = 5


def _warning(code: str, text: str, found: Sequence[object]) -> list[ProfileWarning]:
    """Return a warning about what was found; none if nothing was."""
    return [ProfileWarning(code, text, len(found))] if found else []


def _listed(names: Sequence[object]) -> str:
    shown = ", ".join(map(str, names[:_LISTED]))
    return f"{shown}, ... ({len(names)})" if len(names) > _LISTED else shown
