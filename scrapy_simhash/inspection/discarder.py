"""Apply rules of duplicate-url-discarder as that program (0.3.0, with url-matcher 0.6) does.

Its patterns, orders and processors differ from our rules, so its files cannot be turned into ours
without loss; for `urls audit` they are applied as they are:

- A pattern is a domain, with its subdomains if nothing follows, or an address: the path and the
  fragment are beginnings (`|` at the end: all of it), the parameters of the query must be there;
  `*` stands for anything. An empty pattern matches every address: its rule is *universal*.
- Universal rules apply only to an address that no other rule matches.
- Rules of one domain apply in descending order: of their patterns, and of `order` if these agree.
- What they make of an address is then written canonically, as Scrapy's fingerprint does.
"""

from __future__ import annotations

import ipaddress
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qs, urlparse

from w3lib.url import canonicalize_url, url_query_cleaner

from scrapy_simhash.pages.scopes import find_domain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

_EVERYTHING = ""
_PRIORITY = 500
_PORTS = {"80": "http", "443": "https"}


class DiscarderRule(NamedTuple):
    """A rule of a file.

    Attributes:
        processor: what it does: a key of `PROCESSORS`.
        args: names of parameters, or places of segments.
        include, exclude: patterns.
        order: of rules with equal patterns the one with the largest order comes first.
        priority: as `order`, but before the patterns.
    """

    processor: str
    args: tuple[Any, ...]
    include: tuple[str, ...]
    exclude: tuple[str, ...]
    order: int
    priority: int

    @property
    def text(self) -> str:
        """The rule for people."""
        places = ", ".join(filter(None, self.include)) or "everywhere"
        return " ".join([self.processor, *map(str, self.args), f"({places})"])


class Discarder:
    """The rules of a file.

    Args:
        rules: in the order of the file; equal ones count once.

    Raises:
        ValueError: a rule cannot be applied; says which one and why.
    """

    def __init__(self, rules: Iterable[DiscarderRule]) -> None:
        self._domains: dict[str, list[tuple[tuple[Any, ...], _Matcher]]] = {}
        self._universal: list[tuple[tuple[Any, ...], _Matcher]] = []
        for number, rule in enumerate(sorted(dict.fromkeys(rules), key=lambda each: each.order)):
            _check(rule)
            matcher = _Matcher(rule)
            domains = {find_domain_of(pattern) for pattern in rule.include} - {_EVERYTHING}
            if not any(rule.include):
                self._universal.append(((rule.priority, number), matcher))
            for domain in domains:
                includes = [each for each in rule.include if find_domain_of(each) == domain]
                key = (rule.priority, sorted(map(_from_general, includes)), number)
                self._domains.setdefault(domain, []).append((key, matcher))
        for matchers in (*self._domains.values(), self._universal):
            matchers.sort(key=lambda each: each[0], reverse=True)

    def apply(self, url: str) -> tuple[str, tuple[str, ...]]:
        """Make the normal form of an address; also names the rules that changed it."""
        try:
            matchers = self._domains.get(_find_domain(f"//{urlparse(url).netloc}"), ())
            matching = [matcher for _, matcher in matchers if matcher.matches(url)]
            changed = []
            for matcher in matching or [matcher for _, matcher in self._universal]:
                before, url = url, PROCESSORS[matcher.rule.processor].apply(url, matcher.rule.args)
                if url != before and canonicalize_url(url) != canonicalize_url(before):
                    changed.append(matcher.rule.text)
            return canonicalize_url(url), tuple(changed)
        except ValueError:  # a broken address, such as http://[
            return url, ()


class _Parts(NamedTuple):
    """An address or a pattern; `path` has the matrix parameters."""

    scheme: str
    netloc: str
    path: str
    query: str
    fragment: str


@lru_cache(maxsize=1_000)
def _split(address: str) -> _Parts:
    """Split an address, and turn a port that says the scheme into that."""
    scheme, netloc, path, parameters, query, fragment = urlparse(address)
    scheme = scheme.lower()
    name, colon, port = netloc.rpartition(":")
    if colon and port in _PORTS and scheme in {"", _PORTS[port]}:
        scheme, netloc = _PORTS[port], name
    return _Parts(scheme, netloc, f"{path};{parameters}" if parameters else path, query, fragment)


def _split_pattern(pattern: str) -> _Parts:
    """Split a pattern, which has a domain where an address has a scheme."""
    has_scheme = re.match(r"([a-zA-Z][a-zA-Z0-9.+-]*:)?//", pattern)
    if not has_scheme or pattern.startswith("//"):
        pattern = f"//{pattern}"
    return _split(pattern)


def find_domain_of(pattern: str) -> str:
    """Find the registrable domain of a pattern; "" if it has none."""
    netloc = _split_pattern(pattern).netloc
    return _find_domain(f"//{netloc}").lower() if netloc else ""


_find_domain = lru_cache(maxsize=10_000)(find_domain)


def _from_general(pattern: str) -> str:
    """Write a pattern so that more general ones sort before others."""
    parts = _split_pattern(pattern)
    netloc = parts.netloc.rpartition(":")[0] or parts.netloc
    try:
        ipaddress.ip_address(netloc)
    except ValueError:
        netloc = ".".join(reversed(netloc.split(".")))
    return netloc + "".join(parts[2:])


class _Matcher:
    """The patterns of a rule."""

    def __init__(self, rule: DiscarderRule) -> None:
        self.rule = rule
        self._include = [_Pattern(pattern) for pattern in rule.include]
        self._exclude = [_Pattern(pattern) for pattern in rule.exclude]

    def matches(self, url: str) -> bool:
        parts = _split(url)
        included = not self._include or any(each.matches(parts) for each in self._include)
        return included and not any(each.matches(parts) for each in self._exclude)


class _Pattern:
    """A pattern, compiled."""

    def __init__(self, pattern: str) -> None:
        self._scheme, netloc, path, query, fragment = _split_pattern(pattern)
        below = "" if path or query or fragment else r"(?:.*\.)?"
        self._netloc = _compile(f"(?:www.)?{below}{re.escape(netloc)}") if netloc else None
        self._path, self._fragment = (
            _compile(_with_wildcards(text.removesuffix("|")) + ("" if text[-1] == "|" else ".*"))
            if text
            else None
            for text in (path, fragment)
        )
        self._query = {
            name: _compile("|".join(map(_with_wildcards, values)))
            for given, values in parse_qs(query, keep_blank_values=True).items()
            if (name := given.lower().replace("*", ""))
        }

    def matches(self, url: _Parts) -> bool:
        if self._scheme and self._scheme != url.scheme:
            return False
        for wanted, found in (
            (self._netloc, url.netloc),
            (self._path, url.path),
            (self._fragment, url.fragment),
        ):
            if wanted and not wanted(found):
                return False
        given = parse_qs(url.query, keep_blank_values=True) if self._query else {}
        values = {name.lower(): each for name, each in given.items()}
        return all(
            any(wanted(value) for value in values.get(name, ()))
            for name, wanted in self._query.items()
        )


def _compile(expression: str) -> Callable[[str], object]:
    return re.compile(f"^(?:{expression})$", re.IGNORECASE).match


def _with_wildcards(text: str) -> str:
    return re.escape(text).replace(r"\*", ".*")


def _remove_parameters(url: str, args: tuple[str, ...]) -> str:
    cleaned = url_query_cleaner(url, args, remove=True, unique=False, keep_fragments=True)
    return str(cleaned)


def _keep_parameters(url: str, args: tuple[str, ...]) -> str:
    return str(url_query_cleaner(url, args, unique=False, keep_fragments=True))


def _remove_segments(url: str, args: tuple[int, ...]) -> str:
    parts = urlparse(url)
    segments = re.findall(r"/[^/]*", parts.path)
    path = "".join(each for place, each in enumerate(segments) if place not in args)
    return parts._replace(path=path).geturl()


def _normalise(url: str, _: tuple[()]) -> str:
    parts = urlparse(url)
    netloc = re.sub(r"^www\d*\.", "", parts.netloc)
    return parts._replace(netloc=netloc, path=parts.path.rstrip("/")).geturl()


class _Processor(NamedTuple):
    """What a rule does to an address, and the type of its arguments; None if it takes none."""

    apply: Callable[[str, tuple[Any, ...]], str]
    takes: type | None


PROCESSORS = {
    "queryRemoval": _Processor(_remove_parameters, str),
    "queryRemovalExcept": _Processor(_keep_parameters, str),
    "subpathRemoval": _Processor(_remove_segments, int),
    "normalizer": _Processor(_normalise, None),
}


def read_discarder_rules(loaded: Sequence[Any]) -> list[DiscarderRule]:
    """Read the rules of a file, an array of objects.

    Raises:
        ValueError: one of them is no rule; says which one, from 1, and why.
    """
    rules = []
    for number, each in enumerate(loaded, 1):
        try:
            rules.append(_read_rule(each))
            _check(rules[-1])
        except ValueError as error:
            raise ValueError(f"rule {number}: {error}") from None
    return rules


def _read_rule(given: Any) -> DiscarderRule:
    rule = _require("a rule", given, dict, "an object")
    pattern = _require("urlPattern", rule.get("urlPattern"), dict, "an object with `include`")
    lists = {
        "args": rule.get("args") or [],
        "include": pattern.get("include"),
        "exclude": pattern.get("exclude") or [],
    }
    made = {name: tuple(_require(name, each, list, "an array")) for name, each in lists.items()}
    for each in (*made["include"], *made["exclude"]):
        _require("a pattern", each, str, "text")
    order = _require("order", rule.get("order"), int, "a whole number")
    priority = _require("priority", pattern.get("priority", _PRIORITY), int, "a whole number")
    return DiscarderRule(str(rule.get("processor")), order=order, priority=priority, **made)


def _require(name: str, value: Any, kind: type, wanted: str) -> Any:
    if not isinstance(value, kind):
        raise ValueError(f"{name} is {_shorten(value)}; it must be {wanted}")  # noqa: TRY004
    return value


def _check(rule: DiscarderRule) -> None:
    """Raise a ValueError unless a rule can be applied."""
    if rule.processor not in PROCESSORS:
        known = ", ".join(PROCESSORS)
        raise ValueError(f"there is no processor {rule.processor!r}; there are {known}")
    takes = PROCESSORS[rule.processor].takes
    for each in rule.args:
        if takes is None or not isinstance(each, takes):
            wanted = "none" if takes is None else "names" if takes is str else "places, from 0"
            raise ValueError(f"args of {rule.processor} are {wanted}, got {_shorten(each)}")
    if any(rule.include):
        for pattern in rule.include:
            if not find_domain_of(pattern):
                raise ValueError(
                    f"pattern {pattern!r} has no domain; write one such as example.com/path, or "
                    'include [""] alone for all addresses'
                )


_MOST_SHOWN = 80


def _shorten(value: object) -> str:
    return repr(value)[:_MOST_SHOWN]
