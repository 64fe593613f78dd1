"""Rules by which several addresses of a host lead to one page.

A rule is right as far as pages whose addresses it maps to one *form* are the same page. As text it
is `HOST KIND [ARGUMENT...]`, such as `example.com drop-parameter sid`. It holds in *directories*.
"""

from __future__ import annotations

import re
from enum import StrEnum
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

from scrapy_simhash.pages.addresses import INDEX, SESSION, Address, split_pair

if TYPE_CHECKING:
    from collections.abc import Iterator


class RuleKind(StrEnum):
    """What a rule does to an address; from safe to dangerous."""

    DROP_VALUE = "drop-value"  #: Drops one `name=value`.
    DROP_PARAMETER = "drop-parameter"  #: Drops one parameter, whatever its value.
    DROP_PARAMETERS = "drop-parameters"  #: Drops two to five parameters where all are there.
    DROP_MATRIX = "drop-matrix"  #: Drops `;name=...` from the path.
    DROP_SESSION = "drop-session"  #: Drops segments such as `(S(4tyb0x))`.
    STRIP_SLASH = "strip-slash"  #: Strips the slash at the end of a path.
    STRIP_INDEX = "strip-index"  #: Strips a last segment of this name, `index.html`.
    FOLD_CASE = "fold-case"  #: Makes a path lower-case.
    DROP_LEADING = "drop-leading"  #: Drops these segments from the beginning of a path.
    DROP_SEGMENTS = "drop-segments"  #: Drops these where they first follow each other in a path.


class UrlRule(NamedTuple):
    """A rule on the addresses of a host.

    Attributes:
        kind: what it does.
        host: lower case, with a port that is not the default.
        args: parameters, segments and the like, as they stand in addresses.
    """

    kind: RuleKind
    host: str
    args: tuple[str, ...] = ()

    def __str__(self) -> str:
        return " ".join([self.host, self.kind.value, *self.args])

    def apply(self, address: Address) -> Address:
        """Return the form of an address of the host, equal to it where nothing is to be changed."""
        path, query, args = address.path, address.query, self.args
        match self.kind:
            case RuleKind.DROP_VALUE:
                query = tuple(pair for pair in query if pair != args[0])
            case RuleKind.DROP_PARAMETER | RuleKind.DROP_PARAMETERS:
                if {split_pair(pair)[0] for pair in query}.issuperset(args):
                    query = tuple(pair for pair in query if split_pair(pair)[0] not in args)
            case RuleKind.DROP_MATRIX:
                named = f";{re.escape(args[0])}(=[^;]*)?(?=;|$)"
                path = tuple(re.sub(named, "", segment) for segment in path)
            case RuleKind.DROP_SESSION:
                path = tuple(segment for segment in path if not SESSION.fullmatch(segment))
            case RuleKind.STRIP_SLASH:
                path = path if path[-1] else path[:-1]  # the root keeps its slash
            case RuleKind.STRIP_INDEX:
                path = (*path[:-1], "") if path[-1] == args[0] else path
            case RuleKind.FOLD_CASE:
                path = tuple(map(str.lower, path))
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
