"""Which version is chosen, what is never chosen, and what an error says."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, strategies as st

from parley.errors import RemoteProtocolError, UnsupportedVersionError
from parley.schema import ApiKey, VersionRange
from parley.versions import (
    CLIENT_RANGES,
    BrokerVersions,
    Feature,
    MustNotUse,
    is_trusted,
    releases,
    usable_range,
)

SHARE_APIS = (76, 77, 78, 79)
"""Their version 0 was an unstable draft of 3.9 and is gone."""


def answer(*apis: tuple[int, int, int]) -> Any:
    keys = [
        SimpleNamespace(api_key=key, min_version=low, max_version=high) for key, low, high in apis
    ]
    return SimpleNamespace(
        api_keys=keys,
        supported_features=[],
        finalized_features=[],
        finalized_features_epoch=-1,
        error_code=0,
    )


def test_the_newest_common_version_is_chosen() -> None:
    versions = BrokerVersions.from_release("2.4")
    assert versions.choose(ApiKey.FETCH) == 11
    assert versions.choose(ApiKey.FETCH, VersionRange(0, 4)) == 4


def test_versions_are_an_intersection_and_never_a_minimum_alone() -> None:
    """4.x has no Fetch below 4: a client that only speaks up to 3 must be
    refused, not sent away with v3.
    """
    with pytest.raises(UnsupportedVersionError) as caught:
        BrokerVersions.from_release("4.0", broker="7").choose(ApiKey.FETCH, VersionRange(0, 3))
    error = caught.value
    assert (error.api, error.client_range, error.broker_range, error.broker, error.local) == (
        "Fetch", (0, 3), (4, 17), "7", True,
    )  # fmt: skip


def test_an_api_that_a_broker_lacks_names_the_first_release_that_has_it() -> None:
    with pytest.raises(UnsupportedVersionError) as caught:
        BrokerVersions.from_release("0.10.0").choose(ApiKey.CREATE_TOPICS)
    assert caught.value.broker_range is None
    assert caught.value.first_release == "0.10.1"
    assert "nothing was sent" in str(caught.value)


def test_produce_0_to_2_is_never_chosen_on_4_x_although_advertised() -> None:
    for name in ("4.0.0", "4.1.1", "4.2.0", "4.3.0"):
        versions = BrokerVersions.from_release(name)
        assert versions.ranges[0].min == 0
        assert versions.usable(ApiKey.PRODUCE) == VersionRange(3, versions.ranges[0].max)
    assert BrokerVersions.from_release("3.9.1").usable(ApiKey.PRODUCE) == VersionRange(0, 11)


def test_offset_for_leader_epoch_below_3_is_never_chosen() -> None:
    assert BrokerVersions.from_release("2.2.2").usable(ApiKey.OFFSET_FOR_LEADER_EPOCH) is None
    assert BrokerVersions.from_release("2.3.1").choose(ApiKey.OFFSET_FOR_LEADER_EPOCH) == 3


def test_a_user_can_forbid_versions() -> None:
    rule = MustNotUse(ApiKey.FETCH, VersionRange(10, 12), "a proxy breaks them")
    assert BrokerVersions({1: (0, 12)}, must_not_use=[rule]).choose(ApiKey.FETCH) == 9


def test_leader_epochs_of_old_metadata_are_not_trusted() -> None:
    assert not is_trusted(ApiKey.METADATA, "leader_epoch", 8)
    assert is_trusted(ApiKey.METADATA, "leader_epoch", 9)
    assert is_trusted(ApiKey.METADATA, "leader_id", 0)


def test_unknown_keys_are_kept() -> None:
    versions = BrokerVersions.from_response(answer((337, 0, 4), (18, 0, 3)))
    assert versions.ranges[337] == (0, 4)
    assert versions.usable(337) is None


@pytest.mark.parametrize(
    ("apis", "said"),
    [
        (((1, 3, 2),), "no range"),
        (((1, -1, 2),), "no range"),
        (((1, 0, 2), (1, 0, 3)), "twice"),
        (tuple((key, 0, 0) for key in range(5000)), "limit"),
    ],
)
def test_absurd_answers_are_protocol_errors(
    apis: tuple[tuple[int, int, int], ...], said: str
) -> None:
    with pytest.raises(RemoteProtocolError, match=said):
        BrokerVersions.from_response(answer(*apis))


def test_an_empty_answer_supports_nothing() -> None:
    versions = BrokerVersions.from_response(answer())
    assert not any(versions.supports(feature) for feature in Feature)


def test_finalized_features_decide_with_the_versions() -> None:
    """KIP-890 needs the APIs *and* transaction.version 2: a 4.0 broker in an old
    cluster has only the former.
    """
    fresh, mid_roll = BrokerVersions.from_release("4.0"), BrokerVersions(releases()["4.0.0"].ranges)
    assert fresh.supports(Feature.TRANSACTIONS_V2)
    assert not mid_roll.supports(Feature.TRANSACTIONS_V2)
    with pytest.raises(UnsupportedVersionError, match=r"transaction\.version"):
        mid_roll.require(Feature.TRANSACTIONS_V2)


def test_the_client_speaks_every_stable_version_of_the_newest_release() -> None:
    for key, newest in releases()["4.3.0"].ranges.items():
        assert CLIENT_RANGES[key].max >= newest.max, ApiKey(key)
        assert CLIENT_RANGES[key].min == (1 if key in SHARE_APIS else 0), ApiKey(key)
    assert CLIENT_RANGES[ApiKey.INIT_PRODUCER_ID].max == 5  # 6 is an unstable draft


ranges = st.tuples(st.integers(0, 20), st.integers(0, 20)).map(
    lambda pair: VersionRange(min(pair), max(pair))
)


@given(own=ranges, theirs=ranges, forbidden=ranges, limit=st.integers(0, 20))
def test_what_is_chosen_is_in_both_ranges_and_not_forbidden_at_the_ends(
    own: VersionRange, theirs: VersionRange, forbidden: VersionRange, limit: int
) -> None:
    rule = MustNotUse(ApiKey.FETCH, forbidden, "for the test", if_broker_max=limit)
    usable = usable_range(ApiKey.FETCH, own, theirs, [rule])
    allowed = {v for v in range(21) if v in own and v in theirs}
    if theirs.max >= limit:
        allowed -= set(forbidden.versions())
    if usable is None:
        assert not allowed
    else:
        assert usable.max == max(allowed)
        assert usable.min == min(allowed)
