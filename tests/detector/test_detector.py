"""The detector: one page in, one decision out, whatever the page or the store does."""

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from scrapy_simhash.pages.fingerprint import fingerprint_page
from scrapy_simhash.pages.recipe import Recipe
from scrapy_simhash.simhash import hamming_distance
from tests.helpers.crawling import read_lines
from tests.helpers.detecting import EXTRACTOR, fetched, judge, running
from tests.helpers.pages import edit_words, make_page, make_words, page


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.mark.parametrize(
    ("distance", "confirm", "status"),
    [
        (0, None, "near_duplicate"),
        (3, None, "near_duplicate"),
        (4, None, "new"),
        (7, 0.0, "near_duplicate"),  # every similarity confirms
    ],
)
async def test_distance_decides(
    store: Path, distance: int, confirm: float | None, status: str, store_seed: int
) -> None:
    recipe = Recipe(EXTRACTOR)
    words = make_words(1)
    original = fingerprint_page(make_page(words), "utf-8", recipe, store_seed).facts.fingerprint

    def bits(html: str) -> int:
        made = fingerprint_page(html, "utf-8", recipe, store_seed)
        return hamming_distance(original, made.facts.fingerprint)

    edited = (make_page(edit_words(words, 1 + number % 12, number)) for number in range(500))
    html = make_page(words) if distance == 0 else next(e for e in edited if bits(e) == distance)
    async with running(store, confirm=confirm) as detector:
        await judge(detector, fetched("one", make_page(words)))
        # Two pages of one host would be compared by their names, too.
        two = replace(fetched("two", html), url="http://elsewhere.example/two")
        decision = await detector.judge(two)
    assert decision.status == status
    assert decision.distance == (None if status == "new" else distance)


async def test_pages_expire(store: Path) -> None:
    html, day = make_page(make_words(1)), 86_400.0
    pages = [fetched(name, html, time=days * day) for name, days in (("a", 1), ("b", 2), ("c", 4))]
    async with running(store, expire_days=1.5) as detector:
        assert await judge(detector, *pages) == ["new", "near_duplicate", "new"]


@pytest.mark.usefixtures("warm_worker")
async def test_loop_goes_on_while_pages_are_extracted(store: Path) -> None:
    async with running(store, workers=1, extractor="tests.helpers.hostile.slower") as detector:
        judging = asyncio.ensure_future(detector.judge(fetched("one", page(1))))
        turns = 0
        while not judging.done():
            await asyncio.sleep(0.005)
            turns += 1
        decision = await judging
    assert decision.status == "new"
    assert decision.extract_ms is not None
    assert decision.extract_ms > 1_400
    assert turns > 10


async def test_a_crawl_that_was_cut_off_before_its_first_page_is_none(store: Path) -> None:
    """Its line alone would hide the last crawl that judged pages."""
    async with running(store) as detector:
        detector.note_limits("until shutdown")
    assert not read_lines(store / "log.jsonl")


@pytest.mark.parametrize("at", ["Walls.is_shown", "Doubts.add"])
async def test_a_fault_in_what_is_only_told_costs_no_decision(
    store: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, at: str
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError(at)

    monkeypatch.setattr(f"scrapy_simhash.detector.judge.{at}", fail)
    async with running(store) as detector:
        decision = await detector.judge(fetched("one", page(1)))
    assert decision.status == "new"
    assert decision.document
    assert "Not looked at for walls and doubts: 'http://site.example/one'" in caplog.text
