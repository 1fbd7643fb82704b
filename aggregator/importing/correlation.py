"""Finds ops and instances in the raw columns of a profile and assigns device work to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from aggregator.correlate.combined_backward import adopt_by_time
from aggregator.correlate.custom_domains import DomainWork, correlate_domain
from aggregator.correlate.instances import Evidence, Instances
from aggregator.correlate.op_table import build_op_table
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
from aggregator.importing.markers import markers_before_calls
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
from aggregator.importing.rollup_inputs import rollup_inputs
from aggregator.importing.simple import simple_instances, simple_meaning, simple_table
from aggregator.importing.unmarked_steps import name_unmarked_steps
from aggregator.metrics.iterations import KeyNode, NamedRanges
from aggregator.metrics.loops import Confidence
from aggregator.options import Mode
from aggregator.profile.arrays import Int32, Int64, ordered
from aggregator.profile.profile import MOVED_CLOCK, Profile, ProfileWarning
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
    _repair_clock(profile, calls)
    is_moved = _repair_early_work(profile, calls)
    _repair_endless_work(profile, calls)
    chosen = reading.framework.mode if reading else Mode.SIMPLE
    progress.message(f"Mode: {chosen} ({reason})")
    if profile.reference.bare.median_ns is not None:
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
        _first_event_ns(profile, is_moved=is_moved),
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


_EMPTY_SHARE, _EMPTY_NS = 0.9, 10_000_000_000
"""A program may take some seconds before its first event."""


_EARLY_NS = 1_000_000
"""Work that begins longer than this before the call that launched it has a wrong start."""
_FEW_EARLY = 0.01
"""If a larger share of the work begins too early, it is the clock of the GPU that is wrong."""


_MOST_EARLY = 0.2
"""If a larger share of the work begins before its launch, the clock of the GPU is behind."""


def _repair_clock(profile: Profile, calls: Sequence[Int32]) -> None:
    """Move all work by the least time after which it begins behind its launch, if most does not."""
    starts = profile.api_calls.start_ns
    kinds = (profile.kernels, profile.copies, profile.sets, profile.graphs)
    if not len(starts):
        return
    linked = [
        (starts[call] - work.start_ns)[call >= 0]
        for work, call in zip(kinds, calls, strict=True)
        if len(work)
    ]
    early_ns = np.concatenate([np.zeros(0, dtype=np.int64), *linked])
    behind = early_ns[early_ns > 0]
    if not len(behind) or len(behind) <= _MOST_EARLY * len(early_ns):
        return
    # Single pieces that begin much too early are moved by themselves.
    shift_ns = int(np.percentile(behind, 100.0 * (1.0 - _FEW_EARLY), method="higher"))
    for work in kinds:
        if len(work):
            work.start_ns, work.end_ns = work.start_ns + shift_ns, work.end_ns + shift_ns
    text = say(
        "pieces of GPU work begin before the calls that launched them: the clock of the GPU is "
        "about {time:.4g} us behind, and its times are moved by that.",
        time=shift_ns / 1e3,
    )
    profile.warnings.append(ProfileWarning(MOVED_CLOCK, text, len(behind)))


def _repair_early_work(profile: Profile, calls: Sequence[Int32]) -> bool:
    """Move single pieces of work that begin long before their launch to it; whether any was.

    CUPTI delivers such records at the start of a session.
    """
    count, worst_ns, starts = 0, 0, profile.api_calls.start_ns
    kinds = (profile.kernels, profile.copies, profile.sets, profile.graphs)
    for work, call in zip(kinds, calls, strict=True):
        if not len(work) or not len(starts):
            continue
        early_ns = np.where(call >= 0, starts[call] - work.start_ns, 0)
        early = early_ns > _EARLY_NS
        found = int(np.count_nonzero(early))
        if not 0 < found <= max(_FEW_EARLY * len(work), 1):
            continue
        count, worst_ns = count + found, max(worst_ns, int(early_ns.max()))
        length = work.end_ns - work.start_ns
        work.start_ns = np.where(early, starts[call], work.start_ns)
        end_ns = np.maximum(work.end_ns, work.start_ns + np.minimum(length, _EARLY_NS))
        work.end_ns = np.where(early, end_ns, work.end_ns)
    if count:
        text = say(
            "pieces of GPU work begin before the calls that launched them, by up to {time:.4g} ms; "
            "they are moved to their launch.",
            time=worst_ns / 1e6,
        )
        profile.warnings.append(ProfileWarning("EARLY_WORK", text, count))
    return bool(count)


_FEW_ENDLESS = 3
"""Single pieces with a wrong end; more of them in a small capture, and its streams overlap."""


_OVERLAP_NS = 100_000
"""Work that goes on longer than this after the next one of its stream began has a wrong end."""


def _repair_endless_work(profile: Profile, calls: Sequence[Int32]) -> None:
    """End single pieces of work that cover whole others of their stream where the next one begins.

    A stream runs its work in order. Neighbors may overlap a little (programmatic dependent launch),
    and so may the work of one replay of a graph; in 187 captures no piece covers two others.
    """
    kinds = (profile.kernels, profile.copies, profile.sets, profile.graphs)
    start_ns, end_ns, *stream = (
        np.concatenate([getattr(work, column).astype(np.int64) for work in kinds])
        for column in ("start_ns", "end_ns", "process", "device", "stream_id")
    )
    rows = ordered(*stream, start_ns, end_ns)
    rows = rows[stream[-1][rows] >= 0]
    in_stream = [key[rows] for key in stream]
    call = np.concatenate(calls)[rows]
    endless, next_ns = _covering(start_ns[rows], end_ns[rows], in_stream, call)
    is_long = end_ns[rows[endless]] - next_ns > _OVERLAP_NS
    endless, next_ns = endless[is_long], next_ns[is_long]
    if not 0 < len(endless) <= max(_FEW_EARLY * len(rows), _FEW_ENDLESS):
        return
    last_ns, worst_ns = int(end_ns.max()), int((end_ns[rows[endless]] - next_ns).max())
    end_ns[rows[endless]] = next_ns
    for work, ends in zip(kinds, np.split(end_ns, np.cumsum([*map(len, kinds)])), strict=False):
        work.end_ns = ends
    if profile.end_ns == last_ns:
        profile.end_ns = _last_event_ns(profile)
    text = say(
        "pieces of GPU work cover whole others of their stream, by up to {time:.4g} ms; they end "
        "where the next one begins.",
        time=worst_ns / 1e6,
    )
    profile.warnings.append(ProfileWarning("ENDLESS_WORK", text, len(endless)))


def _covering(
    start_ns: Int64, end_ns: Int64, stream: Sequence[Int64], call: Int32
) -> tuple[Int64, Int64]:
    """Rows, in order of streams and starts, that cover two others, and when their next begins."""
    count = len(start_ns)
    begins_stream, begins_launch = np.ones(count, dtype=bool), np.ones(count, dtype=bool)
    for key in stream:
        begins_stream[1:] &= key[1:] == key[:-1]
    begins_stream[1:] ^= True
    begins_launch[1:] = begins_stream[1:] | (call[1:] != call[:-1]) | (call[1:] < 0)
    lane = np.cumsum(begins_stream)
    # The first piece that another call launched.
    following = np.append(np.flatnonzero(begins_launch), count)[np.cumsum(begins_launch)]

    def later(column: Int64, places: int) -> Int64:
        """The value of the piece that comes so many places after the following one."""
        row = np.minimum(following + places, count - 1)
        is_there = (following + places < count) & (lane[row] == lane)
        return np.where(is_there, column[row], np.iinfo(np.int64).max)

    covers = (later(end_ns, 0) < end_ns) & (later(end_ns, 1) < end_ns)
    # The next ones may have wrong ends, too.
    covers |= later(start_ns, 3) < end_ns
    next_ns = later(start_ns, 0)
    endless = np.flatnonzero(covers & (next_ns > start_ns))
    return endless, next_ns[endless]


def _last_event_ns(profile: Profile) -> int:
    """When the last event of a profile ends. Unit: ns."""
    kinds = (profile.ranges, profile.start_end_ranges, profile.api_calls, profile.kernels)
    others = (profile.copies, profile.sets, profile.graphs, profile.syncs)
    columns = [*(kind.end_ns for kind in (*kinds, *others)), profile.marks.time_ns]
    return max(int(column.max(initial=0)) for column in columns)


def _first_event_ns(profile: Profile, *, is_moved: bool) -> int:
    """Where events begin, if nearly all of the capture lies before them; otherwise 0. Unit: ns.

    Such a capture is a part of a longer one that kept its clock, or its clock began with a piece of
    work that was moved (``is_moved``).
    """
    kinds = (profile.ranges, profile.start_end_ranges, profile.api_calls, profile.kernels)
    others = (profile.copies, profile.sets, profile.graphs, profile.syncs)
    columns = [*(kind.start_ns for kind in (*kinds, *others)), profile.marks.time_ns]
    first = min((int(column.min()) for column in columns if len(column)), default=0)
    if first < max(_EMPTY_SHARE * profile.end_ns, 0 if is_moved else _EMPTY_NS):
        return 0
    if is_moved and first < _EMPTY_NS:
        return first
    text = say(
        "The first {seconds:.1f} s of the capture hold no event: iterations begin after them.",
        seconds=first / 1e9,
    )
    profile.warnings.append(ProfileWarning("EVENTS_BEGIN_LATE", text, 1))
    return first


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
    custom = _custom_codes(profile)
    nesting = tree.nesting if custom else None
    tree = tree.only_names()
    if nesting is None:
        profile.release_range_times()
        release_memory()
    captured = [_captured(graph, meaning, domain) for graph in profile.captures]
    meaning, annotated = annotated_modules(profile, meaning)
    instances, replayed = add_replays(profile, instances, [*captured, *annotated], calls)
    work = correlate_work(profile, instances, calls, replayed)
    release_memory()
    step_of = step_of_instances(profile, work.instances, key_node)
    table, costs = run_both(
        lambda: build_op_table(profile, meaning, work, step_of, reading.framework),
        lambda: compute_costs(profile, meaning, (tree, call_range), work),
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


def _captured(capture: Profile, meaning: RangeMeaning, domain: int) -> Instances:
    """Op instances of a capture of CUDA graphs that was recorded apart."""
    sort_ranges(capture.ranges)
    tree, call_range = _with_calls(capture, meaning, domain, launching_calls(capture)[0])
    instances = InstanceBuilder(capture, meaning, tree).build(call_range)
    # The ranges around a capture (capture_32_DECODE) are no part of the model.
    around = call_range[capture_calls(capture)]
    codes = np.unique(tree.path[around[around >= 0]]).tolist()
    outer = sorted((tree.paths[code] for code in codes), key=len, reverse=True)
    instances.paths = tuple(_inside(path, outer) for path in instances.paths)
    return instances


def _inside(path: str, outer: list[str]) -> str:
    """A path without the groups around a capture."""
    for prefix in outer:
        if path.startswith(prefix):
            return path[len(prefix) - 1 :]
    return path


def _with_calls(
    profile: Profile, meaning: RangeMeaning, domain: int, launches: Int32
) -> tuple[RangeTree, Int32]:
    """The nested ranges with their meaning, and the innermost one of each API call."""
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
