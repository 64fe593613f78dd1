"""Groups of near-duplicates in a report: the largest, and those that want to be looked at."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote, urlsplit

from scrapy_simhash.confirm import name_words
from scrapy_simhash.kinds import LOGIN, SOFT_404, guess_kind

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from scrapy_simhash.report_figures import Figures
    from scrapy_simhash.report_input import Decision
    from scrapy_simhash.stored import StoredDocument
    from scrapy_simhash.stores import Store

_GROUPS_SHOWN = 20
_PAGES_SHOWN = 20
_SUSPICIOUS_SHOWN = 20
_EXAMPLES_SHOWN = 5
# Groups whose original is looked up, and pages of each of them.
_GROUPS_ASKED = 500
_PAGES_ASKED = 12
# A group is very large with so many near-duplicates that are such a share of all.
_MANY = 20
_LARGE_SHARE = 0.05
# Pages with as many names as this share of them are told apart by their names only.
_LEAST_NAMES = 3
_LARGE_SHARE_OF_NAMES = 0.5
# Two standard errors of an estimated similarity (see `sketch`): the texts themselves may be less
# alike than SIMHASH_CONFIRM.
_EDGE_SIMILARITY = 0.036

TEMPLATE, STUB, LARGE, EDGE = "one template", "little text", "very large", "edge of the rule"


class Rule(NamedTuple):
    """The settings by which a drop is at the edge.

    Attributes:
        distance: SIMHASH_DISTANCE, in bits.
        confirm: SIMHASH_CONFIRM, 0 to 1, or None.
    """

    distance: int
    confirm: float | None

    def is_edge(self, decision: Decision) -> bool:
        """Say whether a little more of a difference would have kept a page."""
        if decision.distance is not None and decision.distance >= self.distance:
            return True
        if self.confirm is None or decision.similarity is None:
            return False
        return decision.similarity < self.confirm + _EDGE_SIMILARITY


class Group(NamedTuple):
    """An original with its near-duplicates.

    Attributes:
        url: of the original; "" for bulk-loaded fingerprints.
        near_duplicates: how many pages there are of them.
        pages: those of them that are listed, by address, each once.
        original: as the store has it, or None.
        members: some of the pages as the store has them.
    """

    url: str
    near_duplicates: int
    pages: Sequence[Decision]
    original: StoredDocument | None
    members: Sequence[StoredDocument]

    @property
    def kind(self) -> str:
        """What the pages are by name, or by address where the store has no name."""
        if self.original is not None:
            return guess_kind(self.original.title, self.original.heading)
        return guess_kind(_words_of(self.url), "")

    def describe(self, pages_shown: int) -> dict[str, Any]:
        """Give what a reader wants to know, ready for JSON."""
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


def _words_of(url: str) -> str:
    try:
        return unquote(urlsplit(url).path).replace("_", " ").replace("/", " ")
    except ValueError:  # such as an invalid IPv6 address
        return ""


def collect_groups(figures: Figures, store: Store | None) -> list[Group]:
    """Collect the 500 largest groups.

    Args:
        figures: of all decisions.
        store: asked for the names of originals and of up to 12 pages of each; or None.
    """
    wanted = [url for url, _ in figures.groups.most_common(_GROUPS_ASKED)]
    pages: dict[str, dict[str, Decision]] = {url: {} for url in wanted}
    for decision in figures.near_duplicates:
        if (listed := pages.get(decision.match_url or "")) is not None:
            listed[decision.url] = decision
    return [
        Group(
            url,
            figures.groups[url],
            sorted(pages[url].values(), key=lambda page: (page.distance or 0, page.url)),
            find_stored(store, figures.originals[url], url),
            [
                stored
                for page in list(pages[url].values())[:_PAGES_ASKED]
                if (stored := find_stored(store, page.document, page.url))
            ],
        )
        for url in wanted
    ]


def find_stored(store: Store | None, number: int, url: str) -> StoredDocument | None:
    """Get a page of a decision from the store, if it is still the same page there."""
    document = store.get_document(number) if store is not None and number else None
    return document if document is not None and document.url == url else None


def describe_largest(groups: Sequence[Group]) -> list[dict[str, Any]]:
    """Describe the largest groups, with up to 20 pages each."""
    return [group.describe(_PAGES_SHOWN) for group in groups[:_GROUPS_SHOWN]]


def find_suspicious(
    groups: Sequence[Group], near_duplicates: Sequence[Decision], rule: Rule
) -> list[dict[str, Any]]:
    """Find the groups that want to be looked at, and say why.

    Args:
        groups: largest first.
        near_duplicates: all that are listed.
        rule: in force.

    Returns:
        Largest first: `kinds`, why each is suspicious, and what `Group.describe` says. Drops at the
        edge of the rule stand together, as one entry at the end, with `url` "".
    """
    total = sum(group.near_duplicates for group in groups)
    found: list[dict[str, Any]] = []
    for group in groups:
        kinds = list(_find_kinds(group, total))
        if kinds and len(found) < _SUSPICIOUS_SHOWN:
            found.append({"kinds": kinds, **group.describe(_EXAMPLES_SHOWN)})
    latest = {decision.url: decision for decision in near_duplicates}
    if edge := [decision for decision in latest.values() if rule.is_edge(decision)]:
        edge.sort(key=by_similarity)
        found.append({"kinds": [EDGE], **Group("", len(edge), edge, None, ()).describe(10)})
    return found


def by_similarity(decision: Decision) -> tuple[float, int]:
    """Sort near-duplicates by how much there is to see: least alike first, then farthest."""
    similarity = 1.0 if decision.similarity is None else decision.similarity
    return similarity, -(decision.distance or 0)


def _find_kinds(group: Group, total: int) -> Iterator[str]:
    if group.kind:
        yield group.kind
    if group.original is not None and group.original.stub:
        yield STUB
    elif group.kind not in {SOFT_404, LOGIN} and _has_many_names(group):
        yield TEMPLATE
    if group.near_duplicates >= _MANY and group.near_duplicates >= _LARGE_SHARE * total:
        yield LARGE


def _has_many_names(group: Group) -> bool:
    """Say whether the titles of near-duplicates name different things."""
    titles = [name_words("title", member.title) for member in group.members if member.title]
    names = set(titles)
    return len(names) >= max(_LEAST_NAMES, _LARGE_SHARE_OF_NAMES * len(titles))


def choose_telling(near_duplicates: Sequence[Decision], most_of_a_group: int) -> Iterator[Decision]:
    """Give near-duplicates in the order in which they are worth a look.

    Least alike first, then largest distance; of a group only a few, and each address once.

    Args:
        near_duplicates: oldest first.
        most_of_a_group: pages.
    """
    last = {decision.url: decision for decision in near_duplicates}
    taken: defaultdict[str | None, int] = defaultdict(int)
    for decision in sorted(last.values(), key=by_similarity):
        taken[decision.match_url] += 1
        if taken[decision.match_url] <= most_of_a_group:
            yield decision
