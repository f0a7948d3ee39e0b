"""Fast reader of usual XML documents: one kernel over the bytes (`palio.xml.scan_kernels`).

Expat calls Python for every element, which takes most of the time of a document. The kernel fills the arrays itself,
and texts and values stay where they are in the bytes until somebody asks for them. What it does not know, and all that
is not well-formed, is left to Expat, which alone says what is wrong with a document.
"""

from __future__ import annotations

import re
import threading
from array import array
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, overload

import numpy as np

from palio.xml import scan_kernels
from palio.xml.automaton_kernels import EMPTY
from palio.xml.document import XML_NAMESPACE, Aside, Document, ExpandedName
from palio.xml.scan_kernels import LEGAL, NAME, NAME_START, SPACE, TEXT, VALUE, ScanArrays

if TYPE_CHECKING:
    from palio.xml.document_parser import DocumentLimits

_NAME: Final = rb"[A-Za-z_][A-Za-z0-9._-]*"
_PROLOG: Final = re.compile(
    rb"""(?:\xef\xbb\xbf)?
    (?:<\?xml[ \t\n]+version[ ]?=[ ]?(?:"1\.0"|'1\.0')
        (?:[ \t\n]+encoding[ ]?=[ ]?(?:"([A-Za-z][A-Za-z0-9._-]*)"|'([A-Za-z][A-Za-z0-9._-]*)'))?
        (?:[ \t\n]+standalone[ ]?=[ ]?(?:"yes"|'yes'|"no"|'no'))?
    [ \t\n]*\?>)?[ \t\n]*
    (?:<!DOCTYPE[ \t\n]+"""
    + _NAME
    + rb"""
        (?:[ \t\n]+(?:SYSTEM|PUBLIC[ \t\n]+"[A-Za-z0-9 \n()+,./:=?;!*\#@$_%'-]*")[ \t\n]+"[ !\#-~]*")?
    [ \t\n]*>)?""",
    re.VERBOSE,
)
_UNKNOWN_REFERENCE: Final = re.compile(rb"&(?!(?:lt|gt|amp|quot|apos|#[0-9]{1,7}|#x[0-9A-Fa-f]{1,6});)")
_CHARACTER_REFERENCE: Final = re.compile(rb"&#(?:x([0-9A-Fa-f]+)|([0-9]+));")
_NO_CHARACTERS: Final = (b"\xef\xbf\xbe", b"\xef\xbf\xbf")  # U+FFFE and U+FFFF
_RESERVED_NAMESPACES: Final = (XML_NAMESPACE, "http://www.w3.org/2000/xmlns/")
_ENTITIES: Final = {"lt": "<", "gt": ">", "amp": "&", "quot": '"', "apos": "'"}
_TO_EXPAND: Final = re.compile(r"<!\[CDATA\[(.*?)\]\]>|&(?:#x([0-9A-Fa-f]+)|#([0-9]+)|([a-z]+));", re.DOTALL)

_MAX_CHARACTER_REFERENCES: Final = 4_096  # beyond it Expat is faster
_MAX_NAMES: Final = 1_024
_MAX_KNOWN_NAMES: Final = 4_096  # of one namespace, of all documents
_TABLE_SLOTS: Final = 4 * _MAX_NAMES
_MAX_NAMESPACES: Final = 256
_MAX_DEPTH: Final = 1_024
_FIRST_ROOM: Final = 65_536
_MAX_BYTES: Final = 2**31 - 2  # places are numbers of 32 bits
_MAX_KEPT_BYTES: Final = 2**20  # of a document whose arrays are kept for the next one
# The fewest bytes that each takes: <a/> · x="" beside a space · a text and the tag before the next · <?a?>
_ELEMENT_BYTES, _ATTRIBUTE_BYTES, _TEXT_BYTES, _ASIDE_BYTES = 4, 5, 4, 5


def _classes() -> np.ndarray[Any, np.dtype[np.uint8]]:
    """What each byte is, for the kernel."""
    classes = np.zeros(256, np.uint8)
    for byte in range(256):
        is_legal = byte >= ord(" ") or byte in b"\t\n"
        is_letter = bytes((byte,)).isalpha() or byte == ord("_")
        classes[byte] = (
            LEGAL * is_legal
            | TEXT * (is_legal and byte not in b"<]")
            | VALUE * (is_legal and byte not in b"<\"'")
            | SPACE * (byte in b" \t\n")
            | NAME_START * is_letter
            | NAME * (is_letter or byte in b"0123456789.-")
        )
    return classes


_CLASSES: Final = _classes()


class DocumentScanner:
    """Reads documents by a kernel, `scan_document` as it stands or compiled."""

    def __init__(self, kernel: Callable[..., int]) -> None:
        self._kernel = kernel
        self._kept = _KeptArrays()

    def scan(self, raw: bytes, encoding: str | None, limits: DocumentLimits) -> Document | None:
        """The document of some bytes, or None where it is left to Expat.

        Without an encoding, that is the one that the document declares.
        """
        if b"\r" in raw:
            raw = raw.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        prolog = _PROLOG.match(raw)
        assert prolog is not None  # it may be empty
        if encoding is None and (prolog[1] or prolog[2] or b"utf-8").lower() != b"utf-8":
            return None
        if len(raw) > _MAX_BYTES or not (_has_known_references(raw) and _has_characters(raw)):
            return None
        arrays = self._arrays_for(len(raw))
        padded = np.frombuffer(raw + b"\0", np.uint8)
        arrays.limits[:] = limits.elements, limits.depth, limits.attributes, limits.namespaces
        if self._kernel(padded, _CLASSES, prolog.end(), arrays):
            return None
        return _document(raw, arrays)

    def _arrays_for(self, size: int) -> ScanArrays:
        """Room for whatever so many bytes can have; pages of it that nothing is written to take no memory."""
        kept = self._kept
        if size <= kept.size:
            kept.arrays.table[:] = EMPTY
            return kept.arrays
        room = max(2 * size, _FIRST_ROOM) if size <= _MAX_KEPT_BYTES else size
        arrays = ScanArrays(
            sizes=np.zeros(scan_kernels.SIZES, np.int64),
            limits=np.zeros(scan_kernels.LIMITS, np.int64),
            elements=np.empty((3, room // _ELEMENT_BYTES + 1), np.int32),
            attributes=np.empty((4, room // _ATTRIBUTE_BYTES + 1), np.int32),
            texts=np.empty((3, room // _TEXT_BYTES + 1), np.int32),
            asides=np.empty((7, room // _ASIDE_BYTES + 1), np.int32),
            names=np.empty((4, _MAX_NAMES), np.int32),
            namespaces=np.empty((4, _MAX_NAMESPACES), np.int32),
            table=np.full(_TABLE_SLOTS, EMPTY, np.int32),
            open_elements=np.empty(_MAX_DEPTH, np.int32),
        )
        if size <= _MAX_KEPT_BYTES:
            kept.size, kept.arrays = room, arrays
        return arrays


class _KeptArrays(threading.local):
    """Arrays for documents of up to a size, of each thread: kernels release the GIL."""

    size = -1
    arrays: ScanArrays


def _has_known_references(raw: bytes) -> bool:
    """Whether all references are to characters, or to the five entities of XML."""
    if b"&" not in raw:
        return True
    if raw.count(b"&#") > _MAX_CHARACTER_REFERENCES or _UNKNOWN_REFERENCE.search(raw):
        return False
    for found in _CHARACTER_REFERENCE.finditer(raw):
        hexadecimal, decimal = found.groups()
        number = int(hexadecimal, 16) if hexadecimal else int(decimal)
        is_character = number >= 0x20 or number in (9, 10, 13)
        if not is_character or 0xD800 <= number < 0xE000 or number in (0xFFFE, 0xFFFF) or number > 0x10FFFF:
            return False
    return True


def _has_characters(raw: bytes) -> bool:
    """Whether bytes that are no control characters are UTF-8."""
    if raw.isascii():
        return True
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return not any(each in raw for each in _NO_CHARACTERS)


def _document(raw: bytes, arrays: ScanArrays) -> Document | None:
    """The document of what a kernel has read; None where its namespaces are not usual ones."""
    elements, attributes, texts, asides, names, namespaces = arrays.sizes.tolist()
    prefixes = _namespaces(raw, arrays.namespaces[:, :namespaces].T.tolist())
    if prefixes is None:
        return None
    expanded = _names(raw, arrays.names[:3, :names].T.tolist(), prefixes)
    if expanded is None:
        return None
    tags, attribute_tags = arrays.elements[scan_kernels.TAG, :elements], arrays.attributes[3, :attributes]
    # The name of an element and that of an attribute may be one, by which they become one number.
    numbers: dict[ExpandedName, int] = {}
    renumbering = [numbers.setdefault(name, len(numbers)) for name in expanded]
    if len(numbers) < len(expanded):
        renumbered = np.array(renumbering, np.int32)
        tags, attribute_tags = renumbered[tags], renumbered[attribute_tags]
    return Document(
        names=list(numbers),
        tags=_integers(tags),
        parents=_integers(arrays.elements[scan_kernels.PARENT, :elements]),
        attribute_owners=_integers(arrays.attributes[scan_kernels.OWNER, :attributes]),
        attribute_tags=_integers(attribute_tags),
        attribute_values=_Pieces(raw, arrays.attributes[1:3, :attributes], _value),
        text_owners=_integers(arrays.texts[scan_kernels.OWNER, :texts]),
        texts=_Pieces(raw, arrays.texts[1:3, :texts], _text),
        text_starts=_integers(arrays.elements[scan_kernels.TEXT_START, :elements]),
        asides=[_aside(raw, *each) for each in arrays.asides[:, :asides].T.tolist()] if asides else [],
    )


def _integers(values: np.ndarray[Any, np.dtype[np.int32]]) -> array[int]:
    integers = array("i")
    integers.frombytes(values.tobytes())
    return integers


def _namespaces(raw: bytes, declarations: list[list[int]]) -> dict[bytes, str] | None:
    """The namespaces by their prefixes; None where there is one that is better left to Expat."""
    prefixes = {b"": "", b"xml": XML_NAMESPACE}
    seen = set()
    for start, end, uri_start, uri_end in declarations:
        prefix, uri = raw[start:end], raw[uri_start:uri_end].decode()
        is_unusual = prefix in (b"xml", b"xmlns") or uri in _RESERVED_NAMESPACES or (prefix and not uri)
        if is_unusual or prefix in seen or any(each in uri for each in "&\t\n"):
            return None
        seen.add(prefix)
        prefixes[prefix] = uri
    return prefixes


def _names(raw: bytes, places: list[list[int]], prefixes: dict[bytes, str]) -> list[ExpandedName] | None:
    """The names of elements and attributes; None where a prefix is unknown, or two attributes would be one."""
    names = []
    # Attributes without a prefix are in no namespace, whatever the default is.
    of_elements, of_attributes = _names_in(prefixes[b""]), _names_in("")
    attributes = set()
    for kind, start, length in places:
        qualified = raw[start : start + length]
        if b":" not in qualified:
            names.append((of_attributes if kind else of_elements)[qualified])
            continue
        prefix, _, local = qualified.partition(b":")
        if prefix not in prefixes:
            return None
        name = _names_in(prefixes[prefix])[local]
        if kind:
            if name in attributes:
                return None
            attributes.add(name)
        names.append(name)
    return names


class _ExpandedNames(dict[bytes, ExpandedName]):
    """The names in one namespace, by what is written."""

    def __init__(self, namespace: str) -> None:
        super().__init__()
        self._namespace = namespace

    def __missing__(self, local: bytes) -> ExpandedName:
        if len(self) >= _MAX_KNOWN_NAMES:
            self.clear()
        name = self[local] = ExpandedName(local.decode(), self._namespace)
        return name


_names_in = lru_cache(64)(_ExpandedNames)


def _aside(
    raw: bytes, owner: int, start: int, end: int, elements: int, texts: int, target_end: int, data_start: int
) -> Aside:
    target = raw[start:target_end].decode() or None
    return Aside(owner, elements, texts, target, raw[data_start:end].decode())


class _Pieces(Sequence[str]):
    """Texts or values of attributes, each read from the bytes of the document when it is asked for."""

    __slots__ = ("_ends", "_raw", "_read", "_starts")

    def __init__(self, raw: bytes, places: np.ndarray[Any, np.dtype[np.int32]], read: Callable[[str], str]) -> None:
        self._raw = raw
        self._starts, self._ends = _integers(places[0]), _integers(places[1])
        self._read = read

    def __len__(self) -> int:
        return len(self._starts)

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> list[str]: ...
    def __getitem__(self, place: int | slice) -> str | list[str]:
        if isinstance(place, slice):
            return [self[each] for each in range(*place.indices(len(self)))]
        return self._read(self._raw[self._starts[place] : self._ends[place]].decode())


def _text(piece: str) -> str:
    return _TO_EXPAND.sub(_expand, piece) if "&" in piece or "<" in piece else piece


def _value(piece: str) -> str:
    if "\n" in piece or "\t" in piece:
        piece = piece.replace("\n", " ").replace("\t", " ")
    return _TO_EXPAND.sub(_expand, piece) if "&" in piece else piece


def _expand(found: re.Match[str]) -> str:
    section, hexadecimal, decimal, entity = found.groups()
    if section is not None:
        return section
    if entity is not None:
        return _ENTITIES[entity]
    return chr(int(hexadecimal, 16) if hexadecimal else int(decimal))
