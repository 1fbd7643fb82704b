"""Traces of the capture of CUDA graphs, which serving engines write beside those of the replays.

A replay has one call for all kernels of a graph. The ops and modules that launched them are in the
trace of the capture, which vLLM and SGLang write to a folder ``capture_traces`` or to files with
``capture`` in their name.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np

from aggregator.errors import ProfileError
from aggregator.profile.profile import ProfileWarning
from aggregator.texts import say

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from aggregator.profile.arrays import Int32
    from aggregator.profile.profile import Profile

Value = TypeVar("Value")
FOLDER: Final = "capture_traces"
_MARK: Final = "capture"
_ENDINGS: Final = (".json", ".json.gz")
MAX_FILES: Final = 128
"""An engine captures a graph for each of some dozen batch sizes; vLLM for 67."""


def find_captures(path: Path) -> list[Path]:
    """Files beside a trace that may hold the capture of its graphs, in the order of their names."""
    folders = (path.parent, path.parent / FOLDER)
    if _MARK in path.name.lower():
        return []
    found = [
        file
        for folder in folders
        if folder.is_dir()
        for file in sorted(folder.iterdir())
        if file.name.endswith(_ENDINGS) and (folder.name == FOLDER or _MARK in file.name.lower())
    ]
    return [file for file in found if file != path and file.is_file()]


def replays_graphs(profile: Profile) -> bool:
    """Return whether a call launched a CUDA graph whose kernels have names."""
    codes = [code for code, name in enumerate(profile.strings) if "GraphLaunch" in name]
    return bool(np.isin(profile.api_calls.name, codes).any())


def add_captures(profile: Profile, path: Path, read: Callable[[Path], Profile]) -> None:
    """Read the captures beside a trace; their codes become those of the profile."""
    captures = []
    files = find_captures(path)
    if (left_out := len(files) - MAX_FILES) > 0:
        text = say("capture traces were left out: {most} are read.", most=MAX_FILES)
        profile.warnings.append(ProfileWarning("TOO_MANY_CAPTURES", text, left_out))
    for file in files[:MAX_FILES]:
        try:
            captures.append(read(file))
        except (ProfileError, OSError):
            text = say("the capture trace '{name}' could not be read.", name=file.name)
            profile.warnings.append(ProfileWarning("UNREADABLE_CAPTURE", text, 1))
    for capture in captures:
        ranges = capture.ranges
        profile.range_names, name = _joined(profile.range_names, capture.range_names)
        shapes, shape = _joined(_shapes(profile), _shapes(capture))
        columns = zip(*shapes, strict=True) if shapes else ((),) * len(_SHAPE_COLUMNS)
        for column, values in zip(_SHAPE_COLUMNS, columns, strict=True):
            setattr(profile, column, tuple(values))
        # The last code is that of no sizes.
        shape_code = np.append(shape, -1).astype(np.int32)[ranges.shapes]
        capture.ranges = replace(ranges, name=name[ranges.name], shapes=shape_code)
    for capture in captures:
        for column in ("range_names", *_SHAPE_COLUMNS):
            setattr(capture, column, getattr(profile, column))
    profile.captures = tuple(captures)


def _joined(known: tuple[Value, ...], more: tuple[Value, ...]) -> tuple[tuple[Value, ...], Int32]:
    """Return values with those that are new, and the code of each of ``more``; no code changes."""
    code_of: dict[Value, int] = {}
    for code, value in enumerate(known):
        code_of.setdefault(value, code)
    new = [value for value in dict.fromkeys(more) if value not in code_of]
    code_of.update((value, len(known) + row) for row, value in enumerate(new))
    codes = np.array([code_of[value] for value in more], dtype=np.int32)
    return (*known, *new), codes


_SHAPE_COLUMNS: Final = ("shape_texts", "shape_types", "shape_parameters", "shape_element_types")


def _shapes(profile: Profile) -> tuple[tuple[str, ...], ...]:
    return tuple(zip(*(getattr(profile, column) for column in _SHAPE_COLUMNS), strict=True))
