"""Titles as long as books, that run leftwards, or steer terminals: what a person sees of them."""

import logging
from pathlib import Path

import pytest

from tests.helpers.commanding import Run, assert_printable
from tests.helpers.crawling import crawl
from tests.helpers.pages import make_page, make_words
from tests.helpers.server import Answer, serve

LONG = 100_000
TITLES = (
    "a" * LONG,
    "word " * (LONG // 5),
    "\u05d0" * LONG,
    "\u202e\u0634\u0631\u0627\u0621 " * (LONG // 6),
    f"\x1b[2J\x07 &#13;&#10;&#8232; [red] {'word ' * 40}" * (LONG // 250),
)
# Of a line; addresses apart, a screen has room for it.
LONGEST = 1_000


async def test_titles_stay_short_wherever_they_are_shown(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, run: Run
) -> None:
    """Walls, copies and pages that are kept beside others, under each title."""
    caplog.set_level(logging.INFO, "scrapy_simhash")
    answers: dict[str, Answer | str | bytes] = {}
    for number, title in enumerate(TITLES):
        plain = make_page(make_words(number), title="TITLE").replace("Heading", "TITLE")
        for n in range(6):
            answers[f"/{number}/{'abcdef'[n]}"] = plain.replace("TITLE", title)
        answers[f"/{number}/other"] = plain.replace("TITLE", f"{title[::-1]} other")
    with serve(answers) as site:
        done = await crawl(tmp_path, site.urls())
        assert done.counted["dropped"] >= 5
        urls = [
            site.url(f"/{n}/{name}") for n in range(len(TITLES)) for name in ("a", "b", "other")
        ]
    assert any("Look at: " in message for message in caplog.messages)
    assert all(message.isprintable() and len(message) < LONGEST for message in caplog.messages)
    report = tmp_path / "report.html"
    commands: list[tuple[object, ...]] = [("explain", url) for url in urls]
    commands += [("log",), ("log", "--summary"), ("report", "-o", report)]
    for command in commands:
        shown = run(*command, "--store", tmp_path).out
        assert_printable(shown)
        assert max(map(len, shown.splitlines())) < LONGEST, command
        assert len(shown.splitlines()) <= 80, command
    assert (tmp_path / "log.jsonl").stat().st_size < 2_000 * len(answers)
    assert report.stat().st_size < 100_000
