"""Whether two pages that a rule makes one are the same, and rules as witnesses of the judge."""

from pathlib import Path
from typing import Any

import pytest

from scrapy_simhash.judging import Document, Rule, Verdict, compare
from scrapy_simhash.judging.comparison import compare_by_rule
from scrapy_simhash.stores.rulebook import add_rules, change_rule
from scrapy_simhash.judging.evidence import Outcome, can_vote, compare_pages
from scrapy_simhash.urls.learning import UrlLearning
from scrapy_simhash.urls.rules import parse_rule
from scrapy_simhash.stores import Store, open_store
from tests.helpers.urlrules import RULE, WORDS, Crawl, make_facts

SID = "site.example drop-parameter sid"


def page(name: str, **facts: Any) -> Document:
    return Document(identity=b"page", **{**make_facts(name), **facts})


def cut(name: str, words: int) -> Document:
    """Make a page that has only the first words of another one, as a print view has."""
    return page(f"{name}<{words}", title=f"Title of {name}", heading=f"Heading of {name}")


@pytest.mark.parametrize(
    ("first", "second", "outcome"),
    [
        (page("a"), page("a"), Outcome.SAME),
        (page("a"), page("a~8"), Outcome.SAME),
        # Short texts must be .9 alike.
        (page("a"), page("a~12"), Outcome.GREY),
        # Half of the words are others: alike by .5 to .6.
        (page("a"), page("a~60"), Outcome.GREY),
        (page("a"), page("a~150"), Outcome.DIFFERENT),
        (page("a"), page("b"), Outcome.DIFFERENT),
        # Whatever the texts are like, two names are two pages.
        (page("a"), page("a", title="Title of b", heading="Heading of b"), Outcome.DIFFERENT),
        (page("a"), page("a~30", heading="Heading of b"), Outcome.GREY),
        # Too short to tell, unless names do.
        (page("a", words=50), page("a~150"), Outcome.GREY),
        (page("a", words=50), page("b"), Outcome.DIFFERENT),
        # One is part of the other.
        (page("a"), cut("a", 80), Outcome.GREY),
        (page("a", time=1.0), page("a~150", time=90_000.0), Outcome.GREY),
        (page("a", time=1.0), page("b", time=90_000.0), Outcome.GREY),
        (page("a", time=1.0), page("a", time=90_000.0), Outcome.SAME),
        (page("a", scope="x"), page("a"), Outcome.GREY),
        (page("a"), page("a", sketch=b""), Outcome.GREY),
    ],
)
def test_two_pages_are_compared(first: Document, second: Document, outcome: Outcome) -> None:
    for rule in (RULE, Rule(3, None)):
        assert compare_pages(first, second, rule) == outcome
        assert compare_pages(second, first, rule) == outcome


def test_who_can_vote() -> None:
    assert can_vote(page("a"))
    assert not can_vote(page("a", stub=True))
    assert not can_vote(page("a", sketch=b""))


def test_a_rule_makes_near_duplicates_of_pages_in_the_grey_zone() -> None:
    first, second = page("a"), page("a~45")
    assert not compare(first, second, RULE).duplicate
    answer = compare_by_rule(first, second, RULE, SID)
    assert answer is not None
    assert answer.duplicate
    assert answer.similarity is not None
    assert 0.6 <= answer.similarity < 0.8
    assert f"enough where URL rule `{SID}` makes the addresses one" in answer.tests[0]
    # Neither where texts have less in common, nor where names differ, nor short pages.
    assert compare_by_rule(first, page("a~150"), RULE, SID) is None
    named = page("a~45", title="Title of b", heading="Heading of b")
    assert compare_by_rule(first, named, RULE, SID) is None
    assert compare_by_rule(first, page("a~45", stub=True), RULE, SID) is None
    assert compare_by_rule(first, second, Rule(3, None), SID) is None


class _Site:
    """Pages in a store, whose rule is pinned."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.store.start_crawl("crawl", "spider")
        (record,) = store.add_url_rules([parse_rule(SID)])
        store.change_url_rule(record.rule.id, "pin")
        self.number = 0

    def fetch(self, path: str, name: str, *, deciding: bool = True, **facts: Any) -> Verdict:
        self.number += 1
        fields = {
            **make_facts(name),
            "url": f"http://site.example{path}",
            "crawl": "crawl",
            **facts,
        }
        # Not near: only the rule leads from one to the other.
        fields["fingerprints"] = (0xFF << 8 * self.number,)
        document = Document(identity=path.encode(), **fields)
        (verdict,) = self.store.find_and_add([document], urls=UrlLearning(deciding=deciding))
        return verdict


@pytest.fixture
def site(tmp_path: Path) -> Any:
    with open_store(str(tmp_path / "store"), distance=None, confirm=0.8) as store:
        yield _Site(store)


@pytest.mark.parametrize(
    ("first", "second"), [("/x", "/x?sid=1"), ("/x?sid=1", "/x"), ("/x?sid=1", "/x?sid=2")]
)
def test_the_judge_asks_rules_that_act(site: _Site, first: str, second: str) -> None:
    original = site.fetch(first, "a")
    verdict = site.fetch(second, "a~45")
    assert verdict.status == "near_duplicate"
    assert verdict.match is not None
    assert (verdict.match.document, verdict.match.rule) == (original.document, SID)
    assert any(f"URL rule `{SID}`" in test for test in verdict.match.tests)
    # It proves nothing of the rule that made it.
    (record,) = site.store.url_rules()
    assert (record.same, record.grey) == (0, 1)
    # The near-duplicate of a near-duplicate is one of the original.
    third = site.fetch("/x?sid=9", "a~40")
    assert third.match is not None
    assert third.match.document == original.document


def test_the_judge_does_not_believe_rules_alone(site: _Site) -> None:
    site.fetch("/x", "a")
    assert site.fetch("/x?sid=3", "a~45", deciding=False).status == "new"
    assert site.fetch("/x?sid=1", "a~150").status == "new"
    assert site.fetch("/y?sid=1", "a~45").status == "new"
    site.store.change_url_rule(parse_rule(SID).id, "retire")
    assert site.fetch("/x?sid=2", "a~45").status == "new"


def test_a_rule_may_be_pinned_before_any_page_came() -> None:
    crawl = Crawl(lambda url: url.partition("?")[0])
    (record,) = add_rules(crawl.documents, [parse_rule("a.example drop-parameter sid")], 1.0)
    change_rule(crawl.documents, record.rule.id, "pin", 1.0)
    crawl.crawl(["http://a.example/x", "http://a.example/x?sid=1"])
    assert list(crawl.parked) == ["http://a.example/x?sid=1"]
    assert crawl.memory.records[1].words == WORDS
