"""How the web server runs: few processes, some threads; SQLite works outside Python's lock."""

from __future__ import annotations

import importlib
import os
import threading
from typing import Any

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


def post_worker_init(worker: Any) -> None:
    """Once the server answers, load what the first job needs, so that its click is quick."""
    if os.environ.get("DLPROF_BROKER_URL") or os.environ.get("DLPROF_RUN_DIR"):
        timer = threading.Timer(1.0, importlib.import_module, args=["aggregator.celery_app"])
        timer.daemon = True
        timer.start()
