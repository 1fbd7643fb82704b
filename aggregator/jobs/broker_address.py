"""Check that only those who may start jobs can use the address of a broker."""

from __future__ import annotations

import ipaddress
import os
from typing import Final
from urllib.parse import urlsplit

from aggregator.errors import UsageError

URL_VARIABLE: Final = "DLPROF_BROKER_URL"
OPEN_VARIABLE: Final = "DLPROF_BROKER_WITHOUT_PASSWORD"
_REDIS: Final = ("redis", "rediss")


class BrokerError(UsageError):
    """The address of the broker cannot be used."""

    code = "BROKER_UNUSABLE"


def broker_url() -> str:
    """Return the address of the broker from the environment; empty if there is none.

    Raises:
        BrokerError: It is no address, or a Redis on another machine without a password.
    """
    url = os.environ.get(URL_VARIABLE, "")
    for address in filter(None, url.split(";")):
        _check(address)
    return url


def _check(url: str) -> None:
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "localhost", parts.port
    except ValueError as error:
        raise BrokerError(f"{URL_VARIABLE} is no address: {error}.") from error
    if parts.scheme not in _REDIS or parts.password or is_loopback(host):
        return
    if os.environ.get(OPEN_VARIABLE) == "1":
        return
    raise BrokerError(
        f"The Redis on {host} has no password in {URL_VARIABLE}: everyone who reaches it can have "
        "workers read and write files.",
        hint="Use redis://:PASSWORD@HOST:PORT/0 and set requirepass in Redis, or, on a network "
        f"of these machines alone, {OPEN_VARIABLE}=1.",
    )


def is_loopback(host: str) -> bool:
    """Return whether a host name or address is this machine's own."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
