"""Seeds a store with the pages of a source, judged as a crawl would judge them, and done at once.

Fingerprints are made by the worker processes, as many at once as keep them busy; the pages are then
judged in the order of the source, so that of two that are alike the first is the original, however
long each took.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from scrapy_simhash.decisionlog import IMPORT_PREFIX
from scrapy_simhash.detector import Detector, Page
from scrapy_simhash.sources import SourceError
from scrapy_simhash.stores import StoreUnavailableError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator

    from scrapy_simhash.config import Config
    from scrapy_simhash.journal import Journal, Named, Progress
    from scrapy_simhash.sources import Entry, Source, SourcePage

SPIDER = "import"
# At once with each worker: one is worked on, the others wait for it, so that a page that takes
# seconds holds up the judging of some others, not the making of their fingerprints.
_PAGES_PER_WORKER = 16
# As many as a kill may cost to judge again, some ten seconds.
_RECORDS_PER_NOTE = 128
_STORE_FAILED = "store_unavailable"


class Seeder:
    """Imports sources into one store, in one crawl of its own.

    Args:
        config: the settings.
        journal: of how far each source was read.
        to_page: makes of a source's page the one that a crawl would judge, or says why it would
            not look at it.
    """

    def __init__(
        self,
        config: Config,
        journal: Journal,
        to_page: Callable[[SourcePage], Page | str],
    ) -> None:
        self._detector = Detector(config, IMPORT_PREFIX)
        self._journal = journal
        self._to_page = to_page
        self._at_once = _PAGES_PER_WORKER * max(1, config.workers)

    async def open(self) -> None:
        """Open the store and start the workers."""
        await self._detector.open(SPIDER)

    async def close(self) -> None:
        """Let go of them."""
        await self._detector.close()

    @property
    def crawl(self) -> str:
        """The id of the crawl that the documents are of."""
        return self._detector.crawl

    async def read(self, source: Source, show: Callable[[int, int], object]) -> None:
        """Import what was not yet read of a source; the journal says what came of it.

        Args:
            source: of pages.
            show: is told how much of how much is done.

        Raises:
            SourceError: it cannot be read further; everything before is in the store.
            StoreUnavailableError: the store cannot be written; says how far it was.
        """
        progress = self._journal.find(source)
        unnoted: Entry | None = None
        with saying_how_far(source, self._journal):
            try:
                async for entry, skipped, decision in self._judge(source.read(progress.position)):
                    unnoted = entry
                    self._count(progress, skipped, decision)
                    show(entry.done, source.total)
                    if entry.record % _RECORDS_PER_NOTE == 0:
                        await self._note(source, progress, entry)
                        unnoted = None
            except SourceError:
                # What came before the cut is in the store.
                await self._note(source, progress, unnoted)
                raise
            await self._note(source, progress, unnoted)

    async def _note(self, source: Source, progress: Progress, last: Entry | None) -> None:
        if last is not None:
            await self._detector.settle()
            progress.position = source.mark(last.record, last.offset)
            self._journal.note(source, progress)

    def _count(self, progress: Progress, skipped: str, decision: dict[str, Any] | None) -> None:
        if decision is None:
            add_one(progress.skipped, skipped)
            return
        status, reason = decision["status"], decision["reason"]
        if reason == _STORE_FAILED:
            raise StoreUnavailableError(f"{decision['url']} was not judged")
        progress.pages += 1
        add_one(progress.verdicts, f"{status}/{reason}" if reason else status)
        self._detector.mark_done(decision)
        self._detector.note(decision)

    async def _judge(
        self, entries: Iterable[Entry]
    ) -> AsyncIterator[tuple[Entry, str, dict[str, Any] | None]]:
        """Judge pages, many at once; yields them in their order: entry, why skipped, decision."""
        waiting: deque[tuple[Entry, str, asyncio.Task[dict[str, Any]] | None]] = deque()
        problem = None
        turn = asyncio.Event()
        turn.set()
        try:
            try:
                for entry in entries:
                    page = entry.page if isinstance(entry.page, str) else self._to_page(entry.page)
                    if isinstance(page, str):
                        waiting.append((entry, page, None))
                    else:
                        following = asyncio.Event()
                        judging = self._judge_in_turn(page, turn, following)
                        waiting.append((entry, "", asyncio.create_task(judging)))
                        turn = following
                    if len(waiting) >= self._at_once:
                        yield await _finish(waiting)
            except SourceError as error:
                problem = error
            while waiting:
                yield await _finish(waiting)
        finally:
            tasks = [task for _, _, task in waiting if task]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if problem:
            raise problem

    async def _judge_in_turn(
        self, page: Page, turn: asyncio.Event, following: asyncio.Event
    ) -> dict[str, Any]:
        async def take_turn() -> None:
            await turn.wait()
            # The next one wakes up when this one waits again: for its verdict.
            following.set()

        decision = await self._detector.judge(page, take_turn)
        await take_turn()
        return decision


@contextmanager
def saying_how_far(source: Named, journal: Journal) -> Iterator[None]:
    """Say how far a source was imported where the store fails."""
    try:
        yield
    except StoreUnavailableError as error:
        record = journal.find(source).position.record
        raise StoreUnavailableError(
            f"the store cannot be written: {error}. {source.name} was imported up to record "
            f"{record:,}; run this again when it can be: it goes on there"
        ) from error


async def _finish(
    waiting: deque[tuple[Entry, str, asyncio.Task[dict[str, Any]] | None]],
) -> tuple[Entry, str, dict[str, Any] | None]:
    entry, skipped, task = waiting[0]
    decision = await task if task else None
    waiting.popleft()
    return entry, skipped, decision


def add_one(counts: dict[str, int], key: str) -> None:
    """Count something."""
    counts[key] = counts.get(key, 0) + 1
