"""Layers that open and close a range."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from dlprof_nvtx.domains import is_disabled
from dlprof_nvtx.tensorflow.ops import close_range, open_range
from dlprof_nvtx.tensorflow.pairs import Mark, new_pair, pair_with


class NVTXStart(tf.keras.layers.Layer):  # type: ignore[misc]
    """Returns its input unchanged and opens a range, which ``NVTXEnd`` closes.

    ::

        x, marker_id, domain_id = NVTXStart(message="Dense", domain_name="forward")(x)
        x = Dense(1024, activation="relu")(x)
        x = NVTXEnd(grad_message="Dense grad", grad_domain_name="backwards")(
            [x, marker_id, domain_id]
        )

    Args:
        message: Text of the range.
        domain_name: Its NVTX domain; None for the default one.
        trainable: Add a weight, always 0, so that the gradient of this layer is computed. The first
            layer of a model needs it; otherwise the range of its gradient is not closed.
        **kwargs: Arguments of every layer, such as ``name``.
    """

    supports_jit = False

    def __init__(
        self, message: str, domain_name: str | None = None, trainable: bool = False, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.message = message
        self.domain_name = domain_name or ""
        self.trainable = trainable
        self.supports_jit = False
        self.null_input: Any = None
        self._pair_number = new_pair(Mark(self.message, self.domain_name)).number

    def build(self, input_shape: Any) -> None:
        """Add the weight, if ``trainable`` is set."""
        if self.trainable:
            self.null_input = self.add_weight(
                name="null_input", shape=(), initializer="zeros", trainable=True, dtype="float32"
            )
        super().build(input_shape)

    def call(self, x: Any) -> list[Any]:
        """Open the range and return ``[x, marker_id, domain_handle]``."""
        if not is_disabled():
            x = open_range(x, pair_with(self._pair_number), self.null_input)
        with tf.device("CPU:0"):
            return [x, tf.constant(self._pair_number, tf.int64), tf.constant(0, tf.int64)]

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that a saved model needs to build the layer again."""
        own = {
            "message": self.message,
            "domain_name": self.domain_name,
            "trainable": self.trainable,
        }
        return {**super().get_config(), **own}


class NVTXEnd(tf.keras.layers.Layer):  # type: ignore[misc]
    """Returns the first of ``[x, marker_id, domain_handle]`` and closes the range.

    Args:
        grad_message: Text of the range of the gradient; None for an empty text.
        grad_domain_name: Its NVTX domain; None for the default one.
        **kwargs: Arguments of every layer, such as ``name``.
    """

    supports_jit = False

    def __init__(
        self,
        grad_message: str | None = None,
        grad_domain_name: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.grad_message = grad_message or ""
        self.grad_domain_name = grad_domain_name or ""
        self.supports_jit = False

    def call(self, x: Any) -> Any:
        """Close the range."""
        if not isinstance(x, (list, tuple)) or len(x) != 3:
            raise ValueError("NVTXEnd takes the list [x, marker_id, domain_handle] of NVTXStart")
        inputs, marker_id, _ = x
        # Unknown only while Keras computes shapes, before any tensor is computed.
        number = tf.get_static_value(marker_id)
        if number is None or is_disabled():
            return inputs
        pair = pair_with(int(number))
        pair.gradient = Mark(self.grad_message, self.grad_domain_name)
        return close_range(inputs, pair)

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that a saved model needs to build the layer again."""
        own = {"grad_message": self.grad_message, "grad_domain_name": self.grad_domain_name}
        return {**super().get_config(), **own}
