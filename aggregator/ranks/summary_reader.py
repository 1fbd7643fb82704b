"""Reads summaries of ranks as untrusted files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from aggregator.errors import CorruptProfileError, DlprofError, ProfileNotFoundError
from aggregator.metrics.collectives import CollectiveKernels
from aggregator.profile.arrays import Bool, Int64
from aggregator.ranks.align import UNKNOWN_CLOCK, Clock
from aggregator.ranks.summary_schema import (
    CALL,
    CLASS_COLUMNS,
    FORMAT,
    KEY,
    MAGIC,
    MOST_NS,
    SCHEMA,
    VERSION,
    SummaryHead,
    SummaryRank,
    is_intact,
)
from aggregator.replay.rank_steps import NO_FUTURE, NO_PAST, TIMES, CallTimes, Work
from aggregator.texts import say

_COLUMNS: Final = (
    *("rank", "step", "is_steady", "start_ns", "duration_ns"),
    *CLASS_COLUMNS,
    "collectives",
)
_MOST_VALUES: Final = 1 << 26
"""Of a column; 64 ranks with 1,000 steps and 1,000 collectives are fewer."""
_FUTURE: Final = ("next_start_ns", "next_launch_ns")
_PAST: Final = ("work_end_ns", "busy_until_ns")
_DAMAGE: Final = (
    *(OSError, pa.ArrowException, msgspec.MsgspecError),
    *(ValueError, TypeError, KeyError, AttributeError),
)


@dataclass(frozen=True)
class StepRows:
    """The rows of a summary, one for each rank and step."""

    rank: Int64  # Place of the rank in the summary.
    step: Int64  # Number of the iteration.
    is_steady: Bool
    duration_ns: Int64  # Unit: ns.
    classes_ns: npt.NDArray[np.float64]  # Shape (rows, classes); NaN: unknown. Unit: ns.


@dataclass
class RankSummary:
    """One summary."""

    label: str  # The path as it was named.
    meta: Mapping[str, str]
    ranks: tuple[SummaryRank, ...]
    recorded_ranks: tuple[int, ...]
    gpus: frozenset[str]  # UUIDs.
    source: str  # Where the full database was; empty: not stored.
    kernels: tuple[int, ...]  # Number of kernels and start of the first.
    rows: StepRows
    collectives: CollectiveKernels  # Ranks by their place; kernels are numbered from 0.
    iteration: Int64  # Iteration of each collective, or ``NO_ROW``.
    times: CallTimes
    clock: Clock = UNKNOWN_CLOCK
    new_ranks: tuple[int, ...] = ()  # Number in the job of each of its ranks.

    def fingerprint(self) -> tuple[object, ...]:
        """Return a value that is equal for two copies of one capture of the same processes."""
        start, host = self.meta["session_start_utc_ns"], self.meta["host_name"]
        return (start, host, len(self.ranks), *self.kernels, self.times.start_ns.tobytes())

    @property
    def start_utc_ns(self) -> int | None:
        """Time 0 of its clock, since 1970. Unit: ns. None: unknown."""
        text = self.meta["session_start_utc_ns"]
        return int(text) if text else None


def is_rank_summary(path: Path) -> bool:
    """Return whether a file is a summary of ranks."""
    try:
        with path.open("rb") as file:
            if file.read(len(MAGIC)) != MAGIC:
                return False
        from pyarrow import parquet  # noqa: PLC0415 - loads slowly

        metadata = parquet.read_schema(path).metadata or {}
    except (OSError, pa.ArrowException):
        return False
    return KEY in metadata


def read_rank_summary(path: Path) -> RankSummary:
    """Read a summary.

    Raises:
        ProfileNotFoundError: There is no such file.
        CorruptProfileError: The file is damaged, or another version wrote it.
    """
    label = str(path)
    if not path.is_file():
        raise ProfileNotFoundError(say("The rank file '{path}' does not exist.", path=label))
    try:
        table = _read(path, label)
        text = table.schema.metadata[KEY]
        found = msgspec.json.decode(text)
        if found.get("format") == FORMAT and found.get("version") != VERSION:
            raise _other_version(label)
        return _summary(label, msgspec.json.decode(text, type=SummaryHead), table)
    except (*_DAMAGE, OverflowError, IndexError, MemoryError, RecursionError) as error:
        raise _damaged(label) from error


def _read(path: Path, label: str) -> pa.Table:
    from pyarrow import parquet  # noqa: PLC0415 - loads slowly

    data = path.read_bytes()
    if not is_intact(data):
        raise _damaged(label)
    file = parquet.ParquetFile(pa.BufferReader(data))
    if KEY not in (file.schema_arrow.metadata or {}):
        raise _damaged(label)
    groups = [file.metadata.row_group(number) for number in range(file.metadata.num_row_groups)]
    for column in range(file.metadata.num_columns):
        if sum(group.column(column).num_values for group in groups) > _MOST_VALUES:
            raise ValueError
    return file.read(list(_COLUMNS))


def _damaged(label: str) -> CorruptProfileError:
    return CorruptProfileError(
        say("The summary '{path}' is damaged.", path=label),
        hint=say("Write it again: dlprof summarize DATABASE"),
    )


def _other_version(label: str) -> DlprofError:
    return CorruptProfileError(
        say("The summary '{path}' has an unknown version.", path=label),
        hint=say("Read it with the version of dlprof that wrote it, or write it again."),
    )


def _summary(label: str, head: SummaryHead, table: pa.Table) -> RankSummary:
    meta, ranks = head.meta, tuple(head.ranks)
    for name in ("session_start_utc_ns", "last_ns"):
        if meta[name] and not 0 <= int(meta[name]) < 4 * MOST_NS:
            raise ValueError(name)
    if not meta.get("mode") or len(head.recorded_ranks) not in {0, len(ranks)}:
        raise ValueError
    lists = table["collectives"].combine_chunks()
    rows = _rows(table, [rank.number for rank in ranks], [*lists.is_null().to_pylist()])
    place, collectives, times = _calls(lists, rows)
    return RankSummary(
        label=label,
        meta=meta,
        ranks=ranks,
        recorded_ranks=tuple(head.recorded_ranks),
        gpus=frozenset(head.gpus),
        source=head.source,
        kernels=tuple(head.kernels),
        rows=rows,
        collectives=collectives,
        iteration=rows.step[place],
        times=times,
    )


def _rows(table: pa.Table, numbers: list[int], without_list: list[bool]) -> StepRows:
    if any(without_list) or len(set(numbers)) != len(numbers) or not table.num_rows:
        raise ValueError
    rank = np.array(numbers)[:, None] == _column(table, "rank")
    if not rank.any(axis=0).all():
        raise ValueError
    classes = [
        np.asarray(table[name].cast(pa.float64()).to_numpy(), dtype=np.float64)
        for name in CLASS_COLUMNS
    ]
    rows = StepRows(
        rank=rank.argmax(axis=0),
        step=_column(table, "step", missing=-1),
        is_steady=np.array(table["is_steady"].to_pylist(), dtype=bool),
        duration_ns=_column(table, "duration_ns", missing=0),
        classes_ns=np.stack(classes, axis=1),
    )
    for place in range(len(numbers)):
        steps = rows.step[(rows.rank == place) & (rows.step >= 0)]
        # Gaps would cost memory in proportion to their length.
        if (np.diff(steps) != 1).any():
            raise ValueError
    return rows


def _calls(lists: pa.Array, rows: StepRows) -> tuple[Int64, CollectiveKernels, CallTimes]:
    counts = np.asarray(lists.value_lengths().to_numpy(zero_copy_only=False), dtype=np.int64)
    values = lists.flatten()
    if values.type != CALL or values.null_count:
        raise TypeError(values.type)
    place = np.repeat(np.arange(len(counts)), counts)
    part = {field.name: values.field(number) for number, field in enumerate(CALL)}
    kinds = part["kind"].dictionary_encode()
    work = Work(_integers(part["work_ns"]), _integers(part["work_count"]))
    times = CallTimes(**{name: _integers(part[name], _missing(name)) for name in TIMES}, work=work)
    if (times.end_ns < times.start_ns).any() or kinds.indices.null_count:
        raise ValueError
    found = CollectiveKernels(
        kernel=np.arange(len(place)),
        rank=rows.rank[place],
        device=_integers(part["device"]),
        stream=_integers(part["stream"]),
        kind=np.asarray(kinds.indices.to_numpy(zero_copy_only=False)).astype(np.int64),
        start_ns=times.start_ns,
        end_ns=times.end_ns,
        kinds=tuple(kinds.dictionary.to_pylist()),
        call=_integers(part["call"], -1),
    )
    return place, found, times


def _missing(name: str) -> int | None:
    """Return the value for a time that is missing, or None if it must not be."""
    if name in _FUTURE:
        return NO_FUTURE
    return NO_PAST if name in _PAST else None


def _column(table: pa.Table, name: str, missing: int | None = None) -> Int64:
    if table.schema.field(name).type != SCHEMA.field(name).type:
        raise TypeError(name)
    return _integers(table[name].combine_chunks(), missing)


def _integers(values: pa.Array, missing: int | None = None) -> Int64:
    """Return integers within bounds; ``missing`` stands for null, which is refused without it."""
    if values.null_count and missing is None:
        raise ValueError
    filled = np.asarray(values.fill_null(0)).astype(np.int64)
    if (np.abs(filled) > MOST_NS).any():
        raise OverflowError
    if missing is None:
        return filled
    return np.where(np.asarray(values.is_null()), missing, filled)
