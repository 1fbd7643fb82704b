"""SQLite files as Arrow batches, through ADBC's own calls.

The driver's DB-API module would do the same, but it loads pyarrow.dataset and with that pandas:
a fifth of a second before the first row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Self

import adbc_driver_manager
import adbc_driver_sqlite
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from adbc_driver_manager import AdbcConnection, AdbcStatement, AdbcStatusCode, StatementOptions

from aggregator.system.arrow_arrays import to_numpy

ABSENT = -(2**62)
"""Stands for NULL in columns of integers: a column must not change its type midway."""
BATCH_ROWS = 1 << 15
"""Rows per Arrow batch: a batch's fixed cost vanishes, and it fits the cache."""


def raise_interrupt(error: adbc_driver_manager.Error) -> None:
    """Raise ``KeyboardInterrupt`` for an ADBC error that stands for Ctrl-C.

    ADBC asks the driver to cancel, which SQLite's driver cannot.
    """
    if error.status_code in (AdbcStatusCode.NOT_IMPLEMENTED, AdbcStatusCode.CANCELLED):
        raise KeyboardInterrupt from error


class ArrowConnection:
    """A connection to one SQLite file; a statement is a transaction of its own before ``begin``.

    Errors are those of ``adbc_driver_manager``.
    """

    def __init__(self, uri: str) -> None:
        self._database = adbc_driver_sqlite.connect(uri)
        try:
            self._connection = AdbcConnection(self._database)
        except BaseException:
            self._database.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()
        self._database.close()

    def batches(self, query: str) -> Iterator[pa.RecordBatch]:
        """Run a query; yields Arrow batches of at most ``BATCH_ROWS`` rows.

        ADBC takes a column's type from the first batch, so a query must not deliver NULL in some
        rows only: wrap with ``coalesce``.
        """
        with closing(AdbcStatement(self._connection)) as statement:
            statement.set_options(**{_BATCH_ROWS: str(BATCH_ROWS)})
            statement.set_sql_query(query)
            stream, _ = statement.execute_query()
            with pa.RecordBatchReader.from_stream(stream) as reader:
                yield from _checked(reader)

    def integer_columns(
        self, table: str, names: Sequence[str], where: str = ""
    ) -> dict[str, npt.NDArray[np.int64]]:
        """Read columns of integers; NULL becomes ``ABSENT``.

        ``where`` is what follows the table in SQL.

        Raises:
            ValueError: A column holds what is no integer: text, a number without end.
        """
        select = ", ".join(f'coalesce("{name}", {ABSENT}) AS "{name}"' for name in names)
        parts: list[list[npt.NDArray[np.int64]]] = [[] for _ in names]
        for batch in self.batches(f"SELECT {select} FROM {table} {where}"):  # noqa: S608
            for position, part in enumerate(parts):
                column = to_numpy(batch.column(position))
                # A cast would make a large number of what is none.
                if column.dtype.kind == "f" and not (np.abs(column) < _BEYOND).all():
                    raise ValueError("a column of integers holds something else")
                part.append(column.astype(np.int64, copy=False))
        columns = [np.concatenate(part) if part else np.empty(0, np.int64) for part in parts]
        return dict(zip(names, columns, strict=True))

    def append(self, table: str, rows: pa.Table) -> None:
        """Insert rows behind those of a table, in a transaction of their own."""
        with closing(AdbcStatement(self._connection)) as statement:
            statement.set_options(
                **{
                    StatementOptions.INGEST_TARGET_TABLE.value: table,
                    StatementOptions.INGEST_MODE.value: "adbc.ingest.mode.append",
                }
            )
            statement.bind_stream(rows.to_reader())
            statement.execute_update()

    def begin(self) -> None:
        """Make what follows one transaction."""
        self._connection.set_autocommit(enabled=False)

    def commit(self) -> None:
        """End that transaction."""
        self._connection.commit()


_BEYOND = 2.0**63
_BATCH_ROWS = adbc_driver_sqlite.StatementOptions.BATCH_ROWS.value


def _checked(reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    """Yield batches of a reader; what goes wrong on the way is an error of ADBC like any other."""
    while True:
        try:
            batch = reader.read_next_batch()
        except StopIteration:
            return
        except (pa.ArrowException, OSError) as error:
            raise adbc_driver_manager.OperationalError(
                str(error), status_code=AdbcStatusCode.IO
            ) from error
        yield batch
