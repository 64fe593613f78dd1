"""Brute force: a list and a loop, to compare the store with."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from scrapy_simhash.stores.keyvalues import SETS


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
    duplicate: bool
    crawls: tuple[str, ...] = ()

    def got_in(self, crawl: str) -> None:
        self.crawls = (*(each for each in self.crawls if each != crawl), crawl)[-4:]


@dataclass
class Oracle:
    distance: int
    pages: dict[bytes, Page] = field(default_factory=dict)
    crawl: str = ""
    incremental: bool = True

    def near(self, fingerprint: int, but: bytes = b"") -> dict[bytes, tuple[bool, int]]:
        """Find the near pages: whether only an earlier crawl got each, and its distance."""
        found = {}
        for identity, page in self.pages.items():
            bits = distance_between(page.fingerprint, fingerprint)
            if identity != but and not page.duplicate and bits <= self.distance:
                got = self.incremental or self.crawl in page.crawls
                found[identity] = not got, bits
        return found

    def add(self, identity: bytes, fingerprint: int) -> str:
        """Judge a page; a text is another one if more than its last two bits differ."""
        own = self.pages.get(identity)
        if own and not own.duplicate:
            changed = own.fingerprint >> 2 != fingerprint >> 2
            # Those that got another text did not get this one.
            own.fingerprint, own.crawls = fingerprint, () if changed else own.crawls
            own.got_in(self.crawl)
            return "changed" if changed else "unchanged"
        near = self.near(fingerprint, but=identity)
        same = own and (own.fingerprint, own.duplicate) == (fingerprint, bool(near))
        self.pages[identity] = Page(fingerprint, bool(near), own.crawls if own and same else ())
        self.pages[identity].got_in(self.crawl)
        if not near:
            return "new"
        return "first_copy" if min(near.values())[0] else "near_duplicate"


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


class Rows:
    """Rows in dicts and sets, with the calls of `KeyValues`."""

    def __init__(self) -> None:
        self.values: dict[tuple[str, bytes], bytes] = {}
        self.sets: defaultdict[tuple[str, bytes], set[bytes]] = defaultdict(set)

    def get(self, table: str, *keys: bytes) -> list[bytes | None]:
        return [self.values.get((table, key)) for key in keys]

    def put(self, table: str, key: bytes, value: bytes) -> None:
        if table in SETS:
            self.sets[table, key].add(value)
        else:
            self.values[table, key] = value

    def delete(self, table: str, key: bytes, member: bytes = b"") -> None:
        self.values.pop((table, key), None)
        self.sets[table, key] = self.sets[table, key] - {member} if member else set()

    def scan(self, table: str, prefix: bytes = b"") -> list[tuple[bytes, bytes]]:
        rows = [(*row, value) for row, value in self.values.items()]
        rows += [(*row, member) for row, held in self.sets.items() for member in held]
        return sorted(row[1:] for row in rows if row[0] == table and row[1].startswith(prefix))

    def read_sets(
        self, table: str, keys: Sequence[bytes], most: int | None = None
    ) -> tuple[bytes, list[bytes]]:
        crowded = [key for key in keys if most and len(self.sets[table, key]) > most]
        read = [key for key in keys if key not in crowded]
        rows = (key + each for key in read for each in sorted(self.sets[table, key]))
        return b"".join(rows), crowded
