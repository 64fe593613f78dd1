"""Prints the pairs that `calibrate` shows, and what their labels say."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

from scrapy_simhash.asking import PROMPT
from scrapy_simhash.output_inspect import list_features
from scrapy_simhash.untrusted import printable

if TYPE_CHECKING:
    from collections.abc import Iterable

_WIDTH = 80
_LONGEST_NAME = 66


def print_calibration(answer: dict[str, Any]) -> Iterable[str]:
    """Print a pair, a note, or the results."""
    if "pair" in answer:
        yield from _print_pair(answer["pair"])
    elif "by_distance" in answer:
        yield from _print_results(answer)
    else:
        yield from _wrap(printable(answer["note"]))


def _print_pair(pair: dict[str, Any]) -> Iterable[str]:
    yield ""
    yield f" {pair['labelled']:,} labelled ".center(_WIDTH, "-")
    for name, page in zip("AB", pair["pages"], strict=True):
        # Whole, however long: to be opened.
        yield f"{name}  {printable(page['url'])}"
        yield f"   title:   {_cut(page['title'])}"
        if page["heading"] and page["heading"] != page["title"]:
            yield f"   heading: {_cut(page['heading'])}"
        language = f", {printable(page['language'])}" if page["language"] else ""
        yield f"   {page['words']:,} words{language}, {page['state']}"
    bits = " ".join(map(str, pair["differing_bits"])) or "none"
    yield from _wrap(f"{pair['distance']} bits apart, {pair['similarity']:.2f} alike; bits: {bits}")
    for test in pair["tests"]:
        yield from _wrap(f"test: {printable(test)}")
    yield f"the plugin: {'near-duplicates' if pair['judged'] else 'different pages'}"
    if "note" in pair:
        yield from _wrap(pair["note"])
    else:
        for side in ("only_in_first", "only_in_second"):
            yield from _wrap(list_features(pair, side))
        yield from map(printable, pair["text_difference"])
        if more_lines := pair["left_out"]["text_difference"]:
            yield f"and {more_lines:,} more lines"
    yield PROMPT


def _cut(text: str) -> str:
    shown = printable(text)
    return shown if len(shown) <= _LONGEST_NAME else f"{shown[: _LONGEST_NAME - 3]}..."


def _wrap(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, subsequent_indent="   ")


def _print_results(answer: dict[str, Any]) -> Iterable[str]:
    labels = answer["labels"]
    yield ""
    yield f"{answer['documents']:,} documents, {answer['pairs']:,} pairs within 10 bits"
    yield "labelled: " + ", ".join(f"{count:,} {name}" for name, count in labels.items())
    if answer["share_looked_at"] < 1:
        yield f"counted in a random part with {answer['share_looked_at']:.2%} of the pairs"
    yield from _print_distances(answer)
    yield ""
    yield f"in force: {_name_setting(answer['in_force'])}"
    yield from _print_setting(answer["in_force"])
    if answer["recommended"] is None:
        yield from _wrap(f"no recommendation: {answer['why']}")
        if answer["missing_labels"]:
            yield f"at least {answer['missing_labels']:,} more labels of pairs it drops are missing"
        return
    if answer["change"] is None:
        yield "recommended: keep them; none that is as often right finds more duplicates"
        return
    yield f"recommended: {_name_setting(answer['recommended'])}"
    yield from _print_setting(answer["recommended"])
    yield from _print_change(answer["change"])


def _print_distances(answer: dict[str, Any]) -> Iterable[str]:
    confirmed = answer["in_force"]["confirm"] is not None
    prefix = "" if confirmed else "plain_"
    rule = f"confirmed at {answer['in_force']['confirm']:g}" if confirmed else "distance alone"
    yield ""
    yield f"{'':<26}same at this |  within so many bits, {rule}"
    yield f"{'bits':>4}{'pairs':>12}{'labels':>7}   distance   | {'precision':<21}recall"
    for row in answer["by_distance"]:
        yield (
            f"{row['distance']:>4}{row['pairs']:>12,}{row['labelled']:>7}   "
            f"{_ratio(row['same_at']):<10} | "
            f"{_share(row, f'{prefix}precision'):<21}{_share(row, f'{prefix}recall')}"
        )
    yield "recall: of the duplicates among these pairs; nobody has seen the others"


def _print_setting(figures: dict[str, Any]) -> Iterable[str]:
    yield (
        f"  precision {_share(figures, 'precision')}, recall {_share(figures, 'recall')}, "
        f"about {figures['wrong_pairs']:,.0f} wrong"
    )


def _print_change(change: dict[str, Any]) -> Iterable[str]:
    yield f"with it, of {change['pages']:,} pages in the store,"
    for name, words in (("more_drops", "more"), ("fewer_drops", "fewer")):
        wrong = "none of such pairs labelled"
        if change[f"{name}_wrong_labels"]:
            wrong = f"wrong: {_share(change, f'{name}_wrong', '_share')}"
        yield f"  {change[name]:,} {words} would have been dropped ({wrong})"


def _name_setting(figures: dict[str, Any]) -> str:
    return f"SIMHASH_DISTANCE = {figures['distance']}, SIMHASH_CONFIRM = {figures['confirm']}"


def _share(figures: dict[str, Any], name: str, suffix: str = "") -> str:
    if figures[f"{name}{suffix}"] is None:
        return "-"
    low, high = figures[f"{name}_interval"]
    return f"{figures[f'{name}{suffix}']:.3f} ({low:.3f}-{high:.3f})"


def _ratio(share: float | None) -> str:
    return "-" if share is None else f"{share:.3f}"
