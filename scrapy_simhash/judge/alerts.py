"""Alerts: what a person should look at; the end of a crawl and its report name the same.

That is what speaks against near-duplicates; and kept pages that look like another one: what changes
by itself, such as a counter, makes another page of each copy.
"""

from __future__ import annotations

import re
from collections import Counter, OrderedDict
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy_simhash._printable import plural, quote
from scrapy_simhash.judge.scopes import find_site
from scrapy_simhash.judging.evidence import Relation
from scrapy_simhash.pages.addresses import find_parameter, host_of, last_name_of
from scrapy_simhash.pages.links import MOSTLY_NEW

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sized

    from scrapy_simhash.judge.log import Decision

# In the example crawl 1 of 266 near-duplicates is less alike, and none is wrong.
_LEAST_ALIKE = 0.7
# Of one page with another title, translations are two or three.
_SEVERAL = 4
_EXAMPLES = 3
_MOST_REMEMBERED = 10_000  # originals, or sites
_MOST_LISTED, _MOST_KINDS_LISTED = 5, 10
_MOST_TOLD = 2
_LONGEST_TITLE = 30
# Those that begin with the same words are counted together, whatever their numbers.
_WORDS_OF_KIND = 2
_MOST_KINDS = 1_000  # pages of others are counted only
_NUMBER = re.compile(r"\d+")


class Alert(StrEnum):
    """What speaks against a near-duplicate, in words for people."""

    BECAME_ONE = "that all show one text now,"
    UNLIKE = "at unlike addresses"
    TITLES = "with other titles"
    SITE = "of another site"
    SESSION = "that differ in a parameter only"
    UNALIKE = f"less than {100 * _LEAST_ALIKE:.0f} % alike"


# Before what a alert is about; else it is a page that is repeated.
BEFORE = {Alert.SITE: ":", Alert.SESSION: ":"}
# Only so many pages that repeat one are told.
_LEAST = dict.fromkeys((Alert.BECAME_ONE, Alert.TITLES), _SEVERAL)
# Of a crawl in which those of a session are a smaller share of the near-duplicates, or fewer,
# nothing is said of them.
_MANY, _SHARE_OF_SESSION = 10, 0.5


def list_alerts(decision: Decision, *, wall: bool = False) -> Iterator[tuple[Alert, str]]:
    """List what speaks against a near-duplicate, each with the page or site that it is about.

    `wall` is whether its original is one, see `Walls`.
    """
    original, evidence = decision.match_url or "", decision.evidence
    if wall:
        yield Alert.UNLIKE, original
    if evidence is not None and Relation.DIFFER in (evidence.title, evidence.heading):
        yield Alert.TITLES, original
    if original and (site := _find_other_site(decision.url, original)):
        yield Alert.SITE, site
    if original and (name := find_parameter(decision.url, original)):
        yield Alert.SESSION, name
    if decision.similarity is not None and decision.similarity < _LEAST_ALIKE:
        yield Alert.UNALIKE, ""


def _find_other_site(url: str, original: str) -> str:
    """Return the site of a page's original, or "" if both are of one."""
    end_of_host = original.find("/", len("https://")) + 1
    if end_of_host and url.startswith(original[:end_of_host]):  # nearly always
        return ""
    own, other = find_site(host_of(url)), find_site(host_of(original))
    return other if other != own else ""


class Examples:
    """A count with its first examples."""

    def __init__(self) -> None:
        self.pages = 0
        self.examples: list[str] = []

    def add(self, url: str, most: int = _EXAMPLES) -> None:
        """Count a page, and keep its address if it is among the first."""
        self.pages += 1
        if len(self.examples) < most:
            self.examples.append(url)

    def describe(self) -> dict[str, Any]:
        """Return both, ready for JSON."""
        return {"pages": self.pages, "examples": self.examples}


def _find(found: dict[str, Examples], about: str) -> Examples:
    """Find the examples of a page or site; those beyond the first 10,000 are not remembered."""
    if about in found or len(found) < _MOST_REMEMBERED:
        return found.setdefault(about, Examples())
    return Examples()


class Alerts:
    """Counts near-duplicates that may be wrong, by what speaks against them, with some examples."""

    def __init__(self, examples: int = _EXAMPLES) -> None:
        self._examples = examples
        self._walls = Walls()
        self._pages = 0
        self._found: dict[Alert, dict[str, Examples]] = {alert: {} for alert in Alert}
        self._repeated: dict[str, Examples] = {}  # those of each original
        self._changed: dict[str, str] = {}  # the first page with a new text, by that
        self._known: Counter[str] = Counter()  # pages that changed, by the first with their text

    def add(self, decision: Decision) -> None:
        """Count a near-duplicate, unless it is kept for somebody else, or a page that changed."""
        text, changed = decision.text, decision.reason == "changed"
        if text and changed and len(self._changed) < _MOST_REMEMBERED:
            self._changed.setdefault(text, decision.url)
        first = self._changed.get(text, "")
        # What is new with that text was dropped for another page before, or not met.
        if first and (changed or decision.status == "new" or not decision.reason):
            _find(self._found[Alert.BECAME_ONE], first).add(decision.url, self._examples)
            self._known[first] += changed
        # What known pages show now is told of these.
        wall = self._walls.is_shown(decision) and not first
        if decision.status != "near_duplicate" or decision.reason:
            return
        self._pages += 1
        repeated = _find(self._repeated, decision.match_url or "")
        repeated.add(decision.url, self._examples)
        for alert, about in list_alerts(decision, wall=wall):
            if alert is Alert.UNLIKE:  # the first ones did not show it
                self._found[alert].setdefault(about, repeated)
            found = _find(self._found[alert], about)
            if found is not repeated:
                found.add(decision.url, self._examples)

    def list_idle(self) -> set[str]:
        """List the parameters that make no difference, such as those of sessions."""
        found = self._found[Alert.SESSION].items()
        return {name for name, pages in found if pages.pages > _MANY}

    def list_told(self) -> Iterator[tuple[Alert, str, Examples]]:
        """List what has to be told, of each alert the pages and sites with most first."""
        for alert in Alert:
            for about, found in self._rank(alert)[:_MOST_LISTED]:
                yield alert, about, found

    def describe(self) -> str:
        """Describe what speaks against most; "" if nothing does."""
        told = []
        found = [(alert, ranked) for alert in Alert if (ranked := self._rank(alert))]
        for alert, ranked in found[:_MOST_TOLD]:
            about, others = ranked[0][0], " and others" * (len(ranked) > 1)
            pages = plural(sum(found.pages for _, found in ranked), "page")
            about = f"{quote(about)}{others}" * bool(about)
            before = BEFORE.get(alert, " repeating") + " " if about else ""
            urls = " (scrapy simhash urls)" * (alert is Alert.SESSION)
            said = alert.replace("one text", _count_texts(ranked))
            told.append(f"{pages} {said}{before}{about}{urls}")
        return "; ".join(told)

    def describe_walls(self, titles: Mapping[str, str]) -> str:
        """Describe how many pages showed one text instead of their own; "" if none did."""
        walls = self._rank(Alert.BECAME_ONE) + self._rank(Alert.UNLIKE)
        if not walls:
            return ""
        pages = sum(found.pages for _, found in walls)
        known = sum(self._known[wall] for wall, _ in walls)
        first, them = walls[0][0], "them" if len(walls) == 1 else "those of its main text and title"
        shown = f"{plural(pages, 'page')} showed {_count_texts(walls)}{_show_title(titles, first)}"
        before = f", {known:,} of which had another before" * bool(known)
        undo = f"scrapy simhash undo --dry-run --original {quote(first)}"
        return f"{shown}{before}; what may be behind it was not fetched ({undo} lists {them})"

    def _rank(self, alert: Alert) -> list[tuple[str, Examples]]:
        least = _LEAST.get(alert, 1.0)
        if alert is Alert.SESSION:
            least = max(_MANY, _SHARE_OF_SESSION * self._pages)
        many = [each for each in self._found[alert].items() if each[1].pages >= least]
        return sorted(many, key=lambda each: -each[1].pages)


def _count_texts(shown: Sized) -> str:
    return "one text" if len(shown) == 1 else f"one of {len(shown):,} texts"


def _show_title(titles: Mapping[str, str], url: str) -> str:
    """Show the title of a page in parentheses, cut if it is long; "" if it has none."""
    title = titles.get(url, "")
    if len(title) > _LONGEST_TITLE:
        title = f"{title[: _LONGEST_TITLE - 3]}..."
    return f" ({quote(title)})" * bool(title)


# Of 123 documents with several addresses in two labelled corpora, 3 have two that are unlike, and
# none has more; the two walls of the example crawl have 5 and 14.
UNLIKE_ADDRESSES = 5
# Documents on hosts, 600 bytes each; beyond, those that repeated no page for longest are forgotten.
_MOST_WALLS = 10_000


class Walls:
    """Finds walls: pages that a site answers with whatever it is asked for, such as a login.

    A document is a wall of a host if five addresses of that host that have nothing in common led to
    it in this crawl. What is behind a wall, the crawl did not get.
    """

    def __init__(self) -> None:
        # Digests of the forms of the addresses that led to a document on a host, five at most.
        self._forms: OrderedDict[tuple[int, str], set[int]] = OrderedDict()

    def is_shown(self, decision: Decision) -> bool:
        """Return whether a page repeats a wall, of which its address may be the last proof.

        Where redirects led to it, the address counts that was asked for: after one, all those of a
        login page are alike.
        """
        led_here = last_name_of(decision.requested_url or decision.url, decision.canonical)
        if led_here is None:
            return False
        host, form = led_here
        if decision.reason == "changed":  # nothing has led to its new text yet
            self._forms.pop((decision.document, host), None)
        # A page of mostly new links says where to go on.
        document, new_links = decision.match_document, decision.new_links or 0.0
        if not document or new_links >= MOSTLY_NEW:
            return False
        original = last_name_of(decision.match_url)
        forms = self._forms.setdefault((document, host), set())
        self._forms.move_to_end((document, host))
        if len(self._forms) > _MOST_WALLS:
            self._forms.popitem(last=False)
        if len(forms) < UNLIKE_ADDRESSES and original is not None and original[0] == host:
            forms.add(hash(original[1]))
        if len(forms) < UNLIKE_ADDRESSES:
            forms.add(hash(form))
        return len(forms) >= UNLIKE_ADDRESSES


class _Kind(NamedTuple):
    """The first page of those that are parted from others by words of one kind."""

    words: str
    url: str
    like: str


class LookAlikes:
    """Counts kept pages that look like another one, by the words that part them."""

    def __init__(self) -> None:
        self._pages = 0
        self._kinds: Counter[str] = Counter()
        self._first: dict[str, _Kind] = {}

    def add(self, decision: Decision) -> None:
        """Count a page that is one."""
        self._pages += 1
        words = _NUMBER.sub("0", decision.parted_by).split()
        kind = " ".join(words[:_WORDS_OF_KIND])
        if kind in self._first or len(self._first) < _MOST_KINDS:
            first = _Kind(decision.parted_by, decision.url, decision.nearest_url or "")
            self._first.setdefault(kind, first)
            self._kinds[kind] += 1

    def describe(self) -> str:
        """Describe how many there are, and what parts most; "" if there are none."""
        if not self._pages:
            return ""
        ((kind, pages),) = self._kinds.most_common(1)
        words, url, like = map(quote, self._first[kind])
        of_all = f" ({pages:,} of them)" * (pages < self._pages)
        return (
            f"{plural(self._pages, 'page')} that look{'s' * (self._pages == 1)} like another one "
            f"but for {words}{' and the like' * (self._pages > 1)}{of_all}: scrapy simhash explain "
            f"{url} (like {like}); SIMHASH_IGNORE leaves out what changes by itself"
        )

    def list_kinds(self) -> list[dict[str, Any]]:
        """List what parts most, ready for JSON."""
        ranked = self._kinds.most_common(_MOST_KINDS_LISTED)
        return [{"pages": pages, **self._first[kind]._asdict()} for kind, pages in ranked]
