"""``start``, ``end`` and ``trace``: identity ops that open and close a range when computed.

In eager mode the call itself opens the range. In a graph (``tf.function``, sessions) it is opened
and closed by a ``tf.py_function`` between the tensors before and after it. It has no tensor
arguments, so nothing is copied from the GPU. Gradients open and close a range in reverse order.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from dlprof_nvtx.domains import is_disabled
from dlprof_nvtx.tensorflow.pairs import Mark, Pair, pair_of, pair_with

__all__ = ["end", "start", "trace", "trainable_variables"]

_NULL: list[Any] = []


def start(
    inputs: Any,
    message: str,
    domain_name: str | None = None,
    grad_message: str | None = None,
    grad_domain_name: str | None = None,
    trainable: bool = False,
    enabled: bool = True,
    name: str | None = None,
) -> tuple[Any, Any]:
    """Return ``inputs`` unchanged and open a range; ``end`` closes it.

    Args:
        inputs: A tensor, or a list, tuple or dictionary of tensors.
        message: Text of the range.
        domain_name: Its NVTX domain; None for the default one.
        grad_message: Text of the range of the gradient; None for ``message``.
        grad_domain_name: Domain of that range; None for ``domain_name``.
        trainable: Compute the gradient of this op even if that of ``inputs`` is not requested, as
            in the first op of a model; see ``trainable_variables``.
        enabled: Whether to write a range.
        name: Name of the operation in a graph.

    Returns:
        The inputs, and the context for ``end``, ``(marker_id, domain_handle, grad_message,
        grad_domain_name)``; None if no range is written.
    """
    if not enabled or is_disabled():
        return inputs, None
    domain = domain_name or ""
    grad_message = grad_message or message
    grad_domain = grad_domain_name or domain
    pair = pair_of(Mark(message, domain), Mark(grad_message, grad_domain))
    null = _null_variable() if trainable else None
    return open_range(inputs, pair, null, name), (pair.number, 0, grad_message, grad_domain)


def end(inputs: Any, nvtx_context: Any, name: str | None = None) -> Any:
    """Return ``inputs`` unchanged and close the range that ``start`` opened.

    Args:
        inputs: A tensor, or a list, tuple or dictionary of tensors.
        nvtx_context: Context from ``start``; None for no range.
        name: Name of the operation in a graph.

    Returns:
        The inputs.
    """
    if nvtx_context is None:
        return inputs
    return close_range(inputs, pair_with(nvtx_context[0]), name)


def trace(
    message: str,
    domain_name: str | None = None,
    grad_message: str | None = None,
    grad_domain_name: str | None = None,
    trainable: bool = False,
    enabled: bool = True,
    name: str | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate a function to write a range for its calls; for the arguments see ``start``.

    The function takes its tensors as first argument (after ``self``) or as ``inputs``.
    """

    def decorate(wrapped: Callable[..., Any]) -> Callable[..., Any]:
        position = _position(wrapped)

        @functools.wraps(wrapped)
        def traced(*args: Any, **kwargs: Any) -> Any:
            if "inputs" not in kwargs and len(args) <= position:
                raise ValueError("The input tensor must be the first argument or named `inputs`")
            inputs = kwargs["inputs"] if "inputs" in kwargs else args[position]
            inputs, context = start(
                inputs,
                message,
                domain_name,
                grad_message,
                grad_domain_name,
                trainable,
                enabled,
                f"{name}_start" if name else None,
            )
            if "inputs" in kwargs:
                kwargs["inputs"] = inputs
            else:
                args = (*args[:position], inputs, *args[position + 1 :])
            return end(wrapped(*args, **kwargs), context, f"{name}_end" if name else None)

        return traced

    return decorate


def trainable_variables() -> list[Any]:
    """Return the variable that ``trainable=True`` uses, if there is one; its value is always 0.

    TensorFlow computes the gradients of an op only if they are needed for a requested variable:
    ``tape.gradient(loss, model.trainable_variables + ops.trainable_variables())``.
    """
    return list(_NULL)


def _position(function: Callable[..., Any]) -> int:
    try:
        names = list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return 0
    return 1 if names[:1] in (["self"], ["cls"]) else 0


def _null_variable() -> Any:
    if not tf.compat.v1.executing_eagerly_outside_functions():
        with tf.compat.v1.variable_scope("nvtx", reuse=tf.compat.v1.AUTO_REUSE):
            return tf.compat.v1.get_variable(
                "null_input", shape=(), dtype=tf.float32, initializer=tf.zeros_initializer()
            )
    if not _NULL:
        with tf.init_scope():
            _NULL.append(tf.Variable(0.0, trainable=True, name="nvtx/null_input"))
    return _NULL[0]


def open_range(inputs: Any, pair: Pair, null: Any = None, name: str | None = None) -> Any:
    """Open the range of the pair before ``inputs``; close that of the gradient after it.

    Args:
        inputs: Tensors, in any structure.
        pair: The pair.
        null: A variable whose gradient is requested; None to depend on that of ``inputs``.
        name: Name of the operation in a graph.
    """

    @tf.custom_gradient  # type: ignore[untyped-decorator]
    def opened(seed: Any, *tensors: Any) -> Any:
        outputs = _around(pair.begin, tensors, name)

        def gradient(*upstream: Any) -> Any:
            zero, *handed_on = _around(pair.end_gradient, [tf.zeros_like(seed), *upstream], None)
            return (zero, *handed_on)

        return tuple(outputs), gradient

    seed = tf.constant(0.0) if null is None else tf.convert_to_tensor(null)
    return _mapped(functools.partial(opened, seed), inputs)


def close_range(inputs: Any, pair: Pair, name: str | None = None) -> Any:
    """Close the range of the pair after ``inputs``; open that of the gradient before it."""

    @tf.custom_gradient  # type: ignore[untyped-decorator]
    def closed(*tensors: Any) -> Any:
        outputs = _around(pair.end, tensors, name)

        def gradient(*upstream: Any) -> Any:
            return tuple(_around(pair.begin_gradient, upstream, None))

        return tuple(outputs), gradient

    return _mapped(closed, inputs)


def _mapped(function: Callable[..., Any], inputs: Any) -> Any:
    flat = [tf.convert_to_tensor(part) for part in tf.nest.flatten(inputs, expand_composites=True)]
    outputs = function(*flat)
    if not isinstance(outputs, (list, tuple)):
        outputs = [outputs]
    return tf.nest.pack_sequence_as(inputs, list(outputs), expand_composites=True)


def _around(action: Callable[[], None], tensors: Sequence[Any], name: str | None) -> list[Any]:
    """Run ``action`` after all tensors are computed and before any of them is used."""
    if tf.executing_eagerly():
        action()
        return [None if tensor is None else tf.identity(tensor) for tensor in tensors]
    with tf.control_dependencies([tensor for tensor in tensors if tensor is not None]):
        mark = tf.py_function(action, [], [], name=name)
    with tf.control_dependencies([mark]):
        return [None if tensor is None else tf.identity(tensor) for tensor in tensors]
