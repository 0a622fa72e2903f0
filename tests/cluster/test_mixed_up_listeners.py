"""V4: a client that takes a listener for one of another kind is reported at once,
where the answer shows it.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest

from parley.client import Client
from parley.devcluster import LocalCluster
from parley.errors import BrokersUnreachable, KafkaError

from ..support import GENEROUS_S

# fatal, protocol_version: what a TLS listener says to plain bytes
TLS_ALERT = bytes.fromhex("15030300020246")
HTTP = b"HTTP/1.1 400 Bad Request\r\n\r\n"
KAFKA = (10).to_bytes(4, "big") + bytes(10)
LOGIN = {
    "sasl_mechanism": "SCRAM-SHA-256",
    "sasl_plain_username": "alice",
    "sasl_plain_password": "wonder",
}


class Listener:
    """Accepts connections, reads what comes first, answers the same to each and closes."""

    def __init__(self, answer: bytes, port: int = 0) -> None:
        self.answer, self.accepted = answer, 0
        self.socket = socket.create_server(("127.0.0.1", port))
        self.address = f"127.0.0.1:{self.socket.getsockname()[1]}"
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):  # closed
            while True:
                connected, _ = self.socket.accept()
                self.accepted += 1
                with connected, contextlib.suppress(OSError):
                    connected.recv(10_000)
                    connected.sendall(self.answer)

    def close(self) -> None:
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        self.thread.join(GENEROUS_S)


@contextlib.contextmanager
def listening(answer: bytes, port: int = 0) -> Iterator[Listener]:
    listener = Listener(answer, port)
    try:
        yield listener
    finally:
        listener.close()


@pytest.mark.parametrize(
    ("answer", "protocol", "words"),
    [
        (
            TLS_ALERT,
            "PLAINTEXT",
            "TLS alert.*security_protocol=SSL or SASL_SSL.*or connect to its plaintext port",
        ),
        (TLS_ALERT, "SASL_PLAINTEXT", "TLS alert.*security_protocol=SSL or SASL_SSL"),
        (
            KAFKA,
            "SSL",
            "either this listener is plaintext .*PLAINTEXT.* or the port is not a Kafka broker's",
        ),
        (KAFKA, "SASL_SSL", "either this listener is plaintext .*SASL_PLAINTEXT"),
        (HTTP, "SSL", "does not speak TLS"),
        (HTTP, "PLAINTEXT", "an HTTP server listens on this port"),
    ],
)
def test_v04_an_answer_of_another_protocol_is_reported_at_once(
    answer: bytes, protocol: str, words: str
) -> None:
    login = LOGIN if protocol.startswith("SASL") else {}
    with listening(answer) as listener:
        client = Client(bootstrap_servers=listener.address, security_protocol=protocol, **login)
        with pytest.raises(BrokersUnreachable, match=words) as caught:
            client.metadata()
        assert listener.accepted == 1
    assert not caught.value.retriable


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SSL"])
def test_v04_a_closed_connection_proves_nothing_and_both_causes_are_named(protocol: str) -> None:
    """A broker that is going down does the same: whoever retries may succeed."""
    with listening(b"") as listener:
        client = Client(bootstrap_servers=listener.address, security_protocol=protocol)
        causes = (
            "this listener wants TLS or SASL.*older than 0.10"
            if protocol == "PLAINTEXT"
            else "plaintext"
        )
        with pytest.raises(BrokersUnreachable, match=causes) as caught:
            client.metadata()
    assert caught.value.retriable


def test_v04_a_client_in_use_does_not_wait_for_a_listener_to_change_its_kind() -> None:
    """Its broker is gone and a TLS listener has the port: the call fails long before
    its deadline of a minute.
    """
    with LocalCluster(brokers=1) as cluster:
        client = Client(bootstrap_servers=cluster.bootstrap_servers, default_api_timeout_ms=60_000)
        client.metadata()
        port = int(cluster.bootstrap_servers.rpartition(":")[2])
    with listening(TLS_ALERT, port), pytest.raises(KafkaError, match="TLS alert") as caught:
        client.metadata(["topic"])
    assert not caught.value.retriable
    assert not any("gave up" in note for note in getattr(caught.value, "__notes__", ()))
    client.close()
