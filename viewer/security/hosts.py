"""The names and addresses under which this machine may be asked."""

from __future__ import annotations

import contextlib
import fcntl
import socket
import struct
from collections.abc import Iterator

# Linux's request for the IPv4 address of an interface.
_SIOCGIFADDR = 0x8915


def own_addresses() -> list[str]:
    """Host name, full name and interface addresses of this machine, as a Host header has them."""
    name = socket.gethostname()
    return list(dict.fromkeys([name, socket.getfqdn(), *_interface_addresses()]))


def _interface_addresses() -> Iterator[str]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, interface in socket.if_nameindex():
            request = struct.pack("256s", interface[:15].encode())
            with contextlib.suppress(OSError):  # an interface without an IPv4 address
                reply = fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, request)
                yield socket.inet_ntoa(reply[20:24])
