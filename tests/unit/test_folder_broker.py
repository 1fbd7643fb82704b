"""Messages as files in a folder, the broker that needs no installation."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from kombu import Connection, Consumer

from aggregator.jobs import celery_app
from aggregator.jobs.celery_app import JOB_QUEUE, JOB_TASK, RANK_QUEUE, RANK_TASK


@pytest.fixture
def run_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("DLPROF_BROKER_URL", raising=False)
    monkeypatch.setenv("DLPROF_RUN_DIR", str(tmp_path))
    return tmp_path


@contextmanager
def _full_disk() -> Iterator[None]:
    """No file can get a byte more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def _received(app: Any, queue: str) -> list[Any]:
    """The arguments of all messages that wait."""
    found: list[Any] = []

    def take(body: Any, message: Any) -> None:
        found.append(body[0])
        message.ack()

    connection: Connection
    with (
        app.connection_for_read() as connection,
        Consumer(connection, app.amqp.queues[queue], callbacks=[take], accept=["json"]),
    ):
        try:
            while True:
                connection.drain_events(timeout=0.05)
        except TimeoutError:
            return found


def test_messages_come_in_order_and_leave_nothing(run_dir: Path) -> None:
    app = celery_app.make_app()
    for number in range(5):
        app.send_task(JOB_TASK, args=[f"job {number}"])
        app.send_task(RANK_TASK, args=[f"part {number}"], queue=RANK_QUEUE)

    assert _received(app, JOB_QUEUE) == [[f"job {number}"] for number in range(5)]
    assert _received(app, RANK_QUEUE) == [[f"part {number}"] for number in range(5)]
    assert not [path for path in run_dir.rglob("*") if path.is_file()]


def test_a_worker_that_began_on_a_full_disk_receives_later_messages(run_dir: Path) -> None:
    app = celery_app.make_app()
    with _full_disk():
        assert _received(app, JOB_QUEUE) == []
        with pytest.raises(OSError, match="File too large"):
            app.send_task(JOB_TASK, args=["lost"], retry=False)

    app.send_task(JOB_TASK, args=["kept"])
    assert _received(celery_app.make_app(), JOB_QUEUE) == [["kept"]]
    assert not [path for path in run_dir.rglob("*") if path.is_file()]
