"""What is kept of a page's words: bounded, read again as it was, and all that a reader sees."""

import zlib

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scrapy_simhash.errors import DamagedError
from scrapy_simhash.pages import fingerprint
from scrapy_simhash.pages.facts import Wording, pack, unpack
from scrapy_simhash.pages.features import normalise, read_words, tokenise
from scrapy_simhash.pages.fingerprint import fingerprint_page, make_wording, read_page
from tests.helpers.handmade import PARAGRAPHS
from tests.helpers.strategies import texts

SEED = 7
PROSE = " ".join(PARAGRAPHS)
VALUE = "red twelve 40 kg"


def make(text: str, *beside: str) -> Wording:
    return make_wording(read_words(text, SEED), beside, SEED)


@given(st.lists(texts).map("\n".join), st.integers(0, 30), st.integers(0, 120))
@example("漢字かな", 2, 120)
@example("a\u0301 b", 1, 120)
def test_words_up_to_the_bound_and_a_digest_of_the_rest(text: str, most: int, size: int) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(fingerprint, "MOST_WORDS", most)
        patched.setattr(fingerprint, "_MOST_CHARACTERS", size)
        made, more, signs = make(text), make(f"{text} and"), make(f"{text} !")
    normal, words = normalise(text), tokenise(normalise(text))
    kept = tokenise(made.text)
    assert normal.startswith(made.text)
    assert len(made.text) <= size
    assert kept == words[: len(kept)]
    assert len(kept) <= most
    assert (made.rest == b"") == (kept == words)
    # Another word beyond is another digest, another sign is none.
    assert not made.rest or more.rest != made.rest
    assert signs.rest == made.rest


lines = st.integers(0, 5_000)
beside = st.lists(texts).map(tuple)


@given(st.builds(Wording, texts, st.binary(max_size=8), beside, st.tuples(lines, lines), texts))
def test_packing_changes_nothing(given_: Wording) -> None:
    assert unpack(pack(given_)) == given_


@pytest.mark.parametrize(
    "octets",
    [
        *(b"", b"no zlib", pack(Wording("a text"))[:-9], zlib.compress(b"no message")),
        zlib.compress(msgspec.msgpack.encode([1, b"", []])),
        zlib.compress(bytes(1 << 24)),
    ],
)
def test_what_cannot_be_read_is_damaged(octets: bytes) -> None:
    with pytest.raises(DamagedError, match="the text of a page is damaged"):
        unpack(octets)


def test_what_is_seen_beside_is_bounded() -> None:
    many = [f"Picture  {n}" for n in range(1_000)]
    made = make("", *many, *many)
    assert made.beside[:2] == ("picture 0", "picture 1")
    assert len(made.beside) == fingerprint._MOST_BESIDE + 1
    assert made.beside[-1].startswith("(872 more, ")
    assert make("", *many[:-1], "another").beside[-1] != made.beside[-1]
    long = make("", "x" * 10_000, " Short ", "")
    assert long.beside[0] == "short"
    assert len(long.beside[1]) < 40


CARRIERS = {
    "alt": f'<img src=a.png alt="{VALUE}">',
    "area": f'<map><area alt="{VALUE}"></map>',
    "image button": f'<input type=image alt="{VALUE}">',
    "field": f'<input value="{VALUE}">',
    "number": f'<input type=NUMBER value="{VALUE}" readonly>',
    "button": f'<input type=submit value="{VALUE}">',
    "meter": f'<meter value="{VALUE}"></meter>',
    "progress": f'<progress value="{VALUE}"></progress>',
    "mailto": f'<a href="mailto:{VALUE}?subject=Look">m</a>',
    "tel": f'<a href=" TEL:{VALUE}">t</a>',
    "name.pdf": f'<a href="/files/{VALUE}.PDF?x=1#page=2">f</a>',
}
UNSEEN = {
    "hidden": f'<input type=hidden value="{VALUE}">',
    "password": f'<input type=password value="{VALUE}">',
    "secret": '<input name=csrf_token value="redtwelve40kg">',
    "checkbox": f'<input type=checkbox value="{VALUE}">',
    "option": f"<select><option>other<option>{VALUE}</select>",
    "another option": f"<select><option value='{VALUE}'>other</select>",
    "picture": f'<img src="{VALUE}.png">',
    "script": f'<noscript><img alt="{VALUE}"></noscript>',
    "page": f'<a href="{VALUE}.html">p</a>',
    "data": f'<script type="application/ld+json">{{"name": "{VALUE}"}}</script>',
}


@pytest.mark.parametrize("name", [*CARRIERS, *UNSEEN])
def test_what_a_reader_sees_beside_the_text(name: str) -> None:
    html = f"<html><body><p>Words of a page.</p>{(CARRIERS | UNSEEN)[name]}</body></html>"
    made = fingerprint_page(html)
    beside = unpack(made.wording).beside
    assert beside == (((VALUE + ".pdf" * (name == "name.pdf")),) if name in CARRIERS else ())


def test_what_is_chosen_is_seen() -> None:
    html = (
        "<p>Words of a page.</p><input type=checkbox name=a><input type=checkbox name=b checked>"
        "<select><option>red<option selected>green</select><b role=img aria-label='4 of 5'></b>"
    )
    beside = unpack(fingerprint_page(html).wording).beside
    assert beside == ("chosen: 2 b", "chosen: 3 green", "4 of 5")


def test_each_block_is_a_line() -> None:
    html = (
        "<html><body><h1>The <i>one</i><br>name</h1><div>before<p>a <b>bold</b> word</p>tail</div>"
        "<table><tr><td>1<td>2</table><ul><li>x</li>\n<li><a>y</a> z</ul><span>behind</span>"
    )
    lines = "The one|name|before|a bold word|tail|1|2|x|y z|behind"
    page = read_page(html.encode(), "utf-8")
    assert page.whole.split("\n") == lines.split("|")
    assert page.tags == ("h1", "h1", "div", "p", "div", "td", "td", "li", "li", "body")


def test_a_text_deep_in_other_elements_is_the_body_s() -> None:
    """Or looking for its block would take as long as all else, in each line."""
    page = read_page(b"<body><p>" + b"<i><b>" * 20_000 + b"deep<br>deep", "utf-8")
    assert page.tags == ("body", "body")


# What ends a line somewhere, composes, or vanishes when a text is normalised.
SEPARATORS = "\n\r\x0b\x0c\x1c\x1d\x1e\x1f\x81\x85\u2028\u2029\u00a0\u00ad\u200b\u200c\u200d\ufeff"
SEPARATORS += "\u0301\u0338\u00b4\u037a\u1fbf\u2017\ufdfa\u094d\u0915\u0628\u3099かΣß"
odd = st.text(st.sampled_from(SEPARATORS), max_size=12) | texts


@given(st.lists(odd).map("\n".join))
def test_normalising_neither_adds_lines_nor_loses_any(text: str) -> None:
    assert normalise(text).split("\n") == [normalise(line) for line in text.split("\n")]


@given(
    st.lists(odd | st.sampled_from(["<p>", "<td>", "<br>", "<div>", "</div>", "<i>", "a word"])),
    st.integers(0, 12),
)
def test_lines_have_tags_and_those_of_the_main_text_are_known(parts: list[str], most: int) -> None:
    article_ = f"<article>{f'<p>{PROSE}' * 3}{''.join(parts)}</article>"
    body = f"<h1>{''.join(parts)}</h1>{article_}<ul><li>{'<li>'.join(parts)}</ul>".encode()
    page = read_page(body, "utf-8")
    first, end = page.main_lines
    whole = page.whole.split("\n")
    assert ("\n".join(whole[first:end]) or page.whole) == page.main
    words = read_words(page.whole, SEED)
    made = make_wording(words, (), SEED, page.main_lines, page.tags)
    assert (made.text, made.main) == (words.normal, page.main_lines)
    assert (made.tags.split(" "), len(page.tags)) == ([*page.tags], len(made.text.split("\n")))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(fingerprint, "MOST_WORDS", most)
        cut = make_wording(words, (), SEED, page.main_lines, page.tags)
    kept = len(cut.text.split("\n")) if cut.text else 0
    assert cut.tags.split() == [*page.tags[:kept]]
    assert cut.main == ((first, min(end, kept)) if first < kept else (0, 0))
