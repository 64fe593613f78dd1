"""What a mistyped address may have meant."""

import pytest

from scrapy_simhash.inspection.explanation import add_suggestions

KNOWN = ["http://a.example/b?x=1&y=2", "https://a.example/c/", "http://a.example/", "http://[bad/"]


@pytest.mark.parametrize(
    ("asked", "suggested"),
    [
        ("http://a.example/c", "https://a.example/c/"),
        ("https://www.a.example/c/index.html#top", "https://a.example/c/"),
        ("http://a.example/%63/", "https://a.example/c/"),
        ("a.example/C", "https://a.example/c/"),
        ("http://a.example", "http://a.example/"),
        ("http://a.example/b?y=2&x=1", "http://a.example/b?x=1&y=2"),
        ("http://a.example/b", "http://a.example/b?x=1&y=2"),
    ],
)
def test_ways_of_writing(asked: str, suggested: str) -> None:
    assert add_suggestions("no", asked, KNOWN * 2) == f"no; did you mean {suggested} ?"


@pytest.mark.parametrize("asked", ["http://b.example/c", "http://a.example/d", "http://[", ""])
def test_nothing_like_it(asked: str) -> None:
    assert add_suggestions("no", asked, KNOWN) == "no"


def test_three_at_most() -> None:
    known = [f"http://a.example/b?n={number}" for number in range(9)]
    named = " or ".join(known[:3])
    assert add_suggestions("no", "http://a.example/b", known) == f"no; did you mean {named} ?"
