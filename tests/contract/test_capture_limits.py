"""Limits of a capture: the answer, and the figures that it makes bounds."""

from __future__ import annotations

from aggregator.answers.registry import ANSWERS
from aggregator.profile.limits import FIGURES, LIMITS, OF_WARNING, LimitCode, bounds_of, touched_by
from aggregator.tables.declared.addresses import OBJECTS, TABLES
from tests.contract.client import ApiClient, Served


def test_the_answer_names_what_a_limit_touches(api: ApiClient, ours: Served) -> None:
    reply = api.get(ours.at("limits/")).json
    assert (reply["is_complete"], reply["reason"]) == (True, "")
    assert [limit["code"] for limit in reply["limits"]] == ["profiled_speed"]
    assert (reply["count"], reply["fault_count"]) == (1, 0)
    assert reply["bounds"]["gpu_idle"]["bound"] == "at_most"
    assert reply["bounds"]["gpu_busy"]["bound"] == "at_least"
    assert "resource-usage.idle_pct" in reply["bounds"]["gpu_idle"]["fields"]
    assert "kernels" not in reply["bounds"]


def test_a_database_of_nvidia_says_that_its_limits_are_unknown(
    api: ApiClient, nvidia: Served
) -> None:
    reply = api.get(nvidia.at("limits/")).json
    assert not reply["is_complete"]
    assert "NVIDIA" in reply["reason"]
    assert (reply["limits"], reply["bounds"]) == ([], {})


def test_every_field_of_a_figure_is_one_that_the_api_serves() -> None:
    shown = {f"{name}.{column.name}" for name, spec in TABLES.items() for column in spec.columns}
    shown |= {f"{name}.{field.name}" for name, spec in OBJECTS.items() for field in spec.fields}
    for address, answer in ANSWERS.items():
        shown |= {address, *(f"{address}.{name}" for name in answer.reply.__struct_fields__)}
    named = {field for figure in FIGURES.values() for field in figure.fields}
    assert named - shown == set()


def test_every_kind_is_described_and_found_by_a_warning() -> None:
    assert set(LIMITS) == set(LimitCode)
    assert set(LimitCode) - set(OF_WARNING.values()) == {LimitCode.PROFILED_SPEED}


def test_bounds_of_both_sides_make_a_figure_unknown() -> None:
    codes = {LimitCode.MISSING_WORK, LimitCode.OVERLAP_IN_STREAM}
    assert bounds_of(codes)["gpu_busy"].kind == "unknown"
    assert bounds_of({LimitCode.MISSING_WORK})["gpu_busy"].kind == "at_least"
    assert touched_by(LimitCode.REPEATED_ROWS) == ()
    assert bounds_of(()) == {}
