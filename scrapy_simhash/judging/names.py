"""What two pages are called: title and heading, without what their site calls all its pages.

A name is cut into parts ("Fire in the harbour - The Daily" has two), and these into words, numbers
and signs. What many pages of the host have is the site's; the rest is the *subject*, and pages with
other subjects are other pages: `operator<` is not `operator>=`, `vec2` not `vec3`, part 1 not part
2. A number is known by the word before it and stands for any: where all pages carry a release, as
"Django 4.2" and "Django 5.0", it is the site's, too.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from functools import lru_cache
from math import inf
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import regex

from scrapy_simhash.judging.rule import Relation
from scrapy_simhash.pages.features import normalise, tokenise

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from scrapy_simhash.pages.facts import Facts

# A part is known by its words and signs, a word or sign by itself.
Key: TypeAlias = str | frozenset[str]

# Of the pages of a sample. A word that so many have is the site's. On reference manuals, titles and
# headings of 581 of 604 distinct pairs differ in what fewer pages have (docs/study.md).
_OF_THE_SITE = 0.4
# A part that more of them have ("Member List") is nobody's; it takes two, or each would be.
_OF_MANY = 0.1
_LEAST_MANY = 2
# So many numbers after one word, another one on each page or all that tells of it, are no release.
_LEAST_TELLING = 4
# Of the numbers that names of a sample begin with, so many are different where pages are numbered.
_LEAST_IN_A_ROW = 0.75
# Beside a subject, a number of so many values is no release: "Aspirin 20 mg", "Season 2 Episode 5".
_LEAST_SEVERAL = 3
# "Fire in the harbour - The Daily", "The Daily | Local news | Fire in the harbour", "Boost: any".
_PARTS = re.compile(r"\s+[|–—―·:»›~-]+\s+|(?<=[\w)+])::?\s+|：")  # noqa: RUF001
# \w of `regex` takes in the marks of the Indic scripts, see `pages.features`.
_TOKENS = regex.compile(r"\d+(?:[.,:/-]\d+)*|(?:(?![\d_])\w)+|[^\w\s]+|_+")
# "27.4. Hot Standby" and "26.4. Hot Standby" are one page of two releases. Only what can be nothing
# else is cut; "2.5 kg", "1. FC Köln" and "24.12.19" are numbers, unless all pages begin with one.
_NUMBERING = re.compile(
    r"\s*(?!\d\d\.\d\d\.\d\d\s)(?:\d{1,3}(?:\.\d{1,3})+\.|\d{1,3}(?:\.\d{1,3}){2,})\s"
)
_LEADING = " #"
_ALONE = "#"
# Punctuation is the writer's habit: quotation marks, commas, colons, a full stop, but not "...".
_MUTE = re.compile("[\"'`´‘’“”„«»‹›,:;…¶§]+|(?<![.])[.](?![.])")  # noqa: RUF001
# "4.2", but neither "12.05.2024" nor "9.99 EUR".
_RELEASE = re.compile(
    r"(?<![\d.$€£¥])"
    r"(?!(?:\d{1,2}\.\d{1,2}\.\d{4}|\d{4}\.\d\d\.\d\d|\d\d\.\d\d\.\d\d)(?![\d.]))"
    r"\d+(?:\.\d+)+(?!\d|[,:/-]\d)"
    r"(?!\s?(?:[$€£¥%]|(?:eur|usd|gbp|chf|pln|rub)\b))"
)
_NAMES_REMEMBERED = 4_096
# Of a site: a page is compared with some 8 others, and these with others again.
_SUBJECTS_REMEMBERED = 256
# Of a name, pages are found by so many. The longest titles of the corpora have five.
_MOST_PARTS = 8


class _Part(NamedTuple):
    """A part of a name: each word with the key that it is known by, and its signs, counted.

    `releases` are those of its words that end in one: "django 4.2"; `numbered` says that numbering
    was cut off; `key` are all signs and keys of words.
    """

    text: str
    words: dict[str, str]
    signs: frozenset[str]
    releases: frozenset[str]
    numbered: bool
    key: frozenset[str]

    def list_numbers(self) -> list[tuple[str, str]]:
        """List the numbers with their keys."""
        return [(word, key) for word, key in self.words.items() if word != key]


class Subject(NamedTuple):
    """What of a name is its page's."""

    words: frozenset[str]
    signs: frozenset[str]


class NameShares:
    """Which share of a sample's pages has a word, a sign or a part in its names of one kind.

    Args:
        names: the titles of these pages, or their headings; none where nothing is known.
        releases: a release is the site's in any case, see `UNKNOWN_NAMES`.
    """

    def __init__(self, names: Iterable[str] = (), *, releases: bool = False) -> None:
        self._releases = releases
        counted: Counter[Key] = Counter()
        numbers: defaultdict[str, list[str]] = defaultdict(list)
        pages = 0
        for name in names:
            pages += 1
            keys: set[Key] = set()
            for part in _read(name):
                keys.update((part.key, *part.key))
                for word, key in part.list_numbers():
                    numbers[key].append(word)
                if part.numbered:
                    keys.add(_LEADING)
            counted.update(keys)
        self._shares = {key: n / pages for key, n in counted.items() if n >= _LEAST_MANY}
        if _are_in_a_row(numbers[_LEADING]):
            del numbers[_LEADING]
        else:  # amounts, years, house numbers
            self._shares.pop(_LEADING, None)
        self._counted = counted
        self._values = {key: len({*found}) for key, found in numbers.items()}
        self._find = lru_cache(_SUBJECTS_REMEMBERED)(self._take_subject)

    def find_subject(self, name: str) -> Subject:
        """Take from a name what is the site's or many pages'."""
        return self._find(name)[0]

    def _take_subject(self, name: str) -> tuple[Subject, set[str]]:
        """Take the subject of a name, and its numbers that tell pages apart."""
        parts = _read(name)
        telling = self._list_telling(parts)
        shares = self._shares
        own = [part for part in parts if shares.get(part.key, 0.0) <= _OF_MANY]
        words = {
            word
            for part in own
            for word, key in part.words.items()
            if shares.get(key, 0.0) < _OF_THE_SITE
            and not (self._releases and word in part.releases)
        }
        signs = (sign for part in own for sign in part.signs)
        own_signs = frozenset(sign for sign in signs if shares.get(sign, 0.0) < _OF_THE_SITE)
        return Subject(frozenset(words | telling), own_signs), telling

    def list_own(self, name: str) -> frozenset[str]:
        """List the words and signs of a name that are not the site's, though many pages have it."""
        keys = {
            word: key
            for part in _read(name)
            for word, key in (*part.words.items(), *zip(part.signs, part.signs, strict=True))
        }
        own = {word for word, key in keys.items() if self._shares.get(key, 0.0) < _OF_THE_SITE}
        return frozenset(own | self._find(name)[1])

    def _list_telling(self, parts: Sequence[_Part]) -> set[str]:
        """List the numbers that tell pages apart.

        Each page has another one; or another part of the name has another number after the same
        word, as in "Django 1.3 notes - Django 4.2 docs"; or a part with a subject has one of many,
        or a part that many names have but for it, where no other part has a subject.
        """
        telling, before = set[str](), dict[str, set[str]]()
        # Of parts that as many pages have, the site's is the last one more often.
        shares = [self._shares.get(part.key, 0.0) for part in parts]
        nameless = min(shares, default=1.0) > _OF_MANY
        for place in sorted(range(len(parts)), key=lambda place: (-shares[place], -place)):
            part, own = parts[place], shares[place] <= _OF_MANY
            least = _LEAST_TELLING if nameless else _LEAST_SEVERAL if own else inf
            for word, key in part.list_numbers():
                values = self._values.get(key, 0)
                # Pages of a release share its number.
                each = values >= max(_LEAST_TELLING, self._counted[key])
                of_many = values >= least and word not in part.releases
                if each or of_many or word not in before.get(key, {word}):
                    telling.add(word)
            for word, key in part.list_numbers():
                before.setdefault(key, set()).add(word)
        return telling


def _are_in_a_row(leading: Sequence[str]) -> bool:
    """Whether numbers that names begin with count pages: nearly all are different, with few gaps.

    "3. Apples" and "2.5 Installing" are numbered, "13A socket" and "15A socket" are not.
    """
    firsts = {int(found[0]) for number in leading if (found := re.match(r"\s*\d+", number))}
    few_gaps = not firsts or max(firsts) - min(firsts) < 2 * len(firsts)
    return few_gaps and len({*leading}) >= _LEAST_IN_A_ROW * len(leading)


class SiteNames(NamedTuple):
    """What is the site's in the names of its pages."""

    titles: NameShares
    headings: NameShares


# A title names the release of a manual, "Django 4.2 documentation"; what a heading numbers is its
# subject, "What's new in 4.2".
UNKNOWN_NAMES = SiteNames(NameShares(releases=True), NameShares())


class Relations(NamedTuple):
    """How the names of two pages are related, by kind and together."""

    title: Relation
    heading: Relation
    together: Relation


def relate_names(
    first: Facts,
    second: Facts,
    mine: SiteNames = UNKNOWN_NAMES,
    theirs: SiteNames = UNKNOWN_NAMES,
) -> Relations:
    """Relate the titles and headings of two pages, each by what its site calls its pages."""
    title = _relate(first.title, second.title, mine.titles, theirs.titles)
    heading = _relate(first.heading, second.heading, mine.headings, theirs.headings)
    said = {title, heading} - {Relation.SILENT}
    if Relation.LITTLE_MORE in said:  # it tells nothing beside a name that is the same
        said.remove(Relation.LITTLE_MORE)
        said = said if said == {Relation.SAME} else said | {Relation.MORE}
    if len(said) == 1:
        (together,) = said
    elif not said:
        together = Relation.SILENT
    elif Relation.SAME not in said:
        together = Relation.DIFFER
    else:
        together = Relation.MIXED
    return Relations(title, heading, together)


def call_differently(first: Facts, second: Facts) -> bool:
    """Whether two pages have names to compare, and each of one has what the other's lacks."""
    title, heading, _ = relate_names(first, second)
    return {title, heading} - {Relation.SILENT} == {Relation.DIFFER}


def _relate(name: str, other: str, shares: NameShares, others: NameShares) -> Relation:
    """Relate two names of one kind, by what the sites of either page call their pages."""
    if not name or not other:
        return Relation.SILENT
    mine, theirs = shares.find_subject(name), others.find_subject(other)
    if not any(mine) and not any(theirs):
        # Two names that many pages have are two names all the same.
        own, another = shares.list_own(name), others.list_own(other)
        if own == another:
            return Relation.SILENT
        return Relation.DIFFER if _differ(own, another) else Relation.MORE
    one_subject = mine.words == theirs.words
    if _differ(mine.words, theirs.words) or (one_subject and _differ(mine.signs, theirs.signs)):
        return Relation.DIFFER
    if mine == theirs:
        return Relation.SAME
    little = one_subject or not any(mine) or not any(theirs)
    return Relation.LITTLE_MORE if little else Relation.MORE


def _differ(mine: frozenset[str], theirs: frozenset[str]) -> bool:
    """Whether either has what the other lacks."""
    return bool(mine - theirs and theirs - mine)


def list_parts(*names: str) -> dict[frozenset[str], str]:
    """List the parts of names: by their words and signs, any number for any, as they are read."""
    found = (part for name in names for part in _read(name)[:_MOST_PARTS])
    return {key: part.text for part in found if (key := part.key - {_LEADING, _ALONE})}


@lru_cache(maxsize=_NAMES_REMEMBERED)
def _read(name: str) -> tuple[_Part, ...]:
    """Read the parts of a name."""
    parts = []
    for text in _PARTS.split(normalise(name)):
        numbering = _NUMBERING.match(text)
        words: dict[str, str] = {}
        times: Counter[str] = Counter()
        signs: Counter[str] = Counter()
        releases = set()
        before = ""
        for found_token in _TOKENS.finditer(text, numbering.end() if numbering else 0):
            token = found_token[0]
            if token[0].isdigit():
                words[f"{before} {token}"] = f"{before} #"
                if before and _RELEASE.match(text, found_token.start()):
                    releases.add(f"{before} {token}")
            elif unicodedata.category(token[0])[0] in "LMN":
                for before in tokenise(token):
                    # A class and its constructor, `file::file`, are two names.
                    times[before] += 1
                    word = before if times[before] == 1 else f"{before}*{times[before]}"
                    words[word] = word
            else:
                signs.update(_MUTE.sub(" ", token).split())
        if [*words.values()] == [_LEADING]:
            words = dict.fromkeys(words, _ALONE)
        # Twice the same sign is more than once.
        counted = frozenset(f"{sign}{n}" for sign, many in signs.items() for n in range(many))
        if words or counted:
            numbered = numbering is not None
            key = counted.union(words.values())
            parts.append(_Part(text.strip(), words, counted, frozenset(releases), numbered, key))
    return tuple(parts)
