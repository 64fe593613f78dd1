"""Make pages of plain texts that people judged in pairs, for `evaluate.py`.

`python benchmarks/study/make_text_pairs.py FOLDER OUT`. FOLDER is laid out as the pairs of Froebe,
Bittner, Potthast and Hagen (ECIR 2020) are: `text_pairs.csv` (id_a, id_b, human_label, label,
corpus) and `texts/ID.txt.gz`. A page has the text and no name, so that the texts alone decide.
Pairs labelled `borderline`, of which people said neither, become `unknown`. The texts belong to
their publishers, and so do the pages.
"""

from __future__ import annotations

import argparse
import csv
import gzip
from html import escape
from pathlib import Path

_LABELS = {"dup": "dup", "distinct": "distinct", "borderline": "unknown"}


def make_page(text: str) -> str:
    """Make a page of a text: its paragraphs, and nothing else."""
    paragraphs = "".join(f"<p>{escape(part)}</p>\n" for part in text.split("\n\n") if part.strip())
    return f'<!DOCTYPE html><meta charset="utf-8"><body>\n{paragraphs}</body>\n'


def make_folder(folder: Path, out: Path) -> int:
    """Write pages and tables into a new folder; returned is how many pairs there are."""
    with (folder / "text_pairs.csv").open(newline="", encoding="utf-8") as file:
        pairs = list(csv.DictReader(file))
    (out / "pages").mkdir(parents=True)
    names = sorted({row[side] for row in pairs for side in ("id_a", "id_b")})
    for number, name in enumerate(names):
        octets = gzip.decompress((folder / "texts" / f"{name}.txt.gz").read_bytes())
        page = make_page(octets.decode("utf-8", "replace"))
        (out / "pages" / f"{number}.html").write_text(page, encoding="utf-8")
    corpora = {row["id_a"]: row["corpus"] for row in pairs}
    corpora |= {row["id_b"]: row["corpus"] for row in pairs}
    _write(
        out / "pages.csv",
        ("id", "path", "source"),
        [(name, f"pages/{number}.html", corpora[name]) for number, name in enumerate(names)],
    )
    _write(
        out / "pairs.csv",
        ("id_a", "id_b", "label", "why"),
        [
            (row["id_a"], row["id_b"], _LABELS[row["label"]], f"people: {row['human_label']} of 3")
            for row in pairs
        ],
    )
    return len(pairs)


def _write(path: Path, columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([columns, *rows])


def main() -> None:
    """Make the folder, and say what to do with it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, help="with text_pairs.csv and the texts")
    parser.add_argument("out", type=Path, help="folder to make")
    options = parser.parse_args()
    count = make_folder(options.folder, options.out)
    print(f"{count} pairs; now: python benchmarks/study/evaluate.py {options.out}")


if __name__ == "__main__":
    main()
