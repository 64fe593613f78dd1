"""What a store says of itself: its documents for people, and their numbers."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from scrapy_simhash.kinds import guess_kind
from scrapy_simhash.recipe import Recipe
from scrapy_simhash.records import DamagedError
from scrapy_simhash.stored import StoredDocument

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from scrapy_simhash.records import Header, Record
    from scrapy_simhash.store_documents import Documents
    from scrapy_simhash.stores import Store

# Of scopes and of groups, the largest.
_ROWS_SHOWN = 20


def describe_document(number: int, record: Record, text: str | None) -> StoredDocument:
    """Describe a record for people and `explain`."""
    return StoredDocument(
        document=number,
        url=record.url,
        state=record.state.name.lower(),
        fingerprints=record.fingerprints,
        title=record.title,
        heading=record.heading,
        canonical=record.canonical,
        language=record.language,
        scope=record.scope,
        crawl=record.crawl,
        features=record.features,
        words=record.words,
        whole_words=record.whole_words,
        sketch=record.sketch,
        stub=record.stub,
        time=record.time,
        original=record.original,
        distance=record.distance,
        similarity=record.similarity,
        tests=record.tests,
        text=text,
        text_digest=record.text_digest,
        spared=record.spared,
    )


def read_document(number: int, stored: Documents, _: object = None) -> StoredDocument | None:
    """Describe a document by its number, with its text; None when there is no such document."""
    record = stored.get(number)
    return describe_document(number, record, stored.get_text(number)) if record else None


def find_documents(url: str, stored: Documents, _: object = None) -> list[StoredDocument]:
    """Describe the documents with this URL; reads every record."""
    return [
        describe_document(number, record, stored.get_text(number))
        for number, record in stored
        if record.url == url
    ]


def visit_documents(
    take: Callable[[StoredDocument], object], records: Iterable[tuple[int, Record | DamagedError]]
) -> int:
    """Describe every document to a function; returns how many are damaged."""
    damaged = 0
    for number, record in records:
        if isinstance(record, DamagedError):
            damaged += 1
        else:
            take(describe_document(number, record, None))
    return damaged


def list_documents(store: Store) -> list[StoredDocument]:
    """Collect what `Store.visit` hands over; about 2 KB a document."""
    documents: list[StoredDocument] = []
    store.visit(documents.append)
    return documents


def describe_header(header: Header) -> dict[str, Any]:
    """Say what a store was made with."""
    return {
        "format": header.format,
        "created": header.created,
        "recipe": {"id": Recipe(**header.recipe).id, **header.recipe},  # type: ignore[arg-type]
        "libraries": header.libraries,
    }


def count_documents(
    stored: Documents, records: Iterable[tuple[int, Record | DamagedError]]
) -> dict[str, Any]:
    """Count the documents by state, distance and scope.

    A group is an original with its near-duplicates; the largest ones are named.

    Args:
        stored: the documents.
        records: all of them; damaged ones are counted as such where there are any.
    """
    states: Counter[str] = Counter()
    distances: Counter[int] = Counter()
    scopes: Counter[str] = Counter()
    groups: Counter[int] = Counter()
    stubs = damaged = 0
    for _, record in records:
        if isinstance(record, DamagedError):
            damaged += 1
            continue
        stubs += record.stub
        states[record.state.name.lower()] += 1
        scopes[record.scope] += 1
        if record.original or record.distance >= 0:
            distances[record.distance] += 1
            groups[record.original] += 1
    return {
        "documents": states.total() + damaged,
        **({"damaged": damaged} if damaged else {}),
        "done": states["done"],
        "pending": states["pending"],
        "near_duplicates": states["duplicate"],
        "distances": {str(bits): distances[bits] for bits in sorted(distances)},
        "stubs": stubs,
        "scopes": dict(scopes.most_common(_ROWS_SHOWN)),
        "groups": [
            _describe_group(number, _get_sound(stored, number), size)
            for number, size in groups.most_common(_ROWS_SHOWN)
        ],
    }


def _get_sound(stored: Documents, number: int) -> Record | None:
    """Get a record, or None where it is gone or damaged."""
    try:
        return stored.get(number)
    except DamagedError:
        return None


def _describe_group(number: int, original: Record | None, near_duplicates: int) -> dict[str, Any]:
    return {
        "document": number,
        "near_duplicates": near_duplicates,
        "url": original.url if original else None,
        "title": original.title if original else "",
        "kind": guess_kind(original.title, original.heading) if original else "",
    }
