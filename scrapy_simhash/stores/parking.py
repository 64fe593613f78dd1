"""Requests that are owed: parked by URL rules, or to links that only dropped pages had.

::

    parked      8-byte key of a rule + digest of spider and identity -> Parked
    released    the digest alone -> Parked: requested again by the next idle crawl of its spider
    links       digest of an address -> Link, of dropped pages only

A parked row stays until its request was made and its page is in the store (`unpark`). Whoever hands
it to a crawl writes that id into it, so that no other one makes the request while that one runs.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import xxhash
from msgspec import structs

from scrapy_simhash.errors import DamagedError
from scrapy_simhash.judging.documents import Record, State
from scrapy_simhash.judging.judge import counts, get_sound, was_delivered
from scrapy_simhash.judging.rows import Link, Parked, pack_row, read_rows
from scrapy_simhash.judging.sinks import is_sink
from scrapy_simhash.pages.links import digest_link
from scrapy_simhash.stores.keyvalues import LINKS, cut
from scrapy_simhash.stores.records import octets
from scrapy_simhash.stores.rulebook import find_form, get_rule, list_acting, put_rule

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from scrapy_simhash.judging.documents import Reader
    from scrapy_simhash.stores.documents import Documents
    from scrapy_simhash.urls.applying import Target
    from scrapy_simhash.urls.rules import UrlRuleRecord


# Some 700 MB at 700 bytes a request. Beyond, requests are made instead.
MOST_PARKED = 1_000_000
# A hundred thousand take 20 to 30 MB.
MOST_LINKS = 100_000
RULE_BYTES = 8
# A near-duplicate's original may have become a near-duplicate itself; such chains are short.
_MOST_ORIGINALS = 8
# Fewer checks of a rule would tell nothing.
_LEAST_SAMPLED = 3
# Some of those that are drawn are another spider's, or were handed out before.
_DRAWN_PER_SAMPLE = 4
_ROWS_PER_CALL = 512


class Parking(NamedTuple):
    """A request that a crawl asks to park.

    Attributes:
        parked: the request; `rule`, `others`, `target` and `identity` are filled in.
        target: where the acting rules lead it.
        form: name of that normal form, for its callback.
        leads: makes the normal form of an address: rules may have changed since a page was noted.
        identity: of the request, as of documents.
        reader: who is to get it, as the page there.
        not_before: seconds since 1970, UTC; what was last fetched before then spares no request.
        only_ask: park nothing, only tell what would be done.
    """

    parked: Parked
    target: Target
    form: bytes
    leads: Callable[[str], str]
    identity: bytes
    reader: Reader
    not_before: float = 0.0
    only_ask: bool = False


class ParkingAnswer(NamedTuple):
    """Whether a request was parked.

    Attributes:
        reason: "" if it was parked. Else make it, because: `known` (its page is a document, and no
            near-duplicate), `unpackable` (it could not be made later), `unproven` (a rule does not
            act any more), `no_target` (nothing with this normal form was fetched), `not_delivered`,
            `expired`, `sink`, `callback` (of another one), `full` (a million requests are parked),
            `unavailable` (the store cannot be written).
        rule: id of the rule, 16 hex digits, or "".
        document: number of the target, or 0.
        url: of the target, or "".
        key: of the parked request, for `unpark`; b"" if nothing was parked.
        pending: the target is pending.
        others: ids of the other rules that it takes to get to the target.
    """

    reason: str
    rule: str = ""
    document: int = 0
    url: str = ""
    key: bytes = b""
    pending: bool = False
    others: tuple[str, ...] = ()


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


def _find_original(stored: Documents, number: int, record: Record) -> tuple[int, Record | None]:
    """Find the document whose items stand for a document: itself, or its original's original."""
    found: Record | None = record
    for _ in range(_MOST_ORIGINALS):
        if found is None or found.state != State.DUPLICATE:
            return number, found
        number = found.original
        found = stored.get(number) if number else None
    return number, None


def _find_page(stored: Documents, target: int) -> Record | None:
    """Find the document whose items stand for a target; None where nothing does."""
    # It may have become a wall since then. A damaged one must not keep all others waiting.
    try:
        record = stored.get(target)
        number, original = _find_original(stored, target, record) if record else (0, None)
    except DamagedError:
        return None
    return None if any(is_sink(stored, each) for each in (target, number)) else original


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
    stored.prefetch_rows(rows, identities=[each.identity for each in wanted])
    count = stored.count_rows("parked")
    tally = _Tally(stored)
    answers = []
    for each in wanted:
        answer = _find_answer(stored, each, alive, tally)
        if not (answer.reason or each.only_ask):
            row = structs.replace(
                each.parked,
                rule=answer.rule,
                others=answer.others,
                target=answer.document,
                taken="",
                identity=each.identity,
            )
            key = make_key(row, seed)
            known = stored.get_row("parked", key) is not None
            if known or count < MOST_PARKED:
                answer = answer._replace(key=key)
                stored.put_row("parked", key, pack_row(key, row))
                if not known:
                    count += 1
                    tally.add(row, 1)
            else:
                answer = ParkingAnswer("full")
        answers.append(answer)
    tally.write()
    return answers


def list_parking_keys(wanted: Sequence[Parking], seed: int) -> list[tuple[str, bytes]]:
    """List the rows that parking will read, but for the documents of the targets."""
    rows: dict[tuple[str, bytes], None] = {}
    for each in wanted:
        row = structs.replace(each.parked, rule=each.target.rules[-1], identity=each.identity)
        rows["forms", each.form] = rows["parked", make_key(row, seed)] = None
        rows |= {("rules", bytes.fromhex(name)): None for name in each.target.rules}
    return list(rows)


def _find_answer(
    stored: Documents, parking: Parking, alive: Callable[[str], bool], tally: _Tally
) -> ParkingAnswer:
    """Find out whether a request may be parked, and for which page."""
    if _is_known(stored, parking.identity):
        return ParkingAnswer("known")
    if not all(tally.acts(rule) for rule in parking.target.rules):
        return ParkingAnswer("unproven")
    number = find_form(stored, parking.form)
    record = get_sound(stored, number) if number else None
    if record is None or parking.leads(record.url) != parking.target.form:
        return ParkingAnswer("no_target")
    # Of a near-duplicate its original tells whether it counts.
    kept, original = _find_original(stored, number, record)
    if any(is_sink(stored, found) for found in sorted({number, kept})):
        return ParkingAnswer("sink")
    if reason := _find_reason(record, original, parking, alive):
        return ParkingAnswer(reason)
    *others, rule = parking.target.rules
    return ParkingAnswer(
        reason="",
        rule=rule,
        document=number,
        url=record.url,
        pending=original is not None and not was_delivered(original, parking.reader),
        others=tuple(others),
    )


def _find_reason(
    record: Record, original: Record | None, parking: Parking, alive: Callable[[str], bool]
) -> str:
    """Find out why a page does not stand for a request; "" if it does."""
    if original is None or not counts(original, alive):
        return "not_delivered"
    if not counts(original, alive, parking.reader):
        return "callback"
    if record.time < parking.not_before:
        return "expired"
    return "" if parking.only_ask or parking.parked.request else "unpackable"


def _is_known(stored: Documents, identity: bytes) -> bool:
    """Whether a request brings a document that is no near-duplicate, or was taken for one."""
    # What an earlier crawl dropped as a near-duplicate need not be fetched by a later one.
    number = stored.find_number(identity)
    record = stored.get(number) if number is not None else None
    return record is not None and (record.state != State.DUPLICATE or record.spared)


def _get_rule(stored: Documents, rule: str) -> UrlRuleRecord | None:
    """Get a rule; None if it is missing or damaged, so that it does not act."""
    try:
        return get_rule(stored, rule)
    except DamagedError:
        return None


class _Tally:
    """The rules whose requests a transaction parks or takes out; each is read and written once."""

    def __init__(self, stored: Documents) -> None:
        self._stored = stored
        self._acts: dict[str, bool] = {}
        self._requests: Counter[str] = Counter()
        self._bytes: Counter[str] = Counter()

    def acts(self, rule: str) -> bool:
        """Whether a rule acts."""
        if rule not in self._acts:
            record = _get_rule(self._stored, rule)
            self._acts[rule] = record is not None and record.acts
        return self._acts[rule]

    def add(self, parked: Parked, number: int) -> None:
        """Count a request that was parked (1) or is not parked any more (-1)."""
        self._requests[parked.rule] += number
        self._bytes[parked.rule] += number * parked.body_bytes

    def write(self) -> None:
        """Add what was counted to the rules."""
        for rule, number in self._requests.items():
            record = _get_rule(self._stored, rule)
            if record is not None:
                record.parked = max(0, record.parked + number)
                record.bytes_saved = max(0, record.bytes_saved + self._bytes[rule])
                put_rule(self._stored, record)


def _table_of(key: bytes) -> str:
    return "parked" if len(key) > RULE_BYTES else "released"


def unpark(stored: Documents, keys: Sequence[bytes]) -> None:
    """Forget requests that were made; those that are not there are skipped."""
    rows = [(_table_of(key), key) for key in keys]
    stored.prefetch_rows(
        rows + [("released", key[RULE_BYTES:]) for t, key in rows if t == "parked"]
    )
    tally = _Tally(stored)
    for key in keys:
        table = _table_of(key)
        if table == "parked":
            for _, parked in read_rows(Parked, [(key, stored.get_row(table, key))]):
                tally.add(parked, -1)
            # Its rule may have been retired after it was taken to be checked.
            stored.drop_row("released", key[RULE_BYTES:])
        stored.drop_row(table, key)
    tally.write()


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
    tally = _Tally(stored)
    wrong: list[bytes] = []
    pending: list[bytes] = []
    rows = scan_parked(stored) if keys is None else _get_rows(stored, "parked", keys)
    for some in cut(rows, _ROWS_PER_CALL):
        stored.prefetch_rows(
            (("rules", bytes.fromhex(parked.rule)) for _, parked in some),
            records=[parked.target for _, parked in some],
        )
        for key, parked in some:
            acts = all(tally.acts(rule) for rule in (parked.rule, *parked.others))
            original = _find_page(stored, parked.target) if acts else None
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
    tally = _Tally(stored)
    released = 0
    for key, parked in _get_rows(stored, "parked", keys):
        digest = key[RULE_BYTES:]
        stored.put_row("released", digest, pack_row(digest, parked))
        stored.drop_row("parked", key)
        tally.add(parked, -1)
        released += 1
    tally.write()
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


def sample(
    stored: Documents,
    alive: Callable[[str], bool],
    crawl: str,
    spider: str,
    share: float,
    most: int,
) -> list[TakenRequest]:
    """Hand a sample of what each rule parked over to a crawl, see `Store.sample_parked`."""
    acting = list_acting(stored)
    stored.prefetch_rows(("rules", rule.key) for rule in acting)
    records = (_get_rule(stored, rule.id) for rule in acting)
    wanted = {
        record.rule.key: max(_LEAST_SAMPLED, round(share * record.parked))
        for record in records
        if record is not None and record.parked
    }
    taken: list[TakenRequest] = []
    # The smallest first: what these do not take of their part is left for the others.
    for place, key in enumerate(sorted(wanted, key=wanted.__getitem__)):
        part = min(wanted[key], math.ceil((most - len(taken)) / (len(wanted) - place)))
        keys = stored.draw_keys("parked", key, _DRAWN_PER_SAMPLE * part)
        taken += _take(stored, _get_rows(stored, "parked", keys), alive, crawl, spider, part)
    return taken


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
