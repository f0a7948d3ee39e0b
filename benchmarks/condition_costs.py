"""Costs of single conditions on the largest event: which take more than some milliseconds for a megabyte of text.

    python benchmarks/condition_costs.py [--above 10] [--broker]

Each condition is evaluated on texts that are hostile to some engine. The weights of `palio.filters.evaluation_cost` are
read off this table: a step is about three nanoseconds for a character. With `--broker` only conditions that a broker
accepts are evaluated, and within its limit of work.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Iterator

from palio import Filter
from palio.errors import PalioError
from palio.filters.evaluation_cost import evaluation_cost
from palio.filters.work_limit import WorkLimit, work_limit
from palio.network.security.quotas import BrokerLimits, check_cost

LARGEST_TEXT_CHARACTERS = 1_000_000


def texts() -> dict[str, str]:
    """Texts of the largest size, by name."""
    chance = random.Random(1)
    letters = "".join(chance.choices("ab", k=LARGEST_TEXT_CHARACTERS))
    return {
        "a": "a" * LARGEST_TEXT_CHARACTERS,
        "ab": letters,
        "words": "Alpha beta, " * (LARGEST_TEXT_CHARACTERS // 12),
        "digits": "1" * LARGEST_TEXT_CHARACTERS,
        "accents": "é" * (LARGEST_TEXT_CHARACTERS // 2),
        "json": "[" + "1," * (LARGEST_TEXT_CHARACTERS // 2 - 1) + "1]",
        "braces": '{"a":' * 190 + "1" + "}" * 190,
        "url": "http://h/?" + "a=1&" * (LARGEST_TEXT_CHARACTERS // 4 - 4),
    }


def conditions() -> Iterator[str]:
    """One condition for each function of a text, and the patterns that engines find hard."""
    yield from (
        "t LIKE '%x%'",
        "t ILIKE '%x%'",
        "t LIKE '" + "%a" * 400 + "%x'",
        "t LIKE '%" + "a_" * 30 + "x%'",
        "t LIKE '%" + "a_" * 2_000 + "x%'",
        "t LIKE ANY (" + ", ".join(f"'%x{n}%'" for n in range(100)) + ")",
        "t ILIKE ANY (" + ", ".join(f"'%x{n}%'" for n in range(100)) + ")",
        "t RLIKE 'a[ab]{6}x'",
        "t RLIKE 'a[ab]{10}x'",
        "t RLIKE 'a[ab]{60}x'",
        "t RLIKE 'a.{0,200}x'",
        "t RLIKE '(a|b)*a(a|b){900}c'",
        "t RLIKE '(.*a){50}x'",
        " OR ".join(f"t RLIKE '(a|b{n})*c+[x-z]*q'" for n in range(50)),
        "upper(t) = 'x'",
        "lower(t) = 'x'",
        "initcap(t) = 'x'",
        "trim(t) = 'x'",
        "reverse(t) = 'x'",
        "length(t) = 1",
        "octet_length(t) = 1",
        "substring(t, 2) = 'x'",
        "concat(t, 'x') = 'x'",
        "concat_ws(',', t, 'x') = 'x'",
        "replace(t, 'a', 'bc') = 'x'",
        "replace(t, 'a', '') = 'x'",
        "translate(t, 'abc', 'xyz') = 'x'",
        "instr(t, 'x') = 1",
        "instr(t, 'a', 1, 1000000) = 1",
        "locate('aaab', t) = 1",
        "contains(t, 'aaaaaaab')",
        "lpad(t, 1048576, 'ab') = 'x'",
        "lpad('a', 1048576, t) = 'x'",
        "repeat(t, 1) = 'x'",
        "repeat('a', 1048576) = t",
        "split_part(t, 'a', -1) = 'x'",
        "substring_index(t, 'a', 1000000) = 'x'",
        "substring_index(t, 'a', -1000000) = 'x'",
        "overlay(t, 'abc', 5) = 'x'",
        "split(t, 'a')[100] = 'x'",
        "size(split(t, 'a')) = 3",
        "regexp_extract(t, '(b)x', 1) = 'x'",
        "regexp_replace(t, 'a', 'b') = 'x'",
        "regexp_replace(t, 'a[ab]{60}x', 'b') = 'x'",
        "regexp_replace(t, 'a(.*x)?', 'b') = 'x'",
        "regexp_count(t, 'a') = 3",
        "regexp_substr(t, 'a[ab]{20}x') = 'x'",
        "regexp_instr(t, 'a[ab]{20}x') = 1",
        "levenshtein(t, 'abc') = 3",
        "levenshtein(left(t, 4096), right(t, 4096)) = 3",
        "levenshtein(t, 'abcdefghijklmnop') = 3",
        "hex(t) = 'x'",
        "unhex(t) = X'00'",
        "to_binary(t, 'base64') = X'00'",
        "encode(t, 'UTF-16') = X'00'",
        "format_string('%s%s', t, 'x') = 'x'",
        "format_string('%1000000s', t) = 'x'",
        "mask(t) = 'x'",
        "luhn_check(t)",
        "parse_url(t, 'QUERY', 'b') = 'x'",
        "get_json_object(t, '$[99]') = 'x'",
        "md5(t) = 'x'",
        "sha2(t, 512) = 'x'",
        "conv(t, 10, 2) = 'x'",
        "cast(t AS double) = 1",
        "cast(t AS decimal(38, 2)) = 1",
        "cast(t AS timestamp) = TIMESTAMP'2020-01-01'",
        "to_timestamp(t, 'yyyy-MM-dd') = TIMESTAMP'2020-01-01'",
        "upper(" * 100 + "t" + ")" * 100 + " = 'x'",
        "t IN ('a', 'b')",
        "t > 'b'",
    )


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__)
    given.add_argument("--above", type=float, default=10.0, help="milliseconds, below which nothing is printed")
    given.add_argument("--broker", action="store_true", help="as a broker with the default limits evaluates them")
    asked = given.parse_args()
    above, limits = asked.above, BrokerLimits()
    # A limit that nothing reaches stands for none.
    limit = WorkLimit(limits.call_steps if asked.broker else 2**60)
    values = texts()
    print(f"{'ms':>9} {'steps':>7} {'ns/step':>8}  text     condition")
    for condition in conditions():
        try:
            wanted = Filter.parse(condition)
            if asked.broker:
                check_cost(wanted, limits)
        except PalioError as error:
            print(f"refused: {str(error).splitlines()[0]:.90}  {condition:.50}")
            continue
        steps = evaluation_cost(wanted).steps
        wanted.matches_attributes({"t": "a" * 5_000})  # compiled
        with work_limit(limit):
            slowest, name = max((_seconds(wanted, text), name) for name, text in values.items())
        if slowest * 1e3 >= above:
            per_step = slowest / max(steps, 0.01) / LARGEST_TEXT_CHARACTERS * 1e9
            print(f"{slowest * 1e3:9.1f} {steps:7.1f} {per_step:8.2f}  {name:8} {condition:.60}", flush=True)


def _seconds(wanted: Filter, text: str) -> float:
    started = time.thread_time()
    wanted.matches_attributes({"t": text})
    return time.thread_time() - started


if __name__ == "__main__":
    main()
