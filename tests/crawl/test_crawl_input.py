"""What the web serves: in one crawl every page reaches the spider, and every reason is told.

With Scrapy's defaults (reactor, download handler), in a process of its own: nothing may reach the
standard error either.
"""

from collections import Counter

import pytest

from tests.helpers.crawling import path_of, read_lines
from tests.helpers.crawlscript import ScriptCrawl, run_crawl
from tests.helpers.pages import page
from tests.helpers.server import Answer, serve

PAGE = page(1).encode()
_COPIES = (page(seed, menu="Any").encode() for seed in range(100, 200))


def labelled(content_type: str | None) -> Answer:
    """Label a page that resembles no other."""
    return Answer(next(_COPIES), content_type=content_type)


def holding(octets: bytes, content_type: str = "text/html; charset=utf-8") -> Answer:
    """Put something into the text of a page that resembles no other."""
    return Answer(
        next(_COPIES).replace(b"</h1>", b"</h1><p>" + octets + b"</p>"), 200, content_type
    )


NOT_JUDGED = {
    "/text": (Answer(PAGE, content_type="text/plain"), "not_html"),
    "/json": (Answer(b'{"a": 1}', content_type="application/json"), "not_html"),
    "/image": (Answer(b"\x89PNG\r\n\x1a\n" + bytes(99), content_type="image/png"), "not_html"),
    "/large": (Answer(b"<html><body><p>" + b"word " * 4_200_000), "too_large"),
    "/cut": (Answer(PAGE, missing_bytes=500), "truncated"),
    "/empty": (Answer(b"", content_type="text/html"), "empty"),
    "/blank": (Answer(b" \r\n\t "), "empty"),
    "/nuls": (Answer(bytes(5_000)), "binary"),
    "/no-text": (Answer(b"<html><head><title>T</title></head><body></body></html>"), "no_text"),
    "/binary": (Answer(bytes(range(256)) * 40, content_type="text/html"), "binary"),
    "/image-as-html": (Answer(b"\x89PNG\r\n\x1a\n" + bytes(range(32)) * 99), "binary"),
    "/zip-as-html": (Answer(b"PK\x03\x04" + bytes(range(30)) * 99), "binary"),
}
# Python knows these under the name of a charset; no page is written in them.
for name in ("base64", "idna", "unicode_escape", "raw_unicode_escape", "hex", "zip", "rot13"):
    NOT_JUDGED[f"/charset-{name}"] = labelled(f"text/html; charset={name}"), "bad_encoding"

PASSING = {
    "/short": Answer(b"<html><body><p>Just a few words.</p></body></html>"),
    "/plain": Answer(PAGE),
    "/charset-quote": labelled('text/html; charset="'),
    "/charset-octet": labelled("text/html; charset=\xff"),
    "/charset-empty": labelled("text/html; charset="),
    "/charset-unknown": labelled("text/html; charset=no-such-charset"),
    "/charset-utf-7": labelled("text/html; charset=utf-7"),
    "/charset-utf-16": labelled("text/html; charset=utf-16"),
    "/charset-punycode": labelled("text/html; charset=punycode"),
    "/charset-undefined": labelled("text/html; charset=undefined"),
    "/no-label": labelled(None),
    "/odd-label": labelled("text/html;;; charset ; =utf-8"),
    "/html-parameter": labelled('text/html; profile="http://a.example/"; charset="utf-8"'),
    "/latin-as-utf8": holding("naïve café".encode("latin-1")),
    "/utf8-as-ascii": holding("naïve café".encode(), "text/html; charset=ascii"),
    "/nul": holding(b"with \0 a nul"),
    "/surrogates": holding(b"\xed\xa0\x80 \xed\xbf\xbf"),
    "/surrogate-references": holding(b"&#xD800; &#55296; &#x110000; &#0;"),
    "/escapes": holding(b"\x1b[2J\x1b]0;title\x07"),
    "/surrogates-in-title": Answer(
        next(_COPIES).replace(b"A page", b"&#xD800; \xed\xa0\x80\nsecond line")
    ),
    "/surrogates-in-language": Answer(next(_COPIES).replace(b'"en"', b'"&#xD800;\xed\xa0\x80"')),
    "/nested": holding(b"<div>" * 5_000),
    "/unclosed": Answer(next(_COPIES)[:-200] + b"<table><tr><td <b <!-- "),
    "/doctype-of-another": Answer(b'<?xml version="1.0" encoding="base64"?>' + next(_COPIES)),
}
ANSWERS = {**{path: answer for path, (answer, _) in NOT_JUDGED.items()}, **PASSING}


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[ScriptCrawl, dict[str, str]]:
    """Crawl once; the reasons are those of the decision log."""
    folder = tmp_path_factory.mktemp("input")
    with serve(ANSWERS) as site:
        done = run_crawl(
            folder,
            site.urls(),
            CONCURRENT_REQUESTS=8,
            DOWNLOAD_FAIL_ON_DATALOSS=False,
            METAREFRESH_ENABLED=False,  # raises for some of these charsets
            LOG_LEVEL="DEBUG",
        )
    decisions = read_lines(folder / "store" / "log.jsonl")
    reasons = {path_of(d["url"]): f"{d['status']} {d['reason']}".strip() for d in decisions}
    assert len(reasons) == len(decisions)
    return done, reasons


def test_spider_gets_every_page_whole(done: tuple[ScriptCrawl, dict[str, str]]) -> None:
    crawl, reasons = done
    whole = [(path, len(answer.body)) for path, answer in ANSWERS.items()]
    assert sorted((item["path"], item["bytes"]) for item in crawl.items) == sorted(whole)
    assert reasons.keys() == ANSWERS.keys()


def test_nothing_raises_and_nothing_is_said_but_by_scrapy(
    done: tuple[ScriptCrawl, dict[str, str]],
) -> None:
    crawl, _ = done
    assert (crawl.exit_code, crawl.stats["finish_reason"]) == (0, "finished")
    assert "log_count/ERROR" not in crawl.stats
    assert "Traceback" not in crawl.log
    assert "\x1b" not in crawl.log
    assert "asyncioreactor.AsyncioSelectorReactor" in crawl.log
    odd = [line for line in crawl.log.splitlines() if "scrapy_simhash" in line and "WARN" in line]
    (told,) = odd
    assert "Not judged: 18 pages (8 bad encoding, 4 binary, 2 empty, " in told


def test_pages_say_why_they_are_not_judged(done: tuple[ScriptCrawl, dict[str, str]]) -> None:
    expected = {path: f"not_judged {reason}" for path, (_, reason) in NOT_JUDGED.items()}
    assert {path: done[1][path] for path in expected} == expected
    others = {done[1][path] for path in PASSING}
    assert "new" in others
    assert others <= {"new", "not_judged bad_encoding", "not_judged binary", "not_judged no_text"}
    keys = Counter(reason.replace("not_judged ", "not_judged/") for reason in done[1].values())
    assert done[0].counted == {**keys, "pages": keys["new"]}
    assert keys["new"] > 10
