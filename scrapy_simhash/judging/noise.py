"""Noise: what changes by itself on a host, and where it was seen to.

What changed on two pages of a folder is noise on all pages of that folder; what changed in two
folders, on all of the host. An answer in which it stays the same refutes it for the folder, for
good.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from itertools import chain
from math import inf
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from scrapy_simhash.judging.slots import (
    BLOCK,
    BLOCKS,
    MOST_SLOTS,
    NO_SLOTS,
    Change,
    Slot,
    Slots,
    compare_values,
    list_single,
    list_staying,
    share_enough,
)
from scrapy_simhash.pages.addresses import parse_address

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence

    from scrapy_simhash.judging.words import Page
    from scrapy_simhash.pages.facts import Facts

_PAGES = 2
# Of a single block, of 8 bytes.
_MOST_TEXTS = 256
# What changes within so short a time does so at every fetch, or nearly.
_AT_EVERY_FETCH_SECONDS = 60.0
_MOST_REFUTED, _MOST_VIEWS = 1_000, 64  # views of 8 kB for a slot
_DIGITS = re.compile(r"\d+")


def folder_of(url: str) -> str:
    """Return the folder of an address: its path without the last name, digits masked."""
    address = parse_address(url)
    return _DIGITS.sub("0", "/".join(address.path[:-1])) if address else ""


class Seen(NamedTuple):
    """What was seen of a slot in a folder.

    Attributes:
        pages: addresses at which it changed, two at most.
        change: the first one.
        seconds: the shortest time in which it changed.
        moves: it changed twice in a row, so it is no price that moved once.
    """

    pages: frozenset[str]
    change: Change
    seconds: float
    moves: bool = False

    def join(self, other: Seen) -> Seen:
        """Return what both have seen."""
        return self._replace(
            pages=frozenset([*self.pages, *other.pages - self.pages][:_PAGES]),
            change=self.change._replace(
                most=max(self.change.most, other.change.most),
                weak=self.change.weak and other.change.weak,
                texts=frozenset([*(self.change.texts | other.change.texts)][:_MOST_TEXTS]),
            ),
            seconds=min(self.seconds, other.seconds),
            moves=self.moves or other.moves,
        )


class Measured(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """What was seen to change on a host, as a store has it.

    Attributes:
        seen: in which folders, 64 at most.
        refuted: folders and slots that stayed the same.
    """

    seen: list[tuple[str, Seen]] = []
    refuted: list[tuple[str, Slot]] = []


def join(one: Measured, other: Measured) -> Measured:
    """Return what two crawls have seen; of too much the first."""
    seen = {(folder, each.change.slot): each for folder, each in one.seen}
    for folder, each in other.seen:
        before = seen.get((folder, each.change.slot))
        if before is not None or len(seen) < MOST_SLOTS:
            seen[folder, each.change.slot] = before.join(each) if before else each
    refuted = sorted({*one.refuted, *other.refuted})[:_MOST_REFUTED]
    return Measured([(folder, each) for (folder, _), each in seen.items()], refuted)


class Noise:
    """What was seen to change on a host in a crawl."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, Slot], Seen] = {}
        self._stays = Counter[Slot]()  # for a moment, where they change; less how often not
        self._refuted: set[tuple[str, Slot]] = set()
        # What earlier crawls saw counts once this one has seen it, too.
        self._earlier: dict[tuple[str, Slot], Seen] = {}
        self._tested: defaultdict[Slot, Counter[str]] = defaultdict(Counter)  # by folder
        self._own: dict[str, tuple[Change, ...]] = {}
        self._slots: dict[Hashable, Slots] = {}
        # What the first pages are called on which texts of single blocks were seen, and the slots
        # of which one changed on two: others may show texts of their own page, as reviews.
        self._called: dict[tuple[Slot, int], tuple[str, str]] = {}
        self._shared: set[Slot] = set()
        # What stands behind an advertisement is a page's own, which several may say: a date.
        self._behind: set[tuple[Slot, int]] = set()
        self.version, self.is_recalled = 0, False

    def may_move(self, changes: Iterable[Change]) -> bool:
        """Whether one of these is not known to change more than once."""
        moving = self._list_moving()
        return any(each.slot not in moving for each in changes)

    def _list_moving(self) -> set[Slot]:
        return {slot for (_, slot), seen in self._seen.items() if seen.moves}

    def list_fast(self) -> set[Slot]:
        """List what changes within a moment, or was never tested."""
        return {slot for _, slot in self._seen if self._stays[slot] <= 0}

    def note_moment(self, changes: Collection[Change], first: Page, second: Page) -> bool:
        """Note which slots stay in two answers that came at once; return whether one does."""
        found = list(compare_values(changes, first, second))
        for change, is_same in found:
            self._stays[change.slot] += 1 if is_same else -1
        return any(is_same for _, is_same in found)

    def list_own(self, url: str) -> tuple[Change, ...]:
        """List what was seen to change at an address itself."""
        own, folder = self._own.get(url, ()), folder_of(url)
        return tuple(self._show(each) for each in own if (folder, each.slot) not in self._refuted)

    def _show(self, change: Change) -> Change:
        """Return a change without texts that may be those of its page."""
        shared = change.texts if change.slot in self._shared else ()
        texts = (text for text in shared if (change.slot, text) not in self._behind)
        return change._replace(texts=frozenset(texts))

    def add(
        self, url: str, changes: Iterable[Change], seconds: float, moving: Collection[Slot] = ()
    ) -> None:
        """Note what changed at an address within some seconds; `moving` did so twice in a row."""
        seconds = 0.0 if seconds <= _AT_EVERY_FETCH_SECONDS else seconds
        folder, changes = folder_of(url), [each._replace(url=url) for each in changes]
        known = self._list_moving().union(moving)
        self._own[url] = tuple(each for each in changes if not each.weak or each.slot in known)
        for change in changes:
            key = self._find_key(folder, change.slot) or (folder, change.slot)
            now = Seen(frozenset((url,)), change, seconds, change.slot in moving)
            before = self._seen.get(key) or self._earlier.get(key)
            if before is None:
                if len(self._seen) >= MOST_SLOTS:
                    once = (key for key, seen in self._seen.items() if len(seen.pages) < _PAGES)
                    self._seen.pop(next(once, key), None)
                if len(self._seen) < MOST_SLOTS:
                    self._seen[key] = now
            elif (
                url in before.pages
                or change.slot.kind not in {BLOCK, BLOCKS}
                # A wall is in the place of what two pages had.
                or change.values[1] != before.change.values[1]
            ):
                self._seen[key] = before.join(now)
        self._touch()

    def _find_key(self, folder: str, slot: Slot) -> tuple[str, Slot] | None:
        """Find where a slot was seen: in a folder, or on all of the host; None if in neither."""
        if (folder, slot) in self._seen:
            return folder, slot
        keys = [key for key in self._seen if key[1] == slot]
        return keys[0] if len(keys) >= _PAGES else None

    def note_texts(self, facts: Facts, changes: Iterable[Change]) -> None:
        """Note what else was seen to change in slots of single blocks of a page."""
        for change in changes:
            for text in change.texts:
                if self._see_twice(facts, change.slot, text):
                    self._shared.add(change.slot)
            self._add_texts(facts.url, change.slot, change.texts)

    def note_page(self, page: Page) -> None:
        """Note what a page has in slots of single blocks: what two pages say is of neither."""
        facts = page.facts
        changes = [each for each in self.list_counting(facts.url, inf) if each.slot.kind == BLOCK]
        for slot, text, behind in list_single(changes, page) if changes else ():
            if (slot, behind) not in self._behind and len(self._behind) < _MOST_TEXTS * MOST_SLOTS:
                self._behind.add((slot, behind))
                self._touch()
            if self._see_twice(facts, slot, text):
                self._add_texts(facts.url, slot, {text})

    def _see_twice(self, page: Facts, slot: Slot, text: int) -> bool:
        """Note a text in a slot; return whether a page of another title and heading had it."""
        if len(self._called) >= _MOST_TEXTS * MOST_SLOTS:
            return False
        title, heading = self._called.setdefault((slot, text), (page.title, page.heading))
        return page.title != title and (page.heading != heading or not heading)

    def _add_texts(self, url: str, slot: Slot, texts: Collection[int]) -> None:
        key = self._find_key(folder_of(url), slot)
        if key and not (seen := self._seen[key]).change.texts.issuperset(texts):
            more = seen._replace(change=seen.change._replace(texts=frozenset(texts)))
            self._seen[key] = seen.join(more)
            self._touch()

    def describe(self) -> Measured:
        """Return what was seen, for the store."""
        seen = [(folder, each) for (folder, _), each in self._seen.items()]
        return Measured(seen, sorted(self._refuted)[:_MOST_REFUTED])

    def recall(self, measured: Measured) -> None:
        """Take in what earlier crawls saw."""
        self.is_recalled = True
        self._refuted.update(measured.refuted)
        self._earlier = {(folder, seen.change.slot): seen for folder, seen in measured.seen}
        self._touch()

    def list_measured(self, url: str) -> list[Change]:
        """List what any crawl saw to change at an address, for a page fetched again."""
        return [each.change for each in self._list_of(self._earlier | self._seen, folder_of(url))]

    def test(self, sought: Collection[Change], first: Page, second: Page) -> None:
        """Note which slots are the same in two answers to one address."""
        folder = folder_of(first.facts.url)
        for change, is_same in compare_values(sought, first, second, both_lack=True):
            if is_same:
                self._tested[change.slot][folder] += 1

    def is_ruled_out(self, url: str, change: Change) -> bool:
        """Whether a slot was refuted, or stayed on two pages or folders, and changed nowhere."""
        folder, tested = folder_of(url), self._tested.get(change.slot, Counter[str]())
        changes = any(slot == change.slot for _, slot in self._seen)
        stays = tested[folder] >= _PAGES or len(tested) >= _PAGES
        return (folder, change.slot) in self._refuted or (stays and not changes)

    @staticmethod
    def check(
        sought: Collection[Change], first: Page, *answers: Page, parts: bool = False
    ) -> tuple[list[Change], list[Change]]:
        """List which slots are the same in the last of some answers, and which have changed.

        Blocks are the same if half of their words are in all, or, with `parts`, any block.

        What one answer lacks has no vote.
        """
        same: list[Change] = []
        changed: list[Change] = []
        if share_enough(first.words, answers[-1].words):
            staying = {*list_staying(sought, first, *answers, parts=parts)}
            for change, is_same in compare_values(sought, first, answers[-1]):
                (same if is_same or change.slot in staying else changed).append(change)
        return same, changed

    def list_counting(self, url: str, seconds: float) -> list[Change]:
        """List what counts as noise at an address, between two answers so far apart."""
        found = self._list_of(self._seen, folder_of(url))
        return [each.change for each in found if each.seconds <= seconds]

    def refute(self, url: str, changes: Iterable[Change]) -> None:
        """Take back that slots change in the folder of an address, for good."""
        folder = folder_of(url)
        if refuted := {(folder, change.slot) for change in changes}:
            self._refuted |= refuted
            self._touch()

    def _touch(self) -> None:
        self.version += 1
        self._slots = {}

    def find_place(self, url: str) -> str:
        """Find where the noise of an address was seen: in its folder only, or on its host."""
        folder = folder_of(url)
        folders = Counter(slot for _, slot in self._seen)
        here = (slot for place, slot in self._seen if place == folder)
        return folder if any(folders[slot] < _PAGES for slot in here) else "*"

    def choose(self, urls: tuple[str, ...], seconds: float, own: tuple[str, ...] = ()) -> Slots:
        """Choose what counts as noise at one of two addresses, between two answers so far apart.

        What was seen to change at the addresses `own` themselves counts, too.
        """
        if not self._seen:
            return NO_SLOTS
        if len(self._slots) > _MOST_VIEWS:
            self._slots = {}
        found = {folder_of(url): self.list_counting(url, seconds) for url in urls}
        own = tuple(url for url in own if url in self._own)
        # Of a folder that many are the first ones.
        key = (*((folder, len(changes)) for folder, changes in found.items()), own)
        if key not in self._slots:
            self._slots[key] = Slots(chain(*found.values(), *map(self.list_own, own)))
        return self._slots[key]

    def _list_of(self, everywhere: Mapping[tuple[str, Slot], Seen], folder: str) -> Sequence[Seen]:
        """List what counts in a folder of what was seen, what changes in the least time first."""
        folders: defaultdict[Slot, list[Seen]] = defaultdict(list)
        for (_, slot), seen in everywhere.items():
            folders[slot].append(seen)
        found = []
        for slot, each in folders.items():
            if (folder, slot) in self._refuted or all(
                seen.change.weak and not seen.moves for seen in each
            ):
                continue
            mine = everywhere.get((folder, slot))
            if len(each) >= _PAGES or (mine is not None and len(mine.pages) >= _PAGES):
                most = max(seen.change.most for seen in each)
                texts = frozenset(chain(*(seen.change.texts for seen in each)))
                least = min(each, key=lambda seen: seen.seconds)
                change = self._show(least.change._replace(most=most, texts=texts))
                found.append(least._replace(change=change))
        return sorted(found, key=lambda seen: seen.seconds)
