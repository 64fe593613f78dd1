"""Pages compared and looked up: explain of pairs, and other ways of writing an address."""

from pathlib import Path

import pytest

from scrapy_simhash.inspection.lookup import add_suggestions
from scrapy_simhash.stores.opening import open_store
from tests.helpers.commanding import ONE, Run
from tests.helpers.documents import document, open_lmdb
from tests.helpers.pages import edit_words, make_page, make_words

A = 0x0123_4567_89AB_CDEF
C = A ^ 1 ^ 3 << 20
SITE = "http://site.example/"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "page.html"
    path.write_text(make_page(edit_words(make_words(1), 3), menu="Other"), encoding="utf-8")
    return path


def test_a_file_and_a_url_are_compared_by_the_seed_of_the_store(
    run: Run, store: Path, file: Path
) -> None:
    answer = run.answer("explain", file, ONE, "--store", store)
    assert answer["judged"] is True
    assert answer["distance"] < 16  # by another seed about 32
    assert answer["within"] == 7
    assert answer["verdict"].startswith("Near-duplicates by the current settings: ")
    done = run("explain", file, ONE, "--store", store)
    with open_store(str(store), readonly=True) as opened:
        assert str(opened.seed) not in done.out
    first, second = (int(each, 16) for each in answer["compared"])
    assert (first ^ second).bit_count() == answer["distance"]


@pytest.mark.parametrize(
    ("settings", "judged"),
    [
        ({"DISTANCE": 2}, False),
        ({"DISTANCE": 3}, True),
        ({"DISTANCE": 7}, True),
        ({"DISTANCE": 2, "RULE": "plain"}, False),
        ({"DISTANCE": 3, "RULE": "plain"}, True),
    ],
)
def test_the_verdict_on_two_pages_is_that_of_the_settings(
    run: Run, tmp_path: Path, settings: dict[str, object], judged: bool
) -> None:
    with open_lmdb(tmp_path / "s") as opened:
        opened.find_and_add([document("a", A), document("b", A ^ 0b111)])
    given = [word for name, value in settings.items() for word in ("-s", f"SIMHASH_{name}={value}")]
    asked = ("explain", f"{SITE}a", f"{SITE}b", "--store", tmp_path / "s", "--json")
    (answer,) = run(*given, *asked).answers
    assert (answer["distance"], answer["judged"]) == (3, judged)


def test_a_url_that_is_written_otherwise(run: Run, store: Path) -> None:
    assert f"; did you mean {ONE} ?" in run.failed(
        "explain", ONE.replace("http://", "https://www.") + "/", "--store", store
    )


KNOWN = [
    *("http://a.example/b?x=1&y=2", "https://a.example/c/", "http://a.example/", "http://[bad/"),
    "http://a.example/long/name.html",
]


@pytest.mark.parametrize(
    ("asked", "suggested"),
    [
        ("http://a.example/c", "https://a.example/c/"),
        ("https://www.a.example/c/index.html#top", "https://a.example/c/"),
        ("http://a.example/%63/", "https://a.example/c/"),
        ("a.example/C", "https://a.example/c/"),
        ("http://a.example", "http://a.example/"),
        ("http://a.example/b?y=2&x=1", "http://a.example/b?x=1&y=2"),
        ("http://a.example/long/name", "http://a.example/long/name.html"),
    ],
)
def test_ways_of_writing(asked: str, suggested: str) -> None:
    assert add_suggestions("no", asked, KNOWN * 2) == f"no; did you mean {suggested} ?"
