"""Damaged stores: eight ways to spoil a data file, and what a process makes of each."""

import json
import os
import random
import shutil
import sys
import traceback
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import NamedTuple

from scrapy_simhash.errors import StoreUnusableError
from tests.helpers.documents import document, open_lmdb

_PAGE_BYTES = 4_096


class Outcome(NamedTuple):
    """What became of a process that used a damaged store.

    Attributes:
        name: mutator and seed.
        code: how it ended; below 0 by a signal.
        told: what it said of the store, or a traceback.
        unchanged: the data file has still the same octets.
    """

    name: str
    code: int
    told: str
    unchanged: bool


def make_store(folder: Path) -> None:
    """Make a store with rows of every kind and pages of the file that were used before."""
    draw = random.Random(4)  # noqa: S311 - the same store every time
    with open_lmdb(folder) as store:
        for start in range(0, 80, 20):
            made = [
                document(f"{n}", draw.getrandbits(64), text=draw.randbytes(20 * n % 2_000).hex())
                for n in range(start, start + 20)
            ]
            store.find_and_add([*made, document(f"twin {start}", made[0].facts.fingerprint)])
        store.find_and_add([document(f"last {n}", draw.getrandbits(64)) for n in range(20)])


def _draw_page(octets: bytes, draw: random.Random) -> int:
    """Draw a page, but neither of the first two, which say where everything is."""
    return _PAGE_BYTES * draw.randrange(2, len(octets) // _PAGE_BYTES)


def _put(octets: bytes, at: int, with_: bytes) -> bytes:
    return octets[:at] + with_ + octets[at + len(with_) :]


def _swap_pages(octets: bytes, draw: random.Random) -> bytes:
    a, b = _draw_page(octets, draw), _draw_page(octets, draw)
    first, second = (octets[at : at + _PAGE_BYTES] for at in (a, b))
    return _put(_put(octets, a, second), b, first)


def _garble_meta_pages(octets: bytes, draw: random.Random) -> bytes:
    for at in draw.sample((0, _PAGE_BYTES), draw.choice((1, 2))):
        octets = _put(octets, at + draw.randrange(150), draw.randbytes(8))
    return octets


def _flip_bits(octets: bytes, draw: random.Random) -> bytes:
    for _ in range(20):
        at = draw.randrange(2 * _PAGE_BYTES, len(octets))
        octets = _put(octets, at, bytes([octets[at] ^ 1 << draw.randrange(8)]))
    return octets


MUTATORS: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "truncate": lambda octets, draw: octets[: draw.randrange(1, len(octets))],
    # Where LMDB's pages begin or end, or hardly any of it is left.
    "cut": lambda octets, draw: octets[
        : draw.choice((1, 100, 0, *range(0, len(octets) - 1, _PAGE_BYTES))) + draw.randint(-1, 1)
    ],
    "empty": lambda *_: b"",
    "zero_page": lambda octets, draw: _put(octets, _draw_page(octets, draw), bytes(_PAGE_BYTES)),
    "garble_page": lambda octets, draw: _put(
        octets, _draw_page(octets, draw), draw.randbytes(_PAGE_BYTES)
    ),
    "swap_pages": _swap_pages,
    "garble_meta_pages": _garble_meta_pages,
    "flip_bits": _flip_bits,
}


def use(folder: Path) -> str:
    """Do with a store what commands and crawls do; says how it ended."""
    for readonly in (True, False):
        try:
            store = open_lmdb(folder, readonly=readonly)
        except StoreUnusableError as error:
            return f"refused: {error}"
        with store:
            if problems := store.check():
                return f"found: {problems}"
            store.stats()
            for number in range(1, 110):
                store.get_documents([number])
                store.query(number << 54)
    with open_lmdb(folder) as store:
        store.find_and_add([document(f"new {n}", n << 50 | 1) for n in range(50)])
        store.rebuild()
        return f"works: {store.check()}"


def _use_in_child(folder: Path) -> int:
    """Use a store in a process of its own; returns its exit code."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    try:
        told = use(folder)
    except BaseException:  # noqa: BLE001 - there is nobody above in a forked child
        told = traceback.format_exc()
    folder.with_suffix(".told").write_text(told)
    os._exit(0)


def main(whole: str, work: str, first: str, seeds: str) -> None:
    """Spoil a data file in every way with every seed, and print what became of each as JSON."""
    octets = Path(whole).read_bytes()
    outcomes = []
    for name, seed in product(MUTATORS, range(int(first), int(first) + int(seeds))):
        folder = Path(work) / f"{name}-{seed}"
        folder.mkdir()
        spoilt = MUTATORS[name](octets, random.Random(seed))  # noqa: S311 - named in the outcome
        (folder / "data.mdb").write_bytes(spoilt)
        told, code = folder.with_suffix(".told"), _use_in_child(folder)
        outcomes.append(
            Outcome(
                folder.name,
                code,
                told.read_text() if told.exists() else "",
                unchanged=(folder / "data.mdb").read_bytes() == spoilt,
            )
        )
        shutil.rmtree(folder)
    print(json.dumps(outcomes))  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])
