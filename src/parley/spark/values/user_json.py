"""JSON in options: partitions and values per partition, with errors that point at the place."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from parley.client import TopicPartition
from parley.errors import ConfigError

if TYPE_CHECKING:
    from parley.types import Json

_INT64 = 2**63 - 1


def read_partitions(option: str, text: str) -> tuple[TopicPartition, ...]:
    """Return the partitions that `{"topicA":[0,1],"topicB":[2]}` names, in order.

    Raises ConfigError for anything else, and for a partition named twice.
    """
    example = '{"topicA":[0,1],"topicB":[2]}'
    found = []
    for topic, numbers in _topics(option, text, example).items():
        if not isinstance(numbers, list):
            raise _shape(
                option, f'"{topic}" has {_show(numbers)} instead of a list of partitions', example
            )
        for number in numbers:
            if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < 2**31:
                raise _shape(
                    option, f'"{topic}" has {_show(number)} instead of a partition', example
                )
            found.append(TopicPartition(topic, number))
    if not found:
        raise _shape(option, "it names no partition", example)
    if len(set(found)) != len(found):
        raise _shape(option, "it names a partition twice", example)
    return tuple(sorted(found))


def read_partition_values(
    option: str, text: str, *, low: int, what: str
) -> dict[TopicPartition, int]:
    """Return the values that `{"topicA":{"0":23,"1":-1}}` gives to partitions, each `low` or more.

    Raises ConfigError for anything else. Keys with an @ are no topics: `read_histories` reads them.
    """
    example = '{"topicA":{"0":23,"1":42}}'
    topics = {
        topic: values
        for topic, values in _topics(option, text, example).items()
        if not topic.startswith("@")
    }
    return _partition_values(option, topics, example, low=low, what=what)


def read_histories(option: str, text: str) -> tuple[dict[str, str], dict[TopicPartition, int]]:
    """Return topic ids and leader epochs of offsets that were copied from a
    checkpoint of parley, else nothing.
    """
    example = '{"topicA":{"0":12}}'
    found = _topics(option, text, example)
    known, epochs = found.get("@ids", {}), found.get("@epochs", {})
    ids = (
        {topic: text for topic, text in known.items() if isinstance(text, str)}
        if isinstance(known, dict)
        else {}
    )
    if ids != known:
        raise _shape(option, f'"@ids" has {_show(known)}', '{"topicA":"Y2kW…"}')
    if not isinstance(epochs, dict):
        raise _shape(option, f'"@epochs" has {_show(epochs)}', example)
    return ids, _partition_values(option, epochs, example, low=0, what="a leader epoch")


def _partition_values(
    option: str, topics: dict[str, Json], example: str, *, low: int, what: str
) -> dict[TopicPartition, int]:
    found = {}
    for topic, values in topics.items():
        if not isinstance(values, dict):
            raise _shape(
                option,
                f'"{topic}" has {_show(values)} instead of a value for each partition',
                example,
            )
        for partition, value in values.items():
            if not (partition.isascii() and partition.isdigit()) or int(partition) >= 2**31:
                raise _shape(option, f'"{topic}" has "{partition}" instead of a partition', example)
            if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= _INT64:
                raise _shape(
                    option, f"{topic}-{partition} has {_show(value)} instead of {what}", example
                )
            found[TopicPartition(topic, int(partition))] = value
    return found


def _topics(option: str, text: str, example: str) -> dict[str, Json]:
    try:
        found = json.loads(text, object_pairs_hook=_no_duplicates)
    except json.JSONDecodeError as error:
        around = text[max(0, error.pos - 20) : error.pos + 20]
        raise ConfigError(
            f"{option} is not JSON: {error.msg} at character {error.pos + 1}, near "
            f'"{around}". {example} is expected.'
        ) from error
    except _DuplicateKeyError as error:
        raise _shape(option, f'it has the key "{error}" twice', example) from error
    if not isinstance(found, dict):
        raise _shape(option, f"it is {_show(found)}", example)
    return found


class _DuplicateKeyError(Exception):
    pass


def _no_duplicates(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    found = dict(pairs)
    if len(found) != len(pairs):
        keys = [key for key, _ in pairs]
        raise _DuplicateKeyError(next(key for key in keys if keys.count(key) > 1))
    return found


def _show(value: Json) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _shape(option: str, problem: str, example: str) -> ConfigError:
    return ConfigError(f"{option} cannot be used: {problem}. {example} is expected.")
