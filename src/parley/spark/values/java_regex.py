"""Java regular expressions → Python's, for `subscribePattern`.

Most of the two languages is the same, and topic names are ASCII, so this is a walk over the pattern
that rewrites what differs and refuses, with the reason, what Python cannot do:

    \\Q...\\E            quoted text            → escaped
    (?<name>  \\k<name>  named groups           → (?P<name>  (?P=name)
    \\p{Alpha} \\P{...}  POSIX and Java classes → ASCII sets
    \\z \\Z \\A \\G \\h \\e \\x{h} \\cX  \\0n       → the Python spelling
    [a[bc]] [a&&[b]]    unions, intersections  → refused
    a(?i)b              flags in mid-pattern   → refused
"""

from __future__ import annotations

import re

from parley.errors import ConfigError

_CLASSES = {
    "Lower": "a-z", "Upper": "A-Z", "ASCII": r"\x00-\x7F", "Alpha": "A-Za-z", "Digit": "0-9",
    "Alnum": "A-Za-z0-9", "Punct": r"!-/:-@\[-`{-~", "Graph": "!-~", "Print": " -~",
    "Blank": r" \t", "Cntrl": r"\x00-\x1F\x7F", "XDigit": "0-9A-Fa-f", "Space": r" \t\n\x0B\f\r",
    "javaLowerCase": "a-z", "javaUpperCase": "A-Z", "L": "A-Za-z", "Lu": "A-Z", "Ll": "a-z",
    "N": "0-9", "Nd": "0-9", "P": r"!-/:-@\[-`{-~", "IsAlphabetic": "A-Za-z", "IsDigit": "0-9",
    "IsLetter": "A-Za-z", "IsLowercase": "a-z", "IsUppercase": "A-Z",
}  # fmt: skip
_FLAGS = {
    "i": re.IGNORECASE,
    "s": re.DOTALL,
    "m": re.MULTILINE,
    "x": re.VERBOSE,
    "u": re.NOFLAG,
    "d": re.NOFLAG,
}
_LEADING_FLAGS = re.compile(r"\(\?([a-zA-Z]+)\)")


def translate(pattern: str) -> re.Pattern[str]:
    """Return the Python pattern that matches the same topic names; use it with `fullmatch`.

    Raises ConfigError, naming the place, for a pattern that is wrong or cannot be translated.
    """
    flags = re.ASCII  # Java's \\d, \\w, \\s and (?i) are ASCII unless set otherwise
    body = pattern
    if leading := _LEADING_FLAGS.match(body):
        for letter in leading.group(1):
            if letter not in _FLAGS:
                raise _refused(pattern, 0, f'flag "{letter}" is not known')
            flags |= _FLAGS[letter]
        body = body[leading.end() :]
    text = _Walk(pattern, len(pattern) - len(body)).run()
    try:
        return re.compile(text, flags)
    except re.error as error:
        raise ConfigError(
            f'subscribePattern="{pattern}" is not a regular expression: {error}'
        ) from error


def _refused(pattern: str, place: int, why: str) -> ConfigError:
    return ConfigError(
        f'subscribePattern="{pattern}", character {place + 1}: {why}. '
        "Write the pattern without it, or name the topics with subscribe."
    )


class _Walk:
    """One pass over a pattern. `at`: the next character's place, `out`: what was made."""

    def __init__(self, pattern: str, start: int) -> None:
        self.pattern = pattern
        self.at = start
        self.out: list[str] = []
        self.in_class = False

    def run(self) -> str:
        while self.at < len(self.pattern):
            char = self.pattern[self.at]
            if char == "\\":
                self._escape()
            elif self.in_class:
                self._class_char(char)
            elif char == "[":
                self._open_class()
            elif self.pattern.startswith("(?<", self.at) and self.pattern[
                self.at + 3 : self.at + 4
            ] not in ("=", "!"):
                self._emit("(?P<", 3)
            elif _LEADING_FLAGS.match(self.pattern, self.at):
                raise self._error("flags may only stand at the front")
            else:
                self._emit(char, 1)
        return "".join(self.out)

    def _emit(self, text: str, consumed: int) -> None:
        self.out.append(text)
        self.at += consumed

    def _error(self, why: str) -> ConfigError:
        return _refused(self.pattern, self.at, why)

    def _open_class(self) -> None:
        self.in_class = True
        negated = self.pattern.startswith("[^", self.at)
        self._emit("[^" if negated else "[", 2 if negated else 1)
        if self.pattern[self.at : self.at + 1] == "]":  # a literal in Python, an error in Java
            raise self._error("an empty character class")

    def _class_char(self, char: str) -> None:
        if char == "[":
            raise self._error("a character class inside another cannot be translated")
        if self.pattern.startswith("&&", self.at):
            raise self._error("an intersection of character classes cannot be translated")
        if char == "]":
            self.in_class = False
        # "--", "||" and "~~" are set operations of some
        # future Python: escaped, they stay what they are.
        self._emit("\\" + char if char in "|~" else char, 1)

    def _escape(self) -> None:
        rest = self.pattern[self.at + 1 :]
        if not rest:
            raise self._error("a backslash at the end")
        letter = rest[0]
        if letter == "Q":
            quoted, end, _ = rest[1:].partition("\\E")
            self._emit(re.escape(quoted), 2 + len(quoted) + len(end))
        elif letter in "pP":
            self._property(rest)
        elif letter == "k" and (named := re.match(r"k<(\w+)>", rest)):
            self._emit(f"(?P={named.group(1)})", 1 + named.end())
        elif letter == "x" and (wide := re.match(r"x\{([0-9A-Fa-f]+)\}", rest)):
            self._emit(re.escape(chr(int(wide.group(1), 16))), 1 + wide.end())
        elif letter == "0" and (octal := re.match(r"0([0-3]?[0-7]{1,2})", rest)):
            self._emit(re.escape(chr(int(octal.group(1), 8))), 1 + octal.end())
        elif letter == "c" and len(rest) > 1:
            self._emit(re.escape(chr(ord(rest[1]) ^ 64)), 3)
        elif letter in _ESCAPES:
            self._emit(_ESCAPES[letter][self.in_class], 2)
        elif letter.isalpha() and letter not in "dDwWsSbBAtnrfvaxu":
            raise self._error(f'"\\{letter}" cannot be translated')
        else:
            self._emit("\\" + letter, 2)

    def _property(self, rest: str) -> None:
        found = re.match(r"[pP](?:\{(\w+)\}|(\w))", rest)
        name = (found.group(1) or found.group(2)) if found else ""
        if found is None or name not in _CLASSES:
            raise self._error(f'the property "{name}" is not known')
        negated = rest[0] == "P"
        if self.in_class and negated:
            raise self._error("a negated property inside a character class cannot be translated")
        ranges = _CLASSES[name]
        self._emit(
            ranges if self.in_class else f"[{'^' if negated else ''}{ranges}]", 1 + found.end()
        )


_ESCAPES = {
    "z": (r"\Z", "z"), "Z": (r"(?=\n?\Z)", "Z"), "G": (r"\A", "G"), "e": (r"\x1b", r"\x1b"),
    "h": (r"[ \t]", r" \t"), "H": (r"[^ \t]", "H"), "R": (r"(?:\r\n|[\n\r\x0b\f])", "R"),
}  # fmt: skip
"""Escapes that Python spells otherwise: outside and inside a character class."""
