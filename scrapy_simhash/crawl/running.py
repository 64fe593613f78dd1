"""Where a crawl runs: its `scrapy` command, if any, files of its project, and what judges open.

Scrapy tells components nothing of the command, and removes its name from `sys.argv`; so its frames
are looked for among those that lead to the caller. Relative files are under Scrapy's data path.

All that the plugin uses of what Scrapy calls private (names that begin with an underscore) is here,
too (`tests/project/test_rooms.py`). Any release may change it: `tests/crawl/test_callbacks.py` has
a test. Another engine, scheduler or duplicate filter need not have it (`test_foreign.py`).
"""

from __future__ import annotations

import inspect
import logging
import shlex
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from traceback import walk_stack
from typing import TYPE_CHECKING, Any

from scrapy.commands import ScrapyCommand
from scrapy.exceptions import NotConfigured
from scrapy.settings import SETTINGS_PRIORITIES
from scrapy.utils.conf import closest_scrapy_cfg
from scrapy.utils.job import job_dir
from scrapy.utils.project import data_path

from scrapy_simhash.config import DEFAULT_LOG, LOG_IN_STORE, Config
from scrapy_simhash.errors import SettingError
from scrapy_simhash.judge.messages import Open
from scrapy_simhash.pages.facts import OUR_READER
from scrapy_simhash.pages.scopes import load_scope
from scrapy_simhash.stores.opening import folder_of, lasts, show_url

if TYPE_CHECKING:
    from collections.abc import Iterator
    from collections.abc import Set as AbstractSet

    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

logger = logging.getLogger(__name__)

_CRAWL_OF_JOB, _LONGEST_CRAWL = "simhash.crawl", 100
# The names of a spider's own callbacks: of requests that name none, and of a CrawlSpider's rules.
DEFAULT_CALLBACK, RULE_CALLBACK = "_parse", "_callback"


def is_closing(crawler: Crawler) -> bool:
    """Whether the spider is about to end: requests that are made now are lost."""
    slot = getattr(crawler.engine, "_slot", None)
    return crawler.engine.spider is None if slot is None else slot.closing is not None


def find_scheduler(crawler: Crawler) -> Any:
    """Find the scheduler of a crawl; None of an engine that has none."""
    # Before Scrapy 2.19 the engine's slot has it alone.
    slot = getattr(crawler.engine, "_slot", None)
    return getattr(crawler.engine, "scheduler", None) or getattr(slot, "scheduler", None)


def list_asked(crawler: Crawler) -> AbstractSet[bytes]:
    """List the fingerprints that Scrapy's duplicate filter has; none of another filter."""
    # No method asks it without adding to it. It knows addresses in any spelling, and those that no
    # callback asked for.
    own = getattr(find_scheduler(crawler), "df", None)
    found = getattr(own, "_fingerprints", None)
    return found if isinstance(found, set) else set()


def name_crawl(crawler: Crawler, name: str) -> str:
    """Return the id of a crawl: a new one's, or that of the job in JOBDIR that is resumed.

    It is in a file, which also stays where a job was killed.
    """
    folder = job_dir(crawler.settings)
    if folder is None:
        return name
    file = Path(folder, _CRAWL_OF_JOB)
    with suppress(OSError, UnicodeDecodeError):
        if found := file.read_text("utf-8").strip():
            return found[:_LONGEST_CRAWL]
    with suppress(OSError):
        file.write_text(f"{name}\n", "utf-8")
    return name


# Commands that fetch single pages for a look; a later crawl must not count these pages as seen.
_LOOKING_COMMANDS = {
    f"scrapy.commands.{name}" for name in ("shell", "fetch", "view", "parse", "check")
}


def is_looking() -> bool:
    """Whether this runs under `scrapy shell`, `fetch`, `view`, `parse` or `check`."""
    return not _LOOKING_COMMANDS.isdisjoint(
        kind.__module__ for kind in type(_find_command()).__mro__
    )


def fail_command() -> None:
    """Have the command end with exit code 1; nothing happens if a script runs the crawl."""
    # Scrapy itself does that only for crawls that raise before they begin.
    if (command := _find_command()) is not None:
        command.exitcode = 1


def _find_command() -> ScrapyCommand | None:
    runs = (f for f, _ in walk_stack(inspect.currentframe()) if f.f_code.co_name == "run")
    found = (frame.f_locals.get("self") for frame in runs)
    return next((each for each in found if isinstance(each, ScrapyCommand)), None)


def tell_half(setting: str, effect: str) -> None:
    """Warn that only one of the two middlewares is enabled."""
    logger.warning(
        'scrapy_simhash is missing in %s, so %s; ADDONS = {"scrapy_simhash.Addon": 500} enables '
        "all of it",
        setting,
        effect,
    )


def resolve_paths(config: Config, store: str | None = None) -> Config:
    """Resolve the paths of the store, and of a log that is named, alike from every folder.

    A store's relative folder is below Scrapy's data path (`.scrapy` in the project), unless it is
    given as `store`; a log's path below the project's folder, or below the current one without a
    project.
    """
    log = config.log
    if store is None:
        store = config.store
        if "://" not in store and lasts(store):
            store = _resolve("STORE", store)
    if log not in {None, DEFAULT_LOG}:
        log = str(Path(closest_scrapy_cfg()).parent / str(log))
    return replace(config, store=store, log=log)


def name_store(settings: BaseSettings, config: Config) -> str:
    """Return the option that commands need to find a store, or "" if the project's settings do."""
    own = settings.getpriority("SIMHASH_STORE") or 0
    needed = own > SETTINGS_PRIORITIES["project"]  # of a spider, or of the command line
    return f" --store {shlex.quote(show_url(config.store))}" * needed


def find_log(config: Config, log_path: str | None = None) -> Path:
    """Find the named decision log, or that of the settings or store; it need not exist.

    That of a store in no folder is in the default folder of stores.
    """
    if log_path or config.log not in {None, DEFAULT_LOG}:
        return Path(log_path or str(config.log))
    if folder := folder_of(config.store):
        return folder / LOG_IN_STORE
    return Path(_resolve("LOG", f"{Config.store}/{LOG_IN_STORE}"))


def _resolve(name: str, path: str) -> str:
    try:
        return data_path(path)
    except NotConfigured as error:
        # Otherwise Scrapy would crawl without the plugin.
        raise SettingError(
            f"SIMHASH_{name} = {path!r}: is a path below the project's folder, which cannot be "
            f"found from here ({error}); must be an absolute path"
        ) from None


def make_open(config: Config) -> Open:
    """Make the first message of judges, without crawl and spider.

    Args:
        config: the settings; relative paths are below the current folder.

    Raises:
        SettingError: a setting names what there is not.
    """
    with _naming("SIMHASH_STORE"):
        if config.processes > 1 and not lasts(config.store):
            raise ValueError(
                f"{config.store!r} is for one process, but SIMHASH_PROCESSES = {config.processes}; "
                "name a folder, or set it to 1"
            )
        folder = folder_of(config.store)
    # A read-only crawl writes no files, if none is named.
    logs = config.log != DEFAULT_LOG or (lasts(config.store) and not config.readonly)
    placed = replace(  # a spider may change its folder
        config,
        store=str(folder.absolute()) if folder else config.store,
        log=str(find_log(config).absolute()) if config.log and logs else None,
    )
    for name, value in asdict(placed).items():
        with _naming(f"SIMHASH_{name.upper()}"):
            str(value).encode()  # else it cannot be sent to a judge
    with _naming("SIMHASH_SCOPE"):
        load_scope(config.scope)
    if config.text_reader not in {"", OUR_READER}:
        from scrapy_simhash.pages.main_text import load_text_reader  # noqa: PLC0415

        with _naming("SIMHASH_HAND_OVER_TEXT"):
            load_text_reader(config.text_reader)
    return Open(placed)


@contextmanager
def _naming(setting: str) -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise SettingError(f"{setting}: {error}") from None
