"""The detector: a page in, a decision out. All threads and processes are behind it; no Scrapy."""

from __future__ import annotations

import asyncio
import gc
import logging
import time
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from scrapy_simhash._printable import MOST_ERROR_CHARACTERS, describe_error, printable, quote
from scrapy_simhash._shared import SharedByKey
from scrapy_simhash.config import DEFAULT_LOG, LOG_IN_STORE, SECONDS_A_DAY, Config
from scrapy_simhash.detector.log import NOT_FOLLOWED, Decision, DecisionLog, new_crawl
from scrapy_simhash.detector.scopes import SCOPES_WITHOUT_TEXT, find_site, load_scope
from scrapy_simhash.detector.workers import Workers
from scrapy_simhash.detector.writer import GroupWriter, Mark, Relay
from scrapy_simhash.errors import NotJudgedError, SettingError, StoreError, StoreUnusableError
from scrapy_simhash.judging.documents import NOBODY, Reader, Verdict, make_document
from scrapy_simhash.pages.addresses import bound_url
from scrapy_simhash.pages.fingerprint import (
    PageFingerprint,
    fingerprint_file,
    load_reader,
    make_recipe,
)
from scrapy_simhash.pages.main_text import load_text_reader
from scrapy_simhash.pages.text import WHOLE_TEXT
from scrapy_simhash.stores.opening import MEMORY, check_store_url, folder_of, open_store

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from scrapy_simhash.stores.store import Store

logger = logging.getLogger(__name__)

Result = TypeVar("Result")
Otherwise = TypeVar("Otherwise")

# Reasons whose cause is not the page but the user's extractor, feature set or scope.
_USERS_FAULTS = {"failed", "scope_failed"}
# So many pages are named in warnings; the others in DEBUG lines.
_MOST_WARNED = 10


# While detectors are open, the garbage collector passes over what was there before: 80,000 objects
# that stay, which else hold the event loop for 30 ms every few hundred pages.
_frozen: SharedByKey[str, None] = SharedByKey(lambda _: gc.unfreeze())


@dataclass(frozen=True, slots=True)
class Page:
    """A page as the detector takes it."""

    url: str  # of the response
    body: bytes  # HTML, decompressed
    encoding: str | None  # as the response declares it
    identity: bytes  # of the final request
    aliases: tuple[bytes, ...] = ()  # identities of the requests that were redirected to it
    time: float | None = None  # when it was fetched, seconds since 1970, UTC; None for now
    requested: str = ""  # URL of the request that was redirected to it, if one was
    is_file: bool = False  # no HTML: its bytes are compared, and nothing else
    reader: Reader = NOBODY  # who is to get it
    foreign: bool = False  # whether a link of another site led to it
    pack_request: Callable[[], bytes] = bytes  # see `judging.Document`


class Detector:
    """Judges the pages of one crawl. Raises SettingError if a setting names something unknown."""

    # `log` is the decision log, once it is open; None if none is written. The caller writes a
    # decision there once the action is chosen, too.

    def __init__(self, config: Config, prefix: str = "") -> None:
        self._config = config
        self._rule = config.rule
        with _naming("SIMHASH_EXTRACTOR"):
            load_reader(config.extractor)
        with _naming("SIMHASH_FEATURES"):
            self._recipe = make_recipe(config.extractor, config.features)
        with _naming("SIMHASH_STORE"):
            check_store_url(config.store)
        with _naming("SIMHASH_SCOPE"):
            self._scope = load_scope(config.scope)
        with _naming("SIMHASH_HAND_OVER_TEXT"):
            if config.text_reader:
                load_text_reader(config.text_reader)
        self._keep_text = config.scope not in SCOPES_WITHOUT_TEXT
        self._workers = Workers(config.workers, config.page_timeout)
        self._store: Store | None = None
        self._writer: GroupWriter | None = None
        self._relay = Relay()
        self._on_their_way = 0  # pages that are being fingerprinted
        self._failing = False
        self._warned = 0
        self._opened = ExitStack()  # what is to be closed
        self.crawl, self._spider = new_crawl(prefix), ""
        self.is_open = False
        self.lost = 0  # number of pages that may be lost, as the store was opened
        self.log: DecisionLog | None = None

    @property
    def distance(self) -> int:
        """Bits within which pages are compared: those of the store, once it is open."""
        return self._store.distance if self._store else self._config.distance

    async def open(self, spider: str) -> None:
        """Open store and log and start the workers; the name of the spider is for people."""
        if self._store is not None:
            raise RuntimeError("this detector is open")
        self._spider = spider
        try:
            await asyncio.to_thread(self._open)
            await self._workers.start()
        except BaseException:
            await self.close()
            raise
        self.is_open = True

    def _open(self) -> None:
        config, opened = self._config, self._opened
        store = self._store = open_store(
            config.store,
            config.distance_to_open,
            config.tables,
            self._recipe,
            config.readonly,
            config.confirm,
        )
        opened.callback(self._leave, store)
        if config.store == MEMORY:
            logger.warning(
                "SIMHASH_STORE = %r: nothing is kept when this crawl ends, and its drops cannot be "
                "explained later; name a folder to keep what it saw",
                config.store,
            )
        path: str | Path | None = config.log
        if path == DEFAULT_LOG:
            # A read-only crawl leaves nothing in the store's folder.
            nowhere = config.readonly or config.store == MEMORY
            folder = None if nowhere else folder_of(config.store)
            path = folder and folder / LOG_IN_STORE
        if path:
            try:
                self.log = DecisionLog(Path(path))
            except OSError as error:
                raise StoreUnusableError(
                    f"decision log {path} cannot be written ({error}); set SIMHASH_LOG to another "
                    "path, or to None"
                ) from error
            opened.callback(self.log.close)
        if not config.readonly:
            store.start_crawl(self.crawl, self._spider)
            self.lost = store.lost.count()
        # On the event loop, to load the public suffixes would hold it for a tenth of a second.
        find_site("one.example")
        _frozen.acquire("", gc.freeze)
        opened.callback(_frozen.release, "")
        self._writer = GroupWriter(store, self.crawl)
        opened.callback(self._writer.close)

    async def close(self) -> None:
        """Write what is left and release everything; harmless if closed twice or never opened."""
        self.is_open = False
        try:
            await self._workers.stop()
        finally:
            self._writer = self._store = None  # here, where pages are on their way
            await asyncio.to_thread(self._opened.close)

    def _leave(self, store: Store) -> None:
        if not store.readonly:
            with suppress(StoreError):  # a full disk: the lease ends all the same
                store.end_crawl(self.crawl)
        store.close()

    async def judge(
        self,
        page: Page,
        turn: Callable[[], Awaitable[None]] | None = None,
        on_read: Callable[[PageFingerprint], object] = lambda _: None,
    ) -> Decision:
        """Judge a page. Never raises for what a page or the store does; then it is `not_judged`.

        Args:
            page: what was fetched.
            turn: awaited between fingerprint and decision, so that pages fingerprinted at once are
                judged in the caller's order; not awaited if there is no fingerprint.
            on_read: gets the fingerprint of a page that was read, before it is judged.
        """
        decision = self.pass_over(page.url, len(page.body))
        decision.extractor = self._config.extractor
        try:
            made = await self._fingerprint(page)
            _add_fingerprint(decision, made)
            on_read(made)
            if turn is not None:
                await turn()
            await self._decide(page, made, decision)
        except NotJudgedError as error:
            decision.reason = error.reason
            detail = printable(error.detail)[:MOST_ERROR_CHARACTERS]
            details = quote(page.url), error.reason, detail
            logger.log(self._choose_level(error.reason), "Not judged: %s: %s: %s", *details)
        return decision

    async def read_text(self, url: str, body: bytes, encoding: str | None) -> tuple[str, str]:
        """Read the main text of a page to hand over, or else all its visible text.

        Returns:
            The text, and why it is not that of the reader; "" if it is.
        """
        failed = ""
        for reader in (self._config.text_reader, WHOLE_TEXT):
            try:
                if text := await self._workers.read_text(body, encoding, url, reader):
                    return text, failed
                failed = failed or "no text"
            except NotJudgedError as error:
                failed = failed or printable(f"{error.reason}: {error.detail}")
        return "", failed

    def _choose_level(self, reason: str) -> int:
        """Warn of the first pages that the user's code fails on; the stats count all."""
        if reason not in _USERS_FAULTS or self._warned == _MOST_WARNED:
            return logging.DEBUG
        self._warned += 1
        return logging.WARNING

    def pass_over(self, url: str, body_bytes: int, reason: str = "") -> Decision:
        """Make the decision for a page that is not judged, for a reason."""
        return Decision(
            time=round(time.time(), 3),
            url=bound_url(url, self.seed),
            status="not_judged",
            reason=reason,
            body_bytes=body_bytes,
            crawl=self.crawl if self.is_open else "",
            spider=self._spider,
        )

    def note_link(self, url: str, page_url: str) -> None:
        """Write into the log that nobody followed a link, and which dropped page has it."""
        if self.log is not None:
            found = self.pass_over(url, 0)
            found.status, found.match_url = NOT_FOLLOWED, page_url
            self.log.write(found)

    async def _fingerprint(self, page: Page) -> PageFingerprint:
        self._on_their_way += 1
        try:
            if page.is_file:  # in a thread, because it may be large
                return await asyncio.to_thread(fingerprint_file, page.body, self.seed)
            return await self._workers.fingerprint(
                page.body,
                page.encoding,
                self._recipe,
                self.seed,
                page.url,
                keep_text=self._keep_text,
            )
        finally:
            self._on_their_way -= 1

    async def _decide(self, page: Page, made: PageFingerprint, decision: Decision) -> None:
        decision.scope = self._find_scope(page, made)
        fetched = decision.time if page.time is None else page.time
        expiry = self._config.expire_days
        document = make_document(
            made,
            self._rule,
            page.identity,
            foreign=page.foreign,
            url=decision.url,
            crawl=self.crawl,
            scope=decision.scope,
            aliases=page.aliases,
            requested=page.requested and bound_url(page.requested, self.seed),
            time=fetched,
            not_before=0.0 if expiry is None else fetched - expiry * SECONDS_A_DAY,
            reader=page.reader,
            across_spiders=self._config.across_spiders,
            pack_request=page.pack_request,
        )
        started = time.perf_counter()
        if self._writer is None:
            raise NotJudgedError("store_unavailable", "the crawl has ended")
        try:
            verdict = await self._relay.wait(
                self._writer.submit(document, more=self._on_their_way > 0)
            )
        except Exception as error:
            self._store_failed(error)
            raise NotJudgedError("store_unavailable", str(error)) from error
        self._failing = False
        decision.store_ms = round(1000 * (time.perf_counter() - started), 3)
        _add_verdict(decision, verdict)
        decision.text_digest = document.text_digest.hex()

    def _find_scope(self, page: Page, made: PageFingerprint) -> str:
        if self._config.scope == "global":
            return ""
        try:
            return str(self._scope(page.url, made)).encode("utf-8", "replace").decode()
        except Exception as error:
            raise NotJudgedError("scope_failed", describe_error(error)) from error

    def _store_failed(self, error: Exception) -> None:
        if not self._failing:
            logger.warning("Pages are not judged while the store fails: %s", printable(error))
        self._failing = True

    def mark(self, mark: Mark) -> None:
        """Write down what became of a document or a request; document 0 stands for none."""
        if any(mark) and self._writer is not None:
            self._writer.mark(mark)

    @property
    def seed(self) -> int:
        """The secret of the store; 0 before it is open."""
        return self._store.seed if self._store is not None else 0

    async def ask(
        self, question: Callable[[Store], Result], otherwise: Otherwise
    ) -> Result | Otherwise:
        """Ask the store something once all marks are written; another answer if that fails."""
        if self._writer is None:
            return otherwise
        try:
            return await self._relay.wait(self._writer.ask(question))
        except StoreError as error:
            self._store_failed(error)
            return otherwise

    async def settle(self) -> None:
        """Wait until everything marked so far is on disk; StoreUnavailableError if it is not."""
        if self._writer is not None:
            await self._relay.wait(self._writer.settle())


@contextmanager
def _naming(setting: str) -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise SettingError(f"{setting}: {error}") from None


def _add_fingerprint(decision: Decision, made: PageFingerprint) -> None:
    decision.fingerprint = f"{made.fingerprint:016x}"
    decision.features, decision.words, decision.links = made.features, made.words, made.links
    decision.language, decision.canonical = made.language, made.canonical
    decision.extractor = made.extractor
    decision.extract_ms, decision.fingerprint_ms = made.extract_ms, made.fingerprint_ms


def _add_verdict(decision: Decision, verdict: Verdict) -> None:
    decision.status = verdict.status
    decision.reason = verdict.reason
    decision.document = verdict.document
    if match := verdict.match:
        decision.match_url = match.url
        decision.match_document = match.document
        if not match.document:
            decision.match_fingerprint = f"{match.fingerprint:016x}"
        decision.distance = match.distance
        decision.similarity = match.similarity
        decision.tests = list(match.tests)
        decision.new_links = match.new_links
        decision.match_pending = match.pending
        decision.evidence = match.evidence
        decision.own_words = list(match.own_words)
        decision.match_own_words = list(match.match_own_words)
        decision.better_url = match.better_url
    if nearest := verdict.nearest:
        decision.nearest_url = nearest.url
        decision.nearest_distance = nearest.distance
        decision.nearest_similarity = nearest.similarity
        decision.nearest_tests = list(nearest.tests)
