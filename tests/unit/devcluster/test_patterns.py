"""Patterns as RE2 has them: what they match, what is refused, and that time is
linear whatever the pattern.
"""

from __future__ import annotations

import contextlib
import re
from random import Random

import pytest
from hypothesis import given, settings, strategies as st

from parley.devcluster.patterns import Pattern, PatternError
from parley.devcluster.patterns.program import MAX_INSTRUCTIONS
from parley_laboratory.growth import grows_linearly

# Each line was compared with google-re2 1.1: a pattern,
# texts that it matches, texts that it does not.
TABLE = [
    ("", ["", ], ["a"]),
    ("orders-.*", ["orders-", "orders-eu"], ["order-eu", "xorders-", "orders-\n"]),
    ("(?s)a.b", ["a\nb"], ["ab"]),
    ("a|b|", ["a", "b", ""], ["ab"]),
    ("(a|b)*abb", ["abb", "aabb", "babaabb"], ["ab", "abba"]),
    ("a{2,3}", ["aa", "aaa"], ["a", "aaaa"]),
    ("a{2,}?b", ["aab", "aaaab"], ["ab"]),
    ("a{,2}", ["a{,2}"], ["a", "aa"]),
    ("x{0}y", ["y"], ["xy"]),
    ("[a-c]+?", ["abc"], ["", "d"]),
    ("[^a-c]", ["d", "\n", "ä"], ["a", ""]),
    ("[]a]+", ["]a"], ["b"]),
    ("[a\\]-]+", ["a]-"], ["b"]),
    ("[[:alpha:]_]+", ["ab_"], ["a1"]),
    ("[[:^digit:]]", ["a"], ["1"]),
    ("\\d+\\.\\d", ["10.5"], ["10x5", "١.٢"]),
    ("\\w+\\W\\s", ["ab- "], ["ab  x"]),
    ("\\pL\\p{Lu}\\PN\\p{^Nd}", ["äÄab", "aAa-"], ["aaaa", "aA1b"]),
    ("\\Qa.b|\\E+", ["a.b|", "a.b||"], ["axb|", "a.b"]),
    ("\\x41\\x{e4}\\101\\t\\.", ["AäA\t."], ["AaA\t."]),
    ("(?i)Straße-K", ["STRAßE-k", "straße-K"], ["strasse-k"]),
    ("a(?i:b)c", ["abc", "aBc"], ["Abc", "aBC"]),
    ("(?i)a(?-i)b", ["Ab"], ["AB"]),
    ("(?P<name>a)(?:b)(?<other>c)", ["abc"], ["ab"]),
    ("^a$", ["a"], ["a\n", "ba"]),
    ("(?m)a$\n^b", ["a\nb"], ["ab"]),
    ("\\bfoo\\b.*", ["foo", "foo bar"], ["foobar"]),
    (".*\\Boo", ["foo"], ["oo"]),
    ("\\Aa\\z", ["a"], [""]),
    ("(^)*a", ["a"], []),
    ("(a*)*(b|c*)+", ["", "aabc"], ["d"]),
    (".", ["é", "😀"], ["", "ab"]),
    ("(?i)\\p{Lu}a(?s)+", ["aaA"], ["a1"]),
    ("a{1000}", ["a" * 1000], ["a" * 999]),
]  # fmt: skip


@pytest.mark.parametrize(("pattern", "yes", "no"), TABLE, ids=lambda value: repr(value)[:20])
def test_what_a_pattern_matches(pattern: str, yes: list[str], no: list[str]) -> None:
    made = Pattern(pattern)
    assert [text for text in yes if not made.matches(text)] == []
    assert [text for text in no if made.matches(text)] == []


@pytest.mark.parametrize(
    "pattern",
    [
        "(", ")", "a)", "(a", "[", "[a", "[b-a]", "[a-\\d]", "*", "a|*", "(*)", "a**", "a+*",
        "a{2}{3}", "a??*", "\\", "\\1", "(a)\\1", "\\8", "(?=a)", "(?!a)", "(?<=a)", "(?>a)", "a++",
        "(?P=x)", "(?P<a>x)(?P<a>y)", "(?z)a", "\\p{Greek}", "\\C", "\\xg", "\\x{110000}", "\\y",
        "\\Z", "\\E", "a{1001}", "a{3,2}", "[[:nope:]]", "\\p{L", "(?i", "a{1000}{1000}",
        "((a{1000}){1000}){1000}", "((((){1000}){1000}){1000}){1000}", "(" * 5_000,
        "(" * 101 + ")" * 101, "a" * 20_000, "(a|" * 3_000, "[" * 9_000, "\\Q" + "a" * 9_000,
    ],
)  # fmt: skip
def test_what_re2_or_parley_does_not_have_is_refused(pattern: str) -> None:
    with pytest.raises(PatternError):
        Pattern(pattern)


ATOMS = st.sampled_from(["a", "b", "[ab]", "[^a]", ".", "", "ab"])
PATTERNS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.builds("{}{}".format, inner, inner),
        st.builds("(?:{}|{})".format, inner, inner),
        st.builds(
            "(?:{}){}".format, inner, st.sampled_from(["*", "+", "?", "{2}", "{0,2}", "{1,}", "*?"])
        ),
        st.builds("{}\\b{}".format, inner, inner),
    ),
    max_leaves=8,
)


@settings(max_examples=300)
@given(PATTERNS, st.lists(st.text("ab c", max_size=7), max_size=6))
def test_short_texts_match_as_pythons_own_engine_says(pattern: str, texts: list[str]) -> None:
    made, python = Pattern(pattern), re.compile(pattern)
    for text in texts:
        assert made.matches(text) is (python.fullmatch(text) is not None), text


@settings(max_examples=300)
@given(
    st.text("ab(|)[]^$*+?{}\\,-0123.:QEpPLdwsbBimsU<>=! ", max_size=20),
    st.text("ab01 \n", max_size=5),
)
def test_any_text_is_a_pattern_or_is_refused(pattern: str, text: str) -> None:
    with contextlib.suppress(PatternError):
        Pattern(pattern).matches(text)


EVIL = [
    "(a|aa)?" * 16 + "b",
    ".*.*.*x",
    "(a*)*b",
    "(a|a)*b",
    "(a+)+b",
    "(a|b)*a(a|b){60}",
    "a?" * 100 + "a" * 100,
]


@pytest.mark.parametrize("pattern", EVIL, ids=lambda pattern: pattern[:20])
@pytest.mark.parametrize("letter", ["a", pytest.param("ab", marks=pytest.mark.matrix)])
def test_time_is_linear_in_the_text(pattern: str, letter: str) -> None:
    made = Pattern(pattern)
    grows_linearly(lambda size: letter * size, made.matches, 300)


def test_a_long_match_yields() -> None:
    """An event loop takes its turn between the slices."""
    slices = 0
    run = Pattern("(a|b)*a(a|b){300}").slices("".join(Random(1).choices("ab", k=500)))
    for _ in run:
        slices += 1
    assert slices > 10


def test_the_number_of_steps_is_bounded_before_they_are_made() -> None:
    with pytest.raises(PatternError, match=f"{MAX_INSTRUCTIONS}"):
        Pattern("(x{999}){999}")
