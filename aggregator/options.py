"""Options of an import and of an aggregation."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

DEFAULT_PROFILE_NAME = "dlprof"
"""Name of a profile that got none of its own."""
GPU_PEAKS_VARIABLE = "DLPROF_GPU_PEAKS"
"""Environment variable with the default of ``gpu_peaks``."""


class Mode(StrEnum):
    """How the ranges of a profile are read."""

    AUTO = "auto"
    PYTORCH = "pytorch"
    TENSORFLOW1 = "tensorflow1"
    TENSORFLOW2 = "tensorflow2"
    TENSORRT = "tensorrt"
    JAX = "jax"
    SIMPLE = "simple"


@dataclass(frozen=True)
class AggregationRequest:
    """One rollup over an iteration range."""

    # Op ID, op name or range name (counters replaced by ``#``, ``iteration #``); empty: chosen
    # automatically.
    key_node: str = ""
    iter_start: int | None = None  # First iteration, inclusive; None: the first.
    iter_stop: int | None = None  # Last iteration, inclusive; None: the last found.
    phase: str = ""  # Only iterations of this phase, ``decode``; empty: all.
    # Peak rates of the GPU that replace the built-in ones, ``float16=989,bandwidth=4800``.
    gpu_peaks: str = field(default_factory=lambda: os.environ.get(GPU_PEAKS_VARIABLE, ""))
    # What a step takes without profiling by the program's own clock; 0: not given. Unit: ns.
    bare_step_ns: int = 0


@dataclass(frozen=True)
class ImportOptions:
    """One import of a profile into a new database."""

    source: Path  # The Nsight Systems export or DLProf database to read.
    database: Path  # The file to write; must not exist unless ``overwrite``.
    mode: Mode = Mode.AUTO  # How ranges are read.
    # The first aggregation.
    request: AggregationRequest = field(default_factory=AggregationRequest)
    profile_name: str = ""  # Shown in viewer, reports and exports; empty: none.
    # The command line of the import; the engine masks secrets in it.
    original_command: tuple[str, ...] = ()
    # Replace an existing database (atomically, when the new one is complete).
    overwrite: bool = False
    # Custom NVTX domains that the profile must have; otherwise the import fails before it writes
    # anything.
    domains: tuple[str, ...] = ()
    # The nsys program that exports a report (``.nsys-rep``); empty: the one on PATH.
    nsys_path: str = ""
    # Of several rank files, number of the first rank of each; empty: taken from the files.
    ranks: tuple[int, ...] = ()
