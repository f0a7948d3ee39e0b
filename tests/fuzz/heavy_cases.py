"""Conditions and events made to exhaust time, memory or the stack; each case is a function that must return.

Run as `python -m tests.fuzz.heavy_cases NAME`, in a process of its own under limits (`bounded.py`). A case passes if
everything in it is answered or refused with a `PalioError`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import date
from typing import Any

from palio import Event, Filter, Matcher, PalioError
from palio.languages.grammar import MAX_CONDITIONS

CASES: dict[str, Callable[[], None]] = {}


def _case(function: Callable[[], None]) -> Callable[[], None]:
    CASES[function.__name__] = function
    return function


def _exercise(condition: str, *events: dict[str, Any]) -> Filter | None:
    """Parse a condition and use the filter in every way there is; None where it is refused."""
    with suppress(PalioError):
        found = Filter.parse(condition)
        for event in ({}, {"x": 5, "s": "a" * 50}, *events):
            with suppress(PalioError):
                found.matches(event)
        assert Filter.parse(str(found)) == found
        opposite = ~found
        opposite.matches({"x": 5})
        hash(opposite)
        found.covers(found)
        found.covers(opposite)
        found.overlaps(opposite)
        found.conjunctions(16)
        found.explain({"x": 5})
        return found
    return None


def _accepted(condition: str, *events: dict[str, Any]) -> None:
    assert _exercise(condition, *events) is not None, f"refused: {condition[:80]}"


def _refused(condition: str) -> None:
    assert _exercise(condition) is None, f"accepted: {condition[:80]}"


def _too_many(condition: str) -> None:
    """A text of too many conditions is refused by all that reads it, with the number of them."""
    for read in (Filter.parse, lambda text: Matcher({"a": text})):
        try:
            read(condition)
        except PalioError as error:
            assert f"more than the {MAX_CONDITIONS:,} allowed" in str(error), error
            assert "IN (…)" in str(error), error
        else:
            raise AssertionError(f"accepted: {condition[:80]}")


def _huge(condition: str) -> None:
    """A megabyte is read and matched; what else one does with filters is tried at a tenth of that."""
    assert len(condition) > 900_000
    found = Filter.parse(condition)
    for event in ({}, {"x": 5, "s": "a5"}):
        found.matches(event)


# --- size ------------------------------------------------------------------------------------------------------


def _joined(word: str, condition: str, count: int) -> str:
    return f" {word} ".join(condition.format(n=n) for n in range(count))


@_case
def as_many_conditions_as_are_allowed() -> None:
    _accepted(_joined("AND", "x{n} <> {n}", MAX_CONDITIONS))
    # Its canonical text says that both are there, and so names each attribute twice.
    _accepted(_joined("OR", "a{n} < b{n}", MAX_CONDITIONS // 4))
    _accepted(f"CASE x {_whens(MAX_CONDITIONS // 2 - 1)} END = 5")
    _accepted(f"s LIKE ANY ({_patterns(MAX_CONDITIONS)})")
    _accepted(f"coalesce({', '.join(f'a{n}' for n in range(MAX_CONDITIONS))}) = 5")


@_case
def more_conditions_than_are_allowed() -> None:
    for word in ("AND", "OR"):
        for condition in (
            "x = {n}",
            "x{n} <> {n}",
            "s LIKE 'p{n}%'",
            "x > {n}.5",
            "NOT upper(s) = '{n}'",
            "b{n}",
            "1 = 1",
        ):
            _too_many(_joined(word, condition, MAX_CONDITIONS + 1))
        _too_many(_joined(word, "a{n} < b{n}", MAX_CONDITIONS // 2 + 1))
        _too_many(_joined(word, "(x{n} = {n} OR y < 3)", 20_000))
    _too_many(f"CASE x {_whens(MAX_CONDITIONS // 2 + 1)} END = 5")
    _too_many(f"greatest({', '.join(f'a{n}' for n in range(20_000))}) = 5")
    _too_many(f"x IN ({', '.join(f'a{n}' for n in range(20_000))})")
    _too_many(f"s LIKE ANY ({', '.join(f'a{n}' for n in range(20_000))}, 'x')")
    _too_many(f"s LIKE ANY ({_patterns(MAX_CONDITIONS + 1)})")
    _too_many(f"upper(s) LIKE ANY ({_patterns(MAX_CONDITIONS // 2 + 1)})")


def _patterns(count: int) -> str:
    return ", ".join(f"'%a{n}%'" for n in range(count))


def _whens(count: int) -> str:
    return " ".join(f"WHEN {n} THEN {n}" for n in range(count))


@_case
def a_megabyte_of_items() -> None:
    _huge(f"x IN ({', '.join(map(str, range(140_000)))})")
    _huge(f"s NOT IN ({', '.join(repr(str(n)) for n in range(110_000))})")


@_case
def long_chains_of_and_and_or() -> None:
    for word in ("AND", "OR"):
        for condition in (
            "x = {n}",
            "x <> {n}",
            "x{n} = {n}",
            "x BETWEEN {n} AND {n}0",
            "x > {n} OR y < {n}",
        ):
            _exercise(_joined(word, f"({condition})", 2_000))


@_case
def long_chains_of_patterns() -> None:
    for word in ("AND", "OR"):
        _accepted(_joined(word, "s LIKE '%part{n}%'", 500))
        _accepted(_joined(word, "s RLIKE 'part{n}+$'", 500))
        _accepted(_joined(word, "NOT upper(s) = '{n}'", 500))


@_case
def thousands_of_alternatives_compared() -> None:
    for form in ("a{n} = 1 AND b{n} = 2", "a = {n} AND b > {n}", "a BETWEEN {n} AND {n}0 AND b > {n}"):
        _accepted(_joined("OR", f"({form})", 1_000))


@_case
def thousands_of_candidates() -> None:
    for function in ("greatest", "least", "coalesce"):
        values = {f"a{n}": n for n in range(8_000)}
        _accepted(f"{function}({', '.join(values)}) > 5", values)


@_case
def long_lists() -> None:
    numbers = ", ".join(map(str, range(10_000)))
    _accepted(f"x IN ({numbers})")
    _accepted(f"x NOT IN ({numbers})")
    _accepted(f"s IN ({', '.join(repr(str(n)) for n in range(5_000))})")
    unlike = ", ".join(f"{n}" if n % 3 else f"{n}.5e0" if n % 2 else f"'{n}'" for n in range(5_000))
    _accepted(f"x IN ({unlike})")
    _accepted(f"x + 1 IN ({unlike})")
    patterns = _patterns(500)
    _accepted(f"s LIKE ANY ({patterns})")
    _accepted(f"s NOT LIKE ALL ({patterns})")
    _accepted(f"concat(s, t) LIKE ANY ({patterns})")


@_case
def a_product_of_sums() -> None:
    # In disjunctive form, 5 to the 500th conjunctions.
    clauses = (" OR ".join(f"a{n}_{k} > {k}" for k in range(5)) for n in range(500))
    _accepted(" AND ".join(f"({clause})" for clause in clauses))


@_case
def a_product_of_sums_over_few_attributes() -> None:
    clauses = (" OR ".join(f"a{(n * k) % 17} = {n}" for k in range(1, 4)) for n in range(300))
    _accepted(" AND ".join(f"({clause})" for clause in clauses))


@_case
def a_sum_of_products() -> None:
    clauses = (" AND ".join(f"a{k} = {n}" for k in range(5)) for n in range(500))
    _accepted(" OR ".join(f"({clause})" for clause in clauses))


@_case
def alternating_and_or_as_deep_as_allowed() -> None:
    text = "x0 = 0"
    for n in range(1, 180):
        text = f"({text}) {'AND' if n % 2 else 'OR'} x{n} = {n}"
    _accepted(text)


@_case
def a_string_of_a_megabyte() -> None:
    _accepted(f"s = '{'a' * 1_000_000}'")
    _accepted(f"s LIKE '%{'a' * 1_000_000}%'")
    _accepted(f"x = '{'9' * 1_000_000}'", {"x": "9" * 100})
    _accepted(f"x = X'{'ab' * 500_000}'")
    _exercise(f"s RLIKE '{'a' * 100_000}'")
    _exercise(f"s RLIKE '{'|'.join(f'word{n}' for n in range(20_000))}'")


@_case
def names_of_a_megabyte() -> None:
    _exercise(f"{'a' * 1_000_000} = 1")
    _exercise(f"`{'a' * 1_000_000}` = 1")
    _exercise(f"{'.'.join(['a'] * 300_000)} = 1")
    _exercise(f"{'`' * 1_000_000}")


@_case
def more_text_than_is_allowed() -> None:
    _refused(" OR ".join(f"x = {n}" for n in range(200_000)))


@_case
def comments_and_blanks() -> None:
    _accepted(f"x = 1 {' ' * 1_000_000}")
    _accepted(f"{'/*' * 100_000} {'*/' * 100_000} x = 1")
    _refused("/*" * 500_000)
    _accepted("-- comment\n" * 90_000 + "x = 1")
    _refused("--" * 500_000)
    _refused("'" * 999_999)
    _refused("\\" * 1_000_000)


# --- depth -----------------------------------------------------------------------------------------------------


@_case
def ten_thousand_nested_brackets() -> None:
    _refused("(" * 10_000 + "x = 1" + ")" * 10_000)
    _refused("(" * 1_000_000)
    _refused(")" * 1_000_000)
    _refused("x = " + "(" * 500_000 + "1" + ")" * 499_999)
    _refused("f(" * 300_000)
    _refused("x IN (" * 150_000)


@_case
def deep_negation() -> None:
    _exercise("NOT " * 50_000 + "x = 1")
    _exercise("NOT (" * 10_000 + "x = 1" + ")" * 10_000)
    _exercise("! " * 50_000 + "flag")
    _exercise("NOT " * 150 + "x = 1")


@_case
def deep_signs() -> None:
    _exercise("x = " + "- " * 100_000 + "1")
    _exercise("x = " + "~" * 100_000 + "1")
    _exercise("x = " + "-(" * 10_000 + "1" + ")" * 10_000)


@_case
def deep_case() -> None:
    text = "x"
    for _ in range(5_000):
        text = f"CASE WHEN x > 1 THEN {text} ELSE 2 END"
    _exercise(f"{text} = 1")
    _exercise("CASE " * 50_000 + "x")
    text = "x"
    for _ in range(60):
        text = f"CASE {text} WHEN 1 THEN 2 WHEN 3 THEN 4 ELSE 5 END"
    _exercise(f"{text} = 1")
    _exercise(f"CASE x {' '.join(f'WHEN {n} THEN {n}' for n in range(2_000))} END = 5")


@_case
def deep_functions() -> None:
    for function in ("upper", "coalesce", "decode", "if", "concat", "abs"):
        _exercise(f"{function}(" * 20_000 + "s" + ")" * 20_000 + " = 'a'")
        _exercise(f"{function}(" * 60 + "s" + ", 'a', 'b')" * 60 + " = 'a'")
        _exercise(f"{function}(" * 60 + "s" + ")" * 60 + " = 'a'")
    _exercise("CAST(" * 20_000 + "x" + " AS INT)" * 20_000 + " = 1")
    _exercise("x" + "::int" * 20_000 + " = 1")


@_case
def deep_null_tests() -> None:
    # Whether a condition is NULL needs where it is TRUE and where FALSE: nested, that doubles at each level.
    endings = [
        "IS NULL",
        "IS NOT NULL",
        "IS TRUE",
        "IS NOT UNKNOWN",
        "IS DISTINCT FROM TRUE",
        "<=> y",
        "= TRUE",
    ]
    for ending in (*endings, "IS NULL OR z", "IS NOT NULL AND NOT z", "IS NULL <=> z"):
        for inner in ("x > 1", "x > y", "x > 1 OR y LIKE '%a%'"):
            for depth in (40, 190):
                _exercise("(" * depth + inner + f") {ending}" * depth)


@_case
def deep_between() -> None:
    _exercise("(" * 150 + "x" + " BETWEEN 1 AND 2)" * 150)
    _exercise("x BETWEEN " * 50_000 + "1")


@_case
def long_chains_of_operators() -> None:
    for operator in ("+", "-", "*", "/", "%", "||", "&", "|", "^", "DIV"):
        _exercise("x " + f"{operator} 1 " * 20_000 + "= 1")
    _exercise("s" + " || 'a'" * 20_000 + " = 'b'", {"s": "a"})
    _exercise("x" + " = 1" * 50_000)
    _exercise("x" + " AND x" * 50_000)


# --- patterns --------------------------------------------------------------------------------------------------

_LONG = "a" * 100_000


@_case
def like_with_many_wildcards() -> None:
    many = ["%a" * 500 + "%b", "%a%" * 500 + "c", "_%" * 1000 + "b", "%_" * 1000, "%" * 10_000 + "b"]
    for pattern in (*many, "%aab" * 300 + "c"):
        for operator in ("LIKE", "ILIKE"):
            events = [{"s": _LONG}, {"s": "aab" * 30_000}, {"s": _LONG + "b"}]
            _accepted(f"s {operator} '{pattern}'", *events)
            _accepted(f"upper(s) {operator} '{pattern}'", *events)
    _accepted("s LIKE t", {"s": _LONG, "t": "%a" * 500 + "b"}, {"s": _LONG, "t": "\\"})


_CATASTROPHIC = r"""
    (a+)+$
    (a|aa)+$
    (a|a?)+$
    (.*)*x
    ([a-z]+)*1
    (a*)*b
    ^(([a-z])+.)+[A-Z]([a-z])+$
    (x+x+)+y
    .*.*.*.*=.*
    (a?){50}a{50}
    a{1000}
    (a{1,100}){1,10}b
    (?i)(ſ|s|k)+$
    (((a*)*)*)*b
    [a-z]*[a-y]*[a-x]*1
""".split()


@_case
def catastrophic_regular_expressions() -> None:
    for regex in _CATASTROPHIC:
        _exercise(f"s RLIKE '{regex}'", {"s": _LONG + "!"}, {"s": "x" * 100_000}, {"s": "ab" * 50_000})
        _exercise(f"NOT concat(s, 'b') RLIKE '{regex}'", {"s": _LONG + "!"})


@_case
def regular_expressions_that_are_too_large() -> None:
    nested = [
        "(" * 10_000 + "a" + ")" * 10_000,
        "(?:" * 900 + "a" + ")" * 900,
        "(a|" * 5_000 + "b" + ")" * 5_000,
    ]
    counted = ["a{1000}{1000}", "(a{1000}){1000}", "((a{100}){100}){100}", "a{999999999}"]
    long = ["a?" * 5_000, "|".join(["a" * 50] * 2_000), "(?i)" + "ſ" * 20_000, "." * 100_000, "x*" * 10_000]
    odd = ["[" + "a-z" * 100_000 + "]", r"\\w" * 5_000, "[" * 100_000, r"\\Q" * 50_000, r"\\E" * 50_000]
    for regex in (*nested, *counted, *long, *odd):
        _exercise(f"s RLIKE '{regex}'", {"s": _LONG})


# --- values ----------------------------------------------------------------------------------------------------

_NUMERALS = """
    {9}
    {9}.99
    0.{9}
    {9}BD
    {9}D
    {9}L
    {9}e1
    1e{9}
    1e-{9}
    1e{9}BD
    .{0}1
    {0}1
    1e999999999
    1e-999999999
    1e999999999BD
    1e-999999999BD
    INTERVAL '{9}' DAY
    INTERVAL {9} DAYS
    INTERVAL '{9} days'
    INTERVAL '{9}:1' HOUR TO MINUTE
    DATE'{9}-01-01'
    TIMESTAMP'2024-01-01 00:00:00.{9}'
    TIMESTAMP'2024-01-01 00:00:00{9}'
    CAST(1 AS DECIMAL({9}))
    CAST(1 AS DECIMAL(10,{9}))
    CAST(1 AS CHAR({9}))
    CAST('{9}' AS INT)
    CAST('{9}' AS DECIMAL(38,0))
    CAST('{9}' AS DOUBLE)
    CAST('1e{9}' AS DECIMAL(38,0))
    CAST('0x{9}p0' AS DOUBLE)
    '{9}'
    '1e{9}'
    '{0}'
    '{9}-01-01'
"""


@_case
def huge_numerals() -> None:
    for line in _NUMERALS.strip().splitlines():
        text = line.strip().replace("{9}", "9" * 900_000).replace("{0}", "0" * 900_000)
        _exercise(f"x = {text}")
        _exercise(f"x + {text} > 1")


_OF_TEXTS = """
    s + 1 > 0
    s * 1e0 > 0
    round(s, 2) > 0
    year(s) > 0
    to_timestamp(s) IS NULL
    unix_timestamp(s) > 0
    upper(s) = lower(s)
    initcap(s) = s
    reverse(s) = s
    replace(s, '9', s) = s
    translate(s, s, s) = s
    substring_index(s, '9', -2147483648) = s
    split_part(s, '9', 7) = s
    trim(s, s) = s
    locate(s, s) = 1
"""


@_case
def huge_strings_in_events() -> None:
    texts = ["9", "0", "1e9", "-", " ", "2024-01-01 ", "0.1", "2024-01-01 00:00:00Z"]
    events = [{"s": text + text[-1] * 900_000} for text in texts]
    for kind in "int bigint double float decimal(38,10) boolean date timestamp binary".split():
        _exercise(f"CAST(s AS {kind}) IS NOT NULL", *events)
    for line in _OF_TEXTS.strip().splitlines():
        _exercise(line.strip(), *events)


_EXPLOSIVE = """
    repeat(s, 2147483647) = 'a'
    repeat(s, x) = 'a'
    space(2147483647) = ''
    space(x) = ''
    lpad(s, 2147483647, 'ab') = s
    rpad(s, x, s) = s
    lpad(X'00', x) = s
    concat(repeat(s, 1000), repeat(s, 1000), repeat(s, 1000)) = s
    repeat(repeat(repeat(repeat(s, 1000), 1000), 1000), 1000) = s
    replace(repeat('a', 1000000), 'a', repeat('b', 1000000)) = s
    replace(repeat(s, 1000), '', s) = s
    translate(repeat(s, 1000), 'a', s) = s
    concat_ws(repeat(s, 1000), s, s, s, s, s) = s
    power(x, x) > 1
    power(10, 1e9) > 1
    exp(x) > 1
    round(f, 2147483647) > 1
    round(f, -2147483648) > 1
    bround(x, -2147483648) > 1
    round(1.5, 2147483647) > 1
    round(99999999999999999999999999999999999999, -2147483648) > 1
    x * x * x * x > 1
    f * f > 1
    date_add(d, x) > d
    add_months(d, x) > d
    d + INTERVAL '178956970' YEAR > d
    INTERVAL '106751991' DAY * f > INTERVAL '1' DAY
    INTERVAL '1' DAY / 1e-300 > INTERVAL '1' DAY
    make_date(x, x, x) > d
    date_from_unix_date(x) > d
    timestamp_seconds(f) > d
    chr(x) = 'a'
    CAST(f AS DECIMAL(38,0)) > 1
    CAST(f AS BIGINT) > 1
    CAST(f AS TIMESTAMP) > d
    substring(s, -2147483648, 2147483647) = s
    left(s, 2147483647) = s
    substring_index(s, 'a', 2147483647) = s
    substring_index(s, 'a', -2147483648) = s
    split_part(s, 'a', x) = s
    CAST(1e308 AS STRING) || CAST(-1e308 AS STRING) = s
    99999999999999999999999999999999999999 * 99999999999999999999999999999999999999 > 1
"""


@_case
def results_that_would_fill_the_memory() -> None:
    event = {"x": 2_147_483_647, "s": "a" * 1000, "d": date(2024, 1, 1), "f": 1e308}
    for line in _EXPLOSIVE.strip().splitlines():
        _exercise(line.strip(), event)


@_case
def events_of_every_awkward_shape() -> None:
    for content in _awkward_events():
        with suppress(PalioError):
            event = Event.from_json(content)
            Filter.parse("x > 1 OR a.b LIKE '%a%' OR size(x) > 3 OR y.z IS NULL OR x + y > 3").matches(event)


def _awkward_events() -> Iterable[str | bytes]:
    yield "[" * 1_000_000
    yield '{"a":' * 200_000
    yield '{"a":' * 200_000 + "1" + "}" * 200_000
    yield '{"x":' + "[" * 100_000 + "]" * 100_000 + "}"
    yield '{"x":[' + ",".join(map(str, range(200_000))) + "]}"
    numbers = ",".join(map(str, range(2_000)))
    yield f'{{"x":[{numbers}],"y":[{numbers}],"a":{{"b":["b","c"]}}}}'
    yield "{" + ",".join(f'"k{n}":{n}' for n in range(100_000)) + "}"
    yield "{" + ",".join('"k":1' for _ in range(100_000)) + "}"
    yield '{"x":' + "9" * 1_000_000 + "}"
    yield '{"x":1e' + "9" * 1_000_000 + "}"
    yield '{"x":-0.' + "0" * 1_000_000 + "1}"
    yield '{"x":"' + "\\u0000" * 200_000 + '"}'
    yield '{"x":"\\ud800"}'
    yield b'{"x":"\xff\xfe"}'
    yield '{"' + "a." * 200_000 + '":1}'
    yield " " * 1_000_000
    yield "\ufeff{}"
    yield '{"x":NaN,"y":-Infinity}'


def main(name: str) -> None:
    CASES[name]()


if __name__ == "__main__":
    main(sys.argv[1])
