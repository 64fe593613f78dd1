"""Alerts: what a person should look at; the end of a crawl and its report name the same.

That is what speaks against near-duplicates; and kept pages that look like another one: what changes
by itself, such as a counter, makes another page of each copy.
"""

from __future__ import annotations

import re
from collections import Counter, OrderedDict
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeAlias

from scrapy_simhash._printable import cut, plural, quote
from scrapy_simhash.judging.documents import STAYS
from scrapy_simhash.pages.addresses import find_parameter, find_places, find_site, host_of
from scrapy_simhash.pages.facts import MOSTLY_NEW

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sized

    from scrapy_simhash.judge.log import Decision
    from scrapy_simhash.pages.addresses import Places

_EXAMPLES = 3
_MOST_REMEMBERED = 10_000  # originals, or sites
_MOST_LISTED, _MOST_KINDS_LISTED = 5, 10
_LONGEST_TITLE, _MOST_NAMED = 30, 2
# Those that begin with the same words are counted together, whatever their numbers.
_WORDS_OF_KIND = 2
_MOST_KINDS = 1_000  # pages of others are counted only
_NUMBER = re.compile(r"\d+")


class Alert(StrEnum):
    """What speaks against a near-duplicate, in words for people."""

    BECAME_ONE = "that all show one text now,"
    UNLIKE = "at unlike addresses"
    NUMBER = "with another number in the main text"
    SITE = "of another site"
    SESSION = "that differ in a parameter only"


# Before what an alert is about; else it is a page that is repeated.
BEFORE = {Alert.SITE: ":", Alert.SESSION: ":", Alert.NUMBER: ", such as"}
# Mirrors, and what `scrapy simhash urls` saves requests by.
_CALM = {Alert.SITE, Alert.SESSION}
# Likely wrong: what is said of releases with other numbers of chapters is no warning.
_SERIOUS = {Alert.BECAME_ONE, Alert.UNLIKE}
# Fewer pages that became one, or in a session, are not told, nor a smaller share of these.
_LEAST, _SHARE_OF_SESSION = {Alert.BECAME_ONE: 4, Alert.SESSION: 10}, 0.5


def list_alerts(decision: Decision) -> Iterator[tuple[Alert, str]]:
    """List what speaks against a near-duplicate, each with the page or site that it is about.

    Whether that is a wall only all pages show, see `Walls`.
    """
    url, original = decision.url, decision.match_url or ""
    own, other = host_of(url), host_of(original)
    if decision.other_number:
        yield Alert.NUMBER, ""
    if own != other and (site := find_site(other)) not in {"", find_site(own)}:
        yield Alert.SITE, site
    if original and (name := find_parameter(url, original)):
        yield Alert.SESSION, name


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

    def __init__(self) -> None:
        self._walls = Walls()
        self._pages = 0
        self._found: dict[Alert, dict[str, Examples]] = {alert: {} for alert in Alert}
        self._changed: dict[str, str] = {}  # the first page with a new text, by that
        self._known: Counter[str] = Counter()  # pages that changed, by the first with their text

    def add(self, decision: Decision) -> None:
        """Count a page that was judged, if it is a near-duplicate or shows what others do."""
        changed = decision.reason == "changed"
        text = decision.text if changed or self._changed else ""
        if text and changed and len(self._changed) < _MOST_REMEMBERED:
            self._changed.setdefault(text, decision.url)
        first = self._changed.get(text, "")
        # What is new with that text was dropped for another page before, or not met.
        if first and (changed or decision.status == "new" or not decision.reason):
            _find(self._found[Alert.BECAME_ONE], first).add(decision.url)
            self._known[first] += changed
        self._walls.add(decision)
        if decision.status != "near_duplicate" or decision.reason:
            return
        self._pages += 1
        # What known pages show now is told of these.
        repeated = [(Alert.UNLIKE, decision.match_url or "")] * (not first)
        for alert, about in (*repeated, *list_alerts(decision)):
            _find(self._found[alert], about).add(decision.url)

    def list_told(self) -> Iterator[tuple[Alert, str, Examples]]:
        """List what has to be told, of each alert the pages and sites with most first."""
        for alert in Alert:
            for about, found in self._rank(alert)[:_MOST_LISTED]:
                yield alert, about, found

    def are_serious(self) -> bool:
        """Return whether what is described is likely wrong."""
        return any(map(self._rank, _SERIOUS))

    def describe(self, *, calm: bool = False) -> str:
        """Describe what speaks against most drops, or what is worth knowing; "" if nothing is."""
        told = []
        for alert in Alert:
            ranked = self._rank(alert) if (alert in _CALM) == calm else []
            if not ranked:
                continue
            (about, first), others = ranked[0], " and others" * (len(ranked) > 1)
            noun = "page" if alert is Alert.BECAME_ONE else "near-duplicate"
            pages = plural(sum(found.pages for _, found in ranked), noun)
            before = BEFORE.get(alert, " repeating")
            urls = " (scrapy simhash urls)" * (alert is Alert.SESSION)
            said = alert.replace("one text", _count_texts(ranked))
            told.append(f"{pages} {said}{before} {quote(about or first.examples[0])}{others}{urls}")
        return "; ".join(told)

    def describe_walls(self, titles: Mapping[str, str]) -> str:
        """Describe how many pages showed one text instead of their own; "" if none did."""
        walls = self._rank(Alert.BECAME_ONE) + self._rank(Alert.UNLIKE)
        if not walls:
            return ""
        pages = sum(found.pages for _, found in walls)
        known = sum(self._known[wall] for wall, _ in walls)
        first = walls[0][0]
        title = cut(titles.get(first, ""), _LONGEST_TITLE)
        shown = f"{plural(pages, 'page')} showed {_count_texts(walls)}"
        shown += f" ({quote(title)})" * bool(title)
        before = f", {known:,} of which had another before" * bool(known)
        undo = f"scrapy simhash undo --dry-run --original {quote(first)}"
        return f"{shown}{before}; what may be behind it was not fetched ({undo} lists them)"

    def _rank(self, alert: Alert) -> list[tuple[str, Examples]]:
        found, least = self._found[alert], _LEAST.get(alert, 1.0)
        if alert is Alert.SESSION:
            least = max(least, _SHARE_OF_SESSION * self._pages)
        if alert is Alert.UNLIKE:
            walls = self._walls.find()
            found = {url: pages for url, pages in found.items() if url in walls}
        many = [each for each in found.items() if each[1].pages >= least]
        return sorted(many, key=lambda each: -each[1].pages)


def _count_texts(shown: Sized) -> str:
    return "one text" if len(shown) == 1 else f"one of {len(shown):,} texts"


# Of 123 documents with several addresses in two labelled corpora, 3 have two that are unlike, and
# none has more; the two walls of the example crawl have 5 and 14.
UNLIKE_ADDRESSES = 5
# A thread's links to its posts have one value where those of a wall have several.
_LEAST_VALUES = 3
# Shapes of addresses, and those that led to a document, 4 kB each; the oldest are forgotten.
_MOST_SHAPES = 2_000
_MOST_UNDER_ONE = 100  # documents that are repeated under one parameter
_Values: TypeAlias = list[set[int]]  # digests of the values of each place, five at most


class Walls:
    """Finds walls: pages that a site answers with whatever it is asked for, such as a login.

    A document is a wall of a host if five addresses of that host that have nothing in common led to
    it in this crawl: wherever addresses of their shape differ, so do they, and not only in a
    parameter that others of its documents are repeated under, such as a session. What is behind a
    wall, the crawl did not get.
    """

    def __init__(self) -> None:
        self._seen: OrderedDict[Any, _Values] = OrderedDict()  # of all pages, by shape
        self._led: OrderedDict[tuple[int, Any], tuple[str, _Values]] = OrderedDict()  # by document
        # How often documents are repeated under a parameter of a host, the first ones.
        self._repeated: OrderedDict[tuple[str, str], Counter[int]] = OrderedDict()

    def add(self, decision: Decision) -> None:
        """Note a page that was judged.

        Where redirects led to it, the address counts that was asked for: after one, all those of a
        login page are alike.
        """
        places = find_places(decision.requested_url or decision.url, decision.canonical)
        original = find_places(decision.match_url)
        if places is None:
            return
        shape = places[:3]
        _note(_find_last(self._seen, shape, []), places)
        if decision.reason == "changed":  # nothing has led to its new text yet
            for key in [key for key in self._led if key[0] == decision.document]:
                del self._led[key]
        # A page of mostly new links says where to go on.
        document, new_links = decision.match_document, decision.new_links or 0.0
        if not document or new_links >= MOSTLY_NEW:
            return
        _, led = _find_last(self._led, (document, shape), (decision.match_url or "", []))
        _note(led, places)
        for name in places.parameters:
            repeated = _find_last(self._repeated, (places.host, name), Counter())
            if document in repeated or len(repeated) < _MOST_UNDER_ONE:
                repeated[document] += 1
        if original is not None and original[:3] == shape:
            _note(led, original)

    def find(self) -> set[str]:
        """Find the addresses of the walls."""
        return {url for (_, shape), (url, led) in self._led.items() if self._is_wall(shape, led)}

    def _is_wall(self, shape: tuple[str, int, tuple[str, ...]], led: _Values) -> bool:
        """Return whether the addresses that led to a document have nothing in common."""
        seen = self._seen.get(shape, ())
        differing = [place for place, values in enumerate(seen) if len(values) >= UNLIKE_ADDRESSES]
        found = [len(led[place]) for place in differing]
        host, names, parameters = shape
        telling = any(
            place < names
            or _is_of_one(self._repeated.get((host, parameters[place - names]), Counter()))
            for place in differing
        )
        return telling and max(found) >= UNLIKE_ADDRESSES and min(found) >= _LEAST_VALUES


def _find_last(remembered: OrderedDict[Any, Any], key: object, new: object) -> Any:
    """Find what is remembered of a key, now as its last one; the first of too many is forgotten."""
    found = remembered.setdefault(key, new)
    remembered.move_to_end(key)
    if len(remembered) > _MOST_SHAPES:
        remembered.popitem(last=False)
    return found


def _is_of_one(repeated: Counter[int]) -> bool:
    """Whether nearly all that is repeated under a parameter is one document, as a wall is.

    Of threads, which posts lead to, no one is repeated so much more often than any other.
    """
    most, second = [*repeated.most_common(2), (0, 0), (0, 0)][:2]
    return 2 * most[1] > repeated.total() and most[1] >= UNLIKE_ADDRESSES * second[1]


def _note(noted: _Values, places: Places) -> None:
    """Note the values of an address."""
    if not noted:
        noted += [set() for _ in places.values]
    for values, value in zip(noted, places.values, strict=True):
        if len(values) < UNLIKE_ADDRESSES:
            values.add(hash(value))


class LookAlikes:
    """Counts kept pages that look like another one, by the words that part them."""

    def __init__(self) -> None:
        self._pages = 0
        self._kinds: dict[str, dict[str, Any]] = {}  # each with its number of pages, and the first

    def add(self, decision: Decision) -> None:
        """Count a page that is one."""
        self._pages += 1
        words = _NUMBER.sub("0", decision.parted_by).split()
        kind = " ".join(words[:_WORDS_OF_KIND])
        if kind in self._kinds or len(self._kinds) < _MOST_KINDS:
            first = {"pages": 0, "words": decision.parted_by, "url": decision.url}
            stays = next((each for each in decision.nearest_tests if each.startswith(STAYS)), "")
            first |= {"like": decision.nearest_url or "", "why": stays}
            self._kinds.setdefault(kind, first)["pages"] += 1

    def describe(self) -> str:
        """Describe how many there are, and what parts most; "" if there are none."""
        if not self._pages:
            return ""
        ranked = self.list_kinds()[:_MOST_NAMED]
        named = [f"{quote(each['words'])} ({each['pages']:,})" for each in ranked]
        parts = ", ".join(named) if self._pages > 1 else quote(ranked[0]["words"])
        others = " and others" * (len(self._kinds) > len(ranked))
        return (
            f"{plural(self._pages, 'page')} that look{'s' * (self._pages == 1)} like another one "
            f"but for {parts}{others}; SIMHASH_IGNORE leaves out what changes at every fetch: "
            f"scrapy simhash explain {quote(ranked[0]['url'])}"
        )

    def list_kinds(self) -> list[dict[str, Any]]:
        """List what parts most, ready for JSON."""
        return sorted(self._kinds.values(), key=lambda kind: -kind["pages"])[:_MOST_KINDS_LISTED]
