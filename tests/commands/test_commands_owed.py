"""`owed`: lost pages are listed, and requests for them written."""

from pathlib import Path

import pytest

from scrapy_simhash.stores.rows import key_of_lost
from tests.helpers.commanding import Run, assert_printable
from tests.helpers.documents import CRAWL, document, open_in_crawl
from tests.helpers.losing import write_request

A, B = 0x0123_4567_89AB_CDEF, 0xFEDC_BA98_7654_3210
SITE = "http://site.example/"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store with two lost pages, of one of which the request is stored."""
    with open_in_crawl(tmp_path / "s") as store:
        store.find_and_add([document("original", A), document("other", B)])
        store.find_and_add([document("lost", A ^ 1), document("packed", B ^ 1)])
        write_request(store, key_of_lost(4), b"r")
        store.withdraw([1, 2], CRAWL)
    return tmp_path / "s"


def test_lost_pages_are_listed(run: Run, store: Path) -> None:
    out = run.text("owed", "--store", store)
    assert_printable(out)
    assert out.splitlines() == [
        f"{SITE}lost",
        f"        dropped for {SITE}original; how to request it is not stored",
        f"{SITE}packed",
        f"        dropped for {SITE}other",
    ]


def test_a_page_whose_original_may_come_through_waits(run: Run, tmp_path: Path) -> None:
    with open_in_crawl(tmp_path / "s") as store:
        store.find_and_add([document("original", A)])
        store.find_and_add([document("lost", A ^ 1)])
        (page,) = run.answers("owed", "--store", tmp_path / "s")
        assert (page["original"], page["due"]) == (f"{SITE}original", False)


def test_json_has_the_requests(run: Run, store: Path) -> None:
    lines = run.answers("owed", "--store", store)
    assert {line["url"]: line["request"] for line in lines} == {
        f"{SITE}lost": "",
        f"{SITE}packed": "cg==",
    }


def test_a_page_that_is_pruned_is_lost_no_more(run: Run, store: Path) -> None:
    assert run("prune", f"{SITE}lost", "--store", store).exit_code == 0
    assert [page["url"] for page in run.answers("owed", "--store", store)] == [f"{SITE}packed"]
    assert run("prune", f"{SITE}packed", "--store", store).exit_code == 0
    assert "owed: no page waits that was dropped for one that failed" in run.failed(
        "owed", "--store", store
    )
