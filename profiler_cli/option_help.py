"""The text of ``dlprof --help``."""

from __future__ import annotations

import textwrap
from typing import Final

from profiler_cli.options import GROUPS, Option

WIDTH: Final = 88
USAGE: Final = """\
usage: dlprof [switches] --database=FILE
       dlprof [switches] application [application arguments]
       dlprof pyprof parse|prof ...

Writes a DLProf database and reports: of a file that --database names (an Nsight
Systems export or report, or a DLProf database), or of an application, which it
runs under Nsight Systems. An export can also be made by hand:

  nsys profile -t cuda,nvtx -s none --export=sqlite -o nsys_profile python train.py

A switch takes its value as --mode=pytorch, --mode pytorch, -m pytorch or -m=pytorch.
Lists are separated by commas, or by spaces and then ended by --.
"""
EXIT_CODES: Final = """\
Exit codes:
  0 done, 1 internal error, 2 bad usage, 3 a tool is missing or failed,
  4 the profile cannot be used, 5 the database cannot be read or written,
  130 interrupted
"""


def format_help() -> str:
    """Usage, every option with its default, exit codes."""
    parts = [USAGE]
    for title, options in GROUPS.items():
        parts.append(f"{title}:\n" + "".join(_format_option(option) for option in options))
    parts.append(EXIT_CODES)
    return "\n".join(parts)


def _format_option(option: Option) -> str:
    value = f" {option.kind.metavar}" if option.kind is not None else ""
    head = f"  {', '.join(option.spellings)}{value}\n"
    text = option.help + (f" (default: {option.default})" if option.default else "")
    body = textwrap.fill(
        text,
        WIDTH,
        initial_indent=" " * 6,
        subsequent_indent=" " * 6,
        break_on_hyphens=False,
        break_long_words=False,
    )
    return f"{head}{body}\n"
