"""Help and exit codes are the same everywhere: what stands for a value, how wide text
gets, what wrong usage gives.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
import typer

from parley.cli import main
from parley.cli.app import HELP_WIDTH, app


def all_commands() -> Iterator[tuple[str, ...]]:
    """Yield the words of every command and group, the root first."""

    def walk(words: tuple[str, ...], command: typer.core.TyperGroup) -> Iterator[tuple[str, ...]]:
        yield words
        if isinstance(command, typer.core.TyperGroup):
            context = typer.Context(command)
            for name in command.list_commands(context):
                yield from walk((*words, name), command.get_command(context, name))

    yield from walk((), typer.main.get_command(app))


COMMANDS = list(all_commands())


def test_the_walk_finds_the_commands() -> None:
    assert {
        (),
        ("cluster",),
        ("cluster", "start"),
        ("cluster", "ctl"),
        ("doctor",),
        ("api-versions",),
    } <= set(COMMANDS)


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_values_are_named_for_what_they_are(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """Not for the type that Python reads them as."""
    assert main([*words, "--help"]) == 0
    text = capsys.readouterr().out
    assert not re.search(r" <[a-z]|\b(TEXT|INTEGER|FLOAT|PATH)\b|range>", text)


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_help_is_as_wide_as_the_terminal_up_to_a_limit(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    longest = {}
    for columns in (60, 300):
        monkeypatch.setenv("COLUMNS", str(columns))
        main([*words, "--help"])
        longest[columns] = max(map(len, capsys.readouterr().out.splitlines()))
    # options that are longer than the line stay whole
    assert longest[60] <= 60 or words == ("cluster", "start")
    assert longest[60] < longest[300] <= HELP_WIDTH or longest[300] <= 60


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_an_unknown_option_is_wrong_usage_everywhere(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, "--no-such-option"]) == 2
    assert "no-such-option" in capsys.readouterr().err


@pytest.mark.parametrize("words", [(), ("cluster",), ("cluster", "ctl")], ids=" ".join)
def test_a_group_without_a_command_is_wrong_usage(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(list(words)) == 2
    assert capsys.readouterr().err or words


@pytest.mark.parametrize("words", [(), ("cluster",), ("cluster", "ctl")], ids=" ".join)
def test_an_unknown_command_is_wrong_usage_and_the_nearest_is_named(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    close = {(): "clustre", ("cluster",): "strat", ("cluster", "ctl"): "move-leadr"}[words]
    meant = {"clustre": "cluster", "strat": "start", "move-leadr": "move-leader"}[close]
    assert main([*words, close]) == 2
    assert re.search(f"Did you mean [\"']{meant}[\"']", capsys.readouterr().err)
