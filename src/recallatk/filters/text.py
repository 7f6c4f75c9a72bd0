"""Parser for the text form of a filter: a small subset of SQL's WHERE."""

from __future__ import annotations

import re
from typing import NamedTuple

from recallatk.errors import FilterError
from recallatk.filters.expression import (
    MAX_DEPTH,
    RESERVED,
    And,
    ContainsAll,
    ContainsAny,
    Equals,
    Exists,
    Filter,
    In,
    Literal,
    Not,
    Or,
    Prefix,
    Range,
)

_TOKEN = re.compile(
    r"""\s*(?:
      (?P<string>'(?:[^']|'')*')
    | (?P<quoted>"(?:[^"]|"")*")
    | (?P<number>[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?(?![\w.]))
    | (?P<word>[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*)
    | (?P<operator><=|>=|<>|!=|==|[=<>(),])
    )""",
    re.VERBOSE,
)


class _Token(NamedTuple):
    kind: str
    text: str
    position: int


def parse_filter(text: str) -> Filter:
    """Parse the text form of a filter, for example `category = 'noun.animal' and n_words >= 5`."""
    parser = _Parser(text)
    found = parser.disjunction(0)
    if parser.peek.kind != "end":
        raise parser.error("'and', 'or' or the end")
    return found


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = _tokens(text)
        self.next = 0

    @property
    def peek(self) -> _Token:
        return self.tokens[self.next]

    def error(self, expected: str) -> FilterError:
        return _error(self.text, self.peek.position, expected)

    def take(self, *texts: str) -> bool:
        """Consume the next token if it is one of these words or operators."""
        token = self.peek
        if token.kind in ("word", "operator") and token.text.lower() in texts:
            self.next += 1
            return True
        return False

    def expect(self, text: str) -> None:
        if not self.take(text):
            raise self.error(f"'{text}'")

    def disjunction(self, depth: int) -> Filter:
        operands = [self.conjunction(depth)]
        while self.take("or"):
            operands.append(self.conjunction(depth))
        return operands[0] if len(operands) == 1 else Or(tuple(operands))

    def conjunction(self, depth: int) -> Filter:
        operands = [self.negation(depth)]
        while self.take("and"):
            operands.append(self.negation(depth))
        return operands[0] if len(operands) == 1 else And(tuple(operands))

    def negation(self, depth: int) -> Filter:
        if depth > MAX_DEPTH:
            raise FilterError(f"the filter is nested more than {MAX_DEPTH} levels deep")
        if self.take("not"):
            return Not(self.negation(depth + 1))
        if self.take("("):
            inner = self.disjunction(depth + 1)
            self.expect(")")
            return inner
        return self.predicate()

    def predicate(self) -> Filter:
        column = self.column()
        if self.take("is"):
            negated = self.take("not")
            self.expect("null")
            return Exists(column) if negated else Not(Exists(column))
        if self.take("exists"):
            return Exists(column)
        if self.take("not"):
            return Not(self.membership(column))
        if self.peek.kind == "word" and self.peek.text.lower() in _MEMBERSHIPS:
            return self.membership(column)
        if self.peek.kind == "end" or self.peek.text.lower() in (")", "and", "or"):
            return Equals(column, True)
        return self.comparison(column)

    def membership(self, column: str) -> Filter:
        if self.take("starts"):
            self.expect("with")
            return Prefix(column, self.string())
        if self.take("like"):
            return Prefix(column, self.pattern())
        if self.take("contains"):
            return self.containment(column)
        if self.take("between"):
            low = self.literal()
            self.expect("and")
            return Range(column, gte=low, lte=self.literal())
        if not self.take("in"):
            raise self.error("in, between, like, starts with or contains")
        return In(column, self.values())

    def containment(self, column: str) -> Filter:
        if self.take("any"):
            return ContainsAny(column, self.values())
        if self.take("all"):
            return ContainsAll(column, self.values())
        return ContainsAny(column, (self.literal(),))

    def values(self) -> tuple[Literal, ...]:
        self.expect("(")
        values = [self.literal()]
        while self.take(","):
            values.append(self.literal())
        self.expect(")")
        return tuple(values)

    def string(self) -> str:
        if self.peek.kind != "string":
            raise self.error("'text'")
        return str(self.literal())

    def pattern(self) -> str:
        """The prefix of a LIKE pattern; databases disagree on how to escape its special characters."""
        if self.peek.kind == "string":
            prefix, percent = (found := str(_literal(self.peek)))[:-1], found[-1:]
            if percent == "%" and not set(prefix) & set("%_\\"):
                self.next += 1
                return prefix
        raise self.error(
            "'text%', without other %, _ or \\ (for a prefix with these, write starts with 'text')"
        )

    def comparison(self, column: str) -> Filter:
        for operators, make in _COMPARISONS:
            if self.take(*operators):
                return make(column, self.literal())
        raise self.error("=, !=, <, <=, >, >=, in, between, is, like, starts with or contains")

    def column(self) -> str:
        token = self.peek
        if token.kind == "quoted":
            self.next += 1
            return token.text[1:-1].replace('""', '"')
        if token.kind == "word" and token.text.lower() not in RESERVED:
            self.next += 1
            return token.text
        raise self.error("a column name")

    def literal(self) -> Literal:
        token = self.peek
        value = _literal(token)
        if value is None:
            hint = " (for missing values, write 'column is null')" * (token.text.lower() == "null")
            raise self.error(f"'text', a number, true or false{hint}")
        self.next += 1
        return value


_MEMBERSHIPS = ("in", "between", "like", "starts", "contains")
_COMPARISONS = (
    (("=", "=="), Equals),
    (("!=", "<>"), lambda column, value: Not(Equals(column, value))),
    (("<=",), lambda column, value: Range(column, lte=value)),
    (("<",), lambda column, value: Range(column, lt=value)),
    ((">=",), lambda column, value: Range(column, gte=value)),
    ((">",), lambda column, value: Range(column, gt=value)),
)


def _tokens(text: str) -> list[_Token]:
    tokens, position = [], 0
    end = len(text.rstrip())
    while position < end:
        match = _TOKEN.match(text, position)
        if match is None or match.lastgroup is None:
            raise _error(text, position, "a column, a value or an operator")
        tokens.append(_Token(match.lastgroup, match[match.lastgroup], match.start(match.lastgroup)))
        position = match.end()
    return [*tokens, _Token("end", "", len(text))]


def _literal(token: _Token) -> Literal | None:
    if token.kind == "string":
        return token.text[1:-1].replace("''", "'")
    if token.kind == "number":
        return _number(token.text)
    return {"true": True, "false": False}.get(token.text.lower()) if token.kind == "word" else None


def _number(text: str) -> int | float:
    try:
        return int(text) if text.lstrip("+-").isdigit() else float(text)
    except ValueError:
        # Python limits integers in text to some thousand digits, and no column holds longer ones.
        raise FilterError(f"the number {text[:20]}… has too many digits: {len(text)}") from None


def _error(text: str, position: int, expected: str) -> FilterError:
    after = text[position:].lstrip()
    shown = f"before {after[:20]!r}" if after else "at the end"
    return FilterError(
        f"filter {text!r:.200}: expected {expected} {shown} (character {len(text) - len(after) + 1})"
    )
