"""The server's entry point."""

from __future__ import annotations

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "viewer.settings")

application = get_wsgi_application()

# After the applications are loaded: the state database is theirs.
from viewer.state import prepare_state  # noqa: E402

prepare_state()
