"""The rule: whether anything would be lost if a page were dropped for another one.

By their exact words (`words`). What many pages of the site have is template; what changes by itself
was cut out before (`noise`). docs/design.md has the rule on one page, docs/study.md what each part
buys.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, reduce
from itertools import compress
from operator import and_
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

import numpy as np

from scrapy_simhash.judging.views import NO_VIEWS, ViewKind, Views, name_view
from scrapy_simhash.judging.words import (
    Counts,
    Side,
    Words,
    compare_words,
    count_same,
    find_gaps,
    find_signs,
    leave_out_addresses,
    read_name,
)
from scrapy_simhash.pages.addresses import (
    host_of,
    last_segment,
    parse_address,
    plain_form,
)
from scrapy_simhash.pages.facts import MOST_BESIDE_DATA
from scrapy_simhash.pages.features import normalise, tokenise

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from scrapy_simhash.judging.words import Gap, Marks, Name, Page
    from scrapy_simhash.pages.facts import Facts

# A host is known from so many pages; what a fifth of them have, three at least, is template.
LEAST_KNOWN = 6
SHARE_OF_TEMPLATE = 0.2
LEAST_OF_TEMPLATE = 3
# Shorter pages must be equal word by word; and main texts are no evidence by themselves.
STUB_WORDS = 32
# Of the common words so many may be a page's own, at one address name, or where declared.
OWN_SHARE = 0.15
# Of a print view that declares its page more numbers may be its own, such a share of the common
# words: a date, a time and a duration are some six, of 300 words.
_NUMBERS_OF_VIEW = 0.02
# As so many own words names count that differ, half of it where one says more.
NAMES_WORDS = 60
# Two pages have so many words in common that are no template, on a known and an unknown host.
LEAST_COMMON = 25
LEAST_COMMON_UNKNOWN = 100
# Main texts are evidence if they are so much of both pages.
LEAST_MAIN = 0.3
# A block of the main text with so many own words, of which nearly all stand alone, is a new
# paragraph: costs .024 of the recall of the first set, .013 of the second; at 25 .018 and .008, but
# then short ones of a manual's newer release are lost.
PARAGRAPH_WORDS = 16
PARAGRAPH_SHARE = 0.9
# At another name: blocks inserted have more own words, or they may be a record's field; and at most
# so many times the common ones.
FIELD_WORDS = 6
INSERTED_SHARE = 0.5
# Data beside little text differ in so many bits at most; 5 and 20 do the same on all sets.
MOST_BITS_OF_ONE_DATA = 10
_WORDS_SHOWN = 10
DECLARED = "one declares the other, or both one address, as original or as a view"
# In two folders, or on two hosts, more blocks of so few words in the place of others, or numbers of
# their own in such, make two pages: telephones, opening hours, calendars. Costs .002 of the recall
# of the first set, .003 of the second.
_CELL_WORDS, _MOST_CELLS = 4, 2
# Frames end before and behind so much of the common words: at 0, two pairs more of the second set
# are missed, and one of the third.
_SHARE_OF_ENDS = 0.03
_TWO_DATA = "little text and much data, from which a browser may draw two pages"
OTHER_REST = "other words beyond those that are kept"
_A_NUMBER = re.compile(r"\d")
_IDENTIFIER = re.compile(r"/((?=(?:[^/\d]*\d){3})(?![^/]*\d\.\d)[^/]+)/[^/]+$")


class Ruling(NamedTuple):
    """Whether a page says nothing new beside another one.

    Attributes:
        one: whether it may be dropped.
        why: for people.
        sides: the words of both; None where these were not compared.
    """

    one: bool
    why: str
    sides: tuple[Side, Side] | None = None


def _find_shared(names: Sequence[Name]) -> set[tuple[str, str]]:
    """Find what is the site's in the names of its pages, titles or headings.

    A number is known by the word before it, and is the site's where names share its value.
    """
    keyed = [set(_key_words(name)) for name in names]
    values = Counter(each for name in keyed for each in name)
    counted = Counter(key for name in keyed for key in {each[:2] for each in name})
    least = max(LEAST_OF_TEMPLATE, SHARE_OF_TEMPLATE * len(names))
    return {each[:2] for each, times in values.items() if times > 1 and counted[each[:2]] >= least}


def _key_words(name: Name) -> list[tuple[str, str, str]]:
    """Key the words of a name: a number by the word before it."""
    keyed, before = [], ""
    for word in name:
        if _A_NUMBER.search(word):
            keyed.append((before, "#", word))
        else:
            keyed.append((word, "", ""))
            before = word
    return keyed


class Site:
    """A sample of the pages of a host, without those that are compared.

    Args:
        pages: of the sample, by number.
        is_met: pages of the host are kept, too few as they may be.
        views: of the host.

    Attributes:
        sample: as given.
        pages: those that count; none where too few are known.
        known: whether enough are.
    """

    def __init__(
        self, pages: Mapping[int, Page], *, is_met: bool = False, views: Views = NO_VIEWS
    ) -> None:
        self.sample, self.views = dict(pages), views
        self._is_met = is_met or bool(pages)
        self.known = len(pages) >= LEAST_KNOWN
        self.pages = [*pages.values()] if self.known else []

    def without(self, numbers: Collection[int]) -> Site:
        """Return the site without some of its pages."""
        rest = {number: page for number, page in self.sample.items() if number not in numbers}
        if len(rest) == len(self.sample):
            return self
        return Site(rest, is_met=True, views=self.views)

    @cached_property
    def counted(self) -> Counts:
        """How many pages of the sample have each triple, masked and as they are."""
        return Counts(*(page.words.counted.values for page in self.pages))

    def mark(self, words: Words) -> tuple[Marks, Marks] | None:
        """Mark the triples of a page that are template, masked and as they are.

        None where nothing is known.
        """
        if not self.known:
            return None
        needed = max(LEAST_OF_TEMPLATE, SHARE_OF_TEMPLATE * len(self.pages))
        masked, exact = (self.counted.count(each) >= needed for each in words.triples)
        return masked, exact

    @cached_property
    def shared(self) -> list[set[tuple[str, str]]]:
        """What is the site's in titles and headings."""
        return [_find_shared([page.names[n] for page in self.pages]) for n in (0, 1)]

    @cached_property
    def declared(self) -> frozenset[str]:
        """Addresses that its pages declare."""
        return frozenset(each for page in self.pages for each in page.facts.declared)

    @cached_property
    def _ends(self) -> frozenset[str]:
        """Ends of addresses that many pages have; of parameters switches, which have one value."""
        ends = [set(list_ends(page.facts.url)) for page in self.pages]
        counted = Counter(end for each in ends for end in each)
        values = Counter(end.partition("=")[0] for end in counted if end.startswith("?"))
        least = max(LEAST_OF_TEMPLATE, SHARE_OF_TEMPLATE * len(self.pages))
        return frozenset(
            end
            for end, times in counted.items()
            if times >= least and values[end.partition("=")[0]] <= 1
        )

    def part(self, url: str) -> tuple[str, str]:
        """Part an address from its end, if that is the site's: "/view", "?print=1"."""
        rest, _, query = url.partition("#")[0].partition("?")
        query = query.strip("&")
        switches = [end for end in list_ends(url) if end in self._ends] if query else []
        if query and (left := [each for each in list_ends(url) if each not in switches]):
            return f"{rest}?{'&'.join(each[1:] for each in left)}", "".join(switches)
        ends = list_ends(rest)
        shared = next((n for n, end in enumerate(ends) if end not in self._ends), len(ends))
        end = ends[shared - 1] if shared else ""
        return rest.rstrip("/").rsplit("/", shared)[0], "".join((end, *switches))

    def find_name(self, url: str) -> tuple[str, str]:
        """Find the last name in an address that is not the site's, and what of it is the site's.

        >>> UNKNOWN.find_name("http://a.example/jobs/7?&")
        ('7', '')
        """
        rest, end = self.part(url)
        # What stands behind an identifier belongs to it in any case: "4022/view".
        before = _IDENTIFIER.search(rest.partition("?")[0])
        return f"{before[1]}/{last_segment(rest)}" if before else last_segment(rest), end

    def list_beside(self, mine: str, theirs: str) -> list[Page]:
        """List the pages of the folder in which the one of two addresses parts, not the other."""
        one, other = parse_address(mine), parse_address(theirs)
        if one is None or other is None:
            return []
        pairs = enumerate(zip(one.path, other.path, strict=False), 1)
        depth = next((n for n, (first, second) in pairs if first != second), 0)
        folder = one.path[: min(depth, len(one.path) - 1)]
        parsed = ((page, parse_address(page.facts.url)) for page in self.pages)
        return [
            page
            for page, address in parsed
            if address
            and address.path[: len(folder)] == folder
            and address.path[:depth] != other.path[:depth]
        ]

    def are_two_folders(self, first: str, second: str) -> bool:
        """Whether folders make two addresses with one name two: /7/view, /8/view; /rome/rooms.

        Not where the sample has more pages in one of them, as of releases and languages; nor where
        only one has digits, or both have others, where such folders have several pages each, as
        those of releases do: /1.0/x.html. Numbers do where most pages there have one of their own.
        On a host that is not known yet all do: what two addresses end with may be a kind of page.
        Where nothing was ever asked of it, only numbers that stand before the name do.
        """
        mine, theirs = parse_address(first), parse_address(second)
        if mine is None or theirs is None or len(mine.path) != len(theirs.path):
            return False
        depth = count_same(mine.path[:-1], theirs.path[:-1])
        if depth == len(mine.path) - 1:
            return False
        one, other = mine.path[depth], theirs.path[depth]
        numbers = one.isdecimal() and other.isdecimal()
        if not self.known:
            return self._is_met or (numbers and depth == len(mine.path) - 2)
        others = [each.path for page in self.pages if (each := parse_address(page.facts.url))]
        beside = Counter(each[depth] for each in others if each[:depth] == mine.path[:depth])
        if numbers and 2 * len(beside) > max(beside.total(), 2 * (LEAST_OF_TEMPLATE - 1)):
            return True  # branches: of releases there are few, with many pages each
        if not numbers and _A_NUMBER.search(one + other):
            several = [n for name, n in beside.items() if n > 1 and _A_NUMBER.search(name)]
            return sum(several) < LEAST_OF_TEMPLATE
        folders = {mine.path[: depth + 1], theirs.path[: depth + 1]}
        return not any(each[: depth + 1] in folders for each in others)


UNKNOWN = Site({})
MET = Site({}, is_met=True)


@lru_cache(maxsize=4_096)  # those of a sample are needed for each pair
def list_ends(url: str) -> tuple[str, ...]:
    """List the ends of a path, the shortest first, without the whole; or else the parameters."""
    address = parse_address(url)
    if address is None or address.query:
        return tuple(f"?{pair}" for pair in address.query) if address else ()
    path = "/".join(address.path).strip("/")
    return tuple(path[place.start() + 1 :] for place in re.finditer("/", path))[::-1]


def judge(page: Page, kept: Page, site: Site, other_site: Site) -> Ruling:
    """Judge whether a page says nothing new beside one that is kept.

    Args:
        page: that would be dropped.
        kept: that stays.
        site: of the page.
        other_site: of the kept one; both are known, or none is.
    """
    urls = page.facts.url, kept.facts.url
    page, kept = leave_out_addresses(page, kept)
    one_address = _is_one_address(*urls)
    template, others = site.mark(page.words), other_site.mark(kept.words)
    side = compare_words(page.words, kept.words, template)
    other = compare_words(kept.words, page.words, others)
    pair = _Pair(page, kept, (site, other_site), side, other, one_address=one_address)
    few = max(len(each.words.wording.text) for each in (page, kept)) < MOST_BESIDE_DATA
    if few and not one_address and count_data_bits(page, kept) > MOST_BITS_OF_ONE_DATA:
        ruling = Ruling(one=False, why=_TWO_DATA)
    elif min(len(each.words.tokens) for each in (page, kept)) < STUB_WORDS:
        ruling = _judge_stubs(page, kept)
    elif not one_address and _have_other_names(*urls, site, other_site):
        ruling = _judge_other_name(pair.named)
    else:
        ruling = _judge_one_name(pair)
        if not ruling.one and pair.view is not None:
            strict = _judge_other_name(pair.named)
            ruling = strict if strict.one else ruling
    return ruling._replace(sides=(side, other))


@dataclass
class _Pair:
    """A page that would be dropped for a kept one, and what each of them says beside the other."""

    page: Page
    kept: Page
    sites: tuple[Site, Site]
    side: Side
    other: Side
    one_address: bool

    @cached_property
    def common(self) -> int:
        """How many words both have that are no template."""
        return int(min(self.side.common.sum(), self.other.common.sum()))

    @cached_property
    def gaps(self) -> list[Gap]:
        """Where whole blocks of the two differ."""
        return find_gaps(self.page.words, self.kept.words)

    def is_inside(self, gap: Gap) -> bool:
        """Whether a gap is neither where both pages begin nor where both end."""
        (here, there), words, kept = gap, self.page.words.tokens, self.kept.words.tokens
        return not (
            here.start == 0 == there.start or (len(words), len(kept)) == (here.stop, there.stop)
        )

    @cached_property
    def view(self) -> ViewKind | None:
        """What all such views of other pages have as the page is of the kept one, if it is one.

        A page in the whole frame of its site is none: what is in stock, red, sold, or used.
        """
        mine, theirs = self.page.words.texts, self.kept.words.texts
        if mine and theirs and (mine[0], mine[-1]) == (theirs[0], theirs[-1]):
            return None
        return self.sites[0].views.find(self.page.facts.url, self.kept.facts.url)

    @cached_property
    def amid(self) -> Marks:
        """Which words of the kept page are between the first and the last that both have."""
        marked = np.zeros(len(self.other.common), np.bool_)
        places = np.flatnonzero(self.other.common)
        if len(places):
            marked[places[0] : places[-1] + 1] = True
        return marked

    @cached_property
    def shows_text(self) -> bool:
        """Whether the page is a view of a text, most of it long blocks and none left out amid them.

        A list may show some rows of another one: what is in stock.
        """
        if self.view is None:
            return False
        long, others = (
            words.sizes[words.block_of] >= PARAGRAPH_WORDS
            for words in (self.page.words, self.kept.words)
        )
        left_out = (self.other.own & self.amid & others).sum() >= PARAGRAPH_WORDS
        common = self.side.common
        return bool(not left_out and 2 * (common & long).sum() >= common.sum())

    @property
    def named(self) -> _Pair:
        """The pair with a view of a text under the title of the kept page.

        That is one with a frame of its own: what else only a title says is so of the page.
        """
        facts, mine, theirs = self.page.facts, self.page.words.texts, self.kept.words.texts
        frames = self.shows_text and mine[0] != theirs[0] and mine[-1] != theirs[-1]
        if not frames or facts.title == self.kept.facts.title:
            return self
        called = name_view(facts, self.kept.facts, self.sites[0].views)
        if called is facts:
            return self
        names = self.kept.names[0], self.page.names[1]
        return replace(self, page=self.page._replace(facts=called, names=names))


def find_names_apart(page: Facts, kept: Facts, site: Site, other_site: Site) -> str:
    """Find why what two pages are called makes them two, whatever their words are, or return "".

    That is at other address names, where none is declared; numbers in names may be noise.
    """
    for mine, theirs in ((page.title, kept.title), (page.heading, kept.heading)):
        one, other = (
            [each for each in read_name(name) if not each.isdecimal()] for name in (mine, theirs)
        )
        if mine and theirs and one != other:
            if _is_one_address(page.url, kept.url) or find_declared(page, kept):
                return ""
            apart = _have_other_names(page.url, kept.url, site, other_site)
            return f"two names: {mine!r} / {theirs!r}" if apart else ""
    return ""


def _have_other_names(mine: str, theirs: str, site: Site, other_site: Site) -> bool:
    """Whether two addresses of one site have other names."""
    host, another = host_of(mine), host_of(theirs)
    if not host or host.split(".")[-2:] != another.split(".")[-2:]:
        return False
    (one, end), (other, another_end) = site.find_name(mine), other_site.find_name(theirs)
    if one != other or (end != another_end and (host == another or (end and another_end))):
        return True
    return (host == another or site.known) and site.are_two_folders(mine, theirs)


def _judge_stubs(page: Page, kept: Page) -> Ruling:
    """Judge pages of which one is a stub: they must be equal."""
    why = ""
    if page.names != kept.names:
        why = "short pages with other names"
    elif page.words.tokens != kept.words.tokens:
        why = "short pages that differ"
    elif page.words.wording.beside != kept.words.wording.beside:
        why = "short pages that differ beside the text"
    elif page.facts.hidden != kept.facts.hidden:
        why = "short pages that differ in what is not shown"
    return Ruling(not why, why or "the same words and signs")


def _judge_other_name(pair: _Pair) -> Ruling:
    """Judge two addresses of a site with other names: nothing may be guessed."""
    if _is_declared(pair):
        return Ruling(one=True, why=DECLARED)
    if why := next(filter(None, _part_other_names(pair)), ""):
        return Ruling(one=False, why=why)
    more = pair.side.own.any()
    why = "has whole blocks more" if more else "says nothing that the other one does not"
    return Ruling(one=True, why=why)


def _part_other_names(pair: _Pair) -> Iterator[str]:
    """List what makes addresses with other names two pages; "" says nothing."""
    page, kept, known = pair.page, pair.kept, pair.sites[0].known
    for mine, theirs, shown in _pair_names(page, kept):
        if mine != theirs:
            yield shown
    yield OTHER_REST * _says_other_rest(page, kept)
    for side, whose in ((pair.side, "this page"), (pair.other, "the kept page")):
        if _says_much_more(pair, side):
            yield f"own words of {whose}: {side.words.show(side.own)!r}"
    yield _find_replaced(pair)
    if pair.view is None:
        yield _find_address_word(pair)
    if signs := find_signs(page.words, kept.words):
        yield f"other signs: {signs[0]!r} / {signs[1]!r}"
    beside = [each for each in page.words.wording.beside if each not in kept.words.wording.beside]
    if beside:
        yield f"what is seen beside the text: {beside[0]!r}"
    # All texts may be those of a header and a footer, by which a host is not known before six.
    if pair.common < LEAST_COMMON or not known:
        yield _TWO_DATA * (count_data_bits(page, kept) > MOST_BITS_OF_ONE_DATA)
    if pair.gaps and pair.common < (LEAST_COMMON if known else LEAST_COMMON_UNKNOWN):
        yield f"{pair.common} words in common that are no template"


def _says_much_more(pair: _Pair, side: Side) -> bool:
    """Whether one of two pages says too much that the other one does not, beside what they share.

    Of a text that a view shows only what stands amid it counts: around it a view has what it likes.
    """
    own = side.own
    if side is pair.other and pair.shows_text:
        own = own & pair.amid
    return bool(own.sum() > INSERTED_SHARE * pair.common)


def _says_other_rest(page: Page, kept: Page) -> bool:
    return page.words.wording.rest not in {b"", kept.words.wording.rest}


def _find_replaced(pair: _Pair) -> str:
    """Find why what stands between equal blocks is no mere insertion, or return ""."""
    words, kept = pair.page.words, pair.kept.words
    for gap in pair.gaps:
        here, there = words.tokens[gap.here], kept.tokens[gap.there]
        if not here or _is_frame(pair, gap):  # of the kept page, or of all such views
            continue
        if there:
            return "words in the place of others: {!r} / {!r}".format(*_show_apart(here, there))
        own = pair.side.own[gap.here]
        # Of few values each may be on a fifth of the pages: "sold out".
        in_main = words.main[gap.here].any()
        if in_main or (own.any() if pair.view is not None else 0 < own.sum() <= FIELD_WORDS):
            return f"own words: {' '.join(here[:_WORDS_SHOWN])!r}"
    # What the kept page has as often is elsewhere there.
    mine, theirs = Counter(words.texts), Counter(kept.texts)
    for gap in pair.gaps:
        for n in _list_blocks(words, gap.here):
            if mine[words.texts[n]] <= theirs[words.texts[n]]:
                moved = words.texts[n].split()[:_WORDS_SHOWN]
                return f"words in another order: {' '.join(moved)!r}"
    return ""


def _list_blocks(words: Words, at: slice) -> range:
    """List the numbers of the blocks between two words."""
    return range(*np.searchsorted(words.starts, (at.start, at.stop)).tolist())


def _show_apart(here: Sequence[str], there: Sequence[str]) -> Iterator[str]:
    """Show two texts from three words before the first that differs."""
    start = max(0, count_same(here, there) - 3)
    for words in (here, there):
        yield " ".join(words[start : start + _WORDS_SHOWN])


def _is_frame(pair: _Pair, gap: Gap) -> bool:
    """Whether a gap is at an end of both pages, one a view, and all such views say its words."""
    words, kept, (here, there) = pair.page.words, pair.kept.words, gap
    is_short = 0 < there.stop - there.start <= FIELD_WORDS
    mine, theirs = set(words.tokens[here]), set(kept.tokens[there])
    is_edit = _is_of_one_size(gap) and 2 * len(mine & theirs) > min(len(mine), len(theirs))
    if not pair.view or pair.is_inside(gap) or is_short or is_edit:
        return False
    start = max(0, min(here.start, here.stop - 2))  # of one word with the one before it
    pairs = words.hash_pairs(slice(start, here.stop))
    is_whole = len(pairs) == here.stop - start - 1 > 0
    return is_whole and bool(np.isin(pairs, pair.view.words).all())


def _is_declared(pair: _Pair) -> bool:
    """Whether one of two pages declares the other, and its words do not belie it."""
    page, kept, site = pair.page, pair.kept, pair.sites[0]
    declared = find_declared(page.facts, kept.facts) - site.declared
    if not declared or page.words.wording.rest != kept.words.wording.rest:
        return False
    if not (site.known or declared & {plain_form(page.facts.url), plain_form(kept.facts.url)}):
        return False
    if pair.common < LEAST_COMMON or pair.side.own.sum() > OWN_SHARE * pair.common:
        return False
    # A variant says other values in its main text; a date of a course has fields of its own.
    said, others = (each.own & each.words.main for each in (pair.side, pair.other))
    for gap in pair.gaps:
        if _is_of_one_size(gap) and said[gap.here].any() and others[gap.there].any():
            return False
    fields = page.words.main & (page.words.sizes[page.words.block_of] <= _CELL_WORDS)
    if (pair.side.alone & page.words.numbers & fields).any():
        return False
    # More are those of a list whose pages all declare the first one, or of somebody else's page;
    # a print view may have the time when it was made, and how long that took. It says itself of
    # what it is one; and that stands in the place of no other number.
    numbers, theirs = (each.own & each.words.numbers for each in (pair.side, pair.other))
    few = numbers.sum() <= _MOST_CELLS
    if not few and plain_form(kept.facts.url) in page.facts.declared:
        replaced = sum(int(numbers[here].sum()) for here, there in pair.gaps if theirs[there].any())
        few = replaced <= _MOST_CELLS and numbers.sum() <= _NUMBERS_OF_VIEW * pair.common
    return bool(few)


def _is_of_one_size(gap: Gap) -> bool:
    """Whether one value may stand in the place of another."""
    sizes: list[int] = [at.stop - at.start for at in gap]
    return 2 * min(sizes) >= max(sizes)


def _judge_one_name(pair: _Pair) -> Ruling:
    """Judge one address, one name in two folders, or two hosts: little may be own."""
    if why := next(filter(None, _part_one_name(pair)), ""):
        return Ruling(one=False, why=why)
    page, kept, side, other, common = pair.page, pair.kept, pair.side, pair.other, pair.common
    own = max(map(_count_own, (side, other)))
    names = _count_names(pair)
    (title, heading), others = page.names, kept.names
    called = not names or title == others[0] or heading == others[1] != ()
    if called and not (side.alone.any() or other.alone.any()):
        return Ruling(one=True, why="the same words")
    enough = common >= (LEAST_COMMON if pair.sites[0].known or pair.one_address else STUB_WORDS)
    everywhere = max(int(one.own.sum()) for one in (side, other))
    if own + names <= OWN_SHARE * common and (enough or not own) and everywhere <= common:
        return Ruling(one=True, why=f"{own} own beside {common} common words")
    main = int(min((one.common & one.words.main).sum() for one in (side, other)))
    own_main = max(int((one.own & one.words.main).sum()) for one in (side, other))
    least = max(STUB_WORDS, LEAST_MAIN * max(len(page.words.tokens), len(kept.words.tokens)))
    if main >= least and own_main + names <= OWN_SHARE * main:
        return Ruling(one=True, why=f"main texts: {own_main} own words, {main} common ones")
    why = f"{'other names, ' * bool(names)}{common} words in common that are no template"
    if side.own.any():
        why = f"own words: {page.words.show(side.own)!r}"
    elif other.own.any():
        why = f"own words of the kept page: {kept.words.show(other.own)!r}"
    return Ruling(one=False, why=why)


def _part_one_name(pair: _Pair) -> Iterator[str]:
    """List what makes two pages of one name two, however little it is; "" says nothing."""
    page, kept, side, other = pair.page, pair.kept, pair.side, pair.other
    mine, theirs = page.facts.url, kept.facts.url
    if _says_other_rest(page, kept) and page.words.wording.is_cut_in_main:
        yield OTHER_REST
    if host_of(mine) == host_of(theirs) and not pair.one_address:
        one, another = ("/".join(folders) for folders in _list_own_folders(mine, theirs))
        words = _find_subject(one, another, side), _find_subject(another, one, other)
        if all(words):
            yield f"two folders: {words[0]!r} / {words[1]!r}"
        if not _A_NUMBER.search(one + another):  # no releases
            both = bool(one and another)  # else one may be a mirror, with a frame of its own
            yield _find_edit(pair, pair.gaps if both else filter(pair.is_inside, pair.gaps))
            yield _find_strange(pair) if both else ""
        yield _find_two_names(pair)
    elif mine != theirs:
        # Mirrors may each add their own name to that of a page.
        for first, second, shown in _pair_names(page, kept):
            yield shown * set(first).isdisjoint(second)
    if paragraph := find_paragraph(side):
        yield f"a paragraph of its own: {paragraph!r}"
    if not pair.one_address:
        yield _find_other_cells(pair)


def _list_own_folders(first: str, second: str) -> tuple[list[str], list[str]]:
    """List the folders that only the one of two addresses has; or else the first that differ.

    >>> _list_own_folders("http://a.example/mirror/4.2/x.html", "http://a.example/5.0/x.html")
    (['mirror', '4.2'], ['5.0'])
    """
    addresses = map(parse_address, (first, second))
    paths = [address.path[:-1] if address else () for address in addresses]
    mine, theirs = (Counter(map(unquote, path)) for path in paths)
    own = [*(mine - theirs)], [*(theirs - mine)]
    if any(own):
        return own
    differ = next((pair for pair in zip(*paths, strict=False) if pair[0] != pair[1]), ())
    return [*map(unquote, differ[:1])], [*map(unquote, differ[1:])]


def _find_edit(pair: _Pair, gaps: Iterable[Gap]) -> str:
    """Find words of a main text in the place of others, or own ones in that of any, or ""."""
    for gap in gaps:
        stretches = [*zip((pair.side, pair.other), gap, strict=True)]
        both = [each.words.tokens[at] for each, at in stretches]
        own = any(_list_said(each.words, each.own, at) for each, at in stretches)
        # Words that are the site's, or elsewhere on the other page, name a page no less.
        one, another = (_list_said(each.words, ~each.words.numbers, at) for each, at in stretches)
        if all(both) and (own or (one - another and another - one)):
            return "words in the place of others: {!r} / {!r}".format(*_show_apart(*both))
    return ""


def _find_strange(pair: _Pair) -> str:
    """Find a block that neither the kept page nor all pages of the folder say so often, or ""."""
    page, kept = pair.page, pair.kept
    if not pair.sites[0].known or find_declared(page.facts, kept.facts):
        return ""
    mine, theirs = (Counter(filter(None, each.words.letterless)) for each in (page, kept))
    if mine <= theirs:
        return ""
    beside = pair.sites[0].list_beside(page.facts.url, kept.facts.url)
    if len(beside) >= LEAST_OF_TEMPLATE:
        theirs |= reduce(and_, (Counter(each.words.letterless) for each in beside))
    strange = mine - theirs
    blocks = zip(page.words.letterless, page.words.texts, strict=True)
    found = next((text for said, text in blocks if said in strange), "")
    return f"words of one folder: {' '.join(found.split()[:_WORDS_SHOWN])!r}" if found else ""


def _list_said(words: Words, marked: Marks, at: slice) -> set[str]:
    """List the marked words of the main text in a stretch, but single letters."""
    said = compress(words.tokens[at], (marked & words.main)[at].tolist())
    return {word for word in said if len(word) > 1 or word.isdecimal()}


def _find_other_cells(pair: _Pair) -> str:
    """Find short blocks of the main text that say something else, or return "" if they are few."""
    side, words, kept = pair.side, pair.page.words, pair.kept.words
    short = words.sizes[words.block_of] <= _CELL_WORDS
    numbers = side.own & words.main & words.numbers & short
    if numbers.sum() > _MOST_CELLS:
        return f"other numbers: {words.show(numbers)!r}"
    cells = [
        cells
        for here, there in pair.gaps
        for cells in zip(_list_cells(words, here), _list_cells(kept, there), strict=False)
        if set(cells[0].split()).isdisjoint(cells[1].split())
    ]
    few = len(cells) <= _MOST_CELLS
    return "" if few else "texts in the place of others: {!r} / {!r}".format(*cells[0])


def _list_cells(words: Words, at: slice) -> list[str]:
    """List the short blocks of the main text between two words."""
    return [
        " ".join(words.tokens[start:end])
        for _, start, end in map(words.blocks.__getitem__, _list_blocks(words, at))
        if end - start <= _CELL_WORDS and words.main[start]
    ]


def _find_two_names(pair: _Pair) -> str:
    """Find two names where each of all says a word, but numbers, that the other lacks, or ""."""
    # On a host that is not known, the one that is the same may be the site's.
    found = ""
    for mine, theirs, shown in _pair_names(pair.page, pair.kept):
        one, another = ({w for w in name if not _A_NUMBER.search(w)} for name in (mine, theirs))
        apart = one - another and another - one
        if not apart and pair.sites[0].known:
            return ""
        found = shown if apart else found
    return found


def _pair_names(page: Page, kept: Page) -> list[tuple[Name, Name, str]]:
    """Pair the titles, and the headings, of two pages where both have one, shown as two names."""
    first, second = page.facts, kept.facts
    shown = (first.title, second.title), (first.heading, second.heading)
    return [
        (mine, theirs, f"two names: {one!r} / {other!r}")
        for mine, theirs, (one, other) in zip(page.names, kept.names, shown, strict=True)
        if mine and theirs
    ]


def _is_one_address(mine: str, theirs: str) -> bool:
    return mine.partition("#")[0] == theirs.partition("#")[0]


def _count_own(side: Side) -> int:
    """Count the own words, but those of frames around the common part."""
    places = np.flatnonzero(side.common)
    if not len(places):
        return int(side.own.sum())
    cut = int(_SHARE_OF_ENDS * len(places))
    inside = side.words.main.copy()
    inside[places[cut] : places[len(places) - 1 - cut] + 1] = True
    return int((side.own & inside).sum())


def find_paragraph(side: Side) -> str:
    """Find a block of the main text whose words are its page's own, or return ""."""
    words = side.words
    if not side.own.any():
        return ""
    own = np.add.reduceat(side.own & words.main, words.starts, dtype=np.int64)
    alone = np.add.reduceat(side.alone, words.starts, dtype=np.int64)
    found = np.flatnonzero((own >= PARAGRAPH_WORDS) & (alone >= PARAGRAPH_SHARE * words.sizes))
    if not len(found):
        return ""
    _, start, end = words.blocks[found[0]]
    return " ".join(words.tokens[start:end][:_WORDS_SHOWN])


def _count_names(pair: _Pair) -> int:
    """Count as words what two names differ in."""
    said = []
    names = pair.page.names, pair.kept.names, *(site.shared for site in pair.sites)
    for mine, theirs, ours, others in zip(*names, strict=True):
        if not mine or not theirs:
            continue
        one, another = (
            Counter(each for each in _key_words(name) if each[:2] not in shared)
            for name, shared in ((mine, ours), (theirs, others))
        )
        if one or another:
            said.append(bool(one - another) + bool(another - one))
    # Where one is the same, the other one counts only if each page says a word there alone.
    most = max(said, default=0) - (not all(said))
    return NAMES_WORDS * max(0, most) // 2


def _find_address_word(pair: _Pair) -> str:
    """Find a word that only one address has, in its last segment, and only its page, or ""."""
    mine, theirs = pair.page.facts.url, pair.kept.facts.url
    if last_segment(mine) == last_segment(theirs):
        return ""
    one, another = (unquote(url.rpartition("://")[2].partition("/")[2]) for url in (mine, theirs))
    word = _find_subject(last_segment(mine), another, pair.side)
    word = word or _find_subject(last_segment(theirs), one, pair.other)
    return f"a word of one address: {word!r}" if word else ""


def _find_subject(mine: str, theirs: str, side: Side) -> str:
    """Find a word of the one address's name, but numbers, that its page alone says, or ""."""
    said = _read_words(mine) - _read_words(theirs)
    if not said:
        return ""
    places = np.flatnonzero(side.alone).tolist()
    return next(
        (token for token in map(side.words.tokens.__getitem__, places) if token in said), ""
    )


@lru_cache(maxsize=4_096)
def _read_words(name: str) -> frozenset[str]:
    both = (*tokenise(normalise(name)), *tokenise(normalise(name.replace("_", " "))))
    return frozenset(word for word in both if not _A_NUMBER.search(word))


def find_declared(first: Facts, second: Facts) -> set[str]:
    """Find the addresses that one of two pages declares, and the other has, or declares, too."""
    mine, theirs = first.declared, second.declared
    declared = mine & {*theirs, plain_form(second.url)} | theirs & {plain_form(first.url)}
    return {address for address in declared if address.partition("/")[2]}


def count_data_bits(first: Page, second: Page) -> int:
    """Count the bits between what browsers may draw two pages from; 0 without."""
    one, other = first.facts.data_fingerprint, second.facts.data_fingerprint
    if not one or not other:
        return 0
    return (int.from_bytes(one, "big") ^ int.from_bytes(other, "big")).bit_count()
