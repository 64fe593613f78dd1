"""The judgement of a store: new, near-duplicate or revisit, inside one transaction.

A record makes another page a near-duplicate only when it is *done*, or *pending* in a crawl whose
lease is alive. Any other pending record is an *orphan*: its items never came through, so it never
causes a drop; the next similar page takes over, and the page itself is judged afresh.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_simhash.lost import settle_drops
from scrapy_simhash.matching import Matcher
from scrapy_simhash.records import Record, State, Waiting
from scrapy_simhash.stored import Document, Match, Status, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from scrapy_simhash.store_documents import Documents


# No crawl can have this id, so its lease is never alive.
_WITHDRAWN = "(withdrawn)"
BUCKET_TOO_FULL = "bucket_too_full"


class Judge:
    """Judges documents one after the other, each against all before it.

    Args:
        documents: as the transaction sees them.
        distance: bits within which documents are near-duplicates.
        least_similarity: what the sketches of a near-duplicate must reach, 0 to 1; None leaves the
            decision to the distance alone.
        alive: says whether the lease of a crawl is alive.
        readonly: judge only, write nothing.
    """

    def __init__(
        self,
        documents: Documents,
        distance: int,
        least_similarity: float | None,
        alive: Callable[[str], bool],
        *,
        readonly: bool = False,
    ) -> None:
        self._documents = documents
        self._matcher = Matcher(documents, distance, least_similarity, alive)
        self._readonly = readonly

    def judge(self, document: Document) -> Verdict:
        """Judge a document and record it."""
        number, own = self._find_own(document)
        if own is not None and self._seen(own):
            return self._revisit(document, number, own)
        match, complete = self._matcher.find_match(document)
        if own is not None and own.spared:
            match, complete = None, True
        status: Status = "near_duplicate" if match else "new" if complete else "unjudged"
        reason = BUCKET_TOO_FULL if status == "unjudged" else ""
        if self._readonly:
            return Verdict(status, reason, 0, match)
        if own is not None:
            self._forget(number, own)
        number = number or self._documents.next_number()
        self._record(document, number, match, spared=own is not None and own.spared)
        return Verdict(status, reason, number, match)

    def mark_done(self, numbers: Sequence[int], crawl: str) -> None:
        """Mark those documents done that are pending in this crawl."""
        for number in numbers:
            record = self._documents.get(number)
            if record is not None and record.state == State.PENDING and record.crawl == crawl:
                record.state, record.delivered = State.DONE, True
                self._documents.put(number, record)
                settle_drops(self._documents, number, record)

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
            if self._seen(record) and self._matcher.is_alike(document, record):
                return number, record
        return 0, None

    def _seen(self, record: Record) -> bool:
        """Say whether this document came through before, or is about to."""
        return record.delivered or self._matcher.counts(record)

    def _revisit(self, document: Document, number: int, own: Record) -> Verdict:
        changed = own.text_digest != document.text_digest or own.scope != document.scope
        # The whole text changes with every advertisement: indexed anew, but not "changed".
        moved = changed or own.fingerprints != document.fingerprints
        if not self._readonly:
            if moved:
                self._documents.unindex(number, own)
            if changed or not self._matcher.counts(own):
                own.state, own.crawl = State.PENDING, document.crawl
            _update(own, document)
            if moved:
                self._documents.keep_bulk_loaded(own.fingerprints)
                self._documents.index(number, own)
            if changed:
                self._documents.drop_text(number)
            self._documents.put(number, own, document.text)
            self._name(number, document)
        return Verdict("revisit", "changed" if changed else "unchanged", number)

    def _forget(self, number: int, own: Record) -> None:
        if own.state == State.DUPLICATE:
            self._documents.unlink(own.original, number)
            self._documents.drop_waiting(number)
        else:
            self._documents.unindex(number, own)

    def _record(
        self, document: Document, number: int, match: Match | None, *, spared: bool
    ) -> None:
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
            heading=document.heading,
            canonical=document.canonical,
            whole_words=document.whole_words,
            sketch=document.sketch,
            link_sketch=document.link_sketch,
            stub=document.stub,
            spared=spared,
        )
        if match:
            record.original, record.distance = match.document, match.distance
            record.similarity, record.tests = match.similarity, match.tests
            self._documents.link(match.document, number)
            if match.pending and (original := self._documents.get(match.document)):
                waiting = Waiting(match.document, original.text_digest, document.crawl)
                self._documents.put_waiting(number, waiting)
        else:
            # A stub, for one, is no near-duplicate of the bulk-loaded fingerprint that it has.
            self._documents.keep_bulk_loaded(record.fingerprints)
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
    own.title, own.heading, own.canonical = document.title, document.heading, document.canonical
    own.language, own.features = document.language, document.features
    own.words, own.whole_words = document.words, document.whole_words
    own.sketch, own.link_sketch, own.stub = document.sketch, document.link_sketch, document.stub
