"""``dlprof doctor``: what a capture does not allow to be said; the exit code says whether anything.

Any file is taken: a database, or a profile, which is imported into a temporary folder.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final

from aggregator.errors import DlprofError, UsageError
from aggregator.profile.limits import BOUND_WORDS, BoundKind
from aggregator.system.plain_text import escape_control_characters, on_one_line
from aggregator.system.replies import to_plain
from profiler_cli.commands.databases import open_any, opened_aggregation
from profiler_cli.console import EXIT_DONE
from profiler_cli.options.parser import SubcommandParser

if TYPE_CHECKING:
    from aggregator.tables.limits import Limits

EXIT_LIMITED: Final = 10
EXIT_UNREADABLE: Final = 4
_WIDTH: Final = 100
_EPILOG: Final = (
    "Exit codes: 0 no fault was found; 10 the capture lacks or contradicts something; 2 usage; "
    "4 the file cannot be read. How a capture was made (graphs recorded whole, some of the ranks, "
    "no step without profiling) is shown and no fault."
)


def _parser() -> SubcommandParser:
    parser = SubcommandParser(
        prog="dlprof doctor",
        description="Show what a capture lacks or contradicts, and which figures that touches.",
        epilog=_EPILOG,
    )
    parser.add("file FILE", "a DLProf database, or whatever --database takes")
    parser.add("--json", "write JSON")
    return parser


def run_doctor(words: Sequence[str]) -> int:
    """Run ``dlprof doctor`` as one of ``SUBCOMMANDS``."""
    options = _parser().parse_args(list(words))
    document: dict[str, Any]
    try:
        limits = _read(options.file)
        document = {"is_readable": True, **to_plain(limits)}
        code = EXIT_LIMITED if limits.fault_count else EXIT_DONE
    except UsageError:
        raise
    except DlprofError as error:
        document = {"is_readable": False, "code": error.code, "message": error.message}
        document["hint"] = error.hint
        code = EXIT_UNREADABLE
    if options.json:
        print(json.dumps(document, indent=2))
    else:
        print(escape_control_characters("\n".join(_text(document))))
    return code


def _read(name: str) -> Limits:
    from aggregator.tables.limits import read_limits  # noqa: PLC0415 - slow

    with ExitStack() as stack:
        data = stack.enter_context(opened_aggregation(open_any(name, stack), None))
        return read_limits(data)


def _text(document: Mapping[str, Any]) -> list[str]:
    if not document["is_readable"]:
        return [*_wrapped(document["message"], ""), *_wrapped(document["hint"] or "", "")]
    lines = []
    if not document["is_complete"]:
        lines += [*_wrapped(f"{document['reason']}.", ""), ""]
    for number, limit in enumerate(document["limits"], start=1):
        lines += _limit_lines(number, limit)
    if not document["limits"]:
        return [*lines, "No limit of the capture was found."]
    touched = [f"{_bound_text(bound)}" for bound in document["bounds"].values()]
    if touched:
        lines += ["Figures that they touch", *(f"  {line}" for line in touched)]
    return lines


def _limit_lines(number: int, limit: Mapping[str, Any]) -> Iterator[str]:
    kind = "fault" if limit["is_fault"] else "property"
    yield from _wrapped(f"{number}. {limit['title']} ({limit['code']}, {kind}):", "   ")
    yield from (f"   {line}" for line in _wrapped(limit["sentence"], ""))
    for label, text in (
        ("Example", limit["example"]),
        ("So", limit["effect"]),
        ("Do", limit["recommendation"]),
    ):
        if text:
            yield from (f"   {line}" for line in _wrapped(f"{label}: {text}", ""))
    yield ""


def _bound_text(bound: Mapping[str, Any]) -> str:
    is_known = bound["bound"] != BoundKind.UNKNOWN
    sign = f"{BOUND_WORDS[bound['bound']]} as shown" if is_known else "unknown"
    return f"{bound['title']}: {sign} ({', '.join(bound['limits'])})"


def _wrapped(text: str, indent: str) -> list[str]:
    return textwrap.wrap(
        on_one_line(text), _WIDTH, subsequent_indent=indent, break_long_words=False
    )
