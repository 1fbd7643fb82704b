"""``dlprof mcp``: answer the questions of an assistant about profiles (Model Context Protocol)."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Final

from aggregator.errors import ToolError, UsageError
from aggregator.pipeline import open_or_import
from aggregator.system.plain_text import escape_control_characters
from profiler_cli.assistants.profiles import STOPPING, Profiles, name_profiles
from profiler_cli.console import EXIT_DONE
from profiler_cli.options.parser import SubcommandParser
from profiler_cli.options.token import read_token

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

TOKEN_VARIABLE: Final = "DLPROF_TOKEN"  # noqa: S105  the name of a variable; the viewer's as well
_STOP_LIMIT_S: Final = 3
_LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")


def run_mcp(words: Sequence[str]) -> int:
    """Run ``dlprof mcp`` as one of ``SUBCOMMANDS``."""
    options = _parser().parse_args(list(words))
    try:
        from profiler_cli.assistants.server import make_server  # noqa: PLC0415
    except ImportError as error:
        raise ToolError(
            f"The package '{error.name}' is not installed.",
            hint="pip install 'open-dlprof[mcp]'",
        ) from error
    with ExitStack() as stack:
        databases = []
        for source in options.files:
            with open_or_import(source, stack) as database:
                databases.append((database.path, source))
        viewer = options.viewer.rstrip("/")
        server = make_server(Profiles(name_profiles(databases), viewer))
        if options.port is None:
            _end_at_signals(stack)
            server.run()
        else:
            _serve(server, options.bind, options.port)
    return EXIT_DONE


def _end_at_signals(stack: ExitStack) -> None:
    """End at once: a thread waits for standard input, and a query may take its 30 s.

    A process that runs SQL ends with this one.
    """

    def end(number: int, frame: FrameType | None) -> None:
        stack.close()
        os._exit(128 + number)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, end)


def _serve(server: MCPServer, address: str, port: int) -> None:
    """Answer over HTTP, below /mcp, to clients with the token."""
    import uvicorn  # noqa: PLC0415
    from mcp.server.transport_security import TransportSecuritySettings  # noqa: PLC0415

    from profiler_cli.assistants.server import with_token  # noqa: PLC0415

    if not 0 < port < 65_536:
        raise UsageError("The port must be from 1 to 65535.")
    token = read_token()
    # Elsewhere than on loopback the names of this machine are unknown; the token keeps others out.
    security = (
        None
        if address in _LOOPBACK
        else TransportSecuritySettings(enable_dns_rebinding_protection=False)
    )
    application = server.streamable_http_app(
        host=address, stateless_http=True, json_response=True, transport_security=security
    )
    host = f"[{address}]" if ":" in address else address
    print(escape_control_characters(f"MCP server: http://{host}:{port}/mcp"), file=sys.stderr)
    if not os.environ.get(TOKEN_VARIABLE):
        print(f"Bearer token ({TOKEN_VARIABLE} sets another): {token}", file=sys.stderr)

    config = uvicorn.Config(
        with_token(application, token),
        host=address,
        port=port,
        log_level="warning",
        timeout_graceful_shutdown=_STOP_LIMIT_S,
    )
    running = uvicorn.Server(config)
    handle_exit = running.handle_exit

    def end(number: int, frame: FrameType | None) -> None:
        STOPPING.set()
        handle_exit(number, frame)

    running.handle_exit = end
    running.run()


def _parser() -> SubcommandParser:
    parser = SubcommandParser(
        prog="dlprof mcp",
        description="Answer the questions of an assistant about profiles, by the Model Context "
        "Protocol: on standard input and output, or with --port over HTTP with the viewer's "
        "token. Nothing is changed. Needs pip install 'open-dlprof[mcp]'.",
        epilog="Exit codes: 0 done; 2 usage; 3 the package mcp is missing; 4 a profile and 5 a "
        "database cannot be used.",
    )
    parser.add("files FILE", "DLProf databases, or profiles to import first", nargs="+", type=Path)
    parser.add(
        "--viewer URL",
        "address of the viewer in links (default: http://localhost:8000)",
        default="http://localhost:8000",
    )
    parser.add("--port N", f"answer over HTTP; the token is {TOKEN_VARIABLE}")
    parser.add("--bind ADDRESS", "address (default: 127.0.0.1)", default="127.0.0.1")
    return parser
