"""Requests that are owed: parked by URL rules, or to links that only dropped pages had.

::

    parked      8-byte key of a rule + digest of spider and identity -> Parked
    released    the digest alone -> Parked: requested again by the next idle crawl of its spider
    links       digest of an address -> Link, of dropped pages only

A parked row stays until its request was made and its page is in the store (`unpark`). Whoever hands
it to a crawl writes that id into it, so that no other one makes the request while that one runs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import xxhash
from msgspec import structs

from scrapy_simhash.judging.documents import State
from scrapy_simhash.judging.judge import counts
from scrapy_simhash.judging.rows import Link, Parked, pack_row, read_rows
from scrapy_simhash.pages.links import digest_link
from scrapy_simhash.stores.keyvalues import LINKS, cut
from scrapy_simhash.stores.records import octets
from scrapy_simhash.stores.rulebook import (
    Asked,
    KnownPage,
    find_known_page,
    find_stand_in,
    list_acting,
)
from scrapy_simhash.urls.applying import ActingRules

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from scrapy_simhash.stores.documents import Documents

# Some 700 MB at 700 bytes a request. Beyond, requests are made instead.
MOST_PARKED = 1_000_000
# A hundred thousand take 20 to 30 MB.
MOST_LINKS = 100_000
RULE_BYTES = 8
_ROWS_PER_CALL = 512


class Parking(NamedTuple):
    """A request that a crawl asks to park.

    Attributes:
        parked: the request; `rule`, `others`, `target` and `identity` are filled in.
        asked: where rules lead it.
        only_ask: park nothing, only tell what would be done.
    """

    parked: Parked
    asked: Asked
    only_ask: bool = False


class ParkingAnswer(NamedTuple):
    """Whether a request was parked.

    Attributes:
        reason: "" if it was parked. Else make it, because of a reason of `KnownPage`, or
            `unpackable` (it could not be made later), `full` (a million requests are parked), or
            `unavailable` (the store cannot be written).
        page: that stands for its own.
        key: of the parked request, for `unpark`; b"" if nothing was parked.
    """

    reason: str
    page: KnownPage = KnownPage("")
    key: bytes = b""


@dataclass(slots=True)
class ParkingGroup:
    """What a transaction parks and unparks besides judging documents.

    Attributes:
        wanted: requests to park, see `park`.
        unparked: keys of requests that were made again.
        answers: one for each wanted request, once the transaction is on disk.
    """

    wanted: Sequence[Parking] = ()
    unparked: Sequence[bytes] = ()
    answers: list[ParkingAnswer] = field(default_factory=list)


class TakenRequest(NamedTuple):
    """A parked request that a crawl is to make; pass `key` to `unpark` when its page is there."""

    key: bytes
    parked: Parked


def make_key(parked: Parked, seed: int) -> bytes:
    """Make the key of a parked request."""
    # The seed is secret, so nobody can choose which addresses are checked first. Requests for one
    # URL may be several, for a request fingerprinter that looks at headers.
    name = parked.identity or parked.url.encode()
    digest = xxhash.xxh3_64_digest(parked.spider.encode() + b" " + name, seed)
    return bytes.fromhex(parked.rule) + digest


def settle_parking(
    stored: Documents, group: ParkingGroup | None, alive: Callable[[str], bool], seed: int
) -> list[ParkingAnswer]:
    """Do what a group asks for; returns the answers for those to be parked."""
    if group is None:
        return []
    unpark(stored, group.unparked)
    return park(stored, group.wanted, alive, seed)


def park(
    stored: Documents, wanted: Sequence[Parking], alive: Callable[[str], bool], seed: int
) -> list[ParkingAnswer]:
    """Park those requests that may be parked; returns one answer for each.

    A request may be parked if all rules that lead it to a target act, that target was delivered
    or is pending in a crawl that is alive, for the same reader, and is no sink,
    and the request is that of no document. At most a million requests are parked. A request
    of the same spider and identity takes the place of an earlier one.
    """
    rows = list_parking_keys(wanted, seed) if stored.remote else ()
    stored.prefetch_rows(rows, identities=[each.asked.identity for each in wanted])
    count = stored.count_rows("parked")
    answers = []
    for each in wanted:
        page = find_known_page(stored, each.asked, alive)
        reason = page.reason or "unpackable" * (not (each.only_ask or each.parked.request))
        answer = ParkingAnswer(reason, page)
        if not (reason or each.only_ask):
            row = _complete(each, page.document)
            key = make_key(row, seed)
            known = stored.get_row("parked", key) is not None
            if known or count < MOST_PARKED:
                answer = answer._replace(key=key)
                stored.put_row("parked", key, pack_row(key, row))
                count += not known
            else:
                answer = ParkingAnswer("full")
        answers.append(answer)
    return answers


def _complete(wanted: Parking, target: int) -> Parked:
    *others, rule = wanted.asked.rules
    identity = wanted.asked.identity
    return structs.replace(
        wanted.parked, rule=rule, others=tuple(others), target=target, taken="", identity=identity
    )


def list_parking_keys(wanted: Sequence[Parking], seed: int) -> list[tuple[str, bytes]]:
    """List the rows that parking will read, but for the documents of the targets."""
    rows: dict[tuple[str, bytes], None] = {}
    for each in wanted:
        rows["forms", each.asked.form] = rows["parked", make_key(_complete(each, 0), seed)] = None
        rows |= {("acting", bytes.fromhex(name)): None for name in each.asked.rules}
    return list(rows)


def _table_of(key: bytes) -> str:
    return "parked" if len(key) > RULE_BYTES else "released"


def unpark(stored: Documents, keys: Sequence[bytes]) -> None:
    """Forget requests that were made; those that are not there are skipped."""
    rows = [(_table_of(key), key) for key in keys]
    stored.prefetch_rows(
        rows + [("released", key[RULE_BYTES:]) for t, key in rows if t == "parked"]
    )
    for key in keys:
        table = _table_of(key)
        if table == "parked":
            # Its rule may have been retired after it was taken to be checked.
            stored.drop_row("released", key[RULE_BYTES:])
        stored.drop_row(table, key)


def scan_parked(
    stored: Documents, table: str = "parked", prefix: bytes = b""
) -> Iterator[tuple[bytes, Parked]]:
    """Read the undamaged rows of `parked` or `released` whose keys begin so."""
    return read_rows(Parked, stored.scan_rows(table, prefix))


def list_wrong(
    stored: Documents, alive: Callable[[str], bool], keys: Collection[bytes] | None = None
) -> tuple[list[bytes], list[bytes]]:
    """List the requests to be made after all, and those whose target is pending."""
    # Because a rule does not act any more, or the target was deleted or never delivered. Looks at
    # all parked requests, or at those with these keys.
    acting = ActingRules(list_acting(stored))
    wrong: list[bytes] = []
    pending: list[bytes] = []
    rows = scan_parked(stored) if keys is None else _get_rows(stored, "parked", keys)
    for some in cut(rows, _ROWS_PER_CALL):
        stored.prefetch_rows((), records=[parked.target for _, parked in some])
        for key, parked in some:
            rules = (*parked.others, parked.rule)
            original = find_stand_in(stored, acting, parked.url, rules, parked.target)
            if original is None or not (original.delivered or counts(original, alive)):
                wrong.append(key)
            elif original.state == State.PENDING:
                pending.append(key)
    return wrong, pending


def _get_rows(
    stored: Documents, table: str, keys: Collection[bytes]
) -> Iterator[tuple[bytes, Parked]]:
    """Read the undamaged rows with these keys."""
    stored.prefetch_rows((table, key) for key in keys)
    yield from read_rows(Parked, ((key, stored.get_row(table, key)) for key in keys))


def release(stored: Documents, keys: Collection[bytes]) -> int:
    """Let parked requests be made again; returns how many of these there were."""
    released = 0
    for key, parked in _get_rows(stored, "parked", keys):
        digest = key[RULE_BYTES:]
        stored.put_row("released", digest, pack_row(digest, parked))
        stored.drop_row("parked", key)
        released += 1
    return released


def put_released(stored: Documents, requests: Sequence[Parked], seed: int) -> None:
    """Take over requests that another store parked; those that are there stay as they are."""
    rows = {make_key(parked, seed)[RULE_BYTES:]: parked for parked in requests}
    stored.prefetch_rows(("released", digest) for digest in rows)
    for digest, parked in rows.items():
        if stored.get_row("released", digest) is None:
            row = structs.replace(parked, taken="")
            stored.put_row("released", digest, pack_row(digest, row))


def list_released(
    stored: Documents, alive: Callable[[str], bool], crawl: str, spider: str, most: int
) -> list[bytes]:
    """List the keys of released requests that a crawl did not get yet, see `Store.take_parked`."""
    # A row of another spider is not decoded, unless it has this one's name somewhere else.
    name = spider.encode()
    rows = ((key, packed) for key, packed in stored.scan_rows("released", b"") if name in packed)
    read = read_rows(Parked, rows)
    free = (key for key, parked in read if _is_free(parked, alive, crawl, spider))
    return list(islice(free, most))


def take_released(
    stored: Documents, alive: Callable[[str], bool], crawl: str, spider: str, keys: Sequence[bytes]
) -> list[TakenRequest]:
    """Hand released requests over to a crawl, those that it can still get."""
    rows = _get_rows(stored, "released", keys)
    return _take(stored, rows, alive, crawl, spider, len(keys))


def _is_free(parked: Parked, alive: Callable[[str], bool], crawl: str, spider: str) -> bool:
    """Whether a crawl may get a request: it has not, and no other running crawl answers for it."""
    owner = parked.taken or parked.crawl
    mine = parked.spider == spider and parked.taken != crawl
    return mine and (owner == crawl or not alive(owner))


def _take(
    stored: Documents,
    rows: Iterable[tuple[bytes, Parked]],
    alive: Callable[[str], bool],
    crawl: str,
    spider: str,
    most: int,
) -> list[TakenRequest]:
    """Hand requests over to a crawl, as far as it may get them."""
    taken: list[TakenRequest] = []
    for key, parked in rows:
        if len(taken) == most:
            break
        if _is_free(parked, alive, crawl, spider):
            taken.append(TakenRequest(key, structs.replace(parked, taken=crawl)))
    stored.prefetch_rows((_table_of(key), key) for key, _ in taken)
    for key, parked in taken:
        table = _table_of(key)
        if stored.get_row(table, key) is not None:  # or else another process is done with it
            stored.put_row(table, key, pack_row(key, parked))
    return taken


def take_chosen(
    stored: Documents, alive: Callable[[str], bool], crawl: str, spider: str, keys: Sequence[bytes]
) -> list[TakenRequest]:
    """Hand some parked requests over to a crawl, see `Store.take_chosen`."""
    rows = _get_rows(stored, "parked", keys)
    return _take(stored, rows, alive, crawl, spider, len(keys))


def keep_links(stored: Documents, links: Collection[Link], gone: Collection[str]) -> int:
    """Forget the links that are gone, and keep others, unless kept before or the table is full."""
    # Returns how many did not fit.
    keys = {link.url: _key_link(link.url) for link in links}
    stored.prefetch_rows((LINKS, key) for key in (*keys.values(), *map(_key_link, gone)))
    for url in gone:
        stored.drop_row(LINKS, _key_link(url))
    left = MOST_LINKS - stored.count_rows(LINKS)
    missed = 0
    for link in links:
        key = keys[link.url]
        if stored.get_row(LINKS, key) is not None:
            continue
        if left > 0:
            stored.put_row(LINKS, key, pack_row(key, link))
        missed += left <= 0
        left -= 1
    return missed


def list_links(stored: Documents, spider: str | None) -> Iterator[Link]:
    """List the links of a spider, or all; damaged rows are left out."""
    for _, link in read_rows(Link, stored.scan_rows(LINKS)):
        if spider in {None, link.spider}:
            yield link


def _key_link(url: str) -> bytes:
    return octets(digest_link(url))
