"""How the web server runs: few processes, some threads; SQLite works outside Python's lock."""

from __future__ import annotations

import importlib
import os
import threading
from typing import Any

_KEEPER_DELAY_S = 0.5

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
    """Once the server answers, start to keep the jobs; that loads what the first job needs."""
    if os.environ.get("DLPROF_BROKER_URL") or os.environ.get("DLPROF_RUN_DIR"):
        timer = threading.Timer(_KEEPER_DELAY_S, _start_keeper)
        timer.daemon = True
        timer.start()


def _start_keeper() -> None:
    # Not at the module's top: the settings are loaded by the worker, and Celery late.
    importlib.import_module("viewer.jobs.dispatch").load()
    importlib.import_module("viewer.jobs.keeper").Keeper().start()
