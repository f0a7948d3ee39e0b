"""Forms of functions with formats, notations, paths and positions, for the generator of expressions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.filters.expressions.generator import Generator

URLS = (
    *("http://a", "http://a?x=1", "http://u:p@a.b:80/p%20q?k=v&k2=%20#f", "http://a/?k=", "http://a/?x", "/a/b?c"),
    *("http://a b/", "http://a_b/", "http://1.2.3/", "http://1.2.3.4/x", "http://[::1]:80/x", "mailto:a@b", "", "a"),
    *("//h/p", "http:///p", "http://", "HTTP://A.com", "http://a/é", "http://é/", "http://a/[x]", "http://a/?[x]"),
    *("http://a/%zz", "http://a:/x", "http://a:b/x", "http://a.b-/x", "http://a.b./x", "http://a.1b/x", "1http://a"),
    *("http://@a/", "http:a", "http://a#", "http://a?", "x:", "http://256.1.1.1/", "a:b:c", "http://a@b@c/", "#", "?"),
)
_PARTS = ("HOST", "PATH", "QUERY", "REF", "PROTOCOL", "FILE", "AUTHORITY", "USERINFO", "host")
DOCUMENTS = (
    *('{"a": 1.50}', '{"a": 1e5, "b": {"a": [1, 2.5, null]}}', '{"a": 12345678901234567890123}', '{"a": null, "a": 2}'),
    *('{"a": {"b": "x\\"y", "c": [1.50, null, true, {}]}}', '{"a": 1} xyz', '{"a": 1, bad', '{"a.b": 1}', '"x"'),
    *("[1,2]", '[{"a":1},{"a":2}]', '{"a": "é\\u00e9😀/\\t"}', '{"a": [[1]]}', '{"a": 01}', '{"a": -0.0}', "", "{}"),
    *('{"a": NaN}', '{"a": true, "b": ""}', " [ 1 , [ ] ] ", '{"a": 1e-7}', '{"a": 0.001}', '{"a": 123456789.5}', "5"),
)
_PATHS = (
    "$",
    "$[*]",
    "$[*].a",
    "$.a[*]",
    "$.a[*][*]",
    "$.b.a[*]",
    "$.*",
    "$.a",
    "$.b",
    "$.a.b",
    "$.a.c",
    "$.a[0]",
    "$[1]",
    "$[0].a",
    "$.a[0][0]",
    "$['a.b']",
    "$.b.a[1]",
    "$.a[00]",
)
_CHARSETS = ("utf-8", "UTF-8", "iso-8859-1", "us-ascii", "utf-16", "utf-16be", "utf-16le", "utf-32")
_FORMATS = (
    *(("%s|%5s|%-5s|%.2s", "ssss"), ("%S %s", "ss"), ("%d|%5d|%-5d|%05d|%+d|%,d|%(d|% d", "i" * 8), ("%%|%n", "")),
    *(("%x %X %o %08x", "iiii"), ("%.2f|%8.3f|%f|%+.1f|%,.2f|%012.2f|%.0f", "d" * 7), ("%e %.3e %E", "ddd")),
    *(("%2$s %1$s", "si"), ("%s %s %s %s %s", "sidbm"), ("%b %5b", "bs"), ("%c", "c"), ("%s %d", "tt"), ("%s", "u")),
)
_ARGUMENTS = {
    "s": ("s", "r", "'abc'", "NULL"),
    "i": ("i", "j", "42L"),
    "d": ("d", "e", "1.005D", "12345.678D"),
    "b": ("b", "TRUE", "NULL"),
    "m": ("m", "1.50"),
    "c": ("65", "233"),
    "t": ("t", "ts"),
    "u": ("ts", "t"),
}
_BASE64 = ("YWI=", "YWI", "YW I=", "YQ", "YQ=", "YQ==", "Y", "====", "YR==", "", "YW==I", "YWI=\\n", "+/+/", "-_-_")


def _pick(g: Generator, *options: str) -> str:
    return g.random.choice(options)


def _literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _instr(g: Generator, depth: int) -> str:
    rest = _pick(g, "", "", ", n", ", 1", ", -1", ", 2, 2", ", -2, 2", ", 1, 3", ", n, 1", ", 9")
    return f"instr({g.texty(depth)}, {_pick(g, 'r', 's', _literal('a'), _literal('b'), _literal(''))}{rest})"


def _format_string(g: Generator, depth: int) -> str:
    pattern, kinds = g.random.choice(_FORMATS)
    values = "".join(f", {_pick(g, *_ARGUMENTS[kind])}" for kind in kinds)
    return f"{_pick(g, 'format_string', 'printf')}({_literal(pattern)}{values})"


def _parse_url(g: Generator, depth: int) -> str:
    url = _pick(g, *map(_literal, URLS), "s")
    if g.random.random() < 0.2:
        return f"try_parse_url({url}, 'QUERY', {_pick(g, *map(_literal, ('k', 'k2', 'x', 'z')))})"
    return f"parse_url({url}, '{_pick(g, *_PARTS)}')"


def _get_json_object(g: Generator, depth: int) -> str:
    return f"get_json_object({_pick(g, *map(_literal, DOCUMENTS), 's')}, {_literal(_pick(g, *_PATHS))})"


def _xpath_boolean(g: Generator, depth: int) -> str:
    return f"xpath_boolean({_literal(_pick(g, *_XML_DOCUMENTS))}, {_literal(_pick(g, *_XPATHS))})"


_XML_DOCUMENTS = ("<a><b>1</b><b x='2'>two</b></a>", "<a>10</a>", "<c><a><b/></a></c>")
_XPATHS = ("/a/b", "a//b", "//b[@x = 2]", "/a[b > 0]", "//a[not(b)]", "/a | /c", "//b[contains(., 'w')][parent::a]")


def _from_json(g: Generator, depth: int) -> str:
    kind = _pick(g, "STRING", "INT", "BIGINT", "DOUBLE", "BOOLEAN", "DECIMAL(12,2)")
    return f"from_json({_pick(g, *map(_literal, DOCUMENTS), 's')}, 'a {kind}').a"


def _to_binary(g: Generator, depth: int) -> str:
    match g.random.randrange(3):
        case 0:
            return f"try_to_binary({_pick(g, *map(_literal, _BASE64), 's')}, 'base64')"
        case 1:
            return f"to_binary({g.texty(depth)}, 'utf-8')"
    return f"try_to_binary({_pick(g, 's', 'w', 'hex(s)')}{_pick(g, '', ', ' + _literal('HEX'))})"


_NUMBER_FORMATS = ("99.99", "000", "9,999.9", "S999", "999MI", "$99.9", "99.9PR", "0,999", "S9.", ".99", "MI99.9")
_NUMBER_TEXTS = ("12", "-1", "1,234.5", "$1.5", "<12>", "+7", "0.50", " 3 ", "7-", "x", ".", "012")


def _to_number(g: Generator, depth: int) -> str:
    return f"try_to_number({_pick(g, *map(_literal, _NUMBER_TEXTS), 's')}, '{_pick(g, *_NUMBER_FORMATS[:-2])}')"


def _to_char(g: Generator, depth: int) -> str:
    if g.random.random() < 0.4:
        return f"to_char({_pick(g, 'n', 'i', 'e', 'm', '12.5', '-0.5', '1.5D')}, '{_pick(g, *_NUMBER_FORMATS)}')"
    if g.random.random() < 0.3:
        return f"to_char({_pick(g, 'x', 'y')}, {_pick(g, *map(_literal, ('hex', 'base64', 'utf-8')))})"
    pattern = _pick(g, "yyyy-MM-dd", "HH:mm", "dd/MM/yy", "EEE")
    return f"{_pick(g, 'to_char', 'to_varchar')}({_pick(g, 't', 'ts', 'us')}, '{pattern}')"


def _mask(g: Generator, depth: int) -> str:
    given = [_pick(g, "'X'", "'*'", "NULL") for _ in range(g.random.randint(0, 4))]
    return f"mask({', '.join([_pick(g, 's', 'r', _literal('AbC-12 é Ⅷǅ٣😀Ⓐ')), *given])})"


def _scaled(name: str) -> Callable[[Generator, int], str]:
    def form(g: Generator, depth: int) -> str:
        if g.random.random() < 0.5:
            return f"{name}({g.realish(depth)})"
        return f"{name}({_pick(g, 'i', 'e', 'm', 'k', '1.234', 'w', '99.5D')}, {_pick(g, '0', '1', '2', '-1', '-3')})"

    return form


def _regexp(name: str) -> Callable[[Generator, int], str]:
    patterns = ("a", "b+", "[a-z]+", "\\\\d+", "(a)(b)?", "x{2}", "^a", "c$", "(?i)ABC", "é|o", "l")
    return lambda g, depth: f"{name}({g.texty(depth)}, '{_pick(g, *patterns)}')"


def _make_timestamp(g: Generator, depth: int) -> str:
    fields = (
        *(("2024", "1900 + n"), ("2", "n", "10"), ("29", "n", "27"), ("2", "n", "24"), ("30", "n")),
        ("15.5", "60", "60.5", "n", "m", "e", "w", "0.1234567"),
    )
    zone = _pick(g, "", "", ", 'Europe/Oslo'", ", '+05:30'", ", s")
    name = _pick(g, "make_timestamp", "try_make_timestamp")
    return f"{name}({', '.join(_pick(g, *choices) for choices in fields)}{zone})"


FORMAT_FORMS: dict[str, Callable[[Generator, int], str]] = {
    "instr": _instr,
    "format_string": _format_string,
    "parse_url": _parse_url,
    "get_json_object": _get_json_object,
    "xpath_boolean": _xpath_boolean,
    "to_binary": _to_binary,
    "to_number": _to_number,
    "json_field": _from_json,
    "to_char": _to_char,
    "mask": _mask,
    "ceil": _scaled("ceil"),
    "floor": _scaled("floor"),
    **{name: _regexp(name) for name in ("regexp_count", "regexp_substr", "regexp_instr")},
    "unhex": lambda g, depth: f"unhex({_pick(g, 's', 'w', 'hex(s)', 'hex(i)', _literal('616'), _literal('zz'))})",
    "encode": lambda g, depth: f"encode({g.texty(depth)}, '{_pick(g, *_CHARSETS)}')",
    "decode": lambda g, depth: (
        f"decode({_pick(g, 'x', 'y', 's', 'encode(s, ' + _literal('utf-16') + ')')}, '{_pick(g, *_CHARSETS)}')"
    ),
    "luhn_check": lambda g, depth: (
        f"luhn_check({_pick(g, 's', 'w', 'CAST(i AS STRING)', 'i', _literal('79927398713'))})"
    ),
    "bit_count": lambda g, depth: f"bit_count({_pick(g, 'i', 'j', 'n', 'b', '7')})",
    "getbit": lambda g, depth: f"{_pick(g, 'getbit', 'bit_get')}({_pick(g, 'i', 'j')}, {g.small(0)})",
    "width_bucket": lambda g, depth: (
        f"width_bucket({g.realish(depth)}, {_pick(g, '0', 'e', '-2.5')}, "
        f"{_pick(g, '10', 'e', '0', 'd')}, {_pick(g, '5', 'n', '0', 'j')})"
    ),
    "make_timestamp": _make_timestamp,
}
