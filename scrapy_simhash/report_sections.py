"""The page of a report: its plots, its sentence, and as many rows as it has room for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy_simhash import report_plots
from scrapy_simhash.kinds import LOGIN, SOFT_404
from scrapy_simhash.report_groups import EDGE, LARGE, STUB, TEMPLATE, by_similarity
from scrapy_simhash.report_page import pack, render
from scrapy_simhash.report_table import make_table
from scrapy_simhash.untrusted import show

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy_simhash.report_input import Decision

# With plots and style the file stays below 5 MB.
_MOST_ROWS = 100_000
_MOST_DATA_CHARACTERS = 4_300_000
_ADVICE = {
    SOFT_404: "Dead links that answer 200. To drop them is right; the links want mending.",
    LOGIN: "Addresses that show a login form instead of their page. Log in, or leave them out.",
    STUB: "Too little text to compare: empty shells, or pages that are drawn by scripts.",
    TEMPLATE: "Their titles name different things. If the pages are different, raise "
    "SIMHASH_CONFIRM or name them in SIMHASH_NEVER_DROP.",
    LARGE: "So many addresses of one text are rare; often a parameter or a path is to blame.",
    EDGE: "The least alike of all drops: a little less, and they had been kept. If they are "
    "wrong, raise SIMHASH_CONFIRM or lower SIMHASH_DISTANCE.",
}


def render_report(
    figures: dict[str, Any],
    near_duplicates: Sequence[Decision],
    pairs: Sequence[dict[str, Any]],
    missing: Sequence[str],
) -> tuple[bytes, int]:
    """Make the page.

    Args:
        figures: of the report.
        near_duplicates: for the table, oldest first.
        pairs: with their differences.
        missing: what is missing, and why, in sentences.

    Returns:
        The file, and how many rows its table has: all, or those least alike that leave it below
        5 MB.
    """
    rows = list(near_duplicates)
    most = _MOST_ROWS
    while True:
        if len(rows) > most:
            rows = sorted(sorted(rows, key=by_similarity)[:most], key=lambda row: row.time)
        data = pack({"table": make_table(rows, pairs), "pairs": pairs})
        if len(data) <= _MOST_DATA_CHARACTERS or not rows:
            break
        most = len(rows) // 2
    page = render(
        "report.html",
        {
            "figures": figures,
            "plots": _draw(figures),
            "pairs": pairs,
            "rows": len(rows),
            "missing": missing,
            "sentence": _summarise(figures),
            "advice": _ADVICE,
        },
        data,
    )
    return page, len(rows)


def _draw(figures: dict[str, Any]) -> dict[str, str]:
    """Draw what there is something to be seen of."""
    plots = {"pages": report_plots.plot_pages(figures["over_time"])}
    if figures["dropped_bytes"]:
        plots["bytes"] = report_plots.plot_bytes(figures["over_time"])
    if figures["distances"]:
        plots["distances"] = report_plots.plot_distances(figures["distances"])
    if figures["similarities"]:
        plots["similarities"] = report_plots.plot_similarities(figures["similarities"])
    spread = figures["fingerprints"]
    if spread["fingerprints"]:
        plots["leading_ones"] = report_plots.plot_leading_ones(
            spread["leading_ones"], spread["leading_ones_expected"]
        )
        plots["buckets"] = report_plots.plot_buckets(spread["buckets"])
    if figures["quality"]:
        plots["quality"] = report_plots.plot_quality(figures["quality"])
    return plots


def _summarise(figures: dict[str, Any]) -> str:
    """Say in a sentence what happened."""
    pages, dropped = figures["pages"], figures["dropped"]
    if not figures["near_duplicates"]:
        return f"Of {pages:,} pages none was a near-duplicate of another."
    told = (
        f"Of {pages:,} pages {dropped:,} ({dropped / pages:.0%}) were dropped as near-duplicates "
        f"of {figures['originals']:,} others"
    )
    if flagged := figures["near_duplicates"] - dropped:
        told += f", {flagged:,} more were near-duplicates and kept"
    largest = figures["groups"][0]
    if largest["near_duplicates"] > 1:
        original = show(largest["url"]) or "one bulk-loaded fingerprint"
        told += f"; {largest['near_duplicates']:,} of them repeat {original}"
    return told + "."
