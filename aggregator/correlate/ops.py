"""Builds op instances, the executions of framework operations, from ranges and API calls.

A *unit* is a range that represents an op: the outermost op range, or the wrapper that the autograd
engine opens around a backward node. An op instance is a forward unit, all wrappers of the backward
of one forward unit, the CUDA calls made directly in a group, or one stray CUDA call.
"""

from __future__ import annotations

import numpy as np

from aggregator.correlate.backward import link_forward, occurrence_numbers
from aggregator.correlate.combined_backward import find_passes, pass_columns
from aggregator.correlate.instances import Evidence, Instances, Origin, blank_columns
from aggregator.correlate.range_tree import (
    OwnTimes,
    RangeTree,
    is_any,
    nested_units,
    outermost_wrappers,
)
from aggregator.correlate.ranges import innermost
from aggregator.frameworks.inductor import module_path
from aggregator.frameworks.meaning import RangeKind, RangeMeaning
from aggregator.profile.arrays import (
    NO_ROW,
    Bool,
    Int32,
    Int64,
    Integers,
    concatenate_and_clear,
    dense_codes,
    distinct,
    first_rows,
    narrowest,
    ordered,
    row_codes,
)
from aggregator.profile.profile import Profile
from aggregator.system.resources import release_memory


def _at(values: Int32, positions: Int32 | Int64) -> Int32:
    """Return the values at positions; -1 for position -1."""
    result = np.full(len(positions), NO_ROW, dtype=np.int32)
    inside = positions >= 0
    result[inside] = values[positions[inside]]
    return result


class InstanceBuilder:
    """Collects op instances from the nested ranges and the API calls."""

    def __init__(self, profile: Profile, meaning: RangeMeaning, tree: RangeTree) -> None:
        self._profile = profile
        self._meaning = meaning
        self._tree = tree
        self._nested = nested_units(tree)
        self._own_times = OwnTimes(tree, *self._nested)
        self._row_of_unit = np.full(len(tree.unit), NO_ROW, dtype=np.int32)
        self._columns: list[dict[str, Integers]] = []
        self._count = 0
        self._busy: list[tuple[Int64, Int64, Integers]] = []
        self._paths = list(tree.paths)
        self._process_of = narrowest(profile.thread_process)

    def build(self, call_range: Int32) -> Instances:
        """Make the instances, from each API call's innermost range, or ``NO_ROW``."""
        tree = self._tree
        call_instance = np.full(len(call_range), NO_ROW, dtype=np.int32)
        self._add_forward_units()
        release_memory()
        self._add_wrappers()
        self._add_compiled()
        release_memory()
        unit_of_call = _at(tree.unit, call_range)
        in_unit = unit_of_call >= 0
        call_instance[in_unit] = self._row_of_unit[unit_of_call[in_unit]]
        group_of_call = _at(tree.group, call_range)
        group_row = self._add_groups(np.unique(group_of_call[~in_unit & (group_of_call >= 0)]))
        in_group = ~in_unit & (group_of_call >= 0)
        call_instance[in_group] = group_row[group_of_call[in_group]]
        if self._meaning.combines_backward:
            free = np.flatnonzero(call_instance < 0)
            calls, number = find_passes(self._profile, tree, free)
            call_instance[calls] = self._add_passes(calls, number)
        stray = np.flatnonzero(call_instance < 0)
        call_instance[stray] = self._add_stray(stray)
        self._add_group_calls_to_busy(call_instance)
        return self._finish(call_instance)

    def _append(self, columns: dict[str, Integers]) -> Int32:
        """Add instances; returns their rows."""
        count = len(columns["start_ns"])
        rows = np.arange(self._count, self._count + count, dtype=np.int32)
        self._columns.append(columns)
        self._count += count
        return rows

    def _unit_columns(self, units: Int64, origin: Integers) -> dict[str, Integers]:
        tree, nesting = self._tree, self._tree.nesting
        parent = nesting.parent[units]
        around = np.maximum(parent, 0)
        describes = is_any(tree.kind[around], (RangeKind.IGNORED, RangeKind.MODULE))
        has_marker = (parent >= 0) & describes
        return {
            "origin": origin,
            "label": tree.label[units].astype(np.int32),
            "path": tree.path[units].astype(np.int32),
            "range_name": tree.name[units],
            "marker": np.where(has_marker, tree.name[around], -1).astype(np.int32),
            "forward": np.full(len(units), NO_ROW, dtype=np.int32),
            "start_ns": nesting.start_ns[units],
            "end_ns": nesting.end_ns[units],
            "cpu_time_ns": self._own_times.of(units),
            "thread": tree.thread[units],
            "shapes": self._profile.ranges.shapes[nesting.rows(units)],
            "evidence": np.zeros(len(units), dtype=np.int8),
        }

    def _add_busy(self, positions: Int64) -> None:
        nesting = self._tree.nesting
        self._busy.append(
            (nesting.start_ns[positions], nesting.end_ns[positions], self._tree.process[positions])
        )

    def _add_forward_units(self) -> None:
        tree = self._tree
        units = np.flatnonzero(tree.is_unit() & (tree.kind == RangeKind.OP))
        is_again = np.isin(units, self._nested[0])
        # The data loader is both a group and an op.
        loaders = np.flatnonzero((tree.kind == RangeKind.DATALOADER) & tree.is_group())
        on_engine = self._on_autograd_thread(units) & ~is_again
        for positions, origin in (
            (units[~on_engine & ~is_again], Origin.FORWARD),
            (units[is_again], Origin.RECOMPUTED),
            (units[on_engine], Origin.BACKWARD_ALONE),
            (loaders, Origin.DATALOADER),
        ):
            columns = self._unit_columns(positions, np.full(len(positions), origin, dtype=np.int8))
            if origin is Origin.DATALOADER:
                columns["path"] = self._path_above(positions)
            elif origin is Origin.BACKWARD_ALONE:
                columns["path"] = self._path_of_main_thread(positions)
            self._row_of_unit[positions] = self._append(columns)
            self._add_busy(positions)

    def _on_autograd_thread(self, units: Int64) -> Bool:
        """Return ops between the wrappers of an autograd thread, for example of a gradient reducer.

        Such a thread has wrappers and no group; on the CPU the engine runs on the main thread.
        """
        tree = self._tree
        wrapper_threads = distinct(tree.thread[tree.kind == RangeKind.WRAPPER])
        group_threads = distinct(tree.thread[tree.group >= 0])
        return np.isin(tree.thread[units], np.setdiff1d(wrapper_threads, group_threads))

    def _path_above(self, positions: Int64) -> Int32:
        if not len(positions):
            return np.empty(0, dtype=np.int32)
        parent = self._tree.nesting.parent[positions]
        return np.where(parent >= 0, self._tree.path[np.maximum(parent, 0)], 0).astype(np.int32)

    def _add_wrappers(self) -> None:
        """Add backward units; those of one forward instance are one instance."""
        tree = self._tree
        units = np.flatnonzero(tree.is_unit() & tree.is_any(RangeKind.WRAPPER, RangeKind.NODE))
        if not len(units):
            return
        forward = self._forward_positions(units)
        forward_row = _at(self._row_of_unit, _at(tree.unit, forward)).astype(np.int64)
        linked = forward_row >= 0
        self._add_backward_of_forward(units[linked], forward_row[linked])
        alone = units[~linked]
        columns = self._unit_columns(
            alone, np.full(len(alone), Origin.BACKWARD_ALONE, dtype=np.int8)
        )
        # The backward of a function of several ops, such as a compiled graph, gets its path.
        around = _at(tree.group, forward[~linked])
        path = self._path_of_main_thread(alone)
        columns["path"] = np.where(around >= 0, _at(tree.path, around), path).astype(np.int32)
        self._row_of_unit[alone] = self._append(columns)
        self._add_busy(units)

    def _add_compiled(self) -> None:
        tree, known = self._tree, self._meaning.compiled
        units = np.flatnonzero(tree.is_unit() & (tree.kind == RangeKind.COMPILED))
        if not len(units):
            return
        origin_of = {"bprop": Origin.COMPILED_BACKWARD, "recompute": Origin.RECOMPUTED}
        codes = sorted(known)
        origins = [origin_of.get(known[code].direction, Origin.FORWARD) for code in codes]
        place = np.searchsorted(codes, tree.name[units])
        columns = self._unit_columns(units, np.array(origins, dtype=np.int8)[place])
        columns["path"] = self._module_paths(self._outer_paths(units), tree.name[units])
        columns["evidence"] = np.full(len(units), Evidence.PROVENANCE, dtype=np.int8)
        columns["marker"] = np.full(len(units), NO_ROW, dtype=np.int32)
        columns["shapes"] = self._shapes_inside(units)
        self._row_of_unit[units] = self._append(columns)
        self._add_busy(units)

    def _outer_paths(self, units: Int64) -> Int64:
        """Path of the groups around compiled code; a backward pass has that of its forward one."""
        path = self._tree.path[units].astype(np.int64)
        inner, around = self._nested
        place = np.minimum(np.searchsorted(inner, units), max(len(inner) - 1, 0))
        nested = np.flatnonzero(inner[place] == units) if len(inner) else place[:0]
        row = self._row_of_unit[around[place[nested]]]
        paths = np.concatenate([columns["path"] for columns in self._columns])
        path[nested[row >= 0]] = paths[row[row >= 0]]
        return path

    def _module_paths(self, outer: Int64, name: Int32) -> Int32:
        first, inverse = row_codes(outer, name)
        code_of = {text: code for code, text in reversed([*enumerate(self._paths)])}
        codes = []
        for path, row in zip(outer[first].tolist(), name[first].tolist(), strict=True):
            text = module_path(self._paths[path], self._meaning.compiled[row])
            codes.append(code_of.setdefault(text, len(self._paths)))
            if codes[-1] == len(self._paths):
                self._paths.append(text)
        return np.array(codes, dtype=np.int32)[inverse]

    def _shapes_inside(self, units: Int64) -> Int32:
        """Return the shapes of the op that begins each unit, or -1 if there is none."""
        tree = self._tree
        child = np.minimum(units + 1, len(tree.kind) - 1)
        begins = (tree.nesting.parent[child] == units) & (tree.kind[child] == RangeKind.OP)
        shapes = self._profile.ranges.shapes[tree.nesting.rows(child)]
        return np.where(begins, shapes, -1).astype(np.int32)

    def _forward_positions(self, units: Int64) -> Int64:
        """Position of the forward range of each backward unit, or ``NO_ROW``."""
        tree, nesting = self._tree, self._tree.nesting
        in_backward = is_any(tree.unit_kind(), (RangeKind.WRAPPER, RangeKind.NODE))
        is_node = in_backward & (tree.kind == RangeKind.NODE)
        nodes, forward = link_forward(
            tree.seq,
            nesting.start_ns,
            2 * tree.process.astype(np.int16) + self._is_recomputed(in_backward),
            ~in_backward,
            is_node,
        )
        found = np.full(len(tree.unit), NO_ROW, dtype=np.int32)
        # Reversed, so that the first node of a wrapper is kept.
        has = forward >= 0
        found[tree.unit[nodes[has]][::-1]] = forward[has][::-1]
        return found[units].astype(np.int64)

    def _is_recomputed(self, in_backward: Bool) -> Bool:
        """Ranges of a backward pass inside a backward node, and of the ops recomputed for it.

        Sequence numbers are per thread: those of a checkpoint's recomputation belong to the
        autograd thread and do not match the forward thread's ops.
        """
        tree = self._tree
        inner, around = self._nested
        outermost = outermost_wrappers(tree, inner, around)
        # In a unit outside all others, every range of a backward pass is in its wrapper.
        is_recomputed = (outermost >= 0) & ~(in_backward[inner] & (outermost == inner))
        result = np.zeros(len(tree.unit), dtype=bool)
        if is_recomputed.any():
            result[inner[is_recomputed]] = True
            result = result[tree.unit] & (tree.unit >= 0)
        return result

    def _add_backward_of_forward(self, units: Int64, forward_row: Int64) -> None:
        if not len(units):
            return
        tree, nesting = self._tree, self._tree.nesting
        order = ordered(nesting.start_ns[units])
        units, forward_row = units[order], forward_row[order]
        # A second backward pass over one graph repeats a node: a second call of the op.
        node_seq = self._first_node_seq(units)
        repeat = occurrence_numbers(forward_row, tree.label[units], node_seq)
        key = forward_row * (int(repeat.max()) + 1) + repeat
        inverse = dense_codes(key)[1]
        first = first_rows(inverse)
        columns = self._unit_columns(
            units[first], np.full(len(first), Origin.BACKWARD, dtype=np.int8)
        )
        columns["forward"] = forward_row[first].astype(np.int32)
        total = np.zeros(len(first), dtype=np.int64)
        np.add.at(total, inverse, self._own_times.of(units))
        last_end = np.zeros(len(first), dtype=np.int64)
        np.maximum.at(last_end, inverse, nesting.end_ns[units])
        columns["cpu_time_ns"], columns["end_ns"] = total, last_end
        rows = self._append(columns)
        self._row_of_unit[units] = rows[inverse]

    def _first_node_seq(self, units: Int64) -> Int64:
        tree = self._tree
        nodes = np.flatnonzero((tree.kind == RangeKind.NODE) & (tree.seq >= 0) & (tree.unit >= 0))
        seq = np.full(len(tree.unit), -1, dtype=tree.seq.dtype)
        seq[tree.unit[nodes][::-1]] = tree.seq[nodes][::-1]
        return seq[units]

    def _path_of_main_thread(self, units: Int64) -> Int32:
        """Path of the group that is open on the process's main thread when a unit starts.

        The autograd thread has no groups; ``backward()`` waits on the thread that has most groups.
        """
        tree, nesting = self._tree, self._tree.nesting
        path = np.zeros(len(units), dtype=np.int32)
        groups = np.flatnonzero(tree.group >= 0)
        for process in distinct(tree.process[units]).tolist():
            rows = np.flatnonzero(tree.process[units] == process)
            of_process = groups[tree.process[groups] == process]
            if not len(of_process):
                continue
            main = int(np.bincount(tree.thread[of_process]).argmax())
            time = nesting.start_ns[units[rows]]
            thread = np.full(len(rows), main, dtype=np.int32)
            for domain in np.unique(nesting.lanes[nesting.lanes[:, 0] == main, 1]).tolist():
                around = innermost(nesting, thread, time, time, domain)
                hit = (around >= 0) & (tree.group[np.maximum(around, 0)] >= 0)
                path[rows[hit]] = tree.path[tree.group[around[hit]]]
        return path

    def _add_groups(self, groups: Int64) -> Int32:
        """Add an instance per group range that makes CUDA calls, except for data loaders."""
        row_of = self._row_of_unit.copy()
        new = groups[row_of[groups] < 0] if len(groups) else np.empty(0, dtype=np.int64)
        columns = self._unit_columns(new, np.full(len(new), Origin.GROUP, dtype=np.int8))
        columns["path"] = self._path_above(self._outermost_of_name(new))
        columns["cpu_time_ns"] = np.zeros(len(new), dtype=np.int64)
        row_of[new] = self._append(columns)
        return row_of

    def _outermost_of_name(self, groups: Int64) -> Int64:
        tree = self._tree
        outermost = groups.copy()
        while len(outermost):
            parent = tree.nesting.parent[outermost]
            above = np.where(parent >= 0, tree.group[np.maximum(parent, 0)], -1)
            same = (above >= 0) & (tree.label[np.maximum(above, 0)] == tree.label[outermost])
            if not same.any():
                break
            outermost[same] = above[same]
        return outermost

    def _add_passes(self, calls: Int64, number: Int64) -> Int32:
        """Add backward passes without ranges; returns the instance of each of their calls."""
        columns = pass_columns(self._profile, calls, number)
        start, end = columns["start_ns"], columns["end_ns"]
        process = self._process_of[columns["thread"]]
        self._busy.append((start.astype(np.int64), end.astype(np.int64), process))
        return self._append(columns)[number]

    def _add_stray(self, calls: Int64) -> Int32:
        api = self._profile.api_calls
        start, end = api.start_ns[calls], api.end_ns[calls]
        self._busy.append((start, end, self._process_of[api.thread[calls]]))
        return self._append(
            {
                **blank_columns(len(calls), Origin.STRAY),
                "label": api.name[calls],
                "start_ns": start,
                "end_ns": end,
                "cpu_time_ns": end - start,
                "thread": api.thread[calls],
            }
        )

    def _add_group_calls_to_busy(self, call_instance: Int32) -> None:
        """Add the calls made directly in groups; other CPU time of a group belongs to its ops."""
        api = self._profile.api_calls
        origin = np.concatenate([columns["origin"] for columns in self._columns])
        calls = np.flatnonzero(origin[call_instance] == Origin.GROUP)
        process = self._process_of[api.thread[calls]]
        self._busy.append((api.start_ns[calls], api.end_ns[calls], process))

    def _finish(self, call_instance: Int32) -> Instances:
        names = self._columns[0].keys()
        joined = {
            name: concatenate_and_clear([c.pop(name) for c in self._columns]) for name in [*names]
        }
        busy = [np.concatenate(columns) for columns in zip(*self._busy, strict=True)]
        self._busy.clear()
        return Instances(
            **joined,
            call_instance=call_instance,
            busy_start_ns=busy[0],
            busy_end_ns=busy[1],
            busy_process=busy[2],
            paths=tuple(self._paths),
        )
