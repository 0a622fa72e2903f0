"""RE2's syntax as RE2/J reads it, but for what Python has no tables of: a text → a tree.

Refused: what RE2 refuses (look-around, backreferences, possessive repetitions, `a**`, counts above
1,000), scripts (`\\p{Greek}`), \\C, and groups nested more than MAX_NESTING deep.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from parley.devcluster.patterns.chars import CATEGORIES, PERL, POSIX, Chars, Range, literal

MAX_PATTERN_CHARS = 10_000
MAX_REPEAT = 1_000
"""RE2's own bound of {n,m}."""
MAX_NESTING = 100

_COUNT = re.compile(r"\{(\d{1,9})(,(\d{1,9})?)?\}", re.ASCII)
_NAME = re.compile(r"P?<(\w+)>", re.ASCII)
_FLAGS = re.compile(r"([imsU]*)(?:-([imsU]+))?([:)])")
_HEX = re.compile(r"([0-9A-Fa-f]{2})|\{([0-9A-Fa-f]{1,6})\}")
_OCTAL = re.compile(r"0[0-7]{0,2}|[1-7][0-7]{1,2}")
_PLAIN = {"a": 7, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11}
_PLACES = {"A": "begin", "z": "end", "b": "boundary", "B": "no boundary"}


class PatternError(ValueError):
    """A pattern that cannot be read."""


@dataclass(frozen=True, slots=True)
class Empty:
    """Matches nothing, everywhere."""


@dataclass(frozen=True, slots=True)
class Place:
    """Matches nothing, at "begin", "end", "line begin", "line end", "boundary" or "no boundary"."""

    kind: str


@dataclass(frozen=True, slots=True)
class One:
    """Matches one character."""

    chars: Chars


@dataclass(frozen=True, slots=True)
class All:
    """Matches each part in turn."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Either:
    """Matches one of the parts."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """Matches a part so many times; `most` None is without end."""

    part: Node
    least: int
    most: int | None


Node = Empty | Place | One | All | Either | Repeat


@dataclass(slots=True)
class Parser:
    """Reads one pattern. `tree()` returns it, or raises PatternError."""

    text: str
    at: int = 0
    flags: frozenset[str] = frozenset()
    depth: int = 0
    names: set[str] = field(default_factory=set)

    def tree(self) -> Node:
        """Return the whole pattern."""
        if len(self.text) > MAX_PATTERN_CHARS:
            raise PatternError(f"the pattern has more than {MAX_PATTERN_CHARS} characters")
        found = self._choice()
        if self.at < len(self.text):
            raise PatternError("a ) without its (")
        return found

    def _ahead(self, text: str) -> bool:
        return self.text.startswith(text, self.at)

    def _take(self) -> str:
        if self.at >= len(self.text):
            raise PatternError("the pattern ends too early")
        self.at += 1
        return self.text[self.at - 1]

    def _choice(self) -> Node:
        parts = [self._sequence()]
        while self._ahead("|"):
            self.at += 1
            parts.append(self._sequence())
        return parts[0] if len(parts) == 1 else Either(tuple(parts))

    def _sequence(self) -> Node:
        parts: list[Node] = []
        while self.at < len(self.text) and self.text[self.at] not in "|)":
            if self._ahead("\\Q"):
                parts += self._quoted()
            elif not (self._ahead("(?") and self._sets_flags()):
                parts.append(self._atom())
            if parts:
                # flags stand for nothing: what is before them is repeated
                parts[-1] = self._repeated(parts[-1])
        return parts[0] if len(parts) == 1 else All(tuple(parts)) if parts else Empty()

    def _quoted(self) -> list[Node]:
        end = self.text.find("\\E", self.at + 2)
        quoted = self.text[self.at + 2 :] if end < 0 else self.text[self.at + 2 : end]
        self.at = len(self.text) if end < 0 else end + 2
        parts: list[Node] = [One(literal(char, "i" in self.flags)) for char in quoted]
        return parts

    # -- repetitions

    def _repeated(self, atom: Node) -> Node:
        bounds = self._repetition()
        if bounds is None:
            return atom
        if self._ahead("?"):  # prefers fewer, which changes nothing in whether a whole text matches
            self.at += 1
        if self._repetition() is not None:
            raise PatternError("a repetition of a repetition needs a group")
        return Repeat(atom, *bounds)

    def _repetition(self) -> tuple[int, int | None] | None:
        if self.at >= len(self.text):
            return None
        simple = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(self.text[self.at])
        if simple is not None:
            self.at += 1
            return simple
        count = _COUNT.match(self.text, self.at)
        if count is None:
            return None
        least = int(count[1])
        most = least if count[2] is None else None if count[3] is None else int(count[3])
        if max(least, most or 0) > MAX_REPEAT or (most is not None and most < least):
            raise PatternError(
                f"the repetition {count[0]} is not from less to more, up to {MAX_REPEAT}"
            )
        self.at = count.end()
        return least, most

    # -- what may be repeated

    def _atom(self) -> Node:
        if self._repetition() is not None:
            raise PatternError("a repetition of nothing")
        char = self._take()
        if char == "(":
            return self._group()
        if char == "[":
            return One(self._class())
        if char == ".":
            return One(Chars(() if "s" in self.flags else ((10, 10),), negated=True))
        if char in "^$":
            line = "line " if "m" in self.flags else ""
            return Place(line + ("begin" if char == "^" else "end"))
        if char == "\\":
            place = _PLACES.get(self.text[self.at : self.at + 1])
            if place is not None:
                self.at += 1
                return Place(place)
            found = self._escape()
            return One(found if isinstance(found, Chars) else literal(found, "i" in self.flags))
        return One(literal(char, "i" in self.flags))

    def _sets_flags(self) -> bool:
        """Read `(?i)`, which holds to the end of its group; return whether it was one."""
        found = _FLAGS.match(self.text, self.at + 2)
        if found is None or found[3] != ")" or found[0] == ")":
            return False
        self.at = found.end()
        self.flags = (self.flags | set(found[1])) - set(found[2] or "")
        return True

    def _group(self) -> Node:
        outer = self.flags
        if self._ahead("?"):
            self.at += 1
            name, flags = _NAME.match(self.text, self.at), _FLAGS.match(self.text, self.at)
            if name is not None:
                if name[1] in self.names:
                    raise PatternError(f"two groups are named {name[1]}")
                self.names.add(name[1])
                self.at = name.end()
            elif flags is not None and flags[3] == ":":
                self.at = flags.end()
                self.flags = (outer | set(flags[1])) - set(flags[2] or "")
            else:
                raise PatternError("(? begins nothing that can be matched in linear time")
        self.depth += 1
        if self.depth > MAX_NESTING:
            raise PatternError(f"groups are nested more than {MAX_NESTING} deep")
        found = self._choice()
        self.depth -= 1
        self.flags = outer
        if not self._ahead(")"):
            raise PatternError("a ( without its )")
        self.at += 1
        return found

    # -- characters

    def _escape(self) -> str | Chars:
        """Return the character, or the set, that stands behind a backslash."""
        octal = _OCTAL.match(self.text, self.at)
        if octal is not None:
            self.at = octal.end()
            return chr(int(octal[0], 8))
        char = self._take()
        if char in _PLAIN:
            return chr(_PLAIN[char])
        if char.lower() in PERL:
            return Chars(PERL[char.lower()], negated=char.isupper())
        if char in "pP":
            return self._category(char == "P")
        if char == "x":
            found = _HEX.match(self.text, self.at)
            if found is None or int(found[1] or found[2], 16) > 0x10FFFF:
                raise PatternError("\\x is followed by no character's number")
            self.at = found.end()
            return chr(int(found[1] or found[2], 16))
        if char.isascii() and not char.isalnum():
            return char
        raise PatternError(f"the escape \\{char} is not known")

    def _category(self, negated: bool) -> Chars:
        name = self._take()
        if name == "{":
            end = self.text.find("}", self.at)
            name = self.text[self.at : end] if end >= 0 else ""
            self.at = end + 1
            if name.startswith("^"):
                name, negated = name[1:], not negated
        if name == "Any":
            return Chars(((0, 0x10FFFF),), negated=negated)
        if CATEGORIES.fullmatch(name) is None:
            raise PatternError(
                f"the class \\p{{{name[:20]}}} is not known: parley has Unicode's categories only"
            )
        return Chars(categories=(name,), negated=negated, folded="i" in self.flags)

    def _class(self) -> Chars:
        negated = self._ahead("^")
        self.at += negated
        ranges: list[Range] = []
        others: list[Chars] = []
        first = True
        while first or not self._ahead("]"):
            first = False
            low = self._member()
            if isinstance(low, Chars):
                others.append(low)
                continue
            high: str | Chars = low
            if self._ahead("-") and not self._ahead("-]"):
                self.at += 1
                high = self._member()
            if isinstance(high, Chars) or high < low:
                raise PatternError("a range in [] is not from a lower character to a higher one")
            ranges.append((ord(low), ord(high)))
        self.at += 1
        return Chars(tuple(ranges), (), tuple(others), negated, "i" in self.flags)

    def _member(self) -> str | Chars:
        if self._ahead("[:"):
            end = self.text.find(":]", self.at + 2)
            name = self.text[self.at + 2 : end] if end >= 0 else ""
            bare = name.removeprefix("^")
            if end >= 0 and bare in POSIX:
                self.at = end + 2
                return Chars(POSIX[bare], negated=bare != name)
            if end >= 0:
                raise PatternError(f"the class [:{name[:20]}:] is not known")
        char = self._take()
        return self._escape() if char == "\\" else char
