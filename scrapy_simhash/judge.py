"""The judgement of a store: new, near-duplicate or revisit, inside one transaction.

A record makes another page a near-duplicate only when it is *done*, or *pending* in a crawl whose
lease is alive. Any other pending record is an *orphan*: its items never came through, so it never
causes a drop; the next similar page takes over, and the page itself is judged afresh.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_simhash.records import Record, State
from scrapy_simhash.simhash import hamming_distance
from scrapy_simhash.stores import Document, Match, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from scrapy_simhash.lmdb_documents import Documents


# No crawl can have this id, so its lease is never alive.
_WITHDRAWN = "(withdrawn)"


class Judge:
    """Judges documents one after the other, each against all before it.

    Args:
        documents: as the transaction sees them.
        distance: bits within which documents are near-duplicates.
        alive: says whether the lease of a crawl is alive.
        readonly: judge only, write nothing.
    """

    def __init__(
        self,
        documents: Documents,
        distance: int,
        alive: Callable[[str], bool],
        *,
        readonly: bool = False,
    ) -> None:
        self._documents = documents
        self._distance = distance
        self._alive = alive
        self._readonly = readonly

    def judge(self, document: Document) -> Verdict:
        """Judge a document and record it."""
        number, own = self._find_own(document)
        if own is not None and self._seen(own):
            return self._revisit(document, number, own)
        match = self._find_match(document)
        if self._readonly:
            return Verdict("near_duplicate" if match else "new", "", 0, match)
        if own is not None:
            self._forget(number, own)
        number = number or self._documents.next_number()
        self._record(document, number, match)
        return Verdict("near_duplicate" if match else "new", "", number, match)

    def mark_done(self, numbers: Sequence[int], crawl: str) -> None:
        """Mark those documents done that are pending in this crawl."""
        for number in numbers:
            record = self._documents.get(number)
            if record is not None and record.state == State.PENDING and record.crawl == crawl:
                record.state, record.delivered = State.DONE, True
                self._documents.put(number, record)

    def withdraw(self, numbers: Sequence[int], crawl: str) -> None:
        """Make orphans of those documents that are pending in this crawl."""
        for number in numbers:
            record = self._documents.get(number)
            if record is not None and record.state == State.PENDING and record.crawl == crawl:
                record.crawl = _WITHDRAWN
                self._documents.put(number, record)

    def _find_own(self, document: Document) -> tuple[int, Record | None]:
        """Find the record of the document itself, by its identity or that of a redirect.

        An alias leads to the same document only while the text is alike: a redirect to a login
        page does not make that page the document, nor the other way round.
        """
        for identity in (document.identity, *document.aliases):
            number = self._documents.find_number(identity)
            record = self._documents.get(number) if number else None
            if number is None or record is None:
                continue
            if record.identity == document.identity:
                return number, record
            if self._seen(record) and self._alike(record, document):
                return number, record
        return 0, None

    def _alike(self, record: Record, document: Document) -> bool:
        return any(
            hamming_distance(stored, fetched) <= self._distance
            for stored in record.fingerprints
            for fetched in document.fingerprints
        )

    def _seen(self, record: Record) -> bool:
        """Say whether this document came through before, or is about to."""
        return record.delivered or self._counts(record)

    def _counts(self, record: Record) -> bool:
        """Say whether this record makes another document a near-duplicate."""
        if record.state == State.PENDING:
            return self._alive(record.crawl)
        return record.state == State.DONE

    def _revisit(self, document: Document, number: int, own: Record) -> Verdict:
        changed = (
            own.text_digest != document.text_digest
            or own.fingerprints != document.fingerprints
            or own.scope != document.scope
        )
        if not self._readonly:
            if changed:
                self._documents.unindex(number, own)
            if changed or not self._counts(own):
                own.state, own.crawl = State.PENDING, document.crawl
            _update(own, document)
            if changed:
                self._documents.keep_bulk_loaded(own.fingerprints)
                self._documents.index(number, own)
                self._documents.drop_text(number)
            self._documents.put(number, own, document.text)
            self._name(number, document)
        return Verdict("revisit", "changed" if changed else "unchanged", number)

    def _find_match(self, document: Document) -> Match | None:
        """Find the nearest record that counts, the oldest of equals.

        Never the document's own: that one is an orphan or a near-duplicate here, and counts not.
        """
        near = sorted(
            hit
            for fingerprint in set(document.fingerprints)
            for hit in self._documents.near(fingerprint, self._distance)
        )
        best: Match | None = None
        for distance, fingerprint in near:
            if best and best.distance < distance:
                break
            for number in self._documents.numbers(fingerprint, document.scope):
                if not number:
                    return Match(0, fingerprint, distance, None)
                if best and best.document <= number:
                    continue
                record = self._documents.get(number)
                if record is not None and self._counts(record):
                    best = Match(number, fingerprint, distance, record.url)
        return best

    def _forget(self, number: int, own: Record) -> None:
        if own.state == State.DUPLICATE:
            self._documents.unlink(own.original, number)
        else:
            self._documents.unindex(number, own)

    def _record(self, document: Document, number: int, match: Match | None) -> None:
        record = Record(
            identity=document.identity,
            state=State.DUPLICATE if match else State.PENDING,
            delivered=False,
            crawl=document.crawl,
            fingerprints=document.fingerprints,
            text_digest=document.text_digest,
            scope=document.scope,
            url=document.url,
            title=document.title,
            language=document.language,
            features=document.features,
            words=document.words,
            first_time=document.time,
            time=document.time,
        )
        if match:
            record.original, record.distance = match.document, match.distance
            record.similarity = match.similarity
            self._documents.link(match.document, number)
        else:
            self._documents.index(number, record)
        self._documents.put(number, record, document.text)
        self._documents.name(number, document.identity, overwrite=True)
        for alias in document.aliases:
            self._documents.name(number, alias)

    def _name(self, number: int, document: Document) -> None:
        for identity in (document.identity, *document.aliases):
            self._documents.name(number, identity)


def _update(own: Record, document: Document) -> None:
    """Take over what was fetched now; identity, crawl and state are not touched."""
    own.fingerprints, own.text_digest = document.fingerprints, document.text_digest
    own.scope, own.url, own.time = document.scope, document.url, document.time
    own.title, own.language = document.title, document.language
    own.features, own.words = document.features, document.words
