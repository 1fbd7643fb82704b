"""Write NVTX ranges with domains, for the TensorFlow and JAX markers."""

from __future__ import annotations

import os
from typing import Any, Protocol

from dlprof_nvtx.guard import say

DISABLE_VARIABLE = "TF_DISABLE_NVTX_RANGES"


class DomainBackend(Protocol):
    """Destination of ranges; an empty domain is the default one. Tests replace it."""

    def push(self, text: str, domain: str, /) -> object:
        """Open a range on this thread."""

    def pop(self, domain: str, /) -> object:
        """Close the innermost range of this thread and domain."""

    def start(self, text: str, domain: str, /) -> Any:
        """Open a range that any thread may close; returns the argument for ``end``."""

    def end(self, handle: Any, /) -> object:
        """Close a range that ``start`` opened."""


class PackageNvtx:
    """NVTX through the package ``nvtx``, which supports domains."""

    def __init__(self) -> None:
        import nvtx

        self._get_domain = nvtx.get_domain

    def _domain(self, name: str) -> Any:
        # An empty name would be another domain than the default one.
        return self._get_domain(name or None)

    def push(self, text: str, domain: str) -> None:
        """Open a range on this thread."""
        found = self._domain(domain)
        found.push_range(found.get_event_attributes(message=text))

    def pop(self, domain: str) -> None:
        """Close the innermost range of this thread and domain."""
        self._domain(domain).pop_range()

    def start(self, text: str, domain: str) -> Any:
        """Open a range that any thread may close."""
        found = self._domain(domain)
        return found, found.start_range(found.get_event_attributes(message=text))

    def end(self, handle: Any) -> None:
        """Close a range that ``start`` opened."""
        domain, number = handle
        domain.end_range(number)


class Silent:
    """Writes nothing, if the package ``nvtx`` is missing."""

    def _ignore(self, *_: object) -> None:
        """Write nothing."""

    push = pop = start = end = _ignore


_CHOSEN: list[DomainBackend] = []


def use(backend: DomainBackend | None) -> None:
    """Set the destination of ranges; None for NVTX, which is loaded for the next range."""
    _CHOSEN[:] = [] if backend is None else [backend]


def boundary() -> DomainBackend:
    """Return the destination of ranges; prints an error once if NVTX cannot be used."""
    if not _CHOSEN:
        try:
            _CHOSEN.append(PackageNvtx())
        except (ImportError, AttributeError) as error:
            say(
                f"dlprof_nvtx: no markers are written: the package nvtx is needed ({error});"
                " pip install nvtx"
            )
            _CHOSEN.append(Silent())
    return _CHOSEN[0]


def is_disabled() -> bool:
    """Return whether ``TF_DISABLE_NVTX_RANGES`` is set; it is read for each range."""
    return os.environ.get(DISABLE_VARIABLE, "").strip().lower() not in {"", "0", "false"}


class ThreadRanges:
    """Opens and closes nested ranges of a thread, for the Keras callback and the session hook."""

    def __init__(self) -> None:
        super().__init__()
        self._written: list[bool] = []

    def open_marker(self, message: str) -> None:
        """Open a range on this thread."""
        self._written.append(not is_disabled())
        if self._written[-1]:
            boundary().push(message, "")

    def close_marker(self) -> None:
        """Close the innermost range."""
        if self._written and self._written.pop():
            boundary().pop("")
