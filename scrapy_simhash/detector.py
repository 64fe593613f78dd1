"""The detector: a page in, a decision out. All threads and processes are behind it; no Scrapy."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy_simhash.config import DEFAULT_LOG, LOG_IN_STORE, SECONDS_A_DAY, SettingError
from scrapy_simhash.decisionlog import DecisionLog, new_crawl, new_decision
from scrapy_simhash.documents import make_document
from scrapy_simhash.fingerprint import make_recipe
from scrapy_simhash.scopes import SCOPES_WITHOUT_TEXT, load_scope
from scrapy_simhash.store_urls import check_store_url, store_folder
from scrapy_simhash.stores import StoreError, StoreUnusableError, open_store
from scrapy_simhash.text import UnjudgedError, load_extractor
from scrapy_simhash.untrusted import MOST_ERROR_CHARACTERS, describe_error, printable, quote
from scrapy_simhash.workers import Workers, naming_reasons
from scrapy_simhash.writer import GroupWriter

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from scrapy_simhash.config import Config
    from scrapy_simhash.fingerprint import PageFingerprint
    from scrapy_simhash.stored import LostPage, Verdict
    from scrapy_simhash.stores import Store

logger = logging.getLogger(__name__)

# Reasons that are not the page's but those of an extractor, feature set or scope to be mended.
_USERS_FAULTS = {"failed", "scope_failed"}


@dataclass(frozen=True, slots=True)
class Page:
    """A page as the detector takes it.

    Attributes:
        url: of the response.
        body: HTML, decompressed.
        encoding: as the response declares it, or None.
        identity: of the final request.
        aliases: of the requests that were redirected to it.
        time: when it was fetched, seconds since 1970, UTC; None for now.
    """

    url: str
    body: bytes
    encoding: str | None
    identity: bytes
    aliases: tuple[bytes, ...] = ()
    time: float | None = None


class Detector:
    """Judges the pages of one crawl.

    Args:
        config: the settings.
        prefix: of the crawl's id.

    Raises:
        SettingError: the extractor, feature set or scope does not exist.
    """

    def __init__(self, config: Config, prefix: str = "") -> None:
        self._config = config
        with _naming("SIMHASH_EXTRACTOR"):
            load_extractor(config.extractor)
        with _naming("SIMHASH_FEATURES"):
            self._recipe = make_recipe(config.extractor, config.features)
        with _naming("SIMHASH_STORE"):
            check_store_url(config.store)
        with _naming("SIMHASH_SCOPE"):
            self._scope = load_scope(config.scope)
        self._workers = Workers(config.workers, config.page_timeout, config.page_memory)
        self._store: Store | None = None
        self._writer: GroupWriter | None = None
        self._log: DecisionLog | None = None
        self._failing = False
        self.crawl = new_crawl(prefix)

    @property
    def log_path(self) -> Path | None:
        """Where the decision log is, or None where none is written."""
        return self._log.path if self._log else None

    @property
    def distance(self) -> int:
        """Bits within which pages are compared: those of the store, once it is open."""
        return self._store.distance if self._store else self._config.distance

    @property
    def log_lines_lost(self) -> int:
        """Lines of the decision log that could not be written."""
        return self._log.lost if self._log else 0

    async def open(self, spider: str) -> None:
        """Open store and log and start the workers.

        Args:
            spider: name of the spider, for people.

        Raises:
            StoreUnusableError: the store or its log cannot be used; nothing is left open.
        """
        if self._store is not None:
            raise RuntimeError("this detector is open")
        try:
            await asyncio.to_thread(self._open, spider)
        except BaseException:
            await self.close()
            raise

    def _open(self, spider: str) -> None:
        config = self._config
        self._store = open_store(
            config.store,
            config.distance_to_open,
            config.tables,
            self._recipe,
            config.readonly,
            config.confirm,
        )
        if path := self._choose_log():
            try:
                self._log = DecisionLog(path)
            except OSError as error:
                raise StoreUnusableError(
                    f"decision log {path} cannot be written ({error}); set SIMHASH_LOG to another "
                    "path, or to None"
                ) from error
        if not config.readonly:
            self._store.start_crawl(self.crawl, spider)
        self._workers.start()
        self._writer = GroupWriter(self._store, self.crawl)

    def _choose_log(self) -> Path | None:
        config = self._config
        if config.log != DEFAULT_LOG:
            return Path(config.log) if config.log else None
        # A read-only crawl leaves nothing in the store's folder.
        return None if config.readonly else store_folder(config.store) / LOG_IN_STORE

    async def close(self) -> None:
        """Write what is left and let go of everything; harmless when done twice or not opened."""
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()
        self._workers.stop()
        if self._log is not None:
            self._log.close()
        store, self._store = self._store, None
        if store is not None:
            if not store.readonly:
                with suppress(StoreError):  # a full disk: the lease ends all the same
                    store.end_crawl(self.crawl)
            store.close()

    async def judge(
        self, page: Page, turn: Callable[[], Awaitable[None]] | None = None
    ) -> dict[str, Any]:
        """Judge a page. Never raises for what a page or the store does; then it is `unjudged`.

        Args:
            page: the page.
            turn: waited for between its fingerprint and the decision, so that pages whose
                fingerprints are made at once are judged in an order of the caller's; not asked
                where there is no fingerprint.

        Returns:
            A plain dict: the verdict as `meta["simhash"]` has it.
        """
        decision = new_decision(page.url, self.crawl, body_bytes=len(page.body))
        decision["extractor"] = self._config.extractor
        try:
            made = await self._fingerprint(page, decision)
            if turn is not None:
                await turn()
            await self._decide(page, made, decision)
        except UnjudgedError as error:
            decision["reason"] = error.reason
            level = logging.WARNING if error.reason in _USERS_FAULTS else logging.DEBUG
            detail = printable(error.detail)[:MOST_ERROR_CHARACTERS]
            logger.log(level, "Not judged: %s: %s: %s", quote(page.url), error.reason, detail)
        return decision

    async def _fingerprint(self, page: Page, decision: dict[str, Any]) -> PageFingerprint:
        assert self._store is not None  # noqa: S101 - opened before the first page
        with naming_reasons(self._config):
            made = await self._workers.fingerprint(
                page.body,
                page.encoding,
                self._recipe,
                self._store.seed,
                page.url,
                keep_text=self._config.keep_text or self._config.scope not in SCOPES_WITHOUT_TEXT,
            )
        decision |= {
            "fingerprint": f"{made.fingerprint:016x}",
            "features": made.features,
            "words": made.words,
            "language": made.language,
            "extractor": made.extractor,
            "extract_ms": made.extract_ms,
            "fingerprint_ms": made.fingerprint_ms,
            "links": made.links,
        }
        return made

    async def _decide(self, page: Page, made: PageFingerprint, decision: dict[str, Any]) -> None:
        assert self._writer is not None  # noqa: S101 - opened before the first page
        decision["scope"] = self._find_scope(page, made)
        fetched = decision["time"] if page.time is None else page.time
        expiry = self._config.expire_days
        document = replace(
            make_document(made, self._config),
            identity=page.identity,
            url=page.url,
            crawl=self.crawl,
            scope=decision["scope"],
            aliases=page.aliases,
            time=fetched,
            not_before=0.0 if expiry is None else fetched - expiry * SECONDS_A_DAY,
        )
        started = time.perf_counter()
        try:
            verdict = await asyncio.wrap_future(self._writer.submit(document))
        except Exception as error:
            self._store_failed(error)
            raise UnjudgedError("store_unavailable", str(error)) from error
        self._failing = False
        decision["store_ms"] = round(1000 * (time.perf_counter() - started), 3)
        _note_verdict(decision, verdict)

    def _find_scope(self, page: Page, made: PageFingerprint) -> str:
        try:
            return str(self._scope(page.url, made)).encode("utf-8", "replace").decode()
        except Exception as error:
            raise UnjudgedError("scope_failed", describe_error(error)) from error

    def _store_failed(self, error: Exception) -> None:
        if not self._failing:
            logger.warning("Pages pass unjudged until the store works again: %s", printable(error))
        self._failing = True

    def note(self, decision: dict[str, Any]) -> None:
        """Write a decision to the log."""
        if self._log is not None:
            self._log.write(decision)

    def mark_done(self, decision: dict[str, Any]) -> None:
        """Note that the items of a judged page came through."""
        self._mark(decision, done=True)

    def withdraw(self, decision: dict[str, Any]) -> None:
        """Note that the items of a judged page did not come through."""
        self._mark(decision, done=False)

    def keep_request(self, document: int, request: bytes | None) -> None:
        """Keep how a page can be fetched again that was dropped for a pending one.

        Args:
            document: its number.
            request: for `take_lost`; None where the page was not dropped after all.
        """
        if self._writer is not None:
            self._writer.keep_request(document, request)

    def take_lost(self, spider: str, *, ending: bool = False) -> list[LostPage]:
        """Take over the spider's pages that were dropped for pages which never came through.

        Waits for what was marked so far to be written. Empty where the store cannot say.
        """
        if self._writer is None:
            return []
        try:
            return self._writer.take_lost(spider, ending=ending).result()
        except StoreError as error:
            self._store_failed(error)
            return []

    async def settle(self) -> None:
        """Wait until all that was marked so far is on disk.

        Raises:
            StoreUnavailableError: it is not; what was marked is written later, if it can be.
        """
        if self._writer is not None:
            await asyncio.wrap_future(self._writer.settle())

    def _mark(self, decision: dict[str, Any], *, done: bool) -> None:
        if decision["status"] == "near_duplicate" or not decision["document"]:
            return
        if self._writer is not None:
            self._writer.mark(decision["document"], done=done)


@contextmanager
def _naming(setting: str) -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise SettingError(f"{setting}: {error}") from None


def _note_verdict(decision: dict[str, Any], verdict: Verdict) -> None:
    decision |= {
        "status": verdict.status,
        "reason": verdict.reason,
        "document": verdict.document,
    }
    if verdict.match:
        decision |= {
            "match_url": verdict.match.url,
            "match_document": verdict.match.document,
            "distance": verdict.match.distance,
            "similarity": verdict.match.similarity,
            "tests": list(verdict.match.tests),
            "new_links": verdict.match.new_links,
            "match_pending": verdict.match.pending,
        }
