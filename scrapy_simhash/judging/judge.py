"""The judgement of a store: new, near-duplicate or revisit, inside one transaction.

A store has what came through. Each crawl is complete by itself: a page is dropped only for one
that this crawl *got*. If only an *earlier* crawl did, it is kept as the first copy, and from then
on stands for that one. Where crawls fetch only what is new (`incremental`), whatever any crawl got
counts. A *young* document is none of a store: its items are on their way.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from msgspec import structs

from scrapy_simhash.judging.comparison import (
    Compared,
    compare,
    deserves_a_look,
    is_better_url,
)
from scrapy_simhash.judging.documents import (
    Change,
    Document,
    Match,
    Record,
    State,
    Status,
    Verdict,
    add_crawls,
)
from scrapy_simhash.judging.finding import (
    NOTHING_FOUND,
    Doubt,
    Finder,
    Found,
    Trusted,
    is_unchanged,
)
from scrapy_simhash.judging.hosts import Hosts
from scrapy_simhash.pages.facts import Facts
from scrapy_simhash.pages.links import NO_LINKS, measure_new_links
from scrapy_simhash.simhash import hamming_distance

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from scrapy_simhash.judging.documents import Candidate, Reading, Standing
    from scrapy_simhash.judging.evidence import Rule
    from scrapy_simhash.judging.finding import MayAsk

# A name that more documents have proposes none: it is the site's, or that of a kind of page; and
# a fingerprint near to more says as little.
MOST_CALLED = 8
BUCKET_TOO_FULL = "bucket_too_full"
UNCHANGED, FIRST_COPY = "unchanged", "first_copy"
# The items of its match had not come through, so it was kept; the judge process says so.
UNDELIVERED = "undelivered"
# Of several that are alike the page is dropped for one that came through, if it may be.
_STANDINGS: tuple[Standing, ...] = ("got", "young", "earlier")


def _never(_document: int, _host: str) -> bool:
    return False


@dataclass
class Judge:
    """Judges documents inside one transaction one after the other, each against all before it.

    Attributes:
        documents: as the transaction sees them.
        rule: by which they are compared.
        crawl: id of the crawl that fetched what is judged, or "" outside of crawls.
        incremental: what any crawl got counts, not only what this one did.
        hosts: what is known of them; lasts from one judge to the next.
        may_ask: whether a document of a host may be asked for once more.
        trusted: leave out this alone of what changes by itself.
        doubt: about the page that was judged, if there is one.
        rests: the original of a near-duplicate that is one but for noise.
    """

    documents: Reading
    rule: Rule
    crawl: str = ""
    incremental: bool = True
    hosts: Hosts = field(default_factory=Hosts)
    may_ask: MayAsk = _never
    trusted: Trusted | None = None
    doubt: Doubt | None = None
    rests: Doubt | None = None

    def find_match(
        self, document: Document, own: int = 0
    ) -> tuple[Match | None, Match | None, bool]:
        """Find the document most alike of those with the best standing; of equals the nearest.

        Args:
            document: which is judged.
            own: number of its own record, which must not count.

        Returns:
            The match; or else the document that would have been it, had it been confirmed; and
            whether every document that could be one was compared.
        """
        candidates, complete = self.documents.gather(document, self.rule, own)
        chosen = list(self._choose(document.facts, candidates))
        if not self.rule.plain and document.wording:
            return *self._find_by_words(document, chosen, own), complete
        return *self._choose_match(document, self._compare(document.facts, chosen)), complete

    def _compare(
        self, page: Facts, chosen: Iterable[tuple[Candidate, Record | None]]
    ) -> list[Compared]:
        """Compare a page with its candidates by distance or digest."""
        compared = []
        for candidate, record in chosen:
            # A bulk-loaded fingerprint is in every scope.
            loaded = Facts(b"", candidate.fingerprint, b"", scope=page.scope)
            other = record.facts if record else loaded
            compared.append(Compared(candidate, record, compare(page, other, self.rule)))
        return compared

    def _choose_match(
        self, document: Document, compared: Iterable[Compared], found: Found = NOTHING_FOUND
    ) -> tuple[Match | None, Match | None]:
        """Choose the match of a page among what was compared; or else the nearest one."""
        compared = list(compared)
        alike = (each for each in compared if each.answer.duplicate)
        if match := min(alike, key=self._rank, default=None):
            return self._make_match(document, found.describe(match)), None
        parted = (each for each in compared if deserves_a_look(each, self.rule))
        nearest = min(parted, key=_rank_alike, default=None)
        return None, self._make_match(document, found.describe(nearest)) if nearest else None

    def _find_by_words(
        self, document: Document, chosen: list[tuple[Candidate, Record | None]], own: int
    ) -> tuple[Match | None, Match | None]:
        """Find the match of a page by the words of its candidates; or else the nearest one."""
        finder = Finder(
            self.documents,
            self.hosts,
            lambda compared: self._stand(compared) == "got",
            self.may_ask if self.trusted is None else _never,
            self.trusted,
        )
        found = finder.find(document, chosen, own)
        self.doubt = found.doubt
        bulk_loaded = (each for each in chosen if each[1] is None)
        compared = [*found.near, *self._compare(document.facts, bulk_loaded)]
        match, nearest = self._choose_match(document, compared, found)
        self.rests = found.rests.get(match.document) if match else None
        return match, nearest

    def _choose(
        self, page: Facts, candidates: Iterable[tuple[Candidate, Record | None]]
    ) -> Iterator[tuple[Candidate, Record | None]]:
        """Choose the candidates that count; a bulk-loaded one has no record."""
        for candidate, record in candidates:
            if record is None:
                if not candidate.number:
                    yield candidate, record
            # A page is no copy of itself, though a fingerprinter may tell its requests apart.
            elif record.state == State.DONE and (record.facts.url != page.url or not page.url):
                located = candidate
                if candidate.distance < 0:  # it was not found by its fingerprint
                    fingerprint = record.facts.fingerprint
                    distance = hamming_distance(page.fingerprint, fingerprint)
                    located = candidate._replace(distance=distance, fingerprint=fingerprint)
                yield located, record

    def judge(self, document: Document) -> tuple[Verdict, Change]:
        """Judge a document; also returns what is to be written of it, see `Change`.

        A page near a young one is to be written like a new one, should it be kept.
        """
        found = self.documents.find_own(document)
        for number, record in found:
            if record.state == State.DONE:
                return self._revisit(document, number, record)
        number, own = next((each for each in found if _is_own(document, each[1])), (0, None))
        match, nearest, complete = self.find_match(document, number)
        if any(record.spared for _, record in found):
            match, complete = None, True
        status: Status = "near_duplicate" if match else "new" if complete else "not_judged"
        reason = BUCKET_TOO_FULL if status == "not_judged" else ""
        if match is not None and match.standing == "earlier":
            reason = FIRST_COPY
        change = Change(number, self._make_record(document, own, match), document.wording)
        return Verdict(status, reason, 0, match, nearest), change

    def _revisit(self, document: Document, number: int, own: Record) -> tuple[Verdict, Change]:
        page, before = document.facts, own.facts
        changed = before.scope != page.scope or (
            before.text_digest != page.text_digest
            and (
                self.rule.plain
                or not is_unchanged(self.documents, self.hosts, document, number, own)
            )
        )
        verdict = Verdict("revisit", "changed" if changed else UNCHANGED, number)
        if not _is_own(document, own):
            # What was imported stays for other callbacks, which did not get it.
            return verdict, Change(0, self._make_record(document), document.wording)
        facts = structs.replace(page, suspicion=before.suspicion)
        # Those that got another text did not get this one.
        crawls = add_crawls(() if changed else own.crawls, self._list_crawls())
        return verdict, Change(
            number, structs.replace(own, facts=facts, crawls=crawls), document.wording
        )

    def _list_crawls(self) -> tuple[str, ...]:
        return (self.crawl,) if self.crawl else ()

    def _make_record(
        self, document: Document, own: Record | None = None, match: Match | None = None
    ) -> Record:
        """Make the record of a page that was judged, in place of its own one if there is one."""
        facts = document.facts
        if own is not None:  # as it was found first
            facts = structs.replace(facts, suspicion=own.facts.suspicion)
        record = Record(facts, State.DONE, self._list_crawls(), facts.time)
        if match is not None and match.standing != "young":
            record.state = State.DUPLICATE
            record.original, record.distance = match.document, match.distance
            record.similarity, record.tests = match.similarity, match.tests
            record.new_links = match.new_links
        return record

    def _stand(self, compared: Compared) -> Standing:
        """Tell how a document stands in this crawl; no crawl got what was bulk-loaded."""
        if compared.candidate.young:
            return "young"
        record = compared.record
        got = self.incremental or (record is not None and self.crawl in record.crawls)
        return "got" if got else "earlier"

    def _rank(self, compared: Compared) -> tuple[object, ...]:
        """Rank documents: by standing, then as `_rank_alike`."""
        return _STANDINGS.index(self._stand(compared)), *_rank_alike(compared)

    def _make_match(self, page: Document, compared: Compared) -> Match:
        candidate, record, answer = compared
        facts, other, new_links = page.facts, record.facts if record else None, None
        better_url = other is not None and is_better_url(
            facts.url, facts.canonical, other.url, other.canonical
        )
        links = page.links if answer.duplicate else NO_LINKS
        if other is not None and other.sketch:  # without one nobody looked at its links
            new_links = measure_new_links(
                facts.link_sketch, links, facts.url, other.link_sketch, other.url, page.requested
            )
        return Match(
            candidate.number,
            candidate.fingerprint,
            candidate.distance,
            other.url if other else None,
            answer.similarity,
            answer.tests,
            new_links,
            time=other.time if other else None,
            text_digest=other.text_digest if other else b"",
            standing=self._stand(compared),
            evidence=answer.evidence,
            own_words=answer.words[0],
            match_own_words=answer.words[1],
            better_url=better_url,
        )


def _is_own(document: Document, record: Record) -> bool:
    """Whether a record is that of a document, not what an import has of it."""
    return record.facts.identity == document.facts.identity


def _rank_alike(compared: Compared) -> tuple[float, Candidate]:
    """Rank documents: the one most alike first, then the nearest, then the oldest."""
    return -(compared.answer.similarity or 0.0), compared.candidate
