"""KIP-97's test plan, wider: every feature against
every release, both ways; see compat/ for the probes.

What a release is expected to have is Kafka's history (`first_release` and EXCEPTIONS), not what the
broker says: a feature that is there unexpectedly fails as one that is missing. The outcomes become
docs/compatibility.md when every release was run.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from parley.client import AsyncClient
from parley.errors import UnsupportedVersionError
from parley.testing.realbroker import RealCluster
from parley.testing.realbroker.releases import version_tuple
from parley.versions import FEATURES, Feature, api_name, release

from .compat import admin, groups, records, transactions
from .compat.probe import OFF, PROBES, Probe
from .compat.records import codec_is_refused, through_a_codec
from .compat.scene import Scene

Record = Callable[[str, str, str], None]
CODECS = {"none": "0.9", "gzip": "0.9", "snappy": "0.9", "lz4": "0.9", "zstd": "2.1"}
"""The first release that knows each codec."""
LOST = {
    **{
        (name, Feature.DELEGATION_TOKENS): "KRaft has had them since 3.6"
        for name in ("3.3.2", "3.4.1", "3.5.2")
    },
    **{(name, Feature.SCRAM_USERS): "KRaft has had SCRAM since 3.5" for name in ("3.3.2", "3.4.1")},
}
"""Features that an earlier release had and this one has not."""
SWITCHED_OFF = {
    ("4.1.1", Feature.SHARE_GROUPS): "a preview in 4.1: share.version has to be raised first"
}
"""Features whose APIs are there and answer that they are switched off."""
PROBING = (admin, groups, records, transactions)
"""Importing these fills PROBES."""


def expected(name: str, feature: Feature) -> bool:
    """Whether Kafka's history says that a release has a feature."""
    return (name, feature) not in LOST and version_tuple(name) >= version_tuple(
        FEATURES[feature].first_release
    )


async def must_refuse(s: Scene, probe: Probe) -> None:
    """The probe ends with the right error, and between mark and error no byte was sent."""
    s.mark()
    with pytest.raises(UnsupportedVersionError) as refused:
        await probe.works(s)
    assert s.sent_bytes == 0, "bytes were sent before it was refused"
    error, need = refused.value, FEATURES[s.feature]
    assert error.local
    assert (error.feature, error.first_release) == (s.feature.value, need.first_release)
    apis = {api_name(api): (api, low) for api, low in need.apis}
    assert error.api in apis
    api, low = apis[error.api]
    span = release(s.release).ranges.get(api)
    assert error.broker_range == (None if span is None else (span.min, span.max))
    assert error.client_range is not None
    assert error.client_range[0] >= low
    assert error.broker
    assert s.cluster.broker(1).address in error.broker


@pytest.mark.parametrize("feature", Feature, ids=lambda feature: feature.value)
async def test_a_feature_works_or_is_done_without_or_is_refused(
    real_broker: RealCluster, real_release: str, feature: Feature, compatibility: Record
) -> None:
    probe = PROBES[feature]
    async with Scene(real_broker, real_release, feature) as s:
        assert await s.client.supports(feature) == expected(real_release, feature)
        if expected(real_release, feature):
            off = await probe.works(s) == OFF
            assert off == ((real_release, feature) in SWITCHED_OFF)
            outcome = "off" if off else "works"
        elif probe.older is not None and version_tuple(real_release) >= version_tuple(
            probe.older_since
        ):
            await probe.older(s)
            outcome = "older"
        else:
            await must_refuse(s, probe)
            outcome = "refused"
        assert (outcome == "older") <= (not FEATURES[feature].otherwise.startswith("refused"))
        compatibility(feature.value, real_release, outcome)


@pytest.mark.parametrize("codec", CODECS)
async def test_a_codec_goes_there_and_back_or_is_refused(
    real_broker: RealCluster, real_release: str, codec: str, compatibility: Record
) -> None:
    async with Scene(real_broker, real_release, Feature.ZSTD) as s:
        if version_tuple(real_release) >= version_tuple(CODECS[codec]):
            await through_a_codec(s, codec)
            compatibility(f"codec {codec}", real_release, "works")
        else:
            await codec_is_refused(s, codec)
            compatibility(f"codec {codec}", real_release, "refused")


async def test_what_is_required_is_checked_at_the_start(
    real_broker: RealCluster, real_release: str
) -> None:
    missing = next((feature for feature in Feature if not expected(real_release, feature)), None)
    present = [feature for feature in Feature if expected(real_release, feature)]
    async with AsyncClient(bootstrap_servers=real_broker.bootstrap_servers, require=present):
        pass
    if missing is not None:
        client = AsyncClient(
            bootstrap_servers=real_broker.bootstrap_servers, require=[*present, missing]
        )
        with pytest.raises(UnsupportedVersionError) as refused:
            await client.start()
        assert refused.value.feature == missing.value
        assert f"looks like Kafka {real_release}" in str(refused.value)


def test_every_feature_has_a_probe() -> None:
    assert set(PROBES) == set(Feature)
