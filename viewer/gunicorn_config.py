"""How the web server runs: few processes, some threads; SQLite works outside Python's lock."""

from __future__ import annotations

import importlib
import os
import threading
from typing import Any

from viewer.logs import server_logging_settings

_KEEPER_DELAY_S = 0.5
_LONGEST_REQUEST_S = 600

wsgi_app = "viewer.wsgi:application"
worker_class = "viewer.web_worker.PatientWorker"
workers = int(os.environ.get("DLPROF_WEB_WORKERS", "1"))
threads = int(os.environ.get("DLPROF_WEB_THREADS", "32"))
timeout = 60
graceful_timeout = 3
keepalive = 15
loglevel = "warning"
logconfig_dict = server_logging_settings(os.environ.get("DLPROF_LOG_FORMAT", "line"), "WARNING")
# No header of a request says where the server lies: DLPROF_URL_PREFIX does.
forwarder_headers = ""
# Nothing but the port shall listen.
control_socket_disable = True
# An address may carry the token: requests are not logged.
accesslog = None


def post_worker_init(worker: Any) -> None:
    """Once the server answers, start to keep the jobs; that loads what the first job needs."""
    # After a reload the old process finishes its requests, exports too; at the end of the whole
    # server the time that counts is that of the process above.
    worker.cfg.set("graceful_timeout", _LONGEST_REQUEST_S)
    if os.environ.get("DLPROF_BROKER_URL") or os.environ.get("DLPROF_RUN_DIR"):
        timer = threading.Timer(_KEEPER_DELAY_S, _start_keeper)
        timer.daemon = True
        timer.start()


def _start_keeper() -> None:
    # Not at the module's top: the settings are loaded by the worker, and Celery late.
    importlib.import_module("viewer.jobs.dispatch").load()
    importlib.import_module("viewer.jobs.keeper").Keeper().start()
