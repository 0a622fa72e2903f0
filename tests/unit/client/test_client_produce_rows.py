"""Rows to partitions and batches, held against kafka-python's murmur2 and plain Python."""

import random
import warnings

import pyarrow as pa
import pytest

from parley.arrow import columns_from_arrow
from parley.client.options.client_options import ProduceOptions
from parley.client.produce.rows import (
    SLICE_ROWS,
    Sticky,
    TopicPlan,
    assign,
    by_topic,
    check_columns,
    check_format,
    encode,
    format_for,
    slices,
)
from parley.client.produce.sequences import PartitionSequences
from parley.errors import BrokerError, ConfigError, UnsupportedVersionError
from parley.records import decode_columns, records, split

# kafka-python reads its own files in a way that Python 3.11 deprecates
with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.partitioner.default import murmur2


def plan(count, magic=2):
    return TopicPlan("t", count, tuple(range(count)), dict.fromkeys(range(count), magic))


def placed(batch, topic_plan, *, fixed=None, options=None, rng=None):
    """Return {partition: [row numbers]}."""
    parsed = columns_from_arrow(batch, now_ms=0)
    sticky = Sticky(rng or random.Random(1).random)
    groups = assign(parsed, topic_plan, fixed, sticky, options or ProduceOptions())
    return {
        partition: list(range(batch.num_rows))
        if rows is None
        else memoryview(rows).cast("B").cast("i").tolist()
        for partition, rows in groups
    }


@pytest.mark.parametrize("partitions", [1, 2, 7, 100])
def test_keyed_rows_go_where_javas_murmur2_sends_them(partitions):
    rng = random.Random(partitions)
    keys = [rng.randbytes(rng.randrange(40)) for _ in range(2000)]
    found = placed(pa.record_batch({"key": keys, "value": keys}), plan(partitions))
    expected = {}
    for row, key in enumerate(keys):
        expected.setdefault((murmur2(key) & 0x7FFFFFFF) % partitions, []).append(row)
    assert found == expected


def test_rows_of_a_partition_keep_their_order():
    keys = [str(i % 11) for i in range(5000)]
    found = placed(pa.record_batch({"key": keys}), plan(5))
    assert all(rows == sorted(rows) for rows in found.values())
    assert sorted(row for rows in found.values() for row in rows) == list(range(5000))


def test_rows_without_a_key_stick_to_a_partition_for_a_batch_of_bytes():
    batch = pa.record_batch({"value": ["x" * 88] * 1000})
    found = placed(batch, plan(4), options=ProduceOptions(batch_size=10_000))
    runs = sorted((rows[0], rows[-1], len(rows)) for rows in split_runs(found))
    assert all(length == 100 for _, _, length in runs)
    assert len(found) == 4
    assert sorted(row for rows in found.values() for row in rows) == list(range(1000))


def split_runs(found):
    for rows in found.values():
        run = [rows[0]]
        for row in rows[1:]:
            if row != run[-1] + 1:
                yield run
                run = []
            run.append(row)
        yield run


def test_keyless_rows_go_on_at_the_same_partition_and_avoid_those_without_a_leader():
    sticky = Sticky(random.Random(2).random)
    led = TopicPlan("t", 6, (1, 4), {1: 2, 4: 2})
    first = list(sticky.runs(10, 10, led, 1000))
    second = list(sticky.runs(10, 10, led, 1000))
    assert [partition for partition, _ in first + second] == [first[0][0]] * 2
    assert {partition for partition, _ in sticky.runs(1000, 10, led, 1000)} == {1, 4}


def test_null_keys_among_others_and_an_explicit_partition_column():
    keys = [b"a", None, b"b", None, b"c", None]
    batch = pa.record_batch(
        {"key": keys, "partition": pa.array([None, None, 3, 2, None, None], pa.int8())}
    )
    found = placed(batch, plan(4))
    where = {row: partition for partition, rows in found.items() for row in rows}
    assert where[0] == (murmur2(b"a") & 0x7FFFFFFF) % 4
    assert where[4] == (murmur2(b"c") & 0x7FFFFFFF) % 4
    assert (where[2], where[3]) == (3, 2)
    assert where[1] == where[5]


def test_keys_can_be_left_out_of_it():
    batch = pa.record_batch({"key": [str(i) for i in range(100)]})
    assert len(placed(batch, plan(4), options=ProduceOptions(partitioner_ignore_keys=True))) == 1


def test_a_partition_that_does_not_exist_is_refused():
    batch = pa.record_batch({"value": [b"x"], "partition": pa.array([4], pa.int32())})
    with pytest.raises(BrokerError, match="4 partitions"):
        placed(batch, plan(4))
    with pytest.raises(BrokerError) as caught:
        placed(pa.record_batch({"value": [b"x"]}), plan(4), fixed=9)
    assert (caught.value.topic, caught.value.partition, caught.value.retriable) == ("t", 9, False)


def test_slices_cover_everything_and_join_crumbs():
    rows = 3 * SLICE_ROWS + 5
    table = pa.table({"value": pa.array([b"x"] * rows)})
    assert [piece.num_rows for piece in slices(table)] == [SLICE_ROWS] * 3 + [5]
    assert [piece.num_rows for piece in slices(table.to_batches()[0])] == [SLICE_ROWS] * 3 + [5]
    crumbs = pa.concat_tables([pa.table({"value": [str(i)]}) for i in range(100)])
    assert [piece.num_rows for piece in slices(crumbs)] == [100]
    assert list(slices(iter([]))) == []
    assert list(slices(table.slice(0, 0))) == []


def test_what_speaks_arrows_protocols_is_taken_and_nothing_else():
    table = pa.table({"value": ["a", "b"]})

    class Stream:
        def __arrow_c_stream__(self, requested_schema=None):
            return table.__arrow_c_stream__(requested_schema)

    class Array:
        def __arrow_c_array__(self, requested_schema=None):
            return table.to_batches()[0].__arrow_c_array__(requested_schema)

    for rows in (Stream(), Array(), table.to_reader()):
        assert pa.Table.from_batches(slices(rows)).to_pydict() == {"value": ["a", "b"]}
    for rows in ([{"value": "a"}], {"value": ["a"]}, "text", 5, None):
        with pytest.raises(ConfigError, match="not Arrow data"):
            list(slices(rows))


def test_topics_come_from_the_call_or_from_the_column():
    batch = pa.record_batch({"value": ["a", "b", "c"], "topic": ["x", "y", "x"]})
    found = {name: rows.to_pydict() for name, rows in by_topic(batch, None)}
    assert found == {"x": {"value": ["a", "c"]}, "y": {"value": ["b"]}}
    assert [(name, rows.schema.names) for name, rows in by_topic(batch, "z")] == [("z", ["value"])]
    with pytest.raises(ConfigError, match="no topic"):
        by_topic(batch.select(["value"]), None)
    with pytest.raises(ConfigError, match="without a topic"):
        by_topic(pa.record_batch({"value": ["a"], "topic": pa.array([None], pa.string())}), None)


def test_rows_need_a_key_or_a_value():
    with pytest.raises(ConfigError, match='"value" or "key"'):
        check_columns(pa.record_batch({"partition": [1]}))


def test_batches_carry_sequences_one_after_the_other():
    columns = columns_from_arrow(pa.record_batch({"value": ["x" * 100] * 100}), now_ms=5).columns
    numbers = PartitionSequences(7, epoch=3, next=1000)
    options = ProduceOptions(batch_size=2000)
    made = encode(columns, None, 2, options, now_ms=5, numbers=numbers)
    assert len(made) > 3
    assert numbers.next == 1100
    expected = 1000
    for batch in made:
        found = split(batch.data)[0]
        assert (found.producer_id, found.producer_epoch, found.base_sequence) == (7, 3, expected)
        expected += batch.records
    rows = [
        row
        for batch in made
        for chunk in decode_columns(batch.data, first_offset=0)
        for row in records(chunk.columns)
    ]
    assert len(rows) == 100
    assert {row.timestamp_ms for row in rows} == {5}


def test_a_record_that_is_too_large_uses_up_no_sequence():
    columns = columns_from_arrow(pa.record_batch({"value": ["x", "x" * 5000]}), now_ms=5).columns
    numbers = PartitionSequences(7)
    with pytest.raises(BrokerError, match="max_request_size=1000"):
        encode(columns, None, 2, ProduceOptions(max_request_size=1000), now_ms=5, numbers=numbers)
    assert numbers.next == 0


def test_headers_are_refused_where_the_format_has_none():
    headers = pa.array([[{"key": "h", "value": b"v"}]])
    columns = columns_from_arrow(
        pa.record_batch({"value": ["x"], "headers": headers}), now_ms=5
    ).columns
    options = ProduceOptions()
    for magic in (0, 1):
        with pytest.raises(UnsupportedVersionError) as caught:
            check_format(columns, plan(1, magic), 0, magic, options)
        assert caught.value.feature == "record-headers"
        assert caught.value.local
    check_format(columns, plan(1, 2), 0, 2, options)
    with pytest.raises(UnsupportedVersionError, match=r"message\.format\.version"):
        check_format(columns, plan(1, 2), 0, 1, options)  # the leader is new enough, its topic not


def test_zstd_is_refused_where_the_format_has_none():
    columns = columns_from_arrow(pa.record_batch({"value": ["x"]}), now_ms=5).columns
    options = ProduceOptions(compression_type="zstd")
    check_format(columns, plan(1, 2), 0, 2, options)
    with pytest.raises(UnsupportedVersionError, match=r"t-0 takes no zstd.*compression_type"):
        check_format(columns, plan(1, 2), 0, 1, options)


def test_who_insists_on_idempotence_asks_a_leader_that_refused_the_format_again():
    insists = ProduceOptions(enable_idempotence=True)
    assert format_for(plan(1, 2), 0, 1, ProduceOptions()) == 1
    assert format_for(plan(1, 2), 0, 1, insists) == 2
    assert format_for(plan(1, 1), 0, 2, insists) == 1  # its leader is older: refused before
