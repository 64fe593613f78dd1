"""Which kept pages are asked for once more."""

from scrapy_simhash.judge.refetches import Refetches
from scrapy_simhash.judging.judge import Doubt
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
