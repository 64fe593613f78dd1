"""The page of `report`: one HTML file without scripts.

Data from pages and URLs may be hostile: the template escapes it, and a policy in the file forbids
scripts, requests, and everything but the style sheet of this package, by its digest.
"""

from __future__ import annotations

import base64
import re
from contextlib import ExitStack
from hashlib import sha256
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from scrapy_simhash._files import open_whole
from scrapy_simhash._printable import format_time, plural, printable, show, show_bytes
from scrapy_simhash._progress import show_progress
from scrapy_simhash.crawl.running import add_option
from scrapy_simhash.errors import InspectionError, StoreUnusableError
from scrapy_simhash.inspection.figures import Figures, describe_drops, describe_groups
from scrapy_simhash.inspection.log import ALL_CRAWLS, find_crawl, find_log, read_log, require_log
from scrapy_simhash.inspection.sentences import answer
from scrapy_simhash.stores.opening import open_as_it_is

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from scrapy_simhash.config import Config

# What this package wrote itself, it may replace; the template has it in its first lines.
_OURS, _FIRST_BYTES = b'<meta name="generator" content="scrapy_simhash">', 200


def write_report(
    config: Config,
    *,
    output: Path,
    log_path: str | None,
    crawl: str,
    option: str = "",
    overwrite: bool,
) -> Iterator[dict[str, Any]]:
    """Write the report, on a crawl, named by its id or `last`, or on `all` of the log.

    A report that is there already is replaced. `option` is what commands need to find the store.

    Raises:
        InspectionError: there is no log, or no page in it.
        FileExistsError: another file has this name, and `overwrite` is false.
        OSError: a file cannot be read or written; an existing file is unchanged.
        StoreError: the store is damaged.
    """
    overwrite = overwrite or _is_ours(output)
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
        with show_progress("bytes of the log") as progress:
            for decision, _ in read_log(log, named, damaged=damaged, progress=progress):
                counted.add(decision)
        if damaged:
            missing.append(f"{len(damaged):,} lines of the log {log} are damaged.")
        if not counted.crawls:
            where = "" if named is None else f" in crawl {named}"
            raise InspectionError(f"the decision log {log} has no page that was judged{where}")
        with show_progress("differences") as progress:
            drops = describe_drops(counted, counted.list_doubtful(), store, progress)
            drawn = describe_drops(counted, counted.drawn, store, progress)
        figures = counted.describe() | describe_groups(counted, store)
        figures["answers"] = answer(figures, option)
        page = _render(option, figures=figures, missing=missing, drops=drops, drawn=drawn)
        file.write(page)
    yield {
        "file": str(output),
        "file_bytes": len(page),
        "drops": len(drops),
        "drawn": len(drawn),
        "damaged_lines": len(damaged),
        "missing": missing,
        **figures,
    }


def _is_ours(path: Path) -> bool:
    """Whether a file is a page that this package wrote."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return _OURS in file.read(_FIRST_BYTES)


# Excludes javascript:, data:, and URLs that were cut or had to be escaped.
_LINK = re.compile(r"https?://[^\s\\…]*", re.IGNORECASE)
_POLICY = "default-src 'none'; style-src 'sha256-{}'; base-uri 'none'; form-action 'none'"


def _render(option: str, **values: object) -> bytes:
    """Make the page of the values that it shows; `option` is what commands need."""
    import jinja2  # noqa: PLC0415 - for this command only
    from markupsafe import Markup  # noqa: PLC0415

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
        "octets": show_bytes,
        "share": lambda part, whole: f"{100 * part / max(1, whole):.1f} %",
        "moment": lambda seconds: f"{format_time(seconds)} UTC",
        "command": lambda text: add_option(f"scrapy simhash {text}", option),
    }
    environment.tests["link"] = _LINK.fullmatch
    style = (files(__package__) / "templates" / "report.css").read_text("utf-8")
    policy = _POLICY.format(base64.b64encode(sha256(style.encode()).digest()).decode())
    shown = Markup(style)  # noqa: S704 - our own file
    template = environment.get_template("report.html")
    return template.render(**values, policy=policy, style=shown).encode()
