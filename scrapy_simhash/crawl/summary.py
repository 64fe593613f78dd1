"""What a crawl, or its log, comes to: the end of a crawl and its report say the same.

That is what became of its pages; what speaks against drops; and kept pages that look like another
one: what changes by itself, such as a counter, makes another page of each copy.
"""

from __future__ import annotations

import re
from collections import Counter, OrderedDict
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from scrapy_simhash._printable import plural, quote, show_share
from scrapy_simhash.crawl.policy import LEFT_OUT
from scrapy_simhash.judge.log import FOLLOW, LOSING, PASS
from scrapy_simhash.judging.documents import ASKS_NO_MORE, JUDGED, STAYS
from scrapy_simhash.pages.addresses import find_parameter, find_places
from scrapy_simhash.pages.facts import MOSTLY_NEW

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy_simhash.judging.documents import Decision
    from scrapy_simhash.pages.addresses import Places

# Of more pages than this share that were not judged, a crawl warns.
_MANY = 0.01


class Line(NamedTuple):
    """A sentence on a crawl."""

    about: str  # name of the section of the report that has more
    said: str
    warns: bool = False


class Summary:
    """Counts the decisions of a crawl, and says what came of its pages.

    Attributes:
        judged: number of pages.
        actions: near-duplicates by what was done.
        links: those on them, by the same.
        alerts: on drops.
        look_alikes: kept pages that look like another one.
        forgotten: pages that did not come through.
        not_followed: links that only dropped pages had.
        of_lists: those of them that SIMHASH_FOLLOW_NEW_LINKS would have followed.
    """

    def __init__(self) -> None:
        self.judged = self.forgotten = self.not_followed = self.of_lists = 0
        self.actions, self.links = Counter[str](), Counter[str]()
        self.alerts, self.look_alikes = Alerts(), LookAlikes()
        self._statuses = Counter[str]()
        self._changed = self._only_links = 0  # of what was fetched again
        self._passed = Counter[str]()  # pages not judged, by reason

    def add(self, decision: Decision) -> list[str]:
        """Count a page by what was decided on it; returns the names of its stats."""
        status, action, reason = decision.status, decision.action, decision.reason
        if status not in JUDGED:
            self._passed[reason or status] += reason not in LEFT_OUT
            return [f"simhash/not_judged/{reason}"]
        self.judged += 1
        self._statuses[status] += 1
        self.alerts.add(decision)
        if status == "near_duplicate":
            self.actions[action] += 1
            self.links[action] += decision.links
            return ["simhash/pages", f"simhash/{status}", f"simhash/distance/{decision.distance}"]
        if status == "revisit":
            self._changed += reason == "changed"
            self._only_links += action == FOLLOW
            return ["simhash/pages", f"simhash/revisit/{reason}"]
        if decision.parted_by:
            self.look_alikes.add(decision)
            return ["simhash/pages", f"simhash/{status}", "simhash/look_alikes"]
        return ["simhash/pages", f"simhash/{status}"]

    def list_lines(self) -> Iterator[Line]:
        """List the lines that have something to say, five at most."""
        if self.judged:
            yield Line("hosts", self._sum_up())
        if passed := self._describe_not_judged():
            yield Line("not-judged", passed, warns=True)
        if self.not_followed:
            links = plural(self.not_followed, "link")
            lost = any(self.actions[each] for each in (*LOSING, FOLLOW))
            said = f"Not followed: {links} that only dropped pages had"
            if not lost:
                said = f"Would not be followed: {links} that only near-duplicates had"
            if self.of_lists:
                said += f" (SIMHASH_FOLLOW_NEW_LINKS = True would follow {self.of_lists:,})"
            yield Line("links", f"{said}.", warns=lost)
        if alerts := self.alerts.describe():
            # What is said of releases with other numbers of chapters is no warning.
            yield Line("drops", f"Look at: {alerts}.", warns=Alert.UNLIKE in alerts)
        if look_alikes := self.look_alikes.describe():
            yield Line("look-alikes", f"Kept: {look_alikes}.")

    def _sum_up(self) -> str:
        """Say how many pages were judged, and what became of them."""
        parts = [f"{self._statuses['new']:,} new"]
        if again := self._statuses["revisit"]:
            more = [f"{self._changed:,} with new text"] * bool(self._changed)
            more += [f"of {self._only_links:,} only the links"] * bool(self._only_links)
            parts.append(f"{again:,} fetched again" + f" ({'; '.join(more)})" * bool(more))
        links = {action: plural(number, "link") for action, number in self.links.items()}
        done = {
            "drop": "dropped with {}",
            FOLLOW: "dropped, but their links followed",
            "ignore-outlinks": "kept without their {}",
            "flag": "flagged, with {} that drop would not follow",
            PASS: "kept, because this crawl had not got what they repeat",
            "": "found by an import",
        }
        hows = [
            (number, how.format(links[action]))
            for action, how in done.items()
            if (number := self.actions[action])
        ]
        if number := self.actions.total():
            share = f"{plural(number, 'near-duplicate')} ({show_share(number / self.judged)})"
            several = f": {', '.join(f'{each:,} {how}' for each, how in hows)}"
            parts.append(share + (f" {hows[0][1]}" if len(hows) == 1 else several))
        failed = f" {self.forgotten:,} did not come through: no page is dropped for these."
        said = f"Judged {plural(self.judged, 'page')}: {', '.join(parts)}."
        return said + failed * bool(self.forgotten)

    def _describe_not_judged(self) -> str:
        """Say how many pages were not judged and why, if they are many or the store failed."""
        passed = self._passed.total()
        no_store = self._passed["store_unavailable"] + self._passed["no_store"]
        if not no_store and passed <= _MANY * (self.judged + passed):
            return ""
        ranked = self._passed.most_common()
        named = [f"{count:,} {name.replace('_', ' ')}" for name, count in ranked if count]
        came = "all came through, even copies" if passed > 1 else "it came through, even if a copy"
        return f"Not judged: {plural(passed, 'page')} ({', '.join(named)}); {came}."


_EXAMPLES = 3
_MOST_REMEMBERED = 10_000  # originals, or parameters
_MOST_LISTED, _MOST_KINDS_LISTED = 5, 10
_MOST_NAMED = 2
# Those that begin with the same words are counted together, whatever their numbers.
_WORDS_OF_KIND = 2
_MOST_KINDS = 1_000  # pages of others are counted only
_NUMBER = re.compile(r"\d+")


class Alert(StrEnum):
    """What may speak against a near-duplicate, in words for people."""

    UNLIKE = "at unlike addresses repeating"
    NUMBER = "with another number in the main text, such as"
    SESSION = "that differ in a parameter only:"


# Fewer pages in a session are not told, nor a smaller share.
_LEAST_OF_SESSION, _SHARE_OF_SESSION = 10, 0.5


@dataclass
class Examples:
    """A count with its first examples."""

    pages: int = 0
    examples: list[str] = field(default_factory=list)

    def add(self, url: str, most: int = _EXAMPLES) -> None:
        """Count a page, and keep its address if it is among the first."""
        self.pages += 1
        if len(self.examples) < most:
            self.examples.append(url)


class Alerts:
    """Counts near-duplicates that may be wrong, by what speaks against them, with some examples."""

    def __init__(self) -> None:
        self._walls = Walls()
        self._pages = 0
        self._found: dict[Alert, dict[str, Examples]] = {alert: {} for alert in Alert}

    def add(self, decision: Decision) -> None:
        """Count a page that was judged, if it is a near-duplicate or shows what others do."""
        url, original = decision.url, decision.match_url or ""
        # Where redirects led to it, the address counts that was asked for: after one, all those of
        # a login page are alike.
        places = find_places(decision.requested_url or url, decision.canonical)
        kept, parameter = find_places(original), original and find_parameter(url, original)
        if places is not None:
            self._walls.add(decision, places, kept)
        if decision.status != "near_duplicate" or decision.reason:
            return
        self._pages += 1
        abouts = original, "" if decision.other_number else None, parameter or None
        for found, about in zip(self._found.values(), abouts, strict=True):
            if about in found or (about is not None and len(found) < _MOST_REMEMBERED):
                found.setdefault(about, Examples()).add(url)

    def list_told(self) -> Iterator[dict[str, Any]]:
        """List what has to be told, of each alert the pages with most first, ready for JSON."""
        for alert in Alert:
            for about, found in self._rank(alert)[:_MOST_LISTED]:
                is_url = alert is Alert.UNLIKE
                said = alert if is_url or not about else f"{alert} {about}"
                yield {"alert": said, "url": about * is_url, **vars(found)}

    def describe(self) -> str:
        """Describe what speaks against most drops, or what is worth knowing; "" if nothing is."""
        told = list[str]()
        for alert in Alert:
            ranked = self._rank(alert)
            # By what sessions do, `urls` saves requests: it is said where nothing is against drops.
            if not ranked or (told and alert is Alert.SESSION):
                continue
            (about, first), others = ranked[0], " and others" * (len(ranked) > 1)
            pages = plural(sum(found.pages for _, found in ranked), "near-duplicate")
            urls = " (scrapy simhash urls)" * (alert is Alert.SESSION)
            told.append(f"{pages} {alert} {quote(about or first.examples[0])}{others}{urls}")
        return "; ".join(told)

    def _rank(self, alert: Alert) -> list[tuple[str, Examples]]:
        found, least = self._found[alert], 1.0
        if alert is Alert.SESSION:
            least = max(_LEAST_OF_SESSION, _SHARE_OF_SESSION * self._pages)
        if alert is Alert.UNLIKE:
            walls = self._walls.find()
            found = {url: pages for url, pages in found.items() if url in walls}
        many = [each for each in found.items() if each[1].pages >= least]
        return sorted(many, key=lambda each: -each[1].pages)


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

    def add(self, decision: Decision, places: Places, original: Places | None) -> None:
        """Note a page that was judged, by its address and that of the page that it repeats."""
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
        self._pages = self._not_asked = 0
        self._kinds: dict[str, dict[str, Any]] = {}  # each with its number of pages, and the first

    def add(self, decision: Decision) -> None:
        """Count a page that is one."""
        self._pages += 1
        self._not_asked += any(ASKS_NO_MORE in each for each in decision.nearest_tests)
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
        more = f", and a higher SIMHASH_REFETCH finds more of it ({self._not_asked:,})"
        more *= bool(self._not_asked)
        return (
            f"{plural(self._pages, 'page')} that look{'s' * (self._pages == 1)} like another one; "
            f"first to differ: {parts}{others}; SIMHASH_IGNORE leaves out what changes at every "
            f"fetch{more}: scrapy simhash explain {quote(ranked[0]['url'])}"
        )

    def list_kinds(self) -> list[dict[str, Any]]:
        """List what parts most, ready for JSON."""
        return sorted(self._kinds.values(), key=lambda kind: -kind["pages"])[:_MOST_KINDS_LISTED]
