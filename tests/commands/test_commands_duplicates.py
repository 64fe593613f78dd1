"""`duplicates`: each kept page with its near-duplicates, in one file."""

from pathlib import Path

import pytest

from tests.helpers.commanding import Run
from tests.helpers.documents import document, open_lmdb

A, B = 0x0123_4567_89AB_CDEF, 0xFEDC_BA98_7654_3210
C = A ^ B
SITE = "http://site.example/"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Two kept pages with near-duplicates, of two crawls, and one without."""
    kept = [document("a", A, title="A page"), document("b", B), document("c", C)]
    dropped = [document("b1", B ^ 7), document("a1", A ^ 1)]
    with open_lmdb(tmp_path / "s") as store:
        *_, a1 = store.find_and_add(kept + dropped, crawl="crawl-1")
        store.find_and_add([document("a2", A ^ 3)], crawl="crawl-2")
        store.spare([a1.document])
    return tmp_path / "s"


def test_the_better_address_stands_beside_the_kept_page(run: Run, tmp_path: Path) -> None:
    """It is the canonical one of both; another copy's is not."""
    with open_lmdb(tmp_path / "s") as store:
        pages = [
            document("a?sid=1", A, canonical=SITE + "a"),
            document("a?sid=2", A ^ 1, canonical=SITE + "a"),
            document("a", A ^ 2, canonical=SITE + "a"),
        ]
        verdicts = store.find_and_add(pages)
    assert [bool(each.match and each.match.better_url) for each in verdicts] == [False, False, True]
    answer = run.answer("export", "duplicates", "--store", tmp_path / "s")
    assert (answer["url"], answer["better_url"]) == (SITE + "a?sid=1", SITE + "a")
    out = run.text("export", "duplicates", "--store", tmp_path / "s")
    assert out.startswith(f"{SITE}a?sid=1  (better: {SITE}a)\n")


def name(url: str | None) -> str | None:
    return url and url.removeprefix(SITE)


def test_text(run: Run, store: Path) -> None:
    assert run.text("export", "duplicates", "--store", store).splitlines() == [
        SITE + "a",
        f"    {SITE}a1  (1 bit, undone)",
        f"    {SITE}a2  (2 bits)",
        SITE + "b",
        f"    {SITE}b1  (3 bits)",
    ]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ((), {"a": ["a1", "a2"], "b": ["b1"]}),
        (("--crawl", "crawl-1"), {"a": ["a1"], "b": ["b1"]}),
        (("--crawl", "crawl-2"), {"a": ["a2"]}),
        (("--all",), {"a": ["a1", "a2"], "b": ["b1"], "c": []}),
        (("--all", "--crawl", "crawl-2"), {"a": ["a2"], "b": [], "c": []}),
    ],
)
def test_json_lines(
    run: Run, store: Path, options: tuple[str, ...], expected: dict[str, list[str]]
) -> None:
    answers = run.answers("export", "duplicates", *options, "--store", store)
    found = {name(kept["url"]): [name(d["url"]) for d in kept["duplicates"]] for kept in answers}
    assert found == expected
    first = answers[0]
    assert (first["title"], first["state"]) == ("A page", "done")
    assert set(first["duplicates"][0]) == {
        *("url", "document", "distance", "similarity", "crawls", "time", "undone")
    }
