"""Sources of pages: what each kind yields, how it goes on, and what is said of damage."""

import gzip
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pytest

from scrapy_simhash.errors import InspectionError
from scrapy_simhash.pages.facts import MOST_BYTES
from scrapy_simhash.transfer import Entry, Skipped, SourcePage, find_kind, read_source
from tests.helpers.sourcing import (
    DATE_SECONDS,
    MAKERS,
    make_folder,
    make_pages,
    warc_by_record,
    warc_plain,
    warc_record,
)

PAGES = make_pages(6)


def read(path: Path, kind: str = "") -> Iterator[Entry]:
    return read_source(str(path), kind or find_kind(str(path)))


def as_pages(entries: Iterable[Entry]) -> dict[str, str]:
    found = [entry for entry in entries if isinstance(entry, SourcePage)]
    return {page.url: page.body.decode() for page in found}


@pytest.fixture(params=[*MAKERS, "folder"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    if request.param == "folder":
        return make_folder(tmp_path / "folder", PAGES)
    path: Path = tmp_path / request.param
    path.write_bytes(MAKERS[request.param](PAGES))
    return path


def test_every_kind_yields_the_pages(path: Path) -> None:
    entries = list(read(path))
    assert (as_pages(entries), len(entries)) == (PAGES, 6)


@pytest.mark.parametrize("name", [name for name in MAKERS if name != "feed.jsonl"])
@pytest.mark.parametrize("missing", [20, 700])
def test_what_is_cut_is_read_to_the_cut(tmp_path: Path, name: str, missing: int) -> None:
    path, whole = tmp_path / name, MAKERS[name](PAGES)
    path.write_bytes(whole[: len(whole) - missing])
    found: list[Entry] = []
    with pytest.raises(InspectionError, match=r"cannot be read from record \d") as raised:
        found.extend(read(path))
    assert str(path) in str(raised.value)
    assert as_pages(found).items() <= PAGES.items()
    assert len(as_pages(found)) < len(PAGES)


BY_RECORD = warc_by_record(PAGES)
LAST_BYTES = len(gzip.compress(warc_record(*list(PAGES.items())[-1]), mtime=0))
MIDDLE = len(BY_RECORD) // 2
FLIPPED = BY_RECORD[:MIDDLE] + bytes([BY_RECORD[MIDDLE] ^ 1]) + BY_RECORD[MIDDLE + 1 :]


@pytest.mark.parametrize(
    ("octets", "message", "pages"),
    [
        *((b"garbage " * 100, "record 1", [0]), (b"WARC/1.0\r\n", "record 1", [0])),
        (warc_plain(PAGES) + b"garbage\r\n" * 20, "record 7", [6]),
        (gzip.compress(b"garbage " * 100, mtime=0), "record 1", [0]),
        # Cut within the head of a member: FastWARC takes that for the end of the file.
        (BY_RECORD[: 5 - LAST_BYTES], "record 6", [5]),
        (FLIPPED, "record", range(1, 6)),
    ],
)
def test_a_damaged_warc_is_read_to_the_damage(
    tmp_path: Path, octets: bytes, message: str, pages: Sequence[int]
) -> None:
    path = tmp_path / "a.warc"
    path.write_bytes(octets)
    found: list[Entry] = []
    with pytest.raises(InspectionError, match=message):
        found.extend(read(path, "warc"))
    assert len(found) in pages


CHUNKED, PACKED = "Transfer-Encoding: chunked\r\n", "Content-Encoding: gzip\r\n"


def encoded(body: bytes, headers: str) -> bytes:
    return warc_record("<http://site.example/a>", body, headers=headers)


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (encoded(b"5\r\n<html\r\n1\r\n>\r\n0\r\n\r\n", CHUNKED), b"<html>"),
        (encoded(gzip.compress(b"<html>", mtime=0), PACKED), b"<html>"),
        # Undone by who wrote the WARC, whatever the headers say.
        (encoded(b"<html>", PACKED + CHUNKED), b"<html>"),
        (encoded(gzip.compress(bytes(9 * MOST_BYTES), mtime=0), PACKED), bytes(MOST_BYTES + 1)),
        (encoded(bytes(2 * MOST_BYTES), "Content-Type: text/html\r\n"), bytes(MOST_BYTES + 1)),
        (warc_record("http://site.example/a", b"x", kind="resource"), "no_response"),
        (warc_record("http://site.example/a", b"x", kind="Response"), b"x"),
    ],
)
def test_bodies_of_warc_records(tmp_path: Path, record: bytes, expected: bytes | str) -> None:
    path = tmp_path / "a.warc"
    path.write_bytes(record + warc_record("http://site.example/b", "<html>b"))
    first, second = read(path)
    if isinstance(first, SourcePage):
        assert (first.url, first.time) == ("http://site.example/a", DATE_SECONDS)
    assert (first.body if isinstance(first, SourcePage) else first.reason) == expected
    assert isinstance(second, SourcePage)


def test_items_of_a_feed_without_a_page_are_passed_over(tmp_path: Path) -> None:
    items = [{"url": "http://a.example/"}, {"name": "x"}, [1], {"url": 1, "html": "x"}]
    good = {"url": "http://b.example/", "body": "<html>", "html": None}
    path = tmp_path / "a.jsonl"
    path.write_text("".join(f"{json.dumps(item)}\n" for item in [*items, None, good]))
    *others, last = read(path)
    assert (others, as_pages([last])) == ([Skipped("no_html")] * 5, {"http://b.example/": "<html>"})


def test_a_feed_with_other_fields(tmp_path: Path) -> None:
    path = tmp_path / "feed.jsonl"
    path.write_text('{"url": "http://a.example/", "source": "<html>"}')
    with pytest.raises(InspectionError, match="no item has the fields url and html or body"):
        list(read(path))


def test_a_folder(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "b.htm").write_text("<html>b")
    (tmp_path / "d.html.gz").write_bytes(gzip.compress(b"<html>d")[:-3])
    with pytest.raises(ValueError, match=r"or a folder with pages\.csv"):
        find_kind(str(tmp_path))
    table = "url,path\nhttp://b.example/,deep/b.htm\nhttp://d.example/,d.html.gz\n"
    (tmp_path / "pages.csv").write_text(table)
    entries = list(read(tmp_path))
    assert as_pages(entries) == {"http://b.example/": "<html>b"}
    (damage,) = (entry for entry in entries if isinstance(entry, Skipped))
    assert damage.problem.startswith(f"{tmp_path}/d.html.gz: ")


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("url,file\nhttp://a.example/,a.html\n", "columns url, file, not url and path"),
        ("url,path\n", "it has no record"),
        ('url,path\nx,y\nhttp://b.example/,"y\n', "record 2"),
    ],
)
def test_a_table_that_is_none(tmp_path: Path, table: str, message: str) -> None:
    (tmp_path / "pages.csv").write_text(table)
    with pytest.raises(InspectionError, match=message):
        list(read(tmp_path))


def test_a_table_leads_nowhere_else(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "secret.html").write_text("<html>secret")
    rows = "url,path\nhttp://a.example/,../secret.html\nhttp://b.example/,\n"
    (tmp_path / "folder" / "pages.csv").write_text(rows)
    outside, nothing = read(tmp_path / "folder")
    assert isinstance(outside, Skipped)
    assert isinstance(nothing, Skipped)
    assert "'../secret.html' is outside of the folder" in outside.problem


@pytest.mark.parametrize("octets", [b"1\n2\n", gzip.compress(b"nothing known", mtime=0), b""])
def test_what_is_of_no_known_kind(tmp_path: Path, octets: bytes) -> None:
    (tmp_path / "what.ever").write_bytes(octets)
    with pytest.raises(ValueError, match=r"what\.ever cannot be used; .* a feed \(\.jsonl"):
        find_kind(str(tmp_path / "what.ever"))
    with pytest.raises(FileNotFoundError):
        find_kind(str(tmp_path / "nowhere"))
    assert find_kind("redis://nowhere") == "store"
