"""The judge of a crawl: reads its pages, judges them one after the other, and remembers them.

It has the store, and runs in a process of its own (`main`) or in the crawl's (`client`). What is
to be kept is young (`young`) until the crawl tells what became of it; what came through and what
was dropped is written in groups, while nobody waits for it.
"""

from __future__ import annotations

import gc
import logging
import signal
import time
from collections import Counter, defaultdict, deque
from contextlib import contextmanager, suppress
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import structs
from msgspec.msgpack import decode

from scrapy_simhash._printable import describe_error, quote
from scrapy_simhash.errors import (
    NotJudgedError,
    StoreError,
    StoreUnavailableError,
    StoreUnusableError,
)
from scrapy_simhash.judge import messages
from scrapy_simhash.judge.links import LinkTable
from scrapy_simhash.judge.log import FOLLOW, LOSING, PASS
from scrapy_simhash.judge.process import PageReader, Pipe, end_with
from scrapy_simhash.judge.refetches import Refetches
from scrapy_simhash.judge.young import WithYoung, Young
from scrapy_simhash.judging.documents import State, make_document
from scrapy_simhash.judging.hosts import Hosts
from scrapy_simhash.judging.matching import UNCHANGED, UNDELIVERED, Doubt, Judge
from scrapy_simhash.judging.slots import Slots, show_standing
from scrapy_simhash.judging.words import Page
from scrapy_simhash.pages.addresses import are_of_one_origin, bound_url, host_of
from scrapy_simhash.pages.facts import MOSTLY_NEW, NO_LINKS, Recipe, Share, unpack
from scrapy_simhash.stores.documents import Documents
from scrapy_simhash.stores.opening import lasts, open_as_it_is, open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from scrapy_simhash.judge.young import YoungPage
    from scrapy_simhash.judging.documents import Decision, Document, Reading
    from scrapy_simhash.judging.slots import Change
    from scrapy_simhash.pages.facts import PageFingerprint, Reader

logger = logging.getLogger(__name__)

# The oldest is forgotten: a spider that keeps more callbacks at work than this is none we know of.
MOST_YOUNG = 10_000
# A commit takes 1 to 50 ms, in which nobody reads: a tenth of the time, until a group is full.
_COMMIT_SECONDS, _SHARE_OF_COMMITS = 0.05, 0.1
_MOST_PER_COMMIT = 64  # LMDB keeps the memory it took, some 60 kB each
# A store that cannot be written is tried again so often, and this many changes wait for it.
_TRYING_SECONDS = 1.0
_MOST_QUEUED = 10_000
# So long a page waits for a young one; with items of 8 s nothing is kept twice (reference: 29 of
# 140 families with 5 s).
WAIT_SECONDS = 30.0
# After so many waits in vain nobody waits for pages of that callback any more.
_MOST_IN_VAIN = 3
# Pages of which no document is made are numbered from here on where they are asked for again:
# beyond those of documents, and below those of young revisits.
_PAGES_FROM = 1 << 61
_BEATING_SECONDS = 1.0
# Numbers of documents are taken so many at a time.
_NUMBERS = 64
# Each with the one that follows the links.
_FOLLOWING = {"drop": FOLLOW, "ignore-outlinks": "flag"}


class _Page(NamedTuple):
    """A page that was read."""

    asked: messages.Ask
    made: PageFingerprint
    document: Document
    time: float
    since: float  # `time.monotonic`
    body_bytes: int


class CrawlJudge:
    """Judges the pages of one crawl.

    Args:
        given: what to open.
        say: takes what is said, at once or later.
        status: of a process that may be killed for a page; None in the crawl's own.

    Raises:
        StoreError: the store cannot be opened.
        ValueError: a setting names what does not exist.
    """

    def __init__(
        self,
        given: messages.Open,
        say: Callable[[messages.FromJudge], object],
        status: memoryview[float] | None = None,
    ) -> None:
        self._given, self._say = given, say
        config = given.config
        self._reader = PageReader(config, status)
        self._rule, self._hosts = config.chosen_rule, Hosts(recalls=config.refetch > 0)
        self._refetches = Refetches(config.refetch, self._hosts, say)
        self._found = 0  # near-duplicates, also those that wait
        # Pages by who gets them, and those that repeat another one.
        self._judged, self._repeated = Counter["Reader"](), Counter["Reader"]()
        self._links = LinkTable(flags=config.action == "flag")
        self._numbers: deque[int] = deque()
        # Methods of `Documents` with what they write; and the young page that it is, or 0.
        self._queue: deque[tuple[Callable[..., object], Sequence[Any], int]] = deque()
        self._next_commit = 0.0
        self._failure = ""  # why the store cannot be written
        # By the young page, or minus the document asked for once more, that they wait for.
        self._waiting: defaultdict[int, list[_Page]] = defaultdict(list)
        self._in_vain = Counter["Reader"]()
        self._waits_are_over = False
        if given.seed is not None and lasts(config.store):
            open_as_it_is(config.store).close()  # none is made in the place of one that is gone
        self._store = open_store(
            config.store,
            config.distance_to_open,
            config.tables,
            Recipe(),
            config.readonly,
            rule=config.rule,
            seed=given.seed,
        )
        self._young = Young(self._store.seed, self._store.dissolved)
        header = self._store.read(lambda stored: stored.header)
        self._reader.begin(0)
        say(messages.Opened(self._store.seed, header.readers, header.shares))

    def take(self, message: messages.ToJudge) -> None:
        """Do what a message says."""
        match message:
            case messages.Ask():
                self._ask(message)
            case messages.Settled():
                self._settle(message.number, message.outcome)
            case messages.Again():
                self._learn(message)
            case messages.Gone(identity=identity):
                if not self._given.config.readonly:
                    self._enqueue(Documents.forget, identity)
            case messages.EndWaits():
                self._end_waits()
            case messages.Close():
                self._close()

    # Time

    def tick(self) -> float:
        """Write what is to be written, and end waits, as far as it is time.

        Returns:
            The seconds after which it is to be called again, one at most.
        """
        self._reader.begin(0)
        now = time.monotonic()
        if self._queue and now >= self._next_commit:
            self._commit()
        for number, pages in list(self._waiting.items()):
            if min(map(_end_of_wait, pages)) <= now:
                if young := self._young.pages.get(number):
                    young.is_slow = True
                    self._in_vain[pages[0].document.facts.reader] += 1
                self._release(number)
        # Who watches sees each second that it does not stand still.
        times = [now + _BEATING_SECONDS]
        times += [min(map(_end_of_wait, pages)) for pages in self._waiting.values()]
        if self._queue:
            times.append(self._next_commit)
        return max(0.0, min(times) - time.monotonic())

    def _close(self) -> None:
        """Write what is left, and close the store."""
        self._end_waits()
        while self._queue:
            before = len(self._queue)
            self._commit()
            if len(self._queue) == before:
                break
        shares = [
            Share(reader, self._given.crawl, number, self._repeated[reader])
            for reader, number in self._judged.items()
        ]
        with suppress(StoreError):
            if shares and not self._given.config.readonly:
                self._store.write(lambda stored: stored.add_shares(shares))
        with suppress(StoreError):
            self._store.close()
        left, beyond = self._links.list_left()
        self._say(messages.Closed(left, beyond, self._links.has_kept, len(self._queue)))

    # A page

    def _ask(self, asked: messages.Ask) -> None:
        """Answer a page."""
        number, body = asked.number, asked.body
        with self._at(number):
            if asked.wanted == "verdict":
                self._decide(self._read(asked))
            elif asked.wanted == "fingerprint":
                made, _ = self._reader.read(number, asked.page, body, self._store.seed)
                self._say(messages.Said(number, fingerprint=made))
            else:
                text = self._reader.read_text(number, asked.page, body, asked.wanted)
                self._say(messages.Said(number, text=text))

    @contextmanager
    def _at(self, number: int) -> Iterator[None]:
        """Work at a page; whatever breaks, it passes."""
        try:
            yield
        except Exception as error:  # noqa: BLE001
            self._forget(number)
            reason, detail = "failed", describe_error(error)
            if isinstance(error, NotJudgedError):
                reason, detail = error.reason, error.detail
            elif isinstance(error, StoreError):
                reason, detail = "store_unavailable", str(error)
            self._say(messages.Said(number, reason=reason, detail=detail))

    def _read(self, asked: messages.Ask) -> _Page:
        """Read a page, and make its document."""
        page, seed = asked.page, self._store.seed
        began = round(time.time(), 3)
        made, scope = self._reader.read(asked.number, page, asked.body, seed)
        page = structs.replace(
            page,
            url=bound_url(page.url, seed),
            requested=page.requested and bound_url(page.requested, seed),
            time=began if page.time is None else page.time,
        )
        document = make_document(made, self._rule, page, scope)
        body_bytes = len(asked.body)
        asked = structs.replace(asked, page=page, body=b"")  # while it waits
        return _Page(asked, made, document, began, time.monotonic(), body_bytes)

    def _judge(
        self, page: _Page, trusted: Mapping[int, Collection[Change]] | None = None
    ) -> tuple[Judge, Decision, Document | None]:
        """Judge a page; also return the judge, and what is to be written, if anything is."""
        config, document = self._given.config, page.document

        def work(stored: Documents) -> tuple[Judge, Decision, Document | None]:
            if self._store.engine.shared:
                stored.read_ahead(document, self._rule)
            seen: Reading = WithYoung(stored, self._young) if self._young.pages else stored
            # A crawl that writes nothing cannot get anything, so it compares with all there is.
            incremental = config.incremental or config.readonly
            judge = Judge(seen, self._rule, self._given.crawl, incremental, self._hosts)
            if page.asked.young and not self._waits_are_over:
                judge.is_in_vain = self._refetches.is_in_vain
                judge.find_bar = self._refetches.find_bar
                judge.number = _PAGES_FROM + page.asked.number
            judge.trusted = trusted
            decision, made = judge.judge(document)
            number = decision.document
            if decision.reason == UNCHANGED and self._young.find("original", number):
                # This crawl got its copy: by that it is judged, and stays a document.
                match, _, _ = judge.find_match(document, number)
                judge.doubt = None
                if match is not None and judge.stand(match) == "got":
                    decision = judge.decide(document.facts, match)
                    decision.document = number
                    return judge, decision, None
            return judge, decision, made

        return self._store.read(work)

    def _decide(self, page: _Page, *, waited: bool = False) -> None:
        """Judge a page, and answer it, or let it wait."""
        began = time.monotonic()
        judge, decision, made = self._judge(page)
        self._found += decision.match_url is not None
        if judge.doubt and time.monotonic() < _end_of_wait(page):
            self._wait_for(page, -self._refetches.ask_in_doubt(judge.doubt, page.asked.number))
            return
        if judge.rests is not None:
            checked = self._check(page, judge.rests, (decision, made))
            if checked is None:
                return
            decision, made = checked
        young = self._young.by_key.get(decision.match_document)
        if young is not None and self._waits(page, young):
            self._wait_for(page, young.page)
            return
        self._complete(page, decision)
        group, match_url = page.document.facts.group, decision.match_url
        if match_url is not None:
            pages = decision.url, decision.requested_url, match_url
            decision.new_links = self._links.measure_new(page.made.targets, group, *pages)
            decision.action = self._choose(page, decision, young)
            if made is not None:
                made.new_links = decision.new_links
        elif decision.reason == UNCHANGED and self._given.config.unchanged == "drop":
            own = self._young.find("identity", page.document.facts.identity)
            got = all(self._young.by_key[each].counts for each in own)
            decision.action = FOLLOW if got and page.asked.action in LOSING else ""
        self._refetches.judged += 1
        self._judged[page.asked.page.reader] += 1
        self._repeated[page.asked.page.reader] += match_url is not None and decision.action != PASS
        if young is not None:
            decision.match_document = young.document.number
            decision.reason = UNDELIVERED if decision.action == PASS else decision.reason
        decision.store_ms = round(1_000 * (time.monotonic() - began), 3)
        # DEPTH_LIMIT cuts off what others link to.
        links = page.made.targets if page.asked.page.leads_on else NO_LINKS
        is_young = self._remember(page, decision, made, young)
        if is_young and not self._links.flags:  # its callback may fail before it follows them
            page_links = links._replace(addresses=b""), group
            self._young.pages[page.asked.number].links, links = page_links, NO_LINKS
        self._links.note(decision, links, group)
        waited_seconds = began - page.since if waited else 0.0
        self._say(messages.Said(page.asked.number, decision, is_young, waited_seconds))

    def _complete(self, page: _Page, decision: Decision) -> None:
        """Add to a decision what its line in the log has beyond."""
        decision.time, decision.requested_url = page.time, page.asked.page.requested
        decision.crawl, decision.spider = self._given.crawl, self._given.spider
        decision.body_bytes, decision.links = page.body_bytes, page.made.links
        decision.read_ms = page.made.read_ms

    def _wait_for(self, page: _Page, number: int) -> None:
        """Have a page wait for a young one, or for a second answer, see `_waiting`."""
        self._waiting[number].append(page)
        self._say(messages.Waits(page.asked.number))

    def _check(
        self, page: _Page, kept: Doubt, judged: tuple[Decision, Document | None]
    ) -> tuple[Decision, Document | None] | None:
        """Judge a page whose drop rests on noise by what was seen on honest pages alone.

        Where other pages taught that noise, the original may be asked for once more; the page
        itself, where its original always changes.

        Returns:
            What was judged, if the page may be dropped, or what is judged without the noise; None
            if the page waits for the check.
        """
        mine = Page.make(page.document.facts, unpack(page.document.wording))
        document, url, own_host = kept.document, kept.page.facts.url, host_of(mine.facts.url)
        if own_host != host_of(url):
            url = mine.facts.url
        noise = self._hosts.get_noise(url)
        place = f"{own_host}/{noise.find_place(url)}"
        own, itself = noise.list_own(url), noise.list_own(mine.facts.url)
        found = show_standing(self._hosts.list_noise(mine, kept.page), mine, kept.page)
        used = {each.slot: each for each in found}
        # What changes at every fetch of the original may be what the page is about: a random one.
        fast = noise.list_fast() & Slots(used.values()).locate(mine).keys()
        confirmed = list(self._refetches.list_confirmed(place, used.values(), fast))
        honest = (*(each for each in own if each.slot not in fast), *itself, *confirmed)
        _, decision, made = self._judge(page, {document: honest})
        is_one = decision.match_document == document
        if used and page.asked.young and not self._waits_are_over:
            asked = kept
            # What the original has not its answer does not show.
            shown = Slots(used.values()).locate(kept.page, used).keys()
            lacking = used.keys() - shown - {each.slot for each in (*own, *itself, *confirmed)}
            if (
                lacking
                or fast.difference(each.slot for each in confirmed)
                or (is_one and fast)
                or not are_of_one_origin(mine.facts.url, kept.page.facts.url)
            ):
                sought = tuple(used[slot] for slot in fast | lacking or used)
                asked = Doubt(_PAGES_FROM + page.asked.number, mine, sought)
            if self._refetches.takes_check(asked, place, document, confirmed=is_one):
                self._say(messages.Refetch(page.asked.number, asked.document, asked.page.facts.url))
            checked, is_doubtful = self._refetches.find_checked(place)
            waits = checked and (is_doubtful or not is_one or fast)
            if waits and time.monotonic() < _end_of_wait(page):
                self._wait_for(page, -checked)
                return None
        return judged if is_one else (decision, made)

    def _learn(self, again: messages.Again) -> None:
        """Learn from the second answer to an address, and judge again what waits for it."""
        asked = self._refetches.end(again.document)
        if asked is None:  # a judge that died asked for it
            return
        waiting = self._waiting.get(-again.document)
        number, answer = waiting[0].asked.number if waiting else 0, None
        if again.page is not None:
            with suppress(Exception):  # whatever breaks, those that wait go on
                made, _ = self._reader.read(number, again.page, again.body, self._store.seed)
                facts = structs.replace(made.facts, url=asked.doubt.page.facts.url)
                answer = Page.make(facts, unpack(made.wording))
        if answer is not None:
            url = asked.doubt.page.facts.url
            with suppress(StoreError):  # what earlier crawls saw is lacking then
                self._store.read(lambda stored: self._hosts.recall(stored, url))
            try:
                if self._refetches.learn(asked, answer):
                    return
            except Exception:  # those that wait go on, without what it shows
                logger.exception("Nothing was learnt from a second answer to %s", quote(url))
            if not self._given.config.readonly:
                noise = self._hosts.get_noise(url)
                self._enqueue(Documents.add_noise, host_of(url), noise.describe())
        before = self._found
        self._release(-again.document)
        if not asked.place:
            self._refetches.note(asked, dropped=self._found > before)

    def _choose(self, page: _Page, decision: Decision, young: YoungPage | None) -> str:
        """Choose the action on a near-duplicate."""
        action = page.asked.action
        unsettled = young is not None and not young.counts
        if decision.reason or (unsettled and action in LOSING):
            return PASS
        follows = action in LOSING and self._given.config.follow_new_links
        if follows and (decision.new_links or 0.0) >= MOSTLY_NEW:
            return _FOLLOWING[action]
        return action

    # What is remembered

    def _remember(
        self, page: _Page, decision: Decision, made: Document | None, young: YoungPage | None
    ) -> bool:
        """Remember a kept page as a young one, and return True; have others written."""
        number = page.asked.number
        if self._given.config.readonly or not page.asked.young:
            decision.document = 0
            return False
        if made is None:
            return False
        if is_new := not made.number:
            made.number = self._take_number()
        decision.document = made.number
        if decision.action in {"", PASS}:
            if len(self._young.pages) >= MOST_YOUNG:
                pages = self._young.pages.items()
                oldest = next((n for n, each in pages if not each.is_settled), 0)
                if not oldest:
                    raise StoreUnavailableError(self._failure or "too much is to be written")
                self._forget(oldest)
            is_new &= made.state == State.DONE
            self._young.add(number, made, is_new=is_new)
            return True
        if young is not None:
            first = young.document  # a first copy stands for another page
            made.state = State.DUPLICATE
            made.original = first.original if first.state == State.DUPLICATE else first.number
            made.distance = -1 if decision.distance is None else decision.distance
            made.similarity, made.tests = decision.similarity, (*decision.tests,)
        self._enqueue(Documents.save, made)
        return False

    def _take_number(self) -> int:
        """Take the number of a new document."""
        if not self._numbers:
            if self._failure:
                raise StoreUnavailableError(self._failure)
            first = self._store.engine.take_numbers(_NUMBERS)
            self._numbers.extend(range(first, first + _NUMBERS))
        return self._numbers.popleft()

    def _settle(self, number: int, outcome: messages.Outcome) -> None:
        """Do what follows from what became of a young page; an unknown one is ignored."""
        page = self._young.pages.get(number)
        if page is None or page.is_settled:
            return
        if outcome == "failed":
            self._forget(number)
            return
        if outcome == "done":
            page.is_settled = True
            self._enqueue(Documents.save, page.document, page=number)
        # It counts from now on, whatever becomes of the store.
        page.counts = True
        if page.links is not None:
            self._links.add(*page.links)
            page.links = None
        self._release(number)

    def _forget(self, number: int) -> None:
        """Forget a young page, and judge again what waits for it."""
        page = self._young.pages.get(number)
        if page is not None and not page.is_settled:
            self._young.pop(number)
            self._release(number)

    # Waiting

    def _waits(self, page: _Page, young: YoungPage) -> bool:
        """Return whether a page waits for what becomes of a young one.

        All pages of a crawl may: then nothing new is fetched until one is settled, as Scrapy itself
        does while pipelines are behind. With room for half of CONCURRENT_REQUESTS, 52 of 60 copies
        are kept where items take 8 s (docs/design.md).
        """
        asked = page.asked
        if not asked.young or asked.action not in LOSING or young.counts:
            return False
        return (
            not self._waits_are_over
            and time.monotonic() < _end_of_wait(page)
            and not young.is_slow
            and self._in_vain[page.document.facts.reader] < _MOST_IN_VAIN
        )

    def _release(self, number: int) -> None:
        """Judge again the pages that wait for a young one, or for a second answer."""
        for page in self._waiting.pop(number, ()):
            self._reader.begin(page.asked.number, loading=True)
            with self._at(page.asked.number):
                self._decide(page, waited=True)

    def _end_waits(self) -> None:
        """Answer all pages that wait; no page waits from now on."""
        self._waits_are_over = True
        for number in list(self._waiting):
            self._release(number)

    # Writing

    def _enqueue(self, method: Callable[..., object], *given: object, page: int = 0) -> None:
        """Have a method of `Documents` called with the next group that is written."""
        if not self._queue:
            self._next_commit = max(self._next_commit, time.monotonic() + _COMMIT_SECONDS)
        self._queue.append((method, given, page))
        if len(self._queue) >= _MOST_PER_COMMIT and not self._failure:
            self._next_commit = 0.0  # or they fill the memory where the crawl is faster

    def _commit(self) -> None:
        """Write a group; what the store does not take waits until it does."""
        group = list(islice(self._queue, _MOST_PER_COMMIT))
        began = time.monotonic()
        try:
            self._write(group)
        except (StoreUnavailableError, StoreUnusableError) as error:
            if not self._failure:
                logger.warning("The store cannot be written, and is tried again later: %s", error)
            self._failure, seconds = str(error), _TRYING_SECONDS
            ended = len(self._queue) - _MOST_QUEUED  # these may be kept twice
        else:
            self._failure, seconds, ended = "", _COMMIT_SECONDS, len(group)
        now = time.monotonic()
        self._next_commit = now + max(seconds, (now - began) / _SHARE_OF_COMMITS)
        for _ in range(ended):
            *_, number = self._queue.popleft()
            if page := self._young.pages.get(number):
                page.is_settled = False
                # A first copy, which no table leads to, stays for its copies.
                if page.document.state == State.DONE:
                    self._forget(number)

    def _write(self, group: Sequence[tuple[Callable[..., object], Sequence[Any], int]]) -> None:
        """Write a group in one transaction; if one breaks it, the others each in their own."""
        saved: list[Any] = [given[0] for method, given, _ in group if method is Documents.save]

        def work(stored: Documents) -> None:
            stored.read_ahead_of(saved)
            for method, given, _ in group:
                method(stored, *given)

        try:
            self._store.write(work)
        except (StoreUnavailableError, StoreUnusableError):
            raise
        except Exception as error:  # noqa: BLE001 - the judge must outlive whatever happens
            if len(group) == 1:
                logger.error("Not written: %s", describe_error(error))  # noqa: TRY400
                return
            for each in group:
                self._write([each])


def _end_of_wait(page: _Page) -> float:
    return page.since + WAIT_SECONDS


def main(status_file: int, crawl_process: int) -> None:
    """Judge what comes from the crawl until that closes or ends."""
    # Ctrl-C is for the crawl, and what ends a service tells all its processes at once.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    end_with(crawl_process)
    pipe = Pipe()
    logging.getLogger().addHandler(pipe)
    with suppress(EOFError, ConnectionError):
        try:
            _serve(pipe, messages.map_status(status_file))
        except (EOFError, ConnectionError):
            raise
        except StoreError as error:
            pipe.say(messages.Failed(str(error), isinstance(error, StoreUnusableError)))
        except Exception as error:
            logger.exception("The judge of the crawl failed")
            pipe.say(messages.Failed(describe_error(error)))


def _serve(pipe: Pipe, status: memoryview[float]) -> None:
    judge = CrawlJudge(decode(pipe.get() or b"", type=messages.Open), pipe.say, status)
    # The collector passes over what stays, and comes more seldom: a page leaves few cycles.
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 10)
    closing, timeout_seconds = False, 0.0
    while not closing:
        if (frame := pipe.get(timeout_seconds)) is not None:
            message = messages.unpack_to_judge(frame)
            closing = isinstance(message, messages.Close)
            judge.take(message)
        timeout_seconds = judge.tick()
