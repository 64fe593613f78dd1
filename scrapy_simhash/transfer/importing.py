"""Fill a store with pages, documents and other stores.

Pages are judged as in a crawl, and count as delivered at once, in the order of the source, so
that the first of two near-duplicates is the original. What the store has already is a revisit, so
an import that was interrupted is run again.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import structs
from scrapy import Spider
from scrapy.crawler import Crawler
from scrapy.http import HtmlResponse, Request, Response
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
from scrapy_simhash.transfer.sources import FEEDS, TABLE, Skipped, SourcePage, read_source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from scrapy.settings import Settings
    from scrapy.utils.request import RequestFingerprinterProtocol

    from scrapy_simhash.config import Config
    from scrapy_simhash.judge.messages import Said
    from scrapy_simhash.stores.store import Store

SPIDER = "import"
# Pages that are on their way to the judge, which has so many at most: so it judges in their order.
_PAGES_AHEAD = 4
# The source has decoded these encodings already, as Scrapy does in a crawl.
_UNDONE = ("content-encoding", "transfer-encoding")
_PROBLEMS_SHOWN = 3
_DOCUMENTS_PER_GROUP = 64  # as a crawl writes them: this locks a store for some milliseconds
# A copy, because the store's constant is in a module that loads lmdb.
_DATA_FILE_OF_STORE = "data.mdb"


def find_kind(name: str) -> str:
    """Find the kind of a path or of a store's URL."""
    if "://" in name:
        return "store"
    path = Path(name)
    if path.is_dir():
        for inside, kind in ((_DATA_FILE_OF_STORE, "store"), (TABLE, "folder")):
            if (path / inside).exists():
                return kind
        raise ValueError(
            f"{name} cannot be used: it is no store, and has no {TABLE}; write one, with the "
            "columns url and path"
        )
    plain = path.name.lower().removesuffix(".gz")
    path.stat()  # raises if it does not exist
    kinds = {"warc": (".warc", ".warc.zst"), "wacz": (".wacz",), "jsonl": FEEDS}
    for kind, endings in kinds.items():
        if plain.endswith(endings):
            return kind
    raise ValueError(
        f"{name} cannot be used: it is no store; name a WARC .warc, .warc.gz or .wacz, "
        f"and a feed {' or '.join(FEEDS)}"
    )


def import_sources(
    config: Config, settings: Settings, sources: Sequence[tuple[str, str]]
) -> Iterator[dict[str, Any]]:
    """Fill the store from sources, by name and kind, in the given order; yields what was counted.

    Raises:
        PartlyFailedError: a source, or a record of one, could not be read; all others were.
        StoreError: the store cannot be used.
        ValueError: a source is the store itself.
    """
    crawler = Crawler(Spider, settings)
    crawler.addons.load_settings(crawler.settings)  # add-ons may install another one
    made_by = load_object(crawler.settings["REQUEST_FINGERPRINTER_CLASS"])
    fingerprinter: RequestFingerprinterProtocol = build_from_crawler(made_by, crawler)
    problems: list[str] = []
    for name, kind in sources:
        counts = _Counts(name, kind, show_url(config.store))
        try:
            if kind == "store":
                with open_store(name, 0, readonly=True, rule=config.rule) as source:
                    _take_store(config, source, counts)
            else:
                with show_progress("records") as show:
                    pages = _make_pages(config, fingerprinter, counts, show)
                    asyncio.run(_judge(config, pages, counts))
        except StoreUnavailableError as error:
            raise StoreUnavailableError(
                f"the store cannot be written: {error}. {name} was read up to record "
                f"{counts.records:,}; run this again when the store works: what is in it is "
                "recognised"
            ) from error
        more = len(counts.problems) - _PROBLEMS_SHOWN
        problems += [*counts.problems[:_PROBLEMS_SHOWN], *[f"and {more:,} more"] * (more > 0)]
        yield counts.describe()
    if problems:
        raise PartlyFailedError("; ".join(problems))


@dataclass
class _Counts:
    """What became of the records of a source."""

    source: str
    kind: str
    store: str
    crawl: str = field(default_factory=partial(new_crawl, IMPORT_PREFIX))
    records: int = 0
    pages: int = 0  # among them
    skipped: Counter[str] = field(default_factory=Counter)
    complete: bool = True
    verdicts: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)  # with the source first, then with records

    def count(self, status: str, reason: str) -> None:
        """Count a page that was judged."""
        self.verdicts[f"{status}/{reason}" if reason else status] += 1

    def describe(self) -> dict[str, Any]:
        """Return the counts, ready for JSON."""
        return {name: value for name, value in vars(self).items() if name != "problems"}


def _make_pages(
    config: Config,
    fingerprinter: RequestFingerprinterProtocol,
    counts: _Counts,
    show: Callable[[int, int | None], None],
) -> Iterator[tuple[Fetched, bytes]]:
    """Make the pages of a source, up to its end or where it is damaged, and count its records."""
    try:
        for entry in read_source(counts.source, counts.kind):
            counts.records += 1
            show(counts.records, None)
            made = entry if isinstance(entry, Skipped) else _make_page(config, fingerprinter, entry)
            if isinstance(made, Skipped):
                counts.skipped[made.reason] += 1
                if made.problem:
                    counts.problems.append(f"{counts.source}: {made.problem}")
            else:
                counts.pages += 1
                yield made
    except SourceError as error:
        counts.problems.insert(0, str(error))
        counts.complete = False


async def _judge(config: Config, pages: Iterator[tuple[Fetched, bytes]], counts: _Counts) -> None:
    """Judge the pages of a source in their order; what is kept has come through."""
    # What an import gets is compared with all that is there.
    given = make_open(replace(config, incremental=True))
    given = structs.replace(given, crawl=counts.crawl, spider=SPIDER)
    judges, log = Judges(given, min(1, config.processes)), CrawlLog()
    waiting: deque[tuple[Fetched, int, asyncio.Future[Said]]] = deque()

    async def take_first() -> None:
        page, number, future = waiting.popleft()
        try:
            said = await future
            decision = said.decision or log.pass_over(page.url, reason="failed")
            judges.tell(Settled(number, "done"))  # if it is young
        except NotJudgedError as error:
            if error.reason == "store_unavailable":
                raise StoreUnavailableError(f"{page.url} was not judged") from error
            decision = log.pass_over(page.url, reason=error.reason)
        counts.count(decision.status, decision.reason)
        log.write(structs.replace(decision, action=""))

    try:
        opened = await judges.open()
        log = CrawlLog(given.config.log, counts.crawl, SPIDER, opened.seed)
        for page, body in pages:
            waiting.append((page, *judges.ask(page, body, young=True)))
            if len(waiting) >= _PAGES_AHEAD:
                await take_first()
        while waiting:
            await take_first()
    finally:
        for *_, future in waiting:
            future.cancel()
        ends = judges.ends
        closed = await judges.close()
        log.close()
    if closed.unwritten:
        raise StoreUnavailableError(f"{plural(closed.unwritten, 'change')} not written")
    if ends:
        counts.problems.insert(
            0,
            f"the process that judges pages ended {plural(ends, 'time')}, and pages just before "
            "may be missing: run this again",
        )


def _make_page(
    config: Config, fingerprinter: RequestFingerprinterProtocol, page: SourcePage
) -> tuple[Fetched, bytes] | Skipped:
    """Make a page to judge, with its body, as a crawl would, or return why one would skip it."""
    try:
        request = Request(page.url)
    except ValueError:
        return Skipped("bad_url")
    response: Response
    if page.html:
        response = HtmlResponse(request.url, page.status, body=page.body, encoding=page.encoding)
    else:  # of the class and encoding that Scrapy finds
        headers = Headers()
        for header in page.headers:
            if header[0].lower() not in _UNDONE:
                headers.appendlist(*(each.encode("latin-1", "replace") for each in header))
        kind = responsetypes.from_args(headers=headers, url=request.url, body=page.body)
        response = kind(request.url, page.status, headers=headers, body=page.body)
    if reason := find_skip_reason(config, request, response):
        return Skipped(reason)
    encoding, identity = find_encoding(response), identify(fingerprinter.fingerprint(request))
    made = Fetched(request.url, encoding, identity, time=page.time, reader=EVERYONE)
    return made, response.body


def _take_store(config: Config, source: Store, counts: _Counts) -> None:
    """Import what came through of a store; a new store adopts its recipe and seed."""
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
                counts.count(verdict.status, verdict.reason)
                if each.record.spared:
                    store.spare([verdict.document])
            counts.records += len(stored)
            counts.pages += len(delivered)
            show(counts.records, len(numbers))
