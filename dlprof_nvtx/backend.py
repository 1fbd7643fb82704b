"""The boundary to NVTX: everything that leaves the process goes through here.

Nothing here synchronises the GPU or creates a CUDA context, unlike ``emit_nvtx.__enter__``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class NvtxUnavailableError(RuntimeError):
    """This PyTorch was built without NVTX (a CPU build, say)."""


class TorchNvtx:
    """NVTX through PyTorch's own bindings: the quickest way there is from Python.

    Attributes:
        push: Open a range on this thread.
        pop: Close the last one.
        start: Open a range that need not nest.
        end: Close it.
    """

    push: Callable[[str], Any]
    pop: Callable[[], Any]
    start: Callable[[str], Any]
    end: Callable[[Any], Any]

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
        """Let PyTorch open a range around every op of this thread and its backward.

        Returns:
            False: this PyTorch cannot, or another profiler is already on.
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
        """End what ``enable_ops`` began."""
        import torch

        autograd: Any = torch.autograd
        autograd._disable_profiler()
