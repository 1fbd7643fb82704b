"""NVTX ranges for JAX: around the calls of jitted functions, and around the steps of a loop.

::

    from dlprof_nvtx import jax as marks

    @marks.jit(static_argnums=1, message="train_step")
    def train_step(state, config): ...

    for batch in marks.steps(batches):
        state = train_step(state, config)

The ranges of XLA show which op of a program launched a kernel; these show the call, the program and
the step. They belong to the calling thread. JAX returns before the GPU has finished, so a range
covers the work that is *launched* in it, as profiles expect. ``wait=True`` keeps the range open
until the results are computed.
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
    """Write a range around the block; under ``jax.jit``, only around its tracing.

    Args:
        message: Text of the range.
        domain_name: Its NVTX domain; None for the default one.
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
    """Decorate a function, jitted or not, to write a range for each of its calls.

    Inside another jitted function it marks the ops of the program instead (``jax.named_scope``),
    because no Python code runs there in a step.

    Args:
        message: Text of the range; None for the name of the function.
        domain_name: Its NVTX domain; None for the default one.
        wait: Wait for the results before the range is closed.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        text = message or str(getattr(function, "__name__", type(function).__name__))

        @functools.wraps(function)
        def traced(*args: Any, **kwargs: Any) -> Any:
            import jax

            if not _is_executing():
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
    """``jax.jit`` with a range for each call; the first one includes the compilation.

    Args:
        function: Function to compile; None to return a decorator.
        message: Text of the range; None for the name of the function.
        domain_name: Its NVTX domain; None for the default one.
        wait: See ``trace``.
        **options: Options of ``jax.jit``.
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
    """Yield the items of a training loop, with a range around each iteration.

    Args:
        items: Batches, or step numbers.
        name: Text of the ranges; ``{step}`` counts from 0.
        domain_name: Their NVTX domain; None for the default one.
    """
    for step, item in enumerate(items):
        with annotate(name.format(step=step), domain_name):
            yield item


def _is_executing() -> bool:
    """Return whether calls are executed now, not traced."""
    import jax

    clean = getattr(jax.core, "trace_state_clean", None)
    if clean is None:
        from jax._src import core

        clean = core.trace_state_clean
    return bool(clean())
