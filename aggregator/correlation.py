"""From a profile's raw columns to ops, instances and device work, in the mode asked for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aggregator.correlate.custom_domains import DomainWork, correlate_domain
from aggregator.correlate.op_table import OpTable, build_op_table
from aggregator.correlate.ops import InstanceBuilder
from aggregator.correlate.range_tree import build_tree
from aggregator.correlate.ranges import Nesting, innermost, nest
from aggregator.correlate.simple import simple_instances, simple_meaning, simple_table
from aggregator.correlate.work import CorrelatedWork, correlate_work
from aggregator.errors import NoFrameworkRangesError, UsageError
from aggregator.frameworks import FRAMEWORK_DOMAINS, FRAMEWORKS, Framework, framework_of
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
    step_of_instances,
)
from aggregator.options import Mode
from aggregator.profile import Profile
from aggregator.progress import Level, Progress

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


def correlate(profile: Profile, mode: Mode, progress: Progress) -> ImportedProfile:
    """Find ops and iterations, and join all device work to them.

    Raises:
        NoFrameworkRangesError: A framework mode on a profile without that framework's ranges.
        UsageError: A mode that this version does not read.
    """
    progress.phase("correlate", 4)
    progress.message("Correlating network models with kernel and timeline data")
    framework, meaning, reason = choose_mode(profile, mode)
    chosen = framework.mode if framework else Mode.SIMPLE
    progress.message(f"Mode: {chosen} ({reason})")
    nesting = nest(profile.ranges)
    progress.advance(1)
    if framework is None:
        found = _simple(profile)
    else:
        found = _framework_ops(profile, nesting, framework, meaning)
    progress.advance(1)
    return _finish(profile, (chosen, reason), found, nesting, progress)


def choose_mode(profile: Profile, mode: Mode) -> tuple[Framework | None, RangeMeaning, str]:
    """The framework whose ranges are read (None: simple mode), their meaning, and why.

    Raises:
        NoFrameworkRangesError: A framework mode was asked for and no range is one of its ops.
        UsageError: A mode that this version does not read.
    """
    if mode is Mode.SIMPLE:
        return None, simple_meaning(), "as asked"
    if mode is Mode.AUTO:
        for framework in FRAMEWORKS:
            meaning = _meaning_if_any(profile, framework)
            if meaning is not None:
                return framework, meaning, f"{framework.title} ranges found"
        return None, simple_meaning(), "no framework ranges found"
    wanted = framework_of(mode)
    if wanted is None:
        known = ", ".join(f"--mode={framework.mode}" for framework in FRAMEWORKS)
        raise UsageError(
            f"The mode '{mode}' is not supported in this version.",
            hint=f"Use --mode=auto, {known} or --mode=simple.",
        )
    meaning = _meaning_if_any(profile, wanted)
    if meaning is None:
        raise NoFrameworkRangesError(
            f"The profile holds no {wanted.title} op ranges.", hint=wanted.advice
        )
    return wanted, meaning, "as asked"


def _meaning_if_any(profile: Profile, framework: Framework) -> RangeMeaning | None:
    """Meaning of the range names if the framework's domain has any op range."""
    if framework.domain not in profile.domain_names:
        return None
    code = profile.domain_names.index(framework.domain)
    names = np.unique(profile.ranges.name[profile.ranges.domain == code])
    if not len(names):
        return None
    meaning = framework.read_meaning(profile.range_names)
    return meaning if bool(np.isin(meaning.kind[names], OP_KINDS).any()) else None


def _framework_ops(
    profile: Profile, nesting: Nesting, framework: Framework, meaning: RangeMeaning
) -> _Found:
    domain = profile.domain_names.index(framework.domain)
    tree = build_tree(profile, nesting, meaning, domain)
    api = profile.api_calls
    call_range = innermost(nesting, api.thread, api.start_ns, api.end_ns, domain)
    instances = InstanceBuilder(profile, meaning, tree).build(call_range)
    ranges = named_ranges(meaning, tree)
    work = correlate_work(profile, instances)
    key_node = find_key_node(meaning, tree, ranges, allow_op=True)
    steps = step_of_instances(profile, work.instances, key_node)
    table = build_op_table(profile, meaning, work.instances, steps, framework)
    if key_node.name and key_node.name not in ranges.names:
        named = name_by_op(key_node, table, work.instances)
        key_node = named or find_key_node(meaning, tree, ranges, allow_op=False)
    return _Found(meaning, work, table, ranges, key_node)


def _simple(profile: Profile) -> _Found:
    work = correlate_work(profile, simple_instances(profile))
    key_node = KeyNode("", "simple mode has no iterations")
    table = simple_table(work.instances)
    return _Found(simple_meaning(), work, table, NamedRanges.empty(), key_node)


def _custom_domains(
    profile: Profile, nesting: Nesting, work: CorrelatedWork
) -> tuple[DomainWork, ...]:
    """Domains that no framework writes to, with the ops in them."""
    present = set(np.unique(profile.ranges.domain).tolist())
    return tuple(
        correlate_domain(profile, nesting, work, code)
        for code, name in enumerate(profile.domain_names)
        if code in present and name not in FRAMEWORK_DOMAINS
    )


def _finish(
    profile: Profile,
    mode: tuple[Mode, str],
    found: _Found,
    nesting: Nesting,
    progress: Progress,
) -> ImportedProfile:
    work = found.work
    domains = _custom_domains(profile, nesting, work)
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
    )
    imported.rollups = build_rollup_inputs(imported)
    progress.advance(1)
    counts = ", ".join(f"{count} {kind}" for kind, count in profile.counts().items())
    progress.message(f"Read {counts}; found {len(found.table.ops)} ops", Level.DETAILED)
    return imported
