"""Each crawl is complete by itself: a page is dropped only for one that this crawl got."""

from pathlib import Path
from typing import Any

import pytest

from tests.helpers.crawling import Crawl, crawl, crawl_pages
from tests.helpers.needing import slow_but
from tests.helpers.pages import make_words, page
from tests.helpers.server import Answer, Site, serve

COUNT = 12
# Pages, each with two copies.
ANSWERS = {
    f"/{n}{end}": page(n, menu=f"Menu {end}") for end in ("", "?a", "?b") for n in range(COUNT)
}
ORIGINALS = [f"/{n}" for n in range(COUNT)]
COPIES = [f"/{n}?{end}" for end in "ab" for n in range(COUNT)]


def reasons(done: Crawl) -> list[str]:
    return [each["reason"] or each["status"] for each in done.decisions]


async def learn(site: Site, store: Path, **settings: Any) -> None:
    first = await crawl(store, map(site.url, [*ORIGINALS, *COPIES]), **settings)
    assert first.paths == ORIGINALS


async def test_an_original_that_comes_after_its_first_copy_is_a_copy_itself(
    site: Site, tmp_path: Path
) -> None:
    """If it says nothing else; it stays a document, and its copies are dropped for it."""
    await learn(site, tmp_path)
    done = await crawl(tmp_path, map(site.url, [*COPIES[:COUNT], *ORIGINALS, *COPIES[COUNT:]]))
    assert done.paths == COPIES[:COUNT]
    again = await crawl(tmp_path, map(site.url, [*ORIGINALS, *COPIES]))
    assert (again.paths, reasons(again)[:COUNT]) == (ORIGINALS, ["unchanged"] * COUNT)


async def test_a_job_that_is_resumed_is_one_crawl(site: Site, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"JOBDIR": str(tmp_path / "job")}
    await learn(site, tmp_path / "s", **settings)
    again = await crawl(tmp_path / "s", map(site.url, COPIES[:3]), **settings)
    assert again.paths == []  # the duplicate filter knows them, too
    site.answers["/0?c"] = site.answers["/0?b"]
    resumed = await crawl(tmp_path / "s", [site.url("/0?c")], **settings)
    other = await crawl(tmp_path / "s", [site.url("/0?c")])
    assert (reasons(resumed), reasons(other)) == (["near_duplicate"], ["first_copy"])


HEADS = [
    *("<link rel=canonical href=/case/0>", "<link rel=canonical href=/case>"),
    "<link rel=canonical href=http://other.example/case>",
    *("<meta property=og:url content=/case/0>", "<link rel=amphtml href=/case/0>"),
]


@pytest.mark.parametrize("head", slow_but(HEADS[:1], HEADS))
async def test_of_records_that_declare_one_address_two_are_lost(tmp_path: Path, head: str) -> None:
    """A fault of a site; a third one shows it."""
    template = " ".join(make_words(1, 400))

    def make(number: int) -> str:
        name, street, town = make_words(100 + number, 3)
        return (
            f"<title>Case details</title>{head}<h1>Case details</h1><p>{template}</p>"
            f"<p>Name {name} Street {street} Town {town}</p>"
        )

    answers = {f"/article/{n}": page(200 + n) for n in range(8)}
    answers |= {f"/case/{n}": make(n) for n in range(20)}
    done = await crawl_pages(tmp_path, answers)
    assert len(done.items) >= 28 - 2


@pytest.mark.parametrize("what", ["moved", "vanished", "changed"])
async def test_a_site_that_changes_comes_whole_in_any_order(
    site: Site, tmp_path: Path, what: str
) -> None:
    """Behind 301; where all originals vanished; where all texts changed, and copies come first."""
    await learn(site, tmp_path)
    with serve(ANSWERS) as other:
        for path, answer in list(site.answers.items()):
            if what == "moved":
                site.answers[path] = Answer(status=301, location=other.url(path))
            elif what == "changed":
                site.answers[path] = Answer(answer.body.replace(b"</p>", b", or else</p>"))
            elif path in ORIGINALS:
                site.answers[path] = Answer(b"gone", status=404)
        done = await crawl(tmp_path, map(site.url, [*COPIES, *ORIGINALS]), CONCURRENT_REQUESTS=8)
    assert {path.partition("?")[0] for path in done.paths} == {*ORIGINALS}
