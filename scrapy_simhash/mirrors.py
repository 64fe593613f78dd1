"""Places of sites that mirror each other, found by the addresses of near-duplicates.

An address and that of its original are compared from the end: what both end in is cut off, and
what is left of each names a place. `/mirror/docs/a.html` and `/docs/a.html` lead to `/mirror/*`
and `/*`; addresses that differ in their query lead to `/*?print=*` and `/*`.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, parse_qsl, urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterator

# Fewer may be chance.
_LEAST_PAGES = 3
# Of an address; bounds what a hostile one costs.
_LONGEST = 2_000
_DEEPEST = 8
_MOST_PARAMETERS = 8


class Mirrors:
    """Counts pages by place and near-duplicates by pair of places.

    Memory grows with the folders of the sites, not with their pages.
    """

    def __init__(self) -> None:
        self._pages: Counter[str] = Counter()
        self._pairs: Counter[tuple[str, str]] = Counter()

    def add_page(self, url: str) -> None:
        """Count a page."""
        self._pages.update(_list_places(url))

    def add_near_duplicate(self, url: str, original: str) -> None:
        """Count a near-duplicate; it has to be added as a page besides."""
        if pair := find_places(url, original):
            self._pairs[pair] += 1

    def list_largest(self, most: int) -> list[dict[str, Any]]:
        """List the pairs of places with most near-duplicates.

        Args:
            most: pairs.

        Returns:
            `place` of the near-duplicates, `original` place, `near_duplicates`, `pages` that the
            place has in all.
        """
        return [
            {
                "place": place,
                "original": original,
                "near_duplicates": count,
                "pages": max(count, self._pages[place]),
            }
            for (place, original), count in self._pairs.most_common(most)
            if count >= _LEAST_PAGES
        ]


def find_places(url: str, original: str) -> tuple[str, str] | None:
    """Find the places in which two addresses are the same page; None where nothing is alike.

    >>> find_places("http://a.example/mirror/docs/x.html", "http://a.example/docs/x.html")
    ('http://a.example/mirror/*', 'http://a.example/*')
    >>> find_places("http://a.example/x?sid=1&page=2", "http://a.example/x?page=2")
    ('http://a.example/*?sid=*', 'http://a.example/*')
    """
    first, second = _split(url), _split(original)
    if first is None or second is None:
        return None
    ours, theirs = first.path.split("/")[1:], second.path.split("/")[1:]
    if (first.scheme, first.netloc, ours) == (second.scheme, second.netloc, theirs):
        return _find_parameters(first, second)
    same = 0
    while same < min(len(ours), len(theirs)) and ours[-1 - same] == theirs[-1 - same]:
        same += 1
    # Two addresses that end in a slash have an empty name in common.
    if not any(ours[len(ours) - same :]) and ours != theirs:
        return None
    return (
        _name(first, ours[: len(ours) - same]),
        _name(second, theirs[: len(theirs) - same]),
    )


def _find_parameters(first: SplitResult, second: SplitResult) -> tuple[str, str] | None:
    ours, theirs = set(_parse(first)), set(_parse(second))
    sides = [
        "".join(sorted(f"?{name}=*" for name in {name for name, _ in one - other}))
        for one, other in ((ours, theirs), (theirs, ours))
    ]
    if not any(sides):
        return None
    return _name(first, []) + sides[0], _name(second, []) + sides[1]


def _list_places(url: str) -> Iterator[str]:
    parts = _split(url)
    if parts is None:
        return
    folders = parts.path.split("/")[1:-1]
    for depth in range(min(len(folders), _DEEPEST) + 1):
        yield _name(parts, folders[:depth])
    for name in {name for name, _ in _parse(parts)}:
        yield f"{_name(parts, [])}?{name}=*"


def _split(url: str) -> SplitResult | None:
    try:
        return urlsplit(url) if len(url) <= _LONGEST else None
    except ValueError:  # such as an invalid IPv6 address
        return None


def _parse(parts: SplitResult) -> list[tuple[str, str]]:
    return parse_qsl(parts.query, keep_blank_values=True)[:_MOST_PARAMETERS]


def _name(parts: SplitResult, folders: list[str]) -> str:
    return f"{parts.scheme}://{parts.netloc}/" + "".join(f"{name}/" for name in folders) + "*"
