"""Plots; needs matplotlib (`pip install 'scrapy-simhash[plot]'`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from matplotlib.figure import Figure

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def plot_by_distance(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """Draw precision and recall by distance: Figure 1 of the paper, with and without confirmation.

    Args:
        rows: the `by_distance` of an evaluation.
        path: of the picture; its suffix says which kind (png, svg, pdf).

    Raises:
        ValueError: no such kind.
        OSError: the file cannot be written.
    """
    figure = Figure(figsize=(7, 4.5), layout="constrained")  # no window system
    axes = figure.add_subplot()
    bits = [row["distance"] for row in rows]
    for name, prefix, style in (("confirmed", "", "-"), ("plain simhash", "plain_", "--")):
        for figure_name, colour in (("precision", "C0"), ("recall", "C1")):
            shares = [row[prefix + figure_name] for row in rows]
            points = [
                (bit, share) for bit, share in zip(bits, shares, strict=True) if share is not None
            ]
            axes.plot(
                *zip(*points, strict=True) if points else ([], []),
                style,
                color=colour,
                marker="o",
                label=f"{figure_name}, {name}",
            )
    axes.set(xlabel="distance k in bits", ylabel="share", xticks=bits, ylim=(0, 1.02))
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right")
    figure.savefig(path)
