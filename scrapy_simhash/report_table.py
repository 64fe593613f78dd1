"""The table of near-duplicates in a report: compact columns for its script."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from scrapy_simhash.untrusted import printable, show

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from scrapy_simhash.report_input import Decision

_NUMBER = re.compile(r"\d[\d.,]*(?<=\d)(\s?%)?")


def make_table(
    decisions: Sequence[Decision],
    pairs: Sequence[dict[str, Any]],
) -> dict[str, Any]:
    """Put near-duplicates into columns.

    Args:
        decisions: the near-duplicates, in the order of the rows.
        pairs: whose differences are in the report.

    Returns:
        `rows`, how many; `url`, `time` (seconds, or None), `distance`, `similarity` and `pair`
        (number of its difference, -1 for none) by row; and `original`, `rule`, `action`, `crawl`
        by row as numbers of what stands in `originals`, `rules`, `actions` and `crawls`.
    """
    numbers = {
        (pair["second"]["url"], pair["first"]["url"]): number for number, pair in enumerate(pairs)
    }
    shared = {name: _Shared() for name in ("original", "rule", "action", "crawl")}
    columns: dict[str, list[Any]] = {
        name: [] for name in ("url", "time", "distance", "similarity", "pair", *shared)
    }
    for decision in decisions:
        columns["url"].append(show(decision.url))
        columns["time"].append(int(decision.time) or None)
        columns["distance"].append(decision.distance)
        columns["similarity"].append(decision.similarity)
        columns["pair"].append(numbers.get((show(decision.url), show(decision.match_url)), -1))
        for name, value in (
            ("original", show(decision.match_url or "")),
            ("rule", name_rule(decision.tests)),
            ("action", show(decision.action)),
            ("crawl", show(decision.crawl)),
        ):
            columns[name].append(shared[name].number(value))
    lists = {f"{name}s": list(values.numbers) for name, values in shared.items()}
    return {"rows": len(columns["url"]), **columns, **lists}


def name_rule(tests: Sequence[str]) -> str:
    """Name the rule that decided: what the tests said last, without their figures.

    >>> name_rule(["distance 3 bits", "main text 0.93 alike: main text is alike, with 1,204 words"])
    'main text is alike, with n words'
    """
    # The distance has a column of its own, and alone decides in plain simhash.
    told = tests[1:] if len(tests) > 1 else tests
    return printable("; ".join(_NUMBER.sub("n", test.rpartition(": ")[2]) for test in told))


class _Shared:
    """Numbers for values that many rows share."""

    def __init__(self) -> None:
        self.numbers: dict[Hashable, int] = {}

    def number(self, value: Hashable) -> int:
        return self.numbers.setdefault(value, len(self.numbers))
