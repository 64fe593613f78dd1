"""Draws the figures of docs/paper.md; needs matplotlib (`pip install '.[docs]'`).

    python docs/figures/draw.py                        # draws again what data.json has
    python docs/figures/draw.py --measure [FOLDER]     # measures first

Figure 1 is of the labelled pages in FOLDER (see docs/study.md), without one left as it
is. Figures 2a and 2b are of the example's local site, whose pages may be copied.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

if TYPE_CHECKING:
    from collections.abc import Iterable

    from matplotlib.axes import Axes
    from numpy.typing import NDArray

HERE = Path(__file__).parent
DATA = HERE / "data.json"
EVALUATE = HERE.parent.parent / "benchmarks" / "study" / "evaluate.py"
BITS = 64
BUCKETS = 128


def main(*arguments: str) -> None:
    """Measure what was asked for, and draw."""
    parser = argparse.ArgumentParser(description="Draw the figures of docs/paper.md.")
    parser.add_argument("--measure", nargs="?", const="", metavar="FOLDER")
    parser.add_argument("--output", type=Path, default=HERE, metavar="FOLDER")
    options = parser.parse_args(arguments)
    data = json.loads(DATA.read_text("utf-8")) if DATA.exists() else {}
    if options.measure is not None:
        data["site"] = measure_site()
        if options.measure:
            data["labelled"] = measure_labelled(options.measure)
        DATA.write_text(json.dumps(data, indent=1) + "\n", "utf-8")
    # The same data make the same bytes, and letters stay letters.
    mpl.rcParams.update({"svg.hashsalt": "figures", "svg.fonttype": "none"})
    draw_labelled(data["labelled"], options.output / "figure-1.svg")
    draw_site(data["site"], options.output)


def measure_labelled(folder: str) -> dict[str, Any]:
    """Judge labelled pairs at every distance."""
    command = [sys.executable, str(EVALUATE), folder, "--json"]
    answer = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return {name: answer[name] for name in ("pages", "pairs", "by_distance")}


def measure_site(answers: int | None = None) -> dict[str, Any]:
    """Fingerprint what the local site answers, and one page of each of its documents.

    Args:
        answers: only so many.
    """
    from scrapy_simhash import fingerprint_page  # noqa: PLC0415 - slow, and not needed to draw

    fingerprints: list[int] = []
    documents: dict[str, int] = {}
    for document, body in list(_walk_site())[:answers]:
        page = fingerprint_page(body, seed=0)
        fingerprints.append(page.facts.fingerprint)
        documents.setdefault(document, page.facts.fingerprint)
    return {
        "all pages": describe(fingerprints),
        "one of each document": describe(documents.values()),
    }


def _walk_site() -> Iterable[tuple[str, str]]:
    """Follow all links from the start page: document and text of each page."""
    from urllib.parse import urljoin, urlsplit  # noqa: PLC0415

    sys.path.insert(0, str(HERE.parent.parent / "example_project"))
    from docsite import Site  # noqa: PLC0415 - it is no installed package

    site, waiting, known = Site(), ["/"], {"/"}
    for path in waiting:
        answer = site.answer(path)
        yield answer.document, answer.text
        for href in re.findall(r'<a\s[^>]*?href="([^"]*)"', answer.text):
            target = urlsplit(urljoin(f"http://site{path}", href))
            link = target._replace(scheme="", netloc="", fragment="").geturl()
            if target.netloc == "site" and link not in known:
                known.add(link)
                waiting.append(link)


def describe(fingerprints: Iterable[int]) -> dict[str, Any]:
    """Count leading positions of neighbours' XORs, and what falls into each bucket.

    Positions are counted from the left, 0 to 63; 64 is that of equal neighbours.
    """
    found = np.sort(np.fromiter(fingerprints, np.uint64))
    differences = found[1:] ^ found[:-1]
    positions = [BITS - int(difference).bit_length() for difference in differences]
    buckets = found >> np.uint64(BITS - BUCKETS.bit_length() + 1)
    return {
        "fingerprints": len(found),
        "positions": np.bincount(positions, minlength=BITS + 1).tolist(),
        "buckets": np.bincount(buckets.astype(np.int64), minlength=BUCKETS).tolist(),
    }


def expect_positions(fingerprints: int) -> NDArray[np.float64]:
    """Expected count of each position for evenly drawn fingerprints.

    A position h is one node at depth h of the binary tree of all fingerprints that has something
    on both sides.
    """
    cells = 2.0 ** np.arange(BITS)
    with np.errstate(divide="ignore"):  # at depth 0 no fingerprint is outside
        # Less one, because ones would swallow what is left of them at great depths.
        outside = np.expm1(fingerprints * np.log1p(-1 / cells))
        outside_half = np.expm1(fingerprints * np.log1p(-0.5 / cells))
    return np.asarray(cells * (outside - 2 * outside_half))


def draw_labelled(labelled: dict[str, Any], path: Path) -> None:
    """Draw Figure 1."""
    figure = Figure(figsize=(7, 4.5), layout="constrained")  # no window system
    axes = figure.add_subplot()
    rows = labelled["by_distance"]
    for name, prefix, style in (("confirmed", "", "-"), ("plain simhash", "plain_", "--")):
        for share, colour in (("precision", "C0"), ("recall", "C1")):
            known = [(row["distance"], row[prefix + share]) for row in rows]
            points = np.array([point for point in known if point[1] is not None]).reshape(-1, 2)
            axes.plot(*points.T, style, color=colour, marker="o", label=f"{share}, {name}")
    bits = [row["distance"] for row in rows]
    axes.set(xlabel="distance k in bits", ylabel="share", xticks=bits, ylim=(0, 1.02))
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right")
    figure.savefig(path)
    _drop_date(path)


def draw_site(site: dict[str, Any], folder: Path) -> None:
    """Draw Figures 2a and 2b."""
    for name, draw in (("figure-2a", _draw_positions), ("figure-2b", _draw_buckets)):
        figure = Figure(figsize=(7, 4), layout="constrained")
        for axes, (title, found) in zip(
            figure.subplots(2, 1, sharex=True), site.items(), strict=True
        ):
            draw(axes, found)
            axes.set_title(f"{title}: {found['fingerprints']:,} fingerprints", fontsize=10)
        figure.supylabel(
            "share of neighbours" if name == "figure-2a" else "fingerprints", fontsize=10
        )
        figure.savefig(folder / f"{name}.svg", metadata={"Date": None})


def _draw_positions(axes: Axes, found: dict[str, Any]) -> None:
    shares = np.array(found["positions"]) / max(1, found["fingerprints"] - 1)
    expected = expect_positions(found["fingerprints"]) / max(1, found["fingerprints"] - 1)
    axes.bar(range(BITS + 1), shares, color="C0", label="measured")
    axes.plot(range(BITS), expected, color="C1", label="evenly drawn")
    axes.set_xticks([*range(0, BITS, 8), BITS], [*map(str, range(0, BITS, 8)), "equal"])
    axes.legend(loc="upper center")


def _draw_buckets(axes: Axes, found: dict[str, Any]) -> None:
    axes.bar(range(BUCKETS), found["buckets"], width=1.0, color="C0")
    axes.axhline(found["fingerprints"] / BUCKETS, color="C1", label="mean")
    axes.legend(loc="upper right")


def _drop_date(path: Path) -> None:
    lines = path.read_text("utf-8").splitlines()
    path.write_text("\n".join(line for line in lines if "<dc:date>" not in line) + "\n", "utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
