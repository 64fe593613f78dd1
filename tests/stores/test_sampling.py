"""What a page says of the rules that would have spared its request."""

from typing import Any

import pytest
from msgspec import structs

from scrapy_simhash.judging.comparison import STALE_SECONDS, Outcome
from scrapy_simhash.judging.documents import Document, Record, State, facts_of
from scrapy_simhash.judging.rows import Sink, Witness, pack_row
from scrapy_simhash.stores.keyvalues import octets
from scrapy_simhash.stores.rulebook import Sample, add_rules, check_sample, get_rule, put_rule
from scrapy_simhash.urls.rules import RuleState, UrlRuleRecord, parse_rule
from tests.helpers.urlrules import RULE, make_facts, make_rows

SID = parse_rule("a.example drop-parameter sid")
URL = "http://a.example/x"
SAMPLE = Sample((SID.id,), f"{URL}?sid=1", 1, 2)


def make_record(name: str, url: str, **facts: Any) -> Record:
    document = Document(identity=url.encode(), **{**make_facts(name), "url": url, **facts})
    return Record(**facts_of(document), state=State.DONE, delivered=True, crawl="c", first_time=0.0)


class _Store:
    """A store with a rule that acts and its known page, and the page of a sample."""

    def __init__(self, name: str, state: RuleState = RuleState.ACTING, **facts: Any) -> None:
        self.documents = make_rows()
        self.documents.put(1, make_record("a", URL))
        self.documents.put(2, make_record(name, SAMPLE.url, **facts))
        (record,) = add_rules(self.documents, [SID], 1.0)
        record.become(state, "test", 1.0)
        put_rule(self.documents, record)

    def check(self, **changes: Any) -> Outcome | None:
        return check_sample(self.documents, SAMPLE._replace(**changes), RULE, 9.0)[0]

    @property
    def record(self) -> UrlRuleRecord:
        record = get_rule(self.documents, SID.id)
        assert record
        return record


STUB: dict[str, Any] = {"stub": True, "sketch": b"", "words": 3}


@pytest.mark.parametrize(
    ("name", "facts", "outcome"),
    [
        ("a~1", {}, Outcome.SAME),
        ("a~9", {}, Outcome.GREY),
        ("a~45", {}, Outcome.GREY),
        ("b", {}, Outcome.DIFFERENT),
        ("b", STUB, Outcome.DIFFERENT),
        ("b", {"time": STALE_SECONDS + 1.0}, Outcome.GREY),
        ("b", STUB | {"time": STALE_SECONDS + 1.0}, Outcome.GREY),
    ],
)
def test_a_sample_votes(name: str, facts: dict[str, Any], outcome: Outcome) -> None:
    store = _Store(name, **facts)
    assert store.check() == outcome
    record = store.record
    assert record.acts == (outcome is not Outcome.DIFFERENT)
    assert (record.sampled, record.sampled_same) == (1, outcome is Outcome.SAME)
    assert record.sampled_different == (outcome is Outcome.DIFFERENT)
    assert record.conflicts == (((SAMPLE.url, URL),) if record.sampled_different else ())


def test_a_redirect_must_lead_to_the_same_page() -> None:
    assert _Store("a~1").check(redirected=True) is Outcome.SAME
    assert _Store("a~45").check(redirected=True) is Outcome.DIFFERENT
    assert _Store("a").check(document=1, redirected=True) is Outcome.SAME


@pytest.mark.parametrize(("share", "outcome"), [(0.4, Outcome.SAME), (0.5, Outcome.DIFFERENT)])
def test_mostly_new_links_are_another_page(share: float, outcome: Outcome) -> None:
    store = _Store("a")
    twin = structs.replace(make_record("a", SAMPLE.url), state=State.DUPLICATE, original=1)
    store.documents.put(2, twin)
    assert store.check(new_links=share) is outcome


def test_short_pages_are_compared_exactly() -> None:
    store = _Store("b", **STUB)
    for number in (1, 2):
        facts = {**STUB, "fingerprints": (7,)}
        store.documents.put(number, make_record("s", f"{URL}{number}", **facts))
    assert store.check() is Outcome.SAME


def test_nobody_can_tell() -> None:
    store = _Store("b")
    assert store.check(target=3) is None
    assert store.check(document=3) is None
    key = octets(2)
    wall = Sink(tuple(Witness(f"u{each}", "a.example", f"f{each}") for each in range(3)))
    store.documents.put_row("sinks", key, pack_row(key, wall))
    assert store.check() is None
    assert store.record.sampled == 0


@pytest.mark.parametrize("state", [RuleState.BANNED, RuleState.PINNED])
def test_what_a_person_decided_holds(state: RuleState) -> None:
    store = _Store("b", state)
    _, changes = check_sample(store.documents, SAMPLE, RULE, 9.0)
    assert store.record.state is state
    assert store.record.sampled_different == len(changes) == (state is RuleState.PINNED)


def test_a_rule_whose_samples_nobody_can_tell_apart_is_retired() -> None:
    store = _Store("a~45")
    assert [store.check() for _ in range(10)] == [Outcome.GREY] * 10
    assert store.record.acts
    assert store.check() is Outcome.GREY
    assert store.record.state is RuleState.RETIRED
    assert "11 samples are undecided, and 0 are the same" in store.record.history[-1][2]


def test_all_rules_of_a_chain_are_retired() -> None:
    store = _Store("b")
    (other,) = add_rules(store.documents, [parse_rule("a.example strip-slash")], 1.0)
    other.state = RuleState.ACTING
    put_rule(store.documents, other)
    _, changes = check_sample(
        store.documents, SAMPLE._replace(rules=(SID.id, other.rule.id)), RULE, 9.0
    )
    assert [change.state for change in changes] == [RuleState.RETIRED] * 2
