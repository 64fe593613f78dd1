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
from typing import NamedTuple
from urllib.parse import unquote

import msgspec
import xxhash

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


class RuleState(StrEnum):
    """What a rule may do."""

    LEARNING = "learning"  #: Collects votes.
    ACTING = "acting"  #: Is proven: requests are parked.
    PINNED = "pinned"  #: Acts because a person said so, whatever its votes.
    BANNED = "banned"  #: Never acts because a person said so, whatever its votes.
    RETIRED = "retired"  #: A page refuted it, or a person: it does not act until a person says so.


ACTS = {RuleState.ACTING, RuleState.PINNED}
# How many arguments each kind takes, at least and at most.
_ARGUMENTS = {
    **dict.fromkeys(RuleKind, (1, 1)),
    RuleKind.DROP_PARAMETERS: (2, 5),
    RuleKind.DROP_SESSION: (0, 0),
    RuleKind.STRIP_SLASH: (0, 0),
    RuleKind.FOLD_CASE: (0, 0),
    RuleKind.DROP_REPEATED: (0, 0),
    RuleKind.USE_HTTPS: (0, 0),
    RuleKind.DROP_LEADING: (1, 4),
    RuleKind.DROP_SEGMENTS: (1, 4),
}


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

    @cached_property
    def key(self) -> bytes:
        """XXH3-64 of the text: 8 bytes, the key of its row in the table `rules`."""
        return xxhash.xxh3_64_digest(self.text.encode())

    @cached_property
    def id(self) -> str:
        """The key as 16 hex digits."""
        return self.key.hex()


def parse_rule(text: str) -> UrlRule:
    """Read a rule as text.

    Raises:
        ValueError: it is none; says why.
    """
    host, _, rest = text.strip().partition(" ")
    name, *words = rest.split() or [""]
    if name not in set(RuleKind):
        raise ValueError(
            f"URL rule {text!r}: {name!r} is no kind of rule; write `HOST KIND ARGUMENT...`, with "
            f"a kind of {', '.join(RuleKind)}"
        )
    rule = UrlRule(RuleKind(name), host.lower(), tuple(map(unquote, words)))
    check_rule(rule)
    return rule


def parse_rules(text: str) -> list[UrlRule]:
    """Read rules, one a line; a line that begins with `#` is a comment.

    Raises:
        ValueError: one of them is no rule, or there is none.
    """
    rules: dict[UrlRule, None] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.lstrip().startswith("#"):
            try:
                rules[parse_rule(line)] = None
            except ValueError as error:
                raise ValueError(f"line {number}: {error}") from None
    if not rules:
        raise ValueError("has no rule; write one a line, such as example.com drop-parameter sid")
    return [*rules]


def check_rule(rule: UrlRule) -> None:
    """Raise a ValueError unless a rule can be applied."""
    least, most = _ARGUMENTS[rule.kind]
    wrong = ""
    if not _is_host(rule.host):
        wrong = f"{rule.host!r} is no host"
    elif not least <= len(rule.args) <= most or not all(rule.args):
        number = f"{least}" if least == most else f"{least} to {most}"
        wrong = f"{rule.kind} takes {number} arguments, got {len(rule.args)}"
    elif rule.kind is RuleKind.DROP_VALUE and "=" not in rule.args[0]:
        wrong = f"{rule.args[0]!r} is no name=value"
    elif rule.kind is RuleKind.HOST_ALIAS and (alias := _check_alias(rule)):
        wrong = alias
    if wrong:
        raise ValueError(f"URL rule {rule.text!r}: {wrong}")


def _is_host(host: str) -> bool:
    return bool(host) and host == host.lower() and not set(host) & set("/?#@\\ ")


def _check_alias(rule: UrlRule) -> str:
    """Say what is wrong with the host that an alias leads to; "" if nothing is."""
    scheme, _, host = rule.args[0].rpartition("://")
    if scheme not in {"", "http", "https"} or not _is_host(host):
        return f"{rule.args[0]!r} is no host"
    return "leads to its own host" if host == rule.host else ""


def _escape(word: str) -> str:
    """Escape a word of a rule's text."""
    return "".join(
        "".join(f"%{octet:02X}" for octet in letter.encode())
        if letter == "%" or letter.isspace() or not letter.isprintable()
        else letter
        for letter in word
    )


class ActingRule(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """A rule that acts, and the directories where it does; without any it does everywhere."""

    rule: UrlRule
    directories: tuple[str, ...] = ()


class UrlRuleRecord(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """A rule with its evidence.

    Attributes:
        rule: what it does.
        state: what it may do.
        same, different, grey: votes: two pages that the rule makes one were one page, were two,
            or are undecided.
        directories: where it is proven, those with most votes first; at most 128.
        conflicts: pairs of addresses that voted `different`; the last 8.
        examples: pairs of addresses that voted `same`; the first 3.
        sampled, sampled_same, sampled_different: pages that were fetched although the rule acts.
        history: when and why it changed its state: seconds since 1970, state, reason; the last 16.
        created: seconds since 1970, UTC.
        imported: from a rule file.
    """

    rule: UrlRule
    state: RuleState = RuleState.LEARNING
    same: int = 0
    different: int = 0
    grey: int = 0
    directories: tuple[str, ...] = ()
    conflicts: tuple[tuple[str, str], ...] = ()
    examples: tuple[tuple[str, str], ...] = ()
    sampled: int = 0
    sampled_same: int = 0
    sampled_different: int = 0
    history: tuple[tuple[float, RuleState, str], ...] = ()
    created: float = 0.0
    imported: bool = False

    @property
    def acts(self) -> bool:
        """Whether requests are parked by it."""
        return self.state in ACTS

    @property
    def acting(self) -> ActingRule:
        """Where it acts, as crawls read it."""
        pinned = self.state is RuleState.PINNED
        return ActingRule(self.rule, () if pinned else self.directories)

    def become(self, state: RuleState, reason: str, time: float) -> RuleChange:
        """Change the state, and note when and why."""
        self.state = state
        self.history = (*self.history, (time, state, reason))[-MOST_HISTORY:]
        return RuleChange(self.rule.id, self.rule.text, state, reason)


class RuleChange(NamedTuple):
    """What learning changed, for log and signals.

    Attributes:
        rule: id of the rule.
        text: the rule.
        state: its state now. A `pinned` one stays so, and was found wrong.
        reason: for people.
    """

    rule: str
    text: str
    state: RuleState
    reason: str

    @property
    def acts(self) -> bool:
        """Whether it acts now."""
        return self.state in ACTS
