"""Addresses that a mistyped one may have meant."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, unquote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterable

_MOST_SUGGESTED = 3


def suggest_urls(url: str, known: Iterable[str]) -> list[str]:
    """List known addresses that differ only in how they are written, or else in their query.

    Scheme, `www.`, upper case, port, fragment, slash or `index.html` at the end, order of the query
    and percent-encoding count as ways of writing.

    >>> suggest_urls("http://a.example/x", ["https://www.a.example/X/", "http://a.example/y"])
    ['https://www.a.example/X/']
    >>> suggest_urls("http://a.example/x", ["http://a.example/x?sid=1", "http://a.example/y"])
    ['http://a.example/x?sid=1']

    Args:
        url: that is not known.
        known: addresses; repeated ones count once.

    Returns:
        Three at most.
    """
    page, query = _reduce(url)
    same_page = {}
    for each in known:
        other_page, other_query = _reduce(each)
        if other_page == page:
            same_page[each] = other_query == query
    alike = [each for each, same_query in same_page.items() if same_query] or list(same_page)
    return alike[:_MOST_SUGGESTED]


def add_suggestions(problem: str, url: str, known: Iterable[str]) -> str:
    """Complete a message that an address is not known by what may have been meant."""
    suggested = suggest_urls(url, known)
    return f"{problem}; did you mean {' or '.join(suggested)} ?" if suggested else problem


def _reduce(url: str) -> tuple[str, list[tuple[str, str]]]:
    """Leave only what distinguishes pages: host and path, and the query apart."""
    try:
        parts = urlsplit(url if "//" in url else f"//{url}")
        host = (parts.hostname or "").removeprefix("www.")
    except ValueError:  # such as an invalid IPv6 address
        return url, []
    path = unquote(parts.path).lower().removesuffix("index.html").rstrip("/")
    return host + path, sorted(parse_qsl(parts.query, keep_blank_values=True))
