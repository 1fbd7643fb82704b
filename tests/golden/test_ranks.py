"""Rank files of one job joined into one database, on a real capture of two ranks."""

from __future__ import annotations

import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from aggregator.advice.reader import read_facts
from aggregator.dldb.event_reader import stored_events
from aggregator.options import AggregationRequest, ImportOptions
from aggregator.pipeline import aggregate
from aggregator.ranks.rank_import import import_ranks
from aggregator.replay.rank_report import rank_prediction, read_slow_ranks
from aggregator.replay.reader import read_replayed
from aggregator.system.progress import NullProgress
from tests.builders import query
from tests.rank_files import (
    Placing,
    collectives,
    make_ranks,
    place,
    split,
)

ProfileFactory = Callable[[str], Path]
NAME = "ddp2_resnet50_amp"
#: The numbers that a database gives to what many rows share.
KEYS = {"op_key", "name_key", "size_key", "device_key"}
#: What depends on the number of files that a database was made from.
OWN_COLUMNS = {"row_id", "source_file", "aligned_by", "clock_residual_ns", "aggr_start"} | KEYS
#: Evidence for the key node: a join measures it in its first file, one capture in all processes.
OWN_COLUMNS |= {"key_node_reason", "period", "alike", "evenness", "coverage", "score"}
OWN_COLUMNS |= {"instances", "original_command"}


@pytest.fixture(scope="module")
def two(profile: ProfileFactory, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The capture of two processes as two captures of one process each."""
    return split(profile(NAME), tmp_path_factory.mktemp("split"))


def join(files: list[Path], database: Path, workers: int = 1, **request: Any) -> Path:
    options = ImportOptions(Path(), database, request=AggregationRequest(**request))
    return import_ranks(options, files, NullProgress(), workers).database


@pytest.fixture(scope="module")
def joined(two: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both files in one database, which no test changes."""
    return join(two, tmp_path_factory.mktemp("joined") / "joined.sqlite")


def view_rows(path: Path) -> dict[str, Counter[tuple[Any, ...]]]:
    """Rows of every view, without what depends on the number of files."""
    result = {}
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        views = connection.execute("SELECT name FROM sqlite_master WHERE type = 'view'").fetchall()
        for (view,) in views:
            columns = [row[1] for row in connection.execute(f"PRAGMA table_info({view})")]
            kept = ", ".join(f'"{name}"' for name in columns if name not in OWN_COLUMNS)
            # A join gives one number to what the processes of one capture have a number each for.
            distinct = "DISTINCT" if columns[0] in KEYS else ""
            rows = connection.execute(f"SELECT {distinct} {kept} FROM {view}").fetchall()
            result[view] = Counter(rows)
    info, own = result["view_profile_info"], ("source_file", "rank_files", "key_node_reason")
    result["view_profile_info"] = Counter(
        {row: count for row, count in info.items() if row[0] not in own}
    )
    del result["view_texts"]  # The parts of the sentence of the evidence.
    return result


def filled_tables(path: Path) -> set[str]:
    """A table that a join forgets is empty in its result."""
    names = query(path, "SELECT name FROM sqlite_master WHERE type = 'table'")
    return {name for (name,) in names if query(path, f"SELECT 1 FROM {name} LIMIT 1")}


def test_two_files_joined_are_the_capture_of_both_processes(
    joined: Path, imported: Callable[[str], Path]
) -> None:
    single, both = view_rows(imported(NAME)), view_rows(joined)
    assert single.keys() == both.keys()
    assert {view for view in single if single[view] != both[view]} == set()
    kernels = "SELECT count(*) FROM view_kernel_launches WHERE aggr_id = 1"
    assert query(joined, kernels) == [(24_262,)]
    assert filled_tables(imported(NAME)) == filled_tables(joined)


def test_databases_of_the_ranks_can_be_joined_as_well(
    two: list[Path], imported: Callable[[str], Path], tmp_path: Path
) -> None:
    from aggregator.pipeline import import_profile

    made = []
    for number, file in enumerate(two):
        made.append(tmp_path / f"rank{number}.dldb.sqlite")
        import_profile(ImportOptions(file, made[-1]), NullProgress())
    joined = view_rows(join(made, tmp_path / "joined.sqlite"))
    single = view_rows(imported(NAME))
    assert {view for view in single if single[view] != joined[view]} == set()


def test_aggregating_a_part_is_the_same_as_with_both_processes_in_one_file(
    two: list[Path], imported: Callable[[str], Path], tmp_path: Path
) -> None:
    request = AggregationRequest(iter_start=3, iter_stop=6)
    both = shutil.copyfile(imported(NAME), tmp_path / "both.sqlite")
    joined = join(two, tmp_path / "joined.sqlite")
    for path in (both, joined):
        aggregate(path, request, NullProgress())
    ranks = "SELECT rank, gpu_utilization, waiting_ns, imbalance_pct FROM view_ranks"
    assert query(both, f"{ranks} WHERE aggr_id = 2") == query(joined, f"{ranks} WHERE aggr_id = 2")
    single, parts = view_rows(both), view_rows(joined)
    assert {view for view in single if single[view] != parts[view]} == set()


def waiting(database: Path) -> dict[tuple[int, int], int]:
    """(call, rank) -> waiting."""
    sql = "SELECT sequence, rank, waiting_ns FROM view_collectives"
    return {(call, rank): value for call, rank, value in query(database, sql)}


def test_waiting_is_what_plain_sql_over_the_exports_says(two: list[Path], joined: Path) -> None:
    """The two halves have one clock, so their own times can be compared."""
    found = waiting(joined)
    times = [collectives(file) for file in two]
    for call, pair in enumerate(zip(*times, strict=True)):
        for rank, (own, other) in enumerate((pair, pair[::-1])):
            came_before_it_left = own[1] < other[1] <= own[2]
            expected = other[1] - own[1] if came_before_it_left else 0
            assert found[call, rank] == expected, (call, rank)


def test_clocks_that_differ_are_brought_together(two: list[Path], tmp_path: Path) -> None:
    """The session of the second host starts later, and its clock is 3 s ahead."""
    placings = [
        Placing("alpha", 0, gpus_per_host=1),
        Placing("beta", 0, 1, session_delay_ns=-7_000_000_000, clock_error_ns=3_000_000_000),
    ]
    files = [
        place(two[0], tmp_path / f"rank{rank}.sqlite", placing)
        for rank, placing in enumerate(placings)
    ]
    database = join(files, tmp_path / "joined.sqlite")
    sql = (
        "SELECT rank, host_name, device_id, host_device_id, process_id, clock_offset_ns,"
        " clock_correction_ns, aligned_by FROM view_ranks WHERE aggr_id = 1 ORDER BY rank"
    )
    assert query(database, sql) == [
        (0, "alpha", 0, 0, 645, 0, 0, "same clock"),
        (1, "beta", 1, 0, 645, 7_000_000_000, -3_000_000_000, "collectives"),
    ]
    assert set(waiting(database).values()) == {0}
    assert "CLOCKS_CORRECTED" in dict(query(database, "SELECT code, count FROM view_warnings"))


def test_ranks_keep_apart_what_hosts_share(two: list[Path], tmp_path: Path) -> None:
    """Process ids and GPU numbers are the same on every host."""
    files = make_ranks(two, 6, tmp_path, gpus_per_host=2)
    database = join(files, tmp_path / "joined.sqlite", workers=2)
    columns = "rank, host_name, device_id, host_device_id"
    ranks = query(database, f"SELECT {columns} FROM view_ranks WHERE aggr_id = 1")
    assert sorted(ranks) == [(r, f"node{r // 2}", r, r % 2) for r in range(6)]
    names = query(
        database,
        "SELECT DISTINCT substr(op_node_name, 1, 8) FROM view_op_nodes"
        " WHERE op_node_name LIKE '/rank%'",
    )
    assert sorted(names) == [(f"/rank_{rank}/",) for rank in range(6)]
    per_device = (
        "SELECT device_id, count(*) FROM view_kernel_launches WHERE aggr_id = 1 GROUP BY device_id"
    )
    assert query(database, per_device) == [(rank, 12_131) for rank in range(6)]
    assert query(database, "SELECT num_gpus FROM view_system_config") == [("6",)]


def test_advice_and_the_ranks_have_the_same_waiting_and_saving(
    imported: ProfileFactory, tmp_path: Path
) -> None:
    """The first aggregation has one step more, in which the ranks are compared."""
    path = shutil.copyfile(imported(NAME), tmp_path / "steady.sqlite")
    aggregate(path, AggregationRequest(iter_start=2, iter_stop=11), NullProgress())
    waits = "SELECT rank, exposed_waiting_ns FROM view_ranks WHERE aggr_id = 2 ORDER BY rank"
    with closing(sqlite3.connect(path)) as connection:
        store = stored_events(connection)
        whole = read_facts(store, 1)
        facts, alone = read_facts(store, 2, whole), read_facts(store, 2)
        report, profile = read_slow_ranks(store, 2), read_replayed(store, 2)
    # As unions of intervals over the export say: waiting without the computing of the GPU, and all
    # its kernels, copies and sets.
    assert query(path, waits) == [(0, 69_745_238), (1, 56_299_718)]
    busy = "SELECT busy_ns FROM view_ranks WHERE aggr_id = 2 ORDER BY rank"
    assert query(path, busy) == [(201_065_352,), (186_806_447,)]
    assert [(wait.rank, wait.exposed_ns) for wait in facts.rank_waits] == query(path, waits)
    assert facts.rank_gains == alone.rank_gains != whole.rank_gains
    slowdown = report.found.slowdown
    advice = "SELECT gain_pct FROM view_advice WHERE advice_name = 'late_ranks' AND aggr_id = 2"
    assert query(path, advice) == [(pytest.approx(100.0 * (1.0 - 1.0 / slowdown), abs=0.005),)]
    # Nor does a what-if save another time in the step that the comparison lacks.
    without = rank_prediction(report, "0", profile, alone=True)
    gain_ns = report.found.gain_ns(0).mean()
    assert profile.measured_ns.mean() - without.mean_step_ns == pytest.approx(gain_ns, abs=1)


def test_advice_says_how_long_ranks_wait_for_each_other(joined: Path) -> None:
    with closing(sqlite3.connect(joined)) as connection:
        facts = read_facts(stored_events(connection), 1)
    steps = facts.steps
    found = [(wait.rank, wait.waiting_ns, wait.kept_waiting_ns) for wait in facts.rank_waits]
    sql = (
        "SELECT rank, sum(waiting_ns), sum(kept_waiting_ns) FROM view_collectives"
        f" WHERE aggr_id = 1 AND iter_value BETWEEN {steps.first} AND {steps.last}"
        " GROUP BY rank ORDER BY rank"
    )
    assert found == query(joined, sql)
    wall = steps.count * facts.step_ns * len(found)
    share = 100.0 * sum(wait.exposed_ns for wait in facts.rank_waits) / wall
    advice = "SELECT problem FROM view_advice WHERE advice_name = 'late_ranks' AND aggr_id = 1"
    ((problem,),) = query(joined, advice)
    assert f"wait {share:.0f}% of the step for each other" in problem
