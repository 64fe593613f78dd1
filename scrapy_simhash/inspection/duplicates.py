"""Which page was kept, and which were dropped for it: `scrapy simhash export duplicates`."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from scrapy_simhash.judging import StoredDocument
    from scrapy_simhash.stores import Store

_DUPLICATE = "duplicate"
_SHOWN_OF_KEPT = ("url", "document", "state", "title", "canonical", "file", "crawl", "time")


class _Duplicate(NamedTuple):
    """A near-duplicate; a tuple, because there may be millions."""

    url: str
    document: int
    distance: int
    similarity: float | None
    crawl: str
    time: float
    undone: bool


def list_kept(
    store: Store, crawl: str | None = None, *, every: bool = False
) -> Iterator[dict[str, Any]]:
    """List the kept pages of a store, each with its near-duplicates, in order of their arrival.

    Reads every record twice, and holds some 300 bytes for each near-duplicate.

    Args:
        store: to read.
        crawl: only near-duplicates of this crawl; None for all.
        every: also the kept pages that have none.

    Yields:
        `url`, `document`, `state`, `title`, `canonical`, `file`, `crawl` and `time` of the kept
        page, and `duplicates`: `url`, `document`, `distance`, `similarity`, `crawl`, `time` and
        `undone` of each. The near-duplicates of imported fingerprints come last, with `url` None
        and `document` 0; so do those of a page that was deleted meanwhile.
    """
    groups = _group(store, crawl)
    kept: list[dict[str, Any]] = []

    def keep(document: StoredDocument) -> None:
        if document.state != _DUPLICATE and (every or document.document in groups):
            kept.append({name: getattr(document, name) for name in _SHOWN_OF_KEPT})

    store.visit(keep)
    for page in kept:
        yield _describe(page, groups.pop(page["document"], []))
    for number, duplicates in sorted(groups.items()):
        nothing = dict.fromkeys(_SHOWN_OF_KEPT)
        yield _describe({**nothing, "document": number}, duplicates)


def _group(store: Store, crawl: str | None) -> dict[int, list[_Duplicate]]:
    """Group the near-duplicates by the number of the page that was kept."""
    originals: dict[int, int] = {}
    found: list[_Duplicate] = []

    def note(document: StoredDocument) -> None:
        if document.state != _DUPLICATE:
            return
        originals[document.document] = document.original
        if crawl in {None, document.crawl}:
            found.append(
                _Duplicate(
                    document.url,
                    document.document,
                    document.distance,
                    document.similarity,
                    document.crawl,
                    document.time,
                    document.spared,
                )
            )

    store.visit(note)
    groups: defaultdict[int, list[_Duplicate]] = defaultdict(list)
    for duplicate in found:
        groups[_find_kept(duplicate.document, originals)].append(duplicate)
    return dict(groups)


def _find_kept(number: int, originals: Mapping[int, int]) -> int:
    """Find the page that was kept: an original whose crawl died may be a near-duplicate by now."""
    seen: set[int] = set()
    while number in originals and number not in seen:
        seen.add(number)
        number = originals[number]
    return number


def _describe(page: dict[str, Any], duplicates: list[_Duplicate]) -> dict[str, Any]:
    return {**page, "duplicates": [duplicate._asdict() for duplicate in duplicates]}
