"""The end of a crawl: each line there only if it has something to say, in at most five lines."""

import itertools
import logging
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from scrapy_simhash.crawl import summary
from tests.helpers.commanding import Run
from tests.helpers.crawling import FollowingSpider, PagesSpider, crawl, crawl_pages
from tests.helpers.pages import make_page, make_words, page
from tests.helpers.reporting import report
from tests.helpers.server import Answer, Site, serve

HEADS = re.compile(r"(Judged|Not judged|Not followed|Look at|Kept)\b.*: ")
DETAILS = " Details: scrapy simhash report"
ANSWERS = {
    "/one": page(1, links=["/two", "/three"]),
    "/two": page(2),
    "/three": page(1, menu="Other", links=["/two", "/three"]),
    "/four": page(1, menu="Another", links=["/two"]),
}


class End:
    """What crawls said at their ends; `warnings` are those of the lines that were read last."""

    warnings: list[str]

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.INFO, "scrapy_simhash")
        self._log = caplog

    def read(self) -> list[str]:
        """Take the lines; each is short, but for names of files."""
        said = [each for each in self._log.records if HEADS.match(each.getMessage())]
        self._log.clear()
        self.warnings = [each.getMessage() for each in said if each.levelno >= logging.WARNING]
        lines = [each.getMessage() for each in said]
        assert len(lines) <= 5
        assert all(len(re.sub(r"http\S+|--store .*", "", line)) <= 180 for line in lines)
        return lines


@pytest.fixture
def end(caplog: pytest.LogCaptureFixture) -> End:
    return End(caplog)


def assert_report_agrees(store: Path, *said: str) -> None:
    """Check that a report says the same as the end of its crawl, whose details it is."""
    assert [*report(store, store)["said"].values()] == [each.removesuffix(DETAILS) for each in said]


@pytest.mark.parametrize(
    ("paths", "given", "said"),
    [
        (["/one"], {}, "Judged 1 page: 1 new."),
        (
            ["/one", "/three", "/two", "/four"],
            {},
            "Judged 4 pages: 2 new, 2 near-duplicates (50 %) dropped with 3 links.",
        ),
        (
            ["/one", "/three"],
            {"SIMHASH_ACTION": "flag"},
            (
                "Judged 2 pages: 1 new, 1 near-duplicate (50 %) flagged, with 2 links that drop "
                "would not follow."
            ),
        ),
        (
            ["/one"],
            {"SIMHASH_ACTION": "ignore-outlinks", "spider": FollowingSpider},
            "Judged 3 pages: 2 new, 1 near-duplicate (33 %) kept without their 2 links.",
        ),
    ],
)
async def test_a_healthy_crawl_says_what_it_did_and_where_to_look(
    site: Site, tmp_path: Path, end: End, paths: list[str], given: dict[str, Any], said: str
) -> None:
    await crawl(tmp_path, site.urls(*paths), **given)
    assert end.read() == [said + DETAILS]
    assert_report_agrees(tmp_path, said)


async def test_a_crawl_of_known_pages_says_so(site: Site, tmp_path: Path, end: End) -> None:
    await crawl(tmp_path, site.urls("/one", "/two"))
    end.read()
    await crawl(tmp_path, site.urls("/three", "/four", "/two"))
    (said,) = end.read()
    assert said == (
        "Judged 3 pages: 0 new, 1 fetched again, 2 near-duplicates (67 %): 1 dropped with 1 link, "
        f"1 kept, because this crawl had not got what they repeat.{DETAILS}"
    )


async def test_commands_find_a_store_that_only_the_spider_names(
    site: Site, tmp_path: Path, end: End, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    class ShopSpider(PagesSpider):
        custom_settings = {"SIMHASH_STORE": str(tmp_path / "of a shop")}  # noqa: RUF012

    await crawl(tmp_path / "none", site.urls("/one", "/three"), ShopSpider)
    (details,) = end.read()
    monkeypatch.chdir(tmp_path)
    command, *arguments = shlex.split(details.partition("scrapy simhash ")[2])
    assert (command, arguments) == ("report", ["--store", str(tmp_path / "of a shop")])
    assert "Judged 2 pages: 1 new" in run.text(command, *arguments)


@pytest.mark.parametrize(
    ("pages", "said", "warns"),
    [
        (([200], 0), "Not judged: 1 page (1 no text); it came through, even if a copy.", True),
        (([200] * 2, 9), "Not judged: 2 pages (2 no text); all came through, even copies.", True),
        *((([200], 9), "", False), (([404, 410], 1), "", False)),
        (([500, 500, 404], 1), "", False),
    ],
)
async def test_bad_pages_are_told_if_they_are_many(
    tmp_path: Path, end: End, monkeypatch: pytest.MonkeyPatch, pages: Any, said: str, warns: bool
) -> None:
    """Empty ones, of which no option or kind of response exempts; Scrapy says what did not come."""
    monkeypatch.setattr(summary, "_MANY", 0.1)
    bad, good = pages
    empty = b"<html><body></body></html>"
    answers = {f"/bad{n}": Answer(empty, status) for n, status in enumerate(bad)}
    answers |= {f"/good{n}": Answer(page(n).encode()) for n in range(good)}
    answers["/picture"] = Answer(b"\x89PNG", content_type="image/png")
    await crawl_pages(tmp_path, answers, RETRY_ENABLED=False, CONCURRENT_REQUESTS=16)
    told = [line for line in end.read() if not line.startswith("Judged ")]
    assert (told, end.warnings) == ([said] * bool(said), [said] * warns)


async def test_a_release_with_another_number_is_named_and_no_warning(
    tmp_path: Path, end: End, run: Run
) -> None:
    """It says little else, so that it goes; what lies in the number nobody but its reader knows."""

    def manual(release: str, seconds: int) -> dict[str, str]:
        pages = {
            n: [*make_words(n), "waits", "for", str(seconds * (n < 2)), "seconds"] for n in range(8)
        }
        return {f"/{release}/{n}.html": make_page(words) for n, words in pages.items()}

    done = await crawl_pages(tmp_path, manual("111.0", 11) | manual("112.0", 12))
    first = f"{done.root}/112.0/0.html"
    said = f"Look at: 2 near-duplicates with another number in the main text, such as {first!r}."
    lines = end.read()
    assert (lines[1:], end.warnings) == ([said], [])
    assert_report_agrees(tmp_path, *lines)
    tests = run.answer("explain", first, "--store", tmp_path)["tests"]
    assert "another number: 'for 12 seconds' / 'for 11 seconds'" in tests


async def test_kept_pages_that_look_like_another_one_are_named(
    tmp_path: Path, end: End, run: Run
) -> None:
    """A counter in a cell of its own, which may be what a record says; other records are none."""
    answers = {}
    for visit, n in itertools.product(range(3), range(8)):
        html = make_page(make_words(n, 200), title=" ".join(make_words(50 + n, 3)))
        cell = f"<table><tr><td id=stock>{100 + 10 * visit + n}</td></tr></table>"
        answers[f"/{n}-{'abc'[visit]}"] = html.replace("</h1>", f"</h1>{cell}")
    with serve(answers) as site:
        done = await crawl(tmp_path, site.urls())
        assert (done.counted["new"], done.counted["look_alikes"]) == (24, 16)
        assert [bool(each["parted_by"]) for each in done.decisions] == [False] * 8 + [True] * 16
        first, like = site.url("/0-b"), site.url("/0-a")
        said = (
            "16 pages that look like another one; first to differ: '110' (16); SIMHASH_IGNORE "
            f"leaves out what changes at every fetch: scrapy simhash explain {first!r}."
        )
        assert end.read() == ["Judged 24 pages: 24 new." + DETAILS, f"Kept: {said}"]
        told = report(tmp_path, tmp_path)
        assert told["said"]["look-alikes"] == f"Kept: {said}"
        why = "not taken for what changes by itself: that page was asked for once more, which did "
        why += "not explain it"
        parted = {"pages": 16, "words": "110", "url": first, "like": like, "why": why}
        assert told["parted_by"] == [parted]
        written = (tmp_path / "report.html").read_text("utf-8")
        assert '<q dir="auto">110</q> and the like' in written
        assert why in written
        answer = run.answer("explain", first, "--store", tmp_path)
        assert answer["verdict"].startswith(f"Kept beside {like}, which is most like it: ")
        assert answer["tests"][-1] == why
        ignoring = await crawl(tmp_path / "ignoring", site.urls(), SIMHASH_IGNORE="#stock")
    assert ignoring.counted["near_duplicate"] == 16
    assert "look-alikes" not in report(tmp_path / "ignoring", tmp_path / "ignoring")["said"]


@pytest.mark.parametrize("settings", [{"CLOSESPIDER_PAGECOUNT": 20}, {"DEPTH_LIMIT": 2}])
async def test_a_session_that_eats_a_crawl_is_named(
    tmp_path: Path, end: End, run: Run, settings: dict[str, int]
) -> None:
    """Each page leads to all others, by the addresses of another session."""
    sessions = [f"{n}f{n}00d1a" for n in range(10, 30)]
    answers = {"/": make_page(make_words(50), links=[f"/0?sid={each}" for each in sessions])}
    for n in range(3):
        for place, each in enumerate(sessions):
            links = [f"/{(n + 1) % 3}?sid={sessions[(place + k) % 20]}" for k in range(3)]
            answers[f"/{n}?sid={each}"] = page(n, links=links)
    given: dict[str, Any] = settings
    done = await crawl_pages(tmp_path, answers, ["/"], FollowingSpider, **given)
    pages, dropped = done.counted["pages"], done.counted["near_duplicate"]
    summed_up, *others = end.read()
    assert summed_up.startswith(f"Judged {pages} pages: {pages - dropped} new, ")
    said = f"{dropped} near-duplicates that differ in a parameter only: 'sid' (scrapy simhash urls)"
    assert any(said in line for line in others)
    assert "drop-parameter sid\n" in run("urls", "--store", tmp_path).out
    told = run.answer("report", "--store", tmp_path)["said"]
    assert "'sid' (scrapy simhash urls)" in told["drops"]


async def test_a_person_who_watches_sees_three_drops(
    site: Site, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "scrapy_simhash")
    copies = [f"/copy{n}" for n in range(5)]
    site.answers |= dict.fromkeys(copies, Answer(page(1).encode()))
    done = await crawl(tmp_path, site.urls("/one", *copies))
    assert done.counted["dropped"] == 5
    told = [text for text in caplog.messages if text.startswith("Dropped ")]
    of_one = f", a near-duplicate of {site.url('/one')!r}"
    assert told == [f"Dropped {site.url(path)!r}{of_one}" for path in copies[:3]]
