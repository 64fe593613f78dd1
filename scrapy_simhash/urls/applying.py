"""Apply URL rules to addresses: what one rule makes of them, and where those that act lead."""

from __future__ import annotations

import re
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
from scrapy_simhash.urls.rules import ActingRule, RuleKind, UrlRule

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy_simhash.judging.documents import Reader


def apply_rule(rule: UrlRule, address: Address) -> Address:
    """Get the normal form of an address; the same object where the rule leaves it alone."""
    # A host alias aside, rules of other hosts must not come here.
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
# A longer one is the end of a name, not a kind of page.
_ENDING = re.compile(r"\.[A-Za-z][A-Za-z0-9]{0,4}")


def find_directory(address: Address) -> str:
    """Get the directory of an address: its first folder, its depth, and the ending of its name.

    >>> [find_directory(parse_address(f"http://a.example{path}")) for path in ("/", "/x?id=1",
    ...  "/x.html", "/tag/love/", "/2.4/en/mod/core.html")]
    ['/', '/*', '/*.html', '/tag/*/', '/2.4/*/*/*.html']
    """
    *folders, name = address.path
    pattern = "/" + "".join(f"{folder}/" for folder in folders[:1]) + "*/" * (len(folders) - 1)
    ending = name.partition(";")[0]
    ending = ending[ending.rfind(".") :] if "." in ending else ""
    return pattern + ("*" + (ending if _ENDING.fullmatch(ending) else "") if name else "")


# The beginning of nearly every address, with its host as it is the key of the host's rules.
_PLAIN = re.compile(r"https?://([a-z0-9._-]+)/")
# Rules one after the other; more count as a circle. Chosen, not measured.
MOST_STEPS = 4


class Target(NamedTuple):
    """The normal form that rules make of an address.

    Attributes:
        form: an address.
        rules: ids of the rules that it takes, in their order.
        directory: of that address.
    """

    form: str
    rules: tuple[str, ...]
    directory: str = ""


class ActingRules:
    """The rules that act, by host; for a host that has none, a question is one look into a dict.

    Attributes:
        texts: of the rules, by their ids.
        pinned: ids of those that act everywhere because a person said so.
    """

    def __init__(self, rules: Iterable[ActingRule]) -> None:
        self.texts: dict[str, str] = {}
        self.pinned: set[str] = set()
        # A rule, what all addresses have that it changes, in lower case, and where it acts.
        self._hosts: dict[str, list[tuple[UrlRule, str, frozenset[str]]]] = {}
        for acting in rules:
            rule = acting.rule
            self.texts[rule.id] = rule.text
            if not acting.directories:
                self.pinned.add(rule.id)
            part = "" if rule.kind is RuleKind.HOST_ALIAS else "".join(rule.args[:1])
            self._hosts.setdefault(rule.host, []).append(
                (rule, part.partition("=")[0].lower(), frozenset(acting.directories))
            )
            for host in rule.hosts:  # an alias matters to the pages of the host that it leads to
                self._hosts.setdefault(host, [])

    def find_target(self, url: str) -> Target | None:
        """Find the normal form of an address, if that is another one.

        A chain of rules is followed to its end, if that comes within four steps. None for an
        address that no rule may judge: a broken one, one with credentials, a monstrous one.
        """
        found = self._follow(url)
        if found is None or not found[1]:
            return None
        form, steps = found
        rules = tuple([rule.id for rule in steps])
        return Target(format_address(form), rules, find_directory(form))

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
        current, lower = address, url.lower()
        while (step := self._step(current, lower)) is not None:
            rule, changed = step
            # A rule that is wanted again may never be done, and nobody compared what it makes then.
            if len(steps) == MOST_STEPS or rule in steps:
                return address, []
            steps.append(rule)
            current = changed
        return current, steps

    def _step(self, address: Address, lower: str) -> tuple[UrlRule, Address] | None:
        """Find the first rule that changes an address, where it acts, and what it makes of it."""
        for rule, part, directories in self._hosts.get(address.host, ()):
            changed = apply_rule(rule, address) if part in lower else address
            if changed is not address and (
                not directories or find_directory(changed) in directories
            ):
                return rule, changed
        return None


def name_form(form: str, reader: Reader) -> bytes:
    """Make the key, 16 bytes, of a normal form for requests of one reader."""
    return xxhash.xxh3_128_digest("\n".join((form, *reader)).encode("utf-8", "surrogatepass"))
