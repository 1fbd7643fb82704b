"""The names and addresses under which this machine may be asked."""

from __future__ import annotations

import contextlib
import fcntl
import ipaddress
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

# Linux's request for the IPv4 address of an interface.
_SIOCGIFADDR = 0x8915
_IF_INET6 = Path("/proc/net/if_inet6")


def own_addresses() -> list[str]:
    """Host name, full name and interface addresses of this machine, as a Host header has them."""
    name = socket.gethostname()
    addresses = (*_interface_addresses(), *_interface_addresses_v6())
    return list(dict.fromkeys([name, socket.getfqdn(), *addresses]))


def _interface_addresses() -> Iterator[str]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, interface in socket.if_nameindex():
            request = struct.pack("256s", interface[:15].encode())
            with contextlib.suppress(OSError):  # an interface without an IPv4 address
                reply = fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, request)
                yield socket.inet_ntoa(reply[20:24])


def _interface_addresses_v6() -> Iterator[str]:
    with contextlib.suppress(OSError):  # a system without IPv6
        for line in _IF_INET6.read_text().splitlines():
            address = ipaddress.IPv6Address(bytes.fromhex(line.split()[0]))
            # A link's own addresses need the link's name, which no Host header has.
            if not address.is_link_local:
                yield f"[{address}]"
