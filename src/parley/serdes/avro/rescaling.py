"""How a number of one logical type becomes one of another: exactly, or not at all.

Avro's rules of resolution look at the types below, so micros would be read as millis and 12.3456 of
four digits behind the point as 1234.56 of two. A writer's type without a logical type is taken for
what the reader says.
"""

from __future__ import annotations

from parley.errors import SchemaError
from parley.serdes.avro.model import Fixed, Logical, Primitive

_PER_SECOND = {"millis": 10**3, "micros": 10**6, "nanos": 10**9}
_IN_COLUMNS = {"millis": "micros", "micros": "micros", "nanos": "nanos"}
"""Units of a schema, and those that columns have of them."""


class Misread(SchemaError):
    """Numbers would be taken for others. No union makes up for it: null alone would be read."""


def check_exact(writer: Primitive | Fixed, reader: Primitive | Fixed) -> None:
    """Raise Misread where a writer's values are no values of the reader's logical type."""
    written, wanted = writer.logical, reader.logical
    if written is None or wanted is None or _is_exact(written, wanted):
        return
    raise Misread(
        f"{_shown(written)} cannot be read as {_shown(wanted)} without loss; make the field "
        f"{_shown(written)} in the reader's schema, too"
    )


def time_factor(writer: Primitive, reader: Primitive) -> int:
    """Return what a whole number is multiplied by for the reader's column: 1, or its unit's."""
    if reader.logical is None or not _unit(reader.logical):
        return 1
    return _factor(writer.logical or reader.logical, reader.logical)


def decimal_shift(writer: Primitive | Fixed, reader: Primitive | Fixed) -> int:
    """Return how many digits a reader's decimal has more behind the point."""
    assert reader.logical is not None
    return 0 if writer.logical is None else reader.logical.scale - writer.logical.scale


def _is_exact(written: Logical, wanted: Logical) -> bool:
    if _family(written) != _family(wanted):
        return False
    if written.name == "decimal":
        more = wanted.scale - written.scale
        # where only digits before the point are fewer, each number is looked at
        return more == 0 or (more > 0 and wanted.precision - more >= written.precision)
    return not _unit(wanted) or _factor(written, wanted) > 0


def _factor(written: Logical, wanted: Logical) -> int:
    """Return by what a time is multiplied; 0 where it would have to be divided."""
    return _PER_SECOND[_IN_COLUMNS[_unit(wanted)]] // _PER_SECOND[_unit(written)]


def _family(logical: Logical) -> str:
    """Return what two logical types have in common that differ in their units alone."""
    return logical.name.removeprefix("local-").removesuffix(f"-{_unit(logical)}")


def _unit(logical: Logical) -> str:
    unit = logical.name.rpartition("-")[2]
    return unit if unit in _PER_SECOND else ""


def _shown(logical: Logical) -> str:
    if logical.name == "decimal":
        return f"decimal({logical.precision}, {logical.scale})"
    return logical.name
