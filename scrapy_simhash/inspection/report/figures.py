"""The figures of a report: pages, hosts, distances and groups, counted decision by decision."""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict, deque
from typing import TYPE_CHECKING, Any

import numpy as np

from scrapy_simhash._addresses import split_url
from scrapy_simhash.inspection.log import Counts
from scrapy_simhash.pages.places import find_places, list_places

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from scrapy_simhash.detector.log import Decision


# Fewer pages may be chance.
_LEAST_PAGES = 3


class Mirrors:
    """Counts pages by place, near-duplicates by pair of places; memory grows with folders."""

    def __init__(self) -> None:
        self._pages: Counter[str] = Counter()
        self._pairs: Counter[tuple[str, str]] = Counter()

    def add_page(self, url: str) -> None:
        """Count a page."""
        self._pages.update(list_places(url))

    def add_near_duplicate(self, url: str, original: str) -> None:
        """Count a near-duplicate; `add_page` counts it as a page."""
        if pair := find_places(url, original):
            self._pairs[pair] += 1

    def list_largest(self, most: int) -> list[dict[str, Any]]:
        """List the pairs of places with most near-duplicates; `pages` counts all of a place."""
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


# Only the newest near-duplicates are kept in memory one by one; all are counted.
MOST_LISTED = 200_000
_HOSTS_SHOWN = 50
_MIRRORS_SHOWN = 30
_RULES_SHOWN = 30
# Steps between the times of the first and the last page.
_TIME_STEPS = 48
_SIMILARITY_STEPS = 50


class Figures:
    """Counts the decisions of a report."""

    def __init__(self) -> None:
        self.counts = Counts()
        self.damaged = 0
        self.near_duplicates: deque[Decision] = deque(maxlen=MOST_LISTED)  # oldest first
        self.originals: dict[str, int] = {}  # numbers in their store by URL; 0 for none
        self.without_bytes = 0  # dropped pages of unknown size
        # By the URL of a wall, how many pages showed it after it was recognised.
        self.walls: Counter[str] = Counter()
        self._similarities: Counter[int] = Counter()
        self._hosts: defaultdict[str, _Host] = defaultdict(_Host)
        self._mirrors = Mirrors()
        self._fingerprints: set[int] = set()
        self._times, self._dropped, self._bytes = array("d"), array("b"), array("q")
        self._total = _Host()
        self._links = 0

    def add(self, decision: Decision) -> None:
        """Count a decision."""
        self.counts.add(decision)
        if decision.is_judged:
            self._add_judged(decision)
        if decision.is_near_duplicate:
            self._add_near_duplicate(decision)
        elif decision.fingerprint:
            try:
                self._fingerprints.add(int(decision.fingerprint, 16) % 2**64)
            except ValueError:
                self.damaged += 1

    def _add_judged(self, decision: Decision) -> None:
        for counted in (self._total, self._hosts[find_host(decision.url)]):
            counted.add(decision)
        self._mirrors.add_page(decision.url)
        if decision.sink:
            self.walls[decision.match_url or decision.url] += 1
        if decision.time > 0:
            self._times.append(decision.time)
            self._dropped.append(decision.is_dropped)
            self._bytes.append(decision.unparsed_bytes)

    def _add_near_duplicate(self, decision: Decision) -> None:
        self.near_duplicates.append(decision)
        self.originals[decision.match_url or ""] = decision.match_document
        self.without_bytes += decision.is_unparsed and decision.body_bytes is None
        self._links += decision.links_not_followed
        if decision.similarity is not None:
            self._similarities[int(decision.similarity * _SIMILARITY_STEPS)] += 1
        if decision.match_url:
            self._mirrors.add_near_duplicate(decision.url, decision.match_url)

    @property
    def fingerprints(self) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
        """Distinct fingerprints of pages that are not near-duplicates, sorted; shape (n,)."""
        return np.array(sorted(self._fingerprints), np.uint64)

    def describe(self) -> dict[str, Any]:
        """Return all figures except those of single groups, ready for JSON."""
        counts, total = self.counts, self._total
        crawls = Counter({name: crawl["pages"] for name, crawl in counts.crawls.items()})
        hosts = sorted(self._hosts.items(), key=lambda item: (-item[1].judged, item[0]))
        return {
            "first_time": min(self._times, default=None),
            "last_time": max(self._times, default=None),
            "crawls": dict(crawls.most_common()),
            "pages": counts.pages,
            "unjudged": counts.pages - total.judged,
            "judged": total.judged,
            "kept": total.judged - total.dropped,
            "near_duplicates": total.near_duplicates,
            "near_duplicates_kept": total.near_duplicates - total.dropped,
            "dropped": total.dropped,
            "dropped_bytes": total.dropped_bytes,
            "links_not_followed": self._links,
            "walls": len(self.walls),
            "wall_pages": self.walls.total(),
            "originals": len(counts.groups),
            "not_fetched": dict(counts.not_fetched.most_common(_RULES_SHOWN)),
            "not_fetched_in_all": counts.not_fetched.total(),
            "statuses": dict(counts.statuses.most_common()),
            "hosts": [{"host": name, **vars(host)} for name, host in hosts[:_HOSTS_SHOWN]],
            "hosts_in_all": len(self._hosts),
            "distances": counts.sort_distances(),
            "similarities": {
                f"{step / _SIMILARITY_STEPS:.2f}": self._similarities[step]
                for step in sorted(self._similarities)
            },
            "mirrors": self._mirrors.list_largest(_MIRRORS_SHOWN),
            "over_time": self._describe_times(),
        }

    def _describe_times(self) -> list[dict[str, Any]]:
        """Count judged pages in equal steps of time; leaves out pages without a time."""
        if not self._times:
            return []
        times = np.array(self._times)
        first, last = times.min(), times.max()
        edges = np.linspace(first, max(last, first + 1), _TIME_STEPS + 1)
        pages = np.histogram(times, edges)[0]
        dropped = np.histogram(times, edges, weights=np.array(self._dropped))[0]
        dropped_bytes = np.histogram(times, edges, weights=np.array(self._bytes))[0]
        return [
            {
                "time": round(start, 3),
                "kept": count - int(drops),
                "dropped": int(drops),
                "dropped_bytes": int(octets),
            }
            for start, count, drops, octets in zip(
                edges[:-1].tolist(), pages.tolist(), dropped, dropped_bytes, strict=True
            )
        ]


class _Host:
    """Counts of the judged pages of one host, or of all hosts."""

    def __init__(self) -> None:
        self.judged = self.near_duplicates = self.dropped = self.dropped_bytes = 0

    def add(self, decision: Decision) -> None:
        self.judged += 1
        self.near_duplicates += decision.is_near_duplicate
        self.dropped += decision.is_dropped
        self.dropped_bytes += decision.unparsed_bytes


def find_host(url: str) -> str:
    """Find the host of a URL, with its port; "" if it has none."""
    parts = split_url(url)
    return parts.netloc.rpartition("@")[2].lower() if parts else ""


# Figure 2b of the paper.
BUCKETS = 128
_BUCKET_SHIFT = np.uint64(64 - 7)


def describe_fingerprints(fingerprints: NDArray[np.uint64]) -> dict[str, Any]:
    """Measure how evenly distinct, sorted fingerprints, shape (n,), are spread."""
    count = len(fingerprints)
    buckets = np.bincount((fingerprints >> _BUCKET_SHIFT).astype(np.int64), minlength=BUCKETS)
    return {
        "fingerprints": count,
        # Leading 1 of the XORs of neighbours, by position (Figure 2a); expected if evenly spread.
        "leading_ones": _count_leading_ones(fingerprints).tolist(),
        "leading_ones_expected": [round(float(share), 3) for share in _expect(count)],
        "buckets": buckets.tolist(),  # by the first 7 bits (Figure 2b)
    }


def _count_leading_ones(fingerprints: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Count the positions of the leading 1 of the XORs of neighbours; shape (64,)."""
    # A float's exponent is this position. With the second bit cleared, rounding cannot raise it.
    gaps = fingerprints[1:] ^ fingerprints[:-1]
    return np.bincount(np.frexp(gaps & ~(gaps >> np.uint64(1)))[1] - 1, minlength=64)


def _expect(count: int) -> NDArray[np.float64]:
    """Count the neighbours expected with their leading 1 at each position; shape (64,)."""
    # Neighbours differ first at position h if a prefix of 63 - h bits occurs with both a 0 and a 1
    # after it. There are 2**(63 - h) such prefixes. A fingerprint has a given one followed by a 0
    # with probability p = 2**-(64 - h), so 1 - 2 (1 - p)**n + (1 - 2p)**n of them occur with both.
    bits = 64 - np.arange(64.0)
    p = 2.0**-bits  # 1 - p is 1.0 for the smallest, hence the logarithms
    with np.errstate(divide="ignore"):  # log1p(-1) for h = 63: each begins with a 0 or a 1
        neither = np.expm1(max(1, count) * np.log1p(-2 * p))
    expected: NDArray[np.float64] = 2.0 ** (bits - 1) * (
        neither - 2 * np.expm1(max(1, count) * np.log1p(-p))
    )
    return expected
