"""The option table: every option is read, checked and documented; nothing
unknown passes in silence.
"""

from __future__ import annotations

import pytest

from parley.errors import ConfigError
from parley.spark.options.row import OURS, Kind, OptionValue, SparkOption, Use
from parley.spark.options.table import (
    MAX_OFFSETS_PER_TRIGGER,
    OPTIONS,
    SPARKS_OWN_OPTIONS,
    TOPIC,
    markdown_table,
)
from parley.spark.options.texts import read_options
from parley.spark.values.moments import Ago
from parley.types import Secret

BY_NAME = {option.name: option for option in OPTIONS}
SAMPLE = {Kind.TEXT: "some text", Kind.BOOLEAN: "false", Kind.JSON: "{}"}


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_an_option_is_found_in_any_case_and_has_its_default(
    option: SparkOption[OptionValue],
) -> None:
    use = next(
        one
        for one in (Use.BATCH_READ, Use.STREAM_READ, Use.BATCH_WRITE, Use.STREAM_WRITE)
        if one & option.use
    )
    text = option.choices[-1] if option.choices else SAMPLE.get(option.kind, "7")
    expected: object = {"7": 7, "false": False}.get(text, text)
    if option.kind is Kind.NAMES:
        expected = ("7",)
    if option.secret:
        expected = Secret(text)
    for name in (option.name, option.name.upper(), option.name.lower()):
        assert read_options({name: text}, use)[option] == expected
    assert read_options({}, use)[option] == option.default


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_the_documentation_has_each_option_with_its_meaning(
    option: SparkOption[OptionValue],
) -> None:
    lines = [
        line for line in markdown_table().splitlines() if line.startswith(f"| `{option.name}` |")
    ]
    assert len(lines) == 1
    assert option.doc in lines[0]


def test_an_unknown_option_is_refused_with_the_nearest_name_as_it_is_written() -> None:
    with pytest.raises(
        ConfigError, match=r'no option "startingofset".* Did you mean "startingOffsets"'
    ):
        read_options({"startingofset": "earliest"}, Use.BATCH_READ)


def test_servers_without_their_prefix_are_recognised() -> None:
    with pytest.raises(ConfigError, match=r'Did you mean "kafka\.bootstrap\.servers"'):
        read_options({"bootstrap.servers": "a:1"}, Use.BATCH_READ)


@pytest.mark.parametrize(
    "key", ["owner", "provider", "option.subscribe", "path", "checkpointLocation", "location"]
)
def test_what_spark_adds_by_itself_is_let_pass(key: str) -> None:
    read_options({key: "anything"}, Use.STREAM_WRITE)


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("minPartitions", "0", "an integer from 1 to 2147483647"),
        ("minPartitions", "many", "an integer from 1"),
        ("maxRecordsPerPartition", "0", "an integer of at least 1"),
        ("failOnDataLoss", "yes", "true or false"),
        ("startingTimestamp", "-5", "milliseconds since 1970"),
        ("startingTimestamp", str(2**63), "milliseconds since 1970"),
        ("startingOffsetsByTimestampStrategy", "latst", 'error or latest .*Did you mean "latest"'),
        ("subscribe", "  ", " is empty"),
    ],
)
def test_a_value_out_of_range_is_refused_with_what_is_allowed(
    name: str, text: str, expected: str
) -> None:
    with pytest.raises(ConfigError, match=f"{name}.*{expected}"):
        read_options({name: text}, Use.BATCH_READ)


def test_max_offsets_per_trigger_must_be_positive() -> None:
    with pytest.raises(ConfigError, match='maxOffsetsPerTrigger="0"'):
        read_options({"maxOffsetsPerTrigger": "0"}, Use.STREAM_READ)


def test_every_option_of_sparks_own_source_is_one_here() -> None:
    ours = BY_NAME
    assert ours.keys() >= SPARKS_OWN_OPTIONS
    assert {
        name for name, option in ours.items() if option.sparks == OURS
    } == ours.keys() - SPARKS_OWN_OPTIONS


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("maxTriggerDelay", "15m", 900_000),
        ("maxTriggerDelay", "2 hours", 7_200_000),
        ("maxBytesPerTrigger", "64m", 64 * 2**20),
        ("startingTimestamp", "-10 minutes", Ago(600_000)),
        ("startingTimestamp", "1700000000000", 1_700_000_000_000),
    ],
)
def test_times_and_sizes_as_people_write_them(name: str, text: str, expected: object) -> None:
    assert read_options({name: text}, Use.STREAM_READ)[BY_NAME[name]] == expected


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("maxTriggerDelay", "soon"), ("maxTriggerDelay", "5 fortnights"),
        ("maxBytesPerTrigger", "0"),
        ("maxBytesPerTrigger", "9 stones"), ("startingTimestamp", "-10"),
        ("startingTimestamp", "-10 parsecs"),
    ],
)  # fmt: skip
def test_what_is_no_time_and_no_size_is_refused(name: str, text: str) -> None:
    with pytest.raises(ConfigError, match=f'{name}="{text}" cannot be used'):
        read_options({name: text}, Use.STREAM_READ)


def test_an_option_of_another_use_has_no_effect() -> None:
    given = read_options(
        {"maxOffsetsPerTrigger": "not even a number", "topic": "t"}, Use.BATCH_READ
    )
    assert given[MAX_OFFSETS_PER_TRIGGER] is None
    assert given[TOPIC] is None
    assert given.warnings == (
        "option maxOffsetsPerTrigger has no effect here: it is for stream reads",
        "option topic has no effect here: it is for batch writes and stream writes",
    )
    (said,) = read_options({"startingoffsets": "earliest"}, Use.BATCH_WRITE).warnings
    assert said.startswith("option startingOffsets has no effect here: it is for batch reads")


def test_kafka_options_are_set_apart_and_never_shown() -> None:
    given = read_options({"kafka.sasl.jaas.config": 'password="hunter2"'}, Use.BATCH_READ)
    assert given.kafka == {"sasl.jaas.config": 'password="hunter2"'}
    assert "hunter2" not in repr(given)


def test_an_option_without_effect_says_why() -> None:
    assert read_options({"groupIdPrefix": "mine"}, Use.BATCH_READ).warnings == (
        "option groupIdPrefix has no effect: parley reads without a consumer group",
    )
