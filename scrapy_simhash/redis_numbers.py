"""Numbers of documents: reserved before they are needed, so that commits do not wait for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scrapy_simhash.redis_server import Server


class Numbers:
    """Hands out document numbers, none twice unless the server forgets what it counted.

    A commit that begins anew gets the same ones again. With several writers a document may have a
    larger number than one that came a moment after it.

    Args:
        server: that counts them.
        key: of the counter.
    """

    def __init__(self, server: Server, key: bytes) -> None:
        self._server = server
        self._key = key
        self._reserved: list[int] = []
        self._taken = 0

    def begin(self) -> None:
        """Begin a commit: what was taken for one that was given up is free again."""
        self._taken = 0

    def reserve(self, count: int) -> None:
        """See to it that so many can be taken without asking the server."""
        missing = count - (len(self._reserved) - self._taken)
        if missing > 0:
            last = int(self._server.call("INCRBY", self._key, missing))
            self._reserved += range(last - missing + 1, last + 1)

    def pass_over(self, number: int) -> None:
        """See to it that numbers up to this one, which is in use, are not handed out."""
        last = int(self._server.call("GET", self._key) or 0)
        if last < number:
            self._server.call("INCRBY", self._key, number - last)

    @property
    def reserved(self) -> list[int]:
        """Those that will be taken next."""
        return self._reserved[self._taken :]

    def take(self) -> int:
        """Take the next number; from 1."""
        self.reserve(1)
        self._taken += 1
        return self._reserved[self._taken - 1]

    def settle(self) -> None:
        """End a commit: what was taken is in use."""
        del self._reserved[: self._taken]
        self._taken = 0
