"""Where reading starts and ends: precedence, what is asked, what is refused."""

from __future__ import annotations

import pytest

from parley.client import EARLIEST, LATEST, OffsetAndTimestamp, Timestamp, TopicPartition
from parley.errors import ConfigError
from parley.spark.options.bounds import Bound, Committed, check_order, ending_bound, starting_bound
from parley.spark.options.texts import Use, read_options
from parley.spark.values.moments import Ago, Back

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)
EACH = '{"a":{"0":5,"1":-2}}'


def start(use: Use = Use.BATCH_READ, **options: str) -> Bound:
    return starting_bound(read_options(options, use), use)


def end(**options: str) -> Bound:
    found = ending_bound(read_options(options, Use.BATCH_READ))
    assert found is not None
    return found


def test_a_batch_starts_at_the_beginning_and_a_stream_at_the_end() -> None:
    assert start().questions([A0, A1]) == {A0: EARLIEST, A1: EARLIEST}
    assert start(Use.STREAM_READ).questions([A0]) == {A0: LATEST}
    assert end().questions([A0]) == {A0: LATEST}


def test_offsets_of_partitions_are_taken_and_places_asked_for() -> None:
    bound = start(startingOffsets=EACH)
    assert bound.questions([A0, A1]) == {A1: EARLIEST}
    assert bound.explicit([A0, A1]) == {A0: 5}


def test_times_come_before_offsets_and_the_one_time_before_times_of_partitions() -> None:
    everything = {
        "startingOffsets": "earliest",
        "startingOffsetsByTimestamp": '{"a":{"0":7}}',
        "startingTimestamp": "9",
    }
    assert start(**everything).questions([A0]) == {A0: Timestamp(9)}
    del everything["startingTimestamp"]
    assert start(**everything).questions([A0]) == {A0: Timestamp(7)}


def test_the_same_precedence_holds_for_the_end() -> None:
    everything = {
        "endingOffsets": EACH,
        "endingOffsetsByTimestamp": '{"a":{"0":7}}',
        "endingTimestamp": "9",
    }
    assert end(**everything).questions([A0]) == {A0: Timestamp(9)}
    del everything["endingTimestamp"]
    assert end(**everything).questions([A0]) == {A0: Timestamp(7)}


@pytest.mark.parametrize("text", ["latest", "LATEST", '{"a":{"0":-1}}'])
def test_a_batch_cannot_start_at_the_end(text: str) -> None:
    with pytest.raises(ConfigError, match="startingOffsets cannot be latest"):
        start(startingOffsets=text)
    start(Use.STREAM_READ, startingOffsets=text)


@pytest.mark.parametrize("text", ["earliest", '{"a":{"0":-2}}'])
def test_a_batch_cannot_end_at_the_beginning(text: str) -> None:
    with pytest.raises(ConfigError, match="endingOffsets cannot be earliest"):
        end(endingOffsets=text)


def test_a_misspelt_place_is_recognised() -> None:
    with pytest.raises(
        ConfigError, match=r'startingOffsets="erliest" is neither .* Did you mean "earliest"'
    ):
        start(startingOffsets="erliest")


@pytest.mark.parametrize("option", ["startingOffsets", "startingOffsetsByTimestamp"])
def test_all_partitions_must_be_named_and_no_others(option: str) -> None:
    bound = start(**{option: '{"a":{"0":5,"7":5}}'})
    with pytest.raises(
        ConfigError, match=r"must name all .*: these are missing: a-1; these are not read.*: a-7"
    ):
        bound.check([A0, A1])


def test_a_named_place_fits_any_partitions() -> None:
    start(startingOffsets="earliest").check([A0, A1])
    start(startingTimestamp="5").check([])


def test_no_record_as_late_is_an_error_at_the_start_unless_reported_otherwise() -> None:
    answers = {A0: OffsetAndTimestamp(-1), A1: OffsetAndTimestamp(4, 99)}
    with pytest.raises(
        ConfigError, match=r'startingTimestamp: no record is as late.* in a-0.*"latest"'
    ):
        start(startingTimestamp="5").unanswered(answers)
    relaxed = start(startingTimestamp="5", startingOffsetsByTimestampStrategy="latest")
    assert relaxed.unanswered(answers) == {A0}


def test_no_record_as_late_is_the_end_of_the_log_at_the_end() -> None:
    assert end(endingTimestamp="5").unanswered({A0: OffsetAndTimestamp(-1)}) == {A0}


@pytest.mark.parametrize(
    "options",
    [
        {"startingOffsets": '{"a":{"0":5}}', "endingOffsets": '{"a":{"0":4}}'},
        {"startingTimestamp": "5", "endingTimestamp": "4"},
        {
            "startingOffsetsByTimestamp": '{"a":{"0":5}}',
            "endingOffsetsByTimestamp": '{"a":{"0":4}}',
        },
    ],
)
def test_an_end_before_the_start_is_refused(options: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=r"5.*lies after.*4: exchange them"):
        check_order(
            start(**{key: text for key, text in options.items() if key.startswith("s")}),
            end(**{key: text for key, text in options.items() if key.startswith("e")}),
        )


def test_bounds_that_cannot_be_compared_yet_are_let_pass() -> None:
    check_order(start(startingOffsets='{"a":{"0":5}}'), end(endingOffsets='{"a":{"0":-1}}'))
    check_order(start(startingOffsets='{"a":{"0":5}}'), end(endingTimestamp="1"))
    check_order(start(startingOffsets='{"a":{"0":5}}'), end(endingOffsets='{"a":{"0":5}}'))


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("-10 minutes", Ago(600_000)),
        ("-1h", Ago(3_600_000)),
        ("-100 offsets", Back(100)),
        ("committed", Committed("readers", None)),
        ("committed-or-earliest", Committed("readers", EARLIEST)),
        ("Committed-or-latest", Committed("readers", LATEST)),
    ],
)
def test_places_that_only_parley_knows(text: str, place: object) -> None:
    bound = start(Use.STREAM_READ, **{"startingOffsets": text, "kafka.group.id": "readers"})
    assert bound.everywhere == place


def test_a_time_ago_counts_from_the_planning() -> None:
    bound = start(startingTimestamp="-10 seconds")
    assert bound.questions([A0], now_ms=70_000) == {A0: Timestamp(60_000)}
    assert bound.unanswered({A0: OffsetAndTimestamp(-1)}) == {A0}
    with pytest.raises(ConfigError, match="startingTimestamp lies after endingTimestamp"):
        check_order(bound, end(endingTimestamp="-20 seconds"))


def test_a_groups_place_needs_the_group() -> None:
    with pytest.raises(
        ConfigError,
        match=r"startingOffsets=committed needs the name of the group: set kafka\.group\.id",
    ):
        start(startingOffsets="committed")
    assert start(
        Use.STREAM_READ, startingOffsets="committed", commitToGroup="g"
    ).everywhere == Committed("g", None)


def test_a_stream_ends_only_when_reported_to() -> None:
    assert ending_bound(read_options({}, Use.STREAM_READ), Use.STREAM_READ) is None
    assert (
        ending_bound(read_options({"endingTimestamp": "5"}, Use.STREAM_READ), Use.STREAM_READ)
        is not None
    )


def test_offsets_copied_from_a_checkpoint_keep_their_history() -> None:
    text = '{"@parley":1,"@ids":{"a":"Y2kW"},"@epochs":{"a":{"0":3}},"a":{"0":5,"1":-2}}'
    bound = start(startingOffsets=text)
    assert (bound.offsets, bound.ids, bound.epochs) == ({A0: 5, A1: -2}, {"a": "Y2kW"}, {A0: 3})
    with pytest.raises(
        ConfigError, match=r'startingOffsets cannot be used: a-0 has "x" instead of a leader epoch'
    ):
        start(startingOffsets='{"@epochs":{"a":{"0":"x"}},"a":{"0":5}}')
