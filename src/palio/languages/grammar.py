"""Token cursor and operator-precedence parser, shared by SQL, CESQL and JMS selectors.

A lexer turns text into a list of `Token`s that ends with an END token. `TokenCursor` holds the position in that list
and raises every `ParseError` of a parser: position, reason and, where possible, a hint at what was probably meant.
`ExpressionParser` adds precedence climbing. A language subclasses it with its operator tables and reads the operands
and postfix predicates itself.

Pending operators wait on an explicit stack (`OperatorStack`) until one comes that binds less tightly, so a condition
with a hundred thousand ORs needs no deeper Python stack than one with two. Only brackets, calls and predicates recurse,
by two to four frames a level; `max_levels` bounds them. Parsing takes time linear in the number of tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final, NamedTuple, NoReturn, ParamSpec, TypeAlias, TypeVar

from palio.errors import PalioError, ParseError
from palio.filters.expressions.ast import Array, Attribute, Call, Expression, Literal, Span
from palio.filters.tree import And, Leaf, Node, Or, Residual

Arguments = ParamSpec("Arguments")
Value = TypeVar("Value")

# --- tokens ------------------------------------------------------------------------------------------------

# Token kinds. The key of a word is the word in lower case and that of a sign the sign itself; the other kinds have one
# key each, so that a parser can look up what begins here by the key alone.
WORD: Final = 1
NUMBER: Final = 2
SIGN: Final = 3
TEXT: Final = 4
QUOTED: Final = 5
END: Final = 6

# A plain tuple: a NamedTuple takes five times as long to make.
Token: TypeAlias = tuple[int, str, int, int]  # kind, key, start, end

MAX_TEXT_CHARACTERS: Final = 2_000_000
"""Length of the longest condition; a longer one is refused before it is read."""

MAX_CONDITIONS: Final = 10_000
"""Of one text: its comparisons, calls and branches of CASE, or its names. With more, calls of a filter take seconds."""

SPLIT_HINT: Final = "split it into several subscriptions"

_MAX_SHOWN_CHARACTERS: Final = 40


def check_text(text: str, subject: str = "condition") -> None:
    """Refuse a text that is too long, or that is not valid Unicode and so equals no text of an event."""
    if len(text) > MAX_TEXT_CHARACTERS:
        reason = f"the {subject} has {len(text):,} characters, more than the {MAX_TEXT_CHARACTERS:,} allowed"
        raise ParseError(text, MAX_TEXT_CHARACTERS, reason, SPLIT_HINT)
    if text.isascii():
        return
    try:
        text.encode()
    except UnicodeEncodeError as error:
        reason = f"half a character (the surrogate U+{ord(text[error.start]):04X})"
        raise ParseError(text, error.start, reason, "the text was damaged before it came here") from None


def too_many_conditions(tree: Node, subject: str) -> str | None:
    """Why the tree of a text, before it is simplified, has too many conditions; None where it has not.

    The values of one attribute that stand side by side are a list, and one condition; patterns are one each.
    """
    count = 0
    stack = [tree]
    while stack:
        node = stack.pop()
        children = node.children if isinstance(node, And | Or) else (node,)
        listed = {each.attribute for each in children if isinstance(each, Leaf) and not each.values.tests}
        stack.extend(each for each in children if isinstance(each, And | Or))
        count += len(listed) + sum(isinstance(each, Residual) or _is_pattern(each) for each in children)
    if count <= MAX_CONDITIONS:
        return None
    return f"the {subject} has {count:,} conditions, more than the {MAX_CONDITIONS:,} allowed"


def _is_pattern(node: Node) -> bool:
    return isinstance(node, Leaf) and bool(node.values.tests)


def typographic_quotes(hint: str) -> dict[str, tuple[str, str]]:
    """The entries for typographic quotation marks in a table of stray characters."""
    return dict.fromkeys("“”‘’", ("a typographic quotation mark", hint))


def refuse_character(
    text: str, position: int, known: Mapping[str, tuple[str, str]], hint: str | None = None
) -> NoReturn:
    """Refuse a character that begins no token, with the reason and hint from a table where it is in it."""
    character = text[position]
    if character in known:
        raise ParseError(text, position, *known[character])
    shown = repr(character) if character.isprintable() else f"U+{ord(character):04X}"
    raise ParseError(text, position, f"the character {shown} has no meaning here", hint)


class InvalidLiteral(PalioError, ValueError):
    """A literal, type name or argument that has no value. `TokenCursor.read` adds the position."""

    def __init__(self, reason: str, hint: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.hint = hint


class TokenCursor:
    """The tokens of a text and the index of the next one."""

    __slots__ = ("at", "text", "tokens")

    def __init__(self, text: str, tokens: list[Token]) -> None:
        self.text = text
        self.tokens = tokens
        self.at = 0

    def peek(self, ahead: int = 0) -> str:
        """The key of a token further on, which must not be beyond the end."""
        return self.tokens[self.at + ahead][1]

    def take(self) -> str:
        """The key of the next token, which is consumed."""
        self.at += 1
        return self.tokens[self.at - 1][1]

    def expect(self, key: str, reason: str, hint: str) -> None:
        """Consume a token that must be here."""
        if self.tokens[self.at][1] != key:
            self.fail_here(f"{reason}; here is {self.shown()}", hint)
        self.at += 1

    def close(self, what: str) -> None:
        """Consume the bracket that closes something."""
        kind, key, start, _ = self.tokens[self.at]
        if key != ")":
            if kind == END:
                self.fail(start, f"{what} is never closed", "a ) is missing")
            self.fail_unexpected()
        self.at += 1

    def span(self, start: int) -> Span:
        """From a position to the end of the last token."""
        return start, self.tokens[self.at - 1][3]

    def call(self, function: str, arguments: tuple[Expression, ...], start: int) -> Call:
        """A call whose text reaches from a position to the end of the last token."""
        return Call(function, arguments, (start, self.tokens[self.at - 1][3]))

    def shown(self) -> str:
        """The next token as an error quotes it."""
        kind, _, start, end = self.tokens[self.at]
        if kind == END:
            return "the end"
        return shorten(self.text[start:end])

    # --- errors --------------------------------------------------------------------------------------------

    def read(
        self,
        position: int,
        reader: Callable[Arguments, Value],
        *given: Arguments.args,
        **named: Arguments.kwargs,
    ) -> Value:
        """The result of a function that reads a literal; an `InvalidLiteral` becomes an error at that position."""
        try:
            return reader(*given, **named)
        except InvalidLiteral as error:
            raise ParseError(self.text, position, error.reason, error.hint) from None

    def fail(self, position: int, reason: str, hint: str | None = None) -> NoReturn:
        raise ParseError(self.text, position, reason, hint)

    def fail_here(self, reason: str, hint: str | None = None) -> NoReturn:
        """Fail at the next token."""
        raise ParseError(self.text, self.tokens[self.at][2], reason, hint)

    def fail_unexpected(self) -> NoReturn:
        """Fail because the next token continues nothing; each language knows its own common slips."""
        raise NotImplementedError


def shorten(text: str) -> str:
    """A piece of text as an error quotes it."""
    return text if len(text) <= _MAX_SHOWN_CHARACTERS else f"{text[:_MAX_SHOWN_CHARACTERS]}…"


# --- precedence climbing -----------------------------------------------------------------------------------


class Operator(NamedTuple):
    """An operator: its binding power, and the function of the call it becomes."""

    power: int
    function: str
    is_chained: bool = False
    """Whether `a AND b AND c` is one call of three arguments."""
    is_prefix: bool = False


class OperatorStack:
    """Operands and pending operators of one pair of brackets.

    `nodes` and `starts` are the operands and the positions where they begin; `pending` has the operators that wait for
    their right operand to be complete.
    """

    __slots__ = ("nodes", "pending", "prefix_starts", "starts")

    def __init__(self) -> None:
        self.nodes: list[Expression] = []
        self.starts: list[int] = []
        self.pending: list[Operator] = []
        self.prefix_starts: list[int] = []

    def push_prefix(self, operator: Operator, start: int) -> None:
        self.pending.append(operator)
        self.prefix_starts.append(start)

    def push_infix(self, operator: Operator, end: int) -> None:
        """Reduce what binds at least as tightly, then wait; `end` is where the left operand ends."""
        pending = self.pending
        # Left-associative: an equal power reduces, unless it is the same chain, which goes on growing.
        if pending and pending[-1].power >= operator.power and pending[-1] is not operator:
            self.reduce(operator.power, end, operator)
        elif pending and pending[-1] is operator and not operator.is_chained:
            self.reduce(operator.power, end)
        pending.append(operator)

    def reduce(self, power: int, end: int, chain: Operator | None = None) -> None:
        """Make calls of all pending operators of at least this power; `end` is where they end.

        A chain that the next operator continues is left pending: it will be one call.
        """
        nodes, starts, pending = self.nodes, self.starts, self.pending
        while pending and (operator := pending[-1]).power >= power:
            if operator is chain and operator.is_chained:
                return
            pending.pop()
            if operator.is_prefix:
                starts[-1] = self.prefix_starts.pop()
                nodes[-1] = Call(operator.function, (nodes[-1],), (starts[-1], end))
                continue
            # A chain a AND b AND c has pushed the very same operator twice: its operands become one call.
            first = len(nodes) - 2
            while operator.is_chained and pending and pending[-1] is operator:
                pending.pop()
                first -= 1
            arguments = tuple(nodes[first:])
            del nodes[first + 1 :], starts[first + 1 :]
            nodes[first] = Call(operator.function, arguments, (starts[first], end))

    def has_pending(self, power: int) -> bool:
        """Whether an operator of exactly this power waits, with only tighter ones behind it."""
        for operator in reversed(self.pending):
            if operator.power <= power:
                return operator.power == power
        return False


_CONNECTIVES: Final = frozenset({"and", "or", "not"})


def _count_conditions(tree: Expression) -> tuple[int, int]:
    """The comparisons, calls and branches of a tree, and the names of attributes; literals of lists count nothing."""
    calls = names = 0
    stack = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, Attribute | Array):
            names += 1
        elif isinstance(node, Call):
            if node.function == "case":
                calls += len(node.arguments) // 2  # its branches
            elif node.function not in _CONNECTIVES:
                calls += 1
            stack.extend(node.arguments)
    return calls, names


Reader: TypeAlias = Callable[[Any, Token], Expression | None]


class ExpressionParser(TokenCursor):
    """Precedence climbing over the operator tables of a language.

    A subclass gives the tables, reads names and calls (`read_name`) and whatever may follow an operand that is no infix
    operator (`read_postfix`), and decides whether a sign or NOT is a prefix operator here (`is_prefix`).
    """

    __slots__ = ("_level",)

    subject: ClassVar[str]
    """The name of a text of this language in errors."""
    infix: ClassVar[Mapping[str, Operator]]
    prefix: ClassVar[Mapping[str, Operator]]
    readers: ClassVar[Mapping[str, Reader]]
    """Readers of operands by the key of the first token, which is not consumed yet; None means that it is a name."""
    nonassociative: ClassVar[int | None] = None
    """The power of comparisons where `a = b = c` is an error."""
    max_levels: ClassVar[int] = 200
    """Levels that brackets in the text and calls in the tree may nest."""

    def __init__(self, text: str, tokens: list[Token]) -> None:
        super().__init__(text, tokens)
        self._level = 0

    def expression(self, lowest: int = 0) -> Expression:
        """The expression that begins here, up to the first token that cannot continue it.

        Only operators of at least the power `lowest` are consumed.
        """
        self.enter_level()
        tokens, infix, prefix, readers = self.tokens, self.infix, self.prefix, self.readers
        stack = OperatorStack()
        while True:
            _, key, start, _ = token = tokens[self.at]
            if key in prefix and self.is_prefix(key, stack, lowest):
                stack.push_prefix(prefix[key], start)
                self.at += 1
                continue
            reader = readers.get(key)
            node = reader(self, token) if reader is not None else None
            stack.nodes.append(self.read_name(token) if node is None else node)
            stack.starts.append(start)
            # Most operands are followed by an infix operator, so the table is tried before the postfix forms.
            operator = infix.get(tokens[self.at][1]) or self.read_postfix(stack, lowest)
            if operator is None or operator.power < lowest:
                break
            if operator.power == self.nonassociative and stack.has_pending(operator.power):
                hint = "compare two by two: a = b AND b = c; or put brackets around the first comparison"
                self.fail_here("comparisons do not chain", hint)
            stack.push_infix(operator, tokens[self.at - 1][3])
            self.at += 1
        if stack.pending:
            stack.reduce(0, tokens[self.at - 1][3])
        self._level -= 1
        return stack.nodes[0]

    def expressions(self, lowest: int = 0) -> list[Expression]:
        """One or more expressions with commas between them."""
        found = [self.expression(lowest)]
        while self.tokens[self.at][1] == ",":
            self.at += 1
            found.append(self.expression(lowest))
        return found

    def enter_level(self) -> None:
        """Count a level of nesting; the caller decreases `_level` when it leaves it."""
        self._level += 1
        if self._level > self.max_levels:
            self.fail_here(f"nested more than {self.max_levels} levels deep", f"split the {self.subject}")

    def check_size(self, tree: Expression) -> None:
        """Refuse a tree that is too deep to walk, as 1 + 1 + 1 … nests without brackets, or that asks too much."""
        if len(self.tokens) <= self.max_levels:
            return  # no tree is deeper than its text has tokens, nor is one operand copied too often
        self._check_depth(tree)
        calls, names = _count_conditions(tree)
        count = max(calls, names)
        if count > MAX_CONDITIONS:
            what = "comparisons, calls and branches" if calls >= names else "names of attributes"
            reason = f"the {self.subject} has {count:,} {what}, more than the {MAX_CONDITIONS:,} allowed"
            self.fail(0, reason, f"compare with many values by one IN (…), or {SPLIT_HINT}")

    def _check_depth(self, tree: Expression) -> None:
        layer = [tree]
        for _ in range(self.max_levels):
            layer = [each for node in layer if isinstance(node, Call) for each in node.arguments]
            if not layer:
                return
        hint = f"split the {self.subject}, or compute so long a chain where the event is made"
        self.fail(layer[0].span[0], f"operators and calls nest more than {self.max_levels} levels deep", hint)

    # --- readers of operands -------------------------------------------------------------------------------

    def read_brackets(self, _: Token) -> Expression:
        """The expression in brackets; the tree does not keep them."""
        self.at += 1
        inside = self.expression()
        self.close("the bracket")
        return inside

    def read_truth(self, token: Token) -> Literal:
        """TRUE or FALSE."""
        _, key, start, end = token
        self.at += 1
        return Literal(key == "true", (start, end))

    # --- what a language defines ---------------------------------------------------------------------------

    def is_prefix(self, key: str, stack: OperatorStack, lowest: int) -> bool:
        """Whether a key of the prefix table is an operator here; a sign may also belong to a number behind it."""
        raise NotImplementedError

    def read_name(self, token: Token) -> Expression:
        """The operand that begins with the next token and has no reader: a name, a call, or an error."""
        raise NotImplementedError

    def read_postfix(self, stack: OperatorStack, lowest: int) -> Operator | None:
        """Apply casts and predicates behind the last operand; returns the infix operator that follows, if any."""
        raise NotImplementedError
