"""Kept pages that look like another kept page: which they are, and how they are counted."""

from collections.abc import Iterable
from typing import Any

import pytest

from scrapy_simhash.judge import alerts
from scrapy_simhash.judge.alerts import LookAlikes
from tests.helpers.judging import new_decision
from tests.helpers.pages import make_words
from tests.helpers.records import compare_pages

TEXT = " ".join(make_words(1)[:120])


def find_parting(
    title: str = "Tea", heading: str = "Tea", *, words: str = "41 left", more: str = ""
) -> str:
    """Return what parts a page from one that says nothing more."""

    def make(number: int, title: str, heading: str, *texts: str) -> tuple[str, str]:
        text = "".join(f"<p>{text}</p>" for text in texts)
        html = f"<title>{title}</title><main><h1>{heading}</h1>{text}</main>"
        return f"http://a.example/{number}", html

    mine = make(1, title, heading, TEXT, words, more)
    return compare_pages(mine, make(2, "Tea", "Tea", TEXT)).parted_by


@pytest.mark.parametrize(
    ("given", "parted_by"),
    [
        *(({}, "41 left"), ({"heading": ""}, "41 left"), ({"words": "a b c d e f"}, "a b c d")),
        *(({"words": "x" * 99}, "x" * 80), ({"more": " ".join(make_words(2)[:60])}, "")),
        *(({"title": "", "heading": ""}, ""), ({"heading": "Coffee"}, "")),
    ],
)
def test_what_looks_alike_has_one_name_and_nearly_one_text(
    given: dict[str, Any], parted_by: str
) -> None:
    assert find_parting(**given) == parted_by


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


def test_a_crawl_of_many_kinds_is_counted_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alerts, "_MOST_KINDS", 20)
    found = count([f"word{chr(97 + n // 26)}{chr(97 + n % 26)}" for n in range(99)] + ["wordab"])
    assert found.describe().startswith("100 pages that look like another one but for 'wordab' and ")
    listed = found.list_kinds()
    assert [each["pages"] for each in listed] == [2] + [1] * 9
    where = {"url": "http://a.example/1", "like": "http://a.example/first"}
    assert listed[0] == {"pages": 2, "words": "wordab", **where}
