"""Ask Apache Otava for the change points of the test series in ``tests/data/change_points.json``.

Otava needs an older NumPy, so it has an environment of its own:

    python3 -m venv otava && otava/bin/pip install apache-otava==0.8.0
    otava/bin/python scripts/otava_answers.py

The series of Otava's own tests are in that file; the synthetic ones come from
``tests/compare/series.py``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

# Otava is installed in that environment only.
from otava.analysis import (  # type: ignore[import-not-found]
    compute_change_points,
    compute_change_points_orig,
)

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY / "tests" / "compare"))

from series import COUNT, synthetic_series  # type: ignore[import-not-found]  # noqa: E402

ANSWERS = REPOSITORY / "tests" / "data" / "change_points.json"
OPTIONS = (
    {"window": 50, "max_p_value": 0.001, "min_magnitude": 0.0},
    {"window": 30, "max_p_value": 0.01, "min_magnitude": 0.05},
    {"window": 10, "max_p_value": 0.05, "min_magnitude": 0.01},
)
OWN_OPTIONS = (
    *OPTIONS,
    {"window": 10, "max_p_value": 0.0001, "min_magnitude": 0.0},
    *({"window": 30, "max_p_value": p, "min_magnitude": 0.05} for p in (0.05, 0.1, 0.2)),
    {"window": 30, "max_p_value": 0.1, "min_magnitude": 0.01},
    *(
        {"window": 30, "max_p_value": p, "min_magnitude": 0.0}
        for p in (0.2, 0.1, 0.01, 0.001, 0.0001, 0.00001)
    ),
)


def ask(series: list[float], options: dict[str, Any]) -> list[int]:
    """Return Otava's default: Hunter's windows, t-test and merge step."""
    points, _ = compute_change_points(
        list(series),
        window_len=options["window"],
        max_pvalue=options["max_p_value"],
        min_magnitude=options["min_magnitude"],
    )
    return [int(point.index) for point in points]


def ask_permutation(series: list[float]) -> list[int]:
    """Return the original algorithm; Otava draws 100 permutations."""
    points, _ = compute_change_points_orig(list(series), max_pvalue=0.001, seed=1)
    return [int(point.index) for point in points]


def main() -> None:
    """Write the answers."""
    document = json.loads(ANSWERS.read_text(encoding="utf-8"))
    for case in document["own"]:
        case["t_test"] = [ask(case["series"], options) for options in OWN_OPTIONS]
        case["permutation"] = ask_permutation(case["series"]) if len(case["series"]) < 200 else None
    document["own_options"] = list(OWN_OPTIONS)
    document["options"] = list(OPTIONS)
    document["synthetic"] = [
        {
            "t_test": [ask(synthetic_series(seed), options) for options in OPTIONS],
            "permutation": ask_permutation(synthetic_series(seed)),
        }
        for seed in range(COUNT)
    ]
    ANSWERS.write_text(json.dumps(document, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
