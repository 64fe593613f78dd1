"""The judgement of a store: new, near-duplicate or revisit, inside one transaction.

A store has what came through. Each crawl is complete by itself: a page is dropped only for one
that this crawl *got*. If only an *earlier* crawl did, it is kept as the first copy, and from then
on stands for that one. Where crawls fetch only what is new (`incremental`), whatever any crawl got
counts. A *young* document is none of a store: its items are on their way.

Where only what was never tested parts a page from a kept one, that is a *doubt*: the kept page is
to be asked for once more, which shows what changes there by itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from msgspec import structs

from scrapy_simhash.judging.documents import (
    Candidate,
    Change,
    Document,
    Match,
    Record,
    State,
    Status,
    Verdict,
    add_crawls,
)
from scrapy_simhash.judging.evidence import PLAIN_DISTANCE_BITS, Deciding, Evidence, Relation
from scrapy_simhash.judging.evidence import WORDS_DISTANCE_BITS as FEW_BITS
from scrapy_simhash.judging.hosts import Hosts
from scrapy_simhash.judging.noise import Slots, clean_both, learn, list_standing
from scrapy_simhash.judging.rule import (
    DECLARED,
    STUB_WORDS,
    UNKNOWN,
    Page,
    Ruling,
    find_declared,
    find_names_apart,
    judge,
)
from scrapy_simhash.judging.words import find_signs, look
from scrapy_simhash.pages.addresses import host_of, is_better_url, split_url
from scrapy_simhash.pages.links import NO_LINKS, measure_new_links
from scrapy_simhash.pages.wording import unpack
from scrapy_simhash.simhash import hamming_distance

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from scrapy_simhash.judging.documents import Reading, Standing
    from scrapy_simhash.judging.evidence import Rule
    from scrapy_simhash.judging.noise import Change as Noisy
    from scrapy_simhash.judging.rule import Site
    from scrapy_simhash.judging.words import Side
    from scrapy_simhash.pages.facts import Facts
    from scrapy_simhash.pages.wording import Wording

    MayAsk = Callable[[int, str], bool]

LEFT_OUT, CHANGES = "left out: ", "changes by itself: "
# So many places in which a drop rests on noise are named.
_MOST_NAMED = 3
# A word may be as long as a page.
_LONGEST_WHY = 400
# Candidates whose words are compared; their originals are among the best.
MOST_COMPARED = 8
# What parts a page from the one in doubt is at most so much of its words.
_MOST_IN_DOUBT = 0.5
# So many candidates may be in doubt: the one with least of its own.
_MOST_DOUBTED = 2
# Texts that have less in common are not worth a look.
_LEAST_ALIKE = 0.5
# A name that more documents have proposes none: it is the site's, or that of a kind of page; and
# a fingerprint near to more says as little.
MOST_CALLED = 8
BUCKET_TOO_FULL = "bucket_too_full"
UNCHANGED, FIRST_COPY = "unchanged", "first_copy"
# The items of its match had not come through, so it was kept; the judge process says so.
UNDELIVERED = "undelivered"
# Of several that are alike the page is dropped for one that came through, if it may be.
_STANDINGS: tuple[Standing, ...] = ("got", "young", "earlier")


class Doubt(NamedTuple):
    """A page that is to be asked for once more.

    Attributes:
        document: its number.
        page: as it was judged, with all its words.
        sought: where it parts from the page in doubt.
    """

    document: int
    page: Page
    sought: tuple[Noisy, ...] = ()


class Trusted(NamedTuple):
    """The noise of a document on which a drop may rest."""

    document: int
    changes: tuple[Noisy, ...]


class Answer(NamedTuple):
    """What came of comparing a page with a candidate.

    Attributes:
        evidence: what decided.
        duplicate: whether they are near-duplicates.
        tests: what made the one a candidate for the other, why they are one or two, and what was
            left out, for people.
        similarity: share of words that do not stand alone, 0 to 1; None where they do not decide.
        words: the first words that either has for itself.
        candidate: what the page was compared with.
        pages: both without noise; None where no words were compared.
        sides: their words; None where these were compared as a whole.
        rests: the candidate, if the page repeats it but for noise.
        noise: what was left out of them.
    """

    evidence: Evidence
    duplicate: bool
    tests: tuple[str, ...]
    similarity: float | None = None
    words: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    candidate: Candidate = Candidate(-1, 0, 0)
    pages: tuple[Page, Page] | None = None
    sides: tuple[Side, Side] | None = None
    rests: Doubt | None = None
    noise: Iterable[Noisy] = ()

    def describe(self) -> Answer:
        """Add for people what parts the page from the candidate, and what was left out."""
        if self.pages is None:
            return self
        mine, theirs = self.pages
        side, other = self.sides or (
            look(mine.words, theirs.words, None),
            look(theirs.words, mine.words, None),
        )
        of_main = [int((each.alone & each.words.main).sum()) for each in (side, other)]
        in_main = [max(1, int(each.words.main.sum())) for each in (side, other)]
        urls = f"{mine.facts.url} {theirs.facts.url}"
        evidence = structs.replace(
            self.evidence,
            title=_relate(mine.title, theirs.title),
            heading=_relate(mine.heading, theirs.heading),
            other_number=all(_says_number(each, urls) for each in (side, other)),
            main_alike=1 - max(n / of for n, of in zip(of_main, in_main, strict=True)),
        )
        tests = list(self.tests)
        if template := int((side.alone & ~side.own).sum()):
            tests.append(f"{LEFT_OUT}{template} words of the site's template")
        noise = islice(dict.fromkeys(map(str, self.noise)), _MOST_NAMED)
        tests += [f"{LEFT_OUT}{CHANGES}{change}" for change in noise]
        words = tuple(each.words.list_words(each.alone) for each in (side, other))
        return self._replace(evidence=evidence, tests=tuple(tests), words=(words[0], words[1]))


def _says_number(side: Side, urls: str) -> bool:
    """Return whether a main text has a number of its own that is in no address."""
    own = np.flatnonzero(side.own & side.words.main & side.words.numbers)
    numbers = (side.words.tokens[place] for place in own.tolist())
    return any(number not in urls for number in numbers)


class _Parted(NamedTuple):
    """A candidate that is another page: how many words part it, and both without noise."""

    alone: int
    number: int
    kept: Page
    mine: Page
    theirs: Page
    sites: tuple[Site, Site]


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
        whole: a page fetched again is unchanged only if all of it is, not its main text alone.
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
    whole: bool = False
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
        self.doubt = self.rests = None
        candidates, complete = self.documents.gather(document, self.rule, own)
        chosen = self._choose(document.facts, candidates)
        if self.rule.name != "plain" and document.wording:
            answers = self._compare_words(document, chosen, own)
        else:
            answers = [
                compare_plainly(document.facts, each.record.facts, self.rule)._replace(
                    candidate=each
                )
                for each in chosen
                if each.record is not None
            ]
        alike = (each for each in answers if each.duplicate)
        if match := min(alike, key=self._rank, default=None):
            self.rests = match.rests
            return self._make_match(document, match.describe()), None, complete
        near = (
            each
            for each in answers
            if (each.similarity or 0.0) >= _LEAST_ALIKE
            or each.candidate.distance <= self.rule.distance
        )
        nearest = min(near, key=_rank_alike, default=None)
        described = self._make_match(document, nearest.describe()) if nearest else None
        return None, described, complete

    def _choose(self, page: Facts, candidates: Iterable[Candidate]) -> Iterator[Candidate]:
        """Choose the candidates that count."""
        for candidate in candidates:
            record = candidate.record
            if record is None:
                continue
            # A page is no copy of itself, though a fingerprinter may tell its requests apart.
            if record.state == State.DONE and (record.facts.url != page.url or not page.url):
                located = candidate
                if candidate.distance < 0:  # it was not found by its fingerprint
                    fingerprint = record.facts.fingerprint
                    distance = hamming_distance(page.fingerprint, fingerprint)
                    located = candidate._replace(distance=distance, fingerprint=fingerprint)
                yield located

    def _compare_words(
        self, document: Document, chosen: Iterable[Candidate], own: int
    ) -> list[Answer]:
        """Compare a page with the best of its candidates by words, until one is its original."""
        page = Page.make(document.facts, unpack(document.wording))
        found = [
            (candidate, candidate.record)
            for candidate in chosen
            if candidate.record is not None and candidate.record.facts.scope == page.facts.scope
        ]
        found.sort(key=lambda each: _rank(page.facts, *each))
        found = found[:MOST_COMPARED]
        answers: list[Answer] = []
        sites_of: dict[int, tuple[Site, Site]] = {}
        for candidate, record in found:
            sites = self._find_sites(page.facts, record.facts, (own, candidate.number))
            if why := find_names_apart(page.facts, record.facts, *sites):
                said = Ruling(one=False, why=why)
                answers.append(_wrap(said, candidate, page.facts, record.facts))
            else:
                sites_of[candidate.number] = sites
        wordings = self.documents.get_wordings(sites_of)
        parted: list[_Parted] = []
        for candidate, record in found:
            number = candidate.number
            if number not in wordings:
                continue
            kept = Page.make(record.facts, wordings[number])
            mine, theirs = self._clean(page, kept, number)
            sites = sites_of[number]
            said = self._doubt_declared(judge(mine, theirs, *sites), page.facts, record.facts)
            answer = _wrap(said, candidate, page.facts, record.facts, known=sites[0].known)
            answer = answer._replace(pages=(mine, theirs))
            has_noise = mine.words is not page.words or theirs.words is not kept.words
            if not said.one:
                alone = int(said.sides[0].alone.sum()) if said.sides else len(mine.words)
                parted.append(_Parted(alone, number, kept, mine, theirs, sites))
            elif (has_noise or mine.title != page.title) and not judge(page, kept, *sites).one:
                noise = self._list_noise(page, kept, number)
                answer = answer._replace(rests=Doubt(number, kept), noise=noise)
            answers.append(answer)
            if said.one and self._stand(answer) == "got":
                break
        if not any(each.duplicate for each in answers):
            self.doubt = self._find_doubt(page, parted)
        return answers

    def _doubt_declared(self, said: Ruling, page: Facts, kept: Facts) -> Ruling:
        """Keep a page whose site declares one address for whatever it says."""
        if said.why != DECLARED or said.sides is None:
            return said
        side = said.sides[0]
        places = np.flatnonzero(side.own & ~side.words.numbers).tolist()
        own = frozenset(map(side.words.tokens.__getitem__, places))
        if self.hosts.believes(find_declared(page, kept), page, own):
            return said
        return said._replace(one=False, why="an address that pages with other words declare, too")

    def _clean(self, page: Page, kept: Page, number: int) -> tuple[Page, Page]:
        """Take out of two pages what changes by itself."""
        if self.trusted is None:
            return self.hosts.clean_both(page, kept)
        slots = Slots(self.trusted.changes if self.trusted.document == number else ())
        return clean_both((page, kept), (slots, slots))

    def _list_noise(self, page: Page, kept: Page, number: int) -> Iterable[Noisy]:
        """List what of two pages changes by itself."""
        if self.trusted is not None:
            found = self.trusted.changes if self.trusted.document == number else ()
            return list_standing(found, (page, kept))
        return self.hosts.list_noise(page, kept)

    def _find_sites(self, page: Facts, kept: Facts, without: tuple[int, int]) -> tuple[Site, Site]:
        mine = self.hosts.find(self.documents, page.url, without)
        if host_of(page.url) == host_of(kept.url):
            return mine, mine
        return mine, self.hosts.find(self.documents, kept.url, without)

    def _find_doubt(self, page: Page, parted: list[_Parted]) -> Doubt | None:
        """Find a candidate that the page would repeat, but for what was never tested."""
        if self.trusted is not None:
            return None
        parted.sort(key=lambda each: each[:2])
        for alone, number, kept, mine, theirs, sites in parted[:_MOST_DOUBTED]:
            url, words = kept.facts.url, len(mine.words)
            if alone > _MOST_IN_DOUBT * words and words >= STUB_WORDS:
                break
            if not (_are_of_one_host(page.facts.url, url) and self.may_ask(number, host_of(url))):
                continue
            noise = self.hosts.get_noise(url)
            sought = [each for each in learn(mine, theirs) if not noise.is_settled(url, each)]
            slots = Slots(sought)
            if sought and judge(*clean_both((mine, theirs), (slots, slots)), *sites).one:
                return Doubt(number, kept, tuple(sought))
        return None

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
            (before.text_digest != page.text_digest or self.whole)
            and (
                before.text_digest != page.text_digest
                if self.rule.name == "plain"
                else not is_unchanged(self.documents, self.hosts, document, number, own)
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

    def _stand(self, answer: Answer) -> Standing:
        """Tell how a document stands in this crawl."""
        if answer.candidate.young:
            return "young"
        record = answer.candidate.record
        got = self.incremental or (record is not None and self.crawl in record.crawls)
        return "got" if got else "earlier"

    def _rank(self, answer: Answer) -> tuple[object, ...]:
        """Rank documents: by standing, then as `_rank_alike`."""
        return _STANDINGS.index(self._stand(answer)), *_rank_alike(answer)

    def _make_match(self, page: Document, answer: Answer) -> Match:
        candidate, facts, new_links = answer.candidate, page.facts, None
        other = candidate.record.facts if candidate.record else None
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
            standing=self._stand(answer),
            evidence=answer.evidence,
            own_words=answer.words[0],
            match_own_words=answer.words[1],
            better_url=better_url,
        )


def _is_own(document: Document, record: Record) -> bool:
    """Whether a record is that of a document, not what an import has of it."""
    return record.facts.identity == document.facts.identity


def _rank_alike(answer: Answer) -> tuple[object, ...]:
    """Rank documents: the one most alike first, then the nearest, then the oldest."""
    return -(answer.similarity or 0.0), *answer.candidate[:-1]


def _relate(mine: tuple[str, ...], theirs: tuple[str, ...]) -> Relation:
    if not mine or not theirs:
        return Relation.SILENT
    return Relation.SAME if mine == theirs else Relation.DIFFER


def _are_of_one_host(mine: str, theirs: str) -> bool:
    first, second = split_url(mine), split_url(theirs)
    if first is None or second is None:
        return False
    return bool(first.netloc) and (first.scheme, first.netloc) == (second.scheme, second.netloc)


def _rank(page: Facts, candidate: Candidate, record: Record) -> tuple[object, ...]:
    """Rank candidates before their words are read."""
    other = record.facts
    named = (page.title == other.title) + (page.heading == other.heading)
    return -named, -candidate.keys, candidate.distance, candidate.number


def _wrap(
    said: Ruling, candidate: Candidate, page: Facts, kept: Facts, *, known: bool = False
) -> Answer:
    """Make an answer for log and report."""
    distance = hamming_distance(page.fingerprint, kept.fingerprint)
    short = page.stub or kept.stub
    named, keys = (candidate.name, candidate.keys) if distance > FEW_BITS else ("", 0)
    evidence = Evidence(
        deciding=Deciding.DIGEST if page.stub and kept.stub else Deciding.WORDS,
        distance=distance,
        within=FEW_BITS,
        named=bool(named),
        keys=keys,
        equal=page.text_digest == kept.text_digest,
        known=known,
    )
    share = float(said.one)
    if said.sides is not None:
        alone = said.sides[0].alone
        share = 1 - int(alone.sum()) / max(1, len(alone))
    proposal = name_proposal(distance, stub=short, name=named, keys=keys)
    why = said.why if len(said.why) <= _LONGEST_WHY else f"{said.why[:_LONGEST_WHY]}..."
    return Answer(
        evidence, said.one, (proposal, why), round(share, 4), candidate=candidate, sides=said.sides
    )


def is_unchanged(
    documents: Reading, hosts: Hosts, document: Document, number: int, own: Record
) -> bool:
    """Return whether a page shows what its record has, but for what changes by itself.

    What earlier crawls saw counts here: nothing is judged for another page.
    """
    url = document.facts.url
    before = documents.get_wordings([number]).get(number)
    slots = Slots(hosts.recall(documents, url).list_measured(url))
    if before is None or not (slots or own.facts.text_digest == document.facts.text_digest):
        return False
    now, then = (
        slots.clean(Page.make(facts, wording))
        for facts, wording in (
            (document.facts, unpack(document.wording)),
            (own.facts, before),
        )
    )
    names = now.title == then.title and now.heading == then.heading
    texts = now.words.tokens == then.words.tokens and not find_signs(now.words, then.words)
    one, other = now.words.wording, then.words.wording
    return names and texts and (one.rest, one.beside) == (other.rest, other.beside)


def compare_by_words(
    documents: Reading | None,
    page: Facts,
    kept: Facts,
    wordings: tuple[Wording, Wording],
    *,
    name: str = "",
) -> Answer:
    """Compare two pages word by word, without noise.

    Args:
        documents: tell of their sites; None for hosts that are not known.
        page: that would be dropped.
        kept: the other one.
        wordings: of both.
        name: the part of a name that both have, if one was found by it.
    """
    mine, theirs = (
        Page.make(facts, wording) for facts, wording in zip((page, kept), wordings, strict=True)
    )
    sites, hosts = (UNKNOWN, UNKNOWN), Hosts()
    if documents is not None:
        numbers = [documents.find_number(each.identity) or 0 for each in (page, kept)]
        sites = (
            hosts.find(documents, page.url, numbers),
            hosts.find(documents, kept.url, numbers),
        )
    said = judge(mine, theirs, *sites)
    answer = _wrap(said, Candidate(-1, 1, 0, name), page, kept, known=sites[0].known)
    return answer._replace(pages=(mine, theirs)).describe()


def compare_plainly(first: Facts, second: Facts, rule: Rule) -> Answer:
    """Compare two documents without their words, by digest or distance, whichever comes first."""
    deciding = _find_deciding(first, second, rule)
    distance = hamming_distance(first.fingerprint, second.fingerprint)
    short = first.stub or second.stub
    evidence = Evidence(
        deciding=deciding,
        distance=distance,
        within=0 if short else rule.distance,
        equal=first.stub == second.stub and first.text_digest == second.text_digest,
    )
    duplicate = distance <= evidence.within
    if deciding is Deciding.DIGEST:
        duplicate = evidence.equal
    elif deciding is Deciding.NO_WORDS:
        duplicate &= distance <= PLAIN_DISTANCE_BITS
    elif deciding is not Deciding.DISTANCE:
        duplicate = False
    proposal = name_proposal(distance, stub=short)
    return Answer(evidence, duplicate, (proposal, deciding.value))


def _find_deciding(first: Facts, second: Facts, rule: Rule) -> Deciding:
    """Find what decides about two documents."""
    if first.scope != second.scope:
        return Deciding.SCOPE
    if first.stub or second.stub:
        return Deciding.DIGEST
    if rule.name == "plain":
        return Deciding.DISTANCE
    return Deciding.WORDS if first.sketch and second.sketch else Deciding.NO_WORDS


def name_proposal(distance: int, *, stub: bool, name: str = "", keys: int = 0) -> str:
    """Name for people what made a document a candidate: `name` or `keys`, if it was that."""
    bits = f"distance {distance} bit{'s' * (distance != 1)}"
    if name:
        return f"called {name!r}, too; {'a short page' if stub else bits}"
    if keys and not stub:
        return f"rare triples: {keys}; {bits}"
    return "same short page" if stub else bits
