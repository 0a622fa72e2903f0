"""Sets of characters, as patterns name them."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

Range = tuple[int, int]

DIGITS: tuple[Range, ...] = ((0x30, 0x39),)
UPPER: tuple[Range, ...] = ((0x41, 0x5A),)
LOWER: tuple[Range, ...] = ((0x61, 0x7A),)
WORD = (*DIGITS, *UPPER, (0x5F, 0x5F), *LOWER)
PERL = {"d": DIGITS, "w": WORD, "s": ((0x09, 0x0A), (0x0C, 0x0D), (0x20, 0x20))}
POSIX: dict[str, tuple[Range, ...]] = {
    "alnum": (*DIGITS, *UPPER, *LOWER),
    "alpha": (*UPPER, *LOWER),
    "ascii": ((0x00, 0x7F),),
    "blank": ((0x09, 0x09), (0x20, 0x20)),
    "cntrl": ((0x00, 0x1F), (0x7F, 0x7F)),
    "digit": DIGITS,
    "graph": ((0x21, 0x7E),),
    "lower": LOWER,
    "print": ((0x20, 0x7E),),
    "punct": ((0x21, 0x2F), (0x3A, 0x40), (0x5B, 0x60), (0x7B, 0x7E)),
    "space": ((0x09, 0x0D), (0x20, 0x20)),
    "upper": UPPER,
    "word": WORD,
    "xdigit": (*DIGITS, (0x41, 0x46), (0x61, 0x66)),
}
CATEGORIES = re.compile(r"C[cfos]?|L[lmotu]?|M[cen]?|N[dlo]?|P[cdefios]?|S[ckmo]?|Z[lps]?")
"""Unicode's general categories; RE2 knows scripts (\\p{Greek}) too, which
Python has no table of.
"""


@dataclass(frozen=True, slots=True)
class Chars:
    """Characters in some ranges, of some categories, in some other sets; or all others."""

    ranges: tuple[Range, ...] = ()
    categories: tuple[str, ...] = ()
    others: tuple[Chars, ...] = ()
    negated: bool = False
    folded: bool = False
    """Upper and lower case are the same."""

    def holds(self, char: str) -> bool:
        """Return whether a character is in the set."""
        return any(map(self._names, _cases(char) if self.folded else (char,))) is not self.negated

    def _names(self, char: str) -> bool:
        code = ord(char)
        if any(low <= code <= high for low, high in self.ranges):
            return True
        if self.categories and unicodedata.category(char).startswith(self.categories):
            return True
        return any(other.holds(char) for other in self.others)


def literal(char: str, folded: bool) -> Chars:
    """Return the set of one character; in other cases too where it is `folded`."""
    codes = map(ord, _cases(char) if folded else (char,))
    return Chars(tuple((code, code) for code in codes), folded=folded)


def _cases(char: str) -> tuple[str, ...]:
    cases = (char, char.lower(), char.upper(), char.lower().upper(), char.upper().lower())
    return tuple(dict.fromkeys(case for case in cases if len(case) == 1))
