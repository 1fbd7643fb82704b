"""When the hardware slowed a GPU down while the application ran, from the samples of ``dlprof``.

A GPU lowers its clock, often to half, when it or its machine draws too much power or is too hot.
Steps take longer then, for a reason that is neither the program's nor the profiler's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from aggregator.errors import CorruptProfileError
from aggregator.profile.arrays import Bool, Int64
from aggregator.profile.profile import ProfileWarning
from aggregator.sources.nsys import schema as names
from aggregator.sources.nsys.gpu_memory import SAMPLE_COLUMNS, gpu_key
from aggregator.texts import say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aggregator.profile.profile import Device
    from aggregator.sources.nsys.schema import Schema

SLOWED: Final = "isSlowed"
"""Column of the samples: the hardware lowers the clock; NULL: unknown. Older exports lack it."""
NEAR_NS: Final = 250_000_000
"""A step is not known to be at full speed if a sample at most so far from it is slowed."""
MIN_WARNED_PCT: Final = 5.0
_MAX_ROWS: Final = 1_000_000


class GpuSpeed:
    """Samples of the GPUs of a profile."""

    def __init__(self, slowed_ns: Int64, samples: int) -> None:
        self._slowed_ns = slowed_ns  # Times since 1970, in order.
        self._samples = samples  # Number of samples whose speed is known.

    def is_slowed(self, end_ns: Sequence[int], length_ns: Sequence[int]) -> Bool:
        """Return which steps were not at full speed all the time.

        Args:
            end_ns: Their ends since 1970. Unit: ns.
            length_ns: Their times. Unit: ns.
        """
        ends = np.array(end_ns, dtype=np.int64)
        starts = ends - np.array(length_ns, dtype=np.int64)
        first = np.searchsorted(self._slowed_ns, starts - NEAR_NS)
        found: Bool = np.searchsorted(self._slowed_ns, ends + NEAR_NS, side="right") > first
        return found

    def warnings(self) -> list[ProfileWarning]:
        """Say that steps took longer, if the GPU was slowed down for a while."""
        pct = 100.0 * len(self._slowed_ns) / max(self._samples, 1)
        if pct < MIN_WARNED_PCT:
            return []
        text = say(
            "The hardware slowed the GPU down in {pct:.0f}% of the run (too much power or heat): "
            "kernels and steps took longer then.",
            pct=pct,
        )
        return [ProfileWarning("GPU_SLOWED", text, len(self._slowed_ns))]


def read_gpu_speed(schema: Schema, devices: Sequence[Device]) -> GpuSpeed:
    """Return the samples of the GPUs of a profile; none where nothing is known."""
    rows: list[tuple[object, ...]] = []
    try:
        if {*SAMPLE_COLUMNS, SLOWED} <= schema.columns(names.GPU_SAMPLES):
            with schema.connect() as connection:
                rows = connection.execute(
                    f'SELECT uuid, gpu, "utcNs", "{SLOWED}" FROM {schema.table(names.GPU_SAMPLES)}'
                    f' WHERE NOT "isBefore" AND typeof("utcNs") = \'integer\''
                    f' AND "{SLOWED}" IN (0, 1) ORDER BY "utcNs" LIMIT {_MAX_ROWS}'
                ).fetchall()
    except CorruptProfileError:
        # The profile is complete without the samples.
        rows = []
    has_uuids = any(device.uuid for device in devices)
    wanted = {device.uuid if has_uuids else device.host_id for device in devices}
    mine = [row[2:] for row in rows if gpu_key(*row[:2], has_uuids=has_uuids) in wanted]
    slowed_ns = np.array([at for at, is_slowed in mine if is_slowed], dtype=np.int64)
    return GpuSpeed(slowed_ns, len(mine))
