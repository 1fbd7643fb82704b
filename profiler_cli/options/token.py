"""The token of the environment, for all commands that serve something."""

from __future__ import annotations

import os
import re
import secrets
from pathlib import Path
from typing import Final

from aggregator.errors import UsageError

_SHORTEST_TOKEN: Final = 16


class TokenError(UsageError):
    """The configured token cannot be used."""

    code = "TOKEN_UNUSABLE"


def read_token() -> str:
    """Return the token of the environment or of its file, or a new one.

    Raises:
        TokenError: It is too short, has spaces, or its file cannot be read.
    """
    token = os.environ.get("DLPROF_TOKEN", "")
    if not token and (file := os.environ.get("DLPROF_TOKEN_FILE")):
        try:
            token = Path(file).read_text(encoding="utf-8").strip()
        except (OSError, ValueError) as error:
            raise TokenError(f"The file of DLPROF_TOKEN_FILE cannot be read: {error}.") from error
    elif not token:
        return secrets.token_urlsafe(24)
    if len(token) < _SHORTEST_TOKEN or not token.isascii() or re.search(r"\s", token):
        raise TokenError(
            f"The token must have at least {_SHORTEST_TOKEN} ASCII characters and no spaces.",
            hint="Make one with: openssl rand -hex 24",
        )
    return token
