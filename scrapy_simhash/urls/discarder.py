"""Rules as duplicate-url-discarder reads them, as far as it can express them.

Its patterns match `*` with slashes, too, so each directory has a rule of its own, which excludes
what lies deeper. It applies rules in an order of its own, so that no two of those that remove parts
of a path may match one address.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from scrapy_simhash.urls.rules import RuleKind, UrlRule

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from scrapy_simhash.urls.learning import FoundRule

# What means something in a pattern.
_SPECIAL = re.compile(r"[*|?#]")
_WWW = re.compile(r"www\d*\.")  # stripped by the normalizer


def list_discarder_rules(found: Iterable[FoundRule]) -> list[dict[str, Any]]:
    """List the proven rules in its JSON format; leaves out what it has no processor for."""
    rules: list[dict[str, Any]] = []
    cut: defaultdict[tuple[str, int], list[str]] = defaultdict(list)
    for rule, directory in ((each.rule, name) for each in found for name in each.directories):
        for processor, args, path, query in _express(rule, directory):
            include = f"{rule.host}{path}|{query}"
            exclude = [rule.host + "/*" * (path.count("/") + 1)]
            if path.endswith("/*"):  # names with an ending are in another directory
                exclude.append(f"{rule.host}{path}.*|")
            if processor == "normalizer":
                exclude.append(f"www.{rule.host}")
            if processor == "subpathRemoval":
                others = cut[rule.host, path.count("/")]
                exclude += others
                others.append(include)
            pattern = {"include": [include], "exclude": exclude}
            order = len(rules) + 1
            said = {"order": order, "urlPattern": pattern, "processor": processor, "args": args}
            rules.append(said)
    return rules


def _express(rule: UrlRule, directory: str) -> Iterator[tuple[str, list[str | int], str, str]]:
    """Yield processor, arguments, and patterns of path and query for a rule in a directory."""
    segments, args, kind = directory.split("/")[1:], rule.args, rule.kind
    if _SPECIAL.search("".join((*segments[: len(segments) > 1], *args))):
        return
    if kind is RuleKind.DROP_VALUE:
        yield "queryRemoval", [args[0].partition("=")[0]], directory, f"?{args[0]}"
    elif kind in {RuleKind.DROP_PARAMETER, RuleKind.DROP_PARAMETERS}:
        yield "queryRemoval", [*args], directory, "?" + "&".join(f"{name}=*" for name in args)
    elif kind is RuleKind.STRIP_SLASH and segments[-1] and not _WWW.match(rule.host):
        yield "normalizer", [], f"{directory}/", ""
    elif kind in {RuleKind.DROP_LEADING, RuleKind.DROP_SEGMENTS}:
        last = len(segments) + bool(segments[-1])
        for place in [0] if kind is RuleKind.DROP_LEADING else range(1, last):
            path = "/".join(["", *segments[:place], *args, *segments[place:]])
            yield "subpathRemoval", [*range(place, place + len(args))], path, ""
