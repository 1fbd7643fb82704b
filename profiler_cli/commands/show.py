"""``dlprof show``: the first screen in the terminal, for people on a cluster.

Modules that read profiles are loaded only if one must be read.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final

from aggregator.profile.limits import BOUND_SIGNS, BOUND_WORDS, BoundKind
from aggregator.system.plain_text import escape_control_characters, on_one_line
from profiler_cli.commands.databases import open_any, opened_aggregation
from profiler_cli.console import EXIT_DONE
from profiler_cli.options.parser import AGGREGATION, SubcommandParser

if TYPE_CHECKING:
    from aggregator.tables.aggregation_data import AggregationData

_FINDINGS: Final = 3
_TRIALS: Final = 3
_OPS: Final = 5
_WIDTH: Final = 100
_BAR: Final = 40
_MOST_NAME: Final = 60


def _parser() -> SubcommandParser:
    parser = SubcommandParser(
        prog="dlprof show",
        description="Show what limits a step, how long it takes, where it goes, and what to do.",
    )
    parser.add("file FILE", "a DLProf database, or whatever --database takes")
    parser.add(*AGGREGATION)
    parser.add("--format", "(default: text)", choices=("text", "json", "markdown"), default="text")
    parser.add(
        "--ncu OP_ID",
        "show instead how Nsight Compute profiles the kernels of an op",
        default="",
    )
    return parser


def run_show(words: Sequence[str]) -> int:
    """Run ``dlprof show`` as one of ``SUBCOMMANDS``."""
    options = _parser().parse_args(list(words))
    with ExitStack() as stack:
        asked = {"op_id": options.ncu} if options.ncu else {}
        opened = opened_aggregation(open_any(options.file, stack), options.aggregation, **asked)
        data = stack.enter_context(opened)
        if options.ncu:
            lines = _ncu_lines(_ncu_commands(data), options.format)
            print(escape_control_characters("\n".join(lines)))
            return EXIT_DONE
        document = _read(data)
    if options.format == "json":
        print(json.dumps(_without_texts(document), indent=2))
    else:
        made = _markdown(document) if options.format == "markdown" else _text(document)
        print(escape_control_characters("\n".join(made)))
    return EXIT_DONE


def _without_texts(document: Mapping[str, Any]) -> dict[str, Any]:
    """The document without what only the texts for people use."""
    step = document["step"]
    return {
        **document,
        "step": step and {name: step[name] for name in step if name != "reason"},
        "findings": [
            {name: finding[name] for name in finding if name != "recommendation"}
            for finding in document["findings"]
        ],
        "trials": [
            {name: trial[name] for name in trial if name != "text"} for trial in document["trials"]
        ],
    }


def _read(data: AggregationData) -> dict[str, Any]:
    from aggregator.answers.trials import read_trials, remembered_text  # noqa: PLC0415
    from aggregator.system.replies import to_plain  # noqa: PLC0415
    from aggregator.tables.first_screen import read_first_screen  # noqa: PLC0415

    trials = read_trials(data).trials
    return {
        **read_first_screen(data),
        "trials": [{**to_plain(trial), "text": remembered_text(trial)} for trial in trials],
    }


def _ncu_commands(data: AggregationData) -> dict[str, Any]:
    from aggregator.answers.single_launches import read_op_ncu  # noqa: PLC0415
    from aggregator.system.replies import to_plain  # noqa: PLC0415

    found: dict[str, Any] = to_plain(read_op_ncu(data))
    return found


def _ncu_lines(document: Mapping[str, Any], form: str) -> Iterator[str]:
    """Commands to copy, each after a line on what it profiles."""
    if form == "json":
        yield json.dumps(document, indent=2)
        return
    for command in document["commands"]:
        share = (
            "" if command["share_pct"] is None else f"{command['share_pct']:.1f} % of the time, "
        )
        yield f"# {share}launch of {_ms(command['gpu_time_ns'])}"
        yield command["command"]
    yield from (f"# {line}" for line in _wrapped(document["note"]))


# --- text ----------------------------------------------------------------------------------------


def _text(document: Mapping[str, Any]) -> list[str]:
    lines = [*_wrapped(f"{document['verdict']['text']}."), "", *_step_lines(document), ""]
    bounds, gpu = document["bounds"], document["gpu"]
    if gpu["parts"]:
        lines += _wrapped(f"{_busy(document)} of {_whole(document)}")
        width = 5 if bounds.keys().isdisjoint(("gpu_busy", "gpu_idle")) else 8
        lines += [
            f"  {part['name']:<22} {_part(part, bounds):>{width}} % {_ms(part['ns']):>12}  "
            + "#" * round(part["pct"] / 100 * _BAR)
            for part in gpu["parts"]
        ]
        lines.append("")
    for number, finding in enumerate(document["findings"][:_FINDINGS], start=1):
        lines += _wrapped(f"{number}. {_saving(finding)}{finding['text']}.", later="   ")
        lines += _wrapped(f"Do: {finding['recommendation']}.", "   ", "   ")
    if document["findings"]:
        lines.append("")
    if document["top_ops"]:
        per_step = ", per step" if document["step"] else ""
        lines.append(f"Top ops by GPU time{per_step}{_noted('gpu_time', bounds)}")
        lines += [
            f"  {_ms(op['gpu_ns_per_step']):>12} {op['share_pct']:5.1f} %  {name}"
            for name, op in _named_ops(document)
        ]
        lines.append("")
    for trial in document["trials"][:_TRIALS]:
        lines += _wrapped(f"Tried {trial['text']}.")
    if document["trials"]:
        lines.append("")
    for limit in document["limits"]:
        lines += _wrapped(f"Limit of the capture: {limit['text']}.")
    while lines and not lines[-1]:
        lines.pop()
    return lines


def _busy(document: Mapping[str, Any]) -> str:
    """Busy and idle time, with what the limits of the capture make of them."""
    busy, idle = (
        marked(f"{document['gpu'][key]:.1f} %", document["bounds"].get(figure))
        for figure, key in (("gpu_busy", "busy_pct"), ("gpu_idle", "idle_pct"))
    )
    return f"GPU busy {busy}, idle {idle}"


def _whole(document: Mapping[str, Any]) -> str:
    """Say what the shares are of."""
    if document["step"]:
        return "the step"
    span_ns = document["gpu"]["recorded_span_ns"]
    if span_ns is None:
        return "the whole profile"
    return f"the recorded span, {_ms(span_ns)} from the first to the last work of a GPU"


def marked(value: str, bound: BoundKind | None) -> str:
    """A figure with what the limits of the capture make of it."""
    if bound is BoundKind.UNKNOWN:
        return f"unknown, by the records {value}"
    return value if bound is None else f"{BOUND_WORDS[bound]} {value}"


def _noted(figure: str, bounds: Mapping[str, BoundKind]) -> str:
    """What the limits make of a column, behind its title."""
    return f" ({BOUND_WORDS[bounds[figure]]})" if figure in bounds else ""


def _part(part: Mapping[str, Any], bounds: Mapping[str, BoundKind]) -> str:
    """The share of a part of the step, which has the bound of busy or of idle time."""
    bound = bounds.get("gpu_busy" if part["is_busy"] else "gpu_idle")
    return f"{BOUND_SIGNS[bound] if bound else ''}{part['pct']:.1f}"


def _step_lines(document: Mapping[str, Any]) -> Iterator[str]:
    step, loop, bounds = document["step"], document["loop"], document["bounds"]
    if step is None:
        reason = f": {loop['reason']}" if loop["reason"] else ""
        yield from _wrapped(f"No steps were found{reason}.")
        return
    basis = {"bare": "without profiling", "given": "as given", "profiled": "as profiled"}
    line = f"Step: {_ms(step['ns'])} {basis[step['basis']]}"
    if step["basis"] == "profiled":
        time = marked(_ms(step["ns"]), bounds.get("step"))
        line = f"Step: {time} as profiled ({step['statistic']})"
    reason = f": {step['reason']}" if step["reason"] else ""
    yield from _wrapped(
        f"{line}{reason}. Profiled steps: median {_ms(step['median_ns'])}, mean "
        f"{_ms(step['mean_ns'])}, 10th to 90th percentile {_ms(step['p10_ns'])} to "
        f"{_ms(step['p90_ns'])}, of {_steps(step)}"
    )
    if step["bare_reason"]:
        yield from _wrapped(f"Step without profiling: unknown. {step['bare_reason']}")
    yield from _wrapped(
        f"Loop: {marked(str(loop['steps']), bounds.get('steps'))} steps, confidence "
        f"{loop['confidence']}" + (f" ({loop['key_node']})" if loop["key_node"] else "")
    )
    for gap in document["between_steps"]:
        yield f"Between steps: {gap['kind']} {_ms(gap['ns'])} ({gap['count']})"


def _steps(step: Mapping[str, Any]) -> str:
    """Say how many steps there are, and why that are fewer than iterations."""
    steps, iterations = step["steps"], step["iterations"]
    if not iterations or steps >= iterations:
        return f"{steps} steps"
    return (
        f"{steps} whole steps in {iterations} iterations: one that begins after a pause, or ends "
        "with the recording, does not count"
    )


def _saving(finding: Mapping[str, Any]) -> str:
    time = saved_time(*(finding[f"saving_{name}"] for name in ("ns", "most_ns", "bound")))
    if not time:
        return ""
    share = saved_share(finding["saving_pct"], finding["saving_most_pct"])
    return f"{time} of a step ({share} %): "


def saved_time(least_ns: int | None, most_ns: int | None, bound: str | None) -> str:
    """A time that a fix saves: a range where only that is known; empty if nothing is."""
    if least_ns is None or (not least_ns and most_ns is None):
        return ""
    if most_ns is not None:
        return f"{least_ns / 1e6:.3g} to {most_ns / 1e6:.3g} ms"
    return f"{'at least ' if bound == 'at_least' else ''}{least_ns / 1e6:.3g} ms"


def saved_share(least_pct: float, most_pct: float | None) -> str:
    """Its share of the step in percent, in the same form."""
    return f"{least_pct:.0f}" if most_pct is None else f"{least_pct:.0f} to {most_pct:.0f}"


def _named_ops(document: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The longest ops by path; the direction is named unless it is forward and nothing else is."""
    ops = document["top_ops"][:_OPS]
    paths = ["/".join(["", *filter(None, (op["module"], op["name"]))]) for op in ops]
    for path, op in zip(paths, ops, strict=True):
        name = on_one_line(path)
        name = name if len(name) <= _MOST_NAME else f"...{name[-_MOST_NAME + 3 :]}"
        is_forward = op["direction"] == "fprop" and paths.count(path) == 1
        yield name if is_forward else f"{name} {op['direction']}".rstrip(), op


def _ms(time_ns: float | None) -> str:
    """A time in ms with four significant digits."""
    return "unknown" if time_ns is None else f"{time_ns / 1e6:.4g} ms"


def _wrapped(text: str, first: str = "", later: str = "") -> list[str]:
    return textwrap.wrap(
        on_one_line(text),
        _WIDTH,
        initial_indent=first,
        subsequent_indent=later,
        break_long_words=False,
        break_on_hyphens=False,
    )


# --- Markdown ------------------------------------------------------------------------------------


def _markdown(document: Mapping[str, Any]) -> list[str]:
    gpu, per_step = document["gpu"], " per step" if document["step"] else ""
    lines = [f"**{_escaped(document['verdict']['text'])}.**", ""]
    lines += [_escaped(line) for line in _step_lines(document)]
    if gpu["parts"]:
        lines += ["", f"{_busy(document)} of {_whole(document)}", ""]
        lines += [f"| part | share |{per_step or ' time'} |", "|---|---:|---:|"]
        lines += [
            f"| {part['name']} | {_part(part, document['bounds'])} % | {_ms(part['ns'])} |"
            for part in gpu["parts"]
        ]
    if document["findings"]:
        lines += ["", "| finding | saving | what to do |", "|---|---:|---|"]
    for finding in document["findings"][:_FINDINGS]:
        saving = saved_time(*(finding[f"saving_{name}"] for name in ("ns", "most_ns", "bound")))
        text, advice = (_escaped(finding[name]) for name in ("text", "recommendation"))
        lines.append(f"| {text} | {saving} | {advice} |")
    if document["trials"]:
        lines += [
            "",
            *(f"Tried {_escaped(trial['text'])}." for trial in document["trials"][:_TRIALS]),
        ]
    lines += [f"Limit of the capture: {_escaped(limit['text'])}." for limit in document["limits"]]
    if document["top_ops"]:
        note = _noted("gpu_time", document["bounds"])
        lines += ["", f"| op | GPU time{per_step}{note} | share |", "|---|---:|---:|"]
        lines += [
            f"| {_escaped(name)} | {_ms(op['gpu_ns_per_step'])} | {op['share_pct']:.1f} % |"
            for name, op in _named_ops(document)
        ]
    return lines


def _escaped(text: str) -> str:
    """Text of a profile as plain text of Markdown."""
    escaped = on_one_line(text)
    for sign in ("\\", "|", "*", "_", "`", "<", "[", "]"):
        escaped = escaped.replace(sign, f"\\{sign}")
    return escaped
