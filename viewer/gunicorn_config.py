"""Configuration of gunicorn: one process with many threads; SQLite works outside Python's lock."""

from __future__ import annotations

import contextlib
import importlib
import json
import logging
import os
import select
import socket
import threading
import time
from typing import Any

from gunicorn.http.errors import LimitRequestHeaders, LimitRequestLine, ParseException
from gunicorn.workers.gthread import ThreadWorker

from aggregator.system.log_lines import logging_settings
from aggregator.system.process_end import skip_last_collections

_KEEPER_DELAY_S = 0.5
_LONGEST_REQUEST_S = 600
_LINGER_S = 2.0  # Without anything from the client.
_LONGEST_LINGER_S = 10.0
# A refused upload goes on for a while: most clients read the reply when they have sent all.
_LINGER_BYTES = 1 << 30
_keepers: list[Any] = []


class Worker(ThreadWorker):  # type: ignore[misc]
    """gunicorn's threaded worker, with two differences.

    Each thread waits itself until the client has closed a connection. gunicorn does that in the
    loop that accepts connections: each client that does not close stops the whole server for up to
    2 s (measured: 42 s for 30 clients). And requests that cannot be parsed are answered in JSON,
    like every other error.
    """

    def handle(self, conn: Any) -> Any:
        """Answer a request; returns False if the connection is to be closed."""
        is_kept = super().handle(conn)
        if is_kept is False:
            _linger(conn.sock)
        return is_kept

    def handle_error(self, req: Any, client: socket.socket, addr: Any, exc: Exception) -> None:
        """Answer a request that failed before or outside the application."""
        if not isinstance(exc, ParseException):
            super().handle_error(req, client, addr, exc)
            return
        status, code, message = 400, "BAD_REQUEST", "The request cannot be parsed as HTTP."
        if isinstance(exc, LimitRequestLine):
            status, code, message = 414, "ADDRESS_TOO_LONG", "The address is too long."
        elif isinstance(exc, LimitRequestHeaders):
            status, code, message = 431, "HEADERS_TOO_LARGE", "The headers are too large."
        error = {"code": code, "message": message, "hint": "", "details": {}}
        body = json.dumps({"error": error})
        self.log.warning("Invalid request from %s: %s", addr[0] if addr else "socket", exc)
        reply = (
            f"HTTP/1.1 {status} {code}\r\nConnection: close\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}"
        )
        with contextlib.suppress(OSError):
            client.sendall(reply.encode())


def _linger(connection: socket.socket) -> None:
    """End a connection so that the client gets all of the reply.

    If it were closed with unread data, the system would discard what is still on its way.
    """
    deadline = time.monotonic() + _LONGEST_LINGER_S
    unread = _LINGER_BYTES
    with contextlib.suppress(OSError):  # the client was quicker
        connection.shutdown(socket.SHUT_WR)
        poll = select.poll()
        poll.register(connection, select.POLLIN)
        while unread > 0 and poll.poll(
            max(0.0, min(_LINGER_S, deadline - time.monotonic())) * 1000
        ):
            received = len(connection.recv(65_536))
            if not received:
                break
            unread -= received
        connection.shutdown(socket.SHUT_RDWR)


class _NoTimeouts(logging.Filter):
    """Drops the traces that gunicorn logs of clients that were too slow."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not (record.exc_info and isinstance(record.exc_info[1], BlockingIOError))


wsgi_app = "viewer.wsgi:application"
worker_class = Worker
workers = int(os.environ.get("DLPROF_WEB_WORKERS", "1"))
# A thread is taken by each request and by each slow client, so that there are many; how many
# requests are worked on at the same time is limited by the application.
threads = int(os.environ.get("DLPROF_WEB_THREADS", "256"))
worker_connections = 4 * threads
timeout = 60
graceful_timeout = 3
keepalive = 15
limit_request_line = 8190
loglevel = "warning"
logconfig_dict = logging_settings(os.environ.get("DLPROF_LOG_FORMAT", "line"), "WARNING") | {
    "filters": {"no_timeouts": {"()": _NoTimeouts}},
    "loggers": {
        "gunicorn.error": {
            "handlers": ["stderr"],
            "level": "WARNING",
            "propagate": False,
            "filters": ["no_timeouts"],
        }
    },
}
# No header of a request changes the address of the server: DLPROF_URL_PREFIX does.
forwarder_headers = ""
# The server listens on nothing but the port.
control_socket_disable = True
# Requests are not logged: an address may contain the token.
accesslog = None


def post_worker_init(worker: Any) -> None:
    """Start the keeper of jobs once the server answers; it loads what the first job needs."""
    skip_last_collections()
    # After a reload the old process finishes its requests, exports and uploads included. When the
    # whole server ends, the master's own limit applies.
    worker.cfg.set("graceful_timeout", _LONGEST_REQUEST_S)
    if os.environ.get("DLPROF_BROKER_URL") or os.environ.get("DLPROF_RUN_DIR"):
        timer = threading.Timer(_KEEPER_DELAY_S, _start_keeper)
        timer.daemon = True
        timer.start()


def worker_exit(server: Any, worker: Any) -> None:
    """Copy what the workers of jobs reported last."""
    for keeper in _keepers:
        keeper.stop()


def _start_keeper() -> None:
    # Not at the module's top: the settings are loaded by the worker, and Celery late.
    importlib.import_module("viewer.jobs.dispatch").load()
    _keepers.append(importlib.import_module("viewer.jobs.keeper").Keeper())
    _keepers[-1].start()
