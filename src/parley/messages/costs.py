"""What decoded messages take in memory, at most, per value: CPython 3.11 to 3.14, 64 bits.

A frame is bounded in bytes, but one byte of it may become an object of fifty. Beyond CAREFUL_BYTES
a decoder therefore subtracts these costs from what the message may take, before it makes anything
of a count.
"""

from __future__ import annotations

from parley.messages.plan import FIXED_CODES, Step, StructPlan

CAREFUL_BYTES = 1024 * 1024
"""Smaller messages need no account: their objects stay below LEAST_ALLOWED_BYTES."""

LEAST_ALLOWED_BYTES = 64 * 1024 * 1024
MOST_ALLOWED_BYTES = 320 * 1024 * 1024
"""Room for the Metadata of a million partitions."""

ALLOWED_PER_BYTE = 7
"""The receive buffer, in which the message's bytes lie meanwhile, is the eighth."""

QUICK_ALLOWED_BYTES = 1024 * 1024
"""Objects of this size are made in a few milliseconds."""

SLOT = 10  # in a list, which takes an eighth more than it needs
LIST = 56 + 32
NUMBER = 32
TEXT = 56
DICT = 232
TAG = 220  # a dictionary's entry while it grows, an int, and bytes without their content
SHARED = 330  # a key and an entry in the table of shared lists, beside the list
WIDE_CHAR = 5  # one character of four bytes makes all others four bytes wide
# most are small numbers, made once
_CHEAP = {"bool": 0, "records": 0, "int8": NUMBER // 2, "int16": NUMBER // 2}
_OBJECT = 16 + 16 + 8  # the collector's and the object's heads, and the slot of unknown fields


def allowed_bytes(size_bytes: int) -> int:
    """Return what a message of this size may take."""
    return min(max(LEAST_ALLOWED_BYTES, ALLOWED_PER_BYTE * size_bytes), MOST_ALLOWED_BYTES)


def element_cost(step: Step) -> int:
    """Return what one element of an array takes, without the content of its texts and arrays."""
    return struct_cost(step.struct) if step.struct is not None else TEXT


def struct_cost(plan: StructPlan) -> int:
    """Return what one struct takes, without the content of its texts and arrays."""
    fields = len(plan.steps) + len(plan.tagged) + len(plan.absent)
    absent_lists = sum(field.is_array for field in plan.absent)
    return (
        _OBJECT
        + 8 * fields
        + 56 * absent_lists
        + sum(map(_field_cost, (*plan.steps, *plan.tagged)))
    )


def _field_cost(step: Step) -> int:
    if step.is_array:
        return 0 if step.kind in FIXED_CODES and step.kind != "uuid" else LIST
    if step.struct is not None:
        return struct_cost(step.struct)
    if step.kind in _CHEAP:
        return _CHEAP[step.kind]
    return NUMBER if step.kind in FIXED_CODES and step.kind != "uuid" else TEXT
