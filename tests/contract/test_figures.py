"""Figures: valid for Plotly, in the agreed colors, with the numbers of the tables."""

from __future__ import annotations

from typing import Any

import pandas as pd
import plotly.graph_objects as go
import pytest

from aggregator.tables.figures import FIGURES
from aggregator.tables.plotly.iterations import MAX_BARS, iteration_summary
from aggregator.tables.plotly.shares import gpu_utilization, resource_usage
from aggregator.tables.plotly.theme import COLORS, RARE_PARTS, Theme
from aggregator.tables.plotly.theme import PARTS as ALL_PARTS
from aggregator.tables.plotly.values import choose_unit
from tests.contract.client import ApiClient, Served

#: The captures here have no graphs and a single GPU.
PARTS = tuple(part for part in ALL_PARTS if part not in RARE_PARTS)


@pytest.mark.parametrize("theme", list(Theme))
@pytest.mark.parametrize("name", FIGURES)
def test_plotly_takes_every_figure_in_both_themes(
    api: ApiClient, served: Served, name: str, theme: str
) -> None:
    reply = api.get(served.at(f"figures/{name}/"), theme=theme)

    assert reply.status == 200
    assert set(reply.json) == {"data", "layout"}
    drawn = go.Figure(reply.json)
    # One rank, or a database of NVIDIA's DLProf without ranks: the figure says so.
    assert len(drawn.data) > 0 or (
        name in ("ranks", "roofline", "critical-path", "slow-ranks")
        and drawn.layout.annotations[0].text
    )
    assert drawn.layout.title.text is None
    assert drawn.layout.paper_bgcolor == "rgba(0,0,0,0)"


def test_the_themes_differ_in_text_not_in_meaning(api: ApiClient, served: Served) -> None:
    light, dark = (
        api.get(served.at("figures/resource-usage/"), theme=theme).json for theme in Theme
    )

    assert light["data"] == dark["data"]
    assert light["layout"]["font"]["color"] != dark["layout"]["font"]["color"]


def test_the_iteration_summary_stacks_the_parts_of_each_iteration(
    api: ApiClient, served: Served
) -> None:
    rows = api.get(served.at("iterations/export/"), format="json").json["results"]

    figure = api.get(served.at("figures/iteration-summary/")).json

    meta = figure["layout"]["meta"]
    assert [trace["meta"]["part"] for trace in figure["data"]] == [*PARTS, "outside"]
    assert [trace["marker"]["color"] for trace in figure["data"]] == [
        COLORS[part] for part in (*PARTS, "outside")
    ]
    assert meta["bucket_size"] == 1
    assert len(meta["bars"]) == len(rows) <= MAX_BARS
    for place, row in enumerate(rows):
        parts = {trace["meta"]["part"]: trace["y"][place] for trace in figure["data"]}
        whole = sum(time or 0 for time in parts.values()) * meta["unit_ns"]
        assert whole == pytest.approx(row["duration_ns"], rel=1e-6)
        assert (parts["outside"] is None) == row["is_profiled"]
        exact = {trace["meta"]["part"]: trace["customdata"][place][3] for trace in figure["data"]}
        if row["is_profiled"]:
            assert exact["cpu"] == row["cpu_duration_ns"]


def _many(count: int, *, first: int = 1) -> dict[str, list[Any]]:
    """Interval 0 before the loop, then iterations, of which all but the last ten are aggregated."""
    index = list(range(first - 1, first + count))
    table: dict[str, list[Any]] = {
        "iteration_index": index,
        "kind": ["before"] + ["iteration"] * count,
        "is_profiled": [False] + [True] * (count - 10) + [False] * 10,
        "duration_ns": [1_000 + place for place in index],
    }
    for part in PARTS:
        table[f"{part}_duration_ns"] = [10 if inside else None for inside in table["is_profiled"]]
    return table


@pytest.mark.parametrize("count", [11, 119, 120, 121, 1_000, 9_999])
def test_there_are_never_more_bars_than_a_browser_can_draw(count: int) -> None:
    figure = iteration_summary(_many(count))

    bars = figure["layout"]["meta"]["bars"]
    assert len(bars) <= MAX_BARS
    # Every iteration is in exactly one bar.
    assert [one for bar in bars for one in range(bar["first"], bar["last"] + 1)] == list(
        range(count + 1)
    )
    # What is before the loop has a bar of its own, and the bounds of the aggregation cut none.
    assert (bars[0]["first"], bars[0]["last"], bars[0]["kind"]) == (0, 0, "before")
    assert any(bar["last"] == count - 10 for bar in bars)


def test_a_bar_of_several_iterations_shows_their_mean() -> None:
    table = _many(1_000)

    figure = iteration_summary(table)

    bar = figure["layout"]["meta"]["bars"][1]
    inside = table["duration_ns"][bar["first"] : bar["last"] + 1]
    assert len(inside) > 1
    assert bar["duration_ns"] == round(sum(inside) / len(inside))
    assert (bar["shortest_ns"], bar["longest_ns"]) == (min(inside), max(inside))


@pytest.mark.parametrize(("every", "is_alone"), [(200, True), (3, False)])
def test_a_bar_holds_one_phase_while_that_leaves_few_enough(every: int, is_alone: bool) -> None:
    table = _many(1_000)
    phase = ["prefill" if place % every == 1 else "decode" for place in range(1_001)]

    figure = iteration_summary(table | {"phase": [None, *phase[1:]]})

    bars = figure["layout"]["meta"]["bars"]
    assert len(bars) <= MAX_BARS
    for bar in bars:
        inside = set(phase[max(1, bar["first"]) : bar["last"] + 1])
        assert bar["phase"] == (inside.pop() if len(inside) == 1 and bar["first"] else None)
    alone = sum(bar["phase"] == "prefill" for bar in bars)
    assert alone >= 5 if is_alone else alone <= 1


def test_zooming_in_shows_single_iterations_again() -> None:
    figure = iteration_summary(_many(5_000), start=100, stop=199)

    meta = figure["layout"]["meta"]
    assert (meta["bucket_size"], meta["first"], meta["last"]) == (1, 100, 199)
    assert len(meta["bars"]) == 100


def test_communication_is_a_part_of_its_own_and_the_parts_add_up() -> None:
    table: dict[str, list[object]] = {
        "iteration_index": [1], "kind": ["iteration"], "is_profiled": [True], "duration_ns": [100],
        **{f"{part}_duration_ns": [10] for part in ALL_PARTS},
        "non_tc_duration_ns": [40], "communication_duration_ns": [15],
    }  # fmt: skip

    figure = iteration_summary(table)

    unit_ns = figure["layout"]["meta"]["unit_ns"]
    parts = {trace["meta"]["part"]: trace["y"][0] * unit_ns for trace in figure["data"][:-1]}
    assert (parts["non_tc"], parts["communication"]) == (25, 15)
    assert sum(parts.values()) == 110


def test_a_part_of_the_whole_is_not_counted_twice_in_the_breakdown() -> None:
    row = {f"{part}_pct": [0.0] for part in ALL_PARTS} | {
        "non_tc_pct": [60.0], "communication_pct": [25.0], "other_pct": [40.0],
    }  # fmt: skip

    figure = resource_usage(row)

    drawn = {trace["meta"]["part"]: trace["x"][0] for trace in figure["data"]}
    assert (drawn["non_tc"], drawn["communication"]) == (35.0, 25.0)
    assert sum(drawn.values()) == 100.0


def test_the_page_asks_for_as_many_bars_as_it_has_pixels(api: ApiClient, ours: Served) -> None:
    address = ours.at("figures/iteration-summary/")

    few = api.get(address, max_bars=5).json["layout"]["meta"]["bars"]

    assert len(few) <= 5
    for bad in (0, 1001):
        reply = api.get(address, max_bars=bad)
        assert (reply.status, reply.json["error"]["code"]) == (400, "INVALID_VALUE")


def test_figure_shows_only_aggregated_iterations_if_asked() -> None:
    figure = iteration_summary(_many(100), only_profiled=True)

    assert all(bar["is_profiled"] for bar in figure["layout"]["meta"]["bars"])


def test_a_notebook_gets_the_same_figure_from_a_data_frame() -> None:
    table = _many(300)

    assert iteration_summary(pd.DataFrame(table)) == iteration_summary(table)


def test_an_empty_table_says_so() -> None:
    figure = iteration_summary({"iteration_index": []})

    assert figure["data"] == []
    assert figure["layout"]["annotations"][0]["text"] == "No iterations here"


def test_unknown_values_are_not_drawn_as_zero() -> None:
    figure = gpu_utilization({"using_gpu_pct": [None], "idle_gpu_pct": [None]})

    assert figure["data"] == []


@pytest.mark.parametrize(
    ("largest_ns", "symbol"),
    [
        (0, "ns"),
        (999, "ns"),
        (1_000, "µs"),
        (999_999, "µs"),
        (1_000_000, "ms"),
        (5_000_000_000, "s"),
        (61_000_000_000, "min"),
    ],
)
def test_the_unit_follows_the_size(largest_ns: int, symbol: str) -> None:
    assert choose_unit(largest_ns).symbol == symbol


def test_the_critical_path_shows_the_ops_with_the_largest_shares(
    api: ApiClient, ours: Served
) -> None:
    rows = api.get(ours.at("ops/"), page_size=100, ordering="-path_pct").json["results"]
    wanted = [(row["op_id"], row["path_pct"]) for row in rows if row["path_pct"]][:15]
    (trace,) = api.get(ours.at("figures/critical-path/")).json["data"]
    assert list(zip(trace["y"], trace["x"], strict=True)) == wanted != []
