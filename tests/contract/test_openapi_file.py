"""The committed OpenAPI document is the one that the server gives."""

from __future__ import annotations

import json

from scripts.write_openapi import TARGET, document, text
from tests.contract.client import API, ApiClient


def test_the_committed_document_is_up_to_date() -> None:
    assert TARGET.read_text(encoding="utf-8") == text(document()), "run: make docs"


def test_it_is_the_one_that_is_served() -> None:
    served = ApiClient().get(f"{API}/schema/").json

    assert served["paths"].keys() == json.loads(TARGET.read_text(encoding="utf-8"))["paths"].keys()
