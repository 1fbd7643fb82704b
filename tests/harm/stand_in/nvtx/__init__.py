"""The package ``nvtx`` as far as the markers use it; ranges go nowhere."""

from __future__ import annotations

from typing import Any


class _Domain:
    def get_event_attributes(self, message: str = "") -> str:
        return message

    def push_range(self, attributes: str) -> None:
        pass

    def pop_range(self) -> None:
        pass

    def start_range(self, attributes: str) -> int:
        return 1

    def end_range(self, number: int) -> None:
        pass


_DEFAULT = _Domain()


def get_domain(name: Any = None) -> _Domain:
    return _DEFAULT
