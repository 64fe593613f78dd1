"""How long reading a page may take, and what is read of an odd one."""

import time

import pytest

from scrapy_simhash.pages.fingerprint import fingerprint_page
from tests.helpers.handmade import PARAGRAPHS

MANY = range(20_000)
TEXT = " ".join(PARAGRAPHS)
ATTRIBUTES = " ".join(f"a{number}=1" for number in range(50_000))
# Each took seconds, by the square of its length.
LONG = {
    "attributes of many bodies": f"<p>{TEXT}" + "".join(f"<body a{n}=1>" for n in MANY),
    "attributes of many roots": f"<p>{TEXT}" + "".join(f"<HTML\na{n}=1>" for n in MANY),
    "attributes of two bodies": f"<body {ATTRIBUTES}><p>{TEXT}"
    f"<body {ATTRIBUTES.replace('a', 'b')}>",
    "links below a long base": f"<base href='/{'b/' * 20_000}'><p>{TEXT}"
    + "".join(f"<a href={n}></a>" for n in MANY),
}


@pytest.mark.parametrize("name", LONG)
def test_no_page_takes_long_because_it_is_long(name: str) -> None:
    started = time.process_time()
    made = fingerprint_page(LONG[name], url="http://site.example/")
    assert time.process_time() - started < 1
    assert made.text == TEXT


def test_what_surrounds_repeated_roots_is_read() -> None:
    """As in a page of parts that are whole pages themselves."""
    part = f'<!DOCTYPE html><html lang="en"><head><title>A</title></head><body id=x>{TEXT}</body>'
    made = fingerprint_page(f"{part * 200}</html>")
    assert (made.facts.title, made.facts.language) == ("A", "en")
    assert made.text == " A ".join([TEXT] * 200)
