"""Lexer, parser and printer of CESQL 1.0: from text to `Expression` and back.

Operators, from loose to tight (§3.6):

    AND OR XOR, = != <> < <= > >=, + -, * / %, LIKE IN, NOT -

AND, OR and XOR bind equally and are taken from left to right, and NOT binds tighter than everything but a call:
`NOT a = b` is `(NOT a) = b`. That is what the specification says, though SQL and habit say otherwise. Keywords
and functions may be written in any case of letters, and so may attributes, whose names are lower-case.

In the tree an operator has its own sign or a name in small letters (`and`, `neg`, `exists`), and a function its name in
capital letters, so that no function can be taken for an operator.
"""

from __future__ import annotations

import re
from typing import ClassVar, Final, NoReturn

from palio.filters.expressions.ast import Attribute, Call, Expression, Literal
from palio.filters.expressions.extension_functions import cesql_integer
from palio.filters.text_cache import TextCache
from palio.languages.grammar import (
    END,
    NUMBER,
    SIGN,
    TEXT,
    WORD,
    ExpressionParser,
    Operator,
    OperatorStack,
    Token,
    check_text,
    refuse_character,
    typographic_quotes,
)

# --- lexer -------------------------------------------------------------------------------------------------

# §2: a word of digits alone is a number. In a text, a backslash takes the character behind it along, so that a quote
# may be part of it, and is itself a character of the text unless that quote is behind it.
_TOKEN: Final = re.compile(
    r"""[ \t\r\n]*+(?:
      ( [A-Za-z0-9_]++ )
    | ( <> | <= | >= | != | [-=<>+*/%(),] )
    | ( '[^'\\]*+(?:\\.[^'\\]*+)*' | "[^"\\]*+(?:\\.[^"\\]*+)*" )
    | ( . )
    )?""",
    re.VERBOSE | re.DOTALL,
)
_WORD, _SIGN, _TEXT = 1, 2, 3


def tokenize(text: str) -> list[Token]:
    """All tokens of an expression, an END last."""
    check_text(text, "expression")
    tokens: list[Token] = []
    for found in _TOKEN.finditer(text):
        kind = found.lastindex
        if kind is None:
            break
        start, end = found.span(kind)
        if kind == _WORD:
            word = found[1]
            tokens.append((NUMBER if word.isdigit() else WORD, word.lower(), start, end))
        elif kind == _SIGN:
            tokens.append((SIGN, found[2], start, end))
        elif kind == _TEXT:
            tokens.append((TEXT, "'", start, end))
        else:
            refuse_character(text, start, _STRAY)
    tokens.append((END, "", len(text), len(text)))
    return tokens


def unquote(text: str) -> str:
    """The value of a string literal: without its quotes, and without the backslash before each that is part of it."""
    quote = text[0]
    return re.sub(rf"\\(\\|{quote})", lambda found: found[0] if found[1] == "\\" else quote, text[1:-1])


_STRAY: Final = {
    "'": ("this text is never closed", "end it with ', and write a ' inside it as \\'"),
    '"': ("this text is never closed", 'end it with ", and write a " inside it as \\"'),
    "!": ("! stands only in !=", "the opposite of a condition is written NOT"),
    "`": ("names have no quotes", "a CloudEvents attribute is of lower-case letters and digits"),
    ".": ("there are no fractions and no dotted names", "a CloudEvents attribute is of lower-case letters and digits"),
    **typographic_quotes("texts stand in ' or \""),
}


# --- parser ------------------------------------------------------------------------------------------------

# Binding powers, in the order of §3.6. LIKE and IN are read as postfix predicates.
_LOGIC, _COMPARISON, _SUM, _PRODUCT, _UNARY = 1, 5, 10, 11, 12
_INFIX: Final[dict[str, Operator]] = {
    "and": Operator(_LOGIC, "and", is_chained=True),
    "or": Operator(_LOGIC, "or", is_chained=True),
    "xor": Operator(_LOGIC, "xor"),
    "=": Operator(_COMPARISON, "="),
    "!=": Operator(_COMPARISON, "<>"),
    "<>": Operator(_COMPARISON, "<>"),
    "<": Operator(_COMPARISON, "<"),
    "<=": Operator(_COMPARISON, "<="),
    ">": Operator(_COMPARISON, ">"),
    ">=": Operator(_COMPARISON, ">="),
    "+": Operator(_SUM, "+"),
    "-": Operator(_SUM, "-"),
    "*": Operator(_PRODUCT, "*"),
    "/": Operator(_PRODUCT, "/"),
    "%": Operator(_PRODUCT, "%"),
}
_PREFIX: Final[dict[str, Operator]] = {
    "not": Operator(_UNARY, "not", is_prefix=True),
    "-": Operator(_UNARY, "neg", is_prefix=True),
}
_RESERVED: Final = frozenset({"and", "or", "xor", "not", "like", "in", "exists", "true", "false"})
_NAME: Final = re.compile(r"[a-z0-9]+")
_FUNCTION: Final = re.compile(r"[a-z][a-z_]*")

# Habits of SQL, and what to write instead.
_HABITS: Final = {
    "is": "whether an attribute is there is asked by EXISTS x and NOT EXISTS x",
    "null": "there is no NULL; whether an attribute is there is asked by EXISTS x",
    "between": "write x >= 1 AND x <= 9",
    "escape": "a % or _ that stands for itself is written \\% or \\_",
    "==": "'equals' is written =",
    "=<": "'at most' is written <=",
    "=>": "'at least' is written >=",
    "><": "'differs from' is written <> or !=",
}


@TextCache
def parse_expression(text: str) -> Expression:
    """The expression of a text; ParseError where it has none. Takes time linear in the length of the text."""
    return CesqlParser(text, tokenize(text)).whole()


class CesqlParser(ExpressionParser):
    """The parse of one expression."""

    __slots__ = ()

    subject: ClassVar = "expression"
    infix: ClassVar = _INFIX
    prefix: ClassVar = _PREFIX
    max_levels: ClassVar = 100

    def whole(self) -> Expression:
        """The whole text as one expression."""
        if len(self.tokens) == 1:
            self.fail(0, "the expression is empty", "TRUE is the expression that every event satisfies")
        tree = self.expression()
        if self.tokens[self.at][0] != END:
            self.fail_unexpected()
        self.check_size(tree)
        return tree

    def is_prefix(self, key: str, stack: OperatorStack, lowest: int) -> bool:
        return not self._is_signed_number()

    # --- operands --------------------------------------------------------------------------------------------

    def read_name(self, token: Token) -> Expression:
        """An attribute, the call of a function, or a number, whose key is its digits."""
        kind, key, start, end = token
        if kind == NUMBER or self._is_signed_number():
            return self._number()
        if kind != WORD or key in _RESERVED:
            self._fail_missing_value()
        if self.tokens[self.at + 1][1] == "(":
            return self._function(token)
        self.at += 1
        return Attribute(self._name(token), (start, end))

    def _string(self, token: Token) -> Literal:
        _, _, start, end = token
        self.at += 1
        # SQL doubles a quote inside a text. Here that makes two texts side by side, and is a likely slip.
        if self.tokens[self.at][0] == TEXT and self.tokens[self.at][2] == end:
            self.fail(end, "a quote inside a text has a backslash before it", "write 'it\\'s' for 'it''s'")
        return Literal(unquote(self.text[start:end]), (start, end))

    def _is_signed_number(self) -> bool:
        """Whether a sign stands here that belongs to the number directly behind it."""
        _, key, _, end = self.tokens[self.at]
        kind, _, start, _ = self.tokens[min(self.at + 1, len(self.tokens) - 1)]
        return key in ("-", "+") and kind == NUMBER and start == end

    def _number(self) -> Literal:
        start = self.tokens[self.at][2]
        self.at += 1 if self.tokens[self.at][0] == NUMBER else 2
        end = self.tokens[self.at - 1][3]
        number = cesql_integer(self.text[start:end])
        if number is None:
            self.fail(start, "an Integer has 32 bits: it lies between -2147483648 and 2147483647")
        return Literal(number, (start, end))

    def _exists(self, token: Token) -> Call:
        start = token[2]
        kind, key, first, end = name = self.tokens[self.at + 1]
        if kind not in (WORD, NUMBER) or key in _RESERVED:
            self.fail(first, "behind EXISTS stands the name of an attribute", "write EXISTS subject, without brackets")
        self.at += 2
        return Call("exists", (Attribute(self._name(name), (first, end)),), (start, end))

    def _function(self, token: Token) -> Call:
        _, key, start, end = token
        if not _FUNCTION.fullmatch(key):
            self.fail(start, f"{self.text[start:end]} is no name of a function: it has letters and underscores")
        self.at += 2
        arguments = self.expressions() if self.peek() != ")" else []
        self.close(f"the arguments of {key.upper()}")
        return Call(key.upper(), tuple(arguments), (start, self.tokens[self.at - 1][3]))

    def _name(self, token: Token) -> str:
        _, key, start, end = token
        if not _NAME.fullmatch(key):
            hint = "it is of lower-case letters and digits"
            self.fail(start, f"{self.text[start:end]} is no name of a CloudEvents attribute", hint)
        return key

    # --- LIKE and IN ------------------------------------------------------------------------------------------

    def read_postfix(self, stack: OperatorStack, lowest: int) -> Operator | None:
        """LIKE and IN behind an operand; they bind tighter than every infix operator."""
        while True:  # they chain: `x LIKE 'a%' IN (TRUE)`
            key, following = self.tokens[self.at][1], self.tokens[min(self.at + 1, len(self.tokens) - 1)][1]
            negated = key == "not"
            word = following if negated else key
            if word not in ("like", "in"):
                if negated:
                    self.fail_here("NOT stands before a condition, and in NOT LIKE and NOT IN", self._hint())
                return _INFIX.get(key)
            # NOT and minus bind tighter still, so those before the operand are applied to it first.
            stack.reduce(_UNARY, self.tokens[self.at - 1][3])
            self.at += 2 if negated else 1
            start = stack.starts[-1]
            arguments = self._read_pattern() if word == "like" else self._read_list()
            span = (start, self.tokens[self.at - 1][3])
            call = Call(word, (stack.nodes[-1], *arguments), span)
            stack.nodes[-1] = Call("not", (call,), span) if negated else call

    def _read_pattern(self) -> list[Expression]:
        kind, _, start, _ = token = self.tokens[self.at]
        if kind != TEXT:
            self.fail(start, "the pattern of LIKE is a text in quotes, and nothing else", "write x LIKE 'a%'")
        return [self._string(token)]

    def _read_list(self) -> list[Expression]:
        if self.tokens[self.at][1] != "(":
            self.fail_here("behind IN stands a list in brackets", "write x IN ('a', 'b')")
        self.at += 1
        if self.tokens[self.at][1] == ")":
            self.fail_here("a list has at least one value", "FALSE is the expression that no event satisfies")
        items = self.expressions()
        self.close("the list")
        return items

    # --- errors -----------------------------------------------------------------------------------------------

    def fail_unexpected(self) -> NoReturn:
        kind, key, start, _ = self.tokens[self.at]
        if key == ")":
            self.fail(start, "this bracket was never opened", "leave it out, or add a ( before")
        hint = self._hint()
        if hint is None and kind in (WORD, NUMBER, TEXT):
            hint = "an operator such as AND or = is missing before it"
        self.fail(start, f"{self.shown()} does not continue the expression", hint)

    def _fail_missing_value(self) -> NoReturn:
        """Fail because the next token begins no value."""
        if self.tokens[self.at][0] == END:
            self.fail_here("the expression ends where a value should stand")
        hint = self._hint()
        if self.tokens[self.at][1] == "+":
            hint = "a plus stands only directly before digits"
        self.fail_here(f"{self.shown()} stands where a value should", hint)

    def _hint(self) -> str | None:
        before = self.tokens[self.at - 1][1] if self.at else ""
        key = self.tokens[self.at][1]
        return _HABITS.get(before + key) or _HABITS.get(key)

    readers: ClassVar = {
        "'": _string,
        "(": ExpressionParser.read_brackets,
        "true": ExpressionParser.read_truth,
        "false": ExpressionParser.read_truth,
        "exists": _exists,
    }


# --- printer -----------------------------------------------------------------------------------------------

# An operand that is an operator is written in brackets, so that the text can be read without the table of precedences.
_WORDS = {"and": "AND", "or": "OR", "xor": "XOR"}


def print_expression(expression: Expression) -> str:
    """An expression as text."""
    match expression:
        case Literal(bool() as value):
            return "TRUE" if value else "FALSE"
        case Literal(int() as value):
            return str(value)
        case Literal(str() as value):
            return _quoted(value)
        case Attribute(name):
            return name
        case Call(function, arguments):
            return _call(
                function, [print_expression(each) if function.isupper() else _operand(each) for each in arguments]
            )
    raise TypeError(expression)


def _operand(expression: Expression) -> str:
    text = print_expression(expression)
    is_operator = isinstance(expression, Call) and not expression.function.isupper() and expression.function != "exists"
    return f"({text})" if is_operator else text


def _call(function: str, texts: list[str]) -> str:
    match function:
        case "and" | "or" | "xor":
            return f" {_WORDS[function]} ".join(texts)
        case "not":
            return f"NOT {texts[0]}"
        case "exists":
            return f"EXISTS {texts[0]}"
        case "neg":  # in brackets, or a minus before digits would be read as part of the number
            return f"-({texts[0]})"
        case "like":
            return f"{texts[0]} LIKE {texts[1]}"
        case "in":
            return f"{texts[0]} IN ({', '.join(texts[1:])})"
    if function.isupper():
        return f"{function}({', '.join(texts)})"
    return f"{texts[0]} {function} {texts[1]}"


def _quoted(value: str) -> str:
    for quote in ("'", '"'):
        text = quote + value.replace(quote, f"\\{quote}") + quote
        # A backslash before one of the two quotes cannot be written between that sort of quotes.
        if unquote(text) == value:
            return text
    raise ValueError(f"no text in quotes says {value!r}")
