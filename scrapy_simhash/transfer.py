"""Fill a store without a crawl: pages of WARC files, feeds and folders, and other stores.

Pages are judged as in a crawl, and count as delivered at once, in the order of the source, so
that the first of two near-duplicates is the original. What the store has already is a revisit, so
an import that was interrupted is run again.

Files are read once. What they unpack to may be of any size: a line, an item and a page are bounded.
"""

from __future__ import annotations

import asyncio
import csv
import gzip
import zlib
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from zipfile import BadZipFile
from zipfile import Path as ZipPath

import msgspec
from msgspec import structs
from scrapy import Spider
from scrapy.crawler import Crawler
from scrapy.http import Request
from scrapy.responsetypes import responsetypes
from scrapy.utils.misc import build_from_crawler, load_object

from scrapy_simhash._printable import plural, show_progress
from scrapy_simhash.crawl.policy import select_page
from scrapy_simhash.crawl.running import make_open
from scrapy_simhash.errors import (
    InspectionError,
    NotJudgedError,
    PartlyFailedError,
    StoreUnavailableError,
)
from scrapy_simhash.judge.client import Judges
from scrapy_simhash.judge.log import IMPORT_PREFIX, CrawlLog, new_crawl
from scrapy_simhash.judge.messages import Settled
from scrapy_simhash.judging.documents import Document, State
from scrapy_simhash.pages.facts import EVERYONE, MOST_BYTES
from scrapy_simhash.stores.keyvalues import cut
from scrapy_simhash.stores.opening import open_store, show_url

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from scrapy.settings import Settings

    from scrapy_simhash.config import Config
    from scrapy_simhash.judging.documents import Decision
    from scrapy_simhash.pages.facts import Fetched

    _Show: TypeAlias = Callable[[int, int | None], None]  # told how many records are read, of all
    _Made: TypeAlias = "tuple[Fetched, bytes] | Skipped"

SPIDER = "import"
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
    crawler.request_fingerprinter = build_from_crawler(made_by, crawler)
    # What an import gets is compared with all that is there; nothing can be asked for again.
    config, problems = replace(config, incremental=True, refetch=0), list[str]()
    for name, kind in [(name, find_kind(name)) for name in names]:
        source = _Import(name, kind, show_url(config.store), new_crawl(IMPORT_PREFIX))
        try:
            with show_progress("records") as show:
                if kind == "store":
                    source.take_store(config, show)
                else:
                    pages = map(partial(_make_page, crawler, config), read_source(name, kind))
                    asyncio.run(source.judge(config, pages, show))
        except StoreUnavailableError as error:
            raise StoreUnavailableError(
                f"the store cannot be written: {error}. {name} was read up to record "
                f"{source.records:,}; run this again when the store works"
            ) from error
        counted = vars(source)
        problems += counted.pop("problems")[:_PROBLEMS_SHOWN]
        yield counted
    if problems:
        raise PartlyFailedError("; ".join(problems))


@dataclass
class _Import:
    """The import of one source, and what became of its records."""

    source: str
    kind: str
    store: str
    crawl: str
    records: int = 0
    pages: int = 0  # among them
    skipped: Counter[str] = field(default_factory=Counter)
    complete: bool = True
    verdicts: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)  # with the source first, then with records

    async def judge(self, config: Config, pages: Iterable[_Made], show: _Show) -> None:
        """Judge the pages of the source in their order; what is kept has come through."""
        given = structs.replace(make_open(config), crawl=self.crawl, spider=SPIDER)
        judges, log = Judges(given, min(1, config.processes)), CrawlLog()
        try:
            log = CrawlLog(given.config.log, given.crawl, SPIDER, (await judges.open()).seed)
            for made in pages:
                self.records += 1
                show(self.records, None)
                if isinstance(made, Skipped):
                    self.skipped[made.reason] += 1
                    self.problems += [f"{self.source}: {made.problem}"] * bool(made.problem)
                    continue
                self.pages += 1
                page, body = made
                number, answer = judges.ask(page, body, young=True)
                try:
                    decision = (await answer).decision or log.pass_over(page.url, reason="failed")
                    judges.tell(Settled(number, "done"))  # if it is young
                except NotJudgedError as error:
                    if error.reason == "store_unavailable":
                        raise StoreUnavailableError(f"{page.url} was not judged") from error
                    decision = log.pass_over(page.url, reason=error.reason)
                self._count(decision)
                log.write(structs.replace(decision, action=""))
        except InspectionError as error:
            self.problems.insert(0, str(error))
            self.complete = False
        finally:
            ends = judges.ends
            closed = await judges.close()
            log.close()
        if closed.unwritten:
            raise StoreUnavailableError(f"{plural(closed.unwritten, 'change')} not written")
        if ends:
            why = f"the process that judges pages ended {plural(ends, 'time')}, and pages just "
            self.problems.insert(0, f"{why}before may be missing: run this again")

    def _count(self, judged: Decision) -> None:
        self.verdicts[f"{judged.status}/{judged.reason}".removesuffix("/")] += 1

    def take_store(self, config: Config, show: _Show) -> None:
        """Import what came through of a store; a new store adopts its recipe and seed."""
        with open_store(self.source, 0, readonly=True, rule=config.rule) as source:
            if source.url == self.store:
                raise ValueError(f"{source.url} is the store itself; name another one with --store")
            numbers = source.read(lambda stored: [number for number, _ in stored.scan()])
            given = config.store, config.distance_to_open, config.tables, source.recipe
            with open_store(*given, rule=config.rule, seed=source.seed) as store:
                for group in cut(numbers, _DOCUMENTS_PER_GROUP):
                    stored = source.get_documents(group).values()
                    done = [each for each in stored if each.state == State.DONE]
                    if skipped := len(stored) - len(done):
                        self.skipped["duplicate"] += skipped
                    documents = [Document(each.facts, wording=each.wording) for each in done]
                    decisions = store.find_and_add(documents, crawl=self.crawl)
                    for each, decision in zip(done, decisions, strict=True):
                        self._count(decision)
                        if each.spared:
                            store.spare([decision.document])
                    self.records += len(stored)
                    self.pages += len(done)
                    show(self.records, len(numbers))


def _make_page(crawler: Crawler, config: Config, page: Entry) -> _Made:
    """Make a page to judge, and its body, as a crawl would, or return why one would skip it."""
    if isinstance(page, Skipped):
        return page
    try:
        request = Request(page.url)
    except ValueError:
        return Skipped("bad_url")
    headers = {b"Content-Type": page.kind.encode("latin-1", "replace")} if page.kind else {}
    # Of the class and encoding that Scrapy finds.
    kind = responsetypes.from_args(headers=headers, url=request.url, body=page.body)
    response = kind(request.url, page.status, headers=headers, body=page.body)
    made = select_page(crawler, config, request, response, EVERYONE)
    if isinstance(made, str):
        return Skipped(made)
    return structs.replace(made, time=page.time, imported=b""), page.body


# What reading a file may raise, whatever is in it.
_UNREADABLE = (
    *(OSError, EOFError, ValueError, RuntimeError, MemoryError, zlib.error, csv.Error, BadZipFile),
)
_GZIP = b"\x1f\x8b\x08"


class SourcePage(NamedTuple):
    """A page as its source has it."""

    url: str  # may be invalid
    body: bytes  # with transfer and content encodings undone, but still in its charset
    status: int = 200
    kind: str = "text/html"  # its Content-Type; "" if there is none
    time: float | None = None  # of the fetch, seconds since 1970, UTC, if known


class Skipped(NamedTuple):
    """A record without a page."""

    reason: str  # a word to count it by
    problem: str = ""  # which record cannot be read, and why; "" if it is sound


Entry: TypeAlias = SourcePage | Skipped
TABLE = "pages.csv"  # of a folder: the addresses of its pages
_FEEDS = (".jsonl", ".jl", ".jsonlines", ".ndjson")
_KINDS = {"warc": (".warc", ".warc.zst"), "wacz": (".wacz",), "jsonl": _FEEDS}
# A few kilobytes may unpack to gigabytes. An item has the HTML with escapes, and other fields.
_MOST_OF_PAGE, _MOST_ITEM_BYTES = MOST_BYTES + 1, 8 * MOST_BYTES


def find_kind(name: str) -> str:
    """Find the kind of a path or of a store's URL."""
    path = Path(name)
    if "://" in name or (path / "data.mdb").exists():
        return "store"
    if (path / TABLE).exists():
        return "folder"
    path.stat()  # raises if it does not exist
    plain = path.name.lower().removesuffix(".gz")
    for kind, endings in _KINDS.items():
        if plain.endswith(endings) and not path.is_dir():
            return kind
    raise ValueError(
        f"{name} cannot be used; name a store, a WARC (.warc, .warc.gz, .wacz), a feed "
        f"({', '.join(_FEEDS)}, perhaps with .gz), or a folder with {TABLE} (columns url, path)"
    )


def read_source(name: str, kind: str) -> Iterator[Entry]:
    """Read all records of a source of pages, of each at most `MOST_BYTES` + 1 octets.

    Raises:
        InspectionError: from here on the source is cut or damaged.
    """
    path, record = Path(name), 0
    try:
        records = _read_folder(path) if kind == "folder" else _read_files(path, kind)
        for record, entry in enumerate(records, 1):  # noqa: B007
            yield entry
        if not record:
            raise EOFError("it has no record")
    except _UNREADABLE as error:
        raise InspectionError(
            f"{name} cannot be read from record {record + 1:,} on: "
            f"{str(error) or 'it ends there'}. Repair it, or get a complete copy, and run this "
            "again"
        ) from error


def _read_files(path: Path, kind: str) -> Iterator[Entry]:
    files: Iterable[Any] = ZipPath(path, "archive/").iterdir() if kind == "wacz" else [path]
    for each in files:
        with each.open("rb") as file:
            yield from (_read_feed if kind == "jsonl" else _read_warc)(file)


def _unzip(file: Any) -> Any:
    """Unpack a file that is gzipped."""
    zipped = file.peek(len(_GZIP)).startswith(_GZIP)
    return gzip.GzipFile(fileobj=file) if zipped else file


class _Item(msgspec.Struct):
    """What is read of an item of a feed: its other fields may have any number of values."""

    url: str
    html: str | None = None
    body: str | None = None


def _read_feed(file: Any) -> Iterator[Entry]:
    lines, found = _unzip(file), False
    for number, line in enumerate(iter(partial(lines.readline, _MOST_ITEM_BYTES + 1), b""), 1):
        if len(line) > _MOST_ITEM_BYTES:
            while line and not line.endswith(b"\n"):
                line = lines.readline(_MOST_ITEM_BYTES)  # noqa: PLW2901 - the rest of it
            yield Skipped("too_large", f"line {number:,} has more than {_MOST_ITEM_BYTES:,} octets")
        elif line.strip():
            try:
                item = msgspec.json.decode(line, type=_Item)
                html = item.body if item.html is None else item.html
                found |= html is not None
                page = SourcePage(item.url, (html or "").encode(), kind="text/html; charset=utf-8")
                yield Skipped("no_html") if html is None else page
            except msgspec.ValidationError:
                yield Skipped("no_html")
            except (ValueError, RecursionError) as error:
                yield Skipped("unreadable", f"line {number:,} is no JSON: {error}")
    if not found:
        raise InspectionError(
            f"{file.name} has no page: no item has the fields url and html or body"
        )


def _read_folder(folder: Path) -> Iterator[Entry]:
    """Read the pages that a table lists: columns `url` and `path`, others are ignored."""
    with (folder / TABLE).open(encoding="utf-8-sig", newline="") as file:
        for row in csv.DictReader(file, strict=True):
            if not row.keys() >= {"url", "path"}:
                columns = ", ".join(map(str, row))
                raise ValueError(f"its table has columns {columns}, not url and path")
            path = folder / (row["path"] or "")
            if not (row["path"] and path.resolve().is_relative_to(folder.resolve())):
                yield Skipped("unreadable", f"the path {row['path']!r} is outside of the folder")
                continue
            try:
                with path.open("rb") as page:
                    body = _unzip(page).read(_MOST_OF_PAGE)
            except _UNREADABLE as error:
                yield Skipped("unreadable", f"{path}: {str(error) or 'it ends too early'}")
            else:
                yield SourcePage(row["url"], body)


def _read_warc(file: Any) -> Iterator[Entry]:
    """Read a WARC file, plain or compressed; raises EOFError if it is cut short.

    A `response` is a page; the body of a `revisit` is in an earlier record.
    """
    try:
        from fastwarc.warc import ArchiveIterator  # noqa: PLC0415 - an extra
    except ImportError:
        raise InspectionError("WARC files need pip install 'scrapy-simhash[warc]'") from None
    # FastWARC itself unpacks twice as fast, but does not notice a cut between records. It gets what
    # there is before what is damaged, and never seeks.
    stream: Any = SimpleNamespace(read=_unzip(file).read1, tell=lambda: 0)
    for record in ArchiveIterator(stream, parse_http=False):
        if not record.headers.contains_key("Content-Length"):
            raise EOFError("it is cut short, or not a WARC")
        kind, reason = record.headers.get("WARC-Type") or "", ""
        if not record.is_http or kind.lower() != "response":
            reason = "no_response"
        else:
            try:
                record.parse_http()
            except OSError:
                reason = "bad_http"
        expected, body = record.content_length, record.reader.read(_MOST_OF_PAGE)
        if len(body) + record.reader.consume() < expected:
            raise EOFError("it is cut short")
        if reason:
            yield Skipped(reason)
            continue
        url, headers = record.headers.get("WARC-Target-URI") or "", record.http_headers
        yield SourcePage(
            url.removeprefix("<").removesuffix(">"),
            _decode(body, headers),
            headers.status_code or 0,
            headers.get("Content-Type") or "",
            record.record_date.timestamp() if record.record_date else None,
        )


def _decode(body: bytes, headers: Any) -> bytes:
    """Undo transfer and content encoding; leaves a body with a wrong declaration as it is."""
    from fastwarc import stream_io  # noqa: PLC0415 - only for this

    readers: dict[str, Callable[[BytesIO], Any]] = {
        "chunked": stream_io.ChunkedReader,
        "gzip": stream_io.GzipReader,
        "br": stream_io.BrotliReader,
        "zstd": stream_io.ZstdReader,
        "deflate": partial(stream_io.GzipReader, zlib=True),
    }
    given = f"{headers.get('Content-Encoding')},{headers.get('Transfer-Encoding')}".lower()
    for coding in given.split(",")[::-1]:
        if reader := readers.get(coding.strip().removeprefix("x-")):
            with suppress(OSError):
                body = reader(BytesIO(body)).read(_MOST_OF_PAGE)
    return body


def read_warc(path: Path) -> Iterator[SourcePage]:
    """Read the responses of a WARC file."""
    return (page for page in read_source(str(path), "warc") if isinstance(page, SourcePage))
