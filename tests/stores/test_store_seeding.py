"""Tables for other distances, while others use a store."""

from pathlib import Path

import numpy as np
import pytest

from scrapy_simhash.errors import StoreUnavailableError
from tests.helpers.documents import document, open_lmdb
from tests.helpers.processes import run_python


def test_a_rebuild_for_less_stops_who_needs_more(tmp_path: Path) -> None:
    with open_lmdb(tmp_path, distance=7) as wide:
        wide.bulk_load(np.array([5], np.uint64))
        script = (
            "import sys; from scrapy_simhash import open_store\n"
            "open_store(sys.argv[1], distance=3).rebuild(10)"
        )
        assert run_python("-c", script, tmp_path, cwd=tmp_path).stderr == ""
        with pytest.raises(
            StoreUnavailableError, match="complete for 4 bits but not for distance 7"
        ):
            wide.find_and_add([document("a", 5)])
