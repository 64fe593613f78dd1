"""One object per key, closed by its last user."""

import threading

import pytest

from scrapy_simhash._shared import SharedByKey


class Things:
    """Makes numbered objects and notes which were closed."""

    def __init__(self) -> None:
        self.made = 0
        self.closed: list[str] = []
        self.shared: SharedByKey[str, str] = SharedByKey(self.closed.append)

    def make(self) -> str:
        self.made += 1
        return f"thing {self.made}"

    def acquire(self, key: str) -> str:
        return self.shared.acquire(key, self.make)


def test_threads_wait_while_it_is_made() -> None:
    things = Things()
    makers_at_once = threading.Barrier(8)
    got: list[str] = []

    def slow_make() -> str:
        # Nobody else may come this far while the first one waits here.
        with pytest.raises(threading.BrokenBarrierError):
            inside.wait(timeout=0.05)
        return things.make()

    inside = threading.Barrier(2)

    def use() -> None:
        makers_at_once.wait()
        got.append(things.shared.acquire("a", slow_make))

    threads = [threading.Thread(target=use) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got == ["thing 1"] * 8
    for _ in threads:
        things.shared.release("a")
    assert things.closed == ["thing 1"]
