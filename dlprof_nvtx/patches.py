"""Functions of PyTorch that are replaced, and when: wrappers cost time also if they write nothing.

While steps are timed without profiling, what only markers need is taken out again: the wrapper of
``nn.Module.__call__`` with all that a marker needs takes 1 to 3 us a module, which is several
percent of a step that waits for the CPU.
"""

from __future__ import annotations

import sys
from typing import Any

_DYNAMO = ("torch._dynamo.utils", "torch._dynamo.variables.nn_module")
_UNPATCHED, _IMPLEMENTATION = "unpatched_nn_module_call", "_wrapped_call_impl"


class Patches:
    """Wrappers that only markers need."""

    def __init__(self) -> None:
        self._all: list[tuple[Any, str, Any, Any]] = []

    def set(self, owner: Any, name: str, wrapped: Any) -> None:
        """Replace a function or method until ``take_out``."""
        self._all.append((owner, name, getattr(owner, name), wrapped))
        setattr(owner, name, wrapped)

    def take_out(self) -> None:
        """Restore the functions, except those that were replaced again since."""
        for owner, name, original, wrapped in self._all:
            if getattr(owner, name, None) is wrapped:
                setattr(owner, name, original)

    def put_back(self) -> None:
        """Replace them again."""
        for owner, name, original, wrapped in self._all:
            if getattr(owner, name, None) is original:
                setattr(owner, name, wrapped)


class Calls:
    """Whether the markers see the calls of modules.

    Only ``nn.Module`` is changed, never a class of the program, which may be pickled by value.
    """

    def __init__(self) -> None:
        self._module: Any = None  # ``nn.Module``.
        self._original: Any = None  # Its ``__call__``.
        self._wrapped: Any = None

    def patch(self, module: Any, wrapped: Any) -> None:
        """Wrap the calls of all modules: ``module`` is ``nn.Module``."""
        self._module, self._original = module, module.__call__
        self._wrapped = wrapped
        self.put_back()

    def original(self, call: Any) -> Any:
        """Return what a function is without the wrapper."""
        return self._original if call is self._wrapped else call

    def put_back(self) -> None:
        """See the calls of all modules."""
        self._replace(self._original, self._wrapped)

    def take_out(self) -> bool:
        """See no calls; all, if something else has wrapped them too. Returns whether any were."""
        return self._replace(self._wrapped, self._original)

    def _replace(self, before: Any, after: Any) -> bool:
        if self._module is None or self._module.__call__ is not before:
            return False
        self._module.__call__ = after
        # Its other name, by which it is pickled.
        if vars(self._module).get(_IMPLEMENTATION) is before:
            setattr(self._module, _IMPLEMENTATION, after)
        # TorchDynamo compares with the function that was there when it was imported.
        for name in _DYNAMO:
            dynamo: Any = sys.modules.get(name)
            if dynamo is not None and vars(dynamo).get(_UNPATCHED) is before:
                setattr(dynamo, _UNPATCHED, after)
        return True


PATCHES = Patches()
CALLS = Calls()
