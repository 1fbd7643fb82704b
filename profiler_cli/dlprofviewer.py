"""The command ``dlprofviewer``: checks the databases, starts the web server and its worker."""

from __future__ import annotations

import argparse
import errno
import os
import socket
import struct
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from aggregator.dldb.reader import open_database
from aggregator.errors import DatabaseError, DlprofError, ToolError, UsageError
from aggregator.jobs.broker_address import broker_url, is_loopback
from aggregator.system.plain_text import escape_control_characters
from aggregator.system.temporary_files import temporary_folder
from profiler_cli.console import EXIT_DONE, print_error, program_version
from profiler_cli.options.token import read_token
from profiler_cli.viewer_processes import StopSignal, Viewer, stop_signal

DEFAULT_ADDRESS: Final = "127.0.0.1"
DEFAULT_PORT: Final = 8000
DATABASE_SUFFIX: Final = ".sqlite"
METRICS_FOLDER: Final = "metrics"
_BACKLOG: Final = 256
_RECEIVE_LIMIT_S: Final = 20
_SEND_LIMIT_S: Final = 120
# Modules of the extra "viewer".
_VIEWER_MODULES: Final = (
    *("celery", "django", "drf_spectacular", "gunicorn", "prometheus_client", "redis"),
    *("reportlab", "rest_framework", "whitenoise", "xlsxwriter"),
)
_TOKEN_VARIABLES: Final = ("DLPROF_TOKEN", "DLPROF_TOKEN_FILE")
# What only a viewer behind a proxy needs.
_PROXY_VARIABLES: Final = ("DLPROF_ALLOWED_HOSTS", "DLPROF_URL_PREFIX", "FORWARDED_ALLOW_IPS")
_OPEN_TO_ALL: Final = (
    "--no-auth: everybody who reaches this address, or a proxy in front of it, can read, change "
    "and delete profiles."
)
_CONTAINER_MARKS: Final = (Path("/.dockerenv"), Path("/run/.containerenv"))


class ViewerNotInstalledError(ToolError):
    """The packages of the viewer are not installed."""

    code = "VIEWER_NOT_INSTALLED"


class AddressError(UsageError):
    """The address or port cannot be listened on."""

    code = "ADDRESS_UNUSABLE"


@dataclass(frozen=True)
class Options:
    """Options of the command line."""

    address: str  # Address to listen on.
    port: int  # Port to listen on; 0: any that is free.
    auth: bool  # Require the token on a loopback address too.
    no_auth: bool  # Require no token on any address.
    allowed_hosts: Sequence[str]  # Additional names for the Host header.
    databases: Sequence[Path]  # Files, and folders of files.

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach the address."""
        return is_loopback(self.address)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the viewer until it is stopped; return the exit code."""
    options = parse_options(argv)
    try:
        _require_viewer()
        with stop_signal() as stop:
            serve(options, stop)
    except DlprofError as error:
        print_error("dlprofviewer", error.message, error.hint, error.code)
        return error.exit_code
    return EXIT_DONE


def _require_viewer() -> None:
    missing = [name for name in _VIEWER_MODULES if find_spec(name) is None]
    if missing:
        raise ViewerNotInstalledError(
            f"The viewer is not installed: {', '.join(missing)} cannot be imported.",
            hint="Install it with: pip install 'open-dlprof[viewer]'",
        )


def parse_options(argv: Sequence[str] | None) -> Options:
    """Parse the command line; an error in it ends the process with status 2."""
    parser = argparse.ArgumentParser(
        prog="dlprofviewer",
        description="Show DLProf databases in a browser.",
        epilog="Stop it with Ctrl-C.",
    )
    parser.add_argument("--version", action="version", version=f"dlprofviewer {program_version()}")
    parser.add_argument(
        "-b",
        "--bind",
        dest="address",
        metavar="ADDRESS",
        default=DEFAULT_ADDRESS,
        help=f"address to listen on; 0.0.0.0 is every one (default: {DEFAULT_ADDRESS})",
    )
    parser.add_argument(
        "-p",
        "--port",
        type=_port,
        default=DEFAULT_PORT,
        help=f"port to listen on; 0 is any that is free (default: {DEFAULT_PORT})",
    )
    access = parser.add_mutually_exclusive_group()
    access.add_argument(
        "--auth",
        action="store_true",
        help="require a token on a loopback address too, against other users of this machine; "
        "so do DLPROF_TOKEN, --allowed-host and the variables of a proxy",
    )
    access.add_argument(
        "--no-auth",
        action="store_true",
        help="require no token: everybody who reaches the address, or a proxy in front of it, can "
        "read and change everything",
    )
    parser.add_argument(
        "--allowed-host",
        dest="allowed_hosts",
        metavar="HOST",
        action="append",
        default=[],
        help="a further host name of the viewer; may be repeated",
    )
    parser.add_argument(
        "databases",
        metavar="DATABASE",
        type=Path,
        nargs="+",
        help="a database that dlprof wrote, or a folder of them",
    )
    return Options(**vars(parser.parse_args(argv)))


def serve(options: Options, stop: StopSignal) -> None:
    """Check the databases, start the viewer, print its address and wait for the end.

    Raises:
        DatabaseError: A file cannot be shown.
        AddressError: The address cannot be listened on.
        BrokerError: The address of the broker cannot be used.
        ToolError: A process of the viewer ended unexpectedly.
    """
    databases = find_databases(options.databases)
    token = read_token() if _requires_token(options) else ""
    has_broker = bool(broker_url())
    with _listening(options) as listener, _run_dir() as run_dir:
        port = listener.getsockname()[1]
        environment = _environment(options, databases, port, token, run_dir)
        viewer = Viewer(environment, listener, run_dir)
        try:
            viewer.start_web(_reachable(options.address), stop)
            _print_address(options, port, token)
            viewer.run(stop, with_worker=not has_broker)
        finally:
            viewer.end()


def _requires_token(options: Options) -> bool:
    """Return whether clients need a token: always, unless the viewer is for its own machine alone.

    A proxy on the same machine makes every client look like one of this machine.
    """
    if options.no_auth:
        print(escape_control_characters(f"dlprofviewer: warning: {_OPEN_TO_ALL}"), file=sys.stderr)
        return False
    is_behind_proxy = options.allowed_hosts or any(map(os.environ.get, _PROXY_VARIABLES))
    has_token = any(map(os.environ.get, _TOKEN_VARIABLES))
    return bool(options.auth or not options.is_loopback or is_behind_proxy or has_token)


def find_databases(named: Sequence[Path]) -> tuple[Path, ...]:
    """Return the files and folders to serve; each file is opened once to check it.

    Raises:
        DatabaseError: A file cannot be shown.
    """
    found: dict[Path, None] = {}
    for path in named:
        if path.is_dir():
            _note_if_empty(path)
        else:
            open_database(path).close()
        # A folder is served as one: a database that appears in it later is shown too.
        found[path.resolve()] = None
    return tuple(found)


def _note_if_empty(folder: Path) -> None:
    """Print a note if a folder has no database yet: profiles can be added in the page."""
    for path in sorted(folder.glob(f"*{DATABASE_SUFFIX}")):
        try:
            open_database(path).close()
        except DatabaseError:
            continue
        return
    note = f"There is no DLProf database in the folder {folder} yet; add a profile in the page."
    print(escape_control_characters(f"dlprofviewer: note: {note}"), file=sys.stderr)


@contextmanager
def _listening(options: Options) -> Iterator[socket.socket]:
    """Open the listening socket before anything starts, so that a port in use ends the command."""
    try:
        family, _, _, _, address = socket.getaddrinfo(
            options.address, options.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.create_server(address[:2], family=family, backlog=_BACKLOG)
    except (OSError, UnicodeError) as error:
        number = getattr(error, "errno", None)
        if number == errno.EADDRINUSE:
            reason = "it is in use"
        else:  # A name that cannot be encoded for DNS is no address.
            reason = (
                str(error.strerror or error) if isinstance(error, OSError) else "it is no address"
            )
        raise AddressError(
            f"The viewer cannot listen on {options.address} port {options.port}: {reason}.",
            hint="Choose another port with --port, or stop what listens there.",
        ) from error
    with listener:
        # Connections inherit the limits: a thread does not wait for a silent client forever.
        for limit, seconds in (
            (socket.SO_RCVTIMEO, _RECEIVE_LIMIT_S),
            (socket.SO_SNDTIMEO, _SEND_LIMIT_S),
        ):
            timeval = struct.pack("@ll", seconds, 0)
            listener.setsockopt(socket.SOL_SOCKET, limit, timeval)
        listener.set_inheritable(True)
        yield listener


@contextmanager
def _run_dir() -> Iterator[Path]:
    """Create a private folder for messages and logs; the end of the viewer removes it."""
    with temporary_folder("dlprofviewer") as path:
        (path / METRICS_FOLDER).mkdir()
        yield path


def _environment(
    options: Options, databases: Sequence[Path], port: int, token: str, run_dir: Path
) -> dict[str, str]:
    packages = str(Path(__file__).resolve().parent.parent)
    inherited = os.environ.get("PYTHONPATH")
    environment = os.environ | {
        "DJANGO_SETTINGS_MODULE": "viewer.settings",
        "DLPROF_DATABASES": os.pathsep.join(map(str, databases)),
        "DLPROF_BIND": options.address,
        "DLPROF_PORT": str(port),
        "DLPROF_TOKEN": token,
        "DLPROF_NO_AUTH": "1" if options.no_auth else "",
        "DLPROF_RUN_DIR": str(run_dir),
        "DLPROF_METRICS_DIR": str(run_dir / METRICS_FOLDER),
        "DLPROF_STARTED_AT": str(time.time()),
        "PYTHONPATH": os.pathsep.join([packages, inherited] if inherited else [packages]),
        "PYTHONUNBUFFERED": "1",
    }
    if options.allowed_hosts:
        environment["DLPROF_ALLOWED_HOSTS"] = ",".join(options.allowed_hosts)
    return environment


def _reachable(address: str) -> str:
    """Return an address under which this machine reaches its own server."""
    return {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}.get(address, address)  # noqa: S104


def _print_address(options: Options, port: int, token: str) -> None:
    in_container = any(mark.exists() for mark in _CONTAINER_MARKS)
    host = "localhost" if options.is_loopback or in_container else _public_name(options.address)
    url = f"http://{host}:{port}" + (f"/?token={token}" if token else "")
    clock = datetime.now(tz=UTC).strftime("%I:%M:%S %p UTC")
    print(f"[dlprofviewer-{clock}] dlprofviewer running at {url}")
    if in_container and options.is_loopback:
        print(f"In a container: start it with -b 0.0.0.0 and publish the port (-p {port}:{port}).")
    elif in_container:
        print(f"In a container: the port has to be published (-p {port}:{port}).")
    sys.stdout.flush()


def _public_name(address: str) -> str:
    """Return the name of the address for other machines; of all addresses, this machine's name."""
    if address in {"0.0.0.0", "", "::"}:  # noqa: S104
        return socket.getfqdn()
    return f"[{address}]" if ":" in address else address


def _port(word: str) -> int:
    if not (word.isascii() and word.isdecimal() and len(word) <= 5 and int(word) <= 65_535):
        raise argparse.ArgumentTypeError(f"{word!r} is no port: 0 to 65535")
    return int(word)


if __name__ == "__main__":
    sys.exit(main())
