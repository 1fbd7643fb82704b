"""Write NVTX ranges through PyTorch, for the PyTorch markers.

Unlike ``emit_nvtx.__enter__``, nothing here synchronizes the GPU or creates a CUDA context.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class NvtxUnavailableError(RuntimeError):
    """PyTorch was built without NVTX, for example for the CPU."""


class TorchNvtx:
    """NVTX through the bindings of PyTorch, which are the fastest from Python."""

    push: Callable[[str], Any]  # Open a range on this thread.
    pop: Callable[[], Any]  # Close the innermost range of this thread.
    start: Callable[[str], Any]  # Open a range that need not nest.
    end: Callable[[Any], Any]  # Close such a range.

    def __init__(self) -> None:
        import torch

        nvtx = getattr(torch._C, "_nvtx", None)
        if nvtx is not None:
            self.push, self.pop = nvtx.rangePushA, nvtx.rangePop
            self.start, self.end = nvtx.rangeStartA, nvtx.rangeEnd
            return
        try:
            import nvtx as package
        except ImportError as error:
            raise NvtxUnavailableError(
                "this PyTorch was built without NVTX and the package nvtx is not installed"
            ) from error
        domain = package.get_domain(None)
        attributes = domain.get_event_attributes

        def push(text: str) -> None:
            domain.push_range(attributes(message=text))

        def start(text: str) -> Any:
            return domain.start_range(attributes(message=text))

        self.push, self.pop = push, domain.pop_range
        self.start, self.end = start, domain.end_range

    def enable_ops(self, *, shapes: bool) -> bool:
        """Let PyTorch write a range for each op of this thread and its backward pass.

        Returns:
            False if PyTorch does not support it, or another profiler is active.
        """
        import torch
        from torch._C._profiler import ProfilerState, _ExperimentalConfig

        autograd: Any = torch.autograd
        config = autograd.ProfilerConfig(
            ProfilerState.NVTX, shapes, False, False, False, False, _ExperimentalConfig()
        )
        try:
            autograd._enable_profiler(config, set())
        except RuntimeError:
            return False
        return True

    def disable_ops(self) -> None:
        """Undo ``enable_ops``."""
        import torch

        autograd: Any = torch.autograd
        autograd._disable_profiler()
