"""Which links of a dropped page are new: on no page that was kept, and whose pages did not come."""

import pytest

from scrapy_simhash.judge.links import LinkTable
from scrapy_simhash.pages.links import NO_LINKS, read_links

A = "http://a.example"


def measure(links: list[str], seen: list[str], *pages: str, group: str = "") -> float | None:
    """Measure the links of the first of some pages after a page with others was kept."""
    table = LinkTable()
    table.add(read_links(seen, A), "")
    table.add_url(f"{A}/came")
    return table.measure_new(read_links(links, A), group, *pages)


@pytest.mark.parametrize(
    ("links", "share"),
    [(["/1", "/2"], 0.0), (["/2", "/3", "/4", "/came"], 0.5), (["/4?sid=1"], 1.0), ([], None)],
)
def test_links_of_kept_pages_are_not_new(links: list[str], share: float | None) -> None:
    assert measure(links, ["/1", "/2"], f"{A}/list") == share


def test_what_another_callback_kept_is_new() -> None:
    assert measure(["/1"], ["/1"], group="other") == 1.0
    assert measure(["/came"], ["/1"], group="other") == 0.0
    assert LinkTable().measure_new(NO_LINKS, "") is None


def test_links_that_name_their_own_page_or_the_original_are_not_new() -> None:
    """A login says where one wanted to go, and a print view leads back."""
    back = ["/two", "/login?next=/two", "/in?back=http%3A%2F%2Fa.example%2Ftwo&x=1"]
    assert measure(back, ["/one"], f"{A}/two", f"{A}/one") == 0.0
    assert measure([*back, "/new"], ["/one"], f"{A}/two") == 0.25
    assert measure(["/one"], ["/menu"], f"{A}/two", f"{A}/one") == 0.0
    assert measure(back, ["/one"], f"{A}/login", f"{A}/one") == 1.0
