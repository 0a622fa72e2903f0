"""Runs a program over a text: all states at once, as bits of a number; nothing is tried twice.

A character costs at most a pass over the program, and one look-up where the same states met it
before. What is remembered is bounded; the time is linear in the text, and in the pattern.
"""

from __future__ import annotations

from collections.abc import Generator

from parley.devcluster.patterns.chars import WORD, Chars
from parley.devcluster.patterns.program import Program
from parley.devcluster.patterns.syntax import Parser

MAX_REMEMBERED = 5_000
"""Transitions, and characters, that are kept; beyond that they are forgotten and found again."""

_WORD = Chars(WORD)
_SLICE = 10_000
_WORK_OF_A_CHAR = 0.3


class Pattern:
    """A compiled pattern. Raises PatternError for what this part of RE2's syntax does not have.

    >>> Pattern("orders-[0-9]+|(?i)audit").matches("AUDIT")
    True
    """

    def __init__(self, text: str) -> None:
        program = Program()
        program.write(Parser(text).tree())
        self.text = text
        self._steps = program.steps
        self._match = 1 << len(program.steps)
        self._has_places = any(step.place is not None for step in program.steps)
        self._takers: dict[str, int] = {}
        self._work = 0.0  # since the last yield, in steps of the program
        self._next: dict[tuple[int, str, frozenset[str]], int] = {}
        by_chars: dict[Chars, int] = {}
        for at, step in enumerate(self._steps):
            if step.chars is not None:
                by_chars[step.chars] = by_chars.get(step.chars, 0) | 1 << at
        self._by_chars = tuple(by_chars.items())

    def matches(self, text: str) -> bool:
        """Return whether the whole text matches."""
        run = self.slices(text)
        while True:
            try:
                next(run)
            except StopIteration as done:
                return bool(done.value)

    def slices(self, text: str) -> Generator[None, None, bool]:
        """Do what `matches` does, but yield after every few milliseconds, for an event loop.

        Several runs of one pattern share how much they did, so that many short texts yield too.
        """
        states, before = 1, ""
        self._work += len(text) * _WORK_OF_A_CHAR
        for char in text:
            places = _places(before, char) if self._has_places else _NOWHERE
            key = (states, char, places)
            found = self._next.get(key)
            if found is None:
                found = (self._reached(states, places) & self._taking(char)) << 1
                if len(self._next) >= MAX_REMEMBERED:
                    self._next.clear()
                self._next[key] = found
            if self._work > _SLICE:
                self._work = 0.0
                yield
            if not found:
                return False
            states, before = found, char
        places = _places(before, "") if self._has_places else _NOWHERE
        return bool(self._reached(states, places) & self._match)

    def _taking(self, char: str) -> int:
        """Return the instructions that take a character."""
        found = self._takers.get(char)
        if found is None:
            found = 0
            for chars, mask in self._by_chars:
                if chars.holds(char):
                    found |= mask
            if len(self._takers) >= MAX_REMEMBERED:
                self._takers.clear()
            self._takers[char] = found
        return found

    def _reached(self, states: int, places: frozenset[str]) -> int:
        """Return the instructions reached without a character, with those that take one."""
        steps, reached = self._steps, 0
        waiting = states
        while waiting:
            lowest = waiting & -waiting
            waiting ^= lowest
            reached |= lowest
            self._work += 1
            if lowest == self._match:
                continue
            step = steps[lowest.bit_length() - 1]
            if step.chars is None and (step.place is None or step.place in places):
                for to in step.to:
                    waiting |= 1 << to
                waiting &= ~reached
        return reached


_NOWHERE: frozenset[str] = frozenset()


def _places(before: str, after: str) -> frozenset[str]:
    """Return what a position between two characters is; "" is beyond the text."""
    found = []
    if not before:
        found.append("begin")
    if not after:
        found.append("end")
    if before in ("", "\n"):
        found.append("line begin")
    if after in ("", "\n"):
        found.append("line end")
    is_boundary = _is_word(before) is not _is_word(after)
    found.append("boundary" if is_boundary else "no boundary")
    return frozenset(found)


def _is_word(char: str) -> bool:
    return char != "" and _WORD.holds(char)
