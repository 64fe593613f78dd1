"""Commands that show pages, drops and addresses: log, explain, report, urls."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from scrapy_simhash._files import write_whole
from scrapy_simhash._printable import format_time, mask_passwords, plural, printable
from scrapy_simhash.crawl.running import find_log
from scrapy_simhash.errors import PartlyFailedError
from scrapy_simhash.inspection.explanation import explain
from scrapy_simhash.inspection.report import write_report
from scrapy_simhash.inspection.urlrules import describe, find_rules, list_discarder_rules
from scrapy_simhash.judge import log as logs

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable, Iterator, Sequence

    from scrapy_simhash.commands.answering import Answer
    from scrapy_simhash.commands.command import Make
    from scrapy_simhash.config import Config

_STATES = {"done": "items delivered", "duplicate": "dropped"}
# Of an explanation, which has room on one screen.
_WIDTH, _LONGEST_NAME, _BEFORE_A_CHANGE = 79, 50, 20
_PASSAGES_SHOWN = 4
_NOT_KNOWN = "not known: fewer than six of its pages had been kept"


def _print_log(answer: Answer) -> Iterable[str]:
    """Print a line of the log; a near-duplicate takes two, a page kept beside another one three."""
    status = answer["status"]
    line = f"{format_time(answer.get('time', 0))}  {status:<14}  {printable(answer['url'])}"
    if answer.get("reason"):
        line += f"  ({printable(answer['reason'])})"
    yield line
    if status == "near_duplicate":
        alike = answer.get("similarity")
        shown = "" if alike is None else f", {alike:.2f} alike"
        page = printable(answer.get("match_url") or "")
        yield f"    {plural(answer.get('distance'), 'bit')}{shown}, of {page}"
    elif status == logs.NOT_FOLLOWED:
        yield f"    a link that only dropped pages have: {printable(answer.get('match_url') or '')}"
    elif answer.get("nearest_tests"):
        yield f"    kept; the nearest page is {printable(answer.get('nearest_url') or '')}, but:"
        # What decided, and by what names; counts are in the log.
        yield f"    {printable('; '.join(answer['nearest_tests'][1:3]))}"


def _log(config: Config, options: Namespace) -> Iterator[Answer]:
    """List the wanted decisions."""
    path = find_log(config, options.log_path)
    logs.require_log(path)
    crawl = None if options.crawl == logs.ALL_CRAWLS else logs.find_crawl(path, options.crawl)
    url = mask_passwords(options.url or "")
    for decision, line in logs.read_log(path, crawl):
        addresses = decision.url, decision.match_url or ""
        if options.status in {None, decision.status} and any(url in each for each in addresses):
            yield json.loads(line)


def print_explanation(answer: Answer) -> Iterable[str]:
    """Print in one screen how two pages compare, or why one was dropped or kept."""
    if "verdict" not in answer:  # a stored page near what was named
        yield f"{plural(answer['distance'], 'bit'):<7}  {printable(answer['url'])}"
        return
    pages = answer.get("pages") or [{"url": answer["url"]}]
    here, there, *_ = [*map(_describe_page, pages), ""]
    only = [
        " ".join(answer[f"{side}own_words"]) or "nothing" if "own_words" in answer else ""
        for side in ("", "match_")
    ]
    known = "known by other pages" if answer.get("site_known") else _NOT_KNOWN
    facts = {
        "here (-)": here,
        "there (+)": there,
        "only here": only[0],
        "only there": only[1],
        "tests": "; ".join(answer.get("tests", ())),
        "the site was": known if "site_known" in answer else "",
        "note": answer.get("note", ""),
        "if it is wrong": answer.get("advice", ""),
    }
    yield printable(answer["verdict"])
    for name, text in facts.items():
        for number, line in enumerate(text.splitlines()):
            yield f"{name * (not number):<16}{printable(line)}"
    yield from _print_passages(answer.get("side_by_side", ()))


def _describe_page(page: Answer) -> str:
    """Describe a page in two lines, of which the first is its address."""
    if "title" not in page:
        return printable(page["url"])
    parts = [repr(page["title"][:_LONGEST_NAME]), plural(page["words"], "word")]
    if page["heading"] not in {"", page["title"]}:
        parts.insert(1, f"heading {page['heading'][:_LONGEST_NAME]!r}")
    parts += filter(None, [page["language"], _STATES[page["state"]]])
    parts.append(f"fetched {format_time(page['time'])} UTC")
    if page["got_by"]:
        parts.append(f"got by {page['got_by']}")
    return f"{printable(page['url'])}\n{', '.join(parts)}"


def _print_passages(rows: Sequence[Answer]) -> Iterable[str]:
    """Print the first passages in which two texts differ."""
    changed = [row for row in rows if "first" in row]
    for row in changed[:_PASSAGES_SHOWN]:
        # What both begin with is cut, so that the first difference is seen.
        before = max(0, len(row["first"][0]) - _BEFORE_A_CHANGE)
        for sign, side in (("-", "first"), ("+", "second")):
            if passage := printable("".join(row[side])[before:]):
                yield f"{sign} {'...' * bool(before)}{passage}"[:_WIDTH]
    if more := len(changed[_PASSAGES_SHOWN:]):
        yield f"and {plural(more, 'more passage')}; --json has all"


def _report(config: Config, options: Namespace) -> Iterator[Answer]:
    crawl, overwrite = options.crawl or logs.LAST_CRAWL, options.overwrite
    yield write_report(config, options.output, options.log_path, crawl, overwrite=overwrite)


def _print_report(answer: Answer) -> Iterable[str]:
    yield f"{printable(answer['file'])}: {answer['file_bytes']:,} bytes"
    yield from map(printable, answer["said"].values())
    yield from (f"note: {printable(note)}" for note in answer["missing"])


def _find_rules(config: Config, options: Namespace) -> Iterator[Answer]:
    """Find rules, and write them."""
    found = find_rules(config)
    yield from map(describe, found)
    if options.output is not None:
        rules = list_discarder_rules(found)
        written = [json.dumps(rules, indent=1) + "\n"]
        write_whole(options.output, written, overwrite=options.overwrite)
        yield {"file": str(options.output), "written": len(rules)}
    elif not found:
        raise PartlyFailedError(
            "no rule is proposed: that takes two pairs of stored pages, each of one page at two "
            "addresses that differ in the same part"
        )
    elif not any(each.directories for each in found):
        sys.stderr.write("none is proven: that takes eleven pairs of pages that are the same\n")


def add_commands(make: Make) -> None:
    """Add the commands that show pages, drops and addresses."""
    add = make(
        "log",
        "Read the decision log, newest last. Times are UTC. The second line of a near-duplicate "
        "names the page it duplicates.",
        _log,
        printer=_print_log,
        takes="store log crawl",
    ).add_argument
    about = f"only pages, or links, with this one: {', '.join(logs.STATUSES)}"
    add("--status", choices=logs.STATUSES, metavar="STATUS", help=about)
    add("--url", metavar="TEXT", help="only URLs (or matched URLs) that contain it")
    add = make(
        "explain",
        "Explain why a URL was dropped or kept, or compare the pages of two. URLs are looked up "
        "in the store and its log. An HTML file, a fingerprint (16 hexadecimal digits) or a text "
        "of several words lists the stored pages within SIMHASH_DISTANCE.",
        lambda config, options: explain(config, options.what, options.log_path),
        printer=print_explanation,
        takes="store log",
    ).add_argument
    about = "a URL, or two to compare; or a FILE, FINGERPRINT or TEXT"
    add("what", nargs="+", metavar="URL", help=about)
    add = make(
        "report",
        "Write an HTML file that shows what was dropped, and why. It is on the last crawl, or with "
        "`--crawl all` on all of the log.",
        _report,
        printer=_print_report,
        takes="store log crawl overwrite",
    ).add_argument
    about = "the file to write (default: %(default)s)"
    add("-o", "--output", type=Path, default="report.html", metavar="FILE", help=about)
    parser = make(
        "urls",
        "Find rules by which several addresses lead to one page. --output writes the proven ones "
        "for duplicate-url-discarder, which makes one request of such addresses.",
        _find_rules,
        takes="store overwrite",
    )
    about = "write the proven rules that it can express, as its list"
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help=about)
