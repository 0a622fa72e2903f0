"""`kafka.*` options: names of Kafka's Java clients → parley's client options.

1. What parley's client has is passed on, checked as there; the error names the user's spelling.
2. What would work against Spark's offsets and columns is refused, as Spark's own source refuses it.
3. What Kafka's Java clients know and parley has no use for is accepted: a job must not fail for
   a setting that cannot change its result. It is mentioned once in the log.
4. A name that nobody knows is mentioned with the nearest known one (the Java clients do the same).
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import TypeVar

from parley.client import (
    JAVA_NAMES,
    ClientOptions,
    FetchOptions,
    OptionSet,
    ProduceOptions,
    dotted_name,
    option_names,
)
from parley.errors import ConfigError, nearest_hint

G = TypeVar("G", bound=OptionSet)

_BYTES = (
    "are bytes on their way here and there; cast the column instead, or read it with .schema(...)"
)
_REFUSED_ALWAYS = {
    "interceptor.classes": "a Java class cannot run here",
    "metric.reporters": "a Java class cannot run here",
}
REFUSED_FOR_READ = _REFUSED_ALWAYS | {
    "auto.offset.reset": (
        "the option startingOffsets says where a new query starts, and a query that resumes "
        "goes on where it was"
    ),
    "enable.auto.commit": "Spark keeps the offsets in the query's checkpoint; nothing is committed "
    "to Kafka",
    "key.deserializer": f"keys {_BYTES}",
    "value.deserializer": f"values {_BYTES}",
}
REFUSED_FOR_WRITE = _REFUSED_ALWAYS | {
    "key.serializer": f"keys {_BYTES}",
    "value.serializer": f"values {_BYTES}",
    "partitioner.class": "a Java class cannot run here; keys are spread as Java does, or give a "
    "column partition",
    "transactional.id": 'tasks need ids of their own; set delivery to "exactly-once", and '
    "transactionalIdPrefix",
}
_GROUP_ID = "parley reads without a consumer group"

# Kafka's defaults suit records that are polled one
# by one; a Spark task reads a range from end to end.
FETCH_DEFAULTS: Mapping[str, int] = {
    "max_partition_fetch_bytes": 8 * 2**20,
    "prefetch_max_bytes": 16 * 2**20,
    "max_batch_rows": 65_536,
    "max_batch_bytes": 8 * 2**20,
}
# Spark hands over 10,000 rows at a time: of each partition of a small topic they make one batch,
# not one and a bit. Rows wait for brokers that are away as long as a task that reads does, and
# longer than those of Java's producer.
PRODUCE_DEFAULTS: Mapping[str, int] = {"batch_size": 512 * 2**10, "delivery_timeout_ms": 180_000}


_SPELLINGS = {
    field.name: dotted_name(field)
    for group in (ClientOptions, FetchOptions, ProduceOptions)
    for field in dataclasses.fields(group)
    if "doc" in field.metadata
}
# A name of one word is distinguished from a word by
# its place: in front of a value, or at the beginning.
_NAME = re.compile(
    r"(?<![\w.])(?:"
    + "|".join(name if "_" in name else f"{name}(?==)" for name in _SPELLINGS)
    + r")(?![\w.])"
)


def read_client_options(kafka: Mapping[str, str], **defaults: int) -> ClientOptions:
    """Return where the cluster is and how to speak to it; `defaults` where nothing is said.

    Raises ConfigError when `kafka.bootstrap.servers` is missing, naming an option that looks like
    it.
    """
    if not kafka.get("bootstrap.servers", "").strip():
        near = [
            name
            for name in kafka
            if name != "bootstrap.servers" and name.startswith(("boot", "server", "broker"))
        ]
        hint = f' There is "kafka.{near[0]}".' if near else ""
        raise ConfigError(f'kafka.bootstrap.servers must be given: "host:port,host:port".{hint}')
    return _group(ClientOptions, kafka, defaults)


def read_fetch_options(kafka: Mapping[str, str]) -> FetchOptions:
    """Return how a task reads. Raises ConfigError for a `kafka.*` option not for readers."""
    _refuse(kafka, REFUSED_FOR_READ)
    return _group(FetchOptions, kafka, FETCH_DEFAULTS)


def read_produce_options(kafka: Mapping[str, str]) -> ProduceOptions:
    """Return how a task writes. Raises ConfigError for a `kafka.*` option not for writers."""
    _refuse(kafka, REFUSED_FOR_WRITE)
    return _group(ProduceOptions, kafka, PRODUCE_DEFAULTS)


def without_effect(kafka: Mapping[str, str], *groups: type[OptionSet]) -> list[str]:
    """Return a sentence for each `kafka.*` option that none of the groups has."""
    known = option_names(ClientOptions, *groups)
    everywhere = JAVA_NAMES | option_names(ClientOptions, FetchOptions, ProduceOptions).keys()
    said = []
    for name in sorted(kafka.keys() - known.keys()):
        if name == "group.id":
            said.append(f"option kafka.group.id has no effect: {_GROUP_ID}")
        elif name in everywhere:
            said.append(f"option kafka.{name} has no effect here")
        else:
            hint = nearest_hint(
                f"kafka.{name}", [f"kafka.{one}" for one in {*known, *JAVA_NAMES} if "_" not in one]
            )
            said.append(f'option "kafka.{name}" is not known and has no effect.{hint}')
    return said


def _group(group: type[G], kafka: Mapping[str, str], defaults: Mapping[str, int]) -> G:
    names = option_names(group)
    found: dict[str, int | str] = dict(defaults)
    for name, text in kafka.items():
        if name in names:
            try:
                group.of({names[name]: text})
            except ConfigError as error:
                said = in_users_words(str(error))
                said = said if said.startswith(f"kafka.{name}") else f"kafka.{name}: {said}"
                raise ConfigError(f"option {said}") from None
            found[names[name]] = text
    try:
        return group.of(found)
    except ConfigError as error:
        raise ConfigError(in_users_words(str(error))) from None


def in_users_words(text: str) -> str:
    """Return a text of parley's client with its options spelt as options of a data source.

    >>> in_users_words('sasl_mechanism="PLAN" is not one of PLAIN')
    'kafka.sasl.mechanism="PLAN" is not one of PLAIN'
    """
    return _NAME.sub(lambda found: f"kafka.{_SPELLINGS[found[0]]}", text)


def _refuse(kafka: Mapping[str, str], refused: Mapping[str, str]) -> None:
    for name in kafka:
        if name in refused:
            raise ConfigError(f"option kafka.{name} cannot be used: {refused[name]}")
