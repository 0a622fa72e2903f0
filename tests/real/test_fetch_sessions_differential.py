"""Incremental fetch sessions (KIP-227): a real broker
and the embedded one of its release answer alike.

A scene is a list of Fetch requests within sessions, and of what happens between them. Of each
answer is kept: the error at its top, whether it names a session, and every partition in it in its
order. By names up to Fetch v12, by topic ids from v13 on.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from parley import Client, NewTopic
from parley.devcluster import LocalCluster
from parley.messages import request_class
from parley.records import Record, WriteOptions, columns_from_records, encode_batches, offsets_of
from parley.schema import ApiKey
from parley.testing.realbroker import RealCluster
from parley_laboratory.wire import Wire

from ..support import GENEROUS_S

DeleteRecords: Any = request_class(ApiKey.DELETE_RECORDS)
Fetch: Any = request_class(ApiKey.FETCH)
Metadata: Any = request_class(ApiKey.METADATA)
Produce: Any = request_class(ApiKey.PRODUCE)
FIRST_ID_VERSION = 13
BY_NAME = 11
VERSIONS = {"2.4.1": 11, "3.9.1": 17, "4.3.0": 18}
FORMER = (3, 100, 103)
"""What a broker says of a topic that is no more, once it has heard of that."""
PATIENCE_S = GENEROUS_S

pytestmark = pytest.mark.real


class Reader:
    """A reader with a session at one of the two brokers. Its topics are called a
    and b; `seen` is compared.
    """

    def __init__(self, address: str, version: int, topic: str) -> None:
        self.wire, self.address, self.version = Wire(address), address, version
        self.names = {alias: f"{topic}-{alias}" for alias in "ab"}
        self.ids: dict[str, bytes] = {}
        self.session_id, self.epoch = 0, 0
        self.seen: list[Any] = []
        self.reported: list[int] = []
        for alias in self.names:
            self.make(alias)

    def make(self, alias: str) -> None:
        """Make a topic of two partitions, and wait until the broker leads them."""
        with Client(bootstrap_servers=self.address) as client:
            client.create_topics([NewTopic(self.names[alias], 2, 1)])
        reported = self.eventually(
            lambda: self._metadata(alias), lambda topic: topic.error_code == 0
        )
        self.ids[alias] = reported.topic_id
        for index in range(2):
            self.eventually(
                functools.partial(self._once, alias, index), lambda part: part.error_code == 0
            )

    def delete(self, alias: str) -> None:
        with Client(bootstrap_servers=self.address) as client:
            client.delete_topics([self.names[alias]])

    def eventually(self, ask: Callable[[], Any], wanted: Callable[[Any], bool]) -> Any:
        deadline = time.monotonic() + PATIENCE_S
        while not wanted(found := ask()):
            assert time.monotonic() < deadline, (
                f"it did not come to be within {PATIENCE_S} s: {found}"
            )
        return found

    def _metadata(self, alias: str) -> Any:
        asked = [Metadata.MetadataRequestTopic(name=self.names[alias])]
        answer = self.wire.ask(
            Metadata(topics=asked, allow_auto_topic_creation=False),
            12 if self.version >= FIRST_ID_VERSION else 9,
        )
        return answer.topics[0]

    def _once(self, alias: str, index: int) -> Any:
        """Ask for one partition without a session."""
        topics = self._topics({(alias, index): 0}, self.version)
        answer = self.wire.ask(Fetch(max_wait_ms=0, max_bytes=1 << 20, topics=topics), self.version)
        return answer.responses[0].partitions[0]

    def produce(self, alias: str, index: int, count: int = 1) -> None:
        now = int(time.time() * 1000)
        rows = [Record(i, now, 0, None, b"x") for i in range(count)]
        made = encode_batches(columns_from_records(rows, with_offsets=False), None, WriteOptions())
        part = Produce.PartitionProduceData(
            index=index, records=b"".join(bytes(one.data) for one in made)
        )
        topic = Produce.TopicProduceData(name=self.names[alias], partition_data=[part])
        answer = self.wire.ask(Produce(acks=-1, timeout_ms=10_000, topic_data=[topic]), 7)
        assert answer.responses[0].partition_responses[0].error_code == 0

    def delete_records(self, alias: str, index: int, before: int) -> None:
        part = DeleteRecords.DeleteRecordsPartition(partition_index=index, offset=before)
        topic = DeleteRecords.DeleteRecordsTopic(name=self.names[alias], partitions=[part])
        answer = self.wire.ask(DeleteRecords(topics=[topic], timeout_ms=10_000), 1)
        assert answer.topics[0].partitions[0].error_code == 0

    def fetch(
        self,
        asked: Mapping[tuple[str, int], int] | None = None,
        *,
        forget: Sequence[tuple[str, int]] = (),
        epoch: int | None = None,
        session_id: int | None = None,
        version: int | None = None,
        note: bool = True,
    ) -> Any:
        """Send the session's next request: `asked` gives offsets by topic and
        partition. Keep what is answered.
        """
        version = version or self.version
        epoch = self.epoch if epoch is None else epoch
        session_id = self.session_id if session_id is None else session_id
        forgotten = [
            Fetch.ForgottenTopic(**self._topic(alias, version), partitions=[index])
            for alias, index in forget
        ]
        request = Fetch(
            max_wait_ms=50,
            min_bytes=1,
            max_bytes=1 << 20,
            session_id=session_id,
            session_epoch=epoch,
            topics=self._topics(asked or {}, version),
            forgotten_topics_data=forgotten,
        )
        answer = self.wire.ask(request, version)
        if answer.error_code == 0:
            self.session_id, self.epoch = answer.session_id, max(epoch, 0) + 1
        if note:
            parts = [
                self._reported(topic, part)
                for topic in answer.responses
                for part in topic.partitions
            ]
            self.seen.append((answer.error_code, bool(answer.session_id), parts))
        return answer

    def _topics(self, asked: Mapping[tuple[str, int], int], version: int) -> list[Any]:
        made = []
        for (alias, index), offset in asked.items():
            part = Fetch.FetchPartition(
                partition=index, fetch_offset=offset, partition_max_bytes=1 << 20
            )
            made.append(Fetch.FetchTopic(**self._topic(alias, version), partitions=[part]))
        return made

    def _topic(self, alias: str, version: int) -> dict[str, Any]:
        if version >= FIRST_ID_VERSION:
            return {"topic_id": self.ids.get(alias, alias.encode() * 16)}
        return {"topic": self.names.get(alias, f"{self.names['a']}-{alias}")}

    def _reported(self, topic: Any, part: Any) -> tuple[Any, ...]:
        aliases = {name: alias for alias, name in self.names.items()} | {
            one: alias for alias, one in self.ids.items()
        }
        alias = aliases.get(topic.topic or topic.topic_id, "?")
        offsets = offsets_of(part.records) if part.records else None
        return (
            alias,
            part.partition_index,
            part.error_code,
            part.high_watermark,
            part.log_start_offset,
            offsets,
        )

    def until_it_is_former(self, step: str) -> None:
        """Go on until the broker has heard that a topic is another one, or none;
        keep what it says then.
        """

        def ask() -> list[int]:
            answer = self.fetch(note=False)
            parts = [part for topic in answer.responses for part in topic.partitions]
            return [part.error_code for part in parts if part.error_code]

        reported = self.reported
        self.reported = self.eventually(
            ask, lambda codes: codes and set(codes) <= set(FORMER) and codes != reported
        )
        self.seen.append((step, self.reported))


BOTH = {("a", 0): 0, ("a", 1): 0}


def play_what_is_new_is_reported(one: Reader) -> None:
    one.produce("a", 0, 3)
    one.fetch(BOTH)
    one.fetch({("a", 0): 3})
    one.fetch()
    one.produce("a", 1, 2)
    one.fetch()
    one.fetch()  # the position did not move: the records come again
    one.fetch({("a", 1): 2})
    one.delete_records("a", 0, 2)
    one.fetch()
    one.fetch()


def play_partitions_come_and_go(one: Reader) -> None:
    one.fetch({("a", 0): 0})
    one.fetch({("b", 1): 0})
    one.produce("a", 0)
    one.produce("b", 1)
    one.fetch()
    one.fetch({("b", 1): 1}, forget=[("a", 0)])
    one.produce("a", 0)
    one.produce("b", 1)
    one.fetch()
    one.fetch({("a", 0): 2}, forget=[("b", 0)])  # b-0 is not in the session
    one.fetch(forget=[("a", 0), ("b", 1)])  # nothing is left: the session is over
    one.fetch(epoch=5)


def play_the_last_to_have_records_comes_last(one: Reader) -> None:
    everything = {("a", 0): 0, ("b", 0): 0, ("a", 1): 0}
    one.fetch(everything)
    one.produce("a", 0)
    one.fetch()
    one.produce("b", 0)
    one.produce("a", 1)
    one.fetch()
    one.fetch()


def play_sessions_end(one: Reader) -> None:
    one.fetch(BOTH)
    first = one.session_id
    one.fetch(BOTH, epoch=0)  # a new one, which ends the first
    one.fetch(session_id=first, epoch=1)
    one.fetch()
    one.fetch(epoch=7)
    one.fetch()  # a wrong epoch ends nothing
    one.fetch({("a", 0): 0}, epoch=-1)  # asked once, and the session is over
    one.fetch(session_id=first, epoch=1)
    one.fetch({("a", 0): 0}, session_id=0, epoch=-1)
    one.fetch({}, session_id=0, epoch=0)
    one.fetch({("a", 0): 0})
    one.fetch(session_id=12345, epoch=1)


def play_errors_are_reported_each_time(one: Reader) -> None:
    one.produce("a", 0)
    one.fetch({("a", 0): 99, ("a", 1): 0})
    one.fetch()
    one.fetch()
    one.fetch({("a", 0): 1})
    one.fetch()
    one.fetch({("a", 7): 0, ("z", 0): 0, ("b", 0): 0})
    one.produce("b", 0)
    one.fetch()
    one.fetch(forget=[("a", 7), ("z", 0)])


SCENES = {
    "what is new is reported": play_what_is_new_is_reported,
    "partitions come and go": play_partitions_come_and_go,
    "the last to have records comes last": play_the_last_to_have_records_comes_last,
    "sessions end": play_sessions_end,
    "errors are reported each time": play_errors_are_reported_each_time,
}


def play_names_become_ids(one: Reader) -> None:
    one.fetch(BOTH, version=12)
    one.fetch(version=12)
    one.fetch()
    one.fetch(version=12)  # the session goes on by names
    one.fetch(BOTH, epoch=0)
    one.fetch(version=12)


def play_a_topic_is_deleted_and_made_again(one: Reader) -> None:
    one.produce("b", 0)
    one.fetch({("a", 0): 0, ("b", 0): 1})
    one.delete("a")
    one.until_it_is_former("deleted")
    former = one.ids["a"]
    one.make("a")
    one.until_it_is_former("made again")
    one.fetch()
    now, one.ids["a"] = one.ids["a"], former
    one.fetch(forget=[("a", 0)])
    one.ids["a"] = now
    one.fetch({("a", 0): 0})
    one.fetch()


SCENES_OF_IDS = {
    "names become ids": play_names_become_ids,
    "a topic is deleted and made again": play_a_topic_is_deleted_and_made_again,
}


def compare(
    real: RealCluster, release: str, version: int, topic: str, scene: Callable[[Reader], None]
) -> None:
    with LocalCluster(brokers=1, release=release) as embedded:
        seen = []
        for address in (real.bootstrap_servers, embedded.bootstrap_servers):
            one = Reader(address, version, topic)
            scene(one)
            one.wire.close()
            seen.append(one.seen)
        assert seen[1] == seen[0]


@pytest.mark.parametrize("scene", SCENES)
@pytest.mark.parametrize("release", VERSIONS)
def test_sessions_are_those_of_a_real_broker(
    real_cluster: Callable[[str], RealCluster], release: str, scene: str, topic_name: str
) -> None:
    for version in sorted({BY_NAME, VERSIONS[release]}):
        compare(
            real_cluster(release), release, version, f"{topic_name[-60:]}-{version}", SCENES[scene]
        )


@pytest.mark.parametrize("scene", SCENES_OF_IDS)
@pytest.mark.parametrize("release", ["3.9.1", "4.3.0"])
def test_sessions_by_topic_ids_are_those_of_a_real_broker(
    real_cluster: Callable[[str], RealCluster], release: str, scene: str, topic_name: str
) -> None:
    compare(
        real_cluster(release), release, VERSIONS[release], topic_name[-60:], SCENES_OF_IDS[scene]
    )
