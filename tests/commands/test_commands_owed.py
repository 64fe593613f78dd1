"""`owed`: what crawls owe is listed, written, released and forgotten."""

import json
import stat
from functools import partial
from pathlib import Path

import pytest

from scrapy_simhash.judging.rows import Owed, Why
from scrapy_simhash.stores.owed import put
from tests.helpers.commanding import Run, assert_printable
from tests.helpers.documents import CRAWL, document, open_in_crawl
from tests.helpers.owing import take_owed

A = 0x0123_4567_89AB_CDEF
SITE = "http://site.example/"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store that owes a lost page, and a link of another spider."""
    with open_in_crawl(tmp_path / "s") as store:
        store.find_and_add([document("original", A)])
        store.find_and_add([document("lost", A ^ 1)])
        store.withdraw([1], CRAWL)
        link = Owed(f"{SITE}link", Why.LINK, "other", "x", b"r", found_on=SITE)
        store.write(partial(put, rows=[link]))
    return tmp_path / "s"


def names(run: Run, *words: object) -> list[str]:
    return [answer["url"].removeprefix(SITE) for answer in run.answers("owed", *words)]


def test_requests_are_listed_with_their_reasons(run: Run, store: Path) -> None:
    out = run.text("owed", "--store", store)
    assert_printable(out)
    lines = out.splitlines()
    assert f"lost    {SITE}lost" in lines
    assert f"        dropped for {SITE}original; how to make it is not stored" in lines
    assert f"        a link on {SITE}" in lines


def test_requests_are_chosen_by_criteria(run: Run, store: Path) -> None:
    at = ("--store", store)
    assert names(run, *at, "--why", "lost") == ["lost"]
    assert names(run, *at, "--spider", "other") == ["link"]
    assert sorted(names(run, *at, "--due")) == ["link", "lost"]
    assert names(run, "list", f"{SITE}link", f"{SITE}none", *at) == ["link"]
    assert run("owed", *at, "--spider", "nobody").exit_code == 1


def test_a_file_of_requests_is_private_and_replaces_none(run: Run, store: Path) -> None:
    path = store.parent / "again.jsonl"
    done = run("owed", "write", path, "--store", store)
    assert done.out == f"{path}: 2 requests\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    lines = [json.loads(line) for line in path.read_text("ascii").splitlines()]
    assert {line["url"]: line["request"] for line in lines} == {
        f"{SITE}lost": "",
        f"{SITE}link": "cg==",
    }
    assert "exists already" in run("owed", "write", path, "--store", store).err
    words = ("owed", "write", path, "--store", store, "--why", "link", "--overwrite")
    assert run(*words).out == f"{path}: 1 request\n"
    urls = store.parent / "urls"
    assert run("owed", "write", urls, "--store", store, "--due").exit_code == 0
    assert sorted(urls.read_text().split()) == [f"{SITE}link", f"{SITE}lost"]


def test_what_is_released_is_made(run: Run, store: Path) -> None:
    done = run("owed", "release", f"{SITE}lost", "--store", store)
    assert done.out == "1 request will be made by the next crawl\n"
    with open_in_crawl(store, crawl="crawl-2") as opened:
        urls = {owed.url for _, owed in take_owed(opened, "crawl-2")}
    assert urls == {f"{SITE}lost"}
    assert "no request that is owed meets" in run.failed(
        "owed", "release", f"{SITE}none", "--store", store
    )


def test_what_is_forgotten_is_made_by_nobody(run: Run, store: Path) -> None:
    assert "name what to forget" in run("owed", "forget", "--store", store).err
    assert run("owed", "forget", "--why", "link", "--store", store).out == "1 request forgotten\n"
    assert sorted(names(run, "--store", store)) == ["lost"]
    assert run("owed", "forget", "--all", "--store", store).out == "1 request forgotten\n"
    assert run("owed", "--store", store).exit_code == 1
