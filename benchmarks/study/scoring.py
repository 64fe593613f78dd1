"""How often a way to tell near-duplicates is right; for bench_methods and bench_rule."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from evaluate import Judged
from summary import summarise_for_study

from scrapy_simhash.config import Config

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from labels import LabelledPair

    Answer = Callable[[str, str], bool]

CONFIG = Config()


def score(pairs: Iterable[LabelledPair], answer: Answer) -> dict[str, Any]:
    """Count how often an answer is right.

    Args:
        pairs: labelled ones; those labelled `unknown` are left out.
        answer: from the ids of two pages, whether they are near-duplicates.
    """
    judged = [Judged(pair, duplicate=answer(pair.first, pair.second)) for pair in pairs]
    return brief(summarise_for_study(judged))


def brief(figures: dict[str, Any]) -> dict[str, Any]:
    """Keep of an evaluation's figures what the tables show."""
    kept = ("precision", "recall", "false_positives", "false_negatives", "duplicates", "distinct")
    intervals = ("precision_interval", "recall_interval", "mean_over_sources")
    tricky = {
        group: {name: figures[group][name] for name in ("pairs", "false_positives")}
        for group in ("hard", "near_identical")
    }
    return {**{name: figures[name] for name in (*kept, *intervals)}, **tricky}


def print_table(
    head: Sequence[str], rows: Iterable[Sequence[str]], title: str | None = None
) -> None:
    """Print a Markdown table; its first column is text, all others are figures."""
    if title:
        print(f"\n### {title}\n")
    print(f"| {' | '.join(head)} |")
    print(f"| --- |{' ---: |' * (len(head) - 1)}")
    for row in rows:
        print(f"| {' | '.join(row)} |")


def share(value: float | None) -> str:
    """Format a share with three places, as .987."""
    return "-" if value is None else f"{value:.3f}".removeprefix("0")


def with_intervals(figures: dict[str, Any]) -> tuple[str, str]:
    """Format precision and recall with their 95 % intervals."""
    precision, recall = (
        _with_interval(figures[name], figures[f"{name}_interval"])
        for name in ("precision", "recall")
    )
    return precision, recall


def _with_interval(value: float | None, interval: list[float] | None) -> str:
    if value is None or interval is None:
        return "-"
    return f"{share(value)} ({share(interval[0])}-{share(interval[1])})"


def update_json(path: Path | None, figures: dict[str, Any]) -> None:
    """Write figures to a file, if one is wanted; what else stands in it stays."""
    if path is not None:
        old = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        path.write_text(json.dumps({**old, **figures}, indent=1) + "\n", encoding="utf-8")
