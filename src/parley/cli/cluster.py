"""`parley cluster`: an embedded Kafka cluster whose brokers speak as chosen releases."""

from __future__ import annotations

import asyncio
import ipaddress
import signal
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated

import typer

from parley.cli.cluster_ctl import CTL_SETTINGS, ctl
from parley.cli.cluster_security import (
    PLAINTEXT,
    client_files,
    data_folder,
    make_listeners,
    read_users,
    registry_file,
    registry_listener,
)
from parley.cli.cluster_settings import cluster_settings, parse_broker_ids
from parley.cli.completion import (
    complete_broker_releases,
    complete_client_auth,
    complete_protocols,
    complete_releases,
    complete_settings,
)
from parley.cli.exit_codes import ExitCode
from parley.cli.output import FormatOption, OutputFormat, print_document, print_rows, say
from parley.devcluster import AsyncLocalCluster
from parley.devcluster.apis import api_answers
from parley.devcluster.control.control import Control
from parley.errors import ConfigError
from parley.host import raise_descriptor_limit

app = typer.Typer(add_completion=False, no_args_is_help=True)

app.command(context_settings=CTL_SETTINGS)(ctl)

COLUMNS = ("broker", "release", "address")
API_COLUMNS = ("key", "api", "versions", "answer", "errors", "note")

DESCRIPTORS_PER_BROKER, DESCRIPTORS_FOR_CLIENTS = 2, 512
"""A listener and a connection for each that asks all of them, and what some busy clients open."""


@app.callback()
def cluster() -> None:
    """Run an embedded Kafka cluster for any Kafka client: for development, not for production."""


# size: every option of the command line is a parameter, given by its name
@app.command()
def start(
    brokers: Annotated[
        int, typer.Option(min=1, metavar="COUNT", help="How many brokers, with ids from 1 on.")
    ] = 3,
    broker_ids: Annotated[
        str | None,
        typer.Option(metavar="ID,ID,…", help="The brokers by their ids, instead of --brokers."),
    ] = None,
    release: Annotated[
        str,
        typer.Option(
            metavar="RELEASE",
            help="The Kafka release that brokers speak as.",
            autocompletion=complete_releases,
        ),
    ] = "4.3",
    broker: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ID=RELEASE",
            help="Another release for one broker. Repeatable.",
            autocompletion=complete_broker_releases,
        ),
    ] = None,
    override: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="A setting by its name in server.properties, such as num.partitions=3. "
            "Repeatable.",
            autocompletion=complete_settings,
        ),
    ] = None,
    rack: Annotated[
        list[str] | None, typer.Option(metavar="ID=RACK", help="A broker's rack. Repeatable.")
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            "--data-dir",
            "--data",
            metavar="DIR",
            help="Keep records here; without it they are in memory.",
        ),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=65535,
            metavar="PORT",
            help="The first broker's port; the others follow. [default: free ports]",
        ),
    ] = None,
    host: Annotated[
        str, typer.Option(metavar="HOST", help="The address to listen on and to give to clients.")
    ] = "127.0.0.1",
    security_protocol: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PROTOCOL",
            help="PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL. Repeat it for several listeners. "
            "[default: PLAINTEXT]",
            autocompletion=complete_protocols,
        ),
    ] = None,
    user: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[:PASSWORD]",
            help="Who may log in; a random password without one. Repeatable.",
        ),
    ] = None,
    users_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="More users, one NAME:PASSWORD a line; other users of the machine do not see "
            "them.",
        ),
    ] = None,
    mechanism: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MECHANISM",
            help="Only this SASL mechanism. Repeatable. [default: all of the release]",
        ),
    ] = None,
    client_auth: Annotated[
        str,
        typer.Option(
            metavar="MODE",
            help="TLS certificates of clients: none, requested or required.",
            autocompletion=complete_client_auth,
        ),
    ] = "none",
    schema_registry: Annotated[
        bool,
        typer.Option("--schema-registry", help="Start a schema registry beside the brokers."),
    ] = False,
    schema_registry_port: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=65535,
            metavar="PORT",
            help="The schema registry's port; starts one. [default: a free port]",
        ),
    ] = None,
    output_format: FormatOption = None,
) -> None:
    """Start a cluster and run it until Ctrl-C.

    Prints the bootstrap servers and the brokers once all of them accept connections. Ctrl-C stops
    the cluster in order, so that with --data-dir nothing is lost, and exits with 130; SIGTERM does
    the same and exits with 0.

    The folder of --data-dir, or one that is printed and removed at the end, has the control socket
    for `parley cluster ctl`. With another protocol than PLAINTEXT, a file client.properties for
    Kafka's tools and for parley's --command-config is written there too, with the CA and a
    password; with several listeners each has its own, such as client.SASL_SSL.properties. TLS needs
    the extra tls.

    The schema registry speaks http, or as the first listener does: https, with a login by name and
    password. What its clients need is in schema-registry.properties.
    """
    listeners = make_listeners(
        security_protocol or [PLAINTEXT],
        read_users(user or [], users_file),
        mechanism or [],
        client_auth,
    )
    warn_about(host, listeners)
    ids = list(range(1, brokers + 1)) if broker_ids is None else parse_broker_ids(broker_ids)
    if refused := raise_descriptor_limit(
        DESCRIPTORS_PER_BROKER * len(ids) * len(listeners) + DESCRIPTORS_FOR_CLIENTS
    ):
        say(f"warning: {refused}")
    local = AsyncLocalCluster(
        ids,
        release,
        releases=parse_releases(broker or []),
        data_dir=data,
        port=port,
        settings=cluster_settings(host, override or [], rack or []),
        listeners=listeners,
        schema_registry=registry_listener(schema_registry, schema_registry_port, listeners),
    )
    received = asyncio.run(_run(local, data, output_format))
    if received == signal.SIGINT:
        raise typer.Exit(ExitCode.INTERRUPTED)


@app.command()
def apis(
    release: Annotated[
        str | None,
        typer.Option(
            metavar="RELEASE",
            help="Only what this release advertises, in its versions. [default: every API]",
            autocompletion=complete_releases,
        ),
    ] = None,
    output_format: FormatOption = None,
) -> None:
    """Show which APIs an embedded cluster acts on, and what it answers to the others.

    Every version shown is answered: served (acted on), empty (a valid answer with nothing in it) or
    refused (with one of the errors shown, and why).
    """
    rows = [
        {
            "key": api.key,
            "api": api.name,
            "versions": str(api.versions),
            "answer": api.answer,
            "errors": ", ".join(api.errors) or None,
            "note": api.note or None,
        }
        for api in api_answers(release)
    ]
    print_rows("cluster apis", API_COLUMNS, rows, output_format)


def parse_releases(entries: list[str]) -> dict[int, str]:
    """Return the releases by broker id. Raises ConfigError for what is not ID=RELEASE.

    >>> parse_releases(["1=2.4", "2=3.9"])
    {1: '2.4', 2: '3.9'}
    """
    chosen: dict[int, str] = {}
    for entry in entries:
        number, separator, name = entry.partition("=")
        if not separator or not number.isdecimal() or not name:
            raise ConfigError(f'--broker {entry}: expected ID=RELEASE, as in "--broker 1=2.4"')
        if int(number) in chosen:
            raise ConfigError(
                f"--broker {entry}: broker {number} has release {chosen[int(number)]} already"
            )
        chosen[int(number)] = name
    return chosen


def warn_about(host: str, protocols: Iterable[str] = (PLAINTEXT,)) -> None:
    """Say on stderr when others can reach the cluster, and who of them may use it."""
    try:
        local = ipaddress.ip_address(host).is_loopback
    except ValueError:
        local = host == "localhost"
    if not local:
        open_to_all = not all(protocol.upper().startswith("SASL") for protocol in protocols)
        who = "anybody who reaches it" if open_to_all else "anybody who logs in"
        say(f"warning: listening on {host}, {who} may read and write; this is not for production")


async def _run(
    cluster: AsyncLocalCluster, data: Path | None, output_format: OutputFormat | None
) -> int:
    """Run until a signal comes; return which."""
    loop = asyncio.get_running_loop()
    stopped: asyncio.Future[int] = loop.create_future()

    def stop(number: int) -> None:
        if not stopped.done():
            stopped.set_result(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop, number)
    with data_folder(data) as folder:
        async with cluster, Control(cluster, folder) as control:
            registry = registry_file(cluster, folder) if cluster.has_schema_registry else None
            files = client_files(cluster, folder)
            _announce(cluster, control.path, files, registry, output_format)
            received = await stopped
            say("stopping")
    return received


def _announce(
    cluster: AsyncLocalCluster,
    control: Path,
    files: Mapping[str, Path],
    registry: Path | None,
    output_format: OutputFormat | None,
) -> None:
    """Print where the cluster is. `files` are the clients' properties by their listener,
    `registry` those of the schema registry's clients.
    """
    rows = [
        {
            "broker": broker.id,
            "release": broker.release,
            "address": ", ".join(map(str, broker.addresses.values())),
        }
        for broker in cluster.brokers
    ]
    first, *others = cluster.listeners
    if output_format is OutputFormat.JSON:
        document: dict[str, object] = {
            "bootstrap_servers": cluster.bootstrap_servers,
            "cluster_id": cluster.cluster_id,
            "brokers": rows,
            "control": str(control),
            "listeners": {
                name: {"bootstrap_servers": cluster.bootstrap(name)}
                | ({"client_properties": str(files[name])} if name in files else {})
                for name in cluster.listeners
            },
        }
        if registry is not None:
            url = cluster.schema_registry.url
            document["schema_registry"] = {"url": url, "client_properties": str(registry)}
        if first in files:
            document["client_properties"] = str(files[first])
        print_document("cluster start", document)
    else:
        if output_format is None or output_format is OutputFormat.TABLE:
            print(f"bootstrap.servers={cluster.bootstrap_servers}")
            for name in others:
                print(f"bootstrap.servers.{name}={cluster.bootstrap(name)}")
            if registry is not None:
                print(f"schema.registry.url={cluster.schema_registry.url}")
                print(f"{registry.name}={registry}")
            print(f"control={control}")
            for path in files.values():
                print(f"{path.name}={path}")
        print_rows("cluster start", COLUMNS, rows, output_format)
    sys.stdout.flush()
    say("running; Ctrl-C stops the cluster")
