"""One object per key and process: its first user opens it, its last user closes it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

Key = TypeVar("Key", bound="Hashable")
Value = TypeVar("Value")


class SharedByKey(Generic[Key, Value]):
    """Hands out one object per key, and closes it when its last user has released it."""

    def __init__(self, close: Callable[[Value], object]) -> None:
        self._close = close
        self._lock = threading.Lock()
        self._entries: dict[Key, tuple[Value, int]] = {}

    def acquire(self, key: Key, make: Callable[[], Value]) -> Value:
        """Get the object of a key; the first user makes it, and others wait meanwhile."""
        with self._lock:
            value, users = self._entries[key] if key in self._entries else (make(), 0)
            self._entries[key] = value, users + 1
            return value

    def release(self, key: Key) -> None:
        """Release the object; the last user closes it."""
        with self._lock:
            value, users = self._entries.pop(key)
            if users > 1:
                self._entries[key] = value, users - 1
            else:
                self._close(value)
