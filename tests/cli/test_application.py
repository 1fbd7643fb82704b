"""The application goes on, whatever fails in dlprof while it runs."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from profiler_cli.capture import processes, running
from profiler_cli.capture.collection import Ending
from profiler_cli.capture.nsight import Nsys
from profiler_cli.capture.own import OwnCollection


def test_error_while_a_profile_is_saved_leaves_the_application_its_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "SAVE_AFTER_S", 0.0)
    saved = tmp_path / "saved"

    def save(_: Path) -> None:
        saved.touch()
        raise OSError("no space")

    # GIVEN an application that was asked to end, and writes a checkpoint first
    code = f"import os, time\nwhile not os.path.exists({str(saved)!r}): time.sleep(0.01)"
    options: Any = SimpleNamespace(end_with_dlprof=False, verbosity="normal", duration=0, delay=0)
    collection: Any = SimpleNamespace(is_nsys=False, save=save, stop=lambda: None, poll=print)
    console: Any = SimpleNamespace(message=lambda _: None)
    ending = Ending(signals=[signal.SIGHUP])
    monkeypatch.setattr(processes, "send", lambda *_: None)
    application = running.Application(options, console, collection, tmp_path / "run", ending)

    class Gpus:
        started = staticmethod(lambda: None)

        def __enter__(self) -> None: ...

        def __exit__(self, *_: object) -> None: ...

    gpus: Any = Gpus()
    # WHEN its profile cannot be saved meanwhile
    application.run([sys.executable, "-c", code], os.environ, gpus)
    # THEN it ends by itself
    assert ending.code == 0


def test_process_of_another_user_may_still_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: int) -> None:
        raise PermissionError

    collection = OwnCollection(Nsys(Path(), ()), records=tmp_path)
    (tmp_path / "123-1.records").touch()
    monkeypatch.setattr(os, "kill", refuse)
    assert not collection._are_complete()
    (tmp_path / "complete.123").touch()
    assert collection._are_complete()
