"""Prints what the commands say of pages and drops."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy_simhash.arguments_inspect import STATS_TERMS
from scrapy_simhash.config import DROPPING
from scrapy_simhash.output import format_time, make_table, print_fields, style
from scrapy_simhash.untrusted import printable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy_simhash.output import Part

_COLOURS = {"new": "green", "near_duplicate": "yellow", "unjudged": "red"}
_IMPORTED = "(an imported fingerprint)"
_BITS, _LEFT, _RIGHT = "bits", "left", "right"


def name_page(url: str | None) -> str:
    """Write a URL; what has none was imported."""
    return _IMPORTED if url is None else printable(url)


def print_stats(answer: dict[str, Any]) -> Iterable[Part]:
    """Print what `stats` counted, its largest groups as a table, and what the words mean."""
    yield from print_fields({key: value for key, value in answer.items() if key != "groups"})
    if answer["groups"]:
        yield ""
        yield make_table(
            {"drops": _RIGHT, "most dropped for": _LEFT, "kind": _LEFT},
            (
                (row["near_duplicates"], name_page(row["url"]), row["kind"])
                for row in answer["groups"]
            ),
        )
    yield ""
    yield from (style(line, "dim") for line in STATS_TERMS.splitlines())


def print_decision(answer: dict[str, Any]) -> Iterable[Part]:
    """Print a line of the log: two of a near-duplicate."""
    status = answer["status"]
    line = f"{format_time(answer.get('time', 0))}  {status:<14}  {printable(answer['url'])}"
    if answer.get("reason"):
        line += f"  ({printable(answer['reason'])})"
    yield style(line, _COLOURS.get(status, ""))
    if status == "near_duplicate":
        bits, alike = answer.get("distance"), answer.get("similarity")
        shown = "" if alike is None else f", {alike:.2f} alike"
        yield (
            f"    {'?' if bits is None else bits} bits{shown}, "
            f"of {name_page(answer.get('match_url'))}"
        )


def print_summary(answer: dict[str, Any]) -> Iterable[Part]:
    """Print the counts of `log --summary`."""
    crawls = answer["crawls"]
    all_dropped = answer["actions"].keys() <= DROPPING
    noun = "drops" if all_dropped else "near-duplicates"
    yield f"pages: {answer['pages']:,} in {len(crawls):,} crawl{'s' * (len(crawls) > 1)}"
    if len(crawls) > 1:
        yield "A page counts once for each crawl that met it; --crawl ID (or last) shows one."
    yield ""
    yield make_table(
        {
            "crawl": "whole",
            "began (UTC)": _LEFT,
            **dict.fromkeys(
                ("new", "dropped" if all_dropped else "near-dup.", "revisit", "unjudged"), _RIGHT
            ),
        },
        (
            (
                row["crawl"],
                format_time(row["first_time"]),
                *(row[key] for key in ("new", "near_duplicate", "revisit", "unjudged")),
            )
            for row in crawls
        ),
    )
    yield ""
    statuses = sorted(answer["statuses"].items(), key=lambda item: -item[1])
    yield make_table({"pages": _RIGHT, "status": _LEFT}, ((n, name) for name, n in statuses))
    if not all_dropped:
        yield ""
        actions = answer["actions"].items()
        yield make_table(
            {noun: _RIGHT, "what was done": _LEFT},
            ((n, action or "nothing (import)") for action, n in actions),
        )
    if answer["distances"]:
        yield ""
        yield make_table({_BITS: _RIGHT, noun: _RIGHT}, answer["distances"].items())
    if answer["largest_groups"]:
        yield ""
        yield f"Pages that caused the most {noun}:"
        yield make_table(
            {noun: _RIGHT, "page": _LEFT},
            ((n, url) for url, n in answer["largest_groups"].items()),
        )


def print_log(answer: dict[str, Any]) -> Iterable[Part]:
    """Print a line of the log, or its summary."""
    return print_summary(answer) if "statuses" in answer else print_decision(answer)


def print_match(answer: dict[str, Any]) -> Iterable[Part]:
    """Print a match of `query`."""
    yield f"{answer['distance']:>2} bits  {answer['state']:<11}  {name_page(answer['url'])}"


def print_pair(answer: dict[str, Any]) -> Iterable[Part]:
    """Print two pages of `find-all --urls`."""
    yield f"{answer['distance']:>2} bits  {_join(answer['first'])}"
    yield f"         {_join(answer['second'])}"


def print_cluster(answer: dict[str, Any]) -> Iterable[Part]:
    """Print the pages of a cluster of `find-clusters --urls`."""
    yield f"{len(answer['pages']):,} pages"
    yield from (f"  {name_page(url)}" for url in answer["pages"])


def _join(urls: list[str]) -> str:
    return "  ".join(map(printable, urls)) or _IMPORTED


def print_explanation(answer: dict[str, Any]) -> Iterable[Part]:
    """Print what `explain` found."""
    about = f"{printable(answer['url'])}: " if "url" in answer else ""
    yield style(f"{about}{printable(answer['verdict'])}", "bold")
    if answer.get("decision"):
        yield "last decision in the log:"
        yield from print_decision(answer["decision"])
    for page in answer.get("pages", ()):
        yield printable(page["url"])
        yield from print_fields({k: v for k, v in page.items() if k != "url"}, "  ")
    if "seed" in answer:
        yield f"seed of the fingerprints: {answer['seed']}"
    if "distance" in answer:
        yield from _print_distance(answer)
    if "main_similarity" in answer:
        main, whole = answer["main_similarity"], answer["whole_similarity"]
        yield f"alike, by their sketches: main texts {main:.2f}, whole texts {whole:.2f}"
    yield from (f"test: {printable(test)}" for test in answer.get("tests", ()))
    if "jaccard" in answer:
        yield from _print_texts(answer)
    if "note" in answer:
        yield answer["note"]
    if "html" in answer:
        yield f"side by side: {printable(answer['html'])}"


def _print_texts(answer: dict[str, Any]) -> Iterable[Part]:
    yield f"shared features: {answer['shared_features']:,} (Jaccard {answer['jaccard']})"
    yield from (list_features(answer, side) for side in ("only_in_first", "only_in_second"))
    for line in map(printable, answer["text_difference"]):
        yield style(line, {"+": "green", "-": "red"}.get(line[:1], ""))
    if more_lines := answer["left_out"]["text_difference"]:
        yield f"and {more_lines:,} more lines; --html FILE shows the texts side by side"


def list_features(answer: dict[str, Any], side: str) -> str:
    """Write the features that only one page has: `only_in_first` or `only_in_second`."""
    words = printable(", ".join(answer[side])) or "nothing"
    more = answer["left_out"][side]
    return f"{side.replace('_', ' ')}: {words}" + (f", and {more:,} more" if more else "")


def _print_distance(answer: dict[str, Any]) -> Iterable[Part]:
    bits = " ".join(map(str, answer["differing_bits"])) or "none"
    tables = " ".join(map(str, answer["found_by_tables"])) or "none"
    yield f"fingerprints compared: {' '.join(answer['compared'])}"
    yield f"distance: {answer['distance']} bits; differing bits: {bits}"
    yield make_table(
        {"block": _RIGHT, "its bits": _LEFT, "differ": _RIGHT, "which": _LEFT},
        (
            (number, block["bits"], len(block["differing"]), " ".join(map(str, block["differing"])))
            for number, block in enumerate(answer["blocks"])
        ),
    )
    yield f"tables of design {answer['design']} that find the pair: {tables}"


def _describe_change(row: dict[str, Any]) -> Iterable[tuple[object, ...]]:
    alike = "" if row["similarity"] is None else f"{row['similarity']:.2f}"
    yield row["change"], row["distance"], alike, row["url"]
    yield "", "", "", f"of {name_page(row['match_url'])}"


def print_what_if(answer: dict[str, Any]) -> Iterable[Part]:
    """Print which decisions other settings would change."""
    confirm = "none (plain simhash)" if answer["confirm"] is None else f"{answer['confirm']:g}"
    scope = f", scope {answer['scope']}" if answer["scope"] else ""
    yield f"with distance {answer['distance']}, confirm {confirm}{scope}:"
    yield f"pages judged again: {answer['documents']:,}"
    if answer["left_out"]:
        yield f"left out, see --help: {answer['left_out']:,}"
    yield f"dropped: {answer['dropped_before']:,} before, {answer['dropped_then']:,} then"
    yield f"kept -> dropped: {answer['kept_to_dropped']:,}"
    yield f"dropped -> kept: {answer['dropped_to_kept']:,}"
    yield f"dropped both times, for another page: {answer['other_original']:,}"
    if answer["changes"]:
        yield ""
        yield make_table(
            {"change": _LEFT, _BITS: _RIGHT, "alike": _RIGHT, "page, and of which": _LEFT},
            (cells for row in answer["changes"] for cells in _describe_change(row)),
        )
    more = answer["kept_to_dropped"] + answer["dropped_to_kept"] - len(answer["changes"])
    if more:
        yield f"and {more:,} more; --top N lists more of them, --json all"
