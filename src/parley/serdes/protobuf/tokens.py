"""The text of a .proto file as tokens, one at a time.

Foreign texts raise SchemaError, with line and column, and nothing else; of a text no more than two
tokens are held at a time.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import NamedTuple

from parley.errors import SchemaError, printable

_SPACE = re.compile(r"(?:[ \t\r\n\f\v]+|//[^\n]*|/\*[\s\S]*?\*/)*+")
_TOKEN = re.compile(
    r"""(?P<NAME>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<FLOAT>[0-9]+\.[0-9]*(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+(?:[eE][+-]?[0-9]+)?)
    |(?P<INTEGER>0[xX][0-9a-fA-F]+|[0-9]+)
    |(?P<TEXT>"(?:[^"\\\n]|\\[^\n])*"|'(?:[^'\\\n]|\\[^\n])*')
    |(?P<SYMBOL>[{}\[\]()<>;,=.:+/-])""",
    re.VERBOSE,
)
_ESCAPE = re.compile(
    rb"\\(?:([abfnrtv\\'\"?])|([0-7]{1,3})|[xX]([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{4})"
    rb"|U([0-9a-fA-F]{8})|(.))",
    re.DOTALL,
)
_SIMPLE = dict(zip(b"abfnrtv\\'\"?", b"\a\b\f\n\r\t\v\\'\"?", strict=True))
_MAX_DIGITS = 24
"""Of a number: 64 bits have no more, in whatever notation."""


class Kind(Enum):
    """What a token is."""

    NAME = "a name"
    FLOAT = "a number with a point"
    INTEGER = "a whole number"
    TEXT = "a text in quotes"
    SYMBOL = "a symbol"
    END = "the end of the text"


class Token(NamedTuple):
    """A token, and where it stands."""

    kind: Kind
    text: str
    start: int
    end: int


class Tokens:
    """What is left of a text. `now` is the token in front."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.now = self._scan(0)

    def next(self) -> Token:
        """Take the token in front, and return it."""
        found = self.now
        self.now = self._scan(found.end)
        return found

    def peek(self) -> Token:
        """Return the token behind the one in front."""
        return self._scan(self.now.end)

    def sees(self, *texts: str) -> bool:
        """Return whether one of these symbols or names is in front."""
        return self.now.kind in (Kind.SYMBOL, Kind.NAME) and self.now.text in texts

    def takes(self, text: str) -> bool:
        """Take a symbol or name if it is in front, and return whether it was."""
        if self.sees(text):
            self.next()
            return True
        return False

    def expect(self, text: str) -> None:
        """Take a symbol or name. Raises SchemaError for anything else."""
        if not self.takes(text):
            raise self.error(f"{text} is expected")

    def name(self) -> str:
        """Take a name."""
        return self._of(Kind.NAME).text

    def full_name(self) -> str:
        """Take a name with dots, perhaps one in front."""
        found = "." if self.takes(".") else ""
        found += self.name()
        while self.takes("."):
            found += "." + self.name()
        return found

    def integer(self, low: int, high: int) -> int:
        """Take a whole number, perhaps with a minus. Raises SchemaError for one out of range."""
        at = self.now
        sign = -1 if self.takes("-") else 1
        found = sign * whole_number(self, self._of(Kind.INTEGER))
        if not low <= found <= high:
            raise self.error(f"{found} is not from {low} to {high}", at)
        return found

    def raw_text(self) -> bytes:
        """Take a text in quotes, or several that follow each other and are one."""
        found = b""
        while True:
            token = self._of(Kind.TEXT)
            found += _unescaped(self, token)
            if self.now.kind is not Kind.TEXT:
                return found

    def unicode_text(self) -> str:
        """Take a text in quotes that is UTF-8."""
        at = self.now
        try:
            return self.raw_text().decode()
        except UnicodeDecodeError:
            raise self.error("the text is not UTF-8", at) from None

    def error(self, why: str, at: Token | None = None) -> SchemaError:
        """Return the error for a token, by default the one in front."""
        token = self.now if at is None else at
        line = self.text.count("\n", 0, token.start) + 1
        column = token.start - self.text.rfind("\n", 0, token.start)
        given = token.kind.value if not token.text else printable(token.text, 40)
        return SchemaError(f"line {line}, column {column}: {why}, {given} is there")

    def _of(self, kind: Kind) -> Token:
        if self.now.kind is not kind:
            raise self.error(f"{kind.value} is expected")
        return self.next()

    def _scan(self, start: int) -> Token:
        space = _SPACE.match(self.text, start)
        at = start if space is None else space.end()
        if at == len(self.text):
            return Token(Kind.END, "", at, at)
        found = _TOKEN.match(self.text, at)
        if found is None or self.text.startswith("/*", at):
            bad = Token(Kind.SYMBOL, self.text[at : at + 20], at, at)
            raise self.error("this is no part of a .proto text:", bad)
        assert found.lastgroup is not None
        return Token(Kind[found.lastgroup], found.group(), at, found.end())


def whole_number(tokens: Tokens, token: Token) -> int:
    """Return the number of a token: decimal, 0x for hexadecimal, 0 for octal."""
    text = token.text
    if len(text) <= _MAX_DIGITS:
        try:
            if text[:2] in ("0x", "0X"):
                return int(text, 16)
            return int(text, 8 if text[0] == "0" else 10)
        except ValueError:
            pass
    raise tokens.error("a whole number of 64 bits is expected", token)


def _unescaped(tokens: Tokens, token: Token) -> bytes:
    def one(found: re.Match[bytes]) -> bytes:
        simple, octal, hexadecimal, short, long, _ = found.groups()
        if simple is not None:
            return bytes((_SIMPLE[simple[0]],))
        if octal is not None:
            return bytes((int(octal, 8) & 0xFF,))
        if hexadecimal is not None:
            return bytes((int(hexadecimal, 16),))
        point = int(short or long or b"110000", 16)
        if point >= 0x110000 or 0xD800 <= point < 0xE000:
            raise tokens.error("an escape is none of a text's:", token)
        return chr(point).encode()

    try:
        return _ESCAPE.sub(one, token.text[1:-1].encode())
    except UnicodeEncodeError:
        raise tokens.error("a text has half a surrogate pair:", token) from None
