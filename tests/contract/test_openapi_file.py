"""The files that are built from the API's declarations: the document, and the page's types."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.update_texts import read_catalog
from tests.conftest import REPOSITORY
from tests.contract.client import API, ApiClient

CATALOG = "aggregator/texts/zh.po"


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the build writes, in the place that it has in a checkout."""
    target = tmp_path_factory.mktemp("checkout") / "docs" / "openapi.json"
    target.parent.mkdir()
    program = REPOSITORY / "scripts" / "write_openapi.py"
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    subprocess.run([sys.executable, program, target], cwd="/", env=environment, check=True)
    return target


def test_the_built_document_is_the_one_that_is_served(document: Path) -> None:
    assert json.loads(document.read_text("utf-8")) == ApiClient().get(f"{API}/schema/").json


def test_the_same_document_is_not_written_again(document: Path) -> None:
    os.utime(document, (0, 0))

    subprocess.run(
        [sys.executable, "scripts/write_openapi.py", document], cwd=REPOSITORY, check=True
    )

    assert document.stat().st_mtime == 0


@pytest.mark.skipif(shutil.which("node") is None, reason="no node")
def test_the_pages_types_and_translations_are_built(document: Path) -> None:
    """The compiler checks what they say: `make frontend-check`, on those of the checkout."""
    page = document.parents[1] / "frontend"
    for folder in ("scripts", "src/api", "src/i18n", "src/table", "../aggregator/texts"):
        (page / folder).mkdir(parents=True)
    shutil.copy(REPOSITORY / CATALOG, page.parent / CATALOG)
    shutil.copy(REPOSITORY / "frontend/scripts/generate.mjs", page / "scripts")

    subprocess.run(["node", page / "scripts/generate.mjs"], check=True)

    types = (page / "src/api/types.ts").read_text("utf-8")
    declared = (page / "src/table/declared.ts").read_text("utf-8")
    schemas = json.loads(document.read_text("utf-8"))["components"]["schemas"]
    assert re.findall(r"^export interface (\w+)", types, re.MULTILINE) == list(schemas)
    tables = {name for name, schema in schemas.items() if "x-columns" in schema}
    assert set(re.findall(r"DeclaredColumn<(\w+)>", declared)) == tables
    keys = [column["key"] for name in schemas for column in schemas[name].get("x-columns", ())]
    assert re.findall(r'^  \{ key: "(\w+)"', declared, re.MULTILINE) == keys
    chinese = (page / "src/i18n/zh.ts").read_text("utf-8")
    built = json.loads(chinese[chinese.index("= {") + 2 :].rstrip(";\n"))
    assert built == {
        message.id: message.string
        for message in read_catalog()
        if message.context == "page" and message.string and not message.fuzzy
    }


@pytest.mark.skipif(shutil.which("node") is None, reason="no node")
def test_a_missing_document_is_named(tmp_path: Path) -> None:
    program = shutil.copy(REPOSITORY / "frontend/scripts/generate.mjs", tmp_path)

    done = subprocess.run(["node", program], capture_output=True, text=True, check=False)

    assert done.returncode == 1
    assert done.stderr.startswith("docs/openapi.json is missing: `make frontend` writes it")
