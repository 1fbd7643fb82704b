"""``dlprof whatif``: replay the steps of a profile, and predict the step with changes."""

from __future__ import annotations

import argparse
import json
import sqlite3
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from aggregator.answers.changes import CHANGES, DeclaredChange, Takes, make_changes
from aggregator.dldb.event_reader import stored_events
from aggregator.dldb.guarded import few_rows
from aggregator.dldb.reader import damaged
from aggregator.dldb.rows.corrected import read_corrected
from aggregator.dldb.rows.replay import store_replay
from aggregator.errors import UsageError
from aggregator.events.window import read_bare_step
from aggregator.pipeline import open_or_import
from aggregator.replay.analysis import Prediction, ReplayedProfile
from aggregator.replay.rank_report import rank_prediction, read_slow_ranks
from aggregator.replay.reader import read_replayed
from aggregator.replay.scale import StepScale, read_scale
from aggregator.replay.scenario import Change
from aggregator.system.plain_text import escape_control_characters, on_one_line
from profiler_cli.commands.databases import chosen_aggregation
from profiler_cli.console import EXIT_DONE
from profiler_cli.options.parser import SubcommandParser

_DESCRIPTION: Final = (
    "Replay the steps of a profile: what the step waits for, and how long it would take with "
    "changes. Without a change it shows how well the replay fits, and the critical path."
)
_MOST_ROWS: Final = 15
_LEAST_PCT: Final = 0.05  # Smaller shares of a kind are not written.


def run_whatif(words: Sequence[str]) -> int:
    """Run the subcommand with the arguments after ``whatif`` and return its exit code.

    Raises:
        DlprofError: The file cannot be used or replayed.
    """
    options = _parse(words)
    changes = _changes(options)
    with ExitStack() as stack:
        database = stack.enter_context(open_or_import(Path(options.database), stack))
        try:
            rows = few_rows(
                database.connection.execute("SELECT aggr_id FROM view_aggregations ORDER BY 1")
            )
            aggr = chosen_aggregation([int(row[0]) for row in rows], options.aggregation)
            store = stored_events(database.connection)
            measured = read_replayed(store, aggr)
            # Ranks are compared as they were measured.
            corrected = (
                read_corrected(database.connection, store, aggr, measured)
                if options.rank_as_median is None
                else None
            )
            profile = measured if corrected is None else corrected
            scale = read_scale(store, aggr, profile, is_corrected=corrected is not None)
            prediction = profile.predict(changes) if changes else None
            if options.rank_as_median is not None:
                report = read_slow_ranks(store, aggr)
                prediction = rank_prediction(
                    report, options.rank_as_median, profile, alone=not changes
                )
            change = None
            if prediction is not None:
                bare_ns = read_bare_step(store, aggr)
                change = _Change(prediction, scale.saving_ns(profile, prediction, bare_ns))
            if options.save:
                _save(Path(options.database), database.path, aggr, measured)
        except (sqlite3.Error, ValueError, TypeError, LookupError, OverflowError) as error:
            raise damaged(database.path, error) from error
    if options.format == "json":
        print(json.dumps(_document(profile, scale, change), indent=2))
    else:
        print(escape_control_characters(_text(options.database, profile, scale, change)), end="")
    return EXIT_DONE


def _parse(words: Sequence[str]) -> argparse.Namespace:
    """The options; ``--no-sync DB`` names the database, not an op, where no other word does."""
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


def _parser() -> argparse.ArgumentParser:
    parser = SubcommandParser(
        prog="dlprof whatif",
        description=_DESCRIPTION,
        epilog="Exit codes: 0 done; 2 usage; 4 the profile and 5 the database cannot be used.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add(
        "database",
        metavar="DB",
        nargs="?",
        help="a DLProf database, or a profile to aggregate first",
    )
    for change in CHANGES.values():
        _add_change(parser, change)
    add("--aggregation", type=int, metavar="N", help="aggregation of the database (default: last)")
    add(
        "--save",
        action="store_true",
        help="store the critical path and the sensitivity of ops in the database",
    )
    add("--format", choices=("text", "json"), default="text", help="output (default: text)")
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


def _changes(options: argparse.Namespace) -> list[Change]:
    given = {name: getattr(options, name) for name in CHANGES}
    return make_changes(
        {
            name: value if isinstance(value, list) else [value]
            for name, value in given.items()
            if value is not None
        }
    )


@dataclass(frozen=True)
class _Change:
    prediction: Prediction
    saving_ns: int | None  # None: profiling may have made all of it.


def _document(profile: ReplayedProfile, scale: StepScale, change: _Change | None) -> dict[str, Any]:
    errors = profile.errors_pct
    changed = {}
    if change is not None:
        changed = {
            "predicted_step_ns": scale.predicted_ns(change.prediction),
            "saving_ns": change.saving_ns,
            "interval_ns": scale.interval_ns(change.prediction),
            "is_bound": change.prediction.is_bound,
        }
    return {
        "measured_step_ns": scale.step_ns,
        "basis": scale.basis,
        "statistic": str(scale.statistic),
        "replayed_step_ns": scale.typical_ns(profile.replayed_ns),
        **changed,
        "error_pct": {"median": float(np.median(errors)), "worst": float(errors.max())},
        "unexplained_pct": round(profile.unexplained_pct, 4),
        "confidence": profile.confidence,
        "notes": [str(note) for note in profile.notes],
        "critical_path": [
            {"kind": share.kind, "owner": share.owner, "ns": share.ns, "share_pct": share.share_pct}
            for share in scale.shares(profile.critical_path_shares())
        ],
        "sensitivity": [
            {
                "op": sensitivity.op,
                "direction": sensitivity.direction,
                "own_ns": sensitivity.own_ns,
                "step_ns_per_own_ns": sensitivity.step_ns_per_own_ns,
            }
            for sensitivity in profile.sensitivities()
        ],
    }


def _text(name: str, profile: ReplayedProfile, scale: StepScale, change: _Change | None) -> str:
    errors, measured = profile.errors_pct, scale.step_ns
    number = len(profile.steps.number)
    basis = "without profiling" if scale.basis == "bare" else "as profiled"
    lines = [
        (
            f"{name}: {number} step{'s' if number > 1 else ''}, {scale.statistic}"
            f" {measured / 1e6:.3f} ms, {basis}"
        ),
        (
            f"replay of the unchanged profile: median error {np.median(errors):.2f} %,"
            f" worst {errors.max():.2f} %"
        ),
        f"idle time that nothing explains: {profile.unexplained_pct:.2f} %",
        f"confidence: {profile.confidence}",
        *(f"  {note}" for note in profile.notes),
    ]
    if change is not None:
        low, high = (time / 1e6 for time in scale.interval_ns(change.prediction))
        lines += [
            "",
            (
                f"with the changes: {scale.predicted_ns(change.prediction) / 1e6:.3f} ms"
                f" ({low:.3f} to {high:.3f} ms), {_change(scale, change)}"
            ),
        ]
        if change.prediction.is_bound:
            lines.append("  A bound: with this change, other kernels would run.")
    of = " of the unchanged profile" if change is not None else ""
    lines += ["", f"critical path{of}, time in a step", f"  {_by_kind(profile)}"]
    lines += [
        f"  {share.ns / 1e6:10.3f} ms {share.share_pct:6.2f} %  {share.kind:<14} "
        f"{on_one_line(share.owner) or '-'}"
        for share in scale.shares(profile.critical_path_shares())[:_MOST_ROWS]
    ]
    lines += ["", f"ops{of}: time that a step gains for 1 ms of the op, own time, free delay"]
    for op in profile.sensitivities()[:_MOST_ROWS]:
        free = "any" if op.slack_ns is None else f"{op.slack_ns / 1e6:.3f} ms"
        lines.append(
            f"  {op.step_ns_per_own_ns:6.3f}  {op.own_ns / 1e6:10.3f} ms  {free:>12}"
            f"  {on_one_line(op.op)} {op.direction}"
        )
    return "\n".join(lines) + "\n"


def _change(scale: StepScale, change: _Change) -> str:
    """How much shorter or longer the step becomes, as far as that is known."""
    saving_ns = change.saving_ns
    if saving_ns is None:
        return "as profiled; how much of that is the profiler's is unknown (--bare_step_ms)"
    if saving_ns < scale.step_ns - scale.predicted_ns(change.prediction):
        return f"as profiled; known to be saved: {saving_ns / 1e6:.3f} ms (--bare_step_ms)"
    percent = -100 * saving_ns / scale.step_ns if scale.step_ns else 0.0
    return f"{abs(percent):.1f} % {'more' if percent >= 0.05 else 'less'}"


def _by_kind(profile: ReplayedProfile) -> str:
    """Shares of the kinds on the critical path, largest first."""
    shares: dict[str, float] = {}
    for part in profile.critical_path_shares():
        shares[part.kind] = shares.get(part.kind, 0.0) + part.share_pct
    kinds = sorted(shares.items(), key=lambda item: -item[1])
    return ", ".join(f"{kind} {share:.1f} %" for kind, share in kinds if share >= _LEAST_PCT)
