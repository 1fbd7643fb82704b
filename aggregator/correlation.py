"""From a profile's raw columns to ops, instances and device work, in the mode asked for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aggregator.correlate.combined_backward import has_engine_threads
from aggregator.correlate.costs import complete_costs, compute_costs
from aggregator.correlate.custom_domains import DomainWork, correlate_domain
from aggregator.correlate.helper_threads import adopt_calls
from aggregator.correlate.messages import Messages, find_messages
from aggregator.correlate.op_table import OpTable, build_op_table
from aggregator.correlate.ops import InstanceBuilder
from aggregator.correlate.range_tree import RangeTree, build_tree
from aggregator.correlate.ranges import (
    Nesting,
    innermost,
    nest,
    nest_process_ranges,
    nest_start_end_ranges,
    sort_ranges,
)
from aggregator.correlate.simple import simple_instances, simple_meaning, simple_table
from aggregator.correlate.work import CorrelatedWork, correlate_work, launching_calls
from aggregator.errors import NoFrameworkRangesError, UsageError
from aggregator.flops.units import InstanceCosts
from aggregator.frameworks import (
    FRAMEWORK_DOMAINS,
    FRAMEWORKS,
    PYTORCH,
    Framework,
    framework_of,
)
from aggregator.frameworks.meaning import RangeKind, RangeMeaning
from aggregator.imported import (
    ImportedProfile,
    build_rollup_inputs,
    distinct_kernels,
    memory_launch_order,
)
from aggregator.iterations import KeyNode, NamedRanges
from aggregator.loop import (
    custom_ranges,
    find_key_node,
    joined_ranges,
    name_by_op,
    named_ranges,
    plain_ranges,
    step_of_instances,
)
from aggregator.memory import give_back
from aggregator.options import Mode
from aggregator.parallel import both
from aggregator.profile import Int32, Int64, Profile, ProfileWarning, Ranges
from aggregator.progress import Level, Progress
from aggregator.texts import say

OP_KINDS = (RangeKind.OP, RangeKind.WRAPPER, RangeKind.NODE)
"""Ranges that show that a framework wrote them."""


@dataclass(frozen=True)
class _Found:
    """What the correlation found, whatever the mode."""

    meaning: RangeMeaning
    work: CorrelatedWork
    table: OpTable
    ranges: NamedRanges
    key_node: KeyNode
    costs: InstanceCosts
    domains: tuple[DomainWork, ...]


@dataclass(frozen=True)
class Reading:
    """A framework whose ranges a profile holds.

    Attributes:
        framework: The framework.
        domain: Code of the domain that holds its ops.
        meaning: What the range names mean.
    """

    framework: Framework
    domain: int
    meaning: RangeMeaning


def correlate(profile: Profile, mode: Mode, progress: Progress) -> ImportedProfile:
    """Find ops and iterations, and join all device work to them.

    Raises:
        NoFrameworkRangesError: A framework mode on a profile without that framework's ranges.
        UsageError: A mode that this version does not read.
    """
    progress.phase("correlate", 4)
    progress.message("Correlating network models with kernel and timeline data")
    (reading, reason), calls = both(
        lambda: choose_mode(profile, mode), lambda: launching_calls(profile)
    )
    chosen = reading.framework.mode if reading else Mode.SIMPLE
    progress.message(f"Mode: {chosen} ({reason})")
    if reading is not None:
        _prepare(profile, reading)
    sort_ranges(profile.ranges)
    first = nest_process_ranges(profile, FRAMEWORK_DOMAINS)
    messages = find_messages(profile, calls[0])
    if reading is not None:
        found = _framework_ops(profile, reading, (first, calls), progress)
    else:
        found = _simple(profile, (first, calls), progress)
    # Nothing asks for single ranges any more, and they are most of a profile.
    profile.release_ranges()
    give_back()
    progress.advance(1)
    return _finish(profile, (chosen, reason), found, messages, progress)


def choose_mode(profile: Profile, mode: Mode) -> tuple[Reading | None, str]:
    """The framework whose ranges are read (None: simple mode), and why.

    Raises:
        NoFrameworkRangesError: A framework mode was asked for and no range is one of its ops.
        UsageError: A mode that this version does not read.
    """
    if mode is Mode.SIMPLE:
        return None, say("as asked")
    if mode is Mode.AUTO:
        for framework in FRAMEWORKS:
            reading = _find_ops(profile, framework, only_claimed=True)
            if reading is not None:
                return reading, _reason(
                    framework, say("{title} ranges found", title=framework.title)
                )
        return None, say("no framework ranges found")
    wanted = framework_of(mode)
    if wanted is None:
        known = ", ".join(f"--mode={framework.mode}" for framework in FRAMEWORKS)
        raise UsageError(
            say("The mode '{mode}' is not supported in this version.", mode=mode),
            hint=say("Use --mode=auto, {known} or --mode=simple.", known=known),
        )
    reading = _find_ops(profile, wanted, only_claimed=False)
    if reading is None and wanted is PYTORCH and has_engine_threads(profile):
        meaning = wanted.read_meaning(profile.range_names)
        return Reading(wanted, 0, meaning), say("as asked; no op carries a range")
    if reading is None:
        raise NoFrameworkRangesError(
            say("The profile holds no {title} op ranges.", title=wanted.title), hint=wanted.advice
        )
    return reading, _reason(wanted, say("as asked"))


def _reason(framework: Framework, why: str) -> str:
    return (
        say("{why}; {evidence}", why=why, evidence=framework.evidence)
        if framework.evidence
        else why
    )


def _find_ops(profile: Profile, framework: Framework, *, only_claimed: bool) -> Reading | None:
    """The first of the framework's domains that holds ops of it."""
    for domain in framework.domains:
        if domain not in profile.domain_names:
            continue
        code = profile.domain_names.index(domain)
        kinds = [profile.ranges]
        if framework.reads_start_end:
            kinds.append(profile.start_end_ranges)
        used = np.unique(np.concatenate([_names_in(kind, code) for kind in kinds]))
        names = tuple(profile.range_names[name] for name in used.tolist())
        if not names or (only_claimed and not framework.claims(names)):
            continue
        meaning = framework.read_meaning(profile.range_names)
        if bool(np.isin(meaning.kind[used], OP_KINDS).any()):
            return Reading(framework, code, meaning)
    return None


def _names_in(ranges: Ranges, domain: int) -> Int64:
    """Codes of the names of the ranges of a domain."""
    is_in = ranges.domain == domain
    return np.flatnonzero(np.bincount(ranges.name if is_in.all() else ranges.name[is_in]))


def _prepare(profile: Profile, reading: Reading) -> None:
    framework = reading.framework
    if framework.reads_start_end:
        nest_start_end_ranges(profile, reading.domain)
    if framework.evidence:
        count = int(np.count_nonzero(profile.ranges.domain == reading.domain))
        text = say("Mode {mode} is {evidence}.", mode=framework.mode, evidence=framework.evidence)
        profile.warnings.append(ProfileWarning("UNVERIFIED_MODE", text, count))


def _framework_ops(
    profile: Profile, reading: Reading, known: tuple[int, list[Int32]], progress: Progress
) -> _Found:
    meaning, domain = reading.meaning, reading.domain
    process_rows, calls = known
    tree, call_range = _with_calls(profile, meaning, domain)
    progress.advance(1)
    instances = InstanceBuilder(profile, meaning, tree).build(call_range)
    ranges = named_ranges(meaning, tree)
    plain = plain_ranges(profile) if domain else NamedRanges.empty()
    key_node = find_key_node(meaning, tree, ranges, plain, allow_op=True)
    is_op = bool(key_node.name) and key_node.name not in (*ranges.names, *plain.names)
    other = find_key_node(meaning, tree, ranges, plain, allow_op=False) if is_op else key_node
    # Costs ask who encloses whom and by what name; only custom domains ask when.
    custom = _custom_codes(profile)
    nesting = tree.nesting if custom else None
    tree = tree.only_names()
    if nesting is None:
        profile.release_range_times()
        give_back()
    work = correlate_work(profile, instances, calls)
    give_back()
    steps = step_of_instances(profile, work.instances, key_node)
    table, costs = both(
        lambda: build_op_table(profile, meaning, work.instances, steps, reading.framework),
        lambda: compute_costs(profile, meaning, (tree, call_range), work),
    )
    costs = complete_costs(costs, table.op_of_instance)
    if is_op:
        key_node = name_by_op(key_node, table, work.instances) or other
    domains = _custom_domains(profile, nesting, work, process_rows)
    return _Found(meaning, work, table, joined_ranges(ranges, plain), key_node, costs, domains)


def _with_calls(profile: Profile, meaning: RangeMeaning, domain: int) -> tuple[RangeTree, Int32]:
    """The nested ranges with their meaning, and the innermost one of each API call."""
    nesting, api = nest(profile.ranges), profile.api_calls
    tree, call_range = both(
        lambda: build_tree(profile, nesting, meaning, domain),
        lambda: innermost(nesting, api.thread, api.start_ns, api.end_ns, domain),
    )
    call_range = adopt_calls(profile, tree, meaning, domain, call_range)
    return tree.without_depths(), call_range


def _simple(profile: Profile, known: tuple[int, list[Int32]], progress: Progress) -> _Found:
    process_rows, calls = known
    work = correlate_work(profile, simple_instances(profile), calls)
    domains = _custom_domains(profile, nest(profile.ranges), work, process_rows)
    progress.advance(1)
    key_node = KeyNode("", "simple mode has no iterations")
    table = simple_table(work.instances)
    costs = compute_costs(profile, simple_meaning(), None, work)
    costs = complete_costs(costs, table.op_of_instance)
    return _Found(simple_meaning(), work, table, NamedRanges.empty(), key_node, costs, domains)


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


def _finish(
    profile: Profile,
    mode: tuple[Mode, str],
    found: _Found,
    messages: Messages,
    progress: Progress,
) -> ImportedProfile:
    work, domains = found.work, found.domains
    ranges = joined_ranges(found.ranges, custom_ranges(profile, domains))
    kernel_order = work.kernels.launch_order()
    memory_order = memory_launch_order(work)
    names = distinct_kernels(profile, profile.kernels, kernel_order)
    progress.advance(1)
    imported = ImportedProfile(
        profile=profile,
        mode=mode[0],
        mode_reason=mode[1],
        meaning=found.meaning,
        work=work,
        ops=found.table,
        domains=domains,
        kernel_order=kernel_order,
        memory_order=memory_order,
        kernel_names=names,
        ranges=ranges,
        key_node=found.key_node,
        rollups=(),
        costs=found.costs,
        messages=messages,
    )
    imported.rollups = build_rollup_inputs(imported)
    give_back()
    progress.advance(1)
    counts = ", ".join(f"{count} {kind}" for kind, count in profile.counts().items())
    progress.message(f"Read {counts}; found {len(found.table.ops)} ops", Level.DETAILED)
    return imported
