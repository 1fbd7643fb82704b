"""Functions of PyTorch that are replaced, and when: wrappers cost time also if they write nothing.

While steps are timed without profiling, what only markers need is taken out again, and in steps
without markers the calls of models are seen, not those of the modules in them: a wrapper of
``nn.Module.__call__`` takes 1 to 3 us a module, which is several percent of a step that waits for
the CPU.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable
from typing import Any

_DYNAMO = ("torch._dynamo.utils", "torch._dynamo.variables.nn_module")
_UNPATCHED = "unpatched_nn_module_call"


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
    """Which calls of modules the markers see: all, or those of some classes.

    The wrapper of a class calls what the class would call without it, so that another package may
    replace ``nn.Module.__call__`` meanwhile.
    """

    def __init__(self) -> None:
        self.models: set[Any] = set()  # Classes of the models that were called.
        self.sees_all = False
        self._module: Any = None  # ``nn.Module``.
        self._original: Any = None  # Its ``__call__``.
        self._wrapped: Any = None
        self._wrap: Callable[[Any], Any] = lambda original: original
        self._classes: dict[Any, tuple[Any, Any]] = {}  # Own ``__call__`` or None, and wrapper.

    def patch(self, module: Any, wrapped: Any, wrap: Callable[[Any], Any]) -> None:
        """Wrap the calls of all modules.

        Args:
            module: ``nn.Module``.
            wrapped: The wrapper of its ``__call__``.
            wrap: Returns the wrapper for ``__call__`` of a class.
        """
        self._module, self._original = module, module.__call__
        self._wrapped, self._wrap = wrapped, wrap
        self.see_all()

    def see_all(self) -> None:
        """See the calls of all modules."""
        self.sees_all = True
        if self._module is None:
            return
        for kind, (own, wrapper) in self._classes.items():
            if vars(kind).get("__call__") is not wrapper:
                continue
            if own is None:
                del kind.__call__
            else:
                kind.__call__ = own
        self._classes.clear()
        self._replace(self._original, self._wrapped)

    def see(self, kinds: Iterable[Any]) -> None:
        """See the calls of these classes only; all, if something else has wrapped them too."""
        if self._module is None or not self._replace(self._wrapped, self._original):
            return
        self.sees_all = False
        for kind in kinds:
            own = vars(kind).get("__call__")
            inherited = functools.partial(_inherited, kind)
            wrapper = self._wrap(inherited if own is None else own)
            try:
                kind.__call__ = wrapper
            except (AttributeError, TypeError):  # A class of another language.
                self.see_all()
                return
            self._classes[kind] = own, wrapper

    def _replace(self, before: Any, after: Any) -> bool:
        if self._module.__call__ is not before:
            return False
        self._module.__call__ = after
        # TorchDynamo compares with the function that was there when it was imported.
        for name in _DYNAMO:
            dynamo: Any = sys.modules.get(name)
            if dynamo is not None and vars(dynamo).get(_UNPATCHED) is before:
                setattr(dynamo, _UNPATCHED, after)
        return True


def _inherited(kind: Any, module: Any, *args: Any, **kwargs: Any) -> Any:
    """Call a module as without a wrapper of its class."""
    return super(kind, module).__call__(*args, **kwargs)


PATCHES = Patches()
CALLS = Calls()
