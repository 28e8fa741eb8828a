"""Who is calling: only a peer on loopback is trusted with configured credentials (`design.md` §7.1)."""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv6Address, ip_address


@lru_cache(maxsize=1024)
def is_loopback(host: str) -> bool:
    """An address of this machine's loopback, also as IPv4 inside IPv6. A name other than `localhost` is not."""
    if host == "localhost":
        return True
    try:
        address = ip_address(host.partition("%")[0].strip("[]"))
    except ValueError:
        return False
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped.is_loopback
    return address.is_loopback
