"""When a rule is proven, and what is left of one that is not.

The votes of a rule are a sample of the pairs of pages that it makes one. It may act when the lower
bound of Wilson's one-sided 95 % interval (Wilson 1927) for the share of `same` among `same` and
`different` reaches `CONFIDENCE`.

Who looks at every vote whether it is enough by now is right too often by chance. So rules are
tested when all votes are counted, each time that a site has grown by half or more.
"""

from __future__ import annotations

import math
import posixpath
from functools import lru_cache
from itertools import count
from typing import TYPE_CHECKING

from msgspec import structs

from scrapy_simhash._printable import plural
from scrapy_simhash.pages.addresses import Address, parse_address, split_pair
from scrapy_simhash.urls.applying import apply_rule, explains
from scrapy_simhash.urls.rules import MOST_EXCEPTIONS, RuleKind, UrlRule, UrlRuleRecord

if TYPE_CHECKING:
    from collections.abc import Sequence

# A rule may act when the lower bound of its share of `same` reaches this. Without a `different` it
# takes 25 votes; .8 takes 11, .95 takes 52. On the example and on three seeds of
# `benchmarks/urlsite.py` no rule acts that is wrong.
CONFIDENCE = 0.9
# The 95 % quantile of the normal distribution, for a one-sided interval.
Z = 1.6449
# On these seeds, with 160 articles, 1 or 2 let the same rules act; with 5 a third does not.
LEAST_DIRECTORIES = 3
# One value of a parameter, such as `format=print`, says nothing of the others: with 1 two rules act
# there besides; 2 and 5 let the same ones act as 3.
LEAST_VALUES = 3
# Two hosts are two sites until much says otherwise.
_DOUBTED = {RuleKind.HOST_ALIAS, RuleKind.USE_HTTPS}
# These drop parameters whatever their values.
_ANY_VALUE = {RuleKind.DROP_PARAMETER, RuleKind.DROP_PARAMETERS}
# With one conflict, whatever it has would be an exception. More were not tried.
LEAST_CONFLICTS = 2


def lower_bound(same: int, different: int) -> float:
    """Get the lower bound, 0 to 1, of Wilson's one-sided 95 % interval of same / all votes."""
    votes = same + different
    if not votes:
        return 0.0
    share = same / votes
    square = Z * Z
    spread = Z * math.sqrt(share * (1 - share) / votes + square / (4 * votes * votes))
    return max(0.0, (share + square / (2 * votes) - spread) / (1 + square / votes))


@lru_cache
def count_votes_needed(confidence: float) -> int:
    """Count the votes, all of them `same`, that it takes to reach a confidence, 0 to below 1."""
    return next(votes for votes in count(1) if lower_bound(votes, 0) >= confidence)


def required_bound(rule: UrlRule) -> float:
    """Get the bound that a rule must reach: with half the error where more speaks against it.

    That are host aliases; and rules with exceptions, which were chosen so that votes agree.
    """
    doubted = rule.kind in _DOUBTED or rule.exceptions
    return 1 - (1 - CONFIDENCE) / (2 if doubted else 1)


def is_proven(record: UrlRuleRecord) -> bool:
    """Test whether a rule is proven."""
    votes = record.same + record.different
    bound = required_bound(record.rule)
    varied = len(record.directories) >= LEAST_DIRECTORIES and not _lacks_values(record)
    if votes < _count_due(record, bound) or not varied:
        return False
    return (
        lower_bound(record.same, record.different) >= bound
        and "d" not in record.last_votes
        and not is_doubtful(record)
    )


def _count_due(record: UrlRuleRecord, bound: float) -> int:
    """Count the votes at which a rule may be proven: once retired, it takes half as many again."""
    return max(count_votes_needed(bound), math.ceil(1.5 * record.tested_at))


def _lacks_values(record: UrlRuleRecord) -> bool:
    """Whether too few values of its parameters voted on a rule that drops them all."""
    return record.rule.kind in _ANY_VALUE and len(record.values) < LEAST_VALUES


def list_values(rule: UrlRule, pair: tuple[str, str]) -> list[str]:
    """List the values that two addresses have of the parameters that a rule drops."""
    if rule.kind not in _ANY_VALUE:
        return []
    addresses = [each for each in _parse_pair(pair) if each and each.host == rule.host]
    dropped = [
        "&".join(text for text in each.query if split_pair(text)[0] in rule.args)
        for each in addresses
    ]
    return [text for text in dropped if text]


def list_missing(record: UrlRuleRecord) -> list[str]:
    """List what a rule that is not proven lacks, for people."""
    votes = record.same + record.different
    due = _count_due(record, required_bound(record.rule))
    lacks = {
        f"{plural(due - votes, 'more vote')} until it is tested": votes < due,
        f"votes from {LEAST_DIRECTORIES} directories": len(record.directories) < LEAST_DIRECTORIES,
        f"votes from {LEAST_VALUES} values": _lacks_values(record),
        "a hundred votes without a different one": "d" in record.last_votes,
        "as many same as grey ones": is_doubtful(record),
    }
    return [each for each, lacking in lacks.items() if lacking]


def is_doubtful(record: UrlRuleRecord) -> bool:
    """Whether among the last hundred votes `grey` ones outnumber `same`: nobody can tell."""
    return record.last_votes.count("g") > record.last_votes.count("s")


def split_rule(
    rule: UrlRule, conflicts: Sequence[tuple[str, str]], examples: Sequence[tuple[str, str]]
) -> UrlRule | None:
    """Make the rule that leaves out what all conflicts of a rule have in common, or None.

    That is a parameter with its value, or a folder, which no pair has that voted `same`.

    Args:
        rule: to be narrowed.
        conflicts: all pairs of addresses that voted `different`.
        examples: all that voted `same`.
    """
    if len(conflicts) < LEAST_CONFLICTS or not examples or len(rule.exceptions) >= MOST_EXCEPTIONS:
        return None
    opposing, agreeing = list(map(_parse_pair, conflicts)), list(map(_parse_pair, examples))
    for exception in _list_common(rule, opposing):
        narrowed = structs.replace(rule, exceptions=tuple(sorted({*rule.exceptions, exception})))
        if all(explains(narrowed, pair) for pair in agreeing) and not any(
            explains(narrowed, pair) for pair in opposing
        ):
            return narrowed
    return None


def _parse_pair(pair: tuple[str, str]) -> list[Address | None]:
    return [parse_address(url) for url in pair]


def _list_common(rule: UrlRule, conflicts: list[list[Address | None]]) -> list[str]:
    """List what the addresses have in common that a rule changes, one or both of each conflict."""
    changed = [
        [
            each
            for each in pair
            if each and each.host == rule.host and apply_rule(rule, each) != each
        ]
        for pair in conflicts
    ]
    pairs = set.intersection(*({text for each in pair for text in each.query} for pair in changed))
    paths = [each.path[:-1] for pair in changed for each in pair]
    folders = ["/" + "/".join(path) + "/" for path in paths if path]
    common = posixpath.commonpath(folders) + "/" if len(folders) == len(paths) > 0 else "/"
    # A rule that drops one value would be left with nothing.
    return [*sorted(pairs.difference(rule.args)), *([common] if common != "/" else [])]
