"""An OAuth 2 token server on loopback, for the client credentials grant: what it is
asked, and what it answers.
"""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs

CLIENT_ID, CLIENT_SECRET = "reader", "canary secret+/=:é"

Answer = tuple[int, bytes]


def jwt(subject: str = "reader", lasts_s: int = 3600) -> str:
    """Return an unsigned web token of somebody."""
    now = int(time.time())
    parts = ({"alg": "none"}, {"sub": subject, "iat": now, "exp": now + lasts_s})
    texts = [
        base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts
    ]
    return ".".join(texts) + "."


@dataclass
class TokenServer:
    """`with TokenServer() as server: server.url`. `requests` has what came;
    `answers` is used up first.
    """

    context: ssl.SSLContext | None = None
    lasts_s: int = 3600
    answers: list[Answer | Callable[[BaseHTTPRequestHandler], None]] = field(default_factory=list)
    requests: list[dict[str, Any]] = field(default_factory=list)

    def __enter__(self) -> Self:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                outer._serve(self)

            def log_message(self, *_: Any) -> None:
                """Say nothing on stderr."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if self.context is not None:
            self._server.socket = self.context.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        )
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        """The token endpoint."""
        scheme = "http" if self.context is None else "https"
        return f"{scheme}://localhost:{self._server.server_address[1]}/oauth/token?tenant=7"

    def _serve(self, handler: BaseHTTPRequestHandler) -> None:
        length = int(handler.headers["Content-Length"])
        form = {
            name: values[0]
            for name, values in parse_qs(handler.rfile.read(length).decode()).items()
        }
        kind, _, encoded = handler.headers["Authorization"].partition(" ")
        credentials = base64.b64decode(encoded).decode()
        self.requests.append(
            {"path": handler.path, "form": form, "kind": kind, "credentials": credentials}
        )
        if self.answers:
            answer = self.answers.pop(0)
            if callable(answer):
                answer(handler)
                return
        elif (
            credentials == f"{CLIENT_ID}:{CLIENT_SECRET}"
            and form.get("grant_type") == "client_credentials"
        ):
            token = {
                "access_token": jwt(CLIENT_ID, self.lasts_s),
                "token_type": "Bearer",
                "expires_in": self.lasts_s,
            }
            answer = 200, json.dumps(token).encode()
        else:
            answer = (
                401,
                b'{"error":"invalid_client","error_description":"canary in a description"}',
            )
        status, body = answer
        handler.send_response(status)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)
