"""Bytes to messages, and groups of them to columns. Foreign bytes raise DatumFault alone."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from parley.errors import printable
from parley.serdes.faults import DatumFault, ValueFault
from parley.serdes.formats import DecodedGroup
from parley.serdes.frames import Buffer
from parley.serdes.protobuf.columns import Column

_CONVERTING = (ValueFault, pa.ArrowException, ValueError, TypeError, OverflowError)
"""What values raise that no column can hold. Texts of proto2 that are not UTF-8 come as bytes."""


class MessageReader:
    """Reads messages of one type."""

    def __init__(self, message: Descriptor) -> None:
        self._name = message.full_name
        self._class = GetMessageClass(message)
        self._has_required = has_required(message)

    def read(self, data: Buffer) -> Message:
        """Return the message of data. Raises DatumFault for damaged ones."""
        try:
            found: Message = self._class.FromString(bytes(data))
        except (DecodeError, ValueError) as error:
            why = printable(str(error), 200)
            raise DatumFault(f"it is no message of {self._name}: {why}") from error
        if self._has_required and not found.IsInitialized():
            missing = ", ".join(found.FindInitializationErrors())
            raise DatumFault(f"required fields of {self._name} are missing: {missing}")
        return found


class MessageGroupDecoder:
    """A `GroupDecoder`: fields are found by their numbers, whichever schema wrote them."""

    def __init__(self, reader: MessageReader, column: Column) -> None:
        self._read, self._build = reader.read, column.build

    def decode(self, datums: Sequence[Buffer]) -> DecodedGroup:
        """Return columns of all datums."""
        messages: list[object] = []
        faults: dict[int, str] = {}
        for index, datum in enumerate(datums):
            try:
                messages.append(self._read(datum))
            except DatumFault as error:
                faults[index] = str(error)
                messages.append(None)
        try:
            return DecodedGroup(self._build(messages), faults)
        except _CONVERTING:
            self._find(messages, range(len(messages)), faults)
        kept = [None if index in faults else one for index, one in enumerate(messages)]
        return DecodedGroup(self._build(kept), faults)

    def _find(self, messages: Sequence[object], rows: range, faults: dict[int, str]) -> None:
        """Find the rows that no column can hold: half of those where some are, again and again."""
        try:
            self._build([messages[row] for row in rows])
        except _CONVERTING as error:
            if len(rows) == 1:
                faults[rows[0]] = _reason(error)
                return
            middle = len(rows) // 2
            self._find(messages, rows[:middle], faults)
            self._find(messages, rows[middle:], faults)


def _reason(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return f"a text is not UTF-8 ({error.reason})"
    return printable(str(error), 200)


def has_required(message: Descriptor) -> bool:
    """Return whether a message, or one that it holds, has fields that must be there."""
    seen: set[str] = set()
    waiting = [message]
    while waiting:
        one = waiting.pop()
        if one.full_name in seen:
            continue
        seen.add(one.full_name)
        for field in one.fields:
            if field.is_required:
                return True
            if field.message_type is not None:
                waiting.append(field.message_type)
    return False
