"""`links`: lists the links that only dropped pages have, writes them, and forgets them."""

from pathlib import Path

import pytest

from scrapy_simhash.judging.rows import Link
from scrapy_simhash.stores.opening import open_store
from tests.helpers.commanding import Run
from tests.helpers.documents import CRAWL, document, open_in_crawl
from tests.helpers.reporting import report

SITE = "http://site.example/"


def make_link(name: str, spider: str = "docs", time: float = 1.0) -> Link:
    return Link(SITE + name, SITE + "dropped", time, CRAWL, spider, SITE + "kept", "parse")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A store with three links of two spiders."""
    with open_in_crawl(tmp_path / "s") as opened:
        opened.find_and_add([document("kept", 1)])
        opened.keep_links([make_link("b", time=2.0), make_link("a"), make_link("c", "news", 3.0)])
    return tmp_path / "s"


def test_links_are_listed_oldest_first(run: Run, folder: Path) -> None:
    assert run.text("export", "links", "--store", folder).splitlines() == [
        SITE + name for name in "abc"
    ]
    done = run("export", "links", "--store", folder, "--spider", "news", "--json")
    assert done.answers == [
        {
            "url": SITE + "c",
            "page": SITE + "dropped",
            "original": SITE + "kept",
            "spider": "news",
            "crawl": CRAWL,
            "time": 3.0,
        }
    ]


def test_links_are_written_and_forgotten(run: Run, folder: Path, tmp_path: Path) -> None:
    done = run(
        "export", "links", "--store", folder, "--spider", "docs", "-o", "urls.txt", "--forget"
    )
    assert done.exit_code == 0
    assert (tmp_path / "urls.txt").read_text() == f"{SITE}a\n{SITE}b\n"
    assert run("export", "links", "--store", folder).out == f"{SITE}c\n"
    assert run("export", "links", "--store", folder, "--forget").exit_code == 0
    done = run("export", "links", "--store", folder)
    assert (done.exit_code, done.out) == (1, "nothing found\n")


def test_the_report_shows_them(run: Run, folder: Path, tmp_path: Path) -> None:
    figures = report(tmp_path, folder)
    assert figures["lost_links"]["links"] == 3
    shown = (tmp_path / "report.html").read_text("utf-8")
    assert "Nobody requested these 3 links" in shown
    assert f"{SITE}a" in shown
    assert run("export", "links", "--store", folder, "--forget").exit_code == 0
    assert report(tmp_path, folder, overwrite=True)["lost_links"]["links"] == 0
    assert "None: all others were requested" in (tmp_path / "report.html").read_text("utf-8")


def test_readonly_stores_keep_nothing(folder: Path) -> None:
    with open_store(str(folder), readonly=True) as opened, pytest.raises(ValueError, match="read"):
        opened.keep_links([make_link("d")])
