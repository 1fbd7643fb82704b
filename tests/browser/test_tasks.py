"""Tasks of a new user, with the number of interactions that each takes.

The page itself counts: each press of a mouse button or key is an interaction, a drag is one.
"""

from __future__ import annotations

import lzma
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import MakeDatabase, Viewer, expect_copied, settled
from tests.browser.test_iterations import drag_over, drawn
from tests.browser.test_linked_views import get
from tests.conftest import ProfileFactory

COUNT_INTERACTIONS = """
addEventListener('pointerdown', () => { sessionStorage.interactions = taken() + 1; }, true);
addEventListener('keydown', () => { sessionStorage.interactions = taken() + 1; }, true);
const taken = () => Number(sessionStorage.interactions ?? 0);
"""
CAPTURES = Path(__file__).resolve().parents[1] / "data/captures"
#: Profiles of all kinds: several ranks, no names of ops, compiled, compiled with a single step.
KINDS = ("ddp2_resnet50_amp", "simple_no_nvtx", "gpt", "torch_compile_triton__trace.json.gz")
LARGE = "pytorch_gpt2_large"


@pytest.fixture(scope="session")
def database_of_capture(
    make_database: MakeDatabase, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Path]:
    """A function from a committed capture's name to its database."""
    folder = tmp_path_factory.mktemp("captures")

    def database(name: str) -> Path:
        packed = CAPTURES / f"{name}.sqlite.xz"
        unpacked = folder / packed.stem
        unpacked.write_bytes(lzma.decompress(packed.read_bytes()))
        return make_database(unpacked)

    return database


@pytest.fixture
def counted(page: Page) -> Page:
    """A page that counts what its user does."""
    page.add_init_script(COUNT_INTERACTIONS)
    return page


def interactions(page: Page) -> int:
    return int(page.evaluate("() => Number(sessionStorage.interactions ?? 0)"))


def test_presses_keys_and_drags_are_counted(counted: Page, viewer: Viewer) -> None:
    counted.goto(viewer.address(view="iterations"))
    drawn(counted)
    assert interactions(counted) == 0
    drag_over(counted, 3, 6)
    counted.keyboard.press("Escape")
    counted.get_by_role("link", name="GPUs").click()
    assert interactions(counted) == 3


@pytest.mark.parametrize("name", [*KINDS, LARGE])
def test_the_cause_and_the_first_change_take_two_looks(
    counted: Page,
    viewer_on: Callable[[Path], Viewer],
    imported: ProfileFactory,
    name: str,
) -> None:
    viewer = viewer_on(imported(name))
    counted.set_viewport_size({"width": 1440, "height": 900})
    counted.goto(viewer.address())
    verdict = counted.get_by_role("region", name="What limits a step").locator(".verdict")
    expect(verdict).to_have_text(get(viewer, "verdict/")["sentence"])
    expect(verdict).to_be_in_viewport(ratio=1)
    panel = counted.get_by_role("region", name="Recommendations")
    # What to do: advice, or the data without which there is none.
    found = [row for row in get(viewer, "advice/")["results"] if row["status"] == "found"]
    first = panel.get_by_role("listitem").first
    expect(first).to_contain_text(found[0]["problem"] if found else "Needed: ")
    expect(first).to_be_in_viewport(ratio=1)
    assert interactions(counted) == 0


def test_the_most_expensive_kernel_takes_one_click(counted: Page, viewer: Viewer) -> None:
    kernel = get(viewer, "top-kernels/")["results"][0]
    counted.goto(viewer.address())
    top = counted.get_by_role("region", name="Top 10 GPU ops")
    top.get_by_role("button", name="Kernels", exact=True).click()
    first = counted.get_by_role("table", name="Kernels with the most GPU time").locator("tbody tr")
    expect(first.first).to_contain_text(kernel["readable_name"][:12])
    expect(first.first.locator(".name")).to_have_attribute("title", kernel["kernel_long_name"])
    assert interactions(counted) == 1


def test_kernels_that_could_use_tensor_cores_take_one_click(
    counted: Page,
    viewer_on: Callable[[Path], Viewer],
    database_of_capture: Callable[[str], Path],
) -> None:
    viewer = viewer_on(database_of_capture("advice/conv_fp32"))
    missed = get(viewer, "ops/?tc_eligible=1&using_tc=0")["count"]
    of_them = {row["op_id"] for row in get(viewer, "ops/?tc_eligible=1&using_tc=0")["results"]}
    pages = range(1, 2 + get(viewer, "kernels/")["count"] // 100)
    every = [
        row
        for page in pages
        for row in get(viewer, f"kernels/?page_size=100&page={page}")["results"]
    ]
    kernels = len({row["kernel_long_name"] for row in every if row["op_id"] in of_them})
    assert 0 < missed <= len(of_them)
    assert 0 < kernels < len(every)
    counted.goto(viewer.address())
    counted.get_by_role("link", name="Tensor Core use", exact=True).click()
    expect(counted.get_by_text(re.compile(rf"^{missed} of \d+ ops$"))).to_be_visible()
    table = counted.get_by_role("grid", name="Kernels of the filtered ops")
    expect(table).to_have_attribute("aria-rowcount", str(kernels))
    assert interactions(counted) == 1


def test_ops_that_could_use_tensor_cores_are_a_choice_of_the_filter(
    page: Page,
    viewer_on: Callable[[Path], Viewer],
    database_of_capture: Callable[[str], Path],
) -> None:
    viewer = viewer_on(database_of_capture("advice/conv_fp32"))
    missed = get(viewer, "ops/?tc_eligible=1&using_tc=0")["count"]
    every = get(viewer, "ops/?using_tc=0")["count"]
    assert 0 < missed < every
    page.goto(viewer.address(view="ops"))
    region = page.get_by_role("region", name="Ops", exact=True)
    region.get_by_role("button", name="Filters").click()
    choice = region.get_by_role("combobox", name="TC", exact=True)
    for chosen, count in (("could, does not", missed), ("no", every)):
        choice.select_option(chosen)
        expect(region.get_by_text(re.compile(rf"^{count}( of \d+)? ops$"))).to_be_visible()
        expect(choice.locator("option:checked")).to_have_text(chosen)
    # The dashboard leads to the same ops.
    page.goto(viewer.address())
    page.get_by_role("link", name=f"{missed} more ops could").click()
    expect(page.get_by_text(re.compile(rf"^{missed} of \d+ ops$"))).to_be_visible()


def test_another_key_node_takes_four(counted: Page, viewer_to_change: Viewer) -> None:
    counted.goto(viewer_to_change.address())
    counted.get_by_role("button", name="Manage", exact=True).click()
    counted.get_by_role("button", name="Select key node", exact=True).click()
    dialog = counted.get_by_role("dialog", name="Select key node")
    dialog.locator("tbody tr[aria-rowindex]").first.click()
    dialog.get_by_role("button", name="Aggregate with it").click()
    expect(dialog).to_have_count(0)
    expect(counted.get_by_role("region", name="Re-aggregation", exact=True)).to_be_visible()
    assert interactions(counted) == 4


def test_the_slow_rank_takes_one_and_is_a_sentence(
    counted: Page,
    viewer_on: Callable[[Path], Viewer],
    database_of_capture: Callable[[str], Path],
) -> None:
    viewer = viewer_on(database_of_capture("ddp"))
    counted.goto(viewer.address())
    counted.get_by_role("link", name="GPUs and ranks", exact=True).click()
    expect(counted.locator(".rank-verdict").first).to_contain_text(re.compile("rank", re.I))
    expect(counted.locator(".rank-verdict").first).to_be_in_viewport(ratio=1)
    assert interactions(counted) == 1


def test_a_colleague_sees_the_same_by_one_click(
    counted: Page,
    viewer_on: Callable[[Path], Viewer],
    database_of_capture: Callable[[str], Path],
) -> None:
    viewer = viewer_on(database_of_capture("advice/conv_fp32"))
    counted.goto(viewer.address(view="ops", ops__q="relu"))
    named = rf"profile={viewer.profile}.*aggregation=\d+.*ops\.q=relu"
    expect(counted).to_have_url(re.compile(named))
    rows = counted.get_by_role("grid", name="Ops", exact=True).locator("tbody tr[aria-rowindex]")
    expect(rows.first).to_be_visible()
    settled(counted)
    mine = rows.first.inner_text()
    # The page says so for 1.5 s, which may be too short for a busy machine to see: now it stays.
    counted.evaluate("() => { window.setTimeout = () => 0; }")
    counted.get_by_role("button", name="Copy the link to this page").click()
    expect(counted.get_by_role("status").filter(has_text="Copied")).to_have_count(1)
    assert interactions(counted) == 1
    link = counted.url
    expect_copied(counted, link)
    counted.goto("about:blank")
    counted.goto(link)
    expect(rows.first).to_have_text(re.compile(r"relu"))
    assert rows.first.inner_text() == mine


def test_an_aggregation_is_deleted_by_two(counted: Page, viewer_to_change: Viewer) -> None:
    counted.goto(viewer_to_change.address())
    counted.get_by_role("button", name="Manage", exact=True).click()
    dialog = counted.get_by_role("dialog", name="Aggregations")
    dialog.get_by_role("button", name="Delete aggregation #2").click()
    expect(dialog.get_by_role("status")).to_contain_text("Aggregation #2 was deleted")
    assert interactions(counted) == 2
