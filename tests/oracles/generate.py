"""Generator of conditions over the whole grammar of docs/language.md, with known types.

`Generator(seed).condition()` gives the same condition for the same seed, always. Brackets are left out at random
where precedence makes them superfluous, keywords come in any case, constants in every notation.

Never generated, because docs/language.md means it differently from Spark or leaves it open:

- a string *value* compared with, or chosen beside, anything but a string, and LIKE on what is no string;
- `/` on a decimal, and decimals that Spark would round to declared types (`sql_types.decimal_result`,
  `sql_types.compares_exactly`);
- 32-bit floats in anything but comparisons, signs and casts to wider types;
- choices (CASE, COALESCE, …) among values of unlike types;
- bytes that are no UTF-8, cast to a string; texts and decimals in one list that an integer is looked for in;
- dates and moments moved beyond the years 1 and 9999; a time without a date.
"""

from __future__ import annotations

from tests.oracles.choices import Choices
from tests.oracles.conditions import Conditions
from tests.oracles.numerics import Numbers
from tests.oracles.texts import Texts
from tests.oracles.times import Times
from tests.oracles.values import Values
from tests.oracles.writing import Expr


class Generator(Conditions, Values, Numbers, Texts, Times, Choices):
    """Writes random conditions; the productions are in the files of its bases."""


__all__ = ["Expr", "Generator"]
