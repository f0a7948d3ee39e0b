"""Encoding of tree versions: a round trip, and refusal of bytes that are no tree."""

from __future__ import annotations

import zlib
from contextlib import suppress

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio.errors import InvalidArgument
from palio.filters.filter import Filter
from palio.routing.forwarding.prefix.tree_version import TreeVersion, decode_tree, encode_tree, tree_digest
from tests.routing.forwarding.prefix.trees import SOME, conjunctions_of, filter_sets, tree_of


def _encoded(wanted: list[Filter]) -> bytes:
    return encode_tree(TreeVersion.of(tree_of(conjunctions_of(wanted)), b""))


@given(filter_sets())
@SOME
def test_a_tree_is_read_as_it_was_written(wanted: list[Filter]) -> None:
    data = _encoded(wanted)
    tree = decode_tree(data)
    assert encode_tree(tree) == data
    assert tree.version == tree_digest(data)
    assert tree.final.all()


@given(filter_sets(), st.data())
@SOME
def test_damaged_bytes_are_another_tree_or_none(wanted: list[Filter], data: st.DataObject) -> None:
    written = bytearray(_encoded(wanted))
    written[data.draw(st.integers(0, len(written) - 1))] = data.draw(st.integers(0, 255))
    with suppress(InvalidArgument):
        assert (decode_tree(bytes(written)).children[:-1] > range(len(decode_tree(bytes(written))))).all()


def _ints(*numbers: int) -> bytes:
    return b"".join(number.to_bytes(4, "little", signed=True) for number in numbers)


_POINT = ["x", [[3, False, [5, 6]]]]


@pytest.mark.parametrize(
    "content",
    [
        [],
        [[], _ints(0), _ints(1, 0)],
        [[_POINT], _ints(0), _ints(2, 0)],
        [[_POINT], _ints(0), _ints(0, 1)],
        [[_POINT], _ints(0), _ints(1)],
        [[_POINT], _ints(0, 0), _ints(2, 0, 0)],
        [[_POINT], _ints(1), _ints(1, 0)],
        [[_POINT], b"123", _ints(1, 0)],
        [[["x", [[3, False, [6, 5]]]]], _ints(0), _ints(1, 0)],
        [[["x", [[3, False, ["a"]]]]], _ints(0), _ints(1, 0)],
        [[["x", [[99, False, [1]]]]], _ints(0), _ints(1, 0)],
        [[["x", [[4, False, [["1/0", 0]]]]]], _ints(0), _ints(1, 0)],
    ],
)
def test_what_is_no_tree_is_refused(content: object) -> None:
    with pytest.raises(InvalidArgument, match="no routing tree"):
        decode_tree(zlib.compress(msgspec.msgpack.encode(content)))


def test_bytes_that_were_not_compressed_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="no routing tree"):
        decode_tree(b"no tree")
