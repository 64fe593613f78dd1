"""The command report: show what a crawl dropped, and why, in one self-contained HTML file."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from scrapy_simhash._files import open_whole
from scrapy_simhash._printable import printable
from scrapy_simhash._progress import show_progress
from scrapy_simhash.detector.log import IMPORT_PREFIX, LAST_SECOND, Decision
from scrapy_simhash.errors import InspectionError, StoreUnusableError
from scrapy_simhash.inspection.evaluation.evaluation import evaluate_labelled
from scrapy_simhash.inspection.log import LogFilter, LogReader, find_log
from scrapy_simhash.inspection.report.figures import (
    Figures,
    compare_pairs,
    describe_fingerprints,
    describe_groups,
)
from scrapy_simhash.stores.opening import open_as_it_is

if TYPE_CHECKING:
    from collections.abc import Iterator
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
    labels: Path | None,
    overwrite: bool,
) -> Iterator[dict[str, Any]]:
    """Write the report, on all crawls or on one, named by its id or `last`.

    `labels` is a folder of labelled pages, or None.

    Raises:
        InspectionError: there is neither a log nor a store.
        FileExistsError: the file exists, and `overwrite` is false.
        OSError: a file cannot be read or written; an existing file is unchanged.
        StoreError: the store is damaged.
    """
    from scrapy_simhash.inspection.report.page import render_report  # noqa: PLC0415 - loads jinja2

    with open_whole(output, overwrite=overwrite) as file, ExitStack() as opened:
        missing: list[str] = []
        judged = _judge_labels(config, labels, missing)
        store = _open_store(config, opened, missing)
        counted = _count(config, store, log_path, crawl, missing)
        pairs: list[dict[str, Any]] = []
        if store is not None:
            with show_progress("differences") as progress:
                pairs = compare_pairs(counted.near_duplicates, store, progress)
            if not pairs and counted.near_duplicates:
                missing.append(
                    "The store has no texts of near-duplicates and their originals; set "
                    "SIMHASH_KEEP_TEXT = True to see differences after the next crawl."
                )
        fingerprints = counted.fingerprints if store is None else store.fingerprints()
        figures = counted.describe() | {
            **describe_groups(counted, store, config.rule),
            "fingerprints": describe_fingerprints(fingerprints),
            **judged,
        }
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
            "found by titles are missing, and fingerprints come from the log."
        )
        return None


def _count(
    config: Config,
    store: Store | None,
    log_path: str | None,
    crawl: str | None,
    missing: list[str],
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


def _judge_labels(config: Config, labels: Path | None, missing: list[str]) -> dict[str, Any]:
    """Return precision and recall by distance on labelled pairs; add a note on problems."""
    if labels is None:
        return {"quality": None}
    judged, _ = evaluate_labelled(config, labels)
    if problems := judged["problems"]:
        missing.append(f"{len(problems):,} labelled rows or pages were left out.")
    rows = judged["by_distance"]
    # Without any, no labelled pair is a duplicate, and none would be dropped.
    known = any(row[share] is not None for row in rows for share in ("precision", "recall"))
    return {"quality": rows if known else None}
