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

    from scrapy_simhash.lmdb_documents import Documents
    from scrapy_simhash.records import Waiting


def counts(record: Record, alive: Callable[[str], bool]) -> bool:
    """Say whether a record makes another document a near-duplicate.

    Args:
        record: of a document.
        alive: says whether the lease of a crawl is alive.
    """
    if record.state == State.PENDING:
        return alive(record.crawl)
    return record.state == State.DONE


def list_lost(
    stored: Documents, alive: Callable[[str], bool]
) -> Iterator[tuple[int, Waiting, Record]]:
    """List the drops whose original does not count any more: number, note and record of each."""
    for number, waiting in stored.list_waiting():
        original, record = stored.get(waiting.original), stored.get(number)
        if record is not None and (original is None or not counts(original, alive)):
            yield number, waiting, record


def take_lost(
    stored: Documents,
    alive: Callable[[str], bool],
    crawl: str,
    spider: str,
) -> list[LostPage]:
    """Hand the lost pages of a spider over to one of its crawls.

    Those that another running crawl answers for are left to it.

    Args:
        stored: in a write transaction.
        alive: says whether the lease of a crawl is alive.
        crawl: that answers for them from now on.
        spider: its spider's name.
    """
    taken = []
    for number, waiting, record in list(list_lost(stored, alive)):
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
