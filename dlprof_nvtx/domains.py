"""The boundary to NVTX for markers with a domain: everything TensorFlow and JAX markers write."""

from __future__ import annotations

import os
import sys
from typing import Any, Protocol

DISABLE_VARIABLE = "TF_DISABLE_NVTX_RANGES"


class DomainBackend(Protocol):
    """Where ranges go; an empty domain is NVTX's default one. Tests put a recorder in its place."""

    def push(self, text: str, domain: str, /) -> object:
        """Open a range on this thread."""

    def pop(self, domain: str, /) -> object:
        """Close the last one of this thread and domain."""

    def start(self, text: str, domain: str, /) -> Any:
        """Open a range that any thread may close; returns what ``end`` takes."""

    def end(self, handle: Any, /) -> object:
        """Close it."""


class PackageNvtx:
    """NVTX through the package ``nvtx``, which knows domains."""

    def __init__(self) -> None:
        import nvtx

        self._get_domain = nvtx.get_domain

    def _domain(self, name: str) -> Any:
        # An empty name would be a domain of its own.
        return self._get_domain(name or None)

    def push(self, text: str, domain: str) -> None:
        """Open a range on this thread."""
        found = self._domain(domain)
        found.push_range(found.get_event_attributes(message=text))

    def pop(self, domain: str) -> None:
        """Close the last one of this thread and domain."""
        self._domain(domain).pop_range()

    def start(self, text: str, domain: str) -> Any:
        """Open a range that any thread may close."""
        found = self._domain(domain)
        return found, found.start_range(found.get_event_attributes(message=text))

    def end(self, handle: Any) -> None:
        """Close it."""
        domain, number = handle
        domain.end_range(number)


class Silent:
    """Takes the place of NVTX where the package ``nvtx`` is missing."""

    def push(self, text: str, domain: str) -> None:
        """Write nothing."""

    def pop(self, domain: str) -> None:
        """Write nothing."""

    def start(self, text: str, domain: str) -> None:
        """Write nothing."""

    def end(self, handle: Any) -> None:
        """Write nothing."""


_CHOSEN: list[DomainBackend] = []


def use(backend: DomainBackend | None) -> None:
    """Write to this from now on; None: to NVTX, found at the next range."""
    _CHOSEN[:] = [] if backend is None else [backend]


def boundary() -> DomainBackend:
    """Where ranges go; says once, on the standard error, why nothing can be written."""
    if not _CHOSEN:
        try:
            _CHOSEN.append(PackageNvtx())
        except (ImportError, AttributeError) as error:
            print(
                f"dlprof_nvtx: no markers are written: the package nvtx is needed ({error});"
                " pip install nvtx",
                file=sys.stderr,
            )
            _CHOSEN.append(Silent())
    return _CHOSEN[0]


def is_disabled() -> bool:
    """Whether ``TF_DISABLE_NVTX_RANGES`` asks for no ranges; looked at whenever one is built."""
    return os.environ.get(DISABLE_VARIABLE, "").strip().lower() not in {"", "0", "false"}
