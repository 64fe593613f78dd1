"""The kind of store of which nothing is kept."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from scrapy_simhash.errors import StoreUnusableError
from scrapy_simhash.stores.lmdb import LmdbEngine, explained
from scrapy_simhash.stores.opening import MEMORY


class MemoryEngine(LmdbEngine):
    """A store of this process: the file of LMDB has no name any more once it is open."""

    synced = False

    def __init__(self, place: Path | str = MEMORY, *, readonly: bool = False) -> None:
        super().__init__(place, readonly=readonly)

    def exists(self) -> bool:
        return False

    def open(self) -> None:
        if self.readonly:
            raise StoreUnusableError(
                f"the store at {self.url} begins empty, so it cannot be opened read-only; name "
                "the folder or server of an existing one"
            )
        # However this process ends, nothing is left.
        with explained(Path(self.url)), TemporaryDirectory() as folder:
            self._folder = Path(folder)
            self._data = self._folder / "data.mdb"
            super().open()

    def _find_file(self) -> int:
        return 0

    def measure(self) -> tuple[str, int]:
        return "memory_bytes", (self._env.info()["last_pgno"] + 1) * self._env.stat()["psize"]

    def find_damage(self) -> list[str]:
        return []
