"""The processes of the viewer, a web server and a worker: start, restart and end them."""

from __future__ import annotations

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
from types import FrameType
from typing import Final

from aggregator.errors import ToolError
from aggregator.system.plain_text import escape_control_characters
from profiler_cli.capture.processes import end_with_parent

_WEB: Final = ("-m", "gunicorn", "--config", "python:viewer.gunicorn_config")
_WORKER: Final = ("-m", "aggregator.jobs.celery_worker")
_START_LIMIT_S: Final = 60.0
_READY_POLL_S: Final = 0.05
_WATCH_POLL_S: Final = 0.2
#: The server finishes its requests within 3 s.
_STOP_LIMIT_S: Final = 5.0
_LOG_TAIL_BYTES: Final = 4_000
_MAX_LOG_BYTES: Final = 16 * 2**20
#: A process that ends is started again, unless it does so this often within the time.
_MAX_RESTARTS: Final = 5
_RESTART_WINDOW_S: Final = 60.0
_STDERR: Final = 2
_NO_WORKER: Final = (
    "dlprofviewer: warning: the worker for aggregations keeps ending; its output is above. "
    "Profiles can be viewed, further aggregations wait."
)


class ViewerProcessError(ToolError):
    """The web server or the worker ended unexpectedly."""

    code = "VIEWER_PROCESS_ENDED"


class StopSignal:
    """Requests by signals: the end (Ctrl-C, SIGTERM, a closed terminal) or a reload (SIGUSR1)."""

    def __init__(self) -> None:
        self.is_set = False
        self.is_reload = False

    def on_signal(self, number: int, frame: FrameType | None) -> None:
        """Note a signal."""
        self.is_set |= number != signal.SIGUSR1
        self.is_reload |= number == signal.SIGUSR1


@contextmanager
def stop_signal() -> Iterator[StopSignal]:
    """Receive signals within the block."""
    stop = StopSignal()
    wanted = [signal.SIGINT, signal.SIGTERM, signal.SIGUSR1]
    # nohup ignores SIGHUP, and it stays ignored.
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        wanted.append(signal.SIGHUP)
    before = {number: signal.signal(number, stop.on_signal) for number in wanted}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Viewer:
    """The processes of one viewer."""

    def __init__(self, environment: dict[str, str], listener: socket.socket, run_dir: Path) -> None:
        self._environment = environment
        self._listener = listener
        self._run_dir = run_dir
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._starts: dict[str, list[float]] = {}
        self._has_complained = False

    def end(self) -> None:
        """End the processes."""
        # The worker first: the keeper of jobs, in the web server, copies what it reports last.
        for name in ("worker", "web"):
            if name in self._processes:
                _end(self._processes[name])

    def start_web(self, host: str, stop: StopSignal) -> None:
        """Start the web server and wait until it answers.

        Raises:
            ViewerProcessError: It ended, or did not answer in time.
        """
        self._start_web()
        deadline = time.monotonic() + _START_LIMIT_S
        while not stop.is_set and not _answers(host, self._listener.getsockname()[1]):
            if not self._is_running("web") or time.monotonic() > deadline:
                raise self._ended("web", "The web server did not start.")
            time.sleep(_READY_POLL_S)

    def _start_web(self) -> None:
        fd = self._listener.fileno()
        self._start((*_WEB, "--bind", f"fd://{fd}"), "web", pass_fds=(fd,))

    def _is_running(self, name: str) -> bool:
        return name in self._processes and self._processes[name].poll() is None

    def run(self, stop: StopSignal, *, with_worker: bool) -> None:
        """Start the worker, and restart the processes that end, until a signal asks for the end.

        Raises:
            ViewerProcessError: The web server keeps ending.
        """
        while not stop.is_set:
            if stop.is_reload:
                stop.is_reload = False
                self._reload()
            if not self._is_running("web"):
                if self._is_too_often("web"):
                    raise self._ended("web", "The web server keeps ending.")
                # On the same socket, where requests have been waiting.
                self._start_web()
            if with_worker and not self._is_running("worker"):
                self._start_worker()
            for name in ("web", "worker"):
                _limit_log(self._log(name))
            time.sleep(_WATCH_POLL_S)

    def _reload(self) -> None:
        """Load the code again.

        The web server starts new processes and ends the old ones after their requests; the worker
        ends after its job and is started again.
        """
        for process in self._processes.values():
            process.send_signal(signal.SIGHUP)

    def _is_too_often(self, name: str) -> bool:
        """Count a start; return whether there were too many lately."""
        now = time.monotonic()
        recent = [at for at in self._starts.get(name, ()) if now - at < _RESTART_WINDOW_S]
        if len(recent) >= _MAX_RESTARTS:
            self._starts[name] = recent
            return True
        self._starts[name] = [*recent, now]
        return False

    def _start_worker(self) -> None:
        if self._is_too_often("worker"):
            # The profiles can still be viewed; once a minute another start is tried.
            if not self._has_complained:
                self._show_log("worker")
                print(_NO_WORKER, file=sys.stderr)
            self._has_complained = True
            return
        self._start(_WORKER, "worker")

    def _start(self, words: tuple[str, ...], name: str, pass_fds: tuple[int, ...] = ()) -> None:
        with self._output(name) as log:
            self._processes[name] = subprocess.Popen(
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
                preexec_fn=_begin_child,  # noqa: PLW1509 - this process has one thread
            )

    @contextmanager
    def _output(self, name: str) -> Iterator[int]:
        """Open the output of a process: standard error if a log format is set, else a file."""
        if self._environment.get("DLPROF_LOG_FORMAT"):
            yield _STDERR
            return
        with self._log(name).open("ab") as log:
            yield log.fileno()

    def _ended(self, name: str, message: str) -> ViewerProcessError:
        hint = "Its output is above." if self._show_log(name) else ""
        return ViewerProcessError(message, hint=hint)

    def _show_log(self, name: str) -> bool:
        """Print the end of the log of a process; return whether there is any."""
        if not self._log(name).exists():
            # It was written to standard error.
            return bool(self._environment.get("DLPROF_LOG_FORMAT"))
        tail = self._log(name).read_bytes()[-_LOG_TAIL_BYTES:].decode(errors="replace").strip()
        if tail:
            print(escape_control_characters(tail), file=sys.stderr)
        return bool(tail)

    def _log(self, name: str) -> Path:
        return self._run_dir / f"{name}.log"


def _limit_log(log: Path) -> None:
    """Keep the end of a log that has grown too long; its process appends to it."""
    try:
        if log.stat().st_size > _MAX_LOG_BYTES:
            end = log.read_bytes()[-_LOG_TAIL_BYTES:]
            os.truncate(log, 0)
            with log.open("ab") as file:
                file.write(end)
    except OSError:  # no log yet, or no room for its end
        return


def _answers(host: str, port: int) -> bool:
    connection = http.client.HTTPConnection(host, port, timeout=1)
    try:
        connection.request("GET", "/healthz", headers={"Host": "localhost"})
        return connection.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process and its children: by SIGTERM, after a while by SIGKILL."""
    process.terminate()
    try:
        process.wait(timeout=_STOP_LIMIT_S)
    except subprocess.TimeoutExpired:
        # It leads a group of its own.
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _begin_child() -> None:
    """Have Linux end the child if this command is killed, and let SIGHUP reload it."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    end_with_parent()
