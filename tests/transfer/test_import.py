"""`scrapy simhash import`: pages become documents as in a crawl, once, whatever interrupts it."""

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

from scrapy_simhash.errors import StoreUnavailableError
from scrapy_simhash.judging.documents import State
from scrapy_simhash.pages.facts import MOST_BYTES, Recipe
from scrapy_simhash.stores.opening import open_store
from scrapy_simhash.stores.store import Store
from tests.helpers.commanding import Done, Run
from tests.helpers.crawling import list_states, read_lines
from tests.helpers.documents import document, find, judge, open_lmdb
from tests.helpers.hostile import TRIGGER
from tests.helpers.pages import make_words, page
from tests.helpers.processes import run_python, start_python, wait_until
from tests.helpers.sourcing import (
    DATE_SECONDS,
    json_lines,
    make_pages,
    url_of,
    warc_by_record,
    warc_plain,
    warc_record,
)

# A judge of its own takes half a second to start, and is tested with crawls.
IN_PROCESS = ("-s", "SIMHASH_PROCESSES=0")
LARGE = "<html>" + MOST_BYTES * "x"


def import_into(run: Run, store: str, *arguments: str | Path) -> Done:
    return run(*IN_PROCESS, "import", *arguments, "--store", store, "--json")


def test_an_import_judges_as_a_crawl_would(run: Run, tmp_path: Path) -> None:
    pages = make_pages(10)
    site = "http://site.example"
    skipped = [
        warc_record(f"{site}/image", b"\x89PNG", headers="Content-Type: image/png\r\n"),
        warc_record(f"{site}/error", "<html>", status="404 Not Found"),
        *(warc_record("only the URL of", page(50)), warc_record(f"{site}/never", page(51))),
        *(warc_record(f"{site}/{name}", html) for name, html in (("empty", ""), ("large", LARGE))),
    ]
    packed = "Content-Type: text/html\r\nContent-Encoding: gzip\r\n"
    octets = gzip.compress(f"<p>{' '.join(make_words(60))}".encode(), mtime=0)
    unpacked = warc_record("http://site.example/packed", octets, headers=packed)
    (tmp_path / "a.warc").write_bytes(warc_plain(pages) + unpacked + b"".join(skipped))
    settings = ("-s", "SIMHASH_NEVER_DROP=/never")
    done = run(*settings, *IN_PROCESS, "import", "a.warc", "--store", "s", "--json")
    (answer,) = done.answers
    assert (done.exit_code, done.err) == (0, "")
    skipped_as = ("not_html", "status", "bad_url", "never_drop", "too_large")
    assert answer["skipped"] == dict.fromkeys(skipped_as, 1)
    assert (answer["records"], answer["pages"]) == (17, 12)
    assert answer["verdicts"] == {"new": 6, "near_duplicate": 5, "not_judged/empty": 1}
    assert answer["complete"]
    assert answer["crawl"].startswith("import-")
    # Of two that are alike the first one is the original, and it is done.
    expected = {f"/{n}": "duplicate" if n % 2 else "done" for n in range(10)}
    assert list_states(tmp_path / "s") == {**expected, "/packed": "done"}
    with open_store(str(tmp_path / "s")) as store:
        (document,) = find(store, url_of(0))
        assert (document.facts.time, document.crawls) == (DATE_SECONDS, (answer["crawl"],))
    logged = [line["url"] for line in read_lines(tmp_path / "s" / "log.jsonl")]
    assert logged == [*pages, "http://site.example/packed", "http://site.example/empty"]


def test_the_request_fingerprinter_of_the_project_is_asked(run: Run, tmp_path: Path) -> None:
    pages = {f"{url_of(0)}?n={n}": page(n) for n in range(3)}
    (tmp_path / "a.jsonl").write_bytes(json_lines(pages))
    settings = ("-s", f"REQUEST_FINGERPRINTER_CLASS={__name__}.PathFingerprinter")
    done = run(*settings, *IN_PROCESS, "import", "a.jsonl", "--store", "s", "--json")
    (answer,) = done.answers
    assert answer["verdicts"] == {"new": 1, "revisit/changed": 2}


class PathFingerprinter:
    """Takes no notice of queries."""

    def fingerprint(self, request: Any) -> bytes:
        address: str = request.url.partition("?")[0]
        return bytes(100) + address.encode()


def test_an_import_of_what_was_cut_is_run_again(run: Run, tmp_path: Path) -> None:
    pages = make_pages(12)
    whole = warc_by_record(pages)
    path = tmp_path / "a.warc.gz"
    path.write_bytes(whole[:-2_000])
    done = import_into(run, "s", path)
    (answer,) = done.answers
    assert (done.exit_code, answer["complete"]) == (1, False)
    records = answer["records"]
    assert 6 < records == answer["pages"] < 12
    assert f"a.warc.gz cannot be read from record {records + 1} on: " in done.err
    assert len(list_states(tmp_path / "s")) == records
    path.write_bytes(whole)
    (answer,) = import_into(run, "s", path).answers
    verdicts = answer["verdicts"]
    assert (answer["records"], verdicts["near_duplicate"]) == (12, 6)
    assert verdicts["revisit/unchanged"] + verdicts["new"] == 6
    (answer,) = import_into(run, "s", path).answers
    assert answer["verdicts"] == {"revisit/unchanged": 6, "near_duplicate": 6}


def test_a_store_that_cannot_be_written_ends_the_import(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says how far it came, and is run again when the store works."""
    (tmp_path / "a.jsonl").write_bytes(json_lines(make_pages(160)))
    write = Store.write

    def fail(store: Store, work: Any, **ahead: bool) -> Any:
        if store.stats()["documents"]:
            raise StoreUnavailableError("no room")
        return write(store, work, **ahead)

    with monkeypatch.context() as patched:
        patched.setattr(Store, "write", fail)
        done = import_into(run, "s", "a.jsonl")
    assert (done.exit_code, done.out) == (2, "")
    assert re.search(r"a\.jsonl was read up to record \d+; run this again", done.err)
    assert 0 < len(list_states(tmp_path / "s")) < 160
    (answer,) = import_into(run, "s", "a.jsonl").answers
    assert answer["verdicts"]["revisit/unchanged"] > 0
    assert sum(answer["verdicts"].values()) == answer["pages"] == 160
    assert len(list_states(tmp_path / "s")) == 160


def describe(store: Path) -> set[tuple[Any, ...]]:
    """List what is in a store but for numbers, its seed's fingerprints, and names of crawls."""
    with open_store(str(store)) as opened:
        documents = opened.list_documents()
        urls = {each.number: each.facts.url for each in documents}
        return {
            (*each.pick("url", "state", "title", "words", "time").values(), urls.get(original))
            for each in documents
            for original in [each.original]
        }


def test_a_killed_import_run_again_is_that_of_one_go(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.warc").write_bytes(warc_plain(make_pages(160)))
    log = tmp_path / "s" / "log.jsonl"
    command = ("-m", "scrapy", "simhash", *IN_PROCESS, "import", "a.warc", "--store", "s")
    with start_python(*command, cwd=tmp_path) as process:
        wait_until(
            lambda: (
                (log.is_file() and log.read_bytes().count(b"\n") >= 90)
                or process.poll() is not None
            )
        )
        process.kill()
        process.wait()
    assert 0 < len(list_states(tmp_path / "s")) < 160
    (answer,) = import_into(run, "s", "a.warc").answers
    assert (answer["records"], answer["pages"]) == (160, 160)
    import_into(run, "t", "a.warc")
    assert describe(tmp_path / "s") == describe(tmp_path / "t")
    assert list_states(tmp_path / "s") == {
        f"/{n}": "duplicate" if n % 2 else "done" for n in range(160)
    }


GOOD = json_lines(make_pages(2))
# 0.3 MB that unpack to 256 MB.
PACKED_LARGE = gzip.compress(b"x" * (16 << 20)) * 16
MOST_MEGABYTES = 512
# Runs a command of Scrapy and prints the most memory it had, in MB.
MEASURED = """
import atexit, re, sys
status = open("/proc/self/status")
atexit.register(lambda: print(int(re.search(r"VmHWM:\\s+(\\d+) kB", status.read())[1]) // 1024))
from scrapy.cmdline import execute
execute(["scrapy", *sys.argv[1:]])
"""


def test_json_nested_deep(run: Run, tmp_path: Path) -> None:
    deep = b"[" * 200_000
    (tmp_path / "whole.jsonl").write_bytes(deep + b"]" * 200_000 + b"\n" + GOOD)
    inner = b'{"url": "http://a.example/", "html": ' + deep + b"}\n"
    (tmp_path / "inner.jsonl").write_bytes(inner + b'{"x": ' + deep + b"}\n" + GOOD)
    done = import_into(run, "s", "whole.jsonl", "inner.jsonl")
    whole, inner_ = done.answers
    assert (done.exit_code, whole["pages"], inner_["pages"]) == (1, 2, 2)
    skipped = [whole["skipped"], inner_["skipped"]]
    assert skipped == [{"no_html": 1}, {"no_html": 1, "unreadable": 1}]
    assert "inner.jsonl: line 2 is no JSON: " in done.err
    assert "Traceback" not in done.err


@pytest.mark.slow
def test_what_unpacks_to_much(tmp_path: Path) -> None:
    item = b'{"url": "http://a.example/", "html": "'
    sources = {
        "a.jsonl.gz": (GOOD + item, 4, "line 3 has more than 33,554,432 octets"),
        "a.warc.gz": (warc_plain(make_pages(2)) + b"WARC/1.0\r\n", 2, "from record 3 on: Max"),
    }
    for name, (head, *_) in sources.items():
        parts = [gzip.compress(head), PACKED_LARGE, gzip.compress(b"\n" + GOOD)]
        (tmp_path / name).write_bytes(b"".join(parts))
    command = ("simhash", "-s", "SIMHASH_PROCESSES=0", "import", *sources, "--store", "s", "--json")
    done = run_python("-c", MEASURED, *command, cwd=tmp_path)
    *answers, megabytes = [json.loads(line) for line in done.stdout.splitlines()]
    assert [answer["pages"] for answer in answers] == [pages for _, pages, _ in sources.values()]
    assert answers[0]["skipped"] == {"too_large": 1}
    for _, _, message in sources.values():
        assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert done.returncode == 1
    assert megabytes < MOST_MEGABYTES


def test_a_page_that_ends_its_judge_may_cost_those_before_it(run: Run, tmp_path: Path) -> None:
    pages = {"http://a.example/deadly": page(99, title=f"{TRIGGER}leave"), **make_pages(4)}
    (tmp_path / "pages.jsonl").write_bytes(json_lines(pages))
    scope = ("-s", "SIMHASH_SCOPE=tests.helpers.hostile.misbehave")
    done = run(*scope, "import", "pages.jsonl", "--store", "s", "--json")
    (answer,) = done.answers
    assert (done.exit_code, answer["pages"]) == (1, 5)
    assert "the process that judges pages ended 2 times" in done.err
    not_judged = {how: n for how, n in answer["verdicts"].items() if how.startswith("not_judged")}
    assert not_judged == {"not_judged/worker_died": 1}


ONE, TWO, THREE = (0x1111_1111 << 8 * place for place in range(3))


def fill_source(path: Path) -> None:
    """Make a store with delivered pages, and others."""
    first = document("one", ONE, text="words", title="First", time=5.0)
    pages = [first, document("two", TWO), document("near one", ONE ^ 1), document("three", THREE)]
    with open_lmdb(path, seed=7) as store:
        store.find_and_add(pages)
        # Its drop is taken back, and it is delivered.
        assert judge(store, document("undone", TWO ^ 1)) == ["near_duplicate 5 of 2"]
        store.spare([5])
        assert judge(store, document("undone", TWO ^ 1)) == ["new 5"]


def read_delivered(path: str) -> dict[str, list[Any]]:
    with open_store(path) as store:
        assert store.check() == []
        found = store.get_documents([each.number for each in store.list_documents()]).values()
        assert store.seed == 7
        return {
            each.facts.url.rpartition("/")[2]: [each.facts, each.wording]
            for each in found
            if each.state == State.DONE or each.spared
        }


@pytest.mark.parametrize("home", ["lmdb", "redis"], indirect=True)
def test_what_was_delivered_comes_in_as_was_recorded(run: Run, tmp_path: Path, home: str) -> None:
    target = str(tmp_path / "target") if home == str(tmp_path) else home
    fill_source(tmp_path / "source")
    answer = run.answer("import", "source", "--store", target)
    assert answer["verdicts"] == {"new": 3, "near_duplicate": 1}
    assert answer["skipped"] == {"duplicate": 1}
    assert read_delivered(target) == read_delivered(str(tmp_path / "source"))
    # What was taken back is no near-duplicate from now on.
    again = run.answer("import", "source", "--store", target)
    assert again["verdicts"] == {"revisit/unchanged": 3, "new": 1}
    with open_store(target) as store:
        pages = [document(name, ONE ^ 1) for name in ("one", "near one")]
        verdicts = store.find_and_add([*pages, document("undone", TWO ^ 1)])
        assert [each.match_url is None for each in verdicts] == [True, False, True]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"seed": 8}, "made with another seed"),
        ({"recipe": Recipe(window=2)}, "another recipe"),
        ({"rule": "plain"}, "another rule: plain, and words is wanted"),
    ],
)
def test_a_store_that_was_made_otherwise_is_refused(
    run: Run, tmp_path: Path, fields: dict[str, Any], message: str
) -> None:
    fill_source(tmp_path / "source")
    open_store(str(tmp_path / "target"), **{"seed": 7, **fields}).close()
    assert message in run.refused("import", "source", "--store", "target")
    with open_store(str(tmp_path / "target")) as store:
        assert store.stats()["documents"] == 0
