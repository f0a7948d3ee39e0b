"""JSON lines and JSON documents, valid and invalid."""

from __future__ import annotations

import gzip
import io
import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from palio.errors import InputError
from palio.events import Limits
from palio.files import json_reader, read_events, read_subscriptions
from tests.files.sample_files import Make, all_events, read_with_faults


def test_bad_lines_are_reported_and_left_out(make: Make) -> None:
    path = make("a.jsonl", b'{"x":1}\nnonsense\n\n{"x":2}\n[1]\n{"x":1,"x":2}\n{"x":"\xff"}\n{"x":3}')
    with read_events(path, on_error=(faults := []).append) as reader:  # type: ignore[var-annotated]
        (batch,) = reader
        assert [event.get("x") for event in batch] == [1, 2, 3]
        assert reader.numbers == [1, 3, 7]
        assert reader.faults == 4
    assert [str(fault).partition("a.jsonl:")[2] for fault in faults] == [
        "2: not JSON: expecting value (line 1, column 1)",
        "5: an event is a JSON object, not an array",
        "6: x: the key occurs twice in one object",
        "7: invalid UTF-8 at byte 6: invalid start byte",
    ]


def test_a_bad_line_is_raised_where_nobody_takes_it(make: Make) -> None:
    path = make("a.jsonl", b'{"x":1}\nnonsense\n')
    with pytest.raises(InputError, match=r"a\.jsonl:2: not JSON") as caught:
        all_events(path)
    assert (caught.value.source, caught.value.line) == (str(path), 2)


def test_a_line_that_is_too_long_is_reported_and_left_out(make: Make) -> None:
    long = b'{"x":"' + b"y" * 100 + b'"}'
    limits = Limits(json_bytes=50)
    for data in (b'{"x":1}\n' + long + b'\n{"x":2}\n', b'{"x":1}\n' + long, long + b'\n{"x":1}\n{"x":2}'):
        events, faults = read_with_faults(make("a.jsonl", data), limits=limits)
        assert {"x": 1} in events
        assert [reason for _, reason in faults] == ["a line of more than 50 bytes"] or len(faults) == 1


def test_a_line_larger_than_memory_is_left_out_without_being_held(make: Make) -> None:
    path = make("a.jsonl.gz", gzip.compress(b'{"x":1}\n{"x":"' + b"y" * 50_000_000 + b'"}\n{"x":2}\n', 1))
    tracemalloc.start()
    events, faults = read_with_faults(path, limits=Limits(json_bytes=2**20))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert events == [{"x": 1}, {"x": 2}]
    assert faults == [(2, "a line of more than 1,048,576 bytes")]
    assert peak < 20 * 2**20


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ('{"x":1}', [1]),
        ('[{"x":1}]', [1]),
        (' [ {"x":1} , {"x":[2]} ] ', [1, (2,)]),
        ('{"x":1}{"x":2}', [1, 2]),
        ('{"x":1}\n{"x":2}\n', [1, 2]),
        ('[{"x":"]}[{,\\"]"},{"x":"\\\\"}]', [']}[{,"]', "\\"]),
        ('[{"y":{"z":[{}]},"x":1}]', [1]),
    ],
)
def test_a_document_is_an_array_or_values_one_after_the_other(text: str, values: list[Any], make: Make) -> None:
    assert [event["x"] for event in all_events(make("a.json", text.encode()))] == values


def test_bad_elements_are_reported_by_their_line_and_left_out(make: Make) -> None:
    path = make("a.json", b'[\n{"x":1},\n5,\n"a",\n{"x" 1},\n{"x":},null, [{}], {"x":\n2}\n,{"x":1,"x":1}]')
    events, faults = read_with_faults(path)
    assert events == [{"x": 1}, {"x": 2}]
    assert [line for line, _ in faults] == [3, 4, 5, 6, 6, 6, 8]
    assert faults[0][1] == "an event is a JSON object, not a number"


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ('[{"x":1}\n', 2, "the file ends inside its array"),
        ("[", 1, "the file ends inside its array"),
        ('[{"x":1},', 1, "the file ends inside its array"),
        ('[{"x":1}\n{"x":2}]', 2, "expected a comma or ] after an element of the array"),
        ('[{"x":1},\n]', 2, "expected a value here"),
        ("[,]", 1, "expected a value here"),
        ('[{"x":1}]\n\n5', 3, "there is more after the end of the array"),
        ('\n{"x":1', 2, "the file ends inside a value that begins here"),
        ('{"x":"', 1, "the file ends inside a value that begins here"),
        ('"abc', 1, "the file ends inside a value that begins here"),
        ("}", 1, "expected a value here"),
        ('{"x":1},{"x":2}', 1, "expected a value here"),
    ],
)
def test_a_document_that_breaks_off_or_is_not_json_between_values_is_raised(
    text: str, line: int, reason: str, make: Make
) -> None:
    with pytest.raises(InputError) as caught:
        read_with_faults(make("a.json", text.encode()))
    assert (caught.value.line, caught.value.reason) == (line, reason)


def test_what_came_before_a_broken_place_is_given(make: Make) -> None:
    batches = iter(read_events(make("a.json", b'[{"x":1},{"x":2} nonsense'), batch_size=1))
    seen: list[Any] = []
    with pytest.raises(InputError):
        seen.extend(event.get("x") for batch in batches for event in batch)
    assert seen == [1, 2]


def test_a_value_that_is_too_long_is_raised(make: Make) -> None:
    limits = Limits(json_bytes=2**20)
    for data in (b'[{"x":"' + b"y" * 5_000_000, b"[[" + b"{}," * 2_000_000, b'"' + b"y" * 5_000_000):
        with pytest.raises(InputError, match="a value of more than 1,048,576 bytes"):
            all_events(make("a.json", data), limits=limits)
    with pytest.raises(InputError, match="a value nested deeper than 1,000 levels"):
        all_events(make("a.json", b"[" * 5_000_000))


VALUES = st.recursive(
    st.integers() | st.booleans() | st.none() | st.text(st.sampled_from('[]{}",\\:é\n'), max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=6,
)


@given(st.lists(VALUES, max_size=6), st.integers(1, 7), st.sampled_from([None, 1]), st.booleans())
def test_documents_are_cut_right_wherever_chunks_end(
    values: list[Any], chunk: int, indent: int | None, ascii: bool
) -> None:
    text = json.dumps(values, indent=indent, ensure_ascii=ascii).encode()

    class Trickle(io.RawIOBase):
        at = 0

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: Any) -> int:
            piece = text[self.at : self.at + chunk]
            self.at += len(piece)
            buffer[: len(piece)] = piece
            return len(piece)

    found = list(json_reader.read_values(io.BufferedReader(Trickle()), "a", 1 << 20, lambda *_: None))
    assert [json.loads(piece) for texts in found for _, piece in texts] == values
    lines = [line for texts in found for line, _ in texts]
    assert lines == sorted(lines)


@given(st.binary(max_size=40) | st.text(st.sampled_from('[]{},:" \\nx1'), max_size=30).map(str.encode))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.parametrize("format", ["jsonl", "json", "csv", "parquet", "jsonl.gz", "json.xz", "csv.zst"])
def test_any_bytes_are_events_or_input_errors(format: str, tmp_path: Path, data: bytes) -> None:
    path = tmp_path / f"any.{format}"
    path.write_bytes(data)
    try:
        read_with_faults(path)
        list(read_subscriptions(path, on_error=lambda _: None))
    except InputError as error:
        message = str(error)
    else:
        message = str(path)
    assert message.startswith(str(path))
