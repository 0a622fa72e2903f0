"""Values of programs to messages: dicts by names of fields, or messages of generated classes.

What is None or missing is absent in the message: a reader finds the default of its type. Times are
known by what they have: `Timestamp` takes datetimes with a time zone, `Duration` timedeltas.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.message import EncodeError, Message
from google.protobuf.message_factory import GetMessageClass

from parley.errors import nearest_hint, printable
from parley.serdes.faults import ValueFault, wrong_value
from parley.serdes.protobuf.columns import DURATION, TIMESTAMP, is_json, is_map, is_wrapper
from parley.types import shown

Convert = Callable[[object], object]
"""Makes what a field takes of a value. It raises ValueFault."""
Setter = Callable[[Message, object], None]

_NUMBER = re.compile(r"-?[0-9]{1,10}")
MAX_FLOAT32 = 3.4028234663852886e38
_INT32, _INT64 = (-(2**31), 2**31), (-(2**63), 2**63)
_WHOLE = {
    FieldDescriptor.TYPE_INT32: _INT32,
    FieldDescriptor.TYPE_SINT32: _INT32,
    FieldDescriptor.TYPE_SFIXED32: _INT32,
    FieldDescriptor.TYPE_UINT32: (0, 2**32),
    FieldDescriptor.TYPE_FIXED32: (0, 2**32),
    FieldDescriptor.TYPE_INT64: _INT64,
    FieldDescriptor.TYPE_SINT64: _INT64,
    FieldDescriptor.TYPE_SFIXED64: _INT64,
    FieldDescriptor.TYPE_UINT64: (0, 2**64),
    FieldDescriptor.TYPE_FIXED64: (0, 2**64),
}


class MessageWriter:
    """Writes messages of one type. `from_columns`: what holds any JSON is given as its text."""

    def __init__(self, message: Descriptor, *, from_columns: bool = False) -> None:
        self._message = message
        self._from_columns = from_columns
        self._known: dict[str, _Maker] = {}

    def write(self, value: object) -> bytes:
        """Return the data of a value. Raises ValueFault for one that does not fit."""
        try:
            if isinstance(value, Message) and _name(value) == self._message.full_name:
                return bytes(value.SerializeToString(deterministic=True))
            made = self.maker(self._message).make(value)
            return bytes(made.SerializeToString(deterministic=True))
        except EncodeError as error:
            raise ValueFault(printable(str(error), 200)) from None
        except RecursionError:
            raise ValueFault("the value is nested too deep") from None

    def maker(self, message: Descriptor) -> _Maker:
        """Return what makes messages of a type; a type may contain itself."""
        found = self._known.get(message.full_name)
        if found is None:
            found = self._known[message.full_name] = _Maker(message)
            found.setters = {one.name: self._setter(one) for one in message.fields}
        return found

    def _setter(self, field: FieldDescriptor) -> Setter:
        name = field.name
        if is_map(field):
            return self._map(field)
        if field.is_repeated:
            return self._list(field)
        if field.message_type is None:
            convert = scalar(field)
            return lambda made, value: setattr(made, name, convert(value))
        make = self._message_maker(field.message_type)

        def set_message(made: Message, value: object) -> None:
            inner = getattr(made, name)
            inner.SetInParent()
            inner.MergeFrom(make(value))

        return set_message

    def _message_maker(self, message: Descriptor) -> Callable[[object], Message]:
        """Return what makes a message that lies in another one."""
        kind = message.full_name
        if kind in (TIMESTAMP, DURATION):
            return lambda value: self._time(message, value)
        if is_wrapper(message):
            return lambda value: self._wrapped(message, value)
        if is_json(message):
            return lambda value: self._json(message, value)
        return lambda value: self.maker(message).make(value)

    def _map(self, field: FieldDescriptor) -> Setter:
        entry, name = field.message_type, field.name
        key = scalar(entry.fields_by_name["key"])
        of = entry.fields_by_name["value"]
        make = None if of.message_type is None else self._message_maker(of.message_type)
        convert = scalar(of) if make is None else None

        def set_map(made: Message, value: object) -> None:
            pairs = value.items() if isinstance(value, Mapping) else value
            if not isinstance(value, Mapping | list):
                raise wrong_value(value, "a dict")
            held = getattr(made, name)
            for one, inner in pairs:  # type: ignore[attr-defined]  # a dict's items, or a list
                try:
                    if convert is not None:
                        held[key(one)] = convert(inner)
                    elif make is not None:
                        held[key(one)].CopyFrom(make(inner))
                except ValueFault as fault:
                    raise fault.within(f"[{one!r}]") from None

        return set_map

    def _list(self, field: FieldDescriptor) -> Setter:
        name = field.name
        kind = field.message_type
        convert: Convert = scalar(field) if kind is None else self._message_maker(kind)

        def set_list(made: Message, value: object) -> None:
            if isinstance(value, str | bytes | bytearray | Mapping) or not isinstance(
                value, Iterable
            ):
                raise wrong_value(value, "a list")
            held = getattr(made, name)
            for index, one in enumerate(value):
                try:
                    held.append(convert(one))
                except ValueFault as fault:
                    raise fault.within(f"[{index}]") from None

        return set_list

    # -- well-known types --------------------------------------------------------------------------

    def _time(self, message: Descriptor, value: object) -> Message:
        made = GetMessageClass(message)()
        is_timestamp = message.full_name == TIMESTAMP
        try:
            if isinstance(value, str):
                made.FromJsonString(value)
            elif is_timestamp and hasattr(value, "toordinal") and hasattr(value, "hour"):
                if getattr(value, "tzinfo", None) is None:
                    raise ValueFault(
                        f"{shown(value)} has no time zone; give tzinfo=datetime.timezone.utc"
                    )
                made.FromDatetime(value)
                made.nanos += getattr(value, "nanosecond", 0)
            elif not is_timestamp and hasattr(value, "total_seconds"):
                made.FromTimedelta(value)
            elif isinstance(value, Mapping | Message):
                return self.maker(message).make(value)
            else:
                wanted = "a datetime" if is_timestamp else "a timedelta"
                raise wrong_value(value, wanted)
        except (ValueError, TypeError, OverflowError) as error:
            raise ValueFault(f"{shown(value)}: {error}") from None
        return made

    def _wrapped(self, message: Descriptor, value: object) -> Message:
        if isinstance(value, Mapping | Message):
            return self.maker(message).make(value)
        return self.maker(message).make({"value": value})

    def _json(self, message: Descriptor, value: object) -> Message:
        made = GetMessageClass(message)()
        if isinstance(value, Message):
            return self.maker(message).make(value)
        try:
            if self._from_columns:
                json_format.Parse(str(value), made)
            else:
                json_format.ParseDict(value, made)
        except (json_format.Error, ValueError, TypeError, AttributeError) as error:
            raise ValueFault(f"no JSON for {message.name}: {error}") from None
        return made


class _Maker:
    """Makes messages of one type of dicts. `setters` has the fields that there are."""

    def __init__(self, message: Descriptor) -> None:
        self._message = message
        self._class = GetMessageClass(message)
        self.setters: dict[str, Setter] = {}
        self._oneofs = {
            field.name: one.name
            for one in message.oneofs
            for field in one.fields
            if len(one.fields) > 1
        }

    def make(self, value: object) -> Message:
        made: Message = self._class()
        if isinstance(value, Message):
            if _name(value) != self._message.full_name:
                raise wrong_value(_name(value), f"a message of {self._message.full_name}")
            made.MergeFromString(value.SerializePartialToString())
            return made
        if not isinstance(value, Mapping):
            raise wrong_value(value, f"a dict or a message of {self._message.full_name}")
        chosen: dict[str, str] = {}
        for name, one in value.items():
            setter = self.setters.get(name)
            if setter is None:
                hint = nearest_hint(str(name), self.setters)
                raise ValueFault(f"{self._message.name} has no such field.{hint}", str(name))
            if one is None:
                continue
            oneof = self._oneofs.get(name)
            if oneof is not None and chosen.setdefault(oneof, name) != name:
                raise ValueFault(f"{chosen[oneof]} is given too, and of {oneof} there is one", name)
            try:
                setter(made, one)
            except ValueFault as fault:
                raise fault.within(name) from None
        return made


def _name(message: Message) -> str:
    return str(message.DESCRIPTOR.full_name)


# -- scalars -----------------------------------------------------------------------------------


def scalar(field: FieldDescriptor) -> Convert:
    """Return what makes a field's value. It raises ValueFault."""
    if field.enum_type is not None:
        return _enum(field.enum_type)
    if field.type in _WHOLE:
        return _whole(*_WHOLE[field.type])
    return {
        FieldDescriptor.TYPE_BOOL: _boolean,
        FieldDescriptor.TYPE_STRING: _text,
        FieldDescriptor.TYPE_BYTES: _bytes,
        FieldDescriptor.TYPE_FLOAT: _float32,
        FieldDescriptor.TYPE_DOUBLE: _float,
    }[field.type]


def _whole(low: int, end: int) -> Convert:
    def convert(value: object) -> object:
        if isinstance(value, bool) or not hasattr(value, "__index__"):
            raise wrong_value(value, "a whole number")
        number = int(value.__index__())
        if not low <= number < end:
            raise ValueFault(f"{shown(number)} is not from {low} to {end - 1}")
        return number

    return convert


def _enum(enum: EnumDescriptor) -> Convert:
    numbers = {name: one.number for name, one in enum.values_by_name.items()}

    def convert(value: object) -> object:
        if isinstance(value, str):
            if value in numbers:
                return numbers[value]
            if _NUMBER.fullmatch(value) is None:
                raise ValueFault(
                    f"{enum.name} has no value {shown(value)}.{nearest_hint(value, numbers)}"
                )
            value = int(value)
        number = _whole(*_INT32)(value)
        if enum.is_closed and number not in enum.values_by_number:
            raise ValueFault(f"{enum.name} has no value of the number {number}")
        return number

    return convert


def _boolean(value: object) -> object:
    if not isinstance(value, bool):
        raise wrong_value(value, "true or false")
    return value


def _text(value: object) -> object:
    if not isinstance(value, str):
        raise wrong_value(value, "a text")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueFault("a text has half a surrogate pair") from None
    return value


def _bytes(value: object) -> object:
    if not isinstance(value, bytes | bytearray | memoryview):
        raise wrong_value(value, "bytes")
    return bytes(value)


def _float(value: object) -> object:
    if isinstance(value, bool | str) or not hasattr(value, "__float__"):
        raise wrong_value(value, "a number")
    try:
        return float(value)
    except OverflowError:
        raise ValueFault("the number does not fit 64 bits") from None


def _float32(value: object) -> object:
    found = _float(value)
    assert isinstance(found, float)
    if MAX_FLOAT32 < abs(found) < float("inf"):
        raise ValueFault(f"{found} does not fit 32 bits")
    return found
