"""The command ``dlprofviewer``: checks the databases, starts the server and its worker."""

from __future__ import annotations

import argparse
import errno
import ipaddress
import os
import secrets
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from aggregator.dldb.reader import open_database
from aggregator.errors import DatabaseError, DlprofError, UsageError
from aggregator.leftovers import folder_prefix, remove_leftover_folders
from aggregator.plain_text import shown
from profiler_cli.version import program_version
from profiler_cli.viewer_processes import StopSignal, Viewer

DEFAULT_ADDRESS: Final = "127.0.0.1"
DEFAULT_PORT: Final = 8000
DATABASE_SUFFIX: Final = ".sqlite"
JOB_RECORDER: Final = "viewer.jobs.recorder:DatabaseRecorder"
METRICS_FOLDER: Final = "metrics"
EXIT_DONE: Final = 0
_BACKLOG: Final = 256
_CONTAINER_MARKS: Final = (Path("/.dockerenv"), Path("/run/.containerenv"))


class AddressError(UsageError):
    """The address or port cannot be listened on."""

    code = "ADDRESS_UNUSABLE"


@dataclass(frozen=True)
class Options:
    """The words of the command line.

    Attributes:
        address: Address to listen on.
        port: Port to listen on; 0: any that is free.
        no_auth: Answer everybody who can reach the address.
        allowed_hosts: Further names for the Host header.
        databases: Files, and folders of files.
    """

    address: str
    port: int
    no_auth: bool
    allowed_hosts: tuple[str, ...]
    databases: tuple[Path, ...]

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach the address."""
        if self.address == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.address).is_loopback
        except ValueError:
            return False


def main(argv: Sequence[str] | None = None) -> int:
    """Run the viewer until it is stopped; the exit code is returned."""
    options = parse_options(argv)
    try:
        with StopSignal() as stop:
            serve(options, stop)
    except DlprofError as error:
        _print_error(error)
        return error.exit_code
    return EXIT_DONE


def parse_options(argv: Sequence[str] | None) -> Options:
    """Read the command line; a mistake in it ends the process with status 2."""
    parser = argparse.ArgumentParser(
        prog="dlprofviewer",
        description="Show DLProf databases in a browser.",
        epilog="Stop it with Ctrl-C.",
    )
    parser.add_argument("--version", action="version", version=f"dlprofviewer {program_version()}")
    parser.add_argument(
        "-b",
        "--bind",
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
    parser.add_argument(
        "--no-auth",
        action="store_true",
        help="ask for no token, even if other machines can reach the address",
    )
    parser.add_argument(
        "--allowed-host",
        metavar="HOST",
        action="append",
        default=[],
        help="a further name under which browsers may ask for the viewer; may be repeated",
    )
    parser.add_argument(
        "databases",
        metavar="DATABASE",
        type=Path,
        nargs="+",
        help="a database that dlprof wrote, or a folder of them",
    )
    words = parser.parse_args(argv)
    return Options(
        address=words.bind,
        port=words.port,
        no_auth=words.no_auth,
        allowed_hosts=tuple(words.allowed_host),
        databases=tuple(words.databases),
    )


def serve(options: Options, stop: StopSignal) -> None:
    """Check, start, say where, and wait for the end.

    Raises:
        DatabaseError: A file cannot be shown.
        AddressError: The address cannot be listened on.
        ToolError: A process of the viewer ended by itself.
    """
    databases = find_databases(options.databases)
    token = "" if options.is_loopback or options.no_auth else _token()
    with _listening(options) as listener, _run_dir() as run_dir:
        port = listener.getsockname()[1]
        environment = _environment(options, databases, port, token, run_dir)
        with Viewer(environment, listener, run_dir) as viewer:
            viewer.start_web(_reachable(options.address), stop)
            _say_where(options, port, token)
            viewer.run(stop, with_worker=not environment.get("DLPROF_BROKER_URL"))


def find_databases(named: Sequence[Path]) -> tuple[Path, ...]:
    """The files to serve, each of them opened once to see that it can be.

    Raises:
        DatabaseError: A file cannot be shown.
    """
    found: dict[Path, None] = {}
    for path in named:
        if path.is_dir():
            _tell_if_empty(path)
        else:
            open_database(path).close()
        # A folder is served as one: a database that appears in it later is shown too.
        found[path.resolve()] = None
    return tuple(found)


def _tell_if_empty(folder: Path) -> None:
    """Say so if nothing of a folder can be shown yet: profiles may be added in the page."""
    for path in sorted(folder.glob(f"*{DATABASE_SUFFIX}")):
        try:
            open_database(path).close()
        except DatabaseError:
            continue
        return
    note = f"There is no DLProf database in the folder {folder} yet; add a profile in the page."
    print(shown(f"dlprofviewer: note: {note}"), file=sys.stderr)


@contextmanager
def _listening(options: Options) -> Iterator[socket.socket]:
    """A listening socket, made here so that a port in use is known before anything starts."""
    try:
        family, _, _, _, address = socket.getaddrinfo(
            options.address, options.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.create_server(address[:2], family=family, backlog=_BACKLOG)
    except OSError as error:
        reason = "it is in use" if error.errno == errno.EADDRINUSE else str(error.strerror or error)
        raise AddressError(
            f"The viewer cannot listen on {options.address} port {options.port}: {reason}.",
            hint="Choose another port with --port, or stop what listens there.",
        ) from error
    with listener:
        listener.set_inheritable(True)
        yield listener


@contextmanager
def _run_dir() -> Iterator[Path]:
    """A private folder for messages and logs, gone when the viewer ends."""
    remove_leftover_folders()
    path = Path(tempfile.mkdtemp(prefix=folder_prefix("dlprofviewer")))
    (path / METRICS_FOLDER).mkdir()
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def _environment(
    options: Options, databases: Sequence[Path], port: int, token: str, run_dir: Path
) -> dict[str, str]:
    """What the server and the worker are told."""
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
        "DLPROF_JOB_RECORDER": JOB_RECORDER,
        "PROMETHEUS_MULTIPROC_DIR": str(run_dir / METRICS_FOLDER),
        "DLPROF_STARTED_AT": str(time.time()),
        "PYTHONPATH": os.pathsep.join([packages, inherited] if inherited else [packages]),
        "PYTHONUNBUFFERED": "1",
    }
    if options.allowed_hosts:
        environment["DLPROF_ALLOWED_HOSTS"] = ",".join(options.allowed_hosts)
    return environment


def _token() -> str:
    """The one that the environment gives (several processes may share it), else a new one."""
    return os.environ.get("DLPROF_TOKEN") or secrets.token_urlsafe(24)


def _reachable(address: str) -> str:
    """An address under which this machine reaches its own server."""
    return {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}.get(address, address)  # noqa: S104


def _say_where(options: Options, port: int, token: str) -> None:
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
    """What another machine writes for the address: for "all of them", the name of this machine."""
    if address in {"0.0.0.0", "", "::"}:  # noqa: S104
        return socket.getfqdn()
    return f"[{address}]" if ":" in address else address


def _port(word: str) -> int:
    if not word.isdecimal() or int(word) > 65_535:
        raise argparse.ArgumentTypeError(f"{word!r} is no port: 0 to 65535")
    return int(word)


def _print_error(error: DlprofError) -> None:
    print(shown(f"dlprofviewer: error: {error.message}"), file=sys.stderr)
    if error.hint:
        print(shown(error.hint), file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
