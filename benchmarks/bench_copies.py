"""Are copies found at another address of their host, and records of one template kept?

`python benchmarks/bench_copies.py FOLDER...` plants copies among the pages of labelled folders: of
each source with 10 documents, up to three pages of 250 words get one each, with one difference
(`EDITS`); all are judged in random order. Further rows: the copies of `sites.make_site` from the
pages of the first folder, the example's site, and made-up records (`tests/helpers/records.py`).
"""

from __future__ import annotations

import argparse
import itertools
import random
import re
import sys
from collections import Counter, defaultdict, deque
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urljoin

from sites import EDITS as OF_SITES
from sites import load_pages, make_site

from scrapy_simhash.config import Config
from scrapy_simhash.errors import NotJudgedError
from scrapy_simhash.judging.documents import make_document
from scrapy_simhash.pages.addresses import host_of
from scrapy_simhash.pages.facts import Page as Fetched
from scrapy_simhash.pages.fingerprint import fingerprint_page, read_page

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "example_project"), str(ROOT / "benchmarks" / "study")]
from evaluate import judge_in_order  # noqa: E402
from labels import LabelledDocuments, locate, read_corpus  # noqa: E402

from tests.helpers.pages import make_words  # noqa: E402
from tests.helpers.records import SHAPES, make_article, make_record  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_LEAST_DOCUMENTS, _MOST_COPIES, _LEAST_WORDS = 10, 3, 250
_FRAMES = re.compile(rb"(?is)<(nav|aside|footer|header)\b.*?</\1\s*>|<link[^>]*canonical[^>]*>")
_PARAGRAPH = re.compile(rb"(?is)</p\s*>")


class Page(NamedTuple):
    """A page to be judged, which document it is, and what makes it another copy of that."""

    url: str
    body: bytes
    document: str
    kind: str = ""


def _insert(page: bytes, tag: bytes, html: bytes) -> bytes:
    """Insert before the last tag of a name, or at the end."""
    before, found, after = page.rpartition(tag)
    return before + html + found + after if found else page + html


def _comment(page: bytes, draw: random.Random) -> bytes:
    """Add a comment behind the last paragraph."""
    text = " ".join(make_words(draw.getrandbits(32), 14)).encode()
    ends = [found.end() for found in _PARAGRAPH.finditer(page)] or [len(page)]
    return page[: ends[-1]] + b"<div><p>" + text + b"</p></div>" + page[ends[-1] :]


def _print(page: bytes, url: str) -> bytes:
    """Take frames away, and name the original."""
    page = _FRAMES.sub(b"", page)
    page = _insert(page, b"</head>", f'<link rel="canonical" href="{url}">'.encode())
    return _insert(page, b"</body>", b"<p>Printed from the site; back to the article</p>")


EDITS: dict[str, Callable[[bytes, random.Random], bytes]] = {**OF_SITES, "comment": _comment}


def plant(folder: Path, seed: int) -> Iterator[Page]:
    """Give the pages of a labelled folder, one of each document, and copies of some."""
    draw, corpus = random.Random(seed), read_corpus(folder)  # noqa: S311 - repeatable, no secret
    find, sources = LabelledDocuments(corpus).find, defaultdict[str, dict[str, str]](dict)
    for name, page in corpus.pages.items():
        sources[page.source].setdefault(find(name), name)
    kinds = itertools.cycle([*EDITS, "print view"])
    for _, names in sorted(sources.items()):
        left = _MOST_COPIES if len(names) >= _LEAST_DOCUMENTS else 0
        for document, name in draw.sample([*names.items()], len(names)):
            url, body = locate(corpus.pages[name]), corpus.pages[name].read()
            yield Page(url, body, document)
            if left and _count_words(body) >= _LEAST_WORDS:
                left, kind = left - 1, next(kinds)
                copy = EDITS[kind](body, draw) if kind in EDITS else _print(body, url)
                path = re.sub(r"(\.html?)?/?(\?.*)?$", "", url)
                yield Page(f"{path}-copy{left}.html", copy, document, kind)


def _count_words(body: bytes) -> int:
    """Count the words of a page with a body and an end of it."""
    try:
        text = read_page(body, None).whole
    except NotJudgedError:
        return 0
    return len(text.split()) * (b"<body" in body and b"</body" in body)


def plant_site(folder: Path) -> Iterator[Page]:
    """Give the site with near-duplicates that bench_crawl crawls."""
    site, seen = make_site(load_pages(folder, 5_000).pages, 500), set[int]()
    for number, (body, family) in enumerate(zip(site.pages, site.families, strict=True)):
        kind = "copy" if family in seen else ""
        seen.add(family)
        yield Page(f"http://pages.example/{number}", body, str(family), kind)


def crawl_example() -> Iterator[Page]:
    """Give all pages of the example's site, in the order of their links."""
    from docsite.site import Site  # noqa: PLC0415

    site, home, known = Site(1), "http://docs.example/", set[str]()
    waiting, documents = deque([home]), set[str]()
    while waiting:
        url = waiting.popleft()
        answer = site.answer(url)
        links = re.findall(r'href="([^"#]+)', answer.text)
        found = {urljoin(url, link.replace("&amp;", "&")): None for link in links}
        new = [each for each in found if each.startswith(home) and each not in known]
        known.update(new)
        waiting.extend(new)
        if answer.document:
            kind = answer.variant if answer.document in documents else ""
            documents.add(answer.document)
            yield Page(url, answer.body, answer.document, kind)


def make_records() -> Iterator[Page]:
    """Give records of one template, on a host for each of their shapes."""
    sizes = itertools.product(SHAPES, (5, 10, 20), (300, 800, 3_000), ("Case details", ""))
    addresses = itertools.cycle(("/case/{}", "/detail?id={}", "/{}/view"))
    for host, ((shape, own, template, title), address) in enumerate(
        zip(sizes, addresses, strict=False)
    ):
        home = f"http://{shape.replace(' ', '-')}{own}-{template}{'-titled' * (not title)}.example"
        numbers = range(100 * host, 100 * host + 30)
        pages = {make_record(number, shape, own, template, title): number for number in numbers}
        for html, number in pages.items():
            yield Page(home + address.format(4_000 + number), html.encode(), f"{home} {number}")
        for number in numbers[:10]:
            url = f"{home}/article/{number}"
            yield Page(url, make_article(20_000 + number).encode(), url)


def judge(name: str, pages: Iterable[Page], seed: int) -> None:
    """Judge pages in random order, and print which copies were found, and what else was dropped."""
    config, made = Config(), []
    for page in pages:
        try:
            fingerprint = fingerprint_page(page.body, url=page.url)
        except NotJudgedError:
            continue
        made.append(
            (page, make_document(fingerprint, config.chosen_rule, Fetched(page.url, identity=b"-")))
        )
    random.Random(seed).shuffle(made)  # noqa: S311
    verdicts = judge_in_order([document for _, document in made], config, seed)
    by_url = {page.url: page for page, _ in made}
    kinds = {page.document: page.kind for page, _ in made if page.kind}
    planted = Counter(page.kind for page, _ in made if page.kind)
    found, others = Counter[str](), 0
    for (page, _), verdict in zip(made, verdicts, strict=True):
        if verdict.status == "near_duplicate" and verdict.match is not None:
            original = by_url[verdict.match.url or ""]
            if name == "records" and host_of(original.url) != host_of(page.url):
                continue  # their templates have the same words
            if original.document == page.document:
                found[page.kind or kinds.get(page.document, "")] += 1
            else:
                others += 1
    shares = ", ".join(f"{kind} {found[kind]}/{count}" for kind, count in planted.items())
    right = sum(found[kind] for kind in planted)
    print(
        f"{name}: {len(made)} pages, {right} of {planted.total()} copies found "
        f"({shares}); other drops: {others}",
        flush=True,
    )


def main() -> None:
    """Judge everything."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folders", type=Path, nargs="*", help="with pages.csv and the pages")
    parser.add_argument("--seed", type=int, default=7, help="of copies and order (default 7)")
    options = parser.parse_args()
    for folder in options.folders:
        judge(f"planted in {folder.name}", plant(folder, options.seed), options.seed)
    for folder in options.folders[:1]:
        judge(f"site of {folder.name}", plant_site(folder), options.seed)
    judge("example", crawl_example(), options.seed)
    judge("records", make_records(), options.seed)


if __name__ == "__main__":
    main()
