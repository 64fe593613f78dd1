"""The rules that the fuzzer checks: for its findings, for hostile pages, and that they can fail."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
