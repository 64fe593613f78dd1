"""The charts of a report: their ranges, ticks and values; `templates/charts.html` draws them."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from itertools import pairwise
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
        charts["pages"] = _chart_pages(steps)
        if figures["dropped_bytes"]:
            charts["bytes"] = _chart_bytes(steps)
    if distances := figures["distances"]:
        bars = [(int(bits) - _BAR / 2, int(bits) + _BAR / 2, 0, n) for bits, n in distances.items()]
        charts["distances"] = _chart_near_duplicates("distance in bits", bars, step=1)
    if similarities := figures["similarities"]:
        bars = [
            (low, low + _SIMILARITY_BAR, 0, n)
            for low, n in zip(map(float, similarities), similarities.values(), strict=True)
        ]
        charts["similarities"] = _chart_near_duplicates("similarity", bars, step=_SIMILARITY_STEP)
    spread = figures["fingerprints"]
    if spread["fingerprints"]:
        charts["leading_ones"] = _chart_leading_ones(
            spread["leading_ones"], spread["leading_ones_expected"]
        )
        charts["buckets"] = _chart_buckets(spread["buckets"])
    if figures["quality"]:
        charts["quality"] = _chart_quality(figures["quality"])
    return charts


def _chart_pages(steps: Sequence[dict[str, Any]]) -> Chart:
    """Chart the pages over time, kept and dropped."""
    times = [step["time"] for step in steps]
    edges = list(pairwise([*times, 2 * times[-1] - times[-2]]))
    kept = [(*edge, 0, step["kept"]) for edge, step in zip(edges, steps, strict=True)]
    dropped = [
        (*edge, step["kept"], step["kept"] + step["dropped"])
        for edge, step in zip(edges, steps, strict=True)
    ]
    series = [Series("bars", "kept", kept, "kept"), Series("bars", "dropped", dropped, "dropped")]
    return _make_chart("pages", "", series, ticks=_tick_times(times))


def _chart_bytes(steps: Sequence[dict[str, Any]]) -> Chart:
    """Chart the total bytes of dropped pages over time."""
    total, sums = 0, []
    for step in steps:
        total += step["dropped_bytes"]
        sums.append((step["time"], total / 1e6))
    series = [Series("area", "dropped", sums), Series("line", "dropped", sums)]
    ticks = _tick_times([step["time"] for step in steps])
    return _make_chart("MB dropped, in all", "", series, ticks=ticks)


def _chart_near_duplicates(across: str, bars: Sequence[tuple[float, ...]], *, step: float) -> Chart:
    most = _MOST_TICKS_ACROSS if step >= 1 else _MOST_TICKS
    left, right = min(bar[0] for bar in bars), max(bar[1] for bar in bars)
    return _make_chart(
        "near-duplicates",
        across,
        [Series("bars", "dropped", bars)],
        ticks=choose_ticks(left, right, most, least_step=step),
    )


def _chart_leading_ones(counts: Sequence[int], expected: Sequence[float]) -> Chart:
    """Chart Figure 2a of the paper, and the same for evenly spread fingerprints."""
    total, total_expected = max(1, sum(counts)), max(1.0, sum(expected))
    seen = [at for at, count in enumerate(counts) if count or expected[at] > _FEWEST_EXPECTED]
    first = min(seen, default=0)
    bars = [(at - 0.5, at + 0.5, 0, counts[at] / total) for at in range(first, len(counts))]
    line = [(at, expected[at] / total_expected) for at in range(first, len(counts))]
    series = [
        Series("bars", "accent", bars, "this store"),
        Series("line", "ink", line, "evenly spread"),
    ]
    ticks = choose_ticks(first, len(counts), _MOST_TICKS_ACROSS, least_step=1)
    return _make_chart(
        "share of neighbours", "position of the leading 1, 63 the highest", series, ticks=ticks
    )


def _chart_buckets(buckets: Sequence[int]) -> Chart:
    """Chart Figure 2b of the paper: the share in each equal part of all possible fingerprints."""
    total, even = max(1, sum(buckets)), 100 / len(buckets)
    bars = [(at, at + 1, 0, 100 * count / total) for at, count in enumerate(buckets)]
    series = [
        Series("bars", "accent", bars),
        Series("line", "ink", [(0, even), (len(buckets), even)]),
    ]
    ticks = choose_ticks(0, len(buckets), _MOST_TICKS_ACROSS, least_step=1)
    return _make_chart(
        "share in %", f"{len(buckets)} buckets by the first bits", series, ticks=ticks
    )


def _chart_quality(rows: Sequence[dict[str, Any]]) -> Chart:
    """Chart Figure 1 of the paper: precision and recall by distance, with confirmation."""
    series = []
    for name, colour, shape in (("precision", "accent", "dots"), ("recall", "dropped", "squares")):
        shares = [(row["distance"], row[name]) for row in rows if row[name] is not None]
        if shares:
            series.append(Series(shape, colour, shares, name))
    bits = [row["distance"] for row in rows]
    ticks = choose_ticks(min(bits), max(bits), _MOST_TICKS_ACROSS, least_step=1)
    return _make_chart("share", "distance k in bits", series, ticks=ticks, highest=1.0)


def _make_chart(
    up: str,
    across: str,
    series: Sequence[Series],
    *,
    ticks: Sequence[Tick],
    highest: float = 0.0,
) -> Chart:
    points = [value for each in series for value in each.values]
    places = [(bar[0], bar[1]) for each in series if each.shape == "bars" for bar in each.values]
    places = places or [(point[0], point[0]) for point in points]
    left, right = min(place[0] for place in places), max(place[1] for place in places)
    highest = highest or max(point[-1] for point in points) or 1.0
    margin = _MARGIN * (right - left or 1)
    heights = choose_ticks(0, highest * _HEADROOM, _MOST_TICKS)
    return Chart(
        up, across, left - margin, right + margin, highest * _HEADROOM, ticks, heights, series
    )


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
