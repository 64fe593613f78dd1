"""Crawls in which URL rules are learned, with what a hostile or an unlucky site makes of them."""

from pathlib import Path
from typing import Any

import pytest

from scrapy_simhash.crawl import parking
from scrapy_simhash.stores.opening import open_store
from tests.helpers.crawling import Crawl, FollowingSpider, crawl, path_of
from tests.helpers.pages import page
from tests.helpers.server import Answer, Site

pytestmark = pytest.mark.usefixtures("warm_worker")

SKIP: dict[str, Any] = {"SIMHASH_URL_RULES": "skip"}
STATIC = [f"/p{number}" for number in range(16)]
ARTICLES = [f"/article?id={number}" for number in range(1, 7)]


class BroadSpider(FollowingSpider):
    """Follows the links of all hosts."""

    name = "broad"
    custom_settings = {  # noqa: RUF012 - Scrapy's name and kind
        "DEPTH_PRIORITY": 1,
        "SCHEDULER_MEMORY_QUEUE": "scrapy.squeues.FifoMemoryQueue",
    }


def _make_answers() -> dict[str, str]:
    """Make static pages that ignore a parameter, and beside them articles that go by it."""
    answers = {"/article": page(790, title="All articles")}
    for number, path in enumerate(STATIC):
        shown = page(number, title=f"Static {number}")
        answers |= {path + query: shown for query in ("", f"?id=1{number}", f"?id=2{number}")}
    for number, path in enumerate(ARTICLES):
        answers[path] = page(800 + number, title=f"Article {number} of all")
    return answers


ANSWERS = _make_answers()


def make(seed: int, **given: Any) -> Answer:
    """Make an answer for a site that is served already."""
    return Answer(page(seed, **given).encode())


def list_rules(folder: Path) -> list[str]:
    """Learn from the store, and list the rules that act."""
    with open_store(str(folder), 7, confirm=0.8) as store:
        store.learn_url_rules()
        return [acting.rule.text for acting in store.list_acting_rules()[1]]


async def follow(folder: Path, url: str, **settings: Any) -> Crawl:
    return await crawl(folder, [url], BroadSpider, **settings)


async def test_links_on_another_site_teach_nothing_and_lose_no_page(
    site: Site, tmp_path: Path
) -> None:
    """`localhost` is another site than `127.0.0.1`: it links to pages that ignore a parameter."""
    variants = [path for path in site.answers if path.partition("?")[0] in STATIC]
    links = [site.url(path) for path in (*variants, "/")]
    site.answers["/evil"] = make(900, title="Evil", links=links)
    site.answers["/"] = make(901, title="Home", links=[*STATIC, *ARTICLES])
    start = site.url("/evil").replace("127.0.0.1", "localhost")
    first = await follow(tmp_path, start)
    assert {*ARTICLES, *STATIC} <= set(first.paths)
    assert list_rules(tmp_path) == []
    second = await follow(tmp_path, start, **SKIP)
    assert set(ARTICLES) <= set(second.paths)
    assert "urls/parked" not in second.counted


async def test_what_static_pages_prove_costs_no_article(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The site links its static pages with the parameter itself, and its articles later."""
    monkeypatch.setattr(parking, "SAMPLE_SHARE", 0.0)
    variants = [path for path in site.answers if path.partition("?")[0] in STATIC]
    site.answers["/"] = make(901, title="Home", links=variants)
    await follow(tmp_path, site.url("/"))
    (rule,) = list_rules(tmp_path)
    assert rule.endswith("drop-parameter id")
    site.answers["/"] = make(901, title="Home", links=[*variants, "/article", *ARTICLES])
    done = await follow(tmp_path, site.url("/"), **SKIP)
    assert {"/article", *ARTICLES} <= set(done.paths)
    assert done.counted["urls/parked"] > len(STATIC)
    parked = {path_of(line["url"]) for line in done.decisions if line["status"] == "not_fetched"}
    assert parked <= set(variants)


async def test_new_session_ids_in_each_crawl_hide_no_new_page(site: Site, tmp_path: Path) -> None:
    """Each crawl gets another id in every link, and pages that were not there before."""
    paths = [*STATIC]
    for number, session in enumerate("abcd"):
        paths.append(f"/new{number}")
        links = [f"{path}?sid={session * 9}" for path in paths]
        for place, path in enumerate(paths):
            shown = make(
                place, title=f"Page {place}", links=[*links[:4], *links[place + 1 : place + 2]]
            )
            site.answers[f"{path}?sid={session * 9}"] = shown
        site.answers["/"] = make(901, title="Home", links=[*links[:1], f"/?sid={session * 9}"])
        site.answers[f"/?sid={session * 9}"] = site.answers["/"]
        done = await follow(tmp_path, site.url("/"), **SKIP, SIMHASH_FOLLOW_NEW_LINKS="True")
        assert f"/new{number}?sid={session * 9}" in done.paths
        list_rules(tmp_path)
    with open_store(str(tmp_path), readonly=True) as store:
        (record,) = [each for each in store.url_rules() if each.rule.args == ("sid",)]
        assert (record.acts, record.directories) == (True, ("/*",))


async def test_an_address_to_which_another_site_redirects_has_no_vote(
    site: Site, tmp_path: Path
) -> None:
    other = site.root.replace("127.0.0.1", "localhost")
    for number, path in enumerate(STATIC):
        for value in "12":
            target = site.url(f"{path}?id={value}{number}")
            site.answers[f"/to{number}-{value}"] = Answer(location=target)
    to = [f"{other}/to{number}-{value}" for number in range(16) for value in "12"]
    site.answers["/"] = make(901, title="Home", links=[*STATIC, *to])
    await follow(tmp_path, site.url("/"))
    assert any("?id=" in path for path in site.asked)
    assert list_rules(tmp_path) == []
