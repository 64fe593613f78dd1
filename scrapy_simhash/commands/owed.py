"""The command `owed`: requests that crawls still have to make, or to make again."""

from __future__ import annotations

import argparse
import base64
import json
from typing import TYPE_CHECKING, Any

from scrapy_simhash._files import write_whole
from scrapy_simhash._printable import mask_password, plural, printable
from scrapy_simhash.commands.frame import JSON_SUFFIXES, Command, call
from scrapy_simhash.commands.upkeep import open_to_change
from scrapy_simhash.errors import PartlyFailedError
from scrapy_simhash.judging.rows import Why
from scrapy_simhash.stores.opening import open_as_it_is

if TYPE_CHECKING:
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


_FILTERS = """
--spider NAME: only requests of this spider
--why WHY: lost: their pages were dropped for pages whose items did not come through; link: only
    dropped pages have links to them
--due: only what the next crawl makes, and nothing that waits for a page
"""
_URLS = f"""
[URL...]: only requests for these URLs
{_FILTERS}"""
_WRITE = f"""
FILE: JSON lines if its name ends in .jsonl, .jl or .json, else URLs, one a line
{_URLS}
--overwrite: replace an existing file
"""
_FORGET = f"""{_URLS}
--all: all requests that are owed
"""
_WHYS = {"choices": [str(why) for why in Why]}
# A default behind the action would undo what stood before it.
_UNSET = {"default": argparse.SUPPRESS}
_MORE: dict[str, dict[str, Any]] = {
    "url": {"dest": "urls"},
    "file": {"dest": "path"},
    "why": _WHYS | _UNSET,
    **dict.fromkeys(("spider", "due"), _UNSET),
}
_ACTIONS = {
    "list": ("List the requests", Command(_list, _URLS, more=_MORE)),
    "write": (
        "Write the requests to a file, for a spider to start from",
        Command(
            _write,
            _WRITE,
            more=_MORE,
            details="`scrapy_simhash.crawl.refetch.read_requests` reads JSON lines, with callbacks "
            "and arguments. They leave out credentials, as the store does.",
        ),
    ),
    "release": (
        "Have the next crawl of their spider make the requests, whatever they wait for",
        Command(_release, _URLS, more=_MORE),
    ),
    "forget": (
        "Forget the requests, which no crawl makes then",
        Command(_forget, _FORGET, more=_MORE),
    ),
}


COMMANDS = {
    "owed": Command(
        _run,
        _FILTERS,
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
        more={"why": _WHYS},
    ),
}
