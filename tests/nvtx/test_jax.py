"""Markers for JAX on its CPU build; the only stand-in is where ranges leave the process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

jax = pytest.importorskip("jax", reason="JAX is not installed")

from dlprof_nvtx import domains  # noqa: E402
from dlprof_nvtx import jax as marks  # noqa: E402

jnp = jax.numpy


class Recorder:
    """Ranges as NVTX would see them, in order."""

    def __init__(self) -> None:
        self.stack: list[tuple[str, str]] = []
        self.paths: list[tuple[str, ...]] = []

    def push(self, text: str, domain: str) -> None:
        self.stack.append((text, domain))
        self.paths.append(tuple(text for text, _ in self.stack))

    def pop(self, domain: str) -> None:
        assert self.stack.pop()[1] == domain

    def start(self, text: str, domain: str) -> None:
        raise AssertionError("ranges of JAX nest")

    def end(self, handle: object) -> None:
        raise AssertionError("ranges of JAX nest")


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    found = Recorder()
    domains.use(found)
    yield found
    domains.use(None)
    assert found.stack == []


def test_jitted_steps_have_a_range_each_and_the_same_results(recorder: Recorder) -> None:
    @marks.jit(static_argnums=1, donate_argnums=(), domain_name="Loop")
    def train_step(x, power):
        return x**power

    values = [float(train_step(jnp.float32(step + 1), 2)) for step in marks.steps(range(3))]
    assert values == [1.0, 4.0, 9.0]
    assert recorder.paths == [
        path for n in range(3) for path in ((f"step {n}",), (f"step {n}", "train_step"))
    ]
    assert train_step.__name__ == "train_step"
    assert "multiply" in getattr(train_step, "lower")(jnp.float32(1), 2).as_text()  # noqa: B009


def test_inside_a_program_names_of_ops_are_marked_and_no_range_is_written(
    recorder: Recorder,
) -> None:
    @marks.trace("attention")
    def attention(x):
        return jnp.tanh(x)

    @marks.jit
    def step(x):
        return jax.grad(lambda y: attention(y).sum())(x)

    step(jnp.ones(3))
    step(jnp.ones(3))
    assert recorder.paths == [("step",), ("step",)]
    text = jax.jit(step).lower(jnp.ones(3)).compile().as_text()
    assert "attention" in text
    attention(jnp.ones(3))
    assert recorder.paths[-1] == ("attention",)


def test_errors_and_left_loops_close_their_ranges(recorder: Recorder) -> None:
    @marks.trace("failing", wait=True)
    def failing(x):
        raise ArithmeticError(x)

    with pytest.raises(ArithmeticError):
        failing(1)
    loop = marks.steps([1, 2, 3], name="batch {step}")
    assert next(loop) == 1
    del loop
    assert recorder.paths == [("failing",), ("batch 0",)]
