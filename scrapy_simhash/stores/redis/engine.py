"""The Redis kind of store: one server or a cluster, for processes on any number of hosts."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from scrapy_simhash.errors import StoreError, StoreUnavailableError, StoreUnusableError
from scrapy_simhash.judging.rows import OWED
from scrapy_simhash.stores.header import HEADER_KEY
from scrapy_simhash.stores.keyvalues import CRAWLS, DOCUMENTS, HEADER, Engine
from scrapy_simhash.stores.opening import server_address
from scrapy_simhash.stores.redis.commits import Committer
from scrapy_simhash.stores.redis.leases import RedisLeases
from scrapy_simhash.stores.redis.places import GENERATION, Places
from scrapy_simhash.stores.redis.scripts import BEGIN, script
from scrapy_simhash.stores.redis.server import Server
from scrapy_simhash.stores.redis.values import RedisValues, TableWriter

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from scrapy_simhash.stores.keyvalues import KeyValues

Result = TypeVar("Result")

# After this number of tries, a commit that others overtook each time locks the store to finish, and
# a read gives up if others rewrote the tables each time.
_TRIES_BESIDE_OTHERS = 4


class _OtherTablesError(BaseException):
    """Another process has replaced the tables since this one read the header."""


class RedisEngine(Engine):
    """A store on a server, see `Engine`."""

    kind = "redis"
    client = "redis"
    shared = True
    leases: RedisLeases

    def __init__(self, place: Path | str, *, readonly: bool = False) -> None:
        address = server_address(str(place))
        self.url = address.shown
        self.readonly = readonly
        self._pid = os.getpid()
        self._server = Server(address, readonly=readonly)
        self._places = Places(address.prefix)
        # Those of new documents that are reserved; a commit that starts over gets the same ones.
        self._numbers: list[int] = []
        self._committer = Committer(self._server, self._places)
        self.leases = RedisLeases(self._server, self._places.leases)
        # The fields of the header, as they were when a transaction began.
        self._header: list[bytes | None] = []
        # In a cluster, whether nobody else committed since the last commit of this process.
        self._undisturbed = not address.cluster

    def exists(self) -> bool:
        return bool(self._server.call("EXISTS", self._places.header, opening=True))

    def open(self) -> None:
        self._refresh(self._read_header())
        if self._header[0] is None and self.readonly:
            raise StoreUnusableError(f"there is no store at {self.url}; name an existing one")
        if self._header[0] is not None:
            return
        # Reading all keys takes too long; another program's data would use one of these.
        places = self._places
        names = [places.seq, places.log, places[CRAWLS].single, places[OWED].single]
        names.append(places[DOCUMENTS].name(bytes(8)))
        there = self._server.run([("EXISTS", name) for name in names], opening=True)
        # Another process may have made the store just now.
        self._refresh(self._read_header())
        if any(there) and self._header[0] is None:
            raise StoreUnusableError(
                f"the server at {self.url} has a key {names[there.index(1)].decode()!r}, but no "
                "header of a store: the data is another program's, or damaged. Name another "
                "prefix (?prefix=...) in SIMHASH_STORE"
            )

    def _read_header(self) -> list[bytes | None]:
        command = ("HMGET", self._places.header, HEADER_KEY, GENERATION)
        header: list[bytes | None] = self._server.call(*command, opening=not self._header)
        return header

    def _refresh(self, header: list[bytes | None]) -> None:
        """Adopt the header: another process may have changed the tables."""
        self._header = header
        self._places = self._places.of(int(header[1] or 0))

    def _is_latest(self) -> bool:
        """Whether the header is still the same; tables are deleted after it names new ones."""
        known, found = self._header, self._read_header()
        self._refresh(found)
        return found == known

    def _begin(self, values: RedisValues, commands: list[tuple[object, ...]]) -> list[Any]:
        """Begin to read, and run commands in the same round trip."""
        cluster = self._server.address.cluster
        if commands and not self._undisturbed:
            self._begin(values, [])
            return self._server.run(commands)
        places = self._places
        names = [places.header, places.seq, places.leases, places.log, places.applied]
        begin = script(BEGIN, names, HEADER_KEY, GENERATION, "cluster" if cluster else "")
        self._undisturbed = not cluster  # if this fails, the next one begins by itself
        (header, seq, holders, unapplied), *answers = self._server.run([begin, *commands])
        if unapplied and not self.readonly:
            self._committer.complete(unapplied)
        self.leases.take_over(holders)
        if header != self._header:
            self._refresh(header)
            raise _OtherTablesError
        values.seq = seq
        if cluster:
            self._undisturbed = seq == self._committer.applied
            self._committer.applied = seq
            if commands and not self._undisturbed:
                # The nodes may have answered before all commits up to this one were there.
                return self._server.run(commands)
        return answers

    def _work(
        self, work: Callable[[KeyValues], Result], *, writing: bool = True
    ) -> tuple[RedisValues, Result]:
        """Run a function in a transaction; again if it began with the header of other tables."""
        if os.getpid() != self._pid:
            raise StoreUnavailableError(
                f"the store at {self.url} was opened before a fork; open it in the child"
            )
        while True:
            writer = TableWriter(self._server, self._places, self._committer.require_alone)
            values = RedisValues(self._server, self._places, self._numbers, self._begin, writer)
            values.writing = writing
            # Nearly always it is still the same.
            values.know(HEADER, HEADER_KEY, self._header[0])
            try:
                with suppress(_OtherTablesError):
                    try:
                        result = work(values)
                    except StoreUnavailableError:
                        raise
                    except StoreError:
                        values.run([])  # it may not have begun, and the header be another one
                        raise
                    values.run([])
                    return values, result
            except BaseException:
                writer.abandon()
                raise

    def read(self, work: Callable[[KeyValues], Result]) -> Result:
        for _ in range(_TRIES_BESIDE_OTHERS):
            try:
                values, result = self._work(work, writing=False)
            except StoreUnavailableError:
                raise
            except StoreError:  # tables that are half deleted look damaged
                if self._is_latest():
                    raise
            else:
                if not values.reads_tables or self._is_latest():
                    return result
        raise StoreUnavailableError(
            f"the tables of the store at {self.url} were rewritten while they were being read, "
            f"{_TRIES_BESIDE_OTHERS} times; try again when no rebuild or import is running"
        )

    def write(self, work: Callable[[KeyValues], Result], *, alone: bool = False) -> Result:
        for _ in range(0 if alone else _TRIES_BESIDE_OTHERS):
            values, result = self._work(work)
            if self._committer.commit(values):
                del self._numbers[: values.taken]
                return result
            self.restarts += 1
        with self._committer.alone():
            values, result = self._work(work)
            # After an error nobody knows whether the tables are in use by now: whoever writes
            # tables next drops those that no header names.
            self._committer.commit_alone(values)
        del self._numbers[: values.taken]
        return result

    def measure(self) -> tuple[str, int]:
        names = {name for pattern in self._places.patterns for name in self._server.scan(pattern)}
        return "memory_bytes", self._server.measure(names)

    def backup(self, *_: object, **__: object) -> NoReturn:
        raise StoreError(
            f"the store at {self.url} is on a server, which makes its own backups: BGSAVE writes "
            "them, and appendonly keeps later writes. `scrapy simhash export` writes the "
            "fingerprints to a file"
        )

    def close(self) -> None:
        if os.getpid() == self._pid:  # do not close a forked child's copy
            self.leases.close()
            self._server.close()
