"""What a report counts as dropped, kept and judged: the same as the crawl's stats and `log`."""

import json
import re
from pathlib import Path

import pytest

from tests.helpers.crawling import crawl
from tests.helpers.documents import CRAWL, document, open_in_crawl
from tests.helpers.pages import page
from tests.helpers.reporting import (
    START,
    make_decision,
    make_drop,
    read_data,
    report,
    summarise,
    write_log,
)
from tests.helpers.server import serve

A = 0x0123_4567_89AB_CDEF
WALL = "http://site.example/page/0"


def test_a_store_without_a_log_tells_imports_from_crawls(tmp_path: Path) -> None:
    for crawl_id, bits in (("import-1", A), ("crawl-2", ~A % 2**64)):
        with open_in_crawl(tmp_path / "s", crawl_id) as store:
            made = [document(f"{crawl_id}-{n}", bits ^ n, crawl=crawl_id) for n in range(3)]
            store.find_and_add(made)
    figures = report(tmp_path, tmp_path / "s")
    assert figures["near_duplicates"] == 4
    assert (figures["dropped"], figures["near_duplicates_kept"]) == (2, 2)


def test_each_action_counts_what_it_saves(tmp_path: Path) -> None:
    """An import has none, and drops nothing."""
    actions = ("drop", "follow", "ignore-outlinks", "flag", "")
    drops = [
        make_drop(number, action=action, body_bytes=10**number, links=10**number)
        for number, action in enumerate(actions)
    ]
    log = write_log(tmp_path / "log.jsonl", [make_decision(0), *drops])
    figures = report(tmp_path, log_path=str(log))
    assert (figures["dropped"], figures["near_duplicates_kept"], figures["kept"]) == (2, 3, 4)
    assert figures["dropped_bytes"] == 1
    assert figures["links_not_followed"] == 101


@pytest.mark.usefixtures("warm_worker")
@pytest.mark.parametrize("action", ["drop", "flag"])
async def test_it_agrees_with_the_stats_of_a_crawl(tmp_path: Path, action: str) -> None:
    answers = {"/a": page(1), "/b": page(1, menu="Other menu", links=["/x", "/y"]), "/c": page(2)}
    with serve(answers) as site:
        urls = [*site.urls(), site.url("/gone")]
        done = await crawl(tmp_path / "s", urls, SIMHASH_ACTION=action)
    figures = report(tmp_path, tmp_path / "s")
    counted = [
        done.counted.get(key, 0)
        for key in ("pages", "near_duplicate", "dropped", "bytes_dropped", "links_dropped")
    ]
    assert counted[:2] == [3, 1]
    assert counted == [
        figures[key]
        for key in ("judged", "near_duplicates", "dropped", "dropped_bytes", "links_not_followed")
    ]
    assert figures["unjudged"] == 1


def test_shares_are_of_the_pages_that_were_judged(tmp_path: Path) -> None:
    skipped = {"status": "unjudged", "reason": "skipped: status"}
    log = write_log(
        tmp_path / "log.jsonl",
        [
            make_decision(0),
            make_drop(1),
            make_drop(2, action="flag"),
            make_decision(3),
            *(make_decision(number, **skipped) for number in range(4, 10)),
        ],
    )
    figures = report(tmp_path, log_path=str(log))
    written = (tmp_path / "report.html").read_text("utf-8")
    assert "Of 4 pages judged 1 (25%) were dropped" in written
    for name, shown in (
        ("pages judged", "4"),
        ("kept", "3"),
        ("of these near-duplicates", "1"),
        ("of pages judged", "25.0 %"),
        ("not judged", "6"),
    ):
        assert f"<dt>{name}</dt><dd>{shown}</dd>" in written.replace(' class="text-dropped"', "")
    assert figures["hosts"][0]["judged"] == 4


def test_a_page_of_several_crawls_counts_once_in_its_group(tmp_path: Path) -> None:
    lines = [
        decision
        for crawl_id in ("crawl-1", "crawl-2", "crawl-3")
        for decision in (
            make_decision(0, crawl=crawl_id),
            *(make_drop(n, crawl=crawl_id, distance=7) for n in range(1, 4)),
            make_drop(4, original=1, crawl=crawl_id, distance=0, similarity=1.0),
        )
    ]
    log = write_log(tmp_path / "log.jsonl", lines)
    figures = report(tmp_path, log_path=str(log))
    assert figures["near_duplicates"] == 12
    groups = {group["url"]: group["near_duplicates"] for group in figures["groups"]}
    (summary,) = summarise(map(json.loads, log.read_text("ascii").splitlines()))
    assert groups == summary["largest_groups"]
    assert sorted(groups.values()) == [1, 3]
    (edge,) = figures["suspicious"]
    assert (edge["near_duplicates"], len(edge["pages"])) == (3, 3)


@pytest.mark.parametrize("timed", [2, 0])
def test_lines_without_a_time_are_not_of_1970(tmp_path: Path, timed: int) -> None:
    lines = [make_decision(0), make_drop(1), make_drop(2), make_decision(3)]
    for line in lines[timed:-1]:
        line["time"] = 0
    del lines[3]["time"]
    log = write_log(tmp_path / "log.jsonl", lines)
    figures = report(tmp_path, log_path=str(log))
    assert (figures["judged"], figures["dropped"]) == (4, 2)
    times = [START, START + 10] if timed else [None, None]
    assert [figures["first_time"], figures["last_time"]] == times
    assert min((step["time"] for step in figures["over_time"]), default=None) == times[0]
    assert read_data(tmp_path / "report.html")["table"]["time"] == [times[1], None]
    # Numbers of other kinds have these digits, too.
    written = (tmp_path / "report.html").read_text("utf-8")
    assert re.search("1970-01|Jan 1970", written) is None


def test_a_wall_stands_among_what_to_look_at_first(tmp_path: Path) -> None:
    drops = [make_drop(n, distance=0, similarity=1.0, sink=n > 4) for n in range(1, 9)]
    more = [make_drop(20 + n, original=9, distance=0, similarity=1.0) for n in range(3)]
    # The first page of the wall comes again.
    again = make_decision(0, status="revisit", reason="unchanged", sink=True)
    lines = [make_decision(0), *drops, make_decision(9), *more, again]
    figures = report(tmp_path, log_path=str(write_log(tmp_path / "log.jsonl", lines)))
    assert (figures["walls"], figures["wall_pages"]) == (1, 5)
    (group,) = figures["suspicious"]
    assert (group["kinds"], group["url"], group["near_duplicates"]) == (["wall"], WALL, 8)
    html = (tmp_path / "report.html").read_text("utf-8")
    assert '<span class="tag">wall</span>' in html
    assert "undo --sink" in html
    assert "<dt>showed a wall</dt><dd>5</dd>" in html


@pytest.mark.parametrize(("title", "kinds"), [("", ["wall"]), ("Log in", ["login", "wall"])])
def test_a_store_without_log_knows_its_walls(tmp_path: Path, title: str, kinds: list[str]) -> None:
    with open_in_crawl(tmp_path / "s") as store:
        for number in range(8):
            page = document(f"members/{number}", 0x1234_5678_9ABC, title=title)
            (verdict,) = store.find_and_add([page])
            store.mark_done([verdict.document], CRAWL)
    figures = report(tmp_path, tmp_path / "s")
    # Without a log nobody knows when a page was judged: all pages of the wall count.
    assert (figures["walls"], figures["wall_pages"]) == (1, 7)
    assert figures["suspicious"][0]["kinds"] == kinds
