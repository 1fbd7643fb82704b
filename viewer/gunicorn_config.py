"""How the web server runs: few processes, some threads; SQLite works outside Python's lock."""

from __future__ import annotations

import os

wsgi_app = "viewer.wsgi:application"
worker_class = "gthread"
workers = int(os.environ.get("DLPROF_WEB_WORKERS", "1"))
threads = int(os.environ.get("DLPROF_WEB_THREADS", "8"))
timeout = 60
graceful_timeout = 3
keepalive = 15
loglevel = "warning"
# Nothing but the port shall listen.
control_socket_disable = True
# An address may carry the token: requests are not logged.
accesslog = None
