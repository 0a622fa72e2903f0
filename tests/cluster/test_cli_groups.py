"""`parley groups` against embedded clusters: what it prints, what it writes, and exit codes."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from parley.cli import main
from parley.client import Client, ProduceOptions, TopicPartition
from parley.devcluster import LocalCluster

from ..support import eventually
from .test_classic_groups_foreign import GROUP, PARTITIONS, TOPIC, Confluent, members, shared

pytestmark = [
    pytest.mark.foreign,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
RECORDS = 10
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=2, release="4.3") as running:
        running.create_topic(TOPIC, PARTITIONS)
        with Client(bootstrap_servers=running.bootstrap_servers) as client:
            rows = pa.table(
                {
                    "value": ["v"] * RECORDS,
                    "timestamp": pa.array(range(1_000, 11_000, 1_000), pa.timestamp("ms")),
                }
            )
            for index in range(PARTITIONS):
                client.produce(TOPIC, rows, index, ProduceOptions())
        yield running


@pytest.fixture
def client(cluster: LocalCluster) -> Iterator[Client]:
    with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
        client.alter_group_offsets(
            "nightly", {TopicPartition(TOPIC, index): index for index in range(3)}
        )
        yield client
        client.delete_groups(["nightly"])


@pytest.fixture
def groups(cluster: LocalCluster, capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*arguments: str) -> tuple[int, str, str]:
        code = main(["groups", *arguments, "--bootstrap-server", cluster.bootstrap_servers])
        return code, *capsys.readouterr()

    return run


def offsets(client: Client, group: str = "nightly") -> dict[int, int]:
    return {
        tp.partition: found.offset
        for tp, found in client.list_group_offsets(group).items()
        if found is not None
    }


def test_columns_stand_below_their_names(groups: Run, client: Client) -> None:
    code, out, _ = groups("lag", "nightly", "--format", "table")
    assert code == 0
    lines = [line.rstrip() for line in out.splitlines()]
    assert lines == [
        "TOPIC   PARTITION  COMMITTED  END-OFFSET  LAG  MEMBER-ID  CLIENT-ID  HOST",
        "shared          0          0          10   10  -          -          -",
        "shared          1          1          10    9  -          -          -",
        "shared          2          2          10    8  -          -          -",
    ]


def test_the_lag_of_what_is_not_there_is_an_error(groups: Run, client: Client) -> None:
    code, out, err = groups("lag", "nightly", "--topic", f"{TOPIC}:0,99")
    assert (code, out) == (1, "")
    assert f'"{TOPIC}" has no partition 99; it has {PARTITIONS} partitions' in err
    code, out, err = groups("lag", "nightly", "--topic", f"{TOPIC}:4")
    assert (code, err) == (
        0,
        'group "nightly": lag unknown in 1 partition without a committed offset or a leader\n',
    )


def test_list_and_describe(groups: Run, client: Client) -> None:
    code, out, _ = groups("list", "--state", "empty", "--format", "json")
    (row,) = json.loads(out)["rows"]
    assert (code, row["group"], row["state"], row["type"], row["protocol_type"]) == (
        0,
        "nightly",
        "Empty",
        "classic",
        None,
    )
    assert groups("list", "--type", "consumer")[1].splitlines() == [
        "GROUP\tSTATE\tTYPE\tPROTOCOL-TYPE\tCOORDINATOR"
    ]
    code, out, _ = groups("describe", "nightly", "--format", "jsonl")
    assert json.loads(out)["members"] == 0
    code, out, err = groups("describe", "nightly", "absent", "--format", "jsonl")
    assert (code, json.loads(out)["group"]) == (1, "nightly")
    assert "absent" in err
    code, out, err = groups("describe", "absent")
    assert (code, out) == (1, "")
    assert "absent" in err
    code, _, err = groups("list", "--state", "Stabel")
    assert code == 2
    assert 'Did you mean "Stable"?' in err


@pytest.mark.parametrize(
    ("where", "written"),
    [
        (["--to-earliest", "--all-topics"], {0: 0, 1: 0, 2: 0}),
        (["--to-latest", "--all-topics"], {0: 10, 1: 10, 2: 10}),
        (["--to-offset", "4", "--topic", f"{TOPIC}:0-1"], {0: 4, 1: 4, 2: 2}),
        (["--shift-by", "-1", "--topic", f"{TOPIC}:1,2"], {0: 0, 1: 0, 2: 1}),
        (["--to-datetime", "1970-01-01T00:00:03.500", "--all-topics"], {0: 3, 1: 3, 2: 3}),
        (["--by-duration", "PT1S", "--all-topics"], {0: 10, 1: 10, 2: 10}),
        (["--to-latest", "--topic", TOPIC], dict.fromkeys(range(PARTITIONS), 10)),
    ],
    ids=lambda one: one[0] if isinstance(one, list) else None,
)
def test_a_reset_is_shown_first_and_written_on_demand(
    groups: Run, client: Client, where: list[str], written: dict[int, int]
) -> None:
    before = offsets(client)
    code, out, err = groups("reset-offsets", "nightly", *where, "--format", "csv")
    assert code == 0
    assert "nothing is written; --execute writes it" in err
    assert offsets(client) == before
    planned = {
        int(row["partition"]): int(row["new_offset"]) for row in csv.DictReader(io.StringIO(out))
    }
    assert before | planned == written
    code, out, err = groups("reset-offsets", "nightly", *where, "--execute", "--format", "csv")
    assert (code, err) == (0, "written\n")
    assert offsets(client) == written


def test_a_file_of_javas_tool_and_an_offset_outside_of_the_log(
    groups: Run, client: Client, tmp_path: Path
) -> None:
    path = tmp_path / "offsets.csv"
    path.write_text(f"{TOPIC},1,7\n{TOPIC},4,99\n", encoding="utf-8-sig")  # as Excel writes it
    code, _, err = groups("reset-offsets", "nightly", "--from-file", str(path), "--execute")
    assert code == 0
    assert f"{TOPIC}-4: there is no offset 99; 10 is the nearest" in err
    assert offsets(client) == {0: 0, 1: 7, 2: 2, 4: 10}
    path.write_text(f"{TOPIC},1\n")
    code, _, err = groups("reset-offsets", "nightly", "--from-file", str(path), "--execute")
    assert code == 2
    assert f"{path}, line 1" in err


def test_a_group_that_does_not_exist_is_made_by_a_reset(groups: Run, client: Client) -> None:
    for arguments in ([], ["--execute"]):
        code, out, err = groups("reset-offsets", "fresh", "--to-latest", "--all-topics", *arguments)
        assert (code, out) == (1, "")
        assert 'group "fresh" has committed nothing, or does not exist' in err
    assert (
        groups("reset-offsets", "fresh", "--to-latest", "--topic", f"{TOPIC}:0", "--execute")[0]
        == 0
    )
    assert offsets(client, "fresh") == {0: 10}
    code, _, err = groups("delete", "fresh", "absent")
    assert code == 1
    assert 'no group "absent"' in err
    assert "parley: deleted all the same: fresh" in err
    assert groups("delete", "fresh")[0] == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["reset-offsets", "nightly", "--to-latest"],
        ["reset-offsets", "nightly", "--all-topics"],
        ["reset-offsets", "nightly", "--to-latest", "--to-earliest", "--all-topics"],
        ["reset-offsets", "nightly", "--to-latest", "--topic", TOPIC, "--all-topics"],
        ["reset-offsets", "nightly", "--by-duration", "1h", "--all-topics"],
        ["reset-offsets", "nightly", "--to-latest", "--topic", ":1"],
        ["reset-offsets", "nightly", "--from-file", "absent.csv"],
        ["remove-member", "nightly"],
        ["remove-member", "nightly", "x", "--all"],
        ["lag", "nightly", "--watch", "--format", "json"],
    ],
)
def test_wrong_usage_is_said_and_writes_nothing(
    groups: Run, client: Client, arguments: list[str]
) -> None:
    before = offsets(client)
    code, out, err = groups(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith("parley: ")
    assert offsets(client) == before


def test_a_group_with_members_is_shown_and_not_reset(
    cluster: LocalCluster, groups: Run, client: Client
) -> None:
    member = Confluent(cluster, "4.3")
    with members(member):
        eventually(lambda: shared(member))
        eventually(lambda: len(member.read) == RECORDS * PARTITIONS)
        code, out, _ = groups("describe", GROUP, "--members", "--format", "csv")
        (row,) = csv.DictReader(io.StringIO(out))
        assert (code, row["client_id"], row["assignment"]) == (
            0,
            "rdkafka",
            f"{TOPIC}:0-{PARTITIONS - 1}",
        )
        before = offsets(client, GROUP)
        code, out, err = groups(
            "reset-offsets", GROUP, "--to-earliest", "--all-topics", "--execute"
        )
        assert (code, out) == (1, "")
        assert f'group "{GROUP}" has 1 member (Stable); nothing was written' in err
        assert f"parley groups remove-member {GROUP} --all" in err
        assert offsets(client, GROUP) == before
        code, out, err = groups("reset-offsets", GROUP, "--to-earliest", "--all-topics")
        assert code == 0
        assert "stop them before --execute" in err
        code, out, err = groups("lag", GROUP, "--topic", f"{TOPIC}:0")
        assert out.splitlines()[1].split("\t")[5] == row["member_id"]
        code, _, err = groups("remove-member", GROUP, row["member_id"])
        assert code == 0
        assert f"it had {TOPIC}:0-{PARTITIONS - 1}" in err


def test_what_a_release_lacks_ends_with_4_and_says_what_to_do(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with LocalCluster(brokers=1, release="0.9") as old:
        old.create_topic(TOPIC, 2)
        reset = [
            "groups",
            "reset-offsets",
            "g",
            "--to-latest",
            "--topic",
            TOPIC,
            "--execute",
            "-b",
            old.bootstrap_servers,
        ]
        assert main(reset) == 0
        for arguments in (["list", "--state", "Stable"], ["delete", "g"], ["lag", "g"]):
            assert main(["groups", *arguments, "-b", old.bootstrap_servers]) == 4
        assert "parley: give --topic TOPIC" in capsys.readouterr().err
        assert main(["groups", "lag", "g", "--topic", TOPIC, "-b", old.bootstrap_servers]) == 0
        assert capsys.readouterr().out.splitlines()[2] == f"{TOPIC}\t1\t0\t0\t0\t-\t-\t-"
