"""The words of a page, and which of them stand alone beside another page.

Texts are compared by their triples of words. A word is *alone* if no triple with it is on the other
page: of k missing triples in a row these are the k - 2 words in the middle, so one word that was
replaced is 1. Words with digits are *numbers*: a triple is looked up with any number in the place
of its numbers, and a number by its triples as they are.
"""

from __future__ import annotations

import re
from collections import Counter
from difflib import SequenceMatcher
from functools import cached_property, lru_cache
from itertools import compress, pairwise, takewhile
from operator import eq
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
import regex

from scrapy_simhash.pages.features import cut_lines, normalise, tokenise

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from scrapy_simhash.pages.facts import Facts, Wording

    Hashes: TypeAlias = NDArray[np.uint64]
    Marks: TypeAlias = NDArray[np.bool_]
    Name: TypeAlias = tuple[str, ...]  # its words and signs

# Stands for any number, and before the first and behind the last word.
_NUMBER, _BEFORE, _BEHIND = map(np.uint64, (3, 1, 2))
# Of SplitMix64: https://prng.di.unimi.it/splitmix64.c
_FOLD = np.uint64(0xBF58476D1CE4E5B9)
# What a symbol says, "C++", "-5", "★★"; not what only separates parts. To a private character a
# page's own font gives its looks: a tick, or the digit of a price.
SIGNS = regex.compile(
    r"(?![|~`^\u00a8\u00b4])[\p{S}\p{Co}%&*@#\\\u00a7\u2020\u2021\u2030\u2032]"
    r"|(?<!\w)[-\u2212](?=\d)"
)
# In texts also "1/2" and "1.2", 5' and 5", "AA-"; and between which words signs stand.
_PIECES = regex.compile(
    rf"\w+|{SIGNS.pattern}|(?<=\d)(?:[.,:/\u2013-](?=\d)|[\"'\u2019\u201d])|(?<=\w)-(?![\w-])"
)
_SIGNS_OF_NAMES = regex.compile(rf"!|{SIGNS.pattern}")
_WORDS_TO_SPACES = re.compile(r"\w+")
_DIGITS = re.compile(r"\d+")
# What stands for any number in a slot.
ANY_NUMBER = "#"
_NO_WORDS = re.compile(r"[\W_]+")
# Longer lines are not remembered.
_SHORT_LINE = 200
# Of a page that writes out its address so many words are left without it.
_LEAST_BESIDE_ADDRESS = 8
# Of some 170 kB for 1,000 words, the candidates of two pages: 128 took 25 MB more, and as long.
_TEXTS_REMEMBERED = 16
# So many pairs of equal blocks are aligned at most: some 10 ms.
_MOST_ALIGNED = 20_000
# And so many blocks are looked through, for each run of changed ones: some 100 ms.
_MOST_SOUGHT = 1_000_000


class Block(NamedTuple):
    """A block of a page: its tag, and its words from one to before another."""

    tag: str
    start: int
    end: int


class Words:
    """The words of a page, to be compared with others of this process.

    Args:
        tokens: its n words in order.
        lines: of each the number of its line, ascending, shape (n,).
        main: which of them are its main text, shape (n,).
        wording: of which they were read.

    Attributes:
        tokens, main, wording: as given.
        hashes: of the words, shape (n,).
        numbers: which of them have a digit.
        starts, sizes: of the blocks with words: where they begin, and their numbers of words.
        block_of: of each word the place of its block in `blocks`; shape (n,).
    """

    def __init__(
        self,
        tokens: list[str],
        lines: NDArray[np.int32],
        main: Marks,
        wording: Wording,
    ) -> None:
        self.tokens, self.main, self.wording = tokens, main, wording
        self._lines = lines
        # Python's own hash is keyed for each process, so that nobody can make two words of one
        # hash, and takes a tenth of the time of XXH3, whose every call makes objects.
        self.hashes = np.fromiter(map(hash, tokens), np.int64, len(tokens)).view(np.uint64)
        # Most words are letters only, and need no look at each letter: a sixth of reading's time.
        self.numbers = ~np.fromiter(map(str.isalpha, tokens), np.bool_, len(tokens))
        for place in np.flatnonzero(self.numbers).tolist():
            self.numbers[place] = bool(_DIGITS.search(tokens[place]))
        self.starts = np.flatnonzero(np.diff(lines, prepend=-1))
        self.sizes = np.diff(self.starts, append=len(tokens))
        self.block_of = np.repeat(np.arange(len(self.sizes)), self.sizes)

    def without(self, marked: Marks) -> Words:
        """Return the page without some words."""
        kept = ~marked
        tokens = [*compress(self.tokens, kept.tolist())]
        return Words(tokens, self._lines[kept], self.main[kept], self.wording)

    def hash_pairs(self, at: slice) -> Hashes:
        """Hash words, each with the last one before it that is no number; of the first ones none.

        So "yes" and "no", which all views may say, are of the same things; and what was cut out of
        one, as a clock, leaves the others.
        """
        hashes, numbers = self.hashes[at], self.numbers[at]
        before = np.maximum.accumulate(np.where(numbers, -1, np.arange(len(hashes))))[:-1]
        return hashes[before[before >= 0]] * _FOLD + hashes[1:][before >= 0]

    @cached_property
    def triples(self) -> tuple[Hashes, Hashes]:
        """Each word with its neighbours, with any number for each, and as they are; shape (n,)."""
        masked, exact = (
            np.concatenate([[_BEFORE], words, [_BEHIND]])
            for words in (np.where(self.numbers, _NUMBER, self.hashes), self.hashes)
        )
        first, second = (
            (each[:-2] * _FOLD + each[1:-1]) * _FOLD + each[2:] for each in (masked, exact)
        )
        return first, second

    @cached_property
    def counted(self) -> Counts:
        """Its triples, masked and as they are."""
        return Counts(*self.triples)

    @cached_property
    def blocks(self) -> list[Block]:
        """The blocks that have words."""
        starts = self.starts.tolist()
        lines = self._lines[self.starts].tolist()
        tags = self.wording.tags.split(" ")
        return [
            Block(tags[line] if line < len(tags) else "", start, end)
            for line, (start, end) in zip(lines, pairwise([*starts, len(self.tokens)]), strict=True)
        ]

    @cached_property
    def shapes(self) -> list[str]:
        """The words, `ANY_NUMBER` for those with a digit."""
        shapes = list(self.tokens)
        for place in np.flatnonzero(self.numbers).tolist():
            shapes[place] = ANY_NUMBER
        return shapes

    @cached_property
    def texts(self) -> list[str]:
        """The words of each block."""
        return [" ".join(self.tokens[start:end]) for _, start, end in self.blocks]

    @cached_property
    def masked(self) -> list[str]:
        """The words of each block with `ANY_NUMBER` for its digits."""
        return [_DIGITS.sub(ANY_NUMBER, text) for text in self.texts]

    @cached_property
    def signs(self) -> dict[tuple[str, str], set[str]]:
        """The signs of each line, by its words, and by the words of the line before as well.

        Lines of signs alone belong to the one before: of ticks in cells that has the label.
        """
        lines: list[tuple[str, list[str]]] = [("", [])]
        for line in self.wording.text.split("\n"):
            read = _read_line if len(line) <= _SHORT_LINE else _read_line.__wrapped__
            words, signs_of_line = read(line)
            if words:
                lines.append((words, []))
            lines[-1][1].append(signs_of_line)
        signs: dict[tuple[str, str], set[str]] = {}
        for (before, _), (words, found) in pairwise([("", []), *lines]):
            shown = "".join(found).strip()
            for key in (("", words), (before, words)):
                signs.setdefault(key, set()).add(shown)
        return signs

    @cached_property
    def letterless(self) -> list[str]:
        """The words of each block, but single letters."""
        return [
            " ".join(word for word in text.split() if len(word) > 1 or word.isdecimal())
            for text in self.texts
        ]

    def show(self, marked: Marks) -> str:
        """Return the first ten marked words, with a bar between runs; "" for none."""
        places = np.flatnonzero(marked)[:10].tolist()
        shown: list[str] = []
        for place, before in zip(places, [-1, *places], strict=False):
            bar = bool(shown) and place != before + 1
            shown += ["|", self.tokens[place]] if bar else [self.tokens[place]]
        return " ".join(shown)


class Page(NamedTuple):
    """A page as it is compared: what is known of it, and its words, noise aside.

    Attributes:
        facts: what is known of it.
        words: without noise.
        names: the words and signs of title and heading, without noise.
    """

    facts: Facts
    words: Words
    names: tuple[Name, Name]

    @classmethod
    def make(cls, facts: Facts, wording: Wording) -> Page:
        """Make a page with all its words but those of its own address, if it writes that out."""
        words = read_words(wording, facts.url)
        return cls(facts, words, (read_name(facts.title), read_name(facts.heading)))


def leave_out_addresses(page: Page, kept: Page) -> tuple[Page, Page]:
    """Leave out of two pages each the address of the other one, if it writes that with its host."""
    return _leave_out_other(page, kept.facts.url), _leave_out_other(kept, page.facts.url)


def _leave_out_other(page: Page, url: str) -> Page:
    address, _, query = url.partition("://")[2].partition("#")[0].partition("?")
    path = address.partition("/")[2].strip("/")
    words = page.words
    if not path or path.lower() not in words.wording.text:
        return page
    first = [*tokenise(normalise(address))]
    longest = [*first, *tokenise(normalise(query))]
    marked = np.zeros(len(words.tokens), np.bool_)
    places = (n for n, word in enumerate(words.tokens) if word in first[:1])
    for n in places:
        for written in (longest, first):
            if words.tokens[n : n + len(written)] == written:
                marked[n : n + len(written)] = True
                break
    return page._replace(words=words.without(marked)) if marked.any() else page


@lru_cache(maxsize=8_192)
def read_name(name: str) -> Name:
    """List the words and signs of a name."""
    normal = normalise(name)
    return (*tokenise(normal), *_SIGNS_OF_NAMES.findall(normal))


@lru_cache(maxsize=4_096)  # of a template, and of two pages that are one, most are the same
def _read_line(line: str) -> tuple[str, str]:
    """Read the words of a line, and its signs, with spaces for words."""
    # Word by word takes three times as long; no page has a NUL.
    signs = _WORDS_TO_SPACES.sub(" ", "\0".join(_PIECES.findall(line))).replace("\0", "")
    return _NO_WORDS.sub(" ", line).strip(), signs


@lru_cache(maxsize=_TEXTS_REMEMBERED)
def read_words(wording: Wording, url: str = "") -> Words:
    """Read the text of a page without its own address, or remember it."""
    tokens, lines = cut_lines(_leave_out(url, wording.text))
    first, end = wording.main
    main = (lines >= first) & (lines < end)
    return Words(tokens, lines, main, wording)


def _leave_out(url: str, text: str) -> str:
    """Leave an address out of a text that writes it out, unless it says little else."""
    # Scrapy's addresses are ASCII.
    host, _, rest = url.lower().partition("://")[2].partition("/")
    path = rest.partition("#")[0].partition("?")[0].strip("/")
    if not path or path not in text:
        return text
    # Without its first slash a path may be what a record says: "2026/11/26", "eur/usd".
    written = rf"(?:(?<!\w){re.escape(host)}|(?<![\w/]))/{re.escape(path)}(?![\w/])"
    left = re.sub(written, " ", text)
    return left if len(tokenise(left)) >= _LEAST_BESIDE_ADDRESS else text


def middle(missing: Marks) -> Marks:
    """Mark the words of which each triple is missing."""
    marked = missing.copy()  # `np.pad` takes ten times as long
    marked[1:] &= missing[:-1]
    marked[:-1] &= missing[1:]
    return marked


class Counts:
    """How often texts have each of their hashes.

    Nearly all are found at two looks, in a tenth of the time of a binary search.
    """

    def __init__(self, *texts: Hashes) -> None:
        ordered, times = np.unique(np.concatenate(texts), return_counts=True)
        size = len(ordered)
        self._padded = np.append(ordered, ~np.uint64(0))
        self.values, self._times = self._padded[:size], np.append(times, 0).astype(np.int32)
        bits = size.bit_length() + 1
        self._shift = np.uint64(64 - bits)
        # By their first bits the place of the first one.
        self._first = np.full(1 << bits, size, np.min_scalar_type(size))
        self._first[(ordered >> self._shift)[::-1]] = np.arange(size)[::-1]

    def count(self, hashes: Hashes) -> NDArray[np.int32]:
        """Count each of n hashes; shape (n,)."""
        places = self._first[hashes >> self._shift]
        places += self._padded[places] < hashes
        (later,) = (self._padded[places] < hashes).nonzero()
        places[later] = self.values.searchsorted(hashes[later])
        return np.where(self._padded[places] == hashes, self._times[places], 0)


class Side(NamedTuple):
    """The words of one of two pages; marks of its n words.

    Attributes:
        words: of the page.
        common: words whose triple both pages have, with any number for each, and is no template.
        alone: words of which no triple is on the other page.
        own: those of them of which no triple is template.
    """

    words: Words
    common: Marks
    alone: Marks
    own: Marks


def compare_words(words: Words, other: Words, template: tuple[Marks, Marks] | None) -> Side:
    """Compare a page with another one; `template` are its triples that are its site's."""
    both, exact = (other.counted.count(each) > 0 for each in words.triples)
    alone = np.where(words.numbers, middle(~exact), middle(~both))
    if template is None:
        return Side(words, both, alone, alone)
    masked_template, exact_template = template
    own = np.where(
        words.numbers,
        middle(~exact & ~exact_template),
        middle(~both & ~masked_template),
    )
    return Side(words, both & ~masked_template, alone, own)


def find_signs(mine: Words, theirs: Words) -> tuple[str, str] | None:
    """Find the words that have other signs on two pages, with the signs, or None."""
    for key, signs in mine.signs.items():
        others = theirs.signs.get(key, signs)
        if (here := signs - others) and (there := others - signs):
            return f"{min(here)} {key[1]}".strip(), f"{min(there)} {key[1]}".strip()
    return None


class Gap(NamedTuple):
    """Words between two blocks that both pages have, on the one and on the other page."""

    here: slice
    there: slice


def find_gaps(mine: Words, theirs: Words) -> list[Gap]:
    """Find where two pages differ in whole blocks, the others being in one order.

    Of what has other blocks, but the same words, nothing is told.
    """
    edges = [[*each.starts.tolist(), len(each.tokens)] for each in (mine, theirs)]
    gaps = (
        Gap(slice(edges[0][i], edges[0][j]), slice(edges[1][k], edges[1][m]))
        for i, j, k, m in align(mine.texts, theirs.texts)
    )
    return [gap for gap in gaps if mine.tokens[gap.here] != theirs.tokens[gap.there]]


def align(first: Sequence[str], second: Sequence[str]) -> list[tuple[int, int, int, int]]:
    """List where two rows of blocks differ; as a whole, if to say more would take long."""
    start = count_same(first, second)
    end = count_same(first[start:][::-1], second[start:][::-1])
    one, other = first[start : len(first) - end], second[start : len(second) - end]
    often, there = Counter(one), Counter(other)
    codes = [("replace", 0, len(one), 0, len(other))] * bool(one or other)
    equal = sum(times * there[text] for text, times in often.items())
    runs = sum(
        (before in others) != (text in others)
        for texts, others in ((one, there), (other, often))
        for before, text in pairwise(texts)
    )
    if equal <= _MOST_ALIGNED and runs * max(len(one), len(other)) <= _MOST_SOUGHT:
        codes = [*SequenceMatcher(None, one, other, autojunk=False).get_opcodes()]
    return [
        (start + i, start + j, start + k, start + m)
        for name, i, j, k, m in codes
        if name != "equal"
    ]


def count_same(mine: Sequence[object], theirs: Sequence[object]) -> int:
    """Count what two rows begin with, both the same."""
    return sum(1 for _ in takewhile(bool, map(eq, mine, theirs)))
