"""What the report says of addresses: rules, and places that mirror each other."""

import asyncio
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_simhash.detector.log import Decision
from scrapy_simhash.inspection.report.figures import Figures
from scrapy_simhash.judging.rows import Owed, Why
from scrapy_simhash.pages.addresses import find_places
from scrapy_simhash.stores.opening import open_store
from scrapy_simhash.stores.owed import put
from scrapy_simhash.urls.rules import RuleState, parse_rule
from tests.helpers.addresses import LANG, PAGE, SID, add_rule, crawl_addresses
from tests.helpers.reporting import make_decision, report

HOSTILE = "site.example drop-parameter </script><b>x</b>"


def read_section(folder: Path) -> str:
    """Read the section as text, without markup."""
    html = (folder / "report.html").read_text("utf-8")
    (section,) = re.findall(r'<section id="addresses">(.*?)</section>', html, re.DOTALL)
    return " ".join(re.sub(r"<[^>]*>", " ", section).split())


def make_skipped(number: int, rule: str = SID) -> dict[str, Any]:
    return make_decision(number, status="not_fetched", rule=rule, body_bytes=None)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "store"
    asyncio.run(crawl_addresses(path, log=None))
    return path


def test_rules_and_what_they_would_have_spared(store: Path, tmp_path: Path) -> None:
    with open_store(str(store)) as opened:
        counts = {"same": 25, "directories": ("/*",), "sampled": 5, "sampled_same": 4}
        add_rule(opened, SID, "pin", state=RuleState.ACTING, sampled_different=1, **counts)
        add_rule(opened, PAGE, "pin", different=2)
        add_rule(opened, LANG, same=1)
        rule = parse_rule(SID).id
        urls = [f"http://site.example/{number}" for number in range(7)]
        rows = [Owed(url, Why.PARKED, "s", "c", rules=(rule,)) for url in urls]
        opened.write(lambda stored: put(stored, rows))
    addresses = report(tmp_path, store)["addresses"]
    assert [(row["rule"], row["spared"], row["wrong"]) for row in addresses["rules"]] == [
        (PAGE, 3, True),
        (SID, 4, False),
        (LANG, 0, False),
    ]
    assert {key: value for key, value in addresses.items() if key != "rules"} == {
        "rules_in_all": 3,
        "acting": 2,
        "pages": 10,
        "skipped": 7,
        "parked": 7,
        "sampled": 5,
        "sampled_same": 4,
        "sampled_different": 1,
    }
    section = read_section(tmp_path)
    assert "7 of the 10 stored pages have an address that a rule would replace" in section
    assert "7 requests are parked. Rules that act were checked 5 times" in section
    assert f"{PAGE} pinned wrong 0 2 0.00 3 0" in section
    assert f"{SID} acting 25 0 0.90 4 7" in section


def test_candidates_only(store: Path, tmp_path: Path) -> None:
    with open_store(str(store)) as opened:
        add_rule(opened, LANG, same=1)
    addresses = report(tmp_path, store)["addresses"]
    assert (addresses["acting"], addresses["skipped"], addresses["pages"]) == (0, 0, 10)
    section = read_section(tmp_path)
    assert "No rule is proven yet." in section
    assert f"{LANG} learning 1 0 0.27 0 0" in section


def test_no_rules(store: Path, tmp_path: Path) -> None:
    assert report(tmp_path, store)["addresses"] is None
    section = read_section(tmp_path)
    assert section.endswith("None known: no rule about addresses was learned.")


def test_a_log_without_a_store_says_what_was_not_fetched(tmp_path: Path) -> None:
    lines = [make_decision(0), *map(make_skipped, (1, 2)), make_skipped(3, HOSTILE)]
    figures = report(tmp_path, lines=lines)
    assert figures["not_fetched"] == {SID: 2, HOSTILE: 1}
    assert figures["not_fetched_in_all"] == 3
    # They are no pages.
    assert (figures["pages"], figures["judged"], figures["kept"]) == (1, 1, 1)
    assert figures["addresses"] is None
    section = read_section(tmp_path)
    assert f"By the log, 3 requests were not made: 2 by {SID} 1 by" in section
    assert "<b>x</b>" not in (tmp_path / "report.html").read_text("utf-8")


def test_few_rules_are_shown_of_many(store: Path, tmp_path: Path) -> None:
    with open_store(str(store)) as opened:
        for number in range(33):
            add_rule(opened, f"site.example drop-parameter p{number}")
    addresses = report(tmp_path, store)["addresses"]
    assert (len(addresses["rules"]), addresses["rules_in_all"]) == (30, 33)
    assert "The first 30 of 33." in read_section(tmp_path)


A = "http://a.example"


@pytest.mark.parametrize(
    ("url", "original", "places"),
    [
        (f"{A}/mirror/x.html", f"{A}/x.html", (f"{A}/mirror/*", f"{A}/*")),
        (f"{A}/15/x.html", f"{A}/17/x.html", (f"{A}/15/*", f"{A}/17/*")),
        (f"{A}/en/15/a/x", f"{A}/de/17/a/x", (f"{A}/en/15/*", f"{A}/de/17/*")),
        ("http://b.example/x", f"{A}/x", ("http://b.example/*", f"{A}/*")),
        ("https://a.example/x", f"{A}/x", ("https://a.example/*", f"{A}/*")),
        ("http://b.example/", f"{A}/", ("http://b.example/*", f"{A}/*")),
        (f"{A}/x?print=1", f"{A}/x", (f"{A}/*?print=*", f"{A}/*")),
        (f"{A}/x?sid=1", f"{A}/x?sid=2", (f"{A}/*?sid=*", f"{A}/*?sid=*")),
        (f"{A}/mirror/x?a=1", f"{A}/x?a=2", (f"{A}/mirror/*", f"{A}/*")),
        (f"{A}/one/", f"{A}/two/", None),
        (f"{A}/one", f"{A}/two", None),
        (f"{A}/one", f"{A}/one#part", None),
        ("http://[::1/x", f"{A}/x", None),
        (f"{A}/m/{'x' * 3000}", f"{A}/{'x' * 3000}", None),
    ],
)
def test_places_of_a_pair(url: str, original: str, places: tuple[str, str] | None) -> None:
    assert find_places(url, original) == places


def count(pages: Iterable[str], near_duplicates: Iterable[tuple[str, str]]) -> list[dict[str, Any]]:
    """Count pages, and near-duplicates among them; gives the report's mirrors."""
    figures = Figures()
    for url in pages:
        figures.add(Decision(url=url, status="new"))
    for url, original in near_duplicates:
        figures.add(Decision(url=url, status="near_duplicate", match_url=original))
    mirrors: list[dict[str, Any]] = figures.describe()["mirrors"]
    return mirrors


def test_pairs_are_counted_with_all_pages_of_their_place() -> None:
    pages = [f"{A}/x0", f"{A}/mirror/deep/x4"]
    copies = [(f"{A}/mirror/deep/x{number}", f"{A}/deep/x{number}") for number in range(4)]
    seldom = [(f"{A}/seldom/x{number}", f"{A}/x{number}") for number in range(2)]
    assert count(pages, [*copies, *seldom]) == [
        {"place": f"{A}/mirror/*", "original": f"{A}/*", "near_duplicates": 4, "pages": 5}
    ]


@given(st.text(), st.text())
def test_any_text_may_be_an_address(url: str, original: str) -> None:
    assert count([url], [(url, original)]) == []
