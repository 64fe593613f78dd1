"""Park requests: note that they are owed, because rules lead to a page that is known."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from msgspec import structs

from scrapy_simhash.judging.rows import OWED, Owed
from scrapy_simhash.stores.keyvalues import ACTING, FORMS
from scrapy_simhash.stores.owed import key_of, put
from scrapy_simhash.stores.rulebook import Asked, KnownPage, find_form, find_known_page

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy_simhash.stores.documents import Documents


class Parking(NamedTuple):
    """A request that a crawl asks to park.

    Attributes:
        owed: the request; `rules`, `page` and `identity` are filled in.
        asked: where rules lead it.
        only_ask: park nothing, only tell what would be done.
    """

    owed: Owed
    asked: Asked
    only_ask: bool = False


class ParkingAnswer(NamedTuple):
    """Whether a request was parked.

    Attributes:
        reason: "" if it was parked. Else make it, because of a reason of `KnownPage`, or
            `unpackable` (it could not be made later), `full` (a million requests are owed), or
            `unavailable` (the store cannot be written).
        page: that stands for its own.
        key: of the parked request; b"" if nothing was parked.
    """

    reason: str
    page: KnownPage = KnownPage("")
    key: bytes = b""


def park(stored: Documents, wanted: Sequence[Parking]) -> list[ParkingAnswer]:
    """Park those requests that may be parked; returns one answer for each.

    A request may be parked if all rules that lead it to a target act, that target was delivered
    or is pending in a crawl that is alive, for the same reader, and is no sink,
    and the request is that of no document. A request of the same spider and identity takes the
    place of an earlier one.
    """
    _prefetch(stored, wanted)
    pages = [find_known_page(stored, each.asked, stored.alive) for each in wanted]
    answers = [
        ParkingAnswer(
            page.reason or "unpackable" * (not (each.only_ask or each.owed.request)), page
        )
        for each, page in zip(wanted, pages, strict=True)
    ]
    chosen = [
        place
        for place, (each, answer) in enumerate(zip(wanted, answers, strict=True))
        if not (answer.reason or each.only_ask)
    ]
    rows = [_complete(wanted[place], pages[place].document) for place in chosen]
    for place, key in zip(chosen, put(stored, rows), strict=True):
        answers[place] = answers[place]._replace(key=key) if key else ParkingAnswer("full")
    return answers


def _complete(wanted: Parking, target: int) -> Owed:
    *others, rule = wanted.asked.rules
    identity = wanted.asked.identity
    return structs.replace(wanted.owed, rules=(rule, *others), page=target, identity=identity)


def _prefetch(stored: Documents, wanted: Sequence[Parking]) -> None:
    """Read what parking will read: normal forms and rules, then the documents that they lead to."""
    if not stored.remote:
        return
    rows: dict[tuple[str, bytes], None] = {}
    for each in wanted:
        key = key_of(_complete(each, 0), stored.seed)
        rows[FORMS, each.asked.form] = rows[OWED, key] = None
        rows |= {(ACTING, bytes.fromhex(name)): None for name in each.asked.rules}
    stored.prefetch_rows(rows, identities=[each.asked.identity for each in wanted])
    numbers = {each.asked.known or find_form(stored, each.asked.form).document for each in wanted}
    numbers |= {stored.find_number(each.asked.identity) or 0 for each in wanted}
    stored.prefetch_rows((), records=numbers - {0})
    records = (stored.get(number) for number in numbers - {0})
    stored.prefetch_rows((), records={each.original for each in records if each} - {0})
