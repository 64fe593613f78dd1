"""Brute force: a list and a loop, to compare the store with."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import combinations


def distance_between(first: int, second: int) -> int:
    return f"{first ^ second:b}".count("1")


def union_find(pairs: Sequence[Sequence[int]]) -> list[list[int]]:
    """Put together what pairs connect; sorted clusters, sorted."""
    groups = {end: {end} for pair in pairs for end in pair}
    for first, second in pairs:
        joined = groups[first] | groups[second]
        for end in joined:
            groups[end] = joined
    return sorted(map(list, {tuple(sorted(group)) for group in groups.values()}))


@dataclass
class Page:
    fingerprint: int
    crawl: str
    duplicate: bool
    done: bool = False
    delivered: bool = False


@dataclass
class Oracle:
    distance: int
    pages: dict[bytes, Page] = field(default_factory=dict)
    alive: set[str] = field(default_factory=set)

    def counts(self, page: Page) -> bool:
        return not page.duplicate and (page.done or page.crawl in self.alive)

    def near(self, fingerprint: int, but: bytes = b"") -> dict[bytes, int]:
        found = {}
        for identity, page in self.pages.items():
            bits = distance_between(page.fingerprint, fingerprint)
            if identity != but and self.counts(page) and bits <= self.distance:
                found[identity] = bits
        return found

    def add(self, identity: bytes, fingerprint: int, crawl: str) -> str:
        """Judge a page; a text is another one if more than its last two bits differ."""
        own = self.pages.get(identity)
        if own and (own.delivered or self.counts(own)):
            changed, had = own.fingerprint >> 2 != fingerprint >> 2, self.counts(own)
            if changed or not had:
                own.crawl, own.done = crawl, False
            own.fingerprint = fingerprint
            return "changed" if changed else "unchanged" if had else "undelivered"
        duplicate = bool(self.near(fingerprint, but=identity))
        self.pages[identity] = Page(fingerprint, crawl, duplicate)
        return "near_duplicate" if duplicate else "new"


def all_pairs(values: Iterable[int], distance: int) -> list[list[int]]:
    """List the pairs of distinct numbers within a distance, as a self-join does."""
    return [
        [first, second]
        for first, second in combinations(sorted(set(values)), 2)
        if distance_between(first, second) <= distance
    ]


def all_matches(queries: Iterable[int], values: Iterable[int], distance: int) -> list[list[int]]:
    """List query, number and their bits where these are within a distance, as a batch does."""
    return [
        [query, other, bits]
        for query in sorted(set(queries))
        for other in sorted(set(values))
        if (bits := distance_between(query, other)) <= distance
    ]
