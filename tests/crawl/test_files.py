"""Files that are no HTML pages (`SIMHASH_FILES`): known by their bytes, and by nothing else."""

import random
from pathlib import Path
from typing import Any

import pytest
from scrapy.http import Request

from scrapy_simhash.stores.opening import open_store
from tests.helpers.commanding import Run
from tests.helpers.crawling import Crawl, crawl
from tests.helpers.pages import page
from tests.helpers.server import Answer, Site, serve


def pdf(number: int, size: int = 5_000) -> Answer:
    """Make something like a PDF: no text by its bytes."""
    body = b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n" + random.Random(number).randbytes(size)  # noqa: S311
    return Answer(body, content_type="application/pdf")


ANSWERS = {
    "/page": page(1),
    "/a.pdf": pdf(1),
    "/b.pdf": pdf(2),
    "/a-again.pdf": pdf(1),
    "/download?id=1": Answer(pdf(1).body, content_type="application/octet-stream", gzip=True),
}


async def crawl_files(store: Path, requests: list[Any], **settings: Any) -> Crawl:
    return await crawl(store, requests, **{"SIMHASH_FILES": True, **settings})


@pytest.mark.parametrize("rule", ["words", "plain"])
async def test_the_same_file_at_two_addresses_is_dropped(
    site: Site, tmp_path: Path, rule: str
) -> None:
    """In plain simhash, too."""
    done = await crawl_files(tmp_path, site.urls(), SIMHASH_RULE=rule)
    assert done.paths == ["/page", "/a.pdf", "/b.pdf"]
    assert done.counted["distance/0"] == done.counted["dropped"] == 2
    assert done.counted["bytes_dropped"] == 2 * len(pdf(1).body)
    _, kept, _, again, download = done.decisions
    for dropped in (again, download):
        assert dropped["match_url"] == site.url("/a.pdf")
        assert (dropped["distance"], dropped["similarity"]) == (0, None)
        assert dropped["fingerprint"] == kept["fingerprint"]
        assert dropped["extractor"] == kept["extractor"] == "file"
        assert dropped["tests"][:1] == ["same file"]
    with open_store(str(tmp_path), readonly=True) as store:
        counted = store.stats()
        assert (counted["documents"], counted["files"], counted["stubs"]) == (5, 4, 0)
        assert counted["distances"] == {"0": 2}
        assert store.check() == []


async def test_files_are_not_judged_unless_asked_for(site: Site, tmp_path: Path) -> None:
    done = await crawl(tmp_path, site.urls())
    assert len(done.paths) == 5
    assert done.counted == {"pages": 1, "new": 1, "not_judged/not_html": 4}


async def test_a_file_is_never_compared_with_a_page(tmp_path: Path) -> None:
    """The same bytes, as a page with much text, a short one, and as two files."""
    long, short = page(1).encode(), b"<html><body><p>Nothing here</p></body></html>"
    answers = {
        f"/{name}/{kind}": Answer(body, content_type=content_type)
        for name, body in (("long", long), ("short", short))
        for kind, content_type in (
            ("page", "text/html"),
            ("text", "text/plain"),
            ("json", "application/json"),
        )
    }
    with serve(answers) as site:
        for number, urls in enumerate((site.urls(), site.urls()[::-1])):
            done = await crawl_files(tmp_path / str(number), urls)
            assert {path.removesuffix("/json").removesuffix("/text") for path in done.paths} == {
                *("/long", "/short", "/long/page", "/short/page")
            }
            for decision in done.decisions:
                of = decision["match_url"] or ""
                assert "page" not in of
                assert ("page" not in decision["url"]) or decision["status"] == "new"


async def test_other_rules_hold_for_files(site: Site, tmp_path: Path) -> None:
    site.answers |= {
        "/empty.pdf": Answer(b"", content_type="application/pdf"),
        "/gone.pdf": Answer(pdf(1).body, status=404, content_type="application/pdf"),
        "/never.pdf": pdf(1),
    }
    done = await crawl_files(
        tmp_path,
        [*site.urls(), Request(site.url("/page?skip"), meta={"simhash_skip": True})],
        HTTPERROR_ALLOW_ALL=True,
        SIMHASH_NEVER_DROP=["/never"],
    )
    assert {key: n for key, n in done.counted.items() if key.startswith("not_judged/")} == {
        "not_judged/not_html": 1,  # the empty one
        "not_judged/status": 1,
        "not_judged/never_drop": 1,
        "not_judged/simhash_skip": 1,
    }
    assert done.verdicts["/a-again.pdf"] == "near_duplicate"


async def test_revisits_tell_what_an_address_has_now(site: Site, tmp_path: Path) -> None:
    url = site.url("/a.pdf")
    kinds = []
    for body in (pdf(1), pdf(1), pdf(3), Answer(page(5).encode()), pdf(3)):
        site.answers["/a.pdf"] = body
        (decision,) = (await crawl_files(tmp_path, [url])).decisions
        with open_store(str(tmp_path), readonly=True) as store:
            (document,) = store.list_documents()
            kinds.append(
                (f"{decision['status']} {decision['reason']}".strip(), document.facts.file)
            )
            assert store.check() == []
    assert kinds == [
        ("new", True),
        ("revisit unchanged", True),
        ("revisit changed", True),
        ("revisit changed", False),
        ("revisit changed", True),
    ]


async def test_commands_know_files(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    await crawl_files(tmp_path / "s", site.urls())
    monkeypatch.chdir(tmp_path)
    (explained,) = run("explain", site.url("/a-again.pdf"), "--store", "s", "--json").answers
    assert explained["verdict"] == f"Dropped: it is the same file as {site.url('/a.pdf')}"
    assert "digest of its bytes" in explained["note"]
    assert "main_similarity" not in explained
    pair = site.url("/a.pdf"), site.url("/page")
    (compared,) = run("explain", *pair, "--store", "s", "--json").answers
    assert (compared["judged"], compared["tests"][1:]) == (
        False,
        ["a file and a page: never compared"],
    )
    assert run("explain", *pair, "--store", "s").exit_code == 0
    done = run("undo", site.url("/a-again.pdf"), "--store", "s")
    assert done.out.splitlines() == [site.url("/a-again.pdf")]
    again = await crawl_files(tmp_path / "s", [site.url("/a-again.pdf")])
    assert again.verdicts == {"/a-again.pdf": "new"}
    explained = run.answer("explain", site.url("/a-again.pdf"), "--store", "s")
    dropped = f"Kept: it was dropped for {site.url('/a.pdf')}, then let in"
    assert explained["verdict"] == f"{dropped} by `scrapy simhash undo`"
    assert "files: 4" in run("stats", "--store", "s").out
    assert run("check", "--store", "s").exit_code == 0
    assert run("check", "--rebuild", "--store", "s").exit_code == 0
    assert run("report", "--store", "s", "-o", "report.html").exit_code == 0
