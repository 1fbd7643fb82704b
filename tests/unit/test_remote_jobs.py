"""A worker that has only the broker."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from celery.signals import worker_shutting_down

from aggregator import celery_app, remote_jobs


class Unheard:
    """Takes every message and never brings an answer."""

    def __init__(self, ending: threading.Event) -> None:
        self.events: list[str] = []
        self.asked_after_the_end = 0
        self._ending = ending

    def put(self, queue: str, message: dict[str, Any]) -> None:
        self.events.append(message["event"])

    def take(self, queue: str) -> dict[str, Any] | None:
        self.asked_after_the_end += self._ending.is_set()
        return None


def test_a_worker_told_to_end_waits_for_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    ending = threading.Event()
    for module in (celery_app, remote_jobs):
        monkeypatch.setattr(module, "shutting_down", ending)
    recorder, mailbox = remote_jobs.BrokerRecorder(), Unheard(ending)
    monkeypatch.setattr(recorder, "_mailbox", mailbox)
    threading.Timer(0.1, lambda: worker_shutting_down.send(None)).start()

    assert recorder.claim("any") is None

    # Once at most: it was told between the question and the pause.
    assert mailbox.asked_after_the_end <= 1
    assert mailbox.events == ["claim", "abandon"]
