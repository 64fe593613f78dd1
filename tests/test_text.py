"""Bytes to main text: encodings true and false, bad input, and what is read besides the text."""

import io
import pickle
import zipfile
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_simhash.text import EXTRACTORS, UnjudgedError, decode, load_extractor, read_page
from tests.handmade import NAVIGATION, PARAGRAPHS, article, find_headings, page


def read(html: str, extractor: str = "trafilatura") -> str:
    return read_page(html.encode("utf-8", "surrogatepass"), "utf-8", extractor).main


def reason_of(body: bytes, encoding: str | None = "utf-8") -> str:
    with pytest.raises(UnjudgedError) as caught:
        read_page(body, encoding)
    return caught.value.reason


@pytest.mark.parametrize("extractor", ["trafilatura", "trafilatura-fast"])
def test_main_text_without_boilerplate(extractor: str) -> None:
    text = read(page(article() + "<footer>Imprint and cookies</footer>"), extractor)
    assert all(paragraph in text for paragraph in PARAGRAPHS)
    assert "Menu" not in text
    assert "Imprint" not in text


def test_whole_text_has_the_boilerplate_too() -> None:
    text = read(page(article()), "html2txt")
    assert PARAGRAPHS[3] in text
    assert "Menu 3" in text


def test_tables_stay_and_comments_go() -> None:
    rows = "".join(f"<tr><td>Sort {row}</td><td>{row} tons</td></tr>" for row in range(6))
    comments = '<div class="comments"><p>First! Great article, thank you very much.</p></div>'
    html = article().replace("</article>", f"<table>{rows}</table></article>{comments}")
    text = read(page(html))
    assert "Sort 4" in text
    assert "First!" not in text


def test_what_is_read_besides_the_text() -> None:
    """Before the extractor takes the page apart: links and title are those of the whole page."""
    head = "<title>\n The   <b>harvest</b>\t&amp; more </title>"
    twice = '<p><a href="/menu/1">again</a> <a href="/new">new</a> <a name="x">none</a></p>'
    read = read_page(page(article() + twice, head, lang=" EN-gb ").encode(), "utf-8")
    assert read.title == "The <b>harvest</b> & more"
    assert read.language == "en-gb"
    assert read.links == (*(f"/menu/{number}" for number in range(5)), "/new")
    assert not read.fell_back


def test_without_title_and_language() -> None:
    read = read_page(f"<html><body>{article()}</body></html>".encode(), "utf-8")
    assert (read.title, read.heading, read.language) == ("", "The harvest", "")
    assert (read.canonical, read.links) == ("", ())


def test_long_titles_and_languages_are_cut() -> None:
    read = read_page(page(article(), f"<title>{'t' * 999}</title>", "x" * 99).encode(), "utf-8")
    assert (read.title, read.language) == ("t" * 300, "x" * 35)


@pytest.mark.parametrize("extractor", ["tests.handmade.find_nothing", "tests.handmade.find_blanks"])
def test_fallback_to_the_visible_text(extractor: str) -> None:
    read = read_page(page(article()).encode(), "utf-8", extractor)
    assert read.fell_back
    assert "Menu 3" in read.main
    assert PARAGRAPHS[3] in read.main


@pytest.mark.parametrize(
    "boilerplate",
    [
        '<div class="comments"><p>Nice one, I like it</p></div>',
        "<footer><p>Nice one, I like it</p></footer>",
        "<aside><p>Nice one, I like it</p></aside>",
    ],
    ids=["comments", "footer", "aside"],
)
def test_a_page_of_boilerplate_only(boilerplate: str) -> None:
    html = f"<html><head><title>T</title></head><body>{boilerplate}</body></html>"
    assert "Nice one, I like it" in read(html)


def test_navigation_only() -> None:
    assert "Menu 3" in read(f"<html><body>{NAVIGATION}</body></html>")


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "empty"),
        (b" \r\n\t ", "empty"),
        (b"\0\0\0\0", "binary"),
        (b"<", "no_text"),
        (b"\xef\xbb\xbf", "no_text"),
        (b"<html></html>", "no_text"),
        (b"<!-- nothing but a comment -->", "no_text"),
        (b"<html><body><script>let a = 'text';</script></body></html>", "no_text"),
        (b"<html><body><img src=a.png><hr></body></html>", "no_text"),
        (b"<html><frameset><frame src=a></frameset></html>", "no_text"),
    ],
)
def test_pages_without_text(body: bytes, reason: str) -> None:
    assert reason_of(body) == reason


def make_zip() -> bytes:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("a.txt", bytes(number * number * 7919 % 253 for number in range(30_000)))
    return archive.getvalue()


PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x64\0\0\0\x64\x08\x02\0\0\0"
PNG += zlib.compress(bytes(number * number * 7919 % 251 for number in range(30_000)))


@pytest.mark.parametrize("encoding", ["utf-8", "cp1252", "latin-1", "cp1251", "shift_jis", None])
@pytest.mark.parametrize("body", [PNG, make_zip()], ids=["png", "zip"])
def test_binary_labelled_as_html(body: bytes, encoding: str | None) -> None:
    assert reason_of(body, encoding) == "binary"


def test_some_control_characters_do_not_make_a_page_binary() -> None:
    """One character in 20 is the limit: NULs of careless databases stay far below."""
    assert "har vest" in read(page(article().replace("harvest", "har\0vest")))
    assert decode(b"a" * 95 + b"\1" * 5, "utf-8")
    with pytest.raises(UnjudgedError, match="6 control characters in the first 100"):
        decode(b"a" * 94 + b"\1" * 6, "utf-8")


def test_only_the_beginning_decides_what_is_binary() -> None:
    assert len(decode(b"a" * 4_096 + b"\1" * 9_000, "utf-8")) == 13_096


@pytest.mark.parametrize("text", ["har\0vest", "har&#0;vest"])
def test_nothing_is_lost_behind_a_nul(text: str) -> None:
    assert PARAGRAPHS[5] in read(page(article(text, *PARAGRAPHS)))


@pytest.mark.parametrize("text", ["\ud83d apples", "&#xD83D; apples"])
def test_nothing_is_lost_behind_a_lone_surrogate(text: str) -> None:
    html = page(article(text, *PARAGRAPHS), f"<title>{text}</title>")
    read = read_page(html.encode("utf-8", "surrogatepass"), "utf-8")
    assert PARAGRAPHS[5] in read.main
    (read.main + read.whole + read.title).encode()


def test_surrogates_of_an_extractor_are_replaced() -> None:
    assert read(page(article()), "tests.handmade.find_surrogates") == "harvest ? apples"


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("Äpfel und Birnen — 5 €", "utf-8"),
        ("Äpfel und Birnen", "cp1252"),
        ("яблоки и груши", "cp1251"),
        ("りんごと梨", "shift_jis"),
        ("苹果和梨", "gb18030"),
        ("תפוחים", "utf-16"),
    ],
)
def test_declared_encodings(text: str, encoding: str) -> None:
    html = page(article(text * 20, *PARAGRAPHS))
    assert text * 20 in read_page(html.encode(encoding), encoding).main


@pytest.mark.parametrize(
    ("head", "encoding"),
    [
        ('<meta charset="cp1251">', "cp1251"),
        ('<meta http-equiv="Content-Type" content="text/html; charset=koi8-r">', "koi8-r"),
        ("", "utf-8"),
        ("", "utf-16"),  # with a byte order mark
    ],
)
def test_encodings_found_in_the_body(head: str, encoding: str) -> None:
    html = page(article("яблоки и груши", *PARAGRAPHS), head)
    assert "яблоки и груши" in read_page(html.encode(encoding), None).main


def test_an_xml_declaration_does_not_matter() -> None:
    html = '<?xml version="1.0" encoding="iso-8859-1"?>' + page(article("Äpfel", *PARAGRAPHS))
    assert "Äpfel" in read(html)


LYING = ["base64", "idna", "unicode_escape", "raw_unicode_escape", "undefined", "zlib", "rot13"]


@pytest.mark.parametrize("encoding", [*LYING, "", "no-such", "utf-8\0", "\ud800", "../x", "x" * 99])
def test_declared_charsets_that_are_none(encoding: str) -> None:
    body = page(article("\\ud800 \\0")).encode()
    assert reason_of(body, encoding) == "bad_encoding"


@pytest.mark.parametrize("encoding", LYING)
def test_charsets_in_the_body_that_are_none(encoding: str) -> None:
    """Nothing but `UnjudgedError` may come out; taking the page for UTF-8 is as good."""
    body = page(article("\\ud800 \\0", *PARAGRAPHS), f'<meta charset="{encoding}">').encode()
    try:
        read_page(body, None).main.encode()
    except UnjudgedError as error:
        assert error.reason == "bad_encoding"  # noqa: PT017 - both ends are right


def test_broken_markup() -> None:
    html = "<html><body><div>" + "".join(
        f"<p>Broken <b>markup <i>{number}</b> here</i> and <a href=there> there"
        for number in range(9)
    )
    assert "Broken markup 3" in read(html)


@pytest.mark.parametrize("cut", range(0, 1_800, 97))
def test_truncated_pages_are_read_or_unjudged(cut: int) -> None:
    body = page(article()).encode()[:cut]
    try:
        assert read_page(body, "utf-8").main
    except UnjudgedError as error:
        assert error.reason in {"empty", "no_text"}  # noqa: PT017 - both ends are right


@given(st.binary(max_size=300), st.sampled_from(["utf-8", "cp1252", "utf-16", "utf-7", None]))
def test_any_bytes_are_read_or_unjudged(body: bytes, encoding: str | None) -> None:
    for wrapped in (body, b"<html><body><p>" + body + b"</p></body></html>"):
        try:
            assert read_page(wrapped, encoding).main.strip()
        except UnjudgedError as error:
            assert error.reason in {"empty", "binary", "no_text"}  # noqa: PT017


def test_unjudged_error_pickles() -> None:
    copy = pickle.loads(pickle.dumps(UnjudgedError("binary", "6 of 9")))  # noqa: S301
    assert (type(copy), copy.reason, copy.detail) == (UnjudgedError, "binary", "6 of 9")
    assert UnjudgedError("empty").detail == ""


def test_extractors_by_name_and_import_path() -> None:
    assert {name: load_extractor(name) for name in EXTRACTORS} == EXTRACTORS
    assert load_extractor("tests.handmade.find_headings") is find_headings
    assert read(page(article()), "tests.handmade.find_headings") == "The harvest"


@pytest.mark.parametrize(
    "name", ["nonsense", "tests.handmade.nothing", "tests.handmade.PARAGRAPHS"]
)
def test_extractors_that_are_none(name: str) -> None:
    with pytest.raises(ValueError, match=f"'{name}'"):
        load_extractor(name)
