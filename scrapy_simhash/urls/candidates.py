"""Candidates: the rules that would explain why two addresses lead to one page.

A rule leads from the address with more to the one with less: fewer parameters, a shorter path,
https, the host that the page calls its own. So no two candidates of one pair undo each other.
"""

from __future__ import annotations

import re
from itertools import takewhile
from typing import TYPE_CHECKING

from scrapy_simhash.pages.addresses import INDEX, SESSION, Address, parse_address, split_pair
from scrapy_simhash.pages.scopes import are_one_site
from scrapy_simhash.urls.applying import explains
from scrapy_simhash.urls.rules import RuleKind, UrlRule

if TYPE_CHECKING:
    from collections.abc import Iterator

# These three are not measured. A value that is a switch or a start has a few characters; one of a
# session has many, and would be another candidate on every page.
MOST_VALUE = 16
# CFID and CFTOKEN; the parameters of a campaign.
MOST_TOGETHER = 5
MOST_SEGMENTS = 4
# A last segment that says how a page is shown: "amp", "print", "index_print".
_VIEW = re.compile(r"[A-Za-z][A-Za-z_-]{1,15}")


def find_candidates(url: str, other: str, canonical: str = "") -> list[UrlRule]:
    """List the rules that make one address of two, safest first; none where they differ in more.

    Args:
        url: of a page.
        other: of a page that is the same.
        canonical: what one of them calls its address; it decides which of two is the normal form
            where nothing else does.
    """
    first, second = parse_address(url), parse_address(other)
    if first is None or second is None or first == second:
        return []
    named = parse_address(canonical) if canonical else None
    rules = list(_propose(first, second, named))
    # Not all that is proposed does it: a segment may occur twice.
    return [rule for rule in rules if explains(rule, (first, second))]


def _propose(first: Address, second: Address, named: Address | None) -> Iterator[UrlRule]:
    """Propose rules for two addresses that differ in one of their parts."""
    if (first.scheme, first.host) != (second.scheme, second.host):
        # Who mirrors another site could choose what stands for the pages that were not copied.
        if first[2:] == second[2:] and are_one_site(first.host, second.host):
            yield _relate_hosts(first, second, named)
    elif first.path == second.path:
        yield from _relate_queries(first.host, first.query, second.query)
    elif first.query == second.query:
        yield from _relate_paths(first, second)


def _relate_hosts(first: Address, second: Address, named: Address | None) -> UrlRule:
    """Make the rule for two places of one path and query."""

    def rank(address: Address) -> tuple[bool, bool, int, str]:
        own = named is not None and address[:2] == named[:2]
        return not own, address.scheme != "https", len(address.host), address.host

    kept, given = sorted((first, second), key=rank)
    if kept.host == given.host:
        # Whatever pages say: nobody goes back to http.
        return UrlRule(RuleKind.USE_HTTPS, kept.host)
    scheme = "" if kept.scheme == given.scheme else f"{kept.scheme}://"
    return UrlRule(RuleKind.HOST_ALIAS, given.host, (scheme + kept.host,))


def _relate_queries(
    host: str, first: tuple[str, ...], second: tuple[str, ...]
) -> Iterator[UrlRule]:
    """Propose rules for the parameters in which two queries differ."""
    if set(first) == set(second):
        yield UrlRule(RuleKind.DROP_REPEATED, host)
        return
    alone = [sorted(set(first) - set(second)), sorted(set(second) - set(first))]
    names = [{split_pair(pair)[0] for pair in pairs} for pairs in alone]
    differ = sorted(names[0] | names[1])
    if not all(differ):
        return
    if len(differ) == 1:
        pairs = alone[0] or alone[1]
        one_sided = not (alone[0] and alone[1]) and len(pairs) == 1
        if one_sided and len(split_pair(pairs[0])[1]) <= MOST_VALUE:
            yield UrlRule(RuleKind.DROP_VALUE, host, (pairs[0],))
        yield UrlRule(RuleKind.DROP_PARAMETER, host, (differ[0],))
    # Several free parameters only where they come and go together.
    elif len(differ) <= MOST_TOGETHER and all(not some or some == set(differ) for some in names):
        yield UrlRule(RuleKind.DROP_PARAMETERS, host, tuple(differ))


def _relate_paths(first: Address, second: Address) -> Iterator[UrlRule]:
    """Propose rules for two paths of one host."""
    host = first.host
    if any(";" in segment for segment in (*first.path, *second.path)):
        yield from _relate_matrices(host, first.path, second.path)
    if any(SESSION.fullmatch(segment) for segment in (*first.path, *second.path)):
        yield UrlRule(RuleKind.DROP_SESSION, host)
        return
    longer, shorter = sorted((first.path, second.path), key=len, reverse=True)
    if longer == (*shorter, ""):
        yield UrlRule(RuleKind.STRIP_SLASH, host)
    elif len(longer) == len(shorter) and longer[:-1] == shorter[:-1]:
        for name, empty in ((longer[-1], shorter[-1]), (shorter[-1], longer[-1])):
            if not empty and INDEX.fullmatch(name):
                yield UrlRule(RuleKind.STRIP_INDEX, host, (name,))
    if tuple(map(str.lower, first.path)) == tuple(map(str.lower, second.path)):
        yield UrlRule(RuleKind.FOLD_CASE, host)
    elif len(longer) > len(shorter):
        yield from _drop_from(host, longer, shorter)


def _relate_matrices(
    host: str, first: tuple[str, ...], second: tuple[str, ...]
) -> Iterator[UrlRule]:
    """Propose to drop a matrix parameter in which two paths differ."""
    parts = [
        {part for segment in path for part in segment.split(";")[1:]} for path in (first, second)
    ]
    names = {split_pair(part)[0] for part in parts[0] ^ parts[1]}
    if len(names) == 1 and all(names):
        yield UrlRule(RuleKind.DROP_MATRIX, host, tuple(names))


def _drop_from(host: str, longer: tuple[str, ...], shorter: tuple[str, ...]) -> Iterator[UrlRule]:
    """Propose to drop the segments that only the longer path has."""
    start = _count_common(longer, shorter)
    end = min(_count_common(longer[::-1], shorter[::-1]), len(shorter) - start)
    if start + end < len(shorter):
        return
    dropped = longer[start : len(longer) - end]
    if len(dropped) > MOST_SEGMENTS or not all(dropped):
        return
    # The last segment names the page, unless it says how the page is shown.
    if not end and not (len(dropped) == 1 and _VIEW.fullmatch(dropped[0])):
        return
    kind = RuleKind.DROP_SEGMENTS if start else RuleKind.DROP_LEADING
    yield UrlRule(kind, host, dropped)


def _count_common(first: tuple[str, ...], second: tuple[str, ...]) -> int:
    """Count the segments with which two paths begin alike."""
    pairs = zip(first, second, strict=False)
    return len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))
