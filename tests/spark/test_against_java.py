"""Patterns against Java itself: what `java.util.regex` matches as a whole,
`translate` must match too.
"""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from parley.spark.values.java_regex import translate

ALPHABET = ["a", "b", "Z", "1", ".", "-", "_"]
NAMES = [
    "".join(letters)
    for length in (0, 1, 2)
    for letters in itertools.product(ALPHABET, repeat=length)
]
NAMES += [
    "events",
    "events.de",
    "my-events",
    "EVENTS",
    "a.b*c",
    "x|y",
    "a\nb",
    "a b",
    "t.22",
    "topic",
    "aaa",
    "aab",
]
PATTERNS = [
    "a", ".", ".*", ".+?", "a?", "a{2}", "a{1,}b*", "[ab]", "[^ab]", "[a-z]+", "[^.]*", r"\w+",
    r"\W", r"\d+", r"\D*", r"\s", r"\S+", "a|b", "(a|b)c?", "(?:a|b)+", r"(a)\1", r"(?<x>a)\k<x>",
    r"\.", r"a\.b", r"\Qa.b\E.*", r"\Q.\E+", r"\Qa.b*", "(?i)a+", "(?i)EVENTS", r"\p{Alpha}+",
    r"\p{Upper}\d", r"\P{Alpha}+", r"[\p{Digit}.]+", r"\p{Punct}", r"\p{L}+", r"[^\p{L}]+", "a*+b",
    "a++", "(?>a*)b", "(?=a).*", "(?!a).+", "(?<=a)b|ab", "(?<!a)b", r"\bevents\b.*", "^events$",
    r"events\z", r"events\Z", r"\Aevents", "[a-b.-]+", "[-a]+", "[a|b]+", r"[\-\]]", "[~]*", "[$.]",
    "a$|b", r"\x61", r"\x{61}b?", r"\0141", "events(?:[.]de)?", "(?s).*", r"\h", r"[\h]", "a[|]b",
    r"e\w+s\W?\w*",
]  # fmt: skip


@pytest.mark.parametrize("pattern", PATTERNS)
def test_the_same_names_match(spark: Any, pattern: str) -> None:
    java = spark._jvm.java.util.regex.Pattern
    compiled = translate(pattern)
    assert [name for name in NAMES if compiled.fullmatch(name)] == [
        n for n in NAMES if java.matches(pattern, n)
    ]
