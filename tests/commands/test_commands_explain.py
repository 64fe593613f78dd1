"""`scrapy simhash explain`: pages of a store, of its log and of files; hostile texts."""

import re
import shlex
from pathlib import Path

import pytest

from scrapy_simhash.stores.keyvalues import TEXTS, octets
from scrapy_simhash.stores.opening import open_store
from tests.helpers.commanding import (
    AGAIN,
    HOSTILE_TITLE,
    ONE,
    TWO,
    Run,
    assert_printable,
    crawl_into,
)
from tests.helpers.crawling import crawl
from tests.helpers.documents import find
from tests.helpers.judging import fill
from tests.helpers.pages import make_page, make_words, page
from tests.helpers.server import Answer, serve


def test_dropped_page_with_its_text(run: Run, store: Path) -> None:
    answer = run.answer("explain", AGAIN, "--store", store)
    said = f"Dropped: it says nothing that {ONE} does not say"
    assert (answer["verdict"], answer["distance"]) == (said, 0)
    found = [(page_["url"], page_["state"]) for page_ in answer["pages"]]
    assert found == [(AGAIN, "duplicate"), (ONE, "done")]
    assert not any("first" in row for row in answer["side_by_side"])
    out = run.text("explain", AGAIN, "--store", store)
    assert out.startswith(f"{said}\nhere (-)        {AGAIN}\n")
    assert "\nonly here       nothing\nonly there      nothing\n" in out
    assert "\ntests           distance 0 bits; " in out
    assert f"\nif it is wrong  scrapy simhash undo {AGAIN}\n" in out
    assert len(out.splitlines()) <= 24


def test_dropped_page_without_its_text(run: Run, tmp_path: Path) -> None:
    crawl_into(tmp_path)
    with open_store(str(tmp_path)) as opened:
        (original,) = find(opened, ONE)
        key = octets(original.number)
        opened.write(lambda stored: stored.values.delete(TEXTS, key))
    answer = run.answer("explain", AGAIN, "--store", tmp_path)
    assert answer["distance"] == 0
    assert "side_by_side" not in answer
    assert answer["note"].startswith("the text of a page is missing or damaged")
    assert "missing or damaged" in run("explain", AGAIN, "--store", tmp_path).out
    said = f"document {original.number} ({ONE!r}) lacks its text; no page is dropped"
    assert said in run("check", "--store", tmp_path).out


def test_what_repeated_an_old_text_does_not_count(run: Run, tmp_path: Path) -> None:
    fill(tmp_path, [(ONE, page(1)), (AGAIN, page(1, menu="Other menu"))])
    verdict = run.answer("explain", ONE, "--store", tmp_path)["verdict"]
    assert verdict.endswith("; 1 page repeats it")
    fill(tmp_path, [(ONE, page(2))])
    said = "Kept: it was kept before, and shows another text now"
    assert run.answer("explain", ONE, "--store", tmp_path)["verdict"] == said


def test_a_store_is_explained_by_its_own_rule(run: Run, tmp_path: Path) -> None:
    """No words are compared in plain simhash."""
    fill(tmp_path, [(ONE, page(1)), (AGAIN, page(1, menu="Other menu"))], rule="plain")
    said = run("explain", AGAIN, "--store", tmp_path).out
    assert f"Dropped: it repeats {ONE}: plain simhash" in said
    assert re.search("only here|the site was|today", said) is None


def test_kept_page_names_the_nearest_one_and_what_parted_them(run: Run, tmp_path: Path) -> None:
    """Two pages differ in their names only, and the second one is fetched again."""
    pages = ((ONE, "Kiwi"), (TWO, "Apple"), (TWO, "Apple"))
    html = ((url, page(1, title=title).replace("Heading", title)) for url, title in pages)
    fill(tmp_path, html)
    answer = run.answer("explain", TWO, "--store", tmp_path)
    why = "two names: 'Apple' / 'Kiwi'"
    assert answer["verdict"] == f"Kept beside {ONE}, which is most like it: {why}"
    assert [page_["url"] for page_ in answer["pages"]] == [TWO, ONE]
    assert answer["site_known"] is False
    assert answer["tests"][1:] == [why]
    lines = run("explain", TWO, "--store", tmp_path).out.splitlines()
    assert lines[0] == answer["verdict"]
    assert "the site was    not known: fewer than six of its pages had been kept" in lines
    assert "- apple" in lines
    assert "+ kiwi" in lines
    # Of the other one there was nothing near.
    out = run.text("explain", ONE, "--store", tmp_path)
    said = "Kept: no page like it was found that had come through when it was judged"
    assert out.startswith(f"{said}\nhere (-)        {ONE}\n")
    assert "\nif it is wrong  scrapy simhash explain URL URL\n" in out
    lines = run("log", "--store", tmp_path).out.splitlines()
    assert [line[:8] for line in lines].count("    kept") == 1


def test_stored_pages_near_to_what_is_named(run: Run, store: Path, tmp_path: Path) -> None:
    with open_store(str(store), readonly=True) as opened:
        (one,) = find(opened, ONE)
    file = tmp_path / "one.html"
    file.write_text(page(1, title=HOSTILE_TITLE), encoding="utf-8")
    for what in (f"{one.facts.fingerprint:016x}", file):
        (near, *_) = run("explain", what, "--store", store, "--json").answers
        assert (near["url"], near["distance"]) == (ONE, 0)
        assert f"0 bits   {ONE}\n" in run.text("explain", what, "--store", store)
    done = run("explain", "words that no page has", "--store", store)
    assert (done.exit_code, done.out) == (1, "nothing found\n")


ESCAPED = r"\x1b[2J\u202egnp\x9b\x07\n\x00"


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        *(("check", ""), ("log", ESCAPED), (f"explain {AGAIN}", r"\u202e")),
        ("prune --days 0 --dry-run", ESCAPED),
    ],
)
def test_hostile_texts_steer_no_terminal(run: Run, store: Path, command: str, shown: str) -> None:
    arguments = (*shlex.split(command), "--store", store)
    out = run.text(*arguments)
    assert_printable(out)
    assert shown in out
    as_json = run(*arguments, "--json")
    assert as_json.out.isascii()
    assert as_json.answers


async def test_a_copy_that_came_through_gets_advice_that_works(run: Run, tmp_path: Path) -> None:
    """A print view would be dropped today: the site was not known."""
    answers: dict[str, Answer | str | bytes] = {}
    for number in range(8):
        words, title = make_words(number), f"Record {number}"
        answers[f"/d/{number}"] = make_page(words[:80], title=title)
        answers[f"/d/{number}?print=1"] = make_page(words[:60], title=title)
    answers["/other"] = make_page([*make_words(0)[:80], "other"], title="Record 0")
    with serve(answers) as site:
        await crawl(tmp_path, site.urls())
        url = site.url("/d/0?print=1")
        assert not run.answer("explain", site.url("/other"), "--store", tmp_path)["advice"]
        said = run.answer("explain", url, "--store", tmp_path)
        assert said["verdict"].startswith("Kept")
        assert said["verdict"].endswith("; today it would be dropped for it")
        prune = said["advice"].splitlines()[0].removeprefix("scrapy simhash ")
        assert run(*shlex.split(prune), "--store", tmp_path).exit_code == 0
        done = await crawl(tmp_path, [url], SIMHASH_INCREMENTAL=True)
    assert [*done.verdicts.values()] == ["near_duplicate"]


def test_a_url_that_is_not_there(run: Run, store: Path) -> None:
    asked = ONE.replace("http://", "https://www.") + "/"
    said = run.failed("explain", asked, "--store", store)
    assert "is neither in the store nor in the log" in said
    assert "scrapy simhash log --url TEXT" in said
