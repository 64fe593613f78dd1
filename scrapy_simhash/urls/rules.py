"""Rules by which several addresses of a host lead to one page.

A rule is right as far as pages whose addresses it maps to one *form* are the same page. As text it
is `HOST KIND [ARGUMENT...]`, such as `example.com drop-parameter sid`. It holds in *directories*.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import NamedTuple

from scrapy_simhash.pages.addresses import SESSION, Address, split_pair


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
