"""`scrapy simhash report`: what is counted, from what, and what the file says of it."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.commanding import Run
from tests.helpers.crawling import crawl
from tests.helpers.pages import page
from tests.helpers.reporting import (
    START,
    crawl_hostile_pages,
    make_decision,
    make_drop,
    make_large_log,
    report,
    summarise,
    write_log,
)
from tests.helpers.server import serve


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "store"
    asyncio.run(crawl_hostile_pages(path))
    return path


@pytest.fixture(scope="module")
def figures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Of a log with 40 pages, 30 of them near-duplicates in two groups, and damage."""
    folder = tmp_path_factory.mktemp("figures")
    log = write_log(
        folder / "log.jsonl",
        [
            *(make_decision(number) for number in range(9)),
            make_decision(9, status="not_judged", reason="empty"),
            *(make_drop(number, url=f"http://m.example/page/{number}") for number in range(10, 30)),
            *(make_drop(number, original=1, action="flag") for number in range(30, 38)),
            *(make_drop(number, original=1, crawl="crawl-2") for number in range(38, 40)),
            "{",
            '"text"',
            json.dumps(make_drop(40, distance=-1)),
            json.dumps(make_drop(41, similarity="much")),
            json.dumps(make_drop(42, time=float("nan"))),
            json.dumps({"url": "http://site.example/"}),
            "[" * 100_000,
        ],
    )
    with log.open("a", encoding="ascii") as file:
        file.write('{"url": "http://site.example/half')
    return report(folder, log_path=str(log))


def test_pages_are_counted(figures: dict[str, Any]) -> None:
    assert (figures["pages"], figures["judged"], figures["not_judged"]) == (40, 39, 1)
    assert (figures["near_duplicates"], figures["near_duplicates_kept"]) == (30, 8)
    assert (figures["dropped"], figures["kept"]) == (22, 17)
    assert figures["dropped_bytes"] == 22_000
    assert figures["links_not_followed"] == 44
    assert figures["statuses"] == {"near_duplicate": 30, "new": 9, "not_judged (empty)": 1}
    assert figures["crawls"] == {"crawl-1": 38, "crawl-2": 2}
    assert (figures["first_time"], figures["last_time"]) == (START, START + 390)
    # The last line is cut, and not damaged.
    assert figures["damaged_lines"] == 7
    assert any("7 lines" in note for note in figures["missing"])
    steps = figures["over_time"]
    assert len(steps) == 48
    for name, count in (("kept", 17), ("dropped", 22), ("dropped_bytes", 22_000)):
        assert sum(step[name] for step in steps) == count


def test_groups_with_their_pages(figures: dict[str, Any]) -> None:
    first, second = figures["groups"]
    assert first["url"] == "http://site.example/page/0"
    assert (first["near_duplicates"], second["near_duplicates"]) == (20, 10)
    assert len(first["pages"]) == 20
    assert [page["distance"] for page in first["pages"]] == sorted(n % 8 for n in range(10, 30))


def test_suspicious_groups_stand_first(figures: dict[str, Any]) -> None:
    large, edge = figures["suspicious"]
    assert large["kinds"] == ["most repeated"]
    assert edge["kinds"] == ["least alike"]
    # Within two standard errors of 0.9: up to .93.
    assert edge["near_duplicates"] == sum(n % 20 < 14 for n in range(10, 40))
    alike = [page["similarity"] for page in edge["pages"]]
    assert alike == sorted(alike)


@pytest.mark.parametrize(
    ("decided", "similarity", "within", "is_shown"),
    [
        ("content agrees", 0.99, 0.99, False),
        ("content agrees", 0.99, 0.91, True),
        ("content agrees", 0.51, 1.0, True),
        ("so long a content agrees whatever its names", 0.5, 0.99, True),
        ("main texts are alike", 0.99, 0.7, False),
        ("main texts are alike", 0.91, 1.0, True),
        ("main texts are alike", 0.92, 0.7, True),
    ],
)
def test_drops_of_texts_that_are_less_alike_or_hardly_enough_are_shown(
    tmp_path: Path, decided: str, similarity: float, within: float, is_shown: bool
) -> None:
    """Whatever decided: what stands before and behind the common part may be all that matters."""
    tests = ["distance 7 bits", decided, "titles: same; headings: same"]
    evidence = {"deciding": "texts and names", "distance": 7, "within": 7, "agreed_within": within}
    drop = make_drop(2, distance=7, similarity=similarity, tests=tests, evidence=evidence)
    figures = report(tmp_path, lines=[make_decision(1), drop])
    kinds = [kind for each in figures["suspicious"] for kind in each["kinds"]]
    assert ("least alike" in kinds) == is_shown


@pytest.mark.parametrize(
    ("fields", "judged"), [({}, 1), ({"status": "not_judged", "reason": "empty"}, 0)]
)
def test_a_log_without_near_duplicates(tmp_path: Path, fields: dict[str, str], judged: int) -> None:
    figures = report(tmp_path, lines=[make_decision(1, **fields)])
    assert (figures["judged"], figures["near_duplicates"]) == (judged, 0)
    assert len(figures["over_time"]) == 48 * judged
    written = (tmp_path / "report.html").read_text("utf-8")
    assert f"None of {judged} pages judged was" in written


def test_log_and_store(store: Path, tmp_path: Path) -> None:
    figures = report(tmp_path, store)
    assert (figures["pages"], figures["near_duplicates"]) == (10, 7)
    assert figures["missing"] == []
    kinds = {group["title"]: (*group["kinds"],) for group in figures["suspicious"]}
    # Only addresses tell what a page is, never its title.
    assert kinds.get("Page not found") in {None, ("most repeated",)}
    # Which page of a group comes first is chance, and so is how many pairs are the same.
    assert figures["differences"] >= 2
    assert figures["fingerprints"]["fingerprints"] > 0
    html = (tmp_path / "report.html").read_text("utf-8")
    assert html.count('href="#pair-') >= 2
    assert re.search("<mark>changed7x", html)


def test_no_log(run: Run) -> None:
    done = run("report", "--store", "nowhere")
    assert (done.exit_code, done.out) == (2, "")
    assert "there is no decision log" in done.err
    assert not Path("report.html").exists()


def test_file_that_is_there_is_kept(run: Run, store: Path) -> None:
    Path("report.html").write_text("mine")
    done = run("report", "--store", store)
    assert done.exit_code == 2
    assert "--overwrite" in done.err
    assert Path("report.html").read_text() == "mine"
    done = run("report", "--store", store, "--overwrite")
    assert (done.exit_code, done.err) == (0, "")
    assert "7 of 10 pages judged were dropped" in done.out
    assert Path("report.html").read_text("utf-8").count("<svg") == 6
    (answer,) = run("report", "--store", store, "--overwrite", "--json").answers
    assert answer["file"] == "report.html"
    assert answer["file_bytes"] == Path("report.html").stat().st_size
    assert {"hosts", "groups", "suspicious", "over_time", "fingerprints"} <= set(answer)


def test_rows_that_have_no_room_are_left_out_least_alike_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = report(tmp_path, lines=make_large_log(600))["file_bytes"] - 4_000
    monkeypatch.setattr("scrapy_simhash.inspection.report._MOST_BYTES", most)
    figures = report(tmp_path, lines=make_large_log(600), overwrite=True)
    assert figures["file_bytes"] <= most
    html = (tmp_path / "report.html").read_text("utf-8")
    alike = [float(each) for each in re.findall('"alike">([^<]+)<', html)]
    assert 0 < figures["rows"] == len(alike) < 400
    assert alike == sorted(alike)
    assert alike[-1] < 0.99
    assert f"{len(alike)} of 400" in html


A = 0x0123_4567_89AB_CDEF
WALL = "http://site.example/page/0"
WALL_KINDS = ["wall", "most repeated"]


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
    assert figures["not_judged"] == 1


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
    figures = report(tmp_path, lines=lines)
    assert figures["near_duplicates"] == 12
    groups = {group["url"]: group["near_duplicates"] for group in figures["groups"]}
    (summary,) = summarise(lines)
    assert groups == summary["largest_groups"]
    assert sorted(groups.values()) == [1, 3]
    most, edge = figures["suspicious"]
    assert (most["kinds"], most["near_duplicates"]) == (["most repeated"], 3)
    assert (edge["near_duplicates"], len(edge["pages"])) == (3, 3)


def test_a_wall_stands_among_what_to_look_at_first(tmp_path: Path) -> None:
    drops = [make_drop(n, distance=0, similarity=1.0, sink=n > 4) for n in range(1, 9)]
    more = [make_drop(20 + n, original=9, distance=0, similarity=1.0) for n in range(3)]
    # The first page of the wall comes again.
    again = make_decision(0, status="revisit", reason="unchanged", sink=True)
    lines = [make_decision(0), *drops, make_decision(9), *more, again]
    figures = report(tmp_path, lines=lines)
    assert (figures["walls"], figures["wall_pages"]) == (1, 5)
    (group,) = figures["suspicious"]
    assert (group["kinds"], group["url"], group["near_duplicates"]) == (WALL_KINDS, WALL, 8)
    html = (tmp_path / "report.html").read_text("utf-8")
    assert '<span class="tag">wall</span>' in html
    assert "undo --original URL --dry-run" in html
    assert "<dt>showed a wall</dt><dd>5</dd>" in html


@pytest.mark.parametrize(("kept", "told"), [(1, True), (3, False)])
def test_a_crawl_that_dropped_nearly_all_says_so_on_top(
    tmp_path: Path, kept: int, told: bool
) -> None:
    lines = [
        *(make_decision(number) for number in range(kept)),
        *(make_drop(number) for number in range(kept, 12)),
        *(make_decision(number, crawl="crawl-2") for number in range(100, 120)),
    ]
    figures = report(tmp_path, lines=lines)
    said = [{"crawl": "crawl-1", "judged": 12, "dropped": 12 - kept}]
    assert figures["nearly_all_dropped"] == (said if told else [])
    html = (tmp_path / "report.html").read_text("utf-8")
    alert = html.find("Nearly all pages were dropped: 11 of the 12 that crawl crawl-1 judged")
    assert (0 < alert < html.find("Look here first</h2>")) == told


def test_dropped_pages_whose_links_are_mostly_new_are_shown(tmp_path: Path) -> None:
    """A wall's are not, nor those that were followed."""
    lines = [
        make_decision(0),
        make_drop(1, links=200, new_links=0.5),
        make_drop(2, links=40, new_links=0.95),
        make_drop(3, links=400, new_links=0.4),
        make_drop(4, links=400, new_links=1.0, action="follow"),
        make_drop(5, links=400, new_links=1.0, sink=True),
    ]
    figures = report(tmp_path, lines=lines)
    first = figures["suspicious"][0]
    assert (first["kinds"], first["near_duplicates"]) == (["new links"], 2)
    assert [page["url"] for page in first["pages"]] == [lines[1]["url"], lines[2]["url"]]
    assert "Most of their links are not on" in (tmp_path / "report.html").read_text("utf-8")
