"""Files of URL rules: ours, one rule a line, and those of duplicate-url-discarder.

The latter are read and applied by that package, which is the extra `discarder`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from w3lib.url import canonicalize_url

from scrapy_simhash.pages.addresses import format_address, parse_address
from scrapy_simhash.urls.applying import MOST_STEPS, ActingRules
from scrapy_simhash.urls.rules import RuleKind, UrlRule, parse_rule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from duplicate_url_discarder.rule import UrlRule as DiscarderRule

# Ours, and that of duplicate-url-discarder.
FORMATS = SIMHASH, DUD = "simhash", "dud"
# The curated list of duplicate-url-discarder has 80 kB.
_MOST_BYTES = 64 * 2**20
_HEAD = "# URL rules of scrapy-simhash: HOST KIND [ARGUMENT...] [except EXCEPTION...]\n"


class LeftOut(NamedTuple):
    """A rule that a format cannot say."""

    rule: str
    why: str


class RuleFile(NamedTuple):
    """A file of rules.

    Attributes:
        format: one of `FORMATS`.
        number: of its rules.
        rules: ours; of duplicate-url-discarder's those that we can say.
        left_out: the others.
        apply: makes the normal form of an address, and names the rules that changed it.
    """

    format: str
    number: int
    rules: tuple[UrlRule, ...]
    left_out: tuple[LeftOut, ...]
    apply: Callable[[str], tuple[str, tuple[str, ...]]]


def read_rule_file(path: Path) -> RuleFile:
    """Read a file of rules.

    Raises:
        ValueError: it is none, or its rules contradict each other; says where and why.
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        octets = file.read(_MOST_BYTES + 1)
    if len(octets) > _MOST_BYTES:
        raise ValueError(f"{path}: is larger than {_MOST_BYTES:,} bytes; name a file of rules")
    try:
        text = octets.decode("utf-8-sig")
        read = _read_discarder_file if text.lstrip()[:1] in {"[", "{"} else _read_lines
        return read(text)
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: is no text in UTF-8 (byte {error.start:,})") from None
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _read_lines(text: str) -> RuleFile:
    rules: dict[UrlRule, None] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.lstrip().startswith("#"):
            try:
                rules[parse_rule(line)] = None
            except ValueError as error:
                raise ValueError(f"line {number}: {error}") from None
    if not rules:
        raise ValueError("has no rule; write one a line, such as example.com drop-parameter sid")
    check_rules(rules)
    return RuleFile(SIMHASH, len(rules), tuple(rules), (), make_apply(rules))


def make_apply(rules: Iterable[UrlRule]) -> Callable[[str], tuple[str, tuple[str, ...]]]:
    """Make the function that applies rules to an address; it names the rules by their texts."""
    texts = {rule.id: rule.text for rule in rules}
    acting = ActingRules(rules)

    def apply(url: str) -> tuple[str, tuple[str, ...]]:
        if (target := acting.find_target(url)) is not None:
            return target.form, tuple(texts[rule] for rule in target.rules)
        address = parse_address(url)
        return (format_address(address) if address else url), ()

    return apply


def check_rules(rules: Iterable[UrlRule]) -> None:
    """Raise a ValueError if rules contradict each other, loop, or chain over too many steps."""
    # Rules of all other kinds only leave something out, so they end by themselves.
    aliases: dict[str, UrlRule] = {}
    for rule in rules:
        if rule.kind is RuleKind.HOST_ALIAS:
            other = aliases.setdefault(rule.host, rule)
            if other.args != rule.args:
                raise ValueError(
                    f"two rules contradict each other: {other.text!r} and {rule.text!r}; remove one"
                )
    for start in aliases:
        chain: list[str] = []
        host = start
        while (alias := aliases.get(host)) is not None:
            chain.append(repr(alias.text))
            host = alias.hosts[1]
            if host == start:
                raise ValueError(f"rules lead in a circle: {', '.join(chain)}; remove one of them")
            if len(chain) > MOST_STEPS:
                raise ValueError(
                    f"a chain has more than {MOST_STEPS} steps: {', '.join(chain)}; let each rule "
                    "lead to the end"
                )


def write_lines(rules: Iterable[UrlRule]) -> str:
    """Write rules as a file of ours."""
    return _HEAD + "".join(f"{rule.text}\n" for rule in rules)


def _read_discarder_file(text: str) -> RuleFile:
    try:
        from duplicate_url_discarder import rule as discarder  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise ValueError(
            "has rules of duplicate-url-discarder, which reads them itself and is not installed "
            f"({error}); run: pip install 'scrapy-simhash[discarder]'"
        ) from None
    try:
        loaded = dict.fromkeys(discarder.load_rules(text))
        given = sorted(loaded, key=lambda rule: rule.order)
        apply = _make_discarder(given)
    except json.JSONDecodeError as error:
        raise ValueError(f"is no JSON: {error}") from None
    except Exception as error:  # noqa: BLE001 - whatever the package raises
        raise ValueError(
            f"has no rules that duplicate-url-discarder can read ({type(error).__name__}: "
            f"{error}); our "
            "own files have one rule a line, such as example.com drop-parameter sid"
        ) from None
    if not given:
        raise ValueError("has no rule: it is an empty array")
    rules: dict[UrlRule, None] = {}
    left_out = []
    for rule in given:
        try:
            rules |= dict.fromkeys(_translate(rule))
        except ValueError as error:
            left_out.append(LeftOut(_name_rule(rule), str(error)))
    return RuleFile(DUD, len(given), tuple(rules), tuple(left_out), apply)


def _make_discarder(
    rules: Sequence[DiscarderRule],
) -> Callable[[str], tuple[str, tuple[str, ...]]]:
    """Make the function that applies rules as their package's `UrlCanonicalizer` does."""
    # That one does not say which rules changed a URL.
    from duplicate_url_discarder.processors import get_processor  # noqa: PLC0415 - an extra
    from url_matcher import URLMatcher  # noqa: PLC0415

    processors, matcher = list(map(get_processor, rules)), URLMatcher()
    for place, rule in enumerate(rules):
        matcher.add_or_update(place, rule.url_pattern)

    def apply(url: str) -> tuple[str, tuple[str, ...]]:
        changed: list[str] = []
        try:
            matched = [*matcher.match_all(url, include_universal=False)]
            for place in matched or matcher.match_universal():
                before, url = url, processors[place].process(url)
                if url != before:
                    changed.append(_name_rule(rules[place]))
            url = canonicalize_url(url)  # as the fingerprint of a request does
        except ValueError:
            pass  # a broken URL stands for itself
        return url, tuple(changed)

    return apply


def _name_rule(rule: DiscarderRule) -> str:
    """Name a rule of duplicate-url-discarder for people."""
    where = " ".join(filter(None, rule.url_pattern.include)) or "everywhere"
    return f"{rule.processor} {' '.join(map(str, rule.args))} ({where})".replace("  ", " ")


def _translate(rule: DiscarderRule) -> Iterator[UrlRule]:
    """Say a rule of duplicate-url-discarder by ours; a ValueError says why that is not possible."""
    if rule.processor == "subpathRemoval":
        raise ValueError("it leaves out segments by their place, whatever they are")
    if rule.processor == "queryRemovalExcept":
        raise ValueError("it lets several parameters vary at once")
    include = rule.url_pattern.include
    if not any(include):
        raise ValueError("it is for all hosts; rules of ours are of one")
    if rule.url_pattern.exclude or any(set(pattern) & set("/?#*|:@") for pattern in include):
        raise ValueError("it is for some addresses of a host only; votes of others would refute it")
    for pattern in include:
        host = pattern.lower()
        # A domain of theirs has all its subdomains; of these, most sites have `www` only.
        for name in dict.fromkeys([host, host if host.startswith("www.") else f"www.{host}"]):
            if rule.processor == "queryRemoval":
                for parameter in rule.args:
                    yield UrlRule(RuleKind.DROP_PARAMETER, name, (parameter,))
            else:
                yield UrlRule(RuleKind.STRIP_SLASH, name)
        if rule.processor == "normalizer" and not host.startswith("www."):
            yield UrlRule(RuleKind.HOST_ALIAS, f"www.{host}", (host,))


def write_discarder_rules(rules: Sequence[UrlRule]) -> tuple[str, list[LeftOut]]:
    """Write rules for duplicate-url-discarder; also lists those that its format cannot say."""
    written, left_out = [], []
    for rule in rules:
        try:
            written.append(_describe(rule, rules))
        except ValueError as error:
            left_out.append(LeftOut(rule.text, str(error)))
    text = msgspec.json.format(msgspec.json.encode(written), indent=2).decode()
    return f"{text}\n", left_out


def _describe(rule: UrlRule, rules: Sequence[UrlRule]) -> dict[str, object]:
    """Say a rule of ours in the other format; a ValueError says why that is not possible."""
    host, args = rule.host, rule.args
    if rule.kind is RuleKind.DROP_PARAMETER:
        return _make_discarder_rule("queryRemoval", args, host, f"{host}/", rule.exceptions)
    if rule.kind is RuleKind.DROP_VALUE:
        name = args[0].partition("=")[0]
        return _make_discarder_rule(
            "queryRemoval", [name], host, f"{host}?{args[0]}", rule.exceptions
        )
    if rule.kind is RuleKind.DROP_PARAMETERS:
        where = f"{host}?{'&'.join(f'{name}=' for name in args)}"
        return _make_discarder_rule("queryRemoval", args, host, where, rule.exceptions, "*")
    if rule.kind is RuleKind.DROP_LEADING:
        deeper = (f"/{'/'.join(each)}/" for each in _list_deeper(rule, rules))
        where = f"{host}/{'/'.join(args)}/"
        exceptions = (*rule.exceptions, *deeper)
        places = list(range(len(args)))
        return _make_discarder_rule("subpathRemoval", places, host, where, exceptions)
    if rule.kind is RuleKind.STRIP_SLASH and not host.startswith("www"):
        return _make_discarder_rule("normalizer", [], host, f"{host}/", rule.exceptions)
    raise ValueError(_CANNOT.get(rule.kind, "it has no processor for that"))


def _list_deeper(rule: UrlRule, rules: Sequence[UrlRule]) -> Iterator[tuple[str, ...]]:
    """List the longer beginnings of paths that other rules drop: both rules would apply there."""
    for other in rules:
        longer = len(other.args) > len(rule.args) and other.args[: len(rule.args)] == rule.args
        if longer and (other.host, other.kind) == (rule.host, rule.kind):
            yield other.args


_CANNOT = {
    RuleKind.STRIP_SLASH: "its normalizer would strip www as well, which was not proven",
    RuleKind.HOST_ALIAS: "it has no processor that changes a host, but for www and slash at once",
    RuleKind.DROP_SEGMENTS: "its processor leaves out segments by their place, not by their name",
}


def _make_discarder_rule(
    processor: str,
    args: Sequence[object],
    host: str,
    where: str,
    exceptions: Sequence[str] = (),
    values: str = "",
) -> dict[str, object]:
    """Make a rule for addresses of one host; `values` follows each parameter of the pattern."""
    # A pattern of a host matches the addresses of its `www.`, too.
    exclude = [] if host.startswith("www.") else [f"www.{host}/"]
    exclude += [host + each if each[0] == "/" else f"{host}?{each}" for each in exceptions]
    for pattern in (where, *exclude):
        if "*" in pattern or pattern.endswith("|"):
            raise ValueError(f"in a pattern such as {pattern!r} a * or a closing | is a wildcard")
    if values:
        where = "&".join(each + values for each in where.split("&"))
    urls = {"include": [where], **({"exclude": exclude} if exclude else {})}
    return {"order": 100, "processor": processor, "args": list(args), "urlPattern": urls}
