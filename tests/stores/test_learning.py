"""URL rules are learned inside the transactions of every kind of store, at few round trips."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from scrapy_simhash.judging import Document
from scrapy_simhash.judging.urls.book import VERSION, Entry, HostRow, host_key
from scrapy_simhash.judging.urls.learner import Fetched, UrlLearning
from scrapy_simhash.judging.urls.records import (
    RuleKind,
    RuleState,
    UrlRule,
    pack_row,
    parse_rule,
)
from scrapy_simhash.stores import Store, open_store
from scrapy_simhash.stores.redis.server import Server
from tests.helpers.documents import CRAWL, begin_crawl
from tests.helpers.urlrules import make_facts

STORE_KINDS = ("lmdb", "redis", "cluster")
RULE = parse_rule("site.example drop-parameter sid")
SITE = "http://site.example"


@pytest.fixture
def store(home: str) -> Iterator[Store]:
    with begin_crawl(home, distance=7, confirm=0.8) as store:
        yield store
        assert store.check() == []


def make_page(path: str, sid: int, name: str = "") -> Document:
    """Make a page of 200 words, which is that of its path whatever the session."""
    url = f"{SITE}/{path}" + (f"?sid={sid}" if sid else "")
    facts = make_facts(name or path)
    return Document(identity=url.encode()[-64:], url=url, crawl=CRAWL, time=1.0 + sid, **facts)


def judge(store: Store, *pages: Document, learns: bool = True) -> list[str]:
    learning = UrlLearning(0.9, {page.identity: Fetched("parse") for page in pages})
    verdicts = store.find_and_add(pages, crawl=CRAWL, urls=learning if learns else None)
    store.mark_done([verdict.document for verdict in verdicts], CRAWL)
    return [verdict.status for verdict in verdicts]


def make_group(number: int, sid: int) -> list[Document]:
    return [make_page(f"{number % 4}/page-{number}-{each}", sid) for each in range(8)]


def teach(store: Store) -> None:
    """Show 32 pages under two addresses each."""
    for number in range(4):
        judge(store, *make_group(number, 0))
        judge(store, *make_group(number, number + 1))


def state_of_rule(store: Store) -> RuleState | None:
    record = store.get_url_rule(RULE.id)
    return None if record is None else record.state


def test_a_rule_is_learned_acts_and_is_retired(store: Store) -> None:
    teach(store)
    record = store.get_url_rule(RULE.id)
    assert record
    assert (record.state, record.different) == (RuleState.ACTING, 0)
    assert record.same >= 25
    assert store.list_acting_rules() == (store.url_rules_version(), [RULE])
    assert store.rules_version == store.url_rules_version() > 0
    # A page that is another one under another session.
    judge(store, *make_group(9, 0))
    judge(store, make_page("1/page-9-0", 99, "another"))
    assert state_of_rule(store) is RuleState.RETIRED
    assert [change.state for change in store.rule_changes] == [RuleState.RETIRED]
    assert store.list_acting_rules()[1] == []


def test_what_one_process_learned_another_one_knows(home: str) -> None:
    with begin_crawl(home, distance=7, confirm=0.8) as store:
        teach(store)
        with open_store(home, distance=7, confirm=0.8) as other:
            judge(other, *make_group(5, 0))
            judge(other, *make_group(5, 3))
            assert state_of_rule(other) is RuleState.ACTING
            other.change_url_rule(RULE.id, "retire")
        judge(store, *make_group(6, 0))
        assert store.list_acting_rules() == (store.rules_version, [])
    with open_store(home, distance=7, confirm=0.8, readonly=True) as reader:
        before = reader.url_rules()
        judge_only = UrlLearning(0.9, {})
        reader.find_and_add(make_group(7, 0), urls=judge_only)
        assert reader.url_rules() == before


def spoil(store: Store, table: str, key: bytes, row: bytes) -> None:
    store.write(lambda stored: stored.put_row(table, key, row))


def make_broken_row() -> bytes:
    """Make the row of a host as it would be after a fault: a rule that names nothing."""
    broken = UrlRule(RuleKind.DROP_PARAMETER, RULE.host)
    row = HostRow(RULE.host, [Entry(broken, RuleState.LEARNING, 1.0)])
    return pack_row(host_key(RULE.host), row)


@pytest.mark.parametrize(
    ("row", "told"),
    [
        pytest.param(b"damaged", "damaged hostrow at key", id="damaged"),
        pytest.param(make_broken_row(), "IndexError", id="broken"),
    ],
)
def test_learning_that_fails_costs_no_page_its_judgement(home: str, row: bytes, told: str) -> None:
    with begin_crawl(home, distance=7, confirm=0.8) as store:
        teach(store)
        assert judge(store, *make_group(9, 0)) == ["new"] * 8
        spoil(store, "hosts", host_key(RULE.host), row)
        assert judge(store, *make_group(9, 1)) == ["near_duplicate"] * 8
        assert len(store.learning_errors) == 8
        assert told in store.learning_errors[0]
        assert judge(store, *make_group(8, 0)) == ["new"] * 8
        # Who names the row finds it, and who mends it learns again.
        assert any("hostrow" in text or "unknown" in text for text in store.check())
        if row == b"damaged":
            assert store.rebuild()["url_rows_dropped"] == 1
            judge(store, *make_group(7, 0), *make_group(7, 1))
            assert store.learning_errors == []
            assert store.check() == []


def test_a_damaged_version_fails_no_commit(home: str) -> None:
    with begin_crawl(home, distance=7, confirm=0.8) as store:
        teach(store)
        before = store.url_rules_version()
        spoil(store, "meta", VERSION, b"damaged")
        seen = store.url_rules_version()
        assert seen not in {before, before + 1}  # so that every process reads the rules again
        assert judge(store, *make_group(9, 0)) == ["new"] * 8
        assert (store.learning_errors, store.rules_version) == ([], seen)
        assert store.check() == ["table meta: damaged _key at key 76657273696f6e: checksum differs"]
        judge(store, make_page("1/page-9-0", 99, "another"))
        assert state_of_rule(store) is RuleState.RETIRED
        assert store.rules_version == seen + 1
        assert store.check() == []


def test_rules_that_act_but_cannot_be_read_or_applied_are_left_out(home: str) -> None:
    broken = UrlRule(RuleKind.DROP_PARAMETER, RULE.host)
    with begin_crawl(home, distance=7, confirm=0.8) as store:
        teach(store)
        spoil(store, "meta", b"acting" + b"a" * 8, b"damaged")
        key = b"acting" + broken.key
        spoil(store, "meta", key, pack_row(key, broken))
        assert store.list_acting_rules()[1] == [RULE]


@pytest.fixture
def trips(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Counts round trips of this thread, not those of leases; tests set it back."""
    counted = [0]
    run = Server.run

    def count(self: Server, *arguments: Any, **options: Any) -> list[Any]:
        counted[0] += threading.current_thread() is threading.main_thread()
        return run(self, *arguments, **options)

    monkeypatch.setattr(Server, "run", count)
    return counted


def test_pages_of_the_past_vote_in_a_few_round_trips(store: Store, trips: list[int]) -> None:
    """A rule is born after a hundred pages, half of which it changes."""
    pages = [make_page(f"{n % 4}/p{n}", sid, f"{n} {sid}") for n in range(50) for sid in (0, 1)]
    for start in range(0, 100, 10):
        judge(store, *pages[start : start + 10])
    judge(store, make_page("0/p0", 9, "0 1"))
    assert store.url_rules() == []
    trips[0] = 0
    page = make_page("1/p1", 9, "1 1")
    learning = UrlLearning(0.9, {page.identity: Fetched("parse")})
    store.find_and_add([page], crawl=CRAWL, urls=learning)
    record = store.get_url_rule(RULE.id)
    assert record
    assert record.different >= 50
    assert trips[0] <= 20


def test_a_group_takes_three_round_trips_and_learning_one_more(
    store: Store, request: pytest.FixtureRequest, trips: list[int]
) -> None:
    kind = request.node.callspec.params["home"]
    teach(store)
    told = {}
    for number, learns in ((10, False), (11, True)):
        for sid in (3, 0, 1, 2):
            group = make_group(number, sid)
            trips[0] = 0
            learning = UrlLearning(0.9, {page.identity: Fetched("parse") for page in group})
            store.find_and_add(group, crawl=CRAWL, urls=learning if learns else None)
            told[learns, sid] = trips[0]
    most = {"lmdb": 0, "redis": 3, "cluster": 6}[kind]
    for (learns, _), counted in told.items():
        assert counted <= most + (learns and kind != "lmdb"), told
