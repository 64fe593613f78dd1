"""Plots of a report: SVG to stand within a page, in the page's own colours.

Needs matplotlib (`pip install 'scrapy-simhash[report]'`).
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from io import BytesIO
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from lxml import etree
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

# Inches; 360 points wide, so text of 10 points can still be read on a telephone.
_WIDTH, _HEIGHT = 5.0, 2.6
_POINTS = 10
# Each colour stands for a class of the page's style sheet, which knows light and dark.
_CLASSES = {
    "#010101": "ink",
    "#020202": "line",
    "#030303": "kept",
    "#040404": "dropped",
    "#050505": "accent",
}
_INK, _LINE, KEPT, DROPPED, ACCENT = _CLASSES
_STYLE: dict[Any, Any] = {
    "axes.edgecolor": _LINE,
    "axes.facecolor": "none",
    "axes.labelcolor": _INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.axisbelow": True,
    "font.size": _POINTS,
    "grid.color": _LINE,
    "legend.frameon": False,
    "svg.fonttype": "none",
    "text.color": _INK,
    "xtick.color": _LINE,
    "xtick.labelcolor": _INK,
    "ytick.color": _LINE,
    "ytick.labelcolor": _INK,
}
_SVG = "{http://www.w3.org/2000/svg}"
_XLINK = "{http://www.w3.org/1999/xlink}href"


def plot_pages(steps: Sequence[dict[str, Any]]) -> str:
    """Draw pages by time, kept and dropped; `over_time` of the figures."""
    with _style("pages"):
        figure, axes = _begin("", "pages")
        times = [_time_of(step) for step in steps]
        # One outline each: drawn in a tenth of the time of as many bars.
        edges = [*times, 2 * times[-1] - times[-2]]
        kept = [step["kept"] for step in steps]
        pages = [step["kept"] + step["dropped"] for step in steps]
        axes.stairs(kept, edges, fill=True, color=KEPT, label="kept")
        axes.stairs(pages, edges, baseline=kept, fill=True, color=DROPPED, label="dropped")
        axes.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=2, borderaxespad=0)
        _show_times(axes, times)
        return _write(figure)


def plot_bytes(steps: Sequence[dict[str, Any]]) -> str:
    """Draw the bytes of dropped pages, summed up over time."""
    with _style("bytes"):
        figure, axes = _begin("", "MB dropped, in all")
        times = [_time_of(step) for step in steps]
        total, sums = 0, []
        for step in steps:
            total += step["dropped_bytes"]
            sums.append(total / 1e6)
        axes.fill_between(times, sums, color=DROPPED, alpha=0.25, linewidth=0)
        axes.plot(times, sums, color=DROPPED)
        axes.set_ylim(bottom=0)
        _show_times(axes, times)
        return _write(figure)


def plot_distances(distances: dict[str, int]) -> str:
    """Draw near-duplicates by distance."""
    with _style("distances"):
        figure, axes = _begin("distance in bits", "near-duplicates")
        axes.bar([int(bits) for bits in distances], list(distances.values()), color=DROPPED)
        return _write(figure)


def plot_similarities(similarities: dict[str, int]) -> str:
    """Draw near-duplicates by estimated similarity, in steps of 0.02."""
    with _style("similarities"):
        figure, axes = _begin("similarity", "near-duplicates")
        lowest = [float(step) for step in similarities]
        axes.bar(lowest, list(similarities.values()), 0.018, align="edge", color=DROPPED)
        axes.xaxis.set_major_locator(MaxNLocator(5))
        return _write(figure)


def plot_leading_ones(counts: Sequence[int], expected: Sequence[float]) -> str:
    """Draw Figure 2a of the paper, with what evenly spread fingerprints would give."""
    with _style("leading"):
        figure, axes = _begin("position of the leading 1, 63 the highest", "share of neighbours")
        total = max(1, sum(counts))
        positions = range(len(counts))
        edges = [place - 0.5 for place in range(len(counts) + 1)]
        shares = [count / total for count in counts]
        axes.stairs(shares, edges, fill=True, color=ACCENT, label="this store")
        total_expected = max(1.0, sum(expected))
        axes.plot(
            positions,
            [share / total_expected for share in expected],
            color=_INK,
            linewidth=1,
            label="evenly spread",
        )
        seen = [place for place, count in enumerate(counts) if count or expected[place] > 0.1]  # noqa: PLR2004
        axes.set_xlim(min(seen, default=0) - 1, 64)
        axes.legend(loc="upper left")
        return _write(figure)


def plot_buckets(buckets: Sequence[int]) -> str:
    """Draw Figure 2b of the paper: shares of equal parts of all possible fingerprints."""
    with _style("buckets"):
        figure, axes = _begin(f"{len(buckets)} buckets by the first bits", "share in %")
        total = max(1, sum(buckets))
        axes.stairs([100 * count / total for count in buckets], fill=True, color=ACCENT)
        axes.axhline(100 / len(buckets), color=_INK, linewidth=1)
        axes.set_xlim(-1, len(buckets))
        return _write(figure)


def plot_quality(rows: Sequence[dict[str, Any]]) -> str:
    """Draw Figure 1 of the paper: precision and recall by distance, with confirmation."""
    with _style("quality"):
        figure, axes = _begin("distance k in bits", "share")
        for name, colour, marker in (("precision", ACCENT, "o"), ("recall", DROPPED, "s")):
            points = [(row["distance"], row[name]) for row in rows if row[name] is not None]
            if points:
                axes.plot(*zip(*points, strict=True), marker=marker, color=colour, label=name)
        axes.set_ylim(0, 1.02)
        axes.legend(loc="lower right")
        return _write(figure)


def _style(name: str) -> Any:
    # The salt makes the names of clip paths: reproducible, and different in each plot of a page.
    return mpl.rc_context({**_STYLE, "svg.hashsalt": name})


def _begin(across: str, up: str) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(_WIDTH, _HEIGHT))  # no window system
    # Looking for the best margins takes most of the time of a plot; these have room for "100,000".
    axes = figure.add_axes((0.13, 0.2 if across else 0.12, 0.85, 0.66 if across else 0.74))
    axes.set_xlabel(across)
    axes.set_title(up, loc="left", x=-0.13, fontsize=_POINTS)
    axes.grid(axis="y", linewidth=0.6)
    axes.tick_params(length=0, pad=6)
    axes.yaxis.set_major_locator(MaxNLocator(5))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    return figure, axes


def _time_of(step: dict[str, Any]) -> float:
    return float(step["time"])


def _show_times(axes: Axes, times: Sequence[float]) -> None:
    """Label a few times: hours within a day, else days."""
    chosen = [times[0], times[len(times) // 3], times[2 * len(times) // 3], times[-1]]
    day = times[-1] - times[0] < 86_400  # noqa: PLR2004 - seconds
    written = "%H:%M:%S" if times[-1] - times[0] < 600 else "%H:%M" if day else "%d %b %Y"  # noqa: PLR2004
    axes.set_xticks(chosen, [f"{datetime.fromtimestamp(time, UTC):{written}}" for time in chosen])


def _write(figure: Figure) -> str:
    octets = BytesIO()
    figure.savefig(octets, format="svg", transparent=True)
    root = etree.fromstring(octets.getvalue(), etree.XMLParser(resolve_entities=False))
    etree.strip_elements(root, "{*}metadata", "{*}style", etree.Comment, with_tail=False)
    for element in root.iter(f"{_SVG}*"):
        _adopt(element)
    for attribute in ("width", "height", "version"):
        root.attrib.pop(attribute, "")
    root.set("class", "plot")
    root.set("aria-hidden", "true")
    etree.cleanup_namespaces(root)
    return etree.tostring(root, encoding="unicode")


def _adopt(element: Any) -> None:
    """Turn styles into attributes, which the page's policy allows, and colours into classes."""
    for declaration in element.attrib.pop("style", "").split(";"):
        key, _, value = declaration.partition(":")
        if key.strip() and not key.strip().startswith("font"):
            element.set(key.strip(), value.strip())
    classes = []
    for kind in ("fill", "stroke"):
        role = _CLASSES.get(element.get(kind, ""))
        if role:
            del element.attrib[kind]
            classes.append(f"{kind}-{role}")
    if classes:
        element.set("class", " ".join(classes))
    if _XLINK in element.attrib:
        element.set("href", element.attrib.pop(_XLINK))
    # Names of groups repeat from plot to plot; those that are referred to begin with a hash.
    if re.fullmatch(r"[\w.]+_\d+", element.get("id", "")):
        del element.attrib["id"]
