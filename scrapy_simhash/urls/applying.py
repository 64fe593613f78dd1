"""Apply URL rules to addresses: what one rule makes of them, and where those that act lead."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import xxhash

from scrapy_simhash.pages.addresses import (
    SESSION,
    Address,
    format_address,
    parse_address,
    split_pair,
)
from scrapy_simhash.urls.rules import RuleKind, UrlRule

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from scrapy_simhash.judging.documents import Reader


def apply_rule(rule: UrlRule, address: Address) -> Address:
    """Get the normal form of an address; the same object where the rule leaves it alone."""
    # A host alias aside, rules of other hosts must not be asked.
    if rule.exceptions and is_excepted(rule.exceptions, address):
        return address
    return _FUNCTIONS[rule.kind](address, rule.args)


def explains(rule: UrlRule, addresses: Iterable[Address | None]) -> bool:
    """Whether a rule makes one address of some; None stands for one that no rule may judge."""
    forms = {
        apply_rule(rule, address) if address and address.host == rule.host else address
        for address in addresses
    }
    return len(forms) == 1


def is_loose(rule: UrlRule, address: Address) -> bool:
    """Whether an address has some parameters of a rule on those that occur together, not all."""
    if rule.kind is not RuleKind.DROP_PARAMETERS:
        return False
    missing = set(rule.args) - {split_pair(pair)[0] for pair in address.query}
    return 0 < len(missing) < len(rule.args)


def may_change(rule: UrlRule, url: str) -> bool:
    """Whether a rule might change an address: False is certain, and does not cut it into parts."""
    return (rule.kind not in _ENDINGS and rule.kind is not RuleKind.DROP_MATRIX) or all(
        split_pair(each)[0] in url for each in rule.args
    )


def is_excepted(exceptions: Iterable[str], address: Address) -> bool:
    """Whether one of the exceptions of a rule covers an address."""
    path = "/" + "/".join(address.path)
    return any(
        path.startswith(each) if each.startswith("/") else each in address.query
        for each in exceptions
    )


def _with_query(address: Address, query: tuple[str, ...]) -> Address:
    if len(query) == len(address.query):
        return address
    return Address(address.scheme, address.host, address.path, query)


def _with_path(address: Address, path: tuple[str, ...]) -> Address:
    if path == address.path:
        return address
    return Address(address.scheme, address.host, path or ("",), address.query)


def _drop_value(address: Address, args: tuple[str, ...]) -> Address:
    dropped = args[0]
    return _with_query(address, tuple([pair for pair in address.query if pair != dropped]))


def _drop_parameter(address: Address, args: tuple[str, ...]) -> Address:
    start = args[0] + "="
    return _with_query(
        address, tuple([pair for pair in address.query if not pair.startswith(start)])
    )


def _drop_parameters(address: Address, args: tuple[str, ...]) -> Address:
    if not {split_pair(pair)[0] for pair in address.query}.issuperset(args):
        return address
    kept = [pair for pair in address.query if split_pair(pair)[0] not in args]
    return _with_query(address, tuple(kept))


def _drop_matrix(address: Address, args: tuple[str, ...]) -> Address:
    name = args[0]
    path = tuple(
        ";".join(
            part
            for place, part in enumerate(segment.split(";"))
            if not place or part.partition("=")[0] != name
        )
        if ";" in segment
        else segment
        for segment in address.path
    )
    return _with_path(address, path)


def _drop_session(address: Address, _: tuple[str, ...]) -> Address:
    kept = [segment for segment in address.path if not SESSION.fullmatch(segment)]
    return _with_path(address, tuple(kept))


def _strip_slash(address: Address, _: tuple[str, ...]) -> Address:
    path = address.path
    if len(path) < 2 or path[-1]:  # noqa: PLR2004  # the root keeps its slash
        return address
    return _with_path(address, path[:-1])


def _strip_index(address: Address, args: tuple[str, ...]) -> Address:
    if address.path[-1] != args[0]:
        return address
    return _with_path(address, (*address.path[:-1], ""))


def _fold_case(address: Address, _: tuple[str, ...]) -> Address:
    return _with_path(address, tuple([segment.lower() for segment in address.path]))


def _drop_repeated(address: Address, _: tuple[str, ...]) -> Address:
    return _with_query(address, tuple(dict.fromkeys(address.query)))


def _host_alias(address: Address, args: tuple[str, ...]) -> Address:
    scheme, found, host = args[0].rpartition("://")
    return address._replace(scheme=scheme if found else address.scheme, host=host)


def _use_https(address: Address, _: tuple[str, ...]) -> Address:
    return address if address.scheme == "https" else address._replace(scheme="https")


def _drop_leading(address: Address, args: tuple[str, ...]) -> Address:
    if address.path[: len(args)] != args:
        return address
    return _with_path(address, address.path[len(args) :])


def _drop_segments(address: Address, args: tuple[str, ...]) -> Address:
    path, size = address.path, len(args)
    for place in range(len(path) - size + 1):
        if path[place : place + size] == args:
            return _with_path(address, path[:place] + path[place + size :])
    return address


_Function: TypeAlias = Callable[[Address, tuple[str, ...]], Address]
_FUNCTIONS: dict[RuleKind, _Function] = {
    RuleKind.DROP_VALUE: _drop_value,
    RuleKind.DROP_PARAMETER: _drop_parameter,
    RuleKind.DROP_PARAMETERS: _drop_parameters,
    RuleKind.DROP_MATRIX: _drop_matrix,
    RuleKind.DROP_SESSION: _drop_session,
    RuleKind.STRIP_SLASH: _strip_slash,
    RuleKind.STRIP_INDEX: _strip_index,
    RuleKind.FOLD_CASE: _fold_case,
    RuleKind.DROP_REPEATED: _drop_repeated,
    RuleKind.HOST_ALIAS: _host_alias,
    RuleKind.USE_HTTPS: _use_https,
    RuleKind.DROP_LEADING: _drop_leading,
    RuleKind.DROP_SEGMENTS: _drop_segments,
}
# An address that a rule changes has a part that is the first argument of the rule with this ending:
# a parameter with its value ("sid=15"), the name of one ("sid="), or a segment.
_ENDINGS = {
    **dict.fromkeys((RuleKind.DROP_PARAMETER, RuleKind.DROP_PARAMETERS), "="),
    **dict.fromkeys((RuleKind.DROP_VALUE, RuleKind.STRIP_INDEX), ""),
    **dict.fromkeys((RuleKind.DROP_LEADING, RuleKind.DROP_SEGMENTS), ""),
}
# What the others need, of the path as a whole and of the parameters.
_SIGNS: dict[RuleKind, Callable[[str, Address], bool]] = {
    RuleKind.STRIP_SLASH: lambda path, _: path.endswith("/"),
    RuleKind.DROP_MATRIX: lambda path, _: ";" in path,
    RuleKind.DROP_SESSION: lambda path, _: "(" in path,
    RuleKind.FOLD_CASE: lambda path, _: path != path.lower(),
    RuleKind.DROP_REPEATED: lambda _, address: len(address.query) > 1,
    RuleKind.USE_HTTPS: lambda _, address: address.scheme == "http",
    RuleKind.HOST_ALIAS: lambda _, __: True,
}


class RulesOfHost:
    """The rules of one host, found by what they need: an address asks only those about it."""

    def __init__(self, rules: Iterable[UrlRule]) -> None:
        # By a part of addresses, see `_ENDINGS`.
        self._by_part: defaultdict[str, list[UrlRule]] = defaultdict(list)
        by_sign: defaultdict[RuleKind, list[UrlRule]] = defaultdict(list)
        for rule in rules:
            if rule.kind in _ENDINGS:
                self._by_part[rule.args[0] + _ENDINGS[rule.kind]].append(rule)
            else:
                by_sign[rule.kind].append(rule)
        self._by_sign = [(_SIGNS[kind], some) for kind, some in by_sign.items()]

    def list_changes(self, address: Address) -> list[tuple[UrlRule, Address]]:
        """List the rules that change an address, each with the normal form."""
        forms = [(rule, apply_rule(rule, address)) for rule in self._list_concerned(address)]
        return [(rule, form) for rule, form in forms if form is not address]

    def _list_concerned(self, address: Address) -> list[UrlRule]:
        """List the rules that may change an address, each once."""
        concerned: list[UrlRule] = []
        if self._by_part:
            # "a=" is the pair without a value and the name.
            names = [pair[: pair.index("=") + 1] for pair in address.query]
            for part in dict.fromkeys((*address.query, *names, *address.path)):
                if part in self._by_part:
                    concerned += self._by_part[part]
        if self._by_sign:
            path = "/".join(address.path)
            for sign, some in self._by_sign:
                if sign(path, address):
                    concerned += some
        return concerned


# The beginning of nearly every address, with its host as it is the key of the host's rules.
_PLAIN = re.compile(r"https?://([a-z0-9._-]+)/")
# Rules one after the other; more are taken for a circle. Chosen, not measured.
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
    """The rules that act, by host; for a host that has none, a question is one look into a dict.

    Attributes:
        texts: of the rules, by their ids.
    """

    def __init__(self, rules: Iterable[UrlRule]) -> None:
        self.texts: dict[str, str] = {}
        by_host: defaultdict[str, list[UrlRule]] = defaultdict(list)
        for rule in rules:
            self.texts[rule.id] = rule.text
            for host in rule.hosts:  # an alias matters to the pages of the host that it leads to
                by_host[host] += [rule] * (host == rule.host)
        self._hosts = {host: RulesOfHost(some) for host, some in by_host.items()}

    @property
    def hosts(self) -> Collection[str]:
        """The hosts that have rules, or to which an alias leads."""
        return self._hosts.keys()

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


def name_form(form: str, reader: Reader) -> bytes:
    """Make the key, 16 bytes, of a normal form for requests of one reader."""
    return xxhash.xxh3_128_digest("\n".join((form, *reader)).encode("utf-8", "surrogatepass"))
