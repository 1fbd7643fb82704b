"""``python -m tests.golden.compiled_names EAGER COMPILED``: are compiled kernels in their modules?

Both are databases of ``dlprof`` of one program with one seed; the second one ran it through
``torch.compile`` or CUDA graphs. The kernels of its steady iterations are held against the list of
the eager run:

* every module of a kernel, also of one that computes for several, must be in that list;
* of the ops that were fused into a kernel, each that proves a module (``_MEANS``) must have run in
  one of the kernel's modules;
* kernels that both runs launch equally often in a step must be in the same modules in both.

Prints one line of JSON. ``named_pct`` is the share of the GPU time, without ops that the eager run
has outside of every module, too; ``examples`` has what is wrong.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from aggregator.kernels.source_ops import source_ops
from tests.builders import query

_KERNELS = (
    "SELECT i.iter_value, n.long_name, o.op_name, o.op_type, o.direction, o.shared_modules,"
    " o.name_grade, k.duration FROM iterations AS i"
    " JOIN kernels AS k ON k.id >= i.kernel_low AND k.id < i.kernel_high"
    " JOIN kernel_names AS n ON n.id = k.name JOIN op_kernels AS p ON p.id = k.op_kernel"
    " JOIN ops AS o ON o.id = p.op WHERE i.aggr = (SELECT max(id) FROM aggregations)"
    " AND i.kind = 'iteration' AND i.aggregated ORDER BY k.id"
)
_OPS = (
    "SELECT DISTINCT o.op_name, o.op_type FROM ops AS o JOIN op_kernels AS p ON p.op = o.id"
    " JOIN kernels AS k ON k.op_kernel = p.id"
)
_ADDED = re.compile(r"/(recompute|backward)(?=/|$)")
_MEANS = {
    "addmm": "linear addmm",
    "mm": "linear matmul mm",
    "bmm": "matmul bmm",
    "native_layer_norm": "layer_norm",
    "_softmax": "softmax",
    "_log_softmax": "log_softmax cross_entropy_loss",
    "embedding": "embedding",
    "gelu": "gelu",
    "silu": "silu",
    "rsqrt": "rsqrt rms_norm",
    "cos": "cos",
    "sin": "sin",
    "neg": "neg",
}
"""Fused ops that compute something, and the ops of the program that run them.

Others (casts, views, sums, and what a loss or its gradient is decomposed into) prove no module."""
_GRADIENT = re.compile(r"_backward(_data)?$")


class Kernel(NamedTuple):
    """One launch."""

    step: int
    name: str
    op_name: str
    op_type: str
    direction: str
    shared: str
    grade: str
    duration_ns: int


@dataclass
class Modules:
    """What the eager run says: its modules, and the ops that ran in each."""

    ops: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    @classmethod
    def of(cls, ops: Iterable[tuple[str, str]]) -> Modules:
        """Collect them; an op is named after its module if that launched a kernel itself."""
        rows = [(_ADDED.sub("", name), kind) for name, kind in ops]
        parents = {part for name, _ in rows for part in _around(name)}
        result = cls()
        for part in parents:
            result.ops[part]  # It is a module, even if it runs no op itself
        for name, kind in rows:
            result.ops[name if name in parents else _parent(name)].add(kind)
        return result

    def place(self, op_name: str) -> str:
        """The module of an op."""
        path = _ADDED.sub("", op_name)
        return path if path in self.ops else _parent(path)

    def all_of(self, kernel: Kernel) -> list[str]:
        """The modules that a kernel computes for; one that is unknown is '?' and its name."""
        own = self.place(kernel.op_name)
        if not kernel.shared:
            return [own if own in self.ops else f"?{own}"]
        result = []
        for name in kernel.shared.split(", "):
            if name.startswith("+"):  # The number of those that are not listed.
                continue
            below = name.replace(" / ", "/")
            options = [f"{part}/{below}" for part in [*_around(own), own]]
            known = [option for option in options if option in self.ops]
            result.append(known[0] if known else f"?{own}/{below}")
        return result


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _around(path: str) -> list[str]:
    """The paths around one, the empty one first."""
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]


def read_kernels(database: Path) -> list[Kernel]:
    """Kernels of the steady iterations, in order of launch."""
    return [Kernel(*row) for row in query(database, _KERNELS)]


def read_modules(database: Path) -> Modules:
    """The eager run's list, of the whole profile."""
    return Modules.of(query(database, _OPS))


def compare(eager: Path, compiled: Path) -> dict[str, Any]:
    """Hold the modules of one run against those of another."""
    modules, kernels = read_modules(eager), read_kernels(compiled)
    time_ns: Counter[str] = Counter()
    grades: Counter[str] = Counter()
    counts: Counter[str] = Counter(kernels=len(kernels))
    examples: Counter[str] = Counter()
    for kernel in kernels:
        verdict, reason = _judge(kernel, modules)
        counts[verdict] += 1
        time_ns[verdict] += kernel.duration_ns
        grades[kernel.grade] += kernel.duration_ns
        if reason:
            examples[reason] += 1
    compared, wrong = _in_both(read_kernels(eager), kernels, modules)
    all_ns = grades.total()
    total = all_ns - time_ns["outside"]
    named = total - time_ns["no module"] - time_ns["not in the list"]
    return {
        "named_pct": round(100 * named / total, 2) if total else None,
        **counts,
        "in_both_compared": compared,
        "in_both_wrong": wrong.total(),
        "grades_pct": {grade: round(100 * ns / all_ns, 1) for grade, ns in grades.items()},
        "examples": dict((examples + wrong).most_common(12)),
    }


def _judge(kernel: Kernel, modules: Modules) -> tuple[str, str]:
    own = modules.place(kernel.op_name)
    if not own:
        outside = kernel.op_type in modules.ops[""]
        return ("outside", "") if outside else ("no module", f"no module: {kernel.op_name}")
    places = modules.all_of(kernel)
    unknown = [place for place in places if place.startswith("?")]
    if unknown:
        return "not in the list", f"{kernel.op_name}: {unknown[0]} is no module of the eager run"
    proofs = _proofs(kernel)
    if not proofs:
        return "in a module of the list", ""
    ran = {place: _below(modules, place) for place in places}
    homeless = [op for op, means in proofs.items() if not any(means & ops for ops in ran.values())]
    if homeless:
        return "wrong", f"{kernel.op_name}: no {homeless[0]} in {', '.join(places)}"
    return "its ops ran in its modules", ""


def _proofs(kernel: Kernel) -> dict[str, set[str]]:
    """Ops that a kernel computes for certain, each with the names that it may have elsewhere."""
    ops = source_ops(f"triton_poi_{kernel.op_type}_0") or [kernel.op_type]
    plain = {_GRADIENT.sub("", op) for op in ops}
    return {op: {op, *_MEANS[op].split()} for op in plain if op in _MEANS}


def _below(modules: Modules, place: str) -> set[str]:
    """Ops of a module and of those in it: a kernel of several is at their common one."""
    inside = f"{place}/"
    return {
        op
        for path, ops in modules.ops.items()
        if path == place or path.startswith(inside)
        for op in ops
    }


def _in_both(
    eager: list[Kernel], compiled: list[Kernel], modules: Modules
) -> tuple[int, Counter[str]]:
    """Hold kernels that both runs launch equally often in a step against each other, by name.

    Inductor changes the order of independent kernels, so the modules of a name are compared as a
    multiset.
    """
    one = _one_step(eager, modules)
    compared, wrong = 0, Counter[str]()
    for step in _by_step(compiled, modules):
        other = _modules_of_names(step)
        for name in one.keys() & other.keys():
            if name.startswith("triton_") or one[name].total() != other[name].total():
                continue
            compared += one[name].total()
            for place, count in (other[name] - one[name]).items():
                instead = ", ".join(one[name] - other[name])
                wrong[f"{name[:60]} in {place}, eager: {instead}"] += count
    return compared, wrong


def _by_step(kernels: list[Kernel], modules: Modules) -> list[tuple[tuple[str, str], ...]]:
    """Name and module of each kernel, for each step."""
    steps: dict[int, list[tuple[str, str]]] = defaultdict(list)
    for kernel in kernels:
        steps[kernel.step].append((kernel.name, modules.place(kernel.op_name)))
    return [tuple(step) for step in steps.values()]


def _modules_of_names(step: Iterable[tuple[str, str]]) -> dict[str, Counter[str]]:
    """How often each kernel name runs in each module."""
    result: dict[str, Counter[str]] = defaultdict(Counter)
    for name, place in step:
        result[name][place] += 1
    return result


def _one_step(kernels: list[Kernel], modules: Modules) -> dict[str, Counter[str]]:
    """The modules of each kernel name in the most common step."""
    kinds = Counter(_by_step(kernels, modules))
    return _modules_of_names(kinds.most_common(1)[0][0] if kinds else ())


def main(arguments: list[str]) -> int:
    """Compare two databases."""
    if len(arguments) != 2:
        print(__doc__)
        return 2
    result = compare(Path(arguments[0]), Path(arguments[1]))
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
