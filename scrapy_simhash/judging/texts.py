"""The texts of stored documents, and the templates of their sites, read once for many pages.

Texts are compared by their triples of words. Words with digits are *numbers*: a triple is looked up
with any number in the place of its numbers, and as it is.
"""

from __future__ import annotations

import re
import secrets
from bisect import bisect_left
from collections import Counter, OrderedDict
from functools import cached_property, lru_cache
from itertools import chain
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import numpy as np
import regex

from scrapy_simhash.judging.sites import LEAST_KNOWN, LEAST_OF_TEMPLATE, SHARE_OF_TEMPLATE
from scrapy_simhash.pages.addresses import last_segment, parse_address, part_folders
from scrapy_simhash.pages.features import hash_shingles, hash_tokens, locate, normalise, tokenise
from scrapy_simhash.pages.sketch import SKETCH_WINDOW

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence

    from numpy.typing import NDArray

    from scrapy_simhash.judging.documents import PageFacts
    from scrapy_simhash.judging.interface import Reading
    from scrapy_simhash.judging.sites import Site
    from scrapy_simhash.pages.wording import Wording

    Hashes: TypeAlias = NDArray[np.uint64]
    Marks: TypeAlias = NDArray[np.bool_]

_Made = TypeVar("_Made")

# Of some 40 kB a text of 1,000 words, and of 600 kB a template.
_TEXTS_REMEMBERED = 256
_TEMPLATES_REMEMBERED = 32
# So that nobody can make two words of one hash; these hashes do not leave the process.
_SEED = secrets.randbits(64)
# Stands for any number, and before the first and behind the last word.
_NUMBER, _BEFORE, _BEHIND = map(np.uint64, (3, 1, 2))
# Three digits, but no release, before the last name in a path.
_IDENTIFIER = re.compile(r"/((?=(?:[^/\d]*\d){3})(?![^/]*\d\.\d)[^/]+)/[^/]+$")
# What a symbol says, "C++", "-5", "★★"; not what only separates parts.
SIGNS = regex.compile(r"(?![|~`^\u00a8\u00b4])[\p{S}%&*@#\\]|(?<!\w)[-\u2212](?=\d)")
# What so many pages of a part of a site have, three at least, is that part's.
_SHARE_OF_PART = 0.75
_CURRENCY = regex.compile(r"\p{Sc}")
_LEAST_SLASHES = 2
_LETTER = re.compile(r"[^\W\d_]")
_NO_WORDS = re.compile(r"[\W_]+")
_NOTHING = np.empty(0, np.uint64)
# Stands for the end of a line among words; a normalised text has no capitals.
_LINE = "L"


class Text:
    """The text of a page, read once to be compared with others.

    Args:
        text: as `pages.wording.Wording` keeps it: normalised, one block a line.
        rest: digest of the words beyond; b"" if there are none.
        beside: what a reader sees beside the text.
        seed: of the words' hashes, 0 to 2**64 - 1; only texts of one seed are compared.

    Attributes:
        normal, rest, beside: as given.
        tokens: its n words.
        hashes: of the words, shape (n,).
        numbers: which words have a digit.
        blocks: the number of each word's line.
        triples, masked: hashes of each word with its neighbours, as they are and with any number
            for each; shape (n,).
    """

    def __init__(
        self, text: str, rest: bytes = b"", beside: Sequence[str] = (), *, seed: int = 0
    ) -> None:
        self.normal, self.rest, self.beside = text, rest, tuple(beside)
        tokens = tokenise(text.replace("\n", f" {_LINE} "))
        hashes = hash_tokens(tokens, seed)
        ends_of_blocks = hashes == hash_tokens([_LINE], seed)
        self.blocks = np.cumsum(ends_of_blocks)[~ends_of_blocks]
        self.tokens = [token for token in tokens if token != _LINE]
        self.hashes = hashes[~ends_of_blocks]
        self.numbers: Marks = np.fromiter(map(_is_number, self.tokens), np.bool_, len(self))
        self.triples = _hash_triples(self.hashes)
        self.masked = _hash_triples(np.where(self.numbers, _NUMBER, self.hashes))

    def __len__(self) -> int:
        return len(self.tokens)

    @cached_property
    def hashes_set(self) -> Hashes:
        """The distinct hashes of words, ascending."""
        return np.unique(self.hashes)

    @cached_property
    def triples_set(self) -> Hashes:
        """The distinct triples, ascending."""
        return np.unique(self.triples)

    @cached_property
    def masked_set(self) -> Hashes:
        """The distinct masked triples, ascending."""
        return np.unique(self.masked)

    @cached_property
    def digits(self) -> Marks:
        """Which words have a digit and no letter, as times and counters; shape (n,)."""
        letters = np.fromiter(map(bool, map(_LETTER.search, self.tokens)), np.bool_, len(self))
        return self.numbers & ~letters

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
        start, end = self._spans[first][0], self._spans[end - 1][1]
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
        path = normalise("/".join(address.path)).strip("/") if address else ""
        # Shorter ones, or dates, may be what a record says: "2026/11/26", "eur/usd".
        if path.count("/") < _LEAST_SLASHES or not _LETTER.search(path):
            return marked
        for found in re.finditer(rf"(?<!\w){re.escape(path)}(?!\w)", self.normal):
            words = (bisect_left(self._spans, (at,)) for at in found.span())
            marked[slice(*words)] = True
        return marked

    @cached_property
    def _spans(self) -> list[tuple[int, int]]:
        return list(locate(self.normal, self.tokens))

    def show(self, start: int, end: int) -> str:
        """Return the text from one word to before another."""
        return self.normal[self._spans[start][0] : self._spans[end - 1][1]].replace("\n", " ")


@lru_cache(maxsize=8_192)
def _is_number(token: str) -> bool:
    return any(map(str.isdecimal, token))


def _hash_triples(words: Hashes) -> Hashes:
    """Hash each word with both neighbours; shape (n,)."""
    padded = np.concatenate([[_BEFORE], words, [_BEHIND]])
    return hash_shingles(padded, SKETCH_WINDOW) if len(words) else _NOTHING


def _count(sets: Sequence[Hashes], least: float) -> tuple[Hashes, Hashes]:
    """List what is in any of n sets, and what is in so many."""
    if not sets:
        return _NOTHING, _NOTHING
    found, times = np.unique(np.concatenate(sets), return_counts=True)
    return found, found[times >= least]


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
        self.any_triples, self.triples = _count([text.triples_set for text in known], least)
        self.any_masked, self.masked = _count([text.masked_set for text in known], least)
        beside = Counter(each for text in known for each in set(text.beside))
        self.beside = {each for each, times in beside.items() if times >= least}
        self.declared = frozenset(declared)
        self._pages = [
            (address.path, text)
            for url, text in zip(urls, known, strict=False)
            if (address := parse_address(url))
        ]
        self._of_parts: dict[tuple[str, ...], tuple[Hashes, Hashes]] = {}
        tails = Counter(tail for url in urls for tail in _list_tails(url)) if self.known else {}
        self._tails = {tail for tail, times in tails.items() if times >= least}

    def find_shared(self, url: str, other: str) -> tuple[Hashes, Hashes]:
        """Find what nearly all pages share of the part of a site in which only one of two lies.

        Returns:
            Triples and masked triples, ascending: a release, the day on which it was made.
        """
        part, _ = part_folders(url, other)
        texts = [text for path, text in self._pages if part and path[: len(part)] == part]
        if len(texts) < LEAST_OF_TEMPLATE:  # of folders without end, few are remembered
            return _NOTHING, _NOTHING
        if part not in self._of_parts:
            least = max(LEAST_OF_TEMPLATE, _SHARE_OF_PART * len(texts))
            self._of_parts[part] = (
                _count([text.triples_set for text in texts], least)[1],
                _count([text.masked_set for text in texts], least)[1],
            )
        return self._of_parts[part]

    def find_name(self, url: str) -> str:
        """Return the last name in an address that is not the site's: "7" of "/7/view".

        What stands behind an identifier belongs to it, whatever is known of the site: "4022/view".
        """
        tails = _list_tails(url)
        shared = next((n for n, tail in enumerate(tails) if tail not in self._tails), len(tails))
        rest = url.partition("#")[0].rstrip("/").rsplit("/", shared)[0]
        before = _IDENTIFIER.search(rest.partition("?")[0])
        return f"{before[1]}/{last_segment(rest)}" if before else last_segment(rest)


def _list_tails(url: str) -> list[str]:
    """List the ends of a path, the shortest first, without the whole; none with a query."""
    address = parse_address(url)
    if address is None or address.query:
        return []
    path = "/".join(address.path).strip("/")
    return [path[place.start() + 1 :] for place in re.finditer("/", path)][::-1]


UNKNOWN_TEMPLATE = Template()


class Texts:
    """Reads texts, and templates of sites, and remembers those that were needed last."""

    def __init__(self) -> None:
        self._texts: OrderedDict[Hashable, Text] = OrderedDict()
        self._templates: OrderedDict[Hashable, Template] = OrderedDict()

    def read(self, wording: Wording) -> Text:
        """Read a wording; only texts of one process can be compared."""

        def make() -> Text:
            return Text(*wording, seed=_SEED)

        return _remember(self._texts, wording, _TEXTS_REMEMBERED, make)

    def make_template(self, pages: Iterable[tuple[PageFacts, Wording]]) -> Template:
        """Make the template that a sample of pages shows."""
        pages = list(pages)
        return Template(
            [self.read(wording) for _, wording in pages],
            [page.url for page, _ in pages],
            chain.from_iterable(page.declared for page, _ in pages),
        )

    def find_template(self, documents: Reading, site: Site) -> Template:
        """Find the template of a site in a store; unknown with the site."""
        if not site.known:
            return UNKNOWN_TEMPLATE

        def make() -> Template:
            pages, wordings = documents.glance(site.numbers), documents.get_wordings(site.numbers)
            both = pages.keys() & wordings.keys()
            return self.make_template((pages[number], wordings[number]) for number in sorted(both))

        return _remember(self._templates, site, _TEMPLATES_REMEMBERED, make)


def _remember(
    made: OrderedDict[Hashable, _Made], key: Hashable, most: int, make: Callable[[], _Made]
) -> _Made:
    """Return what was made for a key, or make it; forget what was not needed for longest."""
    found = made.pop(key, None)
    made[key] = found = make() if found is None else found
    if len(made) > most:
        made.popitem(last=False)
    return found
