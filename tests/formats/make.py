"""`python -m tests.formats.make` writes the store of this version, which later versions must read.

Once for each release, and never again: a store of a released version is not made anew.
"""

import asyncio
import lzma
import sys
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from scrapy_simhash import __version__
from scrapy_simhash.detector.writer import Note
from scrapy_simhash.judging.rows import Owed, Why
from scrapy_simhash.stores.opening import open_store
from scrapy_simhash.stores.owed import put
from scrapy_simhash.urls.rules import parse_rule
from tests.helpers.detecting import fetched, judge, running
from tests.helpers.pages import page

FORMATS = Path(__file__).parent
PAGES, TEMPLATE = 8, ["/", "/contact", "/imprint"]
# The seeds of a page that six unlike addresses show, and of one whose items do not come through.
WALL, LOST = 99, 50
WALLS = ["news/fire", "sport/results", "shop/hats", "travel/rome", "music/notes", "jobs/cook"]
PINNED = parse_rule("site.example drop-parameter sid")
BANNED = parse_rule("site.example drop-parameter page")
OWED = [
    Owed("http://site.example/new", Why.LINK, "spider", "before", b"request", found_on="x"),
    Owed("http://site.example/page1?sid=1", Why.PARKED, "spider", "before", rules=(PINNED.id,)),
]


def show(seed: int, menu: str = "Menu") -> str:
    """Make a page with the links of its site."""
    return page(seed, title=f"Title {seed}", links=TEMPLATE, menu=menu)


async def fill(folder: Path) -> None:
    """Fill a store with all that crawls and commands leave in it."""
    pages = [fetched(f"page{seed}", show(seed)) for seed in range(PAGES)]
    copies = [fetched(f"print/page{seed}", show(seed, "Print")) for seed in range(PAGES // 2)]
    walls = [fetched(path, show(WALL)) for path in WALLS]
    async with running(folder) as detector:
        await judge(detector, *pages, *copies, *walls)
        # An original that does not come through leaves the page owed that was dropped for it.
        lost = await detector.judge(fetched("lost", show(LOST)))
        await detector.judge(fetched("copy", show(LOST, "Copy")))
        detector.note(Note(withdrawn=lost.document))
    with open_store(str(folder), confirm=0.8) as store:
        store.add_url_rules([PINNED, BANNED])
        store.change_url_rule(PINNED.id, "pin")
        store.change_url_rule(BANNED.id, "ban")
        store.write(partial(put, rows=OWED))


if __name__ == "__main__":
    target = FORMATS / f"{__version__}.mdb.xz"
    if target.exists():
        sys.exit(f"{target} is there already, and stays as it is")
    with TemporaryDirectory() as folder:
        asyncio.run(fill(Path(folder) / "store"))
        target.write_bytes(lzma.compress((Path(folder) / "store" / "data.mdb").read_bytes()))
