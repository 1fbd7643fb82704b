"""The web server's worker: no client that is slow or silent keeps a thread, or the others waiting.

Gunicorn's threaded worker gives each connection a thread before anything has come, reads a request
for as long as that takes, and closes connections in its main loop. So a handful of connections on
which nothing happens, which browsers open by themselves, stop the whole server. Here a thread is
taken once a request's head is there, and a body may be silent only so long.
"""

from __future__ import annotations

import select
import selectors
import socket
import struct
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from gunicorn.workers.gthread import TConn, ThreadWorker

#: From the first look at a connection until its request's head has to be there.
HEAD_LIMIT_S = 15.0
#: A body that is silent for so long has broken off.
BODY_SILENCE_S = 20.0
#: A client that takes nothing for so long is gone, or downloads no more.
SEND_SILENCE_S = 120
_LINGER_S = 2.0
_LATE_BYTES = 64 * 1024
#: Longer heads are read by a thread; gunicorn refuses those that are too long.
_HEAD_BYTES = 32 * 1024
_HEAD_ENDS = (b"\r\n\r\n", b"\n\n")


class ImpatientSocket:
    """A socket on which silence is the end."""

    def __init__(self, wrapped: socket.socket) -> None:
        self._wrapped = wrapped
        self.is_silent = False

    def recv(self, size: int) -> bytes:
        """What comes next; nothing at the end, and if nothing comes for too long."""
        limit_s = self._wrapped.gettimeout()
        limit_s = BODY_SILENCE_S if limit_s is None else min(limit_s, BODY_SILENCE_S)
        waiting = select.poll()
        waiting.register(self._wrapped, select.POLLIN)
        self.is_silent = self.is_silent or not waiting.poll(limit_s * 1000)
        return b"" if self.is_silent else self._wrapped.recv(size)

    def __getattr__(self, name: str) -> Any:
        """Everything else is the socket's own."""
        return getattr(self._wrapped, name)


class Connection(TConn):  # type: ignore[misc]
    """One that knows how much of a head is there, and whom to ask to close it without waiting."""

    def __init__(self, linger: Callable[[Connection], None], *words: Any) -> None:
        super().__init__(*words)
        self._linger = linger
        self.seen_bytes = 0
        self.late_bytes = 0
        # The kernel counts: gunicorn makes the socket block, which this does not change.
        limit = struct.pack("@ll", SEND_SILENCE_S, 0)
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)

    def init(self) -> None:
        """Make the parser, which reads through the impatient socket."""
        is_new = not self.initialized
        super().init()
        if is_new and not self.is_http2:
            self.parser.unreader.sock = ImpatientSocket(self.sock)

    def close(self, graceful: bool = False) -> None:  # noqa: FBT001, FBT002 - gunicorn's signature
        """Close; graceful: once the other side has, so that it gets all of the reply."""
        if graceful:
            self._linger(self)
        else:
            super().close()

    def has_head(self) -> bool:
        """Whether a thread can go on with what is here; it does not wait."""
        try:
            head = self.sock.recv(_HEAD_BYTES, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except OSError:
            return True
        # Woken without anything new: the other side has closed.
        is_all = len(head) in {0, self.seen_bytes, _HEAD_BYTES}
        self.seen_bytes = len(head)
        return is_all or any(end in head for end in _HEAD_ENDS)


class PatientWorker(ThreadWorker):  # type: ignore[misc]
    """Waits in its main loop, for all connections at once."""

    def __init__(self, *words: Any) -> None:
        super().__init__(*words)
        self._lingering: dict[Connection, float] = {}

    def accept(self, listener: socket.socket) -> None:
        """Take a connection, and no thread yet."""
        try:
            client, address = listener.accept()
        except OSError:  # somebody else took it, or it is gone already
            return
        self.nr_conns += 1
        here = listener.getsockname()
        self._await_head(Connection(self._linger, self.cfg, client, address, here))

    def on_client_socket_readable(self, conn: Connection, client: socket.socket) -> None:
        """The next request of a connection that was kept."""
        self.poller.unregister(client)
        self.keepalived_conns.remove(conn)
        self._await_head(conn)

    def on_pending_socket_readable(self, conn: Connection, client: socket.socket) -> None:
        """More of a head is there, or its end."""
        self.poller.unregister(client)
        self.pending_conns.remove(conn)
        self._await_head(conn, conn.timeout)

    def _await_head(self, conn: Connection, deadline: float | None = None) -> None:
        """Give a connection a thread if its request can be read, else wait for more of it."""
        is_there = conn.has_head()
        # The loop is not woken for what it has seen.
        wanted = 1 if is_there else conn.seen_bytes + 1
        conn.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, wanted)
        if is_there:
            conn.seen_bytes = 0
            conn.data_ready = True
            self.enqueue_req(conn)
            return
        conn.timeout = deadline or time.monotonic() + HEAD_LIMIT_S
        self.pending_conns.append(conn)
        readable = partial(self.on_pending_socket_readable, conn)
        self.poller.register(conn.sock, selectors.EVENT_READ, readable)

    def handle(self, conn: Connection) -> Any:
        """Answer; whether the connection is kept. One whose request broke off is not."""
        is_kept = super().handle(conn)
        return is_kept and not getattr(conn.parser.unreader.sock, "is_silent", False)

    def _linger(self, conn: Connection) -> None:
        """Say that nothing more comes, and close when the other side does or a moment later.

        Closed at once with something unread, the system would take back what is still on its way.
        """
        try:
            conn.sock.shutdown(socket.SHUT_WR)
            conn.sock.settimeout(0)
            conn.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)
        except OSError:  # the other side was quicker
            conn.close()
            return
        self._lingering[conn] = time.monotonic() + _LINGER_S
        self.poller.register(conn.sock, selectors.EVENT_READ, partial(self._on_late, conn))

    def _on_late(self, conn: Connection, client: socket.socket) -> None:
        """What comes after the reply is read and forgotten, up to a limit."""
        try:
            late = client.recv(_LATE_BYTES)
        except BlockingIOError:
            return
        except OSError:
            late = b""
        conn.late_bytes += len(late)
        if not late or conn.late_bytes > _LATE_BYTES:
            self._forget(conn)

    def murder_pending(self) -> None:
        """Close those that have waited long enough, of either kind."""
        super().murder_pending()
        now = time.monotonic()
        for conn in [conn for conn, until in self._lingering.items() if until < now]:
            self._forget(conn)

    def _forget(self, conn: Connection) -> None:
        del self._lingering[conn]
        self.poller.unregister(conn.sock)
        conn.close()
