"""Exact numbers as text: columns that are rounded at display only, and then still add up."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import lcm
from typing import Final

DIGITS: Final = 9
"""Digits behind the point of a time in a document. Means over three or seven iterations have no
finite decimal: each column is rounded there by largest remainder."""
UNIT_NS: Final = Fraction(1, 10**DIGITS)


def rounded(values: Sequence[Fraction], unit_ns: Fraction | int) -> list[int]:
    """Values in whole units, whose sum is the rounded sum: the method of largest remainders.

    Args:
        values: Exact values. Unit: ns.
        unit_ns: What they are rounded to, such as 1,000 for microseconds. Unit: ns.

    Returns:
        One number per value, in units.
    """
    unit = Fraction(unit_ns)
    common = lcm(*(value.denominator for value in values))
    # Over one denominator, so that whole numbers are compared.
    whole = common * unit.numerator
    shares = [
        value.numerator * (common // value.denominator) * unit.denominator for value in values
    ]
    result = [share // whole for share in shares]
    missing = (2 * sum(shares) + whole) // (2 * whole) - sum(result)
    by_remainder = sorted(range(len(shares)), key=lambda row: (-(shares[row] % whole), row))
    for row in by_remainder[:missing]:
        result[row] += 1
    return result


def rounded_pairs(
    times_ns: Sequence[tuple[Fraction, Fraction]], unit_ns: Fraction | int = 1_000
) -> list[tuple[int, int]]:
    """Times of base and new side in units of display; each column has its rounded sum."""
    base, new = ([pair[side] for pair in times_ns] for side in (0, 1))
    return list(zip(rounded(base, unit_ns), rounded(new, unit_ns), strict=True))


def decimal(units: int) -> int | str:
    """A number of ``UNIT_NS`` as nanoseconds: whole numbers as such, others as decimal text."""
    whole, rest = divmod(abs(units), 10**DIGITS)
    sign = "-" if units < 0 else ""
    if not rest:
        return -whole if units < 0 else whole
    return f"{sign}{whole}.{str(rest).zfill(DIGITS).rstrip('0')}"
