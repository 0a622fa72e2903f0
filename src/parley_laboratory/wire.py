"""A blocking connection that sends exactly what it is
given, in the version it is given: for tests of brokers.

Nothing is negotiated and nothing is retried. It shares the message codec with the rest of parley
and nothing else, so that a client's or a connection's mistakes cannot hide a broker's.
"""

from __future__ import annotations

import socket
from types import TracebackType
from typing import TypeVar, cast

from parley.messages import Message, Request, decode_response, encode_request
from parley.net import parse_address

R = TypeVar("R", bound=Message)

CLIENT_ID = "wire"


class Wire:
    """One plain connection to a broker. A context manager."""

    def __init__(self, address: str, *, timeout_s: float = 10.0) -> None:
        place = parse_address(address)
        self.socket = socket.create_connection((place.host, place.port), timeout=timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.correlation_id = 0

    def __enter__(self) -> Wire:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the socket."""
        self.socket.close()

    def send_frame(self, frame: bytes) -> None:
        """Send raw bytes with their size in front."""
        self.socket.sendall(len(frame).to_bytes(4, "big") + frame)

    def send(self, message: Message, version: int) -> int:
        """Send a request; return its correlation id."""
        self.correlation_id += 1
        self.send_frame(b"".join(encode_request(message, version, self.correlation_id, CLIENT_ID)))
        return self.correlation_id

    def receive_frame(self) -> bytes:
        """Return the next frame without its size, b"" when the broker closed
        or reset the connection.
        """
        head = self._exactly(4)
        return self._exactly(int.from_bytes(head, "big")) if head else b""

    def receive(self, request: Request[R], version: int) -> R:
        """Return the answer to the request sent last. Raises ConnectionError when there is none."""
        frame = self.receive_frame()
        if not frame:
            raise ConnectionError(
                f"the broker closed the connection on {type(request).__name__} v{version}"
            )
        correlation_id, answer = decode_response(request.API_KEY, version, memoryview(frame))
        if correlation_id != self.correlation_id:
            raise ConnectionError(
                f"the broker answered request {correlation_id} instead of {self.correlation_id}"
            )
        return cast("R", answer)  # what answers a request is known from its class

    def ask(self, message: Request[R], version: int) -> R:
        """Send a request and return its answer. Raises ConnectionError when the
        broker closes instead.
        """
        self.send(message, version)
        return self.receive(message, version)

    def _exactly(self, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            try:
                piece = self.socket.recv(min(count - len(data), 1 << 20))
            except (ConnectionResetError, BrokenPipeError):
                return b""
            if not piece:
                return b""
            data += piece
        return bytes(data)
