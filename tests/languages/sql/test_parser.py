"""SQL parser: `grammar.txt` line by line, errors, limits, and agreement with Spark's own parser."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from functools import reduce
from pathlib import Path
from re import fullmatch, sub
from time import process_time
from typing import TYPE_CHECKING, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palio.errors import ParseError
from palio.filters.expressions.ast import Array, Attribute, Call, Expression, Literal, Micros, Months, Scalar, walk
from palio.filters.expressions.functions import FUNCTIONS
from palio.filters.filter import Filter
from palio.filters.sql_writer import expression_to_sql
from palio.garbage_collector import paused_collector
from palio.languages.sql.functions import ALIASES, FIELDS, INFIX, PREFIX
from palio.languages.sql.parser import SqlParser, parse_condition
from palio.languages.sql.unsupported import REFUSED_FUNCTIONS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Line(NamedTuple):
    """A condition of the fixture file and what it says about it."""

    condition: str
    expected: str

    @property
    def verdict(self) -> str:
        found = fullmatch("(refused|not here): .*", self.expected)
        return found[1] if found else "accepted"


def read_lines() -> list[Line]:
    rows = (Path(__file__).parent / "grammar.txt").read_text("utf-8").splitlines()
    rows = [row for row in rows if row and not row.startswith("# ")]
    return [Line(condition, expected.strip()) for condition, expected in zip(rows[::2], rows[1::2], strict=True)]


LINES = read_lines()


def attempt(condition: str) -> Expression | ParseError:
    """What a condition says, or why it says nothing."""
    try:
        return parse_condition(condition)
    except ParseError as error:
        return error


def show(tree: Expression) -> str:
    """A tree as the fixture file writes it."""
    match tree:
        case Literal(value):
            return show_literal(value)
        case Attribute(name):
            return name if fullmatch(r"(?:[A-Za-z_0-9]+|`(?:[^`]|``)+`|\.)+", name) else f"`{name}`"
        case Array(name):
            return f"[{name}]"
        case Call(function, arguments):
            return f"({' '.join([function, *map(show, arguments)])})"


def show_literal(value: Scalar | Months | Micros) -> str:
    match value:
        case None | bool():
            return "NULL" if value is None else str(value).upper()
        case Decimal():
            return f"{value:f}BD"
        case float():
            return f"{value!r}D"
        case datetime() | date():
            return value.isoformat()
        case bytes():
            return f"X{value.hex()}"
        case Months(months):
            return f"{months}months"
        case Micros(micros):
            return f"{micros}micros"
    return ascii(value)


@pytest.mark.parametrize(("condition", "expected"), LINES, ids=[line.condition for line in LINES])
def test_a_condition_says_what_the_fixture_file_says(condition: str, expected: str) -> None:
    found = attempt(condition)
    if isinstance(found, ParseError):
        verdict, _, reason = expected.partition(": ")
        assert verdict in ("refused", "not here")
        assert found.reason.startswith(reason)
        assert 0 <= found.position <= len(condition)
    else:
        assert show(found) == expected


def test_what_is_printed_reads_back_as_the_same_tree() -> None:
    for line in LINES:
        if line.verdict == "accepted":
            tree = parse_condition(line.condition)
            assert parse_condition(expression_to_sql(tree)) == tree, line


def test_all_that_can_be_parsed_can_be_evaluated() -> None:
    """Every name the parser writes is a function, with a number of arguments it takes."""
    made = {operator.function for operator in (*INFIX.values(), *PREFIX.values())}
    assert {*made, *ALIASES.values(), *FIELDS.values()} <= set(FUNCTIONS)
    assert not set(REFUSED_FUNCTIONS) & set(FUNCTIONS)
    for line in LINES:
        if line.verdict == "accepted":
            for node in walk(parse_condition(line.condition)):
                if isinstance(node, Call):
                    function = FUNCTIONS[node.function]
                    assert function.minimum <= len(node.arguments), line
                    assert function.maximum is None or len(node.arguments) <= function.maximum, line


# --- places ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("condition", "pieces"),
    [
        ("a = 1 AND  b", ["a = 1 AND  b", "a = 1", "a", "1", "b"]),
        ("(a OR b) AND c", ["(a OR b) AND c", "a OR b", "a", "b", "c"]),
        ("NOT (a + 1) * -b > 2 ", ["NOT (a + 1) * -b > 2", "(a + 1) * -b > 2", "a + 1", "-b"]),
        ("x.`y z` IN ('a', -1)", ["x.`y z` IN ('a', -1)", "x.`y z`", "'a'", "-1"]),
        ("upper( a ) LIKE 'x' 'y'", ["upper( a ) LIKE 'x' 'y'", "upper( a )", "'x' 'y'"]),
        ("d > DATE '2024-01-01'", ["DATE '2024-01-01'"]),
        ("d + INTERVAL 1 DAY > e", ["d + INTERVAL 1 DAY", "INTERVAL 1 DAY"]),
        ("(a::int) IS NOT NULL", ["(a::int) IS NOT NULL", "a::int"]),
    ],
)
def test_a_node_knows_the_piece_of_text_it_was_read_from(condition: str, pieces: list[str]) -> None:
    found = {condition[slice(*node.span)] for node in walk(parse_condition(condition))}
    assert found >= set(pieces)


@pytest.mark.parametrize(
    ("condition", "position"),
    [
        ("a = 1 b", 6),
        ("a = 1\n  AND AND b", 12),
        ("a = ", 4),
        ("a IN (1, 2", 10),
        ("a AND uper(b)", 6),
        ("a = DATE'x'", 8),
        ("a > 1 AND 5[0]", 10),
        ("CASE WHEN a THEN b", 18),
    ],
)
def test_an_error_says_where(condition: str, position: int) -> None:
    with pytest.raises(ParseError) as caught:
        parse_condition(condition)
    assert caught.value.position == position
    assert f"column {caught.value.column}" in str(caught.value)


@pytest.mark.parametrize(
    ("condition", "hint"),
    [
        ("uper(a)", "did you mean upper?"),
        ("lenght(a) > 1", "did you mean length?"),
        ("a =< 1", "'at most' is written <="),
        ("a => 1", "'at least' is written >="),
        ("a && b", "'and' is written AND"),
        ("a ~ 'x'", "a regular expression is asked for with x RLIKE 'pattern'"),
        ("CAST(a AS TEXT)", "write STRING"),
        ("größe > 1", "write `größe`"),
        ("a CONTAINS 'x'", "write contains(x, 'a'), or x LIKE '%a%'"),
        ("", "TRUE is the condition that every event satisfies"),
        ("-- nothing", "TRUE is the condition that every event satisfies"),
        ("x IN (SELECT * FROM t1)", "list the values themselves"),
        ("EXISTS (SELECT * FROM t1)", "a condition looks at one event: compare its attributes"),
        ("strpos(x, 'a') = 1", "write instr(x, 'a')"),
        (
            "to_char(x) = 'a'",
            "CAST(x AS STRING) writes a value as text; to_char(x, 'yyyy-MM-dd') writes a time by a pattern",
        ),
        ("x ≥ 3", "'at least' is written >="),
        ("x ≤ 3", "'at most' is written <="),
        ("x ≠ 3", "'differs from' is written <>"),
        ("x =~ 'a'", "a regular expression is asked for with x RLIKE 'pattern'"),
        ("x !~ 'a'", "write NOT IN, NOT LIKE, NOT RLIKE, NOT BETWEEN, IS NOT NULL"),
        ("x IN [1, 2]", "write IN (1, 2)"),
        ("x not in [1, 2]", "write IN (1, 2)"),
        ("x == None", "write x IS NULL; an attribute of that name is written `None`"),
        ("y = 1 AND x != None", "write x IS NULL; an attribute of that name is written `None`"),
        ("x is None", "write x IS NULL"),
        ("x IS NOT None", "write x IS NOT NULL"),
    ],
)
def test_an_error_says_what_would_work(condition: str, hint: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_condition(condition)
    assert caught.value.hint == hint


def test_an_attribute_may_be_called_none() -> None:
    wanted = Filter.parse("x = `None` AND None > 3 AND None.x = 1")
    assert wanted.attributes == {"x", "None", "None.x"}
    assert Filter.parse(str(wanted)) == wanted
    # Conditions that differ in a name only share nothing that could let this one pass.
    assert Filter.parse("x = y").matches({"x": 5, "y": 5})
    with pytest.raises(ParseError, match="None is no value"):
        Filter.parse("x = None")
    assert Filter.parse("x =~5") == Filter.parse("x = ~5")


def test_equal_conditions_are_equal_trees_wherever_they_stand() -> None:
    assert parse_condition("a=1 AND nvl(b,'x') LIKE 'y'") == parse_condition(
        "-- one\n a == 1 and COALESCE(b, \"x\") like 'y' escape '\\\\'"
    )
    assert parse_condition("a = 1") != parse_condition("a = 1.0")


# --- bounds ------------------------------------------------------------------------------------------------

NESTED: dict[str, Callable[[int], str]] = {
    "brackets": lambda count: "(" * count + "a" + ")" * count,
    "calls": lambda count: "abs(" * count + "a" + ")" * count,
    "cast functions": lambda count: "date(" * count + "a" + ")" * count,
    "CASE": lambda count: "CASE WHEN " * count + "a" + " THEN 1 END" * count,
    "CAST": lambda count: "CAST(" * count + "a" + " AS INT)" * count,
    "TRIM": lambda count: "TRIM(BOTH FROM " * count + "a" + ")" * count,
    "EXTRACT": lambda count: "EXTRACT(DAY FROM " * count + "a" + ")" * count,
    "NOT": lambda count: "NOT " * count + "a",
    "minus": lambda count: "- " * count + "a",
    "brackets and NOT": lambda count: "NOT (" * count + "a" + ")" * count,
    "casts": lambda count: "a" + "::int" * count,
    "sums": lambda count: "a" + " + 1" * count,
    "comparisons": lambda count: "a" + " = 1" * count,
}
HALF_NESTED: dict[str, Callable[[int], str]] = {
    "IN": lambda count: "a IN (" * count + "a" + ")" * count,
    "BETWEEN": lambda count: "a BETWEEN 1 AND abs(" * count + "a" + ")" * count,
    "LIKE": lambda count: "a LIKE upper(" * count + "a" + ")" * count,
    "CASE of a value": lambda count: "CASE " * count + "a" + " WHEN 1 THEN 1 END" * count,
    "AND in OR": lambda count: "b OR a AND (" * count + "a" + ")" * count,
}


def deeper(frames: int, condition: str) -> Expression:
    """Parse with so many frames on the stack already, as in a server or a test."""
    return deeper(frames - 1, condition) if frames else parse_condition(condition)


@pytest.mark.parametrize("nest", [*NESTED.values(), *HALF_NESTED.values()], ids=[*NESTED, *HALF_NESTED])
def test_nesting_is_bounded_and_within_the_bound_needs_little_stack(nest: Callable[[int], str]) -> None:
    fits = SqlParser.max_levels - 2 if nest in NESTED.values() else SqlParser.max_levels // 3 - 1
    assert sys.getrecursionlimit() == 1000
    deeper(250, nest(fits))
    for count in (SqlParser.max_levels + 1, 10_000):
        with pytest.raises(ParseError, match=f"more than {SqlParser.max_levels} levels deep"):
            parse_condition(nest(count))


def test_operands_that_are_compared_many_times_do_not_grow_without_bound() -> None:
    case = "CASE " * 60 + "x" + " WHEN 1 THEN 1 WHEN 2 THEN 2 END" * 60
    like = "(" * 60 + "x" + " LIKE ANY ('a', 'b'))" * 60
    for condition in (case, like):
        with pytest.raises(ParseError, match="compared so often"):
            parse_condition(condition)
    assert len(list(walk(parse_condition("a LIKE ANY (" + ", ".join(["'x'"] * 10_000) + ")")))) == 30_001


@pytest.mark.parametrize(
    "make",
    [
        lambda count: " OR ".join(f"a = {number}" for number in range(count)),
        lambda count: f"a IN ({', '.join(map(str, range(count)))})",
        lambda count: " || ".join(["a"] * count) + " = 'x'",
        lambda count: "a = " + " 'x'" * count,
        lambda count: "a" + ".b" * count + " = 1",
        lambda count: "a LIKE ANY (" + ", ".join(["'x%'"] * count) + ")",
    ],
    ids=["OR", "IN", "concat", "texts", "dots", "LIKE ANY"],
)
def test_time_is_about_linear_in_the_length(make: Callable[[int], str]) -> None:
    def shortest_time(text: str) -> float:
        times = []
        for _ in range(3):
            start = process_time()
            parse_condition(text)
            times.append(process_time() - start)
        return min(times)

    # The garbage collector looks through all that other tests have left, as often as there are new objects.
    with paused_collector():
        # 16 times as long; quadratic would be 256 times.
        assert shortest_time(make(8_000)) < 100 * shortest_time(make(500)) + 0.1


WORDS = """
    a b.c `d e` 1 -2 1.5 2e3 'x' "y" NULL TRUE FALSE AND OR NOT ! = <> <=> < >= + - * / % DIV || & | ^ ~ ( ) ,
    IN BETWEEN LIKE ILIKE RLIKE ESCAPE IS DISTINCT FROM ANY ALL CASE WHEN THEN ELSE END CAST AS INT DECIMAL ::
    EXTRACT YEAR SUBSTRING FOR TRIM BOTH POSITION DATE '2024-01-01' TIMESTAMP INTERVAL DAY TO SECOND X '1F'
    upper( coalesce( array_contains( . [ ] ; ? : -> -- /* */ SELECT EXISTS count( now()
"""


@given(st.lists(st.sampled_from(WORDS.split()), max_size=25).map(" ".join) | st.text(max_size=30))
@settings(max_examples=300)
def test_any_text_is_an_expression_or_a_parse_error(text: str) -> None:
    found = attempt(text)
    if isinstance(found, ParseError):
        assert found.reason
        assert 0 <= found.position <= len(text)
        assert str(found)
    else:
        for node in walk(found):
            assert isinstance(node, Literal | Attribute | Array | Call)
            assert 0 <= node.span[0] < node.span[1] <= len(text)


# --- Spark -------------------------------------------------------------------------------------------------


def spark_tree(spark: SparkSession, condition: str) -> str | None:
    """The condition as Spark's own parser reads it; None where it refuses."""
    from pyspark.errors import PySparkException

    # PySpark has no public way to Spark's own SQL parser.
    parser = spark._jsparkSession.sessionState().sqlParser()
    try:
        # In brackets, because a bare expression may have an alias.
        tree = str(parser.parseExpression(f"(\n{condition}\n)").toString())
        # A plus before a number is no call here, be the number cast or not.
        return sub(r"positive\(((?:cast\()*\d+(?: as \w+\))*)\)", r"\1", tree)
    except (PySparkException, ArithmeticError):
        return None


def test_spark_accepts_and_refuses_the_same_lines(spark: SparkSession) -> None:
    verdicts = {"accepted": True, "not here": True, "refused": False}
    disagreed = [
        line.condition for line in LINES if (spark_tree(spark, line.condition) is not None) != verdicts[line.verdict]
    ]
    assert disagreed == []


SPARK_FORMS = {
    "not": "NOT {}",
    "neg": "-{}",
    "positive": "positive({})",
    "~": "~{}",
    "shiftleft": "({} << {})",
    "shiftright": "({} >> {})",
    "<>": "NOT ({} = {})",
    "istrue": "({} <=> true)",
    "isnull": "isnull({})",
    "isnotnull": "isnotnull({})",
    "like": "{} LIKE {}",
    "rlike": "RLIKE({}, {})",
    "cast": "cast({} as {})",
    "between": "'between({}, {}, {})",
    "abs": "'abs({})",
}


def as_spark(tree: Expression) -> str:
    """A tree as Spark would write it, for the operators that random conditions have."""
    match tree:
        case Literal(value):
            return "null" if value is None else str(value).lower()
        case Attribute(name) | Array(name):
            return f"'{name}"
    function, parts = tree.function, [as_spark(each) for each in tree.arguments]
    match function:
        case "and" | "or":
            return balanced(function.upper(), parts)
        case "concat":
            return reduce("concat({}, {})".format, parts)
        case "in":
            return f"{parts[0]} IN ({','.join(parts[1:])})"
        case "case":
            whens = "".join(f" WHEN {a} THEN {b}" for a, b in zip(parts[::2], parts[1::2], strict=False))
            return f"CASE{whens}{f' ELSE {parts[-1]}' if len(parts) % 2 else ''} END"
    form = SPARK_FORMS.get(function)
    return form.format(*parts) if form else f"({parts[0]} {function} {parts[1]})"


def balanced(word: str, parts: list[str]) -> str:
    """Spark makes a balanced tree of a chain of ANDs or ORs."""
    if len(parts) == 1:
        return parts[0]
    middle = (len(parts) + 1) // 2
    return f"({balanced(word, parts[:middle])} {word} {balanced(word, parts[middle:])})"


def around(part: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Texts that have others in them; precedence decides what becomes of them."""
    signs = st.sampled_from(sorted(INFIX))
    negation = st.sampled_from(["", "NOT "])
    return st.one_of(
        st.builds("{} {} {}".format, part, signs, part),
        st.builds("{} {}".format, st.sampled_from(["-", "+", "~", "NOT", "!"]), part),
        st.builds("{}::{}".format, part, st.sampled_from(["int", "string", "double"])),
        st.builds("{}({})".format, st.sampled_from(["abs", ""]), part),
        st.builds("CAST({} AS INT)".format, part),
        st.builds("CASE WHEN {} THEN {} ELSE {} END".format, part, part, part),
        st.builds("CASE {} WHEN {} THEN {} END".format, part, part, part),
        st.builds("{} IS {}{}".format, part, negation, st.sampled_from(["NULL", "TRUE"])),
        st.builds("{} IS {}DISTINCT FROM {}".format, part, negation, part),
        st.builds("{} {}IN ({}, {})".format, part, negation, part, part),
        st.builds("{} {}BETWEEN {} AND {}".format, part, negation, part, part),
        st.builds("{} {}{} {}".format, part, negation, st.sampled_from(["LIKE", "RLIKE"]), part),
    )


CONDITIONS = st.recursive(st.sampled_from(["a", "b", "c.d", "1", "-2", "NULL", "TRUE"]), around, max_leaves=12)
# With a word lost, which not all survive.
DAMAGED = st.builds(
    lambda text, lost: " ".join(word for place, word in enumerate(text.split()) if place != lost),
    CONDITIONS,
    st.integers(0, 12),
)


@given(CONDITIONS)
@settings(max_examples=150)
def test_spark_reads_random_conditions_as_the_same_trees(spark: SparkSession, text: str) -> None:
    found, theirs = attempt(text), spark_tree(spark, text)
    if isinstance(found, ParseError):
        # Spark takes NOT (…) among values for the call of a function `not`, which there is none of.
        assert theirs is None or found.reason == "NOT cannot stand here without brackets"
    else:
        assert as_spark(found) == theirs


@given(DAMAGED)
@settings(max_examples=150)
def test_nothing_is_accepted_that_spark_refuses_or_reads_differently(spark: SparkSession, text: str) -> None:
    found = attempt(text)
    if not isinstance(found, ParseError):
        assert as_spark(found) == spark_tree(spark, text)
