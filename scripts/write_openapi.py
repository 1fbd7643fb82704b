"""Writes docs/openapi.json from the API; a test fails when it is out of step (``make docs``)."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

TARGET = Path(__file__).resolve().parent.parent / "docs" / "openapi.json"


def document() -> dict[str, Any]:
    """The OpenAPI document as plain data; Django must have been set up."""
    from drf_spectacular.generators import SchemaGenerator  # noqa: PLC0415

    generator: Any = SchemaGenerator

    found = generator().get_schema(public=True)
    plain: dict[str, Any] = json.loads(json.dumps(found))
    return plain


def text(found: dict[str, Any]) -> str:
    """The file's content."""
    return json.dumps(found, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def main() -> int:
    """Write the file."""
    with tempfile.TemporaryDirectory() as state:
        os.environ["DLPROF_STATE_DIR"] = state
        os.environ["DJANGO_SETTINGS_MODULE"] = "viewer.settings"
        import django  # noqa: PLC0415

        django.setup()
        TARGET.write_text(text(document()), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
