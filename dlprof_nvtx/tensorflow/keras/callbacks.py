"""A callback that marks epochs and batches."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from dlprof_nvtx.domains import ThreadRanges


class NVTXCallback(ThreadRanges, tf.keras.callbacks.Callback):  # type: ignore[misc]
    """Ranges ``Train``, ``Test``, ``Predict``, ``epoch N`` and ``batch N``."""

    def __init__(self) -> None:
        super().__init__()
        self.epoch_message = "epoch {epoch}"
        self.batch_message = "batch {batch}"

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Open the range of the epoch."""
        self.open_marker(self.epoch_message.format(epoch=epoch))

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Close the range of the epoch."""
        self.close_marker()

    def _open_batch(self, batch: int, logs: Any = None) -> None:
        self.open_marker(self.batch_message.format(batch=batch))

    def _close(self, *_: Any, **__: Any) -> None:
        self.close_marker()

    on_train_batch_begin = on_test_batch_begin = on_predict_batch_begin = _open_batch
    on_train_batch_end = on_test_batch_end = on_predict_batch_end = _close

    def on_train_begin(self, logs: Any = None) -> None:
        """Open the range of ``fit``."""
        self.open_marker("Train")

    def on_test_begin(self, logs: Any = None) -> None:
        """Open the range of ``evaluate``."""
        self.open_marker("Test")

    def on_predict_begin(self, logs: Any = None) -> None:
        """Open the range of ``predict``."""
        self.open_marker("Predict")

    on_train_end = on_test_end = on_predict_end = _close
