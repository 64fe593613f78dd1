"""The charts of a report: ticks are round and within, bars are as high as what they count."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from scrapy_simhash.inspection.report.page import (
    Chart,
    choose_ticks,
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


@given(
    st.integers(0, 1_000), st.floats(0.01, 1e9), st.integers(3, 8), st.sampled_from([0, 0.02, 1])
)
def test_ticks_are_few_different_and_within(low: int, span: float, most: int, least: float) -> None:
    ticks = choose_ticks(low, low + span, most, least_step=least)
    room = 1e-6 * (low + span)
    assert len(ticks) <= most + 1
    assert all(low - room <= value <= low + span + room for value, _ in ticks)
    assert len({text for _, text in ticks}) == len(ticks)
    if least == 1:
        assert all(value == int(value) for value, _ in ticks)


@pytest.mark.parametrize(
    ("low", "high", "texts"),
    [
        (0, 3.1, ["0", "1", "2", "3"]),
        (0, 1.05, ["0.00", "0.25", "0.50", "0.75", "1.00"]),
        (0, 120_000, ["0", "25,000", "50,000", "75,000", "100,000"]),
        (0, 0, ["0"]),
    ],
)
def test_ticks_are_round(low: float, high: float, texts: list[str]) -> None:
    assert [text for _, text in choose_ticks(low, high, 5)] == texts


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


def test_times_that_read_alike_are_one_tick() -> None:
    steps = [{"time": 10 + n / 48, "kept": 1, "dropped": 0, "dropped_bytes": 0} for n in range(48)]
    ticks = make_charts({**NOTHING, "over_time": steps})["pages"].ticks
    assert [text for _, text in ticks] == ["00:00:10"]


def test_a_single_step_of_time_or_value_has_a_width() -> None:
    steps = [{"time": 10.0 + n, "kept": 1, "dropped": 0, "dropped_bytes": 0} for n in (0, 1)]
    fingerprints = {
        "fingerprints": 1,
        "leading_ones": [0] * 64,
        "leading_ones_expected": [0.0] * 64,
        "buckets": [0] * 127 + [1],
    }
    figures = {
        "over_time": steps,
        "dropped_bytes": 0,
        "similarities": {"1.00": 1},
        "fingerprints": fingerprints,
        "quality": [{"distance": 0, "precision": 1.0, "recall": 1.0}],
    }
    charts = make_charts({**NOTHING, **figures})
    assert set(charts) == {"pages", "similarities", "leading_ones", "buckets", "quality"}
    for chart in charts.values():
        assert chart.left < chart.right
        assert "nan" not in etree.tostring(draw(chart), encoding="unicode")
