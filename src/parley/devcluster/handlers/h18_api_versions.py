"""ApiVersions (18), v0-4.

Behaviours:
- Lists what this broker's release advertises, of the APIs that are served.
- A version above the release's is answered by the profile before it comes here: error 35 in v0
  shape, with the range of ApiVersions itself since 2.4 (KIP-511).
- A client name or version that KIP-511 does not allow: INVALID_REQUEST (2.4+).

Version notes:
- v1+ throttle time, v3+ client name, supported and finalized features (KIP-584), v4+ supported
  features whose minimum is 0 (left out in v3).
- The response header is v0 in every version.

Not implemented: -
"""

from __future__ import annotations

import re

from parley.devcluster.handlers.base import Answer, Call, Handler
from parley.devcluster.release.profile import Profile
from parley.errors.codes import INVALID_REQUEST, UNSUPPORTED_VERSION
from parley.messages import ApiVersionsRequest, ApiVersionsResponse
from parley.schema import ApiKey, VersionRange

FIRST_NAME_VERSION = 3
FIRST_ZERO_FEATURES_VERSION = 4
_CLIENT_NAME = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle(call: Call, request: ApiVersionsRequest) -> Answer:
    """List the ranges and features of this broker."""
    behaviour = call.profile.behaviour
    if call.version >= FIRST_NAME_VERSION and behaviour.checks_client_name:
        names = (request.client_software_name, request.client_software_version)
        if not all(_CLIENT_NAME.fullmatch(name) for name in names):
            return ApiVersionsResponse(error_code=INVALID_REQUEST)
    release = call.profile.release
    epoch = release.finalized_features_epoch
    response = ApiVersionsResponse(finalized_features_epoch=-1 if epoch is None else epoch)
    for key, advertised in sorted(call.profile.ranges.items()):
        response.api_keys.append(
            response.ApiVersion(api_key=key, min_version=advertised.min, max_version=advertised.max)
        )
    for name, (low, high) in release.supported_features.items():
        if low > 0 or call.version >= FIRST_ZERO_FEATURES_VERSION:
            response.supported_features.append(
                response.SupportedFeatureKey(name=name, min_version=low, max_version=high)
            )
    for name, level in release.finalized_features.items():
        response.finalized_features.append(
            response.FinalizedFeatureKey(
                name=name, max_version_level=level, min_version_level=level
            )
        )
    return response


def unsupported(profile: Profile) -> ApiVersionsResponse:
    """Return the answer to a version above the release's own; it is encoded as v0."""
    response = ApiVersionsResponse(error_code=UNSUPPORTED_VERSION)
    if profile.behaviour.names_range_in_error_35:
        own = profile.ranges[int(ApiKey.API_VERSIONS)]
        response.api_keys.append(
            response.ApiVersion(
                api_key=int(ApiKey.API_VERSIONS), min_version=own.min, max_version=own.max
            )
        )
    return response


def refuse(request: ApiVersionsRequest, version: int, code: int) -> ApiVersionsResponse:
    """Answer `code`."""
    return ApiVersionsResponse(error_code=code)


API = Handler(ApiKey.API_VERSIONS, VersionRange(0, 4), handle, refuse)
