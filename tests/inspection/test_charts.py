"""The charts of a report: ticks are round and within, bars are as high as what they count."""

import re
from typing import Any

import pytest
from lxml import etree

from scrapy_simhash.inspection.report import (
    Chart,
    make_charts,
    make_environment,
)

NOTHING: dict[str, Any] = {
    "over_time": [],
    "dropped_bytes": 0,
    "distances": {},
    "similarities": {},
    "fingerprints": {"fingerprints": 0},
    "quality": None,
}
HOUR = 3_600


def draw(chart: Chart) -> etree._Element:
    """Draw a chart as the page does."""
    template = make_environment().get_template("charts.html")
    return etree.fromstring(str(template.module.draw(chart)))  # type: ignore[attr-defined]


def heights(svg: etree._Element, colour: str) -> list[float]:
    """How high the bars of a colour are, in points."""
    (path,) = svg.findall(f"path[@class='fill-{colour}']")
    bars = re.findall(r"M[\d.]+ ([\d.]+)V([\d.]+)H[\d.]+V[\d.]+z", str(path.attrib["d"]))
    return [float(low) - float(high) for low, high in bars]


def test_bars_are_as_high_as_their_counts() -> None:
    charts = make_charts({**NOTHING, "distances": {"0": 40, "2": 20, "7": 10}})
    svg = draw(charts["distances"])
    first, second, third = heights(svg, "dropped")
    assert first == pytest.approx(2 * second, abs=0.2) == pytest.approx(4 * third, abs=0.4)
    assert {"0", "7", "distance in bits"} <= {each.text for each in svg.iterfind("text")}


def test_dropped_pages_stand_on_kept_ones() -> None:
    steps = [
        {"time": hour * HOUR, "kept": 3, "dropped": 6 * (hour > 0), "dropped_bytes": 10**6}
        for hour in range(48)
    ]
    charts = make_charts({**NOTHING, "over_time": steps, "dropped_bytes": 48 * 10**6})
    svg = draw(charts["pages"])
    kept, dropped = heights(svg, "kept"), heights(svg, "dropped")
    assert (len(kept), len(dropped)) == (48, 47)
    assert dropped[0] == pytest.approx(2 * kept[0], abs=0.2)
    texts = [each.text for each in svg.iterfind("text")]
    assert {"kept", "dropped", "01 Jan 1970", "02 Jan 1970"} <= set(texts)
    assert charts["bytes"].series[0].values[-1] == (47 * HOUR, 48)
    last = svg.findall("text")[-1]
    assert float(str(last.get("x"))) < 360 - 2.5 * len(str(last.text))
