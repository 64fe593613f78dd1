"""The judgement of a store: new, near-duplicate or revisit, inside one transaction.

A store has what came through. Each crawl is complete by itself: a page is dropped only for one
that this crawl *got*. If only an *earlier* crawl did, it is kept as the first copy, and from then
on stands for that one. Where crawls fetch only what is new (`incremental`), whatever any crawl got
counts. A *young* document is none of a store: its items are on their way.

Where only what was never tested parts a page from a kept one, that is a *doubt*: one of the two is
to be asked for once more, which shows what changes there by itself.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from itertools import compress, islice
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from msgspec import structs

from scrapy_simhash._printable import show_words
from scrapy_simhash.judging.documents import (
    PLAIN_DISTANCE_BITS,
    STAYS,
    Candidate,
    Deciding,
    Decision,
    Document,
    State,
    add_crawls,
)
from scrapy_simhash.judging.documents import WORDS_DISTANCE_BITS as FEW_BITS
from scrapy_simhash.judging.hosts import Hosts
from scrapy_simhash.judging.rule import (
    DECLARED,
    STUB_WORDS,
    UNKNOWN,
    Ruling,
    find_declared,
    find_names_apart,
    judge,
)
from scrapy_simhash.judging.slots import Slots, learn, may_be_doubted, show_standing
from scrapy_simhash.judging.views import name_view
from scrapy_simhash.judging.words import Page, compare_words, find_signs
from scrapy_simhash.pages.addresses import are_of_one_origin, host_of, parse_address, plain_form
from scrapy_simhash.pages.facts import unpack

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from scrapy_simhash.judging.documents import Reading, Rule, Standing
    from scrapy_simhash.judging.rule import Site
    from scrapy_simhash.judging.slots import Change as Noisy
    from scrapy_simhash.judging.words import Side
    from scrapy_simhash.pages.facts import Facts, Wording

LEFT_OUT, CHANGES = "left out: ", "changes by itself: "
# So many places in which a drop rests on noise are named.
_MOST_NAMED = 3
# A word may be as long as a page.
_LONGEST_WHY, _LONGEST_SHOWN, _WORDS_SHOWN = 400, 80, 10
# Candidates whose words are compared; their originals are among the best.
MOST_COMPARED = 8
# What parts a page from the one in doubt is at most so much of its words.
_MOST_IN_DOUBT = 0.5
# So many candidates may be in doubt: the one with least of its own.
_MOST_DOUBTED = 2
# Texts that have less in common are not worth a look.
_LEAST_ALIKE = 0.5
# Of the main texts of pages that look alike. One word that differs in a text of 32 leaves .83 of
# its triples, in one of 60 words .9; where words are looked at, so much agrees.
_LOOKS_ALIKE = 0.9
ASKED = "that page was asked for once more, which did not explain it"
_STAYED = "pages that were asked for once more did not change there"
_IN_VAIN = "other pages of that folder were asked for once more, and no drop came of it"
_QUOTED, _DIGITS = re.compile("['\"]"), re.compile(r"\d+")
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
        far: their addresses name other documents, which they are then, nearly always.
    """

    document: int
    page: Page
    sought: tuple[Noisy, ...] = ()
    far: bool = False


def _describe(found: Candidate) -> Decision:
    """Describe what came of comparing a page with a candidate, for people.

    That is what made it one, what parts the two, and what was left out.
    """
    page, kept = found.facts
    by_name, keys = found.name, found.keys
    if found.similarity is None or found.distance <= FEW_BITS:
        by_name, keys = "", 0
    short = page.stub or kept.stub
    tests = [name_proposal(found.distance, stub=short, name=by_name, keys=keys), found.why]
    words: list[list[str]] = [[], []]
    numbers, parted_by = list[str](), ""
    if found.pages is not None and (sides := found.sides) is not None:
        if template := int((sides[0].alone & ~sides[0].own).sum()):
            tests.append(f"{LEFT_OUT}{template} words of the site's template")
        noise = dict.fromkeys(map(str, found.noise or ()))
        tests += [f"{LEFT_OUT}{CHANGES}{change}" for change in islice(noise, _MOST_NAMED)]
        alone = (islice(compress(each.words.tokens, each.alone), _WORDS_SHOWN) for each in sides)
        words = [[word[:_LONGEST_SHOWN] for word in each] for each in alone]
        if found.duplicate:
            addressed = {n for url in (page.url, kept.url) for n in _find_numbers(url)}
            numbers = [_find_number(*both, addressed) for both in (sides, sides[::-1])]
            if all(numbers):
                tests.append("another number: {!r} / {!r}".format(*numbers))
        else:
            parted_by = _find_parting(*found.pages, sides, found.why, words[0] or words[1])
            tests += [f"{STAYS}{found.stays}"] * bool(found.stays)
    return Decision(
        url=page.url,
        status="near_duplicate" if found.duplicate else "new",
        match_url=kept.url,
        match_document=found.number,
        match_text_digest=kept.text_digest.hex(),
        distance=found.distance,
        similarity=found.similarity,
        tests=tests,
        own_words=words[0],
        match_own_words=words[1],
        parted_by=parted_by,
        other_number=bool(numbers) and all(numbers),
        site_known=found.sites is not None and found.sites[0].known,
    )


def _find_numbers(url: str) -> list[str]:
    """Find the numbers in an address, behind its host and port."""
    return _DIGITS.findall(url.partition("://")[2].partition("/")[2])


def _find_number(side: Side, other: Side, addressed: Collection[str]) -> str:
    """Find a number that only a main text has, no address, between its neighbours, or ""."""
    words = side.words
    own = np.flatnonzero(side.own & words.main & words.numbers).tolist()
    others = {*addressed, *_DIGITS.findall(other.words.wording.text)} if own else addressed
    for n in own:
        if any(number not in others for number in _DIGITS.findall(words.tokens[n])):
            return " ".join(words.tokens[max(0, n - 1) : n + 2])
    return ""


def _find_parting(
    mine: Page, theirs: Page, sides: tuple[Side, Side], why: str, words: Sequence[str]
) -> str:
    """Find what parts a page from one that it looks like; "" if it does not.

    They have the same title and heading, as far as both have one, and nearly the same main text. It
    is the first words that only one of them has; where these say nothing by themselves, as a number
    does, those that the rule names.
    """
    pairs = zip(mine.names, theirs.names, strict=True)
    named = [one == other for one, other in pairs if one and other]
    if not named or not all(named):
        return ""
    for side in sides:
        in_main = max(1, int(side.words.main.sum()))
        if (side.alone & side.words.main).sum() > (1 - _LOOKS_ALIKE) * in_main:
            return ""
    if not words or words[0].isdecimal():
        words = _QUOTED.split(why)[1:2] or words or (why,)
    return show_words(words)


@dataclass
class Judge:
    """Judges documents inside one transaction one after the other, each against all before it.

    Attributes:
        documents: as the transaction sees them.
        rule: by which they are compared.
        crawl: id of the crawl that fetched what is judged, or "" outside of crawls.
        incremental: what any crawl got counts, not only what this one did.
        hosts: what is known of them; lasts from one judge to the next.
        is_in_vain: whether a doubt about a page is passed over.
        find_bar: returns why a page may not be asked for once more, or ""; None where nothing
            is asked for.
        number: of the page itself, should it be asked for once more.
        trusted: leave out this alone of what changes by itself; by the number of an original.
        doubt: about the page that was judged, if there is one.
        rests: the original of a near-duplicate that is one but for noise.
    """

    documents: Reading
    rule: Rule
    crawl: str = ""
    incremental: bool = True
    hosts: Hosts = field(default_factory=Hosts)
    is_in_vain: Callable[[Doubt], bool] = lambda _: False
    find_bar: Callable[[Doubt], str] | None = None
    number: int = 0
    trusted: Mapping[int, Collection[Noisy]] | None = None
    doubt: Doubt | None = None
    rests: Doubt | None = None

    def find_match(
        self, document: Document, own: int = 0
    ) -> tuple[Candidate | None, Candidate | None, bool]:
        """Find the document most alike of those with the best standing; of equals the nearest.

        Args:
            document: which is judged.
            own: number of it in the store, which must not count.

        Returns:
            The match; or else the document that would have been it, had it been confirmed; and
            whether every document that could be one was compared.
        """
        self.doubt = self.rests = None
        candidates, complete = self.documents.gather(document, self.rule, own)
        found = list(_choose(document.facts, candidates))
        if self.rule.by_words and document.wording:
            compared = self._compare_words(document, found, own)
        else:
            compared = found
            for each in found:
                _compare_plainly(each, self.rule)
        alike = (each for each in compared if each.duplicate)
        if match := min(alike, key=self._rank, default=None):
            if match.noise is not None and match.kept:
                self.rests = Doubt(match.number, match.kept)
            return match, None, complete
        near = (
            each
            for each in compared
            if (each.similarity or 0.0) >= _LEAST_ALIKE
            or each.distance <= self.rule.distance
            or (each.sites is None and each.keys > 0)  # other names
        )
        return None, min(near, key=_rank_alike, default=None), complete

    def _compare_words(
        self, document: Document, chosen: list[Candidate], own: int
    ) -> list[Candidate]:
        """Compare a page with the best of its candidates by words, until one is its original."""
        facts = document.facts
        of_scope = (each for each in chosen if each.facts[1].scope == facts.scope)
        found = sorted(of_scope, key=_rank)[:MOST_COMPARED]
        page = None
        called = facts.heading or facts.title
        others = (each.facts[1] for each in found) if self.trusted is None else ()
        if any((other.heading or other.title) == called for other in others):
            page = Page.make(facts, unpack(document.wording))
            self.hosts.note(page)
        sites_of = self._find_sites(facts, found, own)
        compared = [each for each in found if each.number not in sites_of]
        wordings = self.documents.get_wordings(sites_of)
        if not wordings:
            return compared
        page = page or Page.make(facts, unpack(document.wording))
        for candidate in found:
            number, other = candidate.number, candidate.facts[1]
            if number not in wordings:
                continue
            sites = sites_of[number]
            kept = Page.make(other, wordings[number])
            if self.trusted is None:
                pages = self.hosts.clean_both(page, kept)
            else:
                pages = Slots(self.trusted.get(number, ())).clean_both(page, kept)
            said = self._doubt_declared(judge(*pages, *sites), facts, other)
            _rule(candidate, said)
            candidate.sites, candidate.kept, candidate.pages = sites, kept, pages
            if said.one and pages != (page, kept) and not judge(page, kept, *sites).one:
                seen = self.trusted[number] if self.trusted else self.hosts.list_noise(page, kept)
                candidate.noise = show_standing(seen, page, kept)
            compared.append(candidate)
            if said.one and self.stand(candidate) == "got":
                break
        if self.find_bar and not self.trusted and not any(each.duplicate for each in compared):
            self._find_doubt(page, compared)
        return compared

    def _find_sites(
        self, facts: Facts, found: Sequence[Candidate], own: int
    ) -> dict[int, tuple[Site, Site]]:
        """Find the sites of a page and of each candidate that has no other name."""
        sites_of: dict[int, tuple[Site, Site]] = {}
        for candidate in found:
            other = candidate.facts[1]
            sites = self.hosts.find_both(self.documents, facts, other, (own, candidate.number))
            one = facts.title == other.title
            named = facts if one else name_view(facts, other, sites[0].views)
            if why := find_names_apart(named, other, *sites):
                _rule(candidate, Ruling(one=False, why=why))
            else:
                sites_of[candidate.number] = sites
        return sites_of

    def _doubt_declared(self, said: Ruling, page: Facts, kept: Facts) -> Ruling:
        """Keep a page whose site declares one address for whatever it says."""
        if said.why != DECLARED or said.sides is None:
            return said
        side = said.sides[0]
        own = frozenset(compress(side.words.tokens, side.own & ~side.words.numbers))
        if self.hosts.believes(find_declared(page, kept), page, own):
            return said
        return said._replace(one=False, why="an address that pages with other words declare, too")

    def _find_doubt(self, page: Page, compared: list[Candidate]) -> None:
        """Find a candidate that the page would repeat, but for what was never tested.

        Of those that were looked at and are not in doubt, it is noted why.
        """
        parted = []
        for each in compared:
            if each.kept and each.pages and each.sites and each.sides:
                alone = int(each.sides[0].alone.sum())
                far = not _are_called_alike(page.facts.url, each.kept.facts.url)
                kept = Doubt(each.number, each.kept, far=far)
                # What differs from the text of an earlier crawl may be an edit; and a page is asked
                # for at its own host.
                now = self._is_of_this_crawl(each) and are_of_one_origin(
                    page.facts.url, kept.page.facts.url
                )
                asked = kept if now else Doubt(self.number, page, far=far)
                parted.append((far, alone, each.number, each, asked, each.pages, each.sites))
        for _, alone, _, candidate, kept, pages, sites in sorted(parted)[:_MOST_DOUBTED]:
            words = len(pages[0].words.tokens)
            if alone > _MOST_IN_DOUBT * words and words >= STUB_WORDS:
                break
            found = _IN_VAIN if self.is_in_vain(kept) else self._doubt(page, kept, pages, sites)
            if isinstance(found, Doubt):
                self.doubt = found
                break
            candidate.stays = found

    def _doubt(
        self, page: Page, kept: Doubt, pages: tuple[Page, Page], sites: tuple[Site, Site]
    ) -> Doubt | str:
        """Doubt whether a page stays as it is where it parts from another one, or say why not."""
        url, itself = kept.page.facts.url, Doubt(self.number, page, far=kept.far)
        find_bar = self.find_bar or (lambda _: "")  # each call counts as a look
        bar = find_bar(kept)
        if bar and (bar != ASKED or find_bar(itself)):
            return bar
        if not may_be_doubted(pages[0].words, pages[1].words):
            return "too much differs"
        noise, found = self.hosts.get_noise(url), learn(*pages)
        if host_of(page.facts.url) != host_of(url):
            # What one of them is rid of already the other one has in the same place.
            slots_found = {each.slot for each in found}
            found += [each for each in learn(page, kept.page) if each.slot not in slots_found]
        sought = [each for each in found if not noise.is_ruled_out(url, each)]
        slots = Slots(sought)
        if sought and judge(*slots.clean_both(*pages), *sites).one:
            # Whether a text among others is the page's own only its own next answer shows.
            told = Slots([each._replace(texts=frozenset()) for each in sought]).locate(pages[0])
            is_told = all(each.slot in told for each in sought if each.texts)
            asked = itself if bar else kept
            return bar if bar and is_told else asked._replace(sought=tuple(sought))
        # Or the view of a page may have the time when it was made, of which that shows nothing.
        is_view = sites[0].views.find(page.facts.url, pages[1].facts.url) is not None
        if is_view and (bar or not find_bar(itself)):
            side = compare_words(pages[0].words, pages[1].words, sites[0].mark(pages[0].words))
            numbers = side.own & side.words.numbers
            view = pages[0]._replace(words=side.words.without(numbers))
            if numbers.any() and judge(view, pages[1], *sites).one:
                return itself
        stays = len(sought) < len(found)
        return _STAYED if stays else "no second answer could explain all of it"

    def judge(self, document: Document) -> tuple[Decision, Document]:
        """Judge a document; also returns it as it is to be written.

        A page near a young one is to be written like a new one, should it be kept.
        """
        found = self.documents.find_own(document)
        for each in found:
            if each.state == State.DONE:
                return self._revisit(document, each)
        own = next((each for each in found if _is_own(document, each)), None)
        match, nearest, complete = self.find_match(document, own.number if own else 0)
        if any(each.spared for each in found):
            match, complete = None, True
        decision, made = self.decide(document.facts, match, nearest), self._record(document, own)
        if match is None:
            if not complete:
                decision.status, decision.reason = "not_judged", BUCKET_TOO_FULL
        elif (standing := self.stand(match)) != "young":
            decision.reason = FIRST_COPY if standing == "earlier" else ""
            made.state, made.original = State.DUPLICATE, match.number
            made.distance, made.similarity = match.distance, match.similarity
            made.tests = (*decision.tests,)
        return decision, made

    def decide(
        self, page: Facts, match: Candidate | None, nearest: Candidate | None = None
    ) -> Decision:
        """Decide on a page that is a near-duplicate of a match, or new beside the nearest one."""
        decision = _describe(match) if match else Decision(url=page.url, status="new")
        decision.fingerprint, decision.words = f"{page.fingerprint:016x}", page.words
        decision.canonical, decision.scope = page.canonical, page.scope
        if match:
            kept = match.facts[1]
            declared = {plain_form(each) for each in (page.canonical, kept.canonical) if each} - {
                ""
            }
            # It has the address that both declare, and the other one has not.
            has_it = {plain_form(kept.url)} != declared == {plain_form(page.url)}
            decision.better_url = bool(declared) and has_it
        if nearest:
            beside = _describe(nearest)
            decision.nearest_url, decision.nearest_tests = beside.match_url, beside.tests
            decision.parted_by = beside.parted_by
        return decision

    def _revisit(self, document: Document, own: Document) -> tuple[Decision, Document]:
        page, before = document.facts, own.facts
        # By words, since a record's price may be beside what is taken for its main text.
        changed = before.scope != page.scope or (
            not self._is_unchanged(document, own)
            if self.rule.by_words
            else before.text_digest != page.text_digest
        )
        decision = self.decide(page, None)
        decision.status, decision.document = "revisit", own.number
        decision.reason = "changed" if changed else UNCHANGED
        if not _is_own(document, own):
            # What was imported stays for other callbacks, which did not get it.
            return decision, self._record(document)
        facts = structs.replace(page, suspicion=before.suspicion)
        # Those that got another text did not get this one.
        crawls = add_crawls(() if changed else own.crawls, self._list_crawls())
        made = structs.replace(own, facts=facts, crawls=crawls, wording=document.wording)
        return decision, made

    def _is_unchanged(self, document: Document, own: Document) -> bool:
        """Return whether a page shows what it did before, but for what changes by itself.

        What earlier crawls saw counts here: nothing is judged for another page.
        """
        url = document.facts.url
        before = self.documents.get_wordings([own.number]).get(own.number)
        slots = Slots(self.hosts.recall(self.documents, url).list_measured(url))
        same = own.facts.text_digest == document.facts.text_digest
        if before is None or not (slots or same):
            return same and not document.wording
        now = slots.clean(Page.make(document.facts, unpack(document.wording)))
        then = slots.clean(Page.make(own.facts, before))
        texts = now.words.tokens == then.words.tokens and not find_signs(now.words, then.words)
        one, other = now.words.wording, then.words.wording
        names = now.names == then.names
        return names and texts and (one.rest, one.beside) == (other.rest, other.beside)

    def _list_crawls(self) -> tuple[str, ...]:
        return (self.crawl,) if self.crawl else ()

    def _record(self, document: Document, own: Document | None = None) -> Document:
        """Make a document as it is to be written, in place of its own one if there is one."""
        facts, number = document.facts, 0
        if own is not None:  # as it was found first
            facts, number = structs.replace(facts, suspicion=own.facts.suspicion), own.number
        made = Document(facts, State.DONE, self._list_crawls(), facts.time)
        made.number, made.wording = number, document.wording
        return made

    def stand(self, candidate: Candidate) -> Standing:
        """Tell how a document stands in this crawl."""
        if candidate.young:
            return "young"
        return "got" if self.incremental or self._is_of_this_crawl(candidate) else "earlier"

    def _is_of_this_crawl(self, candidate: Candidate) -> bool:
        return candidate.document is not None and self.crawl in candidate.document.crawls

    def _rank(self, compared: Candidate) -> tuple[object, ...]:
        """Rank documents: by standing, then as `_rank_alike`."""
        return _STANDINGS.index(self.stand(compared)), *_rank_alike(compared)


def _choose(page: Facts, candidates: Iterable[Candidate]) -> Iterator[Candidate]:
    """Choose the candidates that count, each with what is known of the two."""
    for candidate in candidates:
        kept = candidate.document
        # A page is no copy of itself, though a fingerprinter may tell its requests apart.
        if kept is None or kept.state != State.DONE or (kept.facts.url == page.url != ""):
            continue
        candidate.distance = (page.fingerprint ^ kept.facts.fingerprint).bit_count()
        candidate.facts = page, kept.facts
        yield candidate


def _is_own(document: Document, found: Document) -> bool:
    """Whether what was found is the document itself, not what an import has of it."""
    return found.facts.identity == document.facts.identity


def _rank_alike(compared: Candidate) -> tuple[object, ...]:
    """Rank documents: the one most alike first, then the nearest, then the oldest."""
    return -(compared.similarity or 0.0), compared.distance, compared.number


def _are_called_alike(mine: str, theirs: str) -> bool:
    """Whether two addresses may name one document: one has all numbers, or names, of the other."""
    for find in (_find_numbers, _find_names):
        one, other = (Counter(find(url.partition("?")[0])) for url in (mine, theirs))
        if one and other:
            return one <= other or other <= one
    return True


def _find_names(url: str) -> Sequence[str]:
    """Find the names in the path of an address."""
    address = parse_address(url)
    return [name for name in address.path if name] if address else ()


def _rank(candidate: Candidate) -> tuple[object, ...]:
    """Rank candidates before their words are read."""
    page, other = candidate.facts
    named = (page.title == other.title) + (page.heading == other.heading)
    return -named, -candidate.keys, candidate.distance, candidate.number


def _rule(candidate: Candidate, said: Ruling) -> None:
    """Add to a candidate what the rule says of it."""
    share = float(said.one)
    if said.sides is not None:
        alone = said.sides[0].alone
        share = 1 - int(alone.sum()) / max(1, len(alone))
    why = said.why if len(said.why) <= _LONGEST_WHY else f"{said.why[:_LONGEST_WHY]}..."
    candidate.duplicate, candidate.why, candidate.sides = said.one, why, said.sides
    candidate.similarity = round(share, 4)


def compare_by_words(
    page: Facts,
    kept: Facts,
    wordings: tuple[Wording, Wording],
    sites: tuple[Site, Site] = (UNKNOWN, UNKNOWN),
    name: str = "",
) -> Decision:
    """Compare two pages word by word, without noise: one is new, or a near-duplicate of the other.

    Args:
        page: that would be dropped.
        kept: the other one.
        wordings: of both.
        sites: of both; by default those of hosts that are not known.
        name: the part of a name that both have, if one was found by it.
    """
    mine, theirs = map(Page.make, (page, kept), wordings)
    said = judge(mine, theirs, *sites)
    distance = (page.fingerprint ^ kept.fingerprint).bit_count()
    compared = Candidate(distance, 0, name, facts=(page, kept), sites=sites, pages=(mine, theirs))
    _rule(compared, said)
    return _describe(compared)


def compare_plainly(first: Facts, second: Facts, rule: Rule) -> Decision:
    """Compare two documents without their words, by digest or distance, whichever comes first."""
    distance = (first.fingerprint ^ second.fingerprint).bit_count()
    compared = Candidate(distance, 0, facts=(first, second))
    _compare_plainly(compared, rule)
    return _describe(compared)


def _compare_plainly(candidate: Candidate, rule: Rule) -> None:
    page, kept = candidate.facts
    if page.scope != kept.scope:
        deciding, duplicate = Deciding.SCOPE, False
    elif page.stub or kept.stub:
        deciding = Deciding.DIGEST
        duplicate = page.stub == kept.stub and page.text_digest == kept.text_digest
    elif not rule.by_words:
        deciding, duplicate = Deciding.DISTANCE, candidate.distance <= rule.distance
    elif page.sketch and kept.sketch:
        deciding, duplicate = Deciding.WORDS, False
    else:
        deciding = Deciding.NO_WORDS
        duplicate = candidate.distance <= min(rule.distance, PLAIN_DISTANCE_BITS)
    candidate.duplicate, candidate.why = duplicate, deciding.value


def name_proposal(distance: int, *, stub: bool, name: str = "", keys: int = 0) -> str:
    """Name for people what made a document a candidate: `name` or `keys`, if it was that."""
    bits = f"distance {distance} bit{'s' * (distance != 1)}"
    if name:
        return f"called {name!r}, too; {'a short page' if stub else bits}"
    if keys and not stub:
        return f"rare triples: {keys}; {bits}"
    return "same short page" if stub else bits
