"""What a judge keeps in mind: pages to ask for once more, links that are known, look-alikes."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from scrapy_simhash.crawl import summary
from scrapy_simhash.crawl.summary import LookAlikes
from scrapy_simhash.judge import refetches as module
from scrapy_simhash.judge.links import LinkTable
from scrapy_simhash.judge.refetches import Refetches
from scrapy_simhash.judging.documents import ASKS_NO_MORE, STAYS
from scrapy_simhash.judging.hosts import Hosts
from scrapy_simhash.judging.matching import Doubt, _are_called_alike
from scrapy_simhash.judging.slots import Slot, learn
from scrapy_simhash.judging.words import Page
from scrapy_simhash.pages.facts import NO_LINKS, Facts, Wording
from scrapy_simhash.pages.fingerprint import read_links
from tests.helpers.judging import judging, new_decision
from tests.helpers.pages import make_page, make_words
from tests.helpers.records import compare_pages


def make_refetches(most: int) -> Refetches:
    return Refetches(most, Hosts(recalls=False), lambda _: None)


def test_what_one_answer_did_not_confirm_is_not_asked_for_again() -> None:
    refetches = make_refetches(10)
    page = Page.make(Facts(b"-", 0, b""), Wording("a text"))
    one, other = Doubt(1, page), Doubt(2, page)

    def check(kept: Doubt) -> bool:
        due = refetches.takes_check(kept, "a.example/p", kept.document, confirmed=False)
        refetches.end(kept.document)
        return due

    assert [check(one), check(one), check(other), check(one)] == [True, False, True, False]


def doubt(number: int, url: str = "http://a.example/p/1", *, far: bool = False) -> Doubt:
    """Make a doubt about the page with a number."""
    return Doubt(number, Page.make(Facts(b"-", 0, b"", url), Wording("a text")), far=far)


def test_after_doubts_in_vain_the_next_ones_are_ever_rarer() -> None:
    refetches = make_refetches(10)
    asked = []
    for number in range(1, 40):
        if refetches.is_in_vain(doubt(number)):
            continue
        refetches.take(doubt(number))
        asked.append(number)
        if found := refetches.end(number):
            refetches.note(found, dropped=number == 12)
    # A drop came of the doubt about the twelfth page.
    assert asked == [1, 2, 3, 12, 13, 14, 15, 24]
    assert not refetches.is_in_vain(doubt(40, "http://a.example/other/one"))


def test_a_doubt_counts_once(tmp_path: Path) -> None:
    """Counted for the page itself, too, 96 pages on two hosts used up their folders."""
    html = make_page(make_words(3, 80), title="Board")
    with judging(tmp_path, refetch=10) as crawl:
        for number in range(10, 14):
            crawl.ask(f"t/{number}", f"{html}<p>{number} guests are here at this moment")
        assert (len(crawl.waits), len(crawl.refetches)) == (3, 1)
        assert {*crawl.judge._refetches._attempts.values()} == {1}


def test_what_is_not_asked_for_says_why() -> None:
    refetches = make_refetches(2)
    assert refetches.find_bar(doubt(1)) == ""
    for number in (1, 2):
        refetches.take(doubt(number))
    assert refetches.find_bar(doubt(1)) == ""  # it may answer this one, too
    for number in (1, 2):
        refetches.end(number)
    assert refetches.find_bar(doubt(1)).startswith("that page was asked for once more")
    assert refetches.find_bar(doubt(3)).startswith("SIMHASH_REFETCH asks for no more: it asked 2")
    for number in range(3, 11):
        refetches.take(doubt(number, f"http://{number}.example/"))
    bar = refetches.find_bar(doubt(11, "http://b.example/"))
    assert bar.startswith("SIMHASH_REFETCH asks for no more: 2% of the pages")
    last = doubt(12, "http://b.example/")
    assert refetches.takes_check(last, "b.example/p", 12, confirmed=False)
    assert refetches.find_bar(last) == "that page is being checked"


def test_pages_whose_addresses_name_other_documents_leave_doubts_to_others() -> None:
    """A stranger's cars of one model had all ten doubts, and no copy was found."""
    refetches = make_refetches(10)
    for number in (1, 2, 3):
        assert refetches.find_bar(doubt(number, far=True)) == ""
        refetches.take(doubt(number, far=True))
        refetches.end(number)
    assert refetches.find_bar(doubt(4, far=True)).startswith(
        "SIMHASH_REFETCH asks for no more: it asked 10"
    )
    assert refetches.find_bar(doubt(4)) == ""


def test_hosts_are_counted_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_REMEMBERED", 10)
    refetches = make_refetches(10)
    for number in range(100):
        refetches.find_bar(doubt(number, f"http://{number}.example/"))
    assert len(refetches._attempts) <= 12


@pytest.mark.parametrize("dropped", [{1, 2, 3, 4}, {2}])
def test_doubts_of_which_drops_come_are_free(dropped: set[int]) -> None:
    """A slot counts once two pages showed it: the drop after the second pays for the first, too."""
    refetches, asked = make_refetches(2), []
    for number in range(1, 9):
        if refetches.find_bar(doubt(number)):
            break
        refetches.take(doubt(number))
        asked.append(number)
        if found := refetches.end(number):
            refetches.note(found, dropped=number in dropped)
    assert asked == [1, 2, 3, 4]


@pytest.mark.parametrize("kept", ["shop/kettle", "kettle?page=1", "mirror/shop/9/kettle"])
def test_addresses_of_one_document_come_first(kept: str) -> None:
    """Of two folders with pages of one name all doubts were had before copies came."""
    page = "http://a.example/shop/9/kettle" if "9" in kept else "http://a.example/shop/kettle"
    assert _are_called_alike(page, f"http://a.example/{kept}")
    assert not _are_called_alike(page, "http://a.example/tools/8/kettles")


def test_a_folder_that_is_looked_at_often_leaves_some_to_others() -> None:
    refetches, bars = make_refetches(1), []
    for number, folder in enumerate("a" * 30 + "b" * 30 + "c" * 30):
        bars.append(refetches.find_bar(doubt(number + 1, f"http://a.example/{folder}/x")) == "")
    assert (sum(bars[:30]), sum(bars[30:60]), sum(bars[60:])) == (25, 25, 0)


def test_what_a_page_confirms_counts_whether_it_is_fast_or_not() -> None:
    """The original may lack it; and a check that confirms something is free."""
    refetches = make_refetches(10)
    first, answer = (
        Page.make(Facts(b"-", 0, b""), Wording(f"the text of one page\nseen {n} times here"))
        for n in (12, 13)
    )
    sought = learn(first, answer)
    assert refetches.takes_check(Doubt(7, first, (*sought,)), "/p", 8, confirmed=False)
    if asked := refetches.end(7):
        assert not refetches.learn(asked, answer)
    for fast in (set[Slot](), {each.slot for each in sought}):
        assert list(refetches.list_confirmed("/p", sought, fast)) == sought
    assert not refetches._checks.total()


def test_a_check_fails_so_far_once_its_page_is_asked_for_again() -> None:
    """Pages whose drops rest on it wait then, whatever was confirmed before."""
    refetches, place = make_refetches(10), "a.example/p"
    page = Page.make(Facts(b"-", 0, b""), Wording("a text"))
    assert refetches.find_checked(place) == (0, False)
    assert refetches.takes_check(Doubt(7, page), place, 7, confirmed=True)
    assert refetches.find_checked(place) == (7, False)
    asked = refetches.end(7)
    assert asked is not None
    assert refetches._ask_once_more(asked, page, 0.0, 5)
    assert refetches.find_checked(place) == (7, True)
    refetches.end(7)
    assert refetches.find_checked(place) == (0, False)


def test_links_that_came_or_are_on_kept_pages_are_not_new() -> None:
    table, url = LinkTable(), "http://a.example/"
    table.add(read_links(["kept"], url), "")
    table.note(new_decision(f"{url}came"), NO_LINKS, "")
    assert table.measure_new(read_links(["kept", "came", "new", "newer"], url), "") == 0.5


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


def test_where_no_more_is_asked_for_a_crawl_says_so() -> None:
    found = count(["41"])
    decision = new_decision("http://a.example/", parted_by="41")
    decision.nearest_tests = [f"{STAYS}{ASKS_NO_MORE}it asked 10 times here of which no drop came"]
    found.add(decision)
    said = "at every fetch, and a higher SIMHASH_REFETCH finds more of it (1): scrapy simhash"
    assert said in found.describe()


def test_a_crawl_of_many_kinds_is_counted_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    one = count(["41"]).describe()
    assert one.startswith(
        "1 page that looks like another one; first to differ: '41'; SIMHASH_IGNORE "
    )
    monkeypatch.setattr(summary, "_MOST_KINDS", 20)
    found = count([f"word{chr(97 + n // 26)}{chr(97 + n % 26)}" for n in range(99)] + ["wordab"])
    said = "100 pages that look like another one; first to differ: 'wordab' (2), 'wordaa' (1) and "
    assert found.describe().startswith(f"{said}others; ")
    listed = found.list_kinds()
    assert [each["pages"] for each in listed] == [2] + [1] * 9
    where = {"url": "http://a.example/1", "like": "http://a.example/first", "why": ""}
    assert listed[0] == {"pages": 2, "words": "wordab", **where}
