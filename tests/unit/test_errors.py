from __future__ import annotations

import json
import re

import pytest

from aggregator import errors
from aggregator.errors import DlprofError

EXIT_CODES = {
    errors.UsageError: 2,
    errors.ToolError: 3,
    errors.ProfileError: 4,
    errors.DatabaseError: 5,
    errors.AggregationCancelledError: 130,
}


def _all_errors(base: type[DlprofError] = DlprofError) -> list[type[DlprofError]]:
    """The errors of the engine; those of the viewer get their codes when they are raised."""
    found = [base]
    for child in base.__subclasses__():
        if child.__module__ != errors.__name__:
            continue
        found += _all_errors(child)
    return found


def test_every_error_has_a_code_of_its_own() -> None:
    codes = [error.code for error in _all_errors()]
    assert len(codes) == len(set(codes))
    assert all(re.fullmatch(r"[A-Z][A-Z_]+[A-Z]", code) for code in codes)


@pytest.mark.parametrize("error", _all_errors())
def test_exit_and_http_status_follow_the_family(error: type[DlprofError]) -> None:
    assert error.http_status in {400, 403, 404, 409, 413, 422, 429, 500, 503, 507}
    for family, exit_code in EXIT_CODES.items():
        if issubclass(error, family):
            # A key node is something that the user asked for, though the profile decides.
            is_usage = error.code == "KEY_NODE_NOT_FOUND"
            assert error.exit_code == (2 if is_usage else exit_code)


def test_an_error_has_a_message_a_reason_and_a_hint() -> None:
    error = DlprofError("No.", hint="Do.", path="/x", count=3)
    assert str(error) == "No."
    assert error.to_dict() == {
        "code": "DLPROF_ERROR",
        "message": "No.",
        "hint": "Do.",
        "details": {"path": "/x", "count": 3},
    }
    assert json.loads(json.dumps(error.to_dict())) == error.to_dict()
