"""Addresses of pages, cut into what URL rules change."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

# Longer addresses, and those with more parts, are made by traps; no rule judges them.
MOST_CHARACTERS = 4_096
MOST_PARTS = 128
# As ASP.NET writes sessions into paths: "(S(4tyb0x55))", "(A(x)S(y))", "(X(1))".
SESSION = re.compile(r"\((?:[A-Z]\([^()/]*\))+\)")
INDEX = re.compile(r"(?:index|default|home|welcome|main)\.\w{1,5}", re.IGNORECASE)
_DEFAULT_PORTS = {"http": ":80", "https": ":443"}
# No account: who may see a page is not for rules. A host is a name, or an IPv6 address.
_URL = re.compile(
    r"(https?)://([^/?#@\\\s\[\]:]+|\[[0-9a-f:.]+\])(:\d{0,5})?([/?#].*)?",
    re.IGNORECASE | re.DOTALL,
)


class Address(NamedTuple):
    """An address in parts, none of them decoded.

    Attributes:
        scheme: `http` or `https`.
        host: lower case, with a port that is not the default.
        path: its segments; the last one is "" where the path ends in a slash.
        query: its parameters, sorted, as `name=value`.
    """

    scheme: str
    host: str
    path: tuple[str, ...]
    query: tuple[str, ...]


@lru_cache(maxsize=1_024)  # a page is asked for its address a dozen times, a request three times
def parse_address(url: str) -> Address | None:
    """Cut an address into parts, without its fragment; None where no rule may judge it.

    That is an address of another scheme, a broken one, one with an account, and one with more than
    4,096 characters or 128 segments or parameters.
    """
    matched = _URL.fullmatch(url) if len(url) <= MOST_CHARACTERS else None
    if matched is None:
        return None
    scheme, host, port, rest = matched.groups("")
    scheme, host = scheme.lower(), host.lower()
    if len(port) > 1 and port != _DEFAULT_PORTS[scheme]:
        host += port
    if not host.isascii():
        try:
            host = host.encode("idna").decode()
        except UnicodeError:
            return None
    if "#" in rest:
        rest = rest.partition("#")[0]
    before, _, asked = rest.partition("?")
    path = tuple(before[1:].split("/"))
    query: tuple[str, ...] = ()
    if asked:
        # A parameter without a value is the same as one with an empty value.
        pairs = [pair if "=" in pair else pair + "=" for pair in asked.split("&") if pair]
        query = tuple(sorted(pairs)) if len(pairs) > 1 else tuple(pairs)
    if len(path) > MOST_PARTS or len(query) > MOST_PARTS:
        return None
    return Address(scheme, host, path, query)


def format_address(address: Address) -> str:
    """Write an address; equal ones are written alike."""
    scheme, host, path, query = address
    asked = "?" + "&".join(query) if query else ""
    return f"{scheme}://{host}/{'/'.join(path)}{asked}"


def split_pair(pair: str) -> tuple[str, str]:
    """Cut a parameter into name and value."""
    name, _, value = pair.partition("=")
    return name, value


def directory_of(address: Address) -> str:
    """Get the path of the folder that an address is in."""
    return "/" + "".join(f"{segment}/" for segment in address.path[:-1])
