"""The storage of KRaft nodes, which has to be formatted before a node starts on it."""

from __future__ import annotations

import subprocess
from pathlib import Path

from parley.testing.realbroker.artifacts import class_path
from parley.testing.realbroker.java import java_command
from parley.testing.realbroker.node import RealNode
from parley.testing.realbroker.process import StartError
from parley.testing.realbroker.releases import broker_artifacts, short_version


def is_formatted(node: RealNode) -> bool:
    """Return whether a node can start on what lies in its directory."""
    return (node.directory / "data" / "meta.properties").exists()


def format_storage(
    node: RealNode, properties: Path, cluster_id: str, level: str | None, timeout_seconds: float
) -> None:
    """Format a node's storage, at the metadata version of release `level` if one is named.

    Raises StartError with what the tool of the node's release said.
    """
    arguments = ["format", "-t", cluster_id, "-c", str(properties)]
    if level is not None:
        arguments += ["--release-version", short_version(level)]
    command = java_command(
        class_path(broker_artifacts(node.release)),
        ["kafka.tools.StorageTool", *arguments],
        heap_mb=256,
    )
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=timeout_seconds, check=False
    )
    if done.returncode != 0:
        raise StartError(
            f"the storage of node {node.id} could not be formatted:\n{done.stdout}{done.stderr}"
        )
