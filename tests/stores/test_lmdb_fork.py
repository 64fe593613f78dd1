"""A forked child and the store of its parent."""

from pathlib import Path

import pytest

from tests.helpers.children import run_script
from tests.helpers.needing import slow_but

FORK = """
import os, sys
from scrapy_simhash.judging.documents import Document
from scrapy_simhash.pages.facts import Facts
from scrapy_simhash.errors import StoreUnavailableError
from scrapy_simhash.stores.opening import open_store

def page(name, fingerprint):
    return Document(Facts(name, fingerprint, b""))

def in_child(store):
    if sys.argv[2] == "write":
        store.find_and_add([page(b"b", 2**40 - 1)])
    elif sys.argv[2] == "read":
        store.query(1)
    elif sys.argv[2] == "close":
        store.close()
    elif sys.argv[2] == "open":
        with open_store(sys.argv[1]) as own:
            own.query(1)

store = open_store(sys.argv[1])
store.find_and_add([page(b"a", 1)])
if not (child := os.fork()):
    try:
        in_child(store)
    except StoreUnavailableError as error:
        print("refused" if "before a fork" in str(error) else error, flush=True)
    else:
        print("done", flush=True)
    os._exit(0)
os.waitpid(child, 0)
store.find_and_add([page(b"c", 2**50 - 1)])
print(store.check(), store.stats()["documents"])
"""


@pytest.mark.parametrize(
    ("in_child", "outcome"),
    slow_but(
        [("write", "refused"), ("open", "refused")],
        [("write", "refused"), ("read", "refused"), ("close", "done"), ("open", "refused")],
    ),
)
def test_a_forked_child(tmp_path: Path, in_child: str, outcome: str) -> None:
    """It can neither use nor harm the store of its parent."""
    lines = run_script(FORK, tmp_path, in_child).splitlines()
    assert lines == [outcome, "[] 2"]
