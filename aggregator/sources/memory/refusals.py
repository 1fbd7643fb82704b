"""Why a pickle is refused, each reason in one sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Final, NoReturn

from aggregator.errors import CorruptProfileError, ProfileError, UnsupportedProfileError
from aggregator.texts import say

MAX_DEPTH: Final = 100
"""A snapshot nests six containers."""


class Refusals:
    """Errors that name the file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def cut(self) -> ProfileError:
        """Return the error for a file that ends too early."""
        text = say("The snapshot '{path}' is cut off: it ends inside a value.", path=self._path)
        return self._error(CorruptProfileError, text)

    def no_pickle(self) -> ProfileError:
        """Return the error for a file of another format."""
        text = say("'{path}' is not a pickle of protocol 2 to 5.", path=self._path)
        return self._error(UnsupportedProfileError, text)

    def bad(self) -> NoReturn:
        """Refuse a damaged file."""
        raise self.damaged()

    def damaged(self) -> ProfileError:
        """Return the error for a damaged file."""
        text = say("The snapshot '{path}' is damaged or no memory snapshot.", path=self._path)
        return self._error(CorruptProfileError, text)

    def too_deep(self) -> ProfileError:
        """Return the error for too many levels."""
        text = say(
            "The snapshot '{path}' nests more than {depth} levels, which no memory snapshot does.",
            path=self._path,
            depth=MAX_DEPTH,
        )
        return self._error(CorruptProfileError, text)

    def too_large(self) -> ProfileError:
        """Return the error for too many values."""
        text = say("The snapshot '{path}' claims more data than it can hold.", path=self._path)
        return self._error(CorruptProfileError, text)

    def refused(self, code: int) -> ProfileError:
        """Return the error for an opcode that is not plain data."""
        import pickletools  # noqa: PLC0415 - only for the name of the opcode

        known = [opcode.name for opcode in pickletools.opcodes if opcode.code == chr(code)]
        name = known[0] if known else f"0x{code:02x}"
        text = say(
            "The snapshot '{path}' is refused: its opcode {name} is not plain data and could run "
            "code.",
            path=self._path,
            name=name,
        )
        return self._error(UnsupportedProfileError, text)

    def _error(self, kind: type[ProfileError], text: str) -> ProfileError:
        return kind(text, hint=say("Write it with torch.cuda.memory._dump_snapshot()."))
