"""URL rules are learned from what every kind of store keeps, and requests find their pages."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from scrapy_simhash.judging.documents import Document, Reader
from scrapy_simhash.judging.rows import VERSION, pack_row
from scrapy_simhash.stores.documents import Documents
from scrapy_simhash.stores.keyvalues import DOCUMENTS, octets
from scrapy_simhash.stores.opening import open_store
from scrapy_simhash.stores.rulebook import find_form
from scrapy_simhash.stores.store import Store
from scrapy_simhash.urls.applying import ActingRules, name_form
from scrapy_simhash.urls.rules import ActingRule, RuleKind, RuleState, UrlRule, parse_rule
from tests.helpers.documents import CRAWL, READER, begin_crawl
from tests.helpers.parking import read_rule
from tests.helpers.urlrules import make_facts

RULE = parse_rule("site.example drop-parameter sid")
SITE = "http://site.example"


@pytest.fixture
def store(home: str) -> Iterator[Store]:
    with begin_crawl(home, distance=7, confirm=0.8) as store:
        yield store
        assert store.check() == []


def make_page(path: str, sid: int, text: str = "", **fields: Any) -> Document:
    """Make a page of 200 words, which is that of its path whatever the session."""
    url = f"{SITE}/{path}" + (f"?sid={sid}" if sid else "")
    facts = {
        **make_facts(text or path),
        "url": url,
        "time": 1.0 + sid,
        "reader": READER,
    } | fields
    return Document(identity=facts["url"].encode()[-64:], crawl=CRAWL, **facts)


def judge(store: Store, *pages: Document) -> list[str]:
    verdicts = store.find_and_add(pages, crawl=CRAWL)
    store.mark_done([verdict.document for verdict in verdicts], CRAWL)
    return [verdict.status for verdict in verdicts]


def show(store: Store, pages: int = 32) -> None:
    """Show pages under two addresses each."""
    for sid in (0, 1):
        group = (make_page(f"{page % 4}/p{page}", sid and page + 1) for page in range(pages))
        judge(store, *group)


def spoil(store: Store, table: str, key: bytes, row: bytes) -> None:
    store.write(lambda stored: stored.put_row(table, key, row))


def find(store: Store, path: str, reader: Reader = READER) -> int:
    """Find the document that requests find, unless it was deleted."""
    number = store.read(partial(find_form, name=name_form(f"{SITE}/{path}", reader))).document
    return number if number and store.get_document(number) else 0


def test_a_rule_is_learned_acts_and_is_retired(store: Store) -> None:
    show(store)
    assert store.url_rules() == []
    (change,) = store.learn_url_rules()
    assert (change.text, change.acts) == (RULE.text, True)
    record = read_rule(store, RULE)
    assert (record.same, record.different, len(record.directories)) == (32, 0, 4)
    assert store.list_acting_rules()[1] == [ActingRule(RULE, record.directories)]
    # Pages whose form voted are found by it, for their spider and callback.
    assert find(store, "1/p1") == 2
    assert find(store, "none") == 0
    assert find(store, "1/p1", Reader("spider", "parse_item")) == 0
    assert find(store, "1/p1", Reader("other", "parse")) == 0
    assert store.learn_url_rules() == []
    judge(store, *(make_page(f"{page % 4}/p{page}", 99, f"another {page}") for page in range(32)))
    (change,) = store.learn_url_rules()
    assert change.state is RuleState.LEARNING
    assert store.list_acting_rules()[1] == []


def test_a_form_whose_pages_differ_stands_for_none_any_more(store: Store) -> None:
    show(store, 48)
    store.learn_url_rules()
    assert find(store, "1/p1") == 2
    # A conflict of long ago does not speak against a directory.
    judge(store, make_page("1/p1", 99, "another"))
    more = [f"1/q{page}" for page in range(101)]
    for sid in (0, 1):
        judge(store, *(make_page(path, sid and 9 + n) for n, path in enumerate(more)))
    store.learn_url_rules()
    assert "/1/*" in read_rule(store, RULE).directories
    assert (find(store, "1/p1"), find(store, "1/p5") > 0) == (0, True)


def test_what_one_process_learned_another_one_knows(home: str) -> None:
    with begin_crawl(home, distance=7, confirm=0.8) as store:
        show(store)
        with open_store(home, distance=7, confirm=0.8) as other:
            other.learn_url_rules()
        assert [each.rule for each in store.list_acting_rules()[1]] == [RULE]
    with (
        open_store(home, distance=7, confirm=0.8, readonly=True) as reader,
        pytest.raises(ValueError, match="read-only"),
    ):
        reader.learn_url_rules()


def test_forms_of_deleted_documents_are_swept(store: Store) -> None:
    show(store)
    store.learn_url_rules()
    assert store.sweep_url_forms() == 0
    store.delete([1, 2])
    assert find(store, "1/p1") == 0
    assert store.sweep_url_forms() == 2
    assert store.sweep_url_forms() == 0


def test_rules_that_act_but_cannot_be_read_or_applied_are_left_out(store: Store) -> None:
    broken = UrlRule(RuleKind.DROP_PARAMETER, RULE.host)
    show(store)
    store.learn_url_rules()

    spoil(store, "acting", b"a" * 8, b"damaged")
    spoil(store, "acting", broken.key, pack_row(broken.key, ActingRule(broken)))
    assert [each.rule for each in store.list_acting_rules()[1]] == [RULE]
    assert len(store.check()) == 3
    store.rebuild()


def test_a_damaged_version_and_a_damaged_form_fail_no_commit(store: Store) -> None:
    show(store)
    store.learn_url_rules()
    before = store.list_acting_rules()[0]
    form = name_form(f"{SITE}/1/p1", READER)
    spoil(store, "acting", VERSION, b"damaged")
    spoil(store, "forms", form, b"damaged")
    seen = store.list_acting_rules()[0]
    assert seen not in {before, before + 1}  # so that every process reads the rules again
    assert len(store.check()) == 2
    assert find(store, "1/p1") == 0
    assert judge(store, make_page("1/p1", 77)) == ["near_duplicate"]
    store.learn_url_rules()
    assert find(store, "1/p1") == 2
    store.change_url_rule(RULE.id, "retire")
    assert store.list_acting_rules()[0] == seen + 1


def test_damaged_records_cost_only_their_votes(tmp_path: Path) -> None:
    with begin_crawl(str(tmp_path / "store"), distance=7, confirm=0.8) as store:
        show(store)

        def damage(stored: Documents) -> None:
            for number in (3, 64):
                stored.values.put(DOCUMENTS, octets(number), b"damaged")

        store.write(damage)
        assert store.measure_growth() == (0, 64)
        assert [change.text for change in store.learn_url_rules()] == [RULE.text]
        record = read_rule(store, RULE)
        assert record.same == 30


def test_a_site_is_a_registrable_domain(store: Store) -> None:
    """Pages of two hosts of one domain vote together, those of two domains do not."""
    for page in range(60):
        path = f"{page % 4}/p{page}"
        for host in ("a.co.uk", "m.a.co.uk", "b.co.uk"):
            judge(store, make_page(path, 0, url=f"http://{host}/{path}"))
    store.learn_url_rules()
    texts = [record.rule.text for record in store.url_rules() if record.acts]
    assert texts == ["m.a.co.uk host-alias a.co.uk"]
    acting = ActingRules(store.list_acting_rules()[1])
    form = acting.find_form("http://m.a.co.uk/1/p1")
    assert store.read(partial(find_form, name=name_form(form, READER))).document
