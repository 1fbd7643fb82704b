"""The valid files that damaged ones are made from: small, with some of every kind of data."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from aggregator.options import AggregationRequest, ImportOptions
from aggregator.pipeline import aggregate
from aggregator.ranks.rank_import import import_ranks
from aggregator.system.progress import NullProgress
from tests.builders import analyze_file
from tests.fuzz.doors import printed
from tests.fuzz.exports import dictionary_export, graph_export, marked_export, small_export
from tests.pyprof.nvprof_file import GEMM, RELU, NvprofFile
from tests.unit.test_sources_kineto import steps, trace

_EXPORTS = {"marked": marked_export, "dictionaries": dictionary_export, "graph": graph_export}


def write_originals(folder: Path) -> dict[str, Path]:
    """A file of each kind; NVIDIA's own database and export only where the golden run is."""
    export = folder / "export.sqlite"
    small_export().write(export)
    ours = folder / "ours.sqlite"
    analyze_file(export, ours)
    aggregate(ours, AggregationRequest(iter_start=1), NullProgress())
    found = {"export": export, "ours": ours, "nvprof": _nvprof(folder / "nvprof.sqlite")}
    for name, make in _EXPORTS.items():
        found[name] = make().write(folder / f"{name}.sqlite")
    found["ranks"] = _ranks(folder)
    found["trace"] = folder / "trace.json"
    found["trace"].write_text(_steps())
    found["records"] = folder / "records.dict"
    found["records"].write_text(printed("pyprof", "parse", str(found["nvprof"])))
    root = Path(os.environ.get("DLPROF_SHARED") or Path(__file__).parents[3] / "shared")
    golden = root / "golden" / "dlprof-1.8.0-pytorch"
    for name, file in (("theirs", "dlprof_dldb.sqlite"), ("capture", "nsys_profile.sqlite")):
        if (golden / file).is_file():
            found[name] = folder / f"{name}.sqlite"
            shutil.copyfile(golden / file, found[name])
    return found


def _ranks(folder: Path) -> Path:
    """A database of two ranks, with collectives and settings."""
    files = [marked_export(rank).write(folder / f"rank{rank}.sqlite") for rank in range(2)]
    database = folder / "ranks.sqlite"
    import_ranks(ImportOptions(files[0], database), files, NullProgress(), workers=1)
    return database


def _steps() -> str:
    """A trace of four steps."""
    header = {"baseTimeNanoseconds": 10**18, "distributedInfo": {"rank": 0, "world_size": 1}}
    return trace(steps(4, 1_000), **header)


def _nvprof(path: Path) -> Path:
    file = NvprofFile(path, "CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL")
    file.linear_and_relu()
    file.marker("ReluBackward0, seq = 4", 310, 400)
    file.kernel(RELU, 330, 900)
    file.kernel(GEMM, 420, 4000)
    file.close()
    return path
