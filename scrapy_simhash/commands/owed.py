"""The command `owed`: lost pages, which the spider's next crawl has to request again."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import TYPE_CHECKING

from scrapy_simhash._files import write_whole
from scrapy_simhash._printable import plural, printable
from scrapy_simhash.commands.frame import JSON_SUFFIXES, Command, add_overwrite
from scrapy_simhash.stores.opening import open_as_it_is

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Iterable, Iterator

    from scrapy_simhash.commands.frame import Answer
    from scrapy_simhash.config import Config
    from scrapy_simhash.stores.lost import LostPage


def _run(config: Config, output: Path | None, *, overwrite: bool) -> Iterator[Answer]:
    """List lost pages, or write them as `crawl.packing.read_requests` reads them."""
    with open_as_it_is(config.store) as store:
        if output is None:
            yield from map(_describe, store.lost.list_pages())
            return
        as_json = output.suffix.lower() in JSON_SUFFIXES
        lines = (
            _make_line(page) if as_json else f"{printable(page.lost.url)}\n"
            for page in store.lost.list_pages()
        )
        number = write_whole(output, lines, overwrite=overwrite)
    yield {"file": str(output), "written": number}


def _describe(page: LostPage) -> Answer:
    lost = page.lost
    return {
        "url": lost.url,
        "original": page.original,
        "due": page.due,
        "stored": bool(lost.request),
        "spider": lost.spider,
        "crawl": lost.crawl,
    }


def _make_line(page: LostPage) -> str:
    request = base64.b64encode(page.lost.request).decode()
    return json.dumps({**_describe(page), "request": request}) + "\n"


def _print(answer: Answer) -> Iterable[str]:
    if "file" in answer:
        yield f"{printable(answer['file'])}: {plural(answer['written'], 'request')}"
        return
    text = f"dropped for {printable(answer['original'] or 'a page that is gone')}"
    text += "" if answer["due"] else "; waits for its items"
    text += "" if answer["stored"] else "; how to request it is not stored"
    yield printable(answer["url"])
    yield f"        {text}"


def _add_options(parser: ArgumentParser) -> None:
    about = (
        "write requests for them: JSON lines if its name ends in .jsonl, .jl or .json, else URLs"
    )
    parser.add_argument("-o", "--output", type=Path, help=about)
    add_overwrite(parser)


COMMANDS = {
    "owed": Command(
        _run,
        _add_options,
        _print,
        examples=("owed", "owed -o again.jsonl"),
        details="Lost pages were dropped for pages whose items never came through. The next crawl "
        "of their spider requests them again, or a spider that reads the file by "
        "`scrapy_simhash.crawl.packing.read_requests`: JSON lines have callbacks and arguments, "
        "but no credentials, as the store. `prune URL` forgets a page.",
    ),
}
