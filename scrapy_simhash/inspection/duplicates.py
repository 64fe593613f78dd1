"""Which page was kept, and which were dropped for it: `scrapy simhash export duplicates`."""

from __future__ import annotations

from collections import defaultdict
from math import inf
from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from scrapy_simhash.judging import StoredDocument
    from scrapy_simhash.stores import Store

_SHOWN_OF_KEPT = ("url", "document", "state", "title", "canonical", "file", "crawl", "time")
_SHOWN = ("url", "document", "distance", "similarity", "crawl", "time", "undone")
_get_shown = attrgetter(*_SHOWN[:-1], "spared")


def list_kept(
    store: Store, crawl: str | None = None, *, every: bool = False
) -> Iterator[dict[str, Any]]:
    """List the kept pages of a store, each with its near-duplicates, in order of their arrival.

    Reads every record once and the kept ones again; holds some 300 bytes for each near-duplicate.

    Args:
        store: to read.
        crawl: only near-duplicates of this crawl; None for all.
        every: also the kept pages that have none.

    Yields:
        `url`, `document`, `state`, `title`, `canonical`, `file`, `crawl` and `time` of the kept
        page, and `duplicates`: `url`, `document`, `distance`, `similarity`, `crawl`, `time` and
        `undone` of each. A page that was deleted or cannot be read has its number only; the
        near-duplicates of imported fingerprints come last, with `document` 0.
    """
    originals: dict[int, int] = {}
    found: list[tuple[Any, ...]] = []
    groups: defaultdict[int, list[dict[str, Any]]] = defaultdict(list)

    def note(document: StoredDocument) -> None:
        if document.state == "duplicate":
            originals[document.document] = document.original
            if crawl in {None, document.crawl}:
                found.append(_get_shown(document))
        elif every:
            groups[document.document] = []

    store.visit(note)
    for shown in found:
        duplicate = dict(zip(_SHOWN, shown, strict=True))
        groups[_find_kept(duplicate["document"], originals)].append(duplicate)
    for number in sorted(groups, key=lambda number: number or inf):
        kept = store.get_document(number) if number else None
        page = {name: getattr(kept, name, None) for name in _SHOWN_OF_KEPT}
        yield {**page, "document": number, "duplicates": groups[number]}


def _find_kept(number: int, originals: Mapping[int, int]) -> int:
    """Find the page that was kept: an original whose crawl died may be a near-duplicate by now."""
    seen: set[int] = set()
    while number in originals and number not in seen:
        seen.add(number)
        number = originals[number]
    return number
