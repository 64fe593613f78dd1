"""What must hold for any page whatever: hostile ones, an article with anything in it, findings.

An input is the Content-Type header of a response, a line feed, and the body.
"""

import json
import pickle
import re
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from scrapy.http import HtmlResponse

from scrapy_simhash.errors import NotJudgedError
from scrapy_simhash.judging.rule import LEAST_KNOWN, UNKNOWN, Site, judge
from scrapy_simhash.judging.slots import learn
from scrapy_simhash.judging.words import Page
from scrapy_simhash.pages.facts import SKETCH_BYTES, PageFingerprint, Recipe, unpack
from scrapy_simhash.pages.fingerprint import fingerprint_page
from tests.helpers.handmade import PARAGRAPHS, article
from tests.helpers.handmade import page as make_page

URL = "http://site.example/folder/page?query=1"
REASONS = {"empty", "bad_encoding", "binary", "no_text"}
RECIPES = (Recipe(), Recipe(window=3))
SEED = 2**64 - 1
LARGEST = 2**64
_LINE_BREAKS = re.compile("[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")


def check_page(given: bytes) -> None:
    """Fingerprint a page and check what came of it.

    Raises:
        AssertionError: something that must hold does not.
        Exception: whatever the page made the pure part raise, but for `NotJudgedError`.
    """
    header, _, body = given.partition(b"\n")
    encoding = None
    with suppress(Exception):  # what the middleware would hand to a judge
        encoding = HtmlResponse(URL, body=body, headers={"Content-Type": header}).encoding
    made = [try_page(body, encoding, recipe) for recipe in RECIPES]
    assert made[0] == try_page(body, encoding, RECIPES[0]), "not deterministic"
    for page in made:
        if isinstance(page, PageFingerprint):
            check_fingerprint(page)
            check_judging(page)
        else:
            assert page in REASONS, page


def try_page(body: bytes, encoding: str | None, recipe: Recipe) -> PageFingerprint | str:
    """Fingerprint a page, or give the reason why it is not judged; without times."""
    try:
        made = fingerprint_page(body, encoding, recipe, SEED, URL)
    except NotJudgedError as error:
        return error.reason
    return replace(made, read_ms=0.0)


def check_fingerprint(made: PageFingerprint) -> None:
    """Check that a fingerprint is what the store and the log take it for."""
    assert 0 <= made.facts.fingerprint < LARGEST
    assert 0 <= made.whole_fingerprint < LARGEST
    assert len(made.stub) == len(made.facts.text_digest) == 16
    assert len(made.facts.sketch) == SKETCH_BYTES
    assert len(made.targets.digests) == 8 * len(made.targets.addresses.splitlines())
    assert 0 <= made.facts.features <= max(1, made.facts.words)
    assert 0 <= made.whole_features <= max(1, made.facts.whole_words)
    for line in made.text.split("\n"):
        assert line == " ".join(line.split()) != ""
    for name in (made.facts.title, made.facts.heading):
        assert len(name) <= 300
        assert not _LINE_BREAKS.search(name)
    assert len(made.facts.language) <= 35
    assert len(made.facts.canonical) <= 2_048
    assert made.facts.canonical.startswith(("", "http://", "https://"))
    for name in ("title", "heading", "language", "canonical"):
        getattr(made.facts, name).encode()
    made.text.encode()
    assert json.loads(json.dumps(made.facts.title)) == made.facts.title
    assert pickle.loads(pickle.dumps(made)) == made  # noqa: S301 - it was made a line above


def check_judging(made: PageFingerprint) -> None:
    """Check that a page is like itself, whatever its names and links are, and its site."""
    facts = structs.replace(made.facts, identity=b"-", url=URL)
    page = Page.make(facts, unpack(made.wording))
    # A site whose other pages are all this one: nothing of it is content, nor its names.
    for site in (UNKNOWN, Site(dict.fromkeys(range(LEAST_KNOWN), page))):
        assert judge(page, page, site, site).one
    assert learn(page, page) == []


# By atheris, after hours.
FOUND = Path(__file__).with_name("found_by_fuzzing")
ARTICLE = f"text/html; charset=utf-8\n{make_page(article())}".encode()


def test_a_finding_stays_mended() -> None:
    check_page(FOUND.read_bytes())


TAGS = "p div article main nav aside ul li table tr td h1 h2 b a title script noscript iframe svg"
PIECES = [f"<{tag}>" for tag in f"{TAGS} template body html".split()]
PIECES += [f"</{tag}>" for tag in TAGS.split()]
PIECES += ["<!--", "-->", "&#0;", "&#xD83D;", "&nbsp;", "\0", "\u2028", "\x1c", "<a href=x>"]
PIECES += [*PARAGRAPHS, "<p hidden>", "word", " ", "\n", "\u0301", "苹果", "<!DOCTYPE html>"]
PIECES += ['<meta name="og:x" content=y>']


@given(st.lists(st.sampled_from(PIECES), max_size=40))
def test_random_markup(pieces: list[str]) -> None:
    check_page(b"text/html; charset=utf-8\n" + "".join(pieces).encode())


@given(st.binary(max_size=200), st.integers(0, len(ARTICLE)))
def test_article_with_anything_in_it(given: bytes, place: int) -> None:
    check_page(ARTICLE[:place] + given + ARTICLE[place:])
