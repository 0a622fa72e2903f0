"""What Kafka 4.3.0's own Java client speaks, and the text its tool prints of a broker.

`kafka-broker-api-versions` prints one block per broker; its grammar was read off the real tool:

    HOST:PORT (id: ID rack: RACK isFenced: false) -> (
    <tab>Name(key): RANGE[ usable...],
    )

RANGE is `min` or `min to max`. An API that the tool's client knows and the broker lacks is
`UNSUPPORTED`; one that the broker has and the client does not know is `UNKNOWN(key)`, without
suffix.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import NamedTuple


class JavaApi(NamedTuple):
    """One API of the Java client: its name there and the versions it speaks (`latest` -1: none)."""

    key: int
    name: str
    oldest: int
    latest: int
    for_clients: bool


@cache
def java_apis() -> dict[int, JavaApi]:
    """Return the APIs of Kafka 4.3.0's Java client, by key."""
    text = (
        resources.files("parley.versions").joinpath("java_client.txt").read_text(encoding="ascii")
    )
    table = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            key, name, oldest, latest, client = line.split()
            table[int(key)] = JavaApi(int(key), name, int(oldest), int(latest), client == "client")
    return table


def _range_text(low: int, high: int) -> str:
    return f"{low}" if low == high else f"{low} to {high}"


def usability(api: JavaApi, low: int, high: int) -> str:
    """Return what the tool says of one advertised range.

    >>> usability(java_apis()[0], 0, 5)
    'usable: 5'
    >>> usability(java_apis()[23], 0, 0)
    'unusable: node too old'
    """
    if api.latest < low:
        return "unusable: node too new"
    if high < api.oldest:
        return "unusable: node too old"
    return f"usable: {min(api.latest, high)}"


def broker_block(
    host: str, port: int, node_id: int, rack: str | None, ranges: Mapping[int, tuple[int, int]]
) -> str:
    """Return the block that Kafka 4.3.0's tool prints for a broker, final newline included."""
    lines = {}
    for key, (low, high) in ranges.items():
        api = java_apis().get(key)
        if api is None:
            lines[key] = f"UNKNOWN({key}): {_range_text(low, high)}"
        else:
            lines[key] = (
                f"{api.name}({key}): {_range_text(low, high)} [{usability(api, low, high)}]"
            )
    for key, api in java_apis().items():
        if api.for_clients and key not in lines:
            lines[key] = f"{api.name}({key}): UNSUPPORTED"
    body = ",\n\t".join(lines[key] for key in sorted(lines))
    return (
        f"{host}:{port} (id: {node_id} rack: {rack or 'null'} isFenced: false) -> (\n\t{body}\n)\n"
    )
