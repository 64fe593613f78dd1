"""The detector: a page in, a decision out. All threads and processes are behind it; no Scrapy."""

from __future__ import annotations

import asyncio
import gc
import logging
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec import structs

from scrapy_simhash._printable import MOST_ERROR_CHARACTERS, printable, quote
from scrapy_simhash._shared import SharedByKey
from scrapy_simhash.config import DEFAULT_LOG, LOG_IN_STORE, Config
from scrapy_simhash.detector.client import JudgeClient
from scrapy_simhash.detector.log import CUT_OFF, NOT_FOLLOWED, Decision, make_line, new_crawl
from scrapy_simhash.detector.messages import Asked, Mark, Open, QuestionName
from scrapy_simhash.detector.scopes import find_site, load_scope
from scrapy_simhash.detector.worker import read_file
from scrapy_simhash.detector.workers import Workers
from scrapy_simhash.errors import NotJudgedError, SettingError, StoreError
from scrapy_simhash.pages.addresses import bound_url
from scrapy_simhash.pages.recipe import DEFAULT_FEATURES, WHOLE_TEXT, Recipe, default_extractor
from scrapy_simhash.stores.opening import MEMORY, check_store_url, folder_of, has_leases_apart
from scrapy_simhash.stores.rows import Lost

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence

    from scrapy_simhash.detector.worker import Answer, ReadPage
    from scrapy_simhash.pages.facts import Page

logger = logging.getLogger(__name__)

Otherwise = TypeVar("Otherwise")

# Reasons whose cause is not the page but the user's extractor, feature set or scope.
_USERS_FAULTS = {"failed", "scope_failed"}
# So many pages are named in warnings; the others in DEBUG lines.
_MOST_WARNED = 10


# While detectors are open, the garbage collector passes over what was there before: 80,000 objects
# that stay, which else hold the event loop for 30 ms every few hundred pages.
_frozen: SharedByKey[str, None] = SharedByKey(lambda _: gc.unfreeze())


class Detector:
    """Judges the pages of one crawl. Raises SettingError if a setting names something unknown.

    Args:
        config: the settings.
        prefix: of the crawl's id.
        here: judge in this process, also where a crawl would in another one.
    """

    def __init__(self, config: Config, prefix: str = "", *, here: bool = False) -> None:
        self._config = config
        self._recipe = _make_recipe(config)
        with _naming("SIMHASH_STORE"):
            check_store_url(config.store)
        with _naming("SIMHASH_SCOPE"):
            load_scope(config.scope)
        self._here = here or not config.workers
        self._workers = Workers(config.workers, config.page_timeout)
        self._client: JudgeClient | None = None
        self._on_their_way = 0  # pages that are being fingerprinted
        self._failing = self._is_frozen = False
        self._warned = 0
        self.crawl, self._spider = new_crawl(prefix), ""
        self.is_open = False
        self.has_log = False  # whether decisions are written to a log
        self._has_written = False

    @property
    def distance(self) -> int:
        """Bits within which pages are compared: those of the store, once it is open."""
        return self._client.distance if self._client else self._config.distance

    @property
    def seed(self) -> int:
        """The secret of the store; 0 before it is open."""
        return self._client.seed if self._client else 0

    @property
    def lost(self) -> int:
        """Number of pages that may be lost, as the store was opened."""
        return self._client.lost if self._client else 0

    @property
    def lost_lines(self) -> int:
        """Number of lines that could not be written to the log; known once this is closed."""
        return self._client.lost_lines if self._client else 0

    async def open(self, spider: str) -> None:
        """Open store and log and start the workers; the name of the spider is for people."""
        if self._client is not None:
            raise RuntimeError("this detector is open")
        self._spider = spider
        try:
            await self._open()
        except BaseException:
            await self.close()
            self._client = None
            raise
        self.is_open = True

    async def _open(self) -> None:
        config = _place(self._config)
        apart = not self._here and has_leases_apart(config.store)
        given = Open(config, self._recipe, config.log, self.crawl, self._spider, leased=apart)
        self._client = JudgeClient(given)
        # Both load for half a second; what keeps the store from opening is told first.
        opening = [
            asyncio.ensure_future(each) for each in (self._client.open(), self._workers.start())
        ]
        try:
            await asyncio.sleep(0)  # so that the processes start
            # Meanwhile, because it holds the event loop: loads the public suffixes.
            find_site("one.example")
            for each in opening:
                await each
        except BaseException:
            for each in opening:
                each.cancel()
            await asyncio.gather(*opening, return_exceptions=True)
            raise
        if config.store == MEMORY:
            logger.warning(
                "SIMHASH_STORE = %r: nothing is kept when this crawl ends, and its drops cannot be "
                "explained later; name a folder to keep what it saw",
                config.store,
            )
        self.has_log = bool(config.log)
        _frozen.acquire("", gc.freeze)
        self._is_frozen = True

    async def close(self) -> None:
        """Write what is left and release everything; harmless if closed twice or never opened."""
        self.is_open = False
        try:
            await self._workers.stop()
        finally:
            if self._is_frozen:
                self._is_frozen = False
                _frozen.release("")
            if self._client is not None:
                await self._client.close()

    async def judge(
        self,
        page: Page,
        turn: Callable[[], Awaitable[None]] | None = None,
        on_read: Callable[[Answer], object] = lambda _: None,
    ) -> Decision:
        """Judge a page. Never raises for what a page or the store does; then it is `not_judged`.

        Args:
            page: what was fetched.
            turn: awaited between fingerprint and decision, so that pages fingerprinted at once are
                judged in the caller's order; not awaited if there is no fingerprint.
            on_read: gets what the reader answered, before the page is judged.
        """
        decision = self.pass_over(page.url, len(page.body))
        try:
            read = await self._read(page)
            on_read(read.answer)
            if turn is not None:
                await turn()
            return await self._decide(page, read, decision)
        except NotJudgedError as error:
            if error.reason == "store_unavailable":
                self._store_failed(error.detail)
            decision.reason, decision.extractor = error.reason, self._config.extractor
            detail = printable(error.detail)[:MOST_ERROR_CHARACTERS]
            details = quote(page.url), error.reason, detail
            logger.log(self._choose_level(error.reason), "Not judged: %s: %s: %s", *details)
            return decision

    async def read_text(self, page: Page) -> tuple[str, str]:
        """Read the main text of a page to hand over, or else all its visible text.

        Returns:
            The text, and why it is not that of the reader; "" if it is.
        """
        failed = ""
        for reader in (self._config.text_reader, WHOLE_TEXT):
            try:
                if text := await self._workers.read_text(page, reader):
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

    def write(self, decision: Decision) -> None:
        """Write a decision into the log, once its action is chosen."""
        if self.has_log and self._client is not None:
            self._client.write(make_line(decision))
            self._has_written = True

    def note_link(
        self, url: str, page_url: str, new_links: float, reason: str, number: int
    ) -> None:
        """Write into the log that nobody followed a link, one of a number, that a page has."""
        found = self.pass_over(url, 0, reason)
        found.new_links = new_links
        found.status, found.match_url, found.links = NOT_FOLLOWED, page_url, number
        self.write(found)

    def note_limits(self, limits: str) -> None:
        """Write into the log what cut the crawl off, if it has lines of the crawl."""
        if not self._has_written:
            return
        found = self.pass_over("", 0, limits)
        found.status = CUT_OFF
        self.write(found)

    async def _read(self, page: Page) -> ReadPage:
        scope = self._config.scope
        self._on_their_way += 1
        try:
            if page.is_file:
                # In a thread: it may be large.
                return await asyncio.to_thread(read_file, page, self.seed, scope)
            return await self._workers.read(page, self._recipe, self.seed, scope)
        finally:
            self._on_their_way -= 1

    async def _decide(self, page: Page, read: ReadPage, decision: Decision) -> Decision:
        client = self._client
        if client is None:
            raise NotJudgedError("store_unavailable", "the store is not open")
        asked = Asked(
            client.new_number(),
            structs.replace(
                page,
                url=decision.url,
                body=b"",
                time=decision.time if page.time is None else page.time,
                requested=page.requested and bound_url(page.requested, client.seed),
            ),
            decision,
            read,
            more=self._on_their_way > 0,
            sent=time.monotonic(),
        )
        decision = await client.submit(asked)
        self._failing = False
        return decision

    def _store_failed(self, error: str) -> None:
        if not self._failing:
            logger.warning("Pages are not judged while the store fails: %s", printable(error))
        self._failing = True

    def mark(self, mark: Mark) -> None:
        """Write down what became of a document or a request; document 0 stands for none."""
        if any(mark) and self._client is not None:
            self._client.mark(mark)

    async def find_due(self) -> list[tuple[bytes, int]]:
        """Find lost pages that this crawl has to request, see `stores.lost.find_due`."""
        return await self._ask("find_due", list[tuple[bytes, int]], [])

    async def take_lost(self, keys: Sequence[bytes]) -> list[tuple[bytes, Lost]]:
        """Take lost pages over, see `stores.lost.take`."""
        return await self._ask("take_lost", list[tuple[bytes, Lost]], [], list(keys))

    async def count_left(self) -> tuple[dict[str, int], str]:
        """Count the lost pages that this crawl leaves, see `stores.lost.count_left`."""
        return await self._ask("count_left", tuple[dict[str, int], str], ({}, ""))

    async def describe_doubts(self) -> str:
        """Describe what speaks against near-duplicates of the crawl; "" if nothing does."""
        return await self._ask("describe_doubts", str, "")

    async def _ask(
        self, name: QuestionName, kind: Any, otherwise: Otherwise, keys: list[bytes] | None = None
    ) -> Otherwise:
        """Ask the judge something once all marks are written; another answer if that fails."""
        if self._client is None:
            return otherwise
        try:
            found: Otherwise = msgspec.msgpack.decode(await self._client.ask(name, keys), type=kind)
        except StoreError as error:
            self._store_failed(str(error))
            return otherwise
        return found

    async def settle(self) -> None:
        """Wait until everything marked so far is on disk; StoreUnavailableError if it is not."""
        if self._client is not None:
            await self._client.ask("settle")


def _place(config: Config) -> Config:
    """Name store and log so that they are found when the spider has changed its folder."""
    log, store = config.log, config.store
    folder = None if store == MEMORY else folder_of(store)
    if folder:
        store = str(folder := folder.absolute())
    if log == DEFAULT_LOG:
        # A read-only crawl leaves nothing in the store's folder.
        log = str(folder / LOG_IN_STORE) if folder and not config.readonly else None
    return replace(config, store=store, log=str(Path(log).absolute()) if log else None)


def _make_recipe(config: Config) -> Recipe:
    """Make the recipe of the settings; loads the readers that they name, but for the default."""
    default = default_extractor()
    if config.extractor == default and config.features == DEFAULT_FEATURES:
        recipe = Recipe(default)
    else:
        from scrapy_simhash.pages.fingerprint import load_reader, make_recipe  # noqa: PLC0415

        with _naming("SIMHASH_EXTRACTOR"):
            load_reader(config.extractor)
        with _naming("SIMHASH_FEATURES"):
            recipe = make_recipe(config.extractor, config.features)
    if config.text_reader not in {"", default}:
        from scrapy_simhash.pages.main_text import load_text_reader  # noqa: PLC0415

        with _naming("SIMHASH_HAND_OVER_TEXT"):
            load_text_reader(config.text_reader)
    return recipe


@contextmanager
def _naming(setting: str) -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise SettingError(f"{setting}: {error}") from None
