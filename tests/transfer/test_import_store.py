"""`scrapy simhash import` of another store: the pages that were delivered there, as recorded."""

from pathlib import Path
from typing import Any

import pytest

from scrapy_simhash.pages.facts import Recipe
from scrapy_simhash.stores.opening import open_store
from tests.helpers.commanding import Run
from tests.helpers.documents import document, judge, open_lmdb

ONE, TWO, THREE, FOUR = (0x1111_1111 << 8 * place for place in range(4))


def fill(path: Path) -> None:
    """Make a store with delivered pages, and others."""
    first = document("one", ONE, text="words", title="First", time=5.0)
    pages = [first, document("two", TWO), document("near one", ONE ^ 1), document("three", THREE)]
    with open_lmdb(path, seed=7) as store:
        store.find_and_add(pages)
        # Its drop is taken back, and it is delivered.
        assert judge(store, document("undone", TWO ^ 1)) == ["near_duplicate 5 of 2"]
        store.spare([5])
        assert judge(store, document("undone", TWO ^ 1)) == ["new 5"]


def read(path: str) -> dict[str, list[Any]]:
    with open_store(path) as store:
        assert store.check() == []
        found = store.get_documents([each.document for each in store.list_documents()]).values()
        assert store.seed == 7
        return {
            each.facts.url.rpartition("/")[2]: [each.facts, each.wording]
            for each in found
            if each.state == "done" or each.record.spared
        }


@pytest.mark.parametrize("home", ["lmdb", "redis"], indirect=True)
def test_what_was_delivered_comes_in_as_was_recorded(run: Run, tmp_path: Path, home: str) -> None:
    target = str(tmp_path / "target") if home == str(tmp_path) else home
    fill(tmp_path / "source")
    answer = run.answer("import", "source", "--store", target)
    assert answer["verdicts"] == {"new": 3, "near_duplicate": 1}
    assert (answer["skipped"], read(target)) == ({"duplicate": 1}, read(str(tmp_path / "source")))
    # What was taken back is no near-duplicate from now on.
    again = run.answer("import", "source", "--store", target)
    assert again["verdicts"] == {"revisit/unchanged": 3, "new": 1}
    with open_store(target) as store:
        pages = [document(name, ONE ^ 1) for name in ("one", "near one")]
        verdicts = store.find_and_add([*pages, document("undone", TWO ^ 1)])
        assert [verdict.match is None for verdict in verdicts] == [True, False, True]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"seed": 8}, "made with another seed"),
        ({"recipe": Recipe(window=2)}, "another recipe"),
        ({"rule": "plain"}, "SIMHASH_RULE is 'words', but the store was made with 'plain'"),
    ],
)
def test_a_store_that_was_made_otherwise_is_refused(
    run: Run, tmp_path: Path, fields: dict[str, Any], message: str
) -> None:
    fill(tmp_path / "source")
    open_store(str(tmp_path / "target"), **{"seed": 7, **fields}).close()
    assert message in run.refused("import", "source", "--store", "target")
    with open_store(str(tmp_path / "target")) as store:
        assert store.stats()["documents"] == 0
