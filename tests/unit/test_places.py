"""Places for requests: what is kept of them."""

from __future__ import annotations

from viewer.security.places import Places


def test_names_of_profiles_are_forgotten_with_their_requests() -> None:
    """Clients write them, and all are counted for each request."""
    places = Places()

    for number in range(100):
        with places.take(f"no-such-profile-{number}", bool):
            assert len(places._taken) == 1

    assert not places._taken
