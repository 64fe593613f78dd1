"""Sinks: documents to which addresses of unlike normal forms lead.

A login page, a "not found" page that answers 200, a consent page, a captcha: whatever a crawl asks
for, it gets this page. Its near-duplicates are pages that the crawl did not get, and say nothing
about their addresses. It is a sink on the hosts that proved it: what other sites show under their
addresses says nothing of a page.

One document may well have many addresses. Rules on addresses (the room `urls`) explain how these
differ: in parameters, in the host, in any segment of the path but the last one. What all of them
leave of an address is its form, and two addresses of a host are unlike if their forms differ. A
parameter explains nothing where it led to other documents before.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from contextlib import suppress
from functools import partial
from struct import Struct
from typing import TYPE_CHECKING
from urllib.parse import unquote

from scrapy_simhash.errors import DamagedError
from scrapy_simhash.judging.comparison import Outcome, compare_pages
from scrapy_simhash.judging.rows import Sink, Witness, pack_row, unpack_row
from scrapy_simhash.pages.addresses import INDEX, SESSION, parse_address, split_pair

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scrapy_simhash.judging.documents import Document, PageFacts
    from scrapy_simhash.judging.interface import Documents, Reading
    from scrapy_simhash.judging.rule import Rule
    from scrapy_simhash.pages.addresses import Address

# A document to which so many unlike addresses of one host lead is a sink. Of 123 documents with
# several addresses in two labelled corpora, 3 have two that are unlike, and none has more; nor has
# one of the 71 in the example crawl, whose two walls have 5 and 14.
WITNESSES = 5
# A document of many hosts keeps witnesses of some of them.
_MOST_WITNESSES = 4 * WITNESSES
# Some 4 MB.
_MOST_SIBLINGS = 2**14
_MOST_PARAMETERS = 8
_TABLE = "sinks"
_key_of = Struct(">Q").pack


def _add_witness(sink: Sink, witness: Witness, time: float) -> bool:
    """Add an address if it is unlike all others; returns whether it was."""
    if any((each.host, each.form) == (witness.host, witness.form) for each in sink.witnesses):
        return False
    sink.witnesses = (*sink.witnesses, witness)
    hosts = _count_hosts(sink)
    if len(sink.witnesses) > _MOST_WITNESSES:
        # Of articles on many sites each has one address; a wall gathers them on one host.
        rarest = min(hosts, key=hosts.__getitem__)
        oldest = next(each for each in sink.witnesses if each.host == rarest)
        sink.witnesses = tuple(each for each in sink.witnesses if each is not oldest)
    if sink.since is None and hosts[witness.host] >= WITNESSES:
        sink.since = time
    return True


def _count_hosts(sink: Sink) -> Counter[str]:
    return Counter(witness.host for witness in sink.witnesses)


class Siblings:
    """Remembers documents whose addresses differ in one parameter: those of the last new pages.

    Args:
        rule: by which two documents are compared.
    """

    # In memory: a wall that begins while a crawl runs is before pages that this crawl has seen.

    def __init__(self, rule: Rule) -> None:
        self._rule = rule
        self._found: OrderedDict[int, tuple[int, ...]] = OrderedDict()

    def add(self, url: str, number: int) -> None:
        """Note a new document."""
        address = parse_address(url)
        if address is None or not 0 < len(address.query) <= _MOST_PARAMETERS:
            return
        for pair in address.query:
            key = _key_without(address, pair)
            found = self._found.pop(key, ())
            if number not in found and len(found) < WITNESSES:
                found = (*found, number)
            self._found[key] = found
        while len(self._found) > _MOST_SIBLINGS:
            self._found.popitem(last=False)

    def matters(self, documents: Reading, page: PageFacts, address: Address, pair: str) -> bool:
        """Whether another value of a parameter led to five documents that are unlike a page."""
        found = self._found.get(_key_without(address, pair), ())
        if len(found) < WITNESSES:
            return False
        records = [record for number in found if (record := documents.get(number)) is not None]
        return len(records) == WITNESSES and all(
            compare_pages(page, record, self._rule) is Outcome.DIFFERENT for record in records
        )


def _key_without(address: Address, pair: str) -> int:
    """Make a key of an address without the value of one of its parameters."""
    others = tuple(each for each in address.query if each != pair)
    return hash((address.host, address.path, others, split_pair(pair)[0]))


def find_witness(
    page: PageFacts, requested: str = "", matters: Callable[[Address, str], bool] | None = None
) -> Witness | None:
    """Make a witness of the address of a page; None if no rule may judge the address.

    Args:
        page: its `canonical` address, unless that is a home page, stands for its own; but the host
            is the one requested, because a page may name any other.
        requested: the address from which it was redirected, if it was.
        matters: whether a parameter (`name=value`) of an address is known to lead to other
            documents; then it belongs to the form.
    """
    url = requested or page.url
    own, address = parse_address(url), parse_address(page.canonical)
    if own is None:
        return None
    if address is None or address.path == ("",):  # many sites name their home page everywhere
        address = own
    form = _find_name(address.path)
    if matters is not None:
        form += "".join(f"?{pair}" for pair in address.query if matters(address, pair))
    return Witness(url, own.host, form)


def _find_name(path: tuple[str, ...]) -> str:
    """Find the last segment of a path that names something, in lower case.

    >>> _find_name(("a", "b", "index.html")), _find_name(("a", "B;sid=1", "")), _find_name(("x=1",))
    ('b', 'b', '')
    """
    for segment in reversed(path):
        name = unquote(segment.partition(";")[0]).lower()
        # What has a value is a parameter, wherever it stands.
        if (
            name
            and "=" not in name
            and not INDEX.fullmatch(name)
            and not SESSION.fullmatch(segment)
        ):
            return name
    return ""


def get_sink(documents: Reading, number: int) -> Sink | None:
    """Read what is known of a document; None if no unlike addresses lead to it."""
    key = _key_of(number)
    row = documents.get_row(_TABLE, key)
    if row is not None:
        with suppress(DamagedError):  # `check` lists it; the page is judged all the same
            return unpack_row(Sink, key, row)
    return None


def is_sink(documents: Reading, number: int, page: Document | None = None) -> bool:
    """Whether a document is a sink on the host of a requested page; without one, on any."""
    sink = get_sink(documents, number)
    if sink is None or sink.since is None:
        return False
    return page is None or _ends(sink, page)


def _ends(sink: Sink, page: Document) -> bool:
    address = parse_address(page.requested or page.url)
    return address is not None and _count_hosts(sink)[address.host] >= WITNESSES


def note_address(documents: Documents, number: int, page: Document, siblings: Siblings) -> bool:
    """Note the address of a near-duplicate of a document; returns whether it ended at a sink."""
    sink = get_sink(documents, number)
    if sink is not None and _ends(sink, page):
        return True
    matters = partial(siblings.matters, documents, page)
    witness = find_witness(page, page.requested, matters)
    if witness is None:
        return False
    if sink is None:
        original = documents.get(number)
        first = None if original is None else find_witness(original, matters=matters)
        sink = Sink(() if first is None else (first,))
    if not _add_witness(sink, witness, page.time):
        return False
    key = _key_of(number)
    documents.put_row(_TABLE, key, pack_row(key, sink))
    return _ends(sink, page)


def list_sinks(documents: Documents) -> Iterator[tuple[int, Sink]]:
    """Read all documents that are sinks, with the addresses that proved it, in no order."""
    for key, row in documents.scan_rows(_TABLE):
        sink = unpack_row(Sink, key, row)
        if sink.since is not None:
            hosts = _count_hosts(sink)
            proofs = (each for each in sink.witnesses if hosts[each.host] >= WITNESSES)
            sink.witnesses = tuple(proofs)
            yield int.from_bytes(key, "big"), sink


def forget_sink(documents: Documents, number: int) -> None:
    """Forget what is known of a document, which has another text now or is deleted."""
    documents.drop_row(_TABLE, _key_of(number))
