"""Walls in the report: from the log, or from a store without one."""

from pathlib import Path

import pytest

from tests.helpers.documents import CRAWL, document, open_in_crawl
from tests.helpers.reporting import make_decision, make_drop, report, write_log

WALL = "http://site.example/page/0"


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


def test_without_walls_it_does_not_mention_any(tmp_path: Path) -> None:
    lines = [make_decision(0), make_drop(1)]
    figures = report(tmp_path, log_path=str(write_log(tmp_path / "log.jsonl", lines)))
    assert (figures["walls"], figures["wall_pages"]) == (0, 0)
    assert "a wall" not in (tmp_path / "report.html").read_text("utf-8")


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
