"""The command undo: drops are taken back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy_simhash.inspection import PartlyFailedError, open_as_it_is
from scrapy_simhash.logreader import find_crawl
from scrapy_simhash.numbers import write_whole
from scrapy_simhash.spelling import add_suggestions
from scrapy_simhash.untrusted import printable
from scrapy_simhash.upkeep import open_to_change

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from scrapy_simhash.config import Config
    from scrapy_simhash.stored import StoredDocument
    from scrapy_simhash.stores import Store


def undo(  # noqa: PLR0913  # the criteria, each by its name
    config: Config,
    urls: Sequence[str],
    original: str | None,
    distance: int | None,
    crawl: str | None,
    urls_path: Path | None,
    *,
    lost: bool,
    dry_run: bool,
) -> Iterator[dict[str, Any]]:
    """List drops that meet all criteria given, and let their pages pass when fetched again.

    Args:
        config: the settings in force.
        urls: one of these was dropped; none for any.
        original: it was dropped for the page with this URL.
        distance: bits between the two.
        crawl: it was dropped in this crawl; `last` is the newest one of the log.
        urls_path: write the URLs there, one a line, to feed a spider with; replaced if it is there;
            None to print only.
        lost: it was dropped for a page whose items never came through. Such a page is judged as any
            other when it is fetched again.
        dry_run: change nothing.

    Raises:
        ValueError: no criterion.
        PartlyFailedError: some of the URLs are not in the store; the others were done.
        InspectionError: there is no log to find the last crawl in.
        OSError: the file cannot be written; nothing was changed.
    """
    if not urls and original is None and distance is None and crawl is None and not lost:
        raise ValueError("say what is to be undone: URLs, --original, --distance, --crawl, --lost")
    crawl = find_crawl(config, crawl)
    spared = not (dry_run or lost)
    with open_to_change(config) if spared else open_as_it_is(config) as store:
        originals = None
        if original is not None:
            originals = {found.document for found in store.find_document(original)}

        def wanted(document: StoredDocument) -> bool:
            return (
                (not urls or document.url in urls)
                and (originals is None or document.original in originals)
                and distance in {None, document.distance}
                and crawl in {None, document.crawl}
            )

        found = store.list_dropped(wanted, lost=lost)
        if urls_path is not None:
            write_whole(urls_path, [f"{printable(document.url)}\n" for document in found])
        if spared and found:
            store.spare([document.document for document in found])
        # Last: whoever reads the answers may stop, as `head` does.
        yield from (_describe(store, document) for document in found)
        missing = {*urls} - {document.url for document in found}
        if original is not None and not originals:
            missing.add(original)
        if missing and (unknown := _name_unknown(store, missing)):
            raise PartlyFailedError("; ".join(unknown))


def _name_unknown(store: Store, urls: set[str]) -> list[str]:
    """Name those of the URLs that no page of the store has, and what they may have meant."""
    known: set[str] = set()
    store.visit(lambda document: known.add(document.url))
    return [
        add_suggestions(f"{url} is not in the store", url, sorted(known))
        for url in sorted(urls - known)
    ]


def _describe(store: Store, document: StoredDocument) -> dict[str, Any]:
    original = store.get_document(document.original) if document.original else None
    return {
        "url": document.url,
        "document": document.document,
        "original": original.url if original else None,
        "distance": document.distance,
        "similarity": document.similarity,
        "crawl": document.crawl,
    }
