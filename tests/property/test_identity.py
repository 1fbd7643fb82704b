"""Identity over steps: what ``align_steps`` promises for any run."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from aggregator.correlate.identity import align_steps

SEQUENCE = st.lists(st.integers(0, 4), min_size=1, max_size=10)
STEPS = st.lists(SEQUENCE, min_size=1, max_size=7)


def _places(steps: list[list[int]]) -> list[list[int]]:
    """Place of each item, by step."""
    code = np.array([item for step in steps for item in step], dtype=np.int64)
    number = np.array([n for n, step in enumerate(steps) for _ in step], dtype=np.int64)
    found = align_steps(code, number, len(steps))
    assert all(-1 <= place < found.length for place in found.position.tolist())
    flat = iter(found.position.tolist())
    return [[next(flat) for _ in step] for step in steps]


@given(STEPS)
def test_a_place_is_for_one_kind_of_item(steps: list[list[int]]) -> None:
    kinds = defaultdict(set)
    for step, places in zip(steps, _places(steps), strict=True):
        for item, place in zip(step, places, strict=True):
            kinds[place].add(item)
    assert all(len(items) == 1 for place, items in kinds.items() if place >= 0)


@given(STEPS)
def test_places_of_a_step_are_distinct_and_in_order(steps: list[list[int]]) -> None:
    for places in _places(steps):
        own = [place for place in places if place >= 0]
        assert own == sorted(set(own))


@given(STEPS)
def test_equal_steps_have_equal_places(steps: list[list[int]]) -> None:
    seen: dict[tuple[int, ...], list[int]] = {}
    for step, places in zip(steps, _places(steps), strict=True):
        assert seen.setdefault(tuple(step), places) == places


@given(SEQUENCE, st.integers(2, 6))
def test_equal_steps_have_all_the_places(sequence: list[int], count: int) -> None:
    assert _places([sequence] * count) == [list(range(len(sequence)))] * count


@st.composite
def one_odd_step(draw: st.DrawFn) -> tuple[list[int], list[int], int]:
    """The usual step, an odd one with one item more, and the position of the odd one."""
    usual = draw(SEQUENCE)
    at = draw(st.integers(0, len(usual)))
    odd = [*usual[:at], draw(st.integers(0, 5)), *usual[at:]]
    return usual, odd, draw(st.integers(0, 3))


@given(one_odd_step())
def test_an_item_more_in_one_step_renames_no_other(
    case: tuple[list[int], list[int], int],
) -> None:
    usual, odd, where = case
    steps = [usual] * 4
    steps[where] = odd
    places = _places(steps)
    everywhere = list(range(len(usual)))
    assert [found for n, found in enumerate(places) if n != where] == [everywhere] * 3
    # All usual items of the odd step have their places; one item is over.
    assert sorted(places[where]) == [-1, *everywhere]


@given(one_odd_step())
def test_an_item_less_in_one_step_renames_no_other(
    case: tuple[list[int], list[int], int],
) -> None:
    short, usual, where = case
    steps = [usual] * 4
    steps[where] = short
    places = _places(steps)
    if 2 * len(short) >= len(usual):
        assert -1 not in places[where]
    assert [found for n, found in enumerate(places) if n != where] == [list(range(len(usual)))] * 3


@given(STEPS)
def test_the_order_in_which_steps_are_given_changes_nothing(steps: list[list[int]]) -> None:
    code = np.array([item for step in steps for item in step], dtype=np.int64)
    number = np.array([n for n, step in enumerate(steps) for _ in step], dtype=np.int64)
    plain = align_steps(code, number, len(steps)).position
    mixed = np.argsort(number % 2, kind="stable")
    found = align_steps(code[mixed], number[mixed], len(steps)).position
    assert found.tolist() == plain[mixed].tolist()
