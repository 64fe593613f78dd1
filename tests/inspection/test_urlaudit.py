"""The audit of URL rules: what they would have skipped, and which pages would have been lost."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scrapy_simhash.config import Config
from scrapy_simhash.errors import InspectionError, PartlyFailedError
from scrapy_simhash.inspection.urlrules import audit
from scrapy_simhash.stores.opening import open_store
from tests.helpers.addresses import LANG, PAGE, SID, SITE, add_rule, crawl_addresses
from tests.helpers.documents import document, open_in_crawl

Audit = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("audit") / "store"
    asyncio.run(crawl_addresses(path))
    return path


def run_audit(store: Path, rules: Path | None, top: int | None = None) -> dict[str, Any]:
    """Audit; an audit that found lost pages fails after its answer."""
    answers = audit(Config(store=str(store)), rules, top)
    found = next(answers)
    if found["lost"]:
        lost = found["lost"]
        with pytest.raises(PartlyFailedError, match=f"^{lost} distinct pages would have been lost"):
            next(answers)
    assert next(answers, None) is None
    return found


@pytest.fixture
def run(store: Path, tmp_path: Path) -> Audit:
    def run(content: str, top: int | None = None, at: Path = store) -> dict[str, Any]:
        path = tmp_path / "rules"
        path.write_text(content)
        return run_audit(at, path, top)

    return run


def count(found: dict[str, Any], *names: str) -> list[int]:
    return [found[name] for name in names]


def test_a_right_rule_loses_nothing(run: Audit) -> None:
    found = run(SID)
    assert count(found, "pages", "skipped", "same", "grey", "different") == [10, 2, 2, 0, 0]
    assert count(found, "lost", "perhaps_lost", "rules") == [0, 0, 1]
    assert found["lost_pages"] == []


def test_a_wrong_rule_loses_pages_and_they_are_named(run: Audit) -> None:
    found = run(f"{SID}\n{PAGE}\n")
    assert count(found, "skipped", "same", "different", "lost") == [4, 2, 2, 2]
    assert [(page["url"], page["kept_url"]) for page in found["lost_pages"]] == [
        (f"{SITE}/list?page={number}", f"{SITE}/list?page=1") for number in (2, 3)
    ]
    assert {page["form"] for page in found["lost_pages"]} == {f"{SITE}/list"}
    assert all(page["rules"] == [PAGE] and page["why"] for page in found["lost_pages"])
    assert [(row["rule"], row["skipped"], row["lost"]) for row in found["by_rule"]] == [
        (PAGE, 2, 2),
        (SID, 2, 0),
    ]


def test_a_page_that_stands_elsewhere_is_not_lost(run: Audit) -> None:
    found = run(LANG)
    assert count(found, "skipped", "different", "lost") == [1, 1, 0]


def test_pages_are_named_up_to_a_number_and_counted_all(run: Audit) -> None:
    found = run(PAGE, 1)
    assert (found["lost"], len(found["lost_pages"])) == (2, 1)


DISCARDING = """[{"order": 1, "processor": "queryRemovalExcept", "args": [],
                  "urlPattern": {"include": ["site.example"]}}]"""


def test_rules_of_duplicate_url_discarder(run: Audit) -> None:
    found = run(DISCARDING)
    assert found["rules"] == 1
    assert count(found, "skipped", "same", "different", "lost") == [5, 2, 3, 2]
    assert found["by_rule"][0]["rule"] == "queryRemovalExcept (site.example)"


def test_a_plain_address_is_fetched_by_our_rules_and_skipped_by_theirs(
    run: Audit, tmp_path: Path
) -> None:
    """Ours park what a rule changes; theirs let the first of a form pass, whichever it is."""
    path = tmp_path / "store"
    asyncio.run(crawl_addresses(path, pages={"/a?sid=1": 1, "/a": 2}))
    assert run(SID, at=path)["skipped"] == 0
    found = run(DISCARDING, at=path)
    assert found["lost"] == 1
    assert found["by_rule"][0]["lost"] == 1  # the rule changed the page that was fetched


def test_the_rules_of_the_store_that_act(tmp_path: Path) -> None:
    path = tmp_path / "store"
    asyncio.run(crawl_addresses(path))
    with pytest.raises(InspectionError, match="no rule of the store acts yet; name a file"):
        run_audit(path, None)
    with open_store(str(path)) as opened:
        add_rule(opened, SID, "pin")
        add_rule(opened, PAGE)
    found = run_audit(path, None)
    assert (found["file"], found["rules"], found["skipped"], found["lost"]) == (None, 1, 2, 0)


def test_short_pages_are_the_same_only_if_they_are_equal(run: Audit, tmp_path: Path) -> None:
    path = tmp_path / "store"
    short = {"/x?sid=1": "Few words", "/x?sid=2": "Few words", "/x?sid=3": "Other words"}
    asyncio.run(crawl_addresses(path, pages=short))
    found = run(SID, at=path)
    assert count(found, "skipped", "same", "grey", "perhaps_lost") == [2, 1, 1, 1]
    assert [page["url"] for page in found["perhaps_lost_pages"]] == [f"{SITE}/x?sid=3"]


ODD = [
    f"{SITE}/x?" + "&".join(f"p{number}=1" for number in range(10_000)),
    f"{SITE}/%zz%ff%00?sid=%zz",
    "http://user:secret@site.example/?sid=1",
    "http://site.example\\@other.example/?sid=1",
    "http://site.example@other.example/?sid=1",
    "http://münchen.example/?sid=1",
    "http://xn--mnchen-3ya.example/?sid=1",
    "http://[::1/?sid=1",
    "http://site.example:99999/?sid=1",
    "http://localhost:8000/?sid=1",
    "mailto:someone?sid=1",
    "?",
    "",
    f"{SITE}/\x00?sid=1",
]


# The other program takes a name and its punycode for one host, and nothing for the root of a site.
@pytest.mark.parametrize(
    ("rules", "skipped"), [(f"{SID}\nlocalhost:8000 drop-parameter sid", 0), (DISCARDING, 2)]
)
def test_odd_addresses_do_no_harm(run: Audit, tmp_path: Path, rules: str, skipped: int) -> None:
    path = tmp_path / "store"
    with open_in_crawl(path) as opened:
        opened.find_and_add(
            [document(f"{number}", 1 << number, url=url) for number, url in enumerate(ODD)]
        )
    found = run(rules, at=path)
    assert (found["pages"], found["skipped"]) == (len(ODD), skipped)
