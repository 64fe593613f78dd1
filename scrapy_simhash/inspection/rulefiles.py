"""Files of URL rules: ours, one rule a line; those of duplicate-url-discarder can be audited.

The latter are read and applied by that package, which is the extra `discarder`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from w3lib.url import canonicalize_url

from scrapy_simhash.pages.addresses import format_address, parse_address
from scrapy_simhash.urls.applying import MOST_STEPS, ActingRules
from scrapy_simhash.urls.rules import ActingRule, RuleKind, UrlRule, parse_rule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from duplicate_url_discarder.rule import UrlRule as DiscarderRule

    # Makes the normal form of an address, and names the rules that changed it.
    Apply: TypeAlias = Callable[[str], tuple[str, tuple[str, ...]]]

# The curated list of duplicate-url-discarder has 80 kB.
_MOST_BYTES = 64 * 2**20
_HEAD = "# URL rules of scrapy-simhash: HOST KIND [ARGUMENT...]\n"


class RuleFile(NamedTuple):
    """A file of rules.

    Attributes:
        number: of its rules.
        rules: ours; none of those of duplicate-url-discarder.
        apply: makes the normal form of an address, and names the rules that changed it.
        foreign: it is one of duplicate-url-discarder.
    """

    number: int
    rules: tuple[UrlRule, ...]
    apply: Apply
    foreign: bool = False


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
    return RuleFile(len(rules), tuple(rules), make_apply(map(ActingRule, rules)))


def make_apply(rules: Iterable[ActingRule]) -> Apply:
    """Make the function that applies rules to an address; it names the rules by their texts."""
    acting = ActingRules(rules)

    def apply(url: str) -> tuple[str, tuple[str, ...]]:
        if (target := acting.find_target(url)) is not None:
            return target.form, tuple(acting.texts[rule] for rule in target.rules)
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
        given = sorted(dict.fromkeys(discarder.load_rules(text)), key=lambda rule: rule.order)
        apply = _make_discarder(given)
    except json.JSONDecodeError as error:
        raise ValueError(f"is no JSON: {error}") from None
    except Exception as error:  # noqa: BLE001 - whatever the package raises
        raise ValueError(
            f"has no rules that duplicate-url-discarder can read ({type(error).__name__}: "
            f"{error}); our own files have one rule a line, such as example.com drop-parameter sid"
        ) from None
    if not given:
        raise ValueError("has no rule: it is an empty array")
    return RuleFile(len(given), (), apply, foreign=True)


def _make_discarder(rules: Sequence[DiscarderRule]) -> Apply:
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
