"""Compare an XPlane file with an export of another run of the same JAX program.

python -m tests.gpu.compare_xplane EXPORT.sqlite FOLDER|FILE.xplane.pb

The program is ``programs/jax_xplane.py``. XLA compiles each run anew, and its autotuner may
choose other kernels and numbers for a product: ops are compared as the program has them, and times
by the medians of the kernels that both runs have.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter, defaultdict
from pathlib import Path
from statistics import median

from tests.builders import Analyzed, analyze_file

OPS = (
    "SELECT op_node_name, sum(kernel_calls), sum(gpu_time) FROM view_op_nodes"
    " WHERE aggr_id = 1 AND kernel_calls > 0 GROUP BY 1"
)
KERNELS = (
    "SELECT n.name, k.duration FROM kernels AS k JOIN kernel_names AS n ON n.id = k.name ORDER BY 1"
)
STEPS = "SELECT count(*) FROM view_steps WHERE aggr_id = 1"
MOST_PCT = 2.0
"""Two XPlane files of the program, recorded in the same way, differ by 1.65 %."""


def xplane_of(path: Path) -> Path:
    """The file itself, or the newest one below a folder."""
    found = sorted(path.rglob("*.xplane.pb"), key=lambda file: file.stat().st_mtime)
    return found[-1] if path.is_dir() else path


def _lengths(found: Analyzed) -> dict[str, list[int]]:
    lengths = defaultdict(list)
    for name, length in found.query(KERNELS):
        lengths[name].append(length)
    return lengths


def _scopes(found: Analyzed) -> dict[str, int]:
    """Kernels of each op of the program; what XLA made of it may differ by compilation."""
    counts: Counter[str] = Counter()
    for name, kernels, _ in found.query(OPS):
        counts[name.rpartition("/")[0]] += kernels
    return counts


def compare(nsys: Analyzed, xplane: Analyzed) -> int:
    """Print what differs, and return the number of differences."""
    lengths = [_lengths(found) for found in (nsys, xplane)]
    names = sorted(set(lengths[0]) | set(lengths[1]))
    same = [name for name in names if len(lengths[0][name]) == len(lengths[1][name])]
    for name in sorted(set(names) - set(same)):
        print(f"kernel {name}: {len(lengths[0][name])} and {len(lengths[1][name])} launches")
    totals = [sum(map(len, own.values())) for own in lengths]
    print(
        f"{totals[0]} and {totals[1]} kernels, {sum(len(lengths[0][name]) for name in same)} same"
    )
    times = [sum(len(own[name]) * median(own[name]) for name in same) for own in lengths]
    off_pct = 100 * abs(times[0] - times[1]) / max(times[0], 1)
    print(f"GPU time of the same: {times[0]:.0f} and {times[1]:.0f} ns, {off_pct:.3f} % apart")
    steps = [found.query(STEPS)[0][0] for found in (nsys, xplane)]
    print(f"{steps[0]} and {steps[1]} steps")
    scopes = [_scopes(found) for found in (nsys, xplane)]
    for name in sorted(set(scopes[0]) | set(scopes[1])):
        counts = [found.get(name, 0) for found in scopes]
        print(f"{'same ' if counts[0] == counts[1] else 'OTHER'} {name}: {counts[0]}, {counts[1]}")
    differences = (totals[0] != totals[1]) + (steps[0] != steps[1]) + (scopes[0] != scopes[1])
    return differences + (off_pct > MOST_PCT)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        export, plane = Path(sys.argv[1]), xplane_of(Path(sys.argv[2]))
        found = [
            analyze_file(path, Path(folder) / f"{number}.sqlite")
            for number, path in enumerate((export, plane))
        ]
        sys.exit(compare(*found) > 0)
