"""Joining rank files: what is kept, what is refused, what is warned of. Small traces."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aggregator.errors import (
    AggregationCancelledError,
    CorruptProfileError,
    DlprofError,
    NotADldbError,
    NotOneJobError,
    ProfileError,
    ProfileNotFoundError,
    UsageError,
)
from aggregator.options import AggregationRequest, ImportOptions
from aggregator.ranks.pool import import_rank_file, rank_database
from aggregator.ranks.rank_import import import_ranks, join_ranks
from aggregator.system.progress import Level, NullProgress
from tests.builders import LAUNCH, Analyzed, Trace

ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
START = 1_800_000_000_000_000_000
STEPS = 4


def rank(
    *,
    host: str = "alpha",
    gpu: int = 0,
    start_utc_ns: int | None = START,
    late_ns: int = 0,
    steps: int = STEPS,
    clock_ns: int = 0,
    collectives: bool = True,
    key: str = "step",
    pid: int = 100,
) -> Trace:
    """A rank: steps with an op and an all-reduce; its own clock may run ahead by ``clock_ns``."""
    trace = Trace()
    trace.session(start_utc_ns, host)
    trace.gpu(gpu)
    trace.cuda_device(pid, 0, gpu)
    thread = trace.thread(pid=pid)
    for step in range(steps):
        at = clock_ns + 10_000 * step + 5
        thread.range(f"{key} {step}", at, at + 9_000)
        thread.op("relu", at + 10, at + 60, sizes="[[2, 3]]")
        thread.launch("relu_kernel", at + 20, gpu=(at + 30, at + 40))
        thread.copy(at + 45, gpu=(at + 50, at + 55))
        if collectives:
            begin = at + 200 + late_ns
            thread.launch(ALL_REDUCE, begin - 9, gpu=(begin, at + 4_000), long_name=ALL_REDUCE)
    return trace


def write(folder: Path, *traces: Trace) -> list[Path]:
    return [trace.write(folder / f"rank{number}.sqlite") for number, trace in enumerate(traces)]


def join(folder: Path, files: list[Path], **request: Any) -> Analyzed:
    database = folder / "joined.sqlite"
    # A request that names iterations gets no other aggregation: steps without start-up.
    wanted = AggregationRequest(**{"iter_start": 0, **request})
    options = ImportOptions(Path(), database, request=wanted)
    return Analyzed(database, import_ranks(options, files, NullProgress(), workers=1))


def offsets(found: Analyzed) -> list[tuple[Any, ...]]:
    sql = "SELECT rank, clock_offset_ns, clock_correction_ns, aligned_by FROM view_ranks"
    return sorted(found.query(sql))


def test_joined_ranks_keep_names_numbers_and_times(tmp_path: Path) -> None:
    files = write(tmp_path, rank(), rank(gpu=1, start_utc_ns=START + 700, clock_ns=-5))
    found = join(tmp_path, files)
    names = {name for name in found.op_ids().values() if name.startswith("/")}
    assert {"/rank_0/step #/relu", "/rank_1/step #/relu"} <= names
    assert found.op_ids()["RELU_1"] == "/rank_0/step #/relu"
    assert found.op_ids()["RELU_2"] == "/rank_1/step #/relu"
    sql = "SELECT kernel_timestamp FROM view_kernel_launches WHERE kernel_name = 'relu_kernel'"
    starts = sorted(value for (value,) in found.query(sql))
    expected = [10_000 * step + at for step in range(STEPS) for at in (35, 730)]
    assert starts == sorted(expected)
    assert offsets(found) == [(0, 0, 0, "same clock"), (1, 700, 0, "start times")]


def test_the_number_is_read_from_the_name_whatever_the_order(tmp_path: Path) -> None:
    files = [
        rank(gpu=gpu).write(tmp_path / f"run_rank{number}.sqlite")
        for gpu, number in ((1, 10), (0, 2))
    ]
    found = join(tmp_path, files)
    assert found.query("SELECT rank, host_device_id FROM view_ranks ORDER BY rank") == [
        (2, 0),
        (10, 1),
    ]
    assert found.warnings()["MISSING_RANKS"] == 9


def test_a_gpu_that_two_files_list_is_one(tmp_path: Path) -> None:
    """Each export lists all GPUs of the host."""
    traces = [rank(), rank(gpu=1)]
    for trace in traces:
        trace.tables["TARGET_INFO_GPU"].clear()
        trace.gpu(0)
        trace.gpu(1)
    found = join(tmp_path, write(tmp_path, *traces))
    assert sorted(found.query("SELECT device_id FROM view_gpu_devices")) == [(0,), (1,)]


def test_custom_domains_marks_and_annotations_are_joined(tmp_path: Path) -> None:
    traces = [rank(), rank(gpu=1)]
    for number, trace in enumerate(traces):
        thread = trace.thread()
        trace.add(
            "NVTX_EVENTS",
            start=0,
            eventType=75,
            text="Mine",
            globalTid=thread.global_tid,
            domainId=7,
        )
        thread.range(f"own {number}", 30_100, 30_190, domain=7)
        call = thread.call(LAUNCH, 30_110, 30_115, correlation=999)
        thread.process.kernel("own_kernel", 30_120, 30_130, correlation=call)
        trace.add(
            "NVTX_EVENTS",
            start=20_000 + number,
            eventType=34,
            text=f"mark {number}",
            globalTid=thread.global_tid,
            domainId=7,
        )
    found = join(tmp_path, write(tmp_path, *traces))
    assert found.query("SELECT domain_name FROM view_domains") == [("default-domain",), ("Mine",)]
    sql = "SELECT op_node_name, kernel_calls FROM view_op_nodes WHERE domain_name = 'Mine'"
    assert found.query(sql) == [("/own #", 1), ("/own #", 1)]
    assert len({op for (op,) in found.query("SELECT op_node_id FROM view_op_nodes")}) > 2
    sql = "SELECT mark_name, timestamp FROM view_marks ORDER BY timestamp"
    assert found.query(sql) == [("mark 0", 20_000), ("mark 1", 20_001)]
    sql = "SELECT kernel_name, count(*) FROM view_kernel_launches WHERE domain_name = 'Mine'"
    assert found.query(sql) == [("own_kernel", 2)]
    again = found.aggregate(iter_start=1, iter_stop=2)
    assert not again.reused


def test_clocks_of_two_machines_are_brought_together_by_their_collectives(tmp_path: Path) -> None:
    files = write(
        tmp_path,
        rank(late_ns=0),
        rank(host="beta", start_utc_ns=START + 5_000_000_000, clock_ns=300, late_ns=70),
    )
    found = join(tmp_path, files)
    # The second file's times are 300 ns ahead of the first's, so time 0 is its start.
    assert offsets(found) == [(0, 300, 0, "same clock"), (1, 0, -5_000_000_300, "collectives")]
    assert found.query("SELECT rank, waiting_ns FROM view_ranks ORDER BY rank") == [
        (0, 70 * STEPS),
        (1, 0),
    ]
    assert "CLOCKS_CORRECTED" in found.warnings()


def test_without_start_times_collectives_align(tmp_path: Path) -> None:
    files = write(
        tmp_path, rank(start_utc_ns=None), rank(start_utc_ns=None, gpu=1, clock_ns=99, late_ns=5)
    )
    found = join(tmp_path, files)
    assert found.query("SELECT rank, waiting_ns FROM view_ranks ORDER BY rank") == [
        (0, 5 * STEPS),
        (1, 0),
    ]


def test_without_both_the_clock_is_unknown_and_so_is_waiting(tmp_path: Path) -> None:
    files = write(
        tmp_path, rank(start_utc_ns=None), rank(start_utc_ns=None, gpu=1, collectives=False)
    )
    found = join(tmp_path, files)
    assert offsets(found) == [(0, 0, 0, "same clock"), (1, None, None, "nothing")]
    assert found.query("SELECT waiting_ns FROM view_ranks") == [(None,), (None,)]
    assert found.warnings()["CLOCKS_UNKNOWN"] == 1


def test_ranks_with_other_numbers_of_steps_are_reported(tmp_path: Path) -> None:
    found = join(tmp_path, write(tmp_path, rank(), rank(gpu=1, steps=STEPS + 1), rank(gpu=2)))
    assert found.warnings()["ITERATIONS_DIFFER"] == 1
    assert "ITERATIONS_DIFFER" in {warning.code for warning in found.result.warnings}


def test_ranks_with_other_loops_are_reported(tmp_path: Path) -> None:
    found = join(tmp_path, write(tmp_path, rank(), rank(gpu=1, key="turn"), rank(gpu=2)))
    assert found.warnings()["KEY_NODES_DIFFER"] == 1


@pytest.mark.parametrize(
    ("traces", "words"),
    [
        (lambda: [rank(), rank()], "hold the same rank"),
        (
            lambda: [rank(), rank(gpu=1, start_utc_ns=START + 10**15, collectives=False)],
            "was not captured at the time",
        ),
        (lambda: [rank(), without_ranges()], "different frameworks"),
        (lambda: [rank(), without_kernels()], "is no rank"),
    ],
)
def test_files_that_are_not_one_job_are_refused(
    tmp_path: Path, traces: Callable[[], list[Trace]], words: str
) -> None:
    files = write(tmp_path, *traces())
    with pytest.raises(NotOneJobError, match=words):
        join(tmp_path, files)
    assert {path.name for path in tmp_path.iterdir()} == {file.name for file in files}


def without_ranges() -> Trace:
    trace = rank(gpu=1)
    trace.tables["NVTX_EVENTS"].clear()
    return trace


def without_kernels() -> Trace:
    trace = Trace()
    trace.session(START, "alpha")
    trace.thread().call("cudaMalloc_v3020", 10, 20)
    return trace


def test_who_is_which_can_be_said_whatever_the_names(tmp_path: Path) -> None:
    files = write(tmp_path, rank(gpu=5), rank(gpu=6), rank(gpu=7))
    database = tmp_path / "joined.sqlite"
    options = ImportOptions(Path(), database, ranks=(4, 0, 1))
    found = Analyzed(database, import_ranks(options, files, NullProgress(), workers=1))
    sql = "SELECT rank, host_device_id FROM view_ranks WHERE aggr_id = 1 ORDER BY rank"
    assert found.query(sql) == [(0, 6), (1, 7), (4, 5)]
    assert found.warnings()["MISSING_RANKS"] == 2
    twice = ImportOptions(Path(), tmp_path / "other.sqlite", ranks=(1, 0, 1))
    with pytest.raises(NotOneJobError, match="are both rank 1"):
        import_ranks(twice, files, NullProgress(), workers=1)


def test_names_that_say_one_rank_twice_are_ignored(tmp_path: Path) -> None:
    files = []
    for node in range(2):
        (tmp_path / f"node{node}").mkdir()
        trace = rank(host=f"node{node}", gpu=node)
        files.append(trace.write(tmp_path / f"node{node}" / "rank0.sqlite"))
    found = join(tmp_path, files)
    assert found.query("SELECT rank, host_name FROM view_ranks ORDER BY rank") == [
        (0, "node0"),
        (1, "node1"),
    ]
    assert found.warnings()["RANK_NAMES_REPEAT"] == 1


def test_a_rank_without_collectives_is_reported(tmp_path: Path) -> None:
    found = join(tmp_path, write(tmp_path, rank(), rank(gpu=1, collectives=False), rank(gpu=2)))
    assert found.warnings()["RANKS_WITHOUT_COLLECTIVES"] == 1
    waiting = found.query("SELECT waiting_ns FROM view_ranks ORDER BY rank")
    assert waiting == [(0,), (None,), (0,)]
    silent = tmp_path / "silent"
    silent.mkdir()
    files = write(silent, rank(collectives=False), rank(gpu=1, collectives=False))
    assert "RANKS_WITHOUT_COLLECTIVES" not in join(silent, files).warnings()


def test_wrong_files_are_reported_before_and_after_reading(tmp_path: Path) -> None:
    files = write(tmp_path, rank(), rank(gpu=1))
    with pytest.raises(ProfileNotFoundError, match="rank9"):
        join(tmp_path, [*files, tmp_path / "rank9.sqlite"])
    with pytest.raises(UsageError, match="twice"):
        join(tmp_path, [files[0], files[0]])
    files[1].write_bytes(files[1].read_bytes()[:9000])
    with pytest.raises(ProfileError, match=r"rank1\.sqlite"):
        join(tmp_path, files)
    (tmp_path / "rank1.sqlite").write_bytes(b"SQLite format 3\0" + b"x" * 5000)
    for workers in (1, 2):
        options = ImportOptions(Path(), tmp_path / "joined.sqlite")
        with pytest.raises((CorruptProfileError, ProfileError)) as raised:
            import_ranks(options, files, NullProgress(), workers)
        assert raised.value.hint
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rank0.sqlite", "rank1.sqlite"]


def test_a_database_of_an_older_version_is_no_part(tmp_path: Path) -> None:
    import sqlite3

    from tests.builders import analyze_file

    files = write(tmp_path, rank(), rank(gpu=1))
    old = analyze_file(files[0], tmp_path / "old.dldb.sqlite").path
    with sqlite3.connect(old) as connection:
        connection.executescript(
            "DROP VIEW view_ranks; DROP VIEW view_collectives; DROP TABLE ranks"
        )
    with pytest.raises(NotADldbError, match="cannot be joined"):
        join(tmp_path, [old, files[1]])


ENDLESS = (
    "DROP TABLE marks; CREATE VIEW marks AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL"
    " SELECT x + 1 FROM n) SELECT x AS id, x AS time, 'a' AS name, 'b' AS domain, 1 AS thread"
    " FROM n"
)


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("ALTER TABLE kernels ADD COLUMN more INTEGER", "another version made it"),
        (
            ENDLESS,
            "another version made it",
        ),
        ("UPDATE ops SET id = 4611686018427387904 WHERE id = 1", "row ids of ops"),
        ("UPDATE ops SET process = 99", "is damaged"),
        ("UPDATE ops SET domain = 'x'", "is damaged"),
        ("UPDATE kernels SET instance = 99999", "is damaged"),
        ("UPDATE busy_time SET starts = 'abc'", "is damaged"),
        ("UPDATE dldb_meta SET value = 'x' WHERE key = 'last_ns'", "cannot be joined"),
    ],
)
def test_a_database_that_is_not_what_it_says_is_refused(
    tmp_path: Path, script: str, words: str
) -> None:
    import sqlite3

    from tests.builders import analyze_file

    files = write(tmp_path, rank(), rank(gpu=1))
    own = analyze_file(files[0], tmp_path / "own.dldb.sqlite").path
    with sqlite3.connect(own) as connection:
        connection.executescript(script)
    with pytest.raises(NotADldbError, match=words):
        join(tmp_path, [own, files[1]])
    assert not (tmp_path / "joined.sqlite").exists()


# --- importing several files at once ------------------------------------------------------------


class Stopping(NullProgress):
    """Cancels at its n-th report."""

    def __init__(self, after: int) -> None:
        self._left = after

    def advance(self, rows: int) -> None:
        self._left -= 1
        if self._left < 0:
            raise AggregationCancelledError("stop")

    def message(self, text: str, level: Level = Level.NORMAL) -> None:
        """Ignore."""


def _only_rank_files(folder: Path) -> bool:
    return sorted(path.name for path in folder.iterdir()) == ["rank0.sqlite", "rank1.sqlite"]


@pytest.mark.parametrize("workers", [1, 2])
def test_the_error_of_a_file_is_that_of_the_job(tmp_path: Path, workers: int) -> None:
    files = write(tmp_path, rank(), rank(gpu=1))
    files[1].write_bytes(b"no profile")
    options = ImportOptions(Path(), tmp_path / "joined.sqlite")
    with pytest.raises(DlprofError) as raised:
        import_ranks(options, files, NullProgress(), workers)
    assert raised.value.code == "PROFILE_UNSUPPORTED"
    assert "is not an SQLite file" in raised.value.message
    assert _only_rank_files(tmp_path)


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("after", [0, 2, 5, 9, 14])
def test_a_job_cancelled_at_any_moment_leaves_nothing(
    tmp_path: Path, after: int, workers: int
) -> None:
    files = write(tmp_path, rank(), rank(gpu=1))
    options = ImportOptions(Path(), tmp_path / "joined.sqlite")
    with pytest.raises(AggregationCancelledError):
        import_ranks(options, files, Stopping(after), workers)
    assert _only_rank_files(tmp_path)
    for child in multiprocessing.active_children():
        child.join(60)
    assert not multiprocessing.active_children()


def test_the_states_of_the_files_are_reported(tmp_path: Path) -> None:
    files = write(tmp_path, rank(), rank(gpu=1))
    options = ImportOptions(Path(), tmp_path / "joined.sqlite")
    states: list[str] = []
    import_ranks(options, files, NullProgress(), 1, states.append)
    assert states == ["iw", "dw", "di", "dd"]


class Killing(NullProgress):
    """Kills the processes that import rank files, a number of times."""

    def __init__(self, times: int) -> None:
        self._left = times

    def advance(self, rows: int) -> None:
        children = multiprocessing.active_children()
        if self._left and children:
            self._left -= 1
            children[0].kill()
            children[0].join()


def test_a_killed_process_costs_its_file_once(tmp_path: Path) -> None:
    files = write(tmp_path, rank(), rank(gpu=1))
    options = ImportOptions(Path(), tmp_path / "joined.sqlite")
    import_ranks(options, files, Killing(1), 2)
    assert options.database.exists()
    options = ImportOptions(Path(), tmp_path / "again.sqlite")
    with pytest.raises(ProfileError, match="A process that imported rank files ended"):
        import_ranks(options, files, Killing(1_000), 2)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["joined.sqlite", "rank0.sqlite", "rank1.sqlite"]


@pytest.mark.parametrize("workers", [2, 0])
def test_one_or_several_processes_or_tasks_give_the_same(tmp_path: Path, workers: int) -> None:
    files = write(tmp_path, rank(), rank(gpu=1, late_ns=40))
    alone = join(tmp_path, files)
    request = AggregationRequest(iter_start=0)  # As that of ``join``.
    options = ImportOptions(Path(), tmp_path / "shared.sqlite", request=request)
    if workers:
        import_ranks(options, files, NullProgress(), workers)
    else:
        for number, source in enumerate(files):
            one = ImportOptions(source, rank_database(tmp_path / "made", number))
            import_rank_file(one, NullProgress())
        join_ranks(options, files, tmp_path / "made", NullProgress())
    with_others = Analyzed(options.database, alone.result)
    for view in ("view_ranks", "view_collectives", "view_op_metrics", "view_kernel_launches"):
        assert alone.query(f"SELECT * FROM {view}") == with_others.query(f"SELECT * FROM {view}")
