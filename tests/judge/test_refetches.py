"""Which kept pages are asked for once more."""

import pytest

from scrapy_simhash.judge import refetches as module
from scrapy_simhash.judge.refetches import Refetches
from scrapy_simhash.judging.matching import Doubt
from scrapy_simhash.judging.rule import Page
from scrapy_simhash.pages.facts import Facts
from scrapy_simhash.pages.wording import Wording


def test_what_one_answer_did_not_confirm_is_not_asked_for_again() -> None:
    refetches = Refetches(10)
    page = Page.make(Facts(b"-", 0, b""), Wording("a text"))
    one, other = Doubt(1, page), Doubt(2, page)

    def check(kept: Doubt) -> bool:
        due = refetches.takes_check(kept, "a.example", "a.example/p", confirmed=False)
        refetches.end(kept.document)
        return due

    assert [check(one), check(one), check(other), check(one)] == [True, False, True, False]


def test_after_doubts_in_vain_the_next_ones_are_ever_rarer() -> None:
    refetches = Refetches(10)
    page = Page.make(Facts(b"-", 0, b""), Wording("a text"))
    asked = []
    for number in range(1, 40):
        if refetches.is_in_vain("http://a.example/p/one"):
            continue
        if refetches.take(Doubt(number, page), "a.example", "p"):
            asked.append(number)
            if found := refetches.end(number):
                refetches.note(found, dropped=number == 12)
    # A drop came of the doubt about the twelfth page.
    assert asked == [1, 2, 3, 12, 13, 14, 15, 24]
    assert not refetches.is_in_vain("http://a.example/other/one")


def test_what_is_not_asked_for_says_why() -> None:
    refetches = Refetches(2)
    page = Page.make(Facts(b"-", 0, b""), Wording("a text"))
    assert refetches.find_bar(1, "http://a.example/p/1") == ""
    for number in (1, 2):
        refetches.take(Doubt(number, page), "a.example", "p")
    assert refetches.find_bar(1, "http://a.example/p/1") == ""  # it may answer this one, too
    for number in (1, 2):
        refetches.end(number)
    assert refetches.find_bar(1, "http://a.example/p/1").startswith(
        "that page was asked for once more"
    )
    bar = refetches.find_bar(3, "http://a.example/p/1")
    assert bar.startswith("SIMHASH_REFETCH allows 2 doubts in vain")
    for number in range(3, 11):
        refetches.take(Doubt(number, page), f"{number}.example", "p")
    assert refetches.find_bar(11, "http://b.example/").startswith("2% of the pages of the crawl")
    assert refetches.takes_check(Doubt(12, page), "b.example", "b.example/p", confirmed=False)
    assert refetches.find_bar(12, "http://b.example/") == "that page is being checked"


def test_hosts_are_counted_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_REMEMBERED", 10)
    refetches = Refetches(10)
    for number in range(100):
        refetches.is_in_vain(f"http://{number}.example/p")
        refetches.find_bar(number, f"http://{number}.example/")
    assert max(len(refetches._attempts), len(refetches._passed)) <= 12


def test_doubts_of_which_drops_come_are_free() -> None:
    refetches, asked = Refetches(2), []
    page = Page.make(Facts(b"-", 0, b""), Wording("a text"))
    for number in range(1, 9):
        if refetches.find_bar(number, "http://a.example/p/1"):
            break
        refetches.take(Doubt(number, page), "a.example", "p")
        asked.append(number)
        if found := refetches.end(number):
            refetches.note(found, dropped=True)
    assert asked == [1, 2, 3, 4]


def test_a_folder_that_is_looked_at_often_leaves_some_to_others() -> None:
    refetches, bars = Refetches(1), []
    for number, folder in enumerate("a" * 30 + "b" * 30 + "c" * 30):
        bars.append(refetches.find_bar(number + 1, f"http://a.example/{folder}/x") == "")
    assert (sum(bars[:30]), sum(bars[30:60]), sum(bars[60:])) == (25, 25, 0)


def test_a_check_fails_so_far_once_its_page_is_asked_for_again() -> None:
    """Pages whose drops rest on it wait then, whatever was confirmed before."""
    refetches, place = Refetches(10), "a.example/p"
    page = Page.make(Facts(b"-", 0, b""), Wording("a text"))
    assert refetches.find_checked(place) == (0, False)
    assert refetches.takes_check(Doubt(7, page), "a.example", place, confirmed=True)
    assert refetches.find_checked(place) == (7, False)
    asked = refetches.end(7)
    assert asked is not None
    assert refetches.ask_once_more(asked, page)
    assert refetches.find_checked(place) == (7, True)
    refetches.end(7)
    assert refetches.find_checked(place) == (0, False)
