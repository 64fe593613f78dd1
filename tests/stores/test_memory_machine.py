"""Any sequence of what a crawl does to a store in memory, which lasts as long as it is open."""

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st

from scrapy_simhash.stores.memory import MemoryEngine
from scrapy_simhash.stores.store import Store
from tests.helpers.needing import examples
from tests.helpers.storemachine import StoreMachine


class MemoryMachine(StoreMachine):
    """A store in memory, and an oracle that knows what it must say."""

    def prepare(self, data: st.DataObject) -> None:
        most = data.draw(st.sampled_from([65_536, 4, 2]))
        self.patch.setattr("scrapy_simhash.stores.keyvalues.MOST_IN_BUCKET", most)
        self.crowded = most < 65_536
        self.engine = MemoryEngine()

    def open_store(self, **arguments: Any) -> Store:
        return Store(self.engine, **arguments)


TestMemoryMachine = MemoryMachine.TestCase
TestMemoryMachine.settings = settings(examples(5), stateful_step_count=40)
