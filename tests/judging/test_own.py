"""Own words of two pages, against a loop over lists of words."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_simhash.judging import texts
from scrapy_simhash.judging.texts import (
    UNKNOWN_TEMPLATE,
    OwnWords,
    Run,
    Template,
    Text,
    compare_words,
    find_swap,
)
from scrapy_simhash.pages.features import locate, tokenise

# Few words, so that texts have triples in common, and some repeat.
lines = st.lists(
    st.lists(st.sampled_from(["a", "b", "c", "d", "e", "1", "2", "3", "f"]), max_size=6), max_size=4
)
_NUMBERS = {"1", "2", "3"}


def compare(
    first: Text,
    second: Text,
    template: Template = UNKNOWN_TEMPLATE,
    urls: tuple[str, str] = ("", ""),
) -> OwnWords:
    return compare_words(first, second, template, urls)


def write(words: Sequence[Sequence[str]]) -> str:
    return "\n".join(" ".join(line) for line in words)


def list_triples(words: Sequence[str], *, masked: bool) -> list[tuple[str, ...]]:
    read = ["#" if masked and word in _NUMBERS else word for word in words]
    padded = ["<", *read, ">"]
    return [tuple(padded[place : place + 3]) for place in range(len(read))]


def find_own(
    words: Sequence[str], other: Sequence[str], sample: Sequence[Sequence[str]]
) -> list[bool]:
    """Mark the words of which no triple is on the other page or template."""
    missing = {}
    for masked in (True, False):
        counted = [set(list_triples(page, masked=masked)) for page in sample]
        least = max(3, 0.2 * len(sample)) if len(sample) >= 6 else len(sample) + 1
        theirs = set(list_triples(other, masked=masked))
        missing[masked] = [
            triple not in theirs and sum(triple in page for page in counted) < least
            for triple in list_triples(words, masked=masked)
        ]
    return [
        all(missing[word not in _NUMBERS][max(0, place - 1) : place + 2])
        for place, word in enumerate(words)
    ]


@given(lines, lines, st.lists(lines, max_size=8))
def test_own_words(
    first: list[list[str]], second: list[list[str]], sample: list[list[list[str]]]
) -> None:
    flat, others = [*chain(*first)], [*chain(*second)]
    template = Template([Text(write(page)) for page in sample])
    own = compare(Text(write(first)), Text(write(second)), template)
    pages = [[*chain(*page)] for page in sample]
    assert own.first.own.tolist() == find_own(flat, others, pages)
    assert own.second.own.tolist() == find_own(others, flat, pages)
    assert own.equal == (not any(find_own(flat, others, pages) + find_own(others, flat, pages)))
    assert own.first.alone.tolist() == find_own(flat, others, [])
    assert not (own.first.new & ~own.first.own).any()


@given(lines)
def test_a_text_has_nothing_beyond_itself(words: list[list[str]]) -> None:
    text = write(words)
    own = compare(Text(text), Text(text))
    assert own.equal
    assert own.common == sum(map(len, words))
    assert find_swap(own) is None


@given(st.text())
def test_any_text(text: str) -> None:
    read = Text(text)
    assert len(read) == len(read.numbers) == len(read.blocks) == len(read.triples)
    own = compare(read, Text(""))
    assert own.first.own.all()
    assert len(own.first.list_words()) == min(10, len(read))


TEXT = "home\ncook in rome for a year\nposted\n12 may 2024\nnow {}"


@pytest.mark.parametrize(
    ("text", "words", "others", "fields"),
    [
        ("home\ncook in oslo for a year\nposted\n12 may 2024", "rome", "oslo", ("rome", "oslo")),
        ("home\ncook in rome for a year\nposted\n13 may 2024", "12", "13", ("12", "13")),
        ("home\ncook for a year\nposted\n12 may 2024", "in rome", "", ("in rome", "")),
        (
            "home\ncook in rome for a year\nan offer of the day\nposted\n12 may 2024",
            "",
            "an offer of the day",
            None,
        ),
        (
            "home\ncook in rome for a year\nposted\n\u0661\u0662 may 2024",
            "12",
            "\u0661\u0662",
            None,
        ),
    ],
    ids=["a place", "a day", "less", "an advertisement", "another script's digits"],
)
def test_what_differs(text: str, words: str, others: str, fields: tuple[str, str] | None) -> None:
    own = compare(Text("home\ncook in rome for a year\nposted\n12 may 2024"), Text(text))
    assert (own.first.show(), own.second.show()) == (words, others)
    assert find_swap(own) == fields


@pytest.mark.parametrize(
    ("words", "values", "swap"),
    [
        (20, ("2", "4"), ("2", "4")),
        (20, ("893761", "883430"), None),
        (20, ("12:15", "12:30"), None),
        (120, ("2", "4"), None),
    ],
    ids=["small", "a counter", "a time", "a long page"],
)
def test_a_small_number_of_a_short_page(
    words: int, values: tuple[str, str], swap: tuple[str, str] | None
) -> None:
    page = " ".join(map("word{}".format, range(words))).replace("word9 ", "size of {} dwords is ")
    one, other = (Text(page.format(value)) for value in values)
    own = compare(one, other)
    assert find_swap(own) == swap


@pytest.mark.parametrize("blank", ["\n", " "], ids=["lines", "one line"])
def test_a_timetable_costs_what_it_is_long(blank: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All times differ, behind the same word; each word is located once, each run counted once."""
    located, looked = Counter[str](), Counter[str]()

    def count_located(text: str, words: list[str], begin: int) -> Iterator[tuple[int, int]]:
        located["words"] += len(words)
        return locate(text, words, begin)

    def count_looked(text: Text, run: Run) -> int:
        looked["runs"] += 1
        return count_numbers(text, run)

    count_numbers = texts._count_numbers
    monkeypatch.setattr(texts, "locate", count_located)
    monkeypatch.setattr(texts, "_count_numbers", count_looked)
    line = "bus w{1} departs at {0}:{2:02}:{3:02}.{0}{1:03} from gate w{1}"
    departures = [
        [line.format(hour, number, *divmod(number, 60)) for number in range(200)] for hour in (8, 9)
    ]
    one, other = (Text(blank.join(each)) for each in departures)
    own = compare(one, other)
    assert find_swap(own) is None
    assert located.total() <= 2 * len(own.first.text)
    assert 0 < looked["runs"] <= 2 * 200


def test_an_address_that_is_written_often_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read = Counter[str]()

    def count_read(text: str) -> list[str]:
        read["characters"] += len(text)
        return tokenise(text)

    text = Text("see a.example/docs/in/rome now\n" * 200)
    monkeypatch.setattr(texts, "tokenise", count_read)
    marked = text.mark_address("http://a.example/docs/in/rome")
    assert marked.sum() == 3 * 200
    assert 0 < read["characters"] <= len(text.normal)


def test_a_number_in_a_cell_is_a_field_though_the_site_has_it() -> None:
    page = "size\n{}\ncolour red and much else that all pages of this shop have"
    sample = Template([Text(page.format(number)) for number in (10, 12, 10, 12, 10, 12)])
    own = compare(Text(page.format(10)), Text(page.format(12)), sample)
    assert own.equal  # both numbers are the site's
    assert find_swap(own) == ("10", "")


def test_words_beyond_the_bound() -> None:
    one, same, other = (Text("a b", rest) for rest in (b"1", b"1", b"2"))
    assert compare(one, same).equal
    assert not compare(one, other).equal


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("http://a.example/7/view", "7"),
        ("http://a.example/x/view.html", "view"),
        ("http://a.example/7/edit", "edit"),
        ("http://a.example/view", "view"),
        ("http://a.example/view?id=7", "view?id=7"),
        ("http://a.example/4022/print", "4022/print"),
        ("http://a.example/1.2.3/print", "print"),
    ],
)
def test_the_name_in_an_address(url: str, name: str) -> None:
    urls = [f"http://a.example/{number}/view" for number in range(6)]
    assert Template([Text("a")] * 6, urls).find_name(url) == name
    assert UNKNOWN_TEMPLATE.find_name("http://a.example/7/view") == "view"


def test_numbers_are_known_by_digits_of_all_scripts() -> None:
    text = Text("12 iphone7 word \u0663")
    assert text.numbers.tolist() == [True, True, False, True]
    assert np.array_equal(text.blocks, [0] * 4)


@pytest.mark.parametrize(
    ("texts", "sample", "swap"),
    [
        (("a b c d e f g", "h i j k l m n"), (), ("a b c d e f g", "h i j k l m n")),
        (("a b c d e f g", "h i j k l m n"), ("a b c d e f g",), None),
        (("a b c d e f g", "g f e d c b a"), (), None),
        (("a b", "c"), ("a b", "c"), ("a b", "c")),
        (("on 3 may", "on 4 june"), (), ("3", "4")),
        (("on 3 may at 10 30", "on 4 may at 11 15"), (), ("3 may at 10 30", "4 may at 11 15")),
        (("on 3 may at 10:30", "on 3 may at 10:15"), (), None),
        (("a b c", ""), (), ("a b c", "")),
        (("\na b c", ""), (), None),
        (("a b c d e f", ""), (), None),
    ],
    ids=[
        "texts",
        "advertisement",
        "order",
        "field",
        "months",
        "dates",
        "minutes",
        "phrase",
        "block",
        "more",
    ],
)
def test_what_stands_in_the_place_of_what(
    texts: tuple[str, str], sample: Sequence[str], swap: tuple[str, str] | None
) -> None:
    page = "home of all\nwe say {}\nand much else that all have"
    others = [Text(page.format(text)) for text in [*sample, *"uvwxyz"]]
    one, other = (Text(page.format(text)) for text in texts)
    own = compare(one, other, Template(others))
    assert find_swap(own) == swap
    turned = own._replace(first=own.second, second=own.first)
    assert find_swap(turned) == (swap[::-1] if swap else None)


def test_many_words_at_the_top_are_a_frame() -> None:
    one, other = (Text(f"{words}\nhome of all") for words in ("a b c d e f g", "h i j k l m n"))
    assert find_swap(compare(one, other)) is None
    one, other = (Text(f"{words}\nhome of all") for words in ("a b c", "h i j"))
    assert find_swap(compare(one, other)) == ("a b c", "h i j")


def test_the_address_that_a_page_writes_out_is_not_its_own() -> None:
    page = "home of all\nprinted from http://a.example/{}.html today"
    one, other = "docs/in/rome", "docs/in/oslo"
    urls = f"http://a.example/{one}.html", f"http://a.example/{other}.html?print=1"
    texts = Text(page.format(one)), Text(page.format(other))
    own = compare(*texts, urls=urls)
    assert own.equal
    assert find_swap(own) is None
    assert [side.show() for side in compare(*texts, urls=urls[::-1])[:2]] == [
        "rome",
        "oslo",
    ]
    # A name is no address, nor is a date.
    for one, other in (("in rome", "in oslo"), ("on 2026/11/26", "on 2026/11/27")):
        own = compare(
            Text(f"we are {one}"),
            Text(f"we are {other}"),
            urls=(f"http://a.example/{one[3:]}", f"http://a.example/{other[3:]}"),
        )
        assert not own.equal
