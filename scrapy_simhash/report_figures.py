"""The figures of a report: pages, hosts, distances and groups, counted decision by decision."""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict, deque
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import numpy as np

from scrapy_simhash.mirrors import Mirrors

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy_simhash.report_input import Decision

# Near-duplicates that are kept in memory one by one, the newest; all are counted.
MOST_LISTED = 200_000
_HOSTS_SHOWN = 50
_MIRRORS_SHOWN = 30
# Of the time between first and last page.
_TIME_STEPS = 48
_SIMILARITY_STEPS = 50


class Figures:
    """Counts decisions.

    Attributes:
        pages: decisions, those on pages that were not judged included.
        damaged: lines that are none.
        near_duplicates: the newest 200,000 of them, oldest first.
        groups: near-duplicates by the address of their original, "" for bulk-loaded fingerprints;
            a page that was one in several crawls counts once.
        originals: numbers of the originals in their store, by address; 0 where there is none.
        without_bytes: dropped pages of which nobody noted how large they were.
    """

    def __init__(self) -> None:
        self.pages = 0
        self.damaged = 0
        self.near_duplicates: deque[Decision] = deque(maxlen=MOST_LISTED)
        self.groups: Counter[str] = Counter()
        # Hashes of page and original: the addresses would take several times the memory.
        self._grouped: set[int] = set()
        self.originals: dict[str, int] = {}
        self.without_bytes = 0
        self._statuses: Counter[str] = Counter()
        self._crawls: Counter[str] = Counter()
        self._distances: Counter[int] = Counter()
        self._similarities: Counter[int] = Counter()
        self._hosts: defaultdict[str, _Host] = defaultdict(_Host)
        self._mirrors = Mirrors()
        self._fingerprints: set[int] = set()
        self._times, self._dropped, self._bytes = array("d"), array("b"), array("q")
        self._total = _Host()
        self._links = 0

    def add_all(self, decisions: Iterable[Decision | None]) -> None:
        """Count decisions; None for a damaged line."""
        for decision in decisions:
            if decision is None:
                self.damaged += 1
            else:
                self._add(decision)

    def _add(self, decision: Decision) -> None:
        self.pages += 1
        reason = f" ({decision.reason})" if decision.reason else ""
        self._statuses[f"{decision.status}{reason}"] += 1
        self._crawls[decision.crawl] += 1
        if decision.is_judged:
            self._add_judged(decision)
        if decision.is_near_duplicate:
            self._add_near_duplicate(decision)
        elif decision.fingerprint:
            self._note_fingerprint(decision.fingerprint)

    def _add_judged(self, decision: Decision) -> None:
        for counted in (self._total, self._hosts[find_host(decision.url)]):
            counted.add(decision)
        self._mirrors.add_page(decision.url)
        if decision.time > 0:
            self._times.append(decision.time)
            self._dropped.append(decision.is_dropped)
            self._bytes.append(decision.unparsed_bytes)

    def _add_near_duplicate(self, decision: Decision) -> None:
        original = decision.match_url or ""
        self.near_duplicates.append(decision)
        if (grouped := hash((decision.url, original))) not in self._grouped:
            self._grouped.add(grouped)
            self.groups[original] += 1
        self.originals[original] = decision.match_document
        self.without_bytes += decision.is_unparsed and decision.body_bytes is None
        self._links += decision.links_not_followed
        if decision.distance is not None:
            self._distances[decision.distance] += 1
        if decision.similarity is not None:
            self._similarities[int(decision.similarity * _SIMILARITY_STEPS)] += 1
        if original:
            self._mirrors.add_near_duplicate(decision.url, original)

    def _note_fingerprint(self, digits: str) -> None:
        try:
            self._fingerprints.add(int(digits, 16) % 2**64)
        except ValueError:
            self.damaged += 1

    @property
    def fingerprints(self) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
        """Those of the pages that are no near-duplicates: sorted, each once; shape (n,)."""
        return np.array(sorted(self._fingerprints), np.uint64)

    def describe(self) -> dict[str, Any]:
        """Give all figures but those of single groups, ready for JSON."""
        total = self._total
        return {
            "first_time": min(self._times, default=None),
            "last_time": max(self._times, default=None),
            "crawls": dict(self._crawls.most_common()),
            "pages": self.pages,
            "unjudged": self.pages - total.judged,
            "judged": total.judged,
            "kept": total.judged - total.dropped,
            "near_duplicates": total.near_duplicates,
            "near_duplicates_kept": total.near_duplicates - total.dropped,
            "dropped": total.dropped,
            "dropped_bytes": total.dropped_bytes,
            "links_not_followed": self._links,
            "originals": len(self.groups),
            "statuses": dict(self._statuses.most_common()),
            "hosts": self._describe_hosts(),
            "hosts_in_all": len(self._hosts),
            "distances": {str(bits): self._distances[bits] for bits in sorted(self._distances)},
            "similarities": {
                f"{step / _SIMILARITY_STEPS:.2f}": self._similarities[step]
                for step in sorted(self._similarities)
            },
            "mirrors": self._mirrors.list_largest(_MIRRORS_SHOWN),
            "over_time": self._describe_times(),
        }

    def _describe_hosts(self) -> list[dict[str, Any]]:
        largest = sorted(self._hosts.items(), key=lambda item: (-item[1].judged, item[0]))
        return [
            {
                "host": name,
                "judged": host.judged,
                "near_duplicates": host.near_duplicates,
                "dropped": host.dropped,
                "dropped_bytes": host.dropped_bytes,
            }
            for name, host in largest[:_HOSTS_SHOWN]
        ]

    def _describe_times(self) -> list[dict[str, Any]]:
        """Count judged pages by equal steps of time, as far as it was noted."""
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
    """Counts of the judged pages of a host, or of all."""

    def __init__(self) -> None:
        self.judged = self.near_duplicates = self.dropped = self.dropped_bytes = 0

    def add(self, decision: Decision) -> None:
        self.judged += 1
        self.near_duplicates += decision.is_near_duplicate
        self.dropped += decision.is_dropped
        self.dropped_bytes += decision.unparsed_bytes


def find_host(url: str) -> str:
    """Find the host of an address, with its port; "" where there is none."""
    try:
        return urlsplit(url).netloc.rpartition("@")[2].lower()
    except ValueError:  # such as an invalid IPv6 address
        return ""
