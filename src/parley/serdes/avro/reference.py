"""The decoder in pure Python: row by row, by `reading`, then one builder of Arrow."""

from __future__ import annotations

from collections.abc import Sequence

from parley.serdes.avro.columns import array_of, arrow_type
from parley.serdes.avro.model import AvroType, Primitive, Union
from parley.serdes.avro.reading import compile_reader, read_datum
from parley.serdes.faults import DatumFault
from parley.serdes.formats import DecodedGroup
from parley.serdes.frames import Buffer


class ReferenceDecoder:
    """A `GroupDecoder`. Raises SchemaError for schemas that do not go together."""

    def __init__(self, writer: AvroType, reader: AvroType) -> None:
        self._type = arrow_type(reader)
        # what is null as a whole becomes a null row, whatever the reader says
        nullable = isinstance(reader, Union) or reader.kind == "null"
        self.reader = reader if nullable else Union((Primitive("null"), reader))
        self._read = compile_reader(writer, self.reader)

    def decode(self, datums: Sequence[Buffer]) -> DecodedGroup:
        """Return columns of all datums."""
        values: list[object] = []
        faults: dict[int, str] = {}
        for index, datum in enumerate(datums):
            try:
                values.append(read_datum(self._read, datum))
            except DatumFault as error:
                faults[index] = str(error)
                values.append(None)
        return DecodedGroup(array_of(values, self._type), faults)
