"""Compare an XPlane file with an export of another run of the same JAX program.

python -m tests.gpu.compare_xplane EXPORT.sqlite FOLDER|FILE.xplane.pb

The program is ``programs/jax_xplane.py``. Two runs differ by themselves: kernels are compared by
the sum of their medians.
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
MOST_PCT = 0.1


def xplane_of(path: Path) -> Path:
    """The file itself, or the newest one below a folder."""
    found = sorted(path.rglob("*.xplane.pb"), key=lambda file: file.stat().st_mtime)
    return found[-1] if path.is_dir() else path


def _typical_ns(found: Analyzed) -> float:
    """Sum of all kernels, each as long as the median of its name."""
    lengths = defaultdict(list)
    for name, length in found.query(KERNELS):
        lengths[name].append(length)
    return sum(len(own) * median(own) for own in lengths.values())


def compare(nsys: Analyzed, xplane: Analyzed) -> int:
    """Print what differs, and return the number of differences."""
    differences = 0
    counts = [Counter(name for name, _ in found.query(KERNELS)) for found in (nsys, xplane)]
    for name in sorted(set(counts[0]) | set(counts[1])):
        if counts[0][name] != counts[1][name]:
            print(f"kernel {name}: {counts[0][name]} and {counts[1][name]} launches")
            differences += 1
    times = [_typical_ns(found) for found in (nsys, xplane)]
    off_pct = 100 * abs(times[0] - times[1]) / max(times[0], 1)
    print(f"GPU time of kernels: {times[0]:.0f} and {times[1]:.0f} ns, {off_pct:.3f} % apart")
    steps = [found.query(STEPS)[0][0] for found in (nsys, xplane)]
    print(f"{steps[0]} and {steps[1]} steps")
    differences += steps[0] != steps[1]
    differences += off_pct > MOST_PCT
    ops = [{row[0]: row[1:] for row in found.query(OPS)} for found in (nsys, xplane)]
    for name in sorted(set(ops[0]) | set(ops[1])):
        calls = [found.get(name, (0, 0))[0] for found in ops]
        if calls[0] != calls[1]:
            print(f"op {name}: {calls[0]} and {calls[1]} kernels")
            differences += 1
    print(f"{len(ops[0])} and {len(ops[1])} ops, {differences} differences")
    return differences


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        export, plane = Path(sys.argv[1]), xplane_of(Path(sys.argv[2]))
        found = [
            analyze_file(path, Path(folder) / f"{number}.sqlite")
            for number, path in enumerate((export, plane))
        ]
        sys.exit(compare(*found) > 0)
