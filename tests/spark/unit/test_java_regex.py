"""Java's regular expressions in Python. tests/spark/test_against_java.py holds
them against Java itself.
"""

from __future__ import annotations

import pytest

from parley.errors import ConfigError
from parley.spark.values.java_regex import translate


@pytest.mark.parametrize(
    ("pattern", "matches", "fails"),
    [
        ("events", ["events"], ["events2", "my-events", ""]),
        ("events.*", ["events", "events.de"], ["my-events"]),
        (r"t\.\d+", ["t.1", "t.22"], ["tx1", "t.", "t.١"]),
        (r"\Qa.b*\E.c", ["a.b*xc"], ["aXb*xc"]),
        (r"\Qunclosed.", ["unclosed."], ["unclosedX"]),
        (r"(?<a>x)-\k<a>", ["x-x"], ["x-y"]),
        (r"\p{Alpha}+\p{Digit}", ["abc1"], ["1abc"]),
        (r"[\p{Lower}_]+", ["a_b"], ["A_b"]),
        (r"\P{Upper}+", ["abc.1"], ["aBc"]),
        ("(?i)EVENTS", ["events", "Events"], ["event"]),
        (r"a\z", ["a"], ["ab"]),
        ("a++b", ["aab"], ["aa"]),
        ("(?>a|ab)c", ["ac"], ["abc"]),
        ("[^-x]+", ["abc"], ["a-b"]),
        ("[a|b~]+", ["a|b~"], ["c"]),
        (r"\x{74}opic", ["topic"], ["xopic"]),
        (r"a(?!b).*", ["ac"], ["ab"]),
    ],
)
def test_a_pattern_matches_what_java_matches(
    pattern: str, matches: list[str], fails: list[str]
) -> None:
    compiled = translate(pattern)
    assert [name for name in matches if not compiled.fullmatch(name)] == []
    assert [name for name in fails if compiled.fullmatch(name)] == []


@pytest.mark.parametrize(
    ("pattern", "place", "why"),
    [
        ("[a-z&&[^b]]", 5, "intersection"),
        ("[a[bc]]", 3, "inside another"),
        ("a(?i)b", 2, "flags may only stand at the front"),
        (r"\p{Greek}", 1, 'property "Greek" is not known'),
        (r"[a\P{Alpha}]", 3, "negated property inside"),
        ("(?q)a", 1, 'flag "q"'),
        ("ab\\", 3, "backslash at the end"),
        (r"a\y", 2, "cannot be translated"),
        ("[]a]", 2, "empty character class"),
    ],
)
def test_what_cannot_be_translated_is_refused_with_its_place(
    pattern: str, place: int, why: str
) -> None:
    with pytest.raises(ConfigError, match=rf"character {place}: .*{why}"):
        translate(pattern)


@pytest.mark.parametrize("pattern", ["*", "(", "[a", "a{2,1}"])
def test_what_is_no_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(ConfigError, match="is not a regular expression"):
        translate(pattern)
