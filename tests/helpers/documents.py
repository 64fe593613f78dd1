"""Documents and stores for the tests of the store."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from msgspec import structs

from scrapy_simhash.judging.documents import Decision, Document
from scrapy_simhash.pages.facts import Facts, Reader, Wording, pack
from scrapy_simhash.stores.opening import open_store
from scrapy_simhash.stores.store import Store

# Those that keep what is in them; `home` in `tests/conftest.py` makes one of each.
ALL_KINDS = ("lmdb", "redis")
# Who gets the pages of a test.
READER = Reader("spider", "parse")


def document(name: str, fingerprint: int = 0, **fields: Any) -> Document:
    """Make a document whose identity, URL and digest follow from its name and fingerprint."""
    text = fields.pop("text", "a text" if fields.get("whole_words") else "")
    fields = {
        "wording": pack(Wording(text)) if text else b"",
        "text_digest": repr(fingerprint).encode(),
        "url": f"http://site.example/{name}",
        "reader": READER,
        **fields,
    }
    return make(identity=name.encode(), fingerprint=fingerprint, **fields)


def make(**fields: Any) -> Document:
    """Make a document; those of these fields that are facts go where they belong."""
    facts = {name: fields.pop(name) for name in Facts.__struct_fields__ if name in fields}
    return Document(Facts(**facts), **fields)


def alter(page: Document, **fields: Any) -> Document:
    """Make another document of one; the fields may be facts."""
    facts = {name: fields.pop(name) for name in Facts.__struct_fields__ if name in fields}
    return structs.replace(page, facts=structs.replace(page.facts, **facts), **fields)


def open_lmdb(folder: Path | str, **arguments: Any) -> Store:
    """Open a store by the public way."""
    return open_store(str(folder), **arguments)


def judge(store: Store, *pages: Document, **arguments: Any) -> list[str]:
    """Judge pages in one group; says status or reason, number, and number of the match of each."""
    return [
        f"{each.reason or each.status} {each.document}"
        + (f" of {each.match_document}" if each.match_url else "")
        for each in store.find_and_add(pages, **arguments)
    ]


def judge_in_order(pages: Iterable[Document], seed: int = 0) -> list[Decision]:
    """Judge pages as the first crawl of a store does."""
    arriving = [alter(page, identity=b"%d" % number) for number, page in enumerate(pages)]
    with open_store("memory:", seed=seed) as store:
        return store.find_and_add(arriving)


def find(store: Store, url: str) -> list[Document]:
    return store.find_documents([url])


def judge_one(store: Store, page: Document) -> Decision:
    (decision,) = store.find_and_add([page])
    return decision
