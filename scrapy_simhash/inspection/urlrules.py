"""Rules by which several addresses of a host lead to one page, as stored pages show.

A rule is right as far as pages whose addresses it maps to one *form* are the same page. As text it
is `HOST KIND [ARGUMENT...]`, such as `example.com drop-parameters sid`. It holds in *directories*.

Two pairs of pages propose a rule: near-duplicates, or a page and the one that it calls canonical.
Then all pages of its host vote: where a rule maps two to one form, they are compared. A form votes
`same` once, and so does a document: a hundred session ids of one page say no more than two.

A rule is proven in those directories whose own pages voted `same`, three times at least, and of
whose last hundred votes none was `different`. A single conflict in a directory shows that something
else than the directory matters, so the rule is proven nowhere; two, that it does not hold there.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict, deque
from enum import StrEnum
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy_simhash.judge.doubts import UNLIKE_ADDRESSES
from scrapy_simhash.judge.scopes import find_site
from scrapy_simhash.judging.rule import UNKNOWN, judge, read_name
from scrapy_simhash.judging.rule import Page as Read
from scrapy_simhash.judging.words import Words, look
from scrapy_simhash.pages.addresses import (
    Address,
    last_name_of,
    parse_address,
    split_pair,
    split_url,
)
from scrapy_simhash.pages.links import MOSTLY_NEW, NO_LINKS, measure_new_links
from scrapy_simhash.stores.keyvalues import cut
from scrapy_simhash.stores.opening import open_as_it_is

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from scrapy_simhash.config import Config
    from scrapy_simhash.judging.documents import StoredDocument
    from scrapy_simhash.pages.facts import Facts
    from scrapy_simhash.stores.documents import Documents


class RuleKind(StrEnum):
    """What a rule does to an address; from safe to dangerous."""

    DROP_VALUE = "drop-value"  #: Drops one `name=value`.
    #: Drops one to five parameters where all are there, whatever their values.
    DROP_PARAMETERS = "drop-parameters"
    DROP_LEADING = "drop-leading"  #: Drops these segments from the beginning of a path.
    DROP_SEGMENTS = "drop-segments"  #: Drops these where they first follow each other in a path.


class UrlRule(NamedTuple):
    """A rule on the addresses of a host."""

    kind: RuleKind
    host: str  # lower case, with a port that is not the default
    args: tuple[str, ...] = ()  # parameters, segments and the like, as they stand in addresses

    def __str__(self) -> str:
        return " ".join([self.host, self.kind.value, *self.args])

    def apply(self, address: Address) -> Address:
        """Return the form of an address of the host, equal to it where nothing is to be changed."""
        path, query, args = address.path, address.query, self.args
        match self.kind:
            case RuleKind.DROP_VALUE:
                query = tuple(pair for pair in query if pair != args[0])
            case RuleKind.DROP_PARAMETERS:
                if {split_pair(pair)[0] for pair in query}.issuperset(args):
                    query = tuple(pair for pair in query if split_pair(pair)[0] not in args)
            case RuleKind.DROP_LEADING | RuleKind.DROP_SEGMENTS:
                last = 1 if self.kind is RuleKind.DROP_LEADING else len(path)
                places = (n for n in range(last) if path[n : n + len(args)] == args)
                place = next(places, len(path))
                path = path[:place] + path[place + len(args) :]
        return Address(address.scheme, address.host, path or ("",), query)


# A longer one is the end of a name, not a kind of page.
_ENDING = re.compile(r"\.[A-Za-z][A-Za-z0-9]{0,4}")


def find_directory(address: Address) -> str:
    """Return the directory of an address: its first folder, its depth, the ending of its name.

    >>> paths = [("",), ("x",), ("x.html",), ("tag", "love", ""), ("2.4", "en", "mod", "core.html")]
    >>> [find_directory(Address("http", "a.example", path, ())) for path in paths]
    ['/', '/*', '/*.html', '/tag/*/', '/2.4/*/*/*.html']
    """
    *folders, name = address.path
    pattern = "/" + "".join(f"{folder}/" for folder in folders[:1]) + "*/" * (len(folders) - 1)
    ending = re.search(r"\.[^.]*$", name.partition(";")[0])
    known = ending is not None and _ENDING.fullmatch(ending[0])
    return pattern + ("*" + (known[0] if known else "") if name else "")


# These three are not measured. A value that is a switch or a start has a few characters; one of a
# session has many, and would be another candidate on every page.
MOST_VALUE = 16
MOST_TOGETHER = 5  # CFID and CFTOKEN; the parameters of a campaign
MOST_SEGMENTS = 4
# A last segment that says how a page is shown: "amp", "print", "index_print".
_VIEW = re.compile(r"[A-Za-z][A-Za-z_-]{1,15}")


def find_candidates(first: Address, second: Address) -> list[UrlRule]:
    """List the rules that make one address of two; none where they differ in more than a part."""
    rules: Iterator[UrlRule] = iter(())
    # Who mirrors another host could choose what stands for the pages that were not copied.
    if first[:2] == second[:2] and first.path == second.path:
        rules = _relate_queries(first.host, first.query, second.query)
    elif first[:2] == second[:2] and first.query == second.query:
        rules = _relate_paths(first.host, first.path, second.path)
    # Not all that is proposed does it: a segment may occur twice.
    return [rule for rule in rules if rule.apply(first) == rule.apply(second)]


def _relate_queries(host: str, *queries: tuple[str, ...]) -> Iterator[UrlRule]:
    first, second = map(set, queries)
    alone = [sorted(first - second), sorted(second - first)]
    names = [{split_pair(pair)[0] for pair in pairs} for pairs in alone]
    differ = sorted(names[0] | names[1])
    if not differ or not all(differ):
        return
    if len(differ) == 1:
        pairs = alone[0] + alone[1]
        if len(pairs) == 1 and len(split_pair(pairs[0])[1]) <= MOST_VALUE:
            yield UrlRule(RuleKind.DROP_VALUE, host, (pairs[0],))
        yield UrlRule(RuleKind.DROP_PARAMETERS, host, (differ[0],))
    # Several free parameters only where they come and go together.
    elif len(differ) <= MOST_TOGETHER and all(not some or some == {*differ} for some in names):
        yield UrlRule(RuleKind.DROP_PARAMETERS, host, tuple(differ))


def _relate_paths(host: str, *paths: tuple[str, ...]) -> Iterator[UrlRule]:
    """Propose to drop the segments that only the longer path has."""
    shorter, longer = sorted(paths, key=len)
    start, end = (
        sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(*paths, strict=False)))
        for paths in ((longer, shorter), (longer[::-1], shorter[::-1]))
    )
    end = min(end, len(shorter) - start)
    dropped = longer[start : len(longer) - end]
    if start + end < len(shorter) or not 0 < len(dropped) <= MOST_SEGMENTS or not all(dropped):
        return
    # The last segment names the page, unless it says how the page is shown.
    if end or (len(dropped) == 1 and _VIEW.fullmatch(dropped[0])):
        yield UrlRule(RuleKind.DROP_SEGMENTS if start else RuleKind.DROP_LEADING, host, dropped)


# Of shorter texts a few words are half. Of longer ones so much is common where they are one.
LEAST_WORDS, _LEAST_COMMON = 64, 0.5
# A page that was fetched a day later may have been changed in between.
STALE_SECONDS = 86_400


class Outcome(StrEnum):
    """What comes of comparing two pages."""

    SAME = "s"
    DIFFERENT = "d"
    GREY = "g"


# Of what the last votes of a form were; it votes again only with a stronger outcome.
_WEIGHTS: dict[Outcome | None, int] = {Outcome.GREY: 1, Outcome.SAME: 2, Outcome.DIFFERENT: 3}


class Page(NamedTuple):
    """A page that votes, with its address in parts and as text."""

    document: StoredDocument
    address: Address
    text: str


class Vote(NamedTuple):
    """A comparison of two pages that have one form."""

    outcome: Outcome
    page: Page
    kept: Page
    form: str


def format_address(address: Address) -> str:
    """Format an address; equal addresses have the same form."""
    scheme, host, path, query = address
    parameters = "?" + "&".join(query) if query else ""
    return f"{scheme}://{host}/{'/'.join(path)}{parameters}"


def list_voters(stored: Iterable[StoredDocument]) -> list[Page]:
    """List the pages that vote: with text enough, no wall, at an address that rules may judge."""
    able = [each for each in stored if each.facts.sketch and not each.facts.stub]
    walls = _find_walls(able)
    able = [each for each in able if walls.isdisjoint(_list_shown(each))]
    addresses = ((each, parse_address(each.facts.url)) for each in able)
    return [Page(each, found, format_address(found)) for each, found in addresses if found]


def _list_shown(page: StoredDocument) -> tuple[int, str]:
    """List what two pages have in common if they show one: their original, or text."""
    return page.record.original or page.document, page.text


def _find_walls(pages: Iterable[StoredDocument]) -> set[int | str]:
    """Find what unlike addresses of a host showed, such as a login, as a crawl finds walls."""
    names: defaultdict[tuple[int | str, str], set[str]] = defaultdict(set)
    for page in pages:
        if named := last_name_of(page.facts.url, page.facts.canonical):
            host, name = named
            for shown in _list_shown(page):
                names[shown, host].add(name)
    return {shown for (shown, _), found in names.items() if len(found) >= UNLIKE_ADDRESSES}


def list_votes(pages: Iterable[tuple[Page, str]]) -> Iterator[Vote]:
    """Compare the pages that have one form: of each, and its form, in the order of arrival."""
    first: dict[str, Page] = {}
    changing, groups = set[str](), set[int]()
    votes: Counter[str] = Counter()
    for page, form in pages:
        if form != page.text:
            changing.add(form)
        kept = first.setdefault(form, page)
        if kept.text == page.text or form not in changing:
            continue
        new, old = page.document, kept.document
        outcome = _compare(new, old)
        if outcome is not None and new.facts.time - old.facts.time > STALE_SECONDS:
            first[form] = page  # otherwise no later page could ever speak against the rule
        weight = _WEIGHTS.get(outcome, 0)
        if outcome is None or (outcome is not Outcome.DIFFERENT and votes[form] >= weight):
            continue
        # One document has one vote: a wall has many forms.
        shown = {each.record.original or each.document for each in (new, old)}
        if outcome is Outcome.SAME and not groups.isdisjoint(shown):
            continue
        groups |= shown if outcome is Outcome.SAME else set()
        votes[form] = max(votes[form], weight)
        yield Vote(outcome, page, kept, form)


def _compare(page: StoredDocument, kept: StoredDocument) -> Outcome | None:
    """Compare two pages; None where they have no vote, because most links are others."""
    outcome = compare_pages(page, kept)
    if outcome is Outcome.SAME:
        share = measure_new_links(
            page.facts.link_sketch, NO_LINKS, page.facts.url, kept.facts.link_sketch, kept.facts.url
        )
        # The judge had all links of the page, and carried them over to the place of its original.
        known = share if page.record.new_links is None else page.record.new_links
        if share is not None and min(share, known or 0.0) >= MOSTLY_NEW:
            return None
    return outcome


def compare_pages(page: StoredDocument, kept: StoredDocument) -> Outcome:
    """Compare two pages that vote: by what they were dropped for, their names and their words.

    They are `different` where either has a title or heading with words that the other one lacks,
    and where texts of 64 words and more have less than half in common (a print view lacks the
    navigation). But not if a day lies between them. The rest is `grey`.
    """
    if (page.record.original or page.document) == (kept.record.original or kept.document):
        return Outcome.SAME
    stale = abs(page.facts.time - kept.facts.time) > STALE_SECONDS
    if not stale and _call_differently(page.facts, kept.facts):
        return Outcome.DIFFERENT
    if page.wording is None or kept.wording is None:
        return Outcome.GREY
    first, second = (
        Read.make(each.facts, Words.read(wording))
        for each, wording in ((page, page.wording), (kept, kept.wording))
    )
    if judge(first, second, UNKNOWN, UNKNOWN).one:
        return Outcome.SAME
    sides = look(first.words, second.words, None), look(second.words, first.words, None)
    common = max(1 - side.alone.mean() for side in sides)
    long = min(page.facts.words, kept.facts.words) >= LEAST_WORDS
    unlike = long and common < _LEAST_COMMON and not stale
    return Outcome.DIFFERENT if unlike else Outcome.GREY


def _call_differently(first: Facts, second: Facts) -> bool:
    """Whether two pages have names to compare, and each of one has what the other's lacks."""
    names = ((first.title, second.title), (first.heading, second.heading))
    read = [(set(read_name(mine)), set(read_name(theirs))) for mine, theirs in names]
    compared = [(mine, theirs) for mine, theirs in read if mine and theirs]
    return bool(compared) and all(mine - theirs and theirs - mine for mine, theirs in compared)


# What the lower bound of the share of `same`, in all directories without a conflict, has to reach:
# 11 votes without a `different`, which is all that a small flat site has.
CONFIDENCE = 0.8
_Z = 1.6449  # the 95 % quantile of the normal distribution, for a one-sided interval
_LEAST_VOTES = 3  # one or two pages may be alike by chance
# One value of a parameter, such as `format=print`, shows nothing of the others.
_LEAST_VALUES = 3
_RECENT = 100
# Of a site, those that most pairs propose: what a site makes up takes no more time; not measured.
MOST_RULES = 64


class FoundRule(NamedTuple):
    """A rule with the votes on it, and the directories where they prove it, most votes first."""

    rule: UrlRule
    votes: Sequence[Vote]
    directories: Sequence[str]


def learn(stored: Iterable[StoredDocument]) -> list[FoundRule]:
    """Find the rules of a site, with the votes of its pages, if any, in the order of arrival."""
    pages = list_voters(stored)
    found = []
    for candidate in _propose(pages):
        of_host = [page for page in pages if page.address.host == candidate.host]
        forms = [format_address(candidate.apply(page.address)) for page in of_host]
        votes = list(list_votes(zip(of_host, forms, strict=True)))
        found.append(FoundRule(candidate, votes, _choose_directories(candidate, votes)))
    return found


def _propose(pages: Sequence[Page]) -> list[UrlRule]:
    """List the rules that two pages propose, by what they repeat, or call canonical."""
    by_number = {page.document.document: page for page in pages}
    forms: defaultdict[UrlRule, set[Address]] = defaultdict(set)
    for page in pages:
        original = by_number.get(page.document.record.original)
        for other in (original and original.address, parse_address(page.document.facts.canonical)):
            for rule in find_candidates(page.address, other) if other else ():
                forms[rule].add(rule.apply(page.address))
    # A rule that explains a single pair is of no use, and most of what is proposed does.
    proposed = Counter({rule: len(found) for rule, found in forms.items() if len(found) > 1})
    return [rule for rule, _ in proposed.most_common(MOST_RULES)]


def lower_bound(same: int, different: int) -> float:
    """Return the lower bound, 0 to 1, of Wilson's one-sided 95 % interval of same / all votes."""
    votes, square = same + different, _Z * _Z
    share = same / max(1, votes)
    spread = _Z * math.sqrt(share * (1 - share) * votes + square / 4)
    return max(0.0, (same + square / 2 - spread) / (votes + square))


def _choose_directories(rule: UrlRule, votes: Iterable[Vote]) -> list[str]:
    """Choose the directories in which a rule is proven, those with most votes first."""
    by_directory: defaultdict[str, list[Vote]] = defaultdict(list)
    for vote in votes:
        if address := parse_address(vote.form):
            by_directory[find_directory(address)].append(vote)
    same, different, values = Counter[str](), 0, set[tuple[str, ...]]()
    for name, some in by_directory.items():
        recent = Counter(vote.outcome for vote in some[-_RECENT:])
        if recent[Outcome.DIFFERENT] == 1:
            return []
        if recent[Outcome.DIFFERENT] or recent[Outcome.GREY] > recent[Outcome.SAME]:
            continue
        for vote in some:
            same[name] += vote.outcome is Outcome.SAME
            different += vote.outcome is Outcome.DIFFERENT
            if vote.outcome is Outcome.SAME:
                values |= {vote.page.address.query, vote.kept.address.query}
    # What a rule drops whatever its value must have had several.
    any_value = rule.kind is RuleKind.DROP_PARAMETERS
    dropped = {tuple(p for p in query if split_pair(p)[0] in rule.args) for query in values}
    few = any_value and len(dropped - {()}) < _LEAST_VALUES
    if few or lower_bound(same.total(), different) < CONFIDENCE:
        return []
    return [name for name, number in same.most_common() if number >= _LEAST_VOTES]


# In duplicate-url-discarder's patterns `*` matches slashes, too, so each directory has a rule of
# its own, which excludes what lies deeper. It applies rules in an order of its own, so that no two
# of those that remove parts of a path may match one address.

# What means something in a pattern.
_SPECIAL = re.compile(r"[*|?#]")


def list_discarder_rules(found: Iterable[FoundRule]) -> list[dict[str, Any]]:
    """List the proven rules for duplicate-url-discarder, but those that it has no processor for."""
    rules: list[dict[str, Any]] = []
    cut: defaultdict[tuple[str, int], list[str]] = defaultdict(list)
    for rule, directory in ((each.rule, name) for each in found for name in each.directories):
        for processor, args, path, query in _express(rule, directory):
            include = f"{rule.host}{path}|{query}"
            exclude = [rule.host + "/*" * (path.count("/") + 1)]
            if path.endswith("/*"):  # names with an ending are in another directory
                exclude.append(f"{rule.host}{path}.*|")
            if processor == "subpathRemoval":
                others = cut[rule.host, path.count("/")]
                exclude += others
                others.append(include)
            pattern = {"include": [include], "exclude": exclude}
            order = len(rules) + 1
            said = {"order": order, "urlPattern": pattern, "processor": processor, "args": args}
            rules.append(said)
    return rules


def _express(rule: UrlRule, directory: str) -> Iterator[tuple[str, list[str | int], str, str]]:
    """Yield processor, arguments, and patterns of path and query for a rule in a directory."""
    segments, args, kind = directory.split("/")[1:], rule.args, rule.kind
    if _SPECIAL.search("".join((*segments[: len(segments) > 1], *args))):
        return
    if kind is RuleKind.DROP_VALUE:
        yield "queryRemoval", [args[0].partition("=")[0]], directory, f"?{args[0]}"
    elif kind is RuleKind.DROP_PARAMETERS:
        yield "queryRemoval", [*args], directory, "?" + "&".join(f"{name}=*" for name in args)
    else:
        last = len(segments) + bool(segments[-1])
        for place in [0] if kind is RuleKind.DROP_LEADING else range(1, last):
            path = "/".join(["", *segments[:place], *args, *segments[place:]])
            yield "subpathRemoval", [*range(place, place + len(args))], path, ""


# The newest; 2.5 KB each.
_PAGES_OF_SITE = 2**15
_PAGES_PER_READ = 1_000
_PAIRS_SHOWN = 3


def find_rules(config: Config) -> list[FoundRule]:
    """Find the rules that the stored pages propose, those that are proven first."""
    found = [each for pages in _read_sites(config) for each in learn(pages)]
    return sorted(found, key=lambda each: (not each.directories, -len(each.votes), str(each.rule)))


def _read_sites(config: Config) -> Iterator[list[StoredDocument]]:
    """Read the pages of each site, in the order in which they arrived."""

    def work(stored: Documents) -> dict[str, deque[int]]:
        sites: defaultdict[str, deque[int]] = defaultdict(partial(deque, maxlen=_PAGES_OF_SITE))
        for number, record in stored:
            parts = split_url(record.facts.url)
            if parts is not None:
                sites[find_site(parts.netloc)].append(number)
        return sites

    with open_as_it_is(config.store) as store:
        for numbers in store.read(work).values():
            read = map(store.get_documents, cut(numbers, _PAGES_PER_READ))
            yield [page for pages in read for page in pages.values()]


def describe(found: FoundRule, shown: set[tuple[str, str]]) -> dict[str, Any]:
    """Describe a rule and the votes on it, ready for JSON; adds the pairs to those `shown`."""
    pairs: dict[Outcome, list[tuple[str, str]]] = {outcome: [] for outcome in Outcome}
    for vote in found.votes:
        pairs[vote.outcome].append((vote.page.document.facts.url, vote.kept.document.facts.url))
    counts = {outcome.name.lower(): len(each) for outcome, each in pairs.items()}
    same = [pair for pair in pairs[Outcome.SAME] if pair not in shown][:_PAIRS_SHOWN]
    shown.update(same)
    return {
        "rule": str(found.rule),
        "directories": list(found.directories),
        **counts,
        "lower_bound": round(lower_bound(counts["same"], counts["different"]), 4),
        "pairs_different": pairs[Outcome.DIFFERENT][-_PAIRS_SHOWN:],
        "pairs_same": same,
    }
