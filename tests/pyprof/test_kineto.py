"""PyProf's two steps on a trace of torch.profiler, beside the same training under nsys."""

from __future__ import annotations

import lzma
import re
from pathlib import Path
from typing import Any

import pytest

from profiler_cli.pyprof.parse import parse_file
from profiler_cli.pyprof.rows import rows

CAPTURES = Path(__file__).resolve().parents[1] / "data" / "captures" / "kineto"
SIZES = re.compile(r"\([\d,]+\)|\w+$")
SAME = ("dir", "mod", "op", "tc", "flops", "bytes", "sub", "grid", "block")


def _printed(name: str, folder: Path) -> list[dict[str, Any]]:
    path = folder / name
    path.write_bytes(lzma.decompress((CAPTURES / f"{name}.xz").read_bytes()))
    _, records = parse_file(path)
    return list(rows(records))


@pytest.mark.parametrize(("name", "kernels"), [("bert", 404), ("resnet50", 834)])
def test_a_step_is_the_same_as_from_nsys(tmp_path: Path, name: str, kernels: int) -> None:
    """Two runs of one script: everything but times, numbers and the spelling of long names.

    The markers record sizes in the first steps only: the second of six is compared.
    """
    traced, captured = (_printed(f"{name}{end}", tmp_path) for end in (".json", ".sqlite"))
    second = captured[-5 * kernels : -4 * kernels]
    for ours, theirs in zip(traced[-kernels:], second, strict=True):
        assert {key: ours[key] for key in SAME} == {key: theirs[key] for key in SAME}
        # An optimizer's lists come in the order of the gradients.
        assert sorted(SIZES.findall(ours["params"])) == sorted(SIZES.findall(theirs["params"]))


def test_the_users_line_comes_from_the_stack(tmp_path: Path) -> None:
    traces = {tuple(row["trace"]) for row in _printed("bert.json", tmp_path)}
    assert any("modeling_bert.py(" in frame for trace in traces for frame in trace)
    assert not any("torch/nn/" in frame for trace in traces for frame in trace)
