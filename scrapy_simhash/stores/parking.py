"""Park requests: note that they are owed, because rules lead to a page that is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import structs

from scrapy_simhash.judging.rows import OWED
from scrapy_simhash.stores.keyvalues import ACTING, FORMS
from scrapy_simhash.stores.owed import key_of, put
from scrapy_simhash.stores.rulebook import KnownPage, Parking, find_form, find_known_page

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy_simhash.stores.documents import Documents


def park(stored: Documents, wanted: Sequence[Parking]) -> list[KnownPage]:
    """Park those requests that may be parked; returns one answer for each.

    A request may be parked if all rules that lead it to a target act, that target was delivered
    or is pending in a crawl that is alive, for the same reader, and is no sink,
    and the request is that of no document. A request of the same spider and identity takes the
    place of an earlier one.
    """
    _prefetch(stored, wanted)
    answers = [find_known_page(stored, each, stored.alive) for each in wanted]
    chosen = []
    for place, each in enumerate(wanted):
        if not (each.only_ask or each.owed.request or answers[place].reason):
            answers[place] = answers[place]._replace(reason="unpackable")
        if not (each.only_ask or answers[place].reason):
            chosen.append(place)
    rows = [structs.replace(wanted[place].owed, page=answers[place].document) for place in chosen]
    for place, key in zip(chosen, put(stored, rows), strict=True):
        answers[place] = answers[place]._replace(key=key) if key else KnownPage("full")
    return answers


def _prefetch(stored: Documents, wanted: Sequence[Parking]) -> None:
    """Read what parking will read: normal forms and rules, then the documents that they lead to."""
    if not stored.remote:
        return
    rows: dict[tuple[str, bytes], None] = {}
    for each in wanted:
        rows[FORMS, each.form] = rows[OWED, key_of(each.owed, stored.seed)] = None
        rows |= {(ACTING, bytes.fromhex(name)): None for name in each.owed.rules}
    identities = [each.owed.identity for each in wanted]
    stored.prefetch_rows(rows, identities=identities)
    numbers = {each.known or find_form(stored, each.form).document for each in wanted}
    numbers |= {stored.find_number(identity) or 0 for identity in identities}
    stored.prefetch_rows((), records=numbers - {0})
    records = (stored.get(number) for number in numbers - {0})
    stored.prefetch_rows((), records={each.original for each in records if each} - {0})
