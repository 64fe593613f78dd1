"""One object per key and process, counted: opened by its first user, closed by its last."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

Key = TypeVar("Key", bound="Hashable")
Value = TypeVar("Value")


class SharedByKey(Generic[Key, Value]):
    """Hand out one object per key to any number of users.

    Args:
        close: called with the object when its last user has released it.
    """

    def __init__(self, close: Callable[[Value], object]) -> None:
        self._close = close
        self._lock = threading.Lock()
        self._entries: dict[Key, tuple[Value, int]] = {}

    def acquire(self, key: Key, make: Callable[[], Value]) -> Value:
        """Get the object of a key, made by `make` for its first user.

        Others wait while it is made; what `make` raises is raised, and nothing is kept.
        """
        with self._lock:
            value, users = self._entries[key] if key in self._entries else (make(), 0)
            self._entries[key] = value, users + 1
            return value

    def find(self, key: Key) -> Value | None:
        """Get the object of a key, if there is one; it is not counted as used."""
        entry = self._entries.get(key)
        return entry[0] if entry else None

    def release(self, key: Key) -> None:
        """Give the object back; the last user closes it."""
        with self._lock:
            value, users = self._entries.pop(key)
            if users > 1:
                self._entries[key] = value, users - 1
            else:
                self._close(value)
