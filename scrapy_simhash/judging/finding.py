"""Find the page that a page repeats: by the words of its candidates, noise aside.

Where only what was never tested parts a page from a kept one, that is a *doubt*: the kept page is
to be asked for once more, which shows what changes there by itself.
"""

from __future__ import annotations

from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from msgspec import structs

from scrapy_simhash.judging.comparison import Answer, Compared, name_proposal
from scrapy_simhash.judging.documents import Candidate
from scrapy_simhash.judging.evidence import WORDS_DISTANCE_BITS as FEW_BITS
from scrapy_simhash.judging.evidence import Deciding, Evidence, Relation
from scrapy_simhash.judging.hosts import Hosts
from scrapy_simhash.judging.noise import Slots, clean_both, learn, list_standing
from scrapy_simhash.judging.rule import STUB_WORDS, UNKNOWN, Page, find_names_apart, judge
from scrapy_simhash.judging.rule import Answer as Ruled
from scrapy_simhash.judging.words import Words, find_signs, look
from scrapy_simhash.pages.addresses import host_of, split_url
from scrapy_simhash.pages.wording import unpack
from scrapy_simhash.simhash import hamming_distance

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from scrapy_simhash.judging.documents import Document, Reading, Record
    from scrapy_simhash.judging.noise import Change
    from scrapy_simhash.judging.rule import Site
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


class Doubt(NamedTuple):
    """A page that is to be asked for once more.

    Attributes:
        document: its number.
        page: as it was judged, with all its words.
        sought: where it parts from the page in doubt.
    """

    document: int
    page: Page
    sought: tuple[Change, ...] = ()


class Trusted(NamedTuple):
    """The noise of a document on which a drop may rest."""

    document: int
    changes: tuple[Change, ...]


class Found(NamedTuple):
    """What was found for a page.

    Attributes:
        near: candidates that were compared.
        doubt: about a page of which it may be a near-duplicate.
        rests: candidates that the page repeats but for noise, by their numbers.
        sides: both pages without noise, and their sites, by the numbers of candidates.
        noise: what was left out of them.
    """

    near: list[Compared]
    doubt: Doubt | None = None
    rests: Mapping[int, Doubt] = MappingProxyType({})
    sides: Mapping[int, tuple[Page, Page, tuple[Site, Site]]] = MappingProxyType({})
    noise: Mapping[int, Iterable[Change]] = MappingProxyType({})

    def describe(self, compared: Compared) -> Compared:
        """Add for people what parts a page from a candidate, and what was left out."""
        if compared.candidate.number not in self.sides:
            return compared
        mine, theirs, sites = self.sides[compared.candidate.number]
        side = look(mine.words, theirs.words, sites[0].mark(mine.words))
        other = look(theirs.words, mine.words, sites[1].mark(theirs.words))
        of_main = [int((each.alone & each.words.main).sum()) for each in (side, other)]
        in_main = [max(1, int(each.words.main.sum())) for each in (side, other)]
        evidence = structs.replace(
            compared.answer.evidence,
            title=_relate(mine.title, theirs.title),
            heading=_relate(mine.heading, theirs.heading),
            main_alike=1 - max(n / of for n, of in zip(of_main, in_main, strict=True)),
        )
        tests = list(compared.answer.tests)
        if template := int((side.alone & ~side.own).sum()):
            tests.append(f"{LEFT_OUT}{template} words of the site's template")
        noise = dict.fromkeys(map(str, self.noise.get(compared.candidate.number, ())))
        tests += [f"{LEFT_OUT}{CHANGES}{change}" for change in islice(noise, _MOST_NAMED)]
        words = tuple(each.words.list_words(each.alone) for each in (side, other))
        answer = compared.answer._replace(
            evidence=evidence, tests=tuple(tests), words=(words[0], words[1])
        )
        return compared._replace(answer=answer)


NOTHING_FOUND = Found([])


class _Parted(NamedTuple):
    """A candidate that is another page: how many words part it, and both without noise."""

    alone: int
    number: int
    kept: Page
    mine: Page
    theirs: Page
    sites: tuple[Site, Site]


class Finder(NamedTuple):
    """Compares pages with their candidates.

    Attributes:
        documents: of the store.
        hosts: what is known of them.
        is_best: whether no other match could be better than one.
        may_ask: whether a document of a host may be asked for once more.
        trusted: leave out this alone of what changes by itself.
    """

    documents: Reading
    hosts: Hosts
    is_best: Callable[[Compared], bool]
    may_ask: MayAsk
    trusted: Trusted | None = None

    def find(
        self, document: Document, chosen: Iterable[tuple[Candidate, Record | None]], own: int
    ) -> Found:
        """Compare a page with the best of its candidates, until one is its original.

        Args:
            document: that is judged.
            chosen: its candidates.
            own: number of its own record, or 0.
        """
        page = Page.make(document.facts, Words.read(unpack(document.wording)))
        found = [
            (candidate, record)
            for candidate, record in chosen
            if record is not None and record.facts.scope == page.facts.scope
        ]
        found.sort(key=lambda each: _rank(page.facts, *each))
        found = found[:MOST_COMPARED]
        compared: list[Compared] = []
        sites_of: dict[int, tuple[Site, Site]] = {}
        for candidate, record in found:
            sites = self._find_sites(page.facts, record.facts, (own, candidate.number))
            if why := find_names_apart(page.facts, record.facts, *sites):
                answer = _wrap(Ruled(one=False, why=why), candidate, page.facts, record.facts)
                compared.append(Compared(candidate, record, answer))
            else:
                sites_of[candidate.number] = sites
        wordings = self.documents.get_wordings(sites_of)
        parted: list[_Parted] = []
        rests: dict[int, Doubt] = {}
        sides: dict[int, tuple[Page, Page, tuple[Site, Site]]] = {}
        noise: dict[int, Iterable[Change]] = {}
        for candidate, record in found:
            if candidate.number not in wordings:
                continue
            kept = Page.make(record.facts, Words.read(wordings[candidate.number]))
            mine, theirs = self._clean(page, kept, candidate.number)
            sites = sites_of[candidate.number]
            said = judge(mine, theirs, *sites)
            answer = _wrap(said, candidate, page.facts, record.facts, known=sites[0].known)
            compared.append(Compared(candidate, record, answer))
            sides[candidate.number] = mine, theirs, sites
            if not said.one:
                alone = len(mine.words) if said.alone is None else int(said.alone.sum())
                parted.append(_Parted(alone, candidate.number, kept, mine, theirs, sites))
                continue
            has_noise = mine.words is not page.words or theirs.words is not kept.words
            if (has_noise or mine.title != page.title) and not judge(page, kept, *sites).one:
                rests[candidate.number] = Doubt(candidate.number, kept)
                noise[candidate.number] = self._list_noise(page, kept, candidate.number)
            if self.is_best(compared[-1]):
                break
        one = any(each.answer.duplicate for each in compared)
        return Found(compared, None if one else self._find_doubt(page, parted), rests, sides, noise)

    def _clean(self, page: Page, kept: Page, number: int) -> tuple[Page, Page]:
        """Take out of two pages what changes by itself."""
        if self.trusted is None:
            return self.hosts.clean_both(page, kept)
        slots = Slots(self.trusted.changes if self.trusted.document == number else ())
        return clean_both((page, kept), (slots, slots))

    def _list_noise(self, page: Page, kept: Page, number: int) -> Iterable[Change]:
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


def _relate(mine: tuple[str, ...], theirs: tuple[str, ...]) -> Relation:
    if not mine or not theirs:
        return Relation.SILENT
    return Relation.SAME if mine == theirs else Relation.DIFFER


def _are_of_one_host(mine: str, theirs: str) -> bool:
    first, second = split_url(mine), split_url(theirs)
    if first is None or second is None:
        return False
    return bool(first.netloc) and (first.scheme, first.netloc) == (second.scheme, second.netloc)


def _rank(page: Facts, candidate: Candidate, record: Record | None) -> tuple[object, ...]:
    """Rank candidates before their words are read."""
    other = record.facts if record else page
    named = (page.title == other.title) + (page.heading == other.heading)
    return -named, -candidate.keys, candidate.distance, candidate.number


def _wrap(
    said: Ruled, candidate: Candidate, page: Facts, kept: Facts, *, known: bool = False
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
    if said.alone is not None:
        share = 1 - int(said.alone.sum()) / max(1, len(said.alone))
    proposal = name_proposal(distance, stub=short, name=named, keys=keys)
    why = said.why if len(said.why) <= _LONGEST_WHY else f"{said.why[:_LONGEST_WHY]}..."
    return Answer(evidence, said.one, (proposal, why), round(share, 4))


def is_unchanged(
    documents: Reading, hosts: Hosts, document: Document, number: int, own: Record
) -> bool:
    """Return whether a page shows what its record has, but for what changes by itself.

    What earlier crawls saw counts here: nothing is judged for another page.
    """
    url = document.facts.url
    before = documents.get_wordings([number]).get(number)
    slots = Slots(hosts.recall(documents, url).list_measured(url))
    if before is None or not slots:
        return False
    now, then = (
        slots.clean(Page.make(facts, Words.read(wording)))
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
        Page.make(facts, Words.read(wording))
        for facts, wording in zip((page, kept), wordings, strict=True)
    )
    sites, hosts = (UNKNOWN, UNKNOWN), Hosts()
    if documents is not None:
        numbers = [documents.find_number(each.identity) or 0 for each in (page, kept)]
        sites = (
            hosts.find(documents, page.url, numbers),
            hosts.find(documents, kept.url, numbers),
        )
    said = judge(mine, theirs, *sites)
    candidate = Candidate(-1, 1, 0, name)
    answer = _wrap(said, candidate, page, kept, known=sites[0].known)
    compared = Compared(candidate, None, answer)
    return Found([], sides={1: (mine, theirs, sites)}).describe(compared).answer
