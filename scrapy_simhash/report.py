"""The command report: what a crawl dropped and why, in one HTML file that needs nothing else."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from scrapy_simhash.inspection import InspectionError, evaluate_labelled, open_as_it_is
from scrapy_simhash.labels import LABELS_FILE, LabelsError
from scrapy_simhash.logreader import find_log
from scrapy_simhash.progress import show_progress
from scrapy_simhash.stores import StoreUnusableError
from scrapy_simhash.untrusted import printable
from scrapy_simhash.wholefile import open_whole

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from scrapy_simhash.config import Config
    from scrapy_simhash.report_figures import Figures
    from scrapy_simhash.stores import Store


def write_report(
    config: Config,
    *,
    output: Path,
    log_path: str | None,
    crawl: str | None,
    labels: Path | None,
    overwrite: bool,
) -> Iterator[dict[str, Any]]:
    """Write the report.

    Args:
        config: the settings in force.
        output: the file.
        log_path: of the decision log; None for that of the settings.
        crawl: only of the crawl with this id; None for all.
        labels: labelled pairs, a folder or a file of `calibrate`, see `evaluate`; None for the
            file that `calibrate` keeps beside the log, if it is there.
        overwrite: replace a file that is there.

    Raises:
        InspectionError: there is neither log nor store, or a library is missing.
        FileExistsError: the file is there, and not to be overwritten.
        OSError: a file cannot be read or written; what was there before is there still.
        StoreError: the store is damaged.
    """
    render = _load_renderer()
    with open_whole(output, overwrite=overwrite) as file, ExitStack() as opened:
        missing: list[str] = []
        # Before the store is opened: labels may be of its pairs, and nobody opens it twice.
        judged = _judge_labels(config, labels, log_path, missing)
        store = _open_store(config, opened, missing)
        counted = _count(config, store, log_path, crawl, missing)
        pairs = _compare(counted, store, missing)
        figures = counted.describe() | _look_closer(config, counted, store) | judged
        page, rows, differences = render(figures, counted.near_duplicates, pairs, missing)
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


def _load_renderer() -> Callable[..., tuple[bytes, int, int]]:
    try:
        from scrapy_simhash.report_sections import render_report  # noqa: PLC0415 - optional
    except ImportError as error:
        raise InspectionError(
            f"report needs pip install 'scrapy-simhash[report]': {error}"
        ) from error
    return render_report


def _open_store(config: Config, opened: ExitStack, missing: list[str]) -> Store | None:
    try:
        return opened.enter_context(open_as_it_is(config))
    except StoreUnusableError as error:
        missing.append(
            f"There is no store ({printable(error)}), so titles, differences of texts, and groups "
            "known by their titles are missing, and fingerprints are those of the log."
        )
        return None


def _count(
    config: Config,
    store: Store | None,
    log_path: str | None,
    crawl: str | None,
    missing: list[str],
) -> Figures:
    """Count the decisions of the log, or where there is none what the store knows of them."""
    from scrapy_simhash.report_figures import Figures  # noqa: PLC0415 - loads numpy
    from scrapy_simhash.report_input import read_decisions, read_store  # noqa: PLC0415

    figures = Figures()
    log = find_log(config, log_path)
    if log.is_file() or log_path is not None:
        with show_progress("bytes of the log") as progress:
            figures.add_all(read_decisions(log, crawl, progress))
        if figures.damaged:
            missing.append(f"{figures.damaged:,} lines of the log {log} are damaged.")
        if figures.without_bytes:
            missing.append(
                f"Of {figures.without_bytes:,} dropped pages the log does not say how many bytes "
                "they had; they count as none."
            )
    elif store is None:
        raise InspectionError(
            f"there is neither a decision log {log} nor a store; name them (--log, --store), or "
            "crawl with the plugin first"
        )
    else:
        decisions, damaged = read_store(store, crawl)
        figures.add_all(decisions)
        missing.append(
            f"There is no decision log {log}, so each page counts once, at the time of its last "
            "visit; near-duplicates that were crawled count as dropped; bytes, links, and pages "
            "that were not judged are unknown."
        )
        if damaged:
            missing.append(f"{damaged:,} records of the store are damaged (scrapy simhash check).")
    if not figures.pages:
        raise InspectionError(f"no page was judged yet{f' in crawl {crawl}' if crawl else ''}")
    return figures


def _compare(counted: Figures, store: Store | None, missing: list[str]) -> list[dict[str, Any]]:
    from scrapy_simhash.report_pairs import compare_pairs  # noqa: PLC0415 - loads numpy

    if store is None:
        return []
    with show_progress("differences") as progress:
        pairs = compare_pairs(counted.near_duplicates, store, progress)
    if not pairs and counted.near_duplicates:
        missing.append(
            "The store has no texts of near-duplicates and their originals; set "
            "SIMHASH_KEEP_TEXT = True to see their differences after the next crawl."
        )
    return pairs


def _look_closer(config: Config, counted: Figures, store: Store | None) -> dict[str, Any]:
    """Describe groups and fingerprints."""
    from scrapy_simhash.report_groups import (  # noqa: PLC0415 - loads numpy
        Rule,
        collect_groups,
        describe_largest,
        find_suspicious,
    )
    from scrapy_simhash.report_paper import describe_fingerprints  # noqa: PLC0415

    groups = collect_groups(counted, store)
    rule = Rule(config.distance, config.confirm)
    fingerprints = counted.fingerprints if store is None else store.fingerprints()
    return {
        "suspicious": find_suspicious(groups, counted.near_duplicates, rule),
        "groups": describe_largest(groups),
        "fingerprints": describe_fingerprints(fingerprints),
    }


def _judge_labels(
    config: Config, labels: Path | None, log_path: str | None, missing: list[str]
) -> dict[str, Any]:
    """Get precision and recall by distance of labelled pairs, and what to know of them."""
    judged: dict[str, Any] = {"by_distance": []}
    if labels is not None:
        judged, _ = evaluate_labelled(config, labels)
    elif (beside := find_log(config, log_path).with_name(LABELS_FILE)).is_file():
        try:
            judged, _ = evaluate_labelled(config, beside)
        except (LabelsError, OSError, StoreUnusableError) as error:  # nobody asked for them
            missing.append(f"The labels in {beside} were not used: {printable(error)}.")
    if problems := judged.get("problems"):
        missing.append(f"{len(problems):,} labelled rows or pages were left out.")
    rows = judged["by_distance"]
    # Otherwise no labelled pair is the same, and none would be dropped.
    known = any(row[share] is not None for row in rows for share in ("precision", "recall"))
    return {"quality": rows if known else None, "quality_note": judged.get("note", "")}
