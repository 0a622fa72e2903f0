"""The table of commands. A new command is a module with `app` (a typer.Typer) and a line here."""

from __future__ import annotations

from typing import NamedTuple


class Command(NamedTuple):
    """Where a command lives, and the line that `parley --help` shows without importing it."""

    module: str
    summary: str


COMMANDS: dict[str, Command] = {
    "api-versions": Command(
        "parley.cli.api_versions", "Show what every broker of a cluster speaks, side by side."
    ),
    "cluster": Command(
        "parley.cli.cluster",
        "Run an embedded Kafka cluster whose brokers speak as chosen releases.",
    ),
    "consume": Command(
        "parley.cli.consume", "Print records as a member of a group, and commit what was printed."
    ),
    "demo": Command(
        "parley.cli.demo",
        "Run the demo job: from an old cluster to a new one, with an account.",
    ),
    "discovery": Command(
        "parley.cli.discovery", "Compare the ways of learning what a broker speaks (KIP-35)."
    ),
    "doctor": Command(
        "parley.cli.doctor", "Say what this installation can do, and what is missing for more."
    ),
    "drain": Command("parley.cli.declared.drain", "End the run of a declared pipeline in order."),
    "features": Command(
        "parley.cli.features",
        "Show which features a cluster's brokers have; --require for scripts.",
    ),
    "groups": Command(
        "parley.cli.groups", "List and describe consumer groups; show lag, reset offsets, delete."
    ),
    "plan": Command(
        "parley.cli.declared.plan", "Show what a declared pipeline would do. Changes nothing."
    ),
    "protocol": Command(
        "parley.cli.protocol",
        "Show what each release of Kafka speaks, and what changed between two.",
    ),
    "replay": Command(
        "parley.cli.replay", "Write the records of a topic once more, at a pace of your choice."
    ),
    "replicate": Command(
        "parley.cli.replicate", "Copy topics from one cluster to another, exactly once."
    ),
    "run": Command("parley.cli.declared.run", "Run a pipeline that is declared in a file."),
    "status": Command("parley.cli.declared.status", "Show how far a declared pipeline is."),
    "test": Command(
        "parley.cli.declared.trying", "Run the tests in a pipeline's file, on embedded brokers."
    ),
    "verify": Command(
        "parley.cli.verify", "Prove that topics of two clusters hold the same records."
    ),
}
