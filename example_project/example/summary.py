"""What the crawl fetched, kept and dropped, in figures and in words."""

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Any

LARGEST = 10


@dataclass(frozen=True)
class Fetched:
    """A fetched page; document and variant are empty where no local site tells them."""

    url: str
    document: str
    variant: str


@dataclass(frozen=True)
class Drop:
    """A dropped page, the page it was judged to repeat, and the bits by which they differ."""

    page: Fetched
    match_url: str
    distance: int


class Summary:
    """Collects pages while the crawl runs.

    Args:
        documents: The distinct documents of the site; empty if nobody knows them.
    """

    def __init__(self, documents: frozenset[str]) -> None:
        self._documents = documents
        self._kept: dict[str, Fetched] = {}
        self._drops: list[Drop] = []
        self._statuses: Counter[str] = Counter()

    def keep(self, page: Fetched, verdict: dict[str, Any]) -> None:
        """Note a page that reached the spider."""
        self._kept[page.url] = page
        self._statuses[verdict.get("status", "not_judged")] += 1

    def drop(self, page: Fetched, verdict: dict[str, Any]) -> None:
        """Note a page that did not."""
        self._drops.append(Drop(page, verdict["match_url"], verdict["distance"]))

    def as_dict(self, requests: int) -> dict[str, Any]:
        """The figures; those about documents only for the local site."""
        figures: dict[str, Any] = {
            "requests": requests,
            "fetched": len(self._kept) + len(self._drops),
            "kept": len(self._kept),
            "dropped": len(self._drops),
            "statuses": dict(self._statuses),
            "distances": dict(sorted(Counter(drop.distance for drop in self._drops).items())),
        }
        if not self._documents:
            return figures
        kept = {page.document for page in self._kept.values()}
        reached = kept | {drop.page.document for drop in self._drops}
        return figures | {
            "documents": len(self._documents),
            "documents_reached": len(reached & self._documents),
            "documents_kept": len(kept & self._documents),
            "documents_lost": sorted(self._documents - kept),
            "kept_by_variant": dict(Counter(page.variant for page in self._kept.values())),
            "dropped_by_variant": dict(Counter(drop.page.variant for drop in self._drops)),
            "dropped_for_another_document": self._strays(),
        }

    def as_text(self, requests: int, reason: str) -> str:
        """The summary that is printed."""
        figures = self.as_dict(requests)
        known = f"{self._statuses['revisit']} of them known from an earlier crawl"
        flagged = f"{self._statuses['near_duplicate']} near-duplicates kept"
        lines = [
            "",
            f"Crawl {reason}: {requests} requests, {figures['fetched']} pages fetched",
            f"  kept     {figures['kept']:5}   ({known}, {flagged})",
            f"  dropped  {figures['dropped']:5}   near-duplicates",
        ]
        if self._documents:
            lines += self._document_lines(figures)
        if self._drops:
            lines += self._group_lines()
        return "\n".join([*lines, ""])

    def _document_lines(self, figures: dict[str, Any]) -> list[str]:
        strays = figures["dropped_for_another_document"]
        lost = figures["documents_lost"]
        kept, dropped = figures["kept_by_variant"], figures["dropped_by_variant"]
        kinds = (
            f"{kind} {dropped.get(kind, 0)} of {kept.get(kind, 0) + dropped.get(kind, 0)}"
            for kind in sorted(kept | dropped)
        )
        return [
            "",
            f"Distinct documents on the site: {figures['documents']}",
            f"  reached  {figures['documents_reached']:5}",
            f"  kept     {figures['documents_kept']:5}",
            f"  lost     {len(lost):5}   {' '.join(lost)}".rstrip(),
            "",
            f"Dropped, by kind of page: {', '.join(kinds)}",
            f"Dropped for a page of another document: {len(strays)}",
            *(f"  {url} for {match} at distance {bits}" for url, match, bits in strays),
        ]

    def _group_lines(self) -> list[str]:
        groups: dict[str, list[Drop]] = defaultdict(list)
        for drop in self._drops:
            groups[drop.match_url].append(drop)
        largest = sorted(groups.items(), key=lambda group: (-len(group[1]), group[0]))[:LARGEST]
        rows = [
            f"{len(drops):6}  {_counts(Counter(drop.distance for drop in drops)):30}  {url}"
            for url, drops in largest
        ]
        return [
            "",
            f"The {len(rows)} pages with most duplicates, of {len(groups)}:",
            " drops  distances                       page",
            *rows,
        ]

    def _strays(self) -> list[tuple[str, str, int]]:
        """Drops for a page whose document is a different one, as far as this crawl knows."""
        pages = [*self._kept.values(), *(drop.page for drop in self._drops)]
        documents = {page.url: page.document for page in pages}
        return [
            (drop.page.url, drop.match_url, drop.distance)
            for drop in self._drops
            if documents.get(drop.match_url, drop.page.document) != drop.page.document
        ]


def _counts(counts: dict[Any, int]) -> str:
    """For instance `0: 12, 1: 3`."""
    return ", ".join(f"{key}: {count}" for key, count in sorted(counts.items()))
