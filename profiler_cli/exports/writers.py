"""Each format of ``dlprof export`` that is made of tables and key figures, and its files."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from aggregator.dldb.guarded import DAMAGE, time_limit_s
from aggregator.dldb.reader import damaged
from aggregator.tables.aggregation_data import AggregationData
from aggregator.tables.arrow import to_arrow
from aggregator.tables.connection import opened
from aggregator.tables.declared.addresses import WHOLE_TABLES
from aggregator.tables.declared.iterations import ITERATIONS
from aggregator.tables.declared.profile import DEFAULT_DOMAIN, domains, profile_item
from aggregator.tables.key_figures import read_key_figures
from profiler_cli.console import program_version
from profiler_cli.exports.figures import otlp_json, prometheus_text
from profiler_cli.exports.tensorboard import write_events
from profiler_cli.outputs import Batch

if TYPE_CHECKING:
    import pyarrow as pa

Writer = Callable[[AggregationData, Path, Path, Batch], str]
"""Writes a format: the aggregation, the profile, the file or folder, the batch; says what."""
_SCALARS: Final = tuple(
    name for name in ITERATIONS.by_name if name.endswith(("_duration_ns", "_count"))
)


def write_format(
    name: str, database: Path, source: Path, target: Path, aggregation: int, batch: Batch
) -> str:
    """Write a format into a batch, and return what was written.

    Raises:
        DlprofError: The database cannot be read, or the files cannot be written.
    """
    with opened(database, time_limit_s=time_limit_s(database)) as opened_database:
        names = domains(opened_database)
        domain = DEFAULT_DOMAIN if DEFAULT_DOMAIN in names else names[0]
        data = AggregationData(opened_database, {"aggr_id": aggregation, "domain": domain})
        try:
            return WRITERS[name](data, source, target, batch)
        except (MemoryError, *DAMAGE) as error:
            raise damaged(database, error) from error


def _write_parquet(data: AggregationData, source: Path, target: Path, batch: Batch) -> str:
    import pyarrow.parquet as pq  # noqa: PLC0415

    for name, table in _tables(data).items():
        with batch.open(target / f"{name}.parquet") as stream:
            pq.write_table(table, stream, compression="zstd")
    return f"{len(WHOLE_TABLES)} tables"


def _write_csv(data: AggregationData, source: Path, target: Path, batch: Batch) -> str:
    import pyarrow.csv as pc  # noqa: PLC0415

    for name, table in _tables(data).items():
        with batch.open(target / f"{name}.csv") as stream:
            pc.write_csv(table, stream)
    return f"{len(WHOLE_TABLES)} tables"


def _tables(data: AggregationData) -> dict[str, pa.Table]:
    return {name: to_arrow(data, spec) for name, spec in WHOLE_TABLES.items()}


def _write_prometheus(data: AggregationData, source: Path, target: Path, batch: Batch) -> str:
    figures = read_key_figures(data)
    item = profile_item(source, "", data.database)
    labels = {"profile": str(item["name"]), "aggregation": str(data.params["aggr_id"])}
    with batch.open(target) as stream:
        stream.write(prometheus_text(figures, labels).encode())
    return f"{len(figures)} figures"


def _write_otlp(data: AggregationData, source: Path, target: Path, batch: Batch) -> str:
    figures = read_key_figures(data)
    item = profile_item(source, "", data.database)
    resource = {"dlprof.profile": str(item["name"])}
    resource["dlprof.aggregation"] = str(data.params["aggr_id"])
    time_ns = int(_created_s(source, data) * 1e9)
    with batch.open(target) as stream:
        stream.write(otlp_json(figures, resource, time_ns, program_version()).encode())
    return f"{len(figures)} figures"


def _write_tensorboard(data: AggregationData, source: Path, target: Path, batch: Batch) -> str:
    rows = data.rows(ITERATIONS)
    started_s = _created_s(source, data)
    with batch.open(target / f"events.out.tfevents.{int(started_s)}.dlprof") as stream:
        write_events(stream, rows, ("duration_ns", *_SCALARS), started_s)
    return f"{len(rows)} iterations"


def _created_s(source: Path, data: AggregationData) -> float:
    """Return when the profile was first aggregated, else when the file was written; since 1970."""
    try:
        return datetime.fromisoformat(
            profile_item(source, "", data.database)["created_at"]
        ).timestamp()
    except ValueError:  # a damaged date
        return source.stat().st_mtime


WRITERS: Final[dict[str, Writer]] = {
    "csv": _write_csv,
    "otlp": _write_otlp,
    "parquet": _write_parquet,
    "prometheus": _write_prometheus,
    "tensorboard": _write_tensorboard,
}
