"""`parley cluster ctl`: drive a cluster of `parley cluster start`, by the socket in its folder."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from parley.cli.exit_codes import ExitCode
from parley.devcluster.control.commands import Argument, Command, commands, find_command
from parley.devcluster.control.control import SOCKET_NAME
from parley.errors import ConfigError, KafkaError, NetworkError, nearest_hint
from parley.net.lines import LineClient

if TYPE_CHECKING:
    from parley.types import Json

# Everything behind the command's name belongs to it: the table of commands knows its options.
CTL_SETTINGS = {
    "allow_extra_args": True,
    "allow_interspersed_args": False,
    "ignore_unknown_options": True,
}


def ctl(
    ctx: typer.Context,
    data_dir: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="The folder of the cluster that runs: its --data-dir, or what it printed as "
            "control=.",
        ),
    ] = None,
) -> None:
    """Send a command to a running cluster: move leaders, kill or isolate brokers, ask for faults.

    `parley cluster ctl --data-dir D move-leader --topic t --partition 0 --to 2` sends one command
    and prints its result as JSON. `ctl --data-dir D -` reads JSON lines from stdin, as the socket
    takes them, and prints one line for each. `ctl help` lists the commands, `ctl help COMMAND`
    explains one.
    """
    words = list(ctx.args)
    if not words or words[0] == "help" or words[-1] == "--help":
        print(_help([word for word in words if word not in ("help", "--help")]))
        if not words:  # as every group of commands without a command
            raise typer.Exit(ExitCode.USAGE)
        return
    if words == ["-"]:
        _pass_lines(_socket_of(data_dir))
        return
    command = find_command(words[0])
    arguments = parse_arguments(command, words[1:])
    result = _ask(_socket_of(data_dir), command.name, arguments)
    if result is not None:
        print(json.dumps(result, indent=2))


def parse_arguments(command: Command, words: Sequence[str]) -> dict[str, object]:
    """Return a command's arguments from the words behind its name. Raises ConfigError.

    >>> parse_arguments(find_command("move-leader"), ["--topic", "t", "--partition=0", "--to", "2"])
    {'topic': 't', 'partition': 0, 'to': 2}
    """
    options = {one.option: one for one in command.arguments}
    found: dict[str, object] = {}
    left = list(words)
    while left:
        option, given, value = left.pop(0).partition("=")
        argument = options.get(option)
        if argument is None:
            raise ConfigError(
                f'{command.name} has no "{option}".{nearest_hint(option, options)} Use: '
                f"{command.usage}"
            )
        if argument.name in found:
            raise ConfigError(f"{command.name} has {option} twice")
        found[argument.name] = argument.parse(value if given else _value(argument, left))
    command.keywords(found)  # what is missing is said before anything is sent
    return found


def _value(argument: Argument, left: list[str]) -> str:
    follows = left and not left[0].startswith("--")
    if bool in argument.types and not follows:
        return "yes"
    if not follows:
        raise ConfigError(f"{argument.option} needs a value: {argument.takes}")
    return left.pop(0)


def _socket_of(data_dir: Path | None) -> Path:
    if data_dir is None:
        raise ConfigError(
            "--data-dir is needed: the folder of a cluster that runs, `parley cluster start` "
            "prints it"
        )
    path = data_dir if data_dir.is_socket() else data_dir / SOCKET_NAME
    if not path.is_socket():
        raise NetworkError(
            f"{data_dir}: no cluster runs on this folder; `parley cluster start --data-dir "
            f"{data_dir}` starts one",
            address=str(path),
            stage="connect",
        )
    return path


def _ask(socket: Path, command: str, arguments: dict[str, object]) -> Json:
    with LineClient(socket) as client:
        answer = json.loads(
            client.ask(json.dumps({"command": command, "arguments": arguments}).encode())
        )
    if not answer["ok"]:
        raise KafkaError(answer["error"])
    result: Json = answer["result"]
    return result


def _pass_lines(socket: Path) -> None:
    with LineClient(socket) as client:
        for line in sys.stdin.buffer:
            if line.strip():
                sys.stdout.buffer.write(client.ask(line.rstrip(b"\r\n")) + b"\n")
                sys.stdout.buffer.flush()


def _help(names: Sequence[str]) -> str:
    if names:
        command = find_command(names[0])
        lines = [f"{command.usage}", "", command.help]
        lines += ["", *(_about(one) for one in command.arguments)] if command.arguments else []
        return "\n".join(lines)
    width = max(len(name) for name in commands())
    return "\n".join(f"{name:{width}}  {one.summary}" for name, one in commands().items())


def _about(one: Argument) -> str:
    unset = one.required or one.default in (None, ())
    needed = " (needed)" if one.required else "" if unset else f" [default: {one.default}]"
    return f"  {one.option}  {one.takes}{needed}"
