"""Fill a store with pages, documents and other stores.

Pages are judged as in a crawl, and count as delivered at once, in the order of the source, so
that the first of two near-duplicates is the original. What the store has already is a revisit, so
an import that was interrupted is run again.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from msgspec import structs
from scrapy import Spider
from scrapy.crawler import Crawler
from scrapy.http import Request
from scrapy.http.headers import Headers
from scrapy.responsetypes import responsetypes
from scrapy.utils.misc import build_from_crawler, load_object

from scrapy_simhash._printable import plural
from scrapy_simhash._progress import show_progress
from scrapy_simhash.crawl.policy import find_encoding, find_skip_reason, identify
from scrapy_simhash.crawl.running import make_open
from scrapy_simhash.errors import (
    NotJudgedError,
    PartlyFailedError,
    SourceError,
    StoreUnavailableError,
)
from scrapy_simhash.judge.client import Judges
from scrapy_simhash.judge.log import IMPORT_PREFIX, CrawlLog, new_crawl
from scrapy_simhash.judge.messages import Settled
from scrapy_simhash.judging.documents import Document
from scrapy_simhash.pages.facts import EVERYONE, Fetched
from scrapy_simhash.pages.wording import pack
from scrapy_simhash.stores.keyvalues import cut
from scrapy_simhash.stores.opening import open_store, show_url
from scrapy_simhash.transfer.sources import Skipped, SourcePage, find_kind, read_source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from scrapy.settings import Settings
    from scrapy.utils.request import RequestFingerprinterProtocol

    from scrapy_simhash.config import Config

SPIDER = "import"
# The source has decoded these encodings already, as Scrapy does in a crawl.
_UNDONE = ("content-encoding", "transfer-encoding")
_PROBLEMS_SHOWN = 3
_DOCUMENTS_PER_GROUP = 64  # as a crawl writes them: this locks a store for some milliseconds


def import_sources(
    config: Config, settings: Settings, names: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """Fill the store from sources, in the given order; yields what was counted.

    Raises:
        PartlyFailedError: a source, or a record of one, could not be read; all others were.
        StoreError: the store cannot be used.
        ValueError: a source is the store itself, or of no known kind; nothing was read.
    """
    crawler = Crawler(Spider, settings)
    crawler.addons.load_settings(crawler.settings)  # add-ons may install another one
    made_by = load_object(crawler.settings["REQUEST_FINGERPRINTER_CLASS"])
    fingerprinter: RequestFingerprinterProtocol = build_from_crawler(made_by, crawler)
    problems: list[str] = []
    for name, kind in [(name, find_kind(name)) for name in names]:
        source = _Import(config, fingerprinter, name, kind)
        try:
            if kind == "store":
                source.take_store()
            else:
                with show_progress("records") as show:
                    asyncio.run(source.judge(show))
        except StoreUnavailableError as error:
            raise StoreUnavailableError(
                f"the store cannot be written: {error}. {name} was read up to record "
                f"{source.counts.records:,}; run this again when the store works: what is in it is "
                "recognised"
            ) from error
        more = len(source.problems) - _PROBLEMS_SHOWN
        problems += [*source.problems[:_PROBLEMS_SHOWN], *[f"and {more:,} more"] * (more > 0)]
        yield vars(source.counts)
    if problems:
        raise PartlyFailedError("; ".join(problems))


@dataclass
class _Counts:
    """What became of the records of a source."""

    source: str
    kind: str
    store: str
    crawl: str
    records: int = 0
    pages: int = 0  # among them
    skipped: Counter[str] = field(default_factory=Counter)
    complete: bool = True
    verdicts: Counter[str] = field(default_factory=Counter)


class _Import:
    """The import of one source."""

    def __init__(
        self, config: Config, fingerprinter: RequestFingerprinterProtocol, name: str, kind: str
    ) -> None:
        # What an import gets is compared with all that is there; nothing can be asked for again.
        self._config = replace(config, incremental=True, refetch=0)
        self._fingerprinter = fingerprinter
        self.counts = _Counts(name, kind, show_url(config.store), new_crawl(IMPORT_PREFIX))
        self.problems: list[str] = []  # with the source first, then with records

    async def judge(self, show: Callable[[int, int | None], None]) -> None:
        """Judge the pages of the source in their order; what is kept has come through."""
        counts = self.counts
        given = structs.replace(make_open(self._config), crawl=counts.crawl, spider=SPIDER)
        judges, log = Judges(given, min(1, self._config.processes)), CrawlLog()
        try:
            opened = await judges.open()
            log = CrawlLog(given.config.log, counts.crawl, SPIDER, opened.seed)
            for page, body in self._make_pages(show):
                number, answer = judges.ask(page, body, young=True)
                try:
                    said = await answer
                    decision = said.decision or log.pass_over(page.url, reason="failed")
                    judges.tell(Settled(number, "done"))  # if it is young
                except NotJudgedError as error:
                    if error.reason == "store_unavailable":
                        raise StoreUnavailableError(f"{page.url} was not judged") from error
                    decision = log.pass_over(page.url, reason=error.reason)
                self._count(decision.status, decision.reason)
                log.write(structs.replace(decision, action=""))
        finally:
            ends = judges.ends
            closed = await judges.close()
            log.close()
        if closed.unwritten:
            raise StoreUnavailableError(f"{plural(closed.unwritten, 'change')} not written")
        if ends:
            why = f"the process that judges pages ended {plural(ends, 'time')}, and pages just "
            self.problems.insert(0, f"{why}before may be missing: run this again")

    def _count(self, status: str, reason: str) -> None:
        self.counts.verdicts[f"{status}/{reason}" if reason else status] += 1

    def _make_pages(
        self, show: Callable[[int, int | None], None]
    ) -> Iterator[tuple[Fetched, bytes]]:
        """Make pages up to the end of the source or where it is damaged, and count its records."""
        counts = self.counts
        try:
            for entry in read_source(counts.source, counts.kind):
                counts.records += 1
                show(counts.records, None)
                made = entry if isinstance(entry, Skipped) else self._make_page(entry)
                if isinstance(made, Skipped):
                    counts.skipped[made.reason] += 1
                    self.problems += [f"{counts.source}: {made.problem}"] * bool(made.problem)
                else:
                    counts.pages += 1
                    yield made
        except SourceError as error:
            self.problems.insert(0, str(error))
            counts.complete = False

    def _make_page(self, page: SourcePage) -> tuple[Fetched, bytes] | Skipped:
        """Make a page to judge, and its body, as a crawl would, or return why one would skip it."""
        try:
            request = Request(page.url)
        except ValueError:
            return Skipped("bad_url")
        headers = Headers()
        for header in page.headers:
            if header[0].lower() not in _UNDONE:
                headers.appendlist(*(each.encode("latin-1", "replace") for each in header))
        # Of the class and encoding that Scrapy finds.
        kind = responsetypes.from_args(headers=headers, url=request.url, body=page.body)
        response = kind(request.url, page.status, headers=headers, body=page.body)
        if reason := find_skip_reason(self._config, request, response):
            return Skipped(reason)
        identity = identify(self._fingerprinter.fingerprint(request))
        given = request.url, find_encoding(response), identity
        return Fetched(*given, time=page.time, reader=EVERYONE), response.body

    def take_store(self) -> None:
        """Import what came through of a store; a new store adopts its recipe and seed."""
        config, counts = self._config, self.counts
        with open_store(counts.source, 0, readonly=True, rule=config.rule) as source:
            if source.url == counts.store:
                raise ValueError(f"{source.url} is the store itself; name another one with --store")
            numbers = source.read(lambda stored: [number for number, _ in stored.scan()])
            given = config.store, config.distance_to_open, config.tables, source.recipe
            with (
                open_store(*given, rule=config.rule, seed=source.seed) as store,
                show_progress("documents") as show,
            ):
                for group in cut(numbers, _DOCUMENTS_PER_GROUP):
                    stored = source.get_documents(group).values()
                    counts.skipped.update(each.state for each in stored if each.state != "done")
                    delivered = [each for each in stored if each.state == "done"]
                    documents = [
                        Document(each.facts, pack(each.wording) if each.wording else b"")
                        for each in delivered
                    ]
                    verdicts = store.find_and_add(documents, crawl=counts.crawl)
                    for each, verdict in zip(delivered, verdicts, strict=True):
                        self._count(verdict.status, verdict.reason)
                        if each.record.spared:
                            store.spare([verdict.document])
                    counts.records += len(stored)
                    counts.pages += len(delivered)
                    show(counts.records, len(numbers))
