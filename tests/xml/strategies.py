"""Random XML documents and XPath expressions over the same few names and values.

Strategies that others draw from are made once: Hypothesis validates each new one, which took longer than to draw.
"""

from __future__ import annotations

from functools import cache

from hypothesis import strategies as st

NAMES = ("a", "b", "c")
ATTRIBUTES = ("x", "y")
VALUES = ("", "1", "2", "10", "1.0", " 1 ", "-3", "one", "oneself", "it's", "1e1")


_attributes = st.dictionaries(st.sampled_from(ATTRIBUTES), st.sampled_from(VALUES), max_size=2)


@cache
@st.composite
def elements(draw: st.DrawFn, depth: int = 5) -> str:
    name = draw(st.sampled_from(NAMES))
    attributes = draw(_attributes)
    content = "".join(draw(_contents(depth)))
    written = "".join(f' {key}="{value}"' for key, value in attributes.items())
    return f"<{name}{written}>{content}</{name}>"


@cache
def _contents(depth: int) -> st.SearchStrategy[list[str]]:
    return st.lists(elements(depth - 1) | texts() if depth else texts(), max_size=4 if depth > 2 else 2)


@cache
def texts() -> st.SearchStrategy[str]:
    """Text, and the comments that separate two text nodes."""
    return st.sampled_from((*VALUES, "<!-- -->", "<![CDATA[<1>]]>"))


documents = elements

name_tests = st.sampled_from((*NAMES, "*"))
separators = st.sampled_from(("/", "/", "/", "//"))
operators = st.sampled_from(("=", "!=", "<", "<=", ">", ">="))
constants = st.sampled_from(("'1'", "1", "2", "'one'", "10", "''", "-3", '"it\'s"', "1.5"))
subjects = st.sampled_from((".", "text()", "@x", "@y", "a", "b/text()", ".//c", "a/@x"))


@cache
@st.composite
def comparisons(draw: st.DrawFn) -> str:
    subject = draw(subjects)
    if draw(st.booleans()):
        return f"{subject} {draw(operators)} {draw(constants)}"
    return f"{draw(st.sampled_from(('contains', 'starts-with')))}({subject}, {draw(st.sampled_from(_SOUGHT))})"


_SOUGHT = ("'one'", "'1'", "''", "'self'")


@cache
@st.composite
def steps(draw: st.DrawFn, depth: int) -> str:
    text = draw(name_tests)
    for _ in range(draw(st.sampled_from((0, 0, 0, 1, 1, 2)))):
        text += f"[{draw(conditions(depth - 1))}]"
    return text


@cache
@st.composite
def paths(draw: st.DrawFn, depth: int = 2) -> str:
    """A relative path."""
    text = draw(steps(depth))
    for _ in range(draw(st.sampled_from((0, 1, 1, 2)))):
        text += draw(separators) + draw(steps(depth))
    return text + draw(st.sampled_from(("", "", "", "/@x", "//@y", "/text()", "//text()")))


_UPWARD = ("parent::a", "ancestor::b", "not(ancestor::c)", "..", "self::a", "ancestor::b/@x", "../b", "ancestor::a[b]")


@cache
def conditions(depth: int = 2) -> st.SearchStrategy[str]:
    """What may stand in a predicate."""
    if depth <= 0:
        return comparisons()
    inner = st.deferred(lambda: conditions(depth - 1))
    return st.one_of(
        comparisons(),
        paths(depth),
        st.builds(".//{}".format, paths(depth)),
        st.builds("not({})".format, inner),
        st.builds("{} and ({})".format, inner, inner),
        st.builds("({} or {})".format, inner, inner),
        st.sampled_from(_UPWARD),
        st.builds("//{}".format, paths(0)),
    )


@cache
def xpaths() -> st.SearchStrategy[str]:
    """Whole expressions."""
    absolute = st.builds("{}{}".format, st.sampled_from(("/", "//")), paths())
    return st.one_of(
        absolute,
        absolute,
        paths(),
        st.builds("{} | {}".format, absolute, absolute),
        st.builds("{} and not({})".format, absolute, absolute),
        st.builds("{} {} {}".format, absolute, operators, constants),
        st.builds("contains({}, {})".format, absolute, st.sampled_from(_SOUGHT)),
    )


@cache
@st.composite
def _branching(draw: st.DrawFn, depth: int = 2) -> str:
    """Paths with branches and comparisons of values, the patterns of the literature."""
    text = draw(name_tests)
    for _ in range(draw(st.sampled_from((0, 0, 1, 1, 2)))):
        inner = comparisons() if depth == 0 or draw(st.booleans()) else _branching(depth - 1)
        text += f"[{draw(inner)}]"
    if depth and draw(st.booleans()):
        text += draw(separators) + draw(_branching(depth - 1))
    return text


conjunctive_paths = st.builds("{}{}".format, st.sampled_from(("/", "//")), _branching())


_AXES = (
    "following-sibling", "preceding-sibling", "following", "preceding", "ancestor", "ancestor-or-self",
    "descendant-or-self", "parent", "self", "descendant", "child",
)  # fmt: skip
_NODE_TESTS = (*NAMES, "*", "text()", "node()", "comment()")
_POSITIONS = ("1", "2", "last()", "position()<3", "position()=last()", "position() mod 2 = 1", "last()-1", "@x")


@cache
@st.composite
def _general_step(draw: st.DrawFn, depth: int) -> str:
    axis = draw(st.sampled_from(("", "", *(f"{each}::" for each in _AXES))))
    text = axis + draw(st.sampled_from(_NODE_TESTS))
    for _ in range(draw(st.sampled_from((0, 0, 1, 1, 2)))):
        inner = st.sampled_from(_POSITIONS)
        text += f"[{draw(inner | general_conditions(depth - 1) if depth else inner)}]"
    return text


@cache
@st.composite
def _general_path(draw: st.DrawFn, depth: int) -> str:
    text = draw(_general_step(depth))
    for _ in range(draw(st.sampled_from((0, 0, 1, 2)))):
        text += draw(separators) + draw(_general_step(depth))
    return text + draw(st.sampled_from(("", "", "", "/@x", "/@*[2]")))


@cache
@st.composite
def _numbers(draw: st.DrawFn, depth: int) -> str:
    path = _general_path(depth)
    one = draw(
        st.one_of(
            st.builds("count({})".format, path),
            st.builds("sum({})".format, path),
            st.builds("string-length({})".format, path),
            st.builds("number({})".format, path),
            st.builds("{}({})".format, st.sampled_from(("floor", "ceiling", "round")), path),
            st.sampled_from(("2", "0.5", "-1", "position()", "last()")),
        )
    )
    operator = draw(st.sampled_from(("", "", " + ", " - ", " * ", " div ", " mod ")))
    return one + (operator + draw(st.sampled_from(("1", "2", "-3", "count(*)"))) if operator else "")


@cache
@st.composite
def _texts_of(draw: st.DrawFn, depth: int) -> str:
    path = draw(_general_path(depth))
    form = draw(
        st.sampled_from(
            (
                "string({})",
                "normalize-space({})",
                "substring({}, 2)",
                "substring({}, 0, 2.5)",
                "substring-before({}, 'e')",
                "substring-after({}, '1')",
                "translate({}, 'one1', 'ONE')",
                "concat({}, 'x')",
                "local-name({})",
            )
        )
    )
    return form.format(path)


@cache
def general_conditions(depth: int = 1) -> st.SearchStrategy[str]:
    """Conditions with what XPath 1.0 has beyond tree patterns."""
    path, number, text = _general_path(depth), _numbers(depth), _texts_of(depth)
    return st.one_of(
        path,
        st.builds("{} {} {}".format, path, operators, path),
        st.builds("{} {} {}".format, number, operators, number),
        st.builds("{} {} {}".format, path, operators, number),
        st.builds("{} {} {}".format, text, st.sampled_from(("=", "!=")), text | constants),
        st.builds("contains({}, {})".format, text, text | st.sampled_from(_SOUGHT)),
        st.builds("not({})".format, path),
        st.builds("boolean({}) = {}".format, number, st.sampled_from(("true()", "false()"))),
        st.builds("({} | {})[2]".format, path, path),
        conditions(depth),
    )


general_xpaths = st.one_of(
    st.builds("//{}".format, _general_path(1)),
    st.builds("//*[{}]".format, general_conditions()),
    st.builds("//{}[{}]/{}".format, name_tests, general_conditions(), name_tests),
    st.builds("({} or {}) and not({})".format, general_conditions(), general_conditions(), general_conditions()),
    general_conditions(),
)
"""Whole expressions of XPath 1.0."""
