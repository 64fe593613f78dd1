"""Fill a store with pages, documents and other stores.

Pages are judged as in a crawl, and count as delivered at once, in the order of the source, so
that the first of two near-duplicates is the original. What the store has already is a revisit, so
an import that was interrupted is run again.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import structs
from scrapy import Spider
from scrapy.crawler import Crawler
from scrapy.http import HtmlResponse, Request, Response
from scrapy.http.headers import Headers
from scrapy.responsetypes import responsetypes
from scrapy.utils.misc import build_from_crawler, load_object

from scrapy_simhash._printable import plural
from scrapy_simhash._progress import show_progress
from scrapy_simhash.crawl.opening import make_open
from scrapy_simhash.crawl.policy import find_encoding, find_skip_reason, identify
from scrapy_simhash.errors import (
    NotJudgedError,
    PartlyFailedError,
    SourceError,
    StoreUnavailableError,
)
from scrapy_simhash.judge.client import Judges
from scrapy_simhash.judge.log import IMPORT_PREFIX, CrawlLog, new_crawl
from scrapy_simhash.judging.documents import Document, State
from scrapy_simhash.pages.facts import EVERYONE, Page
from scrapy_simhash.pages.wording import pack
from scrapy_simhash.stores.header import check_mode
from scrapy_simhash.stores.keyvalues import cut
from scrapy_simhash.stores.opening import open_as_it_is, open_store, show_url
from scrapy_simhash.stores.upkeep import list_bulk_loaded
from scrapy_simhash.transfer.sources import FEEDS, Skipped, SourcePage, read_source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from scrapy.settings import Settings

    from scrapy_simhash.config import Config
    from scrapy_simhash.judge.messages import Said
    from scrapy_simhash.judging.documents import Record
    from scrapy_simhash.pages.recipe import Recipe
    from scrapy_simhash.stores.documents import Documents
    from scrapy_simhash.stores.store import Store
    from scrapy_simhash.transfer.sources import Entry

SPIDER = "import"
# Pages that are on their way to the judge, which has so many at most: so it judges in their order.
_PAGES_AHEAD = 4
# The source has decoded these encodings already, as Scrapy does in a crawl.
_UNDONE = (b"Content-Encoding", b"Transfer-Encoding")
_PROBLEMS_SHOWN = 3
_DOCUMENTS_PER_GROUP = 64  # as a crawl writes them: this locks a store for some milliseconds
# A copy, because the store's constant is in a module that loads lmdb.
_DATA_FILE_OF_STORE = "data.mdb"
_ARCHIVE = b"\x89SIMHASH"  # MAGIC of `batch.archive.format`, which is not imported here
# By the end of a file's name, but for `.gz`.
_KINDS = {
    **dict.fromkeys((".warc", ".warc.zst"), "warc"),
    **dict.fromkeys(FEEDS, "jsonl"),
    ".wacz": "wacz",
}
Show: TypeAlias = "Callable[[int, int | None], None]"  # gets how many were read, and all


def find_kind(name: str) -> str:
    """Find the kind of a path or of a store's URL."""
    if "://" in name:
        return "store"
    path = Path(name)
    if path.is_dir():
        return "store" if (path / _DATA_FILE_OF_STORE).exists() else "folder"
    plain = path.name.lower().removesuffix(".gz")
    with path.open("rb") as file:
        if file.read(len(_ARCHIVE)) == _ARCHIVE:
            return "archive"
    for ending, kind in _KINDS.items():
        if plain.endswith(ending):
            return kind
    raise ValueError(
        f"{name} cannot be used: it is no archive, store or folder; name a WARC .warc, .warc.gz or "
        f".wacz, and a feed {' or '.join(FEEDS)}"
    )


def import_sources(
    config: Config,
    settings: Settings,
    sources: Sequence[tuple[str, str]],
    load_archive: Callable[[Config, Path], dict[str, Any]],
) -> Iterator[dict[str, Any]]:
    """Fill the store from sources, by name and kind, in the given order; yields what was counted.

    `load_archive` is `batch.import_archive`.

    Raises:
        PartlyFailedError: a source, or a record of one, could not be read; all others were.
        StoreError: the store cannot be used, or an archive is damaged.
        ValueError: a source is the store itself.
    """
    running = _Import(config, settings)
    for name, kind in sources:
        try:
            if kind == "archive":
                yield load_archive(config, Path(name))
            elif kind == "store":
                with open_as_it_is(name) as store:
                    yield running.take_store(store)
            else:
                yield running.read(name, kind)
        except SourceError as error:
            running.problems.append(str(error))
    if running.problems:
        raise PartlyFailedError("; ".join(running.problems))


class _Counts:
    """What became of the records of a source."""

    def __init__(self) -> None:
        self.records = self.pages = self.without_address = 0
        self.verdicts: Counter[str] = Counter()
        self.skipped: Counter[str] = Counter()
        self.unreadable: list[str] = []  # which records, and why
        self.complete = True

    def judged(self, status: str, reason: str) -> None:
        """Count a page that was judged."""
        self.verdicts[f"{status}/{reason}" if reason else status] += 1


class _Import:
    """Imports sources one by one."""

    def __init__(self, config: Config, settings: Settings) -> None:
        self.problems: list[str] = []  # of sources that were not read whole
        self._config = config
        self._maker = _PageMaker(config, settings)

    def read(self, name: str, kind: str) -> dict[str, Any]:
        """Import the pages of a source."""
        counts, crawl = _Counts(), new_crawl(IMPORT_PREFIX)
        with self._reading(name, "records", counts) as show:
            entries = read_source(name, kind)
            pages = self._make_pages(entries, counts, show)
            asyncio.run(self._judge(crawl, pages, counts))
        if counts.unreadable:
            more = max(0, len(counts.unreadable) - _PROBLEMS_SHOWN)
            shown = [*counts.unreadable[:_PROBLEMS_SHOWN], *[f"and {more:,} more"][:more]]
            self.problems.append(f"{name}: {'; '.join(shown)}")
        return {
            **self._describe(name, kind, counts, crawl),
            "pages": counts.pages,
            "without_address": counts.without_address,
        }

    async def _judge(
        self, crawl: str, pages: Iterator[tuple[Page, bytes]], counts: _Counts
    ) -> None:
        """Judge the pages of a source in their order; what is kept has come through."""
        # What an import gets is compared with all that is there.
        config = replace(self._config, incremental=True)
        given = structs.replace(make_open(config), crawl=crawl, spider=SPIDER)
        judges, log = Judges(given, min(1, config.processes)), CrawlLog()
        waiting: deque[tuple[Page, int, asyncio.Future[Said]]] = deque()
        try:
            opened = await judges.open()
            log = CrawlLog(given.config.log, crawl, SPIDER, opened.seed)
            for page, body in pages:
                waiting.append((page, *judges.ask(page, body, young=True)))
                if len(waiting) >= _PAGES_AHEAD:
                    await _take(judges, log, counts, *waiting.popleft())
            while waiting:
                await _take(judges, log, counts, *waiting.popleft())
        finally:
            for *_, future in waiting:
                future.cancel()
            ends = judges.ends
            closed = await judges.close()
            log.close()
        if closed.unwritten:
            raise StoreUnavailableError(f"{plural(closed.unwritten, 'change')} not written")
        if ends:
            self.problems.append(
                f"the process that judges pages ended {plural(ends, 'time')}, and pages just "
                "before may be missing: run this again"
            )

    def _make_pages(
        self, entries: Iterator[Entry], counts: _Counts, show: Show
    ) -> Iterator[tuple[Page, bytes]]:
        for entry in self._until_damage(entries, counts):
            counts.records += 1
            show(counts.records, None)
            made = entry if isinstance(entry, Skipped) else self._maker.make_page(entry)
            if isinstance(made, Skipped):
                counts.skipped[made.reason] += 1
                counts.unreadable += [made.problem] if made.problem else []
            else:
                counts.pages += 1
                counts.without_address += made[0].url.startswith("file:")
                yield made

    def _until_damage(self, entries: Iterator[Entry], counts: _Counts) -> Iterator[Entry]:
        try:
            yield from entries
        except SourceError as error:
            self.problems.append(str(error))
            counts.complete = False

    @contextmanager
    def _reading(self, name: str, unit: str, counts: _Counts) -> Iterator[Show]:
        """Show progress; if the store fails, add to the error how far the source was read."""
        try:
            with show_progress(unit) as show:
                yield show
        except StoreUnavailableError as error:
            raise StoreUnavailableError(
                f"the store cannot be written: {error}. {name} was read up to record "
                f"{counts.records:,}; run this again when the store works: what is in it is "
                "recognised"
            ) from error

    def _describe(self, name: str, kind: str, counts: _Counts, crawl: str) -> dict[str, Any]:
        return {
            "source": name,
            "kind": kind,
            "records": counts.records,
            "skipped": dict(counts.skipped),
            "complete": counts.complete,
            "store": show_url(self._config.store),
            "crawl": crawl,
            "verdicts": dict(counts.verdicts),
        }

    def take_store(self, source: Store) -> dict[str, Any]:
        """Import what came through of a store; a new store adopts its recipe and seed."""
        if source.url == show_url(self._config.store):
            raise ValueError(f"{source.url} is the store itself; name another one with --into")
        check_mode(self._config.plain, stored=source.plain)
        counts, crawl = _Counts(), new_crawl(IMPORT_PREFIX)
        numbers = source.read(lambda stored: [number for number, _ in stored.scan()])
        fingerprints = source.read(list_bulk_loaded)
        with (
            self._open_store(source.recipe, source.seed) as store,
            self._reading(source.url, "documents", counts) as show,
        ):
            for group in cut(numbers, _DOCUMENTS_PER_GROUP):
                self._add(store, crawl, source.read(partial(_read, numbers=group)), counts)
                show(counts.records, len(numbers))
            if fingerprints.size:
                store.bulk_load(fingerprints)
        described = self._describe(source.url, "store", counts, crawl)
        return {**described, "fingerprints": fingerprints.size}

    def _add(
        self,
        store: Store,
        crawl: str,
        stored: Sequence[tuple[Document, Record]],
        counts: _Counts,
    ) -> None:
        delivered = [each for each in stored if each[1].state == State.DONE]
        verdicts = store.find_and_add([document for document, _ in delivered], crawl=crawl)
        undone = [record.spared for _, record in delivered]
        if any(undone):
            store.spare(list(compress((verdict.document for verdict in verdicts), undone)))
        counts.records += len(stored)
        states = (record.state for _, record in stored)
        counts.skipped.update(each.name.lower() for each in states if each != State.DONE)
        for verdict in verdicts:
            counts.judged(verdict.status, verdict.reason)

    def _open_store(self, recipe: Recipe, seed: int) -> Store:
        """Open the store of the settings for writing; make it if it does not exist."""
        config = self._config
        tables, distance = config.tables, config.distance_to_open
        return open_store(config.store, distance, tables, recipe, plain=config.plain, seed=seed)


async def _take(
    judges: Judges,
    log: CrawlLog,
    counts: _Counts,
    page: Page,
    number: int,
    future: asyncio.Future[Said],
) -> None:
    """Take what was decided on a page, and count and log it."""
    try:
        said = await future
        assert said.decision is not None  # noqa: S101 - that of a verdict
        decision = structs.replace(said.decision, action="")
        if said.young:
            judges.settle(number, "done")
    except NotJudgedError as error:
        if error.reason == "store_unavailable":
            raise StoreUnavailableError(f"{page.url} was not judged") from error
        decision = log.pass_over(page.url, error.reason)
    counts.judged(decision.status, decision.reason)
    log.write(decision)


class _PageMaker:
    """Makes pages as a crawl would."""

    def __init__(self, config: Config, settings: Settings) -> None:
        crawler = Crawler(Spider, settings)
        # Scrapy itself finds the class, encoding and request fingerprint of a page.
        # Add-ons may install another request fingerprinter.
        crawler.addons.load_settings(crawler.settings)
        self._fingerprinter = build_from_crawler(
            load_object(crawler.settings["REQUEST_FINGERPRINTER_CLASS"]), crawler
        )
        self._config = config

    def make_page(self, page: SourcePage) -> tuple[Page, bytes] | Skipped:
        """Make a page to judge, with its body, or return why a crawl would skip it."""
        try:
            request = Request(page.url)
        except ValueError:
            return Skipped("bad_url")
        response = _respond(request.url, page)
        if reason := find_skip_reason(self._config, request, response):
            return Skipped(reason)
        made = Page(
            url=request.url,
            encoding=find_encoding(response),
            identity=identify(self._fingerprinter.fingerprint(request)),
            time=page.time,
            reader=EVERYONE,
        )
        return made, response.body


def _read(stored: Documents, numbers: Sequence[int]) -> list[tuple[Document, Record]]:
    """Read documents as a store takes them, with their records."""
    wordings, records = stored.get_wordings(numbers), stored.get_all(numbers)
    packed = {number: pack(wording) for number, wording in wordings.items()}
    return [(Document(each.facts, packed.get(n, b"")), each) for n, each in records.items()]


def _respond(url: str, page: SourcePage) -> Response:
    if page.html:
        return HtmlResponse(url, page.status, body=page.body, encoding=page.encoding)
    headers = Headers()
    for name, value in page.headers:
        headers.appendlist(name.encode("latin-1", "replace"), value.encode("latin-1", "replace"))
    for undone in _UNDONE:
        headers.pop(undone, None)
    kind = responsetypes.from_args(headers=headers, url=url, body=page.body)
    return kind(url, page.status, headers=headers, body=page.body)
