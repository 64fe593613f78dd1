"""What a list of URL rules saves: live crawls of the example's site, whose documents are known.

`first` is the plugin with its defaults; `scrapy simhash urls` writes the rules that its pages
prove; `discarder` is the plugin beside duplicate-url-discarder with these rules, in a new store.
The last two go on with the other's store, although requests have other fingerprints then. Ends with
1 if a crawl loses documents that `off` delivered, or if `discarder` saves less of its requests than
`skip again` did, less .1 (`results/urls-skip.json`: crawls that parked requests by rules of their
own, measured before that was removed).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from bench_outlinks import crawl
from machine import print_table, write_result

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_HERE = Path(__file__).parent
_PLUGIN = {"scrapy_simhash.Addon": 500}
_BOTH = {**_PLUGIN, "duplicate_url_discarder.Addon": 600}
# By name: whether duplicate-url-discarder is on, and the store; a crawl that finds one goes on.
_CRAWLS = {
    "off": (False, None),
    "first": (False, "first"),
    "discarder": (True, "discarder"),
    "discarder, store of first": (True, "first"),
    "again, store of discarder": (False, "discarder"),
}
_VERSIONS = ("scrapy-simhash", "scrapy", "duplicate-url-discarder", "turbohtml")


def main() -> None:
    """Crawl, print the table, and fail where a promise was broken."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=3, help="runs (default 3)")
    parser.add_argument("--output", type=Path, help="write the results as JSON, too")
    options = parser.parse_args()
    runs = []
    for _ in range(options.runs):
        with tempfile.TemporaryDirectory() as folder:
            runs.append(crawl_all(Path(folder)))
    rows = []
    for name in _CRAWLS:
        found = [run[name] for run in runs]
        medians = (median(each[key] for each in found) for key in ("requests", "saved", "found"))
        rows.append((name, *medians, sum(len(each["lost"]) for each in found)))
    print_table(("crawl", "requests", "saved", "documents", "lost"), rows)
    faults = [fault for run in runs for fault in find_faults(run)]
    print("\n".join(faults) or "every promise was kept")
    write_result(options.output, _VERSIONS, faults=faults, crawls=runs)
    sys.exit(bool(faults))


def crawl_all(folder: Path) -> dict[str, dict[str, Any]]:
    """Crawl in all these ways, with stores in the folder; returns the figures by name."""
    figures: dict[str, dict[str, Any]] = {}
    rules = folder / "rules.json"
    for name, (discards, store) in _CRAWLS.items():
        settings: dict[str, Any] = {"DUD_LOAD_RULE_PATHS": [str(rules)]}
        if store is not None:
            settings["ADDONS"] = _BOTH if discards else _PLUGIN
            settings["SIMHASH_STORE"] = str(folder / store)
        found = crawl("example", "", settings)
        if name == "first":
            command = [sys.executable, "-m", "scrapy", "simhash", "urls", "--output", str(rules)]
            command += ["--store", str(folder / "first")]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        delivered = {document for _, document in found["delivered"] if document}
        every: dict[str, Any] = {"requests": len(found["fetched"]), "names": delivered}
        every = figures.get("off", every)
        figures[name] = {
            "requests": len(found["fetched"]),
            "saved": 1 - len(found["fetched"]) / every["requests"],
            "found": len(delivered),
            "names": sorted(delivered),
            "lost": sorted({*every["names"]} - delivered),
        }
    return figures


def find_faults(run: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Name the promises that were broken."""
    for name, found in run.items():
        if found["lost"]:
            yield f"{name}: {len(found['lost'])} documents lost: {found['lost'][:5]}"
    before = json.loads((_HERE / "results/urls-skip.json").read_text())["crawls"]
    skipped = [each["example"] for each in before]
    least = median(1 - each["skip again"]["fetches"] / each["off"]["fetches"] for each in skipped)
    if (saved := run["discarder"]["saved"]) < least - 0.1:
        yield f"discarder saved {saved:.0%}, `skip again` {least:.0%}"


if __name__ == "__main__":
    main()
