"""The rules that act, in memory: where they lead a request."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from scrapy_simhash.judging.urls.addresses import Address, format_address, parse_address
from scrapy_simhash.judging.urls.applying import RulesOfHost

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy_simhash.judging.urls.records import UrlRule

# The beginning of nearly every address, with its host as it is the key of the host's rules.
_PLAIN = re.compile(r"https?://([a-z0-9._-]+)/")
# Rules one after the other; more are taken for a circle.
MOST_STEPS = 4


class Target(NamedTuple):
    """A normal form that rules make of an address.

    Attributes:
        form: an address.
        rules: ids of the rules that it takes, in their order; `find_form` wants the last one.
    """

    form: str
    rules: tuple[str, ...]


class ActingRules:
    """The rules that act, by host; for a host that has none, a question is one look into a dict."""

    def __init__(self, rules: Iterable[UrlRule]) -> None:
        by_host: defaultdict[str, list[UrlRule]] = defaultdict(list)
        for rule in rules:
            by_host[rule.host].append(rule)
        self._hosts = {host: RulesOfHost(some) for host, some in by_host.items()}

    def __len__(self) -> int:
        return sum(len(host.rules) for host in self._hosts.values())

    def list_targets(self, url: str) -> list[Target]:
        """List the normal forms other than the address itself: of each rule, and of all of them.

        A chain of rules is followed to its end, if that comes within four steps. Empty for an
        address that no rule may judge: a broken one, one with credentials, a monstrous one.
        """
        plain = _PLAIN.match(url)
        if not self._hosts or (plain is not None and plain[1] not in self._hosts):
            return []  # nearly always; the rest takes twenty times as long
        address = parse_address(url)
        rules = self._hosts.get(address.host) if address is not None else None
        if address is None or rules is None:
            return []
        changes = rules.list_changes(address)
        targets = [Target(format_address(form), (rule.id,)) for rule, form in changes]
        if changes:
            final, steps = follow(rules, address, self._hosts, changes)
            if len(steps) > 1:
                ids = tuple([rule.id for rule in steps])
                targets.append(Target(format_address(final), ids))
        return targets


def follow(
    rules: RulesOfHost,
    address: Address,
    others: dict[str, RulesOfHost] | None = None,
    changes: list[tuple[UrlRule, Address]] | None = None,
) -> tuple[Address, list[UrlRule]]:
    """Apply rules until none changes the address any more.

    Args:
        rules: of the host of the address.
        address: to begin with.
        others: the rules of other hosts, to which aliases lead.
        changes: what `rules` say of the address, if that is known.

    Returns:
        The last address and the rules that it took, in their order. The address as it was, and no
        rules, where four different ones do not come to an end.
    """
    steps: list[UrlRule] = []
    current, at = address, rules
    if changes is None:
        changes = rules.list_changes(address)
    while changes:
        rule, current = changes[0]
        # A rule that is wanted again may never be done, and nobody compared what it makes then.
        if len(steps) == MOST_STEPS or rule in steps:
            return address, []
        steps.append(rule)
        if current.host != rule.host:
            at = (others or {}).get(current.host) or RulesOfHost(())
        changes = at.list_changes(current)
    return current, steps
