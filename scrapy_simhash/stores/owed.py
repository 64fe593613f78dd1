"""Requests that are owed: what a crawl did not get, or did not ask for, and may have to ask for.

A row of the table `owed` stays until its request was made and its page was delivered, or nobody
needs it any more. Whoever makes the request writes the id of its crawl into the row first, so that
no other crawl makes it while that one runs. `judging.judge` writes and drops the rows of lost
pages.
"""

from __future__ import annotations

from collections import Counter
from functools import cache, partial
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

import xxhash
from msgspec import structs

from scrapy_simhash.judging.documents import State, counts, was_delivered
from scrapy_simhash.judging.judge import get_sound
from scrapy_simhash.judging.rows import OWED, Owed, Why, pack_row, read_rows
from scrapy_simhash.pages.addresses import host_of
from scrapy_simhash.stores.keyvalues import cut

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from scrapy_simhash.stores.documents import Documents


Result = TypeVar("Result")
# Of all kinds; some 700 MB at 700 bytes a request. Beyond, only lost pages are noted.
MOST_OWED = 1_000_000
# A transaction that reads or writes so many requests takes some milliseconds.
_ROWS_PER_CALL = 512


class TakenRequest(NamedTuple):
    """A request that a crawl is to make; its row is forgotten by this key."""

    key: bytes
    owed: Owed


class ListedRequest(NamedTuple):
    """A request for people: whether the next crawl makes it, and the URL of the page there."""

    key: bytes
    owed: Owed
    due: bool
    url: str


def key_of(owed: Owed, seed: int) -> bytes:
    """Make the key of a request that a link leads to."""
    # The seed is secret, so nobody can choose which addresses are checked first. Requests for one
    # URL may be several, for a request fingerprinter that looks at headers.
    name = owed.identity or owed.url.encode()
    digest = xxhash.xxh3_64_digest(owed.spider.encode() + b" " + name, seed)
    return owed.why.letter + digest


def put(stored: Documents, rows: Sequence[Owed]) -> list[bytes]:
    """Note that requests are owed; returns their keys, b"" for those beyond the bound.

    One of the same spider and identity takes the place of an earlier one.
    """
    keys = [key_of(row, stored.seed) for row in rows]
    stored.prefetch_rows((OWED, key) for key in keys)
    left = MOST_OWED - stored.count_rows(OWED)
    for place, (key, row) in enumerate(zip(keys, rows, strict=True)):
        known = stored.get_row(OWED, key) is not None
        if known or left > 0:
            stored.put_row(OWED, key, pack_row(key, row))
            left -= not known
        else:
            keys[place] = b""
    return keys


def forget(stored: Documents, keys: Collection[bytes]) -> None:
    """Forget requests, because they were made or nobody needs them."""
    for key in keys:
        stored.drop_row(OWED, key)


def repack(stored: Documents, packed: Mapping[bytes, bytes]) -> None:
    """Note how to make requests, by their keys, as far as they are still owed."""
    for key, owed in list(read(stored, packed)):
        stored.put_row(OWED, key, pack_row(key, structs.replace(owed, request=packed[key])))


def read(stored: Documents, keys: Iterable[bytes]) -> Iterator[TakenRequest]:
    """Read the undamaged rows with these keys."""
    for some in cut(keys, _ROWS_PER_CALL):
        stored.prefetch_rows((OWED, key) for key in some)
        rows = read_rows(Owed, ((key, stored.get_row(OWED, key)) for key in some))
        yield from (TakenRequest(*row) for row in rows)


class Due:
    """Tells which requests have to be made now, in one transaction.

    Args:
        stored: the documents.
        ending: a crawl that is about to end, whose pending documents will never be delivered.
    """

    def __init__(self, stored: Documents, ending: str = "") -> None:
        self._stored = stored
        self.alive = cache(lambda crawl: crawl != ending and stored.alive(crawl))

    def __call__(self, owed: Owed) -> bool:
        """Whether what a request depends on does not hold, or a person wants it to be made."""
        if owed.released:
            return True
        if owed.why is Why.LOST:
            return not self._is_awaited(owed)
        return not self.is_spent(owed)

    def is_spent(self, owed: Owed) -> bool:
        """Whether the spider got the page of a link since that was found, for its callback."""
        if owed.why is not Why.LINK or not owed.identity:
            return False
        number = self._stored.find_number(owed.identity)
        record = get_sound(self._stored, number) if number else None
        if record is None or (record.crawl != owed.crawl and record.time < owed.time):
            return False
        if record.state == State.DUPLICATE:
            return owed.reader == record.reader
        return was_delivered(record, owed.reader)

    def _is_awaited(self, owed: Owed) -> bool:
        """Whether the original of a dropped page may still be delivered, with the same text."""
        original = get_sound(self._stored, owed.page)
        return (
            original is not None
            and original.text_digest == owed.text_digest
            and counts(original, self.alive, owed.reader)
        )

    def read_all(self, spider: str) -> Iterator[TakenRequest]:
        """Read all requests of a spider."""
        name = spider.encode()
        rows = ((key, row) for key, row in self._stored.scan_rows(OWED) if name in row)
        for some in cut(read_rows(Owed, rows), _ROWS_PER_CALL):
            self.prefetch(owed for _, owed in some)
            yield from (TakenRequest(*row) for row in some if row[1].spider == spider)

    def prefetch(self, rows: Iterable[Owed]) -> None:
        """Read ahead what tells of these requests."""
        rows = list(rows)
        self._stored.prefetch_rows(
            (),
            identities=[row.identity for row in rows if row.why is Why.LINK],
            records=[row.page for row in rows if row.page],
        )


def count_owed(stored: Documents) -> dict[str, int]:
    """Count all rows by why they are owed; of lost pages those whose original will not come."""
    counted, is_due = dict.fromkeys(map(str, Why), 0), Due(stored)
    for owed in (owed for _, owed in read_rows(Owed, stored.scan_rows(OWED))):
        counted[owed.why] += owed.why is not Why.LOST or is_due(owed)
    return counted


class Allowance(NamedTuple):
    """How many links a crawl may still make: in all, of a host, of some hosts; and except which."""

    in_all: int = 0
    of_host: int = 0
    of_hosts: Mapping[str, int] = {}
    left_out: Collection[bytes] = ()


class Found(NamedTuple):
    """Keys of requests: those that a crawl is to make, in order, and those that were made."""

    due: list[bytes]
    spent: list[bytes]


class _Transactions(Protocol):
    """A store."""

    def read(self, work: Callable[[Documents], Result]) -> Result: ...

    def write(self, work: Callable[[Documents], Result]) -> Result: ...


class OwedTable:
    """The requests that a store owes; each method takes transactions of its own."""

    def __init__(self, store: _Transactions) -> None:
        self._store = store

    def count(self) -> int:
        """Count all rows; reads none."""
        return self._store.read(lambda stored: stored.count_rows(OWED))

    def _list_keys(self, spider: str | None, prefix: bytes) -> list[bytes]:
        def work(stored: Documents) -> list[bytes]:
            name = (spider or "").encode()
            return [key for key, row in stored.scan_rows(OWED, prefix) if name in row]

        return self._store.read(work)

    def list_requests(
        self, spider: str | None = None, prefix: bytes = b""
    ) -> Iterator[ListedRequest]:
        """List the requests of a spider, or all, whose keys begin so; leaves out damaged ones.

        Reads their keys at once, 60 bytes each, and 512 of them in a transaction.
        """
        for keys in cut(self._list_keys(spider, prefix), _ROWS_PER_CALL):
            for found in self._store.read(partial(_describe, keys=keys)):
                if spider in {None, found.owed.spider}:
                    yield found

    def find_due(
        self, crawl: str, spider: str, links: Allowance | None = None, *, ending: bool = False
    ) -> Found:
        """Find the requests that a crawl of a spider has to make; reads all of that spider's.

        These are requests of this crawl and of crawls that ended, none of which this crawl took
        before.

        Args:
            crawl: id of the crawl.
            spider: its name; nobody else can make its requests.
            links: how many links may be requested; None for none.
            ending: the crawl is about to end, and what it did not deliver will not be.
        """

        def work(stored: Documents) -> Found:
            is_due = Due(stored, crawl if ending else "")
            found: dict[Why, list[bytes]] = {why: [] for why in Why}
            spent, budget = [], _Budget(links or Allowance())
            found_links: list[tuple[bool, bytes, str, bool]] = []
            for key, owed in is_due.read_all(spider):
                if not _is_free(owed, is_due.alive, crawl, spider):
                    continue
                if is_due.is_spent(owed):
                    spent.append(key)
                elif owed.why is not Why.LINK:
                    found[owed.why] += [key] if is_due(owed) else []
                elif owed.released or (links is not None and key not in links.left_out):
                    found_links.append((bool(owed.taken), key, host_of(owed.url), owed.released))
            # What an earlier crawl tried in vain must not keep others from their turn.
            found[Why.LINK] = [
                key for _, key, host, wanted in sorted(found_links) if wanted or budget.allows(host)
            ]
            return Found([key for why in Why for key in found[why]], spent)

        return self._store.read(work)

    def count_left(self, crawl: str, spider: str) -> Counter[str]:
        """Count what a crawl that is about to end leaves owed, of its spider's requests.

        Returns the numbers of `lost` pages, those `waiting` for what another running crawl is at
        work on, and those of a `link`. Reads all requests of the spider.
        """

        def work(stored: Documents) -> Counter[str]:
            is_due, left = Due(stored, crawl), Counter[str]()
            for _, owed in is_due.read_all(spider):
                if not is_due.alive(owed.taken or owed.crawl) and not is_due.is_spent(owed):
                    waits = owed.why is Why.LOST and not is_due(owed)
                    left["waiting" if waits else owed.why.value] += 1
            return left

        return self._store.read(work)

    def take(self, crawl: str, spider: str, keys: Sequence[bytes]) -> list[TakenRequest]:
        """Hand requests over to a crawl, as far as it may get them and still has to make them.

        Each is handed to a crawl once; a later crawl gets it unless it is forgotten. Returns them
        as they were.
        """

        def work(stored: Documents) -> list[TakenRequest]:
            is_due = Due(stored)
            rows = list(read(stored, keys))
            is_due.prefetch(owed for _, owed in rows)
            taken = [
                TakenRequest(key, owed)
                for key, owed in rows
                if _is_free(owed, stored.alive, crawl, spider) and is_due(owed)
            ]
            for key, owed in taken:
                stored.put_row(OWED, key, pack_row(key, structs.replace(owed, taken=crawl)))
            return taken

        return self._store.write(work) if keys else []

    def release(self, keys: Sequence[bytes]) -> int:
        """Have requests made by the next crawls of their spiders; returns how many there are."""
        return sum(
            self._store.write(partial(_release, keys=some)) for some in cut(keys, _ROWS_PER_CALL)
        )

    def forget(self, keys: Sequence[bytes]) -> None:
        """Forget requests, see `forget`."""
        for some in cut(keys, _ROWS_PER_CALL):
            self._store.write(partial(forget, keys=some))


def _describe(stored: Documents, keys: Sequence[bytes]) -> list[ListedRequest]:
    is_due, rows = Due(stored), list(read(stored, keys))
    is_due.prefetch(owed for _, owed in rows)
    pages = {owed.page: get_sound(stored, owed.page) for _, owed in rows if owed.page}
    urls = {number: page.url for number, page in pages.items() if page is not None}
    return [
        ListedRequest(
            key,
            owed,
            not stored.alive(owed.taken or owed.crawl) and is_due(owed),
            urls.get(owed.page, ""),
        )
        for key, owed in rows
    ]


def _release(stored: Documents, keys: Sequence[bytes]) -> int:
    found = list(read(stored, keys))
    for key, owed in found:
        released = structs.replace(owed, released=True, taken="")
        stored.put_row(OWED, key, pack_row(key, released))
    return len(found)


def _is_free(owed: Owed, alive: Callable[[str], bool], crawl: str, spider: str) -> bool:
    """Whether a crawl may get a request: it has not, and no other running crawl answers for it."""
    owner = owed.taken or owed.crawl
    mine = owed.spider == spider and owed.taken != crawl
    return mine and (owner == crawl or not alive(owner))


class _Budget:
    """Counts the links that are requested against an allowance."""

    def __init__(self, allowance: Allowance) -> None:
        self._allowance = allowance
        self._left = allowance.in_all
        self._of_hosts = Counter(allowance.of_hosts)

    def allows(self, host: str) -> bool:
        """Count a link, if it may be requested."""
        if self._left <= 0 or self._of_hosts[host] >= self._allowance.of_host:
            return False
        self._left -= 1
        self._of_hosts[host] += 1
        return True
