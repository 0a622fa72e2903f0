"""Fetched batches with keys and values as typed columns.

The readers' schemas are asked for before anything is read, and stay what they are: they decide the
columns. Writers' schemas are asked for while batches are decoded, in the thread that decodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Unpack

import pyarrow as pa

from parley.client.fetch.ranges import Range, by_partition
from parley.client.options.schema_options import SchemaOptions
from parley.client.options.values import SchemaOptionValues
from parley.client.results import FetchedBatch
from parley.errors import ConfigError, SchemaDecodeError
from parley.serdes import ColumnDecoder
from parley.types import TopicPartition


class TypedBatches:
    """Decodes the batches of some topics. It asks the registry when it is made."""

    def __init__(self, options: SchemaOptions, topics: Iterable[str]) -> None:
        self._parts = options.parts
        registry = options.registry()
        self._decoders = {
            (topic, part): ColumnDecoder(
                registry,
                options.reader(part, topic, registry),
                value_format=getattr(options, f"{part}_format"),
                columns=getattr(options, f"{part}_columns"),
                framing=getattr(options, f"{part}_framing"),
                on_schema_error=options.on_schema_error,
                message=getattr(options, f"{part}_message"),
            )
            for topic in sorted(set(topics))
            for part in self._parts
        }

    def data_type(self, part: str) -> pa.DataType:
        """Return the type of a column that is decoded: that of the first topic."""
        return next(one.data_type for (_, of), one in self._decoders.items() if of == part)

    def decode(self, found: FetchedBatch) -> Iterator[FetchedBatch]:
        """Yield the batch with its columns decoded.

        A message that cannot be decoded raises SchemaDecodeError with its offset, after everything
        in front of it was yielded.
        """
        batch = found.batch
        try:
            for part in self._parts:
                batch = self._decoded(batch, part, found.partition)
        except SchemaDecodeError as error:
            if error.offset is not None:
                yield from self._before(found, error.offset)
            raise
        yield found._replace(batch=batch)

    def _decoded(self, batch: pa.RecordBatch, part: str, tp: TopicPartition) -> pa.RecordBatch:
        decoder = self._decoders[tp.topic, part]
        if part not in batch.schema.names:
            raise ConfigError(
                f"{part}_format is given, and the shape of the batches has no column {part}; add it"
            )
        return decoder.decode(batch, part, topic=tp.topic, partition=tp.partition)

    def _before(self, found: FetchedBatch, offset: int) -> Iterator[FetchedBatch]:
        rows = found.batch.column("offset").to_pylist().index(offset)
        if rows:
            head = found._replace(batch=found.batch.slice(0, rows), next_offset=offset)
            yield from self.decode(head)


def typed_for(
    ranges: Mapping[TopicPartition, Range], **schemas: Unpack[SchemaOptionValues]
) -> TypedBatches:
    """Return what decodes keys and values of these partitions. It asks the schema registry."""
    options = SchemaOptions(**schemas)
    return TypedBatches(options, {tp.topic for tp in by_partition(ranges)})
