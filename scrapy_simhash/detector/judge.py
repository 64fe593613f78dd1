"""The judge of a crawl: reads what it is told, judges pages in groups, and commits each group.

It has the store and the log, and runs where `client` puts it: in a process, as `main`, or in a
thread. While one commit syncs, the next group gathers.
"""

from __future__ import annotations

import logging
import queue
import signal
import time
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy_simhash._printable import describe_error, quote
from scrapy_simhash.config import SECONDS_A_DAY
from scrapy_simhash.detector.doubts import Doubts, Walls
from scrapy_simhash.detector.log import DecisionLog
from scrapy_simhash.detector.messages import (
    Answered,
    Asked,
    Begin,
    Begun,
    Close,
    Closed,
    Decided,
    Forget,
    FromJudge,
    Line,
    Mark,
    Noted,
    Open,
    Opened,
    Question,
    Settled,
    ToJudge,
    Told,
    describe_failure,
    explain,
    pack,
    unpack_to_judge,
    warn_of_pending,
)
from scrapy_simhash.detector.process import Parent, end_with
from scrapy_simhash.detector.worker import unpack_fingerprint
from scrapy_simhash.errors import StoreError, StoreUnavailableError, StoreUnusableError
from scrapy_simhash.judging.documents import make_document
from scrapy_simhash.stores.lost import count_left, find_due, forget, lose, repack, take
from scrapy_simhash.stores.opening import open_as_it_is, open_store
from scrapy_simhash.stores.rows import LOST

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scrapy_simhash.detector.log import Decision
    from scrapy_simhash.judging.documents import Document, Verdict
    from scrapy_simhash.pages.facts import PageFingerprint
    from scrapy_simhash.stores.documents import Documents

logger = logging.getLogger(__name__)

# A group holds the write lock of the store; 64 pages hold it for a few milliseconds, and more
# make no page cheaper (benchmarks/bench_store.py).
_PAGES_PER_GROUP = 64
# Where to judge a page takes long, other processes wait no longer than this for one group.
_SECONDS_PER_GROUP = 0.25
# A feed may have all pages done at once, and none should wait for so many marks. Not measured.
_MARKS_PER_GROUP = 1_024
# So long after a commit the next one waits for the pages that are on their way. A commit takes four
# times as long as to judge a page and to write it.
_PAGES_DELAY_SECONDS = 0.02
# How long a mark may wait for a page whose commit it can share; chosen, not measured.
_DONE_DELAY_SECONDS = 1.0


class _Page(NamedTuple):
    """A page that waits for its verdict."""

    asked: Asked
    made: PageFingerprint
    document: Document


class _Group(NamedTuple):
    """What one commit writes."""

    pages: list[_Page]
    marks: list[Mark]

    def split(self) -> Iterator[_Group]:
        """Make a group of each mark and page."""
        yield from (_Group([], [mark]) for mark in self.marks)
        yield from (_Group([page], []) for page in self.pages)

    def settle(self, stored: Documents) -> None:
        """Write what became of lost pages, before one of them is dropped anew."""
        forget(stored, [mark.found for mark in self.marks if mark.found])
        lose(stored, [mark.lost for mark in self.marks if mark.lost])
        repack(stored, dict(mark.packed for mark in self.marks if mark.packed))


class GroupJudge:
    """Judges the pages of one crawl; nobody else of the crawl uses the store.

    Args:
        get: returns the next message, waiting so many seconds at most (None for ever); raises
            `queue.Empty` if there is none, EOFError if the crawl is gone.
        send: sends messages to the crawl.
    """

    def __init__(
        self, get: Callable[[float | None], bytes], send: Callable[[list[bytes]], object]
    ) -> None:
        self._get, self._send = get, send
        self._outgoing: list[bytes] = []
        self._group = _Group([], [])
        self._most = _PAGES_PER_GROUP  # pages of a group, fewer where judging takes long
        self._kept_marks = 0  # of a group that failed
        self._questions: list[Question] = []
        self._closing = False
        self._next_commit = 0.0
        self._last_mark = self._last_line = 0  # numbers of those that came
        self._lines = 0  # that came since the last commit
        self._written = b""  # what a judge that died may have written
        self._settled = Settled(0, 0, 0)
        self._log: DecisionLog | None = None
        self._walls, self._doubts = Walls(), Doubts(examples=1)

    def run(self) -> None:
        """Judge until the crawl closes or is gone."""
        try:
            with ExitStack() as opened:
                self._open(opened)
                while not self._closing or self._group.pages:
                    self._gather()
                    self._commit()
                    self._answer()
                    self._flush()
        except EOFError:
            return
        except StoreError as error:
            self._tell(describe_failure(error))
        except Exception as error:
            logger.exception("The judge of the crawl failed")
            self._tell(describe_failure(error))
        else:
            self._tell(Closed())
        self._flush()

    def _tell(self, message: FromJudge) -> None:
        """Have a message sent at the next flush."""
        self._outgoing.append(pack(message))

    def _flush(self) -> None:
        outgoing, self._outgoing = self._outgoing, []
        if outgoing:
            self._send(outgoing)

    # Opening

    def _open(self, opened: ExitStack) -> None:
        given = unpack_to_judge(self._get(None))
        if not isinstance(given, Open):
            raise TypeError(f"the first message is no Open but {given!r}")
        self._given = given
        config = given.config
        self._rule = config.rule
        if given.seed is not None:  # none is made in the place of one that is gone
            open_as_it_is(config.store).close()
        store = self._store = open_store(
            config.store,
            config.distance_to_open,
            config.tables,
            given.recipe,
            config.readonly,
            config.confirm,
            seed=given.seed,
        )
        opened.callback(store.close)
        if given.log:
            try:
                self._log = DecisionLog(Path(given.log))
            except OSError as error:
                raise StoreUnusableError(
                    f"decision log {given.log} cannot be written ({error}); set SIMHASH_LOG to "
                    "another path, or to None"
                ) from error
            opened.callback(self._log.close)
        self._tell(Opened(store.seed, store.distance))
        self._flush()
        match unpack_to_judge(self._get(None)):
            case Begin():
                self._begin(opened)
            case _:
                self._closing = True

    def _begin(self, opened: ExitStack) -> None:
        store, given, lost = self._store, self._given, 0
        again = given.seed is not None
        if not store.readonly:
            if not again:
                store.start_crawl(given.crawl, given.spider, lease=not given.leased)
                lost = store.read(lambda stored: stored.values.count(LOST))
            elif not given.leased:  # that of the other judge ended with it
                store.engine.leases.take(given.crawl)
            opened.callback(self._end_crawl)
        if again and self._log is not None:
            self._written = self._log.read_end()
        self._tell(Begun(lost))
        self._flush()

    def _end_crawl(self) -> None:
        if self._closing:  # otherwise it goes on, in the hands of another judge
            with suppress(StoreError):  # a full disk: the lease ends all the same
                self._store.end_crawl(self._given.crawl)

    # Gathering

    def _gather(self) -> None:
        """Wait for pages or questions, an overdue mark or the end; then take what else has come."""
        deadline = None
        while not (self._group.pages or self._questions or self._closing or self._is_full):
            if deadline is None and self._group.marks:
                deadline = time.monotonic() + _DONE_DELAY_SECONDS
            if not self._take(None if deadline is None else deadline - time.monotonic()):
                return
        while self._has_room and self._group.pages and self._group.pages[-1].asked.more:
            if not self._take(self._next_commit - time.monotonic()):
                break
        while self._has_room and self._take(0.0):
            pass
        self._next_commit = time.monotonic() + _PAGES_DELAY_SECONDS

    @property
    def _has_room(self) -> bool:
        urgent = self._questions or self._closing or self._is_full
        return not urgent and len(self._group.pages) < _PAGES_PER_GROUP

    @property
    def _is_full(self) -> bool:
        """Whether marks or lines alone fill a group; marks of a failed one wait for their time."""
        marks = len(self._group.marks) - self._kept_marks
        return max(marks, self._lines) >= _MARKS_PER_GROUP

    def _take(self, seconds: float | None) -> bool:
        """Take a message, if one comes within so many seconds."""
        try:
            message = self._get(None if seconds is None else max(0.0, seconds))
        except queue.Empty:
            return False
        self._read(unpack_to_judge(message))
        return True

    def _read(self, message: ToJudge) -> None:
        match message:
            case Asked():
                self._written = b""  # what is told again comes before
                self._ask(message)
            case Noted(number=number, mark=mark):
                self._last_mark = number
                self._group.marks.append(mark)
            case Line(number=number, line=line):
                self._last_line = number
                self._lines += 1
                if self._log is not None and line not in self._written:
                    self._log.write(line)
            case Question():
                self._questions.append(message)
            case Close():
                self._closing = True
            case Forget(number=number):  # a page that nobody waits for is not recorded as seen
                pages = self._group.pages
                pages[:] = [page for page in pages if page.asked.number != number]

    def _ask(self, asked: Asked) -> None:
        """Make the document of a page; one that cannot be made costs no other page anything."""
        try:
            answer, packed = asked.read
            made = replace(unpack_fingerprint(packed), targets=answer.targets)
            config, page = self._given.config, asked.page
            days = config.expire_days
            document = make_document(
                made,
                self._rule,
                page,
                answer.scope,
                crawl=self._given.crawl,
                not_before=0.0 if days is None else (page.time or 0.0) - days * SECONDS_A_DAY,
                across_spiders=config.across_spiders,
            )
        except Exception as error:  # noqa: BLE001 - whatever the reader sent
            self._tell(Decided(asked.number, None, "failed", describe_error(error)))
            self._flush()  # perhaps nothing else comes
        else:
            self._group.pages.append(_Page(asked, made, document))

    # Judging

    def _commit(self) -> None:
        group, self._group, self._kept_marks = self._group, _Group([], []), 0
        if group.pages or (group.marks and not self._store.readonly):
            try:
                self._write(group)
            except StoreUnavailableError as error:
                self._refuse(group, error)
            except Exception:  # noqa: BLE001 - the judge must outlive whatever happens
                # So that one bad page spoils no other.
                for part in group.split():
                    try:
                        self._write(part)
                    except Exception as error:  # noqa: BLE001
                        self._refuse(part, error)
                    self._flush()  # so that the crawl hears of a judge that works for long
        self._lines = 0
        mark = self._settled.mark if self._group.marks else self._last_mark
        settled = Settled(mark, self._last_line, self._log.lost if self._log else 0)
        if settled != self._settled:
            self._settled = settled
            self._tell(settled)

    def _refuse(self, group: _Group, error: Exception) -> None:
        """Refuse the pages of a group that failed; keep its marks if they can be written later."""
        why = explain(error)
        for page in group.pages:
            self._tell(Decided(page.asked.number, None, "store_unavailable", why))
        if isinstance(error, StoreUnavailableError) and not self._closing:
            self._group.marks.extend(group.marks)
            self._kept_marks += len(group.marks)
        else:
            warn_of_pending(group.marks, why)

    def _write(self, group: _Group) -> None:
        verdicts = self._store.find_and_add(
            [page.document for page in group.pages[: self._most]],
            crawl=self._given.crawl,
            done=[mark.done for mark in group.marks if mark.done],
            withdrawn=[mark.withdrawn for mark in group.marks if mark.withdrawn],
            before=group.settle if any(mark.about_lost for mark in group.marks) else None,
            seconds=_SECONDS_PER_GROUP,
        )
        for page, verdict in zip(group.pages, verdicts, strict=False):
            number = page.asked.number
            try:
                self._tell(Decided(number, self._decide(page, verdict)))
            except Exception as error:  # noqa: BLE001 - of an odd address; the page passes
                self._tell(Decided(number, None, "failed", describe_error(error)))
        # All that are given are read ahead, which is in vain for those that are not judged.
        cut = len(verdicts) < min(len(group.pages), self._most)
        self._most = 2 * len(verdicts) if cut else min(_PAGES_PER_GROUP, 2 * self._most)
        # The others come first in the next group.
        self._group.pages.extend(group.pages[len(verdicts) :])

    def _decide(self, page: _Page, verdict: Verdict) -> Decision:
        """Complete the decision on a page."""
        decision = page.asked.decision.complete(verdict, page.document.facts, page.made)
        decision.requested_url = page.asked.page.requested
        decision.store_ms = round(1000 * (time.monotonic() - page.asked.sent), 3)
        if verdict.status != "not_judged":
            fetched = page.asked.page
            try:
                if not fetched.is_file:
                    decision.sink = self._walls.is_shown(decision, fetched.requested)
                self._doubts.add(decision)
            except Exception:  # the page is committed, and the crawl has to hear of it
                logger.exception("Not looked at for walls and doubts: %s", quote(decision.url))
        return decision

    # Questions

    def _answer(self) -> None:
        questions, self._questions = self._questions, []
        for question in questions:
            try:
                self._tell(Answered(question.number, pack(self._find(question))))
            except Exception as error:  # noqa: BLE001 - the crawl goes on without an answer
                self._tell(Answered(question.number, b"", explain(error)))
            self._flush()

    def _find(self, question: Question) -> Any:
        """Find the answer to a question."""
        store, crawl, spider = self._store, self._given.crawl, self._given.spider
        match question.name:
            case "find_due":
                return store.read(partial(find_due, crawl=crawl, spider=spider))
            case "take_lost":
                return store.write(partial(take, crawl=crawl, spider=spider, keys=question.keys))
            case "count_left":
                return store.read(partial(count_left, crawl=crawl, spider=spider))
            case "describe_doubts":
                titles: dict[str, str] = {}
                with suppress(StoreError):
                    titles = self._store.find_titles(self._doubts.list_pages())
                return self._doubts.describe(titles)
        if marks := self._group.marks:
            raise StoreUnavailableError(f"{len(marks):,} marks could not be written")
        return None


class _Forwarding(logging.Handler):
    """Has the crawl log what is logged here."""

    def __init__(self, crawl: Parent) -> None:
        super().__init__(logging.WARNING)
        self._crawl = crawl

    def emit(self, record: logging.LogRecord) -> None:
        """Send a record."""
        with suppress(Exception):
            told = Told(record.name, record.levelno, self.format(record))
            self._crawl.send([pack(told)])


def main(file: int, crawl_process: int) -> None:
    """Judge what comes from the crawl until that closes or ends."""
    # Ctrl-C is for the crawl, and what ends a service tells all its processes at once.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    end_with(crawl_process)
    crawl = Parent(file)
    logging.getLogger().addHandler(_Forwarding(crawl))
    with suppress(ConnectionError):
        GroupJudge(crawl.get, crawl.send).run()
