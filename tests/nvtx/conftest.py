"""Ranges that markers write, recorded instead of given to NVTX."""

from __future__ import annotations

import pytest

from dlprof_nvtx.state import STATE


class Recorder:
    """What a marked program does, in order: the ranges that it opens and closes, and its work."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def push(self, text: str) -> None:
        self.seen.append(text)

    def pop(self) -> None:
        self.seen.append("pop")


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    """The recorder in place of NVTX, in a process that is profiled."""
    found = Recorder()
    monkeypatch.setattr(STATE, "backend", found)
    monkeypatch.setattr(STATE, "on", True)
    return found
