"""``dlprof whatif``: replay the steps of a profile, and predict the step with changes."""

from __future__ import annotations

import argparse
import json
import re
import shlex
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, NamedTuple

from aggregator.answers.changes import CHANGES, DeclaredChange, Takes, parse_changes
from aggregator.answers.replay import (
    CriticalPath,
    OpSensitivity,
    PathShare,
    Replay,
    WhatIf,
    read_critical_path,
    read_op_sensitivity,
    read_what_if,
)
from aggregator.dldb.rows.replay import store_replay
from aggregator.errors import UsageError
from aggregator.pipeline import open_or_import
from aggregator.profile.limits import BoundKind
from aggregator.replay.analysis import ReplayedProfile
from aggregator.system.plain_text import escape_control_characters, on_one_line
from aggregator.system.replies import to_plain
from aggregator.tables.limits import found_limits
from aggregator.tables.replay import replayed_profile
from profiler_cli.commands.databases import opened_aggregation
from profiler_cli.commands.show import marked
from profiler_cli.console import EXIT_DONE
from profiler_cli.options.parser import AGGREGATION, SubcommandParser

_DESCRIPTION: Final = (
    "Replay the steps of a profile: what the step waits for, and how long it would take with "
    "changes. Without a change it shows how well the replay fits, and the critical path."
)
_MOST_ROWS: Final = 15
_LEAST_PCT: Final = 0.05  # Smaller shares of a kind are not written.


class _Found(NamedTuple):
    path: CriticalPath
    ops: list[OpSensitivity]
    what_if: WhatIf
    is_whole: bool  # Whether no limit of the capture touches them.


def run_whatif(words: Sequence[str]) -> int:
    """Run ``dlprof whatif`` as one of ``SUBCOMMANDS``."""
    options = _parse(words)
    changes = _changes(options)
    parse_changes(changes)  # A wrong one is said before a profile is imported.
    with ExitStack() as stack:
        source = open_or_import(Path(options.database), stack)
        data = stack.enter_context(opened_aggregation(source, options.aggregation))
        # Ranks are compared as they were measured.
        corrected = options.rank_as_median is None
        found = _Found(
            read_critical_path(data, corrected=corrected),
            read_op_sensitivity(data, corrected=corrected).ops,
            read_what_if(data, changes=changes, corrected=corrected),
            not found_limits(data.database, "critical_path"),
        )
        measured, _ = replayed_profile(data)
    if options.save:
        _save(Path(options.database), source.path, int(data.params["aggr_id"]), measured)
    if options.format == "json":
        print(json.dumps(_document(found), indent=2))
    else:
        print(escape_control_characters(_text(options.database, found)), end="")
    return EXIT_DONE


def _parse(words: Sequence[str]) -> argparse.Namespace:
    """Return options; ``--no-sync DB`` names the database, not an op, where no other word does."""
    options = _parser().parse_args(list(words))
    for name, change in CHANGES.items():
        if change.takes is Takes.OP and options.database is None and getattr(options, name):
            options.database = getattr(options, name)
            setattr(options, name, "")
    if options.database is None:
        raise UsageError(
            "The following arguments are required: DB.",
            hint="dlprof whatif --help lists the options.",
        )
    return options


def _parser() -> SubcommandParser:
    parser = SubcommandParser(
        prog="dlprof whatif",
        description=_DESCRIPTION,
        epilog="Exit codes: 0 done; 2 usage; 4 the profile and 5 the database cannot be used.",
    )
    parser.add("database DB", "a DLProf database, or a profile to aggregate first", nargs="?")
    for change in CHANGES.values():
        _add_change(parser, change)
    parser.add(*AGGREGATION)
    parser.add("--save", "store the critical path and the sensitivity of ops in the database")
    parser.add("--format", "output (default: text)", choices=("text", "json"), default="text")
    return parser


def _add_change(parser: argparse.ArgumentParser, change: DeclaredChange) -> None:
    """Add the option of a change; without its value it is an empty text."""
    spellings = dict.fromkeys([change.name.replace("_", "-"), change.name])
    note = " (may be repeated)" if change.is_list else ""
    parser.add_argument(
        *(f"--{spelling}" for spelling in spellings),
        *change.aliases,
        dest=change.name,
        **_VALUES[change.takes] | ({"metavar": change.argument} if change.argument else {}),
        help=f"{change.notes[0].lower()}{change.notes[1:]}{note}",
    )


_REPEATED: Final = {"action": "append"}
_VALUES: Final[dict[Takes, dict[str, Any]]] = {
    Takes.FACTORS: _REPEATED,
    Takes.NAMES: _REPEATED,
    Takes.OP: {"nargs": "?", "const": ""},
    Takes.SWITCH: {"action": "store_const", "const": ""},
    Takes.NUMBER: {},
    Takes.RANK: {},
}
"""How the parser reads the value of a change."""


def _save(source: Path, database: Path, aggr: int, profile: ReplayedProfile) -> None:
    if source.resolve() != database.resolve():
        raise UsageError(
            f"--save needs a DLProf database, which '{source}' is not.",
            hint="Make one first: dlprof --database=profile.sqlite",
        )
    store_replay(database, aggr, profile)


def _changes(options: argparse.Namespace) -> dict[str, str]:
    """Return the changes as an address has them."""
    given = {name: getattr(options, name) for name in CHANGES}
    return {
        name: ";".join(value) if isinstance(value, list) else value or "1"
        for name, value in given.items()
        if value is not None
    }


def changes_of(text: str) -> dict[str, str]:
    """Return the changes of ``channels-last remove=item`` as an address has them.

    Raises:
        UsageError: It names something else.
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"The changes '{text}' cannot be read: {error}.") from error
    options = _parser().parse_args([f"--{word.lstrip('-')}" for word in words])
    return _changes(options)


def _document(found: _Found) -> dict[str, Any]:
    path, what_if = to_plain(found.path), to_plain(found.what_if)
    is_changed = found.what_if.is_bound is not None
    return {
        **{name: path[name] for name in _OF_STEP},
        **{name: what_if[name] for name in _OF_CHANGE if is_changed},
        **{name: path[name] for name in _OF_REPLAY},
        "critical_path": [{name: row[name] for name in _OF_SHARE} for row in path["critical_path"]],
        "sensitivity": [
            {
                "op": op.op_id,
                "direction": op.direction,
                "own_ns": op.own_ns,
                "step_ns_per_own_ns": op.step_ns_per_own_ns,
            }
            for op in found.ops
        ],
    }


_OF_STEP: Final = ("is_recorded_span", "measured_step_ns", "basis", "statistic", "replayed_step_ns")
_OF_CHANGE: Final = (
    *("predicted_step_ns", "saving_ns", "uncertain_ns", "reason"),
    *("interval_ns", "bound_by", "is_bound"),
)
_OF_REPLAY: Final = ("error_pct", "unexplained_pct", "confidence", "notes")
_OF_SHARE: Final = ("kind", "owner", "ns", "share_pct")


def _text(name: str, found: _Found) -> str:
    path, number = found.path, len(found.path.iterations)
    bases = {"bare": "without profiling", "given": "as given"}
    basis = bases.get(path.basis, "as profiled")
    whole = _whole(path)
    steps = f"{number} step{'s' if number > 1 else ''}, {path.statistic}"
    lines = [
        (
            f"{name}: {'the recorded span,' if path.is_recorded_span else steps}"
            f" {path.measured_step_ns / 1e6:.3f} ms, {basis}"
        ),
        (
            f"replay of the unchanged profile: median error {path.error_pct.median:.2f} %,"
            f" worst {path.error_pct.worst:.2f} %"
        ),
        f"idle time that nothing explains: {path.unexplained_pct:.2f} %",
        f"confidence: {path.confidence}",
        *(f"  {note}" for note in path.notes),
    ]
    changed = _changed(found)
    of = " of the unchanged profile" if changed else ""
    of += "" if found.is_whole else " as recorded (of the run: unknown)"
    lines += [*changed, "", f"critical path{of}, time in {whole}", f"  {_by_kind(path)}"]
    lines += [
        f"  {share.ns / 1e6:10.3f} ms {share.share_pct:6.2f} %  {share.kind:<14} {_owner(share)}"
        for share in path.critical_path[:_MOST_ROWS]
    ]
    lines += ["", f"ops{of}: gain is what {whole} gains for 1 ms of the op, delay is free"]
    lines.append(f"  {'gain':>6}  {'own time':>13}  {'delay':>12}  op")
    for op in found.ops[:_MOST_ROWS]:
        free = "any" if op.slack_ns is None else f"{op.slack_ns / 1e6:.3f} ms"
        lines.append(
            f"  {op.step_ns_per_own_ns:6.3f}  {op.own_ns / 1e6:10.3f} ms  {free:>12}"
            f"  {on_one_line(op.op_name)} {op.direction}"
        )
    return "\n".join(lines) + "\n"


def _whole(found: Replay) -> str:
    return "the recorded span" if found.is_recorded_span else "a step"


def _owner(share: PathShare) -> str:
    """The op by its path, as other commands name it; else the call without its version."""
    if share.op_name is None:
        return on_one_line(_VERSION.sub("", share.owner)) or "-"
    return on_one_line(f"{share.op_name} {share.direction}".rstrip())


_VERSION: Final = re.compile(r"_v\d+$")


def _changed(found: _Found) -> list[str]:
    """Return the lines about the changed step; none without a change."""
    what_if = found.what_if
    if what_if.is_bound is None:
        return []
    predicted = marked(_predicted(what_if), None if found.is_whole else BoundKind.UNKNOWN)
    lines = ["", f"with the changes: {predicted}"]
    lines += [f"  {what_if.reason}"] if what_if.reason else []
    lines += ["  A bound: with this change, other kernels would run."] if what_if.is_bound else []
    whole = "the recorded span" if what_if.is_recorded_span else "the step"
    return [*lines, f"  then {whole} waits most for: {what_if.bound_by or 'unknown'}"]


def _predicted(what_if: WhatIf) -> str:
    """Say the step with the changes; a range where it is uncertain how much is saved."""
    step_ns, saving_ns = max(what_if.measured_step_ns, 1), what_if.saving_ns
    if what_if.uncertain_ns:
        least_ns = saving_ns or 0
        most_ns = least_ns + what_if.uncertain_ns
        shares = f"{100 * least_ns / step_ns:.1f} to {100 * most_ns / step_ns:.1f} % less"
        return f"{(step_ns - most_ns) / 1e6:.3f} to {(step_ns - least_ns) / 1e6:.3f} ms, {shares}"
    if saving_ns is None:
        return "unknown"
    low, high = (time / 1e6 for time in what_if.interval_ns or (step_ns, step_ns))
    percent = -100 * saving_ns / step_ns
    change = f"{abs(percent):.1f} % {'more' if percent >= 0.05 else 'less'}"
    return f"{(step_ns - saving_ns) / 1e6:.3f} ms ({low:.3f} to {high:.3f} ms), {change}"


def _by_kind(path: CriticalPath) -> str:
    """Return the shares of the kinds on the critical path, largest first."""
    shares: dict[str, float] = {}
    for part in path.critical_path:
        shares[part.kind] = shares.get(part.kind, 0.0) + part.share_pct
    kinds = sorted(shares.items(), key=lambda item: -item[1])
    return ", ".join(f"{kind} {share:.1f} %" for kind, share in kinds if share >= _LEAST_PCT)
