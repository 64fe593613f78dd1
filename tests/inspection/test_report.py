"""`scrapy simhash report`: what is counted, from what, what it says of it; and side by side."""

import json
import re
from base64 import b64encode
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from parsel import Selector

from scrapy_simhash.errors import PartlyFailedError
from scrapy_simhash.inspection.comparing import compare_side_by_side
from scrapy_simhash.judge.log import find_crawl
from tests.helpers.commanding import Run
from tests.helpers.reporting import (
    HOSTILE_URL,
    START,
    crawl_hostile_pages,
    make_decision,
    make_drop,
    report,
    write_log,
)

WALL = "http://site.example/page/0"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "store"
    crawl_hostile_pages(path)
    return path


def test_pages_are_counted(tmp_path: Path) -> None:
    """Of 40 pages, 30 of them near-duplicates in two groups, and damage."""
    log = write_log(
        tmp_path / "log.jsonl",
        [
            *(make_decision(number) for number in range(9)),
            make_decision(9, status="not_judged", reason="empty"),
            *(make_drop(number, url=f"http://m.example/page/{number}") for number in range(10, 30)),
            *(make_drop(number, original=1, action="flag") for number in range(30, 38)),
            *(make_drop(number, original=1, crawl="crawl-2") for number in range(38, 40)),
            *(make_decision(n, status="forgotten", reason="failed") for n in (1, 2)),
            *("{", '"text"', json.dumps(make_drop(40, distance=-1))),
            json.dumps(make_drop(41, similarity="much")),
            json.dumps(make_drop(42, time=float("nan"))),
            *(json.dumps({"url": "http://site.example/"}), "[" * 100_000),
        ],
    )
    with log.open("a", encoding="ascii") as file:
        file.write('{"url": "http://site.example/half')
    figures = report(tmp_path, log_path=str(log))
    assert (figures["pages"], figures["judged"], figures["not_judged"]) == (40, 39, 1)
    assert figures["near_duplicates"] == 30
    assert (figures["dropped"], figures["dropped_bytes"]) == (22, 22_000)
    said = (
        "Judged 39 pages: 9 new, 30 near-duplicates (77 %): 22 dropped with 44 links, 8 flagged, "
        "with 16 links that drop would not follow. 2 did not come through: no page is dropped for "
        "these."
    )
    assert figures["said"]["hosts"] == said
    assert [crawl["pages"] for crawl in figures["crawls"]] == [38, 2]
    assert (figures["first_time"], figures["last_time"]) == (START, START + 390)
    # The last line is cut, and not damaged.
    assert figures["damaged_lines"] == 7
    assert any("7 lines" in note for note in figures["missing"])


def test_what_would_be_dropped_is_drawn_at_random_and_weighed(tmp_path: Path) -> None:
    """What a person reads before `flag` becomes `drop`."""
    test = "left out: 12 words of the site's template"
    drops = [make_drop(n, action="flag", tests=["", "why", test], links=2) for n in range(1, 41)]
    drawn = []
    for _ in range(2):
        figures = report(tmp_path, lines=[make_decision(0), *drops])
        assert (figures["drawn"], figures["dropped"]) == (30, 0)
        assert figures["said"]["hosts"] == (
            "Judged 41 pages: 1 new, 40 near-duplicates (98 %) flagged, with 80 links that drop "
            "would not follow."
        )
        html = (tmp_path / "report.html").read_text("utf-8")
        assert html.count("left out: 12 words of the site") >= 30
        section = html.partition('<section id="drawn">')[2].partition("</section>")[0]
        drawn.append({url for n in range(1, 41) if (url := f"page/{n}</bdi>") in section})
        assert len(drawn[-1]) == 30
    assert drawn[0] != drawn[1]


def test_a_log_of_many_hosts_long_words_and_other_versions(tmp_path: Path) -> None:
    hosts = [make_decision(n, url=f"http://h{n}.example/") for n in range(10_000)]
    odd: dict[str, Any] = {"own_words": ["\x1b" * 100_000], "match_url": "http://\udcff/"}
    long = [
        make_drop(n, url=f"http://h{n}.example/\u202e{'x' * 100_000}", **odd) for n in range(20)
    ]
    other = make_decision(1, status="unjudged", crawl="forged\n2026")
    figures = report(tmp_path, lines=[*hosts, *long, other, "{}", "[]", '{"url": 1}'])
    assert (figures["judged"], figures["not_judged"], figures["damaged_lines"]) == (10_020, 1, 3)
    assert (len(figures["hosts"]), figures["other_hosts"]) == (20, 9_980)
    assert figures["file_bytes"] < 100_000
    html = (tmp_path / "report.html").read_text("utf-8")
    assert "\u202e" not in html
    assert "\x1b" not in html


def test_the_last_crawl_is_no_import(tmp_path: Path) -> None:
    imported = [make_decision(n, crawl="import-1") for n in range(2)]
    lines = [make_decision(0), *imported, make_drop(1)]
    (crawl,) = report(tmp_path, lines=lines, crawl="last")["crawls"]
    assert (crawl["crawl"], crawl["pages"]) == ("crawl-1", 2)
    log_path = write_log(tmp_path / "log.jsonl", lines)
    assert find_crawl(log_path, "last") == "crawl-1"
    with pytest.raises(PartlyFailedError, match="no page of a crawl yet"):
        report(tmp_path, lines=imported, crawl="last")


def test_log_and_store(store: Path, tmp_path: Path) -> None:
    figures = report(tmp_path, store)
    assert (figures["pages"], figures["near_duplicates"], figures["missing"]) == (10, 7, [])
    html = (tmp_path / "report.html").read_text("utf-8")
    assert html.count("<summary>Side by side") == figures["drops"] == 6  # of a page three
    assert re.search("<mark>changed7x", html)
    assert "Judged pages, kept and dropped" not in html  # of a crawl of a second


# What would run, or be fetched.
LIVELY = "script, img, iframe, object, embed, form, link, base, svg, video, [src], [style]"


def test_hostile_pages_stay_text(store: Path, tmp_path: Path) -> None:
    lines = [
        make_decision(0),
        *(make_drop(n) for n in range(1, 9)),
        make_drop(300, url="javascript:window.hacked=1//", match_url="data:text/html,<b>"),
        make_drop(301, url=f"http://site.example/{'long' * 500}"),
        make_drop(302, url=HOSTILE_URL, match_url=None, similarity=None, distance=None),
    ]
    report(tmp_path, store)
    html = (tmp_path / "report.html").read_text("utf-8")
    assert r"\u202e" in html
    report(tmp_path, lines=lines)
    for each in (html, (tmp_path / "report.html").read_text("utf-8")):
        assert "\u202e" not in each
        page = Selector(each)
        assert page.css(LIVELY).getall() == []
        attributes = {name for element in page.css("*") for name in element.attrib}
        assert not any(name.startswith("on") for name in attributes)
        links = page.css("a")
        assert len(links) >= 5
        assert all(re.match(r"https?://|#", link.attrib["href"]) for link in links)
        outside = page.css("a:not([href^='#'])")
        assert {link.attrib["rel"] for link in outside} == {"noreferrer noopener"}
        # What gets in all the same is stopped, and the looks are not.
        style = sha256(page.css("style::text").getall()[0].encode()).digest()
        (policy,) = page.css("meta[http-equiv]::attr(content)").getall()
        assert policy.startswith(
            f"default-src 'none'; style-src 'sha256-{b64encode(style).decode()}'; "
        )


def test_file_that_is_there_is_kept(run: Run, store: Path) -> None:
    Path("report.html").write_text("mine")
    done = run("report", "--store", store)
    assert done.exit_code == 2
    assert "--overwrite" in done.err
    assert Path("report.html").read_text() == "mine"
    said = run.text("report", "--store", store, "--overwrite")
    assert "\nJudged 10 pages: 3 new, 7 near-duplicates (70 %) dropped with " in said
    # One that this command wrote is replaced.
    answer = run.answer("report", "--store", store)
    assert answer["file"] == "report.html"
    assert answer["file_bytes"] == Path("report.html").stat().st_size
    assert {"hosts", "doubtful"} <= set(answer)


def test_a_page_of_several_crawls_is_shown_once(tmp_path: Path) -> None:
    once = [make_decision(0), *(make_drop(n, distance=7) for n in range(1, 4))]
    once.append(make_drop(4, original=1, distance=0, similarity=1.0))
    lines = [{**each, "crawl": f"crawl-{n}"} for n in (1, 2, 3) for each in once]
    figures = report(tmp_path, lines=lines)
    assert figures["near_duplicates"] == 12
    assert figures["drops"] == 4
    last = report(tmp_path, lines=[*lines, make_decision(9, crawl="crawl-2")], crawl="last")
    assert [crawl["crawl"] for crawl in last["crawls"]] == ["crawl-3"]
    assert (last["pages"], last["near_duplicates"]) == (5, 4)


def test_links_that_only_dropped_pages_had_stand_by_page(tmp_path: Path) -> None:
    links = [
        make_decision(n, status="not_followed", match_url="http://site.example/page/1", links=3_681)
        for n in range(7, 10)
    ]
    lines = [make_decision(0), make_drop(1), *links]
    figures = report(tmp_path, lines=lines)
    assert (figures["pages"], figures["links_listed"]) == (2, 3)
    said = "Not followed: 3,681 links that only dropped pages had."
    assert figures["said"]["links"] == said
    (found,) = figures["not_followed"]
    assert (found["url"], found["pages"]) == ("http://site.example/page/1", 3)
    assert found["examples"] == [link["url"] for link in links]
    html = (tmp_path / "report.html").read_text("utf-8")
    assert "3,681 links that only dropped pages had" in html


texts = st.lists(st.sampled_from(["One cat.", "Two dogs.", "A bird", "a, b!", "三只猫。"])).map(
    "\n".join
)


def read_side(rows: list[dict[str, Any]], side: str) -> str:
    """Put together again what the rows say of a text."""
    return " ".join(
        row["same"] if "same" in row else "".join(row[side])
        for row in rows
        if "same" in row or "".join(row.get(side, ()))
    )


@given(texts, texts)
def test_rows_say_all_of_both_texts(first: str, second: str) -> None:
    rows = compare_side_by_side(first, second)
    if not any("skipped" in row for row in rows):
        assert read_side(rows, "first").split() == first.split()
        assert read_side(rows, "second").split() == second.split()


def test_what_both_have_is_skipped_but_beside_changes() -> None:
    middle = "".join(f"Sentence {number} stays. " for number in range(9))
    rows = compare_side_by_side(f"Old start. {middle} Old end.", f"New start. {middle} New end.")
    assert [next(iter(row)) for row in rows] == ["first", "same", "skipped", "same", "first"]
    assert rows[2] == {"skipped": 7}


@pytest.mark.parametrize(
    ("sentence", "count"),
    [
        *(("Word{side}{n} and more.", 1_500), ("{side}" * 20_000, 1)),
        *(("\u4e2d{side}{n}\u6587。", 1_500), ("\U00020000{side}" * 10_000, 1)),
    ],
)
def test_long_texts_are_cut_and_say_so(sentence: str, count: int) -> None:
    both = ["\n".join(sentence.format(side=side, n=n) for n in range(count)) for side in "ab"]
    rows = compare_side_by_side(*both)
    sides = [side for row in rows for side in row.values() if isinstance(side, list)]
    assert 0 < sum(len(piece.encode()) for side in sides for piece in side) <= 12_000
    assert rows[-1]["left_out"] > 0


def test_controls_are_escaped_and_joiners_kept() -> None:
    hostile = "a\x1b[2Jb \u202egpj\u2028c\x00 \u0645\u06cc\u200c\u062e"
    (row,) = compare_side_by_side(hostile, "")
    written = "".join(row["first"])
    assert written == r"a\x1b[2Jb \u202egpj c\x00 " + "\u0645\u06cc\u200c\u062e"
