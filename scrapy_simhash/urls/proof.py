"""When a rule is proven, and where.

A rule acts in those directories whose own pages voted `same`, three times at least, and of whose
last hundred votes none was `different`. A single conflict in a directory says that something else
than the directory matters, so the rule acts nowhere; two say that it does not hold there.

All votes of the directories without a conflict are a sample of the pairs of pages that the rule
makes one: the lower bound of Wilson's one-sided 95 % interval (Wilson 1927) for the share of `same`
has to reach `CONFIDENCE`.

Who looks at every vote whether it is enough by now is right too often by chance. So rules are
tested when all votes are counted, each time that a site has grown by half or more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from scrapy_simhash.pages.addresses import parse_address, split_pair
from scrapy_simhash.urls.rules import MOST_DIRECTORIES, RuleKind, UrlRule, UrlRuleRecord

if TYPE_CHECKING:
    from collections.abc import Mapping

# Without a `different` it takes 11 votes, which is all that a small flat site has; .9 takes 25. A
# rule that is proven spares only requests of normal forms that voted themselves.
CONFIDENCE = 0.8
# Two hosts are two sites until much says otherwise: 25 votes.
_CONFIDENCE_OF_HOSTS = 0.9
_HOSTS = {RuleKind.HOST_ALIAS, RuleKind.USE_HTTPS}
# The 95 % quantile of the normal distribution, for a one-sided interval.
Z = 1.6449
# One or two pages may be alike by chance.
LEAST_VOTES = 3
# One value of a parameter, such as `format=print`, says nothing of the others: on the example and
# on three seeds of `benchmarks/urlsite.py` two wrong rules act with 1; 2 and 5 are as 3.
LEAST_VALUES = 3
_RECENT = 100
# These drop parameters whatever their values.
_ANY_VALUE = {RuleKind.DROP_PARAMETER, RuleKind.DROP_PARAMETERS}


@dataclass(slots=True)
class Votes:
    """The votes of a directory: their letters, see `Outcome`, and the values that voted `same`."""

    letters: str = ""
    values: set[str] = field(default_factory=set)

    @property
    def agree(self) -> bool:
        """Whether nothing speaks against the rule here, and most are decided."""
        last = self.letters[-_RECENT:]
        return not self.conflicts and last.count("g") <= last.count("s")

    @property
    def conflicts(self) -> int:
        """How many of the last hundred votes are `different`."""
        return self.letters[-_RECENT:].count("d")


def lower_bound(same: int, different: int) -> float:
    """Get the lower bound, 0 to 1, of Wilson's one-sided 95 % interval of same / all votes."""
    votes = same + different
    if not votes:
        return 0.0
    share = same / votes
    square = Z * Z
    spread = Z * math.sqrt(share * (1 - share) / votes + square / (4 * votes * votes))
    return max(0.0, (share + square / (2 * votes) - spread) / (1 + square / votes))


def choose_directories(rule: UrlRule, votes: Mapping[str, Votes]) -> tuple[str, ...]:
    """Choose the directories in which a rule is proven, those with most votes first; or none."""
    agreeing = {name: some for name, some in votes.items() if some.agree}
    letters = "".join(some.letters for some in agreeing.values())
    values = set[str]().union(*(some.values for some in agreeing.values()))
    needed = _CONFIDENCE_OF_HOSTS if rule.kind in _HOSTS else CONFIDENCE
    strays = any(some.conflicts == 1 for some in votes.values())
    if strays or lower_bound(letters.count("s"), letters.count("d")) < needed:
        return ()
    if rule.kind in _ANY_VALUE and len(values) < LEAST_VALUES:
        return ()
    same = {name: some.letters.count("s") for name, some in agreeing.items()}
    proven = [name for name, number in same.items() if number >= LEAST_VOTES]
    return tuple(sorted(proven, key=lambda name: (-same[name], name))[:MOST_DIRECTORIES])


def list_values(rule: UrlRule, pair: tuple[str, str]) -> set[str]:
    """List the values that two addresses have of the parameters that a rule drops."""
    addresses = [address for address in map(parse_address, pair) if address is not None]
    dropped = [
        "&".join(text for text in address.query if split_pair(text)[0] in rule.args)
        for address in addresses
        if rule.kind in _ANY_VALUE and address.host == rule.host
    ]
    return set(filter(None, dropped))


def describe_missing(record: UrlRuleRecord) -> str:
    """Say for people what a rule lacks that is not proven."""
    needed = _CONFIDENCE_OF_HOSTS if record.rule.kind in _HOSTS else CONFIDENCE
    votes = math.ceil(needed * Z * Z / (1 - needed))
    values = f" with {LEAST_VALUES} values" if record.rule.kind in _ANY_VALUE else ""
    return (
        f"{votes} votes that are the same{values}, {LEAST_VOTES} of them in one directory, and no "
        "different one in theirs"
    )
