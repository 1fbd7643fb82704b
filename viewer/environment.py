"""What the viewer is told through environment variables, read once and checked."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "[::1]")


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

    @classmethod
    def read(cls, variables: Mapping[str, str] = os.environ) -> Environment:
        """Read the process's environment."""
        return cls(
            databases=_paths(variables.get("DLPROF_DATABASES", "")),
            state_dir=_state_dir(variables),
            bind=variables.get("DLPROF_BIND", "127.0.0.1"),
            port=int(variables.get("DLPROF_PORT", "8000")),
            token=variables.get("DLPROF_TOKEN", ""),
            no_auth=variables.get("DLPROF_NO_AUTH", "") == "1",
            allowed_hosts=_names(variables.get("DLPROF_ALLOWED_HOSTS", "")),
            query_timeout_s=float(variables.get("DLPROF_QUERY_TIMEOUT_S", "10")),
            export_timeout_s=float(variables.get("DLPROF_EXPORT_TIMEOUT_S", "600")),
        )

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
