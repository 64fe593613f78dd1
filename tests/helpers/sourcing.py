"""Sources of pages for the tests of the import."""

import csv
import gzip
import io
import json
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.helpers.pages import page

DATE = "2024-01-02T03:04:05Z"
DATE_SECONDS = 1_704_164_645.0


def url_of(number: int) -> str:
    return f"http://site.example/{number}"


def make_pages(count: int) -> dict[str, str]:
    """Make pages, each second one a copy of the one before it, with another menu."""
    return {url_of(n): page(n // 2, menu=f"Menu {n}") for n in range(count)}


def warc_record(
    url: str,
    body: str | bytes,
    *,
    kind: str = "response",
    status: str = "200 OK",
    headers: str = "Content-Type: text/html; charset=utf-8\r\n",
) -> bytes:
    octets = body.encode() if isinstance(body, str) else body
    http = f"HTTP/1.1 {status}\r\n{headers}\r\n".encode() + octets
    head = (
        f"WARC/1.0\r\nWARC-Type: {kind}\r\nWARC-Target-URI: {url}\r\nWARC-Date: {DATE}\r\n"
        "WARC-Record-ID: <urn:uuid:12345678-1234-1234-1234-123456789abc>\r\n"
        "Content-Type: application/http; msgtype=response\r\n"
        f"Content-Length: {len(http)}\r\n\r\n"
    )
    return head.encode() + http + b"\r\n\r\n"


def warc_by_record(pages: Mapping[str, str]) -> bytes:
    return b"".join(gzip.compress(warc_record(*each), mtime=0) for each in pages.items())


def warc_plain(pages: Mapping[str, str]) -> bytes:
    return b"".join(warc_record(*each) for each in pages.items())


def wacz(pages: Mapping[str, str]) -> bytes:
    """Pack pages as Browsertrix does; its other files are no archives."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as file:
        file.writestr("archive/data.warc.gz", warc_by_record(pages))
        file.writestr("pages/pages.jsonl", b"{}")
    return packed.getvalue()


def json_lines(pages: Mapping[str, str]) -> bytes:
    items = ({"url": url, "html": html} for url, html in pages.items())
    return b"".join(json.dumps(item).encode() + b"\n" for item in items)


MAKERS: dict[str, Callable[[Mapping[str, str]], bytes]] = {
    "by-record.warc.gz": warc_by_record,
    "plain.warc": warc_plain,
    "whole.warc.gz": lambda pages: gzip.compress(warc_plain(pages), mtime=0),
    "crawl.wacz": wacz,
    "feed.jsonl": json_lines,
    "feed.jsonl.gz": lambda pages: gzip.compress(json_lines(pages), mtime=0),
}


def make_folder(folder: Path, pages: Mapping[str, str]) -> Path:
    """Lay pages out as files, with a table that says where they are from."""
    folder.mkdir()
    rows = [("path", "url")]
    for number, (url, html) in enumerate(pages.items()):
        name = f"{number:03}.html.gz"
        (folder / name).write_bytes(gzip.compress(html.encode()))
        rows.append((name, url))
    with (folder / "pages.csv").open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    return folder
