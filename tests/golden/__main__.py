"""Golden verdicts: labelled pages and those of the example's manuals, judged in a fixed order.

`python -m tests.golden make [PART ...]` writes the golden files of parts, `compare` judges again
and prints the first difference of each part; the exit code is 1 then, and `make` is for differences
whose reason is known. Parts are `labelled` and `docsite`.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import lzma
import re
import sys
from hashlib import sha256
from itertools import zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple
from unittest.mock import patch

from scrapy_simhash import fingerprint_page, open_store
from scrapy_simhash.errors import NotJudgedError
from scrapy_simhash.judging.documents import Rule, make_document
from scrapy_simhash.judging.matching import Judge
from scrapy_simhash.pages.facts import Fetched

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from scrapy_simhash.judging.documents import Candidate, Decision
    from scrapy_simhash.pages.facts import PageFingerprint

HERE = Path(__file__).parent
SHIPPED = {
    "labelled": HERE.parent / "labelled",
    "docsite": HERE.parents[1] / "example_project" / "docsite" / "pages",
}
RULES = {"default": Rule(7), "plain": Rule(3, "plain")}
SEED = 1
GROUP = 64
LINES_BEFORE = 3
# Numbers within a test are those of the verdict again, or of the pages.
_NUMBERS = re.compile(r"\d[\d.,]*%?")


class Page(NamedTuple):
    """A page of a folder."""

    id: str
    path: Path
    url: str

    def read(self) -> PageFingerprint | str:
        """Make its fingerprint, or say why it has none."""
        body = self.path.read_bytes()
        try:
            return fingerprint_page(
                gzip.decompress(body) if self.path.suffix == ".gz" else body,
                seed=SEED,
                url=self.url,
            )
        except NotJudgedError as error:
            return f"not_judged {error.reason}"


class Numbers:
    """Numbers documents in the order in which they were named: stores may leave numbers out."""

    def __init__(self) -> None:
        self._known = {0: 0}

    def show(self, decision: Decision, match: Candidate | None) -> str:
        """Write status and number; of match or nearest number, distance, similarity and tests."""
        parts = [decision.status, decision.reason, str(self._find(decision.document))]
        if match is not None:
            tests = decision.tests or decision.nearest_tests
            shown = "; ".join(_NUMBERS.sub("#", test) for test in tests)
            similarity = "-" if match.similarity is None else f"{match.similarity:.3f}"
            parts.append("unlike" * (decision.match_url is None))
            parts.append(f"{self._find(match.number)} {match.distance} {similarity} [{shown}]")
        return " ".join(filter(None, parts))

    def _find(self, number: int) -> int:
        return self._known.setdefault(number, len(self._known))


def list_pages(folder: Path) -> list[Page]:
    """List the pages of a folder, in the order of the digests of their names."""
    if (folder / "pages.csv").exists():
        with (folder / "pages.csv").open(encoding="utf-8", newline="") as file:
            rows = [*csv.DictReader(file)]
        pages = [Page(row["id"], folder / row["path"], row.get("url") or "") for row in rows]
    else:
        names = [path.relative_to(folder).as_posix() for path in folder.rglob("*.html")]
        pages = [Page(name, folder / name, f"http://manuals.example/{name}") for name in names]
    # Some labelled pages lie elsewhere in the repository.
    there = [page for page in pages if page.path.exists()]
    return sorted(there, key=lambda page: sha256(page.id.encode()).digest())


def judge_part(part: str, urls: Iterable[str]) -> Iterator[str]:
    """Judge the pages of a part by each of the rules, in new stores at these URLs."""
    stores = {
        name: open_store(url, rule.distance, rule=rule.name, seed=SEED)
        for (name, rule), url in zip(RULES.items(), urls, strict=True)
    }
    numbers = {name: Numbers() for name in RULES}
    try:
        pages = list_pages(SHIPPED[part])
        for start in range(0, len(pages), GROUP):
            read = [(page, page.read()) for page in pages[start : start + GROUP]]
            yield from (f"{page.id}: {made}" for page, made in read if isinstance(made, str))
            judged = [(page, made) for page, made in read if not isinstance(made, str)]
            for name, rule in RULES.items():
                documents = []
                for page, made in judged:
                    identity = sha256(page.id.encode()).digest()[:20]
                    fetched = Fetched(page.url, identity=identity, time=float(start))
                    documents.append(make_document(made, rule, fetched))
                decide = Judge.decide  # with the match, or else the nearest
                with patch.object(Judge, "decide", autospec=True, side_effect=decide) as watched:
                    decisions = stores[name].find_and_add(documents)
                calls = watched.call_args_list
                found = [next(filter(None, call.args[2:]), None) for call in calls]
                for (page, _), said, match in zip(judged, decisions, found, strict=True):
                    yield f"{page.id}, {name}: {numbers[name].show(said, match)}"
    finally:
        for store in stores.values():
            store.close()


def compare_part(part: str, urls: Sequence[str]) -> str:
    """Judge the pages of a part; returns the first difference for people, "" for none."""
    with lzma.open(HERE / f"{part}.txt.xz", "rt", encoding="utf-8") as file:
        expected = file.read().splitlines()
    before: list[str] = []
    for count, (old, new) in enumerate(zip_longest(expected, judge_part(part, urls)), 1):
        if old != new:
            lines = [f"line {count}, after", *(f"    {line}" for line in before)]
            return "\n".join([*lines, f"  expected: {old}", f"  found:    {new}"])
        before = [*before[1 - LINES_BEFORE :], new]
    return ""


def main() -> int:
    """Make or compare."""
    parser = argparse.ArgumentParser(
        "python -m tests.golden", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("action", choices=("make", "compare"))
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(SHIPPED))
    options = parser.parse_args()
    different = False
    for part in options.parts or SHIPPED:
        with TemporaryDirectory() as folder:
            urls = [f"{folder}/{rule}" for rule in RULES]
            if options.action == "make":
                lines = [f"{line}\n" for line in judge_part(part, urls)]
                with lzma.open(HERE / f"{part}.txt.xz", "wt", preset=9, encoding="utf-8") as file:
                    file.writelines(lines)
                print(f"{part}: {len(lines):,} lines")
            else:
                difference = compare_part(part, urls)
                print(f"{part}: {difference or 'same'}", flush=True)
                different = different or bool(difference)
    return int(different)


if __name__ == "__main__":
    sys.exit(main())
