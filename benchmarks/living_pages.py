"""Real pages of labelled folders, with three parts that change with each answer; and their copies.

Of each host with 15 documents that have an address, up to 20 pages of 150 words. Which parts, and
at which other addresses the copies are, depends on the host's name. Canonical links are cut out, or
they would find all copies.
"""

from __future__ import annotations

import csv
import gzip
import re
from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from living import Site, draw, name, say
from scrapy.http import HtmlResponse
from w3lib.url import safe_url_string

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path
    from random import Random

_LEAST_PAGES, _MOST_PAGES, _LEAST_WORDS, _PARTS = 15, 20, 150, 3
_DECLARED = re.compile(r"(?is)<link[^>]*(canonical|alternate|amphtml)[^>]*>|<meta[^>]*og:url[^>]*>")
_HIDDEN = re.compile(r"(?is)<(script|style)\b.*?</\1|<[^>]+>")
_CHARSET = re.compile(r"(?is)<meta[^>]*charset[^>]*>")


def _list(heading: str, lines: Iterable[str]) -> str:
    return f"<h3>{heading}</h3><ul>{''.join(f'<li>{line}</li>' for line in lines)}</ul>"


_MADE = [
    "advertisement",
    "clock",
    "comments",
    "counter",
    "guests",
    "most_read",
    "prices",
    "ray_id",
    "title",
]
_ELSEWHERE = {
    "campaign": ["{}?utm_campaign=mail"],
    "session": ["{}?sid={:x}"],
    "print": ["/print{}"],
    "mobile": ["/m{}"],
    "two": ["{}?ref=a", "{}?from=feed"],
}


def _write(  # noqa: PLR0911 - one a part
    part: str, chance: Random, number: int, of: str
) -> tuple[str, str]:
    """Write a part of an answer; also return the end tag that it stands before."""
    draws = chance.randint
    match part:
        case "advertisement":
            return "main", f"<p class=ad>{say(1, 'ad', draws(1, 300))}</p>"
        case "counter":
            return "main", f"<p>Seen {1000 + number} times</p>"
        case "comments":
            said = (f"<p>{say(1, of, part, draws(1, 200))}</p>" for _ in range(3))
            return "main", f"<section><h3>Latest comments</h3>{''.join(said)}</section>"
        case "most_read":
            return "main", _list("Most read", (name(4, of, i) for i in chance.sample(range(30), 5)))
        case "prices":
            sold = (f"{name(3, of, i)} {draws(5, 200)}.90 EUR" for i in chance.sample(range(40), 4))
            return "main", _list("Customers also bought", sold)
        case "guests":
            return "body", f"<div>{draws(20, 400)} guests are online</div>"
        case "clock":
            return "body", f"<p>Made at {draws(0, 23)}:{draws(10, 59)} in .{draws(100, 999)} s</p>"
        case "ray_id":
            return "body", f"<p>Ray ID: {chance.getrandbits(64):016x}</p>"
        case _:
            return "", f"({draws(1, 40)}) "


def _insert(page: str, tag: str, html: str) -> str:
    """Insert before the last end tag of a name, or what stands for it; "": before the title."""
    if not tag:
        return re.sub(r"(?i)<title[^>]*>", lambda found: found[0] + html, page, count=1)
    for end in (f"</{tag}>", "</article>", "</body>"):
        before, found, after = page.rpartition(end)
        if found:
            return before + html + found + after
    return page + html


def _read_table(path: Path) -> list[dict[str, str]]:
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _read(path: Path) -> str:
    page = HtmlResponse("http://site.example/", body=gzip.decompress(path.read_bytes())).text
    return _DECLARED.sub("", _CHARSET.sub("<meta charset=utf-8>", page, count=1))


def load_sites(folders: Iterable[Path]) -> dict[str, Callable[[], Site]]:
    """Find the hosts of labelled folders; each is made when it is called."""
    found: defaultdict[str, dict[str, Path]] = defaultdict(dict)
    for folder in folders:
        cluster = {row["id"]: row["cluster"] for row in _read_table(folder / "clusters.csv")}
        seen = set[str]()
        for row in _read_table(folder / "pages.csv"):
            address, document = urlsplit(row["url"]), cluster.get(row["id"], row["id"])
            if address.netloc and not address.query and document not in seen:
                seen.add(document)
                found[address.netloc][safe_url_string(address.path or "/")] = folder / row["path"]
    return {
        f"pages/{host}": partial(_make, host, pages)
        for host, pages in sorted(found.items())
        if len(pages) >= _LEAST_PAGES
    }


def _make(host: str, pages: dict[str, Path]) -> Site:
    site, chance = Site(f"pages/{host}"), draw("pages", host)
    site.host = f"http://{host}"
    parts = chance.sample(_MADE, _PARTS)
    addresses = _ELSEWHERE[chance.choice(sorted(_ELSEWHERE))]

    def show(page: str, answer: Random, number: int) -> str:
        for part in parts:
            page = _insert(page, *_write(part, answer, number, host))
        return page

    for path in chance.sample(sorted(pages), min(_MOST_PAGES, len(pages))):
        page = _read(pages[path])
        if len(_HIDDEN.sub(" ", page).split()) >= _LEAST_WORDS:
            for kind, form in (("page", "{}"), *(("copy", each) for each in addresses)):
                url = form.format(path, draw(path).getrandbits(32))
                site.add(url, path, kind, partial(show, page))
    return site
