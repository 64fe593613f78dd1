"""Pages that somebody may have made up to be in the sample of a host that is not theirs."""

from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote_plus, urlsplit

import pytest

from tests.helpers.crawling import Crawl, FollowingSpider, crawl
from tests.helpers.documents import open_lmdb
from tests.helpers.pages import make_page, make_words, page
from tests.helpers.server import Answer, Site, serve

RECORDS, SEARCHES, TEMPLATE = 24, 16, 1_500
WORDS = make_words(1, TEMPLATE)
# The first ones are those that the other site wants to be lost.
TARGETS = 5


def own(number: int) -> list[str]:
    return make_words(100 + number, 20)


def name(number: int) -> str:
    return " ".join(make_words(200 + number, 3))


def record(number: int) -> str:
    words = [*WORDS[: TEMPLATE // 2], *own(number), *WORDS[TEMPLATE // 2 :]]
    return make_page(words, title=f"{name(number)} - Shop").replace("Heading", name(number))


def ask(number: int) -> str:
    """Make a query of the names and words of some records, and of others so that it is no copy."""
    words = [word for each in range(TARGETS) for word in (name(each), *own(each))]
    return "/search?q=" + quote_plus(" ".join([*words, *make_words(300 + number, 60)]))


def answer(path: str) -> str:
    (asked,) = parse_qs(urlsplit(path).query)["q"]
    return make_page([f"No results for {asked}"], title=asked[:200]).replace("Heading", asked[:200])


FORMS = {
    "of one form": {f"/record/{number}": number for number in range(RECORDS)},
    "of many": {
        "/{}/{}/a{}".format(*make_words(400 + number, 2), number): number
        for number in range(RECORDS)
    },
}


def suspicions(store: Path, paths: list[str], site: Site) -> list[int]:
    with open_lmdb(store) as opened:
        found = {each.facts.url: each.facts.suspicion for each in opened.list_documents()}
    return [found[site.url(path)] for path in paths]


async def crawl_from_elsewhere(site: Site, store: Path, links: list[str]) -> Crawl:
    """Crawl a page of another site, which is the same server under another name, and its links."""
    there = page(3, title="Elsewhere", links=[site.url(link) for link in links])
    site.answers["/elsewhere"] = Answer(there.encode())
    settings: dict[str, Any] = {"DEPTH_PRIORITY": 1}
    settings["SCHEDULER_MEMORY_QUEUE"] = "scrapy.squeues.FifoMemoryQueue"
    first = site.url("/elsewhere").replace("127.0.0.1", "localhost")
    return await crawl(store, [first], FollowingSpider, **settings)


@pytest.mark.parametrize("form", FORMS)
async def test_searches_that_another_site_asks_lose_no_record(tmp_path: Path, form: str) -> None:
    records = FORMS[form]
    searches = [ask(number) for number in range(SEARCHES)]
    shop = {path: record(number) for path, number in records.items()}
    shop |= {search: answer(search) for search in searches}
    with serve({**shop, "/": page(2, title="Shop", links=[*records])}) as site:
        done = await crawl_from_elsewhere(site, tmp_path, [*searches, "/"])
        assert set(records) <= set(done.paths)
        assert suspicions(tmp_path, [searches[0], "/", *[*records][:1]], site) == [2, 1, 0]


async def test_who_found_a_page_first_is_kept(tmp_path: Path) -> None:
    """Through a redirect, too; a start request is of its own site, as is what a site leads to."""
    answers: dict[str, Answer | str] = {f"/{n}": page(10 + n) for n in range(3)}
    answers["/?q=two+words"] = make_page([*make_words(20), "words", "of", "two"])
    answers["/away"] = Answer(location="/2")
    with serve(answers) as site:
        away = site.url("/away").replace("127.0.0.1", "localhost")
        site.answers["/away"] = Answer(location=site.url("/2"))
        there = page(3, links=[site.url("/0"), site.url("/1"), away, site.url("/?q=two+words")])
        site.answers["/elsewhere"] = Answer(there.encode())
        elsewhere = site.url("/elsewhere").replace("127.0.0.1", "localhost")
        await crawl(tmp_path, [site.url("/0"), elsewhere], FollowingSpider)
        paths = ["/0", "/1", "/2", "/?q=two+words"]
        assert suspicions(tmp_path, paths, site) == [0, 1, 1, 2]
        await crawl(tmp_path, [site.url(path) for path in paths], FollowingSpider)
        assert suspicions(tmp_path, paths, site) == [0, 1, 1, 2]
