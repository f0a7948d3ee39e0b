"""Signatures of every function a condition may call: sorts of arguments and result type.

Written from Spark's documentation and not from Palio's own table, so that one can be held against the other
(`test_generate.py` does). An argument is named by its sort, see `Generator.argument`.

Not here: what Spark does not have, and `typeof`, which docs/language.md defines differently. What a `try_` function
does with 32-bit integers (NULL at 2^31) is not either: integers have 64 bits, so it gets BIGINTs.
"""

from __future__ import annotations

from typing import NamedTuple

from palio.filters.expressions.extension_functions import EXTENSION_FUNCTIONS
from tests.oracles.sql_types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    MONEY,
    STRING,
    TIMESTAMP,
    Type,
    decimal,
)

APPROXIMATE = Type("approximate double")
"""A double whose last digit is the C library's or Java's own affair: compared with what it cannot equal."""


class Signature(NamedTuple):
    name: str
    arguments: tuple[str, ...]
    result: Type


_RESULTS = {
    "int": INT,
    "bigint": BIGINT,
    "double": DOUBLE,
    "approximate": APPROXIMATE,
    "boolean": BOOLEAN,
    "string": STRING,
    "binary": BINARY,
    "date": DATE,
    "timestamp": TIMESTAMP,
    "whole": decimal(11, 0),
    "money": MONEY,
    "cents": decimal(11, 2),
    "seconds": decimal(8, 6),
}

_TABLE = """
    upper ucase lower lcase initcap trim ltrim rtrim btrim reverse : text : string
    length len char_length character_length octet_length bit_length ascii : text : int
    length octet_length bit_length : bytes : int
    trim ltrim rtrim : part text : string
    btrim : text part : string
    substring substr left : text place : string
    substring substr : text place place : string
    substring substr left : bytes place : binary
    substring : bytes place place : binary
    right : text place : string
    concat : text : string
    concat : text text : string
    concat : text text text : string
    concat : bytes bytes : binary
    concat_ws : part text : string
    concat_ws : part text text : string
    concat_ws : part text text text : string
    replace : text part : string
    replace : text part part : string
    translate : text part part : string
    reverse : bytes : binary
    startswith endswith contains : string part : boolean
    startswith endswith contains : string string : boolean
    startswith endswith contains : bytes bytes : boolean
    instr : text part : int
    locate position charindex : part text : int
    locate position charindex : part text place : int
    lpad rpad : text count : string
    lpad rpad : text count part : string
    lpad rpad : bytes count : binary
    lpad rpad : bytes count bytes : binary
    repeat : text short : string
    space : short : string
    split_part : text part place : string
    substring_index : text part place : string
    chr char : code : string
    overlay : text part place : string
    overlay : text part place count : string
    overlay : bytes bytes place : binary
    regexp_extract : text grouped : string
    regexp_extract : text grouped group : string
    regexp_replace : text grouped replacement : string
    levenshtein : text text : int
    levenshtein : text text distance : int
    hex : integer : string
    hex : text : string
    hex : bytes : string
    md5 sha1 sha : string : string
    md5 sha1 sha : bytes : string
    sha2 : string bits : string
    conv : text base base : string
    mask : text : string
    mask : text mask_character mask_character mask_character mask_character : string
    luhn_check : text : boolean
    regexp_count regexp_instr : text grouped : int
    regexp_substr : text grouped : string
    unhex : text : binary
    unhex : digits_text : binary
    encode : text charset : binary
    to_binary try_to_binary : text notation : binary
    parse_url try_parse_url : url url_part : string
    get_json_object : json json_path : string
    xpath_boolean : document xpath : boolean
    format_string printf : text_format text : string
    format_string printf : integer_format integer : string

    abs negative : integer : bigint
    abs negative : real : double
    abs negative : money : money
    sign signum : number : double
    ceil ceiling floor : real : bigint
    ceil ceiling floor : integer : bigint
    ceil ceiling floor : money : whole
    round bround : real : double
    round bround : real digits : double
    round bround : money digits : cents
    round bround : money : whole
    round bround : integer digits : bigint
    sqrt : number : double
    cbrt exp expm1 ln log log10 log2 log1p : number : approximate
    log power pow : number number : approximate
    shiftleft shiftright : bigint short : bigint
    pmod mod : integer integer : bigint
    pmod mod : real real : double
    pmod mod : money money : money
    isnan : real : boolean
    isnan : number : boolean
    nanvl : real real : double
    try_add try_subtract try_multiply try_mod : bigint bigint : bigint
    try_add try_subtract try_multiply : real real : double
    try_divide : integer integer : double
    zeroifnull nullifzero : integer : bigint
    bit_count : integer : int
    bit_get getbit : bigint bit : int
    width_bucket : real real real count : bigint

    year quarter month day dayofmonth dayofweek weekday dayofyear weekofyear : day : int
    dayname monthname : day : string
    hour minute second : moment : int
    date_add date_sub dateadd : safe_day short : date
    datediff date_diff : day day : int
    add_months : safe_day short : date
    months_between : safe_moment safe_moment : double
    months_between : safe_moment safe_moment truth : double
    last_day : day : date
    next_day : safe_day weekday : date
    trunc : day unit : date
    date_trunc : clock_unit safe_moment : timestamp
    make_date : year_number month_number day_number : date
    make_timestamp try_make_timestamp : year_number month_number day_number hour minute seconds : timestamp
    to_char to_varchar : safe_moment writing : string
    timestampadd dateadd date_add : counted short safe_moment : timestamp
    timestampdiff datediff date_diff timediff : counted safe_moment safe_moment : bigint
    to_date try_to_date : day : date
    to_date try_to_date : day reading : date
    to_timestamp try_to_timestamp : moment : timestamp
    to_timestamp try_to_timestamp : moment reading : timestamp
    date_format : safe_moment writing : string
    from_unixtime : int : string
    from_unixtime : int writing : string
    unix_date : date : int
    date_from_unix_date : short : date
    unix_seconds unix_millis unix_micros : timestamp : bigint
    unix_timestamp to_unix_timestamp : moment : bigint
    unix_timestamp to_unix_timestamp : moment reading : bigint
    timestamp_seconds : int : timestamp
    timestamp_seconds : money : timestamp
    timestamp_millis timestamp_micros : int : timestamp

    array_contains : nums bigint : boolean
    array_contains : names text : boolean
    element_at try_element_at : nums index : bigint
    element_at try_element_at : names index : string
    size cardinality array_size : nums : int
    size cardinality array_size : names : int

    like ilike : string pattern : boolean
    rlike regexp regexp_like : string regex : boolean
    rlike : ascii word_regex : boolean
    tinyint smallint int bigint : integer : bigint
    double : number : double
    string : printable : string
    boolean : flagish : boolean
    date : day : date
    timestamp : safe_moment : timestamp
    binary : text : binary
    decimal : integer : whole
"""


def _read(line: str) -> list[Signature]:
    names, arguments, result = (part.split() for part in line.split(":"))
    return [Signature(name, tuple(arguments), _RESULTS[result[0]]) for name in names]


SIGNATURES = [signature for line in _TABLE.splitlines() if line.strip() for signature in _read(line)]

ELSEWHERE = frozenset(
    """and or not = <=> <> < <= > >= in between isnull isnotnull istrue isfalse + - * / % div neg positive & | ^ ~
    cast case
    coalesce if nullif nvl2 greatest least nvl ifnull decode equal_null extract date_part datepart float
    yearofweek dayofweek_iso second_with_fraction""".split()
)
"""What the grammar of `generate.py` writes by itself, as an operator or construct or with arguments of one type."""

# Written with brackets, a lambda or a literal; compared with Spark by tests/filters/expressions/generator.py.
WITH_ELEMENTS = frozenset(
    """exists forall get lambda variable split_contains split_element split_size from_utc_timestamp
    to_utc_timestamp""".split()
)
# Written with formats and schemas that are literals; compared with Spark by tests/filters/expressions/format_forms.py.
WITH_FORMATS = frozenset({"to_number", "try_to_number", "json_field"})
LEFT_OUT = EXTENSION_FUNCTIONS | WITH_ELEMENTS | WITH_FORMATS | {"typeof"}
