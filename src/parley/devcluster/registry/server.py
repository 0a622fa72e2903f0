"""The registry of a cluster: a socket of its own beside the brokers'.

`AsyncSchemaRegistry` is `cluster.schema_registry`, a part that the cluster owns. A `Security` says
who may ask, as for brokers: SSL means https, SASL a user name and password of its users (basic
authentication).
"""

from __future__ import annotations

import base64
import binascii
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from parley.devcluster.registry import rest
from parley.devcluster.registry.schemas_topic import SchemasTopic
from parley.devcluster.registry.store import Store
from parley.devcluster.security.security import ListenerSecurity, Security
from parley.errors import ConfigError
from parley.net import Address
from parley.net.http_server import HttpReply, HttpRequest, HttpServer

KEPT_REQUESTS = 10_000
EVERY_TIME = -1


@dataclass(frozen=True, slots=True)
class RegistryListener:
    """Where a registry listens, and who may ask it. `port` 0 is a free one."""

    security: Security = field(default_factory=Security)
    port: int = 0


@dataclass(frozen=True, slots=True)
class RegistryRequest:
    """A request that the registry got, and the HTTP status of its answer."""

    method: str
    path: str
    status: int


@dataclass(slots=True)
class _Failing:
    status: int = 503
    times: int = 0
    path: str = field(default="")


class AsyncSchemaRegistry:
    """The schema registry of one cluster: `AsyncLocalCluster.schema_registry`.

    It starts and stops with its cluster, and may be stopped and started meanwhile: its port stays.
    """

    def __init__(
        self, security: ListenerSecurity, address: Address, topic: Callable[[], SchemasTopic]
    ) -> None:
        self._security = security
        self._topic = topic
        self._address = address
        self._server: HttpServer | None = None
        self._store = Store()
        self._requests: deque[RegistryRequest] = deque(maxlen=KEPT_REQUESTS)
        self._failing = _Failing()

    # -- life ----------------------------------------------------------------------------------

    @property
    def running(self) -> bool:
        """Whether it answers."""
        return self._server is not None

    @property
    def security(self) -> Security:
        """What it wants of its clients."""
        return self._security.security

    @property
    def url(self) -> str:
        """Where it is. The port is there once it has run."""
        scheme = "https" if self._security.security.uses_tls else "http"
        return f"{scheme}://{self._address}"

    async def start(self) -> None:
        """Listen, with what the topic `_schemas` has. Idempotent.

        Raises NetworkError when the port is taken.
        """
        if self._server is not None:
            return
        topic = self._topic()
        topic.make()
        self._store = Store(topic.keep)
        self._store.apply(topic.read())
        server = HttpServer(self._answer)
        await server.start(self._address, self._security.tls)
        self._server, self._address = server, server.address

    async def stop(self) -> None:
        """Answer no more; its port stays its own. Idempotent."""
        server, self._server = self._server, None
        if server is not None:
            await server.close()

    close = stop

    # -- for clients ---------------------------------------------------------------------------

    def client_config(self, user: str | None = None) -> dict[str, str]:
        """Return how a client connects, by the names of Confluent's clients.

        A password is among them where one is wanted, and texts of certificates; without `user` the
        first one logs in. Raises ConfigError for a user that there is not.
        """
        security = self._security.security
        found = {"url": self.url}
        if self._security.authority is not None:
            found["ssl.truststore.certificates"] = self._security.ca_pem
        if security.uses_sasl:
            name = next(iter(security.users)) if user is None else user
            if name not in security.users:
                raise ConfigError(f'there is no user "{name}" at this schema registry')
            password = security.users[name]
            text = password if isinstance(password, str) else password.reveal()
            found["basic.auth.user.info"] = f"{name}:{text}"
        return found

    # -- what clients did, and what goes wrong -------------------------------------------------

    def requests(self) -> list[RegistryRequest]:
        """Return the last requests (10,000 are kept), oldest first."""
        return list(self._requests)

    def clear_requests(self) -> None:
        """Forget the requests kept so far."""
        self._requests.clear()

    def fail(self, status: int = 503, *, times: int = 1, path: str = "") -> None:
        """Answer the next `times` requests (-1: every one) with an HTTP status, and do nothing.

        With `path` only those whose path begins so, such as "/schemas/ids". 0 times ends it.
        """
        if not 400 <= status <= 599:
            raise ConfigError(f"status={status} is no error of HTTP; give one from 400 to 599")
        self._failing = _Failing(status, times, path)

    async def _answer(self, request: HttpRequest) -> HttpReply:
        path = "/" + "/".join(request.path)
        reply = self._refused(request, path) or rest.answer(self._store, request)
        self._requests.append(RegistryRequest(request.method, path, reply.status))
        return reply

    def _refused(self, request: HttpRequest, path: str) -> HttpReply | None:
        failing = self._failing
        if failing.times != 0 and path.startswith(failing.path):
            if failing.times != EVERY_TIME:
                failing.times -= 1
            said = f'{{"error_code":{failing.status},"message":"made to fail"}}'
            return HttpReply(failing.status, said.encode(), {"Content-Type": rest.MEDIA_TYPE})
        if self._security.security.uses_sasl and not self._may(request):
            body = b'{"error_code":401,"message":"Unauthorized"}'
            headers = {"Content-Type": rest.MEDIA_TYPE, "WWW-Authenticate": 'Basic realm="parley"'}
            return HttpReply(401, body, headers)
        return None

    def _may(self, request: HttpRequest) -> bool:
        kind, _, text = request.headers.get("authorization", "").partition(" ")
        if kind.lower() != "basic":
            return False
        try:
            user, _, password = base64.b64decode(text, validate=True).decode().partition(":")
        except (binascii.Error, ValueError):
            return False
        return self._security.is_password_of(user, password)
