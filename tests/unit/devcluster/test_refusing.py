"""The table of refused APIs: complete, readable, and every answer well formed in every version."""

from __future__ import annotations

import json
from typing import Any

import pytest

from parley.cli.app import main
from parley.devcluster.apis import api_answers
from parley.devcluster.handlers import HANDLERS, REFUSALS, SERVED_APIS
from parley.devcluster.handlers.mirror import each, top
from parley.devcluster.release.configs import BROKER, TOPIC, configs_of
from parley.messages import decode_response, encode_response
from parley.schema import ApiKey
from parley.versions import release, releases
from parley_laboratory.minimal import minimal_request

ADVERTISED = {key for found in releases().values() for key in found.ranges}


def test_every_advertised_api_is_served_or_refused_and_none_both() -> None:
    assert set(HANDLERS) == ADVERTISED
    assert not set(REFUSALS) & SERVED_APIS


@pytest.mark.parametrize("key", sorted(ADVERTISED), ids=lambda key: ApiKey(key).name.lower())
def test_a_mirrored_error_fits_every_version(key: int) -> None:
    for version in HANDLERS[key].versions.versions():
        request = minimal_request(key, version)
        for answer in (
            top(request, version, 57, "why"),
            each(request, version, lambda chain: 57, "why"),
        ):
            if key == ApiKey.SHARE_FETCH and answer.responses:
                continue  # its entries need records, so that it is only ever refused at the head
            frame = b"".join(bytes(part) for part in encode_response(answer, version, 5))
            _, read = decode_response(key, version, memoryview(frame))
            assert read == answer
        assert "error_code=57" in repr(top(request, version, 57))


def test_entries_name_what_was_asked_for() -> None:
    asked = minimal_request(ApiKey.ALTER_REPLICA_LOG_DIRS, 2)
    asked.dirs[0].topics[0].partitions = [3, 4]
    answer = each(asked, 2, lambda chain: chain[-1])
    (topic,) = answer.results
    assert topic.topic_name == "absent"
    assert [(p.partition_index, p.error_code) for p in topic.partitions] == [(3, 3), (4, 4)]


def test_the_command_prints_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cluster", "apis", "--release", "4.3", "--format", "json"]) == 0
    rows: dict[str, Any] = {row["api"]: row for row in json.loads(capsys.readouterr().out)["rows"]}
    assert {row["key"] for row in rows.values()} == set(release("4.3").ranges)
    assert rows["Fetch"]["answer"] == "served"
    assert rows["CreateAcls"]["errors"] == "54 SECURITY_DISABLED"
    assert rows["ListPartitionReassignments"]["answer"] == "empty"
    assert rows["Produce"]["note"].startswith("v0-2 are advertised and close")
    assert len(api_answers()) == len(ADVERTISED)


def test_settings_by_release() -> None:
    old, new = releases()["2.4.1"], releases()["4.3.0"]
    assert "message.format.version" in configs_of(old, TOPIC)
    assert "message.format.version" not in configs_of(new, TOPIC)
    assert configs_of(old, TOPIC)["max.message.bytes"].default == "1000012"
    assert configs_of(new, TOPIC)["max.message.bytes"].default == "1048588"
    assert configs_of(new, BROKER)["ssl.key.password"].sensitive
    assert all(config.text for config in configs_of(new, TOPIC).values())


def test_types_of_values() -> None:
    topic = configs_of(releases()["4.3.0"], TOPIC)
    assert topic["retention.ms"].accepts("-1")
    assert not topic["retention.ms"].accepts(str(1 << 63))
    assert topic["preallocate"].accepts("True")
    assert not topic["preallocate"].accepts("yes")
    assert not topic["min.cleanable.dirty.ratio"].accepts("half")
