"""What is wrong with a set of rank files: errors where joining makes no sense, else warnings."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from aggregator.dldb.rank_rows import NOTHING
from aggregator.errors import NotOneJobError
from aggregator.profile import ProfileWarning
from aggregator.rank_names import ranks_in_name
from aggregator.ranks.alignment import SUBSTANTIAL_NS, Capture, Clock, runs_beside_others
from aggregator.ranks.parts import Part
from aggregator.texts import say


def require_one_job(parts: list[Part]) -> None:
    """Refuse files that cannot be ranks of one job, whatever their clocks say.

    Raises:
        NotOneJobError: One file twice, files of different frameworks, or one without GPU work.
    """
    seen: dict[tuple[object, ...], str] = {}
    for part in parts:
        if not part.ranks:
            raise NotOneJobError(
                say(
                    "No process in '{file}' ran any work on a GPU: it is no rank.",
                    file=part.label,
                ),
                hint=say("Leave the file out."),
            )
        own = _fingerprint(part)
        if own in seen:
            raise NotOneJobError(
                say(
                    "'{first}' and '{second}' hold the same rank.",
                    first=seen[own],
                    second=part.label,
                ),
                hint=say("Give each rank once."),
            )
        seen[own] = part.label
    modes = {part.meta["mode"]: part.label for part in parts}
    if len(modes) > 1:
        what = ", ".join(f"'{label}' {mode}" for mode, label in modes.items())
        raise NotOneJobError(
            say("The rank files hold ranges of different frameworks: {files}.", files=what),
            hint=say("Give files of one job, or read all of them alike with --mode=simple."),
        )


def _fingerprint(part: Part) -> tuple[object, ...]:
    """Equal for two copies of one capture of the same processes."""
    query = (
        "SELECT p.pid, v.host_device_id, v.uuid FROM ranks AS r"
        " JOIN processes AS p ON p.id = r.process LEFT JOIN devices AS v ON v.id = r.device"
        " ORDER BY r.id"
    )
    places = tuple(part.connection.execute(query))
    kernels = part.connection.execute(
        "SELECT count(*), min(start), max(start + duration) FROM kernels"
    ).fetchone()
    start, host = part.meta.get("session_start_utc_ns"), part.meta.get("host_name")
    return (start, host, places, *kernels)


def require_one_time(parts: list[Part], captures: list[Capture], clocks: list[Clock]) -> None:
    """Refuse captures that ran at another time than all others and share no collective with them.

    Raises:
        NotOneJobError: There is such a capture.
    """
    for number, part in enumerate(parts):
        shares = number == 0 or clocks[number].residual_ns is not None
        if not shares and runs_beside_others(captures, number) is False:
            raise NotOneJobError(
                say("'{file}' was not captured at the time of the other files.", file=part.label),
                hint=say("Give the files of one run, one for each rank."),
            )


def rank_numbers(parts: list[Part], wanted: tuple[int, ...] = ()) -> list[tuple[int, ...]]:
    """Number in the job of each part's ranks.

    As the user says; else as the capture tells; else by file name, ``rank12``; else in the order
    given.

    Args:
        parts: In the order given.
        wanted: Number of the first rank of each part; empty: the user did not say.

    Raises:
        NotOneJobError: Two parts are the same rank.
    """
    if wanted:
        return _numbers_wanted(parts, wanted)
    _require_told_once(parts)
    named = [_numbers_told(part) or ranks_in_name(Path(part.label)) for part in parts]
    alone = all(len(part.ranks) == 1 for part in parts)
    if alone and all(named):
        numbers = [found[-1] for found in named]
        if len(set(numbers)) == len(numbers):
            return [(number,) for number in numbers]
    result, first = [], 0
    for part in parts:
        result.append(tuple(range(first, first + len(part.ranks))))
        first += len(part.ranks)
    return result


def _numbers_wanted(parts: list[Part], wanted: tuple[int, ...]) -> list[tuple[int, ...]]:
    """A part of several ranks takes the numbers that follow, too."""
    result = []
    labels: dict[int, str] = {}
    for part, first in zip(parts, wanted, strict=True):
        numbers = tuple(range(first, first + len(part.ranks)))
        for number in numbers:
            if number in labels:
                raise _same_rank(number, labels[number], part.label)
            labels[number] = part.label
        result.append(numbers)
    return result


def _require_told_once(parts: list[Part]) -> None:
    labels: dict[int, str] = {}
    for part in parts:
        for number in _numbers_told(part):
            if number in labels:
                raise _same_rank(number, labels[number], part.label)
            labels[number] = part.label


def _same_rank(number: int, first: str, second: str) -> NotOneJobError:
    return NotOneJobError(
        say(
            "'{first}' and '{second}' are both rank {rank}.",
            first=first,
            second=second,
            rank=number,
        ),
        hint=say("Give each rank once."),
    )


def _numbers_told(part: Part) -> list[int]:
    """The number that the process itself told, which only some sources hold."""
    told = part.meta.get("job_rank", "")
    return [int(told)] if told.isdigit() else []


def warnings_of(parts: list[Part], clocks: list[Clock]) -> list[ProfileWarning]:
    """What people should know before they trust the numbers."""
    return [*_unnamed(parts), *_missing(parts), *_unlike(parts), *_clocks(parts, clocks)]


def _unnamed(parts: list[Part]) -> list[ProfileWarning]:
    """Names that tell the same rank twice tell nothing: ``node0/rank0`` and ``node1/rank0``."""
    named = [ranks_in_name(Path(part.label)) for part in parts]
    if not all(named) or any(len(part.ranks) != 1 for part in parts):
        return []
    counts = Counter(found[-1] for found in named)
    repeated = sorted(number for number, count in counts.items() if count > 1)
    as_named = all(part.new_ranks == (found[-1],) for part, found in zip(parts, named, strict=True))
    if not repeated or as_named or any(_numbers_told(part) for part in parts):
        return []
    text = say(
        "Several files are named as rank {ranks}: the ranks were numbered in the order given.",
        ranks=_listed([str(number) for number in repeated]),
    )
    return [ProfileWarning("RANK_NAMES_REPEAT", text, len(repeated))]


def without_collectives(ranks: dict[int, int]) -> list[ProfileWarning]:
    """A warning where some ranks ran no collective and others did.

    Args:
        ranks: Collectives of each rank, by its number.
    """
    silent = sorted(rank for rank, count in ranks.items() if not count)
    if not silent or len(silent) == len(ranks):
        return []
    text = say(
        "These ranks ran no collective, though others did: {ranks}; what they waited is unknown.",
        ranks=_listed([str(rank) for rank in silent]),
    )
    return [ProfileWarning("RANKS_WITHOUT_COLLECTIVES", text, len(silent))]


def _missing(parts: list[Part]) -> list[ProfileWarning]:
    present = {rank for part in parts for rank in part.new_ranks}
    missing = sorted(set(range(max(present) + 1)) - present)
    if not missing:
        return []
    text = say(
        "Ranks are missing: {ranks}; the others may have waited longer than is shown.",
        ranks=_listed([str(rank) for rank in missing]),
    )
    return [ProfileWarning("MISSING_RANKS", text, len(missing))]


def _unlike(parts: list[Part]) -> list[ProfileWarning]:
    """Ranks whose loops were cut at another range, or ran on another driver."""
    result = []
    keys = Counter(part.meta["key_node"] for part in parts)
    if len(keys) > 1:
        common = keys.most_common(1)[0][0]
        odd = [part.short_label for part in parts if part.meta["key_node"] != common]
        text = say(
            "The key node of most ranks, '{name}', was not the one found in {files}.",
            name=common,
            files=_listed(odd),
        )
        result.append(ProfileWarning("KEY_NODES_DIFFER", text, len(odd)))
    versions = Counter(_versions(part) for part in parts)
    if len(versions) > 1:
        text = say("The ranks ran with different versions of the driver or of CUDA.")
        result.append(ProfileWarning("VERSIONS_DIFFER", text, len(versions)))
    return result


def _versions(part: Part) -> tuple[str, ...]:
    query = "SELECT driver_version, cuda_version FROM system_config"
    return tuple(str(value) for value in part.connection.execute(query).fetchone())


def _clocks(parts: list[Part], clocks: list[Clock]) -> list[ProfileWarning]:
    names = [part.short_label for part in parts]
    named = list(zip(names, clocks, strict=True))
    unknown = [label for label, clock in named if clock.aligned_by == NOTHING]
    off = [label for label, clock in named if abs(clock.correction_ns) > SUBSTANTIAL_NS]
    result = []
    if unknown:
        text = say(
            "Neither start times nor collectives tell how the clocks of these files relate: "
            "{files}; waiting in collectives is unknown for them.",
            files=_listed(unknown),
        )
        result.append(ProfileWarning("CLOCKS_UNKNOWN", text, len(unknown)))
    if off:
        text = say(
            "Clocks of machines differed by more than 1 ms and were corrected: {files}.",
            files=_listed(off),
        )
        result.append(ProfileWarning("CLOCKS_CORRECTED", text, len(off)))
    return result


def key_node_counts(counts: dict[int, int]) -> list[ProfileWarning]:
    """A warning where ranks have different numbers of iterations.

    Args:
        counts: Instances of the key node by number of the rank.
    """
    if len(set(counts.values())) <= 1:
        return []
    common = Counter(counts.values()).most_common(1)[0][0]
    odd = [f"rank {rank}: {count}" for rank, count in counts.items() if count != common]
    text = say(
        "The key node ran {count} times on most ranks, but not on all ({ranks}): every stop of any "
        "rank ends an iteration.",
        count=common,
        ranks=_listed(odd),
    )
    return [ProfileWarning("ITERATIONS_DIFFER", text, len(odd))]


_LISTED = 5


def _listed(names: list[str]) -> str:
    shown = ", ".join(names[:_LISTED])
    return f"{shown}, ... ({len(names)})" if len(names) > _LISTED else shown
