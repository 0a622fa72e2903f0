"""`parley groups`: what an operator does with consumer groups."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated

import typer

from parley.cli.connecting import (
    BootstrapOption,
    CallTimeoutOption,
    CommandConfigOption,
    PinnedReleaseOption,
    client_options,
)
from parley.cli.group_lag import lag
from parley.cli.group_reset import reset_offsets
from parley.cli.output import FormatOption, print_rows, say
from parley.cli.partition_texts import write_partitions
from parley.client import Client, GroupDescription, MemberDescription
from parley.errors import BrokerError, ConfigError, printable

app = typer.Typer(add_completion=False, no_args_is_help=True)

LIST_COLUMNS = ("group", "state", "type", "protocol_type", "coordinator")
STATE_COLUMNS = ("group", "state", "type", "protocol_type", "assignor", "members", "coordinator")
MEMBER_COLUMNS = ("group", "member_id", "instance_id", "client_id", "host", "assignment")

GroupsArgument = Annotated[list[str], typer.Argument(metavar="GROUP", hidden=True)]


@app.callback()
def groups() -> None:
    """Consumer groups as an operator sees them: who reads what, how far behind, from where on."""


@app.command("list")
def list_command(
    state: Annotated[
        str | None, typer.Option(metavar="STATE,…", help="Only groups in these states (Kafka 2.6).")
    ] = None,
    kind: Annotated[
        str | None,
        typer.Option(
            "--type", metavar="TYPE,…", help="Only classic, consumer, share or streams (Kafka 3.8)."
        ),
    ] = None,
    bootstrap_server: BootstrapOption = "localhost:9092",
    output_format: FormatOption = None,
    timeout_ms: CallTimeoutOption = 30_000,
    release: PinnedReleaseOption = None,
    command_config: CommandConfigOption = None,
) -> None:
    """List the groups of the cluster, each with the broker that coordinates it."""
    with Client(client_options(bootstrap_server, timeout_ms, release, command_config)) as client:
        found = client.list_groups(
            state.split(",") if state else [], kind.split(",") if kind else []
        )
    rows = [
        {
            "group": one.group_id,
            "state": one.state,
            "type": one.type,
            "protocol_type": one.protocol_type or None,
            "coordinator": one.coordinator,
        }
        for one in found
    ]
    print_rows("groups list", LIST_COLUMNS, rows, output_format)


@app.command()
def describe(
    group: GroupsArgument,
    members: Annotated[
        bool, typer.Option("--members", help="Show each member and what it has.")
    ] = False,
    bootstrap_server: BootstrapOption = "localhost:9092",
    output_format: FormatOption = None,
    timeout_ms: CallTimeoutOption = 30_000,
    release: PinnedReleaseOption = None,
    command_config: CommandConfigOption = None,
) -> None:
    """Show how groups stand: state, assignor, members, coordinator."""
    with Client(client_options(bootstrap_server, timeout_ms, release, command_config)) as client:
        found, failure = _described(client, group)
    if failure is not None and not found:
        raise failure
    if members:
        rows = [_member_row(one, member) for one in found.values() for member in one.members]
        print_rows("groups describe --members", MEMBER_COLUMNS, rows, output_format)
    else:
        print_rows(
            "groups describe",
            STATE_COLUMNS,
            [_state_row(one) for one in found.values()],
            output_format,
        )
    if failure is not None:
        raise failure


app.command("lag")(lag)
app.command("reset-offsets")(reset_offsets)


@app.command()
def delete(
    group: GroupsArgument,
    bootstrap_server: BootstrapOption = "localhost:9092",
    timeout_ms: CallTimeoutOption = 30_000,
    release: PinnedReleaseOption = None,
    command_config: CommandConfigOption = None,
) -> None:
    """Delete groups without members, with all that they have committed (Kafka 1.1)."""
    with Client(client_options(bootstrap_server, timeout_ms, release, command_config)) as client:
        client.delete_groups(group)
    for name in dict.fromkeys(group):
        say(f'group "{name}" is deleted')


@app.command("remove-member")
def remove_member(
    group: Annotated[str, typer.Argument(metavar="GROUP", hidden=True)],
    member: Annotated[
        list[str] | None,
        typer.Argument(metavar="[MEMBER]", hidden=True),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="All members.")] = False,
    bootstrap_server: BootstrapOption = "localhost:9092",
    timeout_ms: CallTimeoutOption = 30_000,
    release: PinnedReleaseOption = None,
    command_config: CommandConfigOption = None,
) -> None:
    """Take members out of a group: the others take over. One that still runs joins again."""
    if bool(member) == every:
        raise ConfigError(
            "name members, or give --all: `parley groups describe --members` shows their ids"
        )
    with Client(client_options(bootstrap_server, timeout_ms, release, command_config)) as client:
        removed = client.remove_members(group, member if not every else None)
    for one in removed:
        name, had = one.instance_id or one.member_id, _assignment(one) or "nothing"
        say(printable(f"{name} ({one.client_id} at {one.host}) is out; it had {had}"))
    if not removed:
        say(f'group "{group}" has no members')


def _described(
    client: Client, names: Sequence[str]
) -> tuple[dict[str, GroupDescription], BrokerError | None]:
    """Return how groups stand, and why not all of them are there."""
    try:
        return client.describe_groups(names), None
    except BrokerError as error:
        found: dict[str, GroupDescription] = {}
        for name in dict.fromkeys(names):
            with suppress(BrokerError):
                found |= client.describe_groups([name])
        return found, error


def _state_row(group: GroupDescription) -> dict[str, object]:
    return {
        "group": group.group_id,
        "state": group.state,
        "type": group.type,
        "protocol_type": group.protocol_type or None,
        "assignor": group.protocol or None,
        "members": len(group.members),
        "coordinator": f"{group.coordinator.id} ({group.coordinator.address})",
    }


def _member_row(group: GroupDescription, member: MemberDescription) -> dict[str, object]:
    return {
        "group": group.group_id,
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "client_id": member.client_id,
        "host": member.host,
        "assignment": _assignment(member),
    }


def _assignment(member: MemberDescription) -> str | None:
    return write_partitions(member.assignment) or None if member.assignment is not None else None
