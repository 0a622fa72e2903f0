"""A hand-written Metadata v0 exchange: the readiness probe of real brokers.

It shares nothing with parley's own protocol code on purpose, so that a broker is never called
unready because of a bug in what is being tested. Metadata v0 is served by every release (0.9 has
no ApiVersions), and its answer is:

    int32 correlation id
    array of brokers:  int32 node id, string host, int32 port
    array of topics    (not read)
"""

from __future__ import annotations

import socket
import struct

_METADATA_KEY, _METADATA_VERSION, _CORRELATION_ID = 3, 0, 1
_CLIENT_ID = b"parley-probe"
_MAX_ANSWER_BYTES = 16 << 20


def listed_nodes(
    host: str, port: int, timeout_seconds: float = 10.0
) -> dict[int, tuple[str, int]] | None:
    """Ask the broker of a listener which brokers it knows; None if it does not answer yet."""
    head = (
        struct.pack(">hhih", _METADATA_KEY, _METADATA_VERSION, _CORRELATION_ID, len(_CLIENT_ID))
        + _CLIENT_ID
    )
    body = head + struct.pack(">i", 0)  # all topics: to name one would be to create it
    try:
        with socket.create_connection((host, port), timeout=timeout_seconds) as connection:
            connection.settimeout(timeout_seconds)
            connection.sendall(struct.pack(">i", len(body)) + body)
            (size,) = struct.unpack(">i", _receive(connection, 4))
            if not 8 <= size <= _MAX_ANSWER_BYTES:
                return None
            return _brokers(_receive(connection, size))
    except (OSError, struct.error):
        return None


def accepts_connections(host: str, port: int, timeout_seconds: float = 10.0) -> bool:
    """Say whether something listens at this address."""
    try:
        with socket.create_connection((host, port), timeout=timeout_seconds):
            return True
    except OSError:
        return False


def _receive(connection: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = connection.recv(size - len(parts))
        if not part:
            raise ConnectionError("closed in the middle of an answer")
        parts += part
    return bytes(parts)


def _brokers(answer: bytes) -> dict[int, tuple[str, int]]:
    """Return {node id: (host, port)} of a Metadata v0 answer."""
    _, count = struct.unpack_from(">ii", answer, 0)
    position = 8
    found: dict[int, tuple[str, int]] = {}
    for _ in range(count):
        node_id, length = struct.unpack_from(">ih", answer, position)
        position += 6
        host = answer[position : position + length].decode()
        (port,) = struct.unpack_from(">i", answer, position + length)
        position += length + 4
        found[node_id] = (host, port)
    return found
