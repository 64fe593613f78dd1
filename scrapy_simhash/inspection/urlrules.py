"""Rules by which several addresses of a host lead to one page, as stored pages show.

A rule is right as far as pages whose addresses it maps to one *form* are the same page. As text it
is `HOST drop-parameter NAME` or `HOST drop-segment PLACE SEGMENT`. It holds in *directories*.

Near-duplicates propose a rule, each with the page that it repeats, if two do. Then all pages of its
host vote: each is compared with the page before it that has the same form. A form has one vote, and
so has a document: a hundred session ids of one page say no more than two.

A rule is proven in those directories whose own pages voted `same`, three times at least and eleven
times together, and none `different`. A single conflict in a directory shows that something else
than the directory matters, so the rule is proven nowhere; two, that it does not hold there.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from enum import IntEnum
from itertools import permutations
from os.path import commonprefix
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from scrapy_simhash.judging.words import Page as Read
from scrapy_simhash.judging.words import compare_words, read_name
from scrapy_simhash.pages.addresses import Address, find_site, host_of, parse_address, split_pair
from scrapy_simhash.pages.facts import MOSTLY_NEW
from scrapy_simhash.stores.opening import open_as_it_is

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from scrapy_simhash.config import Config
    from scrapy_simhash.judging.documents import Document


class UrlRule(NamedTuple):
    """A rule on the addresses of a host: drops a parameter, or a segment of a path."""

    host: str  # lower case, with a port that is not the default
    parameter: str = ""  # a name, or a pair such as `print=1`
    segment: str = ""  # dropped where it stands at this place of a path
    place: int = 0

    def __str__(self) -> str:
        kind = f"parameter {self.parameter}" if self.parameter else f"segment {self.place} "
        return f"{self.host} drop-{kind}{self.segment}"

    def apply(self, address: Address) -> Address:
        """Return the form of an address of the host, equal to it where nothing is to be changed."""
        path, query = address.path, address.query
        if name := self.parameter:
            query = tuple(each for each in query if name not in {each, split_pair(each)[0]})
        elif path[self.place : self.place + 1] == (self.segment,):
            path = path[: self.place] + path[self.place + 1 :] or ("",)
        return address._replace(path=path, query=query)


# A longer one is the end of a name, not a kind of page.
_ENDING = re.compile(r"\.[A-Za-z][A-Za-z0-9]{0,4}$")


def find_directory(address: Address) -> str:
    """Return the directory of an address: its first folder, its depth, the ending of its name.

    >>> paths = ["", "/x", "/x.html", "/p.v2.html;x=1", "/tag/love/", "/2.4/en/mod/core.html"]
    >>> [find_directory(parse_address(f"http://a.example{path}")) for path in paths]
    ['/', '/*', '/*.html', '/*.html', '/tag/*/', '/2.4/*/*/*.html']
    """
    *folders, name = address.path
    pattern = "/" + "".join(f"{folder}/" for folder in folders[:1]) + "*/" * (len(folders) - 1)
    ending = _ENDING.search(name.partition(";")[0])
    return pattern + f"*{ending[0] if ending else ''}" * bool(name)


# A last segment that says how a page is shown: "amp", "print", "index_print".
_VIEW = re.compile(r"[A-Za-z][A-Za-z_-]{1,15}")


def _find_candidates(first: Address, second: Address) -> list[UrlRule]:
    """List the rules that make one address of two; none where they differ in more than a part."""
    pairs = [*({*first.query} ^ {*second.query})]
    names = {split_pair(pair)[0] for pair in pairs} - {""}
    # A pair that only one of them has; and all values.
    switch = pairs if len(pairs) == 1 else ()
    rules = [UrlRule(first.host, parameter=each) for each in (*switch, *names)]
    shorter, longer = sorted((first.path, second.path), key=len)
    place = len(commonprefix([shorter, longer]))  # noqa: RUF071 - of segments
    segment = "".join(longer[place : place + 1])
    # The last segment names the page, unless it says how the page is shown.
    if segment and (place < len(shorter) or _VIEW.fullmatch(segment)):
        rules.append(UrlRule(first.host, segment=segment, place=place))
    # More than that may differ; hosts, too: who mirrors another one could choose what stands for
    # the pages that were not copied. And a segment may occur twice.
    return [rule for rule in rules if rule.apply(first) == rule.apply(second)]


class Outcome(IntEnum):
    """What comes of comparing two pages; of the comparisons of a form the last one here counts."""

    GREY = 1
    SAME = 2
    DIFFERENT = 3


class Page(NamedTuple):
    """A page that votes."""

    document: Document
    address: Address
    original: int  # the document that near-duplicates have in common


# A comparison of two pages that have one form, the older one last.
Vote: TypeAlias = tuple[Outcome, Page, Page]


def _list_votes(rule: UrlRule, pages: Iterable[Page]) -> dict[Address, Vote]:
    """Compare each page with the one before it that has the same form; list the votes of forms."""
    before: dict[Address, Page] = {}
    votes: dict[Address, Vote] = {}
    voted = set[int]()
    for page in pages:
        form = rule.apply(page.address)
        kept, before[form] = before.get(form), page
        if kept is None or kept.address == page.address:
            continue
        outcome = _compare(page, kept)
        if outcome is None or (form in votes and outcome <= votes[form][0]):
            continue
        if outcome is Outcome.SAME:  # a wall has many forms
            originals = {page.original, kept.original}
            if voted & originals:
                continue
            voted |= originals
        votes.pop(form, None)  # the newest stand last
        votes[form] = outcome, page, kept
    return votes


# Not more of the words of each are alone where two texts are one.
_MOST_ALONE = 0.5
# A page that was fetched a day later may have been changed in between.
_STALE_SECONDS = 86_400


def _compare(page: Page, kept: Page) -> Outcome | None:
    """Compare two pages by what they were dropped for, their names and their words.

    They are `different` where all their names, title and heading, have words that the other one
    lacks, and where less than half of the words of each are on the other (a print view lacks the
    navigation). But not if a day lies between them. The rest is `grey`; None are those that are the
    same but for most of their links, which have no vote.
    """
    mine, theirs = page.document.facts, kept.document.facts
    if page.original == kept.original:
        return None if (page.document.new_links or 0.0) >= MOSTLY_NEW else Outcome.SAME
    if abs(mine.time - theirs.time) > _STALE_SECONDS:
        return Outcome.GREY
    named = (mine.title, theirs.title), (mine.heading, theirs.heading)
    names = [({*read_name(own)}, {*read_name(other)}) for own, other in named if own and other]
    if names and all(own - other and other - own for own, other in names):
        return Outcome.DIFFERENT
    texts = page.document.unpack(), kept.document.unpack()
    if texts[0] is None or texts[1] is None:
        return Outcome.GREY
    both = Read.make(mine, texts[0]), Read.make(theirs, texts[1])
    sides = permutations(each.words for each in both)
    alone = min(compare_words(own, other, None).alone.mean() for own, other in sides)
    return Outcome.DIFFERENT if alone > _MOST_ALONE else Outcome.GREY


_LEAST_SAME = 11  # in all directories without a conflict
_LEAST_VOTES = 3  # in each; one or two pages may be alike by chance
# One value of a parameter, such as `format=print`, shows nothing of the others.
_LEAST_VALUES = 3
# Of a site, those that most pairs propose: what a site makes up takes no more time; not measured.
MOST_RULES = 64


class FoundRule(NamedTuple):
    """A rule with the votes on it, and the directories where they prove it, most votes first."""

    rule: UrlRule
    votes: Sequence[Vote]
    directories: Sequence[str]


def learn(stored: Iterable[Document]) -> Iterator[FoundRule]:
    """Find the rules of a site by its pages in the order of arrival.

    Near-duplicates propose rules by what they repeat; pages vote on them that have text enough, at
    addresses that rules may judge.
    """
    pages = {
        each.number: Page(each, parsed, each.original or each.number)
        for each in stored
        if each.facts.sketch and not each.facts.stub and (parsed := parse_address(each.facts.url))
    }
    forms: defaultdict[UrlRule, set[Address]] = defaultdict(set)
    for page in pages.values():
        original = pages.get(page.document.original)
        for rule in _find_candidates(page.address, original.address) if original else ():
            forms[rule].add(rule.apply(page.address))
    # A rule that explains a single pair is of no use, and most of what is proposed does.
    proposed = [rule for rule in forms if len(forms[rule]) > 1]
    for rule in sorted(proposed, key=lambda each: -len(forms[each]))[:MOST_RULES]:
        of_host = (page for page in pages.values() if page.address.host == rule.host)
        votes = _list_votes(rule, of_host)
        yield FoundRule(rule, [*votes.values()], _choose_directories(rule, votes))


def _choose_directories(rule: UrlRule, votes: dict[Address, Vote]) -> list[str]:
    """Choose the directories in which a rule is proven, those with most votes first."""
    by_directory: defaultdict[str, list[Vote]] = defaultdict(list)
    for form, vote in votes.items():
        by_directory[find_directory(form)].append(vote)
    same, values = Counter[str](), set[str]()
    for name, some in by_directory.items():
        counts = Counter(outcome for outcome, *_ in some)
        if counts[Outcome.DIFFERENT] == 1:
            return []
        if not counts[Outcome.DIFFERENT] and counts[Outcome.GREY] <= counts[Outcome.SAME]:
            same[name] = counts[Outcome.SAME]
            pages = (page for outcome, *both in some if outcome is Outcome.SAME for page in both)
            pairs = (pair for page in pages for pair in page.address.query)
            values |= {pair for pair in pairs if split_pair(pair)[0] == rule.parameter}
    if same.total() < _LEAST_SAME or 0 < len(values) < _LEAST_VALUES:
        return []
    return [name for name, number in same.most_common() if number >= _LEAST_VOTES]


# What means something in a pattern of duplicate-url-discarder.
_SPECIAL = re.compile(r"[*|?#]")


def list_discarder_rules(found: Iterable[FoundRule]) -> list[dict[str, Any]]:
    """List the proven rules for duplicate-url-discarder, but those that it cannot express."""
    # In its patterns `*` matches slashes, too, so each directory has a rule of its own, which
    # excludes what lies deeper. It applies rules in an order of its own, so that no two of those
    # that remove parts of a path may match one address.
    rules: list[dict[str, Any]] = []
    removed: defaultdict[tuple[str, int], list[str]] = defaultdict(list)
    for rule, directory in ((each.rule, name) for each in found for name in each.directories):
        segments = directory.split("/")[1:]
        if _SPECIAL.search("".join((*segments[:-1][:1], rule.parameter, rule.segment))):
            continue
        segments[rule.place : rule.place] = [rule.segment] if rule.segment else []
        path = "/".join([rule.host, *segments])
        name, sign, _ = rule.parameter.partition("=")
        include = f"{path}|?{rule.parameter}{'=*' * (not sign)}" if name else f"{path}|"
        exclude = [rule.host + "/*" * (len(segments) + 1)]
        if path.endswith("/*"):  # names with an ending are in another directory
            exclude.append(f"{path}.*|")
        if rule.segment:
            others = removed[rule.host, len(segments)]
            exclude += others
            others.append(include)
        rules.append(
            {
                "order": len(rules) + 1,
                "urlPattern": {"include": [include], "exclude": exclude},
                "processor": "queryRemoval" if name else "subpathRemoval",
                "args": [name or rule.place],
            }
        )
    return rules


# The newest; some 10 kB each.
_PAGES_OF_SITE = 2**15
_PAIRS_SHOWN = 3


def find_rules(config: Config) -> list[FoundRule]:
    """Find the rules that the stored pages propose, those that are proven first."""
    found: list[FoundRule] = []
    sites: defaultdict[str, list[int]] = defaultdict(list)
    with open_as_it_is(config.store) as store:
        hosts = store.read(
            lambda stored: [(host_of(each.facts.url), each.number) for each in stored]
        )
        for host, number in hosts:
            sites[find_site(host)].append(number)
        for numbers in sites.values():  # of a site, in the order of arrival
            found += learn(store.get_documents(numbers[-_PAGES_OF_SITE:]).values())
    return sorted(found, key=lambda each: (not each.directories, -len(each.votes), str(each.rule)))


def describe(found: FoundRule) -> dict[str, Any]:
    """Describe a rule and the votes on it, ready for JSON."""
    pairs: defaultdict[Outcome, list[str]] = defaultdict(list)
    for outcome, page, kept in found.votes:
        pairs[outcome].append(f"{page.document.facts.url} {kept.document.facts.url}")
    return {
        "rule": str(found.rule),
        "proven_in": list(found.directories),
        **{outcome.name.lower(): len(pairs[outcome]) for outcome in Outcome},
        "pairs_different": pairs[Outcome.DIFFERENT][-_PAIRS_SHOWN:],
        "pairs_same": pairs[Outcome.SAME][:_PAIRS_SHOWN],
    }
