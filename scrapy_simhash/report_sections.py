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

_MOST_ROWS = 100_000
# Of the file: 5 MB, less what numbers in the page may grow by.
_MOST_BYTES = 4_999_000
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
) -> tuple[bytes, int, int]:
    """Make the page, below 5 MB.

    Args:
        figures: of the report.
        near_duplicates: for the table, oldest first.
        pairs: with their differences, the most telling first.
        missing: what is missing, and why, in sentences.

    Returns:
        The file, how many rows its table has, and how many differences there are: all, or the most
        telling ones that there is room for.
    """
    values = {
        "figures": figures,
        "plots": _draw(figures),
        "missing": missing,
        "sentence": _summarise(figures),
        "advice": _ADVICE,
    }
    room = _MOST_BYTES - len(render("report.html", {**values, "pairs": pairs, "rows": 0}, ""))
    # Half of it is theirs, so that the longest texts leave some to the table.
    while pairs and len(pack({"pairs": pairs})) > room / 2:
        pairs = pairs[: 3 * len(pairs) // 4]
    rows = _choose_rows(list(near_duplicates), _MOST_ROWS)
    while True:
        data = pack({"table": make_table(rows, pairs), "pairs": pairs})
        if len(data) <= room or not rows:
            break
        rows = _choose_rows(rows, len(rows) // 2)
    page = render("report.html", {**values, "pairs": pairs, "rows": len(rows)}, data)
    return page, len(rows), len(pairs)


def _choose_rows(rows: list[Decision], most: int) -> list[Decision]:
    """Choose those least alike, in the order of time, where there are more."""
    if len(rows) <= most:
        return rows
    return sorted(sorted(rows, key=by_similarity)[:most], key=lambda row: row.time)


def _draw(figures: dict[str, Any]) -> dict[str, str]:
    """Draw what there is something to be seen of."""
    plots: dict[str, str] = {}
    if steps := figures["over_time"]:
        plots["pages"] = report_plots.plot_pages(steps)
        if figures["dropped_bytes"]:
            plots["bytes"] = report_plots.plot_bytes(steps)
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
    judged, dropped = figures["judged"], figures["dropped"]
    if not figures["near_duplicates"]:
        return f"Of {judged:,} pages judged none was a near-duplicate of another."
    told = (
        f"Of {judged:,} pages judged {dropped:,} ({dropped / judged:.0%}) were dropped as "
        f"near-duplicates of {figures['originals']:,} others"
    )
    if kept := figures["near_duplicates_kept"]:
        told += f", {kept:,} more were near-duplicates and kept"
    largest = figures["groups"][0]
    if largest["near_duplicates"] > 1:
        original = show(largest["url"]) or "one bulk-loaded fingerprint"
        told += f"; {largest['near_duplicates']:,} pages repeat {original}"
    return told + "."
