"""The application goes on, whatever fails in dlprof while it runs."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from profiler_cli.capture import processes, running
from profiler_cli.capture.capture_session import Ending
from profiler_cli.capture.cupti_collector import OwnCollection
from profiler_cli.capture.nsight import Nsys


def _run(folder: Path, code: str, save: Callable[[Path], None], *signals: int) -> Ending:
    """Run a program of Python; returns how it ended."""
    options: Any = SimpleNamespace(end_with_dlprof=False, verbosity="normal", duration=0, delay=0)
    collection: Any = SimpleNamespace(
        is_nsys=False, is_recording=True, save=save, stop=lambda: None, poll=print
    )
    console: Any = SimpleNamespace(message=lambda _: None)
    ending = Ending(signals=list(signals))
    application = running.Application(options, console, collection, folder / "run", ending)
    gpus: Any = nullcontext()
    gpus.started = lambda: None
    application.run([sys.executable, "-c", code], os.environ, gpus)
    return ending


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
    monkeypatch.setattr(processes, "send", lambda *_: None)
    # WHEN its profile cannot be saved meanwhile
    ending = _run(tmp_path, code, save, signal.SIGHUP)
    # THEN it ends by itself
    assert ending.code == 0


def test_engine_is_loaded_while_the_application_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded, name = tmp_path / "loaded", "engine_of_this_test"
    (tmp_path / f"{name}.py").write_text(
        "import pathlib, signal\n"
        f"path = pathlib.Path({str(loaded)!r})\n"
        "part = path.with_name('part')\n"
        "part.write_text(repr(sorted(signal.pthread_sigmask(signal.SIG_BLOCK, []))))\n"
        "part.replace(path)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(running, "ENGINE", ("no_such_module_of_dlprof", name))
    monkeypatch.setattr(running, "LOAD_AFTER_S", 0.0)
    # GIVEN an application that ends when the engine is there, and a module that cannot be loaded
    code = f"import os, time\nwhile not os.path.exists({str(loaded)!r}): time.sleep(0.01)"
    failing = _run(tmp_path, "import time; time.sleep(0.3)", lambda _: None)
    assert (failing.code, loaded.exists()) == (0, False)
    monkeypatch.setattr(running, "ENGINE", (name,))
    assert _run(tmp_path, code, lambda _: None).code == 0
    # THEN signals for dlprof reach none of its threads
    assert f"<Signals.SIGTERM: {signal.SIGTERM.value}>" in loaded.read_text()


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


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (128 + signal.SIGINT, "was ended by SIGINT"),
        (3, "ended after SIGINT with exit code 3"),
        (0, "ended after SIGINT with exit code 0"),
    ],
)
def test_a_program_that_handled_a_signal_was_not_ended_by_it(code: int, words: str) -> None:
    assert Ending(code=code, signals=[signal.SIGINT]).words == words
