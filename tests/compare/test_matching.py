"""Ops of two sides find each other: by name, by order and content, by module."""

from __future__ import annotations

from aggregator.compare.matching import Op, Targets, match_ops
from aggregator.compare.result import Match


def _ops(*names: str, shapes: str = "") -> list[Op]:
    """Ops whose type is their last name without its number."""
    return [Op(name, "fprop", name.rpartition("/")[2].partition("[")[0], shapes) for name in names]


def _matches(found: Targets) -> dict[str, tuple[str, str]]:
    """Name on the new side -> how it matched, and the name on the base side."""
    base = {id(target): name for (name, _), target in found.base.items()}
    return {
        name: (str(target.match), base.get(id(target), ""))
        for (name, _), target in found.new.items()
    }


def test_the_same_names_match_and_nothing_is_left() -> None:
    ops = _ops("/a/linear", "/a/relu", "/b/linear")
    found = match_ops(ops, ops)
    assert {target.match for target in found.new.values()} == {Match.SAME}
    assert found.base.keys() == found.new.keys()


def test_a_renamed_module_is_aligned_by_its_content() -> None:
    base = _ops("/net/conv/conv2d", "/net/conv/relu", "/net/head/linear")
    new = _ops("/net/stem/conv2d", "/net/stem/relu", "/net/head/linear")
    assert _matches(match_ops(base, new)) == {
        "/net/stem/conv2d": ("aligned", "/net/conv/conv2d"),
        "/net/stem/relu": ("aligned", "/net/conv/relu"),
        "/net/head/linear": ("same", "/net/head/linear"),
    }


def test_shifted_numbers_and_an_inserted_op_are_aligned_by_type_and_shape() -> None:
    base = [*_ops("/m[8]/linear", shapes="8x8"), *_ops("/m[8]/relu")]
    new = [
        *_ops("/m[9]/linear", shapes="8x8"),
        *_ops("/m[9]/dropout"),
        *_ops("/m[9]/relu"),
    ]
    matches = _matches(match_ops(base, new))
    assert matches["/m[9]/linear"] == ("aligned", "/m[8]/linear")
    assert matches["/m[9]/relu"] == ("aligned", "/m[8]/relu")
    assert matches["/m[9]/dropout"][0] == "only_new"


def test_a_wrapper_on_one_side_hides_nothing() -> None:
    base = _ops("/step/conv2d", "/step/relu", "/step/linear")
    new = _ops("/step/DDP.forward/conv2d", "/step/DDP.forward/relu", "/step/DDP.forward/linear")
    for one, other in ((base, new), (new, base)):
        found = match_ops(one, other)
        assert {target.match for target in found.new.values()} == {Match.ALIGNED}
        assert {target.match for target in found.base.values()} == {Match.ALIGNED}


def test_fused_ops_are_compared_with_their_parts_at_the_lowest_common_module() -> None:
    base = _ops("/net/block/linear", "/net/block/gelu", "/net/head/linear")
    new = _ops("/net/block/triton_fused", "/net/head/linear")
    found = match_ops(base, new)
    fused = found.new["/net/block/triton_fused", "fprop"]
    assert (fused.match, fused.module) == (Match.MODULE, "/net/block/")
    assert found.base["/net/block/linear", "fprop"] == fused
    assert found.base["/net/block/gelu", "fprop"] == fused
    assert found.new["/net/head/linear", "fprop"].match is Match.SAME


def test_what_one_side_lacks_stays_a_row_of_its_own() -> None:
    found = match_ops(_ops("/a/linear", "/a/relu"), _ops("/a/linear", "/b/copy_"))
    assert found.base["/a/relu", "fprop"].match is Match.ONLY_BASE
    assert found.new["/b/copy_", "fprop"].match is Match.ONLY_NEW


def test_every_op_of_both_sides_has_exactly_one_row() -> None:
    base = _ops("/a/x", "/a/b/y", "/a/b/y[2]", "/c/z", "/d/e/f/w")
    new = _ops("/a/x", "/a/q/y", "/c/z[2]", "/d/g/f/w", "/v")
    found = match_ops(base, new)
    assert found.base.keys() == {op.key for op in base}
    assert found.new.keys() == {op.key for op in new}
