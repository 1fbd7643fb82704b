"""What a caller asks of the engine: one frozen dataclass per job."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

GPU_PEAKS_VARIABLE = "DLPROF_GPU_PEAKS"
"""Environment variable with peaks of the GPU."""


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
    """One rollup over an iteration range.

    Attributes:
        key_node: Op ID, op name or range name (counters normalised, ``iteration #``);
            empty: chosen from the profile.
        iter_start: First iteration, inclusive; None: the first.
        iter_stop: Last iteration, inclusive; None: the last found.
        gpu_peaks: Peaks of the GPU in place of those of the table, ``float16=989,bandwidth=4800``.
    """

    key_node: str = ""
    iter_start: int | None = None
    iter_stop: int | None = None
    gpu_peaks: str = field(default_factory=lambda: os.environ.get(GPU_PEAKS_VARIABLE, ""))


@dataclass(frozen=True)
class ImportOptions:
    """One import of a profile into a new database.

    Attributes:
        source: The Nsight Systems export or DLProf database to read.
        database: The file to write; must not exist unless ``overwrite``.
        mode: How ranges are read.
        request: The first aggregation.
        profile_name: Shown in viewer, reports and exports; empty: none.
        original_command: The command line that made this, secrets masked by the engine.
        domains: Custom NVTX domains that must be there; the import fails before it writes if not.
        overwrite: Replace an existing database (atomically, when the new one is complete).
        nsys_path: The nsys program that exports a report (``.nsys-rep``); empty: looked for.
        ranks: Of several rank files, number of the first rank of each; empty: the files tell.
    """

    source: Path
    database: Path
    mode: Mode = Mode.AUTO
    request: AggregationRequest = field(default_factory=AggregationRequest)
    profile_name: str = ""
    original_command: tuple[str, ...] = ()
    overwrite: bool = False
    domains: tuple[str, ...] = ()
    nsys_path: str = ""
    ranks: tuple[int, ...] = ()
