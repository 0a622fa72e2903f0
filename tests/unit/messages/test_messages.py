"""Message classes: defaults, equality, what they show, and what encoding refuses."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

import parley.messages
from parley.errors import ConfigError, LocalProtocolError, RemoteProtocolError
from parley.messages import (
    ApiVersionsResponse,
    ConsumerProtocolSubscription,
    CreateTopicsRequest,
    FetchRequest,
    FetchResponse,
    MetadataRequest,
    MetadataResponse,
    OffsetFetchRequest,
    ProduceRequest,
    SaslAuthenticateRequest,
    class_names,
    decode_body,
    encode_body,
    request_class,
    response_class,
)
from parley.schema import ApiKey

FetchTopic, FetchPartition = FetchRequest.FetchTopic, FetchRequest.FetchPartition


def roundtrip(message: Any, version: int) -> Any:
    return decode_body(type(message), version, b"".join(encode_body(message, version)))


def test_names_give_classes_once() -> None:
    assert (
        parley.messages.FetchRequest
        is FetchRequest
        is request_class(1)
        is request_class(ApiKey.FETCH)
    )
    assert response_class(1) is FetchResponse
    assert (FetchRequest.API_KEY, FetchRequest.IS_REQUEST, FetchResponse.IS_REQUEST) == (
        ApiKey.FETCH,
        True,
        False,
    )
    assert ConsumerProtocolSubscription.API_KEY is None
    assert len(class_names()) == 2 * len(ApiKey)
    for name in class_names():
        assert getattr(parley.messages, name).__name__ == name
    for name in ("NoSuchRequest", "Fetch", "FetchRequests", "_private"):
        with pytest.raises(AttributeError, match=name):
            getattr(parley.messages, name)
    with pytest.raises(RemoteProtocolError, match="API key 337 is not known"):
        request_class(337)


def test_defaults_are_kafkas_and_fresh() -> None:
    first, second = FetchRequest(), FetchRequest()
    assert (first.replica_id, first.max_bytes, first.session_epoch, first.rack_id) == (
        -1,
        0x7FFFFFFF,
        -1,
        "",
    )
    assert first.cluster_id is None
    first.topics.append(FetchTopic(topic="t"))
    first.replica_state.replica_id = 5
    assert (second.topics, second.replica_state.replica_id) == ([], -1)
    assert first != second
    assert CreateTopicsRequest().timeout_ms == 60000
    assert FetchResponse.PartitionData().current_leader.leader_id == -1


def test_equality_is_by_value_and_class() -> None:
    assert FetchTopic(topic="a") == FetchTopic(topic="a")
    assert FetchTopic(topic="a") != FetchTopic(topic="b")
    assert FetchTopic(topic="a") != FetchRequest.ForgottenTopic(topic="a")
    assert FetchTopic() != FetchTopic(unknown_tagged_fields={5: b"x"})
    assert FetchTopic() == FetchTopic(unknown_tagged_fields={})
    with pytest.raises(TypeError, match="no hash"):
        hash(FetchTopic())


def test_misspelt_fields_are_refused() -> None:
    with pytest.raises(TypeError, match="topicz"):
        FetchRequest(topicz=[])
    request = FetchRequest()
    with pytest.raises(
        AttributeError, match=r'FetchRequest has no field "topicz"\. Did you mean "topics"'
    ):
        _ = request.topicz
    with pytest.raises(AttributeError):
        request.topicz = []
    with pytest.raises(TypeError):
        FetchRequest([])


def test_repr_shows_what_is_set_and_no_secret() -> None:
    message = ProduceRequest(
        acks=-1,
        topic_data=[ProduceRequest.TopicProduceData(name="t", partition_data=[])],
    )
    assert (
        repr(message)
        == "ProduceRequest(acks=-1, topic_data=[ProduceRequest.TopicProduceData(name='t')])"
    )
    assert (
        repr(SaslAuthenticateRequest(auth_bytes=b"hunter2"))
        == "SaslAuthenticateRequest(auth_bytes='***')"
    )
    assert "<5000 bytes>" in repr(
        ProduceRequest.PartitionProduceData(records=memoryview(bytes(5000)))
    )
    assert "… 988 more" in repr(FetchRequest.ForgottenTopic(partitions=list(range(1000))))
    assert "unknown_tagged_fields={7: b'x'}" in repr(FetchTopic(unknown_tagged_fields={7: b"x"}))


def test_messages_can_be_copied_and_pickled() -> None:
    message = FetchRequest(
        topics=[FetchTopic(topic="t", partitions=[FetchPartition(fetch_offset=9)])]
    )
    message.unknown_tagged_fields[9] = b"tag"
    for twin in (copy.deepcopy(message), pickle.loads(pickle.dumps(message))):
        assert twin == message
        assert twin is not message
    decoded = roundtrip(FetchResponse(responses=[FetchResponse.FetchableTopicResponse()]), 4)
    assert copy.deepcopy(decoded) == decoded
    assert pickle.loads(pickle.dumps(decoded)) == decoded


def test_help_lists_fields_and_versions() -> None:
    assert "versions 0-18" in FetchRequest.__doc__
    assert "topic_id: uuid (13-18)" in FetchTopic.__doc__


@pytest.mark.parametrize(
    ("message", "version", "problem"),
    [
        (
            MetadataRequest(allow_auto_topic_creation=False),
            3,
            "allow_auto_topic_creation.*version 3 has no such field",
        ),
        (MetadataRequest(topics=None), 0, "topics.*null"),
        (
            MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=None)]),
            9,
            r"topics\.\[0\]\.name.*null",
        ),
        (OffsetFetchRequest(group_id="g"), 8, "group_id.*version 8"),
        (OffsetFetchRequest(topics=None), 8, "topics"),
        (FetchRequest(max_wait_ms=2**31), 4, "max_wait_ms"),
        (FetchRequest(max_wait_ms=None), 4, "max_wait_ms"),
        (FetchRequest(topics=None), 4, "topics"),
        (FetchRequest(topics=[None]), 4, "topics"),
        (FetchRequest(topics=[FetchTopic(topic=b"bytes")]), 4, r"topics\.\[0\]\.topic"),
        (FetchRequest(topics=[FetchTopic(topic="x" * 32768)]), 4, "32768 bytes"),
        (FetchRequest(topics=[FetchTopic(topic="\ud800")]), 4, "UTF-8"),
        (FetchRequest(topics=[FetchTopic(topic_id=b"short")]), 13, "16 bytes, not 5"),
        (
            FetchRequest(topics=[FetchTopic(partitions=[FetchPartition(last_fetched_epoch=4)])]),
            11,
            "last_fetched_epoch",
        ),
        (FetchRequest(unknown_tagged_fields={1: b"x"}), 4, "no tagged fields"),
        (FetchRequest(cluster_id="c", unknown_tagged_fields={0: b"x"}), 12, "tag 0 is both"),
        (FetchRequest(cluster_id="x" * 40000), 12, "cluster_id"),
        (FetchRequest(replica_state=FetchRequest.ReplicaState(replica_id=1)), 14, "replica_state"),
        (FetchRequest(), 99, "no version 99.*0-18"),
        (ApiVersionsResponse(error_code=1.5), 0, "error_code"),
    ],
)
def test_what_a_version_cannot_carry_is_refused_by_name(
    message: Any, version: int, problem: str
) -> None:
    with pytest.raises(LocalProtocolError, match=problem) as caught:
        encode_body(message, version)
    assert type(message).__name__ in str(caught.value)


def test_ignorable_fields_are_dropped_where_a_version_lacks_them() -> None:
    full = FetchRequest(
        rack_id="r", isolation_level=1, topics=[FetchTopic(topic="t", topic_id=b"i" * 16)]
    )
    assert roundtrip(full, 3) == FetchRequest(topics=[FetchTopic(topic="t")])
    assert roundtrip(full, 11) == FetchRequest(
        rack_id="r", isolation_level=1, topics=[FetchTopic(topic="t")]
    )
    assert roundtrip(full, 13).topics == [FetchTopic(topic_id=b"i" * 16)]


def test_tagged_fields_are_sent_only_when_set() -> None:
    """KIP-951: the hints of a Fetch response are tagged, so that older clients
    are not sent more bytes.
    """
    bare = FetchResponse(
        responses=[FetchResponse.FetchableTopicResponse(partitions=[FetchResponse.PartitionData()])]
    )
    hinted = copy.deepcopy(bare)
    hinted.responses[0].partitions[0].current_leader.leader_id = 3
    hinted.responses[0].partitions[0].current_leader.leader_epoch = 9
    hinted.node_endpoints = [FetchResponse.NodeEndpoint(node_id=3, host="h", port=9092)]
    sizes = [len(b"".join(encode_body(message, 16))) for message in (bare, hinted)]
    assert sizes[1] > sizes[0]
    assert roundtrip(hinted, 16) == hinted
    leader = roundtrip(hinted, 16).responses[0].partitions[0].current_leader
    assert (leader.leader_id, leader.leader_epoch) == (3, 9)
    with pytest.raises(LocalProtocolError, match="node_endpoints"):
        encode_body(hinted, 12)


def test_unknown_tagged_fields_are_kept_and_sent_on() -> None:
    message = MetadataResponse(unknown_tagged_fields={9: b"later", 3: b""})
    data = b"".join(encode_body(message, 9))
    assert data.endswith(bytes.fromhex("02 0300 0905") + b"later")
    assert roundtrip(message, 9).unknown_tagged_fields == {3: b"", 9: b"later"}


@pytest.mark.parametrize("tags", ["020300 0300", "020900 0300"])
def test_tagged_fields_that_repeat_or_descend_are_refused(tags: str) -> None:
    data = b"".join(encode_body(MetadataResponse(), 9))
    assert data.endswith(b"\x00")
    with pytest.raises(RemoteProtocolError, match="tags must ascend"):
        decode_body(MetadataResponse, 9, data[:-1] + bytes.fromhex(tags))


@pytest.mark.parametrize("size", [1, 9])
def test_tagged_field_of_another_size_is_refused(size: int) -> None:
    data = b"".join(encode_body(ApiVersionsResponse(), 3))[:-1]
    epoch = bytes([1, 1, size]) + bytes(size)
    with pytest.raises(
        RemoteProtocolError, match="ApiVersionsResponse v3, field finalized_features_epoch"
    ):
        decode_body(ApiVersionsResponse, 3, data + epoch)


def test_errors_of_foreign_bytes_name_message_and_field() -> None:
    good = b"".join(encode_body(FetchRequest(topics=[FetchTopic(topic="topic")]), 4))
    with pytest.raises(
        RemoteProtocolError, match=r"FetchRequest v4, field topics\.\[0\]\.topic: .*needed at byte"
    ):
        decode_body(FetchRequest, 4, good[:-5])
    with pytest.raises(
        RemoteProtocolError, match=r"FetchRequest v4, field topics: an array .* claims 2147483647"
    ):
        decode_body(FetchRequest, 4, good[:17] + b"\x7f\xff\xff\xff" + good[21:])
    with pytest.raises(RemoteProtocolError, match=r"field topics: a null array"):
        decode_body(FetchRequest, 4, good[:17] + b"\xff\xff\xff\xff")
    with pytest.raises(RemoteProtocolError, match=r"ends at byte .* but the frame has"):
        decode_body(FetchRequest, 4, good + b"\x00")
    assert decode_body(FetchRequest, 4, good + b"\x00", trailing=True) == decode_body(
        FetchRequest, 4, good
    )


def test_large_bad_messages_are_refused_without_a_second_slow_decoding() -> None:
    topics = [FetchTopic(topic="topic") for _ in range(20000)]
    data = b"".join(encode_body(FetchRequest(topics=topics), 4))
    with pytest.raises(RemoteProtocolError, match="not a whole FetchRequest v4"):
        decode_body(FetchRequest, 4, data[:-1])


def test_records_are_views_of_the_frame_and_sent_by_reference() -> None:
    payload = memoryview(bytes(range(256)) * 20)
    partition = ProduceRequest.PartitionProduceData(index=1, records=payload)
    message = ProduceRequest(
        topic_data=[ProduceRequest.TopicProduceData(name="t", partition_data=[partition])]
    )
    for version in (0, 3, 9, 12):
        segments = encode_body(message, version)
        assert any(segment is payload for segment in segments)
        frame = bytearray(b"".join(segments))
        records = (
            decode_body(ProduceRequest, version, frame).topic_data[0].partition_data[0].records
        )
        assert records == payload
        at = bytes(frame).index(bytes(payload))
        frame[at] ^= 0xFF
        assert records[0] == 0xFF
    partition.records = [payload[:100], payload[100:4000], b"end"]
    sent = b"".join(encode_body(message, 9))
    assert (
        decode_body(ProduceRequest, 9, sent).topic_data[0].partition_data[0].records
        == payload[:4000].tobytes() + b"end"
    )
    partition.records = None
    assert roundtrip(message, 9).topic_data[0].partition_data[0].records is None


def test_messages_without_records_do_not_keep_their_frame() -> None:
    frame = bytearray(b"".join(encode_body(SaslAuthenticateRequest(auth_bytes=b"token"), 2)))
    decoded = decode_body(SaslAuthenticateRequest, 2, memoryview(frame))
    frame.clear()
    assert decoded.auth_bytes == b"token"


def test_nullable_struct() -> None:
    """KIP-893: a byte says whether the struct is there."""
    request = parley.messages.DescribeTopicPartitionsRequest
    assert roundtrip(request(), 0).cursor is None
    with_cursor = request(cursor=request.Cursor(topic_name="t", partition_index=4))
    assert roundtrip(with_cursor, 0) == with_cursor
    data = b"".join(encode_body(request(), 0))
    assert data[-2:] == b"\xff\x00"


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ("ListGroups", "give ApiKey.LIST_GROUPS"),
        ("ListGroupsRequest", "give ApiKey.LIST_GROUPS"),
        ("ListGrops", 'Did you mean "ListGroups"'),
        (None, "give an ApiKey."),
        ([], "give an ApiKey."),
    ],
)
def test_what_is_no_key_is_the_callers_fault(given: Any, hint: str) -> None:
    for find in (request_class, response_class):
        with pytest.raises(ConfigError) as refused:
            find(given)
        assert hint in str(refused.value)
