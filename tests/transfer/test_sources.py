"""Sources of pages: what each kind yields, how it goes on, and what is said of damage."""

import gzip
import json
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from scrapy_simhash.errors import SourceError
from scrapy_simhash.transfer.importing import find_kind, open_sources
from scrapy_simhash.transfer.sources import (
    START,
    Entry,
    FeedSource,
    FolderSource,
    Source,
    SourcePage,
)
from scrapy_simhash.transfer.warc import open_wacz
from tests.helpers.sourcing import (
    DATE_SECONDS,
    MAKERS,
    json_array,
    make_folder,
    make_pages,
    warc_by_record,
    warc_plain,
    warc_record,
)

PAGES = make_pages(6)
MOST = 4 * 2**20


def open_source(path: Path, kind: str | None = None) -> Source:
    (source,) = open_sources(str(path), find_kind(str(path), kind), "url", None, MOST)
    return source


def read(source: Source, start: Entry | None = None) -> list[Entry]:
    return list(source.read(source.mark(start.record, start.offset) if start else START))


def as_pages(entries: list[Entry]) -> dict[str, str]:
    found = [entry.page for entry in entries if isinstance(entry.page, SourcePage)]
    return {page.url: page.body.decode(page.encoding or "utf-8") for page in found}


@pytest.fixture(params=[*MAKERS, "folder"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    if request.param == "folder":
        return make_folder(tmp_path / "folder", PAGES)
    path: Path = tmp_path / request.param
    path.write_bytes(MAKERS[request.param](PAGES))
    return path


def test_every_kind_yields_the_pages_and_goes_on_from_each(path: Path) -> None:
    source = open_source(path)
    entries = read(source)
    assert as_pages(entries) == PAGES
    assert [entry.record for entry in entries] == list(range(1, 7))
    assert all(0 < entry.done <= source.total for entry in entries)
    for number, entry in enumerate(entries, 1):
        again = open_source(path)
        assert again.holds(source.mark(entry.record, entry.offset))
        assert read(again, entry) == entries[number:]
    # The place is found at once where it can be.
    at_once = path.name in {"by-record.warc.gz", "plain.warc", "feed.jsonl"}
    assert all(entry.offset for entry in entries[:-1]) == at_once


def test_another_file_of_the_name_is_told(path: Path) -> None:
    source = open_source(path)
    third = read(source)[2]
    position = source.mark(third.record, third.offset)
    assert source.holds(position)
    others = dict(list(PAGES.items())[1:] + list(PAGES.items())[:1])
    if path.is_dir():
        for each in path.iterdir():
            each.unlink()
        path.rmdir()
        make_folder(path, others)
    else:
        path.write_bytes(MAKERS[path.name](others))
    assert not open_source(path).holds(position)


@pytest.mark.parametrize("name", [name for name in MAKERS if name != "feed.csv"])
@pytest.mark.parametrize("missing", [20, 700])
def test_what_is_cut_is_read_to_the_cut(tmp_path: Path, name: str, missing: int) -> None:
    """And goes on there when the whole has come."""
    path, whole = tmp_path / name, MAKERS[name](PAGES)
    path.write_bytes(whole[: len(whole) - missing])
    found: list[Entry] = []
    with pytest.raises(SourceError, match=r"cannot be read from .*record \d") as raised:
        found.extend(open_source(path).read(START))
    assert str(path) in str(raised.value)
    assert as_pages(found).items() <= PAGES.items()
    assert len(found) < len(PAGES)
    if not found:
        return
    cut = open_source(path)
    position = cut.mark(found[-1].record, found[-1].offset)
    path.write_bytes(whole)
    again = open_source(path)
    if found[-1].offset:
        assert again.holds(position)
        assert as_pages(found) | as_pages(list(again.read(position))) == PAGES


BY_RECORD = warc_by_record(PAGES)
LAST_BYTES = len(gzip.compress(warc_record(*list(PAGES.items())[-1]), mtime=0))
MIDDLE = len(BY_RECORD) // 2
FLIPPED = BY_RECORD[:MIDDLE] + bytes([BY_RECORD[MIDDLE] ^ 1]) + BY_RECORD[MIDDLE + 1 :]


@pytest.mark.parametrize(
    ("octets", "message", "pages"),
    [
        (b"garbage " * 100, "record 1", [0]),
        (b"WARC/1.0\r\n", "record 1", [0]),
        (warc_plain(PAGES) + b"garbage\r\n" * 20, "record 6", [5]),
        (gzip.compress(b"garbage " * 100, mtime=0), "record 1", [0]),
        # Cut within the head of a member: FastWARC takes that for the end of the file.
        (BY_RECORD[: 5 - LAST_BYTES], "cut short", [4]),
        (FLIPPED, "octet", range(1, 6)),
    ],
)
def test_a_damaged_warc_is_read_to_the_damage(
    tmp_path: Path, octets: bytes, message: str, pages: Sequence[int]
) -> None:
    path = tmp_path / "a.warc"
    path.write_bytes(octets)
    found: list[Entry] = []
    with pytest.raises(SourceError, match=message):
        found.extend(open_source(path, "warc").read(START))
    assert len(found) in pages


def encoded(body: bytes, headers: str) -> bytes:
    return warc_record("<http://site.example/a>", body, headers=headers)


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (
            encoded(b"5\r\n<html\r\n1\r\n>\r\n0\r\n\r\n", "Transfer-Encoding: chunked\r\n"),
            b"<html>",
        ),
        (encoded(gzip.compress(b"<html>", mtime=0), "Content-Encoding: gzip\r\n"), b"<html>"),
        # Undone by who wrote the WARC, whatever the headers say.
        (encoded(b"<html>", "Content-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n"), b"<html>"),
        (
            encoded(gzip.compress(bytes(9 * MOST), mtime=0), "Content-Encoding: gzip\r\n"),
            bytes(MOST + 1),
        ),
        (encoded(bytes(2 * MOST), "Content-Type: text/html\r\n"), bytes(MOST + 1)),
        (warc_record("http://site.example/a", b"x", kind="resource"), "no_response"),
    ],
)
def test_bodies_of_warc_records(tmp_path: Path, record: bytes, expected: bytes | str) -> None:
    path = tmp_path / "a.warc"
    path.write_bytes(record + warc_record("http://site.example/b", "<html>b"))
    first, second = read(open_source(path))
    if isinstance(first.page, SourcePage):
        assert first.page.url == "http://site.example/a"
        assert first.page.time == DATE_SECONDS
    assert (first.page.body if isinstance(first.page, SourcePage) else first.page) == expected
    assert isinstance(second.page, SourcePage)


def test_a_wacz_has_its_warc_files(tmp_path: Path) -> None:
    path = tmp_path / "a.wacz"
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr("datapackage.json", "{}")
        packed.writestr("archive/b.warc.gz", warc_by_record(dict(list(PAGES.items())[3:])))
        packed.writestr("archive/a.warc", warc_plain(dict(list(PAGES.items())[:3])))
    assert find_kind(str(path)) == "wacz"
    sources = open_wacz(path, MOST)
    assert [source.name for source in sources] == [
        f"{path}!archive/a.warc",
        f"{path}!archive/b.warc.gz",
    ]
    assert as_pages([entry for source in sources for entry in read(source)]) == PAGES
    entries = read(sources[1])
    assert read(sources[1], entries[0]) == entries[1:]
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(SourceError, match="not a WACZ"):
        open_wacz(path, MOST)


def test_items_of_a_feed_without_a_page_are_passed_over(tmp_path: Path) -> None:
    items = [{"url": "http://a.example/"}, {"name": "x"}, [1], {"url": 1, "html": "x"}]
    good = {"page": "http://b.example/", "content": "<html>\ud800"}
    path = tmp_path / "a.json"
    path.write_text(json.dumps([*items, None, good]))
    source = FeedSource(path, "json", "page", ("content",))
    entries = read(source)
    assert [entry.page for entry in entries[:-1]] == ["no_html"] * 5
    assert as_pages(entries) == {"http://b.example/": "<html>?"}


@pytest.mark.parametrize("name", ["feed.jsonl", "feed.json", "feed.csv"])
def test_a_feed_with_other_fields(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(MAKERS[name](PAGES))
    message = "no item has the fields url and source. The last item has: url, (html|body)"
    with pytest.raises(SourceError, match=message):
        read(FeedSource(path, path.suffix[1:], "url", ("source",)))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.jsonl", '{"url": "http://a.example/", "html": "x"}\nnonsense\n'),
        ("a.json", '[{"url": "http://a.example/", "html": "x"}, nonsense]'),
        ("a.json", '[{"url": "http://a.example/", "html": "x"}'),
        ("a.csv", 'url,html\nhttp://a.example/,x\nhttp://b.example/,"y\n'),
    ],
)
def test_nonsense_in_a_feed(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    found: list[Entry] = []
    with pytest.raises(SourceError, match="record 2"):
        found.extend(open_source(path).read(START))
    assert as_pages(found) == {"http://a.example/": "x"}


def test_a_large_array_is_read_in_parts(tmp_path: Path) -> None:
    large = {url: html + 30_000 * " x" for url, html in PAGES.items()}
    path = tmp_path / "a.json"
    path.write_bytes(json_array(large))
    assert as_pages(read(open_source(path))) == large


def test_a_folder_without_a_table(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "b.htm").write_text("<html>b")
    (tmp_path / "a.html").write_text("<html>a")
    (tmp_path / "c.txt").write_text("c")
    (tmp_path / "d.html.gz").write_text("no gzip")
    entries = read(FolderSource(tmp_path, MOST))
    assert as_pages(entries) == {
        f"file://{tmp_path}/a.html": "<html>a",
        f"file://{tmp_path}/deep/b.htm": "<html>b",
    }
    assert [entry.page for entry in entries].count("unreadable") == 1


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("url,file\n", "no column path; it has url, file"),
        ("url,path\nhttp://a.example/,../../etc/passwd\n", "outside of the folder"),
        ("url,path\n", "has no page"),
    ],
)
def test_a_table_that_is_none(tmp_path: Path, table: str, message: str) -> None:
    (tmp_path / "pages.csv").write_text(table)
    with pytest.raises(SourceError, match=message):
        FolderSource(tmp_path, MOST)


@pytest.mark.parametrize("octets", [b"1\n2\n", gzip.compress(b"nothing known", mtime=0), b""])
def test_what_is_of_no_known_kind(tmp_path: Path, octets: bytes) -> None:
    (tmp_path / "what.ever").write_bytes(octets)
    with pytest.raises(ValueError, match=r"what\.ever cannot be used.*--kind"):
        find_kind(str(tmp_path / "what.ever"))
    with pytest.raises(FileNotFoundError):
        find_kind(str(tmp_path / "nowhere"), "warc")
    assert find_kind("redis://nowhere") == "store"
