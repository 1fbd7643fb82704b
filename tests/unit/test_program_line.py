"""The program's own line is found in a call stack."""

from __future__ import annotations

import pytest

from aggregator.tables.sql_functions import program_line

PACKAGES = "/x/lib/python3.11/site-packages"


@pytest.mark.parametrize(
    ("frames", "expected"),
    [
        (
            [
                "train.py:42",
                "/usr/lib/python3/dist-packages/torch/nn/modules/module.py:1102",
                "net.py:28",
                "/home/me/.local/lib/python3.6/site-packages/torch/nn/functional.py:9",
            ],
            "net.py:28",
        ),
        (
            [
                "<string>(1): <module>",
                "runs/train.py(12): step",
                "torch/nn/modules/module.py(1736): _call_impl",
                "<built-in function linear>",
            ],
            "runs/train.py(12): step",
        ),
        (["torch/a.py(1): f", "torch/b.py(2): g"], "torch/b.py(2): g"),
        (
            [
                "run.py:9",
                "/usr/lib/python3.11/contextlib.py:81",
                f"{PACKAGES}/torchvision/models/resnet.py:143",
                f"{PACKAGES}/torch/nn/modules/conv.py:552",
            ],
            f"{PACKAGES}/torchvision/models/resnet.py:143",
        ),
        (["my_torch/net.py(3): forward"], "my_torch/net.py(3): forward"),
        ([], None),
        (["", "  "], None),
    ],
    ids=[
        *("the innermost outside libraries", "of a Kineto trace", "all in libraries"),
        *("of a model in a package", "a project that is called like one", "no stack", "blanks"),
    ],
)
def test_the_innermost_frame_outside_libraries_is_the_programs(
    frames: list[str], expected: str | None
) -> None:
    assert program_line("\n".join(frames)) == expected
    assert program_line("\r\n".join(frames)) == expected
