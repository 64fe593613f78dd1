"""Requests that are not made, because proven URL rules lead to a page that the store has.

::

    yielded    by a callback; noted in the request's meta
    parked     written to the store with all that it takes to make it: as soon as it is yielded,
               before scheduler and dupefilter see it; or, if it was queued before the rule was
               proven, when it is about to be made
    sampled    made all the same, to check the rule: the first of each directory, and some others
    waiting    made when the crawl is idle, one of each normal form, until this crawl has fetched a
               page of that form for the same callback: the known page is one of an earlier crawl
    checked    made when nothing else is left to do: a few requests of each directory

What is parked is made by `crawl.owed` when a rule was retired, or the known page is gone.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections import Counter, OrderedDict, defaultdict, deque
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import xxhash
from scrapy.exceptions import IgnoreRequest
from scrapy.http.request import NO_CALLBACK

from scrapy_simhash._printable import describe_error, quote
from scrapy_simhash.config import SECONDS_A_DAY
from scrapy_simhash.crawl.followers import Follower, sift
from scrapy_simhash.crawl.internals import is_closing
from scrapy_simhash.crawl.policy import (
    SUCCESS,
    count,
    depth_of,
    find_reader,
    identify_for,
    is_never_dropped,
    spider_of,
    wanted_action,
)
from scrapy_simhash.crawl.refetch import SAMPLED, YIELDED, set_mark, take_mark
from scrapy_simhash.detector.log import NOT_FETCHED
from scrapy_simhash.judging.rows import Owed, Why
from scrapy_simhash.urls.applying import name_form
from scrapy_simhash.urls.rules import RuleState

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence

    from scrapy import Spider
    from scrapy.crawler import Crawler
    from scrapy.http import Request, Response

    from scrapy_simhash.config import Config
    from scrapy_simhash.crawl.followers import JudgedPage
    from scrapy_simhash.crawl.owed import OwedRequests
    from scrapy_simhash.detector.detector import Detector
    from scrapy_simhash.detector.log import Decision
    from scrapy_simhash.stores.rulebook import KnownPage, Parking
    from scrapy_simhash.urls.applying import ActingRules, Target

logger = logging.getLogger(__name__)

# Share of the requests that a rule leads to a known page which are made all the same, to test it.
# A rule that has gone bad then parks 19 different pages on average before it is caught.
SAMPLE_SHARE = 0.05
# The first requests of each directory under a rule in a crawl are made whatever that share is.
_FIRST_SAMPLED = 3
# 150 bytes each. Requests beyond them are made if no page of their form was fetched by this crawl.
_MOST_REMEMBERED = 100_000
# Of a directory, those that may be checked at the end.
_MOST_KEPT = 64
# At the end of a crawl; and at an idle moment, of those that wait for a page.
_MOST_CHECKED = 1_000
_MOST_MADE = 1_000
# Of samples, as stats name them; all others are undecided.
_OUTCOMES = {"s": "same", "d": "different"}
# Why a page was not judged that says nothing of the page.
_TELLS_NOTHING = {"store_unavailable", "scope_failed", "skipped: no_store", "skipped: truncated"}
# A rule, and the directory of a normal form.
_Place: TypeAlias = "tuple[str, str]"
# Of a request that checks rules: their ids, its URL, and the number of the document that would have
# stood for its page.
_Mark: TypeAlias = "tuple[list[str], str, int]"


class _Candidate(NamedTuple):
    """A request that rules lead elsewhere."""

    request: Request
    parking: Parking  # without what it takes to make it
    place: _Place
    drawn: bool  # for the sample
    twins: list[Request]  # all of this identity, this one first


class _Drawn:
    """What is parked in one directory under a rule: some of it, in random order, and how many."""

    def __init__(self) -> None:
        self.number = 0
        self.keys: list[bytes] = []

    def add(self, key: bytes) -> None:
        """Note a request by its key; of many it may be forgotten."""
        self.number += 1
        self.keys.insert(secrets.randbelow(self.number), key)
        del self.keys[_MOST_KEPT:]

    def draw(self) -> list[bytes]:
        """Draw those to be checked."""
        return self.keys[: max(1, round(SAMPLE_SHARE * self.number))]


class _Fate(NamedTuple):
    """What became of a request that a rule leads to a known page."""

    rule: str
    sampled: _Mark | None  # made all the same with this mark, or else parked


class ParkedRequests(Follower):
    """Parks the requests of a crawl, and makes some to check the rules."""

    def __init__(
        self, crawler: Crawler, config: Config, detector: Detector, owed: OwedRequests
    ) -> None:
        self._counted: Counter[str] = Counter()  # requests that were parked, by rule
        self._texts: dict[str, str] = {}  # of these rules, by id
        self._crawler = crawler
        self._config = config
        self._detector = detector
        self._owed = owed
        # Whether requests are parked, not only counted.
        self.skips = config.url_rules == "skip"
        # By identity. Forgotten when their rule does not act any more.
        self._fates: dict[bytes, _Fate] = {}
        self._fates_under: ActingRules | None = None
        self._sampled: Counter[_Place] = Counter()  # by rule and directory
        self._parked_in: defaultdict[_Place, _Drawn] = defaultdict(_Drawn)
        # Names of normal forms, with the page of each that this crawl fetched, and its depth.
        self._fetched: OrderedDict[bytes, tuple[int, int]] = OrderedDict()
        self._depth_limit = crawler.settings.getint("DEPTH_LIMIT")
        # Keys of parked requests whose form none of these pages has, or only one that lies deeper
        # under DEPTH_LIMIT, by its name; with their depths.
        self._waiting: defaultdict[bytes, deque[tuple[_Place, bytes, int]]] = defaultdict(deque)
        self._waiting_number = 0
        self._warned: set[str] = set()  # what was said once
        self._parked = 0
        self._checked_at = 0  # requests that were parked when some were checked last

    @property
    def counted(self) -> Counter[str]:
        """The requests that were not made, by the text of the rule that parked them."""
        left = self._counted - self._owed.unparked
        return Counter({self._texts.get(rule, rule): number for rule, number in left.items()})

    # As callbacks yield them

    def note_yielded(self, request: Request) -> None:
        """Note that a callback yielded a request: those alone may be parked."""
        request.meta.pop(SAMPLED, None)  # of another one, whose meta was copied
        request.meta[YIELDED] = request.url

    def sift(self, entries: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """Park those requests of a callback's output that may be parked; passes on the rest."""
        return sift(entries, lambda request: self._find_target(request) is not None, self._choose)

    # As they are about to be made

    def find_known(self, request: Request) -> Awaitable[None] | None:
        """Find out whether to make a request: the awaitable raises IgnoreRequest if not."""
        # Only what a callback yielded as it is now: no start request, redirect, inline download,
        # and no request that is made again.
        meta = request.meta
        if meta.get(YIELDED) != request.url or SAMPLED in meta:
            return None
        target = self._find_target(request)
        return self._turn_away(request) if target is not None else None

    async def _turn_away(self, request: Request) -> None:
        if not await self._choose([request]):
            request.errback = None  # it may be made later, so it has not failed
            raise IgnoreRequest("a URL rule leads to a page that the store has")

    def _find_target(self, request: Request) -> Target | None:
        """Find the normal form of a request; None if it may not be parked."""
        try:
            rules = self._detector.acting
            target = rules.find_target(request.url) if rules is not None else None
            if target is None or not self._may_be_parked(request):
                return None
        except Exception as error:  # noqa: BLE001 - it is made, whatever it is
            self._fail(error)
            return None
        return target

    def _may_be_parked(self, request: Request) -> bool:
        """Whether a request may wait at all; says nothing of its page."""
        meta = request.meta
        return (
            request.method == "GET"
            and not (request.body or request.dont_filter)
            and request.callback is not NO_CALLBACK
            # Of the request itself, or copied by the spider, which looks the same.
            and "retry_times" not in meta
            and meta.get("simhash_urls") in {None, True}
            and not meta.get("simhash_skip")
            and not meta.get("verbatim_url")
            and wanted_action(request, self._config.action) == "drop"
            and not self._owed.packing.has_credentials(request)
            and not is_never_dropped(self._config, request.url)
        )

    async def _choose(self, requests: Sequence[Request]) -> list[Request]:
        """Park what may be parked, durably; returns the requests that are to be made."""
        found = {request: self._find_target(request) for request in requests}
        led = {request: target for request, target in found.items() if target is not None}
        made = [request for request in requests if request not in led]  # rules have changed
        try:
            return made + await self._park(led)
        except Exception as error:  # noqa: BLE001 - they are made, whatever it is
            self._fail(error)
            return list(requests)

    async def _park(self, led: Mapping[Request, Target]) -> list[Request]:
        made: list[Request] = []
        new: dict[bytes, _Candidate] = {}
        for request, target in led.items():
            identity = identify_for(self._crawler, request)
            fate = self._recall(identity)
            form = name_form(target.form, find_reader(spider_of(self._crawler), request))
            full = self._waiting_number >= _MOST_REMEMBERED
            if full and not self._is_answered(form, depth_of(request)):
                made.append(request)
            elif fate is None:
                candidate = new.get(identity) or self._make_candidate(
                    request, form, identity, target
                )
                new.setdefault(identity, candidate).twins.append(request)
            elif fate.sampled:
                set_mark(request, SAMPLED, fate.sampled)
                made.append(request)
        samples = [each for each in new.values() if self._may_be_sampled(each)]
        others = [each for each in new.values() if not self._may_be_sampled(each)]
        for candidate, answer in await self._ask(samples, only_ask=True):
            if self._is_made(candidate, answer):
                made += candidate.twins
            else:
                others.append(candidate)
        for candidate, answer in await self._ask(others):
            if answer.reason == "unpackable":
                self._note_unpackable(candidate.request)
            if answer.reason:
                made += candidate.twins
            else:
                self._note_parked(candidate, answer)
        return made

    def _make_candidate(
        self, request: Request, form: bytes, identity: bytes, target: Target
    ) -> _Candidate:
        from scrapy_simhash.stores.rulebook import Parking  # noqa: PLC0415 - loads tldextract

        *others, rule = target.rules
        owed = Owed(
            request.url,
            Why.PARKED,
            spider_of(self._crawler).name,
            self._detector.crawl,
            rules=(rule, *others),
            identity=identity,
            reader=find_reader(spider_of(self._crawler), request),
            time=time.time(),
        )
        expiry = self._config.expire_days
        parking = Parking(
            owed,
            form,
            self._fetched.get(form, (0, 0))[0],
            0.0 if expiry is None else owed.time - expiry * SECONDS_A_DAY,
        )
        # Keyed, so that a site cannot choose addresses that are never made; others in each crawl.
        name = identity + self._detector.crawl.encode()
        drawn = xxhash.xxh3_64_intdigest(name, self._detector.seed) < SAMPLE_SHARE * 2**64
        return _Candidate(request, parking, (rule, target.directory), drawn, [])

    def _is_answered(self, form: bytes, depth: int) -> bool:
        """Whether this crawl fetched a page of a form, and no deeper one under DEPTH_LIMIT."""
        found = self._fetched.get(form)
        return found is not None and (self._depth_limit <= 0 or found[1] <= depth)

    def _may_be_sampled(self, candidate: _Candidate) -> bool:
        """Whether a request might be made although a rule leads it to a known page."""
        new = self._sampled[candidate.place] < _FIRST_SAMPLED
        return new or candidate.drawn or not self.skips

    def _is_made(self, candidate: _Candidate, answer: KnownPage) -> bool:
        """Whether a request that might be sampled is made, now that its page is known or not."""
        if answer.reason:
            return True
        if not self.skips:
            packed = self._owed.packing.pack(candidate.request)
            count(self._crawler, "urls/would_park" if packed else "urls/unpackable")
            return True
        if not self._may_be_sampled(candidate):  # by now
            return False
        self._sampled[candidate.place] += 1
        rules = candidate.parking.owed.rules
        mark = [*rules], candidate.request.url, answer.document
        set_mark(candidate.request, SAMPLED, mark)
        self._remember(candidate, _Fate(rules[0], mark))
        return True

    async def _ask(
        self, candidates: Sequence[_Candidate], *, only_ask: bool = False
    ) -> list[tuple[_Candidate, KnownPage]]:
        """Park requests unless something is against it, or only ask whether anything is."""
        from scrapy_simhash.stores.parking import park  # noqa: PLC0415 - loads tldextract
        from scrapy_simhash.stores.rulebook import KnownPage  # noqa: PLC0415

        if not candidates:
            return []
        wanted = [each.parking._replace(only_ask=only_ask) for each in candidates]
        if not only_ask:  # Where it is empty, the request could not be made again.
            for each in candidates:
                each.parking.owed.request = self._owed.packing.pack(each.request)
        answers = await self._detector.commit(partial(park, wanted=wanted), None)
        refused = [KnownPage("unavailable")] * len(wanted)  # the store cannot be written
        return list(zip(candidates, answers or refused, strict=True))

    def _note_unpackable(self, request: Request) -> None:
        count(self._crawler, "urls/unpackable")
        self._warn(
            "%s is fetched although a URL rule leads to a known page: its callback, arguments or "
            "meta cannot be stored. Name a method of the spider, and use plain values; "
            "`simhash/urls/unpackable` counts such requests",
            quote(request.url),
        )

    def _note_parked(self, candidate: _Candidate, answer: KnownPage) -> None:
        """Count and log a request that was parked; the log has each one once a crawl."""
        name, form = candidate.place[0], candidate.parking.form
        self._remember(candidate, _Fate(name, None))
        count(self._crawler, "urls/parked")
        rules = self._detector.acting
        rule = self._texts[name] = rules.texts.get(name, name) if rules else name
        self._counted[name] += 1
        self._owed.expect()
        self._parked += 1
        depth = depth_of(candidate.request)
        if self._is_answered(form, depth):
            self._parked_in[candidate.place].add(answer.key)
        else:
            self._waiting[form].append((candidate.place, answer.key, depth))
            self._waiting_number += 1
        decision = self._detector.pass_over(candidate.request.url, 0)
        decision.status, decision.rule, decision.body_bytes = NOT_FETCHED, rule, None
        decision.match_url, decision.match_document = answer.url, answer.document
        decision.match_pending = answer.pending
        if self._detector.log is not None:
            self._detector.log.write(decision)
        logger.debug(
            "Not fetched %s: %s leads to %s",
            quote(candidate.request.url),
            rule,
            quote(answer.url),
            extra={"spider": self._crawler.spider},
        )

    def _recall(self, identity: bytes) -> _Fate | None:
        """Recall what became of a request in this crawl, unless its rule acts no more."""
        rules = self._detector.acting
        if rules is not self._fates_under:
            acting = rules.texts if rules else {}
            self._fates = {key: fate for key, fate in self._fates.items() if fate.rule in acting}
            self._fates_under = rules
        return self._fates.get(identity)

    def _remember(self, candidate: _Candidate, fate: _Fate) -> None:
        if len(self._fates) >= _MOST_REMEMBERED:
            self._fates.clear()
        self._fates[candidate.parking.owed.identity] = fate

    def _fail(self, error: Exception) -> None:
        """Note that requests are made because something broke, with one line in the log."""
        count(self._crawler, "failed/urls")
        self._warn("Requests are made without asking URL rules: %s", describe_error(error))

    def _warn(self, message: str, about: str) -> None:
        """Warn of something, once a crawl."""
        if message not in self._warned:
            self._warned.add(message)
            logger.warning(message, about, extra={"spider": self._crawler.spider})

    # Made all the same

    def expects(self) -> bool:
        """Whether any wait for a page, or rules are to be checked."""
        return any(self._waiting.values()) or self._is_due

    @property
    def _is_due(self) -> bool:
        # Not every time that a spider is idle which lives long.
        return self.skips and self._parked > 2 * self._checked_at

    async def list_requests(self, spider: Spider) -> list[Request]:
        """Make parked requests that wait for a page, or else some to check the rules."""
        waiting = [keys for keys in self._waiting.values() if keys]
        keys = [keys.popleft()[1] for keys in waiting[:_MOST_MADE]]
        self._waiting_number -= len(keys)
        if not keys and self._is_due:
            self._checked_at = self._parked
            keys = [key for drawn in self._parked_in.values() for key in drawn.draw()]
            keys = keys[:_MOST_CHECKED]
            self._parked_in.clear()
        if not keys:
            return []
        taken = await self._owed.take(keys, check=True)
        made = [] if is_closing(self._crawler) else self._owed.make(taken, spider)
        for (_, owed), request in made:
            set_mark(request, SAMPLED, ([*owed.rules], owed.url, owed.page))
        return [request for _, request in made]

    # As their pages arrive

    async def judged(self, request: Request, response: Response, page: JudgedPage) -> None:
        """Note a page; if its request was made to check rules, it votes."""
        decision, meta = page.decision, request.meta
        if decision.status != "unjudged" and not decision.sink:
            self._note_fetched(request, page)
        meta.pop(YIELDED, None)
        match SAMPLED in meta and take_mark(request, SAMPLED):
            case [[_, *_] as rules, url, target]:
                outcome = None
                if _tells(decision, response.status):
                    outcome = await self._check(request, decision, (rules, url, target))
                count(self._crawler, f"urls/sampled/{_OUTCOMES.get(outcome or '', 'grey')}")

    def _note_fetched(self, request: Request, page: JudgedPage) -> None:
        """Note that this crawl fetched a page, for all requests that rules lead to it."""
        rules, decision = self._detector.acting, page.decision
        form = rules.find_form(decision.url) if rules is not None else ""
        if not form:
            return
        name = name_form(form, page.reader)
        depth = depth_of(request)
        number, least = self._fetched.get(name, (decision.document, depth))
        self._fetched[name] = number, min(depth, least)
        for place, key, depth in self._waiting.pop(name, ()):
            if self._is_answered(name, depth):
                self._parked_in[place].add(key)
                self._waiting_number -= 1
            else:
                self._waiting[name].append((place, key, depth))
        if len(self._fetched) > _MOST_REMEMBERED:
            self._fetched.popitem(last=False)

    async def _check(self, request: Request, decision: Decision, mark: _Mark) -> str | None:
        """Let a page that was judged vote on the rules that it is to check."""
        from scrapy_simhash.stores.rulebook import Sample  # noqa: PLC0415 - loads tldextract

        rules, url, target = mark
        sample = Sample(
            tuple(rules),
            url,
            target,
            decision.document,
            redirected=request.url != url,
            new_links=decision.new_links,
        )
        outcome, changes = await self._detector.ask(
            lambda store: store.check_sample(sample), (None, ())
        )
        for change in changes:
            if change.state == RuleState.RETIRED:
                count(self._crawler, "urls/retired")
            logger.warning(
                "URL rule %s is %s: %s",
                quote(change.text),
                change.state,
                change.reason,
                extra={"spider": self._crawler.spider},
            )
        return outcome


def _tells(decision: Decision, status: int) -> bool:
    """Whether a page says anything about its rules: a failure and an empty answer do not."""
    return status in SUCCESS and bool(decision.body_bytes) and decision.reason not in _TELLS_NOTHING
