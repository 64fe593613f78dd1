"""Labelled pages and those of the example's manuals, judged in a fixed order: a line for each."""

from __future__ import annotations

import csv
import gzip
import re
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from scrapy_simhash import fingerprint_page, open_store
from scrapy_simhash.errors import NotJudgedError
from scrapy_simhash.judging.documents import make_document
from scrapy_simhash.judging.evidence import Rule
from scrapy_simhash.pages.facts import Page as Fetched

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from scrapy_simhash.judging.documents import Match, Verdict
    from scrapy_simhash.pages.facts import PageFingerprint

TESTS = Path(__file__).parents[1]
SHIPPED = {
    "labelled": TESTS / "labelled",
    "docsite": TESTS.parent / "example_project" / "docsite" / "pages",
}
RULES = {"default": Rule(7), "plain": Rule(3, "plain")}
SEED = 1
GROUP = 64


# Numbers within a test are those of the verdict again, or of the pages.
_NUMBERS = re.compile(r"\d[\d.,]*%?")


class Numbers:
    """Numbers documents in the order in which they were named: stores may leave numbers out."""

    def __init__(self) -> None:
        self._known = {0: 0}

    def __getitem__(self, number: int) -> int:
        return self._known.setdefault(number, len(self._known))


class Line(NamedTuple):
    """A line of a golden file, and what led to it, for people who look into a difference."""

    text: str
    cause: str = ""


def show_verdict(verdict: Verdict, numbers: Numbers) -> str:
    """Write status, number, match and nearest."""
    parts = [verdict.status, verdict.reason, str(numbers[verdict.document])]
    parts.append(show_match(verdict.match, numbers))
    if verdict.nearest is not None:
        parts.append(f"unlike {show_match(verdict.nearest, numbers)}")
    return " ".join(filter(None, parts))


def show_match(match: Match | None, numbers: Numbers) -> str:
    """Write number, distance, similarity to three digits, and which tests decided."""
    if match is None:
        return ""
    similarity = "-" if match.similarity is None else f"{match.similarity:.3f}"
    tests = show_tests(match.tests)
    return f"{numbers[match.document]} {match.distance} {similarity} [{tests}]"


def show_tests(tests: tuple[str, ...] | list[str]) -> str:
    """Write which tests decided, without their numbers."""
    return "; ".join(_NUMBERS.sub("#", test) for test in tests)


class Page(NamedTuple):
    """A page of a folder."""

    id: str
    path: Path
    url: str


def list_pages(folder: Path) -> list[Page]:
    """List the pages of a folder, in the order of the digests of their names."""
    if (folder / "pages.csv").exists():
        with (folder / "pages.csv").open(encoding="utf-8", newline="") as file:
            pages = [
                Page(row["id"], folder / row["path"], row.get("url") or "")
                for row in csv.DictReader(file)
            ]
    else:
        names = [path.relative_to(folder).as_posix() for path in folder.rglob("*.html")]
        pages = [Page(name, folder / name, f"http://manuals.example/{name}") for name in names]
    # Some labelled pages lie elsewhere in the repository.
    there = [page for page in pages if page.path.exists()]
    return sorted(there, key=lambda page: sha256(page.id.encode()).digest())


def run_pages(folder: Path, urls: Iterable[str]) -> Iterator[Line]:
    """Judge the pages of a folder by each of the rules, in new stores at these URLs."""
    stores = {
        name: open_store(url, rule.distance, rule=rule.name, seed=SEED)
        for (name, rule), url in zip(RULES.items(), urls, strict=True)
    }
    numbers = {name: Numbers() for name in RULES}
    try:
        pages = list_pages(folder)
        for start in range(0, len(pages), GROUP):
            read = [(page, _read(page)) for page in pages[start : start + GROUP]]
            for page, found in read:
                if isinstance(found, str):
                    yield Line(f"{page.id}: {found}")
            judged = [(page, made) for page, made in read if not isinstance(made, str)]
            for name, rule in RULES.items():
                documents = [
                    make_document(
                        made,
                        rule,
                        Fetched(
                            page.url,
                            identity=sha256(page.id.encode()).digest()[:20],
                            time=float(start),
                        ),
                    )
                    for page, made in judged
                ]
                verdicts = stores[name].find_and_add(documents)
                for (page, _), verdict in zip(judged, verdicts, strict=True):
                    shown = show_verdict(verdict, numbers[name])
                    yield Line(f"{page.id}, {name}: {shown}", page.url)
    finally:
        for store in stores.values():
            store.close()


def _read(page: Page) -> PageFingerprint | str:
    """Make the fingerprint of a page, or say why it has none."""
    body = page.path.read_bytes()
    try:
        return fingerprint_page(
            gzip.decompress(body) if page.path.suffix == ".gz" else body, seed=SEED, url=page.url
        )
    except NotJudgedError as error:
        return f"not_judged {error.reason}"
