"""The figures of a report: decisions counted one by one, and the groups of near-duplicates."""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict, deque
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from scrapy_simhash._printable import mask_passwords, show
from scrapy_simhash.inspection.difference import compare_side_by_side
from scrapy_simhash.inspection.log import Counts, sort_counts
from scrapy_simhash.pages.addresses import MOSTLY_NEW, split_url
from scrapy_simhash.stores.keyvalues import cut

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from scrapy_simhash.detector.log import Decision
    from scrapy_simhash.judging.documents import StoredDocument
    from scrapy_simhash.judging.rule import Rule
    from scrapy_simhash.stores.store import Store

# Only the newest near-duplicates are kept in memory one by one; all are counted.
MOST_LISTED = 200_000
_HOSTS_SHOWN = 50
# A crawl that dropped such a share of its pages may have met but one page.
_LEAST_PAGES, _NEARLY_ALL = 10, 0.9
# Steps between the times of the first and the last page.
_TIME_STEPS = 48
_SIMILARITY_STEPS = 50


class Figures(Counts):
    """Counts the decisions of a report; memory grows with hosts and folders."""

    def __init__(self) -> None:
        super().__init__()
        self.damaged = 0
        self.near_duplicates: deque[Decision] = deque(maxlen=MOST_LISTED)  # oldest first
        self.originals: dict[str, int] = {}  # numbers in their store by URL; 0 for none
        self.without_bytes = 0  # dropped pages of unknown size
        # By the URL of a wall, how many pages showed it after it was recognised.
        self.walls: Counter[str] = Counter()
        self._similarities: Counter[int] = Counter()
        self._hosts: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._judged_of: Counter[str] = Counter()  # pages by crawl
        self._dropped_of: Counter[str] = Counter()
        self._fingerprints: set[int] = set()
        self._times, self._dropped, self._bytes = array("d"), array("b"), array("q")
        self._links = 0

    def add(self, decision: Decision) -> None:
        """Count a decision."""
        super().add(decision)
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
        host = self._hosts[find_host(decision.url)]
        host["judged"] += 1
        host["near_duplicates"] += decision.is_near_duplicate
        host["dropped"] += decision.is_dropped
        host["dropped_bytes"] += decision.unparsed_bytes
        self._judged_of[decision.crawl] += 1
        self._dropped_of[decision.crawl] += decision.is_dropped
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

    @property
    def would_drop(self) -> int:
        """Number of flagged pages, where none was dropped: what dropping would have dropped."""
        return 0 if self._dropped_of.total() else self.actions["flag"]

    @property
    def fingerprints(self) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
        """Distinct fingerprints of pages that are not near-duplicates, sorted; shape (n,)."""
        return np.array(sorted(self._fingerprints), np.uint64)

    def describe(self) -> dict[str, Any]:
        """Return all figures except those of single groups, ready for JSON."""
        total = sum(self._hosts.values(), Counter[str]())
        crawls = Counter({name: crawl["pages"] for name, crawl in self.crawls.items()})
        hosts = sorted(self._hosts.items(), key=lambda item: (-item[1]["judged"], item[0]))
        return {
            "first_time": min(self._times, default=None),
            "last_time": max(self._times, default=None),
            "crawls": dict(crawls.most_common()),
            "nearly_all_dropped": [
                {"crawl": crawl, "judged": judged, "dropped": self._dropped_of[crawl]}
                for crawl, judged in self._judged_of.items()
                if judged >= _LEAST_PAGES and self._dropped_of[crawl] >= _NEARLY_ALL * judged
            ],
            "pages": self.pages,
            "not_judged": self.pages - total["judged"],
            "judged": total["judged"],
            "kept": total["judged"] - total["dropped"],
            "near_duplicates": total["near_duplicates"],
            "near_duplicates_kept": total["near_duplicates"] - total["dropped"] - self.would_drop,
            "dropped": total["dropped"],
            "would_be_dropped": self.would_drop,
            "dropped_bytes": total["dropped_bytes"],
            "links_not_followed": self._links,
            "walls": len(self.walls),
            "wall_pages": self.walls.total(),
            "originals": len(self.groups),
            "statuses": dict(self.statuses.most_common()),
            "hosts": [{"host": name, **host} for name, host in hosts[:_HOSTS_SHOWN]],
            "hosts_in_all": len(self._hosts),
            "distances": sort_counts(self.distances),
            "similarities": {
                f"{step / _SIMILARITY_STEPS:.2f}": self._similarities[step]
                for step in sorted(self._similarities)
            },
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


def find_host(url: str) -> str:
    """Return the host of a URL, with its port, or "" if it has none."""
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


_GROUPS_SHOWN = 20
_PAGES_SHOWN = 20
_SUSPICIOUS_SHOWN = 20
_EXAMPLES_SHOWN = 5
# The number of groups whose original is looked up.
_GROUPS_ASKED = 500
# A very large group has at least this number of near-duplicates, and this share of all.
_MANY = 20
_LEAST_REPEATED = 3
_RECORDS_AT_A_TIME = 1_000
_LARGE_SHARE = 0.05
# Two standard errors of a similarity of .9 that 256 samples estimate.
_EDGE_SIMILARITY = 0.038

STUB, LARGE, EDGE = "little text", "most repeated", "least alike"
WALL, LINKS = "wall", "new links"


class Group(NamedTuple):
    """An original with its near-duplicates."""

    url: str  # of the original; "" for bulk-loaded fingerprints
    near_duplicates: int
    pages: Sequence[Decision]  # the listed pages, each URL once
    original: StoredDocument | None = None  # as the store has it
    wall: bool = False  # addresses that have nothing in common lead to it

    def describe(self, pages_shown: int) -> dict[str, Any]:
        """Describe the group for a reader, ready for JSON."""
        distances = Counter(page.distance for page in self.pages if page.distance is not None)
        return {
            "url": self.url,
            "title": self.original.title if self.original else "",
            "near_duplicates": self.near_duplicates,
            "distances": sort_counts(distances),
            "pages": [
                {"url": page.url, "distance": page.distance, "similarity": page.similarity}
                for page in self.pages[:pages_shown]
            ],
        }

    def find_kinds(self, total: int, *, largest: bool) -> Iterator[str]:
        """Find why the group is worth checking; `total` counts the near-duplicates of all."""
        if self.wall:
            yield WALL
        if self.original is not None and self.original.stub and not self.original.file:
            yield STUB
        least = _LEAST_REPEATED if largest else max(_MANY, _LARGE_SHARE * total)
        if self.near_duplicates >= least:
            yield LARGE


def _list_lost_links(figures: Figures) -> list[Decision]:
    """List dropped pages with mostly links that their originals lack, most of them first."""
    found = [
        drop
        for drop in figures.near_duplicates
        if (drop.links_not_followed or (figures.would_drop and drop.action == "flag"))
        and (drop.new_links or 0) >= MOSTLY_NEW
        and not drop.sink
    ]
    return sorted(found, key=lambda drop: (-(drop.new_links or 0) * drop.links, drop.url))


def describe_groups(figures: Figures, store: Store | None, rule: Rule) -> dict[str, Any]:
    """Describe the largest groups, and what to look at first, `suspicious`; `kinds` says why."""
    groups = _collect_groups(figures, store)
    total = sum(group.near_duplicates for group in groups)
    suspicious: list[dict[str, Any]] = []
    if lost := _list_lost_links(figures):
        entry = Group("", len(lost), lost).describe(_PAGES_SHOWN)
        suspicious.append({"kinds": [LINKS], **entry})
    for group in groups:
        kinds = list(group.find_kinds(total, largest=group is groups[0]))
        if kinds and len(suspicious) < _SUSPICIOUS_SHOWN:
            suspicious.append({"kinds": kinds, **group.describe(_EXAMPLES_SHOWN)})
    latest = {decision.url: decision for decision in figures.near_duplicates}
    if edge := [decision for decision in latest.values() if _is_edge(decision, rule)]:
        edge.sort(key=by_similarity)  # one entry at the end, for all
        suspicious.append({"kinds": [EDGE], **Group("", len(edge), edge).describe(_PAGES_SHOWN)})
    return {
        "without_items": _count_without_items(figures, store),
        "suspicious": suspicious,
        "groups": [group.describe(_PAGES_SHOWN) for group in groups[:_GROUPS_SHOWN]],
    }


def _count_without_items(figures: Figures, store: Store | None) -> int:
    """Count the near-duplicates of documents of which no item came through."""
    found = 0
    for some in cut(figures.originals.items(), _RECORDS_AT_A_TIME):
        pages = store.get_documents([number for _, number in some if number]) if store else []
        bare = {mask_passwords(page.url) for page in pages if page.without_items}
        found += sum(figures.groups[url] for url, _ in some if mask_passwords(url) in bare)
    return found


def _collect_groups(figures: Figures, store: Store | None) -> list[Group]:
    """Collect the 500 largest groups, with their originals as the store has them."""
    wanted = dict(figures.groups.most_common(_GROUPS_ASKED))
    pages: dict[str, dict[str, Decision]] = {url: {} for url in wanted}
    for decision in figures.near_duplicates:
        if (listed := pages.get(decision.match_url or "")) is not None:
            listed[decision.url] = decision
    return [
        Group(
            url,
            near_duplicates,
            sorted(pages[url].values(), key=lambda page: (page.distance or 0, page.url)),
            find_stored(store, figures.originals[url], url),
            url in figures.walls,
        )
        for url, near_duplicates in wanted.items()
    ]


def find_stored(store: Store | None, number: int, url: str) -> StoredDocument | None:
    """Return the page of a decision, or None if the store no longer has the same page."""
    document = store.get_document(number) if store is not None and number else None
    # A log has no passwords.
    same = document is not None and mask_passwords(document.url) == mask_passwords(url)
    return document if same else None


def _is_edge(decision: Decision, rule: Rule) -> bool:
    """Whether the texts are less alike than SIMHASH_CONFIRM, or what decided was hardly enough."""
    if rule.confirm is None or decision.similarity is None:
        return decision.distance is not None and decision.distance >= rule.distance
    alike = decision.similarity
    if decision.evidence is not None and "content agrees" in decision.tests:
        alike = min(alike, decision.evidence.agreed_within)
    return alike < rule.confirm + _EDGE_SIMILARITY


def by_similarity(decision: Decision) -> tuple[float, int]:
    """Sort key of near-duplicates: least similar first, then largest distance."""
    similarity = 1.0 if decision.similarity is None else decision.similarity
    return similarity, -(decision.distance or 0)


MOST_PAIRS = 200
_MOST_OF_A_GROUP = 3
# The search ends after this number of consecutive pairs with equal texts, or changed pages.
_PATIENCE = 10_000


def compare_pairs(
    near_duplicates: Sequence[Decision], store: Store, progress: Callable[[int, int], object]
) -> list[dict[str, Any]]:
    """Compare the texts of up to 200 pairs, at most three of a group, the least similar first."""
    latest = {one.url: one for one in near_duplicates}
    pairs: list[dict[str, Any]] = []
    of_group: Counter[str | None] = Counter()
    in_vain = 0
    for decision in sorted(latest.values(), key=by_similarity):
        of_group[decision.match_url] += 1
        if of_group[decision.match_url] > _MOST_OF_A_GROUP:
            continue
        pair = _compare(decision, store)
        in_vain = 0 if pair else in_vain + 1
        if pair:
            pairs.append(pair)
            progress(len(pairs), MOST_PAIRS)
        if len(pairs) == MOST_PAIRS or in_vain > _PATIENCE:
            break
    return pairs


def _compare(decision: Decision, store: Store) -> dict[str, Any] | None:
    """Compare a pair; return None if its texts are gone from the store, or equal."""
    page = find_stored(store, decision.document, decision.url)
    original = find_stored(store, decision.match_document, decision.match_url or "")
    if page is None or original is None or page.original != original.document:
        return None
    first, second = original.wording, page.wording
    if first is None or second is None or first == second:
        return None
    return {
        "first": {"url": show(original.url), "title": show(original.title)},
        "second": {"url": show(page.url), "title": show(page.title)},
        "distance": page.distance,
        "similarity": page.similarity,
        "tests": list(page.tests),
        "own_words": decision.own_words,
        "match_own_words": decision.match_own_words,
        "rows": compare_side_by_side(str(first), str(second)),
    }
