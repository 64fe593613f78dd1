"""What does the plugin cost a crawl: speed, CPU time, memory, delay of the event loop?

Each crawl is a process of its own; the kinds of a row crawl the same pages, in turns: `off` is
without the plugin, `naive` a middleware with `trafilatura.extract` and a list of simhashes on the
event loop, `flag` and `drop` are the plugin with its defaults in a fresh store, `thresholds` is
`flag` with other thresholds of Python's garbage collector. Rows: `empty` takes
pages from memory, with a callback that does nothing; `callback` with one that takes title, links
and paragraphs; `duplicates` likewise on a site where 30 % are near-duplicates; `long` is `empty`
with four times as many pages; `sockets-...` are the first three from a local server on the same
cores. `crawling` says how a crawl is measured, `sites` what the pages are. Not measured: networks,
and what is not fetched because the links of dropped pages are not followed.
The first page is timed from the start of the crawl, with what Scrapy loads.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import pickle
import subprocess
import sys
import tempfile
from contextlib import contextmanager, nullcontext
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from crawling import KINDS, THRESHOLDS, crawl
from machine import print_table, write_result
from sites import Site, load_pages, make_parser, make_site, serve

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

VERSIONS = ("scrapy-simhash", "scrapy", "turbohtml", "trafilatura", "lmdb", "lxml", "numpy")
_TIMES_LONGER = 4
_COLUMNS = (
    *("main_cpu_ms", "others_cpu_ms", "delay_p50_ms", "delay_p99_ms", "delay_worst_ms"),
    *("gc_percent", "resident_mb", "first_page_s"),
)

Measured: TypeAlias = dict[str, dict[str, float]]  # of a row: by kind, by figure
Round: TypeAlias = dict[str, Measured]  # by row


class Row(NamedTuple):
    """A kind of crawl."""

    site: str  # a key of `SITES`
    kinds: tuple[str, ...] = KINDS
    callback: bool = False
    sockets: bool = False


_WITHOUT_NAIVE = ("off", "flag", "drop")
ROWS = {
    "empty": Row("pages"),
    "callback": Row("pages", (*KINDS, THRESHOLDS), callback=True),
    "duplicates": Row("duplicates", callback=True),
    "long": Row("long", ("off", "flag")),
    "sockets-empty": Row("pages", _WITHOUT_NAIVE, sockets=True),
    "sockets-callback": Row("pages", callback=True, sockets=True),
    "sockets-duplicates": Row("duplicates", _WITHOUT_NAIVE, callback=True, sockets=True),
}
SITES: dict[str, Callable[[Path, int], Site]] = {
    "pages": load_pages,
    # Of more pages than are needed, because few of them have little in common with the others.
    "duplicates": lambda folder, count: make_site(load_pages(folder, 10 * count).pages, count),
    "long": lambda folder, count: load_pages(folder, _TIMES_LONGER * count, repeat=True),
}
# What, row, kind, figure, bar. A share is of the speed of `off`; others are beyond those of `off`.
BARS = (
    ("empty crawl, flag, share of off", "empty", "flag", "share", ">= .33"),
    ("crawl with callbacks, flag, share of off", "callback", "flag", "share", ">= .88"),
    ("30 % near-duplicates, drop, share of off", "duplicates", "drop", "share", ">= 1.1"),
    ("CPU added to Scrapy's process, ms a page", "callback", "flag", "main_cpu_ms", "<= .6"),
    ("CPU of other processes, ms a page", "callback", "flag", "others_cpu_ms", ""),
    ("worst delay beyond off, ms", "long", "flag", "delay_worst_ms", "<= 10"),
    ("until the first page is judged, beyond off, s", "empty", "flag", "first_page_s", "<= 1.2"),
    ("processes of the plugin, resident, MB", "callback", "flag", "resident_mb", "<= 140"),
)


def main() -> None:
    """Run the crawls in turn and print the medians."""
    parser = make_parser(__doc__, count=500)
    parser.add_argument("--rows", type=_names, default=[*ROWS], help="such as empty,long")
    parser.add_argument("--kinds", type=_names, default=KINDS, help="such as off,flag")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)  # row, kind, URL of the server
    parser.add_argument("--site", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        asyncio.run(serve(pickle.loads(options.site.read_bytes()).pages))  # noqa: S301 - our own
    elif options.one:
        row, kind, root = options.one
        site = pickle.loads(options.site.read_bytes())  # noqa: S301 - our own file
        print(json.dumps(crawl(kind, site, root or None, callback=ROWS[row].callback)))
    else:
        compare(options)


def _names(given: str) -> list[str]:
    return given.split(",")


def compare(options: argparse.Namespace) -> None:
    """Run everything, print the tables and write the file."""
    names = options.rows
    with tempfile.TemporaryDirectory() as folder:
        sites = {
            kind: SITES[kind](options.pages, options.count)
            for kind in dict.fromkeys(ROWS[name].site for name in names)
        }
        files = {kind: _write_site(Path(folder) / kind, site) for kind, site in sites.items()}
        rounds = [
            {name: _run_row(name, options.kinds, files) for name in names}
            for _ in range(options.runs)
        ]
    figures = {
        name: {"pages": len(sites[row.site].pages), "duplicates": sites[row.site].duplicates}
        | _take_medians([measured[name] for measured in rounds])
        for name, row in ROWS.items()
        if name in names
    }
    summary = summarise(rounds)
    print_crawls(figures)
    print_summary(summary)
    write_result(
        options.output,
        VERSIONS,
        runs=options.runs,
        rows=figures,
        summary=summary,
        all=rounds,
    )


def _write_site(path: Path, site: Site) -> Path:
    path.write_bytes(pickle.dumps(site))
    return path


def _run_row(name: str, kinds: Sequence[str], files: dict[str, Path]) -> Measured:
    row = ROWS[name]
    file = files[row.site]
    measured = {}
    for kind in row.kinds:
        if kind in kinds:
            with _served(file) if row.sockets else nullcontext("") as root:
                command = [sys.executable, __file__, "--one", name, kind, root]
                done = subprocess.run(
                    [*command, "--site", str(file)], check=True, stdout=subprocess.PIPE, text=True
                )
            measured[kind] = json.loads(done.stdout.splitlines()[-1])
    return measured


@contextmanager
def _served(site: Path) -> Iterator[str]:
    """Serve a site from a process of its own; its URL."""
    command = [sys.executable, __file__, "--serve", "--site", str(site)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None  # noqa: S101
        try:
            yield f"http://127.0.0.1:{server.stdout.readline().strip()}"
        finally:
            server.kill()


def _take_medians(measured: Sequence[Measured]) -> dict[str, Any]:
    """Take the medians of a row, and those of its rounds' speeds as shares of `off`."""
    kinds = measured[0]
    medians = {
        kind: {key: median(found[kind][key] for found in measured) for key in kinds[kind]}
        for kind in kinds
    }
    shares = {}
    if "off" in kinds:
        shares = {
            kind: median(_speed(found, kind) / _speed(found, "off") for found in measured)
            for kind in kinds
        }
    return {"medians": medians, "shares": shares}


def _speed(measured: Measured, kind: str) -> float:
    return measured[kind]["pages_per_second"]


def summarise(rounds: Sequence[Round]) -> list[dict[str, Any]]:
    """Work out the figures that have a bar: medians of what each round says."""
    lines = []
    for what, row, kind, key, bar in BARS:
        measured = [found.get(row, {}) for found in rounds]
        if not all(kind in found and "off" in found for found in measured):
            continue
        if key == "share":
            values = [_speed(found, kind) / _speed(found, "off") for found in measured]
        else:
            values = [found[kind][key] - found["off"][key] for found in measured]
        lines.append({"what": what, "value": median(values), "bar": bar, "rounds": values})
    return lines


def print_crawls(figures: dict[str, Any]) -> None:
    """Print what was measured of each kind of each row: CPU in ms a page, delays of the loop."""
    head = ["row", "pages", "plugin", "pages/s", "of off", "CPU, Scrapy", "CPU, others"]
    head += [
        "delay p50 ms",
        "p99 ms",
        "worst ms",
        "collector %",
        "resident, others MB",
        "first page s",
        "duplicates found",
        "others",
    ]
    cells = []
    for name, row in figures.items():
        for kind, found in row["medians"].items():
            known = ROWS[name].site == "duplicates" and kind != "off"
            cells.append(
                [name, row["pages"], kind, found["pages_per_second"], row["shares"].get(kind, "")]
                + [found[key] for key in _COLUMNS]
                + ([f"{found['right']:.0f} of {row['duplicates']}"] if known else [""])
                + ([f"{found['wrong']:.0f}"] if known else [""])
            )
    print_table(head, cells)


def print_summary(lines: Sequence[dict[str, Any]]) -> None:
    """Print the figures that have a bar."""
    print_table(
        ["what", "measured", "bar", "smallest", "largest of the runs"],
        [
            [line["what"], line["value"], line["bar"], min(line["rounds"]), max(line["rounds"])]
            for line in lines
        ],
    )


if __name__ == "__main__":
    main()
