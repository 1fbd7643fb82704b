"""The ranges of a profile that may be named as key node."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from aggregator.correlate.custom_domains import DomainWork
from aggregator.correlate.range_tree import RangeTree
from aggregator.frameworks.meaning import RangeKind, RangeMeaning
from aggregator.frameworks.serving import read_phases
from aggregator.metrics.iterations import NamedRanges
from aggregator.profile.arrays import Bool, Int32, Int64, dense_codes, distinct
from aggregator.profile.counters import fold_counters, names_part, template_of
from aggregator.profile.profile import Profile

INTERNAL = re.compile(
    r"^(?:TorchDynamo |AOTDispatcher |Pregraph bytecode|## Call CompiledFxGraph|CompiledFunction"
    r"|record_param_comms|nccl:|c10d::|triton_|detach_?$|_\w+$|cuda\w*$|PyTorch Profiler"
    r"|FSDP::|FullyShardedDataParallel\.(?!forward$))"
)
"""Ranges of PyTorch and its compiler that no user wrote: they never mark a step."""


def shown_names(profile: Profile, codes: Int64, of_range: Int32, process: Int32) -> dict[int, str]:
    """Return names of range codes with their counters replaced, and those of steps by their phases.

    ``of_range`` and ``process`` are the code and the process of every range that has one of them.
    """
    width = len(profile.range_names) or 1
    pairs, pair = dense_codes(process.astype(np.int64) * width + of_range)
    repeated = set((pairs[np.bincount(pair, minlength=len(pairs)) > 1] % width).tolist())
    names = [profile.range_names[code] for code in codes.tolist()]
    folded = fold_counters(names, [code in repeated for code in codes.tolist()])
    for row, step in read_phases(names).items():
        folded[row] = step.phase
    return dict(zip(codes.tolist(), folded, strict=True))


def with_counters(profile: Profile, meaning: RangeMeaning, domain: int) -> RangeMeaning:
    """Return the meaning with labels of groups that have their counters replaced."""
    ranges = profile.ranges
    kind = meaning.kind[ranges.name]
    rows = np.flatnonzero((ranges.domain == domain) & (kind == RangeKind.GROUP))
    of_range, process = ranges.name[rows], profile.thread_process[ranges.thread[rows]]
    codes = distinct(of_range)
    label_of = {text: label for label, text in enumerate(meaning.labels)}
    label = meaning.label.copy()
    for code, name in shown_names(profile, codes, of_range, process).items():
        label[code] = label_of.setdefault(name, len(label_of))
    return replace(meaning, label=label, labels=tuple(label_of))


def named_ranges(meaning: RangeMeaning, tree: RangeTree) -> NamedRanges:
    """Ranges that may be named as key node: groups outside ops, steps and outermost modules."""
    is_group = tree.is_group() & tree.is_any(RangeKind.GROUP, RangeKind.DATALOADER)
    rows = np.flatnonzero(is_group | (tree.kind == RangeKind.STEP) | _outermost_modules(tree))
    used, code = np.unique(tree.label[rows], return_inverse=True)
    return NamedRanges(
        name=code.astype(np.int32),
        names=tuple(meaning.labels[label] for label in used.tolist()),
        start_ns=tree.nesting.start_ns[rows],
        end_ns=tree.nesting.end_ns[rows],
        process=tree.process[rows],
    )


def _outermost_modules(tree: RangeTree) -> Bool:
    """Return whether each range is the call of a module that no other module calls."""
    result = np.zeros(len(tree.kind), dtype=bool)
    rows = np.flatnonzero(tree.is_group() & (tree.kind == RangeKind.MODULE))
    for thread in np.unique(tree.thread[rows]).tolist():
        own = rows[tree.thread[rows] == thread]
        own = own[np.argsort(tree.nesting.start_ns[own], kind="stable")]
        ends = np.maximum.accumulate(tree.nesting.end_ns[own])
        result[own] = tree.nesting.start_ns[own] >= np.concatenate([[-1], ends[:-1]])
    return result


def plain_ranges(profile: Profile) -> NamedRanges:
    """Ranges of the default domain, which the user pushed if the framework has its own domain."""
    rows = np.flatnonzero(profile.ranges.domain == 0)
    used, code = dense_codes(profile.ranges.name[rows])
    process = profile.thread_process[profile.ranges.thread[rows]]
    shown = shown_names(profile, used, profile.ranges.name[rows], process)
    names = tuple(dict.fromkeys(shown.values()))
    row_of = {name: row for row, name in enumerate(names)}
    codes = np.array([row_of[name] for name in shown.values()], dtype=np.int32)
    return NamedRanges(
        name=codes[code] if len(rows) else codes,
        names=names,
        start_ns=profile.ranges.start_ns[rows],
        end_ns=profile.ranges.end_ns[rows],
        process=process,
    )


def custom_ranges(profile: Profile, domains: tuple[DomainWork, ...]) -> NamedRanges:
    """Return the ranges of custom domains, by their own names."""
    parts = []
    for domain in domains:
        names = [op.op_type for op in domain.ops]
        used = tuple(dict.fromkeys(names))
        code_of_op = np.array([used.index(name) for name in names], dtype=np.int32)
        process = profile.thread_process[domain.thread]
        parts.append(
            NamedRanges(
                code_of_op[domain.op], used, domain.start_ns, domain.end_ns, process, domain.code
            )
        )
    return joined_ranges(*parts)


def joined_ranges(*parts: NamedRanges) -> NamedRanges:
    """Return several sets of ranges as one, with each name once."""
    names = tuple(dict.fromkeys(name for part in parts for name in part.names))
    row = {name: code for code, name in enumerate(names)}
    filled = [part for part in parts if len(part.name)]
    if not filled:
        return NamedRanges.empty()
    codes = [
        np.array([row[name] for name in part.names], dtype=np.int32)[part.name] for part in filled
    ]
    return NamedRanges(
        name=np.concatenate(codes),
        names=names,
        start_ns=np.concatenate([part.start_ns for part in filled]),
        end_ns=np.concatenate([part.end_ns for part in filled]),
        process=np.concatenate([part.process for part in filled]),
    )


@dataclass(frozen=True)
class NameableRanges:
    """Ranges that a user may name."""

    all: NamedRanges
    counted: frozenset[str]  # Names in which ``#`` stands for a counter.


def with_templates(ranges: NamedRanges, written: Sequence[str]) -> NameableRanges:
    """Return ranges, and again those whose names differ in numbers only, under their common name.

    Serving engines put the shapes of a batch into the names of their steps. ``written`` are the
    names as the program wrote them.
    """
    alike: dict[str, list[int]] = {}
    for code, name in enumerate(ranges.names):
        if (template := template_of(name)) != name and not names_part(template):
            alike.setdefault(template, []).append(code)
    parts = [ranges]
    for template, codes in alike.items():
        if len(codes) > 1 and template not in ranges.names and not INTERNAL.search(template):
            rows = np.flatnonzero(np.isin(ranges.name, codes))
            none = np.zeros(len(rows), dtype=np.int32)
            columns = (ranges.start_ns[rows], ranges.end_ns[rows], ranges.process[rows])
            parts.append(NamedRanges(none, (template,), *columns))
    counted = {name for name in ranges.names if "#" in name}.difference(written)
    return NameableRanges(joined_ranges(*parts), frozenset(counted))
