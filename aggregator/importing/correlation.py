"""Finds ops and instances in the raw columns of a profile and assigns device work to them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from aggregator.correlate.combined_backward import adopt_by_time
from aggregator.correlate.custom_domains import DomainWork, correlate_domain
from aggregator.correlate.instances import Evidence, Instances, Origin, blank_columns
from aggregator.correlate.op_table import Op, OpTable, build_op_table
from aggregator.correlate.ops import InstanceBuilder
from aggregator.correlate.range_tree import RangeTree, adopt_calls, build_tree
from aggregator.correlate.ranges import (
    Nesting,
    innermost,
    nest,
    nest_process_ranges,
    nest_start_end_ranges,
    sort_ranges,
)
from aggregator.correlate.ranks import are_ranks
from aggregator.correlate.replays import add_replays, annotated_modules, capture_calls
from aggregator.correlate.work import CorrelatedWork, correlate_work, launching_calls
from aggregator.costs.counted_ranges import NestedRanges
from aggregator.costs.instance_costs import complete_costs, compute_costs
from aggregator.costs.messages import find_messages
from aggregator.frameworks import FRAMEWORK_DOMAINS
from aggregator.frameworks.meaning import RangeMeaning
from aggregator.importing.imported import ImportedProfile
from aggregator.importing.key_nodes import (
    find_key_node,
    launches_of,
    name_by_op,
    overhead_calls,
    step_of_instances,
)
from aggregator.importing.limits import find_limits
from aggregator.importing.modes import Reading, choose_mode
from aggregator.importing.named_ranges import (
    custom_ranges,
    joined_ranges,
    named_ranges,
    plain_ranges,
    with_counters,
    with_templates,
)
from aggregator.importing.phases import (
    SERVING_STEP,
    find_phases,
    phases_with_training,
    serving_steps,
)
from aggregator.importing.repairs import first_event_ns, repair_order
from aggregator.importing.rollup_inputs import rollup_inputs
from aggregator.importing.unmarked_steps import name_unmarked_steps
from aggregator.metrics.iterations import KeyNode, NamedRanges
from aggregator.metrics.loops import Confidence
from aggregator.options import Mode
from aggregator.profile.arrays import Int32, Int64, empty_i32, ordered
from aggregator.profile.intervals import flatten
from aggregator.profile.profile import Profile, ProfileWarning
from aggregator.system.progress import Level, Progress
from aggregator.system.resources import release_memory, run_both
from aggregator.texts import say


def correlate(profile: Profile, mode: Mode, progress: Progress) -> ImportedProfile:
    """Find ops and iterations, and join all device work to them.

    Raises:
        NoFrameworkRangesError: A framework mode on a profile without that framework's ranges.
        UsageError: A mode that this version does not read.
    """
    progress.phase("correlate", 4)
    progress.message("Correlating network models with kernel and timeline data")
    (reading, reason), calls = run_both(
        lambda: choose_mode(profile, mode), lambda: launching_calls(profile)
    )
    is_moved = repair_order(profile, calls)
    find_limits(profile, calls)
    chosen = reading.framework.mode if reading else Mode.SIMPLE
    progress.message(f"Mode: {chosen} ({reason})")
    if profile.reference.unprofiled.median_ns is not None:
        profile.call_markers = markers_before_calls(profile)
    marked_until_ns = name_unmarked_steps(profile, calls)
    if reading is not None:
        if reading.framework.mode in (Mode.PYTORCH, Mode.SIMPLE):
            meaning = with_counters(profile, reading.meaning, reading.domain)
            reading = replace(reading, meaning=meaning)
        _prepare(profile, reading)
    sort_ranges(profile.ranges)
    phases = find_phases(profile)
    first = nest_process_ranges(profile, FRAMEWORK_DOMAINS)
    messages, first_ns = (
        find_messages(profile, calls[0]),
        first_event_ns(profile, is_moved=is_moved),
    )
    if reading is not None:
        imported = _framework_ops(profile, reading, (first, calls), serving_steps(phases), progress)
    else:
        choose_loop = mode is Mode.AUTO
        known = (first, calls)
        steps = serving_steps(phases)
        imported = _simple(profile, known, steps, progress, choose_loop=choose_loop)
    imported.mode_reason, imported.messages = reason, messages
    imported.first_ns, imported.marked_until_ns = first_ns, marked_until_ns
    imported.phases = phases_with_training(phases, imported.ranges, imported.candidates)
    # Single ranges are not needed any more, and they are most of a profile.
    profile.release_ranges()
    release_memory()
    progress.advance(1)
    imported.rollups = rollup_inputs(imported)
    release_memory()
    progress.advance(2)
    counts = ", ".join(f"{count} {kind}" for kind, count in profile.counts().items())
    progress.message(f"Read {counts}; found {len(imported.ops.ops)} ops", Level.DETAILED)
    return imported


def _prepare(profile: Profile, reading: Reading) -> None:
    framework = reading.framework
    if framework.reads_start_end:
        nest_start_end_ranges(profile, reading.domain)
    if framework.evidence:
        count = int(np.count_nonzero(profile.ranges.domain == reading.domain))
        text = say("Mode {mode} is {evidence}.", mode=framework.mode, evidence=framework.evidence)
        profile.warnings.append(ProfileWarning("UNVERIFIED_MODE", text, count))


def _framework_ops(
    profile: Profile,
    reading: Reading,
    known: tuple[int, list[Int32]],
    steps: NamedRanges,
    progress: Progress,
) -> ImportedProfile:
    meaning, domain = reading.meaning, reading.domain
    process_rows, calls = known
    tree, call_range = _with_calls(profile, meaning, domain, calls[0])
    progress.advance(1)
    instances = InstanceBuilder(profile, meaning, tree).build(call_range)
    _grade_aligned(profile, instances)
    plain = plain_ranges(profile) if domain else NamedRanges.empty()
    found = joined_ranges(*_with_steps(named_ranges(meaning, tree), steps), plain)
    ranges = with_templates(found, profile.range_names)
    skipped = overhead_calls(meaning, tree, call_range) if meaning.overhead else None
    launches = launches_of(profile, calls, skipped)
    loop = find_key_node(ranges, launches, meaning, tree, are_ranks=are_ranks(profile))
    key_node = loop.key_node
    # Costs need names and nesting of ranges; only custom domains need their times.
    described = [NestedRanges.of(tree, profile.ranges, call_range)]
    nesting = tree.nesting if _custom_codes(profile) else None
    del tree
    if nesting is None:
        profile.release_range_times()
        release_memory()
    captured = [_captured(graph, meaning, domain) for graph in profile.captures]
    described += [part for _, part in captured]
    meaning, annotated = annotated_modules(profile, meaning)
    sources = [*(found for found, _ in captured), *annotated]
    instances, replayed = add_replays(profile, instances, sources, calls)
    work = correlate_work(profile, instances, calls, replayed)
    release_memory()
    step_of = step_of_instances(profile, work.instances, key_node)
    table, costs = run_both(
        lambda: build_op_table(profile, meaning, work, step_of, reading.framework),
        lambda: compute_costs(profile, meaning, NestedRanges.joined(described), work),
    )
    costs = complete_costs(costs, table, profile.kernels, work.kernels.instance)
    if loop.instead_of_op is not None:
        key_node = name_by_op(key_node, table, work.instances) or loop.instead_of_op
    domains = _custom_domains(profile, nesting, work, process_rows)
    return ImportedProfile(
        profile=profile,
        mode=reading.framework.mode,
        meaning=meaning,
        work=work,
        ops=table,
        ranges=joined_ranges(ranges.all, custom_ranges(profile, domains)),
        key_node=key_node,
        candidates=loop.candidates,
        key_node_confidence=loop.confidence,
        costs=costs,
        domains=domains,
    )


def _grade_aligned(profile: Profile, instances: Instances) -> None:
    """Lower the evidence of instances in steps that got their names from other steps."""
    process = profile.thread_process[instances.thread]
    for loop, times in profile.unmarked.items():
        start = instances.start_ns
        # Odd positions lie between the begin and the end of a time without markers.
        inside = np.searchsorted(times.ravel(), start, side="right") % 2 == 1
        rows = inside & (process == loop) & (instances.evidence < Evidence.ALIGNED)
        instances.evidence[rows] = Evidence.ALIGNED


def _captured(
    capture: Profile, meaning: RangeMeaning, domain: int
) -> tuple[Instances, NestedRanges]:
    """Op instances and ranges of a capture of CUDA graphs that was recorded apart."""
    sort_ranges(capture.ranges)
    tree, call_range = _with_calls(capture, meaning, domain, launching_calls(capture)[0])
    instances = InstanceBuilder(capture, meaning, tree).build(call_range)
    # The ranges around a capture (capture_32_DECODE) are no part of the model.
    around = call_range[capture_calls(capture)]
    codes = np.unique(tree.path[around[around >= 0]]).tolist()
    outer = sorted((tree.paths[code] for code in codes), key=len, reverse=True)
    instances.paths = tuple(_inside(path, outer) for path in instances.paths)
    return instances, NestedRanges.of(tree, capture.ranges, call_range)


def _inside(path: str, outer: list[str]) -> str:
    """A path without the groups around a capture."""
    for prefix in outer:
        if path.startswith(prefix):
            return path[len(prefix) - 1 :]
    return path


def _with_calls(
    profile: Profile, meaning: RangeMeaning, domain: int, launches: Int32
) -> tuple[RangeTree, Int32]:
    nesting, api = nest(profile.ranges), profile.api_calls
    tree, call_range = run_both(
        lambda: build_tree(profile, nesting, meaning, domain),
        lambda: innermost(nesting, api.thread, api.start_ns, api.end_ns, domain),
    )
    call_range = adopt_calls(profile, tree, meaning, domain, call_range)
    if domain == 0:
        call_range = adopt_by_time(profile, tree, domain, call_range, launches)
    return tree.without_depths(), call_range


def _with_steps(ranges: NamedRanges, steps: NamedRanges) -> tuple[NamedRanges, ...]:
    """The ranges with the steps of serving, which the framework's ranges only begin to name."""
    if SERVING_STEP not in ranges.names:
        return (ranges, steps)
    rows = ranges.name != ranges.names.index(SERVING_STEP)
    columns = (ranges.start_ns[rows], ranges.end_ns[rows], ranges.process[rows])
    return (NamedRanges(ranges.name[rows], ranges.names, *columns), steps)


def _simple(
    profile: Profile,
    known: tuple[int, list[Int32]],
    steps: NamedRanges,
    progress: Progress,
    *,
    choose_loop: bool,
) -> ImportedProfile:
    """Import without ops. ``choose_loop``: whether a range of the user may mark the iterations."""
    process_rows, calls = known
    plain = joined_ranges(*_with_steps(plain_ranges(profile), steps))
    ranges = with_templates(plain, profile.range_names)
    loop = find_key_node(ranges, launches_of(profile, calls), are_ranks=are_ranks(profile))
    if not choose_loop:
        reason = say("simple mode has no iterations unless a key node is named")
        loop = replace(loop, key_node=KeyNode("", reason), confidence=Confidence.NONE)
    work = correlate_work(profile, simple_instances(profile), calls)
    domains = _custom_domains(profile, nest(profile.ranges), work, process_rows)
    progress.advance(1)
    table = simple_table(work.instances)
    costs = compute_costs(profile, simple_meaning(), None, work)
    return ImportedProfile(
        profile=profile,
        mode=Mode.SIMPLE,
        meaning=simple_meaning(),
        work=work,
        ops=table,
        ranges=joined_ranges(ranges.all, custom_ranges(profile, domains)),
        key_node=loop.key_node,
        candidates=loop.candidates,
        key_node_confidence=loop.confidence,
        costs=complete_costs(costs, table, profile.kernels, work.kernels.instance),
        domains=domains,
    )


def _custom_domains(
    profile: Profile, nesting: Nesting | None, work: CorrelatedWork, process_rows: int
) -> tuple[DomainWork, ...]:
    """Domains that no framework writes to, with the ops in them."""
    if nesting is None:
        return ()
    codes = _custom_codes(profile)
    return tuple(correlate_domain(profile, nesting, work, code, process_rows) for code in codes)


def _custom_codes(profile: Profile) -> list[int]:
    """Domains with ranges that no framework writes to."""
    return [
        code
        for code, name in enumerate(profile.domain_names)
        if name not in FRAMEWORK_DOMAINS and bool((profile.ranges.domain == code).any())
    ]


def markers_before_calls(profile: Profile) -> Int64:
    """Starts and ends of ranges since the call before in the thread, calls in order of start."""
    calls, marks = profile.api_calls, profile.marks
    kinds = (profile.ranges, profile.start_end_ranges)
    time = np.concatenate(
        [*(kind.start_ns for kind in kinds), *(kind.end_ns for kind in kinds), marks.time_ns]
    )
    of_thread = np.concatenate([*(kind.thread for kind in (*kinds, *kinds)), marks.thread])
    order = ordered(calls.start_ns)
    start, thread = calls.start_ns[order], calls.thread[order]
    result = np.zeros(len(start), dtype=np.int64)
    for number in np.unique(thread).tolist():
        rows = thread == number
        seen = np.searchsorted(np.sort(time[of_thread == number]), start[rows], side="right")
        result[rows] = np.diff(seen, prepend=0)
    return result


def simple_meaning() -> RangeMeaning:
    """Return a meaning in which all ranges are ignored."""
    return RangeMeaning(empty_i32(), empty_i32(), (), {}, {}, {})


def simple_instances(profile: Profile) -> Instances:
    """Return one instance over the whole profile, with every call.

    Its CPU time is the time in which any CUDA call ran, because no other CPU time is known.
    """
    api = profile.api_calls
    calls = flatten(api.start_ns, api.end_ns)
    kinds = (profile.kernels, profile.copies, profile.sets)
    end = max(int(column.max(initial=0)) for column in (api.end_ns, *(k.end_ns for k in kinds)))

    columns: dict[str, Any] = blank_columns(1, Origin.FORWARD)
    zero = np.zeros(1, dtype=np.int32)
    return Instances(
        **columns | {"label": zero},
        start_ns=np.zeros(1, dtype=np.int64),
        end_ns=np.array([end], dtype=np.int64),
        cpu_time_ns=np.array([calls.covered_ns()], dtype=np.int64),
        thread=zero,
        call_instance=np.zeros(len(api), dtype=np.int32),
        busy_start_ns=api.start_ns,
        busy_end_ns=api.end_ns,
        busy_process=profile.thread_process[api.thread],
        paths=("/",),
    )


def simple_table(instances: Instances) -> OpTable:
    """Return the placeholder op; work without a launching call belongs to it as well."""
    op = Op(
        op_id="SIMPLE_MODE_GLOBAL_NODE_OP_TYPE_1",
        op_name="simple_mode_global_node_name",
        op_type="simple_mode_global_node_op_type",
        process=0,
    )
    return OpTable((op,), np.zeros(len(instances), dtype=np.int32))
