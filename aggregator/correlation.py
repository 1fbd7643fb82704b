"""From a profile's raw columns to ops, instances and device work, in the mode asked for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aggregator.correlate.op_table import OpTable, build_op_table
from aggregator.correlate.ops import InstanceBuilder, Instances, build_tree
from aggregator.correlate.ranges import innermost
from aggregator.correlate.simple import simple_instances, simple_meaning, simple_table
from aggregator.correlate.work import CorrelatedWork, correlate_work
from aggregator.errors import NoFrameworkRangesError, UsageError
from aggregator.frameworks import pytorch
from aggregator.frameworks.meaning import RangeMeaning
from aggregator.imported import (
    ImportedProfile,
    build_rollup_input,
    distinct_kernels,
    memory_launch_order,
)
from aggregator.iterations import KeyNode, NamedRanges
from aggregator.loop import find_key_node, name_by_op, named_ranges, step_of_instances
from aggregator.options import Mode
from aggregator.profile import Profile, empty_i32, empty_i64
from aggregator.progress import Level, Progress

FRAMEWORK_DOMAINS = frozenset({0})
"""Domains whose ranges may be ops: PyTorch writes into the default domain."""


def correlate(profile: Profile, mode: Mode, progress: Progress) -> ImportedProfile:
    """Find ops and iterations, and join all device work to them.

    Raises:
        NoFrameworkRangesError: A framework mode on a profile without that framework's ranges.
        UsageError: A mode that this version does not read.
    """
    progress.phase("correlate", 4)
    progress.message("Correlating network models with kernel and timeline data")
    meaning = pytorch.read_meaning(profile.range_names)
    chosen, reason = choose_mode(profile, meaning, mode)
    progress.message(f"Mode: {chosen} ({reason})")
    if chosen is Mode.SIMPLE:
        found = _simple(profile)
        return _finish(profile, (chosen, reason), found, progress)
    tree = build_tree(profile, meaning, FRAMEWORK_DOMAINS)
    progress.advance(1)
    api = profile.api_calls
    call_range = innermost(tree.nesting, api.thread, api.start_ns, api.end_ns, domain=0)
    instances = InstanceBuilder(profile, meaning, tree).build(call_range)
    ranges = named_ranges(profile, meaning, tree)
    work = correlate_work(profile, instances)
    progress.advance(1)
    key_node = find_key_node(meaning, tree, ranges, work.instances)
    step, num_steps = step_of_instances(profile, work.instances, key_node)
    table = build_op_table(profile, meaning, work.instances, step, num_steps)
    if key_node.name and key_node.name not in ranges.names:
        key_node = name_by_op(key_node, table, work.instances)
    progress.advance(1)
    found = _Found(meaning, work, table, ranges, key_node)
    return _finish(profile, (chosen, reason), found, progress)


@dataclass(frozen=True)
class _Found:
    """What the correlation found, whatever the mode."""

    meaning: RangeMeaning
    work: CorrelatedWork
    table: OpTable
    ranges: NamedRanges
    key_node: KeyNode


def choose_mode(profile: Profile, meaning: RangeMeaning, mode: Mode) -> tuple[Mode, str]:
    """The mode to read the ranges in, and why.

    Raises:
        NoFrameworkRangesError: PyTorch mode was asked for and no range is an op.
        UsageError: A mode that this version does not read.
    """
    has_ops = _default_domain_has_ops(profile, meaning)
    if mode is Mode.SIMPLE:
        return Mode.SIMPLE, "as asked"
    if mode not in (Mode.AUTO, Mode.PYTORCH):
        raise UsageError(
            f"The mode '{mode}' is not supported in this version.",
            hint="Use --mode=auto, --mode=pytorch or --mode=simple.",
        )
    if has_ops:
        return Mode.PYTORCH, "PyTorch ranges found" if mode is Mode.AUTO else "as asked"
    if mode is Mode.PYTORCH:
        raise NoFrameworkRangesError(
            "The profile holds no PyTorch op ranges.",
            hint="Train under torch.autograd.profiler.emit_nvtx(), or use --mode=simple.",
        )
    return Mode.SIMPLE, "no framework ranges found"


def _default_domain_has_ops(profile: Profile, meaning: RangeMeaning) -> bool:
    ranges = profile.ranges
    names = np.unique(ranges.name[np.isin(ranges.domain, list(FRAMEWORK_DOMAINS))])
    kinds = meaning.kind[names]
    return bool(np.isin(kinds, pytorch.OP_KINDS).any())


def _simple(profile: Profile) -> _Found:
    instances: Instances = simple_instances(profile)
    work = correlate_work(profile, instances)
    none = NamedRanges(empty_i32(), (), empty_i64(), empty_i64(), empty_i32())
    key_node = KeyNode("", "simple mode has no iterations")
    return _Found(simple_meaning(), work, simple_table(work.instances), none, key_node)


def _finish(
    profile: Profile, mode: tuple[Mode, str], found: _Found, progress: Progress
) -> ImportedProfile:
    work = found.work
    kernel_order = work.kernels.launch_order()
    memory_order = memory_launch_order(work)
    names = distinct_kernels(profile, profile.kernels, kernel_order)
    orders = (kernel_order, memory_order)
    rollup = build_rollup_input(
        profile, mode[0], work, found.table, names, orders, (found.ranges, found.key_node)
    )
    progress.advance(1)
    counts = ", ".join(f"{count} {kind}" for kind, count in profile.counts().items())
    progress.message(f"Read {counts}; found {len(found.table.ops)} ops", Level.DETAILED)
    return ImportedProfile(
        profile=profile,
        mode=mode[0],
        mode_reason=mode[1],
        meaning=found.meaning,
        work=work,
        ops=found.table,
        kernel_order=kernel_order,
        memory_order=memory_order,
        kernel_names=names,
        ranges=found.ranges,
        key_node=found.key_node,
        rollup=rollup,
    )
