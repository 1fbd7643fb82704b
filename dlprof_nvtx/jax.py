"""NVTX ranges for JAX: around the calls of jitted functions, and around the steps of a loop.

::

    from dlprof_nvtx import jax as marks

    @marks.jit(static_argnums=1, message="train_step")
    def train_step(state, config): ...

    for batch in marks.steps(batches):
        state = train_step(state, config)

XLA's own ranges say which op of a program launched what; these say which call of which program, and
which step. They are of the calling thread: JAX returns before the GPU is done, so a range covers
what is *launched* in it, which is what a profile goes by. ``wait=True`` keeps the range open until
the results are there.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from dlprof_nvtx.domains import boundary

__all__ = ["annotate", "jit", "steps", "trace"]
_Item = TypeVar("_Item")


@contextlib.contextmanager
def annotate(message: str, domain_name: str | None = None) -> Iterator[None]:
    """A range around what runs inside; under ``jax.jit``, around the tracing only.

    Args:
        message: Its text.
        domain_name: Its NVTX domain; None: the default one.
    """
    nvtx, domain = boundary(), domain_name or ""
    nvtx.push(message, domain)
    try:
        yield
    finally:
        nvtx.pop(domain)


def trace(
    message: str | None = None, domain_name: str | None = None, *, wait: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate a function, jitted or not, so that a range covers each of its calls.

    Inside another jitted function it marks the ops of the program instead (``jax.named_scope``), as
    nothing of Python runs there in a step.

    Args:
        message: Text of the range; None: the function's name.
        domain_name: Its NVTX domain; None: the default one.
        wait: Close the range when the results are computed; the loop then waits for each.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        text = message or str(getattr(function, "__name__", type(function).__name__))

        @functools.wraps(function)
        def traced(*args: Any, **kwargs: Any) -> Any:
            import jax

            if not _computes_now():
                with jax.named_scope(text):
                    return function(*args, **kwargs)
            with annotate(text, domain_name):
                result = function(*args, **kwargs)
                return jax.block_until_ready(result) if wait else result

        for name in ("lower", "trace", "eval_shape", "clear_cache"):
            if hasattr(function, name):
                setattr(traced, name, getattr(function, name))
        return traced

    return decorate


def jit(
    function: Callable[..., Any] | None = None,
    *,
    message: str | None = None,
    domain_name: str | None = None,
    wait: bool = False,
    **options: Any,
) -> Callable[..., Any]:
    """``jax.jit`` with a range around each call; the first holds the compilation too.

    Args:
        function: What to compile; None: used as a decorator with arguments.
        message: Text of the range; None: the function's name.
        domain_name: Its NVTX domain; None: the default one.
        wait: As for ``trace``.
        **options: Those of ``jax.jit``.
    """
    import jax

    if function is None:
        return functools.partial(
            jit, message=message, domain_name=domain_name, wait=wait, **options
        )
    compiled = jax.jit(function, **options)
    return trace(message or getattr(function, "__name__", None), domain_name, wait=wait)(compiled)


def steps(
    items: Iterable[_Item], name: str = "step {step}", domain_name: str | None = None
) -> Iterator[_Item]:
    """Hand on what a training loop runs over, with a range around each turn.

    Args:
        items: Batches, or numbers of steps.
        name: Text of the ranges; ``{step}`` counts from 0.
        domain_name: Their NVTX domain; None: the default one.
    """
    for step, item in enumerate(items):
        with annotate(name.format(step=step), domain_name):
            yield item


def _computes_now() -> bool:
    """Whether a call computes, rather than being recorded into a program."""
    import jax

    clean = getattr(jax.core, "trace_state_clean", None)
    if clean is None:
        from jax._src import core

        clean = core.trace_state_clean
    return bool(clean())
