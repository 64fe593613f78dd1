"""Rules that act, documents that they lead to, and requests to park, for the tests of stores."""

from collections.abc import Sequence
from functools import partial

from scrapy_simhash.judging.documents import Reader
from scrapy_simhash.judging.rows import Owed, Sink, Why, Witness, pack_row
from scrapy_simhash.stores.documents import Documents
from scrapy_simhash.stores.keyvalues import octets
from scrapy_simhash.stores.owed import forget
from scrapy_simhash.stores.parking import park
from scrapy_simhash.stores.rulebook import (
    Form,
    KnownPage,
    Parking,
    get_rule,
    note_form,
    put_rule,
)
from scrapy_simhash.stores.store import Store
from scrapy_simhash.urls.applying import name_form
from scrapy_simhash.urls.rules import RuleState, UrlRule, UrlRuleRecord, parse_rule
from tests.helpers.documents import CRAWL, READER, document
from tests.helpers.owing import release

SITE = "http://site.example"
RULE = parse_rule("site.example drop-parameter sid")
OTHER_RULE = parse_rule("site.example drop-parameter print")


def pin(store: Store, *rules: UrlRule) -> None:
    """Let rules act."""
    store.add_url_rules(rules)
    for rule in rules:
        store.change_url_rule(rule.id, "pin")


def prove(store: Store, rule: UrlRule, *directories: str) -> None:
    """Let a rule act until a page speaks against it."""

    def work(stored: Documents) -> None:
        record = get_rule(stored, rule.id)
        assert record
        record.state, record.directories = RuleState.ACTING, directories or ("/*",)
        put_rule(stored, record)

    store.write(work)


def name(path: str, reader: Reader = READER) -> bytes:
    """Name the normal form of a page."""
    return name_form(f"{SITE}/{path}", reader)


def note(store: Store, path: str, number: int, *rules: UrlRule) -> None:
    """Note which document stands for the normal form of this path, under these rules."""
    ids = tuple(rule.id for rule in rules or (RULE, OTHER_RULE))
    store.write(lambda stored: note_form(stored, name(path), Form(number, ids)))


def add_target(store: Store, path: str, fingerprint: int, crawl: str = CRAWL) -> int:
    """Add a document with its address; its items are not there yet."""
    (verdict,) = store.find_and_add([document(path, fingerprint, crawl=crawl)])
    assert verdict.status == "new"
    note(store, path, verdict.document)
    return verdict.document


def make_parking(
    path: str,
    sid: int = 1,
    rules: Sequence[UrlRule] = (RULE,),
    spider: str = "spider",
    crawl: str = CRAWL,
) -> Parking:
    """Make a request that these rules lead to the page of a name."""
    query = "&".join(f"{rule.args[0]}={sid}" for rule in rules)
    url = f"{SITE}/{path}?{query}"
    *others, rule = [rule.id for rule in rules]
    owed = Owed(url, Why.PARKED, spider, crawl, request=b"request", time=1.0)
    owed.rules, owed.reader = (rule, *others), READER
    owed.identity = b"identity of %s" % url.encode()[-40:]
    return Parking(owed, name(path))


def park_requests(store: Store, *wanted: Parking) -> list[KnownPage]:
    """Park requests as a crawl does, in a commit of its own."""
    answers: list[KnownPage] = []
    store.find_and_add([], works=[partial(_park, wanted, answers)])
    return answers


def _park(wanted: Sequence[Parking], answers: list[KnownPage], stored: Documents) -> None:
    answers[:] = park(stored, wanted)


def forget_requests(store: Store, *keys: bytes) -> None:
    """Forget requests that were made, as a crawl does."""
    store.find_and_add([], works=[partial(forget, keys=keys)])


def read_rule(store: Store, rule: UrlRule) -> UrlRuleRecord:
    """Get a rule with its votes."""
    return next(record for record in store.url_rules() if record.rule == rule)


def plant_rows(store: Store, target: int) -> None:
    """Write a row of every kind, which lead to a document."""
    pin(store, RULE)
    note(store, "a", target)
    answers = park_requests(store, make_parking("a", 1), make_parking("a", 2))
    assert [answer.reason for answer in answers] == ["", ""]
    assert release(store, f"{SITE}/a?sid=2") == 1

    def work(stored: Documents) -> None:
        key = octets(target)
        stored.put_row("sinks", key, pack_row(key, Sink((Witness("h", "a", "b"),))))

    store.write(work)


def read_keys(store: Store, table: str) -> list[bytes]:
    """List the keys of a table."""
    return store.read(partial(_list_keys, table))


def _list_keys(table: str, stored: Documents) -> list[bytes]:
    return sorted(key for key, _ in stored.scan_rows(table))
