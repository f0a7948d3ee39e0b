"""Patterns with events that match them and events that do not, one fact each.

The facts were gathered from EventBridge's documentation, from the tests of its engine, and from answers of the
service that others have recorded; the patterns and events are our own.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Vector(NamedTuple):
    fact: str
    pattern: dict[str, Any]
    matching: list[dict[str, Any]]
    other: list[dict[str, Any]]


VECTORS = [
    # Values that stand for themselves.
    Vector("a string is equal to itself alone", {"x": ["a"]}, [{"x": "a"}], [{"x": "A"}, {"x": "ab"}, {"x": ""}, {}]),
    Vector("the empty string is a string", {"x": [""]}, [{"x": ""}], [{"x": None}, {"x": " "}, {"x": []}, {}]),
    Vector("a string of digits is no number", {"x": ["1"]}, [{"x": "1"}], [{"x": 1}, {"x": 1.0}, {"x": True}]),
    Vector("a number is no string of digits", {"x": [1]}, [{"x": 1}, {"x": 1.0}], [{"x": "1"}, {"x": True}, {"x": 2}]),
    Vector("300 and 3.0e2 are one number", {"x": [300]}, [{"x": 300}, {"x": 300.0}, {"x": 3.0e2}], [{"x": "300"}]),
    Vector("numbers beyond all limits are equal", {"x": [123456789012]}, [{"x": 123456789012}], [{"x": 123456789013}]),
    Vector("zero has no sign", {"x": [0]}, [{"x": 0}, {"x": -0.0}], [{"x": ""}, {"x": False}, {"x": None}]),
    Vector("true is no string", {"x": [True]}, [{"x": True}], [{"x": "true"}, {"x": 1}, {"x": False}]),
    Vector("false is no absence", {"x": [False]}, [{"x": False}], [{"x": 0}, {"x": None}, {}]),
    Vector("null is null", {"x": [None]}, [{"x": None}], [{"x": "null"}, {"x": []}, {"x": ""}, {"x": 0}, {}]),
    Vector("one of several values", {"x": ["a", 2, None]}, [{"x": "a"}, {"x": 2}, {"x": None}], [{"x": "b"}, {}]),
    Vector("`exactly` is a value with its name", {"x": [{"exactly": "a"}]}, [{"x": "a"}], [{"x": "A"}, {"x": "aa"}]),
    Vector("names have case", {"Source": ["a"]}, [{"Source": "a"}], [{"source": "a"}, {"SOURCE": "a"}]),
    Vector("other fields do not matter", {"x": ["a"]}, [{"x": "a", "y": 1, "z": {"x": "b"}}], [{"z": {"x": "a"}}]),
    Vector("all fields are to match", {"x": [1], "y": [2]}, [{"x": 1, "y": 2}], [{"x": 1}, {"y": 2}, {"x": 2, "y": 1}]),
    Vector(
        "objects are steps", {"d": {"e": {"f": ["a"]}}}, [{"d": {"e": {"f": "a"}}}], [{"d": {"f": "a"}}, {"d": "a"}]
    ),
    Vector("an object is no value", {"d": ["a"]}, [{"d": "a"}], [{"d": {"a": "a"}}, {"d": {"d": "a"}}]),
    Vector("JSON inside a string is a string", {"d": {"k": ["v"]}}, [{"d": {"k": "v"}}], [{"d": '{"k": "v"}'}]),
    # Arrays.
    Vector("an array has any of its values", {"x": ["a", "b"]}, [{"x": ["c", "b"]}], [{"x": ["c", "d"]}, {"x": []}]),
    Vector("arrays in arrays are one", {"x": [1]}, [{"x": [[2], [[1]]]}], [{"x": [[2]]}, {"x": [[]]}]),
    Vector("objects in arrays are entered", {"d": {"k": [1]}}, [{"d": [{"k": 2}, {"k": 1}]}], [{"d": [{"k": 2}]}]),
    Vector(
        "fields of objects in an array match in one of them",
        {"d": {"k": [1], "m": [{"prefix": "b"}]}},
        [{"d": [{"k": 2}, {"k": 1, "m": "bee"}]}, {"d": [[{"k": 1, "m": "b"}]]}, {"d": {"k": 1, "m": "b"}}],
        [{"d": [{"k": 1}, {"m": "bee"}]}, {"d": [{"k": 1, "m": "a"}, {"k": 2, "m": "b"}]}],
    ),
    Vector(
        "objects in arrays of objects",
        {"d": {"k": [1], "e": {"m": [2], "n": [3]}}},
        [{"d": [{"k": 5}, {"k": 1, "e": [{"m": 2}, {"m": 2, "n": 3}]}]}],
        [
            {"d": [{"k": 1, "e": [{"m": 2}, {"n": 3}]}]},
            {"d": [{"k": 1, "e": [{"m": 4}]}, {"k": 5, "e": [{"m": 2, "n": 3}]}]},
        ],
    ),
    Vector(
        "absent in the object that matches",
        {"d": {"k": [1], "m": [{"exists": False}]}},
        [{"d": [{"k": 2, "m": 1}, {"k": 1}]}, {"d": [{"k": 1, "m": []}]}],
        [{"d": [{"k": 1, "m": 1}, {"k": 2}]}, {"d": [{"k": 1, "m": [{"x": 1}, 2]}]}],
    ),
    Vector(
        "values beside an object, and beside another",
        {"d": [7], "d.k": ["a"]},
        [{"d": [[{"k": "a"}, 6, 7], [{"k": "b"}, 8]]}, {"d": [7, {"k": "b"}, {"k": "a"}]}],
        [{"d": [[{"k": "b"}, 6, 7], [{"k": "a"}, 8]]}],
    ),
    Vector(
        "two arrays of objects", {"d": {"k": [1]}, "e": {"k": [2]}}, [{"d": [{"k": 1}, {"m": 1}], "e": [{"k": 2}]}], []
    ),
    Vector("a number in an array", {"x": [{"numeric": [">", 9]}]}, [{"x": [1, 10]}], [{"x": [1, 2]}, {"x": ["10"]}]),
    Vector(
        "some value is another", {"x": [{"anything-but": "a"}]}, [{"x": ["a", "b"]}], [{"x": ["a", "a"]}, {"x": []}]
    ),
    Vector("null in an array", {"x": [None]}, [{"x": [1, None]}], [{"x": [1]}, {"x": []}]),
    # Prefixes and suffixes.
    Vector(
        "a prefix", {"x": [{"prefix": "ab"}]}, [{"x": "ab"}, {"x": "abc"}], [{"x": "a"}, {"x": "Abc"}, {"x": "cab"}]
    ),
    Vector("a prefix is of strings", {"x": [{"prefix": "1"}]}, [{"x": "12"}], [{"x": 12}, {"x": 1}, {"x": None}, {}]),
    Vector("every string has the empty prefix", {"x": [{"prefix": ""}]}, [{"x": ""}, {"x": "a"}], [{"x": 1}, {}]),
    Vector("a suffix", {"x": [{"suffix": ".png"}]}, [{"x": "a.png"}, {"x": ".png"}], [{"x": "a.pngx"}, {"x": "a.PNG"}]),
    Vector("every string has the empty suffix", {"x": [{"suffix": ""}]}, [{"x": ""}, {"x": "a"}], [{"x": None}, {}]),
    Vector("a suffix beyond ASCII", {"x": [{"suffix": "统治者"}]}, [{"x": "事件统治者"}], [{"x": "统治"}]),
    Vector("a quote is a character", {"x": [{"prefix": '"'}]}, [{"x": '"a"'}], [{"x": "a"}]),
    # Case.
    Vector(
        "equal without regard to case",
        {"x": [{"equals-ignore-case": "aBc"}]},
        [{"x": "abc"}, {"x": "ABC"}, {"x": "aBc"}],
        [{"x": "abcd"}, {"x": "ab"}, {"x": 1}, {"x": None}, {}],
    ),
    Vector("nothing is equal to nothing", {"x": [{"equals-ignore-case": ""}]}, [{"x": ""}], [{"x": "a"}, {"x": None}]),
    Vector(
        "letters of other lengths in other cases",
        {"x": [{"equals-ignore-case": "1aA*†Éⱥß"}]},
        [{"x": "1aa*†éⱥß"}, {"x": "1AA*†ÉȺSS"}],
        [{"x": "1aa*†éⱥss"}, {"x": "1aa*†eⱥß"}],
    ),
    Vector("a final sigma is its own letter", {"x": [{"equals-ignore-case": "οσ"}]}, [{"x": "ΟΣ"}], [{"x": "ος"}]),
    Vector(
        "a prefix in any case",
        {"x": [{"prefix": {"equals-ignore-case": "EventB"}}]},
        [{"x": "eventbridge"}, {"x": "EVENTB"}],
        [{"x": "event"}, {"x": "my-EventB"}, {"x": 1}],
    ),
    Vector(
        "a suffix in any case",
        {"x": [{"suffix": {"equals-ignore-case": ".PnG"}}]},
        [{"x": "a.png"}, {"x": ".PNG"}],
        [{"x": "a.png.gz"}, {"x": "png"}],
    ),
    # Wildcards.
    Vector(
        "wildcards stand for any characters",
        {"x": [{"wildcard": "d*f*"}]},
        [{"x": "df"}, {"x": "deeef"}, {"x": "d\nf\n"}, {"x": "dff*"}],
        [{"x": "xdf"}, {"x": "d"}, {"x": "fd"}],
    ),
    Vector("a wildcard alone is any string", {"x": [{"wildcard": "*"}]}, [{"x": ""}, {"x": "a"}], [{"x": 1}, {}]),
    Vector("no wildcard, no freedom", {"x": [{"wildcard": "ab"}]}, [{"x": "ab"}], [{"x": "abc"}, {"x": "xab"}]),
    Vector("the empty wildcard", {"x": [{"wildcard": ""}]}, [{"x": ""}], [{"x": "a"}]),
    Vector("an escaped star", {"x": [{"wildcard": r"a\*b*"}]}, [{"x": "a*bc"}], [{"x": "aXbc"}, {"x": r"a\*b"}]),
    Vector("an escaped backslash", {"x": [{"wildcard": r"*\\b"}]}, [{"x": r"a\b"}], [{"x": "ab"}, {"x": r"a\\bc"}]),
    Vector("other signs are themselves", {"x": [{"wildcard": "a?[b]%_*"}]}, [{"x": "a?[b]%_"}], [{"x": "axb%_"}]),
    Vector("a star outside a wildcard is a star", {"x": ["*"]}, [{"x": "*"}], [{"x": "a"}]),
    # Anything but.
    Vector(
        "anything but a string, of any kind",
        {"x": [{"anything-but": "a"}]},
        [{"x": "b"}, {"x": "A"}, {"x": 1}, {"x": None}, {"x": False}, {"x": ""}],
        [{"x": "a"}, {"x": {"y": "b"}}, {}],
    ),
    Vector(
        "anything but some strings",
        {"x": [{"anything-but": ["a", "b"]}]},
        [{"x": "c"}, {"x": 1}, {"x": None}],
        [{"x": "a"}, {"x": "b"}, {}],
    ),
    Vector(
        "anything but a number",
        {"x": [{"anything-but": 0}]},
        [{"x": 1}, {"x": "0"}, {"x": None}, {"x": False}],
        [{"x": 0}, {"x": 0.0}, {}],
    ),
    Vector(
        "anything but some numbers",
        {"x": [{"anything-but": [100, 200.5]}]},
        [{"x": 101}, {"x": "100"}, {"x": 1e300}],
        [{"x": 100}, {"x": 1e2}, {"x": 200.5}],
    ),
    Vector(
        "anything but prefixes",
        {"x": [{"anything-but": {"prefix": ["in", "te"]}}]},
        [{"x": "run"}, {"x": 12}, {"x": None}, {"x": "In"}],
        [{"x": "init"}, {"x": "te"}, {}],
    ),
    Vector(
        "anything but suffixes",
        {"x": [{"anything-but": {"suffix": [".txt", "$"]}}]},
        [{"x": "a.png"}, {"x": "$a"}, {"x": 12}, {"x": None}],
        [{"x": "a.txt"}, {"x": "value$"}, {}],
    ),
    Vector(
        "anything but a string in any case",
        {"x": [{"anything-but": {"equals-ignore-case": ["Init", ""]}}]},
        [{"x": "run"}, {"x": 1}, {"x": None}],
        [{"x": "INIT"}, {"x": "init"}, {"x": ""}, {}],
    ),
    Vector(
        "anything but wildcards",
        {"x": [{"anything-but": {"wildcard": ["*/lib/*", "a*"]}}]},
        [{"x": "/bin/b"}, {"x": 1}, {"x": None}],
        [{"x": "/usr/lib/b"}, {"x": "abc"}, {}],
    ),
    Vector(
        "of two anything-buts one is enough", {"x": [{"anything-but": "a"}, {"anything-but": "b"}]}, [{"x": "b"}], []
    ),
    # Numbers.
    Vector("= is equal", {"x": [{"numeric": ["=", 3.018e2]}]}, [{"x": 301.8}], [{"x": 301.81}, {"x": "301.8"}]),
    Vector("> is above", {"x": [{"numeric": [">", 0]}]}, [{"x": 1e-6}, {"x": 1}, {"x": 1e20}], [{"x": 0}, {"x": -1}]),
    Vector(">= is at least", {"x": [{"numeric": [">=", 0]}]}, [{"x": 0}, {"x": 0.5}], [{"x": -0.5}, {"x": "0"}]),
    Vector("< is below", {"x": [{"numeric": ["<", 10]}]}, [{"x": 9.999999}, {"x": -5e9}], [{"x": 10}, {"x": None}]),
    Vector("<= is at most", {"x": [{"numeric": ["<=", 10]}]}, [{"x": 10}, {"x": 10.0}], [{"x": 10.000001}, {}]),
    Vector("a range", {"x": [{"numeric": [">", 0, "<=", 5]}]}, [{"x": 5}, {"x": 0.1}], [{"x": 0}, {"x": 5.1}]),
    Vector("tiny ranges", {"x": [{"numeric": [">=", 2e-6, "<", 4e-6]}]}, [{"x": 2e-6}, {"x": 3e-6}], [{"x": 4e-6}]),
    Vector("two ranges", {"x": [{"numeric": ["<", 0]}, {"numeric": [">", 9]}]}, [{"x": -1}, {"x": 10}], [{"x": 5}]),
    # Networks.
    Vector(
        "an address within a network",
        {"x": [{"cidr": "10.0.0.0/24"}]},
        [{"x": "10.0.0.0"}, {"x": "10.0.0.255"}],
        [{"x": "10.0.1.0"}, {"x": "10.0.0"}, {"x": 167772160}, {"x": "::a00:1"}, {"x": "x"}, {}],
    ),
    Vector(
        "the bits of a host are passed over",
        {"x": [{"cidr": "220.160.153.171/31"}]},
        [{"x": "220.160.153.170"}, {"x": "220.160.153.171"}],
        [{"x": "220.160.153.169"}, {"x": "220.160.153.172"}],
    ),
    Vector(
        "networks of IPv6",
        {"x": [{"cidr": "2001:db8:1234:1a00::/64"}]},
        [{"x": "2001:0db8:1234:1a00:0000:0000:0000:0001"}, {"x": "2001:DB8:1234:1A00::"}],
        [{"x": "2001:db8:1234:1a01::"}, {"x": "10.0.0.1"}],
    ),
    Vector("an address is a string", {"x": ["192.0.2.0"]}, [{"x": "192.0.2.0"}], [{"x": "192.0.2.1"}]),
    Vector("what only looks like an address", {"x": ["08:23"]}, [{"x": "08:23"}], [{"x": "8:23"}]),
    # Being there.
    Vector(
        "there is a value",
        {"x": [{"exists": True}]},
        [{"x": 1}, {"x": None}, {"x": ""}, {"x": ["a"]}, {"x": [None]}],
        [{}, {"x": {"y": 1}}, {"x": []}, {"x": {}}, {"y": 1}],
    ),
    Vector(
        "there is no value",
        {"x": [{"exists": False}]},
        [{}, {"x": {"y": 1}}, {"x": []}, {"x": {}}],
        [{"x": 1}, {"x": None}, {"x": [None]}],
    ),
    Vector("no object, no field", {"d": {"k": [{"exists": False}]}}, [{}, {"d": 5}, {"d": {}}], [{"d": {"k": 1}}]),
    Vector(
        "absent, or a value",
        {"x": [{"exists": False}, {"prefix": "a"}]},
        [{}, {"x": "ab"}],
        [{"x": "b"}, {"x": None}],
    ),
    # Choices.
    Vector(
        "one object of $or",
        {"$or": [{"x": [1]}, {"y": [2]}]},
        [{"x": 1}, {"y": 2}, {"x": 1, "y": 3}],
        [{"x": 2, "y": 1}, {}],
    ),
    Vector(
        "$or beside fields, inside an object",
        {"s": ["a"], "d": {"$or": [{"x": [1], "z": [3]}, {"y": [2]}]}},
        [{"s": "a", "d": {"y": 2}}, {"s": "a", "d": {"x": 1, "z": 3}}],
        [{"s": "a", "d": {"x": 1}}, {"d": {"y": 2}}, {"s": "a", "y": 2}],
    ),
    Vector(
        "$or inside $or",
        {"$or": [{"x": [1]}, {"y": [2], "$or": [{"z": [3]}, {"w": [4]}]}]},
        [{"x": 1}, {"y": 2, "z": 3}, {"y": 2, "w": 4}],
        [{"y": 2}, {"z": 3}, {"w": 4}],
    ),
    Vector(
        "absence inside $or",
        {"$or": [{"x": [{"exists": False}]}, {"y": ["a"]}]},
        [{}, {"x": 1, "y": "a"}, {"y": "b"}],
        [{"x": 1}, {"x": 1, "y": "b"}],
    ),
    Vector(
        "$or of objects",
        {"s": ["a"], "$or": [{"d": {"m": {"n": ["x"]}}}, {"e": {"n": ["y"]}}]},
        [{"s": "a", "d": {"m": {"n": "x"}}}, {"s": "a", "e": {"n": "y"}}],
        [{"s": "a", "d": {"m": {"n": "y"}}}, {"s": "a"}],
    ),
    Vector("$or as a field: an object", {"$or": {"x": [1]}}, [{"$or": {"x": 1}}], [{"x": 1}]),
    Vector(
        "$or as a field: tests", {"$or": [{"numeric": [">", 0]}, {"prefix": "a"}]}, [{"$or": 1}, {"$or": "ab"}], [{}]
    ),
    Vector("$or as a field: one test", {"$or": [{"cidr": "10.0.0.0/24"}]}, [{"$or": "10.0.0.1"}], [{"$or": "x"}, {}]),
    Vector("$or as a field: values", {"d": {"$or": ["a", "b"]}}, [{"d": {"$or": "a"}}], [{"d": {"$or": "c"}}]),
    # A field named twice: the later location decides.
    Vector(
        "$or after its field",
        {"n": ["a", "b"], "$or": [{"n": [{"anything-but": "a"}]}, {"x": [1]}]},
        [{"n": "c"}, {"n": "a", "x": 1}, {"n": "b"}],
        [{"n": "a"}, {"n": "a", "x": 2}, {"x": 1}],
    ),
    Vector(
        "$or before its field",
        {"$or": [{"n": ["a"]}, {"x": [1]}], "n": ["b"]},
        [{"n": "b"}, {"n": "b", "x": 1}],
        [{"n": "a"}, {"n": "a", "x": 1}],
    ),
    Vector(
        "a dotted name and the steps it stands for",
        {"d": {"s": ["a"]}, "d.s": ["b"]},
        [{"d": {"s": "b"}}, {"d.s": "b"}],
        [{"d": {"s": "a"}}],
    ),
    # Names with dots.
    Vector(
        "a dot in a name may be a step",
        {"d": {"s.t": ["a"]}},
        [{"d": {"s": {"t": "a"}}}, {"d": {"s.t": "a"}}],
        [{"d": {"s.t": {"t": "a"}}}, {"s": {"t": "a"}}],
    ),
    Vector(
        "all ways to read two dots",
        {"d.s.t": ["a"]},
        [{"d": {"s": {"t": "a"}}}, {"d.s.t": "a"}, {"d.s": {"t": "a"}}, {"d": {"s.t": "a"}}],
        [{"d": {"s": {"t": "b"}}}, {"d": {"s": "a"}}],
    ),
    Vector(
        "absent however it is read",
        {"d.s": [{"exists": False}]},
        [{}, {"d": {}}, {"d": 1}],
        [{"d": {"s": 1}}, {"d.s": None}],
    ),
    Vector(
        "names may be tests", {"prefix": ["a"], "numeric": {"=": [1]}}, [{"prefix": "a", "numeric": {"=": 1}}], [{}]
    ),
    Vector("names may be empty", {"": {"": ["a"]}}, [{"": {"": "a"}}], [{"": "a"}]),
]
