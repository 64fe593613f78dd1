"""What a report counts as dropped, kept and judged: the same as the crawl's stats and `log`."""

import json
import re
from pathlib import Path

import pytest

from tests.helpers.crawling import crawl
from tests.helpers.documents import document, open_in_crawl
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


def tells_of_1970(path: Path) -> bool:
    """Say whether its header or a plot does; numbers of other kinds have these digits, too."""
    return re.search("1970-01|Jan 1970", path.read_text("utf-8")) is not None


def test_an_import_drops_nothing(tmp_path: Path) -> None:
    log = write_log(
        tmp_path / "log.jsonl", [make_decision(0), make_drop(1, action="", crawl="import-1")]
    )
    figures = report(tmp_path, log_path=str(log))
    assert (figures["near_duplicates"], figures["near_duplicates_kept"]) == (1, 1)
    assert (figures["kept"], figures["dropped"]) == (2, 0)
    assert (figures["dropped_bytes"], figures["links_not_followed"]) == (0, 0)


def test_a_store_without_a_log_tells_imports_from_crawls(tmp_path: Path) -> None:
    for crawl_id, bits in (("import-1", A), ("crawl-2", ~A % 2**64)):
        with open_in_crawl(tmp_path / "s", crawl_id) as store:
            made = [document(f"{crawl_id}-{n}", bits ^ n, crawl=crawl_id) for n in range(3)]
            store.find_and_add(made)
    figures = report(tmp_path, tmp_path / "s")
    assert figures["near_duplicates"] == 4
    assert (figures["dropped"], figures["near_duplicates_kept"]) == (2, 2)


def test_each_action_counts_what_it_saves(tmp_path: Path) -> None:
    actions = ("drop", "follow", "ignore-outlinks", "flag")
    drops = [
        make_drop(number, action=action, body_bytes=10**number, links=10**number)
        for number, action in enumerate(actions)
    ]
    log = write_log(tmp_path / "log.jsonl", [make_decision(0), *drops])
    figures = report(tmp_path, log_path=str(log))
    assert (figures["dropped"], figures["near_duplicates_kept"]) == (2, 2)
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


def test_nothing_was_judged(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.jsonl", [make_decision(0, status="unjudged", reason="empty")])
    figures = report(tmp_path, log_path=str(log))
    assert (figures["judged"], figures["unjudged"], figures["over_time"]) == (0, 1, [])


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


def test_lines_without_a_time_are_not_of_1970(tmp_path: Path) -> None:
    lines = [make_decision(0), make_drop(1), make_drop(2, time=0), make_decision(3)]
    del lines[3]["time"]
    log = write_log(tmp_path / "log.jsonl", lines)
    figures = report(tmp_path, log_path=str(log))
    assert (figures["judged"], figures["dropped"]) == (4, 2)
    assert (figures["first_time"], figures["last_time"]) == (START, START + 10)
    assert min(step["time"] for step in figures["over_time"]) == START
    assert read_data(tmp_path / "report.html")["table"]["time"] == [START + 10, None]
    assert not tells_of_1970(tmp_path / "report.html")


def test_no_line_has_a_time(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.jsonl", [make_decision(0, time=0), make_drop(1, time=0)])
    figures = report(tmp_path, log_path=str(log))
    assert (figures["first_time"], figures["over_time"]) == (None, [])
    assert not tells_of_1970(tmp_path / "report.html")
