"""Secured clusters on the command line: `cluster start` writes what `--command-config` reads."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from parley.cli import main
from parley.cli.cluster_security import parse_users, read_users, write_client_files
from parley.client import Client, ClientOptions, NewTopic
from parley.client.options.fields import read_properties
from parley.devcluster import AsyncLocalCluster, Security
from parley.errors import ConfigError
from parley.types import Secret

from ..support import GENEROUS_S

CANARY = "canary 9e\\u=:#é🙂"


@contextmanager
def started(*arguments: str, brokers: int | None = 2) -> Iterator[dict[str, Any]]:
    command = [sys.executable, "-m", "parley", "cluster", "start", "--format", "json", *arguments]
    command += [] if brokers is None else ["--brokers", str(brokers)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    lines: list[str] = []
    while not lines or lines[-1] != "}\n":
        lines.append(process.stdout.readline())
        assert lines[-1], process.communicate()[1]
    try:
        yield json.loads("".join(lines))
    finally:
        process.send_signal(signal.SIGTERM)
        output, errors = process.communicate(timeout=GENEROUS_S)
        assert process.returncode == 0, errors
        assert CANARY not in output + errors + "".join(lines)


@pytest.mark.parametrize(
    "arguments",
    [
        ("--security-protocol", "SSL", "--client-auth", "required"),
        ("--security-protocol", "sasl_ssl", "--user", f"alice:{CANARY}", "--user", "bob"),
        ("--security-protocol", "SASL_SSL", "--mechanism", "PLAIN", "--release", "0.10.0"),
        ("--security-protocol", "SASL_PLAINTEXT"),
    ],
)
def test_what_start_writes_is_what_a_command_needs(
    arguments: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):  # the second one starts on the data of the first
        with started("--data", str(tmp_path), *arguments) as document:
            path = Path(document["client_properties"])
            assert path == tmp_path / "client.properties"
            for file in tmp_path.glob("c*.p*"):
                assert stat.S_IMODE(os.stat(file).st_mode) == 0o600
            servers = document["bootstrap_servers"]
            asked = ["api-versions", "--format", "json", "--bootstrap-server", servers]
            assert main([*asked, "--command-config", str(path)]) == 0
            assert [broker["id"] for broker in json.loads(capsys.readouterr().out)["brokers"]] == [
                1,
                2,
            ]
            assert (
                main(["features", "--bootstrap-server", servers, "--command-config", str(path)])
                == 0
            )
            capsys.readouterr()
            assert main([*asked, "--timeout-ms", "800"]) != 0
            assert "security_protocol" in capsys.readouterr().err


def test_without_data_the_files_are_gone_afterwards() -> None:
    with started("--security-protocol", "SASL_SSL") as document:
        folder = Path(document["client_properties"]).parent
        assert {file.name for file in folder.iterdir()} == {
            "ca.pem",
            "client.properties",
            "control.sock",
        }
        assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700
    assert not folder.exists()


async def test_any_password_survives_the_file(tmp_path: Path) -> None:
    security = Security("SASL_PLAINTEXT", users={"alice": CANARY + '"\\'})
    async with AsyncLocalCluster(1, security=security) as cluster:
        path = write_client_files(cluster, tmp_path)
        expected = ClientOptions.from_properties(cluster.client_properties())
        assert ClientOptions.from_properties(path) == expected


def test_unknown_names_in_a_file_are_named_and_do_no_harm(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "client.properties"
    file.write_text(
        f"client.dns.lookup=use_all_dns_ips\nsasl.mechanisms={CANARY}\n", encoding="utf-8"
    )
    assert (
        main(["api-versions", "--bootstrap-server", "127.0.0.1:1", "--command-config", str(file)])
        == 3
    )
    errors = capsys.readouterr().err
    assert "client.dns.lookup has no effect" in errors
    assert "sasl.mechanisms has no effect" in errors
    assert CANARY not in errors


def test_a_missing_file_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["api-versions", "--command-config", "/nowhere/client.properties"]) == 2
    assert "/nowhere/client.properties" in capsys.readouterr().err


def test_users() -> None:
    assert parse_users(["alice:a:b"]) == {"alice": Secret("a:b")}
    first, second = (parse_users(["bob"])["bob"] for _ in range(2))
    assert first != second
    for wrong in ([":x"], ["alice:"], ["a:secret", "a:other"]):
        with pytest.raises(ConfigError) as caught:
            parse_users(wrong)
        assert "secret" not in str(caught.value)


def test_each_listener_has_a_file_of_its_own_and_passwords_can_stay_in_a_file(
    tmp_path: Path,
) -> None:
    users = tmp_path / "users"
    users.write_text(f"# who may log in\nalice:{CANARY}\n\nbob:another\n", encoding="utf-8")
    arguments = [
        "--security-protocol",
        "PLAINTEXT",
        "--security-protocol",
        "SASL_PLAINTEXT",
        "--broker-ids",
        "7,8",
    ]
    arguments += ["--users-file", str(users), "--override", "num.partitions=4", "--rack", "8=b"]
    with started("--data", str(tmp_path / "data"), *arguments, brokers=None) as document:
        assert [row["broker"] for row in document["brokers"]] == [7, 8]
        listeners = document["listeners"]
        assert document["bootstrap_servers"] == listeners["PLAINTEXT"]["bootstrap_servers"]
        assert "client_properties" not in listeners["PLAINTEXT"]
        path = Path(listeners["SASL_PLAINTEXT"]["client_properties"])
        assert path.name == "client.SASL_PLAINTEXT.properties"
        options = replace(
            ClientOptions.from_properties(read_properties(path)), allow_plaintext_password=True
        )
        with Client(options) as client:
            client.create_topics([NewTopic("made", num_partitions=-1, replication_factor=-1)])
            known = client.metadata(["made"])
            assert len(known.topics["made"].partitions) == 4
            assert {node.id: node.rack for node in known.brokers.values()} == {7: None, 8: "b"}


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--override", "num.partition=3"], 'Did you mean "num.partitions"'),
        (["--override", "num.partitions"], "expected NAME=VALUE"),
        (["--override", "num.partitions=many"], "whole number"),
        (["--override", "auto.create.topics.enable=maybe"], "one of true, false"),
        (["--rack", "one"], "expected ID=RACK"),
        (["--rack", "9=a"], "there is no broker 9"),
        (["--broker-ids", "1,x"], "whole numbers with commas"),
        (["--security-protocol", "SSL", "--security-protocol", "ssl"], "names SSL twice"),
        (
            ["--security-protocol", "PLAINTEXT", "--security-protocol", "SSL", "--user", "alice"],
            "need SASL",
        ),
        (
            ["--users-file", "no-such-file", "--security-protocol", "SASL_PLAINTEXT"],
            "cannot be read",
        ),
    ],
)
def test_what_cannot_be_is_said_before_anything_starts(
    arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["cluster", "start", *arguments]) == 2
    assert text in capsys.readouterr().err


def test_a_password_on_the_command_line_is_warned_about(capsys: pytest.CaptureFixture[str]) -> None:
    assert read_users([f"alice:{CANARY}"], None) == [f"alice:{CANARY}"]
    said = capsys.readouterr().err
    assert "--users-file" in said
    assert CANARY not in said
    assert read_users(["bob"], None) == ["bob"]
    assert not capsys.readouterr().err
