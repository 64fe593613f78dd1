"""Parked requests: which may be parked, who gets them back and when; on every kind of store."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from scrapy_simhash.judging.documents import Reader
from scrapy_simhash.judging.rule import Rule
from scrapy_simhash.judging.sinks import WITNESSES, Siblings, note_address
from scrapy_simhash.stores.documents import Documents
from scrapy_simhash.stores.keyvalues import octets
from scrapy_simhash.stores.parking import park as park_all
from scrapy_simhash.stores.rulebook import KnownPage, Parking
from scrapy_simhash.stores.store import Store
from tests.helpers.documents import CRAWL, begin_crawl, document
from tests.helpers.owing import list_owed, release, take_owed
from tests.helpers.parking import (
    OTHER_RULE,
    RULE,
    SITE,
    add_target,
    forget_requests,
    make_parking,
    name,
    note,
    park_requests,
    pin,
    prove,
    read_keys,
)
from tests.helpers.redisservers import count_trips

A, B, C = 0x0123_4567_89AB_CDEF, 0xFEDC_BA98_7654_3210, 0x00FF_00FF_00FF_00FF


@pytest.fixture
def acting(store: Store) -> Store:
    """A store where a rule acts, and leads to document 1, which is done."""
    pin(store, RULE)
    assert add_target(store, "a", A) == 1
    store.mark_done([1], CRAWL)
    return store


def park(store: Store, *sids: int, path: str = "a") -> list[str]:
    return [
        answer.reason for answer in park_requests(store, *(make_parking(path, sid) for sid in sids))
    ]


def take(store: Store, crawl: str = CRAWL, spider: str = "spider") -> list[str]:
    return sorted(owed.url for _, owed in take_owed(store, crawl, spider))


def urls(*sids: int, path: str = "a") -> list[str]:
    return [f"{SITE}/{path}?sid={sid}" for sid in sids]


def test_a_request_is_parked_with_all_that_it_takes_to_make_it(acting: Store) -> None:
    (answer,) = park_requests(acting, make_parking("a", 7))
    assert answer._replace(key=b"") == KnownPage("", 1, f"{SITE}/a")
    (parked,) = list_owed(acting)
    assert parked.url == f"{SITE}/a?sid=7"
    assert (parked.rules, parked.page) == ((RULE.id,), 1)
    assert (parked.request, parked.spider, parked.crawl) == (b"request", "spider", CRAWL)
    assert acting.owed.count_parked() == {RULE.id: 1}
    assert list_owed(acting, rule=OTHER_RULE.id) == []
    assert take(acting) == []


def test_requests_for_one_url_may_be_several(acting: Store) -> None:
    """As for a request fingerprinter that looks at the language asked for."""
    german = make_parking("a")
    french = german._replace(owed=structs.replace(german.owed, identity=b"french"))
    assert [each.reason for each in park_requests(acting, german, french)] == ["", ""]
    release(acting)
    assert take(acting) == urls(1, 1)


def test_what_may_not_be_parked_is_refused_with_its_reason(acting: Store) -> None:
    wanted, own = make_parking("a"), document("own", B)
    acting.find_and_add([own])
    add_target(acting, "c", C)
    acting.mark_done([3], CRAWL)
    note(acting, "c", 3, OTHER_RULE)
    prove(acting, RULE)

    def ask(parking: Parking = wanted, **fields: Any) -> Parking:
        return parking._replace(owed=structs.replace(parking.owed, **fields))

    refused = {
        "known": ask(identity=own.identity),
        "no_target": make_parking("nothing"),
        # For another spider or callback; pages of this form that were not the same by this rule.
        "no_target ": wanted._replace(form=name("a", Reader("other", "parse"))),
        "no_target  ": make_parking("c"),
        "callback": ask(reader=Reader("spider", "parse_other")),
        "expired": wanted._replace(not_before=1.0),
        "unproven": make_parking("a", rules=(OTHER_RULE, RULE)),
        "unpackable": wanted._replace(owed=structs.replace(wanted.owed, request=b"")),
    }
    answers = park_requests(acting, *refused.values())
    assert [answer.reason for answer in answers] == [reason.strip() for reason in refused]
    assert list_owed(acting) == []


def test_a_near_duplicate_stands_for_its_original(acting: Store) -> None:
    """Its original was delivered; so its own address need not be asked for under other names."""
    (verdict,) = acting.find_and_add([document("twin", A ^ 1)])
    assert verdict.status == "near_duplicate"
    note(acting, "twin", verdict.document)
    assert park(acting, 1, path="twin") == [""]
    acting.end_crawl(CRAWL)
    acting.delete([1])
    acting.start_crawl("crawl-2", "spider")
    assert take(acting, "crawl-2") == urls(1, path="twin")


def test_beyond_the_bound_requests_are_made(acting: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scrapy_simhash.stores.owed.MOST_OWED", 2)
    assert park(acting, 1, 2, 3) == ["", "", "full"]
    assert park(acting, 2, 4) == ["", "full"]
    forget_requests(acting, *read_keys(acting, "owed")[:1])
    assert park(acting, 5, 6) == ["", "full"]


@pytest.mark.parametrize("action", ["retire", "ban", "learn"])
def test_what_a_rule_parked_is_requested_again_when_it_acts_no_more(
    acting: Store, action: str
) -> None:
    pin(acting, OTHER_RULE)
    park(acting, 1, 2)
    chained = make_parking("a", 3, rules=(RULE, OTHER_RULE))
    other = make_parking("a", 4, rules=(OTHER_RULE,))
    assert [each.reason for each in park_requests(acting, chained, other)] == ["", ""]
    assert take(acting) == []
    acting.change_url_rule(RULE.id, action)  # type: ignore[arg-type]  # drawn
    assert take(acting) == [*urls(1, 2), f"{SITE}/a?sid=3&print=3"]
    assert park(acting, 5) == ["unproven"]
    assert take(acting) == []


def test_requests_for_a_document_that_became_a_wall_come_back(acting: Store) -> None:
    park(acting, 1)
    assert take(acting) == []
    siblings = Siblings(Rule(7, 0.8))
    for number in range(WITNESSES):
        page = document(f"other{number}", A)
        acting.write(partial(note_address, number=1, page=page, siblings=siblings))
    assert park(acting, 2) == ["sink"]
    assert take(acting) == urls(1)


def test_a_damaged_target_gives_its_requests_back_and_holds_up_no_others(
    tmp_path: Path,
) -> None:
    with begin_crawl(str(tmp_path / "store")) as store:
        pin(store, RULE)
        add_target(store, "a", A)
        park(store, 1)

        def spoil(stored: Documents) -> None:
            stored.values.put("documents", octets(1), b"spoilt")

        store.write(spoil)
        assert take(store) == urls(1)


def test_a_crawl_gets_the_requests_that_it_chooses_once_and_only_its_own(acting: Store) -> None:
    wanted = [make_parking("a", 1), make_parking("a", 2), make_parking("a", 3, spider="other")]
    keys = [each.key for each in park_requests(acting, *wanted)]
    chosen = [*keys[1:], b"k" * 16]
    assert acting.owed.take(CRAWL, "spider", chosen) == []  # none of them is due
    taken = acting.owed.take(CRAWL, "spider", chosen, check=True)
    assert [each.owed.url for each in taken] == urls(2)
    assert acting.owed.take(CRAWL, "spider", chosen, check=True) == []
    assert len(list_owed(acting)) == 3


def test_a_pinned_rule_stands_for_the_page_that_a_crawl_got_itself(acting: Store) -> None:
    add_target(acting, "b", B)
    acting.mark_done([2], CRAWL)
    wanted = make_parking("b", spider="other")
    wanted = wanted._replace(form=name("b", Reader("other", "parse")))
    known = wanted._replace(known=2)
    assert [each.reason for each in park_requests(acting, wanted, known)] == ["no_target", ""]
    prove(acting, RULE)
    assert [each.reason for each in park_requests(acting, wanted, known)] == ["no_target"] * 2


def test_requests_of_other_spiders_are_passed_over(acting: Store) -> None:
    names = ("spider", "spider-2", "other")
    parked = [make_parking("a", sid, spider=names[sid % 3]) for sid in range(30)]
    park_requests(acting, *parked)
    release(acting)
    acting.end_crawl(CRAWL)
    acting.start_crawl("crawl-2", "spider")
    assert take(acting, "crawl-2") == sorted(urls(*range(0, 30, 3)))
    assert take(acting, "crawl-2") == []
    assert len(list_owed(acting)) == 30


def test_to_take_many_requests_takes_few_round_trips(
    acting: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    park(acting, *range(100))
    release(acting)
    assert take(acting) == sorted(urls(*range(100)))
    acting.end_crawl(CRAWL)
    acting.start_crawl("crawl-2", "spider")
    trips = count_trips(monkeypatch)
    due = acting.owed.find_due("crawl-2", "spider").due
    taken = acting.owed.take("crawl-2", "spider", due[:70])
    assert len(taken) == 70
    assert trips[0] <= 20
    trips[0] = 0
    forget_requests(acting, *(each.key for each in taken))
    assert trips[0] <= 20
    assert len(list_owed(acting)) == 30


def test_one_transaction_judges_and_parks(acting: Store) -> None:
    """A page that comes in the same group may be the target; its mark rides along."""
    add_target(acting, "b", B)
    answers: list[KnownPage] = []

    def work(stored: Documents) -> None:
        answers[:] = park_all(stored, [make_parking("b"), make_parking("none")])

    verdicts = acting.find_and_add([document("c", C)], crawl=CRAWL, done=[2], works=[work])
    assert verdicts[0].status == "new"
    assert [(answer.reason, answer.pending) for answer in answers] == [
        ("", False),
        ("no_target", False),
    ]
    forget_requests(acting, answers[0].key)
    assert list_owed(acting) == []
