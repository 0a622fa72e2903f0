"""A pattern's tree as instructions, of which there are at most MAX_INSTRUCTIONS: {n,m}
writes its part n to m times.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from parley.devcluster.patterns.chars import Chars
from parley.devcluster.patterns.syntax import (
    All,
    Either,
    Empty,
    Node,
    One,
    PatternError,
    Place,
    Repeat,
)

MAX_INSTRUCTIONS = 2_000


@dataclass(slots=True)
class Step:
    """One instruction: take one of `chars`, or go on at once to all of `to`, at `place` only."""

    chars: Chars | None = None
    to: tuple[int, ...] = ()
    place: str | None = None


@dataclass(slots=True)
class Program:
    """Instructions; a character's successor is the one behind it. The last one is the match."""

    steps: list[Step] = field(default_factory=list)
    _written: int = 0

    def write(self, node: Node) -> None:
        """Append the instructions of a part. Raises PatternError when they become too many."""
        self._written += 1
        if len(self.steps) > MAX_INSTRUCTIONS or self._written > 3 * MAX_INSTRUCTIONS:
            raise PatternError(f"the pattern has more than {MAX_INSTRUCTIONS} steps")
        match node:
            case One(chars):
                self.steps.append(Step(chars))
            case Place(kind):
                self._go(len(self.steps) + 1, place=kind)
            case All(parts):
                for part in parts:
                    self.write(part)
            case Either(parts):
                self._any(parts)
            case Repeat(part, least, most):
                self._repeat(part, least, most)
            case Empty():
                pass

    def _go(self, *to: int, place: str | None = None) -> Step:
        step = Step(None, to, place)
        self.steps.append(step)
        return step

    def _any(self, parts: tuple[Node, ...]) -> None:
        fork, ends, starts = self._go(), [], []
        for part in parts:
            starts.append(len(self.steps))
            self.write(part)
            ends.append(self._go())
        fork.to = tuple(starts)
        for end in ends:
            end.to = (len(self.steps),)

    def _repeat(self, part: Node, least: int, most: int | None) -> None:
        for _ in range(least):
            self.write(part)
        if most is None:
            fork = self._go()
            begin = len(self.steps)
            self.write(part)
            self._go(begin - 1)
            fork.to = (begin, len(self.steps))
            return
        forks = []
        for _ in range(most - least):
            forks.append((self._go(), len(self.steps)))
            self.write(part)
        for fork, begin in forks:
            fork.to = (begin, len(self.steps))
