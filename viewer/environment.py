"""What the viewer is told through environment variables, read once and checked."""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "[::1]")
_16_GIB = 16 * 2**30
_8_MIB = 8 * 2**20
_ONE_DAY_S = 24 * 3600


@dataclass(frozen=True)
class Environment:
    """Configuration of one viewer.

    Attributes:
        databases: Files, and folders of files, to serve (``DLPROF_DATABASES``, separated as PATH).
        state_dir: Where jobs and the secret key live (``DLPROF_STATE_DIR``, else
            ``$XDG_STATE_HOME/dlprof``, else ``~/.local/state/dlprof``).
        bind: Address that the server listens on (``DLPROF_BIND``).
        port: Port that the server listens on; part of the cookie's name (``DLPROF_PORT``).
        token: What a client must show; empty: nothing (``DLPROF_TOKEN``).
        no_auth: A non-loopback address without a token, on purpose (``DLPROF_NO_AUTH=1``).
        allowed_hosts: Further names for the Host header (``DLPROF_ALLOWED_HOSTS``, by comma).
        query_timeout_s: Time limit of one request's queries (``DLPROF_QUERY_TIMEOUT_S``).
        export_timeout_s: Time limit of an export (``DLPROF_EXPORT_TIMEOUT_S``).
        profile_folders: Folders, besides those served, whose files may be registered
            (``DLPROF_PROFILE_FOLDERS``, separated as PATH).
        upload_dir: Where uploaded and imported profiles are stored (``DLPROF_UPLOAD_DIR``, else
            ``profiles`` in the state folder). Workers elsewhere need it at the same path.
        max_profile_bytes: Largest file that is taken (``DLPROF_MAX_PROFILE_BYTES``).
        upload_quota_bytes: What all stored profiles may take together; 0: as much as there is
            (``DLPROF_UPLOAD_QUOTA_BYTES``).
        upload_chunk_bytes: Largest part of an upload in one request
            (``DLPROF_UPLOAD_CHUNK_BYTES``).
        upload_expiry_s: An upload that nobody goes on with is removed after that long
            (``DLPROF_UPLOAD_EXPIRY_S``).
        max_queued_jobs: Jobs that may wait (``DLPROF_MAX_QUEUED_JOBS``).
        started_at: When the command was started, as seconds since 1970; 0: unknown. What was
            unlisted before and is named again is listed again (``DLPROF_STARTED_AT``).
        url_prefix: Path below which a proxy serves the viewer, ``/dlprof``; empty: the root
            (``DLPROF_URL_PREFIX``).
        log_format: ``line`` or ``json`` (``DLPROF_LOG_FORMAT``).
        log_level: Least important lines to log (``DLPROF_LOG_LEVEL``).
        feedback: Web or mail address that feedback goes to (``DLPROF_FEEDBACK``); empty: a mail
            without an address.
    """

    databases: tuple[Path, ...]
    state_dir: Path
    bind: str
    port: int
    token: str
    no_auth: bool
    allowed_hosts: tuple[str, ...]
    query_timeout_s: float
    export_timeout_s: float
    profile_folders: tuple[Path, ...]
    upload_dir: Path
    max_profile_bytes: int
    upload_quota_bytes: int
    upload_chunk_bytes: int
    upload_expiry_s: float
    max_queued_jobs: int
    started_at: float
    url_prefix: str
    log_format: str
    log_level: str
    feedback: str = ""

    @classmethod
    def read(cls, variables: Mapping[str, str] = os.environ) -> Environment:
        """Read the process's environment."""
        state_dir = _state_dir(variables)
        return cls(
            databases=_paths(variables.get("DLPROF_DATABASES", "")),
            state_dir=state_dir,
            bind=variables.get("DLPROF_BIND", "127.0.0.1"),
            port=int(variables.get("DLPROF_PORT", "8000")),
            token=variables.get("DLPROF_TOKEN", ""),
            no_auth=variables.get("DLPROF_NO_AUTH", "") == "1",
            allowed_hosts=_names(variables.get("DLPROF_ALLOWED_HOSTS", "")),
            query_timeout_s=float(variables.get("DLPROF_QUERY_TIMEOUT_S", "10")),
            export_timeout_s=float(variables.get("DLPROF_EXPORT_TIMEOUT_S", "600")),
            profile_folders=_paths(variables.get("DLPROF_PROFILE_FOLDERS", "")),
            upload_dir=Path(variables.get("DLPROF_UPLOAD_DIR") or state_dir / "profiles").resolve(),
            max_profile_bytes=int(variables.get("DLPROF_MAX_PROFILE_BYTES", _16_GIB)),
            upload_quota_bytes=int(variables.get("DLPROF_UPLOAD_QUOTA_BYTES", "0")),
            upload_chunk_bytes=int(variables.get("DLPROF_UPLOAD_CHUNK_BYTES", _8_MIB)),
            upload_expiry_s=float(variables.get("DLPROF_UPLOAD_EXPIRY_S", _ONE_DAY_S)),
            max_queued_jobs=int(variables.get("DLPROF_MAX_QUEUED_JOBS", "5000")),
            started_at=float(variables.get("DLPROF_STARTED_AT", "0")),
            url_prefix=_prefix(variables.get("DLPROF_URL_PREFIX", "")),
            log_format=variables.get("DLPROF_LOG_FORMAT", "line"),
            log_level=variables.get("DLPROF_LOG_LEVEL", "WARNING").upper(),
            feedback=variables.get("DLPROF_FEEDBACK", ""),
        )

    @property
    def open_folders(self) -> tuple[Path, ...]:
        """Folders whose files may be registered: those served, and those named for it."""
        served = tuple(path for path in self.databases if path.is_dir())
        return (*served, *self.profile_folders)

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach the server."""
        return is_loopback(self.bind)


def is_loopback(address: str) -> bool:
    """Whether an address or host name is this machine's own loopback."""
    if address == "localhost":
        return True
    try:
        return ipaddress.ip_address(address.strip("[]")).is_loopback
    except ValueError:
        return False


def _paths(value: str) -> tuple[Path, ...]:
    return tuple(Path(part).resolve() for part in value.split(os.pathsep) if part)


def _prefix(value: str) -> str:
    """``dlprof/``, ``/dlprof`` and ``/dlprof/`` all mean ``/dlprof``."""
    plain = value.strip("/ ")
    if not re.fullmatch(r"[A-Za-z0-9._~/-]*", plain) or ".." in plain or "//" in plain:
        raise ValueError("DLPROF_URL_PREFIX must be a path of plain characters")
    return f"/{plain}" if plain else ""


def _names(value: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in value.split(",") if name.strip())


def _state_dir(variables: Mapping[str, str]) -> Path:
    if configured := variables.get("DLPROF_STATE_DIR"):
        return Path(configured).resolve()
    base = variables.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    state_dir = Path(base) / "dlprof"
    run_dir = variables.get("DLPROF_RUN_DIR")
    # Where there is no home to write to (a container, a service), jobs last as long as the viewer.
    return Path(run_dir) / "state" if run_dir and not _can_be_made(state_dir) else state_dir


def _can_be_made(folder: Path) -> bool:
    nearest = next(path for path in (folder, *folder.parents) if path.exists())
    return nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK)
