"""What a streaming query reads, what it makes of that, and where it goes. Pure.

What is read and written is said by the options of Spark's data sources, which check them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from parley.errors import ConfigError
from parley.pipelines.checks import check_choice, check_name
from parley.spark.lakes.iceberg_options import read_iceberg_options
from parley.spark.lakes.options import LakeOptions, read_lake_options
from parley.spark.options.row import Use
from parley.spark.options.source import SourceOptions, read_source_options
from parley.spark.write.options import SinkOptions, read_sink_options

TOPIC, DELTA, ICEBERG = "parley", "parley-delta", "parley-iceberg"
"""Formats of sinks."""
CHECKPOINT = "checkpointLocation"
ISOLATION = "kafka.isolation.level"
APPEND, COMPLETE = "append", "complete"
"""Output modes. Spark has no `update` for sinks in Python."""
AVAILABLE_NOW = "available-now"
_TRIGGER = re.compile(r"\d+ (?:millisecond|second|minute|hour|day)s?")
_TRANSFORM = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
DEFAULT = -1


@dataclass(frozen=True, kw_only=True, slots=True)
class Sink:
    """Where rows go: a topic, a Delta table or an Iceberg table."""

    format: str
    options: Mapping[str, str] = field(repr=False)  # may hold secrets
    key: str | None = None
    """A SQL expression that makes records' keys."""
    partitions: int = DEFAULT
    """Of a topic that is to be created; without it as many as the topics have that are read."""


@dataclass(frozen=True, kw_only=True, slots=True)
class QueryOptions:
    """A streaming query. `source` are options of `format("parley")`, without the checkpoint's; it
    reads committed records alone where brokers have transactions, unless they say otherwise.

    Records become rows; those become others by `transform` ("module:function", from a DataFrame to
    a DataFrame), and then by `sql`, which calls them `input`. `watermark` is a column and a delay.

    Raises ConfigError for what cannot be used, and as the data sources do.
    """

    name: str
    checkpoint: Path
    source: Mapping[str, str] = field(repr=False)  # may hold secrets
    sink: Sink
    sql: str = "select * from input"
    watermark: tuple[str, str] | None = None
    transform: str | None = None
    modules: Path = Path()
    """The folder in which modules of transforms are."""
    trigger: str | None = None
    """"available-now": up to the records that are there; "1 minute": a batch in that time; without
    one the next batch begins when the last is done.
    """
    output_mode: str = APPEND

    def __post_init__(self) -> None:
        check_name(self.name)
        check_choice("output-mode", self.output_mode, APPEND, COMPLETE)
        given = self.trigger
        if given not in (None, AVAILABLE_NOW) and not _TRIGGER.fullmatch(str(given)):
            raise ConfigError(f'trigger="{given}" is neither "{AVAILABLE_NOW}" nor like "1 minute"')
        if self.transform is not None and not _TRANSFORM.fullmatch(self.transform):
            raise ConfigError(
                f'transform="{self.transform}" names no function: give "module:function"'
            )
        if not isinstance(self.sql, str) or not self.sql.strip():
            raise ConfigError("sql is empty: select from input")
        self.reads()
        self.writes()

    def reads(self) -> SourceOptions:
        """Return what is read, as the data source has it."""
        return read_source_options(self.source_options(), Use.STREAM_READ)

    def writes(self) -> SinkOptions | LakeOptions:
        """Return what is written, as the sink has it."""
        options = self.sink_options()
        if self.sink.format == DELTA:
            return read_lake_options(options, Use.STREAM_WRITE)
        if self.sink.format == ICEBERG:
            return read_iceberg_options(options, Use.STREAM_WRITE)
        return read_sink_options(options, Use.STREAM_WRITE)

    def source_options(self) -> dict[str, str]:
        """Return the options of Spark's reader."""
        return {**self.source, CHECKPOINT: str(self.checkpoint)}

    def sink_options(self) -> dict[str, str]:
        """Return the options of Spark's writer."""
        return {**self.sink.options, CHECKPOINT: str(self.checkpoint)}
