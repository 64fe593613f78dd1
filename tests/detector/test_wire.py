"""Messages and memory from a process that may have gone mad."""

import contextlib
import math
import socket
import struct
import time
from typing import cast

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st

from scrapy_simhash.detector.channel import Channel, Desk
from scrapy_simhash.detector.wire import Place, take_answers

# Number, no fingerprint, reason.
NO_TEXT = msgspec.msgpack.encode([7, b"", "\x80"]).replace(b"\xc2\x80", b"\xff\xfe")


@given(st.binary(max_size=60))
@example(NO_TEXT)
def test_any_bytes_are_answers_or_raise_what_the_channel_expects(body: bytes) -> None:
    received = bytearray(struct.pack("<I", len(body)) + body)
    with contextlib.suppress(msgspec.DecodeError, ValueError):
        list(take_answers(received))


def test_an_answer_with_a_text_that_is_not_utf_8_ends_the_process() -> None:
    ours, theirs = socket.socketpair()
    channel = Channel(None, ours, Place())
    with ours, theirs:
        channel._desk = cast("Desk", object())
        channel._received += struct.pack("<I", len(NO_TEXT)) + NO_TEXT
        # So that the channel ends, and another process is started.
        assert not channel._take_answers()


@given(st.lists(st.floats(), min_size=3, max_size=3))
@example([math.inf, 0.0, 0.0])
@example([1.0, math.nan, 0.0])
def test_whatever_stands_in_the_place_is_a_page_that_began(written: list[float]) -> None:
    place = Place()
    place._values[:3] = memoryview(struct.pack("3d", *written)).cast("B").cast("d")
    number, began, loading = place.read()
    assert isinstance(number, int)
    assert began <= time.monotonic()
    assert loading in {True, False}
    place.close()
