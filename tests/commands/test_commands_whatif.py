"""`scrapy simhash evaluate` of stored pages: counts, changes, defaults, refusals."""

from pathlib import Path

import numpy as np
import pytest

from scrapy_simhash.judging.rule import CONFIRM
from tests.helpers.commanding import Done, Run
from tests.helpers.crawling import read_files
from tests.helpers.documents import CRAWL, document, open_in_crawl

A = 0x0123_4567_89AB_CDEF
SITE = "http://site.example/"
IMPORTED = ~A % 2**64


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Within 3 bits: pages 1 and 5 bits from the first, one near an imported fingerprint."""
    with open_in_crawl(tmp_path / "s") as store:
        store.bulk_load(np.array([IMPORTED], np.uint64))
        made = [
            document("a", A, features=99),
            document("a1", A ^ 1, features=99),
            document("a5", A ^ 31 << 20, scope="other.example", features=99),
            document("far", IMPORTED ^ 3, title="\x1b[2J", features=99),
        ]
        numbers = [store.find_and_add([each])[0].document for each in made]
        store.mark_done(numbers, CRAWL)
        store.find_and_add([document("pending", 5)])
    return tmp_path / "s"


def test_a_smaller_distance_keeps_more(run: Run, store: Path) -> None:
    before = read_files(store)
    answer = run.answer("evaluate", "--distance", "1", "--confirm", "none", "--store", store)
    changes = answer.pop("changes")
    assert answer == {
        "distance": 1,
        "confirm": None,
        "scope": None,
        "documents": 4,
        "left_out": 1,
        "dropped_before": 2,
        "dropped_then": 1,
        "kept_to_dropped": 0,
        "dropped_to_kept": 1,
        "other_original": 0,
    }
    assert changes == [
        {
            "url": SITE + "far",
            "change": "dropped -> kept",
            "match_url": None,
            "distance": 2,
            "similarity": None,
            "own_words": [],
            "match_own_words": [],
        }
    ]
    assert read_files(store) == before


def test_a_larger_distance_and_one_scope_drop_more(run: Run, store: Path) -> None:
    asked = ["evaluate", "--distance", "5", "--confirm", "none", "--store", store]
    answer = run.answer(*asked)
    assert answer["changes"] == []
    assert run.text(*asked, "--scope", "global") == (
        "distance: 5\nconfirm: -\nscope: global\ndocuments: 4\nleft out: 1\n"
        "dropped before: 2\ndropped then: 3\nkept to dropped: 1\ndropped to kept: 0\n"
        "other original: 0\n"
        f"kept -> dropped  {SITE}a5\n    5 bits, of {SITE}a\n"
    )


@pytest.mark.parametrize(
    ("settings", "given", "expected"),
    [
        ([], [], (7, CONFIRM)),
        ([], ["--confirm", "none"], (3, None)),
        ([], ["--confirm", "0.5"], (7, 0.5)),
        ([], ["--distance", "9", "--confirm", "None"], (9, None)),
        (["-s", "SIMHASH_CONFIRM=None"], [], (3, None)),
        (["-s", "SIMHASH_CONFIRM=None"], ["--confirm", "0.9"], (7, 0.9)),
        (["-s", "SIMHASH_DISTANCE=4"], ["--confirm", "1"], (4, 1.0)),
    ],
)
def test_defaults_are_those_in_force(
    run: Run, store: Path, settings: list[str], given: list[str], expected: tuple[int, float | None]
) -> None:
    answer = run.answer(*settings, "evaluate", *given, "--store", store)
    assert (answer["distance"], answer["confirm"]) == expected


def test_nothing_to_judge(run: Run, tmp_path: Path) -> None:
    open_in_crawl(tmp_path / "empty").close()
    assert run("evaluate", "--store", "empty") == Done(1, "nothing found\n", "")
