"""Bytes of generated kernels: against counted elements, and against hand counts on real graphs."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlprof_nvtx import kernel_bytes
from dlprof_nvtx.kernel_bytes import (
    Elements,
    UnknownBytesError,
    are_disjoint,
    elements_of,
    union_count,
)

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
sympy = pytest.importorskip("sympy", reason="sympy is not installed")

X, Y, Z = sympy.symbols("x y z")
LOOPS = st.lists(st.tuples(st.integers(-40, 40), st.integers(1, 5)), max_size=3)


def enumerated(offset: int, loops: list[tuple[int, int]]) -> set[int]:
    choices = product(*(range(times) for _, times in loops))
    return {offset + sum(n * s for n, (s, _) in zip(c, loops, strict=True)) for c in choices}


def found(offset: int, loops: list[tuple[int, int]]) -> Elements | None:
    names = (X, Y, Z)[: len(loops)]
    index = sympy.Integer(offset) + sum(
        name * stride for name, (stride, _) in zip(names, loops, strict=True)
    )
    ranges = {name: sympy.Integer(times) for name, (_, times) in zip(names, loops, strict=True)}
    try:
        return elements_of(index, ranges)
    except UnknownBytesError:
        return None


@given(st.integers(-50, 50), LOOPS)
def test_counted_elements_are_those_that_loops_reach(
    offset: int, loops: list[tuple[int, int]]
) -> None:
    elements = found(offset, loops)
    if elements is not None:
        true = enumerated(offset, loops)
        assert (elements.first, elements.last, elements.count) == (min(true), max(true), len(true))
        assert true == enumerated(elements.first, list(elements.loops))


@given(LOOPS, st.lists(st.integers(0, 60), min_size=2, max_size=4), LOOPS)
def test_sets_that_are_added_up_share_no_element(
    loops: list[tuple[int, int]], offsets: list[int], others: list[tuple[int, int]]
) -> None:
    pairs = [(offset, loops) for offset in offsets] + [(offsets[0], others)]
    sets = {one for offset, which in pairs if (one := found(offset, which)) is not None}
    if not sets:
        return
    true = set().union(*(enumerated(one.first, list(one.loops)) for one in sets))
    try:
        assert union_count(sets, 10_000) == len(true)
    except UnknownBytesError:
        assert len(sets) > 1


@given(LOOPS, st.integers(-80, 80))
def test_equal_loops_are_disjoint_exactly_if_they_share_no_element(
    loops: list[tuple[int, int]], offset: int
) -> None:
    one, other = found(0, loops), found(offset, loops)
    if one is not None and other is not None:
        shared = enumerated(0, loops) & enumerated(offset, loops)
        assert are_disjoint(one, other) == (not shared)


def test_what_cannot_be_counted_has_its_reason() -> None:
    cases: list[tuple[Any, dict[Any, Any], str]] = [
        (X + sympy.Symbol("tmp0"), {X: 4}, kernel_bytes.BY_VALUES),
        (X, {X: sympy.Symbol("s0")}, kernel_bytes.DYNAMIC),
        (sympy.floor(X / 2), {X: 4}, kernel_bytes.OVERLAP),
        (X + Y, {X: 4, Y: 4}, kernel_bytes.OVERLAP),
    ]
    for index, ranges, reason in cases:
        with pytest.raises(UnknownBytesError) as error:
            elements_of(index, ranges)
        assert str(error.value) == reason
    assert kernel_bytes.kernel_bytes(SimpleNamespace(), None) == kernel_bytes.OTHER
    assert kernel_bytes.kernel_bytes([SimpleNamespace()], None) == kernel_bytes.OTHER


class _Seen(Exception):
    """Ends the compilation."""


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[int | str]]:
    """Bytes of the kernels of a function, by Inductor's schedule for the CPU; nothing is built."""
    from torch._inductor.codegen.cpp import CppScheduling
    from torch._inductor.virtualized import V

    seen: list[int | str] = []

    def scheduled(self: Any, _: Any) -> None:
        seen[:] = [kernel_bytes.kernel_bytes([node], V.graph) for node in self.scheduler.nodes]
        raise _Seen

    monkeypatch.setattr(CppScheduling, "codegen_node", scheduled)

    def run(function: Any, *arguments: Any, dynamic: bool = False) -> list[int | str]:
        torch._dynamo.reset()
        with pytest.raises(Exception, match="_Seen"):
            torch.compile(function, dynamic=dynamic)(*arguments)
        return list(seen)

    return run


def test_kernels_of_real_graphs_move_what_is_counted_by_hand(
    kernels: Callable[..., list[int | str]],
) -> None:
    functional = torch.nn.functional
    x, y, row = torch.randn(64, 128), torch.randn(64, 128), torch.randn(128)
    images = torch.randn(2, 4, 16, 16)
    whole, line = 64 * 128 * 4, 128 * 4  # Bytes of x and of row.
    # Both inputs, a row that is broadcast, and the output.
    assert kernels(lambda x, y, r: (x + y).relu() * r, x, y, row) == [3 * whole + line]
    # Maxima and sums stay inside the kernel.
    assert kernels(lambda x: torch.softmax(x, -1), x) == [2 * whole]
    normed = kernels(lambda x, r: functional.layer_norm(x, (128,), r, r), x, row)
    assert normed == [2 * whole + line]
    # Only the part that is read; two halves of one array; a transposed array; 16 bits written.
    assert kernels(lambda x: x[:, :32] * 2, x) == [whole // 2]
    assert kernels(lambda x: x[:, :64] * x[:, 64:], x) == [whole + whole // 2]
    assert kernels(lambda x: x.t().contiguous() + 1, x) == [2 * whole]
    assert kernels(lambda x: x.to(torch.bfloat16), x) == [whole + whole // 2]
    # Windows of 2 x 2 with stride 2 read each element once.
    pooled = kernels(lambda images: functional.max_pool2d(images, 2), images)
    assert pooled == [images.numel() * 4 * 5 // 4]
    # An output that another kernel reads, too.
    assert sum(kernels(lambda x, y: (x.sum(), x + y), x, y)) == whole + 4 + 3 * whole  # type: ignore[arg-type]


def test_kernels_of_real_graphs_that_cannot_be_counted_say_why(
    kernels: Callable[..., list[int | str]],
) -> None:
    x = torch.randn(64, 128)
    indices = torch.tensor([1, 2])
    assert kernels(lambda x, i: x[i] * 2, x, indices) == [kernel_bytes.BY_VALUES]
    assert kernels(lambda x: torch.nn.functional.pad(x, (0, 5)) + 1, x) == [kernel_bytes.MASKED]
    assert kernels(lambda x: x[:, :-1] * x[:, 1:], x) == [kernel_bytes.OVERLAP]
    assert kernels(lambda x: x * 2 + 1, x, dynamic=True) == [kernel_bytes.DYNAMIC]
