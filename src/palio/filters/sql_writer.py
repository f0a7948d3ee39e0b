"""SQL writer: filters, expressions, literals and attribute names as SQL that parses back to the same object.

A set of values is written with the comparisons a person would use. A comparison in SQL applies to several kinds at
once (`x = '10'` also accepts the number 10), so the text is checked against its meaning, and where that is not exactly
the set, each kind is written separately behind a `typeof(x) = …` guard. Operators of expressions are written in
brackets, so that no reader needs the table of precedences.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from functools import lru_cache
from math import isinf, isnan
from typing import Final

from palio.events.names import join_path, split_path
from palio.events.values import MICROS_PER_DAY, MIN_INT64, Scalar
from palio.filters.comparisons import (
    Term,
    comparison_terms,
    day_beginning,
    equal_to_any,
    excluded_values,
    values_satisfying,
)
from palio.filters.expressions.ast import Array, Attribute, Call, Expression, Literal, Micros, Months, walk
from palio.filters.kinds import NUMBERS, Kind
from palio.filters.like import LikePattern
from palio.filters.tree import And, Leaf, Node, Or, Residual, domain_of
from palio.filters.value_predicates import Computed, Like, Rlike, Test, XPath
from palio.filters.value_sets import (
    ANY_VALUE,
    NO_VALUE,
    NULLS,
    PRESENT,
    STRINGS,
    Intervals,
    ValueSet,
    after_prefix,
    union_of,
)

# The results of typeof().
TYPE_NAMES: Final[dict[Kind, str]] = {
    Kind.BOOLEAN: "boolean",
    Kind.INTEGER: "bigint",
    Kind.DECIMAL: "decimal",
    Kind.FLOAT: "double",
    Kind.STRING: "string",
    Kind.DATE: "date",
    Kind.TIMESTAMP: "timestamp",
    Kind.BYTES: "binary",
}
# SQL has one NULL; these distinguish a null value from a missing attribute.
NULL_NAMES: Final[dict[Kind, str]] = {Kind.NULL: "void", Kind.MISSING: "missing"}


def to_sql(node: Node, timezone: str = "UTC") -> str:
    """A tree as SQL, to be read in a time zone."""
    return node_to_sql(node, timezone)[0]


def node_to_sql(node: Node, timezone: str) -> tuple[str, int]:
    """A tree as SQL, with its binding: 0 for an atom or comparison, 1 for AND, 2 for OR."""
    match node:
        case Leaf(attribute, values):
            return leaf_to_sql(attribute, values, timezone)
        case Residual(expression, wants, own):
            return _in_zone(condition_to_sql(expression, wants), own, timezone), 0
        case And(children) | Or(children):
            return join_sql(node, [node_to_sql(child, timezone) for child in children])


def join_sql(node: And | Or, parts: list[tuple[str, int]]) -> tuple[str, int]:
    """An AND or OR of texts that are written already."""
    return _join(" AND ", 1, parts, "TRUE") if isinstance(node, And) else _join(" OR ", 2, parts, "FALSE")


def _join(word: str, binding: int, parts: list[tuple[str, int]], empty: str) -> tuple[str, int]:
    if not parts:
        return empty, 0
    if len(parts) == 1:
        return parts[0]
    return word.join(text if loose <= binding else f"({text})" for text, loose in parts), binding


def leaf_to_sql(attribute: str, values: ValueSet, timezone: str = "UTC") -> tuple[str, int]:
    """The predicate that an attribute is in a set of values, with its binding."""
    return values_to_sql(name_to_sql(attribute), values, timezone)


def values_to_sql(name: str, values: ValueSet, timezone: str = "UTC") -> tuple[str, int]:
    """The predicate that an SQL expression is in a set of values, with its binding."""
    parts = ValueSet(values.parts)
    tests = sorted(_test_to_sql(name, test, timezone) for test in values.tests)  # equal sets have equal texts
    # LIKE 'ab%c' alone already says that the string starts with 'ab'.
    if tests and parts == implied_by_tests(values.tests):
        return _join(" AND ", 1, [(text, 0) for text in tests], "")
    return _join(" AND ", 1, [_plain_to_sql(name, parts, timezone), *((text, 0) for text in tests)], "")


def implied_by_tests(tests: Iterable[Test]) -> ValueSet:
    """The intersection of the domains of tests: the intervals that parsing them back gives."""
    total = ANY_VALUE
    for test in tests:
        total = ValueSet(total.intersect(domain_of(test)).parts)
    return total


def _in_zone(condition: str, own: str, timezone: str) -> str:
    """A computed condition in the context of a zone; one of another zone is wrapped."""
    return condition if own == timezone else f"in_timezone({literal_to_sql(own)}, {condition})"


def _test_to_sql(name: str, test: Test, timezone: str) -> str:
    match test.pattern:
        case Like(pattern):
            word = "ILIKE" if pattern.ignore_case else "LIKE"
            return f"{name} {'' if test.wanted else 'NOT '}{word} {literal_to_sql(pattern.sql)}"
        case Rlike(regex):
            return f"{name} {'' if test.wanted else 'NOT '}RLIKE {literal_to_sql(regex.text)}"
        case XPath(xpath):
            return f"{'' if test.wanted else 'NOT '}xpath_boolean({name}, {literal_to_sql(xpath.text)})"
        case Computed(expression, wants, own):
            return _in_zone(condition_to_sql(expression, wants), own, timezone)
    raise TypeError(test.pattern)


@dataclass(frozen=True)
class _Written:
    """SQL about one attribute, its binding, and the values it accepts when parsed back."""

    text: str
    binding: int
    values: ValueSet


@lru_cache(maxsize=4096)  # sets such as "any number" recur for many attributes
def _plain_to_sql(name: str, wanted: ValueSet, timezone: str) -> tuple[str, int]:
    if wanted == PRESENT:
        return f"{name} IS NOT NULL", 0
    if wanted == ANY_VALUE:
        return "TRUE", 0
    # A set of most kinds is written as the negation of the rest: (…) IS NOT TRUE also accepts null and missing.
    absent = _nulls_to_sql(name, wanted)
    left_out = wanted.complement()
    if absent and _kinds_in(left_out) < _kinds_in(wanted):
        if left_out == ValueSet.kinds(Kind.MISSING):
            return f"typeof({name}) <> 'missing'", 0
        return f"({_plain_to_sql(name, left_out, timezone)[0]}) IS NOT TRUE", 0
    left_out = PRESENT.intersect(left_out)
    if not absent and _kinds_in(left_out) < _kinds_in(wanted):
        return f"{name} IS NOT NULL AND {_all_but(name, left_out, timezone)}", 1
    pieces = list(absent)
    total = pieces[0].values if pieces else NO_VALUE
    for group in _GROUPS:
        # What earlier groups wrote may already accept all that is wanted of this one.
        if any(total.parts[kind] != wanted.parts[kind] for kind in group):
            pieces.extend(_write_group(name, group, wanted, timezone))
            total = union_of([piece.values for piece in pieces]) or NO_VALUE
    # Checked against the meaning of the text: if the pieces accept too much or too little, each kind gets a guard.
    if any(total.parts[kind] != wanted.parts[kind] for kind in TYPE_NAMES):
        pieces = list(absent)
        pieces += [_guarded(name, kind, wanted) for kind in TYPE_NAMES if not wanted.parts[kind].is_empty]
    return _join(" OR ", 2, [(piece.text, piece.binding) for piece in pieces], "FALSE")


def _all_but(name: str, left_out: ValueSet, timezone: str) -> str:
    kinds = [kind for kind in TYPE_NAMES if not left_out.parts[kind].is_empty]
    if len(kinds) == 1 and left_out.parts[kinds[0]].is_full:
        return f"typeof({name}) <> '{TYPE_NAMES[kinds[0]]}'"
    return f"({_plain_to_sql(name, left_out, timezone)[0]}) IS NOT TRUE"


def _nulls_to_sql(name: str, wanted: ValueSet) -> list[_Written]:
    """Predicates on null and missing, which SQL does not distinguish."""
    kinds = [kind for kind in NULL_NAMES if not wanted.parts[kind].is_empty]
    if len(kinds) == 1:
        return [_Written(f"typeof({name}) = '{NULL_NAMES[kinds[0]]}'", 0, ValueSet.kinds(*kinds))]
    return [_Written(f"{name} IS NULL", 0, NULLS)] if kinds else []


def _kinds_in(values: ValueSet) -> int:
    return sum(not part.is_empty for part in values.parts)


# Strings come first: their literals apply to other kinds too, which may then need no text of their own.
_GROUPS: Final[tuple[tuple[Kind, ...], ...]] = (
    (Kind.STRING,),
    (Kind.INTEGER, Kind.DECIMAL, Kind.FLOAT),
    (Kind.DATE, Kind.TIMESTAMP),
    (Kind.BOOLEAN,),
    (Kind.BYTES,),
)


def _write_group(name: str, group: tuple[Kind, ...], wanted: ValueSet, timezone: str) -> Iterator[_Written]:
    """A group of kinds in one text, by the first kind whose literals express the wanted values of all of them."""
    for written in _attempts(name, group, wanted, timezone):
        if written is not None and all(
            written.values.parts[each] == wanted.parts[each] or each not in group for each in TYPE_NAMES
        ):
            # A literal of one kind may also accept values of kinds outside the group, which must be wanted too.
            leaks = any(
                not wanted.parts[each].covers(written.values.parts[each]) for each in TYPE_NAMES if each not in group
            )
            if not leaks:
                yield written
                return
    for kind in group:
        if not wanted.parts[kind].is_empty:
            yield _guarded(name, kind, wanted)


def _attempts(name: str, group: tuple[Kind, ...], wanted: ValueSet, timezone: str) -> Iterator[_Written | None]:
    """Candidate texts of a group, the most readable first."""
    for kind in (Kind.DECIMAL, Kind.FLOAT) if Kind.FLOAT in group else group:
        if kind is Kind.TIMESTAMP:  # d > DATE'…' covers dates and timestamps, which neither kind's own cuts express
            yield _write(name, kind, wanted.parts[kind], timezone, lambda literal: _day_at(literal, timezone))
        yield _write(name, kind, wanted.parts[kind], timezone)


def _day_at(literal: Scalar, timezone: str) -> Scalar:
    """The date that begins at a timestamp; the timestamp itself where none does."""
    return day_beginning(literal, timezone) or literal if isinstance(literal, datetime) else literal


def _guarded(name: str, kind: Kind, wanted: ValueSet) -> _Written:
    guard = f"typeof({name}) = '{TYPE_NAMES[kind]}'"
    values = ValueSet.of({kind: wanted.parts[kind]})
    if wanted.parts[kind].is_full:
        return _Written(guard, 0, values)
    written = _write(name, kind, wanted.parts[kind], "UTC")  # within one kind the zone does not matter
    assert written is not None
    text = f"({written.text})" if written.binding == 2 else written.text
    return _Written(f"{guard} AND {text}", 1, values)


def _write(
    name: str, kind: Kind, part: Intervals, timezone: str, as_literal: Callable[[Scalar], Scalar] = lambda value: value
) -> _Written | None:
    """The part of one kind as comparisons; None where no comparison expresses it."""
    if part.is_empty:
        return None
    if part.is_full:
        return _write_all(name, kind)
    if kind is Kind.BOOLEAN:
        truth = part.contains(1)
        return _Written(name if truth else f"NOT {name}", 0, values_satisfying([[("=", truth)]]))
    left_out = excluded_values(kind, part)
    if left_out is not None:
        left_out = [as_literal(each) for each in left_out]
        lists = [(_listed(name, "<>", "NOT IN", alike), 0) for alike in _in_lists(left_out)]
        return _Written(
            *_join(" AND ", 1, lists, ""), values_satisfying([[("<>", each) for each in left_out]], timezone)
        )
    if kind is Kind.STRING and (patterns := _patterns_left_out(part)):
        unlike = [(f"{name} NOT LIKE {literal_to_sql(pattern.sql)}", 0) for pattern in patterns]
        return _Written(*_join(" AND ", 1, unlike, ""), ValueSet.of({kind: part}))
    terms = [[(operator, as_literal(each)) for operator, each in term] for term in comparison_terms(kind, part)]
    points = [term[0][1] for term in terms if term[0][0] == "="]
    others = [term for term in terms if term[0][0] != "="]
    pieces = [(_listed(name, "=", "IN", alike), 0) for alike in _in_lists(points)]
    meant = [equal_to_any(alike, timezone).true for alike in _in_lists(points)]
    for term in others:
        start = _prefix(term) if kind is Kind.STRING else None
        pieces.append(_interval(name, term) if start is None else (_starting(name, start), 0))
        meant.append(values_satisfying([term], timezone) if start is None else ValueSet.prefix(start))
    text, binding = _join(" OR ", 2, pieces, "FALSE")
    return _Written(text, binding, union_of(meant) or NO_VALUE)


def _prefix(term: Term) -> str | None:
    """The prefix whose strings are exactly those of an interval."""
    match term:
        case [(">=", str(low)), ("<", str(high))] if low and after_prefix(low) == high:
            return low
    return None


def _patterns_left_out(part: Intervals) -> list[LikePattern]:
    """The patterns that a set excludes, where it is all strings but those of some prefixes and points."""
    left_out: list[LikePattern] = []
    for term in comparison_terms(Kind.STRING, part.complement()):
        start = _prefix(term)
        if start is not None:
            left_out.append(LikePattern.starting(start))
        elif len(term) == 1 and term[0][0] == "=":
            left_out.append(LikePattern.exactly(str(term[0][1])))
        else:
            return []
    return left_out


def _starting(name: str, start: str) -> str:
    return f"{name} LIKE {literal_to_sql(LikePattern.starting(start).sql)}"


def _write_all(name: str, kind: Kind) -> _Written | None:
    if kind is Kind.STRING:
        return _Written(f"{name} LIKE '%'", 0, STRINGS)
    if kind is Kind.BOOLEAN:
        return _Written(f"{name} IN (FALSE, TRUE)", 0, values_satisfying([[("=", False)], [("=", True)]]))
    if kind in NUMBERS:
        names = ", ".join(literal_to_sql(TYPE_NAMES[each]) for each in NUMBERS)
        return _Written(f"typeof({name}) IN ({names})", 0, ValueSet.kinds(*NUMBERS))
    return None


def _in_lists(literals: list[Scalar]) -> list[list[Scalar]]:
    """Literals grouped by IN list: with a float in the list, IN compares all numbers as floats."""
    floats: list[Scalar] = [each for each in literals if isinstance(each, float)]
    others: list[Scalar] = [each for each in literals if not isinstance(each, float)]
    return [alike for alike in (others, floats) if alike]


def _listed(name: str, single: str, several: str, literals: list[Scalar]) -> str:
    if len(literals) == 1:
        return f"{name} {single} {literal_to_sql(literals[0])}"
    return f"{name} {several} ({', '.join(literal_to_sql(each) for each in literals)})"


def _interval(name: str, term: Term) -> tuple[str, int]:
    if [operator for operator, _ in term] == [">=", "<="]:
        return f"{name} BETWEEN {literal_to_sql(term[0][1])} AND {literal_to_sql(term[1][1])}", 0
    texts = [f"{name} {operator} {literal_to_sql(literal)}" for operator, literal in term]
    return _join(" AND ", 1, [(text, 0) for text in texts], "TRUE")


# Expressions, literals and names

_INFIX = frozenset(["=", "<=>", "<>", "<", "<=", ">", ">=", "+", "-", "*", "/", "%", "&", "|", "^"])
_COMPARISONS = frozenset(["=", "<=>", "<>", "<", "<=", ">", ">=", "in", "between", "like", "ilike", "rlike"])


def literal_to_sql(value: Scalar | Months | Micros) -> str:
    """A constant as a literal of its SQL type."""
    match value:
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case int():  # the smallest is read as a minus and 2^63, which is a decimal unless it says L
            return str(value) if value != MIN_INT64 else f"{value}L"
        case Decimal():
            text = f"{value:f}"
            return text if "." in text else f"{text}BD"
        case float():
            if isnan(value) or isinf(value):
                word = "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"
                return f"CAST('{word}' AS DOUBLE)"
            return f"{value!r}D"
        case str():
            return _text(value)
        case bytes():
            return f"X'{value.hex().upper()}'"
        case datetime():
            fraction = f".{value.microsecond:06}" if value.microsecond else ""
            # zfill: strftime writes years before 1000 without leading zeros.
            return f"TIMESTAMP'{value.strftime('%Y-%m-%d %H:%M:%S').zfill(19)}{fraction}Z'"
        case date():
            return f"DATE'{value.isoformat()}'"
        case Months(months):
            return f"INTERVAL '{months}' MONTH"
        case Micros(micros, True):
            return f"INTERVAL '{micros // MICROS_PER_DAY}' DAY"
        case Micros(micros):
            sign, rest = ("-" if micros < 0 else ""), abs(micros)
            return f"INTERVAL '{sign}{rest // 1_000_000}.{rest % 1_000_000:06d}' SECOND"
    raise TypeError(f"{type(value).__name__} is no literal")


def _text(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\r", "\\r")
    return "'" + "".join(c if c.isprintable() else _escape(c) for c in escaped) + "'"


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\u{code:04X}" if code <= 0xFFFF else f"\\U{code:08X}"


def expression_to_sql(expression: Expression) -> str:
    """An expression as SQL, every operator in brackets."""
    match expression:
        case Literal(value):
            return literal_to_sql(value)
        case Attribute(name) | Array(name):
            return name_to_sql(name)
        case Call("condition_in", (language, condition, *_)):  # the attributes it reads are found again by parsing it
            return f"condition_in({expression_to_sql(language)}, {expression_to_sql(condition)})"
        case Call("lambda", (Literal(str() as name), condition)):
            return f"{name_to_sql(name)} -> {expression_to_sql(condition)}"
        case Call("variable", (Literal(str() as name), _)):
            return name_to_sql(name)
        case Call("get" | "element_at", (_, _, Literal())):
            return _element_with_members(expression)
        case Call("split_element" | "split_size" | "split_contains" as name, (text, pattern, limit, *others)):
            split = _call("split", (text, pattern, limit))
            return f"{_OF_SPLIT[name]}({', '.join([split, *map(expression_to_sql, others)])})"
        case Call("json_field", (text, Literal(str() as path), Literal(str() as kind))):
            return _json_field(text, split_path(path), kind)
        case Call(function, arguments):
            return _call(function, arguments)
    raise TypeError(expression)


def _json_field(text: Expression, names: Sequence[str], kind: str) -> str:
    """A field of from_json(), with the schema that has this field only."""
    quoted = ["`" + name.replace("`", "``") + "`" for name in names]
    schema = f"{quoted[-1]} {kind}"
    for name in reversed(quoted[:-1]):
        schema = f"{name} struct<{schema}>"
    return f"{_call('from_json', (text, Literal(schema)))}{''.join(f'.{name}' for name in quoted)}"


def _element_with_members(call: Call) -> str:
    """An element of an array with names behind it: `items[0].sku`, which stands as `items.sku` in the call."""
    function, (array, index, *behind) = call.function, call.arguments
    count = behind[0].value if behind and isinstance(behind[0], Literal) else 0
    assert isinstance(count, int)
    names = split_path(next(node.name for node in walk(array) if isinstance(node, Array)))
    members = names[len(names) - count :]
    inner = _without_members(array, count)
    element = f"{function}({expression_to_sql(inner)}, {expression_to_sql(index)})"
    if function == "get":
        element = f"{expression_to_sql(inner)}[{expression_to_sql(index)}]"
    return ".".join([element, *map(_quoted, members)])


def _without_members(array: Expression, count: int) -> Expression:
    """The array, or the element of one, without the last names of its path."""
    match array:
        case Array(name):
            segments = split_path(name)
            return Array(join_path(segments[: len(segments) - count]))
        case Call(function, (inner, index, *behind)):
            left = behind[0].value - count if behind and isinstance(behind[0], Literal) else 0  # type: ignore[operator]
            return Call(function, (_without_members(inner, count), index, *([Literal(left)] if left > 0 else [])))
    return array


def condition_to_sql(expression: Expression, wants: bool = True) -> str:
    """The condition that an expression is TRUE, or FALSE, as an operand of AND and OR."""
    text = expression_to_sql(expression)
    if not wants:
        return f"NOT {text}"
    # A comparison binds closer than AND, so its outer brackets are redundant.
    return text[1:-1] if isinstance(expression, Call) and expression.function in _COMPARISONS else text


def _call(function: str, arguments: tuple[Expression, ...]) -> str:
    texts = [expression_to_sql(each) for each in arguments]
    match function:
        case "and" | "or":
            return f"({f' {function.upper()} '.join(texts)})"
        case "not":
            return f"(NOT {texts[0]})"
        case "div":
            return f"({texts[0]} DIV {texts[1]})"
        case "in":
            return f"({texts[0]} IN ({', '.join(texts[1:])}))"
        case "between":
            return f"({texts[0]} BETWEEN {texts[1]} AND {texts[2]})"
        case "like" | "ilike":
            escape = f" ESCAPE {texts[2]}" if len(texts) > 2 else ""
            return f"({texts[0]} {function.upper()} {texts[1]}{escape})"
        case "rlike":
            return f"({texts[0]} RLIKE {texts[1]})"
        case "isnull" | "isnotnull" | "istrue" | "isfalse":
            return f"({texts[0]} IS {_TESTS[function]})"
        case "cast":
            type_name = arguments[1]
            assert isinstance(type_name, Literal)
            # The brackets of the cast are enough: a second pair would exceed the parser's levels before the tree's do.
            operand = texts[0][1:-1] if _is_bracketed(arguments[0]) else texts[0]
            return f"CAST({operand} AS {str(type_name.value).upper()})"
        case "case":
            pairs = "".join(f" WHEN {a} THEN {b}" for a, b in zip(texts[0::2], texts[1::2], strict=False))
            # Its END closes it: brackets around each would exceed the parser's levels before the tree's do.
            return f"CASE{pairs}{f' ELSE {texts[-1]}' if len(texts) % 2 else ''} END"
    if function in _PREFIXES:
        # A sign before a number would be read as part of it.
        return f"({_PREFIXES[function]} {f'({texts[0]})' if texts[0][0].isdigit() else texts[0]})"
    if function in _WITH_UNITS:
        return f"{function}({', '.join([texts[0].strip(_QUOTE).upper(), *texts[1:]])})"
    if function in _EXTRACTED:
        return f"EXTRACT({_EXTRACTED[function]} FROM {texts[0]})"
    if function in _INFIX:
        return f"({texts[0]} {function} {texts[1]})"
    return f"{function}({', '.join(texts)})"


def _is_bracketed(expression: Expression) -> bool:
    return isinstance(expression, Call) and expression.function in _BRACKETED


_OF_SPLIT = {"split_element": "element_at", "split_size": "size", "split_contains": "array_contains"}
_PREFIXES = {"neg": "-", "positive": "+", "~": "~"}
_WITH_UNITS = frozenset({"timestampadd", "timestampdiff"})  # the first argument is an unquoted word
_QUOTE = "'"
# Parts of a time that Spark has no function for.
_EXTRACTED = {"second_with_fraction": "SECOND", "dayofweek_iso": "DAYOFWEEK_ISO", "yearofweek": "YEAROFWEEK"}
_TESTS = {"isnull": "NULL", "isnotnull": "NOT NULL", "istrue": "TRUE", "isfalse": "FALSE"}
_BRACKETED = _INFIX | _COMPARISONS | {"and", "or", "not", "div", *_TESTS, *_PREFIXES}

_PLAIN_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")

# Words that SQL does not read as a name in every position; quoting one too many does no harm.
KEYWORDS: Final = frozenset(
    "all and any anti array as between both by case cast collate constraint create cross cube current_date "
    "current_time current_timestamp current_user date day days distinct div else end escape except exists extract "
    "false filter first following for from full group having hour hours ilike in inner intersect interval into is "
    "join last lateral leading left like limit map minus minute minutes month months natural none not null nulls on "
    "only or order outer overlaps overlay position preceding primary range regexp right rlike row rows second seconds "
    "select semi session_user set similar some struct substr substring table then time timestamp timestamp_ltz "
    "timestamp_ntz to trailing trim true try_cast type typeof unbounded union unique unknown using values void week "
    "weeks when where window with within year years".split()
)


@lru_cache(maxsize=4096)  # computed attributes are named by the thousand after few attributes
def name_to_sql(attribute: str) -> str:
    """An attribute's name in SQL, each segment back-quoted where it must be."""
    return ".".join(_quoted(each) for each in split_path(attribute))


def _quoted(segment: str) -> str:
    if _PLAIN_NAME.match(segment) and segment.lower() not in KEYWORDS:
        return segment
    return f"`{segment.replace('`', '``')}`"
