"""Summaries of ranks: what they hold, that their join is that of databases, damaged files."""

from __future__ import annotations

import json
import lzma
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from aggregator.dldb.event_reader import stored_events
from aggregator.errors import (
    CorruptProfileError,
    DatabaseWriteError,
    NotOneJobError,
    ProfileNotFoundError,
    ReplayError,
)
from aggregator.metrics.ownership import CLASSES
from aggregator.ranks.summarize import summarize_file
from aggregator.ranks.summary_join import join_summaries
from aggregator.ranks.summary_reader import read_rank_summary
from aggregator.ranks.summary_schema import CALL, CLASS_COLUMNS, KEY, SCHEMA, write_table
from aggregator.replay.rank_report import read_slow_ranks
from profiler_cli.dlprof import main
from tests.rank_files import split
from tests.replay.test_slow_ranks_of_databases import changed, injected, write

OLDER = Path(__file__).resolve().parents[1] / "data/older"
MOST_BYTES = 50_000
"""For each rank and step."""


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database of a simulated job of three ranks with a slow one."""
    return write(tmp_path_factory.mktemp("job"), injected(1, 0.2)).path


@pytest.fixture(scope="module")
def summary(job: Path) -> Path:
    path = job.parent / "job.ranks.parquet"
    summarize_file(job, path)
    return path


def of_summaries(*paths: Path) -> dict[str, Any]:
    document = join_summaries(paths).document()
    document.pop("rank_times")
    return document


def of_database(path: Path) -> dict[str, Any]:
    with closing(sqlite3.connect(path)) as connection:
        last = connection.execute("SELECT max(id) FROM aggregations").fetchone()[0]
        report = read_slow_ranks(stored_events(connection), last)
    # Summaries hold no other steps, and no kernels beside the collectives.
    return replace(report, exposed_ns={}, typical=None).document()


def test_a_summary_names_the_slow_rank_as_its_database_does(job: Path, summary: Path) -> None:
    assert of_summaries(summary) == of_database(job)
    assert of_summaries(summary)["slow_rank"] == 1


def test_what_lowers_the_confidence_of_a_database_does_so_in_its_summary(
    job: Path, tmp_path: Path
) -> None:
    rank_is_missing = "UPDATE ranks SET rank = 3 WHERE rank = 2"
    unknown_clock = "UPDATE ranks SET aligned_by = 'nothing' WHERE rank = 2"
    drifting = "UPDATE ranks SET clock_residual = 900000 WHERE rank = 2"
    joined = "INSERT INTO dldb_meta VALUES ('rank_files', '3')"
    for query in (rank_is_missing, unknown_clock, drifting):
        database = tmp_path / "changed.sqlite"
        changed(job, database, query, joined).close()
        summarize_file(database, tmp_path / "one.ranks.parquet", overwrite=True)
        found = of_summaries(tmp_path / "one.ranks.parquet")
        assert found["notes"]
        assert found == of_database(database)


def test_summaries_of_single_ranks_join_as_their_databases_do(
    imported: Callable[[str], Path], profile: Callable[[str], Path], tmp_path: Path
) -> None:
    """Two ranks of ResNet-50: as one capture, and as two captures that are joined."""
    whole = imported("ddp2_resnet50_amp")
    summarize_file(whole, tmp_path / "whole.ranks.parquet")
    assert of_summaries(tmp_path / "whole.ranks.parquet") == of_database(whole)
    files = split(profile("ddp2_resnet50_amp"), tmp_path)
    assert main(["summarize", *map(str, files), "--workers=1", "-o", str(tmp_path / "sums")]) == 0
    assert of_summaries(*sorted((tmp_path / "sums").iterdir())) == of_database(whole)


def test_the_classes_partition_each_step(summary: Path) -> None:
    table = pq.read_table(summary)
    rows = table.filter(pa.compute.is_valid(table["step"]))
    owned = np.sum([np.asarray(rows[column]) for column in CLASS_COLUMNS], axis=0)
    assert len(CLASS_COLUMNS) == len(CLASSES)
    assert (owned == np.asarray(rows["duration_ns"])).all()


def test_collectives_and_kernels_are_those_of_plain_sql(job: Path, summary: Path) -> None:
    """Brute force: each collective, and the kernels before, within and behind it."""
    rows = pq.read_table(summary).to_pylist()
    calls = [(row["rank"], one) for row in rows for one in row["collectives"] if one["kind"]]
    with closing(sqlite3.connect(job)) as connection:
        kernels = connection.execute(
            "SELECT r.rank, k.id, k.start, k.start + k.duration, k.api_start,"
            " k.api_start + k.api_duration, n.name LIKE 'nccl%' FROM kernels AS k"
            " JOIN ranks AS r ON r.process = k.process JOIN kernel_names AS n ON n.id = k.name"
        ).fetchall()
    assert len(calls) == sum(kernel[-1] for kernel in kernels)
    assert sum(one["launches"] for row in rows for one in row["kernels"]) == len(kernels)
    for rank, one in calls[::7]:
        (own,) = [k for k in kernels if k[0] == rank and k[2] == one["start_ns"] and k[-1]]
        work = [kernel for kernel in kernels if kernel[0] == rank and not kernel[-1]]
        ended, api_ended = own[3], own[5]
        later = min((k for k in work if k[2] >= ended), key=lambda k: k[2], default=None)
        assert one["end_ns"] == ended
        assert one["api_end_ns"] == api_ended
        assert one["work_end_ns"] == max((k[3] for k in work if k[1] < own[1]), default=None)
        assert one["busy_until_ns"] == max((k[3] for k in work if k[2] < ended), default=None)
        assert one["next_start_ns"] == (None if later is None else later[2])
        assert one["next_launch_ns"] == (None if later is None else later[4])
        before = [kernel for kernel in work if kernel[1] < own[1]]
        assert one["work_ns"] == sum(kernel[3] - kernel[2] for kernel in before)
        assert one["work_count"] == len(before)


def test_a_thousand_collectives_in_a_step_fit_the_limit(summary: Path) -> None:
    """Times as uneven as can be expected, in every step."""
    table = pq.read_table(summary)
    count, random = 1000, np.random.default_rng(1)
    size = count * table.num_rows
    start = np.cumsum(random.integers(20_000, 900_000, size))
    columns = {
        name: pa.array(start + random.integers(0, 500_000, size))
        for name in (field.name for field in CALL if field.name.endswith("_ns"))
    }
    columns["work_count"] = pa.array(np.cumsum(random.integers(1, 9, size)))
    kinds = random.choice(["AllReduce", "AllGather", "ReduceScatter"], size)
    columns |= {
        "kind": pa.array(kinds.tolist()),
        "device": pa.array(random.integers(1, 9, size)),
        "stream": pa.array(random.integers(7, 90, size)),
        "call": pa.nulls(size, pa.int64()),
        "bytes": pa.array(random.integers(1, 1 << 30, size)),
    }
    values = pa.StructArray.from_arrays([columns[f.name] for f in CALL], fields=list(CALL))
    offsets = pa.array(np.arange(0, size + 1, count, dtype=np.int32))
    place = table.schema.get_field_index("collectives")
    lists = pa.ListArray.from_arrays(offsets, values)
    stream = BytesIO()
    write_table(table.set_column(place, SCHEMA.field("collectives"), lists), stream)
    assert len(stream.getvalue()) <= MOST_BYTES * table.num_rows


def test_real_steps_are_far_below_the_limit(job: Path, summary: Path) -> None:
    rows = pq.read_metadata(summary).num_rows
    assert summary.stat().st_size <= 5_000 * rows


def test_every_column_has_a_unit_and_is_documented() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs/clusters.md").read_text()
    for field in SCHEMA:
        fields = [field]
        if pa.types.is_list(field.type):
            fields += list(field.type.value_type)
        for one in fields:
            assert one.metadata[b"unit"] in {b"ns", b"none", b"count", b"bytes"}
            assert f"`{one.name}`" in page


def test_copies_of_a_rank_and_missing_files_are_refused(summary: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.ranks.parquet"
    copy.write_bytes(summary.read_bytes())
    with pytest.raises(NotOneJobError, match="hold the same rank"):
        join_summaries([summary, copy])
    with pytest.raises(ProfileNotFoundError):
        join_summaries([summary, tmp_path / "none.ranks.parquet"])


def test_one_rank_cannot_be_compared(job: Path, tmp_path: Path) -> None:
    database = tmp_path / "one.sqlite"
    changed(job, database, "DELETE FROM ranks WHERE rank > 0").close()
    summarize_file(database, tmp_path / "one.ranks.parquet")
    with pytest.raises(ReplayError, match="one rank"):
        join_summaries([tmp_path / "one.ranks.parquet"])


def rewritten(source: Path, target: Path, **changes: Any) -> Path:
    """A summary with other columns, or another document in its metadata."""
    table = pq.read_table(source)
    document = json.loads(table.schema.metadata[KEY])
    for name, value in changes.items():
        if name in table.schema.names:
            place = table.schema.get_field_index(name)
            table = table.set_column(place, name, value)
        else:
            document[name] = value
    pq.write_table(table.replace_schema_metadata({KEY: json.dumps(document)}), target)
    return target


def test_damaged_summaries_are_refused(summary: Path, tmp_path: Path) -> None:
    target = tmp_path / "bad.ranks.parquet"
    rows = pq.read_metadata(summary).num_rows
    bad: list[dict[str, Any]] = [
        {"ranks": []},
        {"ranks": [{"rank": 0}]},
        {"meta": {}},
        {"recorded_ranks": [1, 2]},
        {"step": pa.array(np.arange(rows) * 1000)},
        {"step": pa.array(["x"] * rows)},
        {"rank": pa.array(np.full(rows, 9, dtype=np.int32))},
        {"duration_ns": pa.array(np.full(rows, 1 << 62))},
        {"collectives": pa.nulls(rows, SCHEMA.field("collectives").type)},
        {"collectives": pa.array([[1]] * rows)},
    ]
    for changes in bad:
        with pytest.raises(CorruptProfileError, match="is damaged"):
            read_rank_summary(rewritten(summary, target, **changes))
    with pytest.raises(CorruptProfileError, match="unknown version"):
        read_rank_summary(rewritten(summary, target, version=1))
    whole = summary.read_bytes()
    for part in (whole[:100], whole[: len(whole) // 2], whole[:-3]):
        target.write_bytes(part)
        with pytest.raises(CorruptProfileError, match="is damaged"):
            read_rank_summary(target)


def test_a_flipped_byte_is_no_traceback(summary: Path, tmp_path: Path) -> None:
    """The result may differ, but there is one, or an error of the product."""
    whole, target = summary.read_bytes(), tmp_path / "flipped.ranks.parquet"
    random = np.random.default_rng(3)
    for at in random.integers(0, len(whole), 60).tolist():
        target.write_bytes(whole[:at] + bytes([whole[at] ^ 0x41]) + whole[at + 1 :])
        assert main(["stragglers", str(target)]) in {0, 4}


def test_any_flipped_byte_before_the_footer_is_found(summary: Path, tmp_path: Path) -> None:
    whole, target = summary.read_bytes(), tmp_path / "flipped.ranks.parquet"
    for at in range(10, len(whole) // 4, len(whole) // 40):
        target.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(CorruptProfileError, match="is damaged"):
            read_rank_summary(target)


@pytest.mark.parametrize("name", sorted(path.name for path in OLDER.glob("*.xz")))
def test_databases_of_older_versions_have_summaries(name: str, tmp_path: Path) -> None:
    database = tmp_path / "older.sqlite"
    database.write_bytes(lzma.decompress((OLDER / name).read_bytes()))
    summarize_file(database, tmp_path / "older.ranks.parquet")
    assert read_rank_summary(tmp_path / "older.ranks.parquet").rows.is_steady.any()


def test_a_damaged_database_is_one_sentence_and_leaves_no_file(
    job: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for query in (
        "UPDATE kernels SET name = 10000000",
        "UPDATE dldb_meta SET value = x'ff' WHERE key = 'last_ns'",
        "UPDATE iterations SET start = 'x'",
        "UPDATE ranks SET process = 99",
        "DELETE FROM aggregations",
    ):
        database = tmp_path / "damaged.sqlite"
        changed(job, database, "DELETE FROM column_blobs", query).close()
        code = main(["summarize", str(database), "-f", "-o", str(tmp_path / "out")])
        assert code in {0, 2, 4, 5}, query
        assert "bug" not in capsys.readouterr().err
        assert not list(tmp_path.glob("out/.*"))


def test_a_folder_that_cannot_be_written_is_one_sentence(
    job: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert main(["summarize", str(job), "-o", str(tmp_path / "file/x.parquet")]) == 5
    assert "bug" not in capsys.readouterr().err
    with pytest.raises(DatabaseWriteError, match="cannot be written: File exists"):
        summarize_file(job, tmp_path / "file")


def test_the_command_reads_a_folder(
    job: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "sums"
    assert main(["summarize", str(job), "-o", str(folder)]) == 0
    assert "kB each" in capsys.readouterr().out
    assert main(["summarize", str(job), "-o", str(folder)]) == 2
    assert "exists already" in capsys.readouterr().err
    assert main(["summarize", str(job), "-o", str(folder), "-f", "--first_rank=8"]) == 0
    capsys.readouterr()
    assert main(["stragglers", str(folder), "--format=json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["slow_rank"] == 9
    assert [one["rank"] for one in document["rank_times"]] == [8, 9, 10]
    assert main(["stragglers", str(folder)]) == 0
    assert f":{job}" in capsys.readouterr().out
    empty = tmp_path / "empty"
    empty.mkdir()
    assert main(["stragglers", str(empty)]) == 2
    assert main(["stragglers", str(folder), str(job)]) == 2
