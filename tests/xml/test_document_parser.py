"""Secure parsing of XML documents into flat arrays."""

from __future__ import annotations

import pickle
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from palio.errors import DocumentError, EventError, InvalidArgument
from palio.xml.document import NO_PARENT, ExpandedName
from palio.xml.document_parser import DocumentLimits, parse_document

XLINK = "http://www.w3.org/1999/xlink"
MOST_BYTES_PER_REFUSAL = 2 * 2**20


def test_elements_attributes_and_texts_are_arrays_in_document_order() -> None:
    document = parse_document('<a x="1" y="2">one<b z="3">two</b>three<c/></a>')
    assert [str(document.name(element)) for element in range(len(document))] == ["a", "b", "c"]
    assert list(document.parents) == [NO_PARENT, 0, 0]
    attributes = zip(document.attribute_owners, document.attribute_tags, document.attribute_values, strict=True)
    assert [(owner, document.names[tag].local, value) for owner, tag, value in attributes] == [
        (0, "x", "1"),
        (0, "y", "2"),
        (1, "z", "3"),
    ]
    assert list(zip(document.text_owners, document.texts, strict=True)) == [(0, "one"), (1, "two"), (0, "three")]


def test_a_document_knows_children_depths_and_subtrees() -> None:
    document = parse_document("<a><b><c/><d/></b><e/></a>")
    assert document.children == [[1, 4], [2, 3], [], [], []]
    assert list(document.depths) == [1, 2, 3, 3, 2]
    assert list(document.subtree_ends) == [5, 4, 3, 4, 5]


def test_the_string_value_of_an_element_is_all_text_within_it() -> None:
    document = parse_document("<a>1<b>2<c/>3<d>4</d></b>5<e>6</e>7<f/>8</a>")
    values = {document.name(each).local: document.string_value(each) for each in range(len(document))}
    assert values == {"a": "12345678", "b": "234", "c": "", "d": "4", "e": "6", "f": ""}


def test_a_path_counts_siblings_of_one_name() -> None:
    document = parse_document("<a><b/><c/><b><d/></b></a>")
    assert [document.path(each) for each in range(len(document))] == ["/a", "/a/b", "/a/c", "/a/b[2]", "/a/b[2]/d"]


def test_names_are_expanded_and_prefixes_are_forgotten() -> None:
    document = parse_document(f'<a xmlns="urn:x" xmlns:l="{XLINK}" l:href="h" id="i"><l:b xml:lang="en"/></a>')
    assert document.name(0) == ExpandedName("a", "urn:x")
    assert document.name(1) == ExpandedName("b", XLINK)
    assert [str(document.names[tag]) for tag in document.attribute_tags] == [
        f"{{{XLINK}}}href",
        "id",
        "{http://www.w3.org/XML/1998/namespace}lang",
    ]


def test_comments_and_instructions_separate_texts_and_cdata_does_not() -> None:
    document = parse_document("<a>1<!-- c -->2<?p i?>3<![CDATA[<4>]]>5&lt;&#54;</a>")
    assert document.texts == ["1", "2", "3<4>5<6"]


def test_a_long_text_is_one_text_node() -> None:
    text = "line\n" * 20_000
    assert parse_document(f"<a>{text}</a>").texts == [text]
    western = f"<?xml version='1.0' encoding='windows-1252'?><a>{'€' * 50_000}</a>".encode("windows-1252")
    assert parse_document(western).texts == ["€" * 50_000]


@pytest.mark.parametrize(
    "data",
    [
        "<a>ÿ€😀</a>",
        "<a>ÿ€😀</a>".encode(),
        "\ufeff<a>ÿ€😀</a>".encode(),
        "\ufeff<a>ÿ€😀</a>",
        "<a>ÿ€😀</a>".encode("utf-16"),
        '<?xml version="1.0" encoding="UTF-16"?><a>ÿ€😀</a>'.encode("utf-16-be", "strict").join([b"\xfe\xff", b""]),
        '<?xml version="1.0" encoding="UTF-16"?><a>ÿ€😀</a>',  # text is Unicode whatever it declares
        bytearray("<a>ÿ€😀</a>".encode()),
        memoryview("<a>ÿ€😀</a>".encode()),
    ],
)
def test_encodings_and_byte_order_marks_are_understood(data: Any) -> None:
    assert parse_document(data).texts == ["ÿ€😀"]


def test_single_byte_encodings_of_python_are_read() -> None:
    assert parse_document("<?xml version='1.0' encoding='windows-1252'?><a>€</a>".encode("cp1252")).texts == ["€"]


@pytest.mark.parametrize(
    ("data", "line", "column", "said"),
    [
        (b"", 1, 1, "no element found"),
        (b"   ", 1, 4, "no element found"),
        (b"text", 1, 1, "syntax error"),
        (b"<a>", 1, 4, "no element found"),
        (b"<a>\n <b></c></a>", 2, 7, "mismatched tag"),
        (b"<a/><b/>", 1, 5, "junk after document element"),
        (b"<a x='1' x='2'/>", 1, 10, "duplicate attribute"),
        (b"<p:a/>", 1, 1, "unbound prefix"),
        (b"<a>\x00</a>", 1, 4, "invalid token"),
        (b"<a>&#0;</a>", 1, 4, "invalid character number"),
        (b"<a>\xff</a>", 1, 4, "invalid token"),
        (b"<a>\xed\xa0\x80</a>", 1, 4, "invalid token"),  # a surrogate in UTF-8
        ("<a>é</a>".encode("utf-16")[:-3], 1, 7, "not valid UTF-16: truncated data"),
        (b"\xff\xfe<\x00a\x00>\x00\x00\xd8<\x00/\x00a\x00>\x00", 1, 4, "not valid UTF-16: illegal UTF-16 surrogate"),
        (b"<?xml version='1.0' encoding='klingon'?><a/>", 1, 31, "unknown encoding"),
        (b"<?xml version='1.0' encoding='utf-7'?><a/>", 1, 31, "multi-byte encodings are not supported"),
        ("<a>\n\ud800</a>", 2, 1, "a lone surrogate"),
    ],
)
def test_malformed_input_is_an_error_with_line_and_column(data: Any, line: int, column: int, said: str) -> None:
    with pytest.raises(DocumentError, match=said) as caught:
        parse_document(data)
    assert (caught.value.line, caught.value.column) == (line, column)
    assert f"(line {line}, column {column})" in str(caught.value)
    assert isinstance(caught.value, EventError)


def test_the_error_survives_pickling() -> None:
    with pytest.raises(DocumentError) as caught:
        parse_document("<a>")
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.line, again.column) == (str(caught.value), 1, 4)


def billion_laughs() -> str:
    entities = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))
    return f'<!DOCTYPE a [<!ENTITY l0 "lol">{entities}]><a>&l9;</a>'


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (billion_laughs(), "declares the entity 'l0'; entities are not expanded"),
        ('<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><a>&x;</a>', "declares the entity 'x'"),
        ('<!DOCTYPE a [<!ENTITY % x SYSTEM "http://127.0.0.1:1/x"> %x;]><a/>', "declares the entity 'x'"),
        ('<!DOCTYPE a SYSTEM "a.dtd"><a>&nbsp;</a>', "the entity 'nbsp' is not expanded"),
        ('<!DOCTYPE a SYSTEM "a.dtd"><a b="&nbsp;"/>', r"undefined entity \(line 1, column 28\)"),
        (
            '<!DOCTYPE a PUBLIC "p" "a.dtd" [<!ELEMENT a ANY>\n]><a b="&nbsp;"/>',
            r"undefined entity \(line 2, column 3\)",
        ),
        ("<a>&nbsp;</a>", "undefined entity"),
        ("<a>" * 100_000, "deeper than 256 levels"),
        ("<a " + " ".join(f"x{n}='1'" for n in range(257)) + "/>", "257 attributes; at most 256"),
        ("<a " + " ".join(f"xmlns:n{n}='u{n}'" for n in range(257)) + "/>", "more than 256 namespace"),
    ],
    ids=lambda value: value[:40],
)
def test_an_attack_is_refused_in_flat_memory(data: str, said: str) -> None:
    raw = data.encode()
    tracemalloc.start()
    try:
        with pytest.raises(DocumentError, match=said):
            parse_document(raw)
        assert tracemalloc.get_traced_memory()[1] < MOST_BYTES_PER_REFUSAL
    finally:
        tracemalloc.stop()


def test_comments_and_instructions_are_bounded_as_elements_are() -> None:
    limits = DocumentLimits(elements=10)
    assert len(parse_document("<a>" + "<!--x-->" * 10 + "</a>", limits).asides) == 10
    with pytest.raises(DocumentError, match="more than 10 comments and processing instructions"):
        parse_document("<a>" + "<?x?>" * 11 + "</a>", limits)
    assert parse_document("<!DOCTYPE a [<!-- no node --><?nor this?>]><!--one--><a/><?two 2?>").asides == [
        (-1, 0, 0, None, "one"),
        (-1, 1, 0, "two", "2"),
    ]


def test_elements_beyond_the_limit_are_refused_where_it_is_exceeded() -> None:
    with pytest.raises(DocumentError, match=r"more than 100 elements \(line 2, column 4\)"):
        parse_document("<a>" + "<b/>" * 98 + "\n<b><c/>", DocumentLimits(elements=100))


def test_an_external_dtd_is_never_read(tmp_path: Path) -> None:
    dtd = tmp_path / "a.dtd"
    dtd.write_text('<!ELEMENT a EMPTY><!ATTLIST a b CDATA "default"><!ENTITY x "y">')
    assert parse_document(f'<!DOCTYPE a SYSTEM "{dtd}"><a/>').attribute_values == []


def test_an_entity_reference_in_a_comment_is_no_reference() -> None:
    document = parse_document('<!DOCTYPE a SYSTEM "a.dtd"><a b="&lt;"><!-- &nbsp; --><![CDATA[&nbsp;]]></a>')
    assert document.texts == ["&nbsp;"]
    assert document.attribute_values == ["<"]


def test_a_default_of_the_internal_subset_is_no_attribute() -> None:
    assert parse_document('<!DOCTYPE a [<!ATTLIST a b CDATA "default" c CDATA "d">]><a c="e"/>').attribute_values == [
        "e"
    ]


def test_the_size_is_checked_before_anything_is_read() -> None:
    with pytest.raises(DocumentError, match=r"the document has 21 bytes, and at most 20 are allowed"):
        parse_document("<a>" + "x" * 14 + "</a>", DocumentLimits(bytes=20))


def test_limits_are_positive_integers() -> None:
    with pytest.raises(InvalidArgument, match="depth must be a positive integer, not 0"):
        DocumentLimits(depth=0)
    with pytest.raises(InvalidArgument, match="bytes or a string, not int"):
        parse_document(5)  # type: ignore[arg-type]


def test_the_deepest_document_that_is_allowed_is_parsed() -> None:
    document = parse_document("<a>" * 256 + "</a>" * 256)
    assert document.depths[255] == 256
    assert document.subtree_ends[0] == 256
