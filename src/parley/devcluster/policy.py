"""What a broker does with a request before it reads the body: the profile, asked per request."""

from __future__ import annotations

from collections.abc import Callable

from parley.devcluster.handlers.h18_api_versions import FIRST_NAME_VERSION, unsupported
from parley.devcluster.release.profile import Profile
from parley.frames import EmptyFrames
from parley.protocol import Close, Decision, Dialect, Respond, Serve, Swallow
from parley.schema import ApiKey

API_VERSIONS = int(ApiKey.API_VERSIONS)


class ReleasePolicy:
    """`BrokerPolicy` of one release. `noted` hears of every request that is refused here.

    `dialect` is asked first, at every request: what it returns None for is the release's affair.
    """

    def __init__(
        self,
        profile: Profile,
        noted: Callable[[int, int, Decision], None],
        dialect: Callable[[], Dialect | None] = lambda: None,
    ) -> None:
        self._profile = profile
        self._noted = noted
        self._dialect = dialect

    @property
    def empty_frames(self) -> EmptyFrames:
        """What a frame of size 0 does."""
        return self._profile.behaviour.empty_frames

    def decide(self, api_key: int, api_version: int) -> Decision:
        """Serve what the release serves; refuse the rest in its way."""
        dialect = self._dialect()
        spoken = None if dialect is None else dialect.decide(api_key, api_version)
        if spoken is not None:
            return spoken
        if self._profile.serves(api_key, api_version):
            return SERVE
        decision = self._refusal(api_key, api_version)
        if not isinstance(decision, Serve):
            self._noted(api_key, api_version, decision)
        return decision

    def _refusal(self, api_key: int, api_version: int) -> Decision:
        behaviour = self._profile.behaviour
        served = self._profile.ranges.get(api_key)
        if served is not None and behaviour.answers_any_version and api_version >= 0:
            return Serve(as_version=min(api_version, served.max))
        if behaviour.silent_refusals:
            return Swallow(needs_client_id=True)
        if api_key == API_VERSIONS and served is not None:
            # which then every later one is
            flexible = min(served.max, api_version) >= FIRST_NAME_VERSION
            return Respond(unsupported(self._profile), 0, header_version=2 if flexible else 1)
        return Close(f"release {self._profile.name} does not serve API {api_key} v{api_version}")

    def malformed(self, api_key: int, api_version: int) -> Decision:
        """Stay silent as 0.9, or close as every later release."""
        decision: Decision = Close(f"request {api_key} v{api_version} cannot be read")
        if self._profile.behaviour.silent_refusals:
            decision = Swallow()
        self._noted(api_key, api_version, decision)
        return decision


SERVE = Serve()
