"""The rules that act, in memory: where they lead a request."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

import xxhash

from scrapy_simhash.pages.addresses import Address, format_address, parse_address
from scrapy_simhash.urls.applying import RulesOfHost

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from scrapy_simhash.urls.rules import UrlRule

# The beginning of nearly every address, with its host as it is the key of the host's rules.
_PLAIN = re.compile(r"https?://([a-z0-9._-]+)/")
# Rules one after the other; more are taken for a circle.
MOST_STEPS = 4


class Target(NamedTuple):
    """The normal form that rules make of an address.

    Attributes:
        form: an address.
        rules: ids of the rules that it takes, in their order.
    """

    form: str
    rules: tuple[str, ...]


class ActingRules:
    """The rules that act, by host; for a host that has none, a question is one look into a dict."""

    def __init__(self, rules: Iterable[UrlRule]) -> None:
        by_host: defaultdict[str, list[UrlRule]] = defaultdict(list)
        for rule in rules:
            for host in rule.hosts:  # an alias matters to the pages of the host that it leads to
                by_host[host] += [rule] * (host == rule.host)
        self._hosts = {host: RulesOfHost(some) for host, some in by_host.items()}

    @property
    def hosts(self) -> Collection[str]:
        """The hosts that have rules, or to which an alias leads."""
        return self._hosts.keys()

    def __len__(self) -> int:
        return sum(len(host.rules) for host in self._hosts.values())

    def find_target(self, url: str) -> Target | None:
        """Find the normal form of an address, if that is another one.

        A chain of rules is followed to its end, if that comes within four steps. None for an
        address that no rule may judge: a broken one, one with credentials, a monstrous one.
        """
        found = self._follow(url)
        if found is None or not found[1]:
            return None
        return Target(format_address(found[0]), tuple([rule.id for rule in found[1]]))

    def find_form(self, url: str) -> str:
        """Get the address to which rules lead from an address; "" where its host has no rules."""
        found = self._follow(url)
        return "" if found is None else format_address(found[0])

    def _follow(self, url: str) -> tuple[Address, list[UrlRule]] | None:
        """Apply rules until none changes the address any more; None where its host has none."""
        plain = _PLAIN.match(url)
        if not self._hosts or (plain is not None and plain[1] not in self._hosts):
            return None  # nearly always; the rest takes twenty times as long
        address = parse_address(url)
        if address is None or address.host not in self._hosts:
            return None
        steps: list[UrlRule] = []
        current = address
        rules: RulesOfHost | None = self._hosts[address.host]
        while rules is not None and (changes := rules.list_changes(current)):
            rule, changed = changes[0]
            # A rule that is wanted again may never be done, and nobody compared what it makes then.
            if len(steps) == MOST_STEPS or rule in steps:
                return address, []
            steps.append(rule)
            current = changed
            rules = self._hosts.get(current.host)
        return current, steps


def name_form(form: str, callback: str) -> bytes:
    """Make the key, 16 bytes, of a normal form for requests of one callback."""
    return xxhash.xxh3_128_digest(f"{form}\n{callback}".encode("utf-8", "surrogatepass"))
