"""What is found, missed and lost where answers vary by themselves, and at how many requests?

Crawls each site of `living.py` with the plugin's defaults, all addresses in a random order, 16 at
once, in a process of its own, with a store of its own; `-s CONCURRENT_REQUESTS=1`, or any setting,
is for all crawls. With `--attacks`, also the sites of `living_attacks.py`; with `--pages`, also the
pages of labelled folders, with three parts that vary (`living_pages.py`).
An answer takes 10 ms, give or take half; nothing is fetched from anywhere.

- right, wrong: pages dropped for one of the same document, of another one;
- lost: documents of which no page gave an item;
- missed: pages that gave an item although one of their document, judged before, did, too;
- asked: requests of the plugin to see what varies (the stat `simhash/refetched`);
- again, unchanged: with `--again`, revisits of a second crawl, and those that are `unchanged`.

An attacker's pages are not counted. Not measured: networks, how often what occurs.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections import Counter, defaultdict
from fnmatch import fnmatch
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crawling import PLUGIN, crawl
from living import SITES, Site, draw
from living_attacks import ATTACKS
from living_pages import load_sites
from measuring import ROOT, make_parser, print_table, progress, run_apart, run_script, write_result
from scrapy import Request, Spider
from scrapy.http import HtmlResponse, Response

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

_LATENCY_SECONDS = 0.01
_COUNTED = ("pages", "documents", "copies", "right", "wrong", "lost", "missed", "asked", "seconds")
_COUNTS = (*_COUNTED, "again", "unchanged")


class LivingSpider(Spider):
    """Asks for all pages of the site, and yields an item of each."""

    name = "living"
    site: Site
    seed: int

    async def start(self) -> AsyncIterator[Request]:
        """Ask for the pages in a random order, after those that come first."""
        pages, self.items = self.site.pages, list[str]()
        urls = sorted(pages)
        draw(self.seed).shuffle(urls)
        urls.sort(key=lambda url: pages[url].kind != self.site.first)
        for number, url in enumerate(urls):
            yield Request(url, priority=-number, dont_filter=True, meta={"url": url})

    def parse(self, response: Response) -> Iterator[dict[str, str]]:
        """Yield the address of a page."""
        self.items.append(response.meta["url"])
        yield {"url": response.meta["url"]}


def crawl_here(given: dict[str, Any]) -> dict[str, Any]:
    """Crawl a site in this process; `given` has its name, the seed, a store and folders."""
    site, seed = _find_sites(given["pages"])[given["site"]](), given["seed"]
    asked = Counter[str]()

    async def answer(request: Request) -> Response:
        number, again = asked.total(), asked[request.url]
        asked[request.url] += 1
        wait = _LATENCY_SECONDS * (0.5 + draw(seed, number).random())
        await asyncio.sleep(wait)
        request.meta["download_latency"] = wait
        made = site.answer(request.url, number, again)
        headers = {"Content-Type": made.content_type, "Location": made.location}
        body = made.body if isinstance(made.body, bytes) else made.body.encode()
        return HtmlResponse(request.url, made.status, headers, body, request=request)

    settings = {"ADDONS": PLUGIN, "SIMHASH_STORE": given["store"], **given["settings"]}
    spider = crawl(LivingSpider, answer, settings, site=site, seed=seed)
    stats = spider.crawler.stats
    assert stats is not None  # noqa: S101
    return {
        "seconds": round(stats.get_value("elapsed_time_seconds"), 1),
        "asked": stats.get_value("simhash/refetched", 0),
        "items": spider.items,
    }


def measure(checkout: Path, given: dict[str, Any], site: Site) -> dict[str, Any]:
    """Crawl a site with the package of a checkout; judge what came."""
    with tempfile.TemporaryDirectory() as store:
        found: dict[str, Any] = run_apart(given | {"store": store}, checkout)
        log = Path(store, "log.jsonl").read_text("ascii").splitlines()
        if given["again"]:
            run_apart(given | {"store": store, "seed": given["seed"] + 1_000}, checkout)
        lines = Path(store, "log.jsonl").read_text("ascii").splitlines()[len(log) :]
    judged = judge_crawl(site, set(found.pop("items")), list(map(json.loads, log)))
    revisits = [each["reason"] for each in map(json.loads, lines) if each["status"] == "revisit"]
    judged |= {"again": len(revisits), "unchanged": revisits.count("unchanged")}
    progress(" ".join([given["site"], *(f"{name} {judged[name]}" for name in judged)]))
    return {"site": given["site"], "seed": given["seed"], **judged, **found}


def judge_crawl(site: Site, items: set[str], log: list[dict[str, Any]]) -> dict[str, Any]:
    """Count what a crawl gave, by its items and its decision log; pages that come first aside."""
    pages = {url: page for url, page in site.pages.items() if page.kind != site.first}
    judged = {line["url"]: number for number, line in reversed([*enumerate(log)])}
    drops = {
        line["url"]: line["match_url"]
        for line in log
        if line["status"] == "near_duplicate" and line["action"] in {"drop", "follow"}
    }
    kept, missed = set[Any](), Counter[str]()
    for url in sorted(pages.keys() & items, key=lambda url: judged.get(url, len(log))):
        missed[pages[url].kind] += pages[url].document in kept
        kept.add(pages[url].document)
    dropped = {url: pages.get(drops[url]) for url in (pages.keys() & drops) - items}
    documents = {url: match and match.document for url, match in dropped.items()}
    wrong = [url for url, document in documents.items() if document != pages[url].document]
    kinds = {page.document: page.kind for page in reversed(pages.values())}
    return {
        "pages": len(pages),
        "documents": len(kinds),
        "copies": len(pages) - len(kinds),
        "right": len(dropped) - len(wrong),
        "wrong": len(wrong),
        "lost": len(kinds.keys() - kept),
        "missed": missed.total(),
        "wrong_kinds": Counter(pages[url].kind for url in wrong),
        "lost_kinds": Counter(kinds[document] for document in kinds.keys() - kept),
        "missed_kinds": +missed,
        "gone_kinds": Counter(pages[url].kind for url in pages.keys() - items - dropped.keys()),
        "wrong_drops": [[url, drops[url]] for url in wrong],
    }


def _find_sites(pages: list[str]) -> dict[str, Callable[[], Site]]:
    return SITES | ATTACKS | load_sites(map(Path, pages))


def _show(crawls: list[dict[str, Any]]) -> None:
    """Print a table of crawls, and totals of each kind of sites."""
    rows, totals, hosts = [], defaultdict[str, Counter[str]](Counter), Counter[str]()
    for each in crawls:
        of = (
            f"{what}: {kind} {count}"
            for what in ("wrong", "lost", "missed", "gone")
            for kind, count in each[f"{what}_kinds"].items()
        )
        group = each["site"].rpartition("/")[0] or "all sites"
        totals[group].update({count: each[count] for count in _COUNTS})
        hosts[group] += 1
        name = f"{each['site']}, seed {each['seed']}" if each["seed"] else each["site"]
        rows.append((name, *(each[count] for count in _COUNTS), ", ".join(of)))
    for group, counts in totals.items():
        asked = f"{counts['asked'] / hosts[group]:.1f} asked a host"
        rows.append((f"**{group}, {hosts[group]}**", *map(counts.get, _COUNTS), asked))
    print_table(("site", *_COUNTS, "kinds"), rows)


def main() -> None:
    """Crawl all sites that are asked for, in turns; print the tables and write the file."""
    parser = make_parser(__doc__)
    parser.add_argument("--sites", nargs="+", metavar="NAME", help="these; * is any characters")
    parser.add_argument("--attacks", action="store_true", help="those of living_attacks.py, too")
    parser.add_argument("--pages", nargs="+", default=[], metavar="FOLDER", help="real pages, too")
    parser.add_argument("--seeds", type=int, default=1, help="orders of the pages (default 1)")
    parser.add_argument("--beside", type=Path, metavar="CHECKOUT", help="another one, in turns")
    parser.add_argument("--again", action="store_true", help="and once more, with that store")
    parser.add_argument("-s", action="append", default=[], type=lambda given: given.split("=", 1))
    options = parser.parse_args()
    makers = _find_sites(options.pages)
    wanted = options.sites or [name for name in makers if options.attacks or name not in ATTACKS]
    chosen = [name for name in makers if any(fnmatch(name, each) for each in wanted)]
    checkouts = {"this": ROOT} | ({"beside": options.beside} if options.beside else {})
    crawls = defaultdict[str, list[dict[str, Any]]](list)
    for site, seed in product(chosen, range(options.seeds)):
        given = {"site": site, "seed": seed, "pages": options.pages, "settings": dict(options.s)}
        given["again"] = options.again
        for label, checkout in checkouts.items():
            crawls[label].append(measure(checkout, given, makers[site]()))
    for label, each in crawls.items():
        print(f"\n{label}")
        _show(each)
    write_result(options.output, ("scrapy-simhash", "scrapy", "turbohtml"), crawls=crawls)


if __name__ == "__main__":
    run_script(main, crawl_here)
