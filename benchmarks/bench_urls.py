"""What is not fetched at what price: live crawls of sites whose duplicates are known.

Each crawl is a process of its own, and so is the server of the site, a new one for each crawl.
README.md says what the kinds and columns are, `urlsite` makes the sites, `urlpeers` has the peers.
Ends with 1 if our crawls lost a document, or if a rule of ours that acts at the end is wrong.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from machine import write_result
from urlcrawl import crawl
from urlsite import ARTICLES, MIRROR
from w3lib.url import canonicalize_url

from scrapy_simhash import open_store
from scrapy_simhash.urls.applying import ActingRules

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from scrapy_simhash.urls.rules import ActingRule

VERSIONS = ("scrapy-simhash", "scrapy", "lmdb", "turbohtml")
PEERS = ("MaybeDont", "duplicate-url-discarder", "duplicate-url-discarder-rules")
_OURS: dict[str, Any] = {"ADDONS": {"scrapy_simhash.Addon": 500}}
# By name: settings; `skip again` finds the store that `skip` left.
KINDS: dict[str, dict[str, Any]] = {
    "off": {},
    "skip": {**_OURS, "SIMHASH_URL_RULES": "skip"},
    "skip again": {**_OURS, "SIMHASH_URL_RULES": "skip"},
    "learn": _OURS,
    "discarder": {},
    "MaybeDont": {},
}
LATE: dict[str, dict[str, Any]] = {
    "off": {},
    "False": {**_OURS, "SIMHASH_FOLLOW_NEW_LINKS": "False"},
    "True": {**_OURS, "SIMHASH_FOLLOW_NEW_LINKS": "True"},
    "late": {**_OURS, "SIMHASH_FOLLOW_NEW_LINKS": "late"},
}


_PROMISING = ("learn", "skip", "skip again")


class Place(NamedTuple):
    """A site to crawl: where it begins, and what its server is told."""

    start: str
    domain: str
    server: tuple[str, ...] = ()


def name_places(articles: int, *, hidden: bool = False) -> dict[str, Place]:
    """Name the sites."""
    given = ("--articles", str(articles), *(("--hidden",) if hidden else ()))
    return {
        "example": Place("http://manuals.example/", "manuals.example", ("--articles", "0")),
        "shelf": Place("http://www.example.com/", "example.com", given),
    }


@contextmanager
def _served(arguments: Iterable[str]) -> Iterator[str]:
    """Serve a site from a process of its own; the address of the proxy."""
    command = [sys.executable, str(Path(__file__).with_name("urlsite.py")), *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None  # noqa: S101
        try:
            yield f"http://127.0.0.1:{server.stdout.readline().strip()}"
        finally:
            server.kill()


def _run(place: Place, kind: str, settings: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Crawl once, in a process of its own."""
    with _served((*place.server, "--seed", str(seed))) as address:
        given = {**settings, "BENCH_SERVER": address}
        job = json.dumps([kind, place.start, place.domain, given, seed])
        done = subprocess.run(
            [sys.executable, __file__, "--one", job], check=True, stdout=subprocess.PIPE, text=True
        )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _crawl_here(job: str) -> None:
    """Do what `_run` asks for, and print what came of it."""
    kind, start, domain, settings, seed = json.loads(job)
    if kind in {"MaybeDont", "discarder"}:
        # Only here, because it needs the extra `bench`.
        import urlpeers  # noqa: PLC0415

        settings |= urlpeers.MAYBE_DONT if kind == "MaybeDont" else urlpeers.DISCARDER
    print(json.dumps(crawl(start, domain, settings, seed)))


class Truth:
    """What a site has, as a crawl without any plugin met it."""

    def __init__(self, found: Mapping[str, Any]) -> None:
        # Behind the wall stand pages as well, which another crawl may meet.
        self.documents = {url: behind or name for url, name, behind in found["fetched"] if name}
        self.all = {*self.documents.values(), *(name for _, name, _ in found["fetched"] if name)}

    def describe(self, found: Mapping[str, Any]) -> dict[str, Any]:
        """Work out the figures of a crawl of the same site."""
        fetched = {url for url, _, _ in found["fetched"]}
        shown = {name for _, name, _ in found["fetched"]}
        delivered = [name for _, name in found["delivered"] if name]
        walled = {behind for _, _, behind in found["fetched"] if behind}
        lost = self.all - set(delivered) - walled
        spared = {url: name for url, name in self.documents.items() if url not in fetched}
        return {
            "fetches": len(found["fetched"]),
            "mirror": sum(_is_mirror(url) for url in fetched),
            "reached": sorted(set(delivered)),
            "documents": len(set(delivered)),
            "duplicates": len(delivered) - len(set(delivered)),
            "lost": sorted(lost),
            "lost_dropped": len(lost & shown),
            "not_fetched_right": sum(name not in lost for name in spared.values()),
            "not_fetched_wrong": sum(name in lost for name in spared.values()),
            "walled": len(walled - set(delivered)),
            **{key: found[key] for key in ("seconds", "errors", "reason", "counted")},
        }


def _is_mirror(url: str) -> bool:
    parts = urlsplit(url)
    return parts.netloc == MIRROR or parts.path.startswith("/mirror/")


def judge_rules(store: Path, truth: Truth) -> dict[str, Any]:
    """Hold what the store knows of rules against what the site says of its addresses."""
    judged: dict[str, Any] = {"right": [], "wrong": [], "retired": [], "parked": 0}
    with open_store(str(store), readonly=True) as opened:
        judged["parked"] = opened.owed.count_parked().total()
        for record in opened.url_rules():
            if record.state == "retired":
                judged["retired"].append(record.rule.text)
            elif record.acts:
                right = is_right(record.acting, truth.documents)
                judged["right" if right else "wrong"].append(record.rule.text)
    return judged


def is_right(rule: ActingRule, documents: Mapping[str, str]) -> bool:
    """Whether all addresses that the rule makes one, where it acts, are one document."""
    acting = ActingRules([rule])
    firsts: dict[str, str] = {}
    changed = set()
    for url, document in documents.items():
        target = acting.find_target(url)
        form = canonicalize_url(target.form if target else url)
        changed |= {form} if target else set()
        if firsts.setdefault(form, document) != document and form in changed:
            return False
    return True


def crawl_all(
    place: Place, kinds: Mapping[str, dict[str, Any]], seed: int, folder: Path
) -> dict[str, dict[str, Any]]:
    """Crawl a site in all these ways, `off` first, with stores in the folder."""
    figures: dict[str, dict[str, Any]] = {}
    truth: Truth | None = None
    for kind, settings in kinds.items():
        store = folder / f"{place.domain}-{seed}-{kind.removesuffix(' again')}"
        given = {**settings, "SIMHASH_STORE": str(store)} if "ADDONS" in settings else settings
        found = _run(place, kind, given, seed)
        truth = truth or Truth(found)
        figures[kind] = truth.describe(found)
        if "ADDONS" in settings:
            figures[kind]["rules"] = judge_rules(store, truth)
        fetches, lost = figures[kind]["fetches"], len(figures[kind]["lost"])
        print(f"{place.domain} {seed} {kind}: {fetches:,} fetches, {lost} lost", file=sys.stderr)
    return figures


def find_faults(site: str, kinds: Mapping[str, dict[str, Any]]) -> Iterator[str]:
    """Name the promises that were broken in crawls of a site."""
    for kind, found in kinds.items():
        if kind in _PROMISING:
            if found["lost"]:
                yield f"{site}, {kind}: {len(found['lost'])} documents lost: {found['lost'][:5]}"
            if found["errors"] or found["reason"] != "finished":
                yield f"{site}, {kind}: {found['errors']} errors, ended as {found['reason']}"
            if found["rules"]["wrong"]:
                yield f"{site}, {kind}: wrong rules act: {found['rules']['wrong']}"


def find_late_faults(site: str, kinds: Mapping[str, dict[str, Any]]) -> Iterator[str]:
    """Name the promises that late links broke."""
    late, at_once, never = kinds["late"], kinds["True"], kinds["False"]
    if missed := set(at_once["reached"]) - set(late["reached"]):
        yield f"{site}: late links missed {sorted(missed)[:5]}"
    more = set(late["reached"]) - set(at_once["reached"])  # each takes a fetch
    if late["fetches"] > at_once["fetches"] + len(more):
        yield f"{site}: late links took {late['fetches']} fetches, {at_once['fetches']} at once"
    if late["mirror"] > never["mirror"]:
        yield f"{site}: late links crawled the mirror"


def print_crawls(runs: Sequence[Mapping[str, dict[str, dict[str, Any]]]]) -> None:
    """Print the crawls as a Markdown table: medians of the seeds, losses and faults added up."""
    titles = ["site", "crawl", "fetches", "saved", "documents", "lost", "of these fetched"]
    titles += ["duplicates delivered", "not fetched, right", "wrong", "rules right", "wrong"]
    titles += ["retired", "parked at the end", "seconds"]
    print(f"| {' | '.join(titles)} |\n| --- | --- |{' ---: |' * (len(titles) - 2)}")
    for site, kinds in runs[0].items():
        for kind in kinds:
            found = [run[site][kind] for run in runs]
            off = [run[site]["off"]["fetches"] for run in runs]
            fetches = [each["fetches"] for each in found]
            saved = median(1 - one / all_ for one, all_ in zip(fetches, off, strict=True))
            cells = [site, kind, f"{median(fetches):,.0f}", f"{saved:.1%}"]
            cells += [f"{median(each['documents'] for each in found):,.0f}"]
            cells += [f"{sum(len(each['lost']) for each in found)}"]
            cells += [f"{sum(each['lost_dropped'] for each in found)}"]
            keys = ("duplicates", "not_fetched_right")
            cells += [f"{median(each[key] for each in found):,.0f}" for key in keys]
            cells += [f"{sum(each['not_fetched_wrong'] for each in found)}"]
            rules = [each["rules"] for each in found if "rules" in each]
            for key in ("right", "wrong", "retired"):
                cells += [str(median(len(each[key]) for each in rules)) if rules else ""]
            cells += [f"{median(each['parked'] for each in rules):,.0f}" if rules else ""]
            cells += [f"{median(each['seconds'] for each in found):.0f}"]
            print(f"| {' | '.join(cells)} |")
    print()


def print_late(sites: Mapping[str, Mapping[str, dict[str, Any]]]) -> None:
    """Print the crawls with late links as a Markdown table."""
    titles = ["site", "links of dropped pages", "fetches", "documents reached"]
    titles += ["of those only dropped pages led to", "pages of the mirror"]
    print(f"| {' | '.join(titles)} |\n| --- | --- |{' ---: |' * (len(titles) - 2)}")
    for site, kinds in sites.items():
        behind = set(kinds["off"]["reached"]) - set(kinds["False"]["reached"])
        for kind, found in kinds.items():
            reached = set(found["reached"])
            cells = [site, kind, f"{found['fetches']:,}", f"{len(reached):,}"]
            cells += [f"{len(reached & behind)} of {len(behind)}", f"{found['mirror']:,}"]
            print(f"| {' | '.join(cells)} |")
    print()


def crawl_sites(
    options: argparse.Namespace, stores: Path
) -> tuple[list[dict[str, Any]], dict[str, Any], list[str]]:
    """Crawl and print the tables; the crawls by seed, those with late links, and the faults."""
    chosen = options.sites.split(",")
    # What is saved is saved of `off`.
    kinds = {kind: KINDS[kind] for kind in ("off", *options.kinds.split(","))}
    seeds = range(options.seeds) if "crawls" in options.tables else ()
    with ThreadPoolExecutor(options.jobs) as pool:
        places = name_places(options.articles)
        crawling = [
            {site: pool.submit(crawl_all, places[site], kinds, seed, stores) for site in chosen}
            for seed in seeds
        ]
        hidden = name_places(options.articles, hidden=True)
        following = {
            site: pool.submit(crawl_all, hidden[site], LATE, 0, stores)
            for site in chosen
            if "late" in options.tables
        }
        runs = [{site: each.result() for site, each in run.items()} for run in crawling]
        late = {site: each.result() for site, each in following.items()}
    if runs:
        print_crawls(runs)
    if late:
        print_late(late)
    faults = [f for run in runs for site in chosen for f in find_faults(site, run[site])]
    faults += [f for site in late for f in find_late_faults(site, late[site])]
    return runs, late, faults


def main() -> None:
    """Crawl, print the tables, and fail where a promise was broken."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--articles", type=int, default=ARTICLES, help="of the site (default 645)")
    parser.add_argument("--seeds", type=int, default=3, help="runs, each of another site")
    parser.add_argument("--kinds", default=",".join(KINDS), help="such as off,skip")
    parser.add_argument("--sites", default="example,shelf", help="such as shelf")
    parser.add_argument("--tables", default="crawls,late", help="such as crawls")
    parser.add_argument("--jobs", type=int, default=1, help="crawls at a time (default 1)")
    parser.add_argument("--stores", type=Path, help="folder in which stores and logs are kept")
    parser.add_argument("--output", type=Path, help="write the results as JSON, too")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        _crawl_here(options.one)
        return
    with tempfile.TemporaryDirectory() as folder:
        runs, late, faults = crawl_sites(options, options.stores or Path(folder))
    print("\n".join(faults) or "every promise was kept")
    for run in (*runs, late):
        for kinds in run.values():
            for found in kinds.values():
                found["reached"] = len(found["reached"])
    write_result(options.output, (*VERSIONS, *PEERS), faults=faults, crawls=runs, late=late)
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
