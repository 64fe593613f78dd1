"""Candidates: the rules that would explain why two addresses lead to one page.

A rule leads from the address with more to the one with less: fewer parameters, a shorter path. So
no two candidates of one pair undo each other.
"""

from __future__ import annotations

import re
from itertools import takewhile
from typing import TYPE_CHECKING

from scrapy_simhash.pages.addresses import INDEX, SESSION, Address, split_pair
from scrapy_simhash.urls.rules import RuleKind, UrlRule

if TYPE_CHECKING:
    from collections.abc import Iterator

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
        yield UrlRule(RuleKind.DROP_PARAMETER, host, (differ[0],))
    # Several free parameters only where they come and go together.
    elif len(differ) <= MOST_TOGETHER and all(not some or some == {*differ} for some in names):
        yield UrlRule(RuleKind.DROP_PARAMETERS, host, tuple(differ))


def _relate_paths(host: str, *paths: tuple[str, ...]) -> Iterator[UrlRule]:
    matrix = {part for path in paths for segment in path for part in segment.split(";")[1:]}
    for name in sorted({split_pair(part)[0] for part in matrix}):
        yield UrlRule(RuleKind.DROP_MATRIX, host, (name,))
    if any(SESSION.fullmatch(segment) for path in paths for segment in path):
        yield UrlRule(RuleKind.DROP_SESSION, host)
        return
    shorter, longer = sorted(paths, key=lambda path: (len(path), path))
    if longer == (*shorter, ""):
        yield UrlRule(RuleKind.STRIP_SLASH, host)
    elif longer[:-1] == shorter[:-1] and not shorter[-1] and INDEX.fullmatch(longer[-1]):
        yield UrlRule(RuleKind.STRIP_INDEX, host, (longer[-1],))
    elif len(longer) == len(shorter):
        yield UrlRule(RuleKind.FOLD_CASE, host)
    else:
        yield from _drop_from(host, longer, shorter)


def _drop_from(host: str, longer: tuple[str, ...], shorter: tuple[str, ...]) -> Iterator[UrlRule]:
    """Propose to drop the segments that only the longer path has."""
    start, end = (
        sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(*paths, strict=False)))
        for paths in ((longer, shorter), (longer[::-1], shorter[::-1]))
    )
    end = min(end, len(shorter) - start)
    dropped = longer[start : len(longer) - end]
    if start + end < len(shorter) or len(dropped) > MOST_SEGMENTS or not all(dropped):
        return
    # The last segment names the page, unless it says how the page is shown.
    if end or (len(dropped) == 1 and _VIEW.fullmatch(dropped[0])):
        yield UrlRule(RuleKind.DROP_SEGMENTS if start else RuleKind.DROP_LEADING, host, dropped)
