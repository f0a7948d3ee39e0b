"""Framing: a stream splits into the frames written, wherever it is cut."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio.errors import WireError
from palio.network.channel import FrameReader, frame_header

FRAMES = st.lists(st.binary(min_size=2, max_size=300), max_size=8)


@given(FRAMES, st.lists(st.integers(0, 2600), max_size=12))
def test_a_stream_gives_its_frames_however_it_is_cut(frames: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(frame_header(len(frame)) + frame for frame in frames)
    reader = FrameReader()
    found: list[bytes] = []
    places = [0, *sorted(cut for cut in cuts if cut < len(stream)), len(stream)]
    for start, end in pairwise(places):
        found += reader.feed(stream[start:end])
    assert found == frames


@pytest.mark.parametrize("length", [0, 1, 101, 2**32 - 1])
def test_a_length_that_no_frame_has_is_refused_before_its_bytes_come(length: int) -> None:
    with pytest.raises(WireError, match="where one has from 2 to 100"):
        FrameReader(limit=100).feed(frame_header(length))
