"""Secure parser of XML documents: one pass of Expat into flat arrays, without a tree of objects.

A document from outside is hostile until it is parsed:

- Entities are never expanded and nothing outside of the document is read. A document type declaration that names an
  external DTD is accepted and the DTD ignored; one that declares an entity, and a reference to an entity that is not
  one of XML's five, are errors. Attributes have the values that are written, never defaults of a DTD. In an attribute
  of a document with an external DTD, Expat drops a reference silently. Where such a document has references, it is
  parsed once more without its document type declaration, and then they are errors.
- Bytes, depth, elements, attributes and namespace declarations are limited (`DocumentLimits`). A limit is checked
  where it is exceeded, so that memory is bounded by the limits whatever follows.
- The whole document is given to Expat in one piece: versions before 2.6 scan a long token again for each small one.

Encodings are UTF-8, UTF-16, ISO-8859-1, ASCII, and the single-byte ones that Python knows. UTF-16 is decoded before
Expat sees it. Text in a `str` is Unicode already, and the encoding it declares is ignored.

Costs one to two microseconds an element, most of it for calls from Expat into Python. A scanner
(`palio.xml.document_scanner`) reads usual documents in a tenth of that, and leaves the others to Expat. lxml builds its
tree in a quarter, but reading the arrays from the tree would cost more than it saves.
"""

from __future__ import annotations

import re
from array import array
from dataclasses import dataclass, fields
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final, NoReturn
from xml.parsers import expat

from palio.errors import DocumentError, InvalidArgument
from palio.xml.document import NO_PARENT, Aside, Document, ExpandedName

if TYPE_CHECKING:
    from palio.xml.document_scanner import DocumentScanner

# Between namespace and local name, in the names that Expat reports: no XML document may contain it.
_SEPARATOR: Final = "\x1f"
_PREDEFINED_ENTITIES: Final = "&lt; &gt; &amp; &quot; &apos;"
_ENTITY_REFERENCE: Final = re.compile(rb"&(?!#|lt;|gt;|amp;|quot;|apos;)")
# The first bytes of UTF-16: a byte order mark, or the < that opens every document.
_UTF_16_STARTS: Final = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16", b"<\0": "utf-16-le", b"\0<": "utf-16-be"}


@dataclass(frozen=True, slots=True)
class DocumentLimits:
    """What a document may have at most."""

    bytes: int = 16 * 2**20
    depth: int = 256
    elements: int = 500_000
    attributes: int = 256
    """Of one element."""
    namespaces: int = 256
    """Namespace declarations of the whole document."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if type(value) is not int or value < 1:
                raise InvalidArgument(f"{field.name} must be a positive integer, not {value!r}")


DEFAULT_LIMITS: Final = DocumentLimits()


def parse_document(
    data: bytes | bytearray | memoryview | str,
    limits: DocumentLimits = DEFAULT_LIMITS,
    scanner: DocumentScanner | None = None,
) -> Document:
    """A document of its text; `DocumentError` with line and column where it is malformed or exceeds a limit."""
    if not isinstance(data, bytes | bytearray | memoryview | str):
        raise InvalidArgument(f"an XML document is bytes or a string, not {type(data).__name__}")
    size = len(data) if isinstance(data, str) else memoryview(data).nbytes
    if size > limits.bytes:
        raise DocumentError(f"the document has {size:,} bytes, and at most {limits.bytes:,} are allowed")
    raw, encoding = _encoded(data)
    if scanner is not None:
        scanned = scanner.scan(raw, encoding, limits)
        if scanned is not None:
            return scanned
    builder = _DocumentBuilder(limits)
    document = builder.parse(raw, encoding)
    if builder.external_dtd is not None and _ENTITY_REFERENCE.search(raw):
        return _DocumentBuilder(limits).parse(_without(raw, builder.external_dtd), encoding)
    return document


def _encoded(data: bytes | bytearray | memoryview | str) -> tuple[bytes, str | None]:
    """The document in an encoding that has ASCII's characters, and which that is if the document does not say it."""
    if isinstance(data, str):
        try:
            return data.encode(), "utf-8"
        except UnicodeEncodeError as error:
            raise _encoding_error(
                f"a lone surrogate, {data[error.start]!r}, is no character", data[: error.start]
            ) from None
    raw = bytes(data)
    wide = _UTF_16_STARTS.get(raw[:2])
    if wide is None:
        return raw, None
    try:
        return raw.decode(wide).encode(), "utf-8"
    except UnicodeDecodeError as error:
        before = raw[: error.start].decode(wide, "replace")
        raise _encoding_error(f"the document is not valid UTF-16: {error.reason}", before) from None


def _encoding_error(reason: str, before: str) -> DocumentError:
    """An error after some text."""
    return DocumentError(reason, before.count("\n") + 1, len(before) - before.rfind("\n"))


def _without(raw: bytes, part: slice) -> bytes:
    """The document with a part of it blank, so that lines and columns stay."""
    return raw[: part.start] + re.sub(rb"[^\n]", b" ", raw[part]) + raw[part.stop :]


class _DocumentBuilder:
    """Handlers of Expat's events and the arrays that they fill."""

    def __init__(self, limits: DocumentLimits) -> None:
        self._limits = limits
        self._numbers = _NameNumbers()
        self._tags, self._parents, self._text_starts = array("i"), array("i"), array("i")
        self._attribute_owners, self._attribute_tags = array("i"), array("i")
        self._attribute_values: list[str] = []
        self._text_owners = array("i")
        self._texts: list[str] = []
        self._asides: list[Aside] = []
        self._is_in_dtd = False
        self._namespaces = 0
        self._raw = b""
        self._dtd_start = -1
        self.external_dtd: slice | None = None
        """Where the document type declaration is, if it names an external DTD."""

    def parse(self, raw: bytes, encoding: str | None) -> Document:
        self._parser = parser = expat.ParserCreate(encoding, _SEPARATOR)
        parser.ordered_attributes = True
        parser.specified_attributes = True  # no defaults of a DTD
        parser.buffer_text = True
        # Room for every text node, which is handed over in one piece then. A byte has at most three in UTF-8.
        parser.buffer_size = 3 * len(raw) + 1
        self._install_handlers()
        self._raw = raw
        try:
            parser.Parse(raw, True)
        except expat.ExpatError as error:
            reason = f"the XML document is not well-formed: {expat.errors.messages[error.code]}"
            raise DocumentError(reason, error.lineno, error.offset + 1) from None
        except (LookupError, ValueError) as error:  # of Python's codecs, for an encoding that Expat does not know
            self._refuse(f"the encoding cannot be read: {error}")
        finally:
            del self._parser  # the handlers refer to it, and it to them
        return Document(
            names=[_expanded(name) for name in self._numbers],
            tags=self._tags,
            parents=self._parents,
            attribute_owners=self._attribute_owners,
            attribute_tags=self._attribute_tags,
            attribute_values=self._attribute_values,
            text_owners=self._text_owners,
            texts=self._texts,
            text_starts=self._text_starts,
            asides=self._asides,
        )

    def _install_handlers(self) -> None:
        parser = self._parser
        parser.StartElementHandler, parser.EndElementHandler, parser.CharacterDataHandler = self._element_handlers()
        parser.StartNamespaceDeclHandler = self._declare_namespace
        # Expat hands over the text before a comment or processing instruction first: they end a text node.
        parser.CommentHandler = partial(self._add_aside, None)
        parser.ProcessingInstructionHandler = self._add_aside
        parser.StartDoctypeDeclHandler, parser.EndDoctypeDeclHandler = self._start_dtd, self._end_dtd
        parser.EntityDeclHandler = self._refuse_entity
        parser.SkippedEntityHandler = self._refuse_reference
        parser.ExternalEntityRefHandler = self._refuse_external_entity

    def _element_handlers(self) -> tuple[Any, Any, Any]:
        """The handlers of start tags, end tags and text.

        They run for every node of a document: all that they use is local to this function.
        """
        most_depth, most_elements, most_attributes = (
            self._limits.depth,
            self._limits.elements,
            2 * self._limits.attributes,  # a name and a value each
        )
        stack = self._stack = [NO_PARENT]
        push, pop = stack.append, stack.pop
        numbers, tags, texts = self._numbers, self._tags, self._texts
        add_tag, add_parent, add_text_start = tags.append, self._parents.append, self._text_starts.append
        add_owner, add_name = self._attribute_owners.append, self._attribute_tags.append
        add_value, add_text, add_text_owner = self._attribute_values.append, texts.append, self._text_owners.append

        def start(name: str, attributes: list[str]) -> None:
            element = len(tags)
            if len(stack) > most_depth or element == most_elements or len(attributes) > most_attributes:
                self._refuse_size(len(stack), len(attributes))
            add_tag(numbers[name])
            add_parent(stack[-1])
            add_text_start(len(texts))
            push(element)
            if attributes:
                for place in range(0, len(attributes), 2):
                    add_owner(element)
                    add_name(numbers[attributes[place]])
                    add_value(attributes[place + 1])

        def end(name: str) -> None:
            pop()

        def text(data: str) -> None:
            add_text(data)
            add_text_owner(stack[-1])

        return start, end, text

    def _add_aside(self, target: str | None, data: str) -> None:
        if self._is_in_dtd:
            return  # what stands there is no node of the document
        if len(self._asides) == self._limits.elements:
            self._refuse(f"the document has more than {self._limits.elements:,} comments and processing instructions")
        self._asides.append(Aside(self._stack[-1], len(self._tags), len(self._texts), target, data))

    def _refuse_size(self, depth: int, attributes: int) -> NoReturn:
        """Refuse a start tag that exceeds one of the limits."""
        limits = self._limits
        if depth > limits.depth:
            self._refuse(f"elements are nested deeper than {limits.depth:,} levels")
        if attributes > 2 * limits.attributes:
            self._refuse(f"an element has {attributes // 2:,} attributes; at most {limits.attributes:,} are allowed")
        self._refuse(f"the document has more than {limits.elements:,} elements")

    def _start_dtd(self, name: str, system: str | None, public: str | None, has_internal_subset: bool) -> None:
        self._is_in_dtd = True
        # Expat is behind the identifiers, or at the end of the declaration.
        if system is not None:
            self._dtd_start = self._raw.rfind(b"<!DOCTYPE", 0, self._parser.CurrentByteIndex)

    def _end_dtd(self) -> None:
        self._is_in_dtd = False
        if self._dtd_start >= 0:
            self.external_dtd = slice(self._dtd_start, self._parser.CurrentByteIndex + len(">"))

    def _declare_namespace(self, prefix: str, uri: str) -> None:
        self._namespaces += 1
        if self._namespaces > self._limits.namespaces:
            self._refuse(f"the document has more than {self._limits.namespaces:,} namespace declarations")

    def _refuse_entity(self, name: str, is_parameter_entity: bool, *_: Any) -> None:
        self._refuse(f"the document declares the entity {name!r}; entities are not expanded, write out their text")

    def _refuse_reference(self, name: str, is_parameter_entity: bool) -> None:
        self._refuse(
            f"the entity {name!r} is not expanded; write the character itself, a character reference, or one of "
            f"{_PREDEFINED_ENTITIES}"
        )

    def _refuse_external_entity(self, context: str, base: Any, system: Any, public: Any) -> int:
        self._refuse("the document refers to an external entity, which is never read")

    def _refuse(self, reason: str) -> NoReturn:
        raise DocumentError(reason, self._parser.CurrentLineNumber, self._parser.CurrentColumnNumber + 1)


class _NameNumbers(dict[str, int]):
    """Numbers of names in the order in which they first occur."""

    def __missing__(self, name: str) -> int:
        number = self[name] = len(self)
        return number


@lru_cache(4_096)
def _expanded(name: str) -> ExpandedName:
    namespace, _, local = name.rpartition(_SEPARATOR)
    return ExpandedName(local, namespace)
