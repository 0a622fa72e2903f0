"""Messages with arbitrary contents: for round trips,
oracles, and servers that must answer anything.

>>> from random import Random
>>> from parley.messages import FetchRequest
>>> message = SampleMaker(Random(1)).message(FetchRequest, 12)
>>> message == SampleMaker(Random(1)).message(FetchRequest, 12)
True
"""

from __future__ import annotations

from random import Random
from typing import TypeVar

from parley.messages import Message, MessageStruct
from parley.messages.codec import codec_for
from parley.messages.plan import Step, StructPlan

M = TypeVar("M", bound=Message)
S = TypeVar("S", bound=MessageStruct)

INTEGER_BITS = {"int8": (8, True), "int16": (16, True), "uint16": (16, False), "int32": (32, True)}
INTEGER_BITS |= {"uint32": (32, False), "int64": (64, True)}

_TEXTS = (
    "",
    "a",
    "topic-1",
    "ü",
    "日本語",
    "\x00",
    "𝄞",
    "x" * 126,
    "x" * 127,
    "x" * 128,
    "é" * 300,
)
_FLOATS = (0.0, -0.0, 1.5, -1e308, 5e-324, float("inf"), float("-inf"))
_LENGTHS = (0, 1, 2, 15, 126, 127, 128, 1500)


class SampleMaker:
    """Makes messages from a source of randomness; every value that a version can carry may come.

    `most` bounds the elements of an array, `unknown_tags` adds tagged fields that no definition
    has, `plain` keeps byte sequences and texts short.
    """

    def __init__(
        self, random: Random, *, most: int = 3, unknown_tags: bool = True, plain: bool = False
    ) -> None:
        self._random = random
        self._most = most
        self._unknown_tags = unknown_tags
        self._plain = plain

    def message(self, message: type[M], version: int) -> M:
        """Return a message whose fields outside `version` hold their defaults."""
        return self._struct(codec_for(message, version).plan, message, message)

    def _struct(self, plan: StructPlan, made: type[S], message: type[Message]) -> S:
        values = {step.name: self._field(step, message) for step in plan.steps}
        for step in plan.tagged:
            if self._random.random() < 0.6:
                values[step.name] = self._field(step, message)
        result = made(**values)
        if plan.flexible and self._unknown_tags and self._random.random() < 0.2:
            # Tags of other versions too: Java refuses to read those where they are not defined.
            known = {field.tag for field in made.FIELDS}
            for tag in (self._random.randrange(60), 130, 2**31 - 2):
                if tag not in known:
                    result.unknown_tagged_fields[tag] = self._bytes()
        return result

    def _field(self, step: Step, message: type[Message]) -> object:
        if step.nullable and self._random.random() < 0.25:
            return None
        if not step.is_array:
            return self._value(step, message)
        return [self._value(step, message) for _ in range(self._random.randrange(self._most + 1))]

    def _value(self, step: Step, message: type[Message]) -> object:
        if step.struct is not None:
            return self._struct(step.struct, message.STRUCTS[step.struct.name], message)
        kind = step.kind
        if kind in INTEGER_BITS:
            return self._integer(*INTEGER_BITS[kind])
        if kind == "bool":
            return self._random.random() < 0.5
        if kind == "string":
            return self._random.choice(_TEXTS[:6] if self._plain else _TEXTS)
        if kind == "float64":
            return self._random.choice(_FLOATS)
        if kind == "uuid":
            return self._random.choice((bytes(16), self._random.randbytes(16)))
        return self._bytes()

    def _integer(self, bits: int, signed: bool) -> int:
        low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
        edges = [low, high, 0, 1, low + 1, high - 1]
        return self._random.choice(
            (*edges, self._random.randint(low, high), self._random.randint(max(low, -9), 9))
        )

    def _bytes(self) -> bytes:
        return self._random.randbytes(
            self._random.choice(_LENGTHS[:4] if self._plain else _LENGTHS)
        )
