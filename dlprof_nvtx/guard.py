"""Keep the markers' own failures, and everything that they ask, away from the program.

A module or optimizer of the program may be anything: its attributes may raise an error, count their
reads or compare by value. So its fields are read without its own methods, it is known by its id and
a weak reference instead of its hash, and whatever fails is reported once and left out.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any

_REPORTED: list[bool] = []
_MOST_REFUSED = 1024


def say(text: str) -> None:
    """Print a line to standard error, which may be closed, full, or an object of the program."""
    stream = sys.stderr
    if stream is None:
        return  # ``print`` would write to standard output.
    is_replaced = stream is not sys.__stderr__
    with contextlib.suppress(Exception):  # There is no other place to report this.
        if is_replaced:
            print(text, file=stream)
        else:
            # Text that cannot be written would stay in its buffer, and change the exit code.
            stream.flush()
            os.write(stream.fileno(), f"{text}\n".encode(errors="backslashreplace"))


def report(error: BaseException) -> None:
    """Say once that something of the markers failed."""
    if not _REPORTED:
        _REPORTED.append(True)
        try:
            reason = str(error)
        except Exception:  # noqa: BLE001 - an error of the program's own class
            reason = ""
        say(f"dlprof_nvtx: some markers are missing: {type(error).__name__}: {reason}")


def find_is_compiling() -> Callable[[], bool]:
    """Return ``is_compiling`` of PyTorch, which is constant for TorchDynamo."""
    torch: Any = sys.modules["torch"]
    found = getattr(getattr(torch, "compiler", None), "is_compiling", None)
    if found is None:
        found = getattr(torch, "_dynamo", None) and torch._dynamo.is_compiling
    result: Callable[[], bool] = found or (lambda: False)
    return result


def find_is_traced() -> Callable[[], bool]:
    """Return what is constant for TorchDynamo too, and takes least time at run time."""
    torch: Any = sys.modules["torch"]
    found = getattr(getattr(torch, "compiler", None), "is_dynamo_compiling", None)
    result: Callable[[], bool] = found or find_is_compiling()
    return result


def guarded(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a hook that never raises an error, and does nothing in code that is compiled.

    It needs PyTorch, so it is made when functions are wrapped.
    """
    is_traced = find_is_traced()

    @functools.wraps(function)
    def hook(*args: Any, **kwargs: Any) -> Any:
        if is_traced():
            return None
        try:
            return function(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - markers must never stop a training
            report(error)
            return None

    return hook


def fields(thing: Any) -> dict[str, Any]:
    """Return the attributes of an object without a method of its class."""
    found: dict[str, Any] = object.__getattribute__(thing, "__dict__")
    return found


def submodules(module: Any) -> Iterator[tuple[str, Any]]:
    """Yield path and module as ``named_modules()`` of PyTorch, whatever its class makes of that."""
    seen: set[int] = set()
    waiting = [("", module)]
    while waiting:
        path, found = waiting.pop()
        if found is None or id(found) in seen:
            continue
        seen.add(id(found))
        yield path, found
        children = list((fields(found).get("_modules") or {}).items())
        prefix = f"{path}." if path else ""
        waiting += [(prefix + name, child) for name, child in reversed(children)]


def has_parameters(module: Any) -> bool:
    """Return whether a module or one in it has parameters."""
    try:
        return any(fields(submodule).get("_parameters") for _, submodule in submodules(module))
    except Exception:  # noqa: BLE001 - a module of another language
        return True


class ById:
    """Values of objects by identity, for as long as these live."""

    def __init__(self) -> None:
        self._pairs: dict[int, tuple[weakref.ref[Any], Any]] = {}

    def get(self, thing: Any) -> Any:
        """Return the value of an object; None if it has none."""
        pair = self._pairs.get(id(thing))
        # An id may be used again after its object was deleted.
        return pair[1] if pair is not None and pair[0]() is thing else None

    def put(self, thing: Any, value: Any) -> None:
        """Set the value of an object."""
        key, pairs = id(thing), self._pairs

        def forget(reference: weakref.ref[Any]) -> None:
            pair = pairs.get(key)
            if pair is not None and pair[0] is reference:
                del pairs[key]

        pairs[key] = weakref.ref(thing, forget), value

    def pop(self, thing: Any) -> Any:
        """Return the value of an object and forget it; None if it has none."""
        value = self.get(thing)
        if value is not None:
            del self._pairs[id(thing)]
        return value

    def __len__(self) -> int:
        return len(self._pairs)

    def values(self) -> list[tuple[Any, Any]]:
        """Return the objects that live, each with its value."""
        pairs = [(reference(), value) for reference, value in list(self._pairs.values())]
        return [(thing, value) for thing, value in pairs if thing is not None]


class Refused:
    """Classes whose instances get no markers, because those failed."""

    def __init__(self) -> None:
        self._ids: set[int] = set()  # A class may be unhashable too.

    def __contains__(self, thing: object) -> bool:
        return id(type(thing)) in self._ids

    def add(self, thing: object, error: Exception) -> None:
        """Refuse an object, unless the program is only at the limit of its recursion."""
        if not isinstance(error, RecursionError) and len(self._ids) < _MOST_REFUSED:
            self._ids.add(id(type(thing)))
            report(error)


# --- TorchDynamo ----------------------------------------------------------------------------------


def hide_from_dynamo() -> None:
    """Exclude all code of this package from TorchDynamo's frame evaluation.

    Where TorchDynamo falls back to eager execution, it compiles the frames that are called, and a
    wrapper is one of them: one code object for all modules, whose recompilations reach the limit.
    """
    skip = _find_skip()
    if skip is None:
        return
    package = __name__.rpartition(".")[0]
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == package:
            for code in _codes_of(vars(module), name):
                skip(code)


_LEAVES = frozenset({"hook", "open", "close"})
"""Functions that call nothing of the program: what they call is excluded too."""


def _find_skip() -> Callable[[types.CodeType], object] | None:
    """Return the function that excludes code; PyTorch's versions differ, and 2.0 may have none."""
    try:
        from torch._C._dynamo import eval_frame
    except ImportError:
        return None
    found: Any = eval_frame
    older: Callable[[types.CodeType], object] | None = getattr(found, "skip_code", None)
    if older is not None:
        return older
    try:
        skip, default = found._FrameAction.SKIP, found._FrameAction.DEFAULT
        strategies = [found._FrameExecStrategy(skip, called) for called in (default, skip)]
        set_strategy = found.set_code_exec_strategy
    except AttributeError:
        return None

    def skip_code(code: types.CodeType) -> None:
        set_strategy(code, strategies[code.co_name in _LEAVES])

    return skip_code


def _codes_of(names: Any, module: str) -> Iterator[types.CodeType]:
    for value in list(names.values()):
        of_value = ("fget", "__func__", "__wrapped__")
        for part in (value, *(getattr(value, name, None) for name in of_value)):
            if isinstance(part, types.FunctionType) and part.__globals__["__name__"] == module:
                yield from _nested(part.__code__)
        if isinstance(value, type) and value.__module__ == module:
            yield from _codes_of(vars(value), module)


def _nested(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _nested(constant)
