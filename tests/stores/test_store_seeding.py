"""Bulk loading, and tables for other distances."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from scrapy_simhash.errors import StoreUnavailableError
from tests.helpers.documents import document, open_lmdb
from tests.helpers.processes import run_python


def spread(count: int, start: int = 1) -> NDArray[np.uint64]:
    """Make fingerprints far apart: multiples of the golden ratio."""
    return np.arange(start, start + count, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)


def test_bulk_load_leaves_others_complete_for_their_distance(tmp_path: Path) -> None:
    """Another user relies on 5 bits; 4 tables would find pairs within 3 only."""
    with open_lmdb(tmp_path, tables="8:5", distance=5) as wide, open_lmdb(tmp_path) as narrow:
        narrow.bulk_load(np.array([0], np.uint64))
        flips = 1 | 1 << 16 | 1 << 32 | 1 << 48 | 1 << 50
        assert [match.distance for match in wide.query(flips)] == [5]


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
