"""The rules that the fuzzer checks: for its findings, for hostile pages, and that they can fail."""

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_simhash.pages.fingerprint import fingerprint_page
from scrapy_simhash.pages.recipe import Recipe
from tests.fuzz import target
from tests.helpers.handmade import article, page
from tests.helpers.hostilepages import HOSTILE

FINDINGS = sorted((Path(target.__file__).parent / "findings").glob("*"))
ARTICLE = f"text/html; charset=utf-8\n{page(article())}".encode()
# Slow even when they are small.
QUICK = {name: hostile for name, hostile in HOSTILE.items() if not name.startswith("colspan")}


@pytest.mark.parametrize("path", FINDINGS, ids=lambda path: path.name)
def test_findings_stay_mended(path: Path) -> None:
    target.check_page(path.read_bytes())


@pytest.mark.parametrize("name", QUICK)
def test_beginnings_of_hostile_pages(name: str) -> None:
    hostile = QUICK[name]
    target.check_page(hostile.content_type.encode() + b"\n" + hostile.make()[:1_000])


@given(st.binary(max_size=200), st.integers(0, len(ARTICLE)))
def test_article_with_anything_in_it(given: bytes, place: int) -> None:
    target.check_page(ARTICLE[:place] + given + ARTICLE[place:])


@pytest.mark.parametrize(
    "spoil",
    [
        lambda made: replace(made, fingerprint=2**64),
        lambda made: replace(made, whole_fingerprint=-1),
        lambda made: replace(made, sketch=made.sketch[1:]),
        lambda made: replace(made, features=made.words + 1),
        lambda made: replace(made, title="two\nlines"),
        lambda made: replace(made, language="x" * 36),
        lambda made: replace(made, heading="\ud800"),
        lambda made: replace(made, text=" "),
    ],
)
def test_rules_notice(spoil: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    target.check_page(ARTICLE)
    monkeypatch.setattr(target, "fingerprint_page", lambda *a: spoil(fingerprint_page(*a)))
    with pytest.raises((AssertionError, UnicodeError)):
        target.check_page(ARTICLE)


def test_rules_notice_what_is_not_deterministic(monkeypatch: pytest.MonkeyPatch) -> None:
    seeds = count()

    def fingerprint(body: bytes, encoding: str, recipe: Recipe, _: int, url: str) -> Any:
        return fingerprint_page(body, encoding, recipe, next(seeds), url)

    monkeypatch.setattr(target, "fingerprint_page", fingerprint)
    with pytest.raises(AssertionError, match="not deterministic"):
        target.check_page(ARTICLE)
