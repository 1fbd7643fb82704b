from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from aggregator.compare.history import _changes, databases_of, read_history
from aggregator.errors import ProfileError, UsageError
from profiler_cli.dlprof import main
from tests.builders import Trace, analyze
from tests.conftest import DEMO_PROFILE, ProfileFactory, _shared_root

PAIR = _shared_root() / "public" / "kineto_pair"


def dated(source: Path, target: Path, day: int) -> None:
    shutil.copyfile(source, target)
    started_ns = (1_700_000_000 + 86_400 * day) * 10**9
    with closing(sqlite3.connect(target)) as connection, connection:
        connection.execute("DELETE FROM dldb_meta WHERE key = 'session_start_utc_ns'")
        connection.execute(
            "INSERT INTO dldb_meta (key, value) VALUES ('session_start_utc_ns', ?)",
            (str(started_ns),),
        )


def named(folder: Path) -> list[tuple[str, Path]]:
    return [(path.name, path) for path in databases_of(folder)]


@pytest.fixture
def same_folder(imported: ProfileFactory, tmp_path: Path) -> Path:
    """Six copies of one capture, named against their order of dates, and a file that is none."""
    database = imported(DEMO_PROFILE)
    for day in range(6):
        dated(database, tmp_path / f"{9 - day}.sqlite", day)
    (tmp_path / "notes.db").write_text("no database", encoding="utf-8")
    return tmp_path


def test_captures_are_in_the_order_of_their_dates(same_folder):
    history = read_history(named(same_folder))
    assert [one.name for one in history.captures] == [f"{9 - day}.sqlite" for day in range(6)]
    assert [one.name for one in history.skipped] == ["notes.db"]
    assert history.captures[0].started_at == "2023-11-14T22:13:20+00:00"


def test_a_capture_without_steps_is_left_out_with_the_reason(same_folder, tmp_path_factory):
    trace = Trace()
    trace.gpu()
    main_thread = trace.thread()
    main_thread.launch("first", 100, gpu=(200, 300))
    main_thread.launch("second", 310, gpu=(400, 500))
    once = analyze(trace, tmp_path_factory.mktemp("once")).path
    shutil.copyfile(once, same_folder / "once.sqlite")
    history = read_history(named(same_folder))
    assert len(history.captures) == 6
    (left_out,) = [entry for entry in history.skipped if entry.name == "once.sqlite"]
    assert "No step was found" in left_out.reason


def test_the_same_capture_has_no_change_and_classes_add_up_to_the_step(same_folder):
    history = read_history(named(same_folder))
    assert not any(trend.change_points for trend in history.trends)
    step = next(trend for trend in history.trends if trend.kind == "step")
    classes = [trend.values_ns for trend in history.trends if trend.kind == "class"]
    assert [sum(values) for values in zip(*classes, strict=True)] == pytest.approx(step.values_ns)
    assert any(trend.kind == "op" for trend in history.trends)


def test_the_step_is_that_of_plain_sql(same_folder):
    capture = read_history(named(same_folder)).captures[0]
    with closing(sqlite3.connect(same_folder / capture.name)) as connection:
        [mean] = connection.execute(
            "SELECT avg(stop - start) FROM steps WHERE aggr = ? AND is_typical",
            (capture.aggregation,),
        ).fetchone()
    assert capture.step_ns == pytest.approx(mean)


def test_the_command_writes_text_and_json(same_folder, capsys):
    assert main(["history", str(same_folder), "--format=json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert len(document["captures"]) == 6
    assert all(len(trend["values_ns"]) == 6 for trend in document["trends"])
    assert main(["history", str(same_folder), "--ops=2"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("6 captures: mean step, as profiled\n")
    assert "Skipped notes.db: " in text
    assert "other ops" in text


def test_what_is_no_folder_of_databases_is_an_error(tmp_path, capsys):
    with pytest.raises(UsageError):
        databases_of(tmp_path / "missing")
    with pytest.raises(ProfileError):
        read_history([])
    assert main(["history", str(tmp_path)]) == 4
    assert main(["history", str(tmp_path / "missing")]) == 2
    assert "is no folder" in capsys.readouterr().err


@pytest.mark.skipif(not PAIR.is_dir(), reason="no public data")
def test_the_loader_changes_where_its_workers_were_added(imported, tmp_path):
    folder = tmp_path / "history"
    folder.mkdir()
    for number, run in enumerate(("w0a", "w0b", "w4a", "w4b")):
        database = imported(f"{run}.json.gz")
        for copy in range(4):
            day = 2 * copy + number % 2 + (8 if number > 1 else 0)
            dated(database, folder / f"{day:02}_{run}.sqlite", day)
    trends = {trend.name: trend for trend in read_history(named(folder)).trends}
    assert [point.index for point in trends["step"].change_points] == [8]
    [point] = trends["/DataLoader"].change_points
    assert point.index == 8
    assert point.before_ns > 30e6
    assert point.after_ns < 2e6


def test_a_long_history_has_its_change_points_in_time():
    values = [100.0 + number % 3 for number in range(1000)]
    values[600:] = [one + 10 for one in values[600:]]
    assert [point.index for point in _changes(values)] == [600]
