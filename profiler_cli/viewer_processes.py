"""The viewer's processes: a web server and a worker, started, watched and ended together."""

from __future__ import annotations

import ctypes
import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Final, Self

from aggregator.errors import ToolError
from aggregator.plain_text import shown

_WEB: Final = ("-m", "gunicorn", "--config", "python:viewer.gunicorn_config")
_WORKER: Final = (
    *("-m", "celery", "--quiet", "--app", "aggregator", "worker"),
    # One job at a time, in the process itself: a job uses all cores where it can.
    *("--pool", "solo", "--concurrency", "1", "--loglevel", "WARNING"),
    *("--without-gossip", "--without-mingle", "--without-heartbeat"),
)
_START_LIMIT_S: Final = 60.0
_READY_POLL_S: Final = 0.05
_WATCH_POLL_S: Final = 0.2
#: The server finishes its requests within 3 s.
_STOP_LIMIT_S: Final = 5.0
_LOG_TAIL_BYTES: Final = 4_000
#: A process that ends is started again, unless it does so this often within the time.
_MAX_RESTARTS: Final = 5
_RESTART_WINDOW_S: Final = 60.0
_PR_SET_PDEATHSIG: Final = 1
_STDERR: Final = 2
_NO_WORKER: Final = (
    "dlprofviewer: warning: the worker for aggregations keeps ending; what it said is above. "
    "Profiles can be viewed, further aggregations wait."
)


class ViewerProcessError(ToolError):
    """The web server or the worker ended by itself."""

    code = "VIEWER_PROCESS_ENDED"


class StopSignal:
    """Whether somebody has asked for the end (Ctrl-C, SIGTERM, a closed terminal).

    SIGUSR1 asks for a reload instead.
    """

    _SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def __init__(self) -> None:
        self.is_set = False
        self._is_reload_wanted = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, self._on_signal) for number in self._SIGNALS}
        self._before[signal.SIGUSR1] = signal.signal(signal.SIGUSR1, self._on_reload)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.is_set = True

    def _on_reload(self, number: int, frame: FrameType | None) -> None:
        self._is_reload_wanted = True

    def take_reload(self) -> bool:
        """Whether a reload was asked for since the last look."""
        is_wanted, self._is_reload_wanted = self._is_reload_wanted, False
        return is_wanted


class Viewer:
    """The processes of one viewer; whatever happens, they end with the block."""

    def __init__(self, environment: dict[str, str], listener: socket.socket, run_dir: Path) -> None:
        self._environment = environment
        self._listener = listener
        self._run_dir = run_dir
        self._web: subprocess.Popen[bytes] | None = None
        self._worker: subprocess.Popen[bytes] | None = None
        self._starts: dict[str, list[float]] = {}
        self._has_complained = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _end([process for process in (self._web, self._worker) if process is not None])

    def start_web(self, host: str, stop: StopSignal) -> None:
        """Start the web server and wait until it answers.

        Raises:
            ViewerProcessError: It ended, or did not answer in time.
        """
        web = self._start_web_process()
        deadline = time.monotonic() + _START_LIMIT_S
        while not stop.is_set and not _answers(host, self._listener.getsockname()[1]):
            if web.poll() is not None or time.monotonic() > deadline:
                raise self._ended("web", "The web server did not start.")
            time.sleep(_READY_POLL_S)

    def _start_web_process(self) -> subprocess.Popen[bytes]:
        fd = self._listener.fileno()
        self._web = self._start((*_WEB, "--bind", f"fd://{fd}"), "web", pass_fds=(fd,))
        return self._web

    def run(self, stop: StopSignal, *, with_worker: bool) -> None:
        """Start the worker, then watch both, and start again what ends, until the end is asked for.

        Raises:
            ViewerProcessError: The web server keeps ending.
        """
        while not stop.is_set:
            if stop.take_reload():
                self._reload()
            if self._web is None or self._web.poll() is not None:
                self._restart_web()
            if with_worker and (self._worker is None or self._worker.poll() is not None):
                self._start_worker()
            time.sleep(_WATCH_POLL_S)

    def _reload(self) -> None:
        """Run the code as it is now: both finish what they have in hand.

        The web server starts processes anew and ends the old ones once their requests are done;
        the worker ends after its job and is started again.
        """
        for process in (self._web, self._worker):
            if process is not None and process.poll() is None:
                process.send_signal(signal.SIGHUP)

    def _restart_web(self) -> None:
        """Start the web server on the same socket: who asked meanwhile waits, and is answered."""
        if self._is_too_often("web"):
            raise self._ended("web", "The web server keeps ending.")
        self._start_web_process()

    def _is_too_often(self, name: str) -> bool:
        """Count a start; whether there were too many lately."""
        now = time.monotonic()
        recent = [at for at in self._starts.get(name, ()) if now - at < _RESTART_WINDOW_S]
        if len(recent) >= _MAX_RESTARTS:
            self._starts[name] = recent
            return True
        self._starts[name] = [*recent, now]
        return False

    def _start_worker(self) -> None:
        if self._is_too_often("worker"):
            # What has been aggregated can still be shown; once a minute there is another try.
            if not self._has_complained:
                self._show_log("worker")
                print(_NO_WORKER, file=sys.stderr)
            self._has_complained = True
            return
        self._worker = self._start(_WORKER, "worker")

    def _start(
        self, words: tuple[str, ...], name: str, pass_fds: tuple[int, ...] = ()
    ) -> subprocess.Popen[bytes]:
        with self._output(name) as log:
            return subprocess.Popen(
                [sys.executable, *words],
                env=self._environment,
                # Not where the user is: a folder named "viewer" there must not be imported.
                cwd=self._run_dir,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=pass_fds,
                # Ctrl-C is for this process, which ends the others in order.
                start_new_session=True,
                preexec_fn=_die_with_parent,  # noqa: PLW1509 - this process has one thread
            )

    @contextmanager
    def _output(self, name: str) -> Iterator[int]:
        """Where a process writes: this one's standard error if somebody reads logs, else a file."""
        if self._environment.get("DLPROF_LOG_FORMAT"):
            yield _STDERR
            return
        with self._log(name).open("ab") as log:
            yield log.fileno()

    def _ended(self, name: str, message: str) -> ViewerProcessError:
        """The error of a process that ended, after its last words have been shown."""
        hint = "What it said is above." if self._show_log(name) else ""
        return ViewerProcessError(message, hint=hint)

    def _show_log(self, name: str) -> bool:
        """Print the last words of a process; whether there were any."""
        if not self._log(name).exists():
            # It was written to standard error at once.
            return bool(self._environment.get("DLPROF_LOG_FORMAT"))
        tail = self._log(name).read_bytes()[-_LOG_TAIL_BYTES:].decode(errors="replace").strip()
        if tail:
            print(shown(tail), file=sys.stderr)
        return bool(tail)

    def _log(self, name: str) -> Path:
        return self._run_dir / f"{name}.log"


def _answers(host: str, port: int) -> bool:
    connection = http.client.HTTPConnection(host, port, timeout=1)
    try:
        connection.request("GET", "/healthz", headers={"Host": "localhost"})
        return connection.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _end(processes: list[subprocess.Popen[bytes]]) -> None:
    """End processes and their children: asked first, forced after a while."""
    for process in processes:
        if process.poll() is None:
            process.terminate()
    deadline = time.monotonic() + _STOP_LIMIT_S
    for process in processes:
        try:
            process.wait(timeout=max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            # It leads a group of its own, so that nothing it started outlives it.
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _die_with_parent() -> None:
    """In the child: ask Linux to end it should this command be killed outright."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
