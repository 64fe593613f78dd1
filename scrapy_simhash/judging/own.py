"""What each of two pages has for itself, word by word, and what stands in the place of what.

A word is a page's *own* if no triple with it is on the other page, nor template: of k missing
triples in a row these are the k - 2 words in the middle, so one word that was inserted or replaced
is 1, and a deleted one is none on its page. A number is own by the triples as they are. The address
of a page that its text writes out ("Printed from ...") is nobody's.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from scrapy_simhash.judging.texts import UNKNOWN_TEMPLATE
from scrapy_simhash.pages.features import tokenise

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy_simhash.judging.texts import Hashes, Marks, Template, Text

# Own words that so few others part are one run.
_CLOSED = 2
# Of what both have, so much at either end does not begin or end their common part.
_FRAME = 0.03
# Other words at one place are a field, if they are so few; other numbers, if they are more, or
# twice as many in all: fewer are a time or a counter. A number alone in so few words is a field.
MOST_IN_A_FIELD = 6
MOST_IN_A_COUNTER = 2
LEAST_IN_A_SENTENCE = 3
# A time of day, of which the hour may be the same.
_TIME = re.compile(r"\b\d{1,2}:\d\d(?::\d\d)?(?:[.,]\d+)?\b")


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
        common: words whose triple both have, with any number for each, and which is no template.
        within: from the first to the last of the common ones, but for 3 % at either end.
        alone: words that are own if only that is taken off which the pages share of the part of the
            site in which the one lies, and the other does not.
        unique: of the own words, those that no page of the sample has, and that the other page has
            nowhere else.
    """

    text: Text
    own: Marks
    common: Marks
    within: Marks
    alone: Marks
    unique: Marks

    @property
    def new(self) -> Marks:
        """Of the own words, those that stand within, or that are unique."""
        return self.unique | self.own & self.within

    def list_tokens(self) -> set[str]:
        """List the distinct own words."""
        return {self.text.tokens[place] for place in np.flatnonzero(self.own)}

    def list_words(self, most: int = 10) -> tuple[str, ...]:
        """List the first own words."""
        places = np.flatnonzero(self.own)[:most].tolist()
        return tuple(self.text.show(place, place + 1) for place in places)

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
    """What two pages have for themselves, and the template that was taken off."""

    first: Side
    second: Side
    template: Template = UNKNOWN_TEMPLATE

    @property
    def sides(self) -> tuple[Side, Side]:
        """Both."""
        return self.first, self.second

    @property
    def common(self) -> int:
        """How many words they have in common that are no template; of the page with fewer."""
        return int(min(side.common.sum() for side in self.sides))

    @property
    def equal(self) -> bool:
        """Whether neither has a word or number of its own, nor other words beyond the bound."""
        return not self.first.own.any() and not self.second.own.any() and self.same_rest

    @property
    def in_order(self) -> bool:
        """Whether the triples that both have are in one order, and as often, numbers aside."""
        first, second = self.first.text, self.second.text
        mine = first.masked[_is_in(first.masked, second.masked_set)]
        theirs = second.masked[_is_in(second.masked, first.masked_set)]
        return bool(np.array_equal(mine, theirs))

    @property
    def same_rest(self) -> bool:
        """Whether the words beyond the bound are the same."""
        return self.first.text.rest == self.second.text.rest


def find_swap(first: Side, second: Side) -> tuple[str, str] | None:
    """Find what one page has in the place of what the other has, as two records do, or None.

    That is a number in a block of its own, such as a cell, or other numbers, see
    `find_other_numbers`; or, behind the same word and whatever the site has there, a few other
    words, or more, of which both have some that nobody else has; or some words that one page has
    more within a block. At the top of both pages many words are a frame.
    """
    for side in first, second:
        cells = side.alone & side.text.numbers & (side.text.block_words < LEAST_IN_A_SENTENCE)
        for run in list_runs(cells):
            return _show_one(run, side, first)
    if numbers := find_other_numbers(first, second):
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


def find_other_numbers(first: Side, second: Side) -> tuple[str, str] | None:
    """Find another price, or several other numbers, behind the same word, or None.

    What the site has there does not matter. A time or a counter is none.
    """
    numbers = 0
    for mine, other in _pair_runs(first, second, numbers=True):
        shown = first.text.show(mine.start, mine.end), second.text.show(other.start, other.end)
        clocks = [sum(len(tokenise(time[0])) for time in _TIME.finditer(each)) for each in shown]
        here = max(mine.own - clocks[0], other.own - clocks[1])
        numbers += max(0, here)
        many = here > MOST_IN_A_COUNTER or numbers > 2 * MOST_IN_A_COUNTER
        if many or first.text.has_price(mine.start, mine.end):
            return shown
    return None


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
    places: dict[int, list[Run]] = {}
    for run in theirs:
        places.setdefault(second.text.get_before(run.start), []).append(run)
    for run in mine:
        for other in places.get(first.text.get_before(run.start), ()):
            yield run, other


def compare_words(
    first: Text,
    second: Text,
    template: Template = UNKNOWN_TEMPLATE,
    urls: tuple[str, str] = ("", ""),
) -> OwnWords:
    """Compare the texts of two addresses, of one seed; takes some 0.3 ms."""
    mine = _find_own(first, second, template, urls)
    theirs = _find_own(second, first, template, urls[::-1])
    return OwnWords(mine, theirs, template)


def _find_own(text: Text, other: Text, template: Template, urls: tuple[str, str]) -> Side:
    masked_alone = ~_is_in(text.masked, other.masked_set)
    alone = ~_is_in(text.triples, other.triples_set)
    masked_own = masked_alone & ~_is_in(text.masked, template.masked)
    own = alone & ~_is_in(text.triples, template.triples)
    common = ~masked_alone & ~_is_in(text.masked, template.masked)
    masked_unique = masked_own & ~_is_in(text.masked, template.any_masked)
    unique = own & ~_is_in(text.triples, template.any_triples)
    said = ~text.mark_address(urls[0])
    shared, masked_shared = template.find_shared(*urls)
    return Side(
        text,
        _choose(text, masked_own, own) & said,
        common,
        _span(common),
        _choose(
            text,
            masked_alone & ~_is_in(text.masked, masked_shared),
            alone & ~_is_in(text.triples, shared),
        )
        & said,
        _choose(text, masked_unique, unique) & said & ~_is_in(text.hashes, other.hashes_set),
    )


def _choose(text: Text, masked: Marks, exact: Marks) -> Marks:
    """Mark the words of which all triples are missing: numbers by the exact ones."""
    return np.where(text.numbers, _middle(exact), _middle(masked))


def _middle(missing: Marks) -> Marks:
    """Mark the words of which each triple is missing."""
    middle = missing.copy()  # `np.pad` takes ten times as long
    middle[1:] &= missing[:-1]
    middle[:-1] &= missing[1:]
    return middle


def _span(common: Marks) -> Marks:
    """Mark what stands from the first to the last of the common words; all, if there are none."""
    places = np.flatnonzero(common)
    if not len(places):
        return np.ones(len(common), np.bool_)
    cut = int(_FRAME * len(places))
    within = np.zeros(len(common), np.bool_)
    within[places[cut] : places[len(places) - 1 - cut] + 1] = True
    return within


def _is_in(triples: Hashes, ascending: Hashes) -> Marks:
    """Mark which triples, or words, are in an ascending list."""
    if not len(ascending):
        return np.zeros(len(triples), np.bool_)
    places = np.searchsorted(ascending, triples)
    found: Marks = ascending.take(places, mode="clip") == triples
    return found
