"""Pages that somebody made to cost much, or to lose others: what is judged, and what is kept."""

from unittest.mock import Mock

import pytest

from scrapy_simhash.judging import matching
from scrapy_simhash.judging.rule import find_names_apart
from tests.helpers.pages import make_words
from tests.helpers.records import list_dropped, make_article

HTML = "<!DOCTYPE html><title>{}</title><body><h1>{}</h1><p>{}</p></body>"


def test_one_word_very_often() -> None:
    """It is too short for a simhash, however long it is."""
    pages = [("/a", 100_000), ("/b", 100_000), ("/c", 99_999)]
    made = [(path, HTML.format("One", "One", "one " * times)) for path, times in pages]
    assert list_dropped(made) == ["/b"]


@pytest.mark.slow
def test_a_million_words() -> None:
    """Beyond the words that are kept, one that differs makes another page."""
    words = [f"w{number}" for number in range(1_000_000)]
    texts = " ".join(words), " ".join([*words[:-9], "other", *words[-8:]])
    pages = [("/a", texts[0]), ("/b", texts[0]), ("/c", texts[1])]
    made = [(path, HTML.format("Many", "Many", text)) for path, text in pages]
    assert list_dropped(made) == ["/b"]


@pytest.mark.parametrize("own", ["", "numbers", "words"])
def test_a_template_and_nothing_else(own: str) -> None:
    """Equal pages are one; a number or a word that is a record's own makes two."""
    template = " ".join(make_words(1, 400))
    pages = []
    for number in range(30):
        values = {"numbers": f"{7 * number} {number}", "words": make_words(number, 1)[0]}
        value = values.get(own, "")
        pages.append((f"/{number}", HTML.format("Shop", "Item", f"{template}</p><p>{value}")))
    assert len(list_dropped(pages)) == (29 if not own else 0)


def test_pages_that_quote_a_victim_only_keep_its_copies() -> None:
    """What they dissolve are keys: a copy may be kept, but no page is lost."""
    victim = make_article(1)
    quoted = victim.partition("<h1>")[2].partition("<footer>")[0]
    quote = f"<blockquote>{quoted}</blockquote>"
    flood = [(f"/quote/{n}", make_article(100 + n, beside=quote)) for n in range(40)]
    assert list_dropped([("/victim", victim), *flood, ("/other", make_article(2))]) == []
    assert list_dropped([*flood, ("/victim", victim)]) == []


def test_one_text_under_many_titles_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = Mock(wraps=find_names_apart)
    monkeypatch.setattr(matching, "find_names_apart", compared)
    text = " ".join(make_words(1, 300))
    names = make_words(2, 900)
    titles = map(" ".join, zip(*[iter(names)] * 3, strict=True))
    pages = [(f"/{n}", HTML.format(name, name, text)) for n, name in enumerate(titles)]
    assert list_dropped(pages) == []
    assert 0 < compared.call_count < 8 * len(pages)
