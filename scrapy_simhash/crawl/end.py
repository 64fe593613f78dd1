"""What a crawl counts and says of its pages: once a minute, and at its end."""

from __future__ import annotations

import logging
from collections import Counter, deque
from sys import intern
from typing import TYPE_CHECKING, Any

from scrapy.http import Request

from scrapy_simhash._printable import plural, quote, show_share
from scrapy_simhash.crawl.policy import LEFT_OUT, NOT_FETCHED
from scrapy_simhash.crawl.running import list_asked
from scrapy_simhash.judge.alerts import Alerts, LookAlikes
from scrapy_simhash.judge.log import FOLLOW, PASS
from scrapy_simhash.pages import addresses
from scrapy_simhash.pages.facts import LEAST_OF_SHARE, MOSTLY_NEW

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from scrapy.crawler import Crawler

    from scrapy_simhash.config import Config
    from scrapy_simhash.crawl.policy import JudgedPage
    from scrapy_simhash.judge.log import Decision
    from scrapy_simhash.judge.messages import Closed, LeftLink
    from scrapy_simhash.pages.facts import Reader, Share

# Of more pages than this share that were not judged, or did not come, a crawl warns.
_MANY = 0.01
_MOST_REASONS = 3
_GONE = {"HTTP 404", "HTTP 410"}  # pages that no crawl gets
_MOST_HOSTS = 100_000
_MANY_ALIKE, _MOST_OTHERS, _MOST_KEPT = 10, 10_000, 100_000
_MOST_OF_PLACE = 0.9
_MOST_NOT_FETCHED = 100_000  # pages; beyond, one that came later counts all the same
# The fuse: pages of one callback, and the shares that repeat others now and before.
_RECENT, _MANY_RECENT, _FEW_BEFORE = LEAST_OF_SHARE, 0.5, 0.25
_MOST_NAMED = 3


class NotFetched:
    """Counts pages that did not come, by HTTP statuses and errors; what came later is none."""

    def __init__(self) -> None:
        self._errors: dict[int, str] = {}  # by hashes of addresses
        self._beyond = Counter[str]()  # without addresses

    def add(self, decision: Decision) -> None:
        """Note that a page did not come, or that it came after all."""
        if decision.reason in NOT_FETCHED:
            page, error = hash(decision.url), intern(", ".join(decision.tests))
            if page in self._errors or len(self._errors) < _MOST_NOT_FETCHED:
                self._errors[page] = error
            else:
                self._beyond[error] += 1
        elif decision.status != "not_judged":
            self._errors.pop(hash(decision.url), None)

    def count(self) -> dict[str, int]:
        """Return how many pages each status or error kept away, the most frequent ones first."""
        return dict((self._beyond + Counter(self._errors.values())).most_common())


class Others:
    """Finds other addresses of a page: without a session, or where a mirror has its original.

    What makes no difference in ten near-duplicates of one shape of address, makes none in others;
    unless it does in a tenth as many kept ones: behind the last page of a list all are alike. A
    place is a copy of another one if ten near-duplicates, or links on them, are there, too.
    """

    def __init__(self) -> None:
        self._idle = Counter[tuple[Any, str]]()  # parameters, by the shape of addresses
        # Those in which two kept pages differ, and addresses of kept pages without one of them.
        self._telling, self._kept = Counter[tuple[Any, str]](), set[int]()
        self._moves = Counter[tuple[str, str]]()

    def add(self, decision: Decision) -> None:
        """Count what a near-duplicate and its original differ in, and what kept pages do."""
        if decision.status == "new":
            # The parameters in which it differs from another page that was kept.
            for name, form in addresses.list_forms(decision.url):
                seen = hash((name, form))
                if seen in self._kept:
                    self._telling[_shape_of(decision.url), name] += 1
                elif len(self._kept) < _MOST_KEPT:
                    self._kept.add(seen)
        if decision.status != "near_duplicate" or decision.reason or not decision.match_url:
            return
        name = addresses.find_parameter(decision.url, decision.match_url)
        if name and len(self._idle) < _MOST_OTHERS:
            self._idle[_shape_of(decision.url), name] += 1
        move = addresses.find_move(decision.url, decision.match_url)
        if move and len(self._moves) < _MOST_OTHERS:
            self._moves[move] += 1

    def add_links(self, links: Iterable[LeftLink], came: Callable[[str], bool]) -> None:
        """Count the links of dropped pages whose pages came elsewhere, if most of a place did."""
        moved = [move for move in map(_move, links) if move is not None]
        of_place = Counter(place for place, _ in moved)
        elsewhere = Counter(place for place, url in moved if came(url))
        for place, number in elsewhere.items():
            if number >= _MOST_OF_PLACE * of_place[place]:
                self._moves[place] += number

    def list_for(self, link: LeftLink) -> Iterator[str]:
        """List other addresses of the page that a link leads to."""
        move = _move(link)
        moved = [move[1]] if move and self._moves[move[0]] >= _MANY_ALIKE else []
        yield from moved
        for url in (link.url, *moved):
            shape = _shape_of(url)
            for name, form in addresses.list_forms(url):
                idle, telling = self._idle[shape, name], self._telling[shape, name]
                if idle >= max(_MANY_ALIKE, _MANY_ALIKE * telling):
                    yield form


def _move(link: LeftLink) -> tuple[tuple[str, str], str] | None:
    """Return where the place of a link's page moves to, and the link; None if it is elsewhere."""
    move = addresses.find_move(link.page_url, link.original_url)
    if move is None or not link.url.startswith(move[0]):
        return None
    return move, move[1] + link.url[len(move[0]) :]


def _shape_of(url: str) -> tuple[str, int, tuple[str, ...]] | None:
    places = addresses.find_places(url)
    return None if places is None else places[:3]


class End:
    """Counts the pages of a crawl, and says at its end what came of them.

    Attributes:
        follows: whether a callback made a request.
    """

    def __init__(self, crawler: Crawler, config: Config) -> None:
        self._crawler, self._config = crawler, config
        # Near-duplicates by their actions, and pages that were not judged by reasons.
        self._acted, self._passed = Counter[str](), Counter[str]()
        self._not_fetched, self._look_alikes = NotFetched(), LookAlikes()
        self._alerts = Alerts()
        self._hosts: set[str] = set()  # of which a page came: the spider wants no other one
        self._others = Others()
        self._of_lists = 0  # links that SIMHASH_FOLLOW_NEW_LINKS would have followed
        self.follows = False

    def add(self, decision: Decision) -> None:
        """Count a page by what was decided on it."""
        count, status = self._crawler.stats.inc_value, decision.status
        self._not_fetched.add(decision)
        if status == "not_judged":
            count(f"simhash/not_judged/{decision.reason}")
            self._passed[decision.reason] += decision.reason not in LEFT_OUT
            return
        count("simhash/pages")
        how = f"/{decision.reason}" if status == "revisit" else ""
        count(f"simhash/{status}{how}")
        if status == "near_duplicate":
            self._acted[decision.action] += 1
            count(f"simhash/distance/{decision.distance}")
        if decision.parted_by:
            count("simhash/look_alikes")
            self._look_alikes.add(decision)
        if len(self._hosts) < _MOST_HOSTS:
            self._hosts.update(map(addresses.host_of, (decision.url, decision.requested_url)))
        self._others.add(decision)
        self._alerts.add(decision)

    def find_not_followed(self, closed: Closed) -> list[LeftLink]:
        """Find the links that only dropped pages had, and whose pages did not come otherwise.

        They are of hosts that the crawl had. It takes 60 us a link; there are 50,000 at most.
        """
        if closed.has_kept_links and not self.follows:  # the spider follows none
            return []
        asked = list_asked(self._crawler)
        if self._config.action == "flag":  # what would be dropped came, and what it leads to
            asked = asked - {self._identify(link.url) for link in closed.left}
        self._others.add_links(closed.left, lambda url: self._identify(url) in asked)
        found = []
        for link in closed.left:
            same = map(self._identify, [link.url, *self._others.list_for(link)])
            if addresses.host_of(link.url) in self._hosts and asked.isdisjoint(same):
                found.append(link)
        self._of_lists = sum(link.new_links >= MOSTLY_NEW for link in found)
        return found

    def _identify(self, url: str) -> bytes:
        """Return the fingerprint of a request for a link, or b"" if there can be none."""
        try:
            return self._crawler.request_fingerprinter.fingerprint(Request(url))
        except Exception:  # noqa: BLE001 - an invalid address, or the user's fingerprinter
            return b""

    def _get(self, key: str) -> int:
        return int(self._crawler.stats.get_value(f"simhash/{key}", 0))

    def describe_limits(self, reason: str) -> str:
        """Describe what cut the crawl off: its close reason, or `DEPTH_LIMIT`; "" for nothing."""
        depth, reached = self._crawler.settings.getint("DEPTH_LIMIT"), "request_depth_max"
        within = 0 < depth <= self._crawler.stats.get_value(reached, 0)
        limits = ["within DEPTH_LIMIT"] * within + [f"until {reason}"] * (reason != "finished")
        return " ".join(limits)

    def describe_progress(self) -> str:
        """Say how many pages are near-duplicates so far, whatever the action; "" without pages."""
        pages, number = self._get("pages"), self._get("near_duplicate")
        share = f" ({show_share(number / pages)})" if number else ""
        said = f"So far: {plural(pages, 'page')} judged, {plural(number, 'near-duplicate')}{share}"
        return said if pages else ""

    def list_lines(self, limits: str, *, has_log: bool) -> Iterator[tuple[int, str]]:
        """Yield the lines that have something to say, five at most, each with its level.

        Args:
            limits: what cut the crawl off, or "".
            has_log: whether there is a log to report on.
        """
        if pages := self._get("pages"):
            details = " Details: scrapy simhash report" * has_log
            yield logging.INFO, self._sum_up(pages, f" {limits}" * bool(limits)) + details
        passed, errors = self._describe_not_judged(pages), self._not_fetched.count()
        failed = sum(errors[each] for each in errors.keys() - _GONE)
        if parts := [*filter(None, [passed, tell_not_fetched(errors)])]:
            many = passed or failed > _MANY * (pages + failed)
            yield logging.WARNING if many else logging.INFO, " ".join(parts)
        if links := self._get("links/only_on_dropped_pages"):
            advised = self._of_lists and not self._config.follow_new_links
            follows = f" (SIMHASH_FOLLOW_NEW_LINKS = True would follow {self._of_lists:,})"
            said = f"{plural(links, 'link')} that only {{}} had{follows * bool(advised)}."
            if self._config.action == "flag":
                yield logging.INFO, f"Would not be followed: {said.format('near-duplicates')}"
            else:
                yield logging.WARNING, f"Not followed: {said.format('dropped pages')}"
        if alerts := self._alerts.describe():
            level = logging.WARNING if self._alerts.are_serious() else logging.INFO
            yield level, f"Look at: {alerts}."
        elif notes := self._alerts.describe(calm=True):
            yield logging.INFO, f"Look at: {notes}."
        if look_alikes := self._look_alikes.describe():
            yield logging.INFO, f"Kept: {look_alikes}."

    def _sum_up(self, pages: int, limits: str) -> str:
        """Say how many pages were judged, and what became of them."""
        get, acted = self._get, self._acted
        again = sum(get(f"revisit/{how}") for how in ("unchanged", "changed"))
        changed = [f"{get('revisit/changed'):,} with new text"] * bool(get("revisit/changed"))
        changed += ["of the others only the links"] * (self._config.unchanged == "drop")
        how = f" ({'; '.join(changed)})" * bool(changed)
        parts = [f"{get('new'):,} new"] + [f"{again:,} fetched again{how}"] * bool(again)
        followed = acted.get(FOLLOW, 0)
        requests = plural(get("outlinks_ignored"), "request")
        done = {
            f"dropped with {plural(get('links_dropped'), 'link')}": get("dropped") - followed,
            "dropped, but their links followed": followed,
            f"kept without their {requests}": acted.get("ignore-outlinks", 0),
            "flagged": acted.get("flag", 0),
            "kept, because this crawl had not got what they repeat": acted.get(PASS, 0),
        }
        hows = [f"{number:,} {how}" for how, number in done.items() if number > 0]
        if number := sum(max(0, each) for each in done.values()):
            share = f"{plural(number, 'near-duplicate')} ({show_share(number / pages)})"
            single = hows[0].partition(" ")[2]
            parts.append(f"{share} {single}" if len(hows) == 1 else f"{share}: {', '.join(hows)}")
        prefix, told = "simhash/forgotten/", self._crawler.stats.get_stats().items()
        forgotten = sum(int(number) for name, number in told if name.startswith(prefix))
        failed = f" {forgotten:,} did not come through: no page is dropped for these."
        said = f"Judged {plural(pages, 'page')}{limits}: {', '.join(parts)}."
        return said + failed * bool(forgotten)

    def _describe_not_judged(self, pages: int) -> str:
        """Say how many pages were not judged and why, if they are many or the store failed."""
        reasons = +self._passed  # without those of which there are none
        passed = reasons.total()
        no_store = not reasons.keys().isdisjoint(("store_unavailable", "no_store"))
        if not no_store and passed <= _MANY * (pages + passed):
            return ""
        ranked = sorted(reasons.items(), key=lambda reason: (-reason[1], reason[0]))
        named = [f"{count:,} {name.replace('_', ' ')}" for name, count in ranked[:_MOST_REASONS]]
        if others := sum(count for _, count in ranked[_MOST_REASONS:]):
            named.append(f"{others:,} for other reasons")
        return tell_not_judged(passed, f" ({', '.join(named)})")


def tell_not_judged(pages: int, reasons: str = "") -> str:
    """Tell that pages were not judged."""
    came = "all came through, even copies" if pages > 1 else "it came through, even if a copy"
    return f"Not judged: {plural(pages, 'page')}{reasons}; {came}."


def tell_not_fetched(errors: Mapping[str, int]) -> str:
    """Tell that pages did not come, and why; "" if they are gone, as pages are at times."""
    if not errors.keys() - _GONE:
        return ""
    named = [f"{error}: {number:,}" for error, number in errors.items()]
    why = ", ".join(named[:_MOST_REASONS]) + ", ..." * (len(named) > _MOST_REASONS)
    pages = plural(sum(errors.values()), "page")
    return f"Did not come: {pages} ({why}); the plugin dropped none of them."


class Fuse:
    """Finds callbacks most of whose last 200 judged pages repeat others, once each.

    A site that begins to answer with one page for all, or a template that hides what differs, looks
    so. Only a callback of which the last crawl dropped less than a quarter is watched.

    Args:
        shares: what the last crawls counted.
    """

    def __init__(self, shares: Iterable[Share] = ()) -> None:
        # What the last crawl counted, and the last pages: "" for one that repeats no other.
        self._recent: dict[Reader, tuple[Share, deque[str]]] = {
            share.reader: (share, deque(maxlen=_RECENT))
            for share in shares
            if share.judged >= _RECENT and share.repeated < _FEW_BEFORE * share.judged
        }

    def add(self, page: JudgedPage) -> str:
        """Count a page; return what to warn of, or ""."""
        recent, decision = self._recent.get(page.reader), page.decision
        if recent is None or not decision.is_judged:
            return ""
        before, urls = recent
        # Not what SIMHASH_UNCHANGED drops: that repeats itself only.
        repeats = decision.status == "near_duplicate" and decision.action != PASS
        urls.append(decision.url if repeats else "")
        repeating = list(filter(None, urls))
        if len(urls) < _RECENT or len(repeating) <= _MANY_RECENT * _RECENT:
            return ""
        del self._recent[page.reader]
        return (
            f"Of the last {_RECENT} pages of {quote(before.reader.callback)}, {len(repeating)} "
            f"repeat another one; of the {plural(before.judged, 'page')} of its last crawl, "
            f"{show_share(before.repeated / before.judged)} did. Look at the first ones (scrapy "
            f"simhash explain URL): {', '.join(map(quote, repeating[:_MOST_NAMED]))}. "
            f'SIMHASH_ACTION = "flag" drops none'
        )
