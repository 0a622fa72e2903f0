"""Errors of options in the names of the command line."""

from __future__ import annotations

import pytest

from parley.cli import main
from parley.cli.option_texts import NAMED_ALIKE, RENAMED, in_options

CLUSTERS = ["--source", "127.0.0.1:1", "--target", "127.0.0.1:1", "--name", "r"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("they get timestamp_when_missing=append", "they get --timestamp-when-missing append"),
        ('headers="drop" cuts them off', "--headers drop cuts them off"),
        ('name="a b" cannot be used', "--name 'a b' cannot be used"),
        ("between others; into_live writes there", "between others; --into-live writes there"),
        ("records have headers", "records have headers"),
        ('the topic "two_way" is missing', 'the topic "two_way" is missing'),
    ],
)
def test_options_are_written_as_on_the_command_line(text: str, said: str) -> None:
    assert in_options(text) == said


def test_all_of_them_are_options_of_commands(capsys: pytest.CaptureFixture[str]) -> None:
    for command in (["replicate", "run"], ["replay", "run"], ["verify"], ["consume"]):
        assert main([*command, "--help"]) == 0
    shown = capsys.readouterr().out
    options = {*RENAMED.values(), *(f"--{name.replace('_', '-')}" for name in NAMED_ALIKE)}
    assert {option for option in options if option not in shown} == set()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["replicate", "plan", *CLUSTERS], "give --topic TOPIC or --topics-pattern REGEX"),
        (
            ["replicate", "run", *CLUSTERS, "--topic", "t", "--delivery", "once"],
            "--delivery once is not one of exactly-once, at-least-once",
        ),
        (["replay", "plan", *CLUSTERS, "--topic", "t"], "give either --to TOPIC or --dead-letters"),
        (
            ["replay", "run", *CLUSTERS, "--topic", "t", "--to", "u", "--speed", "-1"],
            "--speed -1.0 cannot be used",
        ),
        (["verify", "a=b", "--ignore-tombstones"], "--ignore-tombstones needs --latest-per-key"),
    ],
)
def test_commands_speak_so(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert capsys.readouterr().err.startswith(f"parley: {said}")
