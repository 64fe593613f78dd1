"""What a report is made of: the decisions of a log, or what a store knows of its documents."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from scrapy_simhash.config import DROPPING
from scrapy_simhash.decisionlog import IMPORT_PREFIX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from scrapy_simhash.stored import StoredDocument
    from scrapy_simhash.stores import Store

# Progress is told after so many lines.
_LINES_PER_STEP = 1_000
# The year 9999, after which Python and browsers tell no time.
_LAST_SECOND = 253_402_300_799

_Bits = Annotated[int, msgspec.Meta(ge=0, le=64)]
_Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
_Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


class Decision(msgspec.Struct, frozen=True):
    """A line of the decision log, as far as the report needs it; see docs/reference.md.

    Lines of older versions lack what came later: `body_bytes` is None then.
    """

    url: str
    status: str
    time: Annotated[float, msgspec.Meta(ge=0, le=_LAST_SECOND)] = 0.0
    reason: str = ""
    action: str = ""
    match_url: str | None = None
    distance: _Bits | None = None
    similarity: _Share | None = None
    tests: tuple[str, ...] = ()
    fingerprint: str | None = None
    links: _Count = 0
    body_bytes: _Count | None = None
    crawl: str = ""
    document: _Count = 0
    match_document: _Count = 0

    @property
    def is_judged(self) -> bool:
        """Say whether the page was compared with others at all."""
        return self.status != "unjudged"

    @property
    def is_near_duplicate(self) -> bool:
        """Say whether it was, whatever was done with it."""
        return self.status == "near_duplicate"

    @property
    def is_dropped(self) -> bool:
        """Say whether its items were dropped; an import has no action, and drops nothing."""
        return self.is_near_duplicate and self.action in DROPPING

    @property
    def is_unparsed(self) -> bool:
        """Say whether its callback did not run."""
        return self.is_near_duplicate and self.action == "drop"

    @property
    def unparsed_bytes(self) -> int:
        """How large it was if its callback did not run, as in `simhash/bytes_dropped`; else 0."""
        return (self.body_bytes or 0) if self.is_unparsed else 0

    @property
    def links_not_followed(self) -> int:
        """How many links it has that nobody followed because of it."""
        ignored = self.is_near_duplicate and self.action in {"drop", "ignore-outlinks"}
        return self.links if ignored else 0


def read_decisions(
    path: Path, crawl: str | None, progress: Callable[[int, int], object]
) -> Iterator[Decision | None]:
    """Read a decision log, oldest first, whatever is in it.

    Args:
        path: of the log.
        crawl: only of the crawl with this id; None for all.
        progress: is told how many bytes of how many were read.

    Yields:
        A decision, or None for a line that is none. The beginning of a line at the very end, which
        a crawl is writing, is passed over.

    Raises:
        OSError: the file cannot be read.
    """
    size = path.stat().st_size
    done = 0
    with path.open("rb") as file:
        for number, line in enumerate(file):
            done += len(line)
            if number % _LINES_PER_STEP == 0:
                progress(done, max(size, done))
            if line.endswith(b"\n"):
                decision = _parse(line)
                if decision is None or crawl in {None, decision.crawl}:
                    yield decision
    progress(done, done)


def _parse(line: bytes) -> Decision | None:
    try:
        return msgspec.convert(json.loads(line), Decision)
    except (ValueError, RecursionError):  # what msgspec raises is a ValueError, too
        return None


def read_store(store: Store, crawl: str | None) -> tuple[list[Decision], int]:
    """Read what a store knows of its documents: the last decision on each, oldest first.

    Near-duplicates of crawls are taken for dropped: a store does not know the action.

    Args:
        store: any.
        crawl: only of the crawl with this id; None for all.

    Returns:
        The decisions, and how many records are damaged. Reads every record.
    """
    documents: dict[int, StoredDocument] = {}
    damaged = store.visit(lambda document: documents.update({document.document: document}))
    urls = {number: document.url for number, document in documents.items()}
    made = [
        _remember(document, urls.get(document.original))
        for document in documents.values()
        if crawl in {None, document.crawl}
    ]
    return sorted(made, key=lambda decision: decision.time), damaged


def _remember(document: StoredDocument, original_url: str | None) -> Decision:
    known: dict[str, Any] = {
        "url": document.url,
        "time": min(max(0.0, document.time), _LAST_SECOND),
        "crawl": document.crawl,
        "document": document.document,
    }
    if document.state != "duplicate":
        return Decision(status="new", **known)
    return Decision(
        status="near_duplicate",
        match_url=original_url,
        action="" if document.crawl.startswith(IMPORT_PREFIX) else "drop",
        distance=max(0, document.distance),
        similarity=document.similarity,
        tests=document.tests,
        match_document=document.original,
        **known,
    )
