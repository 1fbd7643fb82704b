"""Captures whose markers end, resume and do not fit: against the names that each kernel has."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from aggregator.importing.unmarked_steps import _align_launches, _align_surely
from tests.builders import Trace, analyze

US = 1_000
OPS = {
    "short": ("embedding", "linear", "gelu"),
    "long": ("embedding", "linear", "gelu", "linear", "softmax"),
    "other": ("fft", "sort", "cumsum"),
}
ALL, NONE, LATE = "all", "none", "late"
"""Markers in all of a step, in none of it, or from its second op on."""


@dataclass
class Loop:
    """A loop with an optimizer, or of calls of a model only."""

    has_optimizer: bool = True
    trace: Trace = field(default_factory=Trace)
    truth: dict[str, str] = field(default_factory=dict)  # Op by kernel; names are unique by length.

    def __post_init__(self) -> None:
        self.trace.gpu()
        self.thread = self.trace.thread()
        self.now = 10 * US
        self.launched: list[str] = []
        self.is_on = True
        self.notes = 0

    def note(self, text: str) -> None:
        self.notes += 1
        self.thread.range(f'{{"model_config":{{"{text}":{self.notes}}}}}', self.now, self.now + 1)
        self.now += 5

    def step(self, kind: str, markers: str = ALL, *, grid: int = 1) -> None:
        if not self.has_optimizer and self.is_on and markers == NONE:
            self.end_markers()
        begin = self.now
        self.now += 10 * US
        for number, op in enumerate(OPS[kind]):
            if markers == LATE and number == 1:
                self.note("markers_resumed")
                self.is_on = True
            opened = self.now
            self.now += 5 * US
            self.thread.launch(f"k_{op}", self.now, length=4 * US)
            row = self.trace.tables["CUPTI_ACTIVITY_KIND_KERNEL"][-1]
            row["gridX"] = grid * (number + 1)
            self.launched.append(op)
            self.now += 8 * US
            if self.is_on:
                self.thread.op(op, opened, self.now)
            self.now += US
        self.thread.range("torch.nn: Net (Net)", begin, self.now)
        if self.has_optimizer:
            opened = self.now
            self.now += 3 * US
            self.thread.launch("k_adam", self.now)
            self.launched.append("Optimizer.step#Adam.step")
            self.now += 4 * US
            self.thread.range("Optimizer.step#Adam.step", opened, self.now)
            self.now += US

    def layers(self, linear: str, allocations: int = 0) -> None:
        """A step of equal layers, the first of which may allocate memory."""
        begin = self.now
        self.now += 10 * US
        for layer in range(4):
            for op, kernel in (("linear", linear), ("gelu", "gelu")):
                opened = self.now
                for _ in range(allocations * (layer == 0)):
                    self.thread.call("cudaMalloc_v3020", self.now + US, self.now + 2 * US)
                    self.now += 2 * US
                self.now += 2 * US
                self.thread.launch(f"k_{kernel}", self.now, length=4 * US)
                self.launched.append(f"{op}_{layer}")
                self.now += 8 * US
                if self.is_on:
                    self.thread.op(f"{op}_{layer}", opened, self.now)
                self.now += US
        self.thread.range("torch.nn: Net (Net)", begin, self.now)
        self.thread.range("Optimizer.step#Adam.step", self.now + US, self.now + 3 * US)
        self.now += 4 * US

    def end_markers(self) -> None:
        self.note("marked_steps")
        self.is_on = False

    def names(self, folder: Path) -> tuple[list[tuple[str, str]], dict[str, int]]:
        """What each kernel is and which op the database says, and the warnings."""
        found = analyze(self.trace, folder)
        rows = found.query(
            "SELECT o.op_name FROM kernels AS k JOIN op_kernels AS p ON p.id = k.op_kernel"
            " JOIN ops AS o ON o.id = p.op ORDER BY k.id"
        )
        assert len(rows) == len(self.launched)
        pairs = [
            (truth, name.rpartition("/")[2])
            for truth, (name,) in zip(self.launched, rows, strict=True)
        ]
        grades = found.query("SELECT DISTINCT name_grade FROM ops WHERE op_name LIKE '%gelu%'")
        return pairs, {**found.warnings(), "grades": grades.count(("aligned",))}


def wrong(pairs: list[tuple[str, str]]) -> list[tuple[str, str]]:
    known = {op for ops in OPS.values() for op in ops} | {"Optimizer.step#Adam.step"}
    return [
        (truth, name) for truth, name in pairs if name in known and not name.startswith(truth[:20])
    ]


def unnamed(pairs: list[tuple[str, str]]) -> int:
    return sum(not name.startswith(truth[:12]) for truth, name in pairs)


@pytest.mark.parametrize("has_optimizer", [True, False], ids=["optimizer", "calls"])
def test_steps_of_two_kinds_get_the_names_of_their_own(has_optimizer: bool, tmp_path: Path) -> None:
    loop = Loop(has_optimizer)
    for kind in ("short", "short", "long", "short"):
        loop.step(kind)
    if has_optimizer:
        loop.end_markers()
    for kind in ("short", "long", "short", "short", "long", "short"):
        loop.step(kind, NONE)
    pairs, warnings = loop.names(tmp_path)
    assert warnings.pop("grades") == 1
    assert wrong(pairs) == []
    # The last call of a model is followed by no other: it is no whole step.
    assert unnamed(pairs) == (0 if has_optimizer else len(OPS["short"]))
    assert warnings["ALIGNED_NAMES"] == (6 if has_optimizer else 5)


def test_other_grids_change_no_name(tmp_path: Path) -> None:
    loop = Loop()
    for grid in (1, 2, 3):
        loop.step("long", grid=grid)
    loop.end_markers()
    for grid in (4, 9, 1, 7):
        loop.step("long", NONE, grid=grid)
    pairs, warnings = loop.names(tmp_path)
    assert unnamed(pairs) == 0
    assert warnings["ALIGNED_NAMES"] == 4


def test_what_a_checkpoint_runs_again_keeps_the_path_of_its_model(tmp_path: Path) -> None:
    """The thread of the backward pass has ranges of the model in marked steps only."""
    loop = Loop()
    engine = loop.thread.process.thread(2)
    for step in range(8):
        if step == 4:
            loop.end_markers()
        loop.step("short", ALL if loop.is_on else NONE)
        begin = loop.now
        engine.launch("k_linear", begin + 5 * US, length=4 * US)
        if loop.is_on:
            engine.wrapper("GeluBackward0", begin, begin + 20 * US)
            engine.node("GeluBackward0", begin + US, begin + 19 * US, seq=step)
            for depth, name in enumerate(("torch.nn: Net (Net)", "torch.nn: fc (Linear)")):
                engine.range(name, begin + (2 + depth) * US, begin + (18 - depth) * US)
            engine.op("linear", begin + 4 * US, begin + 14 * US)
        loop.now += 30 * US
    rows = analyze(loop.trace, tmp_path).query(
        "SELECT o.op_name, count(*) FROM kernels AS k JOIN op_kernels AS p ON p.id = k.op_kernel"
        " JOIN ops AS o ON o.id = p.op JOIN kernel_names AS n ON n.id = k.name"
        " WHERE o.direction = 'recompute' GROUP BY 1"
    )
    # The last step ends behind the last one of the optimizer.
    assert {name.rpartition("/")[0] for name, _ in rows} == {"/recompute/Net/fc"}
    assert sum(count for _, count in rows) == 7


def test_markers_that_resume_in_a_step_name_it_and_later_ones_like_it(tmp_path: Path) -> None:
    loop = Loop()
    for _ in range(3):
        loop.step("short")
    loop.end_markers()
    loop.step("short", NONE)
    loop.step("long", LATE)
    loop.end_markers()
    for kind in ("short", "long", "short", "short"):
        loop.step(kind, NONE)
    pairs, _ = loop.names(tmp_path)
    assert wrong(pairs) == []
    # Of the kind that was seen from its second op on, the first one is known from other steps or
    # not at all.
    assert unnamed(pairs) <= 2


def test_a_step_like_no_other_gets_no_names(tmp_path: Path) -> None:
    loop = Loop()
    for _ in range(3):
        loop.step("long")
    loop.end_markers()
    for kind in ("long", "other", "long", "long"):
        loop.step(kind, NONE)
    pairs, warnings = loop.names(tmp_path)
    assert wrong(pairs) == []
    assert unnamed(pairs) == len(OPS["other"])
    assert warnings["STEPS_WITHOUT_NAMES"] == 1
    assert warnings["ALIGNED_NAMES"] == 3


def test_step_that_allocates_gives_its_names_to_those_that_launch_the_same(tmp_path: Path) -> None:
    loop = Loop()
    for linear, allocations in (("gemm_a", 0), ("gemm_a", 0), ("gemm_b", 3)):
        loop.layers(linear, allocations)
    loop.end_markers()
    for linear in ("gemm_b", "gemm_a", "gemm_b", "gemm_b"):
        loop.layers(linear)
    pairs, warnings = loop.names(tmp_path)
    assert [pair for pair in pairs if pair[0] != pair[1]] == []
    assert warnings["ALIGNED_NAMES"] == 4


def test_what_could_be_of_several_layers_has_no_name() -> None:
    layer = [1, 2, 3, 4]
    # GIVEN a step in which the first layer of four begins otherwise
    master, sequence = np.array(layer * 4), np.array([9, 8, 3, 4, *layer * 3])
    assert _align_surely(master, sequence).tolist() == [-1, -1, *range(2, 16)]
    # WHEN three layers are compared with four, the first of them may be the second of those
    found = _align_surely(np.array([7, *layer * 4, 8]), np.array([7, *layer * 3, 8]))
    assert found.tolist() == [0, *[-1] * 12, 17]


def test_calls_between_launches_are_those_around_the_other_ones() -> None:
    is_launch = np.array([False, True, False, False, True, False])
    master = np.array([5, 1, 6, 7, 2, 6]), is_launch
    same = _align_launches(master, (np.array([5, 1, 6, 7, 2]), is_launch[:5]))
    assert same.tolist() == [0, 1, 2, 3, 4]
    more = np.array([5, 5, 1, 6, 9, 7, 2, 6]), np.array([0, 0, 1, 0, 0, 0, 1, 0], dtype=bool)
    assert _align_launches(master, more).tolist() == [0, -1, 1, 2, -1, 3, 4, 5]
    nothing = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=bool)
    assert _align_launches(nothing, (np.array([5, 6]), np.zeros(2, dtype=bool))).tolist() == [
        -1,
        -1,
    ]


def test_work_outside_every_op_is_never_named(tmp_path: Path) -> None:
    loop = Loop()
    for number in range(8):
        if number == 4:
            loop.end_markers()
        loop.layers("gemm")
        loop.thread.launch("k_stray", loop.now + US)
        loop.now += 9 * US
    found = analyze(loop.trace, tmp_path)
    query = (
        "SELECT DISTINCT o.name_grade, o.op_name LIKE 'unassociated_%' FROM kernels AS k"
        " JOIN op_kernels AS p ON p.id = k.op_kernel JOIN ops AS o ON o.id = p.op"
        " JOIN kernel_names AS n ON n.id = k.name WHERE n.long_name {} '%k_stray%'"
    )
    assert found.query(query.format("LIKE")) == [("unknown", 1)]
    assert found.query(query.format("NOT LIKE")) == [("aligned", 0)]
    # THEN the shares of the evidence are those of the kernels
    shares = "SELECT name_grade, gpu_time_sum FROM view_name_evidence WHERE aggr_id = 1 ORDER BY 1"
    own = (
        "SELECT o.name_grade, sum(k.duration) FROM kernels AS k JOIN op_kernels AS p"
        " ON p.id = k.op_kernel JOIN ops AS o ON o.id = p.op JOIN iterations AS i ON i.aggr = 1"
        " AND k.id BETWEEN i.kernel_low AND i.kernel_high - 1 AND i.aggregated GROUP BY 1"
        " ORDER BY 1"
    )
    assert found.query(shares) == found.query(own)


def test_repeated_notes_end_the_markers_once(tmp_path: Path) -> None:
    loop = Loop()
    for _ in range(3):
        loop.step("short")
    loop.end_markers()
    for _ in range(4):
        loop.step("short", NONE)
        loop.note("marked_steps")
    pairs, warnings = loop.names(tmp_path)
    assert unnamed(pairs) == 0
    assert warnings["ALIGNED_NAMES"] == 4


def test_the_steady_range_has_no_step_with_markers(tmp_path: Path) -> None:
    loop = Loop()
    for _ in range(3):
        loop.step("long")
    loop.end_markers()
    for _ in range(8):
        loop.step("long", NONE)
    found = analyze(loop.trace, tmp_path)
    row = found.query("SELECT iter_start, iter_stop FROM aggregations WHERE id = 2")
    ends = found.query(
        "SELECT i.start FROM iterations AS i JOIN aggregations AS a ON a.id = i.aggr"
        " WHERE i.aggr = 2 AND i.iter_value = a.iter_start"
    )
    assert row[0][0] >= 3
    off = next(
        row["start"] for row in loop.trace.tables["NVTX_EVENTS"] if "marked_steps" in row["text"]
    )
    assert ends[0][0] >= off - US
    # AND aggregating the stored events again knows it, too
    again = found.aggregate()
    assert again.aggr_id
    notes = found.query(
        "SELECT DISTINCT steady_note FROM view_performance_summary WHERE aggr_id = 2"
    )
    assert "steps with markers" in notes[0][0]
