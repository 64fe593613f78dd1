"""A page on its way from the judgement to its last item, and what follows it there."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from scrapy_simhash.pages.links import NO_LINKS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from weakref import WeakKeyDictionary

    from scrapy import Spider
    from scrapy.http import Request, Response

    from scrapy_simhash.detector.log import Decision
    from scrapy_simhash.judging import Marked
    from scrapy_simhash.pages.links import PageLinks


@dataclass(eq=False, slots=True, weakref_slot=True)
class JudgedPage:
    """A page that was judged, or passed over; it does not hold its request or response."""

    decision: Decision
    links: PageLinks = NO_LINKS
    pending: Marked = 0  # the document whose items have to be delivered, with its text
    scheduled: bool = False  # whether a spider middleware will see it
    repeated: bool = False  # whether its items, with this text, came through before
    items: int = 0  # number of items still in the pipelines
    # Batches of feeds with some of its items: a URI template, and the number of the batch.
    batches: set[tuple[str, int]] = field(default_factory=set)
    consumed: bool = False  # whether its callback has ended
    on_done: list[Callable[[], object]] = field(default_factory=list)


# By their requests, and once they reach the spider by their responses, too: other middlewares may
# replace a response on the way, and a spider may yield a request once more.
JudgedPages: TypeAlias = "WeakKeyDictionary[Request | Response, JudgedPage]"


class Follower:
    """Something that follows pages; there is one only if the settings want it."""

    async def judged(self, request: Request, response: Response, page: JudgedPage) -> None:
        """Note a page that was judged and goes on to the spider."""

    def arrived(self, response: Response, page: JudgedPage) -> None:
        """Note that the callback of a page is about to be called."""

    async def list_requests(self, spider: Spider) -> Sequence[Request]:  # noqa: ARG002
        """List requests to make when the crawl has nothing else to do."""
        return ()

    async def close(self) -> None:
        """Settle what is open; the store is still there."""
