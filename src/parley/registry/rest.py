"""Requests to a registry: one URL after the other, again after pauses, with credentials.

Rules of this file:
1. A URL that answered is asked first next time.
2. Another URL is tried when one cannot be reached, or answers that it cannot now (429, 5xx); every
   other answer is the registry's, whatever it says.
3. When all have failed and one of them may answer later, all are tried again after a pause. That
   harms nothing: a schema that is registered twice has one id.
4. Credentials go into headers and nowhere else: no error, log or repr has them.
"""

from __future__ import annotations

import base64
import json
import logging
import random
import time
from collections.abc import Callable, Mapping
from urllib.parse import urlencode, urlsplit

from parley.errors import KafkaError, NetworkError, RegistryError, RegistryUnreachable
from parley.net.http_client import HttpTarget, exchange
from parley.registry.answers import json_of
from parley.registry.options import RegistryOptions
from parley.types import Json, Secret

_log = logging.getLogger("parley.registry")

MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"
_LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})


class Rest:
    """Requests by one set of options, from any thread."""

    def __init__(
        self,
        options: RegistryOptions,
        *,
        pause: Callable[[float], None] = time.sleep,
        rng: random.Random | None = None,
    ) -> None:
        self._options = options
        self._targets: tuple[HttpTarget, ...] | None = None
        self._first = 0
        self._pause = pause
        self._rng = rng or random.Random()

    def ask(
        self,
        method: str,
        path: str,
        body: Mapping[str, Json] | None = None,
        query: Mapping[str, str] | None = None,
    ) -> tuple[Json, str]:
        """Return what a registry answers, and the URL that did.

        Raises RegistryError where it refuses, RegistryUnreachable where no URL answers,
        RemoteProtocolError where something else than a registry answers.
        """
        whole = f"{path}?{urlencode(query)}" if query else path
        sent = None if body is None else json.dumps(body).encode()
        attempt = 0
        while True:
            try:
                return self._ask_each(method, whole, sent)
            except (RegistryError, NetworkError) as error:
                if not error.retriable or attempt >= self._options.max_retries:
                    raise
            self._pause(self._backoff_ms(attempt) / 1000)
            attempt += 1

    def pause_ms(self, duration_ms: int) -> None:
        """Wait."""
        self._pause(duration_ms / 1000)

    def _backoff_ms(self, attempt: int) -> float:
        longest = self._options.retries_max_wait_ms
        most = min(self._options.retries_wait_ms * 2.0 ** min(attempt, 30), longest)
        return most * (0.5 + self._rng.random() / 2)

    def _ask_each(self, method: str, path: str, body: bytes | None) -> tuple[Json, str]:
        targets = self._all_targets()
        failures: dict[str, Exception] = {}
        refused: RegistryError | None = None
        for offset in range(len(targets)):
            index = (self._first + offset) % len(targets)
            target = targets[index]
            url = target.base_url + path
            try:
                answer = exchange(target, method, path, body, self._headers(body))
                found = json_of(answer, url)
            except NetworkError as error:
                failures[target.base_url] = error
                continue
            except RegistryError as error:
                if not error.retriable:
                    self._first = index
                    raise
                failures[target.base_url] = refused = error
                continue
            self._first = index
            return found, url
        if refused is not None:
            raise refused
        raise RegistryUnreachable(failures)

    def _all_targets(self) -> tuple[HttpTarget, ...]:
        if self._targets is None:
            self._targets = self._options.targets()
            for target in self._targets:
                parts = urlsplit(target.base_url)
                if self._has_login() and parts.scheme == "http" and parts.hostname not in _LOCAL:
                    _log.warning(
                        "%s is http: everybody on the way can read the credentials; use https",
                        target.base_url,
                    )
        return self._targets

    def _has_login(self) -> bool:
        options = self._options
        given = (
            options.basic_auth_user_info,
            options.bearer_auth_token,
            options.bearer_auth_token_source,
        )
        return any(one is not None for one in given)

    def _headers(self, body: bytes | None) -> dict[str, str]:
        options = self._options
        headers = {"Accept": f"{MEDIA_TYPE}, application/json"}
        if body is not None:
            headers["Content-Type"] = MEDIA_TYPE
        if options.basic_auth_user_info is not None:
            info = Secret(options.basic_auth_user_info).reveal().encode()
            headers["Authorization"] = f"Basic {base64.b64encode(info).decode('ascii')}"
        token = self._token()
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
            if options.bearer_auth_logical_cluster is not None:
                headers["target-sr-cluster"] = options.bearer_auth_logical_cluster
            if options.bearer_auth_identity_pool_id is not None:
                headers["Confluent-Identity-Pool-Id"] = options.bearer_auth_identity_pool_id
        return headers

    def _token(self) -> str | None:
        given = self._options.bearer_auth_token
        source = self._options.bearer_auth_token_source
        if source is not None:
            given = source()
        if given is None:
            return None
        text = Secret(given).reveal()
        if not text.isascii() or not text.isprintable():
            raise _BadToken("the bearer token has characters that no header can carry")
        return text


class _BadToken(KafkaError, ValueError):
    """A token that cannot be sent; the text does not show it."""
