"""Generator of literals in every notation."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from random import Random
from zoneinfo import ZoneInfo

from tests.oracles.sql_types import BIGINT, DOUBLE, FLOAT, INT, SMALLINT, TINYINT, Type, decimal

_ZONES = ("Z", " UTC", "+02:00", "-05:30", " Europe/Paris", " America/New_York", "+1")


def word(random: Random, text: str) -> str:
    """Keywords in any case."""
    chance = random.random()
    return text if chance < 0.8 else text.lower() if chance < 0.95 else text.title()


def integer(random: Random, value: int) -> tuple[str, Type]:
    """A whole number in a notation of any integer type that holds it, or as INT or BIGINT without suffix."""
    choices = [(str(value), INT if -(2**31) <= value < 2**31 else BIGINT)] * 6
    choices.append((f"{value}L", BIGINT))
    if -(2**15) <= value < 2**15:
        choices.append((f"{value}{random.choice('sS')}", SMALLINT))
    if -(2**7) <= value < 2**7:
        choices.append((f"{value}{random.choice('yY')}", TINYINT))
    if 0 <= value < 10**6:
        choices.append((f"00{value}", INT))
        choices.append((f"+{value}", INT))
    return random.choice(choices)


def exact(random: Random, value: Decimal) -> tuple[str, Type]:
    """A decimal with its point or with the suffix BD."""
    plain = f"{value:f}"
    choices = [plain if "." in plain else f"{plain}.0", f"{plain}{random.choice(['BD', 'bd'])}"]
    if "." not in plain:
        choices.append(f"{plain}.")
    if plain.startswith("0.") and len(plain) > 2:
        choices.append(plain[1:])
    text = random.choice(choices)
    whole, _, fraction = text.rstrip("BbDd").lstrip("-+").partition(".")
    scale = len(fraction)
    return text, decimal(max(len(whole.lstrip("0")) + scale, scale, 1), scale)


def real(random: Random, value: float) -> tuple[str, Type]:
    """A double with an exponent or suffix, or a cast of one that has no notation."""
    if value != value or value in (float("inf"), float("-inf")):
        name = "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
        return random.choice([f"CAST('{name}' AS DOUBLE)", f"double('{name}')"]), DOUBLE
    written = repr(value)
    if "e" in written:
        return random.choice([written.upper(), written, f"{written}D"]), DOUBLE
    return random.choice(
        [f"{written}D", f"{written}d", f"{written}E0", f"{Decimal(written):E}".replace("E+0", "E0")]
    ), DOUBLE


def single(random: Random, value: float) -> tuple[str, Type]:
    """A 32-bit float."""
    if value != value or value in (float("inf"), float("-inf")):
        return f"CAST({real(random, value)[0]} AS FLOAT)", FLOAT
    return f"{value!r}{random.choice('fF')}", FLOAT


_PLAIN = {"\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r", "\0": "\\0", "\x1a": "\\Z", "\b": "\\b"}


def text(random: Random, value: str) -> str:
    """A string literal: in either quotes, raw, with escapes, or in two pieces."""
    chance = random.random()
    if chance < 0.08 and len(value) > 1:
        cut = random.randint(1, len(value) - 1)
        return f"{text(random, value[:cut])} {text(random, value[cut:])}"
    if chance < 0.16:
        for quote in "'\"":
            if quote not in value:
                return f"{random.choice('rR')}{quote}{value}{quote}"
    quote = "'" if chance < 0.85 else '"'
    return quote + "".join(_character(random, character, quote) for character in value) + quote


def _character(random: Random, character: str, quote: str) -> str:
    if character == quote:
        return random.choice([quote * 2, f"\\{quote}"])
    chance = random.random()
    if chance < 0.04 and ord(character) < 0x10000:
        return f"\\u{ord(character):04x}"
    if chance < 0.06:
        return f"\\U{ord(character):08X}"
    if chance < 0.08 and ord(character) < 0x80:
        return f"\\{ord(character):03o}"
    if character == "\\":
        return "\\\\"
    return _PLAIN[character] if character in _PLAIN and (chance < 0.6 or character == "\0") else character


def day(random: Random, value: date) -> str:
    written = value.isoformat()
    spoken = word(random, "DATE")
    if value.day == 1 and random.random() < 0.2:
        return f"{spoken}'{written[:7]}'"
    loose = f"{value.year:04d}-{value.month}-{value.day}"
    return f"{spoken}'{random.choice([written, written, written, loose, f' {written} '])}'"


def moment(random: Random, value: datetime, zone: str) -> str:
    """A timestamp literal: in the zone of the session, or with a zone of its own."""
    spoken = word(random, "TIMESTAMP")
    if random.random() < 0.35:
        own = random.choice(_ZONES)
        return f"{spoken}'{_clock(random, value.astimezone(_zone(own)))}{own}'"
    local = value.astimezone(ZoneInfo(zone))
    if local.time().isoformat() == "00:00:00" and random.random() < 0.4:
        return f"{spoken}'{local.date().isoformat()}'"
    return f"{spoken}'{_clock(random, local)}'"


def _clock(random: Random, local: datetime) -> str:
    naive = local.replace(tzinfo=None)
    return naive.isoformat(random.choice(" T") if naive.year >= 1000 else " ")


def _zone(written: str) -> ZoneInfo | object:
    names = {"Z": "UTC", "UTC": "UTC", "+02:00": "Etc/GMT-2", "+1": "Etc/GMT-1"}
    name = written.strip()
    if name == "-05:30":
        from datetime import timedelta, timezone

        return timezone(-timedelta(hours=5, minutes=30))
    return UTC if names.get(name) == "UTC" else ZoneInfo(names.get(name, name))


def binary(random: Random, value: bytes) -> str:
    digits = value.hex()
    return f"{random.choice('xX')}'{digits.upper() if random.random() < 0.5 else digits}'"


def months(random: Random) -> str:
    count = random.choice([0, 1, 2, 11, 12, 13, 25])
    sign = random.choice(["", "", "-"])
    forms: list[Callable[[], str]] = [
        lambda: f"INTERVAL '{sign}{count}' MONTH",
        lambda: f"INTERVAL {sign}{count} MONTHS",
        lambda: f"INTERVAL {sign}'{count}' YEAR",
        lambda: f"INTERVAL '{sign}{count} months'",
        lambda: f"INTERVAL '{sign}{count // 12}-{count % 12}' YEAR TO MONTH",
        lambda: f"INTERVAL {count % 4} YEARS {sign}{count} MONTHS",
    ]
    return word(random, random.choice(forms)())


def micros(random: Random) -> str:
    count = random.choice([0, 1, 2, 7, 23, 24, 30, 36])
    sign = random.choice(["", "", "-"])
    fraction = random.choice(["", ".5", ".000001", ".123456"])
    forms: list[Callable[[], str]] = [
        lambda: f"INTERVAL '{sign}{count}' DAY",
        lambda: f"INTERVAL {sign}{count} DAYS",
        lambda: f"INTERVAL '{sign}{count}' HOUR",
        lambda: f"INTERVAL {sign}{count} WEEKS",
        lambda: f"INTERVAL {sign}'{count}{fraction}' SECOND",
        lambda: f"INTERVAL '{sign}{count} days {count} hours'",
        lambda: f"INTERVAL '{sign}{count} 02:03:04{fraction}' DAY TO SECOND",
        lambda: f"INTERVAL '{sign}{count}:59' HOUR TO MINUTE",
        lambda: f"INTERVAL '{sign}{count}:59:59{fraction}' HOUR TO SECOND",
        lambda: f"INTERVAL {count} DAYS {sign}{count} MINUTES",
        lambda: f"INTERVAL '{sign}{count}' MILLISECONDS",
        lambda: f"INTERVAL {count} MICROSECONDS",
    ]
    return random.choice(forms)()
