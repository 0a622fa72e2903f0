"""Capture requests and the answers of real brokers: each API, each version that the release serves.

Requests are made by parley's encoder, and so prove nothing by themselves: the proof is that a real
broker took each of them and answered with the error codes expected here (none, mostly), and that
Java's own classes read the same out of both (tests/golden/test_java_reads.py).
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator, Set
from typing import Any

import golden_records
from parley.messages import decode_response, encode_request
from parley.messages.classes import MessageStruct
from parley.schema import ApiKey
from parley.testing.realbroker import RealCluster
from parley.testing.realbroker.releases import version_tuple
from parley_laboratory.golden import GoldenExchange

CLIENT_ID = "golden"
_NOT_YET = {-1, 5, 7, 14, 15, 16, 51}
"""Codes of a broker that is still electing leaders or loading coordinators (or, with -1, a share
partition): the request is sent again.
"""
_RETRY_SECONDS = 60
_ANY_RETRY_SECONDS = 3
ANY = frozenset({-99})
"""In place of expected error codes: whatever the broker answers."""
AUTHORIZERS = {
    (0, 9): "kafka.security.auth.SimpleAclAuthorizer",
    (2, 4): "kafka.security.authorizer.AclAuthorizer",
    (3, 3): "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
}
"""The class that keeps ACLs, from each release on."""


def capture(release: str) -> list[GoldenExchange]:
    """Start two brokers of the release, talk to them in every version, and return what was said."""
    import golden_requests

    properties = {
        **golden_records.BROKER_PROPERTIES,
        "offsets.topic.num.partitions": "1",
        "num.partitions": "2",
    }
    with RealCluster(release, brokers=2, properties=properties) as cluster:
        recorder = Recorder(release, cluster)
        try:
            golden_requests.play(recorder)
        finally:
            recorder.close()
    return recorder.exchanges


def capture_services(release: str) -> list[GoldenExchange]:
    """Start one broker with ACLs switched on; record groups, transactions and administration."""
    import golden_services

    version = version_tuple(release)
    authorizer = next(name for since, name in reversed(AUTHORIZERS.items()) if version >= since)
    properties = {"authorizer.class.name": authorizer, "super.users": "User:ANONYMOUS"}
    with RealCluster(release, properties=properties) as cluster:
        recorder = Recorder(release, cluster)
        try:
            golden_services.play(recorder)
        finally:
            recorder.close()
    return recorder.exchanges


class Recorder:
    """Sends requests to the brokers of one cluster and keeps the frames of both directions."""

    def __init__(self, release: str, cluster: RealCluster) -> None:
        self.release = release
        self.cluster = cluster
        self.version = version_tuple(release)
        self.exchanges: list[GoldenExchange] = []
        self._sockets: dict[int, socket.socket] = {}
        self._correlation_id = 0
        from parley.messages import ApiVersionsRequest

        answer = self.ask(ApiVersionsRequest(), 0, node=1)
        self._ranges = {
            entry.api_key: (entry.min_version, entry.max_version) for entry in answer.api_keys
        }

    def close(self) -> None:
        for connection in self._sockets.values():
            connection.close()

    def versions(self, key: ApiKey) -> range:
        """Return the versions that the broker serves: what it advertises,
        less the one lie of 4.x.
        """
        low, high = self._ranges.get(key, (0, -1))
        if key == ApiKey.PRODUCE and self.version >= (4, 0):
            # Produce 0-2 are advertised, and the connection is closed on them (KAFKA-18659)
            low = 3
        return range(low, high + 1)

    def newest(self, key: ApiKey) -> int:
        return self.versions(key)[-1]

    def record(
        self,
        title: str,
        request: Any,
        version: int,
        *,
        node: int = 1,
        errors: Set[int] = frozenset(),
    ) -> Any:
        """Send a request until the brokers are ready for
        it, keep the last exchange and return the answer.

        Fails unless exactly the error codes expected are in the answer.
        """
        deadline = time.monotonic() + (_ANY_RETRY_SECONDS if errors is ANY else _RETRY_SECONDS)
        while True:
            sent, received, answer = self._exchange(request, version, node)
            codes = {code for code in error_codes(answer) if code != 0}
            if codes == errors or (
                errors is ANY and (not codes & _NOT_YET or time.monotonic() > deadline)
            ):
                break
            if not codes & _NOT_YET or time.monotonic() > deadline:
                raise RuntimeError(
                    f"{self.release} {title} v{version}: errors {codes} instead of {errors}: "
                    f"{answer}"
                )
            time.sleep(0.1)
        key = ApiKey(request.API_KEY)
        self.exchanges.append(
            GoldenExchange(
                release=self.release, api_key=int(key), api_name=key.name, version=version,
                title=title, request=sent, response=received,
            )
        )  # fmt: skip
        return answer

    def settle(self, request: Any, version: int) -> Any:
        """Send a request until the broker is ready for it, and return the
        answer; nothing is kept.
        """
        deadline = time.monotonic() + _RETRY_SECONDS
        while True:
            answer = self.ask(request, version, node=1)
            if not _NOT_YET & set(error_codes(answer)) or time.monotonic() > deadline:
                return answer
            time.sleep(0.1)

    def ask(self, request: Any, version: int, *, node: int) -> Any:
        """Send a request and return the answer; nothing is kept."""
        return self._exchange(request, version, node)[2]

    def _exchange(self, request: Any, version: int, node: int) -> tuple[bytes, bytes, Any]:
        self._correlation_id += 1
        frame = b"".join(
            bytes(part)
            for part in encode_request(request, version, self._correlation_id, CLIENT_ID)
        )
        connection = self._connection(node)
        connection.sendall(struct.pack(">i", len(frame)) + frame)
        answer = self._receive(connection, struct.unpack(">i", self._receive(connection, 4))[0])
        correlation_id, message = decode_response(request.API_KEY, version, memoryview(answer))
        if correlation_id != self._correlation_id:
            raise RuntimeError(f"answer {correlation_id} came for request {self._correlation_id}")
        return frame, answer, message

    def _connection(self, node: int) -> socket.socket:
        if node not in self._sockets:
            port = self.cluster.broker(node).ports["PLAINTEXT"]
            self._sockets[node] = socket.create_connection(("127.0.0.1", port), timeout=30)
        return self._sockets[node]

    @staticmethod
    def _receive(connection: socket.socket, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            part = connection.recv(size - len(data))
            if not part:
                raise ConnectionError("the broker closed the connection")
            data += part
        return bytes(data)


def error_codes(message: Any) -> Iterator[int]:
    """Yield every error code in a message, however deep."""
    if isinstance(message, list):
        for item in message:
            yield from error_codes(item)
    elif isinstance(message, MessageStruct):
        for field in message.FIELDS:
            value = getattr(message, field.name)
            if field.name in ("error_code", "partition_error_code"):
                yield value
            elif isinstance(value, (list, MessageStruct)):
                yield from error_codes(value)
