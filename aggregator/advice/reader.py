"""Read the facts that advice is based on from an event store.

How much is computed depends on the steps, not on the length of the profile.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from aggregator.advice import late_ranks
from aggregator.advice.facts import Facts, Gpu, JudgedOps, RankWait, WaitingCalls, WindowWork
from aggregator.errors import ReplayError
from aggregator.events.model import UNKNOWN, WorkKind
from aggregator.events.steps import Between
from aggregator.events.store import EventStore
from aggregator.events.window import NoStepsError, Steps, read_steps, read_unprofiled_step
from aggregator.frameworks.eligibility import NEEDS_CAPABILITY
from aggregator.profile.arrays import NO_ROW, Bool, distinct
from aggregator.profile.intervals import Flattened, flatten, uncovered_between, union_of
from aggregator.replay.analysis import ReplayedProfile
from aggregator.replay.rank_report import read_kernel_iterations, read_rank_gains
from aggregator.replay.reader import read_replayed, read_window
from aggregator.system.resources import release_memory

_UNCERTAIN = frozenset({"medium", "low"})  # Confidence in the choice of the key node.
WAITING_CALLS = ("StreamSynchronize", "DeviceSynchronize", "EventSynchronize", "CtxSynchronize")
"""Substrings of the names of calls that wait for the GPU."""
_MAX_WAIT_NS = 60_000_000_000
"""Waits for input that began before the window are found if they began within this time."""


def read_facts(store: EventStore, aggr: int, known: Facts | None = None) -> Facts:
    """Read the facts of an aggregation, committed or not.

    Args:
        store: The events.
        aggr: Number of the aggregation.
        known: Facts of another aggregation of the same iterations; if it has the same window, that
            is not read again.

    Raises:
        NoStepsError: The aggregation has no GPU work.
    """
    steps = read_steps(store, aggr)
    if known is not None and _window(known.steps) == _window(steps):
        facts = replace(
            known, aggr=aggr, steps=steps, bare_step_ns=read_unprofiled_step(store, aggr)
        )
        # The ranks are compared in all steps, of which an aggregation may have more or fewer.
        same = np.array_equal(known.steps.number, steps.number)
        return facts if same else _with_rank_gains(facts, store)
    work = _read_work(store, aggr, steps)
    if not len(work):
        raise NoStepsError
    names, meta = store.names, dict(store.values("dldb_meta", "key", "value"))
    moves = np.append(names.communicates, False)[work.name]
    several = meta.get("are_ranks") == "0" and _launchers(store) > 1
    gpus = _gpus(store, work, steps, moves)
    facts = Facts(
        aggr=aggr,
        domain=str(store.values("domains", "id", "name")[0][1]),
        mode=str(meta["mode"]),
        steps=steps,
        work=work,
        ops=_read_ops(store, aggr, steps),
        names=names,
        call_names=store.call_names,
        waits=_read_waits(store, steps),
        gpus=gpus,
        idle_devices=() if _is_part_of_job(meta) else _idle_devices(store, work),
        settings=store.settings,
        has_graphs=bool((work.kind == WorkKind.GRAPH).any()),
        has_loader=meta.get("dataloader_measured") == "1",
        batches_per_epoch=_batches_per_epoch(store, aggr),
        source_format=str(meta.get("source_format", "")),
        is_sure_of_steps=meta.get("key_node_confidence") not in _UNCERTAIN
        and not (store.lost_records or several),
        limits=store.limits,
        rank_waits=_rank_waits(store, aggr, steps, gpus),
        has_several_loops=several,
        replayed=_replayed(store, aggr, steps, len(work)),
        bare_step_ns=read_unprofiled_step(store, aggr),
    )
    return _with_rank_gains(facts, store)


def _with_rank_gains(facts: Facts, store: EventStore) -> Facts:
    if facts.steps.is_single or late_ranks.waiting_pct(facts) < late_ranks.MIN_SHARE_PCT:
        return facts
    # Replaying the ranks takes long if they are many, and nothing else needs it.
    return replace(facts, rank_gains=read_rank_gains(store, facts.aggr))


MOST_REPLAYED = 2_000_000
"""With more work than this in all steady steps, those of the window are replayed."""


def _replayed(
    store: EventStore, aggr: int, steps: Steps, window_work: int
) -> ReplayedProfile | None:
    """Replay of the steady steps; None: there are none, or they cannot be replayed."""
    if steps.is_single:
        return None
    release_memory()  # A replay needs more than the aggregation before it.
    try:
        if window_work * len(steps.number) <= MOST_REPLAYED * steps.count:
            return read_replayed(store, aggr)
        number = steps.number
        return read_window(store, aggr, number[(number >= steps.first) & (number <= steps.last)])
    except ReplayError:
        return None


def _launchers(store: EventStore) -> int:
    return len(distinct(store.integers("kernels", ("process",))[0]))


def _batches_per_epoch(store: EventStore, aggr: int) -> float | None:
    """Return the steps in an epoch of the data loader, or None if no epoch ends in the profile."""
    if not store.has("typical_steps"):  # In older databases.
        return None
    for gaps, steps in store.of_aggregation("typical_steps", aggr, "gaps", "loop_steps"):
        for gap in json.loads(gaps):
            if gap["kind"] == Between.EPOCH_END:
                return float(steps) / (int(gap["count"]) + 1)
    return None


def _window(steps: Steps) -> tuple[int, ...]:
    """What the facts other than the steps depend on."""
    bounds = (steps.first, steps.last, steps.api_low_ns, steps.api_high_ns)
    return (int(steps.number[0]), *bounds, steps.is_single)


def _read_work(store: EventStore, aggr: int, steps: Steps) -> WindowWork:
    """Read the work that the window launched, and the first work after it on each GPU.

    What the iteration before launched is read too, where it runs beside the work of the window.
    """
    rows = store.of_aggregation("iterations", aggr, "iter_value", "start", "stop")
    start = {number: begin for number, begin, _ in rows}
    end = {number: stop for number, _, stop in rows}
    low = start.get(steps.first - 1, steps.api_low_ns)
    high = end.get(steps.last + 1, steps.api_high_ns)
    work = store.work((low, high))
    waiting = np.full(len(work), UNKNOWN, dtype=np.int64)
    first = int(work.row_id[0]) - 1 if (work.kind == WorkKind.KERNEL).any() else 0
    kernels = int(np.count_nonzero(work.kind == WorkKind.KERNEL))
    found = store.collectives
    found = found.rows((found.kernel >= first) & (found.kernel < first + kernels))
    waiting[found.kernel - first] = found.waiting_ns
    device = store.column("devices", "device_id")[work.device]
    columns = vars(work) | {"device": device}
    return _with_end(WindowWork(**columns, waiting_ns=waiting), steps)


def _with_end(work: WindowWork, steps: Steps) -> WindowWork:
    """Keep the work of the window, what runs beside it, and the first of the next step."""
    inside = (work.api_start_ns >= steps.api_low_ns) & (work.api_start_ns < steps.api_high_ns)
    keep = inside.copy()
    for device in np.unique(work.device[inside]).tolist():
        here = work.device == device
        low = int(work.start_ns[inside & here].min())
        keep |= here & (work.api_start_ns < steps.api_low_ns) & (work.start_ns >= low)
    usual = int(inside.sum()) / steps.count
    behind = np.flatnonzero(work.api_start_ns >= steps.api_high_ns)
    if 2 * len(behind) >= usual:  # otherwise the work that follows is not a step
        for device in np.unique(work.device[inside]).tolist():
            rows = behind[work.device[behind] == device]
            if len(rows):
                keep[rows[int(work.start_ns[rows].argmin())]] = True
    return work.rows(keep)


def _read_loading(store: EventStore, steps: Steps) -> dict[int, Flattened]:
    """Return when each process waited for the next batch of its data loader."""
    is_loader = store.ops.is_loader
    if not is_loader.any():
        return {}
    calls = store.op_calls((steps.api_low_ns - _MAX_WAIT_NS, np.iinfo(np.int64).max))
    calls = calls.rows(np.flatnonzero(is_loader[calls.op]))
    process = store.process_of_thread[calls.thread]
    return {
        int(number): flatten(calls.start_ns[process == number], calls.end_ns[process == number])
        for number in np.unique(process)
    }


def _read_waits(store: EventStore, steps: Steps) -> WaitingCalls:
    parts = [part.lower() for part in WAITING_CALLS]
    waits = [any(part in name.lower() for part in parts) for name in store.call_names]
    calls = store.calls((steps.api_low_ns, steps.api_high_ns))
    calls = calls.rows(np.flatnonzero(np.array([*waits, False], dtype=bool)[calls.name]))
    device_of = _device_of_process(store)
    device = [device_of.get(number, NO_ROW) for number in calls.process.tolist()]
    return WaitingCalls(**vars(calls), device=np.array(device, dtype=np.int64))


def _device_of_process(store: EventStore) -> dict[int, int]:
    """Return the number of the GPU that each process used most."""
    numbers = dict(store.values("devices", "id", "device_id"))
    rows = store.values("ranks", "rank", "process", "device")
    return {process - 1: numbers[device] for _, process, device in rows if device in numbers}


def _gpus(store: EventStore, work: WindowWork, steps: Steps, moves: Bool) -> tuple[Gpu, ...]:
    loading = _read_loading(store, steps)
    nothing = flatten(work.start_ns[:0], work.start_ns[:0])
    device_of = _device_of_process(store)
    pids = store.column("processes", "pid").tolist()
    names = ("id", "device_id", "name", "cuda_major", "cuda_minor", "memory_bytes")
    result = []
    for _, device, name, major, minor, memory, used in store.values(
        "devices", *names, "memory_used_bytes"
    ):
        here = work.device == device
        behind = here & (work.api_start_ns >= steps.api_high_ns)
        inside = here & ~behind & (work.api_start_ns >= steps.api_low_ns)
        if not inside.any():
            continue
        low = int(work.start_ns[inside].min())
        high = int((work.start_ns[behind] if behind.any() else work.end_ns[inside]).max())
        kernels = here & (work.kind == WorkKind.KERNEL)
        users = [process for process, used_one in device_of.items() if used_one == device]
        waits = [loading[process] for process in users if process in loading]
        parts = [
            flatten(work.start_ns[rows], work.end_ns[rows])
            for rows in (kernels & ~moves, kernels & moves)
        ]
        capability = None if major is None or minor is None else (major, minor)
        result.append(
            Gpu(
                device=device,
                name=name,
                capability=capability,
                memory_bytes=memory,
                memory_used_bytes=used,
                low_ns=low,
                high_ns=high,
                computing=parts[0],
                moving=parts[1],
                loading=union_of(*waits) if waits else nothing,
                processes=tuple(pids[process] for process in users),
            )
        )
    return tuple(result)


def _is_part_of_job(meta: Mapping[Any, Any]) -> bool:
    """Whether other ranks, whose work is not in the profile, use the GPUs that it does not."""
    return bool(meta.get("job_rank")) or meta.get("is_part_of_job") == "1"


def _idle_devices(store: EventStore, work: WindowWork) -> tuple[int, ...]:
    numbers = dict(store.values("devices", "id", "device_id"))
    if set(numbers.values()) <= set(distinct(work.device).tolist()) or store.lost_records:
        return ()
    return tuple(
        int(number) for row, number in numbers.items() if row - 1 not in store.used_devices
    )


def _read_ops(store: EventStore, aggr: int, steps: Steps) -> JudgedOps:
    # Markers always record the shapes of the first steps.
    rows = store.of_aggregation("iterations", aggr, "iter_value", "stop")
    early = dict(rows).get(int(steps.number[0]) + 1, steps.api_high_ns)
    ops, texts = store.ops, dict(store.values("shape_texts", "id", "input_shapes"))
    (shapes,) = store.first_rows("op_instances", ("shapes",), early)
    op = store.integers("op_instances", ("op",))[0][: len(shapes)]
    shown: dict[int, str] = {}
    for row, text in zip(*np.unique(np.stack([op - 1, shapes]), axis=1).tolist(), strict=True):
        if ops.eligible[row] and texts.get(text):
            shown[row] = min(shown.get(row, str(texts[text])), str(texts[text]))
    forward = enumerate(ops.forward.tolist())
    shown |= {row: shown[twin] for row, twin in forward if row not in shown and twin in shown}
    fit = tuple(
        None if NEEDS_CAPABILITY in reason else able
        for _, able, reason in store.values("ops", "id", "tc_fit", "tc_fit_reason")
    )
    return JudgedOps(**vars(ops), fit=fit, shapes=shown)


def _rank_waits(
    store: EventStore, aggr: int, steps: Steps, gpus: tuple[Gpu, ...]
) -> tuple[RankWait, ...]:
    """Return how long each rank waited in the collectives that the window launched.

    Empty if this is unknown for any rank: the others may have waited for it.
    """
    numbers = dict(store.values("devices", "id", "device_id"))
    ranks = store.values("ranks", "rank", "id", "device")
    if len(ranks) < 2:
        return ()
    by_device = {gpu.device: gpu for gpu in gpus}
    found, (start, api_start) = store.collectives, store.integers("kernels", ("start", "api_start"))
    launched = api_start[found.kernel]
    found = found.rows((launched >= steps.api_low_ns) & (launched < steps.api_high_ns))
    result = []
    for rank, row, device in ranks:
        mine = found.rows(found.rank == row)
        known = mine.rows(mine.waiting_ns >= 0)
        late = mine.rows(mine.kept_waiting_ns >= 0)
        gpu = by_device.get(numbers.get(device, NO_ROW))
        if not len(known) or not len(late) or gpu is None:
            return ()
        # The others waited for it together: how late it came is the mean of one of them.
        late_ns = late.kept_waiting_ns // np.maximum(late.num_ranks - 1, 1)
        iteration, is_inside = read_kernel_iterations(store, aggr, late.kernel)
        by_iteration: dict[int, int] = {}
        for number, time_ns in zip(
            iteration[is_inside].tolist(), late_ns[is_inside].tolist(), strict=True
        ):
            by_iteration[number] = max(by_iteration.get(number, 0), time_ns)
        begun, edges = start[known.kernel], np.array([gpu.low_ns, gpu.high_ns], dtype=np.int64)
        waiting = flatten(begun, begun + known.waiting_ns)
        result.append(
            RankWait(
                rank=int(rank),
                device=gpu.device,
                waiting_ns=int(known.waiting_ns.sum()),
                exposed_ns=int(uncovered_between(waiting, gpu.computing, edges).sum()),
                kept_waiting_ns=int(late.kept_waiting_ns.sum()),
                late_ns=by_iteration,
            )
        )
    return tuple(result)
