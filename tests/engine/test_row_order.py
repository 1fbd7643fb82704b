"""Exports whose rows have another order: nothing that is made of them depends on it."""

from __future__ import annotations

import random
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from aggregator.profile.profile import Profile
from aggregator.sources import open_profile
from aggregator.system.progress import NullProgress
from tests.builders import Trace, contents
from tests.conftest import ProfileFactory

REVERSED = -1


def in_another_order(source: Path, target: Path, order: int) -> Path:
    """A copy with the rows of every table reversed, or shuffled with ``order`` as the seed."""
    shutil.copyfile(source, target)
    target.chmod(0o600)
    chance = random.Random(order)
    with closing(sqlite3.connect(target)) as connection:
        connection.text_factory = bytes
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        for (name,) in tables.fetchall():
            table = f'"{name.decode()}"'
            rows = connection.execute(f"SELECT * FROM {table}").fetchall()
            rows.reverse() if order == REVERSED else chance.shuffle(rows)
            if rows:
                connection.execute(f"DELETE FROM {table}")
                marks = ", ".join("?" * len(rows[0]))
                rows = [
                    tuple(v.decode("utf-8", "replace") if isinstance(v, bytes) else v for v in row)
                    for row in rows
                ]
                connection.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)
        connection.commit()
    return target


def read(path: Path) -> Profile:
    profile = open_profile(path, NullProgress())
    profile.source_name = ""
    return profile


def tied(folder: Path) -> Path:
    """Everything starts at the same time, and some of it is there twice."""
    trace = Trace()
    for number in (0, 1):
        trace.gpu(number)
        trace.cuda_device(100, number, number)
    for tid in (1, 2):
        thread = trace.thread(tid=tid)
        for end in (900, 500, 500):
            thread.range(f"outer {end}", 100, end)
        for name in ("b", "a", "a"):
            thread.op(name, 100, 200, seq=1)
            thread.launch(name, 100, length=5, gpu=(300, 400), device=tid - 1)
        thread.copy(100, gpu=(300, 310))
        thread.set(100, gpu=(300, 310))
    return trace.write(folder / "tied.sqlite")


@pytest.mark.parametrize("order", [REVERSED, 1, 2])
@pytest.mark.parametrize(
    "name",
    ["tied", "nvtx_domains", "simple_no_nvtx", "liz_ddp53", "yyh_net", "zx3", "crash_segfault"],
)
def test_an_export_is_read_the_same_in_any_order(
    profile: ProfileFactory, tmp_path: Path, name: str, order: int
) -> None:
    source = tied(tmp_path) if name == "tied" else profile(name)
    moved = in_another_order(source, tmp_path / "moved.sqlite", order)
    one, other = contents(read(source)), contents(read(moved))
    assert [key for key in one if one[key] != other[key]] == []
