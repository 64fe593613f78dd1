"""Messages and memory from a process that may have gone mad."""

import contextlib
import math
import os
import struct
import time

from hypothesis import example, given
from hypothesis import strategies as st

from scrapy_simhash.detector.wire import Place, take_answers


@given(st.binary(max_size=60))
@example(b"\x93\x01\xc4\x00\xa2\xff\xfe")  # a text that is not UTF-8
def test_any_bytes_are_answers_or_a_value_error(body: bytes) -> None:
    received = bytearray(struct.pack("<I", len(body)) + body)
    with contextlib.suppress(ValueError):
        list(take_answers(received))


@given(st.lists(st.floats(), min_size=3, max_size=3))
@example([math.inf, 0.0, 0.0])
@example([1.0, math.nan, 0.0])
def test_whatever_stands_in_the_place_is_a_page_that_began(written: list[float]) -> None:
    place = Place()
    os.pwrite(place.file, struct.pack("3d", *written), 0)
    number, began, loading = place.read()
    assert isinstance(number, int)
    assert began <= time.monotonic()
    assert loading in {True, False}
    place.close()
