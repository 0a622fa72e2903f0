"""ApiVersions: what a client asks first on every connection (KIP-35, KIP-511).

Rules (V1 to V5 of docs/proof/negotiation.md):
1. The newest version comes first. Error 35 with the broker's own range for ApiVersions (2.4+) is
   followed in that range, without it (0.10 to 2.3) by v0. Each attempt is lower than the one
   before, so that a broker that lies cannot keep the client asking.
2. The error code is the first int16 of the body in every version; an answer with error 35 has the
   shape of v0 whatever was asked, and the response header is v0 always.
3. Any other error ends the connection; so does error 35 to v0.
4. 0.9 answers nothing and keeps the connection open. The canary finds that out in one round trip:
   ListGroups v0 goes out right behind ApiVersions, and if it is answered *first*, the broker is
   older than 0.10 and can do exactly what the fixed table says.
"""

from __future__ import annotations

import re
import struct

from parley.errors import RemoteProtocolError, UnsupportedVersionError, broker_error
from parley.errors.codes import UNSUPPORTED_VERSION
from parley.messages import ApiVersionsRequest, ApiVersionsResponse, decode_body
from parley.schema import ApiKey
from parley.versions import BrokerVersions, Feature, VersionRange

SOFTWARE_NAME_VERSION = Feature.CLIENT_SOFTWARE_NAME.first_version(ApiKey.API_VERSIONS)
_NOT_ALLOWED = re.compile(r"[^a-zA-Z0-9\-.]+")


def clean_software_name(text: str) -> str:
    """Return a name or version that no broker refuses (KIP-511; otherwise error 42).

    >>> clean_software_name("parley (dev)/ü")
    'parley-dev'
    """
    return _NOT_ALLOWED.sub("-", text).strip("-.") or "unknown"


def canary_request(correlation_id: int, client_id: str) -> list[bytes]:
    """Return ListGroups v0, which has no side effects and an empty body, behind a v1 header."""
    name = client_id.encode()
    return [struct.pack(">hhih", ApiKey.LIST_GROUPS, 0, correlation_id, len(name)) + name]


class Negotiation:
    """The attempts on one connection, newest version first."""

    def __init__(
        self, own: VersionRange, software_name: str, software_version: str, *, broker: str = ""
    ) -> None:
        self.own = own
        self._broker = broker
        self.version = own.max  # of the current attempt
        self._name = clean_software_name(software_name)
        self._software_version = clean_software_name(software_version)

    def request(self) -> ApiVersionsRequest:
        """Return the message of the current attempt."""
        if self.version < SOFTWARE_NAME_VERSION:
            return ApiVersionsRequest()
        return ApiVersionsRequest(
            client_software_name=self._name, client_software_version=self._software_version
        )

    def answered(self, body: memoryview) -> BrokerVersions | None:
        """Return the broker's versions, or None when `request()` must be sent once more.

        Mutates: lowers `version` for the next attempt. Raises RemoteProtocolError for an answer
        that does not decode, UnsupportedVersionError when no version is left, BrokerError for any
        other error of the broker; the connection must be closed then.
        """
        code = _error_code(body)
        if code == UNSUPPORTED_VERSION:
            self.version = self._lower(self._offered(body))
            return None
        if code != 0:
            raise broker_error(
                code, api="ApiVersions", version=self.version, broker=self._broker or None
            )
        message = decode_body(ApiVersionsResponse, self.version, body, trailing=True)
        return BrokerVersions.from_response(message, broker=self._broker)

    def _lower(self, offered: VersionRange | None) -> int:
        if self.version == self.own.min:
            raise self._hopeless(offered)
        if offered is None:
            return self.own.min
        lower = min(self.version - 1, offered.max)
        if lower < max(self.own.min, offered.min):
            raise self._hopeless(offered)
        return lower

    def _hopeless(self, offered: VersionRange | None) -> UnsupportedVersionError:
        theirs = "refuses all of them" if offered is None else f"says that it speaks {offered}"
        return UnsupportedVersionError(
            f"ApiVersions: parley speaks {self.own}, the broker {theirs}; pin its release to "
            "connect without asking",
            api="ApiVersions",
            client_range=(self.own.min, self.own.max),
            broker_range=None if offered is None else (offered.min, offered.max),
            local=False,
        )

    @staticmethod
    def _offered(body: memoryview) -> VersionRange | None:
        try:
            message = decode_body(ApiVersionsResponse, 0, body, trailing=True)
        except RemoteProtocolError:
            return None  # only the code can be relied on; v0 is what every broker since 0.10 has
        for entry in message.api_keys:
            if entry.api_key == ApiKey.API_VERSIONS and 0 <= entry.min_version <= entry.max_version:
                return VersionRange(entry.min_version, entry.max_version)
        return None


def _error_code(body: memoryview) -> int:
    if len(body) < 2:
        raise RemoteProtocolError(
            f"an answer to ApiVersions has {len(body)} bytes, too few for its error code"
        )
    return int.from_bytes(body[:2], "big", signed=True)
