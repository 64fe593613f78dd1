"""Apply URL rules to addresses."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from scrapy_simhash.pages.addresses import (
    SESSION,
    Address,
    split_pair,
)
from scrapy_simhash.urls.rules import RuleKind, UrlRule

if TYPE_CHECKING:
    from collections.abc import Iterable


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

    >>> paths = [("",), ("x",), ("x.html",), ("tag", "love", ""), ("2.4", "en", "mod", "core.html")]
    >>> [find_directory(Address("http", "a.example", path, ())) for path in paths]
    ['/', '/*', '/*.html', '/tag/*/', '/2.4/*/*/*.html']
    """
    *folders, name = address.path
    pattern = "/" + "".join(f"{folder}/" for folder in folders[:1]) + "*/" * (len(folders) - 1)
    ending = name.partition(";")[0]
    ending = ending[ending.rfind(".") :] if "." in ending else ""
    return pattern + ("*" + (ending if _ENDING.fullmatch(ending) else "") if name else "")
