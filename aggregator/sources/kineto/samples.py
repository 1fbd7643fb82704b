"""Samples of the GPUs' counters that the profiler writes beside its events (``pm_sampling``)."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING, Final

import numpy as np

from aggregator.sources.samples import HUNDREDTHS, PERCENT, standing, within
from aggregator.system.untrusted_json import read_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from aggregator.profile.profile import Counter, Device
    from aggregator.sources.kineto.trace_json import Event

CATEGORY: Final = "pm_sampling"
_OF_PEAK: Final = ".pct"
_NAMES: Final = {
    "gr__cycles_active": "GR Active",
    "sm__cycles_active": "SMs Active",
    "sm__inst_issued": "SM Issue",
    "sm__inst_executed_realtime": "SM Issue",
    "sm__pipe_tensor": "Tensor Active",
    "sm__inst_executed_pipe_tensor": "Tensor Active",
    "dram__throughput": "DRAM Bandwidth",
    "dram__read_throughput": "DRAM Read Bandwidth",
    "dram__write_throughput": "DRAM Write Bandwidth",
    "pcie__read_bytes": "PCIe RX Throughput",
    "pcie__write_bytes": "PCIe TX Throughput",
    "nvlrx__bytes": "NVLink RX Responses",
    "nvltx__bytes": "NVLink TX Responses",
}
"""Metrics of CUPTI by their names in Nsight Systems, so that both sources show the same."""

Sample = tuple[int, int]
"""Time in ns, and hundredths of a percent."""
Samples = dict[tuple[int, str], list[Sample]]
"""By GPU and metric."""


def add_samples(found: Samples, events: Iterable[Event]) -> list[Event]:
    """Add the samples that are a share of the peak; returns the other events."""
    left = []
    for event in events:
        value, device = _percent(event), event.args.device
        device = device if device >= 0 or not isinstance(event.pid, int) else event.pid
        if value is None or device < 0 or event.ts is None:
            left.append(event)
        else:
            at = int((event.ts * 1000).to_integral_value())
            found.setdefault((device, event.name), []).append((at, round(value * HUNDREDTHS)))
    return left


def _percent(event: Event) -> float | None:
    """Share of the peak that an event says; None: it is no such sample."""
    value = read_json(bytes(event.args.value).decode("utf-8", "replace"))
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if _OF_PEAK not in event.name or not is_number or not math.isfinite(value):
        return None
    return float(value) if 0 <= value <= HUNDREDTHS else None


def sampled_counters(
    found: Samples, devices: Sequence[Device], start_ns: int, end_ns: int
) -> tuple[tuple[Counter, ...], int]:
    """Counters of the GPUs of a trace, and the number of samples of no GPU or time in it."""
    rows = {device.device_id: row for row, device in enumerate(devices)}
    counters: list[Counter] = []
    lost = 0
    names: dict[int, set[str]] = defaultdict(set)
    for (device, metric), samples in found.items():
        if device not in rows:
            lost += len(samples)
            continue
        name = next((text for start, text in _NAMES.items() if metric.startswith(start)), metric)
        name = metric if name in names[device] else name
        names[device].add(name)
        at, value = np.array(sorted(samples), dtype=np.int64).T
        counter = standing(rows[device], name, PERCENT, "kineto", at - start_ns, value)
        kept = within(counter, end_ns)
        lost += len(samples) - (len(kept.value) if kept is not None else 0)
        counters += [kept] if kept is not None else []
    return tuple(counters), lost
