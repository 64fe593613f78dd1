"""Prints what was done to a store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy_simhash.untrusted import printable

if TYPE_CHECKING:
    from collections.abc import Iterable


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
