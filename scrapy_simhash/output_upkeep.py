"""Prints what was done to a store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy_simhash.output import style
from scrapy_simhash.untrusted import printable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy_simhash.output import Part


def print_compaction(answer: dict[str, Any]) -> Iterable[str]:
    """Print what `compact` won."""
    for key, unit in (
        ("table_bytes_per_fingerprint", "table bytes a fingerprint"),
        ("file_bytes", "bytes of the file"),
    ):
        if f"{key}_before" in answer:
            yield f"{answer[f'{key}_before']:,} -> {answer[f'{key}_after']:,} {unit}"
    if answer.get("shrunk") is False:
        yield (
            "the file was not shrunk because somebody has the store open; what became free in it "
            "is used again. Run compact once more when nobody does"
        )


def print_check(answer: dict[str, Any]) -> Iterable[str]:
    """Print what `check` found."""
    yield from map(printable, answer["problems"])
    if not answer["problems"]:
        yield (
            f"no problems: {answer['tables']} tables of {answer['fingerprints']:,} fingerprints "
            "compared with each other and with the documents"
        )


def print_backup(answer: dict[str, Any]) -> Iterable[str]:
    """Print what `backup` made."""
    yield from map(printable, answer["problems"])
    if answer["folder"]:
        yield (
            f"{printable(answer['folder'])}: {answer['documents']:,} documents, "
            f"{answer['fingerprints']:,} fingerprints, {answer['file_bytes']:,} bytes; "
            f"{'no problems' if answer['checked'] else 'not checked'}"
        )


def print_import(answer: dict[str, Any]) -> Iterable[Part]:
    """Print what `import` read of a source."""
    if "into" in answer:
        yield from print_merge(answer)
        return
    source = f"{printable(answer['source'])} ({answer['kind']})"
    if "records" not in answer:
        new = f", {answer['new']:,} of them new" if "new" in answer else ""
        documents = f"{answer['documents']:,} documents, " if "documents" in answer else ""
        yield f"{source}: {documents}{answer.get('fingerprints', 0):,} fingerprints{new}"
        return
    again = answer.get("resumed_at")
    yield (
        f"{source}: {answer['pages']:,} pages of {answer['records']:,} records"
        + (f", the first {again:,} of them in an earlier run" if again else "")
        + ("" if answer["complete"] else "; not read to the end")
    )
    for counted in ("verdicts", "skipped"):
        by_count = sorted(answer.get(counted, {}).items(), key=lambda item: -item[1])
        if by_count:
            yield f"  {counted}: " + ", ".join(f"{n:,} {printable(name)}" for name, n in by_count)
    if answer["without_address"]:
        yield style(
            f"  {answer['without_address']:,} pages have no address but that of their file: a "
            "crawl will find the real pages to be near-duplicates of them, and drop them with "
            "their links, the first one too. Add a pages.csv (columns url, path) and import into "
            "a new store, unless that is what you want",
            "yellow",
        )


def print_merge(answer: dict[str, Any]) -> Iterable[str]:
    """Print what `merge` took over."""
    how = "copied as they are" if answer["copied"] else "who was first decides"
    yield (
        f"{', '.join(map(printable, answer['sources']))} into {printable(answer['into'])}: "
        f"{answer['documents']:,} documents, {how}"
    )
    kinds = {
        "done": "done",
        "pending": "pending",
        "near_duplicates": "near-duplicates",
        "known": "there already",
        "became_near_duplicates": "became near-duplicates",
    }
    if told := [f"{answer[key]:,} {kind}" for key, kind in kinds.items() if answer[key]]:
        yield f"  {', '.join(told)}"


def print_removal(answer: dict[str, Any]) -> Iterable[str]:
    """Print what `prune` or `delete` did."""
    if "url" in answer:
        yield f"{answer['state']:<9}  {printable(answer['url'])}"
    else:
        done = "deleted" if answer["deleted"] else "would delete"
        yield (
            f"{done} {answer['documents']:,} documents and {answer['near_duplicates']:,} "
            "near-duplicates of them"
        )


def print_undone(answer: dict[str, Any]) -> Iterable[str]:
    """Print a URL to fetch again."""
    yield printable(answer["url"])
