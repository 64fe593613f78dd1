"""Parked requests: which may be parked, who gets them back and when; on every kind of store."""

from collections import Counter
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from msgspec import structs

from scrapy_simhash.errors import StoreUnavailableError
from scrapy_simhash.judging.comparison import Outcome
from scrapy_simhash.judging.documents import Reader
from scrapy_simhash.judging.rows import Link
from scrapy_simhash.judging.rule import Rule
from scrapy_simhash.judging.sinks import WITNESSES, Siblings, note_address
from scrapy_simhash.stores.documents import Documents
from scrapy_simhash.stores.opening import open_store
from scrapy_simhash.stores.parking import ParkingGroup, TakenRequest
from scrapy_simhash.stores.records import octets
from scrapy_simhash.stores.rulebook import Sample, get_rule, set_state
from scrapy_simhash.stores.store import Store
from scrapy_simhash.urls.rules import RuleState, parse_rule
from tests.helpers.documents import CRAWL, begin_crawl, document
from tests.helpers.parking import (
    OTHER_RULE,
    RULE,
    SITE,
    add_target,
    make_parking,
    note,
    park_requests,
    pin,
    read_keys,
    read_rule,
    unpark,
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
    return sorted(each.parked.url for each in store.take_parked(crawl, spider))


def urls(*sids: int, path: str = "a") -> list[str]:
    return [f"{SITE}/{path}?sid={sid}" for sid in sids]


def counted(store: Store) -> tuple[int, int]:
    """How many requests the rule says it parks, and the bytes that these saved."""
    record = read_rule(store, RULE)
    return record.parked, record.bytes_saved


def test_a_request_is_parked_with_all_that_it_takes_to_make_it(acting: Store) -> None:
    (answer,) = park_requests(acting, make_parking("a", 7))
    assert answer[:4] == ("", RULE.id, 1, f"{SITE}/a")
    (parked,) = acting.parked()
    assert parked.url == f"{SITE}/a?sid=7"
    assert (parked.rule, parked.target) == (RULE.id, 1)
    assert (parked.request, parked.spider, parked.crawl) == (b"request", "spider", CRAWL)
    assert counted(acting) == (1, 100)
    assert list(acting.parked(RULE.id)) == [parked]
    assert list(acting.parked(OTHER_RULE.id)) == []
    assert take(acting) == []


def test_requests_for_one_url_may_be_several(acting: Store) -> None:
    """As for a request fingerprinter that looks at the language asked for."""
    german = make_parking("a")
    french = german._replace(identity=b"french")
    assert [each.reason for each in park_requests(acting, german, french)] == ["", ""]
    assert counted(acting) == (2, 200)
    acting.release_parked()
    assert take(acting) == urls(1, 1)


def test_what_may_not_be_parked_is_refused_with_its_reason(acting: Store) -> None:
    wanted = make_parking("a")
    own = document("own", B)
    acting.find_and_add([own])
    refused = {
        "known": wanted._replace(identity=own.identity),
        "no_target": make_parking("nothing"),
        "callback": wanted._replace(reader=Reader("spider", "parse_other")),
        # Noted when other rules acted.
        "no_target ": wanted._replace(leads=str.upper),
        "expired": wanted._replace(not_before=1.0),
        "unproven": make_parking("a", rules=(OTHER_RULE, RULE)),
        "unpackable": wanted._replace(parked=structs.replace(wanted.parked, request=b"")),
    }
    answers = park_requests(acting, *refused.values())
    assert [answer.reason for answer in answers] == [reason.strip() for reason in refused]
    assert list(acting.parked()) == []
    assert counted(acting) == (0, 0)


@pytest.mark.parametrize("document", [0, 2], ids=["not judged", "another page"])
def test_a_sample_retires_its_rule_and_releases_what_that_parked(
    acting: Store, document: int
) -> None:
    def prove(stored: Documents) -> None:
        record = get_rule(stored, RULE.id)
        assert record
        set_state(stored, record, RuleState.ACTING, "proven", 1.0)

    acting.write(prove)
    assert add_target(acting, "b", B) == 2
    assert park(acting, 1, 2) == ["", ""]
    assert take(acting) == []
    sample = Sample((RULE.id,), f"{SITE}/a?sid=3", 1, document)
    outcome, (change,) = acting.check_sample(sample)
    assert outcome is Outcome.DIFFERENT
    assert (change.rule, change.state) == (RULE.id, RuleState.RETIRED)
    assert take(acting) == urls(1, 2)
    assert park(acting, 4) == ["unproven"]
    assert acting.check() == []


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
    monkeypatch.setattr("scrapy_simhash.stores.parking.MOST_PARKED", 2)
    assert park(acting, 1, 2, 3) == ["", "", "full"]
    assert park(acting, 2, 4) == ["", "full"]
    unpark(acting, *read_keys(acting, "parked")[:1])
    assert park(acting, 5, 6) == ["", "full"]
    assert counted(acting)[0] == 2


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
    assert counted(acting) == (0, 0)
    assert take(acting) == urls(1, 2, 3)
    assert park(acting, 5) == ["unproven"]
    assert [parked.url for parked in acting.parked(OTHER_RULE.id)] == urls(4)


def test_a_target_that_was_never_delivered_gives_its_requests_back(store: Store) -> None:
    pin(store, RULE)
    for path, fingerprint in (("a", A), ("b", B), ("c", C)):
        add_target(store, path, fingerprint)
        (answer,) = park_requests(store, make_parking(path))
        assert answer.pending
    assert take(store) == []
    store.mark_done([1], CRAWL)
    store.withdraw([2], CRAWL)
    assert take(store) == urls(1, path="b")
    assert take(store) == []


def test_requests_that_a_dead_crawl_parked_for_its_own_page_come_back(home: str) -> None:
    with begin_crawl(home) as store:
        pin(store, RULE)
        add_target(store, "a", A)
        add_target(store, "b", B)
        store.mark_done([2], CRAWL)
        assert park(store, 1) == [""]
        assert park(store, 1, path="b") == [""]
        store.end_crawl(CRAWL)
    with begin_crawl(home, "crawl-2") as store:
        assert take(store, "crawl-2") == urls(1)
        assert store.check() == []


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


def test_a_sample_has_some_of_each_rule(acting: Store) -> None:
    pin(acting, OTHER_RULE)
    park(acting, *range(100))
    park_requests(acting, *(make_parking("a", 100 + sid, rules=(OTHER_RULE,)) for sid in range(5)))
    park_requests(acting, make_parking("a", 200, spider="other"))

    def sample(share: float, most: int = 1_000) -> list[TakenRequest]:
        return acting.sample_parked(CRAWL, "spider", share, most)

    first = sample(0.1)
    of_rule = [each for each in first if each.parked.rule == RULE.id]
    assert 8 <= len(of_rule) <= 12
    assert len(first) - len(of_rule) == 3
    again = sample(0.1)
    assert not {each.key for each in first} & {each.key for each in again}
    assert len(sample(1.0, most=7)) == 7
    unpark(acting, *(each.key for each in first))
    assert counted(acting)[0] == 101 - len(of_rule)


def test_a_rule_that_parks_much_leaves_others_their_sample(acting: Store) -> None:
    others = [parse_rule(f"site.example drop-parameter p{number}") for number in range(4)]
    pin(acting, *others)
    park(acting, *range(200))
    for number, rule in enumerate(others):
        first = 1_000 * number + 300
        park_requests(acting, *(make_parking("a", first + n, rules=(rule,)) for n in range(4)))
    drawn = acting.sample_parked(CRAWL, "spider", 0.5, most=20)
    of_rules = Counter(each.parked.rule for each in drawn)
    assert of_rules == {RULE.id: 8} | {rule.id: 3 for rule in others}


def test_requests_of_other_spiders_are_passed_over(acting: Store) -> None:
    names = ("spider", "spider-2", "other")
    parked = [make_parking("a", sid, spider=names[sid % 3]) for sid in range(30)]
    park_requests(acting, *parked)
    acting.release_parked()
    acting.end_crawl(CRAWL)
    acting.start_crawl("crawl-2", "spider")
    assert take(acting, "crawl-2") == sorted(urls(*range(0, 30, 3)))
    assert take(acting, "crawl-2") == []
    assert len(list(acting.parked())) == 30


def test_a_sample_is_another_one_each_time(acting: Store) -> None:
    park(acting, *range(100))
    acting.end_crawl(CRAWL)
    samples = set()
    for number in range(20):
        crawl = f"crawl-{number + 2}"
        acting.start_crawl(crawl, "spider")
        drawn = acting.sample_parked(crawl, "spider", 0.05)
        acting.end_crawl(crawl)
        assert len(drawn) == 5
        samples.add(frozenset(each.key for each in drawn))
    assert len(samples) > 1


def test_a_sample_takes_one_round_trip_a_rule(
    acting: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = [parse_rule(f"site.example drop-parameter p{number}") for number in range(9)]
    pin(acting, *others)
    parked = [make_parking("a", sid, rules=(RULE,)) for sid in range(50)]
    parked += [make_parking("a", 99 + n, rules=(each,)) for n, each in enumerate(others)]
    assert {each.reason for each in park_requests(acting, *parked)} == {""}
    trips = count_trips(monkeypatch)
    assert len(acting.sample_parked(CRAWL, "spider", 0.1)) == 5 + 9
    assert trips[0] <= 20  # a rule takes one, and the transaction some


def test_to_take_many_requests_takes_few_round_trips(
    acting: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    park(acting, *range(100))
    acting.release_parked()
    assert take(acting) == sorted(urls(*range(100)))
    acting.end_crawl(CRAWL)
    acting.start_crawl("crawl-2", "spider")
    trips = count_trips(monkeypatch)
    taken = acting.take_parked("crawl-2", "spider", most=70)
    assert len(taken) == 70
    assert trips[0] <= 20
    trips[0] = 0
    unpark(acting, *(each.key for each in taken))
    assert trips[0] <= 20
    assert len(list(acting.parked())) == 30


def test_one_transaction_judges_and_parks(acting: Store) -> None:
    """A page that comes in the same group may be the target; its mark rides along."""
    add_target(acting, "b", B)
    group = ParkingGroup([make_parking("b"), make_parking("none")])
    verdicts = acting.find_and_add([document("c", C)], crawl=CRAWL, done=[2], parking=group)
    assert verdicts[0].status == "new"
    assert [(answer.reason, answer.pending) for answer in group.answers] == [
        ("", False),
        ("no_target", False),
    ]
    again = ParkingGroup([], [group.answers[0].key])
    acting.find_and_add([], parking=again)
    assert list(acting.parked()) == []


def test_a_read_only_store_parks_nothing(home: str) -> None:
    with begin_crawl(home) as store:
        pin(store, RULE)
        add_target(store, "a", A)
        store.mark_done([1], CRAWL)
        park(store, 1)
    with open_store(home, readonly=True) as store:
        assert park(store, 2) == []
        assert [parked.url for parked in store.parked()] == urls(1)
        assert [record.parked for record in store.url_rules()] == [1]
        assert store.list_acting_rules()[1] == [RULE]


def test_a_failed_write_parks_nothing(acting: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise StoreUnavailableError("full")

    monkeypatch.setattr("scrapy_simhash.stores.urlrules.read_version", fail)
    group = ParkingGroup([make_parking("a")])
    with suppress(StoreUnavailableError):
        acting.find_and_add([], parking=group)
    assert group.answers == []
    assert list(acting.parked()) == []


def make_link(name: str, spider: str = "docs", time: float = 1.0) -> Link:
    return Link(f"{SITE}/{name}", f"{SITE}/dropped", time, CRAWL, spider)


def test_a_store_keeps_links_within_a_bound(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scrapy_simhash.stores.parking.MOST_LINKS", 2)
    assert store.list_links() == []
    assert store.keep_links([make_link("a"), make_link("b", "news"), make_link("c")]) == 1
    # One that is there stays as it is, and takes no other's place.
    assert store.keep_links([make_link("a", "news", 9.0)]) == 0
    assert [link.url for link in store.list_links("docs")] == [f"{SITE}/a"]
    assert store.keep_links([make_link("c")], gone=[f"{SITE}/b", f"{SITE}/never"]) == 0
    assert [link.url for link in store.list_links()] == [f"{SITE}/a", f"{SITE}/c"]
    assert store.check() == []
    found = store.find_and_add([document("x", 5), document("y", 5)])
    assert [verdict.status for verdict in found] == ["new", "near_duplicate"]
    names = [b"x", b"y", b"z"]
    identities = [document(name.decode(), 5).identity for name in names]
    assert store.find_known(identities) == set(identities[:2])
