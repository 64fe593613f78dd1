"""What a store keeps of URL rules: the rules, their evidence, and the requests they saved.

A rule is a function on the addresses of one host. It is right as far as pages whose addresses it
maps to one *normal form* are the same page. As text, which people see and type, a rule is

::

    HOST KIND [ARGUMENT...]

such as `example.com drop-parameter sid`. Spaces and `%` within an argument are escaped as `%20` and
`%25`. A rule acts in the directories where it was proven, see `urls.applying.find_directory`; one
that a person pinned acts everywhere on its host.
"""

from __future__ import annotations

from enum import StrEnum
from functools import cached_property

import msgspec

# So that a row stays small, and people read all of it; chosen, not measured.
MOST_CONFLICTS = 8
MOST_EXAMPLES = 3
MOST_HISTORY = 16
MOST_DIRECTORIES = 128


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
    DROP_REPEATED = "drop-repeated"  #: Drops parameters that are there twice with one value.
    HOST_ALIAS = "host-alias"  #: Puts another host in place of this one.
    USE_HTTPS = "use-https"  #: Puts https in place of http.
    DROP_LEADING = "drop-leading"  #: Drops these segments from the beginning of a path.
    DROP_SEGMENTS = "drop-segments"  #: Drops these where they first follow each other in a path.


class UrlRule(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, dict=True):
    """A rule; equal ones have one id.

    Attributes:
        kind: what it does.
        host: of the addresses that it changes, lower case, with a port that is not the default.
        args: parameters, segments and the like, as they stand in addresses.
    """

    kind: RuleKind
    host: str
    args: tuple[str, ...] = ()

    @cached_property
    def text(self) -> str:
        """The rule as people see and type it."""
        return " ".join([self.host, self.kind.value, *map(_escape, self.args)])

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts whose pages vote on the rule: its own, and the one that an alias leads to."""
        if self.kind is RuleKind.HOST_ALIAS:
            return self.host, self.args[0].rpartition("://")[2]
        return (self.host,)


def _escape(word: str) -> str:
    """Escape a word of a rule's text."""
    return "".join(
        "".join(f"%{octet:02X}" for octet in letter.encode())
        if letter == "%" or letter.isspace() or not letter.isprintable()
        else letter
        for letter in word
    )


class UrlRuleRecord(msgspec.Struct):
    """A rule with its evidence.

    Attributes:
        rule: what it does.
        same, different, grey: votes: two pages that the rule makes one were one page, were two,
            or are undecided.
        directories: where it is proven, those with most votes first; at most 128.
        conflicts: pairs of addresses that voted `different`; the last 8.
        examples: pairs of addresses that voted `same`; the first 3.
    """

    rule: UrlRule
    same: int = 0
    different: int = 0
    grey: int = 0
    directories: tuple[str, ...] = ()
    conflicts: tuple[tuple[str, str], ...] = ()
    examples: tuple[tuple[str, str], ...] = ()
