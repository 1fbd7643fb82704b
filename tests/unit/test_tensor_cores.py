from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from aggregator.kernels.tensor_cores import Capability, Verdict
from aggregator.kernels.traits import kernel_traits
from tests.builders import query, table

HOPPER = (9, 0)
TURING = (7, 5)
DATA = Path(__file__).resolve().parent.parent / "data"
EXPECTED = {"yes": True, "no": False, "unknown": None}
MAX_UNKNOWN_RATIO = 0.03


def explain(name: str, capability: Capability) -> Verdict:
    return kernel_traits(name).tensor_cores(capability)


def uses_tensor_cores(name: str, capability: Capability) -> bool | None:
    return explain(name, capability).uses_tc


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(line for line in stream if not line.startswith("#")))


def _reviewed() -> list[dict[str, str]]:
    return _rows(DATA / "tensor_cores_reviewed.csv")


def _kernel_names(profile: Path) -> list[str]:
    sql = (
        "SELECT DISTINCT value FROM CUPTI_ACTIVITY_KIND_KERNEL JOIN StringIds ON id = demangledName"
    )
    return [name for (name,) in query(profile, sql)]


def _assert_agrees_with_counters(path: Path) -> None:
    truth = [(row["kernel_name"], row["uses_tensor_cores"] == "1") for row in _rows(path)]

    answers = {name: uses_tensor_cores(name, HOPPER) for name, _ in truth}

    assert [name for name, used in truth if answers[name] not in (used, None)] == []
    unknown = [name for name, answer in answers.items() if answer is None]
    assert len(unknown) <= MAX_UNKNOWN_RATIO * len(answers), unknown


def test_no_answer_differs_from_the_shared_counter_runs(shared_dir: Path) -> None:
    _assert_agrees_with_counters(shared_dir / "spec" / "tensor_core_truth.csv")


def test_no_answer_differs_from_our_own_counter_runs() -> None:
    _assert_agrees_with_counters(DATA / "tensor_cores_counters.csv")


def test_a_name_that_ran_both_ways_is_unknown() -> None:
    rows = _rows(DATA / "tensor_cores_counters.csv")
    outcomes: dict[str, set[str]] = {}
    for row in rows:
        outcomes.setdefault(row["kernel_name"], set()).add(row["uses_tensor_cores"])

    both = [name for name, seen in outcomes.items() if len(seen) > 1]

    assert both == ["gemm_fusion_dot", "triton_tem_fused_mm_0"]
    assert [uses_tensor_cores(name, HOPPER) for name in both] == [None, None]


def test_every_reviewed_name_gets_the_reviewed_answer() -> None:
    wrong = [
        (row["name"], row["reason"], explain(row["name"], HOPPER))
        for row in _reviewed()
        if uses_tensor_cores(row["name"], HOPPER) is not EXPECTED[row["expected"]]
    ]

    assert wrong == []


def test_every_kernel_of_the_bundled_profile_is_reviewed(demo_profile: Path) -> None:
    reviewed = {row["name"] for row in _reviewed()}

    assert set(_kernel_names(demo_profile)) - reviewed == set()


def test_the_turing_run_without_mixed_precision_used_no_tensor_cores(golden_dir: Path) -> None:
    names = _kernel_names(golden_dir / "nsys_profile.sqlite")

    assert {name: uses_tensor_cores(name, TURING) for name in names} == dict.fromkeys(names, False)


def _with_shorter_namespaces(name: str) -> Iterator[str]:
    """The name with each one, and each leading run, of its namespaces dropped."""
    match = re.fullmatch(r"(void )?((?:(?:\w+|<unnamed>|\(anonymous namespace\))::)+)(.*)", name)
    if match is None:
        return
    parts = re.findall(r"(?:\w+|<unnamed>|\(anonymous namespace\))::", match[2])
    for index in range(len(parts)):
        for kept in (parts[index + 1 :], parts[:index] + parts[index + 1 :]):
            yield f"{match[1] or ''}{''.join(kept)}{match[3]}"


def test_shortened_namespaces_change_no_answer() -> None:
    names = [row["name"] for row in _reviewed()]
    names += [row["kernel_name"] for row in _rows(DATA / "tensor_cores_counters.csv")]

    changed = [
        shorter
        for name in names
        for shorter in _with_shorter_namespaces(name)
        if uses_tensor_cores(shorter, HOPPER) is not uses_tensor_cores(name, HOPPER)
    ]

    assert changed == []


@pytest.mark.parametrize(("name", "capability", "expected"), table("tensor_core_families"))
def test_families_that_no_test_profile_holds_are_known(
    name: str, capability: list[int], expected: bool | None
) -> None:
    assert uses_tensor_cores(name, (capability[0], capability[1])) is expected


def test_the_verdict_says_which_rule_decided() -> None:
    assert explain("nvjet_sm90_hsh_64x8_64x16_4x2_h_bz_TNT", HOPPER) == (
        True,
        "cuBLAS nvjet matrix kernel",
    )
