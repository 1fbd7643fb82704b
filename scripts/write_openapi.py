"""Write docs/openapi.json, the description of the API that the page and the site are built from."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "docs" / "openapi.json"


def document() -> dict[str, Any]:
    """Return the OpenAPI document as plain data; Django must have been set up."""
    from drf_spectacular.generators import SchemaGenerator  # noqa: PLC0415

    generator: Any = SchemaGenerator
    schema = generator().get_schema(public=True)
    plain: dict[str, Any] = json.loads(json.dumps(schema))
    return plain


def main(target: Path = TARGET) -> int:
    """Write the file, unless it says the same already: what is built from it stays up to date."""
    sys.path.insert(0, str(ROOT))
    with tempfile.TemporaryDirectory() as state:
        os.environ["DLPROF_STATE_DIR"] = state
        os.environ["DJANGO_SETTINGS_MODULE"] = "viewer.settings"
        import django  # noqa: PLC0415

        django.setup()
        text = json.dumps(document(), indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    if not target.is_file() or target.read_text("utf-8") != text:
        target.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(*map(Path, sys.argv[1:2])))
