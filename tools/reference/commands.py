"""Every command of the command line with its help, as `--help` prints it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any
from unittest import mock

WIDTH = 96
_PLAIN = {"COLUMNS": str(WIDTH), "TERMINAL_WIDTH": str(WIDTH), "NO_COLOR": "1", "TERM": "dumb"}


def commands_page() -> str:
    """Return the page of commands."""
    lines = [
        "# Command line\n",
        'The command `parley` is an extra: `pip install "kafka-parley[cli]"`.\n',
    ]
    with mock.patch.dict(os.environ, _PLAIN):
        for words, help_text in helps():
            anchor = "-".join(words)
            lines += [
                f"{'#' * min(1 + len(words), 4)} `{' '.join(words)}` {{#{anchor}}}\n",
                f"```text\n{help_text}\n```\n",
            ]
    return "\n".join(lines)


def helps() -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield each command's words and its help, the groups of commands included."""
    import typer

    from parley.cli.app import app

    yield from _helps(typer.main.get_command(app), ("parley",), None)


def _helps(
    command: Any, words: tuple[str, ...], parent: Any
) -> Iterator[tuple[tuple[str, ...], str]]:
    context = command.make_context(
        words[-1], [], parent=parent, resilient_parsing=True, max_content_width=WIDTH
    )
    context.terminal_width = WIDTH
    yield words, command.get_help(context).rstrip()
    for name in command.list_commands(context) if hasattr(command, "list_commands") else ():
        yield from _helps(command.get_command(context, name), (*words, name), context)
