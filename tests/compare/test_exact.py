"""Displayed columns add up: rounding by largest remainder, decimals without error."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from aggregator.compare.exact import DIGITS, UNIT_NS, decimal, rounded

TIMES = st.lists(
    st.builds(Fraction, st.integers(-(10**12), 10**12), st.integers(1, 400)), max_size=30
)


@given(TIMES, st.sampled_from([UNIT_NS, Fraction(1), Fraction(1000), Fraction(1, 7)]))
def test_rounded_values_add_up_to_the_rounded_sum(values: list[Fraction], unit: Fraction) -> None:
    units = rounded(values, unit)
    assert abs(sum(units) * unit - sum(values, Fraction())) <= unit / 2
    assert all(abs(one * unit - value) < unit for one, value in zip(units, values, strict=True))


@given(st.integers(-(10**20), 10**20))
def test_decimals_are_exact(units: int) -> None:
    assert Decimal(decimal(units)) == Decimal(units).scaleb(-DIGITS)


def test_whole_nanoseconds_are_numbers() -> None:
    assert decimal(3 * 10**DIGITS) == 3
    assert decimal(-3 * 10**DIGITS) == -3
    assert decimal(-(10**DIGITS) // 4) == "-0.25"
