"""Apache Otava is the oracle; ``scripts/otava_answers.py`` stored its answers."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from aggregator.compare.change_points import (
    change_points_by_permutation,
    change_points_by_t_test,
)
from tests.compare.series import COUNT, synthetic_series

ANSWERS = json.loads((Path(__file__).parents[1] / "data" / "change_points.json").read_text("utf-8"))
SYNTHETIC = [(synthetic_series(seed), ANSWERS["synthetic"][seed]) for seed in range(COUNT)]


def indexes(points):
    return [point.index for point in points]


@pytest.mark.parametrize("number", range(len(ANSWERS["own"])))
def test_change_points_of_otavas_own_test_series(number):
    own = ANSWERS["own"][number]
    for options, expected in zip(ANSWERS["own_options"], own["t_test"], strict=True):
        assert indexes(change_points_by_t_test(own["series"], **options)) == expected, options
    if own["permutation"] is not None:
        found = change_points_by_permutation(own["series"], permutations=100, seed=1)
        assert indexes(found) == own["permutation"]


def test_what_otavas_tests_themselves_expect():
    series = {one["name"]: one["series"] for one in ANSWERS["own"]}
    tigerbeetle = series["tigerbeetle_test.py"]
    found = change_points_by_t_test(tigerbeetle, window=30, max_p_value=0.01, min_magnitude=0.05)
    assert indexes(found) == [15, 71]
    found = change_points_by_t_test(tigerbeetle, window=30, max_p_value=0.0001)
    assert indexes(found) == [71, 95, 117, 131, 142, 148, 192, 212]
    steps = series["change_point_divisive_test.py"]
    found = change_points_by_permutation(steps, max_p_value=0.01, permutations=100, seed=1)
    assert indexes(found) == [5, 8]


def test_two_hundred_synthetic_series_have_otavas_change_points():
    assert len(SYNTHETIC) >= 200
    changed = 0
    for series, answer in SYNTHETIC:
        for options, expected in zip(ANSWERS["options"], answer["t_test"], strict=True):
            assert indexes(change_points_by_t_test(series, **options)) == expected
            changed += bool(expected)
    assert changed > 200


def test_means_beside_a_change_point():
    [point] = change_points_by_permutation([10.0] * 10 + [12.0] * 10)
    assert (point.index, point.before, point.after) == (10, 10.0, 12.0)
    assert point.magnitude == pytest.approx(0.2)


def test_a_series_without_a_change_rarely_has_a_change_point():
    random = np.random.default_rng(0)
    found = [
        bool(change_points_by_permutation(random.normal(100, 2, 14).tolist())) for _ in range(80)
    ]
    assert sum(found) <= 2


@pytest.mark.parametrize("series", [[], [1.0], [1.0, 1.0], [0.0] * 9])
def test_short_and_constant_series_have_none(series):
    assert change_points_by_permutation(series) == []
    assert change_points_by_t_test(series) == []
