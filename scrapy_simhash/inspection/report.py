"""Self-contained HTML files without scripts: the pages of `report` and of `explain --html`.

Data from pages and URLs may be hostile: the templates escape it, and a policy in the file forbids
scripts, requests, and everything but the style sheet of this package, by its digest.
"""

from __future__ import annotations

import base64
import re
from contextlib import ExitStack
from datetime import UTC, datetime
from hashlib import sha256
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from scrapy_simhash._files import open_whole
from scrapy_simhash._printable import printable, show, show_bytes
from scrapy_simhash._progress import show_progress
from scrapy_simhash.detector.log import IMPORT_PREFIX, LAST_SECOND, Decision
from scrapy_simhash.errors import InspectionError, StoreUnusableError
from scrapy_simhash.inspection.figures import (
    EDGE,
    LARGE,
    LINKS,
    STUB,
    WALL,
    Figures,
    by_similarity,
    compare_pairs,
    describe_groups,
)
from scrapy_simhash.inspection.log import LogFilter, LogReader, find_log
from scrapy_simhash.stores.opening import open_as_it_is

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from scrapy_simhash.config import Config
    from scrapy_simhash.judging.documents import StoredDocument
    from scrapy_simhash.stores.store import Store


def write_report(
    config: Config,
    *,
    output: Path,
    log_path: str | None,
    crawl: str | None,
    overwrite: bool,
) -> Iterator[dict[str, Any]]:
    """Write the report, on all crawls or on one, named by its id or `last`.

    Raises:
        InspectionError: there is neither a log nor a store.
        FileExistsError: the file exists, and `overwrite` is false.
        OSError: a file cannot be read or written; an existing file is unchanged.
        StoreError: the store is damaged.
    """
    with open_whole(output, overwrite=overwrite) as file, ExitStack() as opened:
        missing: list[str] = []
        store = _open_store(config, opened, missing)
        counted = _count(config, store, log_path, crawl, missing)
        pairs: list[dict[str, Any]] = []
        if store is not None:
            with show_progress("differences") as progress:
                pairs = compare_pairs(counted.near_duplicates, store, progress)
            if not pairs and counted.near_duplicates:
                missing.append(
                    "No near-duplicate and its original in the store have texts that differ."
                )
        figures = counted.describe() | describe_groups(counted, store, config.rule)
        page, rows, differences = render_report(figures, counted.near_duplicates, pairs, missing)
        file.write(page)
    yield {
        "file": str(output),
        "file_bytes": len(page),
        "rows": rows,
        "differences": differences,
        "damaged_lines": counted.damaged,
        "missing": missing,
        **figures,
    }


def _open_store(config: Config, opened: ExitStack, missing: list[str]) -> Store | None:
    try:
        return opened.enter_context(open_as_it_is(config.store))
    except StoreUnusableError as error:
        missing.append(
            f"There is no store ({printable(error)}), so titles, differences of texts, and groups "
            "found by titles are missing."
        )
        return None


def _count(
    config: Config, store: Store | None, log_path: str | None, crawl: str | None, missing: list[str]
) -> Figures:
    """Count the decisions of the log or, if there is none, of the store."""
    figures = Figures()
    log = find_log(config, log_path)
    if log.is_file() or log_path is not None:
        with show_progress("bytes of the log") as progress, log.open("rb") as file:
            reader = LogReader(file, LogFilter(crawl=crawl), progress)
            for decision, _ in reader.read():
                figures.add(decision)
        figures.damaged += reader.damaged
        if figures.damaged:
            missing.append(f"{figures.damaged:,} lines of the log {log} are damaged.")
        if figures.without_bytes:
            missing.append(
                f"The log does not have the sizes of {figures.without_bytes:,} dropped pages; "
                "they count as 0 bytes."
            )
    elif store is None:
        raise InspectionError(
            f"there is neither a decision log {log} nor a store; name them (--log, --store), or "
            "crawl with the plugin first"
        )
    else:
        damaged = _add_stored(figures, store, crawl)
        missing.append(
            f"There is no decision log {log}, so each page counts once, at the time of its last "
            "visit; near-duplicates that were crawled count as dropped; bytes, links and unjudged "
            "pages are unknown."
        )
        if damaged:
            missing.append(f"{damaged:,} records of the store are damaged (scrapy simhash check).")
    if not figures.pages:
        raise InspectionError(f"no page was judged yet{f' in crawl {crawl}' if crawl else ''}")
    return figures


def _add_stored(figures: Figures, store: Store, crawl: str | None) -> int:
    """Count the last decision on each document, oldest first; returns how many are damaged."""
    documents: dict[int, StoredDocument] = {}
    damaged = store.visit(lambda document: documents.update({document.document: document}))
    for document in sorted(documents.values(), key=lambda document: document.time):
        if crawl not in {None, document.crawl}:
            continue
        decision = Decision(
            status="new",
            url=document.url,
            time=min(max(0.0, document.time), LAST_SECOND),
            crawl=document.crawl,
            document=document.document,
        )
        if document.state == "duplicate" or document.original:
            original = documents.get(document.original)
            decision.status = "near_duplicate"
            decision.match_url = original.url if original else None
            # A store does not record the action: near-duplicates of crawls count as dropped.
            done = "drop" if document.state == "duplicate" else "pass"
            decision.action = "" if document.crawl.startswith(IMPORT_PREFIX) else done
            decision.distance = max(0, document.distance)
            decision.similarity = document.similarity
            decision.tests = list(document.tests)
            decision.match_document = document.original
        figures.add(decision)
    return damaged


# Excludes javascript:, data:, and URLs that were cut or had to be escaped.
_LINK = re.compile(r"https?://[^\s\\…]*", re.IGNORECASE)
_POLICY = "default-src 'none'; style-src 'sha256-{}'; base-uri 'none'; form-action 'none'"


def render(template: str, **values: object) -> bytes:
    """Make a page from a template and the values that it shows."""
    import jinja2  # noqa: PLC0415 - for two commands only
    from markupsafe import Markup  # noqa: PLC0415

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader(__package__),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "shown": show,
        "printable": printable,
        "count": "{:,}".format,
        "octets": show_bytes,
        "share": lambda part, whole: f"{100 * part / max(1, whole):.1f} %",
        "moment": lambda seconds: f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC",
    }
    environment.tests["link"] = _LINK.fullmatch
    style = (files(__package__) / "templates" / "report.css").read_text("utf-8")
    policy = _POLICY.format(base64.b64encode(sha256(style.encode()).digest()).decode())
    shown = Markup(style)  # noqa: S704 - our own file
    return environment.get_template(template).render(**values, policy=policy, style=shown).encode()


_MOST_ROWS = 500
_MOST_BYTES = 5_000_000
_ADVICE = {
    LINKS: "Most of their links are not on the page that was kept; other pages may have them. The "
    "closing line of a crawl counts those that no kept page has.",
    WALL: "Addresses that have nothing in common lead here: a login, a captcha, a page that says "
    "“not found”? What is behind it was not fetched; `scrapy simhash undo --original URL "
    "--dry-run` lists the addresses. If they are different pages, leave out --dry-run.",
    STUB: "Too little text to compare: empty shells, or pages that scripts draw.",
    LARGE: "Among the pages that most others repeat. One text rarely has many URLs: look for a "
    "parameter or a path that varies, or for pages that do differ.",
    EDGE: "The texts are alike by less than SIMHASH_CONFIRM, because what stands before and behind "
    "their common part may differ, or the evidence was barely enough. If these are different "
    "pages, `scrapy simhash undo` them and name such addresses in SIMHASH_NEVER_DROP, or set "
    "SIMHASH_ACTION to `flag`. SIMHASH_CONFIRM and SIMHASH_DISTANCE bound only the common part and "
    "the fingerprints.",
}


def render_report(
    figures: dict[str, Any],
    near_duplicates: Sequence[Decision],
    pairs: Sequence[dict[str, Any]],
    missing: Sequence[str],
) -> tuple[bytes, int, int]:
    """Make the page, below 5 MB.

    Args:
        figures: of `report`.
        near_duplicates: in any order; the least similar ones are listed.
        pairs: of `compare_pairs`, most telling first.
        missing: sentences about what could not be shown.

    Returns:
        The page, and the numbers of its rows and pairs.
    """
    values = {
        "figures": figures,
        "missing": missing,
        "sentence": _summarise(figures),
        "advice": _ADVICE,
    }
    rows = sorted(near_duplicates, key=by_similarity)[:_MOST_ROWS]
    while True:
        places = {(pair["second"]["url"], pair["first"]["url"]): n for n, pair in enumerate(pairs)}
        page = render("report.html", **values, rows=rows, pairs=pairs, places=places)
        if len(page) < _MOST_BYTES:
            return page, len(rows), len(pairs)
        rows, pairs = rows[: len(rows) // 2], pairs[: len(pairs) // 2]


def _summarise(figures: dict[str, Any]) -> str:
    """Summarise what happened in a sentence."""
    judged, would, dropped = (figures[name] for name in ("judged", "would_be_dropped", "dropped"))
    if not figures["near_duplicates"]:
        return f"None of {judged:,} pages judged was a near-duplicate of another."
    summary = (
        f"Of {judged:,} pages judged {would or dropped:,} ({(would or dropped) / judged:.0%}) "
        f"{'would be' if would else 'were'} dropped as near-duplicates of "
        f"{figures['originals']:,} others"
    )
    if kept := figures["near_duplicates_kept"]:
        summary += f", {kept:,} more were near-duplicates and kept"
    largest = figures["groups"][0]
    if largest["near_duplicates"] > 1:
        original = show(largest["url"]) or "one bulk-loaded fingerprint"
        summary += f"; {largest['near_duplicates']:,} pages repeat {original}"
    return summary + "."


def write_differences(
    answers: Sequence[dict[str, Any]], path: Path, *, overwrite: bool
) -> Sequence[dict[str, Any]]:
    """Write the answers of `explain` that have texts; set `html` of the last to the file name."""
    shown = [answer for answer in answers if "side_by_side" in answer]
    if not shown:
        notes = (one.get("note") or one["verdict"] for one in answers if "verdict" in one)
        found = next(notes, "no two pages were compared")
        raise InspectionError(f"{path} was not written, because there is no pair of texts: {found}")
    with open_whole(path, overwrite=overwrite) as file:
        file.write(render("pair.html", answers=shown))
    return [{**one, "html": str(path)} if one is shown[-1] else one for one in answers]
