"""Lost pages: dropped for a document whose items never came through.

A page may be dropped for one that is still pending, in a crawl that is alive: of n near-duplicates
in flight exactly one is kept. If that one's callback fails, or its crawl dies, nobody has the text.
So such a drop is noted until its original is done, and taken back when it never will be: a crawl of
the same spider requests the page again, or it is listed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_simhash.records import Record, State
from scrapy_simhash.stored import LostPage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from scrapy_simhash.records import Waiting
    from scrapy_simhash.store_documents import Documents


def counts(record: Record, alive: Callable[[str], bool]) -> bool:
    """Say whether a record makes another document a near-duplicate.

    Args:
        record: of a document.
        alive: says whether the lease of a crawl is alive.
    """
    if record.state == State.PENDING:
        return alive(record.crawl)
    return record.state == State.DONE


def settle_drops(stored: Documents, number: int, record: Record) -> None:
    """Note that the items of a document came through: what was dropped for this text stays so."""
    if not stored.has_waiting():
        return
    for duplicate in stored.list_duplicates(number):
        waiting = stored.get_waiting(duplicate)
        if waiting is not None and waiting.text_digest == record.text_digest:
            stored.drop_waiting(duplicate)


def list_lost(
    stored: Documents, alive: Callable[[str], bool]
) -> Iterator[tuple[int, Waiting, Record]]:
    """List the drops whose original never came through: number, note and record of each.

    Either it does not count any more, or it has come with another text since.
    """
    known: dict[str, bool] = {}

    def lives(crawl: str) -> bool:
        if crawl not in known:
            known[crawl] = alive(crawl)
        return known[crawl]

    for number, waiting in stored.list_waiting():
        original, record = stored.get(waiting.original), stored.get(number)
        expected = (
            original is not None
            and original.text_digest == waiting.text_digest
            and counts(original, lives)
        )
        if record is not None and not expected:
            yield number, waiting, record


def take_lost(
    stored: Documents,
    alive: Callable[[str], bool],
    crawl: str,
    spider: str,
    *,
    ending: bool = False,
) -> list[LostPage]:
    """Hand the lost pages of a spider over to one of its crawls.

    Those that another running crawl answers for are left to it.

    Args:
        stored: in a write transaction.
        alive: says whether the lease of a crawl is alive.
        crawl: that answers for them from now on.
        spider: its spider's name.
        ending: the crawl is about to end, and what is pending in it never will be done.
    """
    taken = []
    lasting = (lambda other: other != crawl and alive(other)) if ending else alive
    for number, waiting, record in list(list_lost(stored, lasting)):
        owner = stored.get_crawl(waiting.crawl)
        if waiting.crawl != crawl:
            if owner is None or owner.spider != spider or alive(waiting.crawl):
                continue
            waiting.crawl = crawl
            stored.put_waiting(number, waiting)
        taken.append(LostPage(number, record.url, waiting.request))
    return taken


def keep_requests(stored: Documents, requests: Mapping[int, bytes | None]) -> None:
    """Keep how dropped pages can be fetched again, as long as that may be needed.

    Args:
        stored: in a write transaction.
        requests: by the number of the document; None where it was not dropped after all.
    """
    for number, request in requests.items():
        waiting = stored.get_waiting(number)
        if request is None:
            stored.drop_waiting(number)
        elif waiting is not None:
            waiting.request = request
            stored.put_waiting(number, waiting)
