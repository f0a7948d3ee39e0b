"""Kernel that reads the bytes of an XML document into arrays.

It knows the documents that nearly all documents are: UTF-8 with names in ASCII, namespaces that are declared at the
document element, no document type declaration within. It stops where it sees anything else, an error among it, and has
not decided anything then: `palio.xml.document_parser` gives such a document to Expat. It leaves to its caller whether
the bytes are UTF-8, and the references in texts and values. `automaton_kernels` says what kernels are.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from palio.xml.automaton_kernels import EMPTY, Integers

# Classes of bytes.
NAME_START, NAME, SPACE, TEXT, VALUE, LEGAL = 1, 2, 4, 8, 16, 32
"""First of a name, in a name, white space; what a text, the value of an attribute, or a comment goes on with."""

# Sizes of what was read, by place.
ELEMENTS, ATTRIBUTES, TEXTS, ASIDES, NAMES, NAMESPACES = range(6)
SIZES: Final = 6

# What a document may have at most, by place.
MOST_ELEMENTS, MOST_DEPTH, MOST_ATTRIBUTES, MOST_NAMESPACES = range(4)
LIMITS: Final = 4

# Rows of the arrays.
TAG, PARENT, TEXT_START = range(3)  # of elements
OWNER, START, END, ATTRIBUTE_TAG = range(4)  # of texts, which have the first three, and of attributes
ELEMENTS_BEFORE, TEXTS_BEFORE, TARGET_END, DATA_START = range(3, 7)  # of asides, behind the same three
NAME_KIND, NAME_BEGIN, NAME_LENGTH, LAST_ELEMENT = range(4)  # of names, which are 0 of elements and 1 of attributes
PREFIX_START, PREFIX_END, URI_START, URI_END = range(4)  # of namespaces

SCANNED: Final = 0
LEFT: Final = 1
_LESS, _GREATER, _SLASH, _COLON, _EQUAL, _QUOTE, _APOSTROPHE = 60, 62, 47, 58, 61, 34, 39
_EXCLAMATION, _QUESTION, _HYPHEN, _OPEN, _CLOSE = 33, 63, 45, 91, 93


class ScanArrays(NamedTuple):
    """What a scan writes; it stops where there is no room."""

    sizes: Integers
    limits: Integers
    elements: Integers
    attributes: Integers
    texts: Integers
    asides: Integers
    names: Integers
    namespaces: Integers
    table: Integers
    """Hash table of names; its length is a power of two, and more than the room for names."""
    open_elements: Integers
    """Room for as many elements as may be open."""


def scan_document(raw: Integers, classes: Integers, at: int, arrays: ScanArrays) -> int:
    """Read a document from a place on; there is a zero behind its last byte. Returns `SCANNED`, or `LEFT`."""
    sizes, limits, elements, attributes, texts, asides, names, namespaces, table, open_elements = arrays
    most_elements = min(limits[MOST_ELEMENTS], elements.shape[1])
    most_asides = min(limits[MOST_ELEMENTS], asides.shape[1])
    most_depth = min(limits[MOST_DEPTH], len(open_elements))
    most_attributes = limits[MOST_ATTRIBUTES]
    most_namespaces = min(limits[MOST_NAMESPACES], namespaces.shape[1])
    end = len(raw) - 1
    element_count = 0
    attribute_count = 0
    text_count = 0
    aside_count = 0
    name_count = 0
    namespace_count = 0
    depth = 0
    mask = len(table) - 1
    while True:
        # Text, up to the next markup that ends it.
        first = at
        has_content = False
        has_section = False
        while True:
            mark = at
            while classes[raw[at]] & TEXT:
                at += 1
            if at > mark:
                has_content = True
            if raw[at] == _CLOSE:
                if raw[at + 1] == _CLOSE and raw[at + 2] == _GREATER:
                    return LEFT
                has_content = True
                at += 1
                continue
            if raw[at] != _LESS or raw[at + 1] != _EXCLAMATION or raw[at + 2] != _OPEN:
                break
            # <![CDATA[
            if not (raw[at + 3] == 67 and raw[at + 4] == 68 and raw[at + 5] == 65):
                return LEFT
            if not (raw[at + 6] == 84 and raw[at + 7] == 65 and raw[at + 8] == _OPEN):
                return LEFT
            has_section = True
            at += 9
            mark = at
            while raw[at] != _CLOSE or raw[at + 1] != _CLOSE or raw[at + 2] != _GREATER:
                if not classes[raw[at]] & LEGAL:
                    return LEFT
                at += 1
            if at > mark:
                has_content = True
            at += 3
        if depth == 0:
            if has_section:
                return LEFT
            for place in range(first, at):
                if not classes[raw[place]] & SPACE:
                    return LEFT
        elif has_content:
            if text_count == texts.shape[1]:
                return LEFT
            texts[OWNER, text_count] = open_elements[depth - 1]
            texts[START, text_count] = first
            texts[END, text_count] = at
            text_count += 1
        if at == end:
            if depth > 0 or element_count == 0:
                return LEFT
            sizes[ELEMENTS] = element_count
            sizes[ATTRIBUTES] = attribute_count
            sizes[TEXTS] = text_count
            sizes[ASIDES] = aside_count
            sizes[NAMES] = name_count
            sizes[NAMESPACES] = namespace_count
            return SCANNED
        if raw[at] != _LESS:
            return LEFT
        at += 1
        if raw[at] == _SLASH:
            at += 1
            if depth == 0:
                return LEFT
            depth -= 1
            number = elements[TAG, open_elements[depth]]
            begin = names[NAME_BEGIN, number]
            for place in range(names[NAME_LENGTH, number]):
                if raw[at] != raw[begin + place]:
                    return LEFT
                at += 1
            while classes[raw[at]] & SPACE:
                at += 1
            if raw[at] != _GREATER:
                return LEFT
            at += 1
            continue
        if raw[at] == _EXCLAMATION or raw[at] == _QUESTION:
            if aside_count == most_asides:
                return LEFT
            is_comment = raw[at] == _EXCLAMATION
            begin = at + 1
            if is_comment:
                if raw[at + 1] != _HYPHEN or raw[at + 2] != _HYPHEN:
                    return LEFT
                at += 3
                target_end = begin
                data_start = at
                while raw[at] != _HYPHEN or raw[at + 1] != _HYPHEN:
                    if not classes[raw[at]] & LEGAL:
                        return LEFT
                    at += 1
                if raw[at + 2] != _GREATER:
                    return LEFT
            else:
                at += 1
                if not classes[raw[at]] & NAME_START:
                    return LEFT
                while classes[raw[at]] & NAME:
                    at += 1
                target_end = at
                # xml in any case: a declaration here is an error, or not for this kernel.
                if target_end - begin == 3 and raw[begin] | 32 == 120 and raw[begin + 1] | 32 == 109:
                    return LEFT
                while classes[raw[at]] & SPACE:
                    at += 1
                data_start = at
                while raw[at] != _QUESTION or raw[at + 1] != _GREATER:
                    if at == target_end or not classes[raw[at]] & LEGAL:
                        return LEFT
                    at += 1
            asides[OWNER, aside_count] = EMPTY
            if depth > 0:
                asides[OWNER, aside_count] = open_elements[depth - 1]
            asides[START, aside_count] = begin
            asides[TARGET_END, aside_count] = target_end
            asides[DATA_START, aside_count] = data_start
            asides[END, aside_count] = at
            asides[ELEMENTS_BEFORE, aside_count] = element_count
            asides[TEXTS_BEFORE, aside_count] = text_count
            aside_count += 1
            at += 2 + is_comment
            continue
        # A start tag: its own name, and then those of its attributes.
        element = element_count
        if depth == 0 and element > 0:
            return LEFT
        if depth == most_depth or element == most_elements:
            return LEFT
        kind = 0
        own_attributes = 0
        while True:
            if not classes[raw[at]] & NAME_START:
                return LEFT
            begin = at
            digest = kind
            has_colon = False
            while True:
                if raw[at] == _COLON:
                    if has_colon or not classes[raw[at + 1]] & NAME_START:
                        return LEFT
                    has_colon = True
                elif not classes[raw[at]] & NAME:
                    break
                digest = (digest * 31 + raw[at]) & 0x3FFFFFFF
                at += 1
            length = at - begin
            is_namespace = False
            if kind == 1 and length > 4 and (length == 5 or raw[begin + 5] == _COLON):  # xmlns
                is_namespace = raw[begin] == 120 and raw[begin + 1] == 109 and raw[begin + 2] == 108
                is_namespace = is_namespace and raw[begin + 3] == 110 and raw[begin + 4] == 115
            number = EMPTY
            if not is_namespace:
                slot = (digest ^ (digest >> 11)) & mask
                while number == EMPTY and table[slot] != EMPTY:
                    number = table[slot]
                    if names[NAME_LENGTH, number] != length or names[NAME_KIND, number] != kind:
                        number = EMPTY
                    else:
                        other = names[NAME_BEGIN, number]
                        for place in range(length):
                            if raw[begin + place] != raw[other + place]:
                                number = EMPTY
                                break
                    slot = (slot + 1) & mask
                if number == EMPTY:
                    if name_count == names.shape[1]:
                        return LEFT
                    number = name_count
                    table[slot] = number
                    names[NAME_KIND, number] = kind
                    names[NAME_BEGIN, number] = begin
                    names[NAME_LENGTH, number] = length
                    names[LAST_ELEMENT, number] = EMPTY
                    name_count += 1
            if kind == 0:
                elements[TAG, element] = number
                elements[PARENT, element] = EMPTY
                if depth > 0:
                    elements[PARENT, element] = open_elements[depth - 1]
                elements[TEXT_START, element] = text_count
                element_count += 1
            else:
                while classes[raw[at]] & SPACE:
                    at += 1
                if raw[at] != _EQUAL:
                    return LEFT
                at += 1
                while classes[raw[at]] & SPACE:
                    at += 1
                quote = raw[at]
                if quote != _QUOTE and quote != _APOSTROPHE:
                    return LEFT
                at += 1
                first = at
                while True:
                    while classes[raw[at]] & VALUE:
                        at += 1
                    if raw[at] == quote:
                        break
                    if raw[at] != _QUOTE and raw[at] != _APOSTROPHE:
                        return LEFT
                    at += 1
                if is_namespace:
                    if element > 0 or namespace_count == most_namespaces:
                        return LEFT
                    namespaces[PREFIX_START, namespace_count] = begin + min(6, length)
                    namespaces[PREFIX_END, namespace_count] = begin + length
                    namespaces[URI_START, namespace_count] = first
                    namespaces[URI_END, namespace_count] = at
                    namespace_count += 1
                else:
                    own_attributes += 1
                    if names[LAST_ELEMENT, number] == element or own_attributes > most_attributes:
                        return LEFT
                    if attribute_count == attributes.shape[1]:
                        return LEFT
                    names[LAST_ELEMENT, number] = element
                    attributes[OWNER, attribute_count] = element
                    attributes[START, attribute_count] = first
                    attributes[END, attribute_count] = at
                    attributes[ATTRIBUTE_TAG, attribute_count] = number
                    attribute_count += 1
                at += 1
            mark = at
            while classes[raw[at]] & SPACE:
                at += 1
            if raw[at] == _GREATER:
                at += 1
                open_elements[depth] = element
                depth += 1
                break
            if raw[at] == _SLASH and raw[at + 1] == _GREATER:
                at += 2
                break
            if at == mark:
                return LEFT
            kind = 1
