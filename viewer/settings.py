"""Django's settings."""

from __future__ import annotations

from pathlib import Path

from aggregator.system.file_systems import file_system, is_network
from aggregator.system.log_lines import logging_settings
from viewer.environment import Environment, own_addresses, read_or_make_secret_key

LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "[::1]")

ENVIRONMENT = Environment.read()
PACKAGE = Path(__file__).resolve().parent

DEBUG = False
SECRET_KEY = read_or_make_secret_key(ENVIRONMENT.state_dir)
ALLOWED_HOSTS = [
    *LOOPBACK_HOSTS,
    *([] if ENVIRONMENT.is_loopback else own_addresses()),
    *ENVIRONMENT.allowed_hosts,
]
ROOT_URLCONF = "viewer.urls"
WSGI_APPLICATION = "viewer.wsgi.application"
# An address without its last slash is a 404 like any other; a redirect would lose a POST's body.
APPEND_SLASH = False
USE_TZ = True
TIME_ZONE = "UTC"
USE_I18N = False
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

INSTALLED_APPS = [
    "django.contrib.staticfiles",
    "rest_framework",
    "drf_spectacular",
    "viewer.state",
]
MIDDLEWARE = [
    "viewer.security.metrics.MetricsMiddleware",
    "viewer.api.language.LanguageMiddleware",
    "viewer.security.http.SecurityHeadersMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.middleware.gzip.GZipMiddleware",
    "django.middleware.http.ConditionalGetMiddleware",
    "viewer.security.access.AccessMiddleware",
    "viewer.security.http.RequestLimitsMiddleware",
    "django.middleware.common.CommonMiddleware",
    "viewer.security.access.ChangeGuardMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [PACKAGE / "templates"],
        "OPTIONS": {"autoescape": True},
    }
]

# --- the viewer's own state: jobs -----------------------------------------------------------------

# A write-ahead log lets the page ask for a job's progress while it is written. It needs memory that
# all its users share, which a network file system does not have.
_LOCAL_JOURNAL = "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;"
_NETWORK_JOURNAL = "PRAGMA journal_mode=TRUNCATE; PRAGMA synchronous=FULL;"
IS_STATE_ON_NETWORK = is_network(file_system(ENVIRONMENT.state_dir))
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": ENVIRONMENT.state_dir / "viewer.sqlite3",
        "OPTIONS": {
            "timeout": 10,
            "transaction_mode": "IMMEDIATE",
            "init_command": _NETWORK_JOURNAL if IS_STATE_ON_NETWORK else _LOCAL_JOURNAL,
        },
    }
}

# --- static files: served from the package, no collectstatic --------------------------------------

# A proxy may serve the viewer below a path; the server's own addresses then begin with it.
FORCE_SCRIPT_NAME = ENVIRONMENT.url_prefix or None
STATIC_URL = f"{ENVIRONMENT.url_prefix}/static/"
WHITENOISE_STATIC_PREFIX = "/static/"
STATIC_FILES = PACKAGE / "static"
STATICFILES_DIRS = [STATIC_FILES] if STATIC_FILES.is_dir() else []
STATICFILES_FINDERS = ["django.contrib.staticfiles.finders.FileSystemFinder"]
WHITENOISE_USE_FINDERS = True
WHITENOISE_AUTOREFRESH = False

# --- security -------------------------------------------------------------------------------------

# A proxy with TLS in front makes the page's origin https, which this server cannot see.
CSRF_TRUSTED_ORIGINS = [f"https://{name}" for name in ENVIRONMENT.allowed_hosts if "*" not in name]
CSRF_COOKIE_SAMESITE = "Strict"
CSRF_COOKIE_PATH = f"{ENVIRONMENT.url_prefix}/"
CSRF_FAILURE_VIEW = "viewer.errors.csrf_failure"
# Requests hold small JSON documents only.
DATA_UPLOAD_MAX_MEMORY_SIZE = 64 * 1024

# --- API ------------------------------------------------------------------------------------------

REST_FRAMEWORK = {
    "DEFAULT_RENDERER_CLASSES": ["viewer.api.language.LocalizedJSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["viewer.api.bodies.ShallowJSONParser"],
    # Access and changes are decided by the middleware, for pages and API alike.
    "DEFAULT_AUTHENTICATION_CLASSES": [],
    "DEFAULT_PERMISSION_CLASSES": [],
    "UNAUTHENTICATED_USER": None,
    "UNAUTHENTICATED_TOKEN": None,
    "EXCEPTION_HANDLER": "viewer.errors.exception_handler",
    "DEFAULT_SCHEMA_CLASS": "viewer.api.schema.ResourceSchema",
    # "format" is the export's own parameter.
    "URL_FORMAT_OVERRIDE": None,
}
SPECTACULAR_SETTINGS = {
    "TITLE": "DLProf Viewer",
    "VERSION": "1",
    "DESCRIPTION": "Profiles, their aggregations, and the jobs that make further ones.",
    "SERVE_INCLUDE_SCHEMA": False,
    "SERVE_PERMISSIONS": [],
    "SERVE_AUTHENTICATION": [],
    "OAS_VERSION": "3.1.0",
    "POSTPROCESSING_HOOKS": ["viewer.api.schema.finish"],
    "ENUM_GENERATE_CHOICE_DESCRIPTION": False,
    "COMPONENT_SPLIT_PATCH": False,
}

LOGGING = logging_settings(ENVIRONMENT.log_format, ENVIRONMENT.log_level) | {
    # 4xx replies are not logged.
    "loggers": {
        "django.request": {"level": "ERROR"},
        "django.security": {"level": "ERROR"},
    },
}
