"""The server's entry point."""

from __future__ import annotations

import os

from django.core.wsgi import get_wsgi_application

from viewer.prefix import Application, below_prefix

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "viewer.settings")

application: Application = get_wsgi_application()

# After the applications are loaded: the settings are theirs, and so is the state database.
from django.conf import settings  # noqa: E402

from viewer.head_requests import without_bodies  # noqa: E402
from viewer.state import prepare_state  # noqa: E402

if settings.ENVIRONMENT.url_prefix:
    application = below_prefix(application, settings.ENVIRONMENT.url_prefix)
application = without_bodies(application)
prepare_state()
