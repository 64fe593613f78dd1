"""The figures of a log, and the page of `report`: one HTML file without scripts.

Data from pages and URLs may be hostile: the template escapes it, and a policy in the file forbids
scripts, requests, and everything but the style sheet of this package, by its digest.
"""

from __future__ import annotations

import base64
import re
from collections import Counter, defaultdict
from contextlib import ExitStack
from hashlib import sha256
from importlib.resources import files
from itertools import islice
from random import randrange
from typing import TYPE_CHECKING, Any

from scrapy_simhash._files import open_whole
from scrapy_simhash._printable import (
    format_time,
    mask_passwords,
    plural,
    printable,
    show,
)
from scrapy_simhash.crawl.policy import LEFT_OUT
from scrapy_simhash.crawl.running import find_log
from scrapy_simhash.crawl.summary import Examples, Summary
from scrapy_simhash.errors import InspectionError, StoreUnusableError
from scrapy_simhash.inspection.comparing import compare_side_by_side
from scrapy_simhash.judge.log import (
    ALL_CRAWLS,
    DROPPING,
    FORGOTTEN,
    NOT_FOLLOWED,
    find_crawl,
    read_log,
    require_log,
)
from scrapy_simhash.pages.addresses import host_of
from scrapy_simhash.pages.facts import MOSTLY_NEW
from scrapy_simhash.stores.opening import open_as_it_is

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from scrapy_simhash.config import Config
    from scrapy_simhash.judging.documents import Decision, Document
    from scrapy_simhash.stores.store import Store

_HOSTS_SHOWN, _LINKS_SHOWN = 20, 10
_MOST_DROPS = 30
_MOST_OF_A_GROUP = 3
_MOST_DOUBTFUL = 2_000  # as many are looked through for these
_DRAWN = 30  # would-be drops; of so many without a wrong one, less than a tenth is (95 %)
# What judged pages come to: all, or those of a host.
_SUMS = ("judged", "near_duplicates", "dropped", "dropped_bytes")


class Figures:
    """Counts decisions for a report; memory grows with originals and kept pages."""

    def __init__(self) -> None:
        self.crawls = Counter[str]()  # their pages, in the order of their beginning
        self._times: tuple[float, float] | None = None  # when the first and the last page came
        self._hosts: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self.summary = Summary()
        self._doubtful: list[Decision] = []
        self.drawn: list[Decision] = []  # at random, of those that would be dropped
        # How many links nobody followed, by crawl, and the first ones, which the log has, by page.
        self._not_followed: dict[str, int] = {}
        self._listed: defaultdict[str, Examples] = defaultdict(Examples)

    def add(self, decision: Decision) -> None:
        """Count a decision."""
        status = decision.status
        if status == NOT_FOLLOWED:
            before = self._not_followed.get(decision.crawl, 0)
            self._not_followed[decision.crawl] = max(decision.links, before)
            self.summary.not_followed = sum(self._not_followed.values())
            self.summary.of_lists += (decision.new_links or 0.0) >= MOSTLY_NEW
            self._listed[decision.match_url or ""].add(decision.url, _LINKS_SHOWN)
            return
        if status == FORGOTTEN:
            self.summary.forgotten += 1
            return
        self.summary.add(decision)
        if decision.reason not in LEFT_OUT:
            self._count_page(decision)
        if status == "near_duplicate":
            self._add_near_duplicate(decision)

    def _count_page(self, decision: Decision) -> None:
        """Count a page that was judged, or should have been, for its crawl and its host."""
        self.crawls[decision.crawl] += 1
        if time := decision.time:
            first, last = self._times or (time, time)
            self._times = min(first, time), max(last, time)
        if decision.is_judged:
            host, repeats = self._hosts[host_of(decision.url)], decision.status == "near_duplicate"
            host["judged"] += 1
            host["near_duplicates"] += repeats
            host["dropped"] += repeats and decision.action in DROPPING
            host["dropped_bytes"] += (decision.body_bytes or 0) * (decision.action == "drop")

    def _add_near_duplicate(self, decision: Decision) -> None:
        if decision.action == "flag":
            place = randrange(self.summary.actions["flag"])  # noqa: S311 - reservoir sampling
            if len(self.drawn) < _DRAWN:
                self.drawn.append(decision)
            elif place < _DRAWN:
                self.drawn[place] = decision
        self._doubtful.append(decision)
        if len(self._doubtful) > 2 * _MOST_DOUBTFUL:
            self._doubtful = self._sort_doubtful()

    def _sort_doubtful(self) -> list[Decision]:
        """List the near-duplicates that are least alike first, the oldest one of several."""

        def rank(decision: Decision) -> tuple[float, int]:
            alike = 1.0 if decision.similarity is None else decision.similarity
            return alike, -(decision.distance or 0)

        return sorted(self._doubtful, key=rank)[:_MOST_DOUBTFUL]

    def list_doubtful(self) -> Iterator[Decision]:
        """List the near-duplicates that are likeliest wrong, at most three of an original."""
        of_group: Counter[str | None] = Counter()
        seen = set()
        for decision in self._sort_doubtful():
            of_group[decision.match_url] += decision.url not in seen
            if of_group[decision.match_url] <= _MOST_OF_A_GROUP and decision.url not in seen:
                yield decision
            seen.add(decision.url)

    def describe(self) -> dict[str, Any]:
        """Return all figures that need no store, ready for JSON."""
        hosts = sorted(self._hosts.items(), key=lambda host: (-host[1]["judged"], host[0]))
        sums = {name: sum(host[name] for _, host in hosts) for name in _SUMS}
        first_time, last_time = self._times or (None, None)
        pages = self.crawls.total()
        return {
            "first_time": first_time,
            "last_time": last_time,
            "pages": pages,
            "not_judged": pages - sums["judged"],
            **sums,
            "crawls": [{"crawl": name, "pages": n} for name, n in self.crawls.items()],
            "links_listed": sum(found.pages for found in self._listed.values()),
            "not_followed": [
                {"url": url, **vars(each)}
                for url, each in sorted(self._listed.items(), key=lambda of: -of[1].pages)
            ][:_LINKS_SHOWN],
            "doubtful": list(self.summary.alerts.list_told()),
            "parted_by": self.summary.look_alikes.list_kinds(),
            "hosts": [{"host": host, **sums} for host, sums in hosts[:_HOSTS_SHOWN]],
            "other_hosts": max(0, len(hosts) - _HOSTS_SHOWN),
        }


def _find_stored(store: Store | None, number: int, url: str) -> Document | None:
    """Return the page of a decision, or None if the store no longer has the same page."""
    document = store.get_documents([number]).get(number) if store is not None else None
    # A log has no passwords.
    same = document is not None and mask_passwords(document.facts.url) == mask_passwords(url)
    return document if same else None


def _name(url: str, stored: Document | None) -> dict[str, str]:
    return {"url": url, "title": stored.facts.title if stored else ""}


def describe_drops(decisions: Iterable[Decision], store: Store | None) -> list[dict[str, Any]]:
    """Describe up to 30 near-duplicates, with both texts in `rows` where the store has the two."""
    drops: list[dict[str, Any]] = []
    for decision in islice(decisions, _MOST_DROPS):
        original_url = decision.match_url or ""
        page = _find_stored(store, decision.document, decision.url)
        original = _find_stored(store, decision.match_document, original_url)
        drop: dict[str, Any] = {
            "decision": decision,
            "page": _name(decision.url, page),
            "original": _name(original_url, original),
        }
        if page and original and original.facts.text_digest.hex() == decision.match_text_digest:
            texts = [str(text) for each in (original, page) if (text := each.unpack())]
            if len(texts) == 2:  # noqa: PLR2004 - neither is damaged
                drop["rows"] = compare_side_by_side(*texts)
        drops.append(drop)
    return drops


# What this package wrote itself, it may replace; the template has it in its first lines.
_OURS, _FIRST_BYTES = b'<meta name="generator" content="scrapy_simhash">', 200


def write_report(
    config: Config, output: Path, log_path: str | None, crawl: str, *, overwrite: bool
) -> dict[str, Any]:
    """Write the report, on a crawl, named by its id or `last`, or on `all` of the log.

    A report that is there already is replaced. Returns what the report says.

    Raises:
        InspectionError: there is no log, or no page in it.
        FileExistsError: another file has this name, and `overwrite` is false.
        OSError: a file cannot be read or written; an existing file is unchanged.
        StoreError: the store is damaged.
    """
    if output.is_file():
        with output.open("rb") as there:
            overwrite |= _OURS in there.read(_FIRST_BYTES)
    with open_whole(output, overwrite=overwrite) as file, ExitStack() as opened:
        missing, store = [], None
        try:
            store = opened.enter_context(open_as_it_is(config.store))
        except StoreUnusableError as error:
            missing.append(
                f"There is no store ({printable(error)}), so titles and texts side by side are "
                "missing."
            )
        log, counted = find_log(config, log_path), Figures()
        require_log(log)
        named = None if crawl == ALL_CRAWLS else find_crawl(log, crawl)
        damaged: list[str] = []
        for decision, _ in read_log(log, named, damaged=damaged):
            counted.add(decision)
        if damaged:
            missing.append(f"{len(damaged):,} lines of the log {log} are damaged.")
        if not counted.crawls:
            where = "" if named is None else f" in crawl {named}"
            raise InspectionError(f"the decision log {log} has no page that was judged{where}")
        drops = describe_drops(counted.list_doubtful(), store)
        drawn = describe_drops(counted.drawn, store)
        figures = counted.describe()
        figures["said"] = {line.about: line.said for line in counted.summary.list_lines()}
        page = _render(figures=figures, missing=missing, drops=drops, drawn=drawn)
        file.write(page)
    return {
        "file": str(output),
        "file_bytes": len(page),
        "drops": len(drops),
        "drawn": len(drawn),
        "damaged_lines": len(damaged),
        "missing": missing,
        **figures,
    }


# Excludes javascript:, data:, and URLs that were cut or had to be escaped.
_LINK = re.compile(r"https?://[^\s\\…]*", re.IGNORECASE)
_POLICY = "default-src 'none'; style-src 'sha256-{}'; base-uri 'none'; form-action 'none'"


def _render(**values: object) -> bytes:
    """Make the page of the values that it shows."""
    import jinja2  # noqa: PLC0415 - for this command only

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader(__package__),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "shown": show,
        "count": "{:,}".format,
        "plural": plural,
        "share": lambda part, whole: f"{100 * part / max(1, whole):.1f} %",
        "moment": lambda seconds: f"{format_time(seconds)} UTC",
    }
    environment.tests["link"] = _LINK.fullmatch
    style = (files(__package__) / "templates" / "report.css").read_text("utf-8")
    policy = _POLICY.format(base64.b64encode(sha256(style.encode()).digest()).decode())
    template = environment.get_template("report.html")
    return template.render(**values, policy=policy, style=style).encode(errors="backslashreplace")
