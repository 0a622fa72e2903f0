"""Spark's types for decoded keys and values, and what Spark has no type for.

Every field may be null, as in what Spark reads from files: a message that could not be decoded has
none of them. Times of day are microseconds since midnight: Spark's type for them is switched off in
its releases up to 4.3 (spark.sql.timeType.enabled).
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import types
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import DataType

from parley.errors import ConfigError

MAX_DIGITS = 38
"""Of Spark's decimals."""
_SCALARS = {
    pa.null(): types.NullType(),
    pa.bool_(): types.BooleanType(),
    pa.int8(): types.ByteType(),
    pa.int16(): types.ShortType(),
    pa.int32(): types.IntegerType(),
    pa.int64(): types.LongType(),
    pa.float32(): types.FloatType(),
    pa.float64(): types.DoubleType(),
    pa.string(): types.StringType(),
    pa.binary(): types.BinaryType(),
    pa.date32(): types.DateType(),
    pa.time64("us"): types.LongType(),
    pa.timestamp("us", tz="UTC"): types.TimestampType(),
    pa.timestamp("us"): types.TimestampNTZType(),
    pa.duration("us"): types.DayTimeIntervalType(),
}


def spark_type(kind: pa.DataType, path: str) -> DataType:
    """Return Spark's type for a decoded column. Raises ConfigError, which names the field."""
    if kind in _SCALARS:
        return _SCALARS[kind]
    if pa.types.is_decimal(kind) and kind.precision <= MAX_DIGITS:
        return types.DecimalType(kind.precision, kind.scale)
    if pa.types.is_list(kind):
        return types.ArrayType(spark_type(kind.value_type, f"{path}.element"), True)
    if pa.types.is_map(kind):
        key = spark_type(kind.key_type, f"{path}.key")
        return types.MapType(key, spark_type(kind.item_type, f"{path}.value"), True)
    if pa.types.is_struct(kind):
        return types.StructType(
            [
                types.StructField(one.name, spark_type(one.type, f"{path}.{one.name}"), True)
                for one in kind
            ]
        )
    raise ConfigError(f"{path} cannot be a column of Spark: {_why(kind)}.{_remedy(path)}")


def expected_type(kind: DataType) -> pa.DataType:
    """Return the Arrow type that Spark wants a column of one of its types to have."""
    return to_arrow_type(kind, timezone="UTC")


def difference(wanted: DataType, given: DataType, path: str) -> str | None:
    """Return where two types of a column differ first, and how; None where they do not."""
    if isinstance(wanted, types.StructType) and isinstance(given, types.StructType):
        inner = {one.name: one.dataType for one in wanted.fields}
        for one in given.fields:
            if one.name not in inner:
                return f"{path}.{one.name} is not in the schema"
            if not one.nullable:
                return f"{path}.{one.name} is declared as NOT NULL, and may be null"
            found = difference(inner[one.name], one.dataType, f"{path}.{one.name}")
            if found is not None:
                return found
        missing = [name for name in inner if name not in given.names]
        if missing:
            return f"{path}.{missing[0]} is missing"
        return None if given == wanted else f"{path} has its fields in another order"
    if isinstance(wanted, types.ArrayType) and isinstance(given, types.ArrayType):
        return difference(wanted.elementType, given.elementType, f"{path}.element") or (
            None if wanted == given else f"{path} is declared without null, and may hold it"
        )
    if isinstance(wanted, types.MapType) and isinstance(given, types.MapType):
        return difference(wanted.valueType, given.valueType, f"{path}.value") or (
            None if wanted == given else f"{path} is declared otherwise than the schema says"
        )
    if wanted == given:
        return None
    return f"{path} is {wanted.simpleString()} in the schema, and not {given.simpleString()}"


def _why(kind: pa.DataType) -> str:
    if pa.types.is_decimal(kind):
        return f"a decimal of {kind.precision} digits, and Spark's have {MAX_DIGITS} at most"
    if pa.types.is_timestamp(kind):
        return "a time in nanoseconds, and Spark's are in microseconds"
    if kind == pa.month_day_nano_interval():
        return "a duration of months, days and milliseconds, for which Spark has no type"
    return f"Spark has no type for {kind}"


def _remedy(path: str) -> str:
    part, _, field = path.partition(".")
    if field:
        return f" Leave it out: name the fields that you want in {part}Columns."
    return f" Leave {part}Format out, and read it as bytes."
