"""The root command: looks commands up in the table, turns errors into exit codes."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer
from typer.core import TyperCommand, TyperGroup

from parley import __version__
from parley.cli.commands import COMMANDS
from parley.cli.exit_codes import ExitCode, exit_code_of, is_expected
from parley.cli.output import flush_output, has_output
from parley.errors import nearest_hint

if TYPE_CHECKING:
    from typer._click import Command as CliCommand, Context, HelpFormatter
    from typer._click.shell_completion import CompletionItem

LIKENESS = 0.6
"""Of a command's name to what was typed: short words have many letters in common by chance."""
OPTIONS = (
    ("--version", "Show the version and exit."),
    (
        "--install-completion",
        "Let this shell (bash, zsh, fish, PowerShell) complete parley's words.",
    ),
    ("--show-completion", "Print what --install-completion would install."),
    ("--help", "Show this help and exit."),
)


class LazyGroup(TyperGroup):
    """A group of commands that imports a command's module only when that command is called."""

    def list_commands(self, ctx: Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: Context, cmd_name: str) -> CliCommand | None:
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        command_app = importlib.import_module(entry.module).app
        # help as plain text everywhere, square brackets included
        command_app.rich_markup_mode = None
        command = typer.main.get_command(command_app)
        command.name = cmd_name
        return command

    def resolve_command(
        self, ctx: Context, args: list[str]
    ) -> tuple[str | None, CliCommand | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            hint = nearest_hint(args[0], COMMANDS, LIKENESS)
            ctx.fail(f'there is no command "{args[0]}".{hint}')
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: Context, incomplete: str) -> list[CompletionItem]:
        """Complete a command's name from the table: nothing is imported for it."""
        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        named: dict[str, CliCommand] = {
            name: TyperCommand(name, short_help=entry.summary)
            for name, entry in sorted(COMMANDS.items())
        }
        table = TyperGroup(name="parley", commands=named)
        return table.shell_complete(typer.Context(table), incomplete)

    def format_help(self, ctx: Context, formatter: HelpFormatter) -> None:
        """Write the help from the table: nothing is imported for it."""
        formatter.write_usage("parley", "[OPTIONS] COMMAND [ARGUMENTS]...")
        formatter.write_paragraph()
        formatter.write_text("Apache Kafka of any release, from Python and Spark.")
        with formatter.section("Options"):
            formatter.write_dl(OPTIONS)
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name].summary) for name in sorted(COMMANDS)])
        formatter.write_paragraph()
        formatter.write_text(
            "Exit codes: 0 done, 1 failed, 2 usage, 3 no broker reached, 4 not "
            "supported by the broker, 5 topics differ (verify), 6 records were deleted before they "
            "were read, 7 a pipeline runs already, 130 stopped with Ctrl-C."
        )


HELP_WIDTH = 120
"""How wide help gets where the terminal is as wide; the parser's own limit is 80."""

app = typer.Typer(
    cls=LazyGroup,
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"max_content_width": HELP_WIDTH},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"parley {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: bool = typer.Option(False, "--version", callback=_print_version, is_eager=True),
) -> None:
    """Apache Kafka of any release, from Python and Spark."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code. Expected errors become lines on stderr."""
    if not has_output():
        return ExitCode.FAILED
    command = typer.main.get_command(app)
    try:
        try:
            result = command.main(args=arguments, prog_name="parley", standalone_mode=False)
        finally:
            flush_output()
    except BaseException as error:
        return _ended_by(error)
    return int(result) if isinstance(result, int) else ExitCode.OK


def plainly(message: str) -> str:
    """Return what the parser says of a value without its own words for it.

    >>> plainly("Value error, 'xml' is not one of 'csv', 'json'.")
    "'xml' is not one of 'csv', 'json'."
    >>> plainly("Input should be a valid integer, unable to parse string as an integer")
    'it has to be a valid integer'
    """
    text = message.removeprefix("Value error, ")
    should, found, wanted = text.partition("Input should be ")
    return text if should or not found else f"it has to be {wanted.partition(', unable')[0]}"


def _ended_by(error: BaseException) -> int:
    """Report what ended a command and return the exit code."""
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else ExitCode.FAILED
    if type(error).__name__ == "Abort":
        return ExitCode.INTERRUPTED
    show = getattr(error, "show", None)
    if callable(show):  # usage errors of the parser bring their own text and code
        message = getattr(error, "message", None)
        if isinstance(message, str):
            error.message = plainly(message)  # type: ignore[attr-defined]  # the parser's errors do
        show()
        return int(getattr(error, "exit_code", ExitCode.USAGE))
    if not is_expected(error):
        raise error
    if not isinstance(error, KeyboardInterrupt):
        # notes: what else failed, and what to do
        for line in (error, *getattr(error, "__notes__", ())):
            print(f"parley: {line}", file=sys.stderr)
    return exit_code_of(error)
