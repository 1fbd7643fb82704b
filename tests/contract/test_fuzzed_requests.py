"""Requests made up from the OpenAPI document: whatever is asked, no 500.

``SCHEMATHESIS_EXAMPLES`` sets how many are made up for each operation.
"""

from __future__ import annotations

import os

import pytest
import schemathesis
from django.core.wsgi import get_wsgi_application
from hypothesis import HealthCheck, Phase, seed, settings
from schemathesis import Case

from scripts.write_openapi import document
from tests.contract.client import Served

EXAMPLES = int(os.environ.get("SCHEMATHESIS_EXAMPLES", "2"))

# Pieces of an upload are bytes, whatever their name says.
schemathesis.serializer.alias("application/offset+octet-stream", "application/octet-stream")
schema = schemathesis.openapi.from_dict(document())
schema.app = get_wsgi_application()
schema.location = "/api/v1/schema/"


@pytest.fixture
def known(ours: Served) -> Served:
    return ours


@pytest.mark.slow
@schema.parametrize()
@seed(20_251)
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=False,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_no_500(case: Case, known: Served) -> None:
    # Most of the requests reach a profile that exists; the rest ends at a 404.
    if "profile" in case.path_parameters and len(str(case.query)) % 4:
        case.path_parameters["profile"] = known.id
        if "aggregation" in case.path_parameters:
            case.path_parameters["aggregation"] = known.aggregation
    response = case.call(headers={"Host": "localhost"})

    assert response.status_code not in {500, 502, 504}, response.text[:500]
