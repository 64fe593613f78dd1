"""Kept pages that look like another kept page: which they are, and how they are counted."""

from collections.abc import Iterable
from typing import Any

import pytest

from scrapy_simhash.judge import alerts
from scrapy_simhash.judge.alerts import LookAlikes
from scrapy_simhash.judge.log import find_parting
from scrapy_simhash.judging.documents import Match
from scrapy_simhash.judging.evidence import Deciding, Evidence, Relation
from tests.helpers.judging import new_decision

SAME, SILENT, DIFFER = Relation.SAME, Relation.SILENT, Relation.DIFFER


def make_nearest(main_alike: float = 0.95, **fields: Any) -> Match:
    names = {name: fields.pop(name, SAME) for name in ("title", "heading")}
    evidence = Evidence(
        deciding=Deciding.WORDS, distance=1, within=7, main_alike=main_alike, **names
    )
    given: dict[str, Any] = {"evidence": evidence, "own_words": ("41", "left"), **fields}
    return Match(1, 0, 1, "http://a.example/", main_alike, ("distance 1 bit", "why"), None, **given)


@pytest.mark.parametrize(
    ("nearest", "parted_by"),
    [
        (make_nearest(), "41 left"),
        (make_nearest(heading=SILENT), "41 left"),
        (make_nearest(own_words=tuple("abcdef")), "a b c d"),
        (make_nearest(own_words=("x" * 99,)), "x" * 80),
        (make_nearest(own_words=(), match_own_words=("42",)), "42"),
        (make_nearest(own_words=()), "why"),
        (make_nearest(main_alike=0.89), ""),
        (make_nearest(title=SILENT, heading=SILENT), ""),
        (make_nearest(heading=DIFFER), ""),
        (make_nearest(evidence=None), ""),
    ],
)
def test_what_looks_alike_has_one_name_and_nearly_one_text(nearest: Match, parted_by: str) -> None:
    assert find_parting(nearest) == parted_by


def count(parted: Iterable[str]) -> LookAlikes:
    found = LookAlikes()
    for number, words in enumerate(parted):
        decision = new_decision(f"http://a.example/{number}", parted_by=words)
        decision.nearest_url = "http://a.example/first"
        found.add(decision)
    return found


@pytest.mark.parametrize(
    ("parted", "said"),
    [
        (["41"], "1 page that looks like another one but for '41': "),
        (["red", "41", "7"], "3 pages that look like another one but for '41' and the like (2 of "),
        (
            ["red", "ships on 3 may", "ships on 12 june", "seen 5 times"],
            "4 pages that look like another one but for 'ships on 3 may' and the like (2 of them)",
        ),
    ],
)
def test_what_parts_most_is_named(parted: list[str], said: str) -> None:
    described = count(parted).describe()
    assert described.startswith(said)
    assert described.endswith(
        f" scrapy simhash explain 'http://a.example/{0 if len(parted) == 1 else 1}' (like "
        "'http://a.example/first'); SIMHASH_IGNORE leaves out what changes by itself"
    )


def test_nothing_is_said_of_no_page() -> None:
    assert (count([]).describe(), count([]).list_kinds()) == ("", [])


def test_a_crawl_of_many_kinds_is_counted_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alerts, "_MOST_KINDS", 20)
    found = count([f"word{chr(97 + n // 26)}{chr(97 + n % 26)}" for n in range(99)] + ["wordab"])
    assert found.describe().startswith("100 pages that look like another one but for 'wordab' and ")
    listed = found.list_kinds()
    assert [each["pages"] for each in listed] == [2] + [1] * 9
    assert listed[0] == {
        "pages": 2,
        "words": "wordab",
        "url": "http://a.example/1",
        "like": "http://a.example/first",
    }
