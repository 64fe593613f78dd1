"""The command `owed`: requests that crawls still have to make, or to make again."""

from __future__ import annotations

import argparse
import base64
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy_simhash._files import write_whole
from scrapy_simhash._printable import mask_password, plural, printable
from scrapy_simhash.commands.frame import JSON_SUFFIXES, Command, add_overwrite, call
from scrapy_simhash.commands.upkeep import open_to_change
from scrapy_simhash.errors import PartlyFailedError
from scrapy_simhash.judging.rows import Why
from scrapy_simhash.stores.opening import open_as_it_is

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Iterable, Iterator, Sequence

    from scrapy_simhash.commands.frame import Answer
    from scrapy_simhash.config import Config
    from scrapy_simhash.stores.owed import ListedRequest
    from scrapy_simhash.stores.store import Store

_BECAUSE = {
    Why.LOST: "dropped for {}",
    Why.LINK: "a link on {}",
}


def _run(config: Config, options: argparse.Namespace) -> Iterable[Answer | str]:
    runner = _ACTIONS[options.action or "list"][1].runner
    assert runner is not None  # noqa: S101 - all actions have one
    return call(runner, config, options)


def _choose(store: Store, options: argparse.Namespace) -> Iterator[ListedRequest]:
    """Read the requests that meet all criteria, some at a time."""
    urls = {mask_password(url) for url in getattr(options, "urls", ())}
    letter = Why(options.why).letter if options.why else b""
    for found in store.owed.list_requests(options.spider, letter):
        if (not urls or found.owed.url in urls) and (found.due or not options.due):
            yield found


def _describe(found: ListedRequest) -> Answer:
    owed = found.owed
    return {
        "url": owed.url,
        "why": owed.why.value,
        "of": owed.found_on or found.url,
        "due": found.due,
        "stored": bool(owed.request),
        "spider": owed.spider,
        "crawl": owed.crawl,
        "time": owed.time,
    }


def _list(config: Config, options: argparse.Namespace) -> Iterator[Answer]:
    with open_as_it_is(config.store) as store:
        yield from map(_describe, _choose(store, options))


def _write(config: Config, options: argparse.Namespace) -> Iterator[Answer]:
    """Write what `crawl.refetch.read_requests` reads: JSON lines, or URLs."""
    as_json = options.path.suffix.lower() in JSON_SUFFIXES
    with open_as_it_is(config.store) as store:
        lines = (
            _make_line(found) if as_json else f"{printable(found.owed.url)}\n"
            for found in _choose(store, options)
        )
        number = write_whole(options.path, lines, overwrite=options.overwrite)
    yield {"file": str(options.path), "written": number}


def _make_line(found: ListedRequest) -> str:
    request = base64.b64encode(found.owed.request).decode()
    return json.dumps({**_describe(found), "request": request}) + "\n"


def _release(config: Config, options: argparse.Namespace) -> Iterator[Answer]:
    with open_to_change(config) as store:
        number = store.owed.release(_list_keys(store, options))
    yield {"released": number}


def _forget(config: Config, options: argparse.Namespace) -> Iterator[Answer]:
    """Forget requests; without a criterion, only under `--all`."""
    criteria = (options.urls, options.spider, options.why, options.due)
    if not any(criteria) and not options.all:
        raise ValueError("name what to forget: URLs, --spider, --why, --due or --all")
    with open_to_change(config) as store:
        keys = _list_keys(store, options)
        store.owed.forget(keys)
    yield {"forgotten": len(keys)}


def _list_keys(store: Store, options: argparse.Namespace) -> Sequence[bytes]:
    if keys := [found.key for found in _choose(store, options)]:
        return keys
    raise PartlyFailedError("no request that is owed meets all criteria")


def _print(answer: Answer) -> Iterable[str]:
    if "file" in answer:
        yield f"{printable(answer['file'])}: {plural(answer['written'], 'request')}"
    elif "released" in answer:
        yield f"{plural(answer['released'], 'request')} will be made by the next crawl"
    elif "forgotten" in answer:
        yield f"{plural(answer['forgotten'], 'request')} forgotten"
    else:
        text = _BECAUSE[Why(answer["why"])].format(printable(answer["of"] or "a page that is gone"))
        text += "" if answer["due"] else "; waits"
        text += "" if answer["stored"] else "; how to make it is not stored"
        yield f"{answer['why']:<6}  {printable(answer['url'])}"
        yield f"        {text}"


def _add_filters(parser: ArgumentParser) -> None:
    # A default behind the action would undo what stood before it.
    unset: dict[str, Any] = {"default": argparse.SUPPRESS} if " owed " in parser.prog else {}
    add = parser.add_argument
    add("--spider", metavar="NAME", help="only requests of this spider", **unset)
    about = (
        "lost: their pages were dropped for pages whose items did not come through; link: only "
        "dropped pages have links to them"
    )
    add("--why", choices=[*map(str, Why)], metavar="WHY", help=about, **unset)
    about = "only what the next crawl makes, and nothing that waits for a page"
    add("--due", action="store_true", help=about, **unset)


def _add_urls(parser: ArgumentParser) -> None:
    parser.add_argument("urls", nargs="*", metavar="URL", help="only requests for these URLs")
    _add_filters(parser)


def _add_write(parser: ArgumentParser) -> None:
    about = "JSON lines if its name ends in .jsonl, .jl or .json, else URLs, one a line"
    parser.add_argument("path", type=Path, metavar="FILE", help=about)
    _add_urls(parser)
    add_overwrite(parser)


def _add_forget(parser: ArgumentParser) -> None:
    _add_urls(parser)
    parser.add_argument("--all", action="store_true", help="all requests that are owed")


_ACTIONS = {
    "list": ("List the requests", Command(_list, _add_urls)),
    "write": (
        "Write the requests to a file, for a spider to start from",
        Command(
            _write,
            _add_write,
            details="`scrapy_simhash.crawl.refetch.read_requests` reads JSON lines, with callbacks "
            "and arguments. They leave out credentials, as the store does.",
        ),
    ),
    "release": (
        "Have the next crawl of their spider make the requests, whatever they wait for",
        Command(_release, _add_urls),
    ),
    "forget": (
        "Forget the requests, which no crawl makes then",
        Command(_forget, _add_forget),
    ),
}


COMMANDS = {
    "owed": Command(
        _run,
        _add_filters,
        _print,
        examples=(
            "owed                    # what crawls owe, and why",
            "owed --why lost --due",
            "owed write again.jsonl --spider docs",
            "owed release http://site.example/again?print=1",
            "owed forget --why link --spider docs",
        ),
        details="A crawl makes what its spider owes when it has nothing else to do: first what an "
        "earlier crawl left. `owed ACTION --help` has the options of an action; without one, "
        "`owed` lists the requests.",
        actions=_ACTIONS,
    ),
}
