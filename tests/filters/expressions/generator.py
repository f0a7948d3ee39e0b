"""Generator of SQL expressions of every kind over the columns of `samples`.

Every function of the table is the root of some; its arguments are columns, literals and further expressions
of kinds that Spark takes. What Palio means differently on purpose is not made here, and tested by name
elsewhere.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from tests.filters.expressions.format_forms import FORMAT_FORMS
from tests.filters.expressions.samples import DAYS, INTEGERS, MOMENTS, TEXTS, WORDS


def words(text: str) -> tuple[str, ...]:
    """The words of a text; a list of names is easier read so than in quotes and commas."""
    return tuple(text.split())


def quoted(text: str) -> str:
    """A text as an SQL literal."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\r", "\\r")
    return f"'{escaped}'"


_LIKES = (
    "%",
    "a%",
    "%a",
    "%b%",
    "a_c",
    "_",
    "__",
    "",
    "A%",
    "a\\%b\\_c",
    "%\\\\%",
    "%é",
    "%_o%",
    "a%c",
    "%b_",
)
_REGEXES = ("a", "^a", "b$", "^a.c$", "[a-c]+", "\\d", "\\s", "a|b", "(ab)+", "^$", "x{2}", "(?i)abc", "\\\\")
_UNITS = words("year QUARTER mon week MM yy day hour minute second dd millisecond x")
# What Java and a linear-time engine find alike, with groups; and replacements for them.
_GROUPED = (
    "(a)",
    "(b)(c)?",
    "([a-z]+) ?([A-Z]\\w*)?",
    "(\\d+)(?:\\.(\\d+))?",
    "(a|ab)(c|bcd)?",
    "(a*?)(b)",
    "^(.)(.*)$",
    "(.)$",
    "((b)|(c))+",
    "(?i)(ABC|x)(,?)",
    "(\\s+)|(o)",
    "(.{2})(.)",
)
_REPLACEMENTS = ("", "-", "$1", "[$0]", "$1$1", "\\$", "<$1>", "$10", "é")
# Not six or seven digits of a second: read as a year, which Spark does, zeros are one before all that Palio has.
_WRITTEN = (
    *("yyyy", "yyyy-MM-dd", "yyyyMMdd", "dd/MM/yy", "d.M.yyyy H:mm", "yyyy-MM-dd'T'HH:mm:ss.SSSXXX", "hh:mm:ss a"),
    *("EEE, d MMM yyyy", "EEEE MMMM", "'year' yyyy", "''yy''", "[yyyy]", "yyyyy", "M/d", "HHmmss"),
    *words("D DDD Q QQQ QQQQ k K h S SSSSSSSS SSSSSSSSS Z x xxx X XXX XXXXX ZZZZZ L LLLL y"),
)
_READ = (
    *("yyyy-MM-dd", "yyyy-MM-dd HH:mm:ss", "yyyy-MM-dd HH:mm:ss.S", "yyyy-MM-dd[ HH:mm:ss]", "yyyy-MM-dd'T'HH"),
    *("yyyy-MM-dd HH:mm:ss[.SSS]", "yyyy-M-d H:m:s"),
    *words("yyyy y-M-d yyyyMMdd yy-MM-dd yyyy-DDD MM-dd HH S"),
)
_BASES = ("2", "10", "16", "36", "-10", "-16", "n")
_COUNTED = ("MICROSECOND", "millisecond", "SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR")
_TYPES = {
    "integer": ("tinyint", "smallint", "int", "bigint"),
    "double": ("double",),
    "decimal": ("decimal(10,2)", "decimal(38,10)", "decimal(5,0)", "decimal(20,3)"),
    "text": ("string",),
    "day": ("date",),
    "moment": ("timestamp",),
    "truth": ("boolean",),
    "binary": ("binary",),
}


class Generator:
    """Makes expressions; the same seed makes the same ones."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def make(self, kind: str, depth: int) -> str:
        """An expression of a kind, nested no deeper than told."""
        if depth <= 0 or self.random.random() < 0.25:
            return self.leaf(kind)
        names = ROOTS[kind]
        return self.call(self.random.choice(names), depth)

    def leaf(self, kind: str) -> str:
        pick = self.random.choice
        column, literal = _LEAVES[kind]
        return pick(column) if self.random.random() < 0.7 else literal(self)

    def call(self, name: str, depth: int) -> str:
        """A call of a function or operator by the name it has in `FUNCTIONS`."""
        return FORMS[name](self, depth - 1)

    def number(self, depth: int) -> str:
        return self.make(self.random.choice(("integer", "double", "decimal")), depth)

    def term(self, depth: int) -> str:
        """A number to add or multiply: no quotient of decimals, of which Spark's declared types then drop digits."""
        kind = self.random.choice(("integer", "double", "decimal"))
        made = self.make(kind, depth)
        while kind == "decimal" and " / " in made:
            made = self.make(kind, depth)
        return made

    def exact(self, depth: int) -> str:
        return self.make(self.random.choice(("integer", "decimal")), depth)

    def any_kind(self) -> str:
        return self.random.choice(tuple(_TYPES))

    def anything(self, depth: int) -> str:
        return self.make(self.any_kind(), depth)

    def texty(self, depth: int) -> str:
        """Something that Spark takes for a text where it wants one."""
        if self.random.random() < 0.8:
            return self.make("text", depth)
        return self.random.choice(("i", "n", "m", "t", "ts", "b", "x", "5", "2.5", "true", "DATE'2024-02-29'"))

    def small(self, depth: int) -> str:
        """An INT that is not large."""
        if self.random.random() < 0.3 and depth > 0:
            return f"length({self.make('text', 0)})"
        return self.random.choice(("n", "1", "2", "-1", "0", "3", "'2'", "CAST(n AS INT)", "5"))

    def dayish(self, depth: int) -> str:
        return self.random.choice((self.make("day", depth), self.make("moment", depth), "w", "'2024-05-06'"))

    def momentish(self, depth: int) -> str:
        return self.random.choice((self.make("moment", depth), self.make("day", depth), "w"))

    def realish(self, depth: int) -> str:
        return self.random.choice((self.number(depth), "w"))

    def interval(self) -> str:
        return self.random.choice(
            (
                "INTERVAL '1' DAY",
                "INTERVAL '-3' DAY",
                "INTERVAL '25' HOUR",
                "INTERVAL '90' MINUTE",
                "INTERVAL '1.5' SECOND",
                "INTERVAL '2 03:04:05' DAY TO SECOND",
                "INTERVAL '1' MONTH",
                "INTERVAL '-13' MONTH",
                "INTERVAL '1' YEAR",
            )
        )

    def comparable(self, depth: int) -> tuple[str, str]:
        """Two operands that compare: of a kind, two numbers, two times, or one and a string literal."""
        form = self.random.randrange(6)
        if form == 0:
            return self.number(depth), self.number(depth)
        if form == 1:
            return self.make("day", depth), self.make("moment", depth)
        kind = self.any_kind()
        pair = [self.make(kind, depth), self.make(kind, depth)]
        if form == 2 and kind != "binary":
            pair[1] = quoted(self.random.choice(WORDS))
        self.random.shuffle(pair)
        return pair[0], pair[1]

    def alike(self, count: int, depth: int) -> list[str]:
        """Values of one kind, or NULL, one of them perhaps a number of another kind."""
        kind = self.any_kind()
        made = [self.make(kind, depth) for _ in range(count)]
        if self.random.random() < 0.2:
            made[self.random.randrange(count)] = "NULL"
        return made


_LEAVES: dict[str, tuple[tuple[str, ...], Callable[[Generator], str]]] = {
    "integer": (("i", "j", "n"), lambda g: str(g.random.choice((*INTEGERS[:-1], 4, 6, 12)))),
    "double": (
        ("d", "e"),
        lambda g: g.random.choice(("0.1D", "2.5D", "-1e10D", "0D", "double('NaN')", "1e-3D")),
    ),
    "decimal": (
        ("m", "k"),
        lambda g: g.random.choice(("0.1", "2.50", "-1.005", "0.0", "100.", "12345.6789")),
    ),
    "text": (("s", "r", "w"), lambda g: quoted(g.random.choice((*TEXTS, "b", "lo")))),
    "day": (("t", "u"), lambda g: f"DATE'{g.random.choice(DAYS)}'"),
    "moment": (("ts", "us"), lambda g: f"TIMESTAMP'{g.random.choice(MOMENTS):%Y-%m-%d %H:%M:%S.%f}'"),
    "truth": (("b", "c"), lambda g: g.random.choice(("TRUE", "FALSE", "NULL"))),
    "binary": (("x", "y"), lambda g: g.random.choice(("X'61'", "X'FF00'", "X''"))),
}

Form = Callable[[Generator, int], str]


def _infix(name: str, left: str, right: str) -> str:
    return f"({left} {name} {right})"


def _comparison(name: str) -> Form:
    return lambda g, depth: _infix(name, *g.comparable(depth))


def _of(name: str, *makers: Callable[[Generator, int], str], optional: int = 0) -> Form:
    def form(g: Generator, depth: int) -> str:
        count = len(makers) - g.random.randint(0, optional)
        return f"{name}({', '.join(maker(g, depth) for maker in makers[:count])})"

    return form


def _kind(kind: str) -> Form:
    return lambda g, depth: g.make(kind, depth)


def _pick(*options: str) -> Form:
    return lambda g, depth: g.random.choice(options)


_text, _small, _real, _number = Generator.texty, Generator.small, Generator.realish, Generator.number
_day, _moment = Generator.dayish, Generator.momentish


def _plus(g: Generator, depth: int) -> str:
    form = g.random.randrange(6)
    if form == 0:
        return _infix("+", g.make("day", depth), g.random.choice(("5", "-400", "n", g.interval())))
    if form == 1:
        return _infix("+", *g.random.choice(((g.make("moment", depth), g.interval()), (g.interval(), "ts"))))
    if form == 2:
        return _infix("+", g.term(depth), g.random.choice(("'5'", "w", "'2.5'")))
    return _infix("+", g.term(depth), g.term(depth))


def _minus(g: Generator, depth: int) -> str:
    form = g.random.randrange(7)
    if form == 0:
        return _infix("-", g.make("day", depth), g.random.choice(("5", "n", g.interval())))
    if form == 1:
        return _infix("-", g.make("moment", depth), g.interval())
    if form == 2:
        return _infix("-", g.random.choice(("t", "ts")), g.random.choice(("u", "us", "'2024-01-01'")))
    return _infix("-", g.term(depth), g.term(depth))


def _times(g: Generator, depth: int) -> str:
    if g.random.random() < 0.1:
        return _infix("*", g.interval(), g.random.choice(("n", "e", "2", "1.5", "0.1D")))
    return _infix("*", g.term(depth), g.term(depth))


def _divide(g: Generator, depth: int) -> str:
    if g.random.random() < 0.1:
        return _infix("/", g.interval(), g.random.choice(("n", "e", "2", "0.3D", "7")))
    pair = [g.make(g.random.choice(("integer", "double")), depth) for _ in range(2)]
    if g.random.random() < 0.2:
        pair[1] = g.make("double", depth)
        pair[0] = g.random.choice(("m", "w"))
    return _infix("/", *pair)


def _grouped(g: Generator) -> str:
    return quoted(g.random.choice(_GROUPED))


def _regexp_extract(g: Generator, depth: int) -> str:
    group = g.random.choice(("", ", 0", ", 1"))
    return f"regexp_extract({_text(g, depth)}, {_grouped(g)}{group})"


def _regexp_replace(g: Generator, depth: int) -> str:
    position = g.random.choice(("", "", ", 1", ", 2", ", 9"))
    return f"regexp_replace({_text(g, depth)}, {_grouped(g)}, {quoted(g.random.choice(_REPLACEMENTS))}{position})"


def _by_pattern(name: str, value: Form, patterns: tuple[str, ...], *, or_none: bool = True) -> Form:
    """A function that writes or reads times, by a pattern or without; most texts that are read are such as fit."""

    def form(g: Generator, depth: int) -> str:
        pattern = g.random.choice(patterns)
        if or_none and g.random.random() < 0.3:
            return f"{name}({value(g, depth)})"
        read = patterns is _READ and g.random.random() < 0.6
        argument = f"date_format({g.random.choice(('t', 'ts', 'us'))}, {quoted(pattern)})" if read else value(g, depth)
        return f"{name}({argument}, {quoted(pattern)})"

    return form


def _digits(g: Generator, depth: int) -> str:
    return g.random.choice((g.make("integer", depth), g.make("text", depth), g.make("binary", 0), "t", "b", "e", "m"))


def _run(g: Generator, depth: int) -> str:
    return g.make(g.random.choice(("text", "text", "binary")), depth)


def _overlay(g: Generator, depth: int) -> str:
    if g.random.random() < 0.3:
        return f"OVERLAY({_text(g, depth)} PLACING {_text(g, 0)} FROM {_small(g, 0)} FOR {_small(g, 0)})"
    kind = g.random.choice(("text", "text", "binary"))
    count = g.random.choice(("", f", {_small(g, 0)}"))
    return f"overlay({g.make(kind, depth)}, {g.make(kind, 0)}, {_small(g, 0)}{count})"


def _counted(name: str, first: Form) -> Form:
    return lambda g, depth: f"{name}({g.random.choice(_COUNTED)}, {first(g, depth)}, {_moment(g, depth)})"


def _shifted(*forms: str) -> Form:
    """Of a BIGINT: how far an INT can be shifted depends on its width."""
    numbers = ("i", "j", "CAST(n AS BIGINT)", "length(s) + i")
    return lambda g, depth: g.random.choice(forms).format(g.random.choice(numbers), _small(g, depth))


def _rest(name: str) -> Form:
    return lambda g, depth: _infix(name, g.number(depth), g.number(depth))


def _in(g: Generator, depth: int) -> str:
    if g.random.random() < 0.3:
        items = [g.number(depth), g.number(0), g.number(0)]
        return f"({g.number(depth)} IN ({', '.join(items)}))"
    kind = g.any_kind()
    made = [g.make(kind, 0) for _ in range(g.random.randint(1, 4))]
    if g.random.random() < 0.2:
        made.append("NULL")
    if kind not in ("text", "binary") and g.random.random() < 0.2:
        made = [quoted(g.random.choice(WORDS)) for _ in range(2)]
    return f"({g.make(kind, depth)} {g.random.choice(('IN', 'NOT IN'))} ({', '.join(made)}))"


def _between(g: Generator, depth: int) -> str:
    kind = g.any_kind()
    return f"({g.make(kind, depth)} BETWEEN {g.make(kind, depth)} AND {g.make(kind, 0)})"


def _like(name: str) -> Form:
    def form(g: Generator, depth: int) -> str:
        pattern = g.random.choice((*map(quoted, _LIKES), "r"))
        escape = g.random.choice(("", "", " ESCAPE '/'"))
        return f"({g.make('text', depth)} {name} {pattern}{escape})"

    return form


def _part_of(name: str) -> Form:
    def form(g: Generator, depth: int) -> str:
        kind = g.random.choice(("text", "text", "text", "binary"))
        return f"{name}({g.make(kind, depth)}, {g.make(kind, depth)})"

    return form


def _single(g: Generator, depth: int) -> str:
    """A 32-bit float, which may only be compared."""
    operator = g.random.choice(("=", "<", ">=", "<=>"))
    return f"(CAST({g.random.choice((g.number(depth), 'w', 'ts'))} AS FLOAT) {operator} {g.number(depth)})"


def _cast(g: Generator, depth: int) -> str:
    kind = g.any_kind()
    target = g.random.choice([name for names in _TYPES.values() for name in names])
    return f"CAST({g.make(kind, depth)} AS {target})"


def _cast_to_moment(g: Generator, depth: int) -> str:
    """Not of a large number, which would be a year that Python does not have."""
    value = g.random.choice((g.make("text", depth), g.make("day", depth), "n", "e", "k", "w"))
    return f"CAST({value} AS TIMESTAMP)"


def _cast_to(kind: str) -> Form:
    return lambda g, depth: f"CAST({g.anything(depth)} AS {g.random.choice(_TYPES[kind])})"


def _case(g: Generator, depth: int) -> str:
    first, second, third = g.alike(3, depth)
    when, other = g.make("truth", 0), g.make("truth", 0)
    form = g.random.randrange(3)
    if form == 0:
        return f"CASE WHEN {g.make('truth', depth)} THEN {first} END"
    if form == 1:
        return f"CASE WHEN {when} THEN {first} WHEN {other} THEN {second} ELSE {third} END"
    return f"CASE WHEN {when} THEN {g.random.choice('ij')} ELSE 2.5{g.random.choice(('', 'D'))} END"


def _if(g: Generator, depth: int) -> str:
    first, second = g.alike(2, depth)
    return f"if({g.make('truth', depth)}, {first}, {second})"


def _chosen(name: str, count: int) -> Form:
    return lambda g, depth: f"{name}({', '.join(g.alike(count, depth))})"


def _most(name: str) -> Form:
    def form(g: Generator, depth: int) -> str:
        made = g.alike(g.random.randint(2, 3), depth)
        return f"{name}({', '.join(made)})"

    return form


def _logic(name: str) -> Form:
    return lambda g, depth: _infix(name, g.make("truth", depth), g.make("truth", depth))


def _array_contains(g: Generator, depth: int) -> str:
    array, values = g.random.choice(
        (
            ("a", ("i", "1", "2.0", "3D", "e", "m")),
            ("g", ("d", "1", "0.5", "0D", "i")),
            ("h", ("s", "'a'", "r")),
        )
    )
    return f"array_contains({array}, {g.random.choice(values)})"


def _of_elements(name: str) -> Form:
    """A condition on the elements of an array, which have a name in it."""

    def form(g: Generator, depth: int) -> str:
        array, conditions = g.random.choice(
            (
                ("a", ("e > 1", "e + 1 = 3", "e IS NULL", "e = i")),
                ("g", ("e > 0.5D", "e < d")),
                ("h", ("e = 'a'", "e LIKE '%b%'", "e IS NOT NULL")),
            )
        )
        return f"{name}({array}, e -> {g.random.choice(conditions)})"

    return form


def _split(g: Generator, depth: int) -> str:
    return f"split({g.make('text', depth)}, {g.random.choice(_SEPARATORS)})"


_SEPARATORS = ("','", "'a'", "'[ab]'", "''", "'x+', 2", "' ', -1")
_SPLIT_PARTS = ("'a'", "''", "'ab'", "'1'")
_ZONES = ("'UTC'", "'America/New_York'", "'Asia/Kolkata'", "'+02:30'", "NULL")
FORMS: dict[str, Form] = {
    "and": _logic("AND"),
    "or": _logic("OR"),
    "not": lambda g, depth: f"(NOT {g.make('truth', depth)})",
    **{name: _comparison(name) for name in ("=", "<=>", "<>", "<", "<=", ">", ">=")},
    "in": _in,
    "between": _between,
    "isnull": lambda g, depth: f"({g.anything(depth)} IS NULL)",
    "isnotnull": lambda g, depth: f"({g.anything(depth)} IS NOT NULL)",
    "istrue": lambda g, depth: f"({g.make('truth', depth)} IS TRUE)",
    "isfalse": lambda g, depth: f"({g.make('truth', depth)} IS FALSE)",
    "+": _plus,
    "-": _minus,
    "*": _times,
    "/": _divide,
    "%": _rest("%"),
    "div": lambda g, depth: g.random.choice(("({} DIV {})", "div({}, {})")).format(g.exact(depth), g.exact(depth)),
    "neg": lambda g, depth: f"(- {_real(g, depth)})",
    "&": lambda g, depth: _infix("&", g.make("integer", depth), g.make("integer", depth)),
    "|": lambda g, depth: _infix("|", g.make("integer", depth), g.make("integer", depth)),
    "^": lambda g, depth: _infix("^", g.make("integer", depth), g.make("integer", depth)),
    "~": lambda g, depth: f"(~ {g.make('integer', depth)})",
    "positive": lambda g, depth: f"(+ {_real(g, depth)})",
    "shiftleft": _shifted("shiftleft({}, {})", "({} << {})"),
    "shiftright": _shifted("shiftright({}, {})", "({} >> {})"),
    "cast": _cast,
    "case": _case,
    "like": _like("LIKE"),
    "ilike": _like("ILIKE"),
    "rlike": lambda g, depth: f"({g.make('text', depth)} RLIKE {quoted(g.random.choice(_REGEXES))})",
    "coalesce": _most("coalesce"),
    "if": _if,
    "nullif": lambda g, depth: "nullif({}, {})".format(*g.comparable(depth)),
    "nvl2": lambda g, depth: "nvl2({}, {}, {})".format(g.anything(depth), *g.alike(2, depth)),
    "greatest": _most("greatest"),
    "least": _most("least"),
    **{
        name: _of(name, _text)
        for name in ("upper", "lower", "initcap", "length", "octet_length", "bit_length", "reverse", "ascii")
    },
    **{name: _of(name, _text, _text, optional=1) for name in ("trim", "ltrim", "rtrim", "btrim")},
    "substring": _of("substring", _text, _small, _small, optional=1),
    "left": _of("left", _text, _small),
    "right": _of("right", _text, _small),
    "concat": _of("concat", _text, _text, _text, optional=2),
    "concat_ws": _of("concat_ws", _text, _text, _text, optional=1),
    "replace": _of("replace", _text, _text, _text, optional=1),
    "translate": _of("translate", _text, _text, _text),
    **{name: _part_of(name) for name in ("startswith", "endswith", "contains")},
    "locate": _of("locate", _text, _text, _small, optional=1),
    "lpad": _of("lpad", _text, _small, _text, optional=1),
    "rpad": _of("rpad", _text, _small, _text, optional=1),
    "repeat": _of("repeat", _text, _small),
    "space": _of("space", _small),
    "split_part": _of("split_part", _text, _text, _small),
    "substring_index": _of("substring_index", _text, _text, _small),
    "overlay": _overlay,
    "regexp_extract": _regexp_extract,
    "regexp_replace": _regexp_replace,
    "levenshtein": _of("levenshtein", _text, _text, _pick("0", "1", "3", "-1", "'2'"), optional=1),
    "hex": _of("hex", _digits),
    "md5": _of("md5", _run),
    "sha1": _of("sha1", _run),
    "sha2": _of("sha2", _run, _pick("0", "224", "256", "384", "512", "n", "'256'")),
    "conv": _of(
        "conv", lambda g, depth: g.random.choice((_text(g, depth), "i", "hex(i)")), _pick(*_BASES), _pick(*_BASES)
    ),
    "chr": _of("chr", lambda g, depth: g.random.choice((g.make("integer", depth), "65", "233", "w"))),
    **{name: _of(name, _real) for name in words("abs signum sqrt cbrt exp expm1 ln log10 log2 log1p isnan")},
    "round": _of("round", _real, _pick("0", "1", "2", "-1", "5", "-20"), optional=1),
    "bround": _of("bround", _real, _pick("0", "1", "2", "-1", "5"), optional=1),
    "power": _of("power", _real, _real),
    "log": _of("log", _real, _real, optional=1),
    "pmod": _of("pmod", _number, _number),
    "nanvl": _of("nanvl", _real, _real),
    **{
        name: _of(name, _day)
        for name in words(
            "year quarter month dayofmonth dayofweek weekday dayofyear weekofyear dayname monthname last_day"
        )
    },
    **{name: _of(name, _moment) for name in ("hour", "minute", "second")},
    "yearofweek": lambda g, depth: f"extract(yearofweek FROM {_day(g, depth)})",
    "dayofweek_iso": lambda g, depth: f"extract(dow_iso FROM {_day(g, depth)})",
    "second_with_fraction": lambda g, depth: f"extract(second FROM {_moment(g, depth)})",
    "date_add": _of("date_add", _day, _small),
    "date_sub": _of("date_sub", _day, _small),
    "datediff": _of("datediff", _day, _day),
    "timestampadd": _counted("timestampadd", _small),
    "timestampdiff": _counted("timestampdiff", _moment),
    "add_months": _of("add_months", _day, _small),
    "months_between": _of("months_between", _moment, _moment, _pick("true", "false"), optional=1),
    "next_day": _of("next_day", _day, _pick("'mon'", "'TU'", "'Sunday'", "'x'", "s")),
    "trunc": _of("trunc", _day, _pick(*map(quoted, _UNITS))),
    "date_trunc": _of("date_trunc", _pick(*map(quoted, _UNITS)), _moment),
    "make_date": _of("make_date", _pick("2024", "1900 + n", "1999"), _pick("n", "2", "12"), _pick("n", "29", "31")),
    "to_date": _by_pattern("to_date", lambda g, depth: g.random.choice((_day(g, depth), "w")), _READ),
    "to_timestamp": _by_pattern(
        "to_timestamp", lambda g, depth: g.random.choice((_moment(g, depth), "w", "n", "e", "m")), _READ
    ),
    "date_format": _by_pattern("date_format", _moment, _WRITTEN, or_none=False),
    "from_unixtime": _by_pattern("from_unixtime", _pick("n", "j % 100000000000", "e", "m", "w"), _WRITTEN),
    "unix_date": _of("unix_date", _kind("day")),
    "date_from_unix_date": _of("date_from_unix_date", _small),
    "unix_seconds": _of("unix_seconds", _kind("moment")),
    "unix_millis": _of("unix_millis", _kind("moment")),
    "unix_micros": _of("unix_micros", _kind("moment")),
    "unix_timestamp": _by_pattern("unix_timestamp", _moment, _READ),
    "timestamp_seconds": _of("timestamp_seconds", _pick("n", "e", "m", "k", "1.5")),
    "timestamp_millis": _of("timestamp_millis", _pick("n", "j")),
    "timestamp_micros": _of("timestamp_micros", _pick("n", "1500000")),
    "array_contains": _array_contains,
    "element_at": _of("element_at", _pick("a", "g", "h"), _pick("1", "-1", "2", "n")),
    "size": _of("size", _pick("a", "g", "h")),
    "get": _of("get", _pick("a", "g", "h"), _pick("0", "1", "-1", "n")),
    "exists": _of_elements("exists"),
    "forall": _of_elements("forall"),
    "split_element": lambda g, depth: f"{_split(g, depth)}[{g.random.choice('01')}]",
    "split_size": lambda g, depth: f"size({_split(g, depth)})",
    "split_contains": lambda g, depth: f"array_contains({_split(g, depth)}, {g.random.choice(_SPLIT_PARTS)})",
    "from_utc_timestamp": _of("from_utc_timestamp", _moment, _pick(*_ZONES)),
    "to_utc_timestamp": _of("to_utc_timestamp", _moment, _pick(*_ZONES)),
    **FORMAT_FORMS,
}

ROOTS: dict[str, tuple[str, ...]] = {
    "truth": words(
        "and or not = <=> <> < <= > >= in between isnull isnotnull istrue isfalse like ilike rlike "
        "startswith endswith contains isnan array_contains"
    ),
    "integer": words(
        "& | ^ ~ div length octet_length ascii instr locate year quarter month dayofmonth dayofweek "
        "weekday dayofyear weekofyear hour minute second datediff unix_date unix_seconds size levenshtein timestampdiff"
    ),
    "double": ("signum", "sqrt", "nanvl"),
    "decimal": ("second_with_fraction",),
    "text": words(
        "upper lower initcap trim ltrim rtrim btrim right concat_ws replace translate repeat "
        "split_part substring_index chr dayname monthname space regexp_extract regexp_replace hex md5 conv date_format "
        "from_unixtime"
    ),
    "day": ("date_add", "date_sub", "add_months", "last_day", "next_day", "trunc", "make_date", "to_date"),
    "moment": ("date_trunc", "to_timestamp", "timestamp_seconds"),
    "binary": (),
}
for _name in ("integer", "double", "decimal", "text", "day", "moment"):
    FORMS[f"cast to {_name}"] = _cast_to(_name)
    ROOTS[_name] = (*ROOTS[_name], f"cast to {_name}")
FORMS["cast to single"] = _single
FORMS["cast to moment"] = _cast_to_moment
ROOTS["integer"] = (*ROOTS["integer"], "integer sum", "integer product")
FORMS["integer sum"] = lambda g, depth: _infix("+", g.make("integer", depth), g.make("integer", depth))
FORMS["integer product"] = lambda g, depth: _infix("*", g.make("integer", depth), g.make("integer", depth))
ROOTS["double"] = (*ROOTS["double"], "double sum", "double quotient")
FORMS["double sum"] = lambda g, depth: _infix("+", g.make("double", depth), g.number(depth))
FORMS["double quotient"] = lambda g, depth: _infix("/", g.make("double", depth), g.number(depth))
ROOTS["decimal"] = (*ROOTS["decimal"], "decimal sum", "decimal product")
FORMS["decimal sum"] = lambda g, depth: _infix("-", g.make("decimal", 0), g.exact(0))
FORMS["decimal product"] = lambda g, depth: _infix("*", g.make("decimal", 0), g.random.choice(("2.5", "k", "n")))
ROOTS["decimal"] = (*ROOTS["decimal"], "decimal quotient")
FORMS["decimal quotient"] = lambda g, depth: _infix(
    "/",
    g.random.choice(("m", "k", "2.50", f"CAST({g.number(depth)} AS DECIMAL(12,4))")),
    g.random.choice(("3", "7.5", "-0.03", "100", "i", "CAST(n AS INT)", f"CAST({g.number(0)} AS DECIMAL(9,2))")),
)
ROOTS["binary"] = ("cast to binary",)
FORMS["cast to binary"] = lambda g, depth: f"CAST({g.make('text', depth)} AS BINARY)"
