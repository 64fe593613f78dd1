"""Brute force: a list and a loop, to compare the store with."""

from dataclasses import dataclass, field


def distance_between(first: int, second: int) -> int:
    return f"{first ^ second:b}".count("1")


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
        own = self.pages.get(identity)
        if own and (own.delivered or self.counts(own)):
            changed = own.fingerprint != fingerprint
            if changed or not self.counts(own):
                own.fingerprint, own.crawl, own.done = fingerprint, crawl, False
            return "changed" if changed else "unchanged"
        duplicate = bool(self.near(fingerprint, but=identity))
        self.pages[identity] = Page(fingerprint, crawl, duplicate)
        return "near_duplicate" if duplicate else "new"
