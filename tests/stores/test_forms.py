"""Normal forms that no rule needs any more are swept, on every kind of store."""

import time
from collections.abc import Callable
from functools import partial

import pytest

from scrapy_simhash.judging.documents import Record
from scrapy_simhash.judging.urls.book import (
    Noted,
    forget_rule,
    get_rule,
    put_rule,
    write_form,
)
from scrapy_simhash.judging.urls.records import Form, UrlRule
from scrapy_simhash.stores import Store
from scrapy_simhash.stores.documents import Documents
from tests.helpers.documents import CRAWL, document
from tests.helpers.parking import OTHER_RULE, RULE, SITE, note, read_keys

STORE_KINDS = ("lmdb", "redis", "cluster")


@pytest.fixture
def noted(store: Store) -> Store:
    """A store with two rules and two pages; each page is noted, also under both rules."""
    store.add_url_rules([RULE, OTHER_RULE])
    store.find_and_add([document("a", 1), document("b", 2**63 - 1)])
    store.mark_done([1, 2], CRAWL)
    store.end_crawl(CRAWL)
    for number, name in ((1, "a"), (2, "b")):
        note(store, name, number)
        for rule in (RULE, OTHER_RULE):
            store.write(partial(note_form, rule=rule, name=name, number=number))
    return store


def note_form(stored: Documents, rule: UrlRule, name: str, number: int) -> None:
    write_form(stored, rule.key, f"{SITE}/{name}", Form(number, 2, "parse"))


def list_forms(store: Store) -> list[str]:
    """List which rules the rows are of."""
    names = {RULE.key: "rule", OTHER_RULE.key: "other", bytes(8): "address"}
    return sorted(names[key[:8]] for key in read_keys(store, "forms"))


def make_older(stored: Documents) -> None:
    """Make a rule retired 40 days ago."""
    record = get_rule(stored, RULE.id)
    assert record
    *others, (_, state, reason) = record.history
    record.history = (*others, (time.time() - 40 * 86_400, state, reason))
    put_rule(stored, record)


ALL = ["address"] * 2 + ["other"] * 2 + ["rule"] * 2


def test_what_is_needed_stays(noted: Store) -> None:
    assert noted.sweep_url_forms() == 0
    noted.change_url_rule(RULE.id, "pin")
    noted.change_url_rule(OTHER_RULE.id, "retire")  # it may be proven again
    assert noted.sweep_url_forms() == 0
    assert list_forms(noted) == ALL


def test_the_forms_of_a_rule_that_is_gone_are_swept(noted: Store) -> None:
    noted.write(partial(forget_rule, rule=RULE))
    assert noted.sweep_url_forms() == 2
    assert list_forms(noted) == ["address"] * 2 + ["other"] * 2
    noted.change_url_rule(OTHER_RULE.id, "ban")
    assert noted.sweep_url_forms() == 2
    assert list_forms(noted) == ["address"] * 2  # the host has a rule, though a banned one
    noted.write(partial(forget_rule, rule=OTHER_RULE))
    assert noted.sweep_url_forms() == 2
    assert list_forms(noted) == []
    assert noted.check() == []


def test_the_forms_of_a_rule_that_was_retired_long_ago_are_swept(noted: Store) -> None:
    noted.change_url_rule(RULE.id, "retire")
    noted.write(make_older)
    assert noted.sweep_url_forms() == 2
    assert list_forms(noted) == ["address"] * 2 + ["other"] * 2


def test_the_forms_of_deleted_documents_are_swept(noted: Store) -> None:
    led_to = Noted(2, "parse", RULE.key)
    noted.write(lambda stored: write_form(stored, b"", f"{SITE}/b", led_to, is_there=True))
    noted.delete([1, 2])
    assert noted.sweep_url_forms() == 5
    # It knows which rule leads there, should the page be fetched again.
    assert list_forms(noted) == ["address"]


def test_few_of_them_are_read_at_once(noted: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A transaction keeps what it reads, on Redis in memory."""
    monkeypatch.setattr("scrapy_simhash.stores.urlrules._REQUESTS_PER_GROUP", 2)
    noted.write(partial(forget_rule, rule=RULE))
    read = noted.read
    counts: list[int] = []

    def count_records(work: Callable[[Documents], object]) -> object:
        def counting(stored: Documents) -> object:
            counts.append(0)
            get = stored.get

            def get_counted(number: int) -> Record | None:
                counts[-1] += 1
                return get(number)

            monkeypatch.setattr(stored, "get", get_counted)
            return work(stored)

        return read(counting)

    monkeypatch.setattr(noted, "read", count_records)
    assert noted.sweep_url_forms() == 2
    assert list_forms(noted) == ["address"] * 2 + ["other"] * 2
    assert sum(counts) == 6
    assert max(counts) == 2


def test_what_is_damaged_stays(noted: Store) -> None:
    noted.write(lambda stored: stored.put_row("forms", RULE.key + b"damaged.", b"damaged"))
    noted.write(partial(forget_rule, rule=RULE))
    assert noted.sweep_url_forms() == 2
    assert noted.rebuild()["url_rows_dropped"] == 1
