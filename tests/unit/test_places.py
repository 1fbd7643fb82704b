"""Places for requests: what is kept of them, and whom they are kept for."""

from __future__ import annotations

import select
import socket
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack

import pytest

from viewer.security.places import REQUESTS_AT_A_TIME, NoPlaceError, Places, has_left


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


@pytest.mark.parametrize(
    ("leave", "is_gone"),
    [
        (lambda client: None, False),
        (lambda client: client.sendall(b"the next request"), False),
        (lambda client: client.shutdown(socket.SHUT_RD), False),
        (lambda client: client.shutdown(socket.SHUT_WR), True),
        (lambda client: client.close(), True),
    ],
    ids=["waits", "sends more", "reads no more", "sends no more", "closes"],
)
def test_a_client_is_gone_when_it_can_send_no_more(
    leave: Callable[[socket.socket], None], is_gone: bool
) -> None:
    """The end of a half-closed connection looks like that of a closed one until it is written to.

    Of curl, wget, urllib, http.client, requests, Node's fetch and Chromium none closes its sending
    side while it waits.
    """
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = socket.create_connection(server.getsockname())
        accepted, _ = server.accept()
        with client, accepted:
            leave(client)
            # The end arrives by the loopback device, not at once.
            select.select([accepted], [], [], 10.0 if is_gone else 0.0)
            assert has_left(accepted) == is_gone


def test_without_a_connection_no_client_is_gone() -> None:
    assert not has_left(None)
