"""What other settings would have decided: the judge of a store, over documents in memory."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from scrapy_simhash.batch import batch_query
from scrapy_simhash.judge import Judge
from scrapy_simhash.lmdb_documents import Documents
from scrapy_simhash.nearindex import make_index
from scrapy_simhash.records import Record, State
from scrapy_simhash.stored import Document, Probe

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from scrapy_simhash.stored import Match, StoredDocument

_DUPLICATE, _PENDING = "duplicate", "pending"


class Rule(NamedTuple):
    """The settings that decide.

    Attributes:
        distance: SIMHASH_DISTANCE, 0 to 15 bits.
        confirm: SIMHASH_CONFIRM, 0 to 1; None for plain simhash.
        min_features: SIMHASH_MIN_FEATURES; asked for plain simhash only, which goes by main texts.
    """

    distance: int
    confirm: float | None
    min_features: int


class Replayed(NamedTuple):
    """A document judged again.

    Attributes:
        document: as the store has it.
        match: what it is a near-duplicate of now, or None; `document` of that is the number in the
            store, or 0 for a bulk-loaded fingerprint.
    """

    document: StoredDocument
    match: Match | None

    @property
    def was_dropped(self) -> bool:
        """Whether the store has it as a near-duplicate that nobody took back."""
        return self.document.state == _DUPLICATE and not self.document.spared


def choose_documents(stored: Sequence[StoredDocument], rule: Rule) -> list[StoredDocument]:
    """Choose the documents that can be judged again, in the order in which they were judged.

    Left out are those whose items did not come through and what was dropped for them, and, in plain
    simhash, those of which only the whole text has a fingerprint (of such a page a crawl would
    compare a digest that the store has not). A near-duplicate that was fetched again may be one
    of a later document now: it stands behind that.

    Args:
        stored: all documents of a store.
        rule: the settings to be tried.
    """
    pending = {each.document for each in stored if each.state == _PENDING}
    chosen = [
        each
        for each in stored
        if each.state != _PENDING
        and each.original not in pending
        and (rule.confirm is not None or each.stub or each.features >= rule.min_features)
    ]
    return sorted(
        chosen,
        key=lambda each: (
            max(each.document, each.original),
            each.original > each.document,
            each.document,
        ),
    )


def replay(
    documents: Sequence[StoredDocument],
    bulk_loaded: NDArray[np.uint64],
    rule: Rule,
    scopes: Iterable[str] | None = None,
) -> Iterator[Replayed]:
    """Judge documents one after the other, as if they came into an empty store.

    The decisions are those of `Store.find_and_add` for a store that had the bulk-loaded
    fingerprints from the beginning and whose items all come through; only that in a store buckets
    with more than 16,384 fingerprints are passed over. A document whose drop was taken back
    passes.

    Args:
        documents: see `choose_documents`.
        bulk_loaded: shape (n,).
        rule: the settings to be tried.
        scopes: of each document; None for those that it has.

    Yields:
        Each document, judged.

    Raises:
        ValueError: the distance is out of range.

    Cost: some 0.1 milliseconds a document, more where there are candidates; 2 kB a kept one.
    """
    kept = _Kept(documents, bulk_loaded, rule.distance)
    judge = Judge(kept, rule.distance, rule.confirm, lambda _: True, readonly=True)
    names = (each.scope for each in documents) if scopes is None else scopes
    for number, (stored, scope) in enumerate(zip(documents, names, strict=True), 1):
        document = _make_document(stored, scope, rule)
        match = None if stored.spared else judge.judge(document).match
        if match is None:
            kept.keep(number, document)
        elif match.document:
            match = replace(match, document=documents[match.document - 1].document)
        yield Replayed(stored, match)


class _Kept(Documents):
    """The documents kept so far: of `Documents`, what a judge asks that writes nothing."""

    def __init__(
        self, documents: Sequence[StoredDocument], bulk_loaded: NDArray[np.uint64], distance: int
    ) -> None:
        self._records: dict[int, Record] = {}
        self._numbers: dict[tuple[int, str], list[int]] = defaultdict(list)
        asked = np.array([bits for each in documents for bits in each.fingerprints], np.uint64)
        self._index = make_index(asked, distance)
        self._bulk_loaded: dict[int, list[tuple[int, int]]] = defaultdict(list)
        rows = batch_query(asked, [bulk_loaded], distance)
        for query, found, bits in rows.tolist():
            self._bulk_loaded[query].append((bits, found))
        self._known = set(rows[:, 1].tolist())

    def keep(self, number: int, document: Document) -> None:
        self._records[number] = _make_record(document)
        for fingerprint in document.fingerprints:
            self._index.add(fingerprint)
            self._numbers[fingerprint, document.scope].append(number)

    def find_number(self, identity: bytes) -> int | None:
        del identity  # nothing comes twice
        return None

    def get(self, number: int) -> Record | None:
        return self._records.get(number)

    def near(
        self, fingerprint: int, distance: int, most: int | None = None, *, bounded: bool = False
    ) -> Probe:
        del bounded
        found = self._index.find_near(fingerprint, distance)
        if imported := self._bulk_loaded.get(fingerprint):
            found = sorted({*found, *(each for each in imported if each[0] <= distance)})
        return Probe(found[:most], distance)

    def numbers(
        self, fingerprint: int, scope: str | None = None, most: int | None = None
    ) -> list[int]:
        assert scope is not None  # noqa: S101 - a judge has one
        numbers = [0] if fingerprint in self._known else []
        return (numbers + self._numbers.get((fingerprint, scope), []))[:most]


def _make_document(stored: StoredDocument, scope: str, rule: Rule) -> Document:
    plain = rule.confirm is None and not stored.stub
    return Document(
        identity=b"-",
        fingerprints=stored.fingerprints[:1] if plain else stored.fingerprints,
        text_digest=stored.text_digest,
        url=stored.url,
        scope=scope,
        title=stored.title,
        heading=stored.heading,
        canonical=stored.canonical,
        words=stored.words,
        whole_words=stored.whole_words,
        sketch=stored.sketch,
        stub=stored.stub,
    )


def _make_record(document: Document) -> Record:
    return Record(
        identity=document.identity,
        state=State.DONE,
        delivered=True,
        crawl="",
        fingerprints=document.fingerprints,
        text_digest=document.text_digest,
        scope=document.scope,
        url=document.url,
        title=document.title,
        language="",
        features=0,
        words=document.words,
        first_time=0.0,
        time=0.0,
        heading=document.heading,
        canonical=document.canonical,
        whole_words=document.whole_words,
        sketch=document.sketch,
        stub=document.stub,
    )
