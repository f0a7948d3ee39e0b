"""Unsupported SQL: functions, clauses and signs of Spark and other dialects, with the reason and an alternative.

These tables only make errors kinder: what is in none of them is refused too, as unknown or unexpected.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Refusal(NamedTuple):
    """The reason of a refusal, and an alternative that is supported."""

    reason: str
    hint: str


_AGGREGATE = Refusal(
    "{name} is an aggregate: it needs many events, and a condition sees one",
    "greatest(a, b) and least(a, b) compare values of one event; size(x) counts the values of one attribute",
)
_WINDOW = Refusal(
    "{name} is a window function: it needs many events, and a condition sees one",
    "compare attributes of the one event",
)
_CLOCK = Refusal(
    "{name} reads the clock, and a subscription must mean the same at any time",
    "compare with a literal such as TIMESTAMP'2024-01-31 12:00:00', or let the publisher send the value",
)
_RANDOM = Refusal(
    "{name} gives another value each time, and a subscription must mean the same at any time",
    "let the publisher send a random value, and compare with that",
)
_SESSION = Refusal(
    "{name} depends on who asks and where, and a subscription must mean the same everywhere",
    "write the value itself",
)
_CONSTRUCTOR = Refusal(
    "{name} makes an array, map or struct, and a condition compares single values",
    "IN (1, 2, 3) asks for one of several; array_contains(x, 1) looks into an attribute",
)
_HIGHER_ORDER = Refusal(
    "{name} runs a function over an array, which a condition cannot",
    "a comparison on an attribute with several values asks for one that satisfies it: x > 3",
)
_GENERATOR = Refusal(
    "{name} makes rows, and a condition makes TRUE or FALSE",
    "a comparison on an attribute with several values asks for one that satisfies it: x > 3",
)

_TIME_OF_DAY = Refusal(
    "{name} is a function of times of day, and there are none without their date here",
    "compare a whole TIMESTAMP, hour(x) and minute(x), or a text: x > '12:30:00'",
)

_FAMILIES: Final = {
    _AGGREGATE: """
        any any_value approx_count_distinct approx_percentile approx_top_k array_agg avg bit_and
        bit_or bit_xor bitmap_construct_agg bitmap_or_agg bool_and bool_or collect_list collect_set
        corr count count_if count_min_sketch covar_pop covar_samp every first first_value grouping
        grouping_id histogram_numeric hll_sketch_agg hll_union_agg kurtosis last last_value listagg
        max max_by mean median min min_by mode percentile percentile_approx percentile_cont
        percentile_disc product regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope
        regr_sxx regr_sxy regr_syy skewness some std stddev stddev_pop stddev_samp string_agg sum
        try_avg try_sum var_pop var_samp variance""",
    _WINDOW: """
        cume_dist dense_rank lag lead nth_value ntile percent_rank rank row_number session_window window
        window_time""",
    _CLOCK: "curdate current_date current_time current_timestamp localtimestamp now",
    _RANDOM: "monotonically_increasing_id rand randn random randstr shuffle uniform uuid",
    _SESSION: """
        current_catalog current_database current_schema current_timezone current_user input_file_block_length
        input_file_block_start input_file_name session_user spark_partition_id user version""",
    _CONSTRUCTOR: """
        array array_repeat arrays_zip create_map map map_concat map_entries map_from_arrays map_from_entries
        named_struct sequence str_to_map struct""",
    _HIGHER_ORDER: """
        aggregate array_sort filter map_filter map_zip_with reduce transform transform_keys
        transform_values zip_with""",
    _TIME_OF_DAY: "make_time time_diff time_trunc to_time try_to_time",
    _GENERATOR: "explode explode_outer inline inline_outer json_tuple posexplode posexplode_outer stack",
}
REFUSED_FUNCTIONS: Final = {name: refusal for refusal, names in _FAMILIES.items() for name in names.split()}
"""Functions of Spark that no condition may call."""

_CLAUSE = Refusal("a condition is only what stands after WHERE; {name} begins another clause", "leave that clause out")
_CLAUSES: Final = """
    cluster delete distribute except from group having insert intersect join lateral limit minus offset on
    order qualify select sort union update using where window with"""
CLAUSES: Final = dict.fromkeys(_CLAUSES.split(), _CLAUSE)
"""Words of a query around its condition."""

UNEXPECTED: Final[dict[str, Refusal]] = {
    "as": Refusal("a condition has no aliases", "leave out AS and the name behind it"),
    ";": Refusal("one condition at a time, without a semicolon", "leave out everything from ; on"),
    "[": Refusal("only an attribute and split() have elements", "write x[0], x['key'] or split(x, ',')[0]"),
    "]": Refusal("this bracket was never opened", "leave it out, or add a [ before"),
    "?": Refusal("there are no parameters in a condition", "write the value itself"),
    ":": Refusal("there are no parameters in a condition", "write the value itself"),
    "->": Refusal("only exists() and forall() take a lambda function", "write exists(x, each -> each > 2)"),
    "=>": Refusal("=> names an argument, and no function here has named ones", "'at least' is written >="),
    "!": Refusal("! stands only before a condition", "write NOT IN, NOT LIKE, NOT RLIKE, NOT BETWEEN, IS NOT NULL"),
    "~": Refusal("~ stands only before a number", "a regular expression is asked for with x RLIKE 'pattern'"),
    "|>": Refusal("|> begins another step of a query, and a condition has one", "leave out everything from |> on"),
    ">>>": Refusal(
        ">>> depends on the width of the integer, which events do not have",
        "write >> for what is not negative",
    ),
    "collate": Refusal("texts are compared by their bytes, without collations", "compare lower(x), or use ILIKE"),
    "mod": Refusal("there is no operator MOD", "write x % 2, or mod(x, 2)"),
    "xor": Refusal("there is no operator XOR", "write (a OR b) AND NOT (a AND b)"),
    "similar": Refusal("there is no SIMILAR TO", "a regular expression is asked for with x RLIKE 'pattern'"),
    "glob": Refusal("there is no GLOB", "write x LIKE 'a%', with % and _ in place of * and ?"),
    "contains": Refusal("CONTAINS is a function", "write contains(x, 'a'), or x LIKE '%a%'"),
    "startswith": Refusal("STARTSWITH is a function", "write startswith(x, 'a'), or x LIKE 'a%'"),
    "endswith": Refusal("ENDSWITH is a function", "write endswith(x, 'a'), or x LIKE '%a'"),
    "isnull": Refusal("ISNULL is a function", "write x IS NULL"),
    "notnull": Refusal("there is no NOTNULL", "write x IS NOT NULL"),
    "over": Refusal("a window needs many events, and a condition sees one", "compare attributes of the one event"),
    "at": Refusal("there is no AT TIME ZONE", "give a literal its zone: TIMESTAMP'2024-01-31 12:00:00 Europe/Paris'"),
    ".": Refusal("only a name may have another behind a dot", "write x.key without brackets"),
    "escape": Refusal("ESCAPE follows the pattern of LIKE or ILIKE only", "write x LIKE 'a/%' ESCAPE '/'"),
}
"""What a word or sign was probably meant as that stands where nothing like it can."""


_ELSEWHERE: Final = {
    "array_length": "size(x)",
    "datetime": "CAST(x AS TIMESTAMP)",
    "date_parse": "to_timestamp(x, 'yyyy-MM-dd')",
    "iif": "if(condition, a, b)",
    "isempty": "x = ''",
    "matches": "x RLIKE 'pattern'",
    "regexp_matches": "x RLIKE 'pattern'",
    "safe_cast": "CAST(x AS INT)",
    "str": "CAST(x AS STRING)",
    "strftime": "date_format(x, 'yyyy-MM-dd')",
    "string_to_array": "split(x, ',')[0]",
    "strpos": "instr(x, 'a')",
    "to_text": "CAST(x AS STRING)",
    "tostring": "CAST(x AS STRING)",
}
"""Functions of other dialects, and what says the same here."""

COUNT_HINTS: Final = {
    "to_char": "CAST(x AS STRING) writes a value as text; to_char(x, 'yyyy-MM-dd') writes a time by a pattern",
    "to_varchar": "CAST(x AS STRING) writes a value as text; to_varchar(x, 'yyyy-MM-dd') writes a time by a pattern",
}
"""What was probably meant by a function with another number of arguments."""


def unknown(name: str, known: list[str]) -> Refusal:
    """That there is no function of this name, and what says the same, or which one is spelt nearly so."""
    if name in _ELSEWHERE:
        return Refusal(f"there is no function {name}", f"write {_ELSEWHERE[name]}")
    from difflib import get_close_matches  # which most conditions never need

    close = get_close_matches(name, known, n=1, cutoff=0.6)
    hint = f"did you mean {close[0]}?" if close else "the specification of the language lists those there are"
    return Refusal(f"there is no function {name}", hint)
