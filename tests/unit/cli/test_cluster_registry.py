"""What `parley cluster start --schema-registry` starts, and the file it writes for clients."""

from __future__ import annotations

import asyncio
import stat
from pathlib import Path

import pytest

from parley.cli.cluster_security import make_listeners, registry_file, registry_listener
from parley.devcluster import AsyncLocalCluster
from parley.errors import ConfigError
from parley.registry import RegistryOptions, Schema, SchemaRegistryClient


def properties(file: Path) -> dict[str, str]:
    lines = file.read_text(encoding="ascii").splitlines()
    return dict(line.split("=", 1) for line in lines)


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SASL_SSL"])
async def test_the_file_is_all_that_a_client_needs(tmp_path: Path, protocol: str) -> None:
    listeners = make_listeners([protocol], [], [], "none")
    wanted = registry_listener(True, None, listeners)
    async with AsyncLocalCluster(1, listeners=listeners, schema_registry=wanted) as cluster:
        file = registry_file(cluster, tmp_path)
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        config = properties(file)
        options = RegistryOptions.from_config(config)
        assert options.urls[0].startswith("https:" if protocol == "SASL_SSL" else "http:")
        client = SchemaRegistryClient(options=options)
        made = await asyncio.to_thread(client.register_schema, "s", Schema('"int"'))
        assert made.version == 1


def test_a_port_alone_starts_a_registry_and_nothing_starts_none() -> None:
    listeners = make_listeners(["PLAINTEXT"], [], [], "none")
    found = registry_listener(False, 8081, listeners)
    assert not isinstance(found, bool)
    assert found.port == 8081
    assert registry_listener(False, None, listeners) is False


def test_java_key_stores_are_refused() -> None:
    with pytest.raises(ConfigError, match="parley reads PEM files"):
        RegistryOptions.from_config({"url": "https://a", "ssl.truststore.type": "JKS"})
