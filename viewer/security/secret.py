"""The key that signs cookies: made once per state folder, readable by its owner only."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def read_or_make_secret_key(state_dir: Path) -> str:
    """The key of a state folder; made on first use.

    Several processes may start at once: the first to create the file wins, the others read it.
    """
    if configured := os.environ.get("DLPROF_SECRET_KEY"):
        return configured
    state_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = state_dir / "secret_key"
    if not path.exists():
        draft = path.with_name(f"{path.name}.{os.getpid()}")
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_urlsafe(50))
        try:
            # Unlike a rename, a link does not replace what another process has put there.
            path.hardlink_to(draft)
        except FileExistsError:
            pass
        finally:
            draft.unlink()
    return path.read_text()
