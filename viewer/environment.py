"""The environment variables that configure a viewer, and what is taken from its machine."""

from __future__ import annotations

import contextlib
import fcntl
import ipaddress
import os
import re
import secrets
import socket
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

_16_GIB = 16 * 2**30
_ONE_DAY_S = 24 * 3600


def _paths(value: str) -> tuple[Path, ...]:
    return tuple(Path(part).resolve() for part in value.split(os.pathsep) if part)


def _names(value: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in value.split(",") if name.strip())


def _prefix(value: str) -> str:
    """Return ``/dlprof`` for ``dlprof/``, ``/dlprof`` and ``/dlprof/``."""
    plain = value.strip("/ ")
    if not re.fullmatch(r"[A-Za-z0-9._~/-]*", plain) or ".." in plain or "//" in plain:
        raise ValueError("DLPROF_URL_PREFIX must be a path of plain characters")
    return f"/{plain}" if plain else ""


def _variable(name: str, default: str = "", read: Callable[[str], Any] = str) -> Any:
    """A field that holds the value of an environment variable, as ``read`` converts its text."""
    return field(metadata={"read": lambda variables: read(variables.get(name, default))})


@dataclass(frozen=True)
class Environment:
    """Configuration of one viewer."""

    # Where jobs and the secret key live (``DLPROF_STATE_DIR``, else ``$XDG_STATE_HOME/dlprof``,
    # else ``~/.local/state/dlprof``).
    state_dir: Path
    # Where uploaded and imported profiles are stored (``DLPROF_UPLOAD_DIR``, else ``profiles`` in
    # the state folder). Workers on other hosts need it at the same path.
    upload_dir: Path
    # Files, and folders of files, to serve, separated as PATH.
    databases: tuple[Path, ...] = _variable("DLPROF_DATABASES", read=_paths)
    bind: str = _variable("DLPROF_BIND", "127.0.0.1")  # Address that the server listens on.
    # Port that the server listens on; part of the cookie's name.
    port: int = _variable("DLPROF_PORT", "8000", int)
    token: str = _variable("DLPROF_TOKEN")  # Required from clients; empty: none.
    # No token on any address.
    no_auth: bool = _variable("DLPROF_NO_AUTH", read=lambda value: value == "1")
    # Further names for the Host header, separated by commas.
    allowed_hosts: tuple[str, ...] = _variable("DLPROF_ALLOWED_HOSTS", read=_names)
    # Time limits of one request's queries, and of an export.
    query_timeout_s: float = _variable("DLPROF_QUERY_TIMEOUT_S", "10", float)
    export_timeout_s: float = _variable("DLPROF_EXPORT_TIMEOUT_S", "600", float)
    # Folders, besides those served, whose files may be registered, separated as PATH.
    profile_folders: tuple[Path, ...] = _variable("DLPROF_PROFILE_FOLDERS", read=_paths)
    # Largest file that is accepted.
    max_profile_bytes: int = _variable("DLPROF_MAX_PROFILE_BYTES", str(_16_GIB), int)
    # What all stored profiles may take together; 0: no limit.
    upload_quota_bytes: int = _variable("DLPROF_UPLOAD_QUOTA_BYTES", "0", int)
    # An upload that no profile is made of is removed after that long.
    upload_expiry_s: float = _variable("DLPROF_UPLOAD_EXPIRY_S", str(_ONE_DAY_S), float)
    max_queued_jobs: int = _variable("DLPROF_MAX_QUEUED_JOBS", "5000", int)  # Jobs that may wait.
    # Whether clients of other machines, too, may see and record this user's jobs that stand by.
    record_jobs: bool = _variable("DLPROF_RECORD_JOBS", read=lambda value: value == "1")
    # When the command was started, in seconds since 1970; 0: unknown. A file that was removed from
    # the list before and is named again is listed.
    started_at: float = _variable("DLPROF_STARTED_AT", "0", float)
    # Path below which a proxy serves the viewer, ``/dlprof``; empty: the root.
    url_prefix: str = _variable("DLPROF_URL_PREFIX", read=_prefix)
    log_format: str = _variable("DLPROF_LOG_FORMAT", "line")  # ``line`` or ``json``.
    log_level: str = _variable("DLPROF_LOG_LEVEL", "WARNING", str.upper)
    # Web or mail address that feedback goes to; empty: the page has no such link.
    feedback: str = _variable("DLPROF_FEEDBACK")

    @classmethod
    def read(cls, variables: Mapping[str, str] = os.environ) -> Environment:
        """Read the process's environment."""
        state_dir = _state_dir(variables)
        upload_dir = Path(variables.get("DLPROF_UPLOAD_DIR") or state_dir / "profiles").resolve()
        readers = {item.name: item.metadata["read"] for item in fields(cls) if item.metadata}
        values = {name: read(variables) for name, read in readers.items()}
        return cls(state_dir=state_dir, upload_dir=upload_dir, **values)

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
    """Return whether an address or host name is this machine's own loopback."""
    if address == "localhost":
        return True
    try:
        return ipaddress.ip_address(address.strip("[]")).is_loopback
    except ValueError:
        return False


def _state_dir(variables: Mapping[str, str]) -> Path:
    if configured := variables.get("DLPROF_STATE_DIR"):
        return Path(configured).resolve()
    base = variables.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    state_dir = Path(base) / "dlprof"
    run_dir = variables.get("DLPROF_RUN_DIR")
    # Without a writable home (a container, a service) the state lasts as long as the viewer.
    return Path(run_dir) / "state" if run_dir and not _can_be_made(state_dir) else state_dir


def _can_be_made(folder: Path) -> bool:
    nearest = next(path for path in (folder, *folder.parents) if path.exists())
    return nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK)


# Linux's request for the IPv4 address of an interface.
_SIOCGIFADDR = 0x8915
_IF_INET6 = Path("/proc/net/if_inet6")


def own_addresses() -> list[str]:
    """Host name, full name and interface addresses of this machine, as in a Host header."""
    name = socket.gethostname()
    addresses = (*_interface_addresses(), *_interface_addresses_v6())
    return list(dict.fromkeys([name, socket.getfqdn(), *addresses]))


def _interface_addresses() -> Iterator[str]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, interface in socket.if_nameindex():
            request = struct.pack("256s", interface[:15].encode())
            with contextlib.suppress(OSError):  # an interface without an IPv4 address
                reply = fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, request)
                yield socket.inet_ntoa(reply[20:24])


def _interface_addresses_v6() -> Iterator[str]:
    with contextlib.suppress(OSError):  # a system without IPv6
        for line in _IF_INET6.read_text().splitlines():
            address = ipaddress.IPv6Address(bytes.fromhex(line.split()[0]))
            # A link's own addresses need the link's name, which no Host header has.
            if not address.is_link_local:
                yield f"[{address}]"


def read_or_make_secret_key(state_dir: Path) -> str:
    """Return the key of a state folder, which is created on first use.

    Several processes may start at once: the first creates the file, the others read it.
    """
    if configured := os.environ.get("DLPROF_SECRET_KEY"):
        return configured
    state_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = state_dir / "secret_key"
    if not path.exists():
        draft = path.with_name(f"{path.name}.{os.getpid()}")
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_urlsafe(50))
        try:
            # Unlike a rename, a link does not replace what another process has put there.
            path.hardlink_to(draft)
        except FileExistsError:
            pass
        finally:
            draft.unlink()
    return path.read_text()
