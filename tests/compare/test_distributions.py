"""Against SciPy's answers, which stand here as numbers."""

from __future__ import annotations

import numpy as np
import pytest

from aggregator.compare.distributions import (
    benjamini_hochberg,
    digamma,
    mann_whitney,
    t_quantile,
    t_tail,
    trigamma,
)


def test_tails_and_quantiles_are_those_of_students_t():
    cases = np.array(
        [
            (0.5, 1, 0.7048327646991336),
            (3.0, 1, 0.20483276469913345),
            (2.0, 2, 0.1835034190722739),
            (12.0, 2, 0.00687293367715846),
            (4.6, 4, 0.010030893170196245),
            (3.3, 7, 0.01312071493843811),
            (2.1, 30, 0.044242471262323564),
            (6.0, 11, 8.926129204069127e-05),
            (np.inf, 3, 0.0),
            (0.0, 3, 1.0),
        ]
    )
    assert t_tail(cases[:, 0], cases[:, 1].astype(np.int64)) == pytest.approx(
        cases[:, 2], abs=1e-12
    )
    expected = [12.70620474, 4.30265273, 2.77644511, 2.57058184, 2.04227246]
    assert t_quantile(np.array([1, 2, 4, 5, 30])) == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize(("count", "other", "p"), [(4, 5, 0.9047619047619049), (3, 3, 1.0)])
def test_mann_whitney_is_exact_for_few_samples(count, other, p):
    random = np.random.default_rng(3)
    if count == 3:
        random.normal(size=9)
    base = random.normal(size=(count, 1)).round(3)
    new = (random.normal(size=(other, 1)) + 0.8).round(3)
    assert mann_whitney(base, new)[0] == pytest.approx(p, abs=1e-12)


def test_mann_whitney_is_exact_for_separated_captures():
    base, new = np.arange(4.0)[:, None], np.arange(4.0)[:, None] + 10
    assert mann_whitney(base, new)[0] == pytest.approx(2 / 70)
    assert mann_whitney(base[:2], new[:2])[0] == pytest.approx(1 / 3)


def test_mann_whitney_corrects_for_ties():
    base = np.array([1, 2, 2, 3, 3, 3, 4, 8, 9, 9.0] * 3)[:, None]
    new = np.array([2, 3, 3, 4, 5, 5, 6, 8, 9, 10.0] * 3)[:, None]
    assert mann_whitney(base, new)[0] == pytest.approx(0.04397461602685454, abs=1e-12)


def test_p_values_are_adjusted_as_by_benjamini_and_hochberg():
    p = np.array([0.01, 0.04, 0.03, 0.5])
    expected = [0.04, 0.16 / 3, 0.16 / 3, 0.5]
    assert benjamini_hochberg(p) == pytest.approx(expected)
    heavier = benjamini_hochberg(p, np.array([3.0, 1 / 3, 1 / 3, 1 / 3]))
    assert heavier[0] < expected[0]
    assert (heavier[1:] >= expected[1:]).all()
    assert not len(benjamini_hochberg(np.empty(0)))


def test_derivatives_of_gamma_are_exact():
    at = np.array([0.5, 2, 7.3])
    assert digamma(at) == pytest.approx([-1.96351003, 0.42278434, 1.91782034], abs=1e-8)
    assert trigamma(at) == pytest.approx([4.9348022, 0.64493407, 0.14679577], abs=1e-8)
