"""What columns make of unions, as Spark's `from_avro` does.

One type beside null is that type, and may be null. int and long are long, float and double are
double. Anything else is a struct with a member for each type: `member0`, `member1` and so on, of
which one is set.
"""

from __future__ import annotations

import enum

from parley.serdes.avro.model import AvroType, Primitive, Union


class UnionShape(enum.Enum):
    """What a union becomes."""

    ONE = "the only type beside null, or none"
    LONG = "int and long"
    DOUBLE = "float and double"
    MEMBERS = "a struct"


def union_shape(union: Union) -> UnionShape:
    """Return what a union becomes."""
    kept = members(union)
    if len(kept) < 2:
        return UnionShape.ONE
    plain = {one.kind for one in kept if isinstance(one, Primitive) and one.logical is None}
    if len(kept) == 2 and plain == {"int", "long"}:
        return UnionShape.LONG
    if len(kept) == 2 and plain == {"float", "double"}:
        return UnionShape.DOUBLE
    return UnionShape.MEMBERS


def members(union: Union) -> list[AvroType]:
    """Return the branches that are not null."""
    return [one for one in union.branches if one.kind != "null"]


def member_name(union: Union, index: int) -> str | None:
    """Return the member of a branch, None for null."""
    if union.branches[index].kind == "null":
        return None
    return f"member{sum(one.kind != 'null' for one in union.branches[:index])}"
