"""Rules that act, documents that they lead to, and requests to park, for the tests of stores."""

from collections.abc import Sequence
from functools import partial

from scrapy_simhash.judging.urls.acting import Target
from scrapy_simhash.judging.urls.book import Noted, write_form
from scrapy_simhash.judging.urls.records import (
    Form,
    Link,
    Parked,
    Sink,
    UrlRule,
    Witness,
    pack_row,
    parse_rule,
)
from scrapy_simhash.stores import Store
from scrapy_simhash.stores.documents import Documents, octets
from scrapy_simhash.stores.links import keep_links
from scrapy_simhash.stores.parking import Parking
from tests.helpers.documents import CRAWL, document

SITE = "http://site.example"
RULE = parse_rule("site.example drop-parameter sid")
OTHER_RULE = parse_rule("site.example drop-parameter print")


def pin(store: Store, *rules: UrlRule) -> None:
    """Let rules act."""
    store.add_url_rules(rules)
    for rule in rules:
        store.change_url_rule(rule.id, "pin")


def note(store: Store, name: str, number: int, callback: str = "parse") -> None:
    """Note which document is at the address of this name."""

    def work(stored: Documents) -> None:
        assert write_form(stored, b"", f"{SITE}/{name}", Noted(number, callback))

    store.write(work)


def add_target(store: Store, name: str, fingerprint: int, crawl: str = CRAWL) -> int:
    """Add a document with its address; its items are not there yet."""
    (verdict,) = store.find_and_add([document(name, fingerprint, crawl=crawl)])
    assert verdict.status == "new"
    note(store, name, verdict.document)
    return verdict.document


def make_parking(
    name: str,
    sid: int = 1,
    rules: Sequence[UrlRule] = (RULE,),
    spider: str = "spider",
    crawl: str = CRAWL,
) -> Parking:
    """Make a request that these rules lead to the page of a name."""
    url = f"{SITE}/{name}?sid={sid}"
    parked = Parked("", url, spider, crawl, 0, request=b"request", time=1.0, body_bytes=100)
    targets = (Target(f"{SITE}/{name}", tuple(rule.id for rule in rules)),)
    return Parking(parked, targets, b"identity of %s" % url.encode()[-40:], "parse")


def plant_rows(store: Store, target: int) -> None:
    """Write a row of every kind, which lead to a document."""
    pin(store, RULE)
    note(store, "a", target)
    answers = store.park([make_parking("a", 1), make_parking("a", 2)])
    assert [answer.reason for answer in answers] == ["", ""]
    assert store.release_parked(url=f"{SITE}/a?sid=2") == 1

    def work(stored: Documents) -> None:
        write_form(stored, RULE.key, f"{SITE}/a", Form(target, 2, "parse"))
        key = octets(target)
        stored.put_row("sinks", key, pack_row(key, Sink((Witness("h", "a", "b"),))))
        keep_links(stored, [Link("http://site.example/c")], ())

    store.write(work)


def read_keys(store: Store, table: str) -> list[bytes]:
    """List the keys of a table."""
    return store.read(partial(_list_keys, table))


def _list_keys(table: str, stored: Documents) -> list[bytes]:
    return sorted(key for key, _ in stored.scan_rows(table))
