"""Make the fingerprints of a store anew with another seed, as far as the texts that it keeps allow.

Kept texts are main texts. They are all that plain simhash looks at; the confirmation asks for whole
texts, too, which no store keeps. The digests of short pages and files are made of more than texts,
so these stay as they are: they are like no page of another store until they are fetched again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from scrapy_simhash.errors import StoreUnavailableError
from scrapy_simhash.pages.fingerprint import fingerprint_text, load_features
from scrapy_simhash.pages.text import PageText

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from scrapy_simhash.judging import Rule
    from scrapy_simhash.judging.merging import Row
    from scrapy_simhash.stores import Store


class Reseeder:
    """Gives the rows of a store the fingerprints that they would have in one of another seed."""

    def __init__(self, store: Store, seed: int) -> None:
        self._store = store
        self._seed = seed
        self._features = load_features(store.recipe.features)

    def reseed(self, row: Row) -> Row:
        """Make the fingerprint of a row anew."""
        if row.record.stub:
            return row
        if row.text is None:
            raise StoreUnavailableError(
                f"a crawl without SIMHASH_KEEP_TEXT writes to {self._store.url}; end it first"
            )
        fingerprint = self._make(row.text, self._seed)
        # The sketch is of the whole text, too, and without one nobody is misled.
        record = msgspec.structs.replace(row.record, fingerprints=(fingerprint,), sketch=b"")
        return row._replace(record=record)

    def find_obstacle(
        self, rule: Rule, parts: Iterable[list[int]], show: Callable[[], object]
    ) -> str:
        """Find why the fingerprints cannot all be made anew; "" if they can. Reads every text.

        `parts` are the numbers of all documents; `show` is called after each part.
        """
        if rule.confirm is not None:
            return f"SIMHASH_CONFIRM = {rule.confirm:g} needs whole texts, too, which are not kept"
        if self._store.bulk_loaded().size:
            return "it has bulk-loaded fingerprints, of which there are no texts"
        for part in parts:
            for row in self._store.read_rows(part):
                if not row.record.stub and not self._is_made_of_text(row):
                    return f"no text that gives its fingerprint was kept of {row.record.url}"
            show()
        return ""

    def _is_made_of_text(self, row: Row) -> bool:
        made = None if row.text is None else self._make(row.text, self._store.seed)
        return made == row.record.fingerprints[0]

    def _make(self, text: str, seed: int) -> int:
        return fingerprint_text(PageText(text, text), self._features, seed).fingerprint
