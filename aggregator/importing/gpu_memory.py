"""Finds the recordings of GPU memory that belong to a profile."""

from __future__ import annotations

import glob
from pathlib import Path
from typing import TYPE_CHECKING, Final

from aggregator.errors import ProfileError
from aggregator.profile.profile import Profile, ProfileWarning
from aggregator.sources.formats import Format, detect_file
from aggregator.texts import say

if TYPE_CHECKING:
    from aggregator.metrics.memory.analysis import DeviceMemory, Recording

SNAPSHOT_SUFFIX: Final = "_memory"
"""``dlprof --memory`` writes ``NAME_memory_<pid>.pickle`` beside ``NAME.sqlite``."""
_SINCE_1970_NS: Final = 10**17


def find_recordings(source: Path, profile: Profile) -> tuple[Recording, ...]:
    """The recordings in a profile and in the snapshots beside it; unreadable ones are warnings."""
    files = snapshots_of(source.with_suffix(""))
    if profile.records_memory and detect_file(source, source.name) is not Format.REPORT:
        files.append(source)
    if not files:
        return ()
    # Few profiles have one, and these modules are a tenth of the command's.
    from aggregator.metrics.memory.analysis import analyze  # noqa: PLC0415
    from aggregator.sources.memory import read_memory  # noqa: PLC0415

    found: list[Recording] = []
    for file in files:
        try:
            devices = analyze(read_memory(file))
        except ProfileError as error:
            text = say(
                "The GPU memory recorded in '{name}' is not shown: {reason}",
                name=file.name,
                reason=error.message,
            )
            profile.warnings.append(ProfileWarning("MEMORY", text, 1))
            continue
        found += [recorded(device, file, profile.session.start_utc_ns) for device in devices]
    return tuple(found)


def snapshots_of(base: Path) -> list[Path]:
    """Return the snapshots that were recorded beside a profile, by its path without extension."""
    return sorted(base.parent.glob(f"{glob.escape(base.name)}{SNAPSHOT_SUFFIX}_*.pickle"))


def recorded(memory: DeviceMemory, file: Path, start_utc_ns: int | None) -> Recording:
    """Return a recording with the offset of its clock from that of a profile."""
    from aggregator.metrics.memory.analysis import Recording  # noqa: PLC0415 - rare, as above

    times = memory.time_ns[memory.time_ns >= 0]
    is_utc = bool(len(times)) and int(times.min()) > _SINCE_1970_NS
    other = 0 if memory.source == "nsys" else None
    return Recording(memory, file.name, start_utc_ns if is_utc else other)
