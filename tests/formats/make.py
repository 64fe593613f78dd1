"""Makes the store that stands for a format; run once a format, by its last version.

    python -m tests.formats.make tests/formats/format-3.mdb

The file is kept for good: every later version must open it, see `tests/stores/test_upgrade.py`.
It has rows of every kind, so that a field that a later version misreads shows.
"""

import random
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from scrapy_simhash.pages.sketch import SKETCH_BYTES
from scrapy_simhash.stores.lmdb.environment import shrink
from scrapy_simhash.stores.store import Store
from tests.helpers.documents import document

SEED = 0x5EED
FINGERPRINTS = [random.Random(n).getrandbits(64) for n in range(40)]  # noqa: S311 - named
BULK_LOADED = [random.Random(n).getrandbits(64) for n in range(40, 100)]  # noqa: S311


def make(folder: Path) -> None:
    """Make a store with documents of every state, texts, aliases, scopes, crawls, a compaction."""
    with Store(folder, seed=SEED) as store:
        store.start_crawl("ended", "spider")
        store.find_and_add(
            [
                document(
                    f"page {n}",
                    fingerprint,
                    crawl="ended",
                    text=f"Text of page {n}",
                    title=f"Title {n}",
                    sketch=bytes([n]) * SKETCH_BYTES,
                    aliases=(b"alias %d" % n,),
                )
                for n, fingerprint in enumerate(FINGERPRINTS[:30])
            ]
        )
        store.mark_done(range(1, 21), "ended")
        store.withdraw([21], "ended")
        store.find_and_add([document("twin of page 0", FINGERPRINTS[0] ^ 1, crawl="ended")])
        store.end_crawl("ended")
        store.bulk_load(np.array(BULK_LOADED, np.uint64))
        store.compact()
        store.start_crawl("killed", "spider")
        store.find_and_add(
            [
                document(f"page {n}", FINGERPRINTS[n], crawl="killed", scope="site.example")
                for n in range(30, 40)
            ]
        )
    shrink(folder)


def main(path: str) -> None:
    """Write the data file of the format."""
    with TemporaryDirectory() as folder:
        make(Path(folder))
        Path(path).write_bytes((Path(folder) / "data.mdb").read_bytes())


if __name__ == "__main__":
    main(*sys.argv[1:])
