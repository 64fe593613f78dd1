"""The charts of a report: their ranges, ticks and values; `templates/charts.html` draws them."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

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
        charts["pages"] = _chart_pages(times, steps)
        if figures["dropped_bytes"]:
            sums = accumulate(step["dropped_bytes"] / 1e6 for step in steps)
            values = list(zip(times, sums, strict=True))
            series = [Series("area", "dropped", values), Series("line", "dropped", values)]
            charts["bytes"] = _make_chart("MB dropped, in all", "", series, _tick_times(times))
    if distances := figures["distances"]:
        bars = [(int(bits) - _BAR / 2, int(bits) + _BAR / 2, 0, n) for bits, n in distances.items()]
        series = [Series("bars", "dropped", bars)]
        charts["distances"] = _make_chart("near-duplicates", "distance in bits", series)
    if similarities := figures["similarities"]:
        bars = [(float(low), float(low) + _SIMILARITY_BAR, 0, n) for low, n in similarities.items()]
        series = [Series("bars", "dropped", bars)]
        ticks = choose_ticks(bars[0][0], bars[-1][1], _MOST_TICKS, least_step=_SIMILARITY_STEP)
        charts["similarities"] = _make_chart("near-duplicates", "similarity", series, ticks)
    spread = figures["fingerprints"]
    if spread["fingerprints"]:
        charts["leading_ones"] = _chart_leading_ones(
            spread["leading_ones"], spread["leading_ones_expected"]
        )
        charts["buckets"] = _chart_buckets(spread["buckets"])
    if figures["quality"]:
        charts["quality"] = _chart_quality(figures["quality"])
    return charts


def _chart_pages(times: Sequence[float], steps: Sequence[dict[str, Any]]) -> Chart:
    """Chart the pages over time, kept and dropped."""
    kept, dropped = [], []
    edges = pairwise([*times, 2 * times[-1] - times[-2]])
    for edge, step in zip(edges, steps, strict=True):
        kept.append((*edge, 0, step["kept"]))
        dropped.append((*edge, step["kept"], step["kept"] + step["dropped"]))
    series = [Series("bars", "kept", kept, "kept"), Series("bars", "dropped", dropped, "dropped")]
    return _make_chart("pages", "", series, _tick_times(times))


def _chart_leading_ones(counts: Sequence[int], expected: Sequence[float]) -> Chart:
    """Chart Figure 2a of the paper, and the same for evenly spread fingerprints."""
    total, total_expected = max(1, sum(counts)), max(1.0, sum(expected))
    seen = [at for at, count in enumerate(counts) if count or expected[at] > _FEWEST_EXPECTED]
    places = range(min(seen, default=0), len(counts))
    bars = [(at - 0.5, at + 0.5, 0, counts[at] / total) for at in places]
    line = [(at, expected[at] / total_expected) for at in places]
    series = [
        Series("bars", "accent", bars, "this store"),
        Series("line", "ink", line, "evenly spread"),
    ]
    across = "position of the leading 1, 63 the highest"
    return _make_chart("share of neighbours", across, series)


def _chart_buckets(buckets: Sequence[int]) -> Chart:
    """Chart Figure 2b of the paper: the share in each equal part of all possible fingerprints."""
    total, even = max(1, sum(buckets)), 100 / len(buckets)
    bars = [(at, at + 1, 0, 100 * count / total) for at, count in enumerate(buckets)]
    line = [(0, even), (len(buckets), even)]
    series = [Series("bars", "accent", bars), Series("line", "ink", line)]
    return _make_chart("share in %", f"{len(buckets)} buckets by the first bits", series)


def _chart_quality(rows: Sequence[dict[str, Any]]) -> Chart:
    """Chart Figure 1 of the paper: precision and recall by distance, with confirmation."""
    series = []
    for name, colour, shape in (("precision", "accent", "dots"), ("recall", "dropped", "squares")):
        shares = [(row["distance"], row[name]) for row in rows if row[name] is not None]
        if shares:
            series.append(Series(shape, colour, shares, name))
    return _make_chart("share", "distance k in bits", series, highest=1.0)


def _make_chart(
    up: str,
    across: str,
    series: Sequence[Series],
    ticks: Sequence[Tick] = (),
    *,
    highest: float = 0.0,
) -> Chart:
    """Make a chart that has space for all values, with ticks at whole numbers unless given."""
    points = [value for one in series for value in one.values]
    places = [(bar[0], bar[1]) for one in series if one.shape == "bars" for bar in one.values]
    places = places or [(point[0], point[0]) for point in points]
    left, right = min(place[0] for place in places), max(place[1] for place in places)
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
    """Choose four times; shows hours within a day, otherwise days."""
    chosen = [times[0], times[len(times) // 3], times[2 * len(times) // 3], times[-1]]
    span = times[-1] - times[0]
    written = "%H:%M:%S" if span < _MINUTES else "%H:%M" if span < _DAY else "%d %b %Y"
    return [(time, f"{datetime.fromtimestamp(time, UTC):{written}}") for time in chosen]
