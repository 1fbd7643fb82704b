"""Range texts in PyTorch's usual form are split as all others are."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from aggregator.sources.nsys.nvtx_text import RangeTexts, _split_any, _split_usual, split_texts

PIECES = (
    *("aten::mul", "a", "", " ", "é", "=", ",", ", ", '{"a": 1}', "  = ", "0", "-7", "12,3"),
    *(", seq = ", "seq = ", ", op_id = ", ", op_id =", ", sizes = ", "sizes = ", "[[2, 3], []]"),
    *(", input_op_ids = ", ", input_op_ids =", "[(1,0)]", "12345678901234567890", "x" * 9),
)
USUAL = st.builds(
    lambda name, seq, sizes: f"{name}{seq}, op_id = 5{sizes}",
    st.sampled_from(("aten::mul", "", "a,", "a, b", "é")),
    st.sampled_from(("", ", seq = 4", ", seq = 12,3", ", seq = x", ", seq = 99999999999999999999")),
    st.sampled_from(("", ", sizes = [], input_op_ids = [(1,0)]", ", sizes = [[2]]")),
)
TEXTS = st.lists(
    st.one_of(USUAL, st.lists(st.sampled_from(PIECES), max_size=8).map("".join)), max_size=6
)


def _lists(parts: RangeTexts) -> list[list[object]]:
    return [parts.name.to_pylist(), parts.seq.tolist(), parts.sizes.to_pylist()]


@given(TEXTS, st.integers(0, 2))
@example(["a, op_id =", " b"], 0)
@example(["=", ", seq 5, op_id = 5"], 0)
@example(["a, op_id = 1, sizes = [], input_op_ids =", " x"], 0)
def test_usual_texts_are_split_as_any(texts: list[str], skipped: int) -> None:
    column = pa.array([text.encode() for text in texts], pa.binary())[skipped:]
    usual = _split_usual(column)
    assert usual is None or _lists(usual) == _lists(_split_any(column))


@given(st.lists(USUAL.filter(lambda text: "=" in text), min_size=1, max_size=6))
def test_a_text_is_split_alike_beside_any_other(texts: list[str]) -> None:
    column = pa.array([text.encode() for text in [*texts, "a = b = c"]], pa.binary())
    beside = [parts[:-1] for parts in _lists(split_texts(column))]
    assert beside == _lists(split_texts(column[:-1]))


def test_the_texts_of_pytorch_are_usual() -> None:
    texts = (
        *("iteration 0", "aten::mul, seq = 4, op_id = 5", "Optimizer.step#SGD.step, op_id = 5"),
        "aten::mul, op_id = 5, sizes = [[2, 3], []], input_op_ids = [(1,0), (2,0)]",
        "aten::mul, seq = 4, op_id = 5, sizes = [[2, 3], []], input_op_ids = [(1,0)]",
    )
    assert _split_usual(pa.array([text.encode() for text in texts], pa.binary())) is not None
