"""Logs and stores to report on."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from scrapy_simhash.config import Config
from scrapy_simhash.inspection.report import write_report
from tests.helpers.judging import fill, new_line
from tests.helpers.pages import edit_words, make_page, make_words, page

START = 1_700_000_000.0
HOSTILE_TITLE = (
    "</script><!--<script>window.hacked = 1</script>\u2028\u202e<img src=x onerror=hack()>"
)
HOSTILE_URL = "http://site.example/\"'><script>window.hacked=2</script>\u202egpj/one"
HOSTILE_WORDS = "</script><script>window.hacked=3</script> \u2028 \u202e <b>bold</b> "


def make_decision(number: int, **fields: Any) -> dict[str, Any]:
    """Make a line of a log: a page every 10 seconds."""
    line = new_line(f"http://site.example/page/{number}", "crawl-1", body_bytes=1_000)
    return {**line, "status": "new", "time": START + 10 * number, **fields}


def make_drop(number: int, original: int = 0, **fields: Any) -> dict[str, Any]:
    return make_decision(
        number,
        **{
            "status": "near_duplicate",
            "action": "drop",
            "match_url": f"http://site.example/page/{original}",
            "distance": number % 8,
            "similarity": 0.8 + (number % 20) / 100,
            "tests": [f"distance {number % 8} bits", f"main text {number % 8}: alike"],
            "links": 2,
            **fields,
        },
    )


def write_log(path: Path, decisions: Iterable[dict[str, Any] | str]) -> Path:
    """Write decisions, and lines as they are, into a log."""
    lines = (line if isinstance(line, str) else json.dumps(line) for line in decisions)
    path.write_text("".join(f"{line}\n" for line in lines), "ascii")
    return path


def report(
    folder: Path,
    store: Path | None = None,
    lines: Iterable[dict[str, Any] | str] | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Write a report, of a log with these lines if they are given; gives its figures."""
    if lines is not None:
        options["log_path"] = str(write_log(folder / "log.jsonl", lines))
    given: dict[str, Any] = {
        "output": folder / "report.html",
        "log_path": None,
        "crawl": "all",
        "overwrite": False,
    }
    config = Config(store=str(store or folder / "nowhere"))
    return write_report(config, **(given | options))


def crawl_hostile_pages(store: Path) -> None:
    """Fill a store and its log with pages, their copies, and villains."""
    words = make_words(1)
    edited = edit_words(words, 3, seed=7)
    title = HOSTILE_TITLE
    pages = (
        ("http://site.example/one", page(1, title=title)),
        ("http://press.example/one/", make_page(edited, title=title)),
        ("http://mirror.example/one", page(1, title=title)),
        (HOSTILE_URL, make_page([HOSTILE_WORDS, *words], title=title)),
        ("javascript:window.hacked=4//", make_page([*words, "twice"], title=title)),
        ("http://site.example/gone", page(2, title="Page not found")),
        *((f"http://site.example/gone/{n}", page(2, title="Page not found")) for n in range(3)),
        ("http://site.example/two", page(3)),
    )
    fill(store, pages)
