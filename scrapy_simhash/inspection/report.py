"""Self-contained HTML files without scripts: the pages of `report` and of `explain --html`.

Data from pages and URLs may be hostile: the templates escape it, and a policy in the file forbids
scripts, requests, and everything but the style sheet of this package, by its digest.
"""

from __future__ import annotations

import base64
import math
import re
from contextlib import ExitStack
from datetime import UTC, datetime
from hashlib import sha256
from importlib.resources import files
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy_simhash._files import open_whole
from scrapy_simhash._printable import printable, show, show_bytes
from scrapy_simhash._progress import show_progress
from scrapy_simhash.errors import InspectionError, StoreUnusableError
from scrapy_simhash.inspection.evaluation import evaluate_labelled
from scrapy_simhash.inspection.figures import (
    EDGE,
    LARGE,
    LINKS,
    STUB,
    WALL,
    Figures,
    by_similarity,
    compare_pairs,
    describe_fingerprints,
    describe_groups,
)
from scrapy_simhash.inspection.log import LogFilter, LogReader, find_log, require_log
from scrapy_simhash.stores.opening import open_as_it_is

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from scrapy_simhash.config import Config
    from scrapy_simhash.detector.log import Decision
    from scrapy_simhash.stores.store import Store


def write_report(
    config: Config,
    *,
    output: Path,
    log_path: str | None,
    crawl: str | None,
    labels: Path | None,
    overwrite: bool,
) -> Iterator[dict[str, Any]]:
    """Write the report, on all crawls or on one, named by its id or `last`.

    `labels` is a folder of labelled pages, or None.

    Raises:
        InspectionError: there is no log, or no page in it.
        FileExistsError: the file exists, and `overwrite` is false.
        OSError: a file cannot be read or written; an existing file is unchanged.
        StoreError: the store is damaged.
    """
    with open_whole(output, overwrite=overwrite) as file, ExitStack() as opened:
        missing: list[str] = []
        judged = _judge_labels(config, labels, missing)
        store = _open_store(config, opened, missing)
        counted = _count(find_log(config, log_path), crawl, missing)
        pairs: list[dict[str, Any]] = []
        if store is not None:
            with show_progress("differences") as progress:
                pairs = compare_pairs(counted.near_duplicates, store, progress)
            if not pairs and counted.near_duplicates:
                missing.append(
                    "No near-duplicate and its original in the store have texts that differ."
                )
        fingerprints = counted.fingerprints if store is None else store.fingerprints()
        figures = counted.describe() | {
            **describe_groups(counted, store, config.rule),
            "fingerprints": describe_fingerprints(fingerprints),
            **judged,
        }
        page, rows, differences = render_report(figures, counted.near_duplicates, pairs, missing)
        file.write(page)
    yield {
        "file": str(output),
        "file_bytes": len(page),
        "rows": rows,
        "differences": differences,
        "damaged_lines": counted.damaged,
        "missing": missing,
        **figures,
    }


def _open_store(config: Config, opened: ExitStack, missing: list[str]) -> Store | None:
    try:
        return opened.enter_context(open_as_it_is(config.store))
    except StoreUnusableError as error:
        missing.append(
            f"There is no store ({printable(error)}), so titles, differences of texts, and groups "
            "found by titles are missing, and fingerprints come from the log."
        )
        return None


def _count(log: Path, crawl: str | None, missing: list[str]) -> Figures:
    """Count the decisions of a log."""
    figures = Figures()
    require_log(log)
    with show_progress("bytes of the log") as progress, log.open("rb") as file:
        reader = LogReader(file, LogFilter(crawl=crawl), progress)
        for decision, _ in reader.read():
            figures.add(decision)
    figures.damaged += reader.damaged
    if figures.damaged:
        missing.append(f"{figures.damaged:,} lines of the log {log} are damaged.")
    if figures.without_bytes:
        missing.append(
            f"The log does not have the sizes of {figures.without_bytes:,} dropped pages; they "
            "count as 0 bytes."
        )
    if not figures.pages:
        raise InspectionError(f"no page was judged yet{f' in crawl {crawl}' if crawl else ''}")
    return figures


def _judge_labels(config: Config, labels: Path | None, missing: list[str]) -> dict[str, Any]:
    """Return precision and recall by distance on labelled pairs; add a note on problems."""
    if labels is None:
        return {"quality": None}
    judged, _ = evaluate_labelled(config, labels)
    if problems := judged["problems"]:
        missing.append(f"{len(problems):,} labelled rows or pages were left out.")
    rows = judged["by_distance"]
    # Without any, no labelled pair is a duplicate, and none would be dropped.
    known = any(row[share] is not None for row in rows for share in ("precision", "recall"))
    return {"quality": rows if known else None}


# Excludes javascript:, data:, and URLs that were cut or had to be escaped.
_LINK = re.compile(r"https?://[^\s\\…]*", re.IGNORECASE)
_POLICY = "default-src 'none'; style-src 'sha256-{}'; base-uri 'none'; form-action 'none'"


def render(template: str, **values: object) -> bytes:
    """Make a page from a template and the values that it shows."""
    import jinja2  # noqa: PLC0415 - for two commands only
    from markupsafe import Markup  # noqa: PLC0415

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader(__package__),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "shown": show,
        "printable": printable,
        "count": "{:,}".format,
        "octets": show_bytes,
        "share": lambda part, whole: f"{100 * part / max(1, whole):.1f} %",
        "moment": lambda seconds: f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC",
    }
    environment.tests["link"] = _LINK.fullmatch
    style = (files(__package__) / "templates" / "report.css").read_text("utf-8")
    policy = _POLICY.format(base64.b64encode(sha256(style.encode()).digest()).decode())
    shown = Markup(style)  # noqa: S704 - our own file
    return environment.get_template(template).render(**values, policy=policy, style=shown).encode()


_MOST_ROWS = 500
_MOST_BYTES = 5_000_000
_ADVICE = {
    LINKS: "Most of their links are not on the page that was kept; other pages may have them. The "
    "closing line of a crawl counts those that no kept page has.",
    WALL: "Addresses that have nothing in common lead here: a login, a captcha, a page that says "
    "“not found”? What is behind it was not fetched; `scrapy simhash undo --original URL "
    "--dry-run` lists the addresses. If they are different pages, leave out --dry-run.",
    STUB: "Too little text to compare: empty shells, or pages that scripts draw.",
    LARGE: "Among the pages that most others repeat. One text rarely has many URLs: look for a "
    "parameter or a path that varies, or for pages that do differ.",
    EDGE: "The texts are alike by less than SIMHASH_CONFIRM, because what stands before and behind "
    "their common part may differ, or the evidence was barely enough. If these are different "
    "pages, `scrapy simhash undo` them and name such addresses in SIMHASH_NEVER_DROP, or set "
    "SIMHASH_ACTION to `flag`. SIMHASH_CONFIRM and SIMHASH_DISTANCE bound only the common part and "
    "the fingerprints.",
}


def render_report(
    figures: dict[str, Any],
    near_duplicates: Sequence[Decision],
    pairs: Sequence[dict[str, Any]],
    missing: Sequence[str],
) -> tuple[bytes, int, int]:
    """Make the page, below 5 MB.

    Args:
        figures: of `report`.
        near_duplicates: in any order; the least similar ones are listed.
        pairs: of `compare_pairs`, most telling first.
        missing: sentences about what could not be shown.

    Returns:
        The page, and the numbers of its rows and pairs.
    """
    values = {
        "figures": figures,
        "charts": make_charts(figures),
        "missing": missing,
        "sentence": _summarise(figures),
        "advice": _ADVICE,
    }
    rows = sorted(near_duplicates, key=by_similarity)[:_MOST_ROWS]
    while True:
        places = {(pair["second"]["url"], pair["first"]["url"]): n for n, pair in enumerate(pairs)}
        page = render("report.html", **values, rows=rows, pairs=pairs, places=places)
        if len(page) < _MOST_BYTES:
            return page, len(rows), len(pairs)
        rows, pairs = rows[: len(rows) // 2], pairs[: len(pairs) // 2]


def _summarise(figures: dict[str, Any]) -> str:
    """Summarise what happened in a sentence."""
    judged, would, dropped = (figures[name] for name in ("judged", "would_be_dropped", "dropped"))
    if not figures["near_duplicates"]:
        return f"None of {judged:,} pages judged was a near-duplicate of another."
    summary = (
        f"Of {judged:,} pages judged {would or dropped:,} ({(would or dropped) / judged:.0%}) "
        f"{'would be' if would else 'were'} dropped as near-duplicates of "
        f"{figures['originals']:,} others"
    )
    if kept := figures["near_duplicates_kept"]:
        summary += f", {kept:,} more were near-duplicates and kept"
    largest = figures["groups"][0]
    if largest["near_duplicates"] > 1:
        original = show(largest["url"]) or "one bulk-loaded fingerprint"
        summary += f"; {largest['near_duplicates']:,} pages repeat {original}"
    return summary + "."


def write_differences(
    answers: Sequence[dict[str, Any]], path: Path, *, overwrite: bool
) -> Sequence[dict[str, Any]]:
    """Write the answers of `explain` that have texts; set `html` of the last to the file name."""
    shown = [answer for answer in answers if "side_by_side" in answer]
    if not shown:
        notes = (one.get("note") or one["verdict"] for one in answers if "verdict" in one)
        found = next(notes, "no two pages were compared")
        raise InspectionError(f"{path} was not written, because there is no pair of texts: {found}")
    with open_whole(path, overwrite=overwrite) as file:
        file.write(render("pair.html", answers=shown))
    return [{**one, "html": str(path)} if one is shown[-1] else one for one in answers]


# The charts: their ranges, ticks and values; `templates/macros.html` draws them.

_MOST_TICKS_ACROSS = 8
_MOST_TICKS = 5
# As a share of the range of values: space above the highest, and beside the first and the last.
_HEADROOM = 1.05
_MARGIN = 0.04
_BAR = 0.8
_SIMILARITY_STEP = 0.02
_SIMILARITY_BAR = 0.018
_MINUTES, _DAY = 600, 86_400  # seconds
# A position without neighbours is not shown if fewer than this are expected there.
_FEWEST_EXPECTED = 0.1
_SHARES = ("precision", "accent", "dots"), ("recall", "dropped", "squares")

Tick = tuple[float, str]


class Series(NamedTuple):
    """The values that are drawn in one colour."""

    shape: str  # `bars`, `area`, `line`, or `dots` and `squares` joined by a line
    colour: str  # a class of the style sheet: `ink`, `kept`, `dropped`, `accent`
    values: Sequence[tuple[float, ...]]  # (left, right, bottom, top) of bars, else (across, up)
    label: str = ""  # for the legend


class Chart(NamedTuple):
    """A chart in the units of its values; heights start at 0."""

    up: str  # label of the vertical axis
    across: str  # label of the horizontal axis; "" if the ticks are clear
    left: float
    right: float
    top: float
    ticks: Sequence[Tick]
    heights: Sequence[Tick]  # of the grid lines
    series: Sequence[Series]


def make_charts(figures: dict[str, Any]) -> dict[str, Chart]:
    """Make charts of all figures that have something to show, by name."""
    charts = {}
    if steps := figures["over_time"]:
        times = [step["time"] for step in steps]
        ticks = _tick_times(times)
        charts["pages"] = _make_chart("pages", "", *_stack_pages(times, steps), ticks=ticks)
        if figures["dropped_bytes"]:
            sums = accumulate(step["dropped_bytes"] / 1e6 for step in steps)
            values = list(zip(times, sums, strict=True))
            series = (Series(shape, "dropped", values) for shape in ("area", "line"))
            charts["bytes"] = _make_chart("MB dropped, in all", "", *series, ticks=ticks)
    if distances := figures["distances"]:
        bars = [(int(bits) - _BAR / 2, int(bits) + _BAR / 2, 0, n) for bits, n in distances.items()]
        drops = Series("bars", "dropped", bars)
        charts["distances"] = _make_chart("near-duplicates", "distance in bits", drops)
    if similarities := figures["similarities"]:
        bars = [(float(low), float(low) + _SIMILARITY_BAR, 0, n) for low, n in similarities.items()]
        drops = Series("bars", "dropped", bars)
        ticks = choose_ticks(bars[0][0], bars[-1][1], _MOST_TICKS, least_step=_SIMILARITY_STEP)
        charts["similarities"] = _make_chart("near-duplicates", "similarity", drops, ticks=ticks)
    if figures["fingerprints"]["fingerprints"]:
        charts |= _chart_fingerprints(figures["fingerprints"])
    if rows := figures["quality"]:
        # Figure 1 of the paper: with confirmation.
        series = (
            Series(shape, colour, shares, name)
            for name, colour, shape in _SHARES
            if (shares := [(row["distance"], row[name]) for row in rows if row[name] is not None])
        )
        charts["quality"] = _make_chart("share", "distance k in bits", *series, highest=1.0)
    return charts


def _stack_pages(times: Sequence[float], steps: Sequence[dict[str, Any]]) -> Iterator[Series]:
    """Stack the pages that were dropped upon those that were kept."""
    low = [0] * len(steps)
    for name in ("kept", "dropped"):
        high = [below + step[name] for below, step in zip(low, steps, strict=True)]
        edges = times, [*times[1:], 2 * times[-1] - times[-2]]
        yield Series("bars", name, list(zip(*edges, low, high, strict=True)), name)
        low = high


def _chart_fingerprints(spread: dict[str, Any]) -> dict[str, Chart]:
    """Chart Figures 2a and 2b of the paper, with lines for evenly spread fingerprints."""
    counts, wanted, buckets = (
        spread[name] for name in ("leading_ones", "leading_ones_expected", "buckets")
    )
    total, expected = max(1, sum(counts)), max(1.0, sum(wanted))
    both = list(enumerate(zip(counts, wanted, strict=True)))
    first = next((at for at, (n, rare) in both if n or rare > _FEWEST_EXPECTED), 0)
    bars = [(at - 0.5, at + 0.5, 0, count / total) for at, (count, _) in both[first:]]
    line = [(at, rare / expected) for at, (_, rare) in both[first:]]
    shares = [(at, at + 1, 0, 100 * n / max(1, sum(buckets))) for at, n in enumerate(buckets)]
    even = [(at, 100 / len(buckets)) for at in (0, len(buckets))]
    return {
        "leading_ones": _make_chart(
            "share of neighbours",
            "position of the leading 1, 63 the highest",
            Series("bars", "accent", bars, "this store"),
            Series("line", "ink", line, "evenly spread"),
        ),
        "buckets": _make_chart(
            "share in %",
            f"{len(buckets)} buckets by the first bits",
            Series("bars", "accent", shares),
            Series("line", "ink", even),
        ),
    }


def _make_chart(
    up: str, across: str, *series: Series, ticks: Sequence[Tick] = (), highest: float = 0.0
) -> Chart:
    """Make a chart that has space for all values, with ticks at whole numbers unless given."""
    points = [value for one in series for value in one.values]
    places = [at for point in points for at in point[: len(point) // 2]]
    left, right = min(places), max(places)
    ticks = ticks or choose_ticks(left, right, _MOST_TICKS_ACROSS, least_step=1)
    top = (highest or max(point[-1] for point in points) or 1.0) * _HEADROOM
    margin = _MARGIN * (right - left or 1)
    heights = choose_ticks(0, top, _MOST_TICKS)
    return Chart(up, across, left - margin, right + margin, top, ticks, heights, series)


def choose_ticks(low: float, high: float, most: int, *, least_step: float = 0.0) -> list[Tick]:
    """Choose round values between two numbers, in at most `most` steps."""
    rough = max((high - low) / most, least_step, 1e-9)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(n * power for n in (1, 2, 2.5, 5, 10) if n * power >= rough * (1 - 1e-9))
    if least_step >= 1:
        step = math.ceil(step)
    places = len(f"{step:.10g}".partition(".")[2])
    values = range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)
    return [(value * step, f"{value * step:,.{places}f}") for value in values]


def _tick_times(times: Sequence[float]) -> list[Tick]:
    """Choose up to four times that read differently; hours within a day, otherwise days."""
    chosen = [times[0], times[len(times) // 3], times[2 * len(times) // 3], times[-1]]
    span = times[-1] - times[0]
    written = "%H:%M:%S" if span < _MINUTES else "%H:%M" if span < _DAY else "%d %b %Y"
    labels = [f"{datetime.fromtimestamp(time, UTC):{written}}" for time in chosen]
    return [(time, label) for label, time in dict(zip(labels, chosen, strict=True)).items()]
