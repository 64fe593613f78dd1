"""The texts of two pages, word by word: what each has for itself, and what in the place of what.

Texts are compared by their triples of words. Words with digits are *numbers*: a triple is looked up
with any number in the place of its numbers, and as it is.

A word is a page's *own* if no triple with it is on the other page, nor template: of k missing
triples in a row these are the k - 2 words in the middle, so one word that was inserted or replaced
is 1, and a deleted one is none on its page. A number is own by the triples as they are. The address
of a page that its text writes out ("Printed from ...") is nobody's.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from functools import cached_property, lru_cache
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
import regex

from scrapy_simhash.judging.wordrule import (
    LEAST_KNOWN,
    LEAST_OF_TEMPLATE,
    SHARE_OF_TEMPLATE,
    list_tails,
)
from scrapy_simhash.judging.words import SIGNS, is_number, middle
from scrapy_simhash.pages.addresses import last_segment, parse_address, part_folders
from scrapy_simhash.pages.features import hash_shingles, locate, normalise, tokenise
from scrapy_simhash.pages.sketch import SKETCH_WINDOW
from scrapy_simhash.tables.arrays import contains, sort_distinct

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from scrapy_simhash.pages.facts import Facts
    from scrapy_simhash.pages.wording import Wording

    Hashes: TypeAlias = NDArray[np.uint64]
    Marks: TypeAlias = NDArray[np.bool_]

# Stands for any number, and before the first and behind the last word.
_NUMBER, _BEFORE, _BEHIND = map(np.uint64, (3, 1, 2))
_CURRENCY = regex.compile(r"\p{Sc}")
_LEAST_SLASHES = 2
_LETTER = re.compile(r"[^\W\d_]")
_NO_WORDS = re.compile(r"[\W_]+")
NOTHING = np.empty(0, np.uint64)
# Stands for the end of a line among words; a normalised text has no capitals.
_LINE = "L"
# Own words that so few others part are one run.
_CLOSED = 2
# Of what both have, so much at either end does not begin or end their common part.
_FRAME = 0.03
# Other words at one place are a field, if they are so few; other numbers, if they are more, or
# twice as many in all: fewer are a time or a counter. A number alone in so few words is a field.
MOST_IN_A_FIELD = 6
MOST_IN_A_COUNTER = 2
LEAST_IN_A_SENTENCE = 3
# A number below a hundred counts what a short page is about, up to so many words in common.
_SMALL = re.compile(r"\D*(\d{1,2})\D*")
_SHORT = 100
# Of some 150 kB a text of 1,000 words. With four times as many, a seventh fewer are read twice.
_TEXTS_REMEMBERED = 64
# What so many pages of a part of a site have, three at least, is that part's.
_SHARE_OF_PART = 0.75
# Three digits, but no release, before the last name in a path.
_IDENTIFIER = re.compile(r"/((?=(?:[^/\d]*\d){3})(?![^/]*\d\.\d)[^/]+)/[^/]+$")
# A time of day, of which the hour may be the same.
_TIME = re.compile(r"\b\d{1,2}:\d\d(?::\d\d)?(?:[.,]\d+)?\b")


class Text:
    """The text of a page, read once to be compared with others of this process.

    Args:
        text: as `pages.wording.Wording` keeps it: normalised, one block a line.
        rest: digest of the words beyond; b"" if there are none.
        beside: what a reader sees beside the text.

    Attributes:
        normal, rest, beside: as given.
        tokens: its n words.
        hashes: of the words, shape (n,).
        numbers: which words have a digit.
        blocks: the number of each word's line.
        triples, masked: hashes of each word with its neighbours, as they are and with any number
            for each; shape (n,).
    """

    def __init__(self, text: str, rest: bytes = b"", beside: Sequence[str] = ()) -> None:
        # A text that somebody else made may have capitals.
        self.normal, self.rest, self.beside = text.replace(_LINE, "l"), rest, tuple(beside)
        tokens = tokenise(self.normal.replace("\n", f" {_LINE} "))
        hashes = _hash_words(tokens)
        ends_of_blocks = hashes == _hash_words([_LINE])
        self.blocks = np.cumsum(ends_of_blocks, dtype=np.int32)[~ends_of_blocks]
        self.tokens = [token for token in tokens if token != _LINE]
        self.hashes = hashes[~ends_of_blocks]
        are_letters = np.fromiter(map(str.isalpha, self.tokens), np.bool_, len(self))
        self.numbers = self.mark(~are_letters, is_number)
        padded = [
            np.concatenate([[_BEFORE], words, [_BEHIND]])
            for words in (self.hashes, np.where(self.numbers, _NUMBER, self.hashes))
        ]
        # Where the words of lines that were shown begin and end.
        self._lines: dict[int, list[tuple[int, int]]] = {}
        self.triples, self.masked = [
            hash_shingles(words, SKETCH_WINDOW) if self.tokens else NOTHING for words in padded
        ]

    def __len__(self) -> int:
        return len(self.tokens)

    def mark(self, marked: Marks, accept: Callable[[str], object]) -> Marks:
        """Mark, of words that are marked, those that a function accepts."""
        accepted = np.zeros(len(self), np.bool_)
        places = np.flatnonzero(marked)
        accepted[places] = [bool(accept(self.tokens[place])) for place in places.tolist()]
        return accepted

    @cached_property
    def words(self) -> frozenset[str]:
        """The distinct words."""
        return frozenset(self.tokens)

    @cached_property
    def triples_sorted(self) -> Hashes:
        """The triples, ascending."""
        return np.sort(self.triples)

    @cached_property
    def masked_sorted(self) -> Hashes:
        """The masked triples, ascending."""
        return np.sort(self.masked)

    @cached_property
    def digits(self) -> Marks:
        """Which words have a digit and no letter, as times and counters; shape (n,)."""
        return self.numbers & ~self.mark(self.numbers, _LETTER.search)

    @cached_property
    def block_words(self) -> NDArray[np.int64]:
        """How many words are in the block of each word; shape (n,)."""
        words: NDArray[np.int64] = np.bincount(self.blocks)[self.blocks]
        return words

    def get_before(self, place: int) -> int:
        """Return the hash of the word before a place, one for all numbers."""
        if not place:
            return int(_BEFORE)
        return int(_NUMBER if self.numbers[place - 1] else self.hashes[place - 1])

    def goes_on(self, place: int) -> bool:
        """Whether another word of the block stands before a place."""
        return self.blocks[place] in self.blocks[:place][-1:]

    def has_price(self, first: int, end: int) -> bool:
        """Whether the sign of a currency stands beside words, from one to before another."""
        start, end = self._locate(first)[0], self._locate(end - 1)[1]
        return bool(_CURRENCY.search(self.normal, max(0, start - 2), end + 2))

    @cached_property
    def signs(self) -> dict[str, set[str]]:
        """The signs of each line, by its words."""
        signs: dict[str, set[str]] = {}
        for line in self.normal.split("\n"):
            words = _NO_WORDS.sub(" ", line).strip()
            signs.setdefault(words, set()).add("".join(SIGNS.findall(line)))
        return signs

    def mark_address(self, url: str) -> Marks:
        """Mark the words of the path of an address, where the text writes it out."""
        marked = np.zeros(len(self), np.bool_)
        address = parse_address(url)
        path = "/".join(address.path).strip("/") if address else ""
        # Shorter ones, or dates, may be what a record says: "2026/11/26", "eur/usd".
        if path.count("/") < _LEAST_SLASHES or not _LETTER.search(path):
            return marked
        path = normalise(path)
        place = end = 0
        for found in re.finditer(rf"(?<!\w){re.escape(path)}(?!\w)", self.normal):
            start = place + len(tokenise(self.normal[end : found.start()]))
            place, end = start + len(tokenise(found[0])), found.end()
            marked[start:place] = True
        return marked

    @cached_property
    def _starts(self) -> list[int]:
        """Where each line begins."""
        return [0, *(line.end() for line in re.finditer("\n", self.normal))]

    def _locate(self, place: int) -> tuple[int, int]:
        """Find where a word begins and ends; reads its line, and that once."""
        line = int(self.blocks[place])
        first, end = (int(self.blocks.searchsorted(line, side)) for side in ("left", "right"))
        if line not in self._lines:
            words = self.tokens[first:end]
            self._lines[line] = list(locate(self.normal, words, self._starts[line]))
        return self._lines[line][place - first]

    def show(self, start: int, end: int) -> str:
        """Return the text from one word to before another."""
        return self.normal[self._locate(start)[0] : self._locate(end - 1)[1]].replace("\n", " ")


def _count(found: Sequence[Hashes], least: float) -> tuple[Hashes, Hashes]:
    """List what is in any of the hashes of n texts, and what is in so many of them, ascending."""
    if not found:
        return NOTHING, NOTHING
    each = np.concatenate([sort_distinct(hashes) for hashes in found])
    distinct, times = np.unique(each, return_counts=True)
    return distinct, distinct[times >= least]


class Template:
    """What the pages of a site share: triples of words, ends of addresses, what is beside the text.

    Args:
        texts: of a sample of its pages; fewer than six tell nothing.
        urls: addresses of these pages.
        declared: addresses that they declare, in their plain form.

    Attributes:
        known: whether there are enough.
        triples, masked: those that a fifth of the texts have, three at least, ascending.
        any_triples, any_masked: those that any has.
        beside: what so many have beside their texts.
        declared: as given.
    """

    def __init__(
        self,
        texts: Sequence[Text] = (),
        urls: Sequence[str] = (),
        declared: Iterable[str] = (),
    ) -> None:
        self.known = len(texts) >= LEAST_KNOWN
        known = texts if self.known else ()
        least = max(LEAST_OF_TEMPLATE, SHARE_OF_TEMPLATE * len(known))
        self.any_triples, self.triples = _count([text.triples for text in known], least)
        self.any_masked, self.masked = _count([text.masked for text in known], least)
        beside = Counter(each for text in known for each in set(text.beside))
        self.beside = {each for each, times in beside.items() if times >= least}
        self.declared = frozenset(declared)
        self._pages = [
            (address.path, text)
            for url, text in zip(urls, known, strict=False)
            if (address := parse_address(url))
        ]
        self._of_parts: dict[tuple[str, ...], tuple[Hashes, Hashes]] = {}
        tails = Counter(tail for url in urls for tail in list_tails(url)) if self.known else {}
        self._tails = {tail for tail, times in tails.items() if times >= least}

    def find_shared(self, part: tuple[str, ...]) -> tuple[Hashes, Hashes]:
        """Find what nearly all pages of a part of the site have, such as its release or its day.

        Triples and masked triples, ascending; `part` are the folders from the top.
        """
        within = [text for path, text in self._pages if part and path[: len(part)] == part]
        if len(within) < LEAST_OF_TEMPLATE:  # of folders without end, few are remembered
            return NOTHING, NOTHING
        if part not in self._of_parts:
            least = max(LEAST_OF_TEMPLATE, _SHARE_OF_PART * len(within))
            triples, masked = [text.triples for text in within], [text.masked for text in within]
            self._of_parts[part] = _count(triples, least)[1], _count(masked, least)[1]
        return self._of_parts[part]

    def find_name(self, url: str) -> str:
        """Find the last name in an address that is not the site's: "7" is that of "/7/view"."""
        tails = list_tails(url)
        shared = next((n for n, tail in enumerate(tails) if tail not in self._tails), len(tails))
        rest = url.partition("#")[0].rstrip("/").rsplit("/", shared)[0]
        # What stands behind an identifier belongs to it in any case: "4022/view".
        before = _IDENTIFIER.search(rest.partition("?")[0])
        return f"{before[1]}/{last_segment(rest)}" if before else last_segment(rest)


UNKNOWN_TEMPLATE = Template()


def make_template(pages: Iterable[tuple[Facts, Wording]]) -> Template:
    """Make the template that a sample of pages shows."""
    pages = list(pages)
    return Template(
        [read_wording(wording) for _, wording in pages],
        [page.url for page, _ in pages],
        chain.from_iterable(page.declared for page, _ in pages),
    )


@lru_cache(maxsize=_TEXTS_REMEMBERED)
def read_wording(wording: Wording) -> Text:
    """Read the text of a page, or remember it."""
    return Text(wording.text, wording.rest, wording.beside)


def _hash_words(words: Sequence[str]) -> Hashes:
    """Hash words; these hashes do not leave the process."""
    # Python's own hash is keyed for each process, so that nobody can make two words of one hash,
    # and takes a tenth of the time of XXH3, whose every call makes objects.
    return np.fromiter(map(hash, words), np.int64, len(words)).view(np.uint64)


class Run(NamedTuple):
    """Own words in a row, up to two others in between, from one word to before another."""

    start: int
    end: int
    own: int  # how many are own

    def has(self, marked: Marks) -> bool:
        """Whether one of its words is marked."""
        return bool(marked[self.start : self.end].any())


class Side(NamedTuple):
    """What one of two pages has for itself and in common with the other; marks of its n words.

    Attributes:
        text: of the page.
        own: its own words.
        both: words whose triple both have, with any number for each.
        common: those of them whose triple is no template.
        within: from the first to the last of the common ones, but for 3 % at either end.
        alone: words that are own if only that is taken off which the pages share of the part of the
            site in which the one lies, and the other does not.
        unique: of the own words, those that no page of the sample has, and that the other page has
            nowhere else.
    """

    text: Text
    own: Marks
    both: Marks
    common: Marks
    within: Marks
    alone: Marks
    unique: Marks

    @property
    def new(self) -> Marks:
        """Of the own words, those that stand within, or that are unique."""
        return self.unique | self.own & self.within

    def list_tokens(self) -> set[str]:
        """List the distinct words that stand alone: a colour of all products is template."""
        return {self.text.tokens[place] for place in np.flatnonzero(self.alone)}

    def list_words(self, most: int = 10) -> tuple[str, ...]:
        """List the first own words."""
        places = np.flatnonzero(self.own)[:most].tolist()
        return tuple([self.text.show(place, place + 1) for place in places])

    def show(self, most: int = 10) -> str:
        """Return the first own words, so many at most, with a bar between runs; "" for none."""
        shown = []
        for run in list_runs(self.own):
            end = min(run.end, run.start + most)
            shown.append(self.text.show(run.start, end))
            most -= end - run.start
            if most <= 0:
                break
        return " | ".join(shown)


def list_runs(marked: Marks) -> Iterator[Run]:
    """List marked words in runs."""
    places = np.flatnonzero(marked)
    if not len(places):
        return
    breaks = np.flatnonzero(np.diff(places) > _CLOSED + 1) + 1
    for start, end in zip([0, *breaks], [*breaks, len(places)], strict=True):
        yield Run(int(places[start]), int(places[end - 1]) + 1, int(end - start))


class OwnWords(NamedTuple):
    """What two pages have for themselves.

    Attributes:
        first, second: what either has.
        template: of their site, which was taken off.
        names: of either address, the last name that is not the site's.
        common: how many words they have in common that are no template; of the page with fewer.
        same_rest: whether the words beyond the bound are the same.
        equal: whether neither has a word or number of its own, nor other words beyond the bound.
    """

    first: Side
    second: Side
    template: Template
    names: tuple[str, str]
    common: int
    same_rest: bool
    equal: bool

    @property
    def in_order(self) -> bool:
        """Whether the triples that both have are in one order, and as often, numbers aside."""
        mine, theirs = (side.text.masked[side.both] for side in (self.first, self.second))
        return np.array_equal(mine, theirs)

    def describe(self) -> str:
        """Describe for people what two pages have for themselves."""
        mine, theirs = [
            f"{int(side.own.sum())}, {side.show()!r}" if side.own.any() else "none"
            for side in (self.first, self.second)
        ]
        return (
            f"own words: {mine}; the other one's: {theirs}; in common: {self.common}, no template"
        )


def find_swap(own: OwnWords, *, counters: bool = True) -> tuple[str, str] | None:
    """Find what one page has in the place of what the other has, as two records do, or None.

    That is a number in a block of its own, such as a cell, or other numbers, see
    `find_other_numbers`; or, behind the same word and whatever the site has there, a few other
    words, or more, of which both have some that nobody else has; or some words that one page has
    more within a block. At the top of both pages many words are a frame.

    Args:
        own: the own words of two pages.
        counters: whether one other number or two may be a counter or a date.
    """
    first, second = own.first, own.second
    for side in first, second:
        cells = side.alone & side.text.numbers & (side.text.block_words < LEAST_IN_A_SENTENCE)
        for run in list_runs(cells):
            return _show_one(run, side, first)
    if numbers := find_other_numbers(own, counters=counters):
        return numbers
    for mine, other in _pair_runs(first, second, numbers=False):
        few = max(mine.own, other.own) <= MOST_IN_A_FIELD
        below = mine.start > 0 or other.start > 0
        if few or (below and mine.has(first.unique) and other.has(second.unique)):
            return first.text.show(mine.start, mine.end), second.text.show(other.start, other.end)
    for side in first, second:
        words = side.own & ~side.text.numbers
        for run in list_runs(side.alone):
            if run.own < MOST_IN_A_FIELD and run.has(words) and side.text.goes_on(run.start):
                return _show_one(run, side, first)
    return None


def find_other_numbers(own: OwnWords, *, counters: bool = True) -> tuple[str, str] | None:
    """Find another price, or several other numbers, behind the same word, or None.

    What the site has there does not matter. A time or a counter is none; but of short pages one
    small number suffices.
    """
    first, second = own.first, own.second
    numbers, short = 0, own.common < _SHORT
    most = MOST_IN_A_COUNTER if counters else 0
    for mine, other in _pair_runs(first, second, numbers=True):
        shown = first.text.show(mine.start, mine.end), second.text.show(other.start, other.end)
        here = max(_count_numbers(first.text, mine), _count_numbers(second.text, other))
        numbers += max(0, here)
        many = here > most or numbers > 2 * most
        counted = shown if short and here > 0 else ()
        small = {int(value[1]) for each in counted if (value := _SMALL.fullmatch(each))}
        if many or len(small) > 1 or first.text.has_price(mine.start, mine.end):
            return shown
    return None


def _may_be_record(text: Text, run: Run) -> bool:
    """Whether a run of numbers has a price, or more than times."""
    return _count_numbers(text, run) > 0 or text.has_price(run.start, run.end)


def _count_numbers(text: Text, run: Run) -> int:
    """Count the own numbers of a run, but for those of times, of which the hour may be the same."""
    around = text.show(max(0, run.start - 1), run.end)
    return run.own - sum(len(tokenise(time[0])) for time in _TIME.finditer(around))


def find_signs(first: Text, second: Text) -> tuple[str, str] | None:
    """Find the words that have other signs on two pages, with the signs, or None."""
    for words, mine in first.signs.items():
        theirs = second.signs.get(words, mine)
        if (here := mine - theirs) and (there := theirs - mine):
            return f"{min(here)} {words}".strip(), f"{min(there)} {words}".strip()
    return None


def _show_one(run: Run, side: Side, first: Side) -> tuple[str, str]:
    """Show what only one of two pages has."""
    value = side.text.show(run.start, run.end)
    return (value, "") if side is first else ("", value)


def _pair_runs(first: Side, second: Side, *, numbers: bool) -> Iterator[tuple[Run, Run]]:
    """Pair runs of words, or of numbers, that stand at one place of two pages, template or not."""
    mine, theirs = (
        list_runs(side.alone & (side.text.digits == numbers)) for side in (first, second)
    )
    # Of each place all runs, and those that say something beside a time: two times say nothing,
    # and a timetable has hundreds at one place.
    places: defaultdict[int, tuple[list[Run], list[Run]]] = defaultdict(lambda: ([], []))
    for run in theirs:
        every, some = places[second.text.get_before(run.start)]
        every.append(run)
        if not numbers or _may_be_record(second.text, run):
            some.append(run)
    for run in mine:
        every, some = places[first.text.get_before(run.start)]
        for other in every if not numbers or _may_be_record(first.text, run) else some:
            yield run, other


def compare_words(
    first: Text, second: Text, template: Template, urls: tuple[str, str] = ("", "")
) -> OwnWords:
    """Compare the texts of two addresses; takes some 0.2 ms."""
    parts = part_folders(*urls)
    mine = _find_own(first, second, template, urls[0], parts[0])
    theirs = _find_own(second, first, template, urls[1], parts[1])
    same_rest = first.rest == second.rest
    return OwnWords(
        mine,
        theirs,
        template,
        (template.find_name(urls[0]), template.find_name(urls[1])),
        common=int(min(mine.common.sum(), theirs.common.sum())),
        same_rest=same_rest,
        equal=same_rest and not (mine.own.any() or theirs.own.any()),
    )


def _find_own(text: Text, other: Text, template: Template, url: str, part: tuple[str, ...]) -> Side:
    """Find what a text has for itself, at a URL in a part of the site where the other is not."""
    theirs, masked = other.triples_sorted, other.masked_sorted
    both, alone = contains(masked, text.masked), ~contains(theirs, text.triples)
    masked_alone = ~both
    common = _but(both, text.masked, template.masked)
    masked_own = _but(masked_alone, text.masked, template.masked)
    own = _but(alone, text.triples, template.triples)
    masked_unique = _but(masked_own, text.masked, template.any_masked)
    unique = _but(own, text.triples, template.any_triples)
    of_part, masked_of_part = template.find_shared(part)
    masked_alone = _but(masked_alone, text.masked, masked_of_part)
    said = ~text.mark_address(url)
    new = _choose(text, masked_unique, unique) & said
    return Side(
        text,
        _choose(text, masked_own, own) & said,
        both,
        common,
        _span(common),
        _choose(text, masked_alone, _but(alone, text.triples, of_part)) & said,
        text.mark(new, lambda token: token not in other.words),
    )


def _choose(text: Text, masked: Marks, exact: Marks) -> Marks:
    """Mark the words of which all triples are missing: numbers by the exact ones."""
    return np.where(text.numbers, middle(exact), middle(masked))


def _span(common: Marks) -> Marks:
    """Mark what stands from the first to the last of the common words; all, if there are none."""
    places = np.flatnonzero(common)
    if not len(places):
        return np.ones(len(common), np.bool_)
    cut = int(_FRAME * len(places))
    within = np.zeros(len(common), np.bool_)
    within[places[cut] : places[len(places) - 1 - cut] + 1] = True
    return within


def _but(marked: Marks, triples: Hashes, ascending: Hashes) -> Marks:
    """Mark what is marked, but for what is in an ascending list; that is little."""
    places = np.flatnonzero(marked) if len(ascending) else ()
    if not len(places):
        return marked
    kept = marked.copy()
    kept[places] = ~contains(ascending, triples[places])
    return kept
