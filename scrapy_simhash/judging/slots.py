"""Slots: where something changes between two answers to one address, and how it is cut out.

A slot is words between the same words, blocks or one block behind the same anchor, or a number in
a name.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from difflib import SequenceMatcher
from itertools import chain, compress, takewhile
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
from xxhash import xxh3_64_intdigest

from scrapy_simhash.judging.rule import PARAGRAPH_WORDS
from scrapy_simhash.judging.words import ANY_NUMBER, Page, align, count_same
from scrapy_simhash.pages.features import normalise, tokenise

if TYPE_CHECKING:
    from collections.abc import (
        Collection,
        Container,
        Iterable,
        Iterator,
        Sequence,
    )

    from scrapy_simhash.judging.words import Block, Marks, Words

    _Anchored: TypeAlias = tuple[Block, str, str]  # as `list_anchors` has it
    _Located: TypeAlias = dict["Slot", list[tuple[int, int]]]  # from one word to before another
    _Row: TypeAlias = tuple[str, str]  # of blocks with one tag: what stands before, and the tag
    _Numbers: TypeAlias = dict[tuple[str, ...], tuple[int, str]]  # by what is around: place, word

# A slot of words: the words before and behind it, digits masked, within its block; two, or before
# it more, until two of them are no numbers: "s, 01 dec 2026 10:15:02".
WORDS, BLOCKS, BLOCK, NAMES = "words", "blocks", "block", "name"
_AROUND, _MOST_BEFORE = 2, 4
_MAIN_HEADING = "h1"
_START, _END, _NUMBER, _NAME = "^", "$", ANY_NUMBER, "<name>"
# Blocks are two answers of one if so many of their words are the same.
_LEAST_ALIKE = 0.5
# Of the blocks of a list that is drawn anew so many have changed, or stand in another order: of
# five entries from nine some three are those of the answer before.
_LEAST_CHANGED = 0.5
# Two answers that share less say nothing of a page: a ban, "sold out".
_LEAST_SHARED = 0.5
# A slot is taken to be so many times as long as it was seen.
_LONGER = 2
# Blocks with fewer words beside their numbers may be a record's: a price, a size.
_FEW_WORDS = 3
# Blocks of so few words are parts of cards: a place, a price.
_WORDS_OF_PART, _MOST_PARTS = 4, 2
_LEAST_OF_LIST, _NEAR = 3, 6
# So many blocks of a list may be those of the answer before by chance.
_MOST_STAYING = 0.1
MOST_SLOTS = 64
_LONGEST_SHOWN = 60
_MOST_CHANGED_BLOCKS = 64
_MOST_PAIRED = 30
# Pairs of words that are compared to learn from two answers: some 10 ms.
_MOST_COMPARED = 200_000
# Longer stretches of words are no slot between words.
_MOST_IN_A_SLOT = 30
# Longer blocks, a product of words, are not aligned: else one takes seconds.
_MOST_ALIGNED = 10_000
# Noise is at most half of a page, or none of it is.
_MOST_NOISE = 0.5
_DIGIT = re.compile(r"\d")
# A longer number beside a counter may be a record's: "Call 4821, 3 are waiting".
_OF_CLOCK = re.compile(r"(?:\d\d?|(?:19|20)\d\d)$")
_CLOCK = re.compile(r"\d\d?( [0-5]\d){1,2}$")
# Of the visitor's own address, as walls show it: "203.0.113.7".
_OF_ADDRESS, _NUMBERS_OF_ADDRESS = re.compile(r"\d{1,3}$"), 3
_LEADING = re.compile(r"\s*[(\[]\d+[)\]]\s*")


class Slot(NamedTuple):
    """Where something may change: its kind, and what stands around it."""

    kind: str
    before: tuple[str, ...] = ()
    behind: tuple[str, ...] = ()


class Change(NamedTuple):
    """What changed between two answers to one address, or stands in two pages.

    Attributes:
        slot: where.
        most: how many words it has at most; 0 for blocks.
        values: before and after.
        weak: it may be a record's, so it must change twice in a row.
        url: where it changed; "" for two pages.
        stays: a block in it stays, which may be a record's: it counts once none did.
        texts: of a single block, digests of what was seen there and in another answer not.
    """

    slot: Slot
    most: int
    values: tuple[str, str] = ("", "")
    weak: bool = False
    url: str = ""
    stays: bool = False
    texts: frozenset[int] = frozenset()

    def __str__(self) -> str:
        """Name it for people."""
        before, after = (
            each if len(each) <= _LONGEST_SHOWN else f"{each[:_LONGEST_SHOWN]}..."
            for each in self.values
        )
        return f"{before!r} / {after!r} at {self.url}"


def _digest(text: str) -> int:
    return xxh3_64_intdigest(text.encode())


def _mask(word: str) -> str:
    return _NUMBER if _DIGIT.search(word) else word


def _find_context(
    tokens: Sequence[str], start: int, end: int
) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """Return the words before and behind a stretch of a block; None if they tell no place."""
    all_before = (_START, _START, *map(_mask, tokens[max(0, start - _MOST_BEFORE) : start]))
    behind = (*map(_mask, tokens[end : end + _AROUND]), _END, _END)[:_AROUND]
    for size in range(_AROUND, min(_MOST_BEFORE, len(all_before)) + 1):
        before = all_before[-size:]
        real = sum(word not in {_START, _END, _NUMBER} for word in before + behind)
        if real >= _AROUND:
            return before, behind
    before = all_before[-_AROUND:]
    # "Views: 53"; or "53 views, 6 replies", where the rest of the block may stay.
    counts = before == (_START, _START) and behind[1] == _NUMBER
    label = real == 1 and (counts or (_START in before and behind == (_END, _END)))
    return (before, behind) if label else None


def list_anchors(page: Page) -> list[_Anchored]:
    """List the blocks, each with the text of the one before, "" for none, and its own; masked."""
    words, (title, heading) = page.words, map(" ".join, page.names)
    anchored: list[_Anchored] = []
    before = ""
    for block, text, masked in zip(words.blocks, words.texts, words.masked, strict=True):
        # Another heading than the main one may be of a box: "Latest comments".
        is_name = text == heading and (block.tag == _MAIN_HEADING or text in title)
        own = _NAME if text and (is_name or text == title) else masked
        anchored.append((block, before, own))
        before = own
    return anchored


def _list_runs(mine: Sequence[str], theirs: Sequence[str]) -> list[tuple[int, int, int, int]]:
    """List what differs between two blocks, each with the rest of a date or clock beside it.

    Two with fewer words between them than tell a slot are one: "by Ann and 7 guests".
    """
    runs: list[tuple[int, int, int, int]] = []
    for start, end, first, last in align(mine, theirs):
        before = _count_beside(mine[:start][::-1], theirs[:first][::-1])
        behind = _count_beside(mine[end:], theirs[last:])
        begins = start - before, first - before
        if runs and begins[0] - runs[-1][1] < _AROUND:
            begins = runs.pop()[::2]
        runs.append((begins[0], end + behind, begins[1], last + behind))
    return runs


def _count_beside(mine: Sequence[str], theirs: Sequence[str]) -> int:
    """Count the numbers that two texts begin with, both the same, and that are of what changes."""
    same = mine[: count_same(mine, theirs)]
    address, clock = (len([*takewhile(kind.match, same)]) for kind in (_OF_ADDRESS, _OF_CLOCK))
    return address if address >= _NUMBERS_OF_ADDRESS else clock


def learn(first: Page, second: Page) -> list[Change]:
    """Learn from two answers to one address where it changes, the narrowest slots first.

    Of two pages: where they differ. Nothing if they share less than half of their words. Takes time
    that grows with the words, of 27,000 of them .2 s.
    """
    if not share_enough(first.words, second.words):
        return []
    lists = list(_learn_blocks(first, second))
    rest = Slots(lists)
    changes = list(_learn_names(first, second))
    changes += _learn_words(rest.clean(first), rest.clean(second))
    changes += lists
    changes = [*changes, *_learn_blocks(first, second, Slots(changes))][:MOST_SLOTS]
    # What stays the same at another place with these words around it is no slot.
    same = {each.slot for each, is_same in compare_values(changes, first, second) if is_same}
    return [each for each in changes if each.slot not in same]


def may_be_doubted(mine: Words, theirs: Words) -> bool:
    """Whether so few blocks of two pages differ that noise may be all that parts them.

    Of 1,125 pairs of the living sites 402 were doubted, of which 11 blocks differ at most. To learn
    from two pages of 27,000 words in which some 100 differ takes .2 s.
    """
    here, there = set(mine.texts), set(theirs.texts)
    return max(len(here - there), len(there - here)) <= _MOST_CHANGED_BLOCKS


def share_enough(mine: Words, theirs: Words) -> bool:
    """Whether two answers are of one page: half of their words, numbers aside, are the same."""
    one, other = Counter(mine.shapes), Counter(theirs.shapes)
    both = sum((one & other).values())
    return both >= _LEAST_SHARED * max(len(mine.tokens), len(theirs.tokens))


def _learn_names(first: Page, second: Page) -> Iterator[Change]:
    """Learn where numbers in title and heading change, if nothing else does."""
    both = zip(_list_numbers(first), _list_numbers(second), strict=True)
    for (rest, one), (other_rest, other) in both:
        for place in dict.fromkeys((*one, *other)) if rest == other_rest else ():
            values = one.get(place, (0, ""))[1], other.get(place, (0, ""))[1]
            if values[0] != values[1]:
                yield Change(Slot(NAMES, place), 1, values, weak=place != (_START,))


def _list_numbers(page: Page) -> list[tuple[Sequence[str], _Numbers]]:
    """List the numbers of title and heading by what stands around them, behind all other words.

    That is a number in brackets before the name, one behind its last word, or one before two
    words: "(7) Tea - Board", "Tea - Board (7)", "Tea - 7 new messages".
    """
    found: list[tuple[Sequence[str], _Numbers]] = []
    for shown in (page.facts.title, page.facts.heading):
        words = tokenise(normalise(shown))
        numbers: _Numbers = {}
        for n, word in enumerate(words):
            if not word.isdecimal():
                continue
            place: tuple[str, ...] = (*map(_mask, words[n + 1 : n + 3]), _END)[:2]
            if n == 0:
                place = (_START,) if _LEADING.match(shown) else ()
            elif n + 1 == len(words):
                place = (_mask(words[n - 1]), _END)
            numbers[place] = n, word
        numbers.pop((), None)
        places = {n for n, _ in numbers.values()}
        found.append(([word for n, word in enumerate(words) if n not in places], numbers))
    return found


def _list_changed(words: Words, other: Words) -> list[tuple[str, list[str], list[str]]]:
    """List tags, words and shapes of blocks that another page has not."""
    there = set(other.texts)
    return [
        (block.tag, words.tokens[block.start : block.end], words.shapes[block.start : block.end])
        for block, text in zip(words.blocks, words.texts, strict=True)
        if text not in there
    ][:_MOST_CHANGED_BLOCKS]


def _compare(mine: list[str], theirs: list[str], least: float) -> float:
    """Return how alike two blocks are, 0 to 1; 0 if that is not more than `least`."""
    if len(mine) > _AROUND and mine[:_AROUND] == theirs[:_AROUND]:  # a label
        return 1.0
    length = len(mine) + len(theirs)
    if 2.0 * min(len(theirs), sum(map(set(theirs).__contains__, mine))) / length <= least:
        return 0.0
    if len(mine) * len(theirs) > _MOST_ALIGNED:
        return 2 * sum((Counter(mine) & Counter(theirs)).values()) / length
    return SequenceMatcher(None, mine, theirs, autojunk=False).ratio()


def _learn_words(first: Page, second: Page) -> Iterator[Change]:
    """Learn which words change between the same words, in blocks that are alike."""
    budget = _MOST_COMPARED
    pool: defaultdict[str, list[tuple[list[str], list[str]]]] = defaultdict(list)
    for tag, tokens, shapes in _list_changed(second.words, first.words):
        pool[tag].append((tokens, shapes))
    for tag, tokens, shapes in _list_changed(first.words, second.words):
        best: list[str] | None = None
        score = _LEAST_ALIKE
        for other, masked in pool[tag][:_MOST_PAIRED]:
            budget -= len(tokens) * len(other)
            if budget < 0:
                return
            # Those that differ in numbers only are equal.
            ratio = 1.0 if shapes == masked else _compare(tokens, other, score)
            if ratio > score:
                best, score = other, ratio
        if best is None:
            continue
        for start, end, begin, stop in _list_runs(tokens, best):
            around = _find_context(tokens, start, end)
            if around and max(end - start, stop - begin) <= _MOST_IN_A_SLOT:
                values = tokens[start:end], best[begin:stop]
                numbers = all(word.isdecimal() for value in values for word in value)
                weak = numbers and sum(not _DIGIT.search(word) for word in tokens) < _FEW_WORDS
                shown = " ".join(tokens), " ".join(best)
                yield Change(Slot(WORDS, *around), max(map(len, values)), shown, weak)


def _learn_blocks(first: Page, second: Page, cleaned: Slots | None = None) -> Iterator[Change]:
    """Learn behind which blocks other blocks change; or with None only where lists do."""
    mine, theirs = (_list_left(page, cleaned or NO_SLOTS) for page in (first, second))
    here, there = list_anchors(first), list_anchors(second)
    rows, others = _index_rows(here, mine), _index_rows(there, theirs)
    anew = {key for key, row in rows.items() if _are_drawn_anew(row, others.get(key, ()))}
    gaps = align(mine, theirs)
    counts = [Counter(page.words.texts) for page in (first, second)]
    shapes = Counter(first.words.masked)
    if cleaned is None:
        # Between two changed ones may be parts of one list.
        nexts = [*(start for start, *_ in gaps[1:]), len(mine) + _NEAR]
        gaps = [
            gap if after - gap[1] < _NEAR else _trim(first.words, second.words, *gap)
            for gap, after in zip(gaps, nexts, strict=False)
        ]
    found: defaultdict[Slot, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    sides = (here, mine, rows), (there, theirs, others)
    for n, (anchored, left, indexed) in enumerate(sides):
        changed = [False] * len(left)
        for gap in gaps:
            start, end = gap[2 * n : 2 * n + 2]
            changed[start:end] = map(bool, left[start:end])
        told = {key for key, row in indexed.items() if row}
        regions = _list_regions(anchored, changed, told, anew, closes=cleaned is None)
        for slot, start, end in regions:
            found[slot][n].extend(range(start, end))
    for slot, places in found.items():
        if cleaned is None and not all(places):
            # A part of its last card may be that of another one, and seem to be behind the list.
            n = 0 if places[1] else 1
            page = (first, second)[n]
            at = Slots([Change(slot, 0)]).locate(page).get(slot, [])
            places[n].extend(_find_blocks(page.words, at))
        # What only one answer has may be a wall in the place of the page's own text; and what is
        # said in another order is no less what a page says.
        if all(places) and sorted(mine[n] for n in places[0]) != sorted(
            theirs[n] for n in places[1]
        ):
            texts = [
                [page.words.texts[n] for n in each]
                for page, each in zip((first, second), places, strict=True)
            ]
            words = [" ".join(each).split() for each in texts]
            # Nor is what the words of a block say in another order: "Ann against Bob".
            if sorted(words[0]) == sorted(words[1]) or (
                cleaned is None and not _are_others(*texts)
            ):
                continue
            shown = " ".join(words[0][:12]), " ".join(words[1][:12])
            weak = any(sum(not _DIGIT.search(word) for word in each) < _FEW_WORDS for each in words)
            stays = _does_stay(texts, counts)
            # Behind a part of a card, the cards before stay: "19 euros".
            tag = first.words.blocks[places[0][0] - 1].tag if places[0][0] else ""
            stays |= tag in slot.behind and shapes[slot.before[0]] > 1
            seen = frozenset[int]()
            if not slot.before[1:] and all(len(each) == 1 for each in places):
                slot = slot._replace(kind=BLOCK)  # noqa: PLW2901
                seen = frozenset(_digest(each[0]) for each in texts)
            yield Change(slot, 0, shown, weak or stays, stays=stays, texts=seen)


def _does_stay(texts: Sequence[Sequence[str]], counts: Sequence[Counter[str]]) -> bool:
    """Whether blocks of a slot stay that each page has once, more than few parts of cards.

    Or a number within a single block that is not beside what changed: "53 views, 27 rooms".
    """
    if max(map(len, texts)) == 1:
        return any(map(_DIGIT.search, _list_left_words(texts)))
    both = {*texts[0]}.intersection(*texts[1:])
    stay = [block for block in both if all(times[block] == 1 for times in counts)]
    few = len(stay) <= _MOST_STAYING * min(map(len, texts))
    return any(len(block.split()) > _WORDS_OF_PART for block in stay) or not few


def _is_clock(page: Page, texts: Sequence[str]) -> bool:
    """Whether a block is a clock and nothing else, "10:15:02"; but no "19:30 | 53"."""
    text = " ".join(texts)
    signs = {each.replace(" ", "") for each in page.words.signs.get(("", text), ())}
    return bool(_CLOCK.match(text)) and signs == {":" * text.count(" ")}


def _list_left_words(texts: Sequence[Sequence[str]], *, is_clock: bool = True) -> list[str]:
    """List the words of a block that others have, too; of a clock that changed none."""
    mine, *others = (" ".join(each).split() for each in texts)
    find = _list_runs if is_clock else align
    runs = chain.from_iterable(find(mine, theirs) for theirs in others)
    left = set(range(len(mine))).difference(*(range(start, end) for start, end, *_ in runs))
    return [mine[n] for n in sorted(left)]


def _are_others(mine: Sequence[str], theirs: Sequence[str]) -> bool:
    """Whether blocks are those of a list: three at least, at most half of them like before."""
    pairs = zip(mine, theirs, strict=False)
    shapes = ([[*map(_mask, block.split())] for block in pair] for pair in pairs)
    alike = (one == other or _compare(one, other, _LEAST_ALIKE) > 0 for one, other in shapes)
    few = min(len(mine), len(theirs))
    return few >= _LEAST_OF_LIST and sum(alike) <= _LEAST_CHANGED * few


def _trim(
    first: Words, second: Words, start: int, end: int, other_start: int, other_end: int
) -> tuple[int, int, int, int]:
    """Leave out the last changed blocks, if they are alike and have a tag of their own."""
    while start < end and other_start < other_end:
        tag, n, m = first.blocks[end - 1].tag, end, other_end
        least = max(start, end - _MOST_CHANGED_BLOCKS)  # some 1 ms each
        while n > least and m > other_start and first.blocks[n - 1].tag == tag:
            n, m = n - 1, m - 1
            alike = _compare(first.masked[n].split(), second.masked[m].split(), _LEAST_ALIKE)
            if second.blocks[m].tag != tag or not alike:
                return start, end, other_start, other_end
        if tag in {block.tag for block in first.blocks[start:n]}:
            break
        end, other_end = n, m
    return start, end, other_start, other_end


def _list_left(page: Page, cleaned: Slots) -> list[str]:
    """List the words of each block without what stands in slots."""
    marked, texts = _mark(page, cleaned.locate(page)), page.words.texts
    if not marked.any():
        return texts
    kept = (~marked).tolist()
    return [
        " ".join(compress(page.words.tokens[start:end], kept[start:end]))
        for _, start, end in page.words.blocks
    ]


def _list_rows(blocks: Sequence[_Anchored]) -> Iterator[tuple[_Row, int, int]]:
    """List the blocks in a row with one tag: what stands before them and the tag, and where."""
    start = 0
    for end in range(1, len(blocks) + 1):
        if end == len(blocks) or blocks[end][0].tag != blocks[start][0].tag:
            yield (blocks[start][1], blocks[start][0].tag), start, end
            start = end


def _index_rows(anchored: Sequence[_Anchored], texts: Sequence[str]) -> dict[_Row, Sequence[str]]:
    """Index the texts of rows; none of those that nothing tells apart, nor of main headings."""
    found: dict[_Row, Sequence[str]] = {}
    for key, start, end in _list_rows(anchored):
        found[key] = () if key in found or key[1] == _MAIN_HEADING else texts[start:end]
    return found


def _are_drawn_anew(mine: Sequence[str], theirs: Sequence[str]) -> bool:
    """Whether less than half of two lists stands in one order."""
    size = max(len(mine), len(theirs))
    if not theirs or mine == theirs or size * size > _MOST_ALIGNED:
        return False
    matcher = SequenceMatcher(None, mine, theirs, autojunk=False)
    return sum(each.size for each in matcher.get_matching_blocks()) < _LEAST_CHANGED * size


def _list_regions(
    anchored: Sequence[_Anchored],
    changed: list[bool],
    told: set[_Row],
    anew: set[_Row],
    *,
    closes: bool,
) -> Iterator[tuple[Slot, int, int]]:
    """List the slots of blocks in a row that another answer has not, but headings, and where.

    Where a block with one of their tags follows, they end before it alone, if they are of a list
    (`closes`): what changes may be missing on another page, and what that says in its place would
    be taken for it.
    """
    blocks = [block for block, *_ in anchored]
    for n, block in enumerate(blocks):
        changed[n] &= block.tag != _MAIN_HEADING
    # Of a list that draws anew some entries may stay, and change places; but no paragraphs.
    for key, start, end in _list_rows(anchored):
        staying = [block for n, block in enumerate(blocks[start:end], start) if not changed[n]]
        is_anew = key in anew or len(staying) <= (1 - _LEAST_CHANGED) * (end - start)
        # One block before another one is an advertisement before a paragraph.
        several = end - start - len(staying) > 1
        longest = PARAGRAPH_WORDS if several else _WORDS_OF_PART
        if is_anew and all(block.end - block.start < longest for block in staying):
            # What stays in front of what changes is the anchor.
            stay = [*changed[start:end], True].index(True) if key in told - anew else 0
            changed[start + stay : end] = [True] * (end - start - stay)
    runs: list[tuple[int, int]] = []
    edges = np.flatnonzero(np.diff(changed, prepend=False, append=False)).tolist()
    for start, end in zip(edges[::2], edges[1::2], strict=True):
        first, last = runs[-1] if runs else (0, 0)
        if last and _are_of_list(blocks[first:last], blocks[last:start], blocks[start:end]):
            runs[-1] = first, end
        else:
            runs.append((start, end))
    for start, end in runs:
        tags = {block.tag for block in blocks[start:end]}
        closing: tuple[str, ...] = ()
        if end < len(blocks) and blocks[end].tag in tags:
            if closes and len(tags) > 1:
                closing = (anchored[end][2],)
            elif not closes and end - start == 1:
                yield Slot(BLOCK, (anchored[start][1],), (*tags,)), start, end
                continue
            else:
                continue
        yield Slot(BLOCKS, (anchored[start][1], *closing), tuple(sorted(tags))), start, end


def _are_of_list(before: list[Block], parts: list[Block], behind: list[Block]) -> bool:
    """Whether what has not changed between two rows that have is of one list with them.

    Parts of a card may be those of another one, a place or a price; and a card may be there again.
    """
    changed, sizes = [*before, *behind], [block.end - block.start for block in parts]
    tags = {block.tag for block in parts}
    if tags - {block.tag for block in changed} or max(sizes) >= PARAGRAPH_WORDS:
        return False
    if len(parts) <= _MOST_PARTS and max(sizes) <= _WORDS_OF_PART:
        return True
    return len(tags) > 1 and len(parts) < len(changed)


def _find_end(slot: Slot, blocks: Sequence[_Anchored], start: int) -> tuple[int, bool]:
    """Find where the blocks that begin at a place end, and whether they are those of a slot."""
    end, closes = start, slot.before[1:]
    while end < len(blocks) and blocks[end][2] not in closes and blocks[end][0].tag in slot.behind:
        end += 1
    closed = not closes or (end < len(blocks) and blocks[end][2] in closes)
    return end, end > start and closed


class Slots:
    """Slots to be cut out of pages."""

    def __init__(self, changes: Iterable[Change] = ()) -> None:
        # By what stands before them: the slots, and how long they are at most.
        self._words: defaultdict[tuple[str, ...], list[tuple[Slot, int]]] = defaultdict(list)
        self._blocks: defaultdict[str, set[Slot]] = defaultdict(set)
        self._names: set[tuple[str, ...]] = set()
        self._texts: defaultdict[Slot, list[Collection[int]]] = defaultdict(list)
        for slot, most, *_, texts in changes:
            if slot.kind == WORDS:
                self._words[slot.before[-_AROUND:]].append((slot, most))
            elif slot.kind in {BLOCKS, BLOCK}:
                self._blocks[slot.before[0]].add(slot)
                self._texts[slot].append(texts)
            else:
                self._names.add(slot.before)
        self._lasts = {before[-1] for before in self._words}

    def __bool__(self) -> bool:
        return bool(self._words or self._blocks or self._names)

    def locate(self, page: Page, given: Container[Slot] = ()) -> _Located:
        """Find where each slot stands on a page: from one word to before another.

        A single block before others with its tag is there if it was seen to change, or the slot is
        `given`: where an advertisement is missing, a record's first paragraph stands in its place.
        """
        found: _Located = defaultdict(list)
        blocks = list_anchors(page) if self._words or self._blocks else []
        ends = Counter[Slot]()
        for place, (block, anchor, _) in enumerate(blocks):
            for slot in self._blocks.get(anchor, ()):
                if place >= ends[slot]:  # else it goes on, or what ends it is missing
                    ends[slot], is_there = _find_end(slot, blocks, place)
                    end = ends[slot]
                    if slot.kind == BLOCK and end > place + 1:
                        end = place + 1
                        text, seen = _digest(page.words.texts[place]), self._texts[slot]
                        is_there = slot in given or any(text in each for each in seen)
                    if is_there:
                        found[slot].append((block.start, blocks[end - 1][0].end))
            for slot, start, end in self._find_words(page.words.shapes[block.start : block.end]):
                found[slot].append((block.start + start, block.start + end))
        for _, numbers in _list_numbers(page) if self._names else ():
            found |= {Slot(NAMES, place): [] for place in numbers.keys() & self._names}
        return found

    def _find_words(self, shapes: list[str]) -> Iterator[tuple[Slot, int, int]]:
        """Find the slots of words in a block, whose numbers are masked."""
        if not self._words:
            return
        masked = [_START, _START, *shapes, _END, _END]
        found = (n for n, word in enumerate(shapes, 1) if word in self._lasts)
        for start in (0, *found) if _START in self._lasts else found:
            # `masked` is two words ahead.
            for slot, most in self._words.get((masked[start], masked[start + 1]), ()):
                at = max(0, start + _AROUND - len(slot.before))
                if (*masked[at : start + _AROUND],) != slot.before:
                    continue
                for end in range(start, min(len(shapes), start + _LONGER * max(most, 1)) + 1):
                    goes_on = start < end < len(shapes) and masked[end + 2] == _NUMBER
                    if (masked[end + 2], masked[end + 3]) == slot.behind and not goes_on:
                        yield slot, start, end
                        break

    def clean(self, page: Page) -> Page:
        """Return a page without what stands in slots."""
        return self._cut(page, self.locate(page)) if self else page

    def clean_both(self, page: Page, kept: Page) -> tuple[Page, Page]:
        """Clean two pages; a block of the kept one, whatever it says, as that of the other one.

        But one that was seen to change stays where what the page says in its place was not; and
        what both say stays in both, as what follows where an advertisement is missing.
        """
        if not self:
            return page, kept
        here = self.locate(page)
        there = self.locate(kept, here)
        said = set(page.words.texts)
        for slot in [each for each in there if each.kind == BLOCK]:
            blocks = _find_blocks(kept.words, there[slot])
            if slot not in here or not said.isdisjoint(kept.words.texts[n] for n in blocks):
                del there[slot]
        return self._cut(page, here), self._cut(kept, there)

    def _cut(self, page: Page, located: _Located) -> Page:
        marked = _mark(page, located)
        words = page.words.without(marked) if marked.any() else page.words
        names = [*page.names]
        for n, (_, numbers) in enumerate(_list_numbers(page) if self._names else ()):
            here = (numbers[place] for place in numbers.keys() & self._names)
            for at, word in sorted(here, reverse=True):
                if names[n][at : at + 1] == (word,):  # else it is out already
                    names[n] = (*names[n][:at], *names[n][at + 1 :])
        return Page(page.facts, words, (names[0], names[1]))


def _mark(page: Page, located: _Located) -> Marks:
    """Mark the words of a page in slots, without the longest if they are more than half."""
    marked = np.zeros(len(page.words.tokens), np.bool_)
    for places in sorted(
        located.values(), key=lambda each: sum(end - start for start, end in each)
    ):
        before = marked.copy()
        for start, end in places:
            marked[start:end] = True
        if marked.sum() > _MOST_NOISE * len(marked):
            return before
    return marked


NO_SLOTS = Slots()


def show_standing(changes: Collection[Change], page: Page, kept: Page) -> Iterator[Change]:
    """List the changes that stand on one of two pages, as they do there, the longest first."""
    slots, shown = Slots(changes), list[Change]()
    here, there = slots.locate(page), slots.locate(kept)
    for change in changes:
        if change.slot in here or change.slot in there:
            mine, theirs = (
                " ".join(words.texts[n] for n in _find_blocks(words, places.get(change.slot, [])))
                for words, places in ((page.words, here), (kept.words, there))
            )
            shown.append(change._replace(values=(mine, theirs)) if mine or theirs else change)
    yield from sorted(shown, key=lambda change: -max(map(len, change.values)))


def _find_blocks(words: Words, places: Iterable[tuple[int, int]]) -> list[int]:
    """Find the numbers of the blocks in which something stands."""
    return sorted({n for start, end in places for n in words.block_of[start:end].tolist()})


def list_single(changes: Collection[Change], page: Page) -> Iterator[tuple[Slot, int, int]]:
    """List the slots of single blocks on a page, with digests of the text there and behind it."""
    located = Slots(changes).locate(page, {change.slot for change in changes})
    texts = [*page.words.texts, ""]
    for slot, places in located.items():
        for n in _find_blocks(page.words, places):
            yield slot, _digest(texts[n]), _digest(texts[n + 1])


def compare_values(
    changes: Collection[Change], first: Page, second: Page, *, both_lack: bool = False
) -> Iterator[tuple[Change, bool]]:
    """List the slots that both of two answers have, each with whether it is the same anywhere.

    Those in which neither says a word only if `both_lack`: they are the same.
    """
    slots = Slots(changes)
    mine, theirs = (
        {
            slot: {tuple(page.words.tokens[start:end]) for start, end in places}
            for slot, places in slots.locate(page, {change.slot for change in changes}).items()
        }
        for page in (first, second)
    )
    for change in changes:
        if change.slot.kind == NAMES and (change.slot in mine or change.slot in theirs):
            numbers = [
                [there.get(change.slot.before, (0, ""))[1] for _, there in _list_numbers(page)]
                for page in (first, second)
            ]
            yield change, numbers[0] == numbers[1]
        elif change.slot in mine and change.slot in theirs:
            here, there = mine[change.slot], theirs[change.slot]
            # What may be missing has changed where one answer alone lacks it.
            if any(here | there) or both_lack:
                yield change, any(here & there) or not any(here | there)


def list_staying(changes: Collection[Change], *pages: Page, parts: bool) -> Iterator[Slot]:
    """List the slots of blocks of which half stay in all answers, or `parts` that may be own."""
    slots, kept = Slots(changes), {change.slot: change.values[1] for change in changes}
    found = [slots.locate(page) for page in pages]
    counts = [Counter(page.words.texts) for page in pages]
    for slot in set(found[0]).intersection(*found[1:]):
        if slot.kind in {BLOCK, BLOCKS}:
            texts = [
                [page.words.texts[n] for n in _find_blocks(page.words, places[slot])]
                for page, places in zip(pages, found, strict=True)
            ]
            sizes = [sum(len(text.split()) for text in each) for each in texts]
            if max(map(len, texts)) == 1:
                # Of one block words may stay that the other page lacks: "The red house: 53 saw it".
                others = kept[slot].split() if slot.kind == BLOCK else ()
                # A date beside a count is the page's own: "5.12.2026 | 513 saw it".
                is_clock = all(map(_is_clock, pages, texts))
                left = _list_left_words(texts, is_clock=is_clock)
                same = sum(word not in others for word in left)
            else:
                both = Counter(texts[0])
                for each in texts[1:]:
                    both &= Counter(each)
                same = sum(len(text.split()) for text in both.elements())
            if same >= _LEAST_SHARED * max(sizes) or (parts and _does_stay(texts, counts)):
                yield slot
