"""Places for requests: what is kept of them, and whom they are kept for."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack

import pytest

from viewer.security.places import REQUESTS_AT_A_TIME, NoPlaceError, Places


def test_names_of_profiles_are_forgotten_with_their_requests() -> None:
    """Clients write them, and all are counted for each request."""
    places = Places()

    for number in range(100):
        with places.take(f"no-such-profile-{number}", bool):
            assert len(places._taken) == 1

    assert not places._taken


def test_profiles_that_hold_places_leave_some_to_the_next() -> None:
    """What takes long with five profiles, and asks without end, does not shut out a sixth."""
    places = Places()
    taken: Counter[str] = Counter()
    with ExitStack() as stack:
        for number in range(5):
            name = f"slow-{number}"
            for _ in range(REQUESTS_AT_A_TIME):
                try:
                    stack.enter_context(places.take(name, lambda: True))
                except NoPlaceError:
                    break
                taken[name] += 1

        assert list(taken.values()) == [16, 8, 4, 2, 1]
        with places.take("quick", bool):
            assert places._taken.total() == REQUESTS_AT_A_TIME
        with places.take("", bool), pytest.raises(NoPlaceError), places.take("other", lambda: True):
            pass
