"""Reads the op times of a pipeline-parallel job: the trace format of ByteDance's StragglerAnalysis.

One row is one op of one worker in one step. Times are seconds from the start of the step.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from aggregator.errors import ProfileError
from aggregator.profile.arrays import Int64
from aggregator.texts import Text, say

Float32 = npt.NDArray[np.float32]
Float64 = npt.NDArray[np.float64]

_INTEGERS: Final = ("dp_rank", "stage", "rank", "step", "seq_id", "mc", "gmc")
_COLUMNS: Final = (*_INTEGERS, "optype", "start_ts", "duration")
_MAX_ROWS: Final = 200_000_000


@dataclass(frozen=True)
class OpTimes:
    """The ops of one pipeline step, and their times in each step and on each data-parallel rank.

    Arrays of times have the shape (ops, steps, data-parallel ranks).
    """

    op_types: tuple[str, ...]  # Type of each op.
    stage: Int64  # Pipeline stage of each op.
    sequence: Int64  # Number of the op among those of its type and stage.
    chunk: Int64  # Model chunk within the stage; -1: none.
    global_chunk: Int64  # Model chunk within the model; -1: none.
    steps: tuple[int, ...]  # Numbers of the steps.
    workers: Int64  # Rank in the job, shape (data-parallel ranks, stages).
    start_s: Float32  # Start. Unit: s.
    duration_s: Float32  # Duration. Unit: s.

    @property
    def end_s(self) -> Float32:
        """End of each op, in the precision of the trace. Unit: s."""
        result: Float32 = self.start_s + self.duration_s
        return result

    @property
    def num_stages(self) -> int:
        """Number of pipeline stages."""
        return int(self.stage.max()) + 1

    @property
    def num_dp_ranks(self) -> int:
        """Number of data-parallel ranks."""
        return int(self.start_s.shape[2])


def read_op_times(path: Path) -> OpTimes:
    """Read a trace (Parquet).

    Raises:
        ProfileError: The file is no such trace, or an op is missing in a step.
    """
    from pyarrow import parquet  # noqa: PLC0415 - loads slowly

    try:
        file = parquet.ParquetFile(path)
        missing = [name for name in _COLUMNS if name not in file.schema_arrow.names]
        if missing:
            raise _unusable(path, say("it has no column {name}", name=missing[0]))
        if file.metadata.num_rows > _MAX_ROWS:
            raise _unusable(path, say("it has more than {rows:,} rows", rows=_MAX_ROWS))
        table = file.read(list(_COLUMNS))
    except (OSError, pa.ArrowException) as error:
        raise _unusable(path, str(error).splitlines()[0]) from error
    if not table.num_rows:
        raise _unusable(path, say("it is empty"))
    if any(table[name].null_count for name in _COLUMNS):
        raise _unusable(path, say("values are missing"))
    try:
        columns = {name: table[name].to_numpy().astype(np.int64) for name in _INTEGERS}
        times = {name: table[name].to_numpy().astype(np.float32) for name in _COLUMNS[-2:]}
        names = table["optype"].cast(pa.string()).dictionary_encode().combine_chunks()
    except (pa.ArrowException, ValueError, TypeError) as error:
        raise _unusable(path, say("a column has another type")) from error
    if not all(np.isfinite(column).all() for column in times.values()):
        raise _unusable(path, say("times are not finite"))
    return _arranged(path, columns, times, names)


def _arranged(
    path: Path, columns: dict[str, Int64], times: dict[str, Float32], names: Any
) -> OpTimes:
    """Sort the rows by op, step and data-parallel rank, which must all be present."""
    codes = np.asarray(names.indices).astype(np.int64)
    order = np.lexsort(
        (columns["dp_rank"], columns["step"], columns["seq_id"], codes, columns["stage"])
    )
    keys = np.stack([columns["stage"], codes, columns["seq_id"]])[:, order]
    heads = np.flatnonzero(np.r_[True, (np.diff(keys, axis=1) != 0).any(axis=0)])
    steps, ranks = np.unique(columns["step"]), np.unique(columns["dp_rank"])
    stages = np.unique(columns["stage"])
    shape = (len(heads), len(steps), len(ranks))
    is_complete = (
        len(order) == int(np.prod(shape))
        and np.array_equal(ranks, np.arange(len(ranks)))
        and np.array_equal(stages, np.arange(len(stages)))
        and (columns["step"][order].reshape(shape) == steps[:, None]).all()
        and (columns["dp_rank"][order].reshape(shape) == ranks).all()
    )
    if not is_complete:
        raise _unusable(path, say("an op is missing in a step or on a rank"))
    first = order[heads]
    op_type = names.dictionary.to_pylist()
    workers = np.zeros((len(ranks), len(stages)), dtype=np.int64)
    workers[columns["dp_rank"], columns["stage"]] = columns["rank"]
    return OpTimes(
        op_types=tuple(op_type[code] for code in codes[first].tolist()),
        stage=columns["stage"][first],
        sequence=columns["seq_id"][first],
        chunk=columns["mc"][first],
        global_chunk=columns["gmc"][first],
        steps=tuple(steps.tolist()),
        workers=workers,
        start_s=times["start_ts"][order].reshape(shape),
        duration_s=times["duration"][order].reshape(shape),
    )


def _unusable(path: Path, reason: Text | str) -> ProfileError:
    return ProfileError(
        say("'{path}' cannot be read as op times: {reason}.", path=str(path), reason=reason),
        hint=say("Needed: a Parquet file with the columns {columns}.", columns=", ".join(_COLUMNS)),
    )
