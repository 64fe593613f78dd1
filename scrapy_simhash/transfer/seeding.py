"""Seed a store from a source: with pages, judged as in a crawl, or with finished documents.

Worker processes make the fingerprints of pages, many at a time to keep the workers busy. The pages
are then judged in the order of the source, so that the first of two near-duplicates becomes the
original, however long each took. All imported documents count as done immediately.

The journal, a JSON file that is replaced as a whole, records how far each source was read, so that
a killed import can resume. All records that it counts are on disk in the store. Later ones are
judged again, which changes nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from contextlib import contextmanager
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import msgspec
import xxhash
from filelock import FileLock, Timeout
from scrapy import Spider
from scrapy.crawler import Crawler
from scrapy.http import HtmlResponse, Request, Response
from scrapy.http.headers import Headers
from scrapy.responsetypes import responsetypes
from scrapy.utils.misc import build_from_crawler, load_object

from scrapy_simhash._files import open_whole
from scrapy_simhash.crawl.policy import find_encoding, find_skip_reason, identify, is_page
from scrapy_simhash.detector.detector import Detector, Page
from scrapy_simhash.detector.log import IMPORT_PREFIX, Decision
from scrapy_simhash.detector.writer import Note
from scrapy_simhash.errors import SourceError, StoreUnavailableError
from scrapy_simhash.judging.documents import EVERYONE, FACT_COLUMNS, Document
from scrapy_simhash.pages.scopes import find_scope_of_url
from scrapy_simhash.transfer.sources import START, Entry, Position, Source, SourcePage

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator
    from pathlib import Path

    from scrapy.settings import Settings

    from scrapy_simhash.config import Config
    from scrapy_simhash.stores.store import Store


SPIDER = "import"
# In progress for each worker. Pages are judged in order, so a page that takes seconds delays the
# judgement of the next ones; with several in progress, it does not delay their fingerprints.
_PAGES_PER_WORKER = 16
# After a kill, at most this many records are judged again, which takes some ten seconds.
_RECORDS_PER_NOTE = 128
# As many as a crawl writes at once: this locks the store for some milliseconds.
_DOCUMENTS_PER_GROUP = 64
_FINGERPRINTS = 2**64
# The source has decoded these encodings already, as Scrapy does in a crawl.
_UNDONE = (b"Content-Encoding", b"Transfer-Encoding")


class PageMaker:
    """Makes pages and documents from the entries of a source, as a crawl would."""

    def __init__(self, config: Config, settings: Settings) -> None:
        crawler = Crawler(Spider, settings)
        # Scrapy itself finds the class, encoding and request fingerprint of a page.
        # Add-ons may install another request fingerprinter.
        crawler.addons.load_settings(crawler.settings)
        self._fingerprinter = build_from_crawler(
            load_object(crawler.settings["REQUEST_FINGERPRINTER_CLASS"]), crawler
        )
        self._config = config

    def make_page(self, entry: Entry) -> Page | str:
        """Make the page of an entry, or return the reason why a crawl would skip it."""
        page = entry.page
        assert not isinstance(page, dict)  # noqa: S101 - a source has pages, or documents
        if isinstance(page, str):
            return page
        try:
            request = Request(page.url)
        except ValueError:
            return "bad_url"
        response = _respond(request.url, page)
        if reason := find_skip_reason(self._config, request, response):
            return reason
        if len(response.body) > self._config.max_bytes:
            return "too_large"  # a source reads no more than that of a file, either
        return Page(
            url=request.url,
            body=response.body,
            encoding=find_encoding(response),
            identity=identify(request, self._fingerprinter),
            time=page.time,
            is_file=not is_page(response),
            reader=EVERYONE,
        )

    def make_document(self, facts: dict[str, Any], crawl: str) -> Document | str:
        """Make a document of known facts, or return the reason; ValueError if scopes need pages."""
        try:
            request = Request(facts["url"] or "")
        except ValueError:
            return "bad_url"
        known = {name: facts[name] for name in FACT_COLUMNS if facts.get(name) is not None}
        # Spark has no unsigned numbers.
        known["fingerprints"] = tuple(number % _FINGERPRINTS for number in facts["fingerprints"])
        known["identity"] = identify(request, self._fingerprinter)
        known["scope"] = find_scope_of_url(self._config.scope, request.url)
        return Document(**{"time": time.time(), **known}, crawl=crawl, reader=EVERYONE)


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


# An entry, why it is skipped, or the decision on its page.
_Judged: TypeAlias = "tuple[Entry, str, Decision | None]"


class Seeder:
    """Imports sources of pages as a crawl of its own, while its detector is open."""

    def __init__(self, config: Config, journal: Journal, maker: PageMaker) -> None:
        self.detector = Detector(config, IMPORT_PREFIX)
        self.crawl = self.detector.crawl
        self.journal = journal
        self._maker = maker
        self._at_once = _PAGES_PER_WORKER * max(1, config.workers)

    async def read(self, source: Source, show: Callable[[int, int], object]) -> None:
        """Import the unread records of a source, and note the results in the journal."""
        progress = self.journal.find(source)
        unnoted: Entry | None = None
        with _saying_how_far(source, self.journal):
            try:
                async for entry, skipped, decision in self._judge(source.read(progress.position)):
                    unnoted = entry
                    if decision is None:
                        progress.skip(skipped)
                    else:
                        self._count(progress, decision)
                    show(entry.done, source.total)
                    if entry.record % _RECORDS_PER_NOTE == 0:
                        await self._note(source, progress, entry)
                        unnoted = None
            except SourceError:
                # The records before the damage are in the store.
                await self._note(source, progress, unnoted)
                raise
            await self._note(source, progress, unnoted)

    async def _note(self, source: Source, progress: Progress, last: Entry | None) -> None:
        if last is not None:
            await self.detector.settle()
            progress.position = source.mark(last.record, last.offset)
            self.journal.note(source, progress)

    def _count(self, progress: Progress, decision: Decision) -> None:
        if decision.reason == "store_unavailable":
            raise StoreUnavailableError(f"{decision.url} was not judged")
        progress.count(decision.status, decision.reason)
        if not decision.is_near_duplicate:
            self.detector.note(Note(done=decision.document))
        if self.detector.log is not None:
            self.detector.log.write(decision)

    async def _judge(self, entries: Iterable[Entry]) -> AsyncIterator[_Judged]:
        """Judge pages, many at once; yields (entry, why skipped, decision) in their order."""
        waiting: deque[asyncio.Task[_Judged]] = deque()
        problem = None
        turn = asyncio.Event()
        turn.set()
        try:
            try:
                for entry in entries:
                    following = asyncio.Event()
                    judging = self._judge_in_turn(entry, turn, following)
                    waiting.append(asyncio.create_task(judging))
                    turn = following
                    if len(waiting) >= self._at_once:
                        yield await waiting[0]
                        waiting.popleft()
            except SourceError as error:
                problem = error
            while waiting:
                yield await waiting[0]
                waiting.popleft()
        finally:
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
        if problem:
            raise problem

    async def _judge_in_turn(
        self, entry: Entry, turn: asyncio.Event, following: asyncio.Event
    ) -> _Judged:
        async def take_turn() -> None:
            await turn.wait()
            # The next task wakes up when this one waits for its verdict.
            following.set()

        page = self._maker.make_page(entry)
        decision = None if isinstance(page, str) else await self.detector.judge(page, take_turn)
        await take_turn()
        return entry, page if isinstance(page, str) else "", decision


def seed_documents(
    store: Store,
    crawl: str,
    source: Source,
    journal: Journal,
    maker: PageMaker,
    show: Callable[[int, int], object],
) -> None:
    """Import the unread documents of a source, and note the results in the journal."""
    progress = journal.find(source)
    group: list[Document] = []
    record = progress.position.record

    def write() -> None:
        verdicts = store.find_and_add(group, crawl=crawl)
        store.mark_done([verdict.document for verdict in verdicts], crawl)
        for verdict in verdicts:
            progress.count(verdict.status, verdict.reason)
        progress.position = source.mark(record, 0)
        journal.note(source, progress)
        group.clear()
        show(record, source.total)

    with _saying_how_far(source, journal):
        store.start_crawl(crawl, SPIDER)
        try:
            for entry in source.read(progress.position):
                record = entry.record
                if not isinstance(entry.page, dict):
                    progress.count("unjudged", str(entry.page))
                elif isinstance(made := maker.make_document(entry.page, crawl), str):
                    progress.skip(made)
                else:
                    group.append(made)
                if len(group) == _DOCUMENTS_PER_GROUP:
                    write()
            write()
        except SourceError:
            write()
            raise
        finally:
            store.end_crawl(crawl)


@contextmanager
def _saying_how_far(source: Source, journal: Journal) -> Iterator[None]:
    """If the store fails, add to the error how far the source was imported."""
    try:
        yield
    except StoreUnavailableError as error:
        record = journal.find(source).position.record
        raise StoreUnavailableError(
            f"the store cannot be written: {error}. {source.name} was imported up to record "
            f"{record:,}; run this again when the store works: it resumes there"
        ) from error


_FORMAT = 1


class Progress(msgspec.Struct, forbid_unknown_fields=True):
    """How far a source was read, and with which results."""

    position: Position = START  # everything before it is in the store
    pages: int = 0  # that were judged
    verdicts: dict[str, int] = {}  # number of pages by status, or by status and reason
    skipped: dict[str, int] = {}  # number of pages that were not judged, by reason

    def count(self, status: str, reason: str) -> None:
        """Count a page that was judged."""
        self.pages += 1
        verdict = f"{status}/{reason}" if reason else status
        self.verdicts[verdict] = self.verdicts.get(verdict, 0) + 1

    def skip(self, reason: str) -> None:
        """Count a page that was not judged."""
        self.skipped[reason] = self.skipped.get(reason, 0) + 1


class _Content(msgspec.Struct, forbid_unknown_fields=True):
    """The content of the file: a name of the store, and the progress of each source by name."""

    format: int
    store: str
    sources: dict[str, Progress]


def name_store(seed: int) -> str:
    """Name a store by its seed, without revealing the seed."""
    return xxhash.xxh3_64_hexdigest(seed.to_bytes(8, "big"))


class Journal:
    """A journal, used by one process at a time; by the seed it knows its store from a later one."""

    def __init__(self, path: Path, seed: int) -> None:
        self.path = path
        self._store = name_store(seed)
        self._lock = FileLock(f"{path}.lock", timeout=0, mode=0o600)
        try:
            self._lock.acquire()
        except Timeout:
            raise ValueError(
                f"another import is using the journal {path}; wait for its end, or name another "
                "journal for this one with --resume"
            ) from None
        try:
            self._sources = self._read()
        except BaseException:
            self._lock.release()
            raise

    def _read(self) -> dict[str, Progress]:
        try:
            content = msgspec.json.decode(self.path.read_bytes(), type=_Content)
        except FileNotFoundError:
            return {}
        except msgspec.DecodeError as error:
            raise ValueError(
                f"{self.path} is not the journal of an import ({error}); name another file with "
                "--resume, or delete it: pages imported before will be recognized"
            ) from error
        # A journal of a deleted store says nothing about this one.
        return content.sources if content.store == self._store else {}

    def find(self, source: Source) -> Progress:
        """Get how far a source was read; 0 if another source has its name now."""
        progress = self._sources.get(source.name, Progress())
        return deepcopy(progress) if source.holds(progress.position) else Progress()

    def note(self, source: Source, progress: Progress) -> None:
        """Note how far a source was read, durably."""
        self._sources[source.name] = deepcopy(progress)
        content = _Content(_FORMAT, self._store, self._sources)
        with open_whole(self.path, overwrite=True) as file:
            file.write(msgspec.json.encode(content))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.release()
