"""Groups of near-duplicates in a report: the largest, the suspicious, and their differences."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

from scrapy_simhash._addresses import split_url
from scrapy_simhash._printable import show
from scrapy_simhash.inspection.difference import compare_side_by_side
from scrapy_simhash.judging.names import read_names
from scrapy_simhash.pages.kinds import LOGIN, SOFT_404, guess_kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from scrapy_simhash.detector.log import Decision
    from scrapy_simhash.inspection.report.figures import Figures
    from scrapy_simhash.judging import Rule, StoredDocument
    from scrapy_simhash.stores import Store


_GROUPS_SHOWN = 20
_PAGES_SHOWN = 20
_SUSPICIOUS_SHOWN = 20
_EXAMPLES_SHOWN = 5
# The number of groups whose original is looked up, and of pages of each.
_GROUPS_ASKED = 500
_PAGES_ASKED = 12
# A very large group has at least this number of near-duplicates, and this share of all.
_MANY = 20
_LARGE_SHARE = 0.05
# If pages have at least this share of different names, only their names tell them apart.
_LEAST_NAMES = 3
_LARGE_SHARE_OF_NAMES = 0.5
# Two standard errors of an estimated similarity (see `sketch`): the texts themselves may be less
# alike than SIMHASH_CONFIRM.
_EDGE_SIMILARITY = 0.036

TEMPLATE, STUB, LARGE, EDGE = "one template", "little text", "very large", "edge of the rule"
WALL = "wall"


class Group(NamedTuple):
    """An original with its near-duplicates."""

    url: str  # of the original; "" for bulk-loaded fingerprints
    near_duplicates: int
    pages: Sequence[Decision]  # the listed pages, each URL once
    original: StoredDocument | None  # as the store has it
    members: Sequence[StoredDocument]  # some of the pages as the store has them
    wall: bool = False  # addresses that have nothing in common lead to it

    @property
    def kind(self) -> str:
        """The kind of page, told by its name, or by its URL if the store has no name."""
        if self.original is not None:
            return guess_kind(self.original.title, self.original.heading)
        parts = split_url(self.url)
        path = unquote(parts.path) if parts else ""
        return guess_kind(path.replace("_", " ").replace("/", " "), "")

    def describe(self, pages_shown: int) -> dict[str, Any]:
        """Describe the group for a reader, ready for JSON."""
        distances = Counter(page.distance for page in self.pages if page.distance is not None)
        return {
            "url": self.url,
            "title": self.original.title if self.original else "",
            "kind": self.kind,
            "near_duplicates": self.near_duplicates,
            "distances": {str(bits): distances[bits] for bits in sorted(distances)},
            "pages": [
                {"url": page.url, "distance": page.distance, "similarity": page.similarity}
                for page in self.pages[:pages_shown]
            ],
        }


def collect_groups(figures: Figures, store: Store | None) -> list[Group]:
    """Collect the 500 largest groups, with the store's names of up to 12 pages of each."""
    wanted = [url for url, _ in figures.counts.groups.most_common(_GROUPS_ASKED)]
    pages: dict[str, dict[str, Decision]] = {url: {} for url in wanted}
    for decision in figures.near_duplicates:
        if (listed := pages.get(decision.match_url or "")) is not None:
            listed[decision.url] = decision
    return [
        Group(
            url,
            figures.counts.groups[url],
            sorted(pages[url].values(), key=lambda page: (page.distance or 0, page.url)),
            find_stored(store, figures.originals[url], url),
            [
                stored
                for page in list(pages[url].values())[:_PAGES_ASKED]
                if (stored := find_stored(store, page.document, page.url))
            ],
            url in figures.walls,
        )
        for url in wanted
    ]


def find_stored(store: Store | None, number: int, url: str) -> StoredDocument | None:
    """Get a page of a decision from the store, if the store still has the same page."""
    document = store.get_document(number) if store is not None and number else None
    return document if document is not None and document.url == url else None


def describe_largest(groups: Sequence[Group]) -> list[dict[str, Any]]:
    """Describe the largest groups, with up to 20 pages each."""
    return [group.describe(_PAGES_SHOWN) for group in groups[:_GROUPS_SHOWN]]


def find_suspicious(
    groups: Sequence[Group], near_duplicates: Sequence[Decision], rule: Rule
) -> list[dict[str, Any]]:
    """Find the groups worth checking, largest first; `kinds` says why."""
    total = sum(group.near_duplicates for group in groups)
    found: list[dict[str, Any]] = []
    for group in groups:
        kinds = list(_find_kinds(group, total))
        if kinds and len(found) < _SUSPICIOUS_SHOWN:
            found.append({"kinds": kinds, **group.describe(_EXAMPLES_SHOWN)})
    latest = {decision.url: decision for decision in near_duplicates}
    if edge := [decision for decision in latest.values() if _is_edge(decision, rule)]:
        edge.sort(key=by_similarity)  # one entry at the end, for all
        found.append({"kinds": [EDGE], **Group("", len(edge), edge, None, ()).describe(10)})
    return found


def _is_edge(decision: Decision, rule: Rule) -> bool:
    """Whether a slightly larger difference would have kept the page."""
    if decision.distance is not None and decision.distance >= rule.distance:
        return True
    if rule.confirm is None or decision.similarity is None:
        return False
    return decision.similarity < rule.confirm + _EDGE_SIMILARITY


def by_similarity(decision: Decision) -> tuple[float, int]:
    """Sort key of near-duplicates: least similar first, then largest distance."""
    similarity = 1.0 if decision.similarity is None else decision.similarity
    return similarity, -(decision.distance or 0)


def _find_kinds(group: Group, total: int) -> Iterator[str]:
    if group.kind:
        yield group.kind
    if group.wall:
        yield WALL
    if group.original is not None and group.original.stub and not group.original.file:
        yield STUB
    elif group.kind not in {SOFT_404, LOGIN} and _has_many_names(group):
        yield TEMPLATE
    if group.near_duplicates >= _MANY and group.near_duplicates >= _LARGE_SHARE * total:
        yield LARGE


def _has_many_names(group: Group) -> bool:
    """Whether the titles of near-duplicates name different things."""
    titles = [read_names(member.title, "")["title"] for member in group.members if member.title]
    names = set(titles)
    return len(names) >= max(_LEAST_NAMES, _LARGE_SHARE_OF_NAMES * len(titles))


def choose_telling(near_duplicates: Sequence[Decision], most_of_a_group: int) -> Iterator[Decision]:
    """Order near-duplicates (given oldest first): least similar first, then largest distance."""
    last = {decision.url: decision for decision in near_duplicates}
    taken: defaultdict[str | None, int] = defaultdict(int)
    for decision in sorted(last.values(), key=by_similarity):
        taken[decision.match_url] += 1
        if taken[decision.match_url] <= most_of_a_group:
            yield decision


MOST_PAIRS = 200
_MOST_OF_A_GROUP = 3
# The search ends after this number of consecutive pairs with equal texts, or changed pages.
_PATIENCE = 10_000


def compare_pairs(
    near_duplicates: Sequence[Decision], store: Store, progress: Callable[[int, int], object]
) -> list[dict[str, Any]]:
    """Compare the texts of up to 200 pairs, the most telling first."""
    pairs: list[dict[str, Any]] = []
    in_vain = 0
    # Pairs without texts are skipped, for instance if SIMHASH_KEEP_TEXT was set late.
    texts = store.read(lambda stored: stored.list_texts())
    comparable = [each for each in near_duplicates if {each.document, each.match_document} <= texts]
    for decision in choose_telling(comparable, _MOST_OF_A_GROUP):
        pair = _compare(decision, store)
        in_vain = 0 if pair else in_vain + 1
        if pair:
            pairs.append(pair)
            progress(len(pairs), MOST_PAIRS)
        if len(pairs) == MOST_PAIRS or in_vain > _PATIENCE:
            break
    return pairs


def _compare(decision: Decision, store: Store) -> dict[str, Any] | None:
    """Compare a pair; None if the store no longer has its texts, or if they are the same."""
    page = find_stored(store, decision.document, decision.url)
    original = find_stored(store, decision.match_document, decision.match_url or "")
    if page is None or original is None or page.original != original.document:
        return None
    if page.text is None or original.text is None or page.text == original.text:
        return None
    return {
        "first": {"url": show(original.url), "title": show(original.title)},
        "second": {"url": show(page.url), "title": show(page.title)},
        "distance": page.distance,
        "similarity": page.similarity,
        "tests": list(page.tests),
        "rows": compare_side_by_side(original.text, page.text),
    }
