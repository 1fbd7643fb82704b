"""Name the phases of a program: prefill and decode of ``generate()``, training, evaluation.

A program that serves with a loop of its own names them itself::

    with dlprof_nvtx.phase("decode", tokens=32, sequences=32):
        model(...)

Those of ``generate()`` and of the Trainer of Hugging Face are named without a change.
"""

from __future__ import annotations

import functools
import json
import threading
from types import ModuleType
from typing import Any

from dlprof_nvtx.baseline_timing import REFERENCE
from dlprof_nvtx.guard import guarded, report
from dlprof_nvtx.imports import after_import
from dlprof_nvtx.state import STATE

PREFIX = "dlprof.phase: "
"""Prefix of the text of ranges: ``dlprof.phase: decode {"tokens":32}``."""
_LOOPS = ("_sample", "_beam_search", "_greedy_search", "greedy_search", "sample", "beam_search")
"""Methods of ``generate()`` that call the model in a loop; PyTorch's versions differ."""
_ASSISTED = ("_assisted_decoding", "assisted_decoding")
"""Methods that let another model propose tokens, whose loops are no phases of the program."""
_CACHES = ("past_key_values", "cache")
"""Arguments of a loop that hold its cache; the library's versions differ."""
_CONDITION = "_has_unfinished_sequences"


def phase_text(name: str, tokens: int | None = None, sequences: int | None = None) -> str:
    """Return the text of the range of a phase."""
    known = {"tokens": tokens, "sequences": sequences}
    more = {key: int(value) for key, value in known.items() if value is not None}
    tail = f" {json.dumps(more, separators=(',', ':'))}" if more else ""
    return f"{PREFIX}{name.replace('{', '(')}{tail}"


class phase:
    """A phase of the program, as a context manager.

    Args:
        name: Its name: ``prefill``, ``decode``, ``train``, ``eval``, or any other.
        tokens: Tokens that it computes: those of a prompt, or the new ones.
        sequences: Sequences in its batch.
    """

    def __init__(
        self, name: str, *, tokens: int | None = None, sequences: int | None = None
    ) -> None:
        self._name, self._tokens, self._sequences = name, tokens, sequences
        self._text = ""  # Of its range, once it is needed.
        self._opened = False

    def __enter__(self) -> phase:
        try:
            self._begin()
        except Exception as error:  # noqa: BLE001 - markers must never stop a training
            report(error)
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._end()
        except Exception as error:  # noqa: BLE001 - markers must never stop a training
            report(error)

    def _begin(self) -> None:
        if STATE.is_held or REFERENCE.is_held:
            REFERENCE.phase = self._name
        if (STATE.on or STATE.is_light) and STATE.backend is not None:
            self._text = self._text or phase_text(self._name, self._tokens, self._sequences)
            STATE.backend.push(self._text)
            self._opened = True
            _OPEN.phases.append(self)

    def _end(self) -> None:
        if (STATE.is_held or REFERENCE.is_held) and REFERENCE.clock == "call":
            REFERENCE.phase = ""  # The next call may be of no phase.
        self.close()

    def close(self) -> None:
        """Close its range, if that is open."""
        if self._opened and STATE.backend is not None:
            self._opened = False
            if self in _OPEN.phases:  # Else another thread ends it.
                _OPEN.phases.remove(self)
            STATE.backend.pop()


class _Open(threading.local):
    """Phases whose ranges this thread has opened, outermost first."""

    def __init__(self) -> None:
        self.phases: list[phase] = []


_OPEN = _Open()


def close_phases() -> None:
    """Close the ranges of this thread: the collector leaves, and would not see their ends."""
    for found in reversed(_OPEN.phases.copy()):
        found.close()


def patch() -> None:
    """Name the phases of the libraries that the program imports."""
    changes = {"transformers.generation.utils": mark_generation}
    after_import({**changes, "transformers.trainer": mark_trainer})


# --- generate() -----------------------------------------------------------------------------------


class _Loop:
    """A loop over the tokens of one call of ``generate()``."""

    def __init__(self, sequences: int, prompt: int) -> None:
        self._sequences = sequences
        self._steps = 0
        self._decode: phase | None = None  # Of all later tokens: no object is made for each.
        # Of embeddings as input there are no tokens.
        tokens = sequences * prompt if prompt > 0 else None
        self._open: phase | None = phase("prefill", tokens=tokens, sequences=sequences)
        self._open.__enter__()

    def end(self) -> None:
        """End the phase that is open."""
        if self._open is not None:
            self._open.__exit__()
            self._open = None

    def step(self) -> None:
        """Begin the computation of a token: the first one is that of the prefill."""
        self._steps += 1
        if self._steps > 1:
            self.end()
            if self._decode is None:
                sequences = self._sequences
                self._decode = phase("decode", tokens=sequences, sequences=sequences)
            self._open = self._decode
            self._open.__enter__()


class _Loops(threading.local):
    """Loops that are active on this thread, outermost first."""

    def __init__(self) -> None:
        self.active: list[_Loop] = []
        self.is_assisted = False  # Whether another model proposes tokens.


_ACTIVE = _Loops()


def mark_generation(module: ModuleType) -> None:
    """Name prefill and decode of ``generate()``."""
    owner = getattr(module, "GenerationMixin", None)
    condition = getattr(owner, _CONDITION, None)
    if owner is None or condition is None:
        return

    step = guarded(_step)

    @functools.wraps(condition)
    def checked(self: Any, *args: Any, **kwargs: Any) -> Any:
        goes_on = condition(self, *args, **kwargs)
        step(goes_on)
        return goes_on

    setattr(owner, _CONDITION, checked)
    for name in _LOOPS:
        if name in vars(owner):
            setattr(owner, name, _with_loop(getattr(owner, name)))
    for name in _ASSISTED:
        if name in vars(owner):
            setattr(owner, name, _without_loops(getattr(owner, name)))


def _step(goes_on: Any) -> None:
    if _ACTIVE.active:
        loop = _ACTIVE.active[-1]
        if goes_on:
            loop.step()
        else:
            loop.end()


def _without_loops(function: Any) -> Any:
    @functools.wraps(function)
    def assisted(self: Any, *args: Any, **kwargs: Any) -> Any:
        before, _ACTIVE.is_assisted = _ACTIVE.is_assisted, True
        try:
            return function(self, *args, **kwargs)
        finally:
            _ACTIVE.is_assisted = before

    return assisted


def _cached(arguments: dict[str, Any]) -> int:
    """Tokens of the prompt that a cache holds: those of earlier turns.

    Only caches that count them on the CPU are asked; in others the program puts a new prompt.
    """
    found = [arguments.get(name) for name in _CACHES]
    cache: Any = next((value for value in found if value is not None), None)
    is_asked = type(cache).__name__.startswith("Dynamic") and hasattr(cache, "get_seq_length")
    count = cache.get_seq_length() if is_asked else 0
    return count if isinstance(count, int) else 0


def _with_loop(function: Any) -> Any:
    begin, end = guarded(_begin_loop), guarded(_end_loop)

    @functools.wraps(function)
    def looped(self: Any, *args: Any, **kwargs: Any) -> Any:
        loop = begin(args, kwargs)
        if loop is None:
            return function(self, *args, **kwargs)
        try:
            return function(self, *args, **kwargs)
        finally:
            end(loop)

    return looped


def _begin_loop(args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Loop | None:
    shape: Any = getattr(args[0] if args else kwargs.get("input_ids"), "shape", ())
    if len(shape) != 2 or _ACTIVE.is_assisted:
        return None
    loop = _Loop(int(shape[0]), int(shape[1]) - _cached(kwargs))
    _ACTIVE.active.append(loop)
    return loop


def _end_loop(loop: _Loop) -> None:
    _ACTIVE.active.pop()
    loop.end()


# --- Trainer --------------------------------------------------------------------------------------


def mark_trainer(module: ModuleType) -> None:
    """Name the micro-steps of training, and the steps of evaluation."""
    owner = getattr(module, "Trainer", None)
    for method, name in (("training_step", "train"), ("prediction_step", "eval")):
        if hasattr(owner, method):
            setattr(owner, method, _with_phase(getattr(owner, method), name))


def _with_phase(function: Any, name: str) -> Any:
    of_inputs = guarded(_phase_of)

    @functools.wraps(function)
    def named(self: Any, *args: Any, **kwargs: Any) -> Any:
        with of_inputs(name, args, kwargs) or phase(name):
            return function(self, *args, **kwargs)

    return named


def _phase_of(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> phase:
    inputs: Any = args[1] if len(args) > 1 else kwargs.get("inputs")
    ids = inputs.get("input_ids") if hasattr(inputs, "get") else None
    shape: Any = getattr(ids, "shape", ())
    is_text = len(shape) == 2
    tokens, sequences = (shape[0] * shape[1], shape[0]) if is_text else (None, None)
    return phase(name, tokens=tokens, sequences=sequences)
